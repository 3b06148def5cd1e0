"""
`python -m benchmarks.parts`: where the processor time of an invocation goes, for docs/performance.md.

Functions of each part are timed by their thread's clock, what they call of another part left out, and the
time that the timing itself takes off.
"""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections import Counter
from statistics import median
from typing import TYPE_CHECKING, Any

from benchmarks.__main__ import engine
from benchmarks.answers import Answers
from benchmarks.report import lined
from benchmarks.run import QUICK, prepared
from benchmarks.sampling import cpu
from benchmarks.sides import OURS, THEIRS
from benchmarks.transport import answered
from benchmarks.world import function_environment
from lambda_once.decorators.identify import Identifier
from lambda_once.observability import reporter
from lambda_once.sources import api_gateway, messages
from lambda_once.stores import batches, requests, store
from lambda_once.testing import lambda_context

if TYPE_CHECKING:
    from collections.abc import Callable

ROUNDS, TIMES = 15, 40
REST = "everything else"
PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
    "log lines: Powertools' formatter and logging": ((logging.Logger, "log"),),
    "log lines: the rest": ((reporter, "_write"),),
    "key, scope, fingerprint": ((Identifier, "identify"),),
    "reading the event": ((api_gateway, "request_of"), (api_gateway, "unit_of"), (messages, "sqs_messages")),
    "metrics": ((reporter, "write_metrics"),),
    "requests as values, rows": (
        (requests, "acquire"),
        (requests, "finish"),
        (requests, "insert"),
        (requests, "update"),
        (batches, "record_of"),
        (store, "record_of"),
    ),
}
BOTOCORE = "botocore's requests"
SUM, THE_OTHER = "sum", "the other side"
ROWS = (BOTOCORE, *PARTS, REST, SUM, THE_OTHER)


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


def main() -> None:
    """Print the table, in microseconds an invocation: the median of some rounds."""
    with engine() as endpoint:
        known = prepared(QUICK, endpoint)
    events = known.events
    cases = {
        "API event, new": ("api", events.request),
        "API event, duplicate": ("api", events.seen_request),
        "ten records, new": ("queue", events.batch),
        "ten records, sent twice": ("queue", events.seen_batch),
    }
    ledger = Ledger()
    for part, functions in PARTS.items():
        for owner, name in functions:
            setattr(owner, name, ledger.timed(part, getattr(owner, name)))
    with function_environment():
        found = {
            case: _spent(ledger, face, event, Answers(known.recorded.rows))
            for case, (face, event) in cases.items()
        }
    head = ("part", *found)
    lines = [(part, *(f"{spent[part]:,.0f}" for spent in found.values())) for part in ROWS]
    sys.stdout.write("\n".join(lined(head, lines)) + "\n")


def _spent(ledger: Ledger, face: str, event: dict[str, Any], answers: Answers) -> dict[str, float]:
    client = answered(OURS.client(), answers)
    client._make_api_call = ledger.timed(BOTOCORE, client._make_api_call)  # noqa: SLF001  (all of a request)
    handler, context = getattr(OURS, face)(client), lambda_context()
    theirs = getattr(THEIRS, face)(answered(THEIRS.client(), answers))
    for each in (handler, theirs):
        cpu(TIMES, each, event, context)  # whatever is made at first use
    rounds: list[dict[str, float]] = []
    for _ in range(ROUNDS):
        gc.collect()
        other = cpu(TIMES, theirs, event, context) * 1000
        ledger.spent.clear()
        total = cpu(TIMES, handler, event, context) * 1000
        parts = {part: ledger.spent[part] / TIMES / 1000 for part in (BOTOCORE, *PARTS)}
        rounds.append({**parts, REST: total - sum(parts.values()), SUM: total, THE_OTHER: other})
    return {part: median(each[part] for each in rounds) for part in rounds[0]}


if __name__ == "__main__":
    main()
