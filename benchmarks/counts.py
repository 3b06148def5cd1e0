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
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks import callgrind, report, standin
from benchmarks.cases import prepared
from benchmarks.sampling import Sample, Timing
from benchmarks.sides import BOTH, QUIET, SAME, THEIRS
from benchmarks.world import engine, function_environment, leave_out_of_collections, reaching
from lambda_once.engine import pipeline
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PART: Final = "Instructions of an invocation, over HTTP"
MARK: Final = "counts"
SIDES: Final = {side.name: side for side in (THEIRS, SAME, *BOTH, QUIET)}
WARM, TIMES = 20, 20
WARM_BATCHES, BATCH_TIMES = 2, 4
"""Invocations before the count, in which Python specialises what runs often, and counted ones."""
_SLOWER: Final = 50
"""How many times longer everything takes under callgrind."""


def main(given: Sequence[str] | None = None) -> None:
    """Count, and print the figures and those of benchmarks/README.md, or write them there."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.counts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--docs", action="store_true", help="write the table")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.side:
        count(arguments.side, json.load(sys.stdin))
        return
    table = report.table("thousands", counts())
    print(f"{PART}\n\n{table}")
    if arguments.docs:
        report.write(report.README, MARK, table)
    else:
        page = report.README.read_text(encoding="utf-8")
        print(f"\nOn the page\n\n{report.section(page, MARK)}")


def counts() -> list[Timing]:
    """Count an invocation of each case by all sides, in thousands."""
    callgrind.provide()
    with engine() as endpoint:
        cases, rows = prepared(endpoint)
    with (
        function_environment(),
        standin.running(rows) as endpoints,
        reaching(endpoints.nearest),
        ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        totals = dict(zip(SIDES, pool.map(partial(_counted, json.dumps(cases)), SIDES), strict=True))
    return [
        Timing(
            PART,
            case,
            {side: Sample((total[case] / _times(face)[1] / 1000,)) for side, total in totals.items()},
        )
        for case, (face, _) in cases.items()
    ]


def _counted(cases: str, side: str) -> dict[str, int]:
    return callgrind.totals(["-m", "benchmarks.counts", "--side", side], cases)


def _times(face: str) -> tuple[int, int]:
    return (WARM_BATCHES, BATCH_TIMES) if face == "queue" else (WARM, TIMES)


def count(name: str, cases: Mapping[str, tuple[str, dict[str, Any]]]) -> None:
    """Invoke the handlers of the side *name* under callgrind; the endpoint is the environment's."""
    # Else a batch would be written in parts.
    pipeline.LINGER, pipeline.OLDEST = 5.0, pipeline.OLDEST * _SLOWER
    sys.setswitchinterval(sys.getswitchinterval() * _SLOWER)
    side, context = SIDES[name], lambda_context()
    with closing(side.client()) as client:
        for case, (face, event) in cases.items():
            handler, (warm, times) = getattr(side, face)(client), _times(face)
            for _ in range(warm):
                handler(event, context)
            leave_out_of_collections()
            with callgrind.counted(case):
                for _ in range(times):
                    handler(event, context)


if __name__ == "__main__":
    main()
