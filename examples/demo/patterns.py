"""The patterns, each compared with the plain writes that it replaces."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

from lambda_once.core.clock import Clock
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.items import typed_item
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.unique import Unique

PRICES = (300, 200, 250)
"""A product's prices, set a minute apart."""
LARGE = 600_000
"""Bytes of a contract: more than an item may have, so it is written in parts."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One pattern, and what plain writes and its own left in the table."""

    pattern: str
    arrives: str
    plain: str
    kept: str
    promised: str
    """The right value of `kept`."""

    @property
    def broken(self) -> bool:
        """Whether `kept` is wrong."""
        return self.kept != self.promised


@dataclass(frozen=True, slots=True)
class PatternsTable:
    """One table of text keys ``pk`` and ``sk``, which all patterns share here."""

    client: Any
    table: str
    clock: Clock

    def put(self, item: dict[str, object]) -> None:
        """Write *item* without a condition."""
        self.client.put_item(TableName=self.table, Item=typed_item(item))

    def under(self, pk: str) -> list[dict[str, Any]]:
        """Return the items of *pk*, by their sort key."""
        values = {":pk": {"S": pk}}
        request = {"KeyConditionExpression": "pk = :pk", "ExpressionAttributeValues": values}
        found: list[dict[str, Any]] = self.client.query(TableName=self.table, ConsistentRead=True, **request)[
            "Items"
        ]
        return found


class Died(Exception):
    """The writer's sandbox was killed."""


class Dying:
    """A client that raises `Died` from request *last* + 1 on."""

    def __init__(self, client: Any, last: int) -> None:
        self._client = client
        self._left = last

    def __getattr__(self, operation: str) -> Any:
        if self._left < 1:
            raise Died
        self._left -= 1
        return getattr(self._client, operation)


@contextmanager
def patterns_table(client: Any, clock: Clock) -> Iterator[PatternsTable]:
    """Create the table for the block, and delete it afterwards."""
    name = f"lambda-once-demo-patterns-{secrets.token_hex(4)}"
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": each, "AttributeType": "S"} for each in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    try:
        client.get_waiter("table_exists").wait(TableName=name, WaiterConfig={"Delay": 1})
        yield PatternsTable(client, name, clock)
    finally:
        client.delete_table(TableName=name)


def compare(on: PatternsTable) -> list[Comparison]:
    """Compare each pattern with plain writes."""
    return [play(on) for play in (_ledger, _ratchet, _unique, _documents)]


def _ledger(on: PatternsTable) -> Comparison:
    messages = [f"order-{n}" for n in range(5)] * 2
    for _ in messages:
        on.client.update_item(
            TableName=on.table,
            Key=typed_item({"pk": "plain", "sk": "points"}),
            UpdateExpression="ADD balance :points",
            ExpressionAttributeValues={":points": {"N": "10"}},
        )
    ledger = Ledger(on.table, on.client, key=("pk", "sk"), window=timedelta(days=14), clock=on.clock)
    account = ("once", "points")
    for message in messages:
        ledger.add(account, {"balance": 10}, id=message)
    counted = ledger.get(account) or {}
    return Comparison(
        "Ledger",
        "5 orders of 10 points, each delivered twice",
        f"{on.under('plain')[0]['balance']['N']} points",
        f"{counted.get('balance')} points",
        "50 points",
    )


def _ratchet(on: PatternsTable) -> Comparison:
    now = on.clock.now()
    changes = [(price, now + timedelta(minutes=minute)) for minute, price in enumerate(PRICES)]
    ratchet = Ratchet(on.table, on.client, key=("pk", "sk"), clock=on.clock)
    plain, kept = set(), set()
    for n, order in enumerate(permutations(changes)):
        key = {"pk": f"product-{n}", "sk": "price"}
        plain.add(_last(order, lambda price, _at, key=key: on.put({**key, "price": price}), on, key))  # type: ignore[misc]
        on.client.delete_item(TableName=on.table, Key=typed_item(key))
        kept.add(_last(order, lambda price, at, key=key: ratchet.put({**key, "price": price}, at), on, key))  # type: ignore[misc]
    return Comparison(
        "Ratchet",
        f"{len(PRICES)} prices, in all {n + 1} orders of arrival",
        _listed(plain),
        _listed(kept),
        f"{PRICES[-1]}",
    )


def _last(
    order: tuple[tuple[int, datetime], ...],
    write: Callable[[int, datetime], object],
    on: PatternsTable,
    key: dict[str, str],
) -> int:
    """Write the prices in *order*, and return the price that the table has in the end."""
    for price, at in order:
        write(price, at)
    return int(on.under(key["pk"])[0]["price"]["N"])


def _listed(prices: set[int]) -> str:
    return " or ".join(map(str, sorted(prices)))


def _unique(on: PatternsTable) -> Comparison:
    receipt = {"customer": "77", "order": "5", "amount": 1999}
    unique = Unique(
        on.table, on.client, key={"pk": "customer", "sk": "order"}, identity="number", clock=on.clock
    )
    for number in ("R-1", "R-2"):
        on.put({"pk": "plain-77", "sk": "5", **receipt, "number": number})
        unique.put({**receipt, "number": number})
    return Comparison(
        "Unique",
        "one receipt, published twice",
        f"receipt {on.under('plain-77')[0]['number']['S']}",
        f"receipt {on.under('77')[0]['number']['S']}",
        "receipt R-1",
    )


def _documents(on: PatternsTable) -> Comparison:
    versions = (b"1" * LARGE, b"2" * LARGE)
    halves = LARGE // 2
    for content, parts in ((versions[0], 2), (versions[1], 1)):  # the second writer dies after its first part
        for part in range(parts):
            on.put({"pk": "plain-C7", "sk": str(part), "data": content[part * halves : (part + 1) * halves]})
    torn = b"".join(bytes(item["data"]["B"]) for item in on.under("plain-C7"))
    documents = Documents(on.table, on.client, clock=on.clock)
    documents.write("C7", versions[0])
    try:
        Documents(on.table, Dying(on.client, 2), clock=on.clock).write("C7", versions[1])
    except Died:
        found = documents.read("C7", consistent=True)
        return Comparison(
            "Documents",
            f"{LARGE // 1000} KB, a crash during an update",
            _named(torn, versions),
            "nothing" if found is None else _named(found.value, versions),
            "all of version 1",
        )
    raise AssertionError("the second writer should have died")


def _named(content: bytes, versions: tuple[bytes, ...]) -> str:
    whole = [f"all of version {number}" for number, each in enumerate(versions, 1) if content == each]
    return whole[0] if whole else "half of each"
