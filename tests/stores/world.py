"""The rows of our own stores, for the suite and for tests that look at them."""

from __future__ import annotations

from typing import Any

from lambda_once import Misconfigured
from lambda_once.core.lifecycle import Record
from lambda_once.core.results import Inline, Parts
from lambda_once.stores.memory import MemoryStore
from lambda_once.stores.naming import TableNames, own_key
from lambda_once.stores.rows import record_of
from tests.golden import reader_0_1

Item = dict[str, dict[str, Any]]


class MemoryRows:
    """The rows of a `MemoryStore`; it has no raw ones."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store

    def item(self, token: str) -> Item | None:
        record = self._store.records.get(token)
        return None if record is None else {"record": {"S": repr(record)}}

    def forget(self, token: str) -> None:
        self._store.records.pop(token, None)

    def order(self, key: str) -> dict[str, Any]:
        return {"Put": {"TableName": "orders", "Item": {"lockToken": {"S": key}}}}

    def ordered(self, key: str) -> bool:
        return self.order(key) in self._store.items


class DynamoDBRows:
    """The items of a table."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name

    def item(self, token: str) -> Item | None:
        answer = self.client.get_item(
            TableName=self.name, Key={"lockToken": {"S": token}}, ConsistentRead=True
        )
        found: Item | None = answer.get("Item")
        return found

    def forget(self, token: str) -> None:
        self.client.delete_item(TableName=self.name, Key={"lockToken": {"S": token}})

    def order(self, key: str) -> dict[str, Any]:
        return {"Put": {"TableName": self.name, "Item": {"lockToken": {"S": key}}}}

    def ordered(self, key: str) -> bool:
        return self.item(key) is not None

    def put(self, item: Item) -> None:
        """Write a row that nobody of ours would write."""
        self.client.put_item(TableName=self.name, Item=item)


class NamedRows(DynamoDBRows):
    """The items of a table with a key of its own, as `DynamoDBRows` has those of the usual one."""

    def __init__(self, client: Any, name: str, names: TableNames) -> None:
        super().__init__(client, name)
        self.names = names

    def item(self, token: str) -> Item | None:
        key = own_key({"lockToken": {"S": token}}, self.names)
        found: Item | None = self.client.get_item(TableName=self.name, Key=key, ConsistentRead=True).get(
            "Item"
        )
        return found

    def forget(self, token: str) -> None:
        self.client.delete_item(TableName=self.name, Key=own_key({"lockToken": {"S": token}}, self.names))

    def order(self, key: str) -> dict[str, Any]:
        return {"Put": {"TableName": self.name, "Item": own_key({"lockToken": {"S": key}}, self.names)}}

    def put(self, item: Item) -> None:
        super().put(own_key(item, self.names))


def as_0_1_reads(client: Any, table: str) -> int:
    """Check that release 0.1 reads each row of *table* as today's code does; return how many there are."""
    records = 0
    for item in client.scan(TableName=table, ConsistentRead=True)["Items"]:
        try:
            record = record_of(item)
        except Misconfigured:  # a part of a result, a user's item, or a row that a test has spoilt
            continue
        assert reader_0_1.read(item) == _known(record)
        records += 1
    return records


def _known(record: Record) -> dict[str, object]:
    """Return *record* as the reader of 0.1 returns it."""
    match record.stored:
        case Inline(data) | Parts(data):
            stored: object = data
        case None:
            stored = None
        case _:
            stored = True
    known = record._asdict() | {"state": record.state.value, "stored": stored}
    for name in ("error", "resolution"):
        known[name] = None if known[name] is None else tuple(known[name])
    return known
