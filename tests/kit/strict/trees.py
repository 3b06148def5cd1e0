"""DynamoDB's condition and update expressions as trees, and what a tree says of an item."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import assert_never

from tests.kit.strict.items import EXACT, SETS, Attribute, Invalid, Item, checked, plain, same

__all__ = ["Attribute", "Invalid", "Item"]


@dataclass(frozen=True, slots=True)
class Name:
    """An attribute, as it was written: bare, as a placeholder, or in quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class Value:
    """A value given beside the text: ``:x``, or the n-th ``?``."""

    place: str


@dataclass(frozen=True, slots=True)
class Literal:
    """A text that PartiQL has in quotes."""

    text: str


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


@dataclass(frozen=True, slots=True)
class Size:
    """How long a text is, how many bytes or members there are; no number has a size."""

    of: Name


Operand = Name | Value | Literal | IfNotExists | Sum | Size


@dataclass(frozen=True, slots=True)
class Compare:
    left: Operand
    by: str
    right: Operand


@dataclass(frozen=True, slots=True)
class Between:
    value: Operand
    lowest: Operand
    highest: Operand


@dataclass(frozen=True, slots=True)
class BeginsWith:
    left: Operand
    right: Operand


@dataclass(frozen=True, slots=True)
class Contains:
    """A text has a part, or a set or list a member."""

    whole: Operand
    part: Operand


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


Condition = Compare | Between | BeginsWith | Contains | Exists | Typed | Every | Some | Negated


@dataclass(frozen=True, slots=True)
class Update:
    """What an update sets, removes and adds, in the order in which it is written."""

    sets: tuple[tuple[Name, Operand], ...] = ()
    removes: tuple[Name, ...] = ()
    adds: tuple[tuple[Name, Value], ...] = ()


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
        case Literal(text):
            return {"S": text}
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
            total = EXACT.add(first, second) if sign == "+" else EXACT.subtract(first, second)
            return {"N": plain(checked(total))}
        case Size(of):
            return _size(item.get(bound.name(of)))
        case _ as unreachable:
            assert_never(unreachable)


def _size(value: Attribute | None) -> Attribute | None:
    if value is None:
        return None
    ((kind, content),) = value.items()
    return {"N": str(len(content))} if kind in ("S", "B", "M", "L", *SETS) else None


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
        case Contains(whole, part):
            return _contains(value_of(whole, item, bound), value_of(part, item, bound))
        case Compare(left, by, right):
            return _compared(value_of(left, item, bound), by, value_of(right, item, bound))
        case Between(value, lowest, highest):
            found, low, high = (value_of(side, item, bound) for side in (value, lowest, highest))
            return _compared(found, ">=", low) and _compared(found, "<=", high)
        case _ as unreachable:
            assert_never(unreachable)


def _begins(text: Attribute | None, start: Attribute | None) -> bool:
    if text is None or start is None:
        return False
    for kind in ("S", "B"):
        if kind in text and kind in start:
            return bool(text[kind].startswith(start[kind]))
    return False


def _contains(whole: Attribute | None, part: Attribute | None) -> bool:
    if whole is None or part is None:
        return False
    ((kind, content),) = whole.items()
    if kind == "L":
        return any(same(each, part) for each in content)
    wanted = part.get(SETS.get(kind, kind))
    return kind in ("S", "B", *SETS) and wanted is not None and wanted in content


def _compared(left: Attribute | None, by: str, right: Attribute | None) -> bool:
    if by in ("=", "<>"):
        equal = left is not None and right is not None and same(left, right)
        return equal if by == "=" else not equal
    if left is None or right is None:
        return False
    for kind in ("S", "N", "B"):
        if kind in left and kind in right:
            one, other = (Decimal(side[kind]) if kind == "N" else side[kind] for side in (left, right))
            return bool({"<": one < other, "<=": one <= other, ">": one > other, ">=": one >= other}[by])
    return False
