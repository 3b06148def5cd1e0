"""
The guard of a call that has a history: what another idempotency layer knows of its work.

A history is read after the token is acquired, so two attempts of this version never ask it at once, and is
written before the token is: what it has can be copied to the token, and nobody else can have begun. Its
failures never change what became of the work; they are reported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, assert_never

from lambda_once.core.clock import Waits, stamp
from lambda_once.core.codec import as_json
from lambda_once.core.lifecycle import Failure, OnLapse, Resolve
from lambda_once.core.results import Corrupt, NotSerialisable, Unavailable, pack
from lambda_once.core.writes import Complete, Hold, after_write
from lambda_once.decorators.suspensions import Suspensions
from lambda_once.engine.finish import FinishedWork, Finisher, PreparedFinish, report_result, stored_result
from lambda_once.engine.history import Busy, Earlier, Vacant
from lambda_once.engine.lapsed import answer_of_probe
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.replay import SOON, Replayed
from lambda_once.errors import Held, InProgress, Misconfigured, ResultUnavailable, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.policies import NOT_DONE, Done, Lapsed
from lambda_once.stores.contract import Unanswered

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.engine.history import HistoryAnswer
    from lambda_once.engine.invocation import Call


class History(Suspensions, ABC):
    """The history of one call, as its guard. `begin`, `succeed` and `undo` send requests and block."""

    asks = True

    @abstractmethod
    def begin(
        self, lease: datetime, now: datetime, *, takes_over: bool, attempt_id: str, token: str
    ) -> HistoryAnswer:
        """
        Record an attempt with this *lease*, unless the history has another attempt or an outcome.

        *takes_over*: do not look for a lapsed attempt.
        *attempt_id*: its random id, which identifies its own record after a lost response (guarantee 3).
        *token*: its token, whose row shows earlier attempts.
        Raises `OnceError`, with nothing recorded, if the call may not run (for example `KeyReused`).
        """

    @abstractmethod
    def succeed(self, text: str) -> None:
        """Record the result *text*, in JSON, of an attempt that began or lapsed. May raise any exception."""

    @abstractmethod
    def undo(self, now: datetime) -> None:
        """Delete the attempt if `begin` recorded it and it has not lapsed. May raise any exception."""

    def before(self, ownership: Ownership, finisher: Finisher) -> Waits[Ownership | Replayed]:
        """
        Return *ownership* if its work may start now, or the outcome from the history.

        The outcome is copied to the token, unless it is an error response, which is replayed from the history
        until it expires there.

        Raises `OnceError` if the work may not start. The token is then released, or held if a lapsed attempt
        of the other layer needs manual review.
        """
        try:
            found = _found(ownership, self, finisher)
        except BaseException:
            finisher.give_back(ownership)
            raise
        if found is None:
            return ownership
        if not isinstance(found, Copy):
            return (yield from _judged(ownership, self, finisher, found))
        if ownership.call.output.error_in(found.value) is None:
            return (yield from _replayed(ownership, finisher, _packed(ownership, found), found.expires))
        finisher.give_back(ownership)
        ownership.call.report(Event.REPLAYED, ownership.record(), reason="from the history, without a copy")
        return Replayed(found.value, ownership.record())

    def succeeded(self, call: Call, value: Any, whose: Ownership | None = None) -> None:
        """Record *value*; a failure is reported, and the history shows the work until that lapses."""
        try:
            kept = call.output.stored_of(value)
            text = "null" if isinstance(kept, Unavailable) else as_json(call.codec.dump(kept))
        except NotSerialisable:
            text = "null"  # done all the same; the row has no result, either
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            call.invocation.tally.interrupt(interruption)
            text = "null"
        try:
            self.succeed(text)
        except Exception as error:  # noqa: BLE001  (a persistence layer may raise anything)
            reason = "the history did not take the result: it shows the work in progress until that lapses"
            call.report(Event.COMPLETION_FAILED, whose, error=type(error).__name__, reason=reason)
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            call.invocation.tally.interrupt(interruption)

    def undone(self, call: Call, now: datetime) -> None:
        """Delete the attempt; if that fails, which is reported, it lapses there."""
        try:
            self.undo(now)
        except Exception as error:  # noqa: BLE001  (a persistence layer may raise anything)
            reason = "the history shows the attempt in progress until that lapses"
            call.report(Event.STORE_UNAVAILABLE, error=type(error).__name__, reason=reason)
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            call.invocation.tally.interrupt(interruption)


class LapsedElsewhere(Lapsed):
    """A lapsed attempt of the other layer. Only the time when it lapsed is known."""

    def downstream_key(self, label: str = "") -> NoReturn:
        """Raise `Misconfigured`: that attempt used no downstream key, so a search by it finds nothing."""
        del label
        message = (
            f"the lapsed attempt of token {self.token} belongs to the other idempotency layer and used no "
            "downstream_key: look for its work by the arguments"
        )
        raise Misconfigured(message, token=self.token)


class Copy(NamedTuple):
    """An outcome of the other layer: *value*, the same as JSON *text*, and when it *expires* there."""

    value: Any
    text: str
    expires: datetime | None


def _found(ownership: Ownership, history: History, finisher: Finisher) -> Copy | datetime | None:
    """Return the outcome from *history*, or when an attempt lapsed that needs a decision, or None."""
    call = ownership.call
    takes_over = call.settings.rule is OnLapse.TAKE_OVER
    now = finisher.clock.now()
    found = history.begin(
        ownership.lease, now, takes_over=takes_over, attempt_id=ownership.attempt_id, token=ownership.token
    )
    match found:
        case Vacant(lapsed):
            return (
                None if lapsed is None or takes_over or _is_decided(ownership, finisher, lapsed) else lapsed
            )
        case Earlier(text, expires):
            return _copied(ownership, text, expires)
        case Busy(until):
            raise _in_progress(ownership, finisher, until)
        case Unanswered(reason):
            message = f"token {call.token} was not run, retry later: {reason}"
            raise StoreUnavailable(message, token=call.token, reason=reason)
        case _ as unreachable:
            assert_never(unreachable)


_OF_OUTCOMES: Final = (Resolve.KEEP, Resolve.FORGET)
"""Decisions about the stored outcome, not about whether work was done."""


def _is_decided(ownership: Ownership, finisher: Finisher, lapsed: datetime) -> bool:
    """Whether the token was resolved after *lapsed*; that decision then applies."""
    row = finisher.store.read(ownership.token, ownership.call.invocation.deadline)
    # Keeping or erasing an outcome does not decide about the lapsed attempt.
    decisions = () if row is None else row.decisions
    return any(each.at >= lapsed and each.how not in _OF_OUTCOMES for each in decisions)


def _in_progress(ownership: Ownership, finisher: Finisher, until: datetime | None) -> InProgress:
    left = SOON if until is None else (until - finisher.clock.now()).total_seconds()
    has = "" if until is None else f", which has until {stamp(until)}"
    return InProgress(
        f"token {ownership.token} is in progress in the history{has}; retry later",
        token=ownership.token,
        expected_completion=until,
        retry_after=min(max(left, 1.0), SOON),
    )


def _packed(ownership: Ownership, copy: Copy) -> FinishedWork:
    try:
        return FinishedWork(pack(copy.text, ownership.call.seal), copy.value, copy.value)
    except NotSerialisable as problem:
        ownership.call.report(Event.RESULT_UNAVAILABLE, ownership, reason=str(problem))
        return FinishedWork(Unavailable.UNAVAILABLE, copy.value, copy.value)


def _copied(ownership: Ownership, text: str, expires: datetime | None) -> Copy:
    """Return the history's outcome *text* as a duplicate gets it. Raises `ResultUnavailable`."""
    call, value = ownership.call, _loaded(ownership, text)
    kept = call.output.stored_of(value)
    if isinstance(kept, Unavailable):
        raise _withheld(call)
    return Copy(kept, text if kept is value else call.codec.dump(kept), expires)


def _withheld(call: Call) -> ResultUnavailable:
    message = f"token {call.token} is complete in the history, and its response is for its own caller alone"
    return ResultUnavailable(message, token=call.token)


def _loaded(ownership: Ownership, text: str) -> Any:
    try:
        return ownership.call.codec.load(text)
    except Corrupt as error:
        message = (
            f"token {ownership.token} is complete in the history, but its result cannot be read ({error}): "
            "give codec= the functions of the old serialiser; the work is not repeated"
        )
        raise ResultUnavailable(message, token=ownership.token) from error


def _replayed(
    ownership: Ownership, finisher: Finisher, work: FinishedWork, expires: datetime | None = None
) -> Waits[Replayed]:
    """Complete the token with *work*, kept until *expires* at most; return what a duplicate gets."""
    write = ownership.write(Complete(work.stored, expires=expires), finisher.clock.now())
    value = yield from finisher.finish(PreparedFinish(ownership, write, work.loaded, result=work))
    row = after_write(ownership.record(), write) or ownership.record()
    if work.stored is Unavailable.WITHHELD:
        raise _withheld(ownership.call)
    ownership.call.report(Event.REPLAYED, row, reason="copied from the history")
    return Replayed(ownership.call.output.stored_of(value), row)


def _judged(
    ownership: Ownership, history: History, finisher: Finisher, lapsed: datetime
) -> Waits[Ownership | Replayed]:
    """Ask the probe about the attempt that lapsed at *lapsed*, or hold the token."""
    call = ownership.call
    theirs = LapsedElsewhere(call.token, "", 0, "", ownership.created, lapsed)
    answer = answer_of_probe(call, theirs, ownership.record())
    if answer is NOT_DONE:
        return ownership
    if isinstance(answer, Done):
        history.succeeded(call, answer.result, ownership)
        work = stored_result(call, answer.result)
        report_result(call, work, ownership)
        return (yield from _replayed(ownership, finisher, work))
    until, now = stamp(lapsed), finisher.clock.now()
    failure = Failure("Lapsed", f"an attempt in the history had until {until} and did not finish")
    yield from finisher.finish(PreparedFinish(ownership, ownership.write(Hold(failure), now)))
    history.undone(call, finisher.clock.now())
    message = (
        f"token {call.token} is held for manual review: an attempt in the history had until {until} and did "
        f"not finish; check whether it completed, then run `lambda-once resolve {call.token}`"
    )
    raise Held(message, token=call.token, state="error", expected_completion=lapsed)
