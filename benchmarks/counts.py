"""
`python -m benchmarks.counts`: instructions of an invocation, which repeat where processor time varies.

callgrind counts them in a process of each side, over HTTP, with what the socket takes outside of the kernel.
Starts are not counted, nor is the table, a process of its own. --docs writes them into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from unittest.mock import patch

from rich.console import Console
from rich.table import Table

from benchmarks import callgrind, deliveries, report, standin
from benchmarks.__main__ import DOCS, NEEDED_WIDTH, PAGE, engine
from benchmarks.figures import Run, Timing
from benchmarks.floor import NAME as FLOOR
from benchmarks.floor import Floor
from benchmarks.processor import API_DUPLICATE, API_NEW, DUPLICATES, NEW, TLS
from benchmarks.recording import rows_of
from benchmarks.run import recorded
from benchmarks.sampling import Sample
from benchmarks.sides import BOTH, OURS, QUIET, SAME, THEIRS
from benchmarks.world import conditions, function_environment, leave_out_of_collections, reaching
from lambda_once.core.codec import Codec
from lambda_once.engine import pipeline
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.answers import Row

PART: Final = "instructions"
SIDES: Final = {side.name: side for side in (THEIRS, SAME, *BOTH, QUIET)}
HANDLERS: Final[dict[str, Any]] = SIDES | {FLOOR: Floor()}
UNDER_BOTH: Final = (SAME, OURS, QUIET)
"""Those with one client, made alike."""
CASES: Final = {
    API_NEW: ("api", "request"),
    API_DUPLICATE: ("api", "seen_request"),
    NEW: ("queue", "batch"),
    DUPLICATES: ("queue", "seen_batch"),
}
"""The face of a side, and the event of a run."""
FUNCTIONS: Final = {
    "function of a dict": "function_of_dict",
    "function of a dataclass": "function_of_dataclass",
}
"""Faces of our sides, counted as they are and without comparing a result with what is read back."""
NEW_ORDER, SEEN_ORDER, UNCOMPARED = ", new", ", duplicate", ", not compared"
BATCHES: Final = "queue"
WARM, TIMES = 20, 20
WARM_BATCHES, BATCH_TIMES = 2, 4
"""Invocations before the count, in which Python specialises what runs often, and counted ones."""
_SLOWER: Final = 50
"""How many times longer everything takes under callgrind."""
TITLE: Final = "Instructions of an invocation, over HTTP"
ONE_CLIENT: Final = "The same, with one client under both libraries"
LEAST: Final = "The least that an API event can take"
COMPARING: Final = "Comparing a result with what is read back"
BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"


def main(given: Sequence[str] | None = None) -> None:
    """Count, and print the figures beside those of benchmarks/README.md, or write them there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--docs", action="store_true", help=f"write the table into {PAGE.parent.name}/")
    parser.add_argument("--side", choices=HANDLERS, help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.side:
        count(arguments.side, json.load(sys.stdin))
        return
    found, page = counts(), PAGE.read_text(encoding="utf-8")
    console = Console(width=None if sys.stdout.isatty() else NEEDED_WIDTH)
    console.print(table(found.run, page))
    more = {
        ONE_CLIENT: found.with_one_client(),
        LEAST: found.beside_the_floor(),
        COMPARING: found.comparisons(),
    }
    for title, (head, *lines) in more.items():
        shown = Table(*head, title=title)
        for line in lines:
            shown.add_row(*line)
        console.print(shown)
    if arguments.docs:
        tables = {TITLE: report.timed("thousands", found.run.timings)}
        tables |= {title: "\n".join(report.lined(head, lines)) for title, (head, *lines) in more.items()}
        titled = [f"### {title}\n\n{text}" for title, text in tables.items()]
        PAGE.write_text(
            report.between(page, BEGIN, END, "\n\n".join((BEGIN, *titled, END))), encoding="utf-8"
        )
        print(f"written: {PAGE.relative_to(DOCS.parent)}")


class Counts(NamedTuple):
    """Thousands of instructions of an invocation."""

    run: Run
    """Of each case, by the sides."""
    functions: Mapping[str, Mapping[str, float]]
    """Of each case of `FUNCTIONS`, compared or not, by our sides."""
    alike: Mapping[str, Mapping[str, float]]
    """Of each case, by all sides."""
    floor: Mapping[str, float]
    """Of the API's cases, written by hand."""

    def with_one_client(self) -> list[tuple[str, ...]]:
        """Return a head, and a line for each case: theirs, ours, and ours without log lines and metrics."""
        lines: list[tuple[str, ...]] = [
            ("thousands", "Powertools", "lambda-once", "×", "without log lines and metrics", "×")
        ]
        for case, counted in self.alike.items():
            theirs, ours, quiet = (counted[side.name] for side in UNDER_BOTH)
            shares = f"{ours / theirs:.2f}", f"{quiet / theirs:.2f}"
            lines.append((case, f"{theirs:,.0f}", f"{ours:,.0f}", shares[0], f"{quiet:,.0f}", shares[1]))
        return lines

    def beside_the_floor(self) -> list[tuple[str, ...]]:
        """Return a head, and a line for each case of the API: the floor, and each side."""
        sides = [side.name for side in (*BOTH, SAME)]
        lines: list[tuple[str, ...]] = [("thousands", FLOOR, *sides)]
        for case, floor in self.floor.items():
            counted = self.alike[case]
            shown = (f"{counted[name]:,.0f} ({counted[name] / floor:.1f} ×)" for name in sides)
            lines.append((case, f"{floor:,.0f}", *shown))
        return lines

    def comparisons(self) -> list[tuple[str, ...]]:
        """Return a head, and a line for each case with the share of the comparison."""
        lines: list[tuple[str, ...]] = [("thousands", "client", "compared", "not compared", "share")]
        for case, compared in self.functions.items():
            for side in () if case.endswith(UNCOMPARED) else compared:
                one, other = compared[side], self.functions[case + UNCOMPARED][side]
                lines.append((case, side, f"{one:,.0f}", f"{other:,.0f}", f"{1 - other / one:.1%}"))
        return lines


def counts(names: Sequence[str] = tuple(SIDES)) -> Counts:
    """Count an invocation of each case by the sides *names*."""
    callgrind.provide()
    seen, new = deliveries.order(), deliveries.order()
    with engine() as endpoint:
        events, known = recorded((), endpoint)
        rows = [*known.rows, *_rows_of_functions(seen, endpoint)]
    cases = {case: (face, getattr(events, event)) for case, (face, event) in CASES.items()}
    functions = {
        f"{case}{kind}{compared}": (face, order)
        for case, face in FUNCTIONS.items()
        for kind, order in ((NEW_ORDER, new), (SEEN_ORDER, seen))
        for compared in ("", UNCOMPARED)
    }
    with (
        function_environment(),
        standin.running(rows, []) as endpoints,
        reaching(endpoints.nearest),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        counted = partial(_counted, json.dumps(cases), json.dumps(cases | functions))
        totals = dict(zip(names, pool.map(counted, names), strict=True))
        of_api = {case: face for case, face in cases.items() if face[0] != BATCHES}
        floor = _counted(json.dumps(of_api), "", FLOOR)
    run = Run(conditions())
    alike: dict[str, dict[str, float]] = {}
    for case, (face, _) in cases.items():
        alike[case] = {side: total[case] / _times(face) / 1000 for side, total in totals.items()}
        samples = {side: Sample((each,)) for side, each in alike[case].items() if side != QUIET.name}
        run.timings.append(Timing(PART, case, samples))
    ours = {side.name: totals[side.name] for side in BOTH}
    return Counts(
        run,
        {case: {side: ours[side][case] / TIMES / 1000 for side in ours} for case in functions},
        alike,
        {case: total / TIMES / 1000 for case, total in floor.items()},
    )


def _rows_of_functions(order: dict[str, Any], endpoint: str) -> list[Row]:
    """Return the rows after each function has worked *order*."""
    with function_environment(), reaching(endpoint), closing(OURS.client()) as client:
        for face in FUNCTIONS.values():
            getattr(OURS, face)(client)(order, lambda_context())
        return list(rows_of(OURS))


def _counted(cases: str, with_functions: str, name: str) -> dict[str, int]:
    given = with_functions if HANDLERS[name] in BOTH else cases
    return callgrind.totals(["-m", "benchmarks.counts", "--side", name], given)


def _times(face: str) -> int:
    return BATCH_TIMES if face == BATCHES else TIMES


def count(name: str, cases: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
    """Invoke the handlers of the side *name* under callgrind; the endpoint is the environment's."""
    pipeline.LINGER, pipeline.OLDEST = (
        5.0,
        pipeline.OLDEST * _SLOWER,
    )  # else a batch would be written in parts
    sys.setswitchinterval(sys.getswitchinterval() * _SLOWER)
    side, context = HANDLERS[name], lambda_context()
    client = side.client()
    for case, (face, event) in cases.items():
        handler = getattr(side, face)(client)
        with patch.object(Codec, "difference", _none) if case.endswith(UNCOMPARED) else nullcontext():
            for _ in range(WARM_BATCHES if face == BATCHES else WARM):
                handler(event, context)
            leave_out_of_collections()
            with callgrind.counted(case):
                for _ in range(_times(face)):
                    handler(event, context)
    client.close()


def _none(*_: object) -> None:
    """Compare nothing, in place of `Codec.difference`."""


def table(run: Run, page: str) -> Table:
    """Return the counts beside the ratios that *page* has."""
    columns = ("thousands", "×", "× on the page", "processor time over TLS on the page, ×")
    shown = Table("case", "client", *columns, title=f"{TITLE}; × as a multiple of {THEIRS.name}")
    known, timed = report.ratios(page, TITLE), report.ratios(page, report.TITLES[TLS])
    for timing in run.timings:
        shown.add_section()
        for side, sample in timing.samples.items():
            at = timing.case, side
            ratio = f"{timing.ratio(side):.2f}"
            shown.add_row(*at, f"{sample.median:,.0f}", ratio, known.get(at, ""), timed.get(at, ""))
    return shown


if __name__ == "__main__":
    main()
