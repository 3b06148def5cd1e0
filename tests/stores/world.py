"""The rows of our own stores, for the suite and for tests that look at them."""

from __future__ import annotations

from typing import Any

from lambda_once.stores.memory import MemoryStore

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
        """Write a row that the library never writes."""
        self.client.put_item(TableName=self.name, Item=item)
