"""One run: every part, on the same events, in one environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import cold_start, cost, latency, processor, recording, scaling, standin
from benchmarks.figures import Cost, Run
from benchmarks.sides import SIDES
from benchmarks.world import conditions, function_environment, reaching

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything a run does."""

    rounds: int = 15
    """Of batches of ten."""
    scaling_rounds: int = 5
    """Of batches and results of all sizes."""
    cpu_rounds: int = 25
    cpu_times: int = 20
    """Invocations a round, where processor time is taken."""
    starts: int = 15
    imports: int = 5
    latencies: tuple[int, ...] = (0, 5, 20)
    """Milliseconds. Batches and results are scaled at the second of them."""
    batches: tuple[int, ...] = (1, 2, 5, 10, 25, 26, 50, 100)
    results: tuple[int, ...] = (1_000, 10_000, 100_000, 350_000, 1_000_000, 5_000_000)


FULL = Size()
QUICK = Size(
    rounds=5,
    scaling_rounds=3,
    cpu_rounds=7,
    cpu_times=10,
    starts=5,
    imports=2,
    batches=(1, 10, 100),
    results=(1_000, 1_000_000),
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an engine was needed for."""

    events: recording.Events
    recorded: recording.Recording
    costs: list[Cost]


def prepared(size: Size, engine: str) -> Prepared:
    """Make the tables on *engine*, an endpoint, record what it answers, and count what it charges for."""
    with function_environment(), reaching(engine):
        for side in SIDES:
            side.create_table(side.client())
        events = recording.new_events(size.results)
        return Prepared(events, recording.recorded(events), cost.costs())


def measured(size: Size, known: Prepared, tell: Callable[[str], object]) -> Run:
    """Take all times, with what is *known* for a table. *tell* hears what is being done."""
    found = Run(conditions(), costs=known.costs)
    latencies = size.latencies
    with function_environment(), standin.running(known.recorded.rows, latencies) as endpoints:
        tell("processor time")
        with reaching(endpoints[latencies[0]]):
            found.timings += processor.timings(known.events, known.recorded, size.cpu_rounds, size.cpu_times)
        tell("batches of ten")
        found.timings += latency.timings(known.events, endpoints, size.rounds)
        apart = endpoints[latencies[1]]
        tell("batches of all sizes")
        found.timings += scaling.batches(apart, size.batches, size.scaling_rounds)
        tell("results of all sizes")
        found.timings += scaling.results(known.events, known.recorded, apart, size.scaling_rounds)
        tell("cold starts")
        found.timings += cold_start.timings(size.starts)
        found.shares += cold_start.shares(size.imports)
    return found
