"""
`python -m benchmarks.parts`: where the processor time of an invocation goes, without a network.

Functions of each part are timed by their thread's clock, without what they call of another part, and without
the time that the timing itself takes. --docs writes the table into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import gc
import logging
import threading
import time
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from botocore.endpoint import Endpoint

from benchmarks.__main__ import DOCS, PAGE, engine
from benchmarks.answers import Answers
from benchmarks.report import between, lined
from benchmarks.run import recorded
from benchmarks.sampling import cpu
from benchmarks.sides import OURS, THEIRS
from benchmarks.transport import answered
from benchmarks.world import function_environment, reaching
from lambda_once.decorators.identify import Identifier
from lambda_once.observability import reporter
from lambda_once.sources import http
from lambda_once.sources.records import RecordSource
from lambda_once.stores import batches, requests, store
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from benchmarks.sides import Side

ROUNDS, TIMES = 11, 20
REST = "everything else"
PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "log lines: Powertools' formatter and logging": (
        (logging.Logger, "makeRecord"),
        (logging.Logger, "handle"),
    ),
    "log lines: the rest": ((reporter, "_write"),),
    "key, scope, fingerprint": ((Identifier, "identify"),),
    "reading the event": ((http, "request_of"), (http, "unit_of"), (RecordSource, "records")),
    "metrics": ((reporter, "write_metrics"),),
    "requests as values, rows": (
        (requests, "acquire"),
        (requests, "acquire_new"),
        (requests, "finish"),
        (requests, "insert"),
        (requests, "update"),
        (batches, "record_of"),
        (store, "record_of"),
    ),
}
FLOOR = "sum without the client"
SENT = "boto3's client: signing, writing, reading"
CALL = "boto3's client: botocore's parameters, endpoint rules, events"
SUM = "sum with boto3's client"
ROWS = (*PARTS, REST, FLOOR, CALL, SENT, SUM, THEIRS.name)
BEGIN, END = "<!-- parts: begin -->", "<!-- parts: end -->"


class Ledger:
    """Nanoseconds by part, each part's own."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self._inside = threading.local()
        self._cost = 0
        self._cost = self._calibrated()

    def timed(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return *function* as one whose time counts for *part*, and for no part around it."""

        def wrapped(*args: Any, **options: Any) -> Any:
            stack = self._inside.__dict__.setdefault("stack", [])
            stack.append(0)
            started = time.thread_time_ns()
            try:
                return function(*args, **options)
            finally:
                spent = time.thread_time_ns() - started
                self.spent[part] += spent - stack.pop() - self._cost
                if stack:
                    stack[-1] += spent + self._cost

        return wrapped

    def _calibrated(self, times: int = 20_000) -> int:
        nothing = self.timed("calibration", lambda: None)
        for _ in range(times):
            nothing()
        return self.spent.pop("calibration") // times


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or write it into benchmarks/README.md."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.parts",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--docs", action="store_true", help=f"write the table into {PAGE.parent.name}/")
    arguments = parser.parse_args(given)
    text = "\n".join(lined(*_table()))
    if not arguments.docs:
        print(text)
        return
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(between(page, BEGIN, END, f"{BEGIN}\n\n{text}\n\n{END}"), encoding="utf-8")
    print(f"written: {PAGE.relative_to(DOCS.parent)}")


def _table() -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and lines, in microseconds an invocation: medians of some rounds."""
    with engine() as endpoint:
        events, known = recorded((), endpoint)
    cases = {
        "API event, new": ("api", events.request),
        "API event, duplicate": ("api", events.seen_request),
        "ten records, new": ("queue", events.batch),
        "ten records, sent twice": ("queue", events.seen_batch),
    }
    ledger = Ledger()
    for part, functions in {**PARTS, SENT: ((Endpoint, "make_request"),)}.items():
        for owner, name in functions:
            setattr(owner, name, ledger.timed(part, getattr(owner, name)))
    with function_environment(), reaching("http://127.0.0.1:9"):  # nothing is sent there
        found = {
            case: _spent(ledger, face, event, Answers(known.rows)) for case, (face, event) in cases.items()
        }
    lines = [(part, *(f"{spent[part]:,.0f}" for spent in found.values())) for part in ROWS]
    return ("microseconds of an invocation", *found), lines


def _spent(ledger: Ledger, face: str, event: dict[str, Any], answers: Answers) -> dict[str, float]:
    works = {side: _work(ledger, side, face, event, answers) for side in (OURS, THEIRS)}
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        gc.collect()
        spent = {THEIRS.name: works[THEIRS]() * 1000}
        ledger.spent.clear()
        spent[SUM] = works[OURS]() * 1000
        for part in (*PARTS, CALL, SENT):
            spent[part] = ledger.spent[part] / TIMES / 1000
        spent[FLOOR] = spent[SUM] - spent[CALL] - spent[SENT]
        spent[REST] = spent[FLOOR] - sum(spent[part] for part in PARTS)
        rounds.append(spent)
    return {part: median(each[part] for each in rounds) for part in ROWS}


def _work(
    ledger: Ledger, side: Side, face: str, event: Mapping[str, Any], answers: Answers
) -> Callable[[], float]:
    client = answered(side.client(), answers)
    if side is OURS:  # all of a request
        client._make_api_call = ledger.timed(CALL, client._make_api_call)  # noqa: SLF001
    handler, context = getattr(side, face)(client), lambda_context()
    cpu(TIMES, handler, event, context)  # whatever is made at first use
    return lambda: cpu(TIMES, handler, event, context)


if __name__ == "__main__":
    main()
