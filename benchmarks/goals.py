"""What lambda-once may take at most, as a multiple of what Powertools takes in the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import cold_start, latency, processor
from benchmarks.processor import API_DUPLICATE, API_NEW, DUPLICATES, NEW
from benchmarks.sides import LEAN, OURS

if TYPE_CHECKING:
    from benchmarks.figures import Run


class Goal(NamedTuple):
    """One case, and the most that it may take."""

    what: str
    part: str
    case: str
    side: str
    most: float


class Found(NamedTuple):
    """A goal, and what a run found."""

    goal: Goal
    ratio: float

    @property
    def reached(self) -> bool:
        """Whether the ratio, to two digits as it is shown, is within the goal."""
        return round(self.ratio, 2) <= round(self.goal.most, 2)


_COLD, _TLS = cold_start.PART, processor.TLS
GOALS: Final = (
    Goal("API, first invocation, CPU", _COLD, f"API: {cold_start.FIRST_CPU}", OURS.name, 0.4),
    Goal("API, INIT + first invocation, CPU", _COLD, f"API: {cold_start.SUM_CPU}", OURS.name, 0.97),
    Goal("API, INIT + first invocation, CPU", _COLD, f"API: {cold_start.SUM_CPU}", LEAN.name, 0.33),
    Goal(
        "API, first invocation at an emulated 256 MB, time",
        cold_start.THROTTLED,
        f"API: {cold_start.FIRST_WALL}",
        OURS.name,
        0.4,
    ),
    Goal("API event over TLS, new, CPU", _TLS, API_NEW, OURS.name, 0.6),
    Goal("API event over TLS, duplicate, CPU", _TLS, API_DUPLICATE, OURS.name, 0.7),
    Goal("API event over TLS, new, CPU", _TLS, API_NEW, LEAN.name, 0.42),
    Goal("API event over TLS, duplicate, CPU", _TLS, API_DUPLICATE, LEAN.name, 0.48),
    Goal("ten records over TLS, new, CPU", _TLS, NEW, OURS.name, 0.18),
    Goal("ten records over TLS, duplicates, CPU", _TLS, DUPLICATES, OURS.name, 0.25),
    Goal("ten records over TLS, new, CPU", _TLS, NEW, LEAN.name, 0.14),
    Goal("ten records over TLS, duplicates, CPU", _TLS, DUPLICATES, LEAN.name, 0.17),
    Goal("ten new records at 5 ms, time", latency.TEN, latency.name_of("new", 5), OURS.name, 1 / 9),
    Goal("API, peak memory", _COLD, f"API: {cold_start.MEMORY}", LEAN.name, 0.6),
)


def found(run: Run, goals: tuple[Goal, ...] = GOALS) -> list[Found]:
    """Return what *run* has for each of *goals* whose case it measured."""
    timings = {(each.part, each.case): each for each in run.timings}
    there = [(goal, timings[goal.part, goal.case]) for goal in goals if (goal.part, goal.case) in timings]
    ratios = [(goal, timing.ratio(goal.side)) for goal, timing in there]
    return [Found(goal, ratio) for goal, ratio in ratios if ratio is not None]
