"""
Execute one call: acquire its token or get the outcome of the attempt that has it, run its work, finish.

One conditional write tests for new work and duplicates. If it is refused, `core.lifecycle.decide` decides
what the call may do, and `Engine._resolve` does it. Each decision concerns one call; only requests are sent
for several (`Engine.acquire_all`, the pipeline of a batch). Errors are raised; only those of several are
returned.

What may wait is a generator of pauses (`core.clock.Waits`): plain work sleeps for them, async work awaits
them. We don't like that whole steps are generators for one pause, but an async copy of each was worse.
"""

from __future__ import annotations

import inspect
from datetime import datetime
from typing import TYPE_CHECKING, Any, assert_never

from lambda_once.core.clock import (
    Clock,
    Deadline,
    Waits,
    epoch_seconds,
    has_running_loop,
    through,
    to_milliseconds,
)
from lambda_once.core.context import call_stack
from lambda_once.core.lifecycle import Course, OnLapse, Record, State, new_attempt_id
from lambda_once.core.writes import Acquire, AsSeen, Unclaimed
from lambda_once.engine.attempt import Attempt, working
from lambda_once.engine.finish import Finisher
from lambda_once.engine.invocation import Call, Redelivery, Tokenless, trace_answers
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.replay import Replayed, Replayer, refusal
from lambda_once.engine.waiting import through_async, uncancelled
from lambda_once.errors import (
    InProgress,
    KeyReused,
    Misconfigured,
    OnceError,
    OtherCaller,
    RetryLater,
    StoreUnavailable,
)
from lambda_once.observability.events import Event
from lambda_once.settings import LEASE_MARGIN
from lambda_once.stores.contract import AcquireAnswer, Refused, Store, Unanswered, Won

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from lambda_once.engine.history import Guard
    from lambda_once.observability.traces import Segment

FIRST_POLL = 0.1
LONGEST_POLL = 1.0
ROUNDS = 5
"""Acquisitions of a row that keeps changing, before the call gets `InProgress`."""
_OWN_STACK = (
    "is already in progress in this call stack (a recursion, a nested begin, or a function decorated twice); "
    "give the inner work its own key or name"
)

Acquisition = Ownership | Replayed | OnceError


class Engine:
    """Executes calls for one `Once`. Keeps no state of any call."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        new_finisher: Callable[[Store, Clock, Replayer], Finisher] = Finisher,
    ) -> None:
        """*new_finisher* replaces the finisher, for example to simulate a crash (`lambda_once.testing`)."""
        self.store = store
        self.clock = clock
        self.replayer = Replayer(store, clock)
        self.finisher = new_finisher(store, clock, self.replayer)

    def execute(self, call: Call, work: Callable[[], Any], *, may_wait: bool = True) -> Any | Replayed:
        """
        Run *work* under the token of *call*, or return the stored outcome as `Replayed`.

        Raises what the work raises, and `OnceError` if it may not run. Waits for another attempt if
        *may_wait* and the call's settings allow it.
        """
        acquired = self.start(call, may_wait=may_wait)
        return acquired if isinstance(acquired, Replayed) else self._run(acquired, work)

    async def execute_async(
        self, call: Call, work: Callable[[], Awaitable[Any]], *, may_wait: bool = True
    ) -> Any | Replayed:
        """Do what `execute` does, for a coroutine function; store calls run off the event loop."""
        acquired = await self.start_async(call, may_wait=may_wait)
        return acquired if isinstance(acquired, Replayed) else await self._run_async(acquired, work)

    def start(self, call: Call, *, may_wait: bool = True) -> Ownership | Replayed:
        """
        Acquire the token of *call*, ready to start, or return its stored outcome.

        On a thread with a running event loop it does not wait for another attempt: that would block the loop,
        on which the other attempt may be running.
        """
        return through(self.starting(call, may_wait=may_wait and not has_running_loop()), self.clock)

    async def start_async(self, call: Call, *, may_wait: bool = True) -> Ownership | Replayed:
        """
        Do what `start` does, and wait on the event loop.

        If it is cancelled, even repeatedly, the token is released, as nothing has started.
        """

        def undo(acquired: Ownership | Replayed) -> None:
            if isinstance(acquired, Ownership):
                self.finisher.give_back(acquired)

        starting = self.starting(call, may_wait=may_wait)
        while True:
            acquired = await through_async(starting, self.clock, undo)
            # Other work may have blocked the loop meanwhile, and the lease may have expired.
            if not isinstance(acquired, Ownership) or self.may_start(acquired):
                return acquired
            starting = self.make_ready(acquired, may_wait=may_wait)

    def starting(self, call: Call, *, may_wait: bool) -> Waits[Ownership | Replayed]:
        """Do what `acquire` does, and return the ownership ready to start."""
        acquired = yield from self.acquire(call, may_wait=may_wait)
        if isinstance(acquired, Ownership):
            acquired = yield from self.make_ready(acquired, may_wait=may_wait)
        if call.invocation.tally.interrupted is not None and isinstance(acquired, Ownership):
            self.finisher.give_back(acquired)
        call.invocation.tally.raise_interruption()
        return acquired

    def acquire(self, call: Call, *, may_wait: bool) -> Waits[Ownership | Replayed]:
        """
        Return the ownership of *call*'s token, or its stored outcome. Raises `OnceError`, which is reported.

        Whatever it raises, it has released what it may have acquired.
        """
        if call.settings.cache and (remembered := self._remembered(call)) is not None:
            return remembered
        invocation = call.invocation
        # For a redelivery, skip the try that requires no row: one round trip less if the token was released,
        # and none more if it is complete.
        acquire = self._first_try(call, known=call.source.redelivered)
        try:
            with invocation.reporter.segment("once.acquire") as segment:
                if segment is not None:
                    acquire = _traced(acquire, segment)
                (answer,) = self.store.acquire([acquire], invocation.deadline)
                if segment is not None:
                    trace_answers(segment, [answer])
            try:
                acquisition: Acquisition = yield from self._resolve(call, acquire, answer, may_wait=may_wait)
            except OnceError as error:
                acquisition = error
                self._report_refusal(call, error)
                if isinstance(error, StoreUnavailable):  # it may have been acquired all the same
                    self.finisher.give_back((call, acquire.attempt_id))
            invocation.reporter.flush(invocation.tally)  # "started" must be out if the invocation is killed
        except GeneratorExit:  # cancelled while it waited for another attempt
            raise
        except BaseException:  # nothing has started, and nothing will
            self.finisher.give_back((call, acquire.attempt_id))
            raise
        if isinstance(acquisition, OnceError):
            raise acquisition
        return acquisition

    def acquire_all(self, calls: Sequence[Call]) -> list[Acquisition]:
        """
        Do for *calls*, all different, what `acquire` does for one, in as few requests; it does not wait.

        A returned error is that of one call: others may have acquired their tokens by then.
        """
        acquisitions: dict[str, Acquisition] = {}
        for call in calls:
            try:
                if call.settings.cache and (remembered := self._remembered(call)) is not None:
                    acquisitions[call.token] = remembered
            except OnceError as error:
                acquisitions[call.token] = error
        asked = [call for call in calls if call.token not in acquisitions]
        if asked:
            # The store reads the rows of several redeliveries at once, beside the try that requires none.
            is_only_one = sum(call.source.redelivered for call in asked) == 1
            now = self.clock.now()
            acquires = [
                self._first_try(call, known=is_only_one and call.source.redelivered, now=now)
                for call in asked
            ]
            try:
                acquisitions |= self._acquire_new(asked, acquires)
            except BaseException:  # nothing has started, and nothing will
                attempts = zip(asked, [acquire.attempt_id for acquire in acquires], strict=True)
                self.finisher.give_back(*attempts)
                raise
        return [acquisitions[call.token] for call in calls]

    def _acquire_new(self, calls: Sequence[Call], acquires: list[Acquire]) -> dict[str, Acquisition]:
        invocation = calls[0].invocation
        with invocation.reporter.segment("once.acquire") as segment:
            if segment is not None:
                acquires = [_traced(acquire, segment) for acquire in acquires]
            answers = self.store.acquire(acquires, invocation.deadline)
            courses = self._acquire_known(calls, acquires, answers) if len(calls) > 1 else {}
            if segment is not None:
                trace_answers(segment, answers)
        acquisitions: dict[str, Acquisition] = {}
        unanswered = []
        for n, (call, acquire, answer) in enumerate(zip(calls, acquires, answers, strict=True)):
            if isinstance(answer, Won):
                acquisitions[call.token] = self._won(call, acquire, answer)
                continue
            try:
                resolving = self._resolve(call, acquire, answer, may_wait=False, course=courses.get(n))
                acquisitions[call.token] = through(resolving, self.clock)
            except OnceError as error:
                acquisitions[call.token] = error
                self._report_refusal(call, error)
                if isinstance(error, StoreUnavailable):
                    unanswered.append((call, acquire.attempt_id))
        self.finisher.give_back(*unanswered)  # they may have been acquired all the same
        invocation.reporter.flush(invocation.tally)
        return acquisitions

    def make_ready(self, ownership: Ownership, *, may_wait: bool) -> Waits[Ownership | Replayed]:
        """
        Return *ownership* once its work may start, or the outcome of another attempt.

        Extends a lease that is about to expire; if that is refused, the call acquires again, as a duplicate.
        Releases the token and raises `RetryLater` if too little time remains to finish the work.
        """
        call = ownership.call
        if not self.may_start(ownership):
            if call.invocation.deadline.is_final():
                raise self._not_started(ownership)
            try:
                self.finisher.extend(ownership, _lease(call, self.clock.now()))
            except StoreUnavailable:
                self.finisher.give_back(ownership)
                raise
            except RetryLater:
                ownership.call.report(Event.FENCED, ownership, reason="before it started")
                acquisition = yield from self.acquire(call, may_wait=may_wait)
                if not isinstance(acquisition, Ownership):
                    return acquisition
                # The response to this acquisition, too, may have been slow.
                return (yield from self.make_ready(acquisition, may_wait=may_wait))
            if not self.may_start(ownership):  # the response may have been slow
                raise self._not_started(ownership)
        guard = call.guard
        return (yield from self._consult(ownership, guard)) if guard and guard.asks else ownership

    def _not_started(self, ownership: Ownership) -> RetryLater:
        """Release the token of *ownership*, and return the error to raise."""
        self.finisher.give_back(ownership)
        message = f"token {ownership.token} was not started: too little time remains; retry later"
        return RetryLater(message, token=ownership.token)

    def _consult(self, ownership: Ownership, guard: Guard) -> Waits[Ownership | Replayed]:
        try:
            consulted: Ownership | Replayed = yield from guard.before(ownership, self.finisher)
        except OnceError as error:
            self._report_refusal(ownership.call, error)
            raise
        if isinstance(consulted, Ownership) and not self.may_start(consulted):  # the guard may have been slow
            raise self._not_started(consulted)
        return consulted

    def may_start(self, ownership: Ownership) -> bool:
        """Whether *ownership* may start as it is: `LEASE_MARGIN` of its lease is left, and time remains."""
        now = self.clock.now()
        return ownership.lease >= now + LEASE_MARGIN and not ownership.call.invocation.deadline.is_final_at(
            now
        )

    # ---------------------------------------------------------------- asking the table

    def _remembered(self, call: Call) -> Replayed | None:
        """Return the outcome that this environment remembers. Raises as `acquire` does."""
        now = self.clock.now()
        record = self.replayer.memory.get(call.token, now)
        if record is None:
            return None
        course = call.course(record, now)
        if course is not Course.REPLAY:
            return None
        try:
            return self.replayer.replay_or_raise(call, record, course, remembered=True)
        except OnceError as error:
            self._report_refusal(call, error)
            raise

    def _acquire_known(
        self, calls: Sequence[Call], acquires: list[Acquire], answers: list[AcquireAnswer]
    ) -> dict[int, Course]:
        """
        Acquire again, in place and together, the refused tokens that may be taken: released or lapsed.

        Returns what was decided of the others.
        """
        free: dict[int, Acquire] = {}
        courses: dict[int, Course] = {}
        now = self.clock.now()
        for n, (call, acquire, answer) in enumerate(zip(calls, acquires, answers, strict=True)):
            if isinstance(answer, Refused):
                course = call.course(answer.record, now, acquire.attempt_id)
                if course is Course.RUN:
                    free[n] = self._next_try(call, acquire, self._condition(call, answer.record))
                else:
                    courses[n] = course
        if len(free) > 1:
            again = self.store.acquire([*free.values()], calls[0].invocation.deadline)
            for (n, acquire), answer in zip(free.items(), again, strict=True):
                acquires[n], answers[n] = acquire, answer
        return courses

    def _report_refusal(self, call: Call, error: OnceError) -> None:
        error.token = error.token or call.token
        differing = ", ".join(error.fields) if isinstance(error, KeyReused) and error.fields else None
        reason = str(error) if isinstance(error, Misconfigured | OtherCaller | KeyReused) else None
        if isinstance(error, StoreUnavailable):
            reason = error.reason or str(error)
        call.report(refusal(error), error=type(error).__name__, differing=differing, reason=reason)

    def _resolve(
        self,
        call: Call,
        acquire: Acquire,
        answer: AcquireAnswer,
        *,
        may_wait: bool,
        course: Course | None = None,
    ) -> Waits[Ownership | Replayed]:
        """
        Process the table's answers until there is an ownership, an outcome or an error.

        *course*: what was decided of *answer*, if that is known.
        """
        if isinstance(answer, Won):
            return self._won(call, acquire, answer)
        rounds = polls = 0
        began = now = self.clock.now()
        while isinstance(answer, Refused):
            record = answer.record
            course = course or call.course(record, now, acquire.attempt_id)
            if record is None or course in (Course.RUN, Course.ASK):
                rounds += 1
                if rounds > ROUNDS:
                    raise self._outlasted(call, record)
                acquire, answer = self._tried_again(call, acquire, record, course)
            elif course is Course.IN_PROGRESS and record.attempt_id in call_stack():
                raise self.replayer.error(call, record, course, _OWN_STACK)
            elif (
                course is Course.IN_PROGRESS
                and may_wait
                and (seconds_left := self._patience(call, record, began)) > 0
            ):
                yield min(seconds_left, LONGEST_POLL, FIRST_POLL * 2 ** min(polls, 10))
                polls += 1
                answer = Refused(self.store.read(call.token, call.invocation.deadline))
            else:
                if course is Course.HELD:
                    self.finisher.pin(call, record)
                return self.replayer.replay_or_raise(call, record, course)
            now, course = self.clock.now(), None
        if isinstance(answer, Won):
            return self._won(call, acquire, answer)
        if isinstance(answer, Unanswered):  # nothing runs then (guarantee 7)
            message = f"token {call.token} was not run, retry later: {answer.reason}"
            raise StoreUnavailable(message, token=call.token, reason=answer.reason)
        raise answer

    def _won(self, call: Call, acquire: Acquire, won: Won) -> Ownership:
        ownership = Ownership(call, acquire, won)
        ownership.call.report(Event.ACQUIRED, ownership)
        if won.took_over:
            ownership.call.report(Event.TAKEN_OVER, ownership)
        return ownership

    def _tried_again(
        self, call: Call, acquire: Acquire, record: Record | None, course: Course
    ) -> tuple[Acquire, AcquireAnswer]:
        """Acquire again now that *record* is known; if it lapsed and there is a probe, call that first."""
        take = self._condition(call, record)
        if record is not None and course is Course.ASK:
            from lambda_once.engine.lapsed import completed_by_probe  # no cold start without a probe needs it

            if completed_by_probe(call, record, self.finisher, self.replayer):
                return acquire, Refused(self.store.read(call.token, call.invocation.deadline))
            take = AsSeen(record.attempt_id, record.expected_completion)  # exactly what it was asked about
        acquire = self._next_try(call, acquire, take)
        (answer,) = self.store.acquire([acquire], call.invocation.deadline)
        return acquire, answer

    # ---------------------------------------------------------------- one try

    def _first_try(self, call: Call, *, known: bool, now: datetime | None = None) -> Acquire:
        """Return the first acquisition of *call*; *known*: skip the try that requires no row."""
        now = now or self.clock.now()
        recorded = None if call.guard is None else call.guard.attempt_id
        return acquire_by(call, recorded or new_attempt_id(), self._condition(call), now, known=known)

    def _condition(self, call: Call, record: Record | None = None) -> Unclaimed | AsSeen:
        """Return the condition of an acquisition after *record* was seen."""
        if call.settings.rule is OnLapse.TAKE_OVER:
            if (
                record is not None
                and record.state is State.IN_PROGRESS
                and not _store_can_compare(call, record)
            ):
                return AsSeen(record.attempt_id, record.expected_completion)
            return Unclaimed(take_over=True)
        if record is not None and record.state is State.RELEASED and not record.expired(self.clock.now()):
            return AsSeen(record.attempt_id, None)
        return Unclaimed(take_over=False)

    def _next_try(self, call: Call, acquire: Acquire, take: Unclaimed | AsSeen) -> Acquire:
        """Return *acquire* for the next try, now that the row is known: the same attempt and trace."""
        again = acquire_by(call, acquire.attempt_id, take, self.clock.now(), known=True)
        return again._replace(trace=acquire.trace)

    def _patience(self, call: Call, record: Record, began: datetime) -> float:
        """Return how many seconds longer *call*, waiting since *began*, may wait for *record*."""
        remaining = call.invocation.deadline.before_final()
        if is_retry_of_own(call, record):
            return remaining
        longest = call.settings.longest_wait
        if longest is None:
            return 0
        return min(remaining, Deadline(self.clock, began + longest).remaining())

    def _outlasted(self, call: Call, record: Record | None) -> OnceError:
        if record is not None:
            return self.replayer.error(call, record, Course.IN_PROGRESS)
        return InProgress(f"token {call.token} is contended; retry later", token=call.token)

    # ---------------------------------------------------------------- running it

    def _run(self, ownership: Ownership, work: Callable[[], Any]) -> Any:
        try:
            with self.as_current(ownership):
                value = done(work(), ownership)
        except BaseException as error:
            through(self.failed(ownership, error), self.clock)
            raise
        return through(self.returned(ownership, value), self.clock)

    async def _run_async(self, ownership: Ownership, work: Callable[[], Awaitable[Any]]) -> Any:
        try:
            with self.as_current(ownership):
                value = done(await work(), ownership)
        except BaseException as error:
            await uncancelled(self.finisher.off_loop(ownership, self.failed(ownership, error)))
            raise
        return await uncancelled(self.finisher.off_loop(ownership, self.returned(ownership, value)))

    def as_current(self, ownership: Ownership, *, nests: bool = True) -> working:
        """Return a block, a call if it *nests*, in which `Once.current` is the attempt of *ownership*."""
        return working(Attempt(ownership, self.finisher), nests=nests)

    def left(self, ownership: Ownership, error: BaseException | None) -> Waits[None]:
        """Finish a block: with the result None, or by the policy for *error*."""
        if error is None:
            yield from self.returned(ownership, None)
        else:
            yield from self.failed(ownership, error)

    def returned(self, ownership: Ownership, value: Any) -> Waits[Any]:
        """Complete the token, unless `Attempt` already has; return what every duplicate will get."""
        self.finisher.await_transaction(ownership)
        if ownership.completed is not None:
            return ownership.completed[0]
        result = yield from self.finisher.finish(self.finisher.prepare_return(ownership, value))
        ownership.call.invocation.tally.raise_interruption()
        return result

    def failed(self, ownership: Ownership, error: BaseException) -> Waits[None]:
        """
        Finish the token of work that raised *error*, unless `Attempt` has completed it.

        Raises `Misconfigured` in its place if the guard of the call knows that the work has not ended.
        """
        guard = ownership.call.guard
        wrong = None if guard is None else guard.wrong(ownership.call, error)
        self.finisher.await_transaction(ownership)
        if ownership.completed is None:
            yield from self.finisher.finish(self.finisher.prepare_error(ownership, wrong or error))
        if wrong is not None:
            raise wrong from error


def done(value: Any, ownership: Ownership | Tokenless) -> Any:
    """Return *value*. Raises `Misconfigured` for an awaitable, as the work is not done yet."""
    if value is None or not inspect.isawaitable(value):
        return value
    # Close a coroutine, cancel a task or future: released work must not continue.
    stop = getattr(value, "close", None) or getattr(value, "cancel", None)
    if callable(stop):
        stop()
    kind, token = type(value).__name__, ownership.token
    whose = "the function" if token is None else f"the function for token {token}"
    message = f"{whose} returned an unawaited {kind}; protect an async def instead"
    raise Misconfigured(message, token=token)


def _traced(acquire: Acquire, segment: Segment) -> Acquire:
    trace = segment.trace()
    return acquire if trace is None else acquire._replace(trace=trace)


def acquire_by(
    call: Call,
    attempt_id: str,
    take: Unclaimed | AsSeen,
    now: datetime,
    *,
    lease: datetime | None = None,
    known: bool = False,
) -> Acquire:
    """Return the acquisition of *call* under *attempt_id*; *known*: as in `Acquire`."""
    keep = call.keep
    lease = lease or _lease(call, now)
    return Acquire(
        token=call.token,
        attempt_id=attempt_id,
        locked_by=call.invocation.locked_by,
        now=now,
        lease=lease,
        take=take,
        # The row of a token that may have to be held does not expire (guarantee 6).
        ttl=epoch_seconds(lease + keep) if call.settings.rule is OnLapse.TAKE_OVER else None,
        fingerprint=call.compared.fingerprint,
        delivery=call.delivery,
        known=known,
        likely=known or call.source.redelivered,
        caller=None if call.compared.presented is None else call.compared.presented.mark(attempt_id),
    )


def _lease(call: Call, now: datetime) -> datetime:
    """Return the lease of an attempt that acquires its token *now*."""
    settings = call.settings
    return to_milliseconds(
        call.invocation.ends + LEASE_MARGIN if settings.lease is None else now + settings.lease
    )


def _store_can_compare(call: Call, record: Record) -> bool:
    """Whether a condition can compare *record* with *call*: no caller, and the same fingerprint or none."""
    return record.caller is None and record.fingerprint in (None, call.compared.fingerprint)


def is_retry_of_own(call: Call, record: Record) -> bool:
    """
    Whether *call* is a redelivery of the work of the attempt in *record*, which was killed.

    If so, it waits for the lease: Lambda drops an event after two retries, and a failed stream record causes
    a retry of the whole batch. A row created in this same invocation belongs to another call of it.
    An event does not wait if lapsed work is held; a stream always waits.
    """
    invocation = call.invocation
    is_ours = record.locked_by == invocation.locked_by
    match call.source.redelivery:
        case Redelivery.ANY:
            return False
        case Redelivery.SAME_REQUEST:
            is_earlier = invocation.has_request_id and is_ours and record.created < invocation.began
            return is_earlier and call.settings.rule is not OnLapse.HOLD
        case Redelivery.IN_ORDER:
            return not (is_ours and record.created >= invocation.began)
        case _ as unreachable:
            assert_never(unreachable)
