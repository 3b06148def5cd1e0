"""Tables as CreateTable asks for them and DescribeTable has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.kit.strict.items import size_of
from tests.kit.strict.tables import Index, Table
from tests.kit.strict.trees import Invalid

Description = dict[str, Any]


def token_table(name: str) -> Table:
    """Return the token table, empty."""
    projected = frozenset({"lockedBy", "created", "attempt"})
    return Table(name, "lockToken", indexes=(Index("byStatus", "listed", "expectedCompletion", projected),))


def table_of(request: Mapping[str, Any]) -> Table:
    """Return the empty table that CreateTable *request* asks for. Raises `Invalid`."""
    key, sort = _keys(request["KeySchema"])
    indexes = tuple(map(_index, request.get("GlobalSecondaryIndexes", ())))
    used = {key, sort, *(index.key for index in indexes), *(index.sort for index in indexes)} - {None}
    types = {each["AttributeName"]: each["AttributeType"] for each in request["AttributeDefinitions"]}
    if set(types) != used:
        raise Invalid("AttributeDefinitions are not those of the keys and indexes")
    unusable = frozenset(name for name, kind in types.items() if kind != "S")
    return Table(request["TableName"], key, sort, indexes, unusable=unusable)


def described(table: Table) -> Description:
    """Return *table* as DescribeTable has it."""
    count, size = table.counted or counted(table)
    texts = {*table.keys, *(name for index in table.indexes for name in (index.key, index.sort) if name)}
    found: Description = {
        "TableName": table.name,
        "TableStatus": "ACTIVE",
        "TableArn": f"arn:aws:dynamodb:eu-central-1:123456789012:table/{table.name}",
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in sorted(texts)],
        "KeySchema": _schema(table.key, table.sort),
        "ItemCount": count,
        "TableSizeBytes": size,
        "BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"},
    }
    if table.indexes:
        found["GlobalSecondaryIndexes"] = [
            {
                "IndexName": index.name,
                "IndexStatus": "ACTIVE",
                "KeySchema": _schema(index.key, index.sort),
                "Projection": {"ProjectionType": "ALL"}
                if index.projected is None
                else {"ProjectionType": "INCLUDE", "NonKeyAttributes": sorted(index.projected)},
            }
            for index in table.indexes
        ]
    return found


def counted(table: Table) -> tuple[int, int]:
    """Return how many items *table* has, and their bytes."""
    return len(table.items), sum(map(size_of, table.items.values()))


def _keys(schema: Sequence[Mapping[str, str]]) -> tuple[str, str | None]:
    kinds = [each["KeyType"] for each in schema]
    if kinds not in (["HASH"], ["HASH", "RANGE"]):
        raise Invalid("a key schema is a HASH, and perhaps a RANGE")
    names = [each["AttributeName"] for each in schema]
    return names[0], names[1] if len(names) > 1 else None


def _index(request: Mapping[str, Any]) -> Index:
    key, sort = _keys(request["KeySchema"])
    projection = request["Projection"]
    match projection["ProjectionType"]:
        case "ALL":
            return Index(request["IndexName"], key, sort)
        case "KEYS_ONLY":
            return Index(request["IndexName"], key, sort, frozenset())
        case _:
            return Index(request["IndexName"], key, sort, frozenset(projection["NonKeyAttributes"]))


def _schema(key: str, sort: str | None) -> list[dict[str, str]]:
    ranged = [] if sort is None else [{"AttributeName": sort, "KeyType": "RANGE"}]
    return [{"AttributeName": key, "KeyType": "HASH"}, *ranged]
