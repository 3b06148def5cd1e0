"""A ratchet on a table that exists: other names for its own attributes, ranges, and secondary indexes."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from lambda_once.dynamodb.items import plain_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.ratchet import requests as ratchet_requests
from lambda_once.patterns.results import Applied, Conflict, Stale
from lambda_once.testing import FakeClock
from tests.kit import tables
from tests.patterns.ratchet.conftest import MS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.patterns.conftest import Ground

NAMES = {"deleted": "isDeleted", "ttl": "expiresAt", "_rank": "r", "_write": "w"}
KEY = {"pk": "north", "sk": "desk"}


def renamed(ground: Ground, table: str, **options: Any) -> Ratchet:
    """Return a ratchet whose own attributes have other names."""
    given = {"key": ("pk", "sk"), "names": NAMES, "clock": FakeClock(), **options}
    return Ratchet(table, ground.client, **given)


def stored(ground: Ground, table: str) -> dict[str, Any]:
    """Return the one item of *table*."""
    (item,) = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    return plain_item(item)


# -- names


def test_the_ratchets_own_attributes_have_the_names_of_the_table(ground: Ground) -> None:
    """Writes, expectations, tombstones and reads; ``deleted`` and ``ttl`` are the user's then."""
    table = ground.table("pk", "sk")
    prices = renamed(ground, table)
    mine = {**KEY, "deleted": "yes", "ttl": "long", "_rank": 1}
    assert isinstance(prices.put(mine, MS, expected=None), Applied)
    assert prices.get(KEY) == {**mine, "ts": MS}
    assert stored(ground, table).keys() == {*mine, "ts", "r", "w"}
    with pytest.raises(Conflict):
        prices.put(mine, MS + 1, expected={**mine, "ts": MS - 1})
    assert isinstance(prices.put(mine, MS - 1), Stale)
    assert isinstance(prices.delete(KEY, MS + 2), Applied)
    assert stored(ground, table).keys() == {*KEY, "ts", "isDeleted", "expiresAt"}
    assert isinstance(prices.put(mine, MS + 1), Stale)
    assert (prices.get(KEY), prices.batch_get([KEY]), prices.query("north").items) == (None, [None], [])


def test_an_adopted_item_may_say_that_it_is_not_deleted(ground: Ground) -> None:
    """By the name that the table has for it."""
    table = ground.table("pk", "sk")
    prices = renamed(ground, table)
    item = {"pk": {"S": "north"}, "sk": {"S": "desk"}, "isDeleted": {"BOOL": False}}
    ground.client.put_item(TableName=table, Item=item)
    assert prices.query("north").items == [{**KEY, "isDeleted": False}]
    assert isinstance(prices.put({**KEY, "isDeleted": False}, MS), Applied)
    with pytest.raises(Misconfigured, match="'isDeleted' is the ratchet's own"):
        prices.put({**KEY, "isDeleted": True}, MS)


def test_by_the_usual_names_a_tombstone_never_expires_there(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: the names are not used, and the table's TTL attribute is missing."""
    shape = ratchet_requests.ratchet_table
    monkeypatch.setattr(ratchet_requests, "ratchet_table", lambda *given: shape(*given[:3]))
    table = ground.table("pk", "sk")
    renamed(ground, table).delete(KEY, MS)
    assert "expiresAt" not in stored(ground, table)


# -- ranges and indexes


@pytest.fixture
def products(ground: Ground) -> Iterator[Ratchet]:
    """Return a ratchet of products with an index by price, and 6 of them, one deleted."""

    def create(client: Any, name: str) -> None:
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": "pk", "AttributeType": "S"},
                {"AttributeName": "sk", "AttributeType": "S"},
                {"AttributeName": "price", "AttributeType": "S"},
            ],
            KeySchema=[
                {"AttributeName": "pk", "KeyType": "HASH"},
                {"AttributeName": "sk", "KeyType": "RANGE"},
            ],
            GlobalSecondaryIndexes=[
                {
                    "IndexName": "byPrice",
                    "KeySchema": [
                        {"AttributeName": "pk", "KeyType": "HASH"},
                        {"AttributeName": "price", "KeyType": "RANGE"},
                    ],
                    "Projection": {"ProjectionType": "ALL"},
                },
                {
                    "IndexName": "byName",
                    "KeySchema": [{"AttributeName": "sk", "KeyType": "HASH"}],
                    "Projection": {"ProjectionType": "ALL"},
                },
            ],
        )
        client.get_waiter("table_exists").wait(TableName=name)

    with ExitStack() as stack:
        table = stack.enter_context(tables.fresh(ground.client, create))
        ratchet = Ratchet(
            table,
            ground.client,
            key=("pk", "sk"),
            clock=FakeClock(),
            indexes={"byPrice": ("pk", "price"), "byName": ("sk",)},
        )
        for name, price in zip("abcdef", "654321", strict=True):
            ratchet.put({"pk": "north", "sk": name, "price": price}, MS)
        ratchet.delete({"pk": "north", "sk": "d"}, MS)
        yield ratchet


def names_of(page: Any) -> str:
    """Return the sort keys of a page."""
    return "".join(item["sk"] for item in page.items)


def test_a_range_of_sort_keys(products: Ratchet) -> None:
    """Both ends included, tombstones left out."""
    assert names_of(products.query("north", between=("b", "e"))) == "bce"
    assert names_of(products.query("north", between=("b", "e"), descending=True)) == "ecb"


def test_an_index_is_read_in_its_own_order(products: Ratchet) -> None:
    """By price, also a range of it, and page by page."""
    assert names_of(products.query("north", index="byPrice")) == "fecba"
    assert names_of(products.query("north", index="byPrice", between=("1", "4"))) == "fec"
    assert names_of(products.query("a", index="byName")) == "a"
    assert names_of(products.query("d", index="byName")) == ""
    seen, cursor = [], None
    while True:
        page = products.query("north", index="byPrice", limit=2, cursor=cursor)
        seen.append(names_of(page))
        cursor = page.cursor
        if cursor is None:
            break
    assert "".join(seen) == "fecba"
    assert seen[:2] == ["fe", "cb"]


def test_without_the_mark_a_tombstone_is_shown(products: Ratchet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: the index by name has the tombstone, and only its mark tells."""
    monkeypatch.setattr(ratchet_requests, "IS_LIVE", "NOT (#deleted = :deleted AND #deleted <> :deleted)")
    monkeypatch.setattr(ratchet_requests, "live", lambda _, item: plain_item(item))
    assert names_of(products.query("d", index="byName")) == "d"


@pytest.mark.parametrize(
    "wrong",
    [
        {"index": "bySize"},
        {"index": "byName", "between": ("a", "b")},
        {"begins_with": "a", "between": ("a", "b")},
        {"index": "byPrice", "cursor": KEY},
        {"cursor": {"pk": "north"}},
    ],
)
def test_what_cannot_be_asked_is_refused(products: Ratchet, wrong: Any) -> None:
    """Before anything is sent."""
    with pytest.raises(Misconfigured, match=r"query needs|not the key"):
        products.query("north", **wrong)
