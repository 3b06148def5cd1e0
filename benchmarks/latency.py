"""(a) Batches of ten, by the distance of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import deliveries
from benchmarks.figures import Timing
from benchmarks.recording import RECORDS
from benchmarks.sampling import Sample, interleaved, wall
from benchmarks.sides import TIMED, connected
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.recording import Events
    from benchmarks.sides import Side

    Event = dict[str, object]

TEN = "ten"


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


def _batches(rounds: int, clients: Mapping[str, Any], event: Event) -> dict[str, Sample]:
    return interleaved(rounds, {side.name: _batch(side, clients[side.name], event) for side in TIMED})


def _batch(side: Side, client: Any, event: Event) -> Callable[[], float]:
    handler = side.queue(client)
    handler(event, lambda_context())  # connections, and whatever is made at first use
    return lambda: wall(handler, event, lambda_context())
