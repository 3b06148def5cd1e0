"""What a plan says of an item, and what a ledger makes of one and is charged for it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks.units import read_units, size_of, write_units
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count, item_overhead, layout_for
from lambda_once.patterns.results import Applied, Full
from lambda_once.patterns.sizing import (
    MOST_ITEM_BYTES,
    OTHER_BYTES,
    LedgerPlan,
    plan,
)
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

FIXED = OTHER_BYTES + item_overhead(bucket_count())
EDGES = [(kb * 1_024 - FIXED) // ID_BYTES for kb in (1, 2, 50, 399, 400)]
"""The most ids in an item of so many KB; one more begins another."""
KEY = {"pk": {"S": "cust_77"}}


class Charged:
    """A client that notes what each update is charged."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.units: list[float] = []

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def update_item(self, **request: Any) -> Any:
        answer = self._client.update_item(**request, ReturnConsumedCapacity="TOTAL")
        self.units.append(answer["ConsumedCapacity"]["CapacityUnits"])
        return answer


def _digests(ids: int, size: int = ID_BYTES) -> list[bytes]:
    return [number.to_bytes(size, "big") for number in range(1, ids + 1)]


def _bytes_of(ids: int, id_bytes: int = ID_BYTES) -> int:
    return ids * id_bytes + FIXED


def _item(ids: int, id_bytes: int = ID_BYTES) -> dict[str, Any]:
    """Return an item of *ids*, spread over all buckets, that has as many bytes as a plan reckons."""
    found, buckets = _digests(ids, id_bytes), bucket_count()
    sets = {f"b{10 + each}": {"BS": found[each::buckets]} for each in range(buckets) if found[each::buckets]}
    item: dict[str, Any] = {**KEY, "f": {"S": ""}, **sets}
    return item | {"f": {"S": "x" * (_bytes_of(ids, id_bytes) - size_of(item))}}


def _add(client: Any, table: str, digest: bytes) -> float:
    """Add one id to the item, and return what that is charged."""
    answer = client.update_item(
        TableName=table,
        Key=KEY,
        UpdateExpression="ADD b10 :id",
        ExpressionAttributeValues={":id": {"BS": [digest]}},
        ReturnConsumedCapacity="TOTAL",
    )
    units: float = answer["ConsumedCapacity"]["CapacityUnits"]
    return units


# -- the engine's word


@pytest.mark.engine
@pytest.mark.parametrize("ids", sorted({100, 51_159, *EDGES, *(each + 1 for each in EDGES[:-1])}))
def test_an_update_and_a_read_are_charged_for_the_whole_item(engine: Ground, ids: int) -> None:
    """What `plan` computes of so many ids, on both sides of each KB."""
    table = engine.table()
    whole = _item(ids)
    last = whole["b10"]["BS"].pop()
    engine.client.put_item(TableName=table, Item=whole)
    assert _add(engine.client, table, last) == write_units(_bytes_of(ids))
    read = engine.client.get_item(
        TableName=table, Key=KEY, ConsistentRead=True, ReturnConsumedCapacity="TOTAL"
    )
    assert size_of(read["Item"]) == _bytes_of(ids)
    assert read["ConsumedCapacity"]["CapacityUnits"] == read_units(_bytes_of(ids))


@pytest.mark.engine
@pytest.mark.parametrize("id_bytes", [8, 16, 32, 64, 128])
def test_an_item_ends_at_400_kb_to_the_byte(engine: Ground, id_bytes: int) -> None:
    """The most ids that fit are taken, and of the next one only what has room."""
    table = engine.table()
    most = (MOST_ITEM_BYTES - FIXED) // id_bytes
    spare = MOST_ITEM_BYTES - _bytes_of(most, id_bytes)
    assert spare < id_bytes
    engine.client.put_item(TableName=table, Item=_item(most, id_bytes))
    with pytest.raises(ClientError, match="Item size"):
        _add(engine.client, table, b"\xff" * (spare + 1))
    if spare:
        assert _add(engine.client, table, b"\xff" * spare) == 400


@pytest.mark.engine
def test_a_write_that_changes_nothing_is_charged_for_the_whole_item(engine: Ground) -> None:
    """The item counts, not what a write adds to it."""
    table = engine.table()
    whole = _item(1_000)
    engine.client.put_item(TableName=table, Item=whole)
    assert _add(engine.client, table, whole["b10"]["BS"][0]) == write_units(_bytes_of(1_000))


# -- a ledger, beside its plan


def _written_evenly(
    client: Any, table: str, clock: FakeClock, found: LedgerPlan, seconds: float
) -> list[dict[str, Any]]:
    """Write to a ledger of this plan at its rate; return the item as it stood after each write."""
    ledger = Ledger(table, client, window=found.lifetime, shards=found.shards, clock=clock)
    items = []
    for number in range(round(seconds * found.rate)):
        assert isinstance(ledger.add("cust_77", {"balance": 10}, id=f"message-{number}"), Applied)
        items.append(client.get_item(TableName=table, Key=KEY, ConsistentRead=True)["Item"])
        clock.advance(1 / found.rate)
    return items


def _other_bytes(item: dict[str, Any]) -> int:
    return size_of({name: each for name, each in item.items() if name in ("pk", "balance")})


def test_a_ledger_grows_to_what_was_planned(ground: Ground) -> None:
    """The item never has more ids or bytes than the plan says, and nearly gets there."""
    table, clock = ground.table(), FakeClock()
    found = plan(rate=10, lifetime=timedelta(seconds=2), other_bytes=23)
    items = _written_evenly(ground.client, table, clock, found, 10)
    counts = [sum(len(each["BS"]) for each in item.values() if "BS" in each) for item in items]
    assert found.ids - 1 <= max(counts) <= found.ids
    assert max(map(_other_bytes, items)) <= 23
    sizes = [size_of(item) for item in items]
    assert found.item_bytes - 40 <= max(sizes) <= found.item_bytes


@pytest.mark.engine
def test_a_ledger_is_charged_what_was_planned(engine: Ground) -> None:
    """No write more units than the plan says, and the last ones as many."""
    table, clock = engine.table(), FakeClock()
    found = plan(rate=30, lifetime=timedelta(seconds=5), other_bytes=23)
    charged = Charged(engine.client)
    _written_evenly(charged, table, clock, found, 12)
    assert found.write_units == 2
    assert set(charged.units) == {1, 2}
    assert charged.units[-50:] == [2] * 50


@pytest.mark.engine
def test_a_ledger_is_full_where_the_plan_ends(engine: Ground) -> None:
    """One id before the edge is added; the one at the edge is refused, and not counted."""
    table, clock = engine.table(), FakeClock()
    window = timedelta(hours=6)
    layout = layout_for(window)
    name = f"b{layout.number(clock.now()) % 64}"
    ledger = Ledger(table, engine.client, window=window, clock=clock)
    assert isinstance(ledger.add("cust_77", {"balance": 10}, id="first"), Applied)
    item = engine.client.get_item(TableName=table, Key=KEY, ConsistentRead=True)["Item"]
    room = MOST_ITEM_BYTES - size_of(item)
    item[name]["BS"] += _digests(room // ID_BYTES - 1)
    engine.client.put_item(TableName=table, Item=item)
    assert isinstance(ledger.add("cust_77", {"balance": 10}, id="last"), Applied)
    with pytest.raises(Full, match="exceed 400 KB"):
        ledger.add("cust_77", {"balance": 10}, id="one more")
    assert ledger.get("cust_77") == {"balance": 20}
    by_plan = plan(lifetime=window, other_bytes=23)
    assert by_plan.write_units == 400
    assert abs(by_plan.ids - (room // ID_BYTES + 1)) <= 16
