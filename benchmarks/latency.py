"""(a) Batches and results by the distance of the table, the number of records and the size of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import deliveries
from benchmarks.figures import Timing
from benchmarks.recording import RECORDS
from benchmarks.sampling import Sample, interleaved, wall
from benchmarks.sides import TIMED, connected
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from benchmarks.recording import Events, Recording
    from benchmarks.sides import Side

    Event = dict[str, object]

TEN = "ten"
BATCHES = "batches"
RESULTS = "results"


def name_of(case: str, latency: int) -> str:
    return f"{RECORDS} records, {case}, {latency} ms"


def tens(events: Events, endpoints: Mapping[int, str], rounds: int) -> Iterator[Timing]:
    """Time batches of ten, new, duplicates and both, at each latency of *endpoints*."""
    cases = {
        "new": events.batch,
        "sent twice": events.seen_batch,
        "redelivered": deliveries.redelivered(events.seen_batch),
        "5 new, 5 sent twice": events.mixed,
    }
    for latency, endpoint in endpoints.items():
        with connected(TIMED, endpoint) as clients:
            for case, event in cases.items():
                yield Timing(TEN, name_of(case, latency), _batches(rounds, clients, event))


def batches(endpoint: str, counts: Sequence[int], rounds: int) -> Iterator[Timing]:
    """Time batches of *counts* new records at *endpoint*."""
    with connected(TIMED, endpoint) as clients:
        for count in counts:
            yield Timing(BATCHES, f"{count}", _batches(rounds, clients, deliveries.batch(count)))


def results(events: Events, recording: Recording, endpoint: str, rounds: int) -> Iterator[Timing]:
    """Time a function with each size of result, new and duplicate, at *endpoint*."""
    with connected(TIMED, endpoint) as clients:
        for size, orders in events.results.items():
            able = [side for side in TIMED if size not in recording.too_large.get(side.name, ())]
            note = "" if len(able) == len(TIMED) else "the table refuses the item, after the work has run"
            for case, order in zip(("new", "duplicate"), orders, strict=True):
                works = {side.name: _result(side, clients[side.name], size, order) for side in able}
                yield Timing(RESULTS, f"{size // 1000:,} KB, {case}", interleaved(rounds, works), note)


def _batches(rounds: int, clients: Mapping[str, Any], event: Event) -> dict[str, Sample]:
    return interleaved(rounds, {side.name: _batch(side, clients[side.name], event) for side in TIMED})


def _batch(side: Side, client: Any, event: Event) -> Callable[[], float]:
    handler = side.queue(client)
    handler(event, lambda_context())  # connections, and whatever is made at first use
    return lambda: wall(handler, event, lambda_context())


def _result(side: Side, client: Any, size: int, order: dict[str, Any]) -> Callable[[], float]:
    function = side.function(client, deliveries.result(size))
    function(order)  # connections
    return lambda: wall(function, order)
