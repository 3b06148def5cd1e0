"""
`once.kinesis`, `once.dynamodb_stream` and `once.kafka`: handlers of ordered records.

A few records are acquired ahead, for a failure releases them all, and the whole batch is delivered again.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.unit import Malformed
from lambda_once.decorators.handlers import handler_like
from lambda_once.decorators.runtime import Runtime
from lambda_once.engine.invocation import Invocation, Redelivery
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.sources.batches import Records, pipe_response
from lambda_once.sources.records import EventRecord, RecordId, RecordSource, failures, text_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.engine.batch import Job
    from lambda_once.errors import GiveUp
    from lambda_once.settings import Settings

MOST_AHEAD: Final = 25
"""Records that are acquired ahead: what one BatchExecuteStatement takes."""


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

    def run(self, event: Any, context: Any) -> list[Remaining]:
        """Run the function up to the first failure of each sequence; return the failures and the rest."""
        waiting = OrderedDict(enumerate(map(deque, self.records.source.sequences(event))))
        remaining: list[Remaining] = []
        with self.records.runtime.invocation(context) as invocation:
            while window := _next(waiting):
                found = self._window(window, invocation, context)
                for sequence in {each.sequence for each in found}:
                    found += [self._remaining(sequence, None, raw) for raw in waiting.pop(sequence, ())]
                remaining += found
        return remaining

    def _window(
        self, window: list[tuple[int, object]], invocation: Invocation, context: Any
    ) -> list[Remaining]:
        """Run the function for *window*, pairs of a sequence and a raw record; return what is remaining."""
        sequences = [str(sequence) for sequence, _ in window]
        records = [self._placed(str(sequence), self.records.source.read(raw)) for sequence, raw in window]
        jobs = self.records.jobs(records, invocation, sequences)
        self.records.work(jobs, context, self._parking(records, jobs, invocation))
        return [
            self._remaining(sequence, record.id, raw, job.error)
            for (sequence, raw), record, job in zip(window, records, jobs, strict=True)
            if job.error is not None
        ]

    def _remaining(
        self, sequence: int, id_: RecordId, raw: object, error: BaseException | None = None
    ) -> Remaining:
        field = self.records.source.piped_id
        return Remaining(sequence, id_, None if field is None else text_at(raw, field), error)

    def _placed(self, sequence: str, record: EventRecord) -> EventRecord:
        """Return *record* in the group that runs one after the other: its own if work is concurrent."""
        own = self._is_concurrent and record.group is not None
        return record if own else record._replace(group=sequence)

    def _parking(
        self, records: list[EventRecord], jobs: list[Job], invocation: Invocation
    ) -> Callable[[Job, GiveUp], object] | None:
        """Return what calls ``on_give_up`` with the record of a job; None without that option."""
        park, reporter = self._on_give_up, invocation.reporter
        if park is None:
            return None
        firsts = {id(job): record for job, record in zip(reversed(jobs), reversed(records), strict=True)}

        def given_up(job: Job, error: GiveUp) -> None:
            record = firsts[id(job)]
            known = Details(
                Event.GIVEN_UP,
                None if job.call is None else job.call.token,
                name=self.records.identifier.name,
                delivery=record.unit.id if isinstance(record.unit, Malformed) else record.unit.delivery,
                error=type(error).__name__,
            )
            try:
                park(record.record, error)
            except Exception as raised:
                failed = known._replace(event=Event.RAISED, reason="on_give_up raised")
                reporter.report(failed._replace(error=type(raised).__name__), invocation.tally, raised)
                raise
            reporter.report(known, invocation.tally)

        return given_up


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
