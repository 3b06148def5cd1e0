"""Documents on an engine, and the items that are stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from lambda_once.core.clock import Clock
from lambda_once.patterns.documents import Documents
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

PART_BYTES = 100
ID = "contract#7"

Item = dict[str, Any]


@dataclass
class Shelf:
    """A table of documents in parts of 100 bytes, and the clock of those who write them."""

    client: Any
    table: str
    clock: FakeClock
    documents: Documents

    def items(self, entity_id: str = ID) -> dict[str, Item]:
        """Return what is stored of one document, by sort key."""
        found = self.client.query(
            TableName=self.table,
            KeyConditionExpression="pk = :id",
            ExpressionAttributeValues={":id": {"S": entity_id}},
            ConsistentRead=True,
        )
        return {item["sk"]["S"]: item for item in found["Items"]}

    def parts(self, entity_id: str = ID) -> set[str]:
        """Return the versions of which there are parts."""
        return {sort.partition("#")[0] for sort in self.items(entity_id) if sort != "head"}

    def put(self, items: Iterable[Item], entity_id: str = ID) -> None:
        """Put *items*, as a replica gets them."""
        for item in items:
            self.client.put_item(TableName=self.table, Item=item | {"pk": {"S": entity_id}})

    def remove(self, sorts: Iterable[str], entity_id: str = ID) -> None:
        for sort in sorts:
            self.client.delete_item(TableName=self.table, Key={"pk": {"S": entity_id}, "sk": {"S": sort}})

    def other(self, client: Any = None, clock: Clock | None = None) -> Documents:
        """Return another writer's documents of the same table."""
        return Documents(
            self.table,
            self.client if client is None else client,
            part_bytes=PART_BYTES,
            clock=self.clock if clock is None else clock,
        )


def shelf(ground: Ground) -> Shelf:
    """Return an empty one."""
    clock = FakeClock()
    table = ground.table("pk", "sk", stream=True)
    return Shelf(
        ground.client, table, clock, Documents(table, ground.client, part_bytes=PART_BYTES, clock=clock)
    )


def text(letter: str, parts: int = 4) -> bytes:
    """Return a document of *parts* parts that says nothing but *letter*."""
    return letter.encode() * (PART_BYTES * (parts - 1) + 1)
