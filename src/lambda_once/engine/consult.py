"""What an attempt that has its token does about the history of its call, before the work starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, assert_never

from lambda_once.core.clock import Waits, stamp
from lambda_once.core.lifecycle import Failure, OnLapse
from lambda_once.core.results import Corrupt, NotSerialisable, Unavailable, pack
from lambda_once.core.writes import Complete, Hold, after_write
from lambda_once.engine.finish import FinishedWork, Finisher, stored_result
from lambda_once.engine.history import Busy, Earlier, History, Vacant
from lambda_once.engine.ownership import Ownership, PreparedFinish
from lambda_once.engine.probe import answer_of_probe
from lambda_once.engine.replay import SOON, Replayed
from lambda_once.errors import Held, InProgress, Misconfigured, ResultUnavailable, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.policies import NOT_DONE, Done, Lapsed
from lambda_once.stores.contract import Unanswered

if TYPE_CHECKING:
    from datetime import datetime


class LapsedElsewhere(Lapsed):
    """The lapsed attempt of the other layer, of which only the end of its time is known."""

    def downstream_key(self, label: str = "") -> NoReturn:
        """Raise `Misconfigured`: that attempt passed no such key on, and would seem never to have worked."""
        del label
        message = (
            f"the lapsed attempt of token {self.token} belongs to the other idempotency layer and used no "
            "downstream_key: look for its work by the arguments"
        )
        raise Misconfigured(message, token=self.token)


class Copy(NamedTuple):
    """An outcome of the other layer, *value*, which *text* is as JSON; it counts there until *expires*."""

    value: Any
    text: str
    expires: datetime | None


def consulted(attempt: Ownership, history: History, finisher: Finisher) -> Waits[Ownership | Replayed]:
    """
    Return *attempt* where its work may start now, or the outcome that *history* has.

    That is copied to the token, unless it is an error that this package would not store: such a response is
    replayed while its record lives.

    Raises `OnceError` where it may not start: the token is released then, or held where a lapsed attempt of
    the other layer is to be reviewed.
    """
    try:
        found = _found(attempt, history, finisher)
    except BaseException:
        finisher.release([(attempt.call, attempt.id)], counted=True)
        raise
    if found is None:
        return attempt
    if not isinstance(found, Copy):
        return (yield from _judged(attempt, finisher, found))
    if attempt.call.error_in(found.value) is None:
        return (yield from _replayed(attempt, finisher, _packed(attempt, found), found.expires))
    finisher.release([(attempt.call, attempt.id)], counted=True)
    attempt.call.report(Event.REPLAYED, attempt.record(), reason="from the history, without a copy")
    return Replayed(found.value, attempt.record())


def _found(attempt: Ownership, history: History, finisher: Finisher) -> Copy | datetime | None:
    """Return the outcome that *history* has, or when an attempt lapsed that is to be judged, or nothing."""
    call = attempt.call
    takes_over = call.settings.rule is OnLapse.TAKE_OVER
    now = finisher.clock.now()
    found = history.begin(attempt.lease, now, takes_over=takes_over, attempt=attempt.id, token=attempt.token)
    match found:
        case Vacant(lapsed):
            return None if lapsed is None or takes_over or _is_decided(attempt, finisher, lapsed) else lapsed
        case Earlier(text, expires):
            return Copy(_loaded(attempt, text), text, expires)
        case Busy(until):
            raise _in_progress(attempt, finisher, until)
        case Unanswered(reason):
            message = f"the history did not respond ({reason}); token {call.token} was not run"
            raise StoreUnavailable(message, token=call.token)
        case _ as unreachable:
            assert_never(unreachable)


def _is_decided(attempt: Ownership, finisher: Finisher, lapsed: datetime) -> bool:
    """Whether an operator has resolved the token since *lapsed*: that decision stands."""
    row = finisher.store.read(attempt.token, attempt.call.invocation.deadline)
    return row is not None and row.resolution is not None and row.resolution.at >= lapsed


def _in_progress(attempt: Ownership, finisher: Finisher, until: datetime | None) -> InProgress:
    left = SOON if until is None else (until - finisher.clock.now()).total_seconds()
    has = "" if until is None else f", which has until {stamp(until)}"
    return InProgress(
        f"token {attempt.token} is in progress in the history{has}; retry later",
        token=attempt.token,
        expected_completion=until,
        retry_after=min(max(left, 1.0), SOON),
    )


def _packed(attempt: Ownership, copy: Copy) -> FinishedWork:
    try:
        return FinishedWork(pack(copy.text, attempt.call.seal), copy.value)
    except NotSerialisable as problem:
        attempt.report(Event.RESULT_UNAVAILABLE, reason=str(problem))
        return FinishedWork(Unavailable.UNAVAILABLE, copy.value)


def _loaded(attempt: Ownership, text: str) -> Any:
    try:
        return attempt.call.codec.load(text)
    except Corrupt as error:
        message = (
            f"token {attempt.token} is complete in the history, but its result cannot be read ({error}): "
            "give codec= the functions of the old serialiser; the work is not repeated"
        )
        raise ResultUnavailable(message, token=attempt.token) from error


def _replayed(
    attempt: Ownership, finisher: Finisher, work: FinishedWork, expires: datetime | None = None
) -> Waits[Replayed]:
    """Complete the token with *work*, which counts until *expires* at most; return what a duplicate gets."""
    write = attempt.write(Complete(work.stored, expires=expires), finisher.clock.now())
    value = yield from finisher.finish(PreparedFinish(attempt, write, work.value))
    row = after_write(attempt.record(), write) or attempt.record()
    attempt.call.report(Event.REPLAYED, row, reason="copied from the history")
    return Replayed(value, row)


def _judged(attempt: Ownership, finisher: Finisher, lapsed: datetime) -> Waits[Ownership | Replayed]:
    """Ask the probe about the attempt that lapsed at *lapsed*, or hold the token."""
    call = attempt.call
    theirs = LapsedElsewhere(call.token, "", 0, "", attempt.created, lapsed)
    answer = answer_of_probe(call, theirs, attempt.record())
    if answer is NOT_DONE:
        return attempt
    if isinstance(answer, Done):
        call.succeed_in_history(answer.result, attempt.report)
        work = stored_result(call.codec, answer.result, call.seal)
        return (yield from _replayed(attempt, finisher, work))
    until, now = stamp(lapsed), finisher.clock.now()
    failure = Failure("Lapsed", f"an attempt in the history had until {until} and did not finish")
    yield from finisher.finish(PreparedFinish(attempt, attempt.write(Hold(failure), now)))
    call.undo_in_history(finisher.clock.now())
    message = (
        f"token {call.token} is held for manual review: an attempt in the history had until {until} and did "
        f"not finish; check whether it completed, then run `lambda-once resolve {call.token}`"
    )
    raise Held(message, token=call.token, state="error", expected_completion=lapsed)
