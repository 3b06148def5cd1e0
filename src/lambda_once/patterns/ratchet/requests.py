"""
The requests of a ratchet as values, each condition with the guarantee that it gives.

Every write replaces the whole item, and every condition asks only whether the item is older. So the item is
the greatest of all writes, by timestamp and then by *rank*, in whatever order and however often they arrived.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.canonical import digest
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.items import Item, Values, is_key_value, own_names, plain_item, typed, typed_item
from lambda_once.patterns.ratchet.timestamps import Stamp, is_older

if TYPE_CHECKING:
    import threading


DELETED: Final = "deleted"
TTL: Final = "ttl"
RANK: Final = "_rank"
"""16 hex digits of the content's digest, which order two contents of one timestamp."""
RANK_DIGITS: Final = 16
WRITE: Final = "_write"
"""The random id of the revision that wrote the item, where it was written with ``expected=``."""


class Anything(Enum):
    """The default of ``expected=``: no expectation. None expects no item."""

    ANYTHING = "anything"


ANYTHING: Final = Anything.ANYTHING

if TYPE_CHECKING:
    Expected = Mapping[str, object] | Anything | None

IS_LIVE: Final = "NOT (#deleted = :deleted)"  # an adopted item may say deleted: false
# What is older is replaced. Of two contents of one timestamp the one with the greater rank stays, in every
# order. A tombstone outranks every content, and any rank outranks an item that others wrote, which has none.
PUT_IS_NEWER: Final = (
    f"#ts < :ts OR (#ts = :ts AND {IS_LIVE} AND (attribute_not_exists(#rank) OR #rank <= :rank))"
)
# A delete outranks every put of its timestamp, and may be repeated.
DELETE_IS_NEWER: Final = "#ts <= :ts"
# Texts of two lengths have no order ("9" > "10"); a comparison of two types is false.
OF_ONE_WIDTH: Final = "size(#ts) = :width"
# The item is the one that was read. An item that others wrote has no rank: its timestamp alone is compared.
AS_READ: Final = f"(#ts = :read AND {IS_LIVE} AND (attribute_not_exists(#rank) OR #rank = :readrank))"
NOTHING_READ: Final = "(attribute_not_exists(#pk) OR #deleted = :deleted)"
# The item is this very write, whose answer was lost. Its content is no proof: two writers that read the same
# item may write the same content, and only one of them succeeds.
OWN: Final = "(#write = :write)"

_PLACEHOLDER: Final = re.compile(r"[#:]\w+")


@dataclass(frozen=True, slots=True)
class RatchetTable:
    """A table, its key attributes, the attribute of the timestamp, and other names for the ratchet's own."""

    name: str
    key: tuple[str, ...]
    stamp: str
    names: Mapping[str, str] = field(default_factory=dict)
    indexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def own(self, attribute: str) -> str:
        return self.names.get(attribute, attribute)

    def __post_init__(self) -> None:
        if not self.name or len(self.key) not in (1, 2):
            raise Misconfigured(f"table {self.name!r}, key {self.key!r}: give a table and one or two names")
        own_names(self.names, (DELETED, TTL, RANK, WRITE), (*self.key, self.stamp))

    def key_of(self, values: Mapping[str, object]) -> Values:
        """Return the key attributes of *values*. Raises `Misconfigured` where one is missing or not a key."""
        for name in self.key:
            if name not in values:
                raise Misconfigured(f"key attribute {name!r} is missing: the key is {', '.join(self.key)}")
            if not is_key_value(values[name]):
                raise Misconfigured(f"key attribute {name!r}: give text, bytes or a number that is not empty")
        return {name: values[name] for name in self.key}

    def just_key(self, values: Mapping[str, object]) -> Values:
        """Return *values* as a key. Raises `Misconfigured` also for other attributes."""
        if extra := sorted(values.keys() - set(self.key)):
            raise Misconfigured(f"{', '.join(extra)}: not in the key, which is {', '.join(self.key)}")
        return self.key_of(values)

    def content(self, item: Mapping[str, object]) -> Item:
        """
        Return *item* typed, without timestamp and rank. Raises `Misconfigured` for what cannot be stored.

        ``deleted: False`` is content: existing tables have it.
        """
        self.key_of(item)
        taken = item.keys() & {self.own(RANK), self.own(WRITE)}
        if item.get(self.own(DELETED), False) is not False:
            taken |= {self.own(DELETED)}
        if taken:
            raise Misconfigured(f"attribute {min(taken)!r} is the ratchet's own: give it another name")
        return typed_item({name: each for name, each in item.items() if name != self.stamp})

    def live(self, item: Mapping[str, Mapping[str, Any]] | None) -> Values | None:
        """Return *item* in Python values, without the ratchet's own; None for none and for a tombstone."""
        if item is None or item.get(self.own(DELETED)) == {"BOOL": True}:
            return None
        apart = (self.own(RANK), self.own(WRITE))
        return {name: each for name, each in plain_item(item).items() if name not in apart}


@dataclass(frozen=True, slots=True)
class RatchetWrite:
    """One write of a whole item."""

    table: RatchetTable
    stamp: Stamp
    item: Item
    rank: str | None
    """None: a tombstone."""

    def request(self, expected: Expected = ANYTHING, write_id: str = "") -> dict[str, Any]:
        """
        Return the arguments of PutItem: refused unless newer, and unless the item is *expected*.

        *write_id* is kept in the item with *expected* alone: a retry recognises its own write by it. Raises
        `Misconfigured` for an *expected* without a timestamp.
        """
        condition, item = self._newer(), self.item
        if not isinstance(expected, Anything):
            read = NOTHING_READ if expected is None else AS_READ
            condition = f"({condition}) AND ({read} OR {OWN})"
            item = item | {self.table.own(WRITE): typed(write_id)}
        names = {"#ts": self.table.stamp, "#pk": self.table.key[0], "#deleted": self.table.own(DELETED)}
        names |= {"#rank": self.table.own(RANK), "#write": self.table.own(WRITE)}
        values = {":ts": self.stamp, ":rank": self.rank, ":deleted": True, ":write": write_id}
        values |= {":width": len(str(self.stamp)), **self._read(expected)}
        used = set(_PLACEHOLDER.findall(condition))
        return {
            "TableName": self.table.name,
            "Item": item,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {name: each for name, each in names.items() if name in used},
            "ExpressionAttributeValues": {name: typed(each) for name, each in values.items() if name in used},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def _newer(self) -> str:
        newer = DELETE_IS_NEWER if self.rank is None else PUT_IS_NEWER
        if isinstance(self.stamp, str):
            newer = f"{OF_ONE_WIDTH} AND ({newer})"
        return f"attribute_not_exists(#ts) OR ({newer})"

    def _read(self, expected: Expected) -> Values:
        if expected is None or isinstance(expected, Anything):
            return {}
        if self.table.stamp not in expected:
            raise Misconfigured(f"expected has no {self.table.stamp!r}: give the result of get")
        return {":read": expected[self.table.stamp], ":readrank": rank_of(self.table.content(expected))}


def put(table: RatchetTable, item: Mapping[str, object], stamp: Stamp) -> RatchetWrite:
    """Return the write of *item*. Raises `Misconfigured`."""
    content = table.content(item)
    rank = rank_of(content)
    marks = {table.stamp: typed(stamp), table.own(RANK): typed(rank)}
    return RatchetWrite(table, stamp, content | marks, rank)


def tombstone(table: RatchetTable, key: Mapping[str, object], stamp: Stamp, ttl: int) -> RatchetWrite:
    """Return the write of a tombstone: key, timestamp, mark and *ttl* (epoch seconds)."""
    item = {**table.just_key(key), table.stamp: stamp, table.own(DELETED): True, table.own(TTL): ttl}
    return RatchetWrite(table, stamp, typed_item(item), None)


def rank_of(content: Item) -> str:
    """Return the rank of *content*: the same for equal values in DynamoDB."""
    return digest(plain_item(content))[:RANK_DIGITS]


def get(table: RatchetTable, key: Mapping[str, object], *, consistent: bool) -> dict[str, Any]:
    return {"TableName": table.name, "Key": typed_item(table.just_key(key)), "ConsistentRead": consistent}


def query(
    table: RatchetTable,
    partition: object,
    *,
    index: str | None = None,
    begins_with: str | None = None,
    between: tuple[object, object] | None = None,
    descending: bool,
    consistent: bool,
) -> dict[str, Any]:
    """Return the arguments of Query but for Limit and ExclusiveStartKey. An index has no consistent reads."""
    key = table.key if index is None else table.indexes[index]
    condition, values = "#pk = :pk", {":pk": partition, ":deleted": True}
    names = {"#pk": key[0], "#deleted": table.own(DELETED)}
    if begins_with is not None:
        condition += " AND begins_with(#sk, :sk)"
        values[":sk"] = begins_with
    if between is not None:
        condition += " AND #sk BETWEEN :from AND :to"
        values |= {":from": between[0], ":to": between[1]}
    return {
        "TableName": table.name,
        **({} if index is None else {"IndexName": index}),
        "KeyConditionExpression": condition,
        "FilterExpression": IS_LIVE,
        "ExpressionAttributeNames": names | ({"#sk": key[1]} if "#sk" in condition else {}),
        "ExpressionAttributeValues": typed_item(values),
        "ScanIndexForward": not descending,
        "ConsistentRead": consistent and index is None,
    }


class InFlight:
    """All requests of one write of a revision; ``open``: how many may have taken effect."""

    def __init__(self, key: str, content: tuple[str | None, bool] | None, lock: threading.Lock) -> None:
        self.key = key
        self.content = content
        self.open = 0
        self._written = False
        self._lock = lock

    def written(self) -> None:
        with self._lock:
            self._written = True

    def refused(self, *, unanswered: bool) -> None:
        """Note that one request was refused; *unanswered*: an earlier try of it may have taken effect."""
        with self._lock:
            self.open -= not unanswered

    def was_written(self, stamp: Stamp, stored: Stamp | None) -> bool:
        """
        Return whether another request of this write took effect before the item became *stored*.

        Raises `StoreUnavailable` where one may have: then *stored* may have replaced it. Whatever replaced
        this write is not older; so where *stored* is older, this write never took effect.
        """
        with self._lock:
            if self._written:
                return True
            if self.open == 0 or (stored is not None and is_older(stored, stamp)):
                return False
        raise StoreUnavailable(
            f"{self.key}: a request got no answer, and the item is newer now, or gone: it may have been "
            "written or not. Read it, and decide again"
        )
