"""The figures of a run as values: what is measured, what is counted, and under which conditions."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.sampling import Sample


@dataclass(frozen=True, slots=True)
class Timing:
    """One case, timed on both sides."""

    part: str
    case: str
    ours: Sample
    theirs: Sample | None
    """None: the other side cannot do it, and `note` says why."""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """How many times as long Powertools takes."""
        return None if self.theirs is None else self.theirs.median / self.ours.median


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


@dataclass(frozen=True, slots=True)
class Share:
    """What a cold start is made of, beside the time that it takes as a whole."""

    case: str
    modules: int
    """How many of our own were imported."""
    ours: Sample
    """Their own time, without what they import from elsewhere."""


@dataclass(slots=True)
class Run:
    """All figures of one run."""

    conditions: dict[str, str]
    timings: list[Timing] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    shares: list[Share] = field(default_factory=list)

    def of(self, part: str) -> list[Timing]:
        return [timing for timing in self.timings if timing.part == part]
