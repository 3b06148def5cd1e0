"""Checks the arguments of a ledger's methods, before anything is sent. All of it raises `Misconfigured`."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.items import Item, decimal_of, is_key_value, typed, typed_item
from lambda_once.patterns.ledger.layout import shard_of

if TYPE_CHECKING:
    from lambda_once.patterns.ledger.requests import Number

KeyPart = str | bytes | int | Decimal
Amount = int | float | Decimal
"""A float counts as the decimal that it prints as."""
Key = KeyPart | tuple[KeyPart, ...]

SEPARATOR: Final = "#"
MOST_SHARDS: Final = 1_000

_LONGEST_NAME: Final = 255
_PATH: Final = frozenset(".[]")


def key_names(key: object) -> tuple[str, ...]:
    names = (key,) if isinstance(key, str) else key
    if not isinstance(names, tuple | list) or len(names) not in (1, 2) or len({*names}) != len(names):
        raise Misconfigured(f"key names one or two attributes, the partition key first, not {key!r}")
    for name in names:
        _check_name(name, frozenset())
    return tuple(names)


def shard_count(shards: object) -> int:
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise Misconfigured(f"a ledger has 1 to {MOST_SHARDS:,} shards, not {shards!r}")
    return shards


def homes(names: tuple[str, ...], key: object, digest: bytes, shards: int) -> list[Item]:
    """
    Return the keys of the items that may have an id of this digest, first the one that is written to.

    Shard 0 is two items, the one with number 0 and the one without: a ledger of one shard has the latter.
    """
    if shards == 1:
        return [key_item(names, key, None)]
    shard = shard_of(digest, shards)
    return [key_item(names, key, shard), *([key_item(names, key, None)] if shard == 0 else [])]


def all_homes(names: tuple[str, ...], key: object, shards: int) -> list[Item]:
    """Return the keys of all items of *key*; each has a part of its sums."""
    numbers: list[int | None] = [None] if shards == 1 else [None, *range(shards)]
    return [key_item(names, key, shard) for shard in numbers]


def key_item(names: tuple[str, ...], key: object, shard: int | None) -> Item:
    """Return the key of the item, or of one shard, which has a partition of its own."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(names):
        raise Misconfigured(f"a key here is {' and '.join(names)}: {len(names)} parts, not {len(parts)}")
    for name, part in zip(names, parts, strict=True):
        if not is_key_value(part):
            raise Misconfigured(f"key {name!r} is text, bytes or a number, and not empty: it is {part!r}")
    if shard is not None:
        parts = (_sharded(names[0], parts[0], shard), *parts[1:])
    return typed_item(dict(zip(names, parts, strict=True)))


def checked_amounts(amounts: object, apart: AbstractSet[str]) -> dict[str, Number]:
    return {name: _number(name, each) for name, each in _named("amounts", amounts, apart).items()}


def checked_floor(floor: object, amounts: Mapping[str, Number]) -> dict[str, Number]:
    """Return the floors, each of a counter that something is added to."""
    floors = {name: _number(name, each) for name, each in _named("floor", floor, frozenset()).items()}
    if not floors.keys() <= amounts.keys():
        strange = sorted(floors.keys() - amounts.keys())
        raise Misconfigured(f"floor names {strange}, to which nothing is added: name counters of this write")
    return floors


def checked_values(what: str, values: object, apart: AbstractSet[str]) -> dict[str, object]:
    found = _named(what, values, apart)
    typed_item(found)
    return found


def checked_expected(expected: object, apart: AbstractSet[str]) -> dict[str, object]:
    found = _named("expected", expected, apart)
    if not found:
        raise Misconfigured("expected names no attribute: give what was read, such as a version")
    for name, each in found.items():
        if not isinstance(each, str | bytes | bool | int | float | Decimal | None):
            raise Misconfigured(
                f"expected {name!r} is a {type(each).__name__}: compare text, bytes, a number, a bool or None"
            )
    typed_item(found)
    return found


def _named(what: str, given: object, apart: AbstractSet[str]) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise Misconfigured(f"{what} is a mapping by attribute, not a {type(given).__name__}")
    for name in given:
        _check_name(name, apart)
    return dict(given)


def _check_name(name: object, apart: AbstractSet[str]) -> None:
    if not isinstance(name, str) or not 1 <= len(name.encode(errors="replace")) <= _LONGEST_NAME:
        raise Misconfigured(f"an attribute's name is text of 1 to {_LONGEST_NAME} bytes, not {name!r}")
    if _PATH & {*name}:
        raise Misconfigured(f"attribute {name!r}: a ledger writes whole attributes, not paths into them")
    if name in apart:
        raise Misconfigured(
            f"attribute {name!r} is named twice, belongs to the key, or is the ledger's own: give it another"
            " name, or the ledger's by names="
        )


def _number(name: str, amount: object) -> Number:
    if isinstance(amount, float) and isfinite(amount):
        amount = decimal_of(amount)
    if isinstance(amount, bool) or not isinstance(amount, int | Decimal):
        kind = type(amount).__name__
        raise Misconfigured(f"attribute {name!r}: {kind} is not added exactly: give an int or a Decimal")
    if isinstance(amount, Decimal) and not amount.is_finite():
        raise Misconfigured(f"attribute {name!r}: {amount} is not an amount")
    try:
        typed(amount)  # refuses what has more than 38 digits
    except Misconfigured as error:
        raise Misconfigured(f"attribute {name!r}: {error}") from None
    return amount


def _sharded(name: str, part: object, shard: int) -> str:
    if not isinstance(part, str) or SEPARATOR in part:
        raise Misconfigured(f"key {name!r} of a sharded ledger is text without {SEPARATOR!r}, not {part!r}")
    return f"{part}{SEPARATOR}{shard}"
