"""(d) What is sent to the table, and what dynoxide charges for it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from benchmarks import deliveries
from benchmarks.counting import Meter
from benchmarks.figures import Cost
from benchmarks.recording import RECORDS
from benchmarks.sides import SIDES
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from benchmarks.figures import Spent
    from benchmarks.sides import Side

RESULT = 100_000


def costs() -> list[Cost]:
    """Count, on the engine that the environment names, what each case sends and is charged for."""
    ours, theirs = (dict(_spent(side)) for side in SIDES)
    return [Cost(case, spent, theirs[case]) for case, spent in ours.items()]


def _spent(side: Side) -> Iterator[tuple[str, Spent]]:
    client = side.client()
    meter = Meter(client)
    for case, work in _cases(side, client):
        work()
        spent = meter.spent()
        if case:
            yield case, spent


def _cases(side: Side, client: Any) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return each case by its name, in their order; without one what must have gone before."""
    api, cached, queue = side.api(client), side.api(client, cache=True), side.queue(client)
    request, remembered = deliveries.request(), deliveries.request()
    yield "API event, new", partial(api, request, lambda_context())
    yield "API event, duplicate", partial(api, request, lambda_context())
    yield "", partial(cached, remembered, lambda_context())
    yield "API event, duplicate, cached", partial(cached, remembered, lambda_context())
    function, order = side.function(client, deliveries.result(RESULT)), deliveries.order()
    yield f"result of {RESULT // 1000} KB, new", partial(function, order)
    yield f"result of {RESULT // 1000} KB, duplicate", partial(function, order)
    new, more = deliveries.batch(RECORDS), deliveries.batch(RECORDS // 2)
    half = {"Records": new["Records"][: RECORDS // 2]}
    yield "", partial(queue, deliveries.batch(RECORDS), lambda_context())  # cold: it may take a request more
    yield f"{RECORDS} records, new", partial(queue, new, lambda_context())
    yield f"{RECORDS} records, sent twice", partial(queue, new, lambda_context())
    yield f"{RECORDS} records, redelivered", partial(queue, deliveries.redelivered(new), lambda_context())
    yield (
        f"{RECORDS} records, 5 new, 5 sent twice",
        partial(queue, deliveries.mixed(half, more), lambda_context()),
    )
