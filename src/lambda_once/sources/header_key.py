"""
The header `Idempotency-Key`.

IETF draft-ietf-httpapi-idempotency-key-header: a string of RFC 8941, that is in double quotes.
Most clients in the field send it plain. Both are read, and mean the same.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NoReturn

from lambda_once.errors import KeyMissing

if TYPE_CHECKING:
    from collections.abc import Mapping

NAME: Final = "Idempotency-Key"
LONGEST: Final = 255
"""Characters of a key, the quotes and escapes not counted."""

# RFC 8941, 3.3.3: printable ASCII; backslash escapes itself and the quote, and nothing else.
_QUOTED: Final = re.compile(r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"')
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")


class BadRequest(KeyMissing):
    """The request cannot be given a key. The message is written for the client and holds nothing it sent."""


def header_key(headers: Mapping[str, tuple[str, ...]]) -> str | None:
    """
    Return the key in *headers*: 1 to 255 printable ASCII characters; None where there is none.

    The same value twice is one. Raises `BadRequest`, naming what is wrong and
    never the value, where a key is sent that cannot be used.
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
