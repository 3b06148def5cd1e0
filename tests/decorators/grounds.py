"""The store of a rig, its rows laid open, and a count in a table of the user's."""

from __future__ import annotations

from typing import Any, Protocol

from lambda_once import MemoryStore
from lambda_once.core.lifecycle import Record
from lambda_once.stores.contract import Store
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore

COUNT = "a count of the user's"
"""The key of the user's own item."""


class Ground(Protocol):
    """A store on its table, empty at first."""

    store: Store

    @property
    def records(self) -> list[Record]:
        """All token rows."""

    @property
    def booking(self) -> dict[str, Any]:
        """An item for `transact`: it adds one to the user's count."""

    @property
    def bookings(self) -> int:
        """The user's count."""


class Memory:
    """A `MemoryStore`. It has no other tables, and collects the user's items."""

    def __init__(self) -> None:
        self.store: Store = MemoryStore()
        self._store: Any = self.store

    @property
    def records(self) -> list[Record]:
        return list(self._store.records.values())

    @property
    def booking(self) -> dict[str, Any]:
        return _adding_one("orders")

    @property
    def bookings(self) -> int:
        return len(self._store.items)


class Table:
    """A table that keeps lock tokens and, as one more row, the user's count."""

    def __init__(self, client: Any, name: str, sender: Any = None) -> None:
        """*sender* is the store's client, where that is another."""
        self.store: Store = DynamoDBStore(name, sender or client)
        self._client = client
        self._name = name

    @property
    def records(self) -> list[Record]:
        return [record_of(item) for item in self._items() if "attempt" in item]

    @property
    def booking(self) -> dict[str, Any]:
        return _adding_one(self._name)

    @property
    def bookings(self) -> int:
        return sum(int(item["bookings"]["N"]) for item in self._items() if "bookings" in item)

    def anew(self, sender: Any = None) -> Table:
        """Return the same table under a new store, which remembers nothing."""
        return Table(self._client, self._name, sender)

    def clear(self) -> None:
        """Delete all rows."""
        for item in self._items():
            self._client.delete_item(TableName=self._name, Key={"lockToken": item["lockToken"]})

    def _items(self) -> list[dict[str, Any]]:
        pages = self._client.get_paginator("scan").paginate(TableName=self._name, ConsistentRead=True)
        return [item for page in pages for item in page["Items"]]


def _adding_one(table: str) -> dict[str, Any]:
    return {
        "Update": {
            "TableName": table,
            "Key": {"lockToken": {"S": COUNT}},
            "UpdateExpression": "ADD bookings :one",
            "ExpressionAttributeValues": {":one": {"N": "1"}},
        }
    }
