"""The figures as tables: on a terminal, and for benchmarks/README.md."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import TYPE_CHECKING, Final

from rich.table import Table

from benchmarks import cold_start, goals, latency, processor
from benchmarks.sides import CRT, LIBRARY, OURS, SAME, THEIRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from benchmarks.figures import Cost, Run, Spent, Timing
    from benchmarks.sampling import Sample
    from benchmarks.sides import Side

TITLES: Final = {
    cold_start.PART: "Cold start, over TLS",
    cold_start.THROTTLED: "Cold start at an emulated 256 MB: 14.5 % of a core in the invocation, over TLS",
    processor.TLS: "Processor time of an invocation, over TLS",
    processor.HTTP: "Processor time of an invocation, over HTTP",
    processor.STUB: "Processor time of an invocation, without a network",
    latency.TEN: "Time of a batch of ten, by the table's latency",
}
GOALS: Final = "Goals: lambda-once as a multiple of Powertools"
COSTS: Final = "Requests and capacity"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
Line = tuple[str, ...]
SIDES: Final = (THEIRS, OURS, CRT, SAME)
"""In the order of their columns. One that a part did not measure has none there."""
RATIO, RATIO_TO_SAME = "×", "× of it"
"""Heads of a ratio to Powertools, and of that of lambda-once to the side in the column before."""
MILLISECONDS: Final = "milliseconds: median (quartiles)"
HEAD_GOALS: Final = ("", "client", "found", "goal", "")
HEAD_COSTS: Final = ("case", LIBRARY, "write, read units", THEIRS.name, "write, read units")


def table(run: Run) -> Table:
    """Return everything as one table, the goals first."""
    shown = Table(*head(MILLISECONDS, run.timings), title=" · ".join(run.conditions.values()))
    shown.add_row(f"[bold]{GOALS}[/]", "", "found", "", "goal")
    for what, client, ratio, most, reached in _goals(run):
        shown.add_row(f"{what}, {client}", "", ratio, "", most, reached)
    for part, title in TITLES.items():
        shown.add_section()
        shown.add_row(f"[bold]{title}[/]")
        for timing in run.of(part):
            shown.add_row(*_timed(timing, SIDES))
    shown.add_section()
    shown.add_row(f"[bold]{COSTS}[/]")
    for cost in run.costs:
        shown.add_row(cost.case, _in_short(cost.theirs), _in_short(cost.ours))
    return shown


def markdown(run: Run) -> str:
    """Return everything as the tables of benchmarks/README.md, between their marks."""
    blocks = [BEGIN, f"### {GOALS}", "\n".join(lined(HEAD_GOALS, _goals(run)))]
    blocks += ["### Conditions", "\n".join(lined(("condition", ""), run.conditions.items()))]
    blocks += sections(run, TITLES, MILLISECONDS)
    blocks += [f"### {COSTS}", "\n".join(lined(HEAD_COSTS, map(_counted, run.costs))), END]
    return "\n\n".join(blocks)


def sections(run: Run, titles: Mapping[str, str], unit: str) -> Iterator[str]:
    """Yield the heading and the table of each part of *titles*."""
    for part, title in titles.items():
        yield f"### {title}"
        yield timed(unit, run.of(part))


def timed(unit: str, timings: Sequence[Timing]) -> str:
    """Return *timings*, which are in *unit*, as a Markdown table of the sides that they have."""
    sides = _measured(timings)
    return "\n".join(lined(head(unit, timings), (_timed(timing, sides) for timing in timings)))


def head(unit: str, timings: Iterable[Timing]) -> Line:
    """Return the head of a table of *timings*."""
    columns = ((THEIRS.name,) if side is THEIRS else (side.name, _of(side)) for side in _measured(timings))
    return unit, *chain.from_iterable(columns)


def _of(side: Side) -> str:
    return RATIO_TO_SAME if side is SAME else RATIO


def ratios(page: str, title: str) -> dict[tuple[str, str], str]:
    """Return the ratios to Powertools that *page* has below the heading *title*, by case and side."""
    _, _, section = page.partition(f"### {title}\n")
    rows = [line.strip("| ").split(" | ") for line in section.partition("\n#")[0].splitlines() if "|" in line]
    if not rows:
        return {}
    columns = [(at, rows[0][at - 1]) for at, name in enumerate(rows[0]) if name == RATIO]
    return {(row[0], side): row[at] for row in rows[2:] for at, side in columns}


def replaced(page: str, run: Run) -> str:
    """Return *page* with the figures of *run* between its marks."""
    return between(page, BEGIN, END, markdown(run))


def between(page: str, begin: str, end: str, text: str) -> str:
    """Return *page* with *text*, which has both marks, in place of what *begin* and *end* enclose."""
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + text + after


def lined(head: Line, lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def _goals(run: Run) -> Iterator[Line]:
    for goal, ratio in goals.found(run):
        reached = "reached" if goals.Found(goal, ratio).reached else "**missed**"
        yield goal.what, goal.side, f"{ratio:.2f}×", f"{goal.most:.2f}×", reached


def _measured(timings: Iterable[Timing]) -> list[Side]:
    found = {name for timing in timings for name in timing.samples}
    return [side for side in SIDES if side.name in found]


def _timed(timing: Timing, sides: Iterable[Side]) -> Line:
    cells = [timing.case]
    for side in sides:
        sample = timing.samples.get(side.name)
        note = timing.note if side is THEIRS else ""
        cells.append(note if sample is None else _shown(sample))
        if side is SAME:
            cells.append(_ratio(timing, OURS.name, SAME.name))
        elif side is not THEIRS:
            cells.append(_ratio(timing, side.name))
    return tuple(cells)


def _ratio(timing: Timing, side: str, to: str = THEIRS.name) -> str:
    ratio = timing.ratio(side, to)
    return "" if ratio is None else f"{ratio:.2f}"


def _shown(sample: Sample) -> str:
    """Return three or more figures of the median, and the quartiles if it was taken more than once."""
    digits = 2 if sample.median < 10 else 1 if sample.median < 1000 else 0  # noqa: PLR2004  (three figures)
    median, low, high = (f"{value:,.{digits}f}" for value in (sample.median, *sample.spread))
    return median if len(sample.values) == 1 else f"{median} ({low}–{high})"


def _counted(cost: Cost) -> Line:
    return cost.case, _requests(cost.ours), _charged(cost.ours), _requests(cost.theirs), _charged(cost.theirs)


def _in_short(spent: Spent) -> str:
    return f"{len(spent.calls)} requests, {_charged(spent)} units" if spent.calls else "none"


def _requests(spent: Spent) -> str:
    counted = Counter(spent.calls)
    named = ", ".join(f"{count} {name}" for name, count in counted.items())
    return f"{len(spent.calls)}: {named}" if named else "0"


def _charged(spent: Spent) -> str:
    return f"{spent.units:g}, {spent.read_units:g}"
