"""The format of the items: those that were written once are read, repeated and outranked ever after."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lambda_once.patterns.documents import Documents
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Applied, Duplicate, Stale
from lambda_once.patterns.unique import Unique
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

ITEMS = json.loads((Path(__file__).parent / "golden_items.json").read_text(encoding="utf-8"))
"""By pattern."""
NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
MS = 1_795_169_520_000
LAMP = {"pk": "lamp"}


def restored(value: Any) -> Any:
    """Return *value* as the client takes it: bytes are written in Base64."""
    if isinstance(value, list):
        return [restored(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"base64"}:
        return base64.b64decode(value["base64"])
    return {name: restored(each) for name, each in value.items()}


def filled(ground: Ground, pattern: str, sort: str | None = None) -> str:
    """Create a table with the items of *pattern* and return its name."""
    table = ground.table("pk", sort)
    for item in restored(ITEMS[pattern]):
        ground.client.put_item(TableName=table, Item=item)
    return table


def test_a_ratchets_items(ground: Ground) -> None:
    """A put and a tombstone: read, repeated, expected, outranked."""
    ratchet = Ratchet(filled(ground, "ratchet"), ground.client, clock=FakeClock(NOW))
    read = ratchet.get(LAMP)
    assert read == {**LAMP, "price": 10, "ts": MS}
    assert ratchet.put({**LAMP, "price": 10}, NOW) == Applied({"ts": MS})
    assert ratchet.put({**LAMP, "price": 11}, MS + 1, expected=read) == Applied({"ts": MS + 1})
    assert ratchet.get({"pk": "desk"}) is None
    assert ratchet.put({"pk": "desk"}, MS) == Stale({"ts": MS})
    assert ratchet.put({"pk": "desk"}, MS + 1, expected=None) == Applied({"ts": MS + 1})


def test_a_unique_item(ground: Ground) -> None:
    """It is known by its content, and by its identity."""
    receipts = Unique(filled(ground, "unique"), ground.client, key="pk", identity="receiptId")
    stored = {"pk": "o5", "receiptId": "r1"}
    assert receipts.put({"pk": "o5", "total": 5, "receiptId": "r2"}) == Duplicate(stored, same=True)
    assert receipts.put({"pk": "o5", "total": 6, "receiptId": "r2"}) == Duplicate(stored, same=False)


def test_documents(ground: Ground) -> None:
    """Whole, in sections, and deleted."""
    documents = Documents(filled(ground, "documents", "sk"), ground.client, clock=FakeClock(NOW))
    read = {name: documents.read(name, consistent=True) for name in ("contract", "annex", "gone")}
    values = {name: None if each is None else each.value for name, each in read.items()}
    assert values == {
        "contract": {"text": "twelve plus"},
        "annex": {"terms": [1], "raw": b"\x00\x01"},
        "gone": None,
    }
    assert [documents.clean(name) for name in values] == [0, 0, 0]


@pytest.mark.parametrize(
    ("key", "window", "buckets", "sum_", "at"),
    [
        ("c", timedelta(seconds=60), 4, {"balance": 40, "last": "m3"}, timedelta(seconds=50)),
        ("d", timedelta(days=14), None, {"balance": 40}, timedelta(days=5)),
    ],
)
def test_a_ledgers_items(
    ground: Ground, key: str, window: timedelta, buckets: int | None, sum_: dict[str, Any], at: timedelta
) -> None:
    """Its sum, and each of its ids: by the window that it was written with, and by a longer one."""
    table, clock = filled(ground, "ledger"), FakeClock(NOW + at)
    for ledger in (
        Ledger(table, ground.client, window=window, buckets=buckets, clock=clock),
        Ledger(table, ground.client, window=2 * window, buckets=buckets, clock=clock),
    ):
        assert ledger.get(key) == sum_
        assert [ledger.add(key, {"balance": 10}, id=f"m{n}") for n in range(4)] == [Duplicate(sum_)] * 4
        assert isinstance(ledger.add(key, {"balance": 1}, id=f"of {ledger}"), Applied)
        sum_ = {**sum_, "balance": sum_["balance"] + 1}


def test_a_ledgers_shards(ground: Ground) -> None:
    """The sum of them, and each of their ids."""
    table = filled(ground, "ledger")
    ledger = Ledger(table, ground.client, window=timedelta(days=14), shards=4, clock=FakeClock(NOW))
    assert ledger.get("home") == {"seen": 8}
    assert [ledger.add("home", {"seen": 1}, id=f"m{n}") for n in range(8)] == [Duplicate()] * 8
