"""Attributes and items as DynamoDB stores them: numbers in one form, sets without order, and their sizes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Context, Decimal, InvalidOperation
from typing import Any

Attribute = Mapping[str, Any]
"""A typed value: ``{"S": "…"}``."""
Item = dict[str, Attribute]

MOST_BYTES = 409_600
DEEPEST = 31
DIGITS = 38
"""Significant digits of a number (developer guide, "Constraints")."""
LARGEST, SMALLEST = 125, -130
"""Exponents of a number (the same)."""
EXACT = Context(prec=400)
"""Adds any two numbers without rounding."""
SETS = {"SS": "S", "NS": "N", "BS": "B"}


class Invalid(Exception):
    """What DynamoDB refuses as a ValidationException, whatever the items are."""


def normal(value: Attribute, depth: int = 0) -> Attribute:  # noqa: C901  (one case a type)
    """Return *value* as it is stored, a copy. Raises `Invalid` for what cannot be."""
    if len(value) != 1:
        raise Invalid("supplied AttributeValue must have exactly one type")
    ((kind, content),) = value.items()
    if depth > DEEPEST:
        raise Invalid("nesting levels have exceeded supported limits")
    match kind:
        case "S" if isinstance(content, str):
            return {"S": content}
        case "N":
            return {"N": plain(number(content))}
        case "B" if isinstance(content, bytes | bytearray):
            return {"B": bytes(content)}
        case "BOOL" if isinstance(content, bool):
            return {"BOOL": content}
        case "NULL" if content is True:
            return {"NULL": True}
        case "M":
            return {"M": {name: normal(part, depth + 1) for name, part in content.items()}}
        case "L":
            return {"L": [normal(part, depth + 1) for part in content]}
        case "SS" | "NS" | "BS":
            members = [normal({SETS[kind]: part})[SETS[kind]] for part in content]
            if not members or len(set(members)) < len(members):
                raise Invalid("a set is empty, or has a member twice")
            return {kind: members}
        case _:
            raise Invalid(f"{value!r} is no attribute")


def copy_of(value: Attribute) -> Attribute:
    """Return *value* again; what is done to the copy changes no item."""
    ((kind, content),) = value.items()
    match kind:
        case "M":
            return {"M": {name: copy_of(part) for name, part in content.items()}}
        case "L":
            return {"L": [copy_of(part) for part in content]}
        case "SS" | "NS" | "BS":
            return {kind: list(content)}
        case _:
            return {kind: content}


def copied(item: Mapping[str, Attribute]) -> Item:
    """Return a copy that shares nothing with *item*."""
    return {name: copy_of(value) for name, value in item.items()}


def number(text: str) -> Decimal:
    """Return the number that *text* writes. Raises `Invalid` for one that DynamoDB does not take."""
    try:
        found = EXACT.create_decimal(text.strip())
    except (InvalidOperation, AttributeError):
        raise Invalid(f"the parameter cannot be converted to a numeric value: {text!r}") from None
    return checked(found)


def checked(found: Decimal) -> Decimal:
    """Return *found*. Raises `Invalid` for too many digits, too large and too small a number."""
    if not found.is_finite():
        raise Invalid(f"the parameter cannot be converted to a numeric value: {found}")
    short = found.normalize(EXACT)
    if len(short.as_tuple().digits) > DIGITS:
        raise Invalid("attempting to store more than 38 significant digits in a Number")
    if short and not SMALLEST <= short.adjusted() <= LARGEST:
        raise Invalid("number overflow or underflow")
    return short


def plain(found: Decimal) -> str:
    """Write *found* as DynamoDB does: no exponent, no zeros that say nothing."""
    return f"{found.normalize(EXACT):f}" if found else "0"


def same(left: Attribute, right: Attribute) -> bool:
    """Compare two stored attributes; the members of a set have no order."""
    for kind in SETS:
        if kind in left and kind in right:
            return set(left[kind]) == set(right[kind])
    return left == right


def size_of(item: Mapping[str, Attribute]) -> int:
    """Return how many bytes *item* has (developer guide, "DynamoDB item sizes and formats")."""
    return sum(len(name.encode()) + _bytes(value) for name, value in item.items())


def _bytes(value: Attribute) -> int:
    ((kind, content),) = value.items()
    match kind:
        case "S":
            return len(
                content.encode("utf-8", "surrogatepass")
            )  # an escape in JSON; dynoxide 3.2.0 refuses it
        case "N":
            return _number_bytes(content)
        case "B":
            return len(content)
        case "SS" | "NS" | "BS":
            return sum(_bytes({SETS[kind]: part}) for part in content)
        case "M":
            return 3 + sum(len(name.encode()) + _bytes(part) + 1 for name, part in content.items())
        case "L":
            return 3 + sum(_bytes(part) + 1 for part in content)
        case _:
            return 1


def _number_bytes(text: str) -> int:
    """One byte for two digits, which stand in pairs beside the point, one more, and one for a sign."""
    found = Decimal(text)
    if not found:
        return 1
    sign, digits, exponent = found.normalize(EXACT).as_tuple()
    assert isinstance(exponent, int)
    places = len(digits) + exponent % 2
    return 1 + sign + (places + 1) // 2
