"""Tables of the strict engine: their keys and indexes, and what a write does to one item."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.strict.expressions import Read, read_condition, read_update
from tests.kit.strict.items import EXACT, MOST_BYTES, SETS, checked, normal, plain, size_of
from tests.kit.strict.trees import (
    Attribute,
    BeginsWith,
    Between,
    Bound,
    Compare,
    Condition,
    Contains,
    Every,
    IfNotExists,
    Invalid,
    Item,
    Name,
    Negated,
    Operand,
    Size,
    Some,
    Sum,
    Update,
    Value,
    holds,
    number_of,
    value_of,
)

RESERVED = frozenset(Path(__file__).with_name("reserved.txt").read_text().split())
"""Developer guide, "Reserved words in DynamoDB"."""
LONGEST_KEY, LONGEST_SORT_KEY = 2048, 1024
"""Bytes."""
ORDERED = {"S", "N", "B"}

Key = str | tuple[str, str]
"""All keys are text: that of a table of one key attribute, or the two."""
Written = Callable[[Item | None], Item | None]
"""Makes an item of the one before. Raises `Refusal` where its condition does not hold."""


class Refusal(Exception):
    """The condition does not hold: nothing is written."""


@dataclass(frozen=True, slots=True)
class Index:
    """A global secondary index: items that have its keys, which are text, with the attributes it projects."""

    name: str
    key: str
    sort: str | None = None
    projected: frozenset[str] | None = None
    """None: all."""


@dataclass
class Table:
    """Items by their key."""

    name: str
    key: str
    sort: str | None = None
    indexes: tuple[Index, ...] = ()
    items: dict[Key, Item] = field(default_factory=dict)
    indexed: dict[Key, Item] | None = None
    """The items that indexes still show while they lag behind; None: they show what there is."""
    counted: tuple[int, int] | None = None
    """How many items, and bytes, DescribeTable tells of: they may be hours old. None: what there is."""
    unusable: frozenset[str] = frozenset()
    """Keys of other types than text: no item can be had or written that has them."""

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key,) if self.sort is None else (self.key, self.sort)

    def key_of(self, item: Mapping[str, Attribute], *, whole: bool = False) -> Key:
        """Return the key in *item*. *whole*: it must be all there is."""
        if whole and len(item) > len(self.keys):
            raise Invalid("the provided key element does not match the schema")
        parts = tuple(
            _key_part(None if name in self.unusable else item.get(name, {}).get("S"), most)
            for name, most in zip(self.keys, (LONGEST_KEY, LONGEST_SORT_KEY), strict=False)
        )
        return parts[0] if self.sort is None else (parts[0], parts[1])

    def key_attributes(self, key: Key) -> Item:
        parts = (key,) if isinstance(key, str) else key
        return {name: {"S": part} for name, part in zip(self.keys, parts, strict=True)}

    def checked(self, item: Mapping[str, Attribute]) -> Item:
        """Return *item* as it is stored. Raises `Invalid` for one that no table takes."""
        self.key_of(item)
        for index in self.indexes:
            for name in filter(None, (index.key, index.sort)):
                if not item.get(name, {"S": "x"}).get("S"):
                    raise Invalid(f"the index key {name} must be a text that is not empty")
        stored = {name: normal(value) for name, value in item.items()}
        if size_of(stored) > MOST_BYTES:
            raise Invalid("Item size has exceeded the maximum allowed size")
        return stored


def _key_part(value: str | None, most: int) -> str:
    if value is None or not 1 <= len(value.encode()) <= most:
        raise Invalid("the provided key element does not match the schema")
    return value


# -- writes of one item


def prepared_update(table: Table, key: Key, request: Mapping[str, Any]) -> Written:
    """Return what an UpdateItem does. Raises `Invalid` for what is refused without a look at the item."""
    update = (
        read_update(request["UpdateExpression"]) if "UpdateExpression" in request else Read(update=Update())
    )
    condition = condition_of(request)
    bound = bound_of(request, [update, condition])
    tree = update.update or Update()
    check_update(table, tree, bound)
    return lambda before: updated(table, key, before, tree, _passed(condition, before, bound))


def written_by(request: Mapping[str, Any], after: Item | None) -> Item | None:
    """Return the attributes of the item *after* an UpdateItem that it set or added to; None for none."""
    update = read_update(request["UpdateExpression"]).update or Update()
    bound = Bound(request.get("ExpressionAttributeNames", {}), {})
    names = [bound.name(name) for name, _ in (*update.sets, *update.adds)]
    return {name: (after or {})[name] for name in names} or None


def prepared_put(table: Table, request: Mapping[str, Any]) -> tuple[Key, Written]:
    """Return the key of a put, and what it does. Raises `Invalid` as `prepared_update`."""
    condition = condition_of(request)
    bound = bound_of(request, [condition])
    item = table.checked(request["Item"])
    return table.key_of(item), lambda before: _kept(item, _passed(condition, before, bound))


def prepared_delete(table: Table, request: Mapping[str, Any]) -> tuple[Key, Written]:
    """Return the key of a delete, and what it does. Raises `Invalid` as `prepared_update`."""
    condition = condition_of(request)
    bound = bound_of(request, [condition])
    key = table.key_of(request["Key"], whole=True)
    return key, lambda before: _kept(None, _passed(condition, before, bound))


def prepared_write(table: Table, kind: str, request: Mapping[str, Any]) -> tuple[Key, Written]:
    """Return the key of one write of a transaction, and what it does."""
    match kind:
        case "Update":
            key = table.key_of(request["Key"], whole=True)
            return key, prepared_update(table, key, request)
        case "Put":
            return prepared_put(table, request)
        case "Delete":
            return prepared_delete(table, request)
        case "ConditionCheck":
            condition = condition_of(request)
            bound = bound_of(request, [condition])
            key = table.key_of(request["Key"], whole=True)
            return key, lambda before: _kept(before, _passed(condition, before, bound))
        case _:
            raise Invalid(f"there is no {kind} in a transaction")


def _kept(item: Item | None, _passed: Bound) -> Item | None:
    return item


def condition_of(request: Mapping[str, Any]) -> Read:
    """Read the condition of *request*; one that is not there always holds."""
    return read_condition(request["ConditionExpression"]) if "ConditionExpression" in request else Read()


def bound_of(request: Mapping[str, Any], reads: list[Read]) -> Bound:
    """Return the placeholders of *request*. Each must be used, and each that is used be there."""
    names = request.get("ExpressionAttributeNames", {})
    values = request.get("ExpressionAttributeValues", {})
    used_names = frozenset[str]().union(*(read.names for read in reads))
    used_values = frozenset[str]().union(*(read.values for read in reads))
    if {name for name in used_names if name.startswith("#")} != set(names):
        raise Invalid("a name is not defined, or not used")
    if used_values != set(values):
        raise Invalid("a value is not defined, or not used")
    for given in ("ExpressionAttributeNames", "ExpressionAttributeValues"):
        if given in request and not request[given]:
            raise Invalid(f"{given} must not be empty")
    bare = {name for name in used_names if not name.startswith("#")}
    if any(name.lower() in RESERVED or name.startswith('"') for name in bare):
        raise Invalid("attribute name is a reserved keyword")
    bound = Bound(names, {place: normal(value) for place, value in values.items()})
    for read in reads:
        if read.condition is not None:
            check_condition(read.condition, bound)
    return bound


def _passed(read: Read, before: Item | None, bound: Bound) -> Bound:
    if read.condition is not None and not holds(read.condition, before or {}, bound):
        raise Refusal
    return bound


def updated(table: Table, key: Key, before: Item | None, update: Update, bound: Bound) -> Item:
    """Return the item after *update*; every value is taken from the item before."""
    old: Item = table.key_attributes(key) | (before or {})
    after = dict(old)
    for name, operand in update.sets:
        value = value_of(operand, old, bound)
        if value is None:
            raise Invalid("the provided expression refers to an attribute that does not exist in the item")
        after[bound.name(name)] = value
    for name in update.removes:
        after.pop(bound.name(name), None)
    for name, amount in update.adds:
        after[bound.name(name)] = _added(old.get(bound.name(name)), bound.values[amount.place])
    return table.checked(after)


def _added(before: Attribute | None, amount: Attribute) -> Attribute:
    if before is None:
        return amount
    ((kind, content),) = amount.items()
    if kind not in before:
        raise Invalid("type mismatch for attribute to update: an operand in the update expression")
    if kind in SETS:
        return {kind: sorted({*before[kind], *content})}
    first, second = number_of(before), number_of(amount)
    assert first is not None
    assert second is not None
    return {"N": plain(checked(EXACT.add(first, second)))}


# -- what is refused without a look at the item


def check_update(table: Table, update: Update, bound: Bound) -> None:
    """Refuse what overlaps, what touches the key, and sums of what is no number."""
    names = (*(name for name, _ in (*update.sets, *update.adds)), *update.removes)
    touched = [bound.name(name) for name in names]
    if len(set(touched)) < len(touched):
        raise Invalid("two document paths overlap with each other")
    if not set(touched).isdisjoint(table.keys):
        raise Invalid("cannot update attribute: this attribute is part of the key")
    for _, operand in update.sets:
        _check_sum(operand, bound)
    for _, amount in update.adds:
        if not {"N", *SETS} & set(bound.values[amount.place]):
            raise Invalid("incorrect operand type for operator or function: ADD")


def _check_sum(operand: Operand, bound: Bound, *, inside: bool = False) -> None:
    """Refuse to add what is given and no number."""
    match operand:
        case Sum(left, _, right):
            for side in (left, right):
                _check_sum(side, bound, inside=True)
        case IfNotExists(_, default):
            _check_sum(default, bound, inside=inside)
        case Value(place) if inside and "N" not in bound.values[place]:
            raise Invalid("incorrect operand type for operator or function: +")
        case Size():
            raise Invalid("the function is not allowed in an update expression: size")
        case _:
            return


def check_condition(condition: Condition, bound: Bound) -> None:  # noqa: C901  (one case a kind)
    """Refuse operands of types that the comparison never takes."""
    match condition:
        case Every(parts) | Some(parts):
            for part in parts:
                check_condition(part, bound)
        case Negated(part):
            check_condition(part, bound)
        case BeginsWith(left, right):
            if any(not {"S", "B"} & _given(side, bound) for side in (left, right)):
                raise Invalid("incorrect operand type for operator or function: begins_with")
            _check_distinct(left, right)
        case Contains(whole, part):
            _check_distinct(whole, part)
        case Compare(left, by, right):
            ordered = by not in ("=", "<>")
            if ordered and any(not ORDERED & _given(side, bound) for side in (left, right)):
                raise Invalid("incorrect operand type for operator or function")
            _check_distinct(left, right)
        case Between(_, Value(low), Value(high)):
            bounds = Compare(Value(low), "<=", Value(high))
            check_condition(bounds, bound)
            if not holds(bounds, {}, bound):
                raise Invalid(
                    "the BETWEEN operator requires upper bound to be greater than or equal to lower"
                )
        case _:
            return


def _check_distinct(left: Operand, right: Operand) -> None:
    if isinstance(left, Name) and left == right:
        raise Invalid("the first operand must be distinct from the remaining operands")


def _given(operand: Operand, bound: Bound) -> set[str]:
    """Return the type of a value that is given with the request; any type for what the item says."""
    return set(bound.values[operand.place]) if isinstance(operand, Value) else ORDERED
