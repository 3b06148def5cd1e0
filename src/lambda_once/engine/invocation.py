"""One invocation and one protected call as values: what every step of an execution needs, made once."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.clock import FINAL, INVOCATION_DEADLINE, LAST_ANSWER, Clock, Deadline
from lambda_once.core.durable import SDK, check_context
from lambda_once.core.identification import Identification
from lambda_once.core.lifecycle import Record, Request
from lambda_once.core.results import NotSerialisable, Seal, Unavailable
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Tally
from lambda_once.settings import FOR_QUEUES, Settings
from lambda_once.stores.contract import AcquireAnswer, Refused, WriteAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lambda_once.core.codec import Codec
    from lambda_once.engine.history import History
    from lambda_once.engine.places import Place, Places
    from lambda_once.observability.traces import Segment

LONGEST_INVOCATION = timedelta(seconds=900)
"""Assumed to remain without a Lambda context: the longest time limit of a standard function."""
NO_REQUEST_ID = "-"
"""The request id where there is none."""


class Invocation(NamedTuple):
    """One invocation of Lambda: when it ends, and where what happens in it is reported."""

    locked_by: str
    """``function/request id``"""
    context: object
    """Lambda's own; None where there is none."""
    began: datetime
    ends: datetime
    """When Lambda kills it."""
    deadline: Deadline
    """Until when answers of the table are awaited: `LAST_ANSWER` before it ends."""
    reporter: Reporter
    """Of one `Once`: two of them in one process report by themselves."""
    tally: Tally
    request_id: str | None
    """Lambda's own; None where there is none."""
    places: Places
    """Where in the code the tokens were used that are named after it."""
    known: bool = True
    """Whether the context has the remaining time."""

    @property
    def has_request_id(self) -> bool:
        """Whether the request id is Lambda's: without one every row of the function has the same."""
        return isinstance(self.request_id, str) and self.request_id not in ("", NO_REQUEST_ID)


CURRENT_INVOCATION: ContextVar[Invocation | None] = ContextVar("lambda_once_invocation", default=None)


def current_invocation() -> Invocation | None:
    return CURRENT_INVOCATION.get()


@contextmanager
def invoked(
    context: object, clock: Clock, reporter: Reporter, unknown: Callable[[], object]
) -> Iterator[Invocation]:
    """
    Set the remaining time of *context*, and one set of counts, for all work in the block.

    Inside another invocation with the same context the outer one continues: metrics are flushed once, at its
    end. *unknown* is called where no context has the remaining time.
    """
    outer = CURRENT_INVOCATION.get()
    if outer is None or not (context is None or context is outer.context):
        invocation = invocation_of(context, clock, reporter)
    elif outer.reporter is reporter:
        yield outer
        return
    else:
        invocation = outer._replace(reporter=reporter, tally=Tally())
    if not invocation.known:
        unknown()
    before = INVOCATION_DEADLINE.get()
    CURRENT_INVOCATION.set(invocation)
    INVOCATION_DEADLINE.set(Deadline(clock, invocation.ends))
    try:
        yield invocation
    finally:
        CURRENT_INVOCATION.set(outer)
        INVOCATION_DEADLINE.set(before)
        reporter.flush(invocation.tally)
        invocation.tally.raise_interruption()


def invocation_of(context: object, clock: Clock, reporter: Reporter) -> Invocation:
    """
    Read Lambda's context. Without a remaining time, 900 s are assumed.

    Raises `Misconfigured` for the context of a durable execution.
    """
    if SDK in sys.modules:
        check_context(context)
    function = _text(context, "function_name") or os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or "local"
    request_id = _text(context, "aws_request_id")
    left = _remaining(context)
    now = clock.now()
    ends = now + (LONGEST_INVOCATION if left is None else left)
    return Invocation(
        locked_by=f"{function}/{request_id or NO_REQUEST_ID}",
        context=context,
        began=now,
        ends=ends,
        deadline=Deadline(clock, ends - timedelta(seconds=LAST_ANSWER), FINAL),
        reporter=reporter,
        tally=Tally(),
        request_id=request_id,
        places={},
        known=left is not None,
    )


def _text(context: object, name: str) -> str | None:
    """Return the attribute *name* of *context* if it is text: that of a mock is a mock."""
    found = getattr(context, name, None)
    return found if isinstance(found, str) else None


def _remaining(context: object) -> timedelta | None:
    """Return the remaining time by *context*; None where it has none."""
    ask: Any = getattr(context, "get_remaining_time_in_millis", None)
    milliseconds = ask() if callable(ask) else None
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        return timedelta(milliseconds=milliseconds)
    return None


def never_an_error(_value: object) -> BaseException | None:
    return None


def unchanged(value: object) -> object:
    return value


class Redelivery(Enum):
    """How a source delivers again what an attempt has not finished, and so which rows are of that attempt."""

    ANY = "any"
    """Under another request id, perhaps to several invocations at once: nothing is known of a row."""
    SAME_REQUEST = "same request"
    """
    An asynchronous source: Lambda's own retry has the same request id. After two the event is gone (Lambda
    developer guide, asynchronous invocation).
    """
    IN_ORDER = "in order"
    """
    A stream: one invocation at a time has its shard or partition, so a token in progress is most likely held
    by an earlier try of this one, and the records behind it wait in any case.
    """


class Call(NamedTuple):
    """A unit of work with its token: everything about it but the work."""

    name: str
    token: str
    settings: Settings
    codec: Codec
    """Of its results: ``codec=``, or that of the type they have."""
    invocation: Invocation
    identity: Identification = Identification()
    """How the unit was identified, by which a row of the same token is compared with it."""
    delivery: str | None = None
    arguments: tuple[object, ...] = ()
    """What a probe gets after the lapsed attempt."""
    redelivered: bool = False
    """Whether the source says that it delivered this before: a row is likely."""
    redelivery: Redelivery = Redelivery.ANY
    """How its source delivers it again: a redelivery of a killed attempt waits for its lease."""
    attempt_id: str | None = None
    """
    The id of its attempt, if that is recorded elsewhere (a durable execution); None: a new one.

    The call is made again under it, and a release would refuse that: there is none before it starts.
    """
    history: History | None = None
    """What another idempotency layer remembers of it (``history=``); it is asked before the work starts."""
    place: Place | None = None
    """The place in the code that its token is named after; None: it has a name of its own (``name=``)."""
    error_in: Callable[[Any], BaseException | None] = never_an_error
    """The error that a returned value means (a response of API Gateway), or None."""
    stored_of: Callable[[Any], Any] = unchanged
    """
    What is stored of its result, as it is read back: all of it, a part, or an `Unavailable`. Never raises.

    The first caller gets all of it; duplicates, memory and history get this.
    """
    keep: timedelta = FOR_QUEUES
    """How long its outcome is kept."""
    separate: bool = True
    """Whether a user's name or credential separates it from other HTTP callers who send the same key."""

    @property
    def seal(self) -> Seal | None:
        """What seals and opens its outcome; None: it is stored as it is."""
        if self.settings.seal is None:
            return None
        return Seal(*self.settings.seal, self.token, self.settings.seal_required)

    def seal_of(self, record: Record) -> Seal | None:
        """Return what opens the outcome of *record*; what a decision gave is plain text, and not refused."""
        seal = self.seal
        return seal._replace(required=False) if seal is not None and record.is_given else seal

    def request(self, attempt: str) -> Request:
        """Return what `core.lifecycle.decide` needs of this call, made by *attempt*."""
        return Request(attempt, self.identity.fingerprint, self.settings.rule, self.identity.presented)

    def report(
        self,
        event: Event,
        record: Record | None = None,
        *,
        error: str | None = None,
        reason: str | None = None,
        differing: str | None = None,
    ) -> None:
        """Report *event*, which *record*, the row of another attempt, has caused if there is one."""
        known: dict[str, Any] = {
            "name": self.name,
            "delivery": self.delivery,
            "error": error,
            "reason": reason,
            "differing": differing,
        }
        details = (
            Details(event, self.token, **known)
            if record is None
            else Details.of_row(event, record, other_delivery=record.delivery, **known)
        )
        self.invocation.reporter.report(details, self.invocation.tally)

    def succeed_in_history(self, value: Any, report: Callable[..., None]) -> None:
        """Record *value*, the result of the work, in the history; *report* a failure. Never raises."""
        if self.history is None:
            return
        try:
            kept = self.stored_of(value)
            text = "null" if isinstance(kept, Unavailable) else self.codec.dump(kept)
        except NotSerialisable:
            text = "null"  # done all the same; the row has no result, either
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            self.invocation.tally.interrupt(interruption)
            text = "null"
        try:
            self.history.succeed(text)
        except Exception as error:  # noqa: BLE001  (a persistence layer may raise anything)
            reason = "the history did not take the result: it shows the work in progress until that lapses"
            report(Event.COMPLETION_FAILED, error=type(error).__name__, reason=reason)
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            self.invocation.tally.interrupt(interruption)

    def undo_in_history(self, now: datetime) -> None:
        """Remove its attempt from the history; where that fails the attempt lapses there. Never raises."""
        if self.history is None:
            return
        try:
            self.history.undo(now)
        except Exception as error:  # noqa: BLE001  (a persistence layer may raise anything)
            reason = "the history shows the attempt in progress until that lapses"
            self.report(Event.STORE_UNAVAILABLE, error=type(error).__name__, reason=reason)
        except BaseException as interruption:  # noqa: BLE001  (it reaches the caller when all is written)
            self.invocation.tally.interrupt(interruption)


def trace_answers(segment: Segment | None, answers: Sequence[AcquireAnswer | WriteAnswer]) -> None:
    """Annotate *segment* with the table's *answers*, and link it to the attempts whose rows refused."""
    if segment is None:
        return
    segment.annotate("outcome", ",".join(sorted({type(answer).__name__ for answer in answers})))
    for answer in answers:
        if isinstance(answer, Refused) and answer.record is not None and answer.record.trace is not None:
            segment.link(answer.record.trace, answer.record.attempt_id)
