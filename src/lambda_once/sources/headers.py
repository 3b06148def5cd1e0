"""
The headers of an HTTP event: every value by name, and the key in ``Idempotency-Key``.

The key is an Item of RFC 9651 that is a string, in double quotes (IETF
draft-ietf-httpapi-idempotency-key-header). Most clients send it without them. Both are read and mean the
same. A key that can't be used is refused, never ignored: its client relies on it. No message shows the value.

What we're not happy with: a proxy that joins two headers by a comma makes one key of two. Only the values
that mean "no key" are looked for on both sides of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from lambda_once.core.unit import BadRequest
from lambda_once.sources.caller import NO_VALUE

KEY_HEADER: Final = "Idempotency-Key"
HEADER_FIELDS: Final = ("headers", "multiValueHeaders")
"""Where events and responses have their headers."""
LONGEST_KEY: Final = 255
"""Characters of a key, the quotes and escapes not counted."""

# RFC 9651, 3.3.3: printable ASCII; backslash escapes itself and the quote, and nothing else.
_STRING: Final = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'
_BARE_ITEM: Final = "|".join(
    (
        r"-?\d{1,12}\.\d{1,3}",  # a decimal (3.3.2)
        r"@?-?\d{1,15}",  # an integer (3.3.1) or a date (3.3.7)
        _STRING,
        r"[A-Za-z*][\w!#$%&'*+.^`|~:/-]*",  # a token (3.3.4)
        r":[A-Za-z0-9+/=]*:",  # bytes (3.3.5)
        r"\?[01]",  # a boolean (3.3.6)
        r'%"(?:[\x20-\x21\x23-\x24\x26-\x7e]|%[0-9a-f]{2})*"',  # a display string (3.3.8)
    )
)
_ITEM: Final = rf"({_STRING})(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:{_BARE_ITEM}))?)*"
"""A string and its parameters (3.1.2), which have no meaning here."""


def header_key(headers: Mapping[str, tuple[str, ...]]) -> str | None:
    """
    Return the key in *headers*: 1 to 255 printable ASCII characters; None if there is none.

    An empty value, and a text for no value such as `undefined`, quoted or not, are none. The same value twice
    is one. Raises `BadRequest`, which never shows the value, for a key that cannot be used.
    """
    keys = {_unquoted(value.strip(" \t")) for value in headers.get(KEY_HEADER.lower(), ())} - {None}
    if len(keys) > 1:
        _refuse("was sent with different values: send one")
    return next(iter(keys), None)


def has_key(event: Mapping[str, object]) -> bool:
    """Whether *event*, an HTTP request, has a key, however malformed. Most have none, and that is quick."""
    names = (str(name).lower() for field in HEADER_FIELDS for name, _ in items_of(event.get(field)))
    if KEY_HEADER.lower() not in names:
        return False
    try:
        return header_key(header_values(event)) is not None
    except BadRequest:
        return True


def _unquoted(value: str) -> str | None:
    if not (value.isascii() and value.isprintable()):
        _refuse("has characters that are not printable ASCII")
    if value.startswith('"'):
        item = re.fullmatch(_ITEM, value, re.ASCII)
        if item is None:
            _refuse("starts with a quote but is not a quoted string of RFC 9651")
        value = re.sub(r"\\(.)", r"\1", item[1][1:-1])
    key = value.strip(" ")
    if len(key) > LONGEST_KEY:
        _refuse(f"has {len(key)} characters; at most {LONGEST_KEY} are allowed")
    several = key.lower().split(",")  # HTTP APIs join the values of two headers
    return None if NO_VALUE.issuperset(map(str.strip, several)) else key


def _refuse(what: str) -> NoReturn:
    message = f"The header {KEY_HEADER} {what}."
    raise BadRequest(message)


class Headers(dict[str, Any]):
    """
    A mapping of headers, by names in any case.

    It keeps the names in lower case. JMESPath calls `get` for fields, so they are found; its functions over
    whole objects (`keys`, `merge`) want the exact type `dict` and refuse it.
    """

    def __init__(self, headers: Mapping[str, object]) -> None:
        super().__init__((str(name).lower(), value) for name, value in headers.items())

    def get(self, name: object, default: object = None) -> Any:
        """Return the header *name*, in any case, or *default*."""
        return super().get(str(name).lower(), default)

    def __getitem__(self, name: str) -> Any:
        """Return the header *name*, in any case. Raises `KeyError`."""
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        """Whether there is a header *name*, in any case."""
        return super().__contains__(str(name).lower())


def header_values(event: Mapping[str, object]) -> Mapping[str, tuple[str, ...]]:
    """
    Return every value of every header of *event*, an HTTP request, by lower-case name.

    `multiValueHeaders` (v1, load balancers) has all of them and takes precedence; `headers` has the last one
    only, or in v2 all joined by commas, like one value with commas. Names that differ in case are one header.
    """
    values: dict[str, tuple[str, ...]] = {}
    for name, several in items_of(event.get("multiValueHeaders")):
        lower = str(name).lower()
        values[lower] = (*values.get(lower, ()), *map(str, several if isinstance(several, list) else ()))
    known = frozenset(values)
    for name, value in items_of(event.get("headers")):
        lower = str(name).lower()
        if lower not in known and value is not None:
            values[lower] = (*values.get(lower, ()), str(value))
    return values


def envelope_of(event: Mapping[str, object], headers: Mapping[str, tuple[str, ...]]) -> Mapping[str, object]:
    """
    Return *event* with header names in any case, which an expression of ``scope=`` sees.

    It has `headers` even if only the multi-value ones came.
    """
    original = event.get("headers")
    single = (
        original
        if isinstance(original, Mapping)
        else {name: ", ".join(values) for name, values in headers.items()}
    )
    multi = event.get("multiValueHeaders")
    return {
        **event,
        "headers": Headers(single),
        **({"multiValueHeaders": Headers(multi)} if isinstance(multi, Mapping) else {}),
    }


def items_of(mapping: object) -> Iterable[tuple[str, object]]:
    """Return the items of *mapping*; none if it is no mapping."""
    return mapping.items() if isinstance(mapping, Mapping) else ()
