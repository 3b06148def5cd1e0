"""One run: every part, on the same events, in one environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3

from benchmarks import cold_start, cost, latency, processor, recording, standin
from benchmarks.figures import Cost, Run
from benchmarks.sides import SIDES
from benchmarks.world import conditions, function_environment, reaching

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything a run does."""

    rounds: int = 9
    """Of batches of ten."""
    cpu_rounds: int = 21
    cpu_times: int = 10
    """Invocations a round, where processor time is taken."""
    starts: int = 11
    throttled: int = 7
    latencies: tuple[int, ...] = (5, 20)
    """Milliseconds, beside 0, where processor time is taken."""


FULL = Size()
QUICK = Size(
    rounds=3,
    cpu_rounds=5,
    cpu_times=5,
    starts=3,
    throttled=3,
)


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an engine was needed for."""

    events: recording.Events
    recorded: recording.Recording
    costs: list[Cost]


def prepared(engine: str) -> Prepared:
    """Make the tables on *engine*, an endpoint, record what it answers, and count what it charges for."""
    events, found = recorded((), engine)
    with function_environment(), reaching(engine):
        return Prepared(events, found, cost.costs())


def recorded(results: Sequence[int], engine: str) -> tuple[recording.Events, recording.Recording]:
    """Make the tables on *engine*, an endpoint, and record what it answers to the events of a run."""
    with function_environment(), reaching(engine):
        for side in SIDES:
            side.create_table(boto3.client("dynamodb"))  # its minute: an engine's first answer takes seconds
        events = recording.new_events(results)
        return events, recording.recorded(events)


def measured(size: Size, known: Prepared, say: Callable[[str], object]) -> Run:
    """Take all times, with what is *known* for a table. *say* is called with what is being done."""
    found = Run(conditions(), costs=known.costs)
    with function_environment(), standin.running(known.recorded.rows, size.latencies) as endpoints:
        say("cold starts")
        found.timings += cold_start.timings(endpoints, size.starts)
        found.timings += cold_start.throttled(endpoints, size.throttled)
        say("processor time")
        found.timings += processor.timings(
            known.events, known.recorded, endpoints, size.cpu_rounds, size.cpu_times
        )
        say("batches of ten")
        found.timings += latency.tens(known.events, endpoints.distant, size.rounds)
    return found
