"""Python values as DynamoDB's typed attributes, and back; the names of a pattern's own attributes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import isfinite
from typing import Any

from lambda_once.errors import Misconfigured

Item = dict[str, dict[str, Any]]
"""An item of the low-level client."""

Values = dict[str, Any]
"""An item in Python values: str, int, Decimal, bytes, bool, None, list, dict and set."""


def is_key_value(value: object) -> bool:
    """Return whether *value* can be a key attribute: text, bytes or a number, and not empty."""
    return (
        isinstance(value, str | bytes | int | Decimal)
        and not isinstance(value, bool)
        and value not in ("", b"")
    )


def own_names(given: object, own: Sequence[str], others: Sequence[str]) -> dict[str, str]:
    """
    Return the name in the table of each attribute of *own*, those of a pattern: as in *given*, or the same.

    *others*: names in use, such as the key's. Raises `Misconfigured`.
    """
    if not isinstance(given, Mapping | None):
        raise Misconfigured(f"names={given!r}: give a mapping of {', '.join(own)}")
    wanted = {} if given is None else given
    if strange := [each for each in wanted if each not in own]:
        raise Misconfigured(f"names: the pattern writes no {strange[0]!r}, but {', '.join(own)}")
    names = {each: wanted.get(each, each) for each in own}
    check_different([*others, *names.values()], own)
    return names


def check_different(names: Iterable[object], own: Sequence[str]) -> None:
    """Raise `Misconfigured` where one of *names*, those of the key and of *own*, is used twice or no text."""
    used: set[str] = set()
    for name in names:
        if not isinstance(name, str) or name == "" or name in used:
            raise Misconfigured(
                f"attribute {name!r}: names are text and must differ, the key's too; names= gives other names"
                f" to {', '.join(own)}"
            )
        used.add(name)


def typed(value: object) -> dict[str, Any]:
    """
    Return *value* as an attribute. A float is the decimal that it prints as, and comes back as that.

    Raises `Misconfigured` for what DynamoDB cannot store: NaN, infinity, an empty set, another class.
    """
    serializer, _ = _converters()
    try:
        attribute: dict[str, Any] = serializer.serialize(_exact(value))
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
    return value


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
    _, deserializer = _converters()
    return {name: _plain(deserializer.deserialize(attribute)) for name, attribute in item.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else value
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, set):
        return {_plain(each) for each in value}
    return bytes(value) if hasattr(value, "value") and isinstance(value.value, bytes | bytearray) else value


@lru_cache(maxsize=1)
def _converters() -> tuple[Any, Any]:
    from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

    return TypeSerializer(), TypeDeserializer()
