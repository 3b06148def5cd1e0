"""
`python -m benchmarks.sizes`: batches of up to 10,000 records, results of up to 5 MB, and memory that is kept.

The table is the stand-in: at once where processor time is taken, and at 5 ms where time is. --docs writes the
tables into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from benchmarks import deliveries, report, standin
from benchmarks.__main__ import DOCS, PAGE, engine
from benchmarks.figures import Run, Timing
from benchmarks.run import recorded
from benchmarks.sampling import Sample, in_turns, interleaved
from benchmarks.sides import BOTH, THEIRS, TIMED, connected
from benchmarks.world import conditions, function_environment, reaching
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.recording import Events, Recording
    from benchmarks.sides import Side
    from benchmarks.standin import Endpoints

BATCHES, RECORDS, RESULTS, RESULTS_CPU = "batches", "records", "results", "results, CPU"
TITLES: Final = {
    BATCHES: "Time of a batch of new records, by their number; the table at 5 ms",
    RECORDS: "Processor time of one new record, by the number of records, over HTTP",
    RESULTS: "Time of a function, by the size of its result; the table at 5 ms",
    RESULTS_CPU: "Processor time of a function, by the size of its result, over HTTP",
}
MEMORY: Final = "What is kept after many invocations, over HTTP"
MEMORY_HEAD: Final = ("", "client", "invocations", "objects more", "resident memory more, KB", "of MB")
BEGIN, END = "<!-- sizes: begin -->", "<!-- sizes: end -->"
LATENCY = 5
"""Milliseconds."""
REFUSED = "the table refuses the item, after the work has run"
UNMEASURED = "not measured"
_LONG = 900_000
"""Milliseconds that an invocation has at most: 10,000 records take seconds."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """What is measured, and how often."""

    rounds: int = 5
    batches: tuple[int, ...] = (1, 2, 10, 25, 100)
    records: tuple[int, ...] = (10, 100, 1_000, 10_000)
    theirs: int = 1_000
    """The most records that Powertools gets: it takes seconds for as many."""
    results: tuple[int, ...] = (1_000, 10_000, 100_000, 1_000_000, 5_000_000)
    invocations: int = 10_000


FULL = Sizes()
GROUPS: Final[dict[str, Callable[[int], Sequence[str] | str | None]]] = {
    "": lambda _: None,
    ", ordered, one group": lambda _: "a",
    ", ordered, a group each": lambda count: [f"g{number}" for number in range(count)],
}
"""The groups of a FIFO queue, by the number of records; None: the queue is a standard one."""
KEPT_BY: Final = {side.name: side for side in BOTH}
FACES: Final[dict[str, tuple[str, Callable[[], dict[str, Any]]]]] = {
    "API event": ("api", deliveries.request),
    "batch of two": ("queue", lambda: deliveries.batch(2)),
}


def main(given: Sequence[str] | None = None) -> None:
    """Print the tables, or write them into benchmarks/README.md."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sizes",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--docs", action="store_true", help=f"write the tables into {PAGE.parent.name}/")
    parser.add_argument("--kept", nargs=3, metavar=("SIDE", "CASE", "COUNT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args(given)
    if arguments.kept:
        side, case, count = arguments.kept
        print(json.dumps(kept(KEPT_BY[side], case, int(count))), flush=True)
        return
    text = measured(FULL)
    if not arguments.docs:
        print(text)
        return
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(report.between(page, BEGIN, END, f"{BEGIN}\n\n{text}\n\n{END}"), encoding="utf-8")
    print(f"written: {PAGE.relative_to(DOCS.parent)}")


def measured(sizes: Sizes) -> str:
    """Return all tables."""
    with engine() as endpoint:
        events, known = recorded(sizes.results, endpoint)
    with function_environment(), standin.running(known.rows, [LATENCY]) as endpoints:
        run = Run(conditions(), list(timings(sizes, events, known, endpoints)))
        with reaching(endpoints.nearest):
            lines = memory(sizes.invocations)
    memory_table = "\n".join(report.lined(MEMORY_HEAD, lines))
    return "\n\n".join([*report.sections(run, TITLES, report.MILLISECONDS), f"### {MEMORY}", memory_table])


def timings(sizes: Sizes, events: Events, known: Recording, endpoints: Endpoints) -> Iterator[Timing]:
    """Measure batches and results of each size."""
    with connected(TIMED, endpoints.distant[LATENCY]) as clients:
        for count in sizes.batches:
            yield Timing(BATCHES, f"{count}", _batches(sizes.rounds, clients, count, None, TIMED, wall=True))
    with connected(TIMED, endpoints.nearest) as clients:
        for ordered, groups in GROUPS.items():
            for count in sizes.records:
                sides = TIMED if not ordered and count <= sizes.theirs else BOTH
                rounds = min(sizes.rounds, max(2, 10_000 // count))
                samples = _batches(rounds, clients, count, groups(count), sides, wall=False)
                note = "" if sides is TIMED else UNMEASURED
                yield Timing(RECORDS, f"{count:,} records{ordered}", samples, note)
    for part, endpoint in ((RESULTS, endpoints.distant[LATENCY]), (RESULTS_CPU, endpoints.nearest)):
        with connected(TIMED, endpoint) as clients:
            yield from _results(part, sizes, events, known, clients)


def _batches(
    rounds: int,
    clients: dict[str, Any],
    count: int,
    groups: Sequence[str] | str | None,
    sides: Sequence[Side],
    *,
    wall: bool,
) -> dict[str, Sample]:
    """Return milliseconds of a batch by the clock, or of one of its records by the processor's."""
    event, context = deliveries.batch(count, groups), lambda_context(remaining_ms=_LONG)
    works = {}
    for side in sides:
        handler = side.queue(clients[side.name])
        handler(deliveries.batch(10), context)  # connections, and whatever is made at first use
        works[side.name] = _taken(handler, event, context)
    taken = in_turns(rounds, works)
    at, share = (0, 1) if wall else (1, count)
    return {side: Sample(tuple(one[at] / share for one in found)) for side, found in taken.items()}


def _results(
    part: str, sizes: Sizes, events: Events, known: Recording, clients: dict[str, Any]
) -> Iterator[Timing]:
    for size, orders in events.results.items():
        able = [side for side in TIMED if size not in known.too_large.get(side.name, ())]
        note = "" if THEIRS in able else REFUSED
        for case, order in zip(("new", "duplicate"), orders, strict=True):
            works = {}
            for side in able:
                function = side.function(clients[side.name], deliveries.result(size))
                function(order)  # connections
                works[side.name] = _first(part == RESULTS_CPU, _taken(function, order))
            yield Timing(part, f"{size // 1000:,} KB, {case}", interleaved(sizes.rounds, works), note)


def _taken(work: Callable[..., Any], *args: Any) -> Callable[[], tuple[float, float]]:
    """Return what works once, and returns milliseconds: by the clock, and of all threads' processor time."""

    def taken() -> tuple[float, float]:
        clocks = time.perf_counter(), time.process_time()
        work(*args)
        return (time.perf_counter() - clocks[0]) * 1000, (time.process_time() - clocks[1]) * 1000

    return taken


def _first(cpu: bool, taken: Callable[[], tuple[float, float]]) -> Callable[[], float]:  # noqa: FBT001
    return lambda: taken()[cpu]


# ---------------------------------------------------------------- memory


def memory(invocations: int) -> list[tuple[str, ...]]:
    """Return, of each case and client, what a process of its own has more after *invocations*, each new."""
    tries = [(case, side) for case in FACES for side in KEPT_BY]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda each: _kept_of(each[0], each[1], invocations), tries)
        return [(*each, f"{invocations:,}", *shown) for each, shown in zip(tries, found, strict=True)]


def _kept_of(case: str, side: str, invocations: int) -> tuple[str, str, str]:
    done = subprocess.run(  # noqa: S603  (this interpreter, this module)
        [sys.executable, "-m", "benchmarks.sizes", "--kept", side, case, str(invocations)],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    objects, kilobytes, before = json.loads(done.stdout.splitlines()[-1])
    return f"{objects:,}", f"{kilobytes:,}", f"{before / 1024:.1f}"


def kept(side: Side, case: str, invocations: int) -> tuple[int, int, int]:
    """Return the objects and KB more after *invocations*, and the KB before, when warmed up by a tenth."""
    face, event = FACES[case]
    with (
        Path(os.devnull).open("w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        closing(side.client()) as client,
    ):
        handler = getattr(side, face)(client)
        for _ in range(invocations // 10):
            _worked(handler, event())
        objects, resident = _now()
        for _ in range(invocations):
            _worked(handler, event())
        objects_after, resident_after = _now()
    return objects_after - objects, resident_after - resident, resident


def _worked(handler: Callable[..., Any], event: dict[str, Any]) -> None:
    answer = handler(event, lambda_context())
    if answer.get("statusCode", 201) != 201 or answer.get("batchItemFailures"):  # noqa: PLR2004  (as the handler answers)
        raise RuntimeError(f"the work failed: {answer}")


def _now() -> tuple[int, int]:
    """Return the objects that the collector tracks, and the KB of resident memory."""
    gc.collect()
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return len(gc.get_objects()), int(status.partition("VmRSS:")[2].split()[0])


if __name__ == "__main__":
    main()
