"""
What the ordered sources share: kinesis, dynamodb_stream and kafka.

The rule: nothing behind a failure is started, in its sequence (a shard, a partition). So the batch goes
through `records.Records` in windows of `MOST_AHEAD` records, taken from the sequences in turn: a failure
releases all that was acquired ahead, and the whole batch is delivered again. Within a sequence records run
one after the other; async work with ``concurrency=`` keeps the order of each group alone (`Delivered.group`).

What we're not happy with: under ``report_failures`` the response names one record a sequence, and Lambda
delivers all behind it again, also those that are done. They answer from their tokens.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.decorators.handlers import handler_like
from lambda_once.engine.invocation import Redelivery
from lambda_once.engine.lanes import Bad, Job
from lambda_once.observability.events import Event
from lambda_once.sources.envelopes import BadData, text_at
from lambda_once.sources.records import Raw, Records, RecordSource, failures, pipe_response

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.core.unit import Delivered, RecordId, Unit
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.invocation import Invocation
    from lambda_once.errors import GiveUp
    from lambda_once.settings import Settings

MOST_AHEAD: Final = 25
"""Records that are acquired ahead: what one BatchExecuteStatement takes."""


def in_stream(record: Delivered, raw: Raw) -> tuple[str, str]:
    """Return the eventID of *raw*, a record of a stream, and the ARN that it is unique within."""
    if record.id is None:
        raise BadData("has no sequence number")
    event_id, arn = text_at(raw, "eventID"), text_at(raw, "eventSourceARN")
    if event_id is None or arn is None:
        raise BadData("has no eventID or no eventSourceARN")
    return event_id, arn


class Remaining(NamedTuple):
    """A record that failed, or was skipped behind a failure."""

    sequence: int
    """The position of its sequence in the event."""
    id: RecordId
    piped_id: str | None
    error: BaseException | None
    """None: it was not even read."""


def stream_handler(
    source: RecordSource, runtime: Runtime, function: Callable[..., Any], settings: Settings
) -> Callable[..., Any]:
    """
    Return the Lambda handler that runs *function* for each record of *source*, in order.

    It raises the first error or, under ``report_failures``, returns the first failure of each sequence.
    EventBridge Pipes gets all that is remaining.
    """
    stream = Stream(source, runtime, function, settings)

    def handle(event: Any, context: Any) -> Any:
        remaining = stream.run(event, context)
        if isinstance(event, list):
            return pipe_response([(each.piped_id, each.error) for each in remaining])
        first = {each.sequence: each for each in reversed(remaining)}
        if settings.report_failures:
            return failures(first[sequence].id for sequence in sorted(first))
        for sequence in sorted(first):
            if (error := first[sequence].error) is not None:
                raise error
        return None

    return handler_like(function, handle, stream.records)


class Stream:
    """The ordered records of one decorated function."""

    def __init__(
        self, source: RecordSource, runtime: Runtime, function: Callable[..., Any], settings: Settings
    ) -> None:
        self.records = Records(source, runtime, function, settings, Redelivery.IN_ORDER)
        self._is_concurrent = self.records.is_async and settings.concurrency > 1
        self._on_give_up = settings.on_give_up
        self._doubt = source.doubt

    def run(self, event: Any, context: Any) -> list[Remaining]:
        """Run the function up to the first failure of each sequence; return the failures and the rest."""
        waiting = OrderedDict(enumerate(map(deque, self.records.source.sequences(event))))
        remaining: list[Remaining] = []
        with self.records.runtime.invocation(context) as invocation:
            while window := _next(waiting):
                self._look_at([raw for _, raw in window])
                found = self._window(window, invocation, context)
                for sequence in {each.sequence for each in found}:
                    found += [self._remaining(sequence, None, raw) for raw in waiting.pop(sequence, ())]
                remaining += found
        return remaining

    def _look_at(self, raws: list[object]) -> None:
        """Log what the source doubts in *raws*, the first records of the function, and ask it no more."""
        doubt, self._doubt = self._doubt, None  # read once: another thread may take it first
        if doubt is not None and (reason := doubt(raws)) is not None:
            reporter = self.records.runtime.reporter
            reporter.warn_once(Event.FRAMED_VALUE, reason, self.records.identifier, of=self)

    def _window(
        self, window: list[tuple[int, object]], invocation: Invocation, context: Any
    ) -> list[Remaining]:
        """Run the function for *window*, pairs of a sequence and a raw record; return what is remaining."""
        units = [self.records.source.unit(raw) for _, raw in window]
        places = []
        for (number, _), unit in zip(window, units, strict=True):
            sequence, group = str(number), unit.record.group
            places.append((group if self._is_concurrent and group is not None else sequence, sequence))
        park = (
            None if self._on_give_up is None else partial(self._parked, self._on_give_up, invocation, units)
        )
        jobs = self.records.work(units, places, invocation, context, park)
        return [
            self._remaining(sequence, unit.record.id, raw, job.error)
            for (sequence, raw), unit, job in zip(window, units, jobs, strict=True)
            if job.error is not None
        ]

    def _remaining(
        self, sequence: int, id_: RecordId, raw: object, error: BaseException | None = None
    ) -> Remaining:
        field = self.records.source.piped_id
        return Remaining(sequence, id_, None if field is None else text_at(raw, field), error)

    def _parked(
        self,
        on_give_up: Callable[[Any, GiveUp], object],
        invocation: Invocation,
        units: list[Unit],
        job: Job,
        error: GiveUp,
    ) -> None:
        """Call *on_give_up* with the first of *units* of *job*; if it returns, the sequence goes on."""
        record, work = units[job.place.position].record, job.work
        if isinstance(work, Bad):
            work = self.records.identifier.tokenless(invocation, record.delivery)
        try:
            on_give_up(record.argument, error)
        except Exception as raised:
            kind = type(raised).__name__
            work.report(Event.RAISED, error=kind, reason="on_give_up raised", exception=raised)
            raise
        work.report(Event.GIVEN_UP, error=type(error).__name__)


def _next(waiting: OrderedDict[int, deque[object]]) -> list[tuple[int, object]]:
    """Take the next records, `MOST_AHEAD` at most, from the sequences in turn; empty ones go."""
    window: list[tuple[int, object]] = []
    while waiting and len(window) < MOST_AHEAD:
        for sequence, raws in [*islice(waiting.items(), MOST_AHEAD - len(window))]:
            if raws:
                window.append((sequence, raws.popleft()))
            if not raws:
                del waiting[sequence]
    return window
