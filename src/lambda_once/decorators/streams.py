"""
`once.kinesis` and `once.dynamodb_stream`: handlers of records whose order counts.

A few records are acquired ahead, for a failure releases them all, and the whole batch is delivered again.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.decorators.batches import Records
from lambda_once.decorators.runtime import handler_like
from lambda_once.engine.invocation import Redelivery
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.sources.records import failures
from lambda_once.sources.unit import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.options import Settings
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.invocation import Invocation
    from lambda_once.engine.jobs import Job
    from lambda_once.errors import GiveUp
    from lambda_once.sources.records import EventRecord, Identifier, RecordSource

MOST_AHEAD: Final = 25
"""Records that are acquired ahead: what one BatchExecuteStatement takes."""


class FirstFailure(NamedTuple):
    """The first failure of an order; nothing behind it was started."""

    id: Identifier
    error: BaseException


def stream_handler(
    source: RecordSource, runtime: Runtime, function: Callable[..., Any], settings: Settings
) -> Callable[..., Any]:
    """
    Return the Lambda handler that runs *function* for each record of *source*, in order.

    It raises the first error or, under ``report_failures``, returns the first failure of each order.
    """
    stream = Stream(source, runtime, function, settings)

    def handle(event: Any, context: Any) -> Any:
        failed = stream.run(event, context)
        if settings.report_failures:
            return failures(failure.id for failure in failed)
        for failure in failed:
            raise failure.error
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

    def run(self, event: Any, context: Any) -> list[FirstFailure]:
        """Run the function for the records of *event* up to the first failure of each order; return these."""
        waiting = {str(n): deque(raw) for n, raw in enumerate(self.records.source.orders(event))}
        failed: dict[str, FirstFailure] = {}
        with self.records.runtime.invocation(context) as invocation:
            while window := _next(waiting):
                failed |= self._window(window, invocation, context)
                waiting = {order: raw for order, raw in waiting.items() if order not in failed}
        return [failed[order] for order in sorted(failed, key=int)]

    def _window(
        self, window: list[tuple[str, object]], invocation: Invocation, context: Any
    ) -> dict[str, FirstFailure]:
        """Run the function for *window*, pairs of an order and a raw record; return the first failures."""
        orders = [order for order, _ in window]
        records = [self._placed(order, self.records.source.read(raw)) for order, raw in window]
        jobs = self.records.jobs(records, invocation, orders)
        self.records.work(jobs, context, self._parking(records, jobs, invocation))
        failed: dict[str, FirstFailure] = {}
        for order, record, job in zip(orders, records, jobs, strict=True):
            if job.error is not None:
                failed.setdefault(order, FirstFailure(record.id, job.error))
        return failed

    def _placed(self, order: str, record: EventRecord) -> EventRecord:
        """Return *record* in the group that runs one after the other: its own if work is concurrent."""
        if self._is_concurrent and record.group is not None:
            return record._replace(group=f"{order}/{record.group}")
        return record._replace(group=order)

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


def _next(waiting: dict[str, deque[object]]) -> list[tuple[str, object]]:
    """Take the next records, `MOST_AHEAD` at most, from the orders in turn."""
    window: list[tuple[str, object]] = []
    while len(window) < MOST_AHEAD:
        live = [(order, raw) for order, raw in waiting.items() if raw]
        if not live:
            break
        window += [(order, raw.popleft()) for order, raw in live[: MOST_AHEAD - len(window)]]
    return window
