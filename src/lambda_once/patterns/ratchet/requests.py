"""
The requests of a ratchet as values, each condition beside the guarantee that it carries.

Every write replaces the whole item (PutItem), and every condition asks only whether what stands is older. So
the item is the greatest of all writes that arrived, by timestamp and then by *rank*: whatever the order in
which they came and however often.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.canonical import digest
from lambda_once.errors import Misconfigured
from lambda_once.patterns.items import plain_item, typed, typed_item

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.patterns.items import Item, Values
    from lambda_once.patterns.ratchet.stamps import Stamp

DELETED: Final = "deleted"
TTL: Final = "ttl"
RANK: Final = "_rank"
"""16 hex digits of the content's digest: which of two contents of one timestamp stands."""
RANK_DIGITS: Final = 16
WRITE: Final = "_write"
"""The random id of the attempt that wrote the item, where it expected what stood there."""


class Anything(Enum):
    """Stands for "whatever is there": None is "nothing is there"."""

    ANYTHING = "anything"


ANYTHING: Final = Anything.ANYTHING

if TYPE_CHECKING:
    Expected = Mapping[str, object] | Anything | None

IS_LIVE: Final = "NOT (#deleted = :deleted)"  # an adopted item may say deleted: false
# What is older is replaced. Of two contents of one stamp the same stands in every order: that of the greater
# rank. A tombstone outranks every content; an item that something else wrote has no rank, and is outranked.
PUT_IS_NEWER: Final = (
    f"#ts < :ts OR (#ts = :ts AND {IS_LIVE} AND (attribute_not_exists(#rank) OR #rank <= :rank))"
)
# A delete outranks every put of its timestamp, and repeats itself.
DELETE_IS_NEWER: Final = "#ts <= :ts"
# Texts of two lengths have no order ("9" > "10"); stamps of two types compare as false by themselves.
OF_ONE_WIDTH: Final = "size(#ts) = :width"
# What stands is what was read. An item that something else wrote has no rank: its stamp alone is compared.
AS_READ: Final = f"(#ts = :read AND {IS_LIVE} AND (attribute_not_exists(#rank) OR #rank = :readrank))"
NOTHING_READ: Final = "(attribute_not_exists(#pk) OR #deleted = :deleted)"
# What stands is this very write, whose answer was lost. Its content cannot tell: two writers that read the
# same item may make the same of it, and only one of them has written.
OWN: Final = "(#write = :write)"

_PLACEHOLDER: Final = re.compile(r"[#:]\w+")


@dataclass(frozen=True, slots=True)
class Shape:
    """How a table is keyed, and where its items keep their stamp."""

    table: str
    key: tuple[str, ...]
    stamp: str

    def __post_init__(self) -> None:
        names = (*self.key, self.stamp, DELETED, TTL, RANK, WRITE)
        if not self.table or len(self.key) not in (1, 2) or not all(names):
            raise Misconfigured(f"table {self.table!r}, key {self.key!r}: give a table and one or two names")
        if len(set(names)) < len(names):
            raise Misconfigured(f"key {self.key!r}, stamp {self.stamp!r}: names of a ratchet's own, or equal")

    def key_of(self, values: Mapping[str, object]) -> Values:
        """Return the key's part of *values*. Raises `Misconfigured` where it is missing or no key."""
        for name in self.key:
            if name not in values:
                raise Misconfigured(f"key attribute {name!r} is missing: the key is {', '.join(self.key)}")
            if not _is_key(values[name]):
                raise Misconfigured(f"key attribute {name!r}: give text, bytes or a number that is not empty")
        return {name: values[name] for name in self.key}

    def just_key(self, values: Mapping[str, object]) -> Values:
        """Return *values* as a key. Raises `Misconfigured` also where there is more than a key."""
        if extra := sorted(values.keys() - set(self.key)):
            raise Misconfigured(f"{', '.join(extra)}: no part of the key, which is {', '.join(self.key)}")
        return self.key_of(values)

    def content(self, item: Mapping[str, object]) -> Item:
        """
        Return *item* typed, without stamp and rank. Raises `Misconfigured` for what cannot be stored.

        ``deleted: False`` is content: adopted tables have it.
        """
        self.key_of(item)
        taken = item.keys() & {RANK, WRITE}
        if item.get(DELETED, False) is not False:
            taken |= {DELETED}
        if taken:
            raise Misconfigured(f"attribute {min(taken)!r} is the ratchet's own: give it another name")
        return typed_item({name: each for name, each in item.items() if name != self.stamp})


@dataclass(frozen=True, slots=True)
class Write:
    """One write of a whole item, before it is known what it shall replace."""

    shape: Shape
    stamp: Stamp
    item: Item
    rank: str | None
    """None: a tombstone."""

    def request(self, expected: Expected = ANYTHING, write_id: str = "") -> dict[str, Any]:
        """
        Return the arguments of PutItem: refused unless newer, and, given *expected*, unless that stands.

        *write_id* is kept in the item with *expected* alone, and is how a retry then knows its own write.
        Raises `Misconfigured` for an *expected* that has no stamp.
        """
        condition, item = self._newer(), self.item
        if not isinstance(expected, Anything):
            read = NOTHING_READ if expected is None else AS_READ
            condition = f"({condition}) AND ({read} OR {OWN})"
            item = item | {WRITE: typed(write_id)}
        names = {"#ts": self.shape.stamp, "#pk": self.shape.key[0], "#deleted": DELETED}
        names |= {"#rank": RANK, "#write": WRITE}
        values = {":ts": self.stamp, ":rank": self.rank, ":deleted": True, ":write": write_id}
        values |= {":width": len(str(self.stamp)), **self._read(expected)}
        used = set(_PLACEHOLDER.findall(condition))
        return {
            "TableName": self.shape.table,
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
        if self.shape.stamp not in expected:
            raise Misconfigured(f"expected has no {self.shape.stamp!r}: give what get gave, or None")
        return {":read": expected[self.shape.stamp], ":readrank": rank_of(self.shape.content(expected))}


def put(shape: Shape, item: Mapping[str, object], stamp: Stamp) -> Write:
    """Return the write of *item*. Raises `Misconfigured`."""
    content = shape.content(item)
    rank = rank_of(content)
    return Write(shape, stamp, content | {shape.stamp: typed(stamp), RANK: typed(rank)}, rank)


def tombstone(shape: Shape, key: Mapping[str, object], stamp: Stamp, ttl: int) -> Write:
    """Return the write that leaves key, stamp, mark and *ttl* (epoch seconds). Raises `Misconfigured`."""
    grave = {**shape.just_key(key), shape.stamp: stamp, DELETED: True, TTL: ttl}
    return Write(shape, stamp, typed_item(grave), None)


def _is_key(part: object) -> bool:
    if isinstance(part, str | bytes):
        return len(part) > 0
    return isinstance(part, int | Decimal) and not isinstance(part, bool)


def rank_of(content: Item) -> str:
    """Return the rank of *content*: the same for what DynamoDB keeps as the same."""
    return digest(plain_item(content))[:RANK_DIGITS]


def get(shape: Shape, key: Mapping[str, object], *, consistent: bool) -> dict[str, Any]:
    """Return the arguments of GetItem."""
    return {
        "TableName": shape.table,
        "Key": typed_item(shape.just_key(key)),
        "ConsistentRead": consistent,
    }


def query(
    shape: Shape,
    partition: object,
    *,
    begins_with: str | None,
    descending: bool,
    consistent: bool,
) -> dict[str, Any]:
    """Return the arguments of Query but for Limit and ExclusiveStartKey."""
    condition, values = "#pk = :pk", {":pk": typed(partition)}
    values[":deleted"] = typed(True)  # noqa: FBT003  (DynamoDB's)
    names = {"#pk": shape.key[0], "#deleted": DELETED}
    if begins_with is not None:
        condition += " AND begins_with(#sk, :sk)"
        names["#sk"] = shape.key[1]
        values[":sk"] = typed(begins_with)
    return {
        "TableName": shape.table,
        "KeyConditionExpression": condition,
        "FilterExpression": IS_LIVE,
        "ExpressionAttributeNames": names,
        "ExpressionAttributeValues": values,
        "ScanIndexForward": not descending,
        "ConsistentRead": consistent,
    }


def live(item: Mapping[str, Mapping[str, Any]] | None) -> Values | None:
    """Return *item* in Python values, without what the ratchet keeps; None for none and for a tombstone."""
    if item is None or item.get(DELETED) == {"BOOL": True}:
        return None
    return {name: each for name, each in plain_item(item).items() if name not in (RANK, WRITE)}
