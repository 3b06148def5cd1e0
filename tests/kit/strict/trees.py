"""DynamoDB's condition and update expressions as trees, and what a tree says of an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, assert_never

Attribute = Mapping[str, Any]
"""A typed value: ``{"S": "…"}``."""
Item = dict[str, Attribute]


class Invalid(Exception):
    """What DynamoDB refuses as a ValidationException, whatever the items are."""


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute, as it was written: bare, as a placeholder, or in quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """A value given beside the text: ``:x``, or the n-th ``?``."""

    place: str


@dataclass(frozen=True, slots=True)
class IfNotExists:
    """The attribute, or *default* where the item has none."""

    name: Name
    default: Operand


@dataclass(frozen=True, slots=True)
class Sum:
    left: Operand
    sign: str
    right: Operand


Operand = Name | Value | IfNotExists | Sum


@dataclass(frozen=True, slots=True)
class Compare:
    left: Operand
    by: str
    right: Operand


@dataclass(frozen=True, slots=True)
class BeginsWith:
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Exists:
    name: Name
    wanted: bool


@dataclass(frozen=True, slots=True)
class Typed:
    name: Name
    kind: Operand


@dataclass(frozen=True, slots=True)
class Every:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    part: Condition


Condition = Compare | BeginsWith | Exists | Typed | Every | Some | Negated


@dataclass(frozen=True, slots=True)
class Update:
    """What an update sets and removes, in the order in which it stands there."""

    sets: tuple[tuple[Name, Operand], ...] = ()
    removes: tuple[Name, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """What the placeholders of one request stand for."""

    names: Mapping[str, str]
    values: Mapping[str, Attribute]

    def name(self, name: Name) -> str:
        text = name.text
        if text.startswith("#"):
            return self.names[text]
        return text.strip('"')


def number_of(attribute: Attribute | None) -> Decimal | None:
    """Return the number that *attribute* is; None where it is none."""
    return Decimal(attribute["N"]) if attribute is not None and "N" in attribute else None


def value_of(operand: Operand, item: Mapping[str, Attribute], bound: Bound) -> Attribute | None:
    """Return what *operand* is for *item*; None where the item has no such attribute."""
    match operand:
        case Name():
            return item.get(bound.name(operand))
        case Value(place):
            return bound.values[place]
        case IfNotExists(name, default):
            found = item.get(bound.name(name))
            return value_of(default, item, bound) if found is None else found
        case Sum(left, sign, right):
            one, other = (value_of(side, item, bound) for side in (left, right))
            if one is None or other is None:
                raise Invalid("the expression refers to an attribute that does not exist in the item")
            first, second = number_of(one), number_of(other)
            if first is None or second is None:
                raise Invalid("an operand of the update is no number")
            return {"N": plain(first + second if sign == "+" else first - second)}
        case _ as unreachable:
            assert_never(unreachable)


def plain(number: Decimal) -> str:
    """Write *number* as DynamoDB does: no exponent, no zeros that say nothing."""
    if number == 0:
        return "0"
    return f"{number.normalize():f}"


def holds(condition: Condition, item: Mapping[str, Attribute], bound: Bound) -> bool:
    """Tell whether *condition* holds for *item*; {} is no item."""
    match condition:
        case Every(parts):
            return all(holds(part, item, bound) for part in parts)
        case Some(parts):
            return any(holds(part, item, bound) for part in parts)
        case Negated(part):
            return not holds(part, item, bound)
        case Exists(name, wanted):
            return (bound.name(name) in item) is wanted
        case Typed(name, kind):
            wanted_kind = value_of(kind, item, bound)
            return wanted_kind is not None and wanted_kind["S"] in item.get(bound.name(name), {})
        case BeginsWith(left, right):
            return _begins(value_of(left, item, bound), value_of(right, item, bound))
        case Compare(left, by, right):
            return _compared(value_of(left, item, bound), by, value_of(right, item, bound))
        case _ as unreachable:
            assert_never(unreachable)


def _begins(text: Attribute | None, start: Attribute | None) -> bool:
    if text is None or start is None:
        return False
    for kind in ("S", "B"):
        if kind in text and kind in start:
            return bool(text[kind].startswith(start[kind]))
    return False


def _compared(left: Attribute | None, by: str, right: Attribute | None) -> bool:
    if by in ("=", "<>"):
        same = left is not None and right is not None and _same(left, right)
        return same if by == "=" else not same
    if left is None or right is None:
        return False
    for kind in ("S", "N", "B"):
        if kind in left and kind in right:
            one, other = (Decimal(side[kind]) if kind == "N" else side[kind] for side in (left, right))
            return bool({"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[by])
    return False


def _same(left: Attribute, right: Attribute) -> bool:
    if "N" in left and "N" in right:
        return number_of(left) == number_of(right)
    return left == right
