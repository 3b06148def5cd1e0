"""The figures as Markdown tables, and the marks on a page between which a program writes them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import cases, cold_start, invocations, standin
from benchmarks.sides import CRT, OURS, QUIET, SAME, THEIRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from benchmarks.sampling import Sample, Timing

    Line = Sequence[str]

ROOT: Final = Path(__file__).parents[1]
README: Final = ROOT / "benchmarks" / "README.md"
PERFORMANCE: Final = ROOT / "docs" / "performance.md"
MILLISECONDS: Final = "milliseconds: median (quartiles)"


class Ratio(NamedTuple):
    """A column: one side's median divided by that of another."""

    head: str
    of: str
    to: str


COLUMNS: Final[tuple[str | Ratio, ...]] = (
    THEIRS.name,
    *(OURS.name, Ratio("×", OURS.name, THEIRS.name)),
    *(CRT.name, Ratio("×", CRT.name, THEIRS.name)),
    *(SAME.name, Ratio("boto3 × of it", OURS.name, SAME.name)),
    *(QUIET.name, Ratio("× of our client's", QUIET.name, SAME.name)),
)
"""What a table has of the sides that it measured."""
RATIOS: Final = {
    "API event over TLS, new, CPU": (invocations.CPU, cases.API_NEW),
    "API event over TLS, duplicate, CPU": (invocations.CPU, cases.API_DUPLICATE),
    "ten records over TLS, new, CPU": (invocations.CPU, cases.NEW),
    "ten records over TLS, duplicates, CPU": (invocations.CPU, cases.DUPLICATES),
    f"ten new records at {standin.LATENCY} ms, time": (invocations.TIME, cases.NEW),
    "API, INIT + first invocation, CPU": (cold_start.PART, cold_start.SUM_CPU),
}
"""The rows of docs/performance.md: part and case."""


def sections(conditions: Mapping[str, str], timings: Sequence[Timing]) -> str:
    """Return the conditions of a run, and a table for each part of *timings*."""
    blocks = ["### Conditions", lined(("condition", ""), conditions.items())]
    for part in dict.fromkeys(timing.part for timing in timings):
        blocks += [f"### {part}", table(MILLISECONDS, [each for each in timings if each.part == part])]
    return "\n\n".join(blocks)


def table(unit: str, timings: Sequence[Timing]) -> str:
    """Return *timings*, which are in *unit*, as a table of the sides that they have."""
    measured = {side for timing in timings for side in timing.samples}
    columns = [
        each
        for each in COLUMNS
        if measured.issuperset({each} if isinstance(each, str) else {each.of, each.to})
    ]
    heads = [each if isinstance(each, str) else each.head for each in columns]
    return lined(
        (unit, *heads), ([each.case, *(_cell(each, column) for column in columns)] for each in timings)
    )


def ratios(timings: Iterable[Timing]) -> str:
    """Return the table of docs/performance.md: what lambda-once takes of what Powertools takes."""
    by_case = {(timing.part, timing.case): timing for timing in timings}
    columns = ((OURS, THEIRS), (OURS, SAME), (CRT, THEIRS))
    lines = (
        (name, *(_multiple(by_case[case], side.name, to.name) for side, to in columns))
        for name, case in RATIOS.items()
    )
    return lined((f"of {THEIRS.name}'", OURS.name, f"{OURS.name} under both", CRT.name), lines)


def lined(head: Line, lines: Iterable[Line]) -> str:
    """Return a Markdown table."""
    rows = (" | ".join(line) for line in lines)
    return "\n".join([f"| {' | '.join(head)} |", "|---" * len(head) + "|", *(f"| {row} |" for row in rows)])


def section(page: str, name: str) -> str:
    """Return what *page* has between the marks of *name*."""
    return _parts(page, name)[1].strip()


def replaced(page: str, name: str, text: str) -> str:
    """Return *page* with *text* between the marks of *name*. Raises ValueError where it has not each once."""
    before, _, after = _parts(page, name)
    return f"{before}\n\n{text}\n\n{after}"


def write(path: Path, name: str, text: str) -> None:
    """Write *text* between the marks of *name* on the page *path*."""
    path.write_text(replaced(path.read_text(encoding="utf-8"), name, text), encoding="utf-8")
    print(f"written: {path.relative_to(ROOT)}")


def _parts(page: str, name: str) -> tuple[str, str, str]:
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before, rest = page.split(begin)
    text, after = rest.split(end)
    return before + begin, text, end + after


def _cell(timing: Timing, column: str | Ratio) -> str:
    if isinstance(column, Ratio):
        return f"{timing.ratio(column.of, column.to):.2f}"
    return _shown(timing.samples[column])


def _multiple(timing: Timing, side: str, to: str) -> str:
    is_there = {side, to} <= timing.samples.keys()
    return f"{timing.ratio(side, to):.2f}×" if is_there else "–"


def _shown(sample: Sample) -> str:
    """Return three or more figures of the median, and the quartiles if it was taken more than once."""
    digits = 2 if sample.median < 10 else 1 if sample.median < 1000 else 0  # noqa: PLR2004  (three figures)
    median, low, high = (f"{value:,.{digits}f}" for value in (sample.median, *sample.spread))
    return median if len(sample.values) == 1 else f"{median} ({low}–{high})"
