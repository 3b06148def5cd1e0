"""(e) From one record to a hundred, and from a short result to five megabytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks import deliveries
from benchmarks.figures import Timing
from benchmarks.latency import batch_work
from benchmarks.sampling import Sample, interleaved, wall
from benchmarks.sides import SIDES
from benchmarks.world import reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.recording import Events, Recording
    from benchmarks.sides import Side

BATCHES = "batches"
RESULTS = "results"


def batches(endpoint: str, counts: Sequence[int], rounds: int) -> Iterator[Timing]:
    """Time batches of *counts* new records at *endpoint*."""
    for count in counts:
        event = deliveries.batch(count)
        ours, theirs = interleaved(rounds, [batch_work(side, endpoint, event) for side in SIDES])
        yield Timing(BATCHES, f"{count}", ours, theirs)


def results(events: Events, recording: Recording, endpoint: str, rounds: int) -> Iterator[Timing]:
    """Time a function with each size of result, new and duplicate, at *endpoint*."""
    for size, orders in events.results.items():
        able = [side for side in SIDES if size not in recording.too_large[side.name]]
        for case, order in zip(("new", "duplicate"), orders, strict=True):
            samples: list[Sample] = interleaved(
                rounds, [_result(side, endpoint, size, order) for side in able]
            )
            theirs = samples[1] if len(samples) > 1 else None
            note = "" if theirs else "the table refuses the item, after the work has run"
            yield Timing(RESULTS, f"{size // 1000:,} KB, {case}", samples[0], theirs, note)


def _result(side: Side, endpoint: str, size: int, order: dict[str, Any]) -> Callable[[], float]:
    with reaching(endpoint):
        function = side.function(side.client(), deliveries.result(size))
    function(order)  # connections
    return lambda: wall(function, order)
