"""
The requests of a ratchet as values, with the guarantee of each condition.

Every write replaces the whole item, and the condition only checks whether the item is older. So the item is
always the greatest write, by timestamp and then by *rank*, in whatever order and however often writes arrive.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.canonical import digest
from lambda_once.dynamodb import Item, Values, plain_item, typed, typed_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.table import PatternTable, own_names

if TYPE_CHECKING:
    from lambda_once.patterns.ratchet.timestamps import Stamp


STAMP: Final = "ts"
DELETED: Final = "deleted"
TTL: Final = "ttl"
RANK: Final = "_rank"
"""16 hex digits of the content's digest; they order two contents with the same timestamp."""
RANK_DIGITS: Final = 16
WRITE: Final = "_write"
"""The random id of the revision that wrote the item, if it was written with ``expected=``."""

Expected = Mapping[str, object] | None
"""The item that a write expects, None for no item."""
ANYTHING: Final[Expected] = MappingProxyType({})
"""The default of ``expected=``, compared by identity: no expectation."""

IS_LIVE: Final = "NOT (#deleted = :deleted)"  # an adopted item may say deleted: false
# An older item is replaced. Of two contents with one timestamp the one with the greater rank stays, in any
# order. A tombstone outranks every content, and any rank outranks an item from another writer, without rank.
PUT_IS_NEWER: Final = (
    f"#ts < :ts OR (#ts = :ts AND {IS_LIVE} AND (attribute_not_exists(#rank) OR #rank <= :rank))"
)
# A delete outranks every put with its timestamp, and may be repeated.
DELETE_IS_NEWER: Final = "#ts <= :ts"
# Texts of two lengths have no order ("9" > "10"); a comparison of two types is false.
OF_ONE_WIDTH: Final = "size(#ts) = :width"
# The item is the one that was read. An item from another writer has no rank: only its timestamp is compared.
AS_READ: Final = f"(#ts = :read AND {IS_LIVE} AND (attribute_not_exists(#rank) OR #rank = :readrank))"
# An item without a timestamp is from another writer, and its content is not compared. The first write of a
# ratchet gives it a timestamp, so of two writers that read it one succeeds.
WITHOUT_STAMP: Final = f"(attribute_exists(#pk) AND attribute_not_exists(#ts) AND {IS_LIVE})"
NOTHING_READ: Final = "(attribute_not_exists(#pk) OR #deleted = :deleted)"
# The item is this very write, whose response was lost. Its content is no proof: two writers that read one
# item may write the same content, and only one of them succeeds.
OWN: Final = "(#write = :write)"

_PLACEHOLDER: Final = re.compile(r"[#:]\w+")


def ratchet_table(name: str, key: object, stamp: str, names: object = None) -> PatternTable:
    """Return the table with *stamp* as its timestamp; *names* renames the ratchet's other attributes."""
    own = (DELETED, TTL, RANK, WRITE)
    return PatternTable.of(name, key, {STAMP: stamp, **own_names(names, own)}, own)


def typed_content(table: PatternTable, item: Mapping[str, object]) -> Item:
    """
    Return *item* typed, without timestamp and rank. Raises `Misconfigured` if it cannot be stored.

    ``deleted: False`` is content, because existing tables use it.
    """
    table.key_of(item)
    taken = item.keys() & {table.own[RANK], table.own[WRITE]}
    if item.get(table.own[DELETED], False) is not False:
        taken |= {table.own[DELETED]}
    if taken:
        raise Misconfigured(f"attribute {min(taken)!r} is the ratchet's own: give it another name")
    return typed_item({name: each for name, each in item.items() if name != table.own[STAMP]})


def live(table: PatternTable, item: Mapping[str, Mapping[str, Any]] | None) -> Values | None:
    """Return *item* as Python values without the ratchet's own; None for no item and for a tombstone."""
    if item is None or item.get(table.own[DELETED]) == {"BOOL": True}:
        return None
    apart = (table.own[RANK], table.own[WRITE])
    return {name: each for name, each in plain_item(item).items() if name not in apart}


@dataclass(frozen=True, slots=True)
class RatchetWrite:
    """One write of a whole item."""

    table: PatternTable
    item: Item
    stamp: Stamp
    rank: str | None
    """None for a tombstone."""
    expected: Expected

    @property
    def place(self) -> Item:
        """The key of the item."""
        return {name: self.item[name] for name in self.table.key}

    @property
    def key(self) -> str:
        """The key as one text, whatever type its numbers have."""
        return f"{plain_item(self.place)}"

    def request(self, write_id: str) -> dict[str, Any]:
        """
        Return the arguments of PutItem: refused unless newer, and unless the item is the expected one.

        *write_id* is stored only with ``expected=``: a retry recognises its own write by it. Raises
        `Misconfigured` if the expected item cannot be an item of the table.
        """
        own, item = self.table.own, self.item
        names = {"#pk": self.table.key[0], **{f"#{usual.strip('_')}": own[usual] for usual in own}}
        values: Values = {":ts": self.stamp, ":rank": self.rank, ":deleted": True, ":write": write_id}
        newer = DELETE_IS_NEWER if self.rank is None else PUT_IS_NEWER
        if isinstance(self.stamp, str):
            newer, values[":width"] = f"{OF_ONE_WIDTH} AND ({newer})", len(self.stamp)
        condition = f"attribute_not_exists(#ts) OR ({newer})"
        if self.expected is not ANYTHING:
            read = NOTHING_READ
            if self.expected is not None:
                values[":readrank"] = rank_of(typed_content(self.table, self.expected))
                values[":read"] = self.expected.get(own[STAMP])
                read = WITHOUT_STAMP if values[":read"] is None else AS_READ
            condition = f"({condition}) AND ({read} OR {OWN})"
            item = item | {own[WRITE]: typed(write_id)}
        return {
            "TableName": self.table.name,
            "Item": item,
            "ConditionExpression": condition,
            **_placeholders(condition, names, values),
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }

    def expects(self, found: Mapping[str, Mapping[str, Any]]) -> bool:
        """Return whether *found* is as expected, so that the refusal was due to its timestamp."""
        if self.expected is ANYTHING:
            return True
        item = live(self.table, found)
        if self.expected is None or item is None:
            return self.expected is None and item is None
        stamp, rank = self.table.own[STAMP], found.get(self.table.own[RANK])
        same = rank is None or rank == typed(rank_of(typed_content(self.table, self.expected)))
        return same and item.get(stamp) == plain_item({stamp: typed(self.expected.get(stamp))})[stamp]


def put(table: PatternTable, item: Mapping[str, object], stamp: Stamp, expected: Expected) -> RatchetWrite:
    """Return the write of *item*. Raises `Misconfigured`."""
    content = typed_content(table, item)
    rank = rank_of(content)
    marks = {table.own[STAMP]: typed(stamp), table.own[RANK]: typed(rank)}
    return RatchetWrite(table, content | marks, stamp, rank, expected)


def tombstone(
    table: PatternTable, key: Mapping[str, object], stamp: Stamp, expected: Expected, ttl: int
) -> RatchetWrite:
    """Return the write of a tombstone: key, timestamp, mark and *ttl* (epoch seconds)."""
    key = table.just_key(key)
    marks = {table.own[STAMP]: stamp, table.own[DELETED]: True, table.own[TTL]: ttl}
    return RatchetWrite(table, typed_item({**key, **marks}), stamp, None, expected)


def rank_of(content: Item) -> str:
    """Return the rank of *content*; contents that DynamoDB stores alike have the same rank."""
    return digest(plain_item(content))[:RANK_DIGITS]


def query(
    table: PatternTable,
    key: tuple[str, ...],
    partition: object,
    begins_with: str | None,
    between: tuple[object, object] | None,
) -> dict[str, Any]:
    """Return the arguments that select live items in a Query; *key* is that of the table or index."""
    condition = "#pk = :pk"
    if begins_with is not None:
        condition += " AND begins_with(#sk, :sk)"
    if between is not None:
        condition += " AND #sk BETWEEN :from AND :to"
    names = {"#pk": key[0], "#sk": key[-1], "#deleted": table.own[DELETED]}
    values = {":pk": partition, ":sk": begins_with, ":deleted": True}
    values |= dict(zip((":from", ":to"), between or (), strict=False))
    return {
        "TableName": table.name,
        "KeyConditionExpression": condition,
        "FilterExpression": IS_LIVE,
        **_placeholders(f"{condition} {IS_LIVE}", names, values),
    }


def _placeholders(expression: str, names: Mapping[str, str], values: Mapping[str, object]) -> dict[str, Any]:
    """Return the *names* and *values* that *expression* uses: DynamoDB refuses unused ones."""
    used = set(_PLACEHOLDER.findall(expression))
    return {
        "ExpressionAttributeNames": {name: each for name, each in names.items() if name in used},
        "ExpressionAttributeValues": {name: typed(each) for name, each in values.items() if name in used},
    }
