"""Tables of the strict engine: their items, and what single requests do to one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any

from tests.kit.strict.expressions import Read, read_condition, read_update
from tests.kit.strict.trees import (
    Attribute,
    BeginsWith,
    Bound,
    Compare,
    Condition,
    Every,
    IfNotExists,
    Invalid,
    Item,
    Name,
    Negated,
    Operand,
    Some,
    Sum,
    Update,
    Value,
    holds,
    plain,
    value_of,
)

RESERVED = frozenset({"data", "error", "exists", "result", "status", "ttl", "value", "values"})
"""The reserved words (developer guide, "Reserved words in DynamoDB") that could be met here."""
MOST_BYTES = 409_600
LONGEST_KEY = 2048

Written = Callable[[Item | None], Item | None]
"""Makes an item of the one before. Raises `Refusal` where its condition does not hold."""


class Refusal(Exception):
    """The condition does not hold: nothing is written."""


@dataclass
class Table:
    """Items by their key, which is text, and the sparse index over them."""

    name: str
    key: str
    index: tuple[str, str, str] | None = None
    """The name of the index, its partition attribute and its sort attribute, both text."""
    projected: frozenset[str] = frozenset()
    items: dict[str, Item] = field(default_factory=dict)

    def key_of(self, item: Mapping[str, Attribute], *, whole: bool = False) -> str:
        """Return the key in *item*. *whole*: it must be all there is."""
        value = item.get(self.key, {}).get("S")
        if value is None or (whole and len(item) > 1) or not 1 <= len(value.encode()) <= LONGEST_KEY:
            raise Invalid("the provided key element does not match the schema")
        return str(value)

    def checked(self, item: Item) -> Item:
        """Return *item* as it is stored. Raises `Invalid` for one that no table takes."""
        self.key_of(item)
        for name in self.index[1:] if self.index is not None else ():
            if not item.get(name, {"S": "x"}).get("S"):
                raise Invalid(f"the index key {name} must be a text that is not empty")
        stored = {name: normal(value) for name, value in item.items()}
        if sum(len(name) + _bytes(value) for name, value in stored.items()) > MOST_BYTES:
            raise Invalid("item size has exceeded the maximum allowed size")
        return stored


def normal(value: Attribute) -> Attribute:
    """Return *value* as it is stored: numbers in one form."""
    ((kind, content),) = value.items()
    if kind == "M":
        return {"M": {name: normal(part) for name, part in content.items()}}
    if kind == "N":
        return {"N": plain(_number(content))}
    return value


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except (InvalidOperation, TypeError):
        raise Invalid(f"{text!r} is no number") from None


def _bytes(value: Attribute) -> int:
    ((kind, content),) = value.items()
    if kind == "M":
        return 3 + sum(len(name) + _bytes(part) + 1 for name, part in content.items())
    return len(content.encode()) if kind == "S" else len(content) if kind == "B" else 21 if kind == "N" else 1


# -- requests on one item


def prepared_update(table: Table, key: str, request: Mapping[str, Any]) -> Written:
    """Return what an UpdateItem does. Raises `Invalid` for what is refused without a look at the item."""
    update = (
        read_update(request["UpdateExpression"]) if "UpdateExpression" in request else Read(update=Update())
    )
    condition = _condition(request)
    bound = _bound(request, [update, condition])
    tree = update.update or Update()
    check_update(table, tree, bound)
    return lambda before: updated(table, key, before, tree, _passed(condition, before, bound))


def prepared_write(table: Table, kind: str, request: Mapping[str, Any]) -> tuple[str, Written]:
    """Return the key of one write of a transaction, and what it does."""
    if kind == "Update":
        key = table.key_of(request["Key"], whole=True)
        return key, prepared_update(table, key, request)
    condition = _condition(request)
    bound = _bound(request, [condition])
    if kind == "Put":
        item = table.checked(dict(request["Item"]))
        return table.key_of(item), lambda before: _kept(item, _passed(condition, before, bound))
    key = table.key_of(request["Key"], whole=True)
    if kind == "Delete":
        return key, lambda before: _kept(None, _passed(condition, before, bound))
    if kind == "ConditionCheck" and condition.condition is not None:
        return key, lambda before: _kept(before, _passed(condition, before, bound))
    raise Invalid(f"there is no {kind} in a transaction")


def queried(table: Table, request: Mapping[str, Any]) -> list[Item]:
    """Return what a Query of the index finds, in the order of the sort attribute."""
    if table.index is None or request.get("IndexName") != table.index[0]:
        raise Invalid("the table does not have the specified index")
    if request.get("ConsistentRead"):
        raise Invalid("consistent reads are not supported on global secondary indexes")
    read = read_condition(request["KeyConditionExpression"])
    bound = _bound(request, [read])
    _, partition, sort = table.index
    tree = read.condition
    parts = tree.parts if isinstance(tree, Every) else (tree,)
    equal = [
        p for p in parts if isinstance(p, Compare) and p.by == "=" and _names(p.left, bound) == partition
    ]
    if len(equal) != 1 or len(parts) > 2:
        raise Invalid("query condition missed key schema element")
    listed = [item for item in table.items.values() if partition in item and sort in item]
    found = [item for item in listed if tree is not None and holds(tree, item, bound)]
    seen = table.projected | {table.key, partition, sort}
    ordered = sorted(found, key=lambda item: str(item[sort]["S"]))
    return [{name: value for name, value in item.items() if name in seen} for item in ordered]


def _names(operand: Operand, bound: Bound) -> str | None:
    return bound.name(operand) if isinstance(operand, Name) else None


def _kept(item: Item | None, _passed: Bound) -> Item | None:
    return item


def _condition(request: Mapping[str, Any]) -> Read:
    return read_condition(request["ConditionExpression"]) if "ConditionExpression" in request else Read()


def _bound(request: Mapping[str, Any], reads: list[Read]) -> Bound:
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


def updated(table: Table, key: str, before: Item | None, update: Update, bound: Bound) -> Item:
    """Return the item after *update*; every value is taken from the item before."""
    old: Item = {table.key: {"S": key}} | (before or {})
    after = dict(old)
    for name, operand in update.sets:
        value = value_of(operand, old, bound)
        if value is None:
            raise Invalid("the provided expression refers to an attribute that does not exist in the item")
        after[bound.name(name)] = value
    for name in update.removes:
        after.pop(bound.name(name), None)
    return table.checked(after)


# -- what is refused without a look at the item


def check_update(table: Table, update: Update, bound: Bound) -> None:
    """Refuse what overlaps, what touches the key, and sums of what is no number."""
    touched = [bound.name(name) for name in (*(name for name, _ in update.sets), *update.removes)]
    if len(set(touched)) < len(touched):
        raise Invalid("two document paths overlap with each other")
    if table.key in touched:
        raise Invalid("cannot update attribute: this attribute is part of the key")
    for _, operand in update.sets:
        _check_sum(operand, bound)


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
        case _:
            return


def check_condition(condition: Condition, bound: Bound) -> None:
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
        case Compare(left, by, right):
            ordered = by not in ("=", "<>")
            if ordered and any(not {"S", "N", "B"} & _given(side, bound) for side in (left, right)):
                raise Invalid("incorrect operand type for operator or function")
            _check_distinct(left, right)
        case _:
            return


def _check_distinct(left: Operand, right: Operand) -> None:
    if isinstance(left, Name) and left == right:
        raise Invalid("the first operand must be distinct from the remaining operands")


def _given(operand: Operand, bound: Bound) -> set[str]:
    """Return the type of a value that is given with the request; any type for what the item says."""
    return set(bound.values[operand.place]) if isinstance(operand, Value) else {"S", "N", "B"}
