"""What lambda-once may take at most, as a multiple of what Powertools takes in the same run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import cold_start, latency, processor
from benchmarks.processor import API_DUPLICATE, API_NEW, DUPLICATES, NEW
from benchmarks.sides import CRT, OURS

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
GOALS: Final = tuple(
    Goal(what, part, case, side.name, most)
    for what, part, case, *goals in (
        ("API, INIT + first invocation, CPU", _COLD, f"API: {cold_start.SUM_CPU}", 1.0, 0.48),
        ("API event over TLS, new, CPU", _TLS, API_NEW, 1.05, 0.58),
        ("API event over TLS, duplicate, CPU", _TLS, API_DUPLICATE, 1.1, 0.6),
        ("ten records over TLS, new, CPU", _TLS, NEW, 0.2, 0.14),
        ("ten records over TLS, duplicates, CPU", _TLS, DUPLICATES, 0.33, 0.19),
        ("ten new records at 5 ms, time", latency.TEN, latency.name_of("new", 5), 1 / 7.1, 1 / 8.5),
    )
    for side, most in zip((OURS, CRT), goals, strict=True)
)


def found(run: Run, goals: tuple[Goal, ...] = GOALS) -> list[Found]:
    """Return what *run* has for each of *goals* whose case it measured."""
    timings = {(each.part, each.case): each for each in run.timings}
    there = [(goal, timings[goal.part, goal.case]) for goal in goals if (goal.part, goal.case) in timings]
    ratios = [(goal, timing.ratio(goal.side)) for goal, timing in there]
    return [Found(goal, ratio) for goal, ratio in ratios if ratio is not None]
