"""The figures as tables: on a terminal, and for docs/performance.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.table import Table

from benchmarks import cold_start, latency, processor, scaling
from benchmarks.sides import OURS, THEIRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.figures import Cost, Run, Spent, Timing
    from benchmarks.sampling import Sample

TITLES = {
    latency.PART: "Time of a batch, by the table's latency",
    processor.PART: "Processor time of an invocation, without the network",
    cold_start.PART: "Cold start: time from the first import on",
    scaling.BATCHES: "Time of a batch of new records, by their number; the table at 5 ms",
    scaling.RESULTS: "Time of a function, by the size of its result; the table at 5 ms",
}
COSTS = "Requests and capacity"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"

Line = tuple[str, ...]


def table(run: Run) -> Table:
    """Return everything as one table."""
    shown = Table("", OURS.name, THEIRS.name, "times as long", title=" · ".join(run.conditions.values()))
    for part, title in TITLES.items():
        shown.add_section()
        shown.add_row(f"[bold]{title}[/]")
        for timing in run.of(part):
            shown.add_row(*_timed(timing))
        if part == cold_start.PART:
            for line in _shared(run):
                shown.add_row(*line)
    shown.add_section()
    shown.add_row(f"[bold]{COSTS}[/]")
    for cost in run.costs:
        shown.add_row(cost.case, _in_short(cost.ours), _in_short(cost.theirs))
    return shown


def markdown(run: Run) -> str:
    """Return everything as the tables of docs/performance.md, between their marks."""
    blocks = [BEGIN, "\n".join(lined(("condition", ""), run.conditions.items()))]
    for part, title in TITLES.items():
        head = ("milliseconds: median (quartiles)", OURS.name, THEIRS.name, "times as long")
        lines = [_timed(timing) for timing in run.of(part)]
        extra = list(_shared(run)) if part == cold_start.PART else []
        blocks += [f"### {title}", "\n".join(lined(head, [*lines, *extra]))]
    columns = ("case", OURS.name, "write, read units", THEIRS.name, "write, read units")
    blocks += [f"### {COSTS}", "\n".join(lined(columns, [_counted(cost) for cost in run.costs])), END]
    return "\n\n".join(blocks)


def replaced(page: str, run: Run) -> str:
    """Return *page* with the figures of *run* between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + markdown(run) + after


def lined(head: Line, lines: Iterable[Line]) -> Iterator[str]:
    """Yield the lines of a Markdown table."""
    yield "| " + " | ".join(head) + " |"
    yield "|---" * len(head) + "|"
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def _timed(timing: Timing) -> Line:
    if timing.theirs is None or timing.ratio is None:
        return timing.case, _told(timing.ours), timing.note, ""
    return timing.case, _told(timing.ours), _told(timing.theirs), f"{timing.ratio:.1f}"


def _shared(run: Run) -> Iterator[Line]:
    for share in run.shares:
        yield f"{share.case}, of it our own {share.modules} modules", _told(share.ours), "", ""


def _told(sample: Sample) -> str:
    low, high = sample.spread
    digits = 2 if sample.median < 10 else 1  # noqa: PLR2004  (three figures are enough)
    return f"{sample.median:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


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
