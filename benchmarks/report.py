"""The figures as tables: on a terminal, and for docs/performance.md."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.table import Table

from benchmarks import cold_start, goals, latency, processor
from benchmarks.sides import LEAN, OURS, SAME, THEIRS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from benchmarks.figures import Cost, Run, Spent, Timing
    from benchmarks.sampling import Sample

TITLES: Final = {
    cold_start.PART: "Cold start, over TLS",
    cold_start.THROTTLED: "Cold start at an emulated 256 MB: 14.5 % of a core in the invocation, over TLS",
    processor.TLS: "Processor time of an invocation, over TLS",
    processor.HTTP: "Processor time of an invocation, over HTTP",
    processor.STUB: "Processor time of an invocation, without a network",
    latency.TEN: "Time of a batch of ten, by the table's latency",
    latency.BATCHES: "Time of a batch of new records, by their number; the table at 5 ms",
    latency.RESULTS: "Time of a function, by the size of its result; the table at 5 ms",
}
GOALS: Final = "Goals: lambda-once as a multiple of Powertools"
COSTS: Final = "Requests and capacity"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
Line = tuple[str, ...]
HEAD: Final = ("milliseconds: median (quartiles)", THEIRS.name, OURS.name, "×", "lean client", "×")
HEAD_SAME: Final = (SAME.name, "× of it")
"""Two columns more, where both sides were measured with one client."""
HEAD_GOALS: Final = ("", "client", "found", "goal", "")
HEAD_COSTS: Final = ("case", OURS.name, "write, read units", THEIRS.name, "write, read units")


def table(run: Run) -> Table:
    """Return everything as one table, the goals first."""
    shown = Table(*HEAD, *HEAD_SAME, title=" · ".join(run.conditions.values()))
    shown.add_row(f"[bold]{GOALS}[/]", "", "found", "", "goal")
    for what, client, ratio, most, reached in _goals(run):
        shown.add_row(f"{what}, {client}", "", ratio, "", most, reached)
    for part, title in TITLES.items():
        shown.add_section()
        shown.add_row(f"[bold]{title}[/]")
        for timing in run.of(part):
            shown.add_row(*_timed(timing))
    shown.add_section()
    shown.add_row(f"[bold]{COSTS}[/]")
    for cost in run.costs:
        shown.add_row(cost.case, _in_short(cost.theirs), _in_short(cost.ours))
    return shown


def markdown(run: Run) -> str:
    """Return everything as the tables of docs/performance.md, between their marks."""
    blocks = [BEGIN, f"### {GOALS}", "\n".join(lined(HEAD_GOALS, _goals(run)))]
    blocks += ["### Conditions", "\n".join(lined(("condition", ""), run.conditions.items()))]
    for part, title in TITLES.items():
        timings = run.of(part)
        head = (*HEAD, *HEAD_SAME) if any(SAME.name in each.samples for each in timings) else HEAD
        blocks += [f"### {title}", "\n".join(lined(head, map(_timed, timings)))]
    blocks += [f"### {COSTS}", "\n".join(lined(HEAD_COSTS, map(_counted, run.costs))), END]
    return "\n\n".join(blocks)


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
        client = "lean" if goal.side == LEAN.name else "botocore"
        reached = "reached" if goals.Found(goal, ratio).reached else "**missed**"
        yield goal.what, client, f"{ratio:.2f}×", f"{goal.most:.2f}×", reached


def _timed(timing: Timing) -> Line:
    samples = timing.samples
    theirs = _shown(samples[THEIRS.name]) if THEIRS.name in samples else timing.note
    line = (
        timing.case,
        theirs,
        _shown(samples[OURS.name]),
        _ratio(timing, OURS.name),
        _shown(samples[LEAN.name]),
        _ratio(timing, LEAN.name),
    )
    if SAME.name not in samples:
        return line
    return *line, _shown(samples[SAME.name]), _ratio(timing, OURS.name, SAME.name)


def _ratio(timing: Timing, side: str, to: str = THEIRS.name) -> str:
    ratio = timing.ratio(side, to)
    return "" if ratio is None else f"{ratio:.2f}"


def _shown(sample: Sample) -> str:
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
