"""(a) A batch of ten, at several distances from the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks import deliveries
from benchmarks.figures import Timing
from benchmarks.recording import RECORDS
from benchmarks.sampling import interleaved, wall
from benchmarks.sides import SIDES
from benchmarks.world import reaching
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from benchmarks.recording import Events
    from benchmarks.sides import Side

    Event = dict[str, object]

PART = "latency"


def timings(events: Events, endpoints: Mapping[int, str], rounds: int) -> Iterator[Timing]:
    """Time batches of new orders, of duplicates and of both, at each latency of *endpoints*."""
    cases = {
        "new": events.batch,
        "sent twice": events.seen_batch,
        "redelivered": deliveries.redelivered(events.seen_batch),
        "5 new, 5 sent twice": events.mixed,
    }
    for latency, endpoint in endpoints.items():
        for case, event in cases.items():
            ours, theirs = interleaved(rounds, [batch_work(side, endpoint, event) for side in SIDES])
            yield Timing(PART, f"{RECORDS} records, {case}, {latency} ms", ours, theirs)


def batch_work(side: Side, endpoint: str, event: Event) -> Callable[[], float]:
    """Return what gives the milliseconds in which *side* works *event* at *endpoint*."""
    with reaching(endpoint):
        handler = side.queue(side.client())
    handler(event, lambda_context())  # connections, and whatever is made at first use
    return lambda: wall(handler, event, lambda_context())
