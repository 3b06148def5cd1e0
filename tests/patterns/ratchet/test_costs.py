"""What a ratchet costs, as a real engine charges it, is what the page says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lambda_once.patterns.ratchet import Ratchet
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

PAGE = Path(__file__).parents[3] / "docs" / "ratchet.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->"
MS = 1_795_169_520_000


class Meter:
    """A client that asks for the units of each request and adds them up."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.requests = 0
        self.units = 0.0

    def __getattr__(self, operation: str) -> Any:
        def request(**arguments: Any) -> Any:
            answer = getattr(self._client, operation)(**arguments, ReturnConsumedCapacity="TOTAL")
            consumed = answer["ConsumedCapacity"]
            self.requests += 1
            self.units += sum(
                each["CapacityUnits"] for each in (consumed if isinstance(consumed, list) else [consumed])
            )
            return answer

        return request

    def of(self, work: Callable[[], object]) -> str:
        """Do *work* and return requests and units as cells of a table."""
        self.requests, self.units = 0, 0.0
        work()
        return f"{self.requests} | {self.units:g}"


def measured(ground: Ground) -> list[str]:
    """Return the rows of the table."""
    meter = Meter(ground.client)
    ratchet = Ratchet(ground.table("pk", "sk"), meter, key=("pk", "sk"), clock=FakeClock())
    small, large = {"text": "x" * 400}, {"text": "x" * 4_000}

    def put(sk: str, content: dict[str, str], ts: int) -> Callable[[], object]:
        return lambda: ratchet.put({"pk": "p", "sk": sk, **content}, MS + ts)

    def delete(sk: str, ts: int) -> Callable[[], object]:
        return lambda: ratchet.delete({"pk": "p", "sk": sk}, MS + ts)

    rows = {
        "put of 0.5 KB, nothing there": meter.of(put("a", small, 0)),
        "the same again": meter.of(put("a", small, 0)),
        "put of 4 KB in its place": meter.of(put("a", large, 1)),
        "put of 0.5 KB in place of 4 KB": meter.of(put("a", small, 2)),
        "delete of 0.5 KB": meter.of(delete("a", 3)),
        "put of 4 KB over a tombstone": meter.of(put("a", large, 4)),
        "delete of 4 KB": meter.of(delete("a", 5)),
        "delete of a tombstone": meter.of(delete("a", 6)),
    }
    for n in range(20):
        put(f"{n:02}", small, 0)()
    rows["get of 0.5 KB"] = meter.of(lambda: ratchet.get({"pk": "p", "sk": "01"}))
    rows["get, `consistent=False`"] = meter.of(lambda: ratchet.get({"pk": "p", "sk": "01"}, consistent=False))
    keys = [{"pk": "p", "sk": f"{n:02}"} for n in range(10)]
    rows["batch_get of 10 × 0.5 KB"] = meter.of(lambda: ratchet.batch_get(keys))
    rows["query of 10 × 0.5 KB"] = meter.of(lambda: ratchet.query("p", limit=10))
    for n in range(5):
        delete(f"{n:02}", 1)()
    rows["the same, 5 tombstones among them"] = meter.of(lambda: ratchet.query("p", limit=10))
    return [f"| {name} | {cells} |" for name, cells in rows.items()]


@pytest.mark.engine
def test_the_page_says_what_was_measured(engine: Ground) -> None:
    """Write units of writes and read units of reads, row by row."""
    told = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    head = ["| operation | requests | units |", "|---|---|---|"]
    assert told == "\n".join([*head, *measured(engine), ""])
