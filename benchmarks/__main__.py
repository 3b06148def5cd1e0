"""`python -m benchmarks`: measure beside Powertools, and print tables; --docs writes them into the pages."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

from benchmarks import report, standin
from benchmarks.cases import prepared
from benchmarks.cold_start import cold_starts
from benchmarks.invocations import batch_times, processor_times
from benchmarks.world import conditions, engine, function_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.answers import Row
    from benchmarks.cases import Case
    from benchmarks.sampling import Timing


class Size(NamedTuple):
    """How often a run does everything."""

    starts: int
    cpu_rounds: int
    cpu_times: int
    """Invocations a round, where processor time is taken."""
    rounds: int
    """Of batches of ten."""


FULL: Final = Size(starts=11, cpu_rounds=21, cpu_times=10, rounds=9)
QUICK: Final = Size(starts=3, cpu_rounds=5, cpu_times=5, rounds=3)


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few rounds: orders of magnitude")
    parser.add_argument("--docs", action="store_true", help="write the tables")
    arguments = parser.parse_args()
    started = time.monotonic()

    def say(what: str) -> None:
        print(f"{time.monotonic() - started:4.0f} s  {what}", file=sys.stderr)

    say("what DynamoDB answers")
    with engine() as endpoint:
        cases, rows = prepared(endpoint)
    timings = measured(QUICK if arguments.quick else FULL, cases, rows, say)
    ratios, sections = report.ratios(timings), report.sections(conditions(), timings)
    print(f"{ratios}\n\n{sections}")
    if arguments.docs:
        report.write(report.PERFORMANCE, "ratios", ratios)
        report.write(report.README, "figures", sections)


def measured(
    size: Size, cases: Mapping[str, Case], rows: Sequence[Row], say: Callable[[str], object]
) -> list[Timing]:
    """Take all times, on a table that has *rows*. *say* is called with what is being done."""
    with function_environment(), standin.running(rows) as endpoints:
        say("cold starts")
        timings = list(cold_starts(endpoints.encrypted, size.starts))
        say("processor time")
        timings += processor_times(cases, endpoints.encrypted, size.cpu_rounds, size.cpu_times)
        say("batches of ten")
        timings += batch_times(cases, endpoints.distant, size.rounds)
    return timings


if __name__ == "__main__":
    main()
