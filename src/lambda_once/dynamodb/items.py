"""Python values as DynamoDB's typed attributes, and back."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Context, Decimal, Inexact, Overflow, Subnormal
from typing import Any, Final

from lambda_once.errors import Misconfigured

Item = dict[str, dict[str, Any]]
"""An item of the low-level client."""

Values = dict[str, Any]
"""An item in Python values: str, int, Decimal, bytes, bool, None, list, dict and set."""

DIGITS: Final = 38
"""The most significant digits of a number (DynamoDB developer guide, "Number")."""
LEVELS: Final = 32
"""How deep values may be nested below the attribute (the same guide, "Quotas": attributes)."""

_NUMBERS: Final = Context(prec=DIGITS, Emin=-130, Emax=125, traps=[Inexact, Overflow, Subnormal])


def typed(value: object) -> dict[str, Any]:
    """
    Return *value* as an attribute. A float becomes the decimal that `repr` writes, and is read as that.

    Raises `Misconfigured` for what DynamoDB cannot store: NaN, an empty set, 33 levels, another class.
    """
    try:
        return _typed(value)
    except TypeError as error:
        kind = type(value).__name__
        raise Misconfigured(f"a value of type {kind} cannot be stored: {error}") from None


def _typed(value: object, level: int = 1) -> dict[str, Any]:  # noqa: C901  (one case a type)
    """Return *value* as an attribute. boto3's serializer would add 150 ms of imports to a cold start."""
    if level > LEVELS:
        raise TypeError(f"it is nested in more than {LEVELS} levels")
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case str():
            return {"S": value}
        case int() | float() | Decimal():
            return {"N": _number_text(value)}
        case bytes() | bytearray():
            return {"B": bytes(value)}
        case list() | tuple():
            return {"L": [_typed(each, level + 1) for each in value]}
        case Mapping() if all(isinstance(name, str) for name in value):
            return {"M": {name: _typed(each, level + 1) for name, each in value.items()}}
        case set() | frozenset():
            return _typed_set(value)
        case _ if type(value).__module__ == "boto3.dynamodb.types":  # Binary, what boto3's resources read
            return {"B": bytes(value)}  # type: ignore[call-overload]
    raise TypeError(f"DynamoDB has no type for {type(value).__name__}")


def _typed_set(values: AbstractSet[object]) -> dict[str, Any]:
    members = [_typed(each) for each in values]
    kinds = {kind for each in members for kind in each}
    if len(kinds) != 1 or not kinds <= {"S", "N", "B"}:
        raise TypeError("a set has text, numbers or bytes, of one kind; leave out an empty set")
    (kind,) = kinds
    return {f"{kind}S": list(dict.fromkeys(each[kind] for each in members))}  # 1.1 and Decimal("1.1") are one


def _number_text(number: float | Decimal) -> str:
    exact = decimal_of(number) if isinstance(number, float) else Decimal(number)
    if not exact.is_finite():
        raise TypeError("Infinity and NaN are no numbers here")
    try:
        return str(_NUMBERS.plus(exact))
    except ArithmeticError:
        raise TypeError(f"a number has {DIGITS} digits at most, and is from 1E-130 to 9.9…E+125") from None


def decimal_of(number: float) -> Decimal:
    """Return the decimal that `repr` writes for *number*."""
    return Decimal(float.__repr__(number))


def typed_item(values: Mapping[str, object]) -> Item:
    """Return *values* as an item. Raises `Misconfigured`, which names the attribute."""
    item: Item = {}
    for name, value in values.items():
        if not isinstance(name, str):
            raise Misconfigured(f"attribute {name!r}: a name is text")
        try:
            item[name] = typed(value)
        except Misconfigured as error:
            raise Misconfigured(f"attribute {name!r}: {error}") from None
    return item


def plain_item(item: Mapping[str, Mapping[str, Any]]) -> Values:
    """Return *item* as Python values: whole numbers as int, other numbers as Decimal, binary as bytes."""
    return {name: _plain(attribute) for name, attribute in item.items()}


def _plain(attribute: Mapping[str, Any]) -> Any:
    """
    Return the value of *attribute*.

    boto3's deserializer raises `decimal.Rounded` for numbers of more than 38 digits; DynamoDB writes 1E+39
    with 40.
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
    """Return the number that DynamoDB writes as *text*, under any decimal context."""
    number = Decimal(text)
    return int(number) if number == number.to_integral_value() else number
