"""Python values as DynamoDB's typed attributes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import lru_cache
from math import isfinite
from typing import Any, Final

from lambda_once.errors import Misconfigured

Item = dict[str, dict[str, Any]]
"""An item of the low-level client."""

Values = dict[str, Any]
"""An item in Python values: str, int, Decimal, bytes, bool, None, list, dict and set."""

DIGITS: Final = 38
"""The most significant digits of a number (DynamoDB developer guide, "Number")."""


def typed(value: object) -> dict[str, Any]:
    """
    Return *value* as an attribute. A float is the decimal that it prints as, and comes back as that.

    Raises `Misconfigured` for what DynamoDB cannot store: NaN, infinity, an empty set, another class.
    """
    try:
        attribute: dict[str, Any] = _serializer().serialize(_exact(value))
    except (TypeError, ArithmeticError, RecursionError) as error:
        kind = type(value).__name__
        raise Misconfigured(f"a value of type {kind} cannot be stored: {error}") from None
    return attribute


def _exact(value: object) -> object:
    """Return *value* with decimals for floats. Raises TypeError for what only boto3 takes."""
    if isinstance(value, float):
        return decimal_of(value)
    if isinstance(value, Mapping):
        return {name: _exact(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_exact(each) for each in value]
    if isinstance(value, set | frozenset):
        if not value:
            raise TypeError("an empty set; leave it out")
        return {_exact(each) for each in value}
    if isinstance(value, Decimal) and value == -Decimal("Infinity"):
        raise TypeError("Infinity and NaN not supported")
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return _shortened(value)
    return value


def _shortened(number: int | Decimal) -> int | Decimal:
    """Return *number* without the zeros at its end if it is too long for boto3: 10**38 has one digit."""
    exact = Decimal(number)
    if not exact.is_finite() or len(exact.as_tuple().digits) <= DIGITS:
        return number
    return exact.normalize(Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN))


def decimal_of(number: float) -> Decimal:
    """Return the decimal that *number* prints as. Raises TypeError for NaN and infinity."""
    if not isfinite(number):
        raise TypeError("Infinity and NaN not supported")
    return Decimal(float.__repr__(number))


def typed_item(values: Mapping[str, object]) -> Item:
    """Return *values* as an item. Raises `Misconfigured`, which names the attribute."""
    item: Item = {}
    for name, value in values.items():
        try:
            item[name] = typed(value)
        except Misconfigured as error:
            raise Misconfigured(f"attribute {name!r}: {error}") from None
    return item


def plain_item(item: Mapping[str, Mapping[str, Any]]) -> Values:
    """Return *item* in Python values; whole numbers are int, others Decimal, binary is bytes."""
    return {name: _plain(attribute) for name, attribute in item.items()}


def _plain(attribute: Mapping[str, Any]) -> Any:
    """
    Return the value of *attribute*.

    Not by boto3's deserializer, which raises `decimal.Rounded` for numbers of more than 38 digits: DynamoDB
    writes 1E+39 as 40.
    """
    ((kind, value),) = attribute.items()
    match kind:
        case "S" | "BOOL":
            return value
        case "N":
            return _number(value)
        case "NULL":
            return None
        case "B":
            return bytes(value)
        case "M":
            return plain_item(value)
        case "L":
            return [_plain(each) for each in value]
        case "SS":
            return set(value)
        case "NS":
            return set(map(_number, value))
        case "BS":
            return set(map(bytes, value))
        case _:
            raise TypeError(f"DynamoDB has no type {kind!r}")


def _number(text: str) -> int | Decimal:
    """Return the number that DynamoDB writes as *text*, whatever the decimal context is."""
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number


@lru_cache(maxsize=1)
def _serializer() -> Any:
    from boto3.dynamodb.types import TypeSerializer

    return TypeSerializer()
