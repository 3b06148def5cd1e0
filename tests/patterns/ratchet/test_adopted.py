"""A ratchet on a table that has items: without timestamps, and with those of other writers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.ratchet import requests as ratchet_requests
from lambda_once.patterns.ratchet.requests import ANYTHING
from lambda_once.patterns.results import Applied, Conflict, Stale, TooFarAhead
from lambda_once.patterns.transactions import transaction_results
from lambda_once.testing import FakeClock
from tests.kit.faulty import Fate, FaultyClient
from tests.patterns.conftest import Ground
from tests.patterns.ratchet.conftest import ITEM, LAMP, MS, NOW, rows


@pytest.fixture
def legacy(ground: Ground, table: str, ratchet: Ratchet) -> dict[str, Any]:
    """Return an item that others wrote, as it is read."""
    ground.client.put_item(TableName=table, Item={"pk": {"S": "lamp"}, "price": {"N": "1"}})
    read = ratchet.get(LAMP)
    assert read == {**LAMP, "price": 1}
    return read


def test_an_item_without_a_timestamp_is_older_than_all(ratchet: Ratchet, legacy: dict[str, Any]) -> None:
    """A table may be taken over as it is. The item is there, so it is not what `None` expects."""
    with pytest.raises(Conflict) as lost:
        ratchet.put(ITEM, MS, expected=None)
    assert lost.value.values == {"ts": None}
    assert ratchet.get(LAMP) == legacy
    assert ratchet.put(ITEM, MS) == Applied({"ts": MS})


def test_of_two_that_read_an_item_without_a_timestamp_one_writes(
    ground: Ground, ratchet: Ratchet, legacy: dict[str, Any]
) -> None:
    """The first write gives it a timestamp, so the second is a `Conflict`: of puts, deletes and entries."""
    assert ratchet.put({**legacy, "price": 2}, MS, expected=legacy) == Applied({"ts": MS})
    with pytest.raises(Conflict) as lost:
        ratchet.put({**legacy, "price": 3}, MS + 1, expected=legacy)
    assert lost.value.values == {"ts": MS}
    with pytest.raises(Conflict):
        ratchet.delete(LAMP, MS + 1, expected=legacy)
    with pytest.raises(Conflict):  # older than the first, which is not what was read either
        ratchet.put({**legacy, "price": 3}, MS - 1, expected=legacy)
    entry = ratchet.transact_item({**legacy, "price": 3}, MS + 1, expected=legacy)
    with pytest.raises(ground.client.exceptions.TransactionCanceledException) as canceled:
        ground.client.transact_write_items(TransactItems=[entry])
    (result,) = transaction_results(canceled.value, [entry])
    assert isinstance(result, Conflict)
    assert result.values == {"ts": MS}
    assert ratchet.get(LAMP) == {**LAMP, "price": 2, "ts": MS}


def test_an_item_without_a_timestamp_is_deleted_as_it_was_read(
    ratchet: Ratchet, legacy: dict[str, Any]
) -> None:
    """The tombstone has a timestamp; nobody deletes it twice, and nobody brings back what was read."""
    assert ratchet.delete(LAMP, MS, expected=legacy) == Applied({"ts": MS})
    with pytest.raises(Conflict):
        ratchet.delete(LAMP, MS + 1, expected=legacy)
    with pytest.raises(Conflict):
        ratchet.put(ITEM, MS + 1, expected=legacy)
    assert ratchet.get(LAMP) is None


def test_what_is_gone_is_not_an_item_without_a_timestamp(
    ground: Ground, table: str, ratchet: Ratchet, legacy: dict[str, Any]
) -> None:
    """Deleted by others, or marked as deleted by them."""
    for item in (None, {"pk": {"S": "lamp"}, "deleted": {"BOOL": True}}):
        ground.client.delete_item(TableName=table, Key={"pk": {"S": "lamp"}})
        if item is not None:
            ground.client.put_item(TableName=table, Item=item)
        with pytest.raises(Conflict) as lost:
            ratchet.put(ITEM, MS, expected=legacy)
        assert lost.value.values == ({} if item is None else {"ts": None})
    assert len(rows(ground, table)) == 1


def test_without_the_check_for_a_timestamp_an_update_is_lost(
    ratchet: Ratchet, legacy: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: the second of two that read the item from before replaces the first one's work."""
    monkeypatch.setattr(ratchet_requests, "WITHOUT_STAMP", "attribute_exists(#pk)")
    assert ratchet.put({**legacy, "price": 2}, MS, expected=legacy) == Applied({"ts": MS})
    assert ratchet.put({**legacy, "price": 3}, MS + 1, expected=legacy) == Applied({"ts": MS + 1})


@pytest.mark.parametrize("fate", [Fate.ANSWER_LOST, Fate.REQUEST_LOST])
def test_an_unanswered_write_of_an_item_without_a_timestamp(
    ground: Ground, table: str, clock: FakeClock, legacy: dict[str, Any], fate: Fate
) -> None:
    """Its retry finds its own write, or writes."""
    fates = iter([fate, Fate.SOUND])
    ratchet = Ratchet(table, FaultyClient(ground.client, lambda: next(fates)), clock=clock)
    assert ratchet.put({**legacy, "price": 2}, MS, expected=legacy) == Applied({"ts": MS})


@pytest.mark.parametrize("attribute", [{"NULL": True}, {"S": "2026-11-20"}], ids=["NULL", "text"])
def test_a_timestamp_of_another_type_is_a_mistake(
    ground: Ground, table: str, ratchet: Ratchet, attribute: dict[str, Any]
) -> None:
    """It is no order and no absence: nothing is written, by a put or a delete, expected or not."""
    item = {"pk": {"S": "lamp"}, "ts": attribute}
    ground.client.put_item(TableName=table, Item=item)
    for expected in (ANYTHING, ratchet.get(LAMP), None):
        with pytest.raises(Misconfigured, match="cannot be compared"):
            ratchet.put(ITEM, MS, expected=expected)
        with pytest.raises(Misconfigured, match="cannot be compared"):
            ratchet.delete(LAMP, MS, expected=expected)
    assert rows(ground, table) == [item]


def test_an_item_of_another_writer_is_outranked(ground: Ground, table: str, ratchet: Ratchet) -> None:
    """It has a timestamp and no rank: of the same timestamp ours wins."""
    item = {"pk": {"S": "lamp"}, "price": {"N": "1"}, "ts": {"N": str(MS)}}
    ground.client.put_item(TableName=table, Item=item)
    assert ratchet.put(ITEM, MS - 1) == Stale({"ts": MS})
    assert ratchet.put(ITEM, MS, expected={**LAMP, "price": 1, "ts": MS}) == Applied({"ts": MS})


def test_an_item_that_others_update_in_place_is_not_as_expected(
    ground: Ground, table: str, ratchet: Ratchet
) -> None:
    """Its rank is not that of its content: a `Conflict`, for the write is newer; without expected= put."""
    ratchet.put(ITEM, MS)
    change = {"UpdateExpression": "SET price = :p", "ExpressionAttributeValues": {":p": {"N": "11"}}}
    ground.client.update_item(TableName=table, Key={"pk": {"S": "lamp"}}, **change)
    read = ratchet.get(LAMP)
    assert read == {**LAMP, "price": 11, "ts": MS}
    with pytest.raises(Conflict) as lost:
        ratchet.put({**LAMP, "price": 12}, MS + 1, expected=read)
    assert lost.value.values == {"ts": MS}
    assert ratchet.put(read, MS + 1) == Applied({"ts": MS + 1})
    assert ratchet.put({**LAMP, "price": 12}, MS + 2, expected=ratchet.get(LAMP)) == Applied({"ts": MS + 2})


def adopted(ground: Ground) -> Ratchet:
    """Return a ratchet on a table of others, whose items say whether they are deleted."""
    table = ground.table("pk", "sk")
    for sk, deleted in (("a", {"BOOL": False}), ("b", {"NULL": True}), ("c", {"BOOL": True})):
        item = {"pk": {"S": "lamp"}, "sk": {"S": sk}, "ts": {"N": str(MS)}, "deleted": deleted}
        ground.client.put_item(TableName=table, Item=item)
    return Ratchet(table, ground.client, key=("pk", "sk"), clock=FakeClock(NOW))


def test_what_says_that_it_is_not_deleted_is_not(ground: Ground) -> None:
    """Only ``deleted: true`` makes a tombstone: the others are read, expected, put again and outranked."""
    ratchet = adopted(ground)
    keys = [{**LAMP, "sk": sk} for sk in "abc"]
    assert [each and each["sk"] for each in ratchet.batch_get(keys)] == ["a", "b", None]
    assert [each["sk"] for each in ratchet.query("lamp").items] == ["a", "b"]
    read = ratchet.get(keys[0])
    assert read == {**keys[0], "ts": MS, "deleted": False}
    with pytest.raises(Conflict) as lost:
        ratchet.put({**read, "price": 5}, MS + 1, expected=None)
    assert lost.value.values == {"ts": MS}
    assert ratchet.put({**read, "price": 5}, MS + 1, expected=read) == Applied({"ts": MS + 1})
    assert ratchet.get(keys[0]) == {**read, "price": 5, "ts": MS + 1}
    assert ratchet.put(keys[1], MS) == Applied({"ts": MS})
    assert ratchet.put(keys[2], MS) == Stale({"ts": MS})


def test_by_the_mere_attribute_items_are_hidden(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: what says that it is not deleted is left out of a query."""
    there = "(attribute_not_exists(#deleted) AND :deleted = :deleted)"
    monkeypatch.setattr(ratchet_requests, "IS_LIVE", there)
    assert adopted(ground).query("lamp").items == []


@pytest.mark.parametrize("written", ["1795169520000.12345678", "1.7951695200001234E+12"])
def test_a_timestamp_of_others_may_have_any_digits(
    ground: Ground, table: str, ratchet: Ratchet, written: str
) -> None:
    """A float that was printed: it is read, compared, expected, replaced and refused, but not given as ts."""
    ground.client.put_item(TableName=table, Item={"pk": {"S": "lamp"}, "ts": {"N": written}})
    read = ratchet.get(LAMP)
    assert read == {**LAMP, "ts": Decimal(written)}
    assert ratchet.put(ITEM, MS) == Stale({"ts": Decimal(written)})
    assert ratchet.put(ITEM, MS, expected=read) == Stale({"ts": Decimal(written)})
    with pytest.raises(Misconfigured, match="three decimals"):
        ratchet.put(ITEM, read["ts"])
    newer = Decimal("1795169520000.124")
    assert ratchet.put(ITEM, newer, expected=read) == Applied({"ts": newer})
    ahead = {"pk": {"S": "lamp"}, "ts": {"N": f"{MS + 10**10}.5"}}
    ground.client.put_item(TableName=table, Item=ahead)
    with pytest.raises(TooFarAhead, match="has the timestamp 20") as refused:
        ratchet.put(ITEM, MS)
    assert refused.value.stamp == Decimal(f"{MS + 10**10}.5")
