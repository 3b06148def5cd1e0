"""The figures of a run as values: what is measured, what is counted, and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchmarks.sampling import Sample
from benchmarks.sides import THEIRS


@dataclass(frozen=True, slots=True)
class Timing:
    """One case, measured on several sides."""

    part: str
    case: str
    samples: Mapping[str, Sample]
    """By the name of the side. A side that cannot do it is missing, and `note` says why."""
    note: str = ""

    def ratio(self, side: str, to: str = THEIRS.name) -> float | None:
        """Return the median of *side* divided by that of *to*; None where either is missing."""
        if side not in self.samples or to not in self.samples:
            return None
        return self.samples[side].median / self.samples[to].median


@dataclass(frozen=True, slots=True)
class Spent:
    """What one invocation sent to the table and was charged for."""

    calls: tuple[str, ...]
    """The operations in the order in which they were sent."""
    read_units: float
    write_units: float
    refused_units: float
    """
    Write units of conditional writes that were refused, which no answer names.

    They are charged by the size of the row that is there (DynamoDB developer guide, capacity consumption).
    """
    index_units: float = 0.0
    """Those of `write_units` that went to a secondary index."""

    @property
    def units(self) -> float:
        """Return the write units, those of refused writes included."""
        return self.write_units + self.refused_units


@dataclass(frozen=True, slots=True)
class Cost:
    """One case, counted on both sides."""

    case: str
    ours: Spent
    theirs: Spent


@dataclass(slots=True)
class Run:
    """All figures of one run."""

    conditions: dict[str, str]
    timings: list[Timing] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)

    def of(self, part: str) -> list[Timing]:
        return [timing for timing in self.timings if timing.part == part]

    def timing(self, part: str, case: str) -> Timing:
        """Return the one timing of *case* in *part*."""
        (found,) = (timing for timing in self.of(part) if timing.case == case)
        return found
