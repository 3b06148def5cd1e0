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
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks import callgrind, report, standin
from benchmarks.__main__ import DOCS, NEEDED_WIDTH, PAGE, engine
from benchmarks.figures import Run, Timing
from benchmarks.processor import API_DUPLICATE, API_NEW, DUPLICATES, NEW, TLS
from benchmarks.run import recorded
from benchmarks.sampling import Sample
from benchmarks.sides import ALONE, LEAN, OURS, SAME, THEIRS
from benchmarks.world import conditions, function_environment, leave_out_of_collections, reaching
from lambda_once.engine import pipeline
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PART: Final = "instructions"
SIDES: Final = {side.name: side for side in (THEIRS, SAME, ALONE, OURS, LEAN)}
CASES: Final = {
    API_NEW: ("api", "request"),
    API_DUPLICATE: ("api", "seen_request"),
    NEW: ("queue", "batch"),
    DUPLICATES: ("queue", "seen_batch"),
}
"""The face of a side, and the event of a run."""
WARM, TIMES = {"api": 20, "queue": 2}, {"api": 20, "queue": 4}
"""Invocations before the count, in which Python specialises what runs often, and counted ones."""
_SLOWER: Final = 50
"""How many times longer everything takes under callgrind."""
TITLE: Final = "Instructions of an invocation, over HTTP"
BEGIN, END = "<!-- counts: begin -->", "<!-- counts: end -->"


def main(given: Sequence[str] | None = None) -> None:
    """Count, and print the figures beside those of benchmarks/README.md, or write them there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--docs", action="store_true", help=f"write the table into {PAGE.parent.name}/")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.side:
        count(arguments.side, json.load(sys.stdin))
        return
    found, page = counts(), PAGE.read_text(encoding="utf-8")
    Console(width=None if sys.stdout.isatty() else NEEDED_WIDTH).print(table(found, page))
    if arguments.docs:
        blocks = BEGIN, f"### {TITLE}", report.timed("thousands", found.timings), END
        PAGE.write_text(report.between(page, BEGIN, END, "\n\n".join(blocks)), encoding="utf-8")
        print(f"written: {PAGE.relative_to(DOCS.parent)}")


def counts(names: Sequence[str] = tuple(SIDES)) -> Run:
    """Return thousands of instructions of an invocation of each case, by the sides *names*."""
    callgrind.provide()
    with engine() as endpoint:
        events, known = recorded((), endpoint)
    cases = {case: (face, getattr(events, event)) for case, (face, event) in CASES.items()}
    with (
        function_environment(),
        standin.running(known.rows, []) as endpoints,
        reaching(endpoints.nearest),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        totals = dict(zip(names, pool.map(partial(_counted, json.dumps(cases)), names), strict=True))
    run = Run(conditions())
    for case, (face, _) in cases.items():
        samples = {side: Sample((total[case] / TIMES[face] / 1000,)) for side, total in totals.items()}
        run.timings.append(Timing(PART, case, samples))
    return run


def _counted(cases: str, name: str) -> dict[str, int]:
    return callgrind.totals(["-m", "benchmarks.counts", "--side", name], cases)


def count(name: str, cases: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
    """Invoke the handlers of the side *name* under callgrind; the endpoint is the environment's."""
    pipeline.LINGER, pipeline.OLDEST = (
        5.0,
        pipeline.OLDEST * _SLOWER,
    )  # else a batch would be written in parts
    sys.setswitchinterval(sys.getswitchinterval() * _SLOWER)
    side, context = SIDES[name], lambda_context()
    client = side.client()
    for case, (face, event) in cases.items():
        handler = getattr(side, face)(client)
        for _ in range(WARM[face]):
            handler(event, context)
        leave_out_of_collections()
        with callgrind.counted(case):
            for _ in range(TIMES[face]):
                handler(event, context)
    client.close()


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
