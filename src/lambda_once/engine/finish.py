"""
How an attempt ends: what it did is logged first, then its token is marked.

The log line settles what happened if the write never lands. A completion that cannot be written
leaves a lapsed token and does not fail the caller, whose work is done.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, assert_never

from lambda_once.core.clock import Deadline, epoch_seconds, stamp
from lambda_once.core.lifecycle import Decision, decide
from lambda_once.core.record import Failure, Record, State
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.writes import (
    Complete,
    Extend,
    Finish,
    Hold,
    Holder,
    Pin,
    Release,
    after_finish,
    new_write_id,
)
from lambda_once.engine.keeping import kept, ttl_after
from lambda_once.engine.ownership import Ending
from lambda_once.engine.retry import RESERVE, Tries
from lambda_once.engine.waiting import through_async
from lambda_once.errors import Fenced, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.policies import HOLD, STORE, ErrorResponse, Policy, policy_for
from lambda_once.stores.contract import FinishAnswer, Refused, Rejected, Unanswered, Won, Written

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lambda_once.core.clock import Clock
    from lambda_once.core.writes import Change
    from lambda_once.engine.call import Call
    from lambda_once.engine.ownership import Ownership
    from lambda_once.engine.replay import Outcomes
    from lambda_once.engine.story import Story
    from lambda_once.engine.waiting import Waits
    from lambda_once.stores.contract import AcquireAnswer, Store

PATIENCE = 30.0
"""Seconds that a finish waits at most for a transaction of its attempt that is being sent."""
LAST_WORD = timedelta(seconds=2)
"""How long the release of something that never started may take, the deadline notwithstanding."""


_ENDS = {
    State.COMPLETE: Event.COMPLETED,
    State.RELEASED: Event.RELEASED,
    State.HELD: Event.HELD,
}
"""What has happened to an attempt whose row, in its own name, says so."""


class Settlement:
    """Writes what becomes of attempts. Holds nothing of any of them."""

    def __init__(self, store: Store, clock: Clock, story: Story, outcomes: Outcomes) -> None:
        self.store = store
        self.clock = clock
        self._story = story
        self._outcomes = outcomes

    # ---------------------------------------------------------------- the work is over

    def make_ready(self, attempt: Ownership) -> None:
        """
        Do what comes before a finish of *attempt*: it may be settled then.

        From here on no transaction of it is sent. One that is being sent is waited for, within PATIENCE and
        the remaining time: both ask for a token in progress, so one of the two lands, and ``write`` says
        which. An attempt that runs unprotected tries once more to acquire its token.
        """
        sending = attempt.close()
        if sending is not None:
            sending.wait(self._patience(attempt))
        if attempt.settled is None:
            self._secure(attempt)

    async def off_loop(self, attempt: Ownership, settling: Waits[Any]) -> Any:
        """
        Do *settling*, which makes *attempt* ready first, in threads.

        It waits for a transaction, and between its tries, on the event loop.
        """
        sending = attempt.close()
        if sending is not None:
            await sending.wait_async(self._patience(attempt))
        return await through_async(settling, self.clock)

    def settle(self, ending: Ending) -> Waits[Any]:
        """Write *ending*, again where that can help, and return what the caller gets; see `conclude`."""
        return self.conclude(ending, (yield from self._written(ending)))

    def of_return(self, attempt: Ownership, value: Any) -> Ending:
        """Prepare the completion with *value*. What the work returned as an error response goes by policy."""
        response = attempt.call.plan.error_in(value)
        if response is not None and self._policy(attempt, response) is not STORE:
            return self.of_error(attempt, response, value)
        result, value = self._serialised(attempt, value)
        now = self.clock.now()
        self._tell_end(Event.DONE, attempt, now)
        return Ending(
            attempt, _finish(attempt.call, attempt.id, Complete(result), now), Event.COMPLETED, value
        )

    def of_error(self, attempt: Ownership, error: BaseException, value: Any = None) -> Ending:
        """Prepare what the policy says of *error*, which the work raised or answered."""
        policy = self._policy(attempt, error)
        now = self.clock.now()
        if not (isinstance(error, ErrorResponse) and error.status < error.SERVER_ERROR):
            self._tell_end(Event.FAILED, attempt, now, error)
        change, happening = _by_policy(policy, Failure.of(error))
        return Ending(attempt, _finish(attempt.call, attempt.id, change, now), happening, value, error)

    def conclude(self, ending: Ending, answer: FinishAnswer) -> Any:
        """
        Return what the caller gets, given the table's *answer* to *ending*.

        An attempt that finished and was fenced gets its successor's outcome, or `Fenced` while the
        successor is at work: its own value would differ from what every duplicate gets. One that
        failed keeps its own error, which its caller raises.
        """
        attempt = ending.attempt
        match answer:
            case Written():
                attempt.happened = ending.happening
                self._remember(ending)
                self._story.of_attempt(ending.happening, attempt, error=_kind(ending.error))
            case Refused(Record() as ours) if ours.attempt == attempt.id and ours.state in _ENDS:
                # A write of our own stands whose answer was lost: a transaction's, after which work raised.
                attempt.happened = _ENDS[ours.state]
                self._story.of_attempt(
                    attempt.happened, attempt, reason="written earlier; only the response was lost"
                )
                if ending.error is None:
                    return self._outcome_of(attempt, ours)
            case Refused(Record() as successor) if not attempt.unprotected:
                self._story.of_record(Event.FENCED, attempt.call, successor, error=_kind(ending.error))
                if ending.error is None:
                    return self._outcome_of(attempt, successor)
            case Refused(record):
                self._not_marked(ending, f"this attempt does not own the token: {_owner(record)}")
            case Unanswered(reason):
                self._not_marked(ending, reason)
            case Rejected(wrong):
                self._not_marked(ending, str(wrong))
            case _ as unreachable:
                assert_never(unreachable)
        return ending.value

    # ---------------------------------------------------------------- while it lasts

    def extend(self, attempt: Ownership, lease: datetime) -> None:
        """Let the lease of *attempt* end at *lease* where that is later. Raises as `Attempt.extend`."""
        if lease <= attempt.lease or attempt.settled is not None:
            return
        if attempt.unprotected:
            attempt.lease = lease
            reason = "running unprotected, per on_store_outage: the table has no lease to extend"
            self._story.of_attempt(Event.STORE_UNAVAILABLE, attempt, reason=reason)
            return
        match self._finish(attempt, Extend(lease)):
            case Written():
                attempt.lease = lease
            case Refused(record):
                raise self._lost(attempt, record)
            case Unanswered(reason):
                message = (
                    f"could not extend the lease on token {attempt.token} ({reason}); "
                    f"it still expires at {stamp(attempt.lease)}"
                )
                raise StoreUnavailable(message, token=attempt.token)
            case Rejected(wrong):
                raise wrong
            case _ as unreachable:
                assert_never(unreachable)

    def transact(self, attempt: Ownership, items: Sequence[Mapping[str, Any]], result: Any) -> Any:
        """Write *items* and the completion of *attempt* together. Raises as `Attempt.transact`."""
        self._insist(attempt, self._secure(attempt))
        stored, value = self._serialised(attempt, result)
        write = _finish(attempt.call, attempt.id, Complete(stored), self.clock.now())
        ending = Ending(attempt, write, Event.COMPLETED, value)
        match self.store.transact(ending.write, items, attempt.call.invocation.deadline):
            case Written():
                attempt.settled = (value,)
                if attempt.happened is not None:  # a finish that had waited long enough has told it
                    return value
                self._tell_end(Event.DONE, attempt, self.clock.now())
                return self.conclude(ending, Written())
            case Refused(record):
                raise self._lost(attempt, record)
            case Unanswered(reason):
                message = (
                    f"outcome of the transaction on token {attempt.token} is unknown ({reason}); "
                    "the next delivery re-checks it"
                )
                raise StoreUnavailable(message, token=attempt.token)
            case Rejected(wrong):
                raise wrong
            case _ as unreachable:
                assert_never(unreachable)

    # ---------------------------------------------------------------- what never started

    def give_back(self, unstarted: Sequence[tuple[Call, str]], *, told: bool) -> None:
        """
        Release what attempts of calls have or may have acquired, as best it can be: nothing started.

        All together, for in an outage each would take its time. *told*: their start was counted, so this is.
        """
        now = self.clock.now()
        writes = [_finish(call, attempt, Release(), now) for call, attempt in unstarted]
        answers = self.store.finish(writes, Deadline(self.clock, now + LAST_WORD))
        for (call, _), answer in zip(unstarted, answers, strict=True):
            if told and isinstance(answer, Written):
                self._story.of_call(Event.RELEASED, call, reason="never started")

    def pin(self, call: Call, record: Record) -> None:
        """
        Take the ttl off *record*, which waits for a person now: the policy was changed in a deploy.

        As best it can be: the next duplicate does it where the table did not answer this one.
        """
        if record.ttl is not None and record.state is State.IN_PROGRESS:
            write = Finish(call.token, Holder(record.attempt), Pin(), self.clock.now(), ttl=None, write=None)
            self.store.finish([write], call.invocation.deadline)

    # ---------------------------------------------------------------- parts of these

    def _patience(self, attempt: Ownership) -> float:
        return max(min(PATIENCE, attempt.call.invocation.deadline.remaining() - RESERVE), 0.0)

    def _secure(self, attempt: Ownership) -> AcquireAnswer | None:
        """Try once more to acquire the token of an attempt that runs unprotected; None: it has its token."""
        if attempt.wish is None:
            return None
        now = self.clock.now()
        lease = max(attempt.lease, now + LAST_WORD)
        ttl = None if attempt.wish.ttl is None else epoch_seconds(lease + attempt.call.plan.keep)
        wish = attempt.wish._replace(now=now, lease=lease, ttl=ttl)
        (answer,) = self.store.acquire([wish], Deadline(self.clock, now + LAST_WORD, one_try=True))
        if isinstance(answer, Won):
            attempt.acquired(answer.fence, answer.lease or lease)
            self._story.of_attempt(Event.ACQUIRED, attempt)
        return answer

    def _insist(self, attempt: Ownership, answer: AcquireAnswer | None) -> None:
        """Raise what keeps an attempt that ran unprotected from its token: nothing was written then."""
        match answer:
            case Refused(record):
                raise self._lost(attempt, record)
            case Unanswered(reason):
                message = f"token {attempt.token} could not be acquired ({reason}): nothing was written"
                raise StoreUnavailable(message, token=attempt.token)
            case Rejected(wrong):
                raise wrong
            case _:
                return

    def _serialised(self, attempt: Ownership, value: Any) -> tuple[Inline | Chunks | Unavailable | None, Any]:
        """Return the stored form of *value*, and the value as it will come back from it."""
        result = kept(attempt.call.plan.codec, value)
        if result.problem is not None:
            self._story.of_attempt(Event.RESULT_UNAVAILABLE, attempt, reason=result.problem)
        return result.stored, result.value

    def _policy(self, attempt: Ownership, error: BaseException) -> Policy:
        plan = attempt.call.plan
        try:
            policy: object = policy_for(error, plan.on_error, plan.on_lapse)
        except Exception as broken:  # noqa: BLE001  (the user's on_error failed: what it meant to say is unknown)
            policy = broken
        if isinstance(policy, Policy):
            return policy
        reason = "on_error raised or returned no policy; held for manual review"
        self._story.of_attempt(Event.POLICY_FAILED, attempt, error=type(policy).__name__, reason=reason)
        return HOLD

    def _written(self, ending: Ending) -> Waits[FinishAnswer]:
        """Return the table's answer to *ending*, which is sent for as long as `engine.retry` allows."""
        invocation = ending.attempt.call.invocation
        tries, parts = Tries(self.clock.now()), 0
        while True:
            write = ending.write_at(self.clock.now(), parts)
            try:
                with self._story.segment("once.complete") as segment:
                    (answer,) = self.store.finish([write], tries.limit(invocation.deadline))
                    segment.annotate("outcome", type(answer).__name__)
            except Exception:
                raise
            except BaseException as interruption:  # KeyboardInterrupt: once more, then it reaches the caller
                if invocation.tally.interrupted:
                    raise
                invocation.tally.interrupt(interruption)
                answer = Unanswered(type(interruption).__name__)
            if not isinstance(answer, Unanswered):
                return answer
            tries, now = tries.one_more(), self.clock.now()
            parts = max(parts, answer.parts)
            pause = tries.pause(ending, invocation.deadline, now)
            if pause is None:
                return answer
            yield pause.total_seconds()

    def _tell_end(
        self, happening: Event, attempt: Ownership, now: datetime, error: BaseException | None = None
    ) -> None:
        seconds = (now - attempt.created).total_seconds()
        self._story.of_attempt(happening, attempt, seconds=seconds, error=_kind(error))

    def _finish(self, attempt: Ownership, change: Change) -> FinishAnswer:
        write = _finish(attempt.call, attempt.id, change, self.clock.now())
        (answer,) = self.store.finish([write], attempt.call.invocation.deadline)
        return answer

    def _remember(self, ending: Ending) -> None:
        attempt = ending.attempt
        if attempt.call.plan.cache:
            row = after_finish(attempt.record(), ending.write)
            if row is not None:
                self._outcomes.memory.put(row, attempt.call.plan.cache, self.clock.now())

    def _not_marked(self, ending: Ending, reason: str) -> None:
        """Tell loudly that the work is over and its token does not say so: no failure of the caller's."""
        kind = _kind(ending.error)
        self._story.of_attempt(Event.COMPLETION_FAILED, ending.attempt, error=kind, reason=reason)

    def _outcome_of(self, attempt: Ownership, successor: Record) -> Any:
        call = attempt.call
        decision = decide(successor, call.request(attempt.id), self.clock.now())
        if decision in (Decision.REPLAY, Decision.STORED_ERROR, Decision.HELD, Decision.RESULT_UNAVAILABLE):
            return self._outcomes.replay_or_raise(call, successor, decision).result
        raise self._lost(attempt, successor)

    def _lost(self, attempt: Ownership, record: Record | None) -> Fenced:
        message = (
            f"this attempt no longer owns token {attempt.token}: {_owner(record)}; "
            "the next delivery gets its outcome"
        )
        if record is not None and record.attempt == attempt.id:
            message = f"this attempt has already finished: token {attempt.token} is {record.state.value}"
        state = None if record is None else record.state.value
        return Fenced(
            message, token=attempt.token, state=state, locked_by=record.locked_by if record else None
        )


def _finish(call: Call, attempt: str, change: Change, now: datetime) -> Finish:
    ttl = ttl_after(change, call, now)
    return Finish(call.token, Holder(attempt), change, now, ttl, new_write_id(change))


def _owner(record: Record | None) -> str:
    return "the row is gone" if record is None else f"attempt {record.attempt} ({record.locked_by}) owns it"


def _by_policy(policy: Policy, failure: Failure) -> tuple[Change, Event]:
    match policy:
        case Policy.STORE:
            return Complete(None, failure), Event.STORED
        case Policy.HOLD:
            return Hold(failure), Event.HELD
        case Policy.RELEASE:
            return Release(failure), Event.RELEASED
        case _ as unreachable:
            assert_never(unreachable)


def _kind(error: BaseException | None) -> str | None:
    return None if error is None else type(error).__name__
