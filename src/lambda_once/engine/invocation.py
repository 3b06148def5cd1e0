"""
One invocation and one protected call as values, made once and passed to every step of an execution.

No step reads options, environment or context again: what it needs is in its call. All that work has to report
goes through `Call.report` or, without a token, `Tokenless.report`.
"""

from __future__ import annotations

import os
import sys
from contextvars import ContextVar
from datetime import datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from lambda_once.core.clock import FINAL, LAST_ANSWER, Clock, Deadline
from lambda_once.core.context import INVOCATION, Span
from lambda_once.core.lifecycle import Course, Record, decide
from lambda_once.core.results import Seal
from lambda_once.core.threads import exiting
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import NO_ATTEMPT, Details, Reporter, Tally
from lambda_once.settings import FOR_QUEUES, Settings
from lambda_once.stores.contract import AcquireAnswer, Refused, WriteAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lambda_once.core.codec import Codec
    from lambda_once.core.fields import Printed
    from lambda_once.core.identity import Presented
    from lambda_once.engine.history import Guard
    from lambda_once.observability.traces import Segment

LONGEST_INVOCATION = timedelta(seconds=900)
"""Remaining time that is assumed without a Lambda context: the longest timeout of a standard function."""
NO_REQUEST_ID = "-"
"""Used as the request id if there is none."""


class Invocation(NamedTuple):
    """One Lambda invocation: its deadline, and the reporter of its events."""

    locked_by: str
    """``function/request id``"""
    context: object
    """Lambda's context; None if there is none."""
    began: datetime
    ends: datetime
    """When Lambda kills it."""
    deadline: Deadline
    """Until when to wait for the table: `LAST_ANSWER` before `ends`."""
    reporter: Reporter
    """The reporter of one `Once`; each `Once` in a process has its own."""
    tally: Tally
    request_id: str | None
    """Lambda's request id; None if there is none."""
    span: Span
    """Shared by its parts, one for each `Once`."""
    known: bool = True
    """Whether the context has a remaining time; if not, `ends` is assumed."""

    @property
    def has_request_id(self) -> bool:
        """Whether Lambda gave a request id; without one, all invocations have the same ``locked_by``."""
        return isinstance(self.request_id, str) and self.request_id not in ("", NO_REQUEST_ID)


CURRENT_INVOCATION: ContextVar[Invocation | None] = ContextVar("lambda_once_invocation", default=None)
"""The invocation in which this code was started, which may be over."""


def current_invocation() -> Invocation | None:
    """Return the invocation in which this code was started, while that lasts."""
    invocation = CURRENT_INVOCATION.get()
    return None if invocation is None or invocation.span.over else invocation


class invoked:  # noqa: N801  (a context manager, read as a word)
    """
    Set the invocation of *context*, with its remaining time and counts, for all work in the block.

    Inside an invocation with the same context the outer one continues, and metrics are flushed once, at its
    end. What was started inside one and outlives it is not in it. *unknown* is called if no context has a
    remaining time. Raises `RetryLater` while the interpreter exits: datetime fails then, from Python 3.13 on.

    A class, as `contextlib.contextmanager` sets an attribute of each exception that leaves it, which one of a
    frozen dataclass refuses.
    """

    def __init__(
        self, context: object, clock: Clock, reporter: Reporter, unknown: Callable[[], object]
    ) -> None:
        self._context = context
        self._clock = clock
        self._reporter = reporter
        self._unknown = unknown
        self._outer: Invocation | None = None
        self._own: Invocation | None = None

    def __enter__(self) -> Invocation:
        if sys.is_finalizing():
            raise exiting()
        context, outer = self._context, current_invocation()
        if outer is None or not (context is None or context is outer.context):
            invocation = invocation_of(context, self._clock, self._reporter)
        elif outer.reporter is self._reporter and not outer.tally.over:
            return outer
        else:
            invocation = outer._replace(reporter=self._reporter, tally=Tally())
        if not invocation.known:
            self._unknown()
        self._outer, self._own = outer, invocation
        CURRENT_INVOCATION.set(invocation)
        INVOCATION.set(invocation.span)
        return invocation

    def __exit__(self, *_: object) -> None:
        outer, invocation, self._own = self._outer, self._own, None
        if invocation is None:
            return
        # A block that was abandoned is closed by the garbage collector, perhaps within another invocation.
        if CURRENT_INVOCATION.get() is invocation:
            CURRENT_INVOCATION.set(outer)
            INVOCATION.set(None if outer is None else outer.span)
        if outer is None or outer.span is not invocation.span:
            invocation.span.over = True
        self._reporter.end(invocation.tally)
        invocation.tally.raise_interruption()


def invocation_of(context: object, clock: Clock, reporter: Reporter) -> Invocation:
    """Return the invocation of Lambda's *context*. Without a remaining time, 900 s are assumed."""
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
        span=Span(ends),
        known=left is not None,
    )


def _text(context: object, name: str) -> str | None:
    """Return the attribute *name* of *context* if it is text, else None: a mock returns mocks."""
    found = getattr(context, name, None)
    return found if isinstance(found, str) else None


def _remaining(context: object) -> timedelta | None:
    """Return the remaining time of *context*; None if it has none."""
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
    """How a source redelivers unfinished work, which decides whose attempt a row in progress is."""

    ANY = "any"
    """With another request id, perhaps to several invocations at once. A row may belong to any of them."""
    SAME_REQUEST = "same request"
    """
    Asynchronous invocation: Lambda's retry has the same request id. After two retries the event is dropped
    (Lambda developer guide, asynchronous invocation).
    """
    IN_ORDER = "in order"
    """
    A stream: a shard or partition has one invocation at a time, so a token in progress most likely belongs to
    an earlier try of the same batch. Later records wait in any case.
    """


class Receiver(Enum):
    """Who gets what the work returns."""

    CALLER = "caller"
    """The caller of a function: what was returned, and duplicates a value equal to it."""
    LAMBDA = "Lambda"
    """
    Lambda, whose runtime writes it after the token is complete: the same JSON for everyone (`core.written`).
    """
    NOBODY = "nobody"
    """A record's result is read by nobody, unless it is asked for."""


class Working(Protocol):
    """An attempt at work (`engine.ownership.Ownership`), as far as its events show it."""

    lease: datetime
    fence: int

    @property
    def attempt_id(self) -> str: ...
    @property
    def created(self) -> datetime: ...


class Compared(NamedTuple):
    """What the row of a token must equal, or whoever has the token now is refused."""

    fingerprint: str | None = None
    """The hash of the payload; None: it is not compared."""
    hashed: Printed | None = None
    """What the fingerprint hashes; a complete row keeps checksums of the fields in it."""
    presented: Presented | None = None
    """The credential of the request; None: it is not compared."""
    separate: bool = True
    """Whether an identity or credential separates it from other HTTP callers with the same key."""


class FromSource(NamedTuple):
    """What a source delivers beside the payload, and how it delivers again."""

    arguments: tuple[object, ...] = ()
    """Arguments of a probe, after the lapsed attempt."""
    redelivered: bool = False
    """Whether the source marks it as a redelivery; a row is likely then."""
    redelivery: Redelivery = Redelivery.ANY
    """How the source redelivers it: the redelivery of a killed attempt waits for its lease."""


class Output(NamedTuple):
    """What becomes of the value that work returns."""

    error_in: Callable[[Any], BaseException | None] = never_an_error
    """Returns the error for a returned value that is an error response (API Gateway), else None."""
    stored_of: Callable[[Any], Any] = unchanged
    """
    Returns the part of it to store: all of it, some of it, or an `Unavailable`. Never raises.

    The first caller gets the whole value; duplicates, memory and guard get this part.
    """
    receiver: Receiver = Receiver.CALLER
    """Who gets it."""


class Call(NamedTuple):
    """
    A unit of work and its token, without the work itself.

    What one source or integration needs is in the value that it is about: *compared*, *source*, *output* or
    *guard*.
    """

    name: str
    token: str
    settings: Settings
    codec: Codec
    """The codec of its results: ``codec=``, or the one for their type."""
    invocation: Invocation
    compared: Compared = Compared()
    delivery: str | None = None
    """The id of its delivery; None if the source gave none."""
    source: FromSource = FromSource()
    output: Output = Output()
    guard: Guard | None = None
    """What another layer does before the work and after it: ``history=``, or durable executions."""
    keep: timedelta = FOR_QUEUES
    """How long its outcome is kept."""

    @property
    def seal(self) -> Seal | None:
        """The seal of its outcome; None: it is not sealed."""
        if self.settings.seal is None:
            return None
        return Seal(*self.settings.seal, self.token, self.settings.seal_required)

    def seal_of(self, record: Record) -> Seal | None:
        """Return the seal to open the outcome of *record*. One given by a decision may be plain text."""
        seal = self.seal
        return seal._replace(required=False) if seal is not None and record.is_given else seal

    @property
    def consults(self) -> bool:
        """Whether a guard asks before its work and records what became of it, which blocks."""
        return self.guard is not None and self.guard.asks

    def course(self, record: Record | None, now: datetime, attempt_id: str = "") -> Course:
        """Decide what its attempt *attempt_id* may do now that *record* was read; see `decide`."""
        fingerprint, _, presented, _ = self.compared
        return decide(record, now, attempt_id, fingerprint, self.settings.rule, presented)

    def report(
        self,
        event: Event,
        whose: Working | Record | None = None,
        *,
        seconds: float | None = None,
        error: str | None = None,
        reason: str | None = None,
        differing: str | None = None,
        exception: BaseException | None = None,
        level: int | None = None,
    ) -> None:
        """
        Report *event*. *whose*: the attempt at work, or the row of another attempt that caused it.

        *exception*: one that is not raised, as a batch's; its traceback is logged. *level*: that of the line,
        in place of the event's.
        """
        invocation, reporter = self.invocation, self.invocation.reporter
        is_working = whose is not None and not isinstance(whose, Record)
        if is_working and not reporter.shows(event, level):
            reporter.count(event, invocation.tally)
            return
        attempt, other_delivery = NO_ATTEMPT, None
        if isinstance(whose, Record):
            attempt = whose.attempt_id, whose.fence, whose.locked_by, whose.created, whose.expected_completion
            other_delivery = whose.delivery
        elif whose is not None:
            attempt = whose.attempt_id, whose.fence, invocation.locked_by, whose.created, whose.lease
        details = Details.of_work(event, self, attempt, other_delivery, seconds, error, reason, differing)
        reporter.report(details, invocation.tally, exception, level)


class Tokenless(NamedTuple):
    """
    A unit of work without a token: it is refused or, by ``without_key="run"``, runs unprotected.

    Also several units in one line.
    """

    name: str
    settings: Settings
    invocation: Invocation
    delivery: str | None = None

    @property
    def token(self) -> None:
        """It has none."""

    def report(
        self,
        event: Event,
        *,
        error: str | None = None,
        reason: str | None = None,
        exception: BaseException | None = None,
    ) -> None:
        """Do what `Call.report` does."""
        details = Details.of_work(event, self, error=error, reason=reason)
        self.invocation.reporter.report(details, self.invocation.tally, exception)


def trace_answers(segment: Segment | None, answers: Sequence[AcquireAnswer | WriteAnswer]) -> None:
    """Annotate *segment* with the table's *answers*, and link it to the attempts that own refused tokens."""
    if segment is None:
        return
    segment.annotate("outcome", ",".join(sorted({type(answer).__name__ for answer in answers})))
    for answer in answers:
        if isinstance(answer, Refused) and answer.record is not None and answer.record.trace is not None:
            segment.link(answer.record.trace, answer.record.attempt_id)
