"""What the page says that a ledger costs, compared with what a real engine charges."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.units import refused_units
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger.layout import bucket_name, layout_for
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

PAGE = Path(__file__).parents[3] / "docs" / "ledger.md"
WINDOW = timedelta(hours=1)


class Charged:
    """Hands requests to *client*; what was charged since the last `taken` stands in it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._units = 0.0

    def __getattr__(self, operation: str) -> Any:
        send = getattr(self._client, operation)

        def request(**arguments: Any) -> Any:
            try:
                answer = send(**arguments, ReturnConsumedCapacity="TOTAL")
            except self._client.exceptions.ConditionalCheckFailedException as refused:
                self._units += refused_units(refused.response["Item"])
                raise
            told = answer["ConsumedCapacity"]
            self._units += sum(each["CapacityUnits"] for each in (told if isinstance(told, list) else [told]))
            return answer

        return request

    def taken(self) -> float:
        """Return the units since this was asked last."""
        units, self._units = self._units, 0
        return units


def _table() -> list[list[int]]:
    text = (
        PAGE.read_text(encoding="utf-8").split("<!-- measured: begin -->")[1].split("<!-- measured: end")[0]
    )
    rows = re.findall(r"^\| [\d,]+ .*\|$", text, re.MULTILINE)
    return [[int(cell.replace(",", "")) for cell in re.findall(r"[\d,]+", row)] for row in rows]


def _fill(ground: Ground, table: str, ids: int, clock: FakeClock) -> None:
    """Give the item as many ids, spread over the live buckets as a steady rate would."""
    layout = layout_for(WINDOW)
    live = layout.live(layout.number(clock.now()))
    for position, number in enumerate(live):
        own = [each.to_bytes(8, "big") for each in range(position, ids, len(live))]
        if own:
            ground.client.update_item(
                TableName=table,
                Key={"pk": {"S": "cust_77"}},
                UpdateExpression=f"ADD {bucket_name(number)} :ids",
                ExpressionAttributeValues={":ids": {"BS": own}},
            )


@pytest.mark.engine
@pytest.mark.parametrize("row", range(4))
def test_the_page_says_what_is_charged(engine: Ground, row: int) -> None:
    """Row by row: an add, a duplicate, an update, a read of an item of so many ids."""
    rows = _table()
    assert len(rows) == 4
    ids, *said = rows[row]
    clock, client, table = FakeClock(), Charged(engine.client), engine.table()
    points = Ledger(table, client, window=WINDOW, clock=clock)
    points.add("cust_77", {"balance": 1}, id="m0")
    _fill(engine, table, ids - 1, clock)
    measured: list[float] = []
    client.taken()
    for expected in (Applied(), Duplicate()):
        assert points.add("cust_77", {"balance": 10, "count": 1}, id="m1") == expected
        measured.append(client.taken())
    points.update("cust_77", {"version": 1}, expected={"version": None})
    measured.append(client.taken())
    points.get("cust_77")
    measured.append(client.taken())
    assert measured == said
