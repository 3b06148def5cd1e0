"""
The key of an item, from fields of it: readable, and never the same for two lists of fields.

Parts are percent-encoded and joined by ``#``, which no encoded part has: ("a#b", "c") is ``a%23b#c`` and
("a", "b#c") is ``a#b%23c``. A whole number is written ``=5``, the text "5" is ``5``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from lambda_once.errors import KeyMissing, Misconfigured

if TYPE_CHECKING:
    from lambda_once.patterns.items import Values

SEPARATOR: Final = "#"
NUMBER: Final = "="
"""What a whole number begins with: like the separator it occurs in no encoded text."""

LIMITS: Final = (2048, 1024)
"""
Bytes of a partition key and of a sort key.

Source: DynamoDB developer guide, "Quotas", partition keys and sort keys.
"""

KeySpec = str | Sequence[str] | Mapping[str, str | Sequence[str]]
"""The key attributes, partition key first; or for each the fields that it is made of."""


@dataclass(frozen=True, slots=True)
class KeyPart:
    """One attribute of the primary key."""

    name: str
    limit: int
    """Bytes at most."""
    fields: tuple[str, ...]
    """What it is made of; empty where the item brings the attribute itself."""


def key_parts(key: KeySpec) -> tuple[KeyPart, ...]:
    """
    Return the partition key and, where there is one, the sort key.

    Raises `Misconfigured` for none or more than two, for one name twice, and for an attribute of no fields.
    """
    pairs = (
        [(name, _names(fields)) for name, fields in key.items()]
        if isinstance(key, Mapping)
        else [(name, ()) for name in _names(key)]
    )
    names = [name for name, _ in pairs]
    if len(names) not in (1, 2) or len(set(names)) != len(names) or "" in names:
        raise Misconfigured(f"key={key!r}: name the partition key and, where the table has one, the sort key")
    for name, fields in pairs:
        if isinstance(key, Mapping) and (not fields or "" in fields or name in fields):
            raise Misconfigured(f"key={key!r}: {name!r} needs the names of other attributes to be made of")
    return tuple(KeyPart(name, limit, fields) for (name, fields), limit in zip(pairs, LIMITS, strict=False))


def key_of(parts: Sequence[KeyPart], item: Mapping[str, object]) -> Values:
    """
    Return the key attributes of *item*.

    Raises `KeyMissing` for a field that is missing, None or empty; `Misconfigured` for one that can be no
    part of a key, for one that is too long, and for an item that brings an attribute that is to be made.
    """
    return {part.name: _made(part, item) if part.fields else _brought(part, item) for part in parts}


def joined(values: Sequence[object], what: str = "the key") -> str:
    """Return the one text of *values*, text and whole numbers. No two lists have the same."""
    return SEPARATOR.join(_written(each, what) for each in values)


def _made(part: KeyPart, item: Mapping[str, object]) -> str:
    if part.name in item:
        raise Misconfigured(
            f"{part.name!r} is made of {', '.join(part.fields)}: leave it out of the item, or name it in key="
        )
    text = SEPARATOR.join(_written(_present(name, item), f"{name!r}") for name in part.fields)
    _check_length(part, text.encode())
    return text


def _brought(part: KeyPart, item: Mapping[str, object]) -> object:
    found = _present(part.name, item)
    if isinstance(found, bool) or not isinstance(found, str | bytes | int | Decimal):
        raise Misconfigured(
            f"{part.name!r} is a {type(found).__name__}: a key attribute is text, a number or bytes"
        )
    if isinstance(found, str):
        _check_length(part, found.encode("utf-8", "surrogatepass"))
    elif isinstance(found, bytes):
        _check_length(part, found)
    return found


def _present(name: str, item: Mapping[str, object]) -> object:
    found = item.get(name)
    if found is None or found in ("", b""):
        raise KeyMissing(f"the key is missing: the item has no {name!r}; send it with every item")
    return found


def _written(part: object, what: str) -> str:
    if isinstance(part, str):
        return quote(part, safe="", errors="surrogatepass")
    if isinstance(part, int) and not isinstance(part, bool):
        return f"{NUMBER}{part}"
    raise Misconfigured(
        f"{what} is a {type(part).__name__}: a key is made of text and whole numbers, make it one of these"
    )


def _check_length(part: KeyPart, written: bytes) -> None:
    if len(written) > part.limit:
        raise Misconfigured(
            f"{part.name!r} would be {len(written)} bytes, and DynamoDB takes {part.limit}: "
            f"put a digest into the item and make the key of that"
        )


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
