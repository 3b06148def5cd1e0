"""
Headers of HTTP requests, by names in any case, and the key in `Idempotency-Key`.

IETF draft-ietf-httpapi-idempotency-key-header: the key is a string of RFC 8941, in double quotes. Most
clients send it without them. Both are read and mean the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from lambda_once.errors import KeyMissing

NAME: Final = "Idempotency-Key"
LONGEST: Final = 255
"""Characters of a key, the quotes and escapes not counted."""

# RFC 8941, 3.3.3: printable ASCII; backslash escapes itself and the quote, and nothing else.
_QUOTED: Final = re.compile(r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"')
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")


class BadRequest(KeyMissing):
    """The request has no valid key. The message is for the client and repeats nothing of the request."""


def header_key(headers: Mapping[str, tuple[str, ...]]) -> str | None:
    """
    Return the key in *headers*: 1 to 255 printable ASCII characters; None if there is none.

    The same value twice is one. Raises `BadRequest`, which never shows the value, for a key that cannot be
    used.
    """
    keys = {_unquoted(value.strip(" \t")) for value in headers.get(NAME.lower(), ())}
    if len(keys) > 1:
        _refuse("was sent with different values: send one")
    return next(iter(keys), None)


def _unquoted(value: str) -> str:
    if not _PRINTABLE.fullmatch(value):
        _refuse("has characters that are not printable ASCII")
    if value.startswith('"'):
        if not _QUOTED.fullmatch(value):
            _refuse("starts with a quote but is not a quoted string of RFC 8941")
        value = re.sub(r"\\(.)", r"\1", value[1:-1])
    key = value.strip(" ")
    if not key:
        _refuse("is empty")
    if len(key) > LONGEST:
        _refuse(f"has {len(key)} characters; at most {LONGEST} are allowed")
    return key


def _refuse(what: str) -> NoReturn:
    message = f"The header {NAME} {what}."
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
    only, or in v2 all joined by commas, like one value with commas. In VPC Lattice v2, `headers` has lists.
    Names that differ in case are one header.
    """
    multi, single = event.get("multiValueHeaders"), event.get("headers")
    values: dict[str, tuple[str, ...]] = {}
    for name, several in multi.items() if isinstance(multi, Mapping) else ():
        lower = str(name).lower()
        values[lower] = (*values.get(lower, ()), *map(str, several if isinstance(several, list) else ()))
    known = frozenset(values)
    for name, value in single.items() if isinstance(single, Mapping) else ():
        lower = str(name).lower()
        if lower not in known and value is not None:
            several = value if isinstance(value, list) else [value]
            values[lower] = (*values.get(lower, ()), *map(str, several))
    return values
