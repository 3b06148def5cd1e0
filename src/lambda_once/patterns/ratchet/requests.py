"""
The requests of a ratchet as values, each condition with the guarantee that it gives.

Every write replaces the whole item, and every condition asks only whether the item is older. So the item is
the greatest of all writes, by timestamp and then by *rank*, in whatever order and however often they arrived.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.canonical import digest
from lambda_once.errors import Misconfigured
from lambda_once.patterns.items import Item, Values, plain_item, typed, typed_item
from lambda_once.patterns.table import PatternTable, own_names

if TYPE_CHECKING:
    from lambda_once.patterns.ratchet.timestamps import Stamp


STAMP: Final = "ts"
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


def ratchet_table(name: str, key: object, stamp: str, names: object = None) -> PatternTable:
    """Return the table with *stamp* for the timestamp, and *names* for the ratchet's other attributes."""
    own = (DELETED, TTL, RANK, WRITE)
    return PatternTable.of(name, key, {STAMP: stamp, **own_names(names, own)}, own)


def typed_content(table: PatternTable, item: Mapping[str, object]) -> Item:
    """
    Return *item* typed, without timestamp and rank. Raises `Misconfigured` for what cannot be stored.

    ``deleted: False`` is content: existing tables have it.
    """
    table.key_of(item)
    taken = item.keys() & {table.own[RANK], table.own[WRITE]}
    if item.get(table.own[DELETED], False) is not False:
        taken |= {table.own[DELETED]}
    if taken:
        raise Misconfigured(f"attribute {min(taken)!r} is the ratchet's own: give it another name")
    return typed_item({name: each for name, each in item.items() if name != table.own[STAMP]})


def live(table: PatternTable, item: Mapping[str, Mapping[str, Any]] | None) -> Values | None:
    """Return *item* in Python values, without the ratchet's own; None for none and for a tombstone."""
    if item is None or item.get(table.own[DELETED]) == {"BOOL": True}:
        return None
    apart = (table.own[RANK], table.own[WRITE])
    return {name: each for name, each in plain_item(item).items() if name not in apart}


@dataclass(frozen=True, slots=True)
class RatchetWrite:
    """One write of a whole item."""

    table: PatternTable
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
            item = item | {self.table.own[WRITE]: typed(write_id)}
        names = {"#ts": self.table.own[STAMP], "#pk": self.table.key[0], "#deleted": self.table.own[DELETED]}
        names |= {"#rank": self.table.own[RANK], "#write": self.table.own[WRITE]}
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
        if self.table.own[STAMP] not in expected:
            raise Misconfigured(f"expected has no {self.table.own[STAMP]!r}: give the result of get")
        return {
            ":read": expected[self.table.own[STAMP]],
            ":readrank": rank_of(typed_content(self.table, expected)),
        }


def put(table: PatternTable, item: Mapping[str, object], stamp: Stamp) -> RatchetWrite:
    """Return the write of *item*. Raises `Misconfigured`."""
    content = typed_content(table, item)
    rank = rank_of(content)
    marks = {table.own[STAMP]: typed(stamp), table.own[RANK]: typed(rank)}
    return RatchetWrite(table, stamp, content | marks, rank)


def tombstone(table: PatternTable, key: Mapping[str, object], stamp: Stamp, ttl: int) -> RatchetWrite:
    """Return the write of a tombstone: key, timestamp, mark and *ttl* (epoch seconds)."""
    item = {**table.just_key(key), table.own[STAMP]: stamp, table.own[DELETED]: True, table.own[TTL]: ttl}
    return RatchetWrite(table, stamp, typed_item(item), None)


def rank_of(content: Item) -> str:
    """Return the rank of *content*: the same for equal values in DynamoDB."""
    return digest(plain_item(content))[:RANK_DIGITS]


def get(table: PatternTable, key: Mapping[str, object], *, consistent: bool) -> dict[str, Any]:
    return {"TableName": table.name, "Key": table.key_item(key), "ConsistentRead": consistent}


def query(
    table: PatternTable,
    partition: object,
    *,
    index: tuple[str, tuple[str, ...]] | None = None,
    begins_with: str | None = None,
    between: tuple[object, object] | None = None,
    descending: bool,
    consistent: bool,
) -> dict[str, Any]:
    """
    Return the arguments of Query but for Limit and ExclusiveStartKey.

    *index*: its name and key attributes; it has no consistent reads.
    """
    key = table.key if index is None else index[1]
    condition, values = "#pk = :pk", {":pk": partition, ":deleted": True}
    names = {"#pk": key[0], "#deleted": table.own[DELETED]}
    if begins_with is not None:
        condition += " AND begins_with(#sk, :sk)"
        values[":sk"] = begins_with
    if between is not None:
        condition += " AND #sk BETWEEN :from AND :to"
        values |= {":from": between[0], ":to": between[1]}
    return {
        "TableName": table.name,
        **({} if index is None else {"IndexName": index[0]}),
        "KeyConditionExpression": condition,
        "FilterExpression": IS_LIVE,
        "ExpressionAttributeNames": names | ({"#sk": key[1]} if "#sk" in condition else {}),
        "ExpressionAttributeValues": typed_item(values),
        "ScanIndexForward": not descending,
        "ConsistentRead": consistent and index is None,
    }
