"""How figures are taken: interleaved, several rounds, by their median and the middle half."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sample:
    """The figures of one side, round by round."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """Return the quartiles: half of all rounds lie between them."""
        if len(self.values) == 1:
            return self.values[0], self.values[0]
        low, _, high = statistics.quantiles(self.values, n=4, method="inclusive")
        return low, high


class Timing(NamedTuple):
    """One case, measured on several sides."""

    part: str
    """The heading of its table."""
    case: str
    samples: Mapping[str, Sample]
    """By the name of the side; one that was not measured is missing."""

    def ratio(self, side: str, to: str) -> float:
        """Return the median of *side* divided by that of *to*."""
        return self.samples[side].median / self.samples[to].median


def in_turns(rounds: int, works: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
    """
    Return what each of *works* returned, round by round.

    They take turns, and every other round in reverse, so that what else the machine does meets all alike.
    """
    found: dict[str, list[T]] = {side: [] for side in works}
    for number in range(rounds):
        for side in list(works)[:: 1 if number % 2 == 0 else -1]:
            gc.collect()
            found[side].append(works[side]())
    return found


def interleaved(rounds: int, works: Mapping[str, Callable[[], float]]) -> dict[str, Sample]:
    """Return a sample of each of *works*, which return the milliseconds of one go."""
    return {side: Sample(tuple(values)) for side, values in in_turns(rounds, works).items()}


def wall(work: Callable[..., Any], *args: Any) -> float:
    """Return the milliseconds that *work* took."""
    started = time.perf_counter()
    work(*args)
    return (time.perf_counter() - started) * 1000


def cpu(times: int, work: Callable[..., Any], *args: Any) -> float:
    """Return the milliseconds of processor time, of all threads together, that one of *times* calls took."""
    started = time.process_time()
    for _ in range(times):
        work(*args)
    return (time.process_time() - started) * 1000 / times
