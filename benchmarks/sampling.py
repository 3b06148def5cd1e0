"""How figures are taken: interleaved, several rounds, by their median and the middle half."""

from __future__ import annotations

import gc
import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Sample:
    """What one side took, round by round, in milliseconds."""

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


def interleaved(rounds: int, works: Sequence[Callable[[], float]]) -> list[Sample]:
    """
    Return a sample of each of *works*, which give the milliseconds of one go.

    They take turns, and every other round in reverse, so that what else the machine does meets all alike.
    """
    found: list[list[float]] = [[] for _ in works]
    for number in range(rounds):
        order = range(len(works)) if number % 2 == 0 else reversed(range(len(works)))
        for position in order:
            gc.collect()
            found[position].append(works[position]())
    return [Sample(tuple(values)) for values in found]


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
