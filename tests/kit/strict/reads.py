"""Queries and scans of the strict engine tables: page by page, in DynamoDB's order or a stable one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tests.kit.strict.expressions import Read, read_condition, read_projection
from tests.kit.strict.items import copied, size_of
from tests.kit.strict.tables import Index, Key, Table, bound_of
from tests.kit.strict.trees import (
    BeginsWith,
    Between,
    Bound,
    Compare,
    Condition,
    Every,
    Invalid,
    Item,
    Name,
    Value,
    holds,
)

Answer = dict[str, Any]
Place = tuple[Any, ...]
"""The position of an item in the order in which it is read."""

PAGE_BYTES = 1_048_576
UNIT_BYTES = 4_096


def queried(table: Table, request: Mapping[str, Any]) -> Answer:
    """Answer a Query of the table or of an index. Raises `Invalid`."""
    index = _index(table, request)
    partition, sort = (table.key, table.sort) if index is None else (index.key, index.sort)
    wanted, filtered, shown = _reads(request)
    if wanted.condition is None:
        raise Invalid("KeyConditionExpression must be given")
    bound = bound_of(request, [wanted, filtered, shown])
    _check_keys(wanted.condition, bound, partition, sort)
    if any(bound.name(Name(name)) in (partition, sort) for name in filtered.names):
        raise Invalid("filter expression can only contain non-primary key attributes")
    key_condition = wanted.condition

    def place(item: Item) -> Place:
        return (item[sort]["S"] if sort else "", table.key_of(item))

    candidates = _listed(table, index)
    found = sorted((item for item in candidates if holds(key_condition, item, bound)), key=place)
    if not request.get("ScanIndexForward", True):
        found.reverse()
    return _page(table, index, request, found, place, filtered, shown, bound)


def scanned(table: Table, request: Mapping[str, Any]) -> Answer:
    """Answer a Scan, of a segment if *request* has one. Raises `Invalid`."""
    index = _index(table, request)
    _, filtered, shown = _reads(request)
    bound = bound_of(request, [filtered, shown])
    segment, segments = request.get("Segment"), request.get("TotalSegments")
    if (segment, segments) != (None, None) and segment not in range(segments or 0):
        raise Invalid("the Segment is none of TotalSegments")

    def place(item: Item) -> Place:
        return (_hash(table.key_of(item)), item[table.sort]["S"] if table.sort else "")

    found = sorted(
        (item for item in _listed(table, index) if segments is None or place(item)[0] % segments == segment),
        key=place,
    )
    return _page(table, index, request, found, place, filtered, shown, bound)


def shown_of(item: Item, shown: Read, bound: Bound) -> Item:
    """Return what the projection *shown* leaves of *item*, a copy."""
    wanted = {bound.name(name) for name in shown.listed}
    return copied({name: value for name, value in item.items() if not wanted or name in wanted})


def projection_of(request: Mapping[str, Any]) -> Read:
    """Read the projection of *request*; one that lists nothing shows all."""
    return read_projection(request["ProjectionExpression"]) if "ProjectionExpression" in request else Read()


def read_units(read: int, *, consistent: bool) -> float:
    """Return the capacity units of reading *read* bytes."""
    return max(1, -(-read // UNIT_BYTES)) * (1.0 if consistent else 0.5)


def _reads(request: Mapping[str, Any]) -> tuple[Read, Read, Read]:
    wanted, filtered = (
        read_condition(request[name]) if name in request else Read()
        for name in ("KeyConditionExpression", "FilterExpression")
    )
    return wanted, filtered, projection_of(request)


def _index(table: Table, request: Mapping[str, Any]) -> Index | None:
    if "IndexName" not in request:
        return None
    if request.get("ConsistentRead"):
        raise Invalid("consistent reads are not supported on global secondary indexes")
    for index in table.indexes:
        if index.name == request["IndexName"]:
            return index
    raise Invalid("the table does not have the specified index")


def _listed(table: Table, index: Index | None) -> Iterable[Item]:
    """Return the items that *index* has, as it has them."""
    if index is None:
        return table.items.values()
    needed = [index.key] if index.sort is None else [index.key, index.sort]
    shown = table.items if table.indexed is None else table.indexed
    listed = [item for item in shown.values() if all(name in item for name in needed)]
    if index.projected is None:
        return listed
    seen = index.projected | {*table.keys, *needed}
    return [{name: value for name, value in item.items() if name in seen} for item in listed]


def _check_keys(condition: Condition, bound: Bound, partition: str, sort: str | None) -> None:
    """Refuse a key condition that is not the partition, and at most one comparison of the sort key."""
    parts = condition.parts if isinstance(condition, Every) else (condition,)
    names = []
    for part in parts:
        match part:
            case Compare(Name() as name, by, Value()) if by != "<>":
                names.append((bound.name(name), by))
            case BeginsWith(Name() as name, Value()) | Between(Name() as name, Value(), Value()):
                names.append((bound.name(name), ""))
            case _:
                raise Invalid("invalid operator used in KeyConditionExpression")
    if (partition, "=") not in names or len(names) != len({name for name, _ in names}):
        raise Invalid("query condition missed key schema element")
    if {name for name, _ in names} - {partition, sort}:
        raise Invalid("query key condition not supported")


def _page(
    table: Table,
    index: Index | None,
    request: Mapping[str, Any],
    found: list[Item],
    place: Callable[[Item], Place],
    filtered: Read,
    shown: Read,
    bound: Bound,
) -> Answer:
    """Answer with the items after ExclusiveStartKey, up to Limit or 1 MB of them before they are filtered."""
    keys = {*table.keys, *(filter(None, (index.key, index.sort)) if index is not None else ())}
    found = _after(
        request.get("ExclusiveStartKey"),
        keys,
        found,
        place,
        backwards=not request.get("ScanIndexForward", True),
    )
    limit = request.get("Limit")
    if limit is not None and limit < 1:
        raise Invalid("Limit must be greater than or equal to 1")
    taken, read = 0, 0
    for item in found:
        if taken == limit or read >= PAGE_BYTES:
            break
        taken, read = taken + 1, read + size_of(item)
    more = taken < len(found) or (limit is not None and taken == limit)
    passed = [
        item for item in found[:taken] if filtered.condition is None or holds(filtered.condition, item, bound)
    ]
    answer: Answer = {"Count": len(passed), "ScannedCount": taken}
    match request.get("Select", "ALL_ATTRIBUTES"):
        case "COUNT":
            pass
        case "ALL_ATTRIBUTES" | "SPECIFIC_ATTRIBUTES" | "ALL_PROJECTED_ATTRIBUTES":
            answer["Items"] = [shown_of(item, shown, bound) for item in passed]
        case other:
            raise Invalid(f"there is no Select {other}")
    if more:
        answer["LastEvaluatedKey"] = copied({name: found[taken - 1][name] for name in keys})
    if request.get("ReturnConsumedCapacity") == "TOTAL":
        units = read_units(read, consistent=bool(request.get("ConsistentRead")))
        answer["ConsumedCapacity"] = {"TableName": table.name, "CapacityUnits": units}
    return answer


def _after(
    start: Item | None, keys: set[str], found: list[Item], place: Callable[[Item], Place], *, backwards: bool
) -> list[Item]:
    if start is None:
        return found
    if set(start) != keys:
        raise Invalid("the provided starting key is invalid")
    if backwards:
        return [item for item in found if place(item) < place(start)]
    return [item for item in found if place(item) > place(start)]


def _hash(key: Key) -> int:
    """Return a number that spreads partitions over segments, the same in every process."""
    partition = key if isinstance(key, str) else key[0]
    return int.from_bytes(hashlib.sha256(partition.encode()).digest()[:8], "big")
