"""What the page says that a put costs, compared with what a real engine charges."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks.units import refused_units, size_of
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.patterns.unique import Unique
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

PAGE = Path(__file__).parents[2] / "docs" / "unique.md"
SIZES = (500, 3000)


class Counting:
    """Hands puts to *client*; what each is charged stands in ``units``."""

    def __init__(self, client: Any) -> None:
        self.units: list[float] = []
        self._client = client

    def put_item(self, **request: Any) -> Any:
        try:
            answer = self._client.put_item(**request, ReturnConsumedCapacity="TOTAL")
        except self._client.exceptions.ConditionalCheckFailedException as refused:
            self.units.append(refused_units(refused.response["Item"]))
            raise
        self.units.append(answer["ConsumedCapacity"]["CapacityUnits"])
        return answer


def receipt(size: int) -> dict[str, object]:
    """Return a receipt of *size* bytes, without key and mark."""
    fields = {"customer": f"cust_{size}", "orderId": "order_5", "kind": "paid"}
    rest = size - sum(len(name) + len(each) for name, each in fields.items()) - len("note")
    return {**fields, "note": "x" * rest}


def stored(ground: Ground, table: str) -> dict[str, dict[str, Any]]:
    """Return the one item of *table* as it is stored."""
    (item,) = ground.client.scan(TableName=table)["Items"]
    found: dict[str, dict[str, Any]] = item
    return found


@pytest.mark.engine
def test_the_page_says_what_is_charged(engine: Ground) -> None:
    """Row by row."""
    client = Counting(engine.client)
    unique = Unique(
        engine.table("pk", "sk"), client, key={"pk": "customer", "sk": ["orderId", "kind"]}, clock=FakeClock()
    )
    for size in SIZES:
        assert isinstance(unique.put(receipt(size)), Applied)
        assert isinstance(unique.put(receipt(size)), Duplicate)
    table = (
        PAGE.read_text(encoding="utf-8").split("<!-- measured: begin -->")[1].split("<!-- measured: end")[0]
    )
    assert [float(units) for units in re.findall(r"\| (\d+) \|$", table, re.MULTILINE)] == client.units
    assert [int(each.replace(",", "")) for each in re.findall(r"([\d,]+) bytes", table)] == [*SIZES]


def test_the_page_says_what_the_mark_costs(strict: Ground) -> None:
    """Bytes that a put adds to its item beside the key."""
    table = strict.table("pk", "sk")
    Unique(table, strict.client, clock=FakeClock()).put({"pk": "a", "sk": "b", "x": 1})
    mark = stored(strict, table)["put"]
    assert f"the attribute `put` ({size_of({'put': mark})} bytes;" in PAGE.read_text(encoding="utf-8")
