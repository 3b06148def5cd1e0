"""
Finish an attempt: log its work, then write its token.

If the write fails, the log line still shows what happened. A completion that cannot be written leaves a
lapsed token and does not fail the caller, as the work is done. For the same reason an interruption
(SystemExit, a Ctrl-C, a cancellation) waits in the tally of its invocation and is raised once the token is
written.

That a row has our attempt id and is complete doesn't prove that this finish wrote it: a transaction may have,
or a decision. `Finisher.conclude` compares write ids (guarantee 3 in docs/guarantees.md).
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import datetime, timedelta
from logging import DEBUG, WARNING
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from lambda_once.core.clock import Clock, Deadline, Waits, stamp
from lambda_once.core.differences import Difference
from lambda_once.core.lazy import Lazy
from lambda_once.core.lifecycle import Course, Failure, OnLapse, Record, State
from lambda_once.core.results import Chunks, Corrupt, Inline, NotSerialisable, Unavailable, pack
from lambda_once.core.writes import Change, Complete, Extend, Hold, Holder, Pin, Release, Write, after_write
from lambda_once.core.written import HandlerCodec, writable
from lambda_once.dynamodb.retry import PATIENCE, TRIES, jitter
from lambda_once.engine.invocation import Call, Receiver, Tokenless, trace_answers
from lambda_once.engine.ownership import Ownership, ttl_after, written_by
from lambda_once.engine.waiting import through_async
from lambda_once.errors import Fenced, Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.policies import HOLD, STORE, ErrorResponse, Policy, policy_for
from lambda_once.stores.contract import (
    Refused,
    Store,
    Unanswered,
    WriteAnswer,
    Written,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lambda_once.engine.replay import Replayer

_PATIENCE = timedelta(seconds=PATIENCE)
LAST_WORD = timedelta(seconds=2)
"""The longest time for releasing work that never started."""

_FINISHED = {
    State.COMPLETE: Event.COMPLETED,
    State.RELEASED: Event.RELEASED,
    State.HELD: Event.HELD,
}
"""How an attempt finished, by the state of its row."""


class FinishedWork(NamedTuple):
    """A result in its stored form, and as it is read back."""

    stored: Inline | Chunks | Unavailable | None
    loaded: Any
    """
    The whole result as it is read back, of which a duplicate gets what `Output.stored_of` returns; the result
    itself if it cannot be stored.
    """
    value: Any
    """As the first caller gets it."""
    problem: Exception | Difference | None = None
    """Why it could not be stored, if so."""
    compared: tuple[Any, Any] | None = None
    """What was returned, and as it is read back, for `report_change`."""


def stored_result(call: Call, value: Any) -> FinishedWork:
    """
    Return the stored form of *value*, a result of *call*.

    If it cannot be stored, or would come back different from its declared type (guarantee 14), the result is
    `Unavailable`: completed work never runs again because of its result (guarantee 5).
    """
    codec, for_caller = call.codec, value
    try:
        if isinstance(codec, HandlerCodec):  # Lambda gets the value itself, unless the runtime refuses it
            text, loaded, is_written = codec.answer(value)
            for_caller = value if is_written else loaded
        else:
            text = codec.dump(value)
            loaded = codec.load(text)
            different = codec.difference(value, loaded, call.invocation.deadline.passed)
            if different is not None:
                for_caller = writable(value) if call.output.receiver is Receiver.LAMBDA else value
                return FinishedWork(Unavailable.UNAVAILABLE, value, for_caller, different)
            if codec.converts or call.output.receiver is not Receiver.CALLER:
                for_caller = loaded
        to_store = call.output.stored_of(loaded)
        if isinstance(to_store, Unavailable):
            stored: Inline | Chunks | Unavailable | None = to_store
        else:
            stored = pack(text if to_store is loaded else codec.dump(to_store), call.seal)
    except (NotSerialisable, Corrupt) as error:
        return FinishedWork(Unavailable.UNAVAILABLE, value, for_caller, error)
    compared = (value, loaded) if call.output.receiver is Receiver.CALLER else None
    return FinishedWork(stored, loaded, for_caller, compared=compared)


def report_result(call: Call, result: FinishedWork, whose: Ownership | None = None) -> None:
    """Report that *result* of *call*, of the attempt *whose*, is not stored, or not by its type."""
    first, codec = call.invocation.reporter.is_first, call.codec
    match result.problem:
        case Lazy() as lazy:
            call.invocation.reporter.count(Event.RESULT_UNAVAILABLE, call.invocation.tally)
            if first((Event.LAZY_RESULT, call.name, lazy.is_whole)):
                level = None if lazy.is_whole else WARNING
                call.report(Event.LAZY_RESULT, whose, reason=str(lazy), level=level)
        case Exception() as problem if call.output.receiver is Receiver.NOBODY:
            if first((Event.RESULT_NOT_STORED, call.name)):
                reason = f"{problem}; nobody reads the result of a record"
                call.report(Event.RESULT_NOT_STORED, whose, reason=reason)
        case Exception() as problem:
            call.report(Event.RESULT_UNAVAILABLE, whose, reason=str(problem))
        case Difference() as different if first((Event.RESULT_UNAVAILABLE, call.name)):
            reason = (
                f"a result of {codec.annotation!r} would come back different, so it is not replayed: "
                f"{different.at}. Give a union a discriminator, annotate what returns, or pass codec="
            )
            call.report(Event.RESULT_UNAVAILABLE, whose, reason=reason)
    if codec.problem is not None and first((Event.RESULT_CHANGED, call.name, codec.problem)):
        reason = (
            f"results of {codec.annotation!r} are stored as plain JSON ({codec.problem}): "
            "pydantic makes no adapter of it; pass returns= or codec="
        )
        call.report(Event.RESULT_CHANGED, whose, reason=reason)


def report_change(call: Call, result: FinishedWork, whose: Ownership | None = None) -> None:
    """
    Report where duplicates get JSON's form of *result* of *call*, of the attempt *whose*.

    Called when the token is written, as nothing depends on it; for each function, until one is found.
    """
    reporter, said = call.invocation.reporter, (Event.RESULT_CHANGED, call.name)
    if result.compared is None or reporter.was_asked(said):
        return
    try:
        changed = call.codec.difference(*result.compared, untyped=True)
    except Exception:  # noqa: BLE001  (of the user's values, which others may change meanwhile)
        return
    if changed is not None and reporter.is_first(said):
        reason = (
            f"duplicates get JSON's form of the result: {changed.at}. "
            "Annotate the function, or pass returns= or codec="
        )
        call.report(Event.RESULT_CHANGED, whose, reason=reason)


class PreparedFinish(NamedTuple):
    """
    The finish of an attempt: its write, what the caller gets, and how many times it was sent.

    Giving up on a completion or hold leaves a lapsed token although the work was done. To survive a throttled
    partition it is retried for up to 30 s, as is a release unless lapsed tokens are taken over. Nothing is
    sent or awaited after the invocation's deadline, so that the invocation outlives the last try. Only if the
    work itself overran the deadline, its finish is sent then: once, with the client's timeouts.
    """

    ownership: Ownership
    write: Write
    value: Any = None
    error: BaseException | None = None
    result: FinishedWork | None = None
    """What is stored of what was returned."""
    by_work: bool = False
    """Whether the work itself completed the token, by `Attempt.complete` or `Attempt.transact`."""
    sent: int = 0
    parts: int = 0
    """How many parts of a large result have been written."""

    @property
    def event(self) -> Event:
        """The event to report once it is written."""
        match self.write.change:
            case Complete(error=None):
                return Event.COMPLETED
            case Complete():
                return Event.STORED
            case Hold():
                return Event.HELD
            case _:
                return Event.RELEASED

    @property
    def level(self) -> int | None:
        """The level of its line; None: the event's. ``once.returned`` has told of plain work."""
        return DEBUG if self.event is Event.COMPLETED and not self.by_work else None

    def write_at(self, now: datetime) -> Write:
        """Return the write for a try at *now*; its ttl counts from then."""
        ttl = ttl_after(self.write.change, self.ownership.call, now)
        if ttl == self.write.ttl and not self.parts:
            return self.write
        return replace(self.write, ttl=ttl, parts_written=self.parts)

    def limit(self, deadline: Deadline, now: datetime) -> Deadline:
        """Return the deadline of a try that begins *now*; each try is a single request."""
        at = (self.write.now if self.sent else now) + _PATIENCE
        if not self._overran(deadline):
            at = min(at, deadline.at)
        return Deadline(deadline.clock, at, math.inf)

    def _overran(self, deadline: Deadline) -> bool:
        return self.write.now >= deadline.at

    def after(self, answer: Unanswered) -> PreparedFinish:
        """Return the finish after a try that got *answer*."""
        return self._replace(sent=self.sent + 1, parts=max(self.parts, answer.parts))

    def pause(self, deadline: Deadline, now: datetime) -> timedelta | None:
        """Return the pause before the next try, with full jitter; None: give up."""
        on_lapse = self.ownership.call.settings.rule
        is_minor = isinstance(self.write.change, Release) and on_lapse is OnLapse.TAKE_OVER
        if is_minor and self.sent >= TRIES:
            return None
        if self._overran(deadline):
            return None
        pause = timedelta(seconds=jitter(self.sent))
        return pause if now + pause < self.limit(deadline, now).at else None


class Finisher:
    """Finishes attempts, and writes for attempts in progress. Keeps no state of any attempt."""

    def __init__(self, store: Store, clock: Clock, replayer: Replayer) -> None:
        self.store = store
        self.clock = clock
        self._replayer = replayer

    # ---------------------------------------------------------------- the work is over

    def await_transaction(self, ownership: Ownership) -> None:
        """
        Prepare to finish *ownership*: wait for its transaction, which may complete the token.

        From here on no transaction of it is sent. The wait for one that is being sent is limited by PATIENCE
        and the remaining time. The conditions of finish and transaction both require a token in progress, so
        only one of them succeeds, and the row's write id shows which.
        """
        sending = ownership.close()
        if sending is not None:
            sending.wait(self._patience(ownership))

    async def off_loop(self, ownership: Ownership, finishing: Waits[Any]) -> Any:
        """
        Run *finishing*, which finishes *ownership*, in threads.

        Waits for a transaction, and between tries, on the event loop.
        """
        sending = ownership.close()
        if sending is not None:
            await sending.wait_async(self._patience(ownership))
        return await through_async(finishing, self.clock)

    def prepare_return(self, ownership: Ownership, value: Any, *, by_work: bool = False) -> PreparedFinish:
        """
        Prepare the completion with *value*; for an error response, the policy decides.

        *by_work*: the work itself gave it, to `Attempt.complete`, and gets what every duplicate gets.
        """
        response = ownership.call.output.error_in(value)
        if response is not None and self._policy(ownership, response) is not STORE:
            return self.prepare_error(ownership, response, value)
        result: FinishedWork | None = None
        for_guard = value
        try:
            result = self._serialised(ownership, value)
            value = result.loaded if by_work else result.value
            for_guard = result.loaded if ownership.call.output.receiver is Receiver.LAMBDA else value
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            ownership.call.invocation.tally.interrupt(interruption)
            ownership.call.report(
                Event.RESULT_UNAVAILABLE, ownership, reason=_interrupted("the result", interruption)
            )
        now = self.clock.now()
        ownership.call.report(Event.RETURNED, ownership, seconds=(now - ownership.created).total_seconds())
        if ownership.call.guard is not None:  # before the token, whose outcome a duplicate may copy at once
            ownership.call.guard.succeeded(ownership.call, for_guard, ownership)
            now = self.clock.now()
        change = Complete(Unavailable.UNAVAILABLE if result is None else result.stored)
        return PreparedFinish(ownership, ownership.write(change, now), value, result=result, by_work=by_work)

    def prepare_error(self, ownership: Ownership, error: BaseException, value: Any = None) -> PreparedFinish:
        """Prepare the finish according to the policy for *error*, which the work raised or returned."""
        policy = self._policy(ownership, error)
        now = self.clock.now()
        if not (isinstance(error, ErrorResponse) and error.status < error.SERVER_ERROR):
            ownership.call.report(
                Event.FAILED, ownership, seconds=(now - ownership.created).total_seconds(), error=_kind(error)
            )
        if ownership.call.guard is not None:  # before the token: nobody else can have begun
            ownership.call.guard.undone(ownership.call, now)
        try:
            failure = Failure.of(error, ownership.call.seal)
        except BaseException as interruption:  # noqa: BLE001  (as in `prepare_return`)
            ownership.call.invocation.tally.interrupt(interruption)
            failure = Failure(type(error).__name__, _interrupted("the message", interruption))
        change = _by_policy(policy, failure)
        return PreparedFinish(ownership, ownership.write(change, now), value, error)

    def finish(self, finish: PreparedFinish) -> Waits[Any]:
        """Write *finish*, with retries, and return what the caller gets; see `conclude`."""
        answer = yield from self.send(finish)
        return self.conclude(finish, answer)

    def send(self, finish: PreparedFinish) -> Waits[WriteAnswer]:
        """Write *finish*, with retries, and return the table's last answer."""
        invocation = finish.ownership.call.invocation
        while True:
            now = self.clock.now()
            write = finish.write_at(now)
            try:
                with invocation.reporter.segment("once.complete") as segment:
                    (answer,) = self.store.write([write], finish.limit(invocation.deadline, now))
                    trace_answers(segment, [answer])
            except Exception:
                raise
            except BaseException as interruption:  # KeyboardInterrupt: once more, then it reaches the caller
                if invocation.tally.interrupted:
                    raise
                invocation.tally.interrupt(interruption)
                answer = Unanswered(type(interruption).__name__)
            if not isinstance(answer, Unanswered):
                return answer
            finish, now = finish.after(answer), self.clock.now()
            pause = finish.pause(invocation.deadline, now)
            if pause is None:
                return answer
            yield pause.total_seconds()

    def conclude(self, finish: PreparedFinish, answer: WriteAnswer) -> Any:
        """
        Return what the caller gets, given the table's *answer* to *finish*.

        If an attempt that completed was fenced, its caller gets the successor's outcome, as every duplicate
        does; raises `Fenced` while the successor is in progress. If the work failed, its caller raises the
        work's own error.
        """
        ownership, error = finish.ownership, _kind(finish.error)
        match answer:
            case Written():
                ownership.finished = finish.event
                self._remember(finish)
                ownership.call.report(ownership.finished, ownership, error=error, level=finish.level)
                if finish.result is not None:
                    report_change(ownership.call, finish.result, ownership)
            case Refused(Record() as ours) if (
                ours.attempt_id == ownership.attempt_id and ours.state in _FINISHED
            ):
                # Our own earlier write, whose response was lost: this one's, or a transaction's.
                ownership.finished = _FINISHED[ours.state]
                ownership.call.report(
                    ownership.finished, ownership, reason="written earlier; only the response was lost"
                )
                is_whole = ownership.call.output.stored_of(finish.value) is finish.value
                if error is None and ours.write_id != finish.write.id and is_whole:
                    return self._outcome_of(ownership, ours)
            case Refused(Record() as successor):
                ownership.call.report(Event.FENCED, successor, error=error)
                if error is None:
                    return self._outcome_of(ownership, successor)
            case Refused():
                ownership.call.report(
                    Event.COMPLETION_FAILED,
                    ownership,
                    error=error,
                    reason="this attempt does not own the token: the row is gone",
                )
            case Unanswered(reason):
                ownership.call.report(Event.COMPLETION_FAILED, ownership, error=error, reason=reason)
            case Misconfigured() as wrong:
                ownership.call.report(Event.COMPLETION_FAILED, ownership, error=error, reason=str(wrong))
            case _ as unreachable:
                assert_never(unreachable)
        return finish.value

    # ---------------------------------------------------------------- while it lasts

    def extend(self, ownership: Ownership, lease: datetime) -> None:
        """Extend the lease of *ownership* to *lease* if that is later. Raises as `Attempt.extend` does."""
        if lease <= ownership.lease or ownership.completed is not None:
            return
        write = ownership.write(Extend(lease), self.clock.now())
        (answer,) = self.store.write([write], ownership.call.invocation.deadline)
        match answer:
            case Written():
                ownership.lease = lease
            case Refused(record):
                raise self._lost(ownership, record)
            case Unanswered(reason):
                message = (
                    f"could not extend the lease on token {ownership.token}; "
                    f"it still expires at {stamp(ownership.lease)}: {reason}"
                )
                raise StoreUnavailable(message, token=ownership.token, reason=reason)
            case Misconfigured() as wrong:
                raise wrong
            case _ as unreachable:
                assert_never(unreachable)

    def transact(self, ownership: Ownership, items: Sequence[Mapping[str, Any]], result: Any) -> Any:
        """Write *items* and the completion of *ownership* together. Raises as `Attempt.transact` does."""
        mistake = _mistake_in(items)
        if mistake is not None:
            raise Misconfigured(f"{mistake}; nothing was written", token=ownership.token)
        finished = self._serialised(ownership, result)
        value = finished.loaded
        write = ownership.write(Complete(finished.stored), self.clock.now())
        match self.store.transact(write, items, ownership.call.invocation.deadline):
            case Written():
                ownership.completed = (value,)
                if ownership.call.guard is not None:
                    ownership.call.guard.succeeded(ownership.call, value, ownership)
                if ownership.finished is not None:  # a finish that had waited long enough has reported it
                    return value
                seconds = (self.clock.now() - ownership.created).total_seconds()
                ownership.call.report(Event.RETURNED, ownership, seconds=seconds)
                finish = PreparedFinish(ownership, write, value, result=finished, by_work=True)
                return self.conclude(finish, Written.WRITTEN)
            case Refused(record):
                raise self._lost(ownership, record)
            case Unanswered(reason):
                message = (
                    f"outcome of the transaction on token {ownership.token} is unknown; "
                    f"the next delivery re-checks it: {reason}"
                )
                raise StoreUnavailable(message, token=ownership.token, reason=reason)
            case Misconfigured() as wrong:
                raise wrong
            case _ as unreachable:
                assert_never(unreachable)

    # ---------------------------------------------------------------- what never started

    def give_back(self, *unstarted: Ownership | tuple[Call, str], in_one_line: bool = False) -> None:
        """
        Release, best effort, tokens whose work did not start: acquired ones, or a call and its attempt id.

        One batch, as in an outage each request would take its whole timeout. The releases of tokens that
        are known to be acquired are reported, as their acquisitions were; *in_one_line*: as one, at the end
        of an invocation. A token that is not released in time keeps its lease, as does one whose guard has
        recorded the attempt id (`Guard.attempt_id`).
        """
        attempts = [each if isinstance(each, tuple) else (each.call, each.attempt_id) for each in unstarted]
        attempts = [
            (call, attempt_id)
            for call, attempt_id in attempts
            if call.guard is None or call.guard.attempt_id is None
        ]
        if not attempts:
            return
        now = self.clock.now()
        for call, _ in attempts:
            if call.guard is not None:
                call.guard.undone(call, now)
        invocation = attempts[0][0].invocation
        limit = invocation.deadline._replace(at=min(invocation.deadline.at, now + LAST_WORD))
        writes = [written_by(call, attempt_id, Release(), now) for call, attempt_id in attempts]
        answers = zip(attempts, self.store.write(writes, limit), strict=True)
        released = [call for (call, _), answer in answers if isinstance(answer, Written)]
        if not isinstance(unstarted[0], Ownership):
            return
        if not in_one_line:
            for call in released:
                call.report(Event.RELEASED, reason="never started")
        elif released:
            for _ in released[1:]:
                invocation.reporter.count(Event.RELEASED, invocation.tally)
            reason = f"too little time remains: {len(attempts)} were not started, {len(released)} released"
            first = attempts[0][0]  # all are of one function
            Tokenless(first.name, first.settings, invocation).report(Event.RELEASED, reason=reason)

    def pin(self, call: Call, record: Record) -> None:
        """
        Remove the ttl from *record*, best effort, so that it does not expire before its manual review.

        A lapsed row has a ttl if it was acquired under ``take_over``, before a deployment changed the policy.
        If this write fails, the next duplicate repeats it.
        """
        if record.ttl is not None and record.state is State.IN_PROGRESS:
            write = Write(call.token, Holder(record.attempt_id), Pin.PIN, self.clock.now(), ttl=None, id=None)
            self.store.write([write], call.invocation.deadline)

    # ---------------------------------------------------------------- steps of these

    def _patience(self, ownership: Ownership) -> float:
        return min(PATIENCE, ownership.call.invocation.deadline.before_final())

    def _serialised(self, ownership: Ownership, value: Any) -> FinishedWork:
        result = stored_result(ownership.call, value)
        report_result(ownership.call, result, ownership)
        return result

    def _policy(self, ownership: Ownership, error: BaseException) -> Policy:
        settings = ownership.call.settings
        try:
            policy: object = policy_for(error, settings.on_error, settings.rule)
        except Exception as broken:  # noqa: BLE001  (the user's on_error failed: its policy is unknown)
            policy = broken
        if isinstance(policy, Policy):
            return policy
        reason = "on_error raised or returned no policy; held for manual review"
        ownership.call.report(Event.POLICY_FAILED, ownership, error=type(policy).__name__, reason=reason)
        return HOLD

    def _remember(self, finish: PreparedFinish) -> None:
        ownership = finish.ownership
        if ownership.call.settings.cache:
            row = after_write(ownership.record(), finish.write)
            if row is not None:
                self._replayer.memory.put(row, ownership.call.settings.cache, self.clock.now())

    def _outcome_of(self, ownership: Ownership, record: Record) -> Any:
        call = ownership.call
        course = call.course(record, self.clock.now(), ownership.attempt_id)
        if course in (Course.REPLAY, Course.STORED_ERROR, Course.HELD, Course.RESULT_UNAVAILABLE):
            return self._replayer.replay_or_raise(call, record, course).result
        raise self._lost(ownership, record)

    def _lost(self, ownership: Ownership, record: Record | None) -> Fenced:
        by = "the row is gone"
        if record is not None:
            by = f"attempt {record.attempt_id} ({record.locked_by}) owns it"
        message = (
            f"this attempt no longer owns token {ownership.token}: {by}; the next delivery gets its outcome"
        )
        if record is not None and record.attempt_id == ownership.attempt_id:
            message = f"this attempt has already finished: token {ownership.token} is {record.state.value}"
        state = None if record is None else record.state.value
        return Fenced(
            message, token=ownership.token, state=state, locked_by=record.locked_by if record else None
        )


def _by_policy(policy: Policy, failure: Failure) -> Change:
    match policy:
        case Policy.STORE:
            return Complete(None, failure)
        case Policy.HOLD:
            return Hold(failure)
        case Policy.RELEASE:
            return Release(failure)
        case _ as unreachable:
            assert_never(unreachable)


def _interrupted(what: str, interruption: BaseException) -> str:
    return f"{what} is not stored: {type(interruption).__name__} was raised while it was serialised or sealed"


def _kind(error: BaseException | None) -> str | None:
    return None if error is None else type(error).__name__


def _mistake_in(items: Sequence[Mapping[str, Any]]) -> str | None:
    """Return what is wrong with a user's *items*; None without boto3, for no item can reach DynamoDB then."""
    try:
        from lambda_once.dynamodb.shapes import mistake_in  # only transactions have items that a user wrote
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "botocore":
            raise
        return None
    return mistake_in(items)
