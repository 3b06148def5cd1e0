"""A lock token taken apart again: ``service/name/[scope/]key``, each part percent-encoded."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote


class TokenName(NamedTuple):
    """The parts of a token, readable; a part that stood as its SHA-256 still does."""

    service: str
    name: str
    scope: str | None
    key: str


def parts_of(token: str) -> TokenName | None:
    """Return the parts of *token*; None for what is no token (a part row, a cursor, a foreign row)."""
    if is_beside(token):
        return None
    match [unquote(part) for part in token.split("/")]:
        case [service, name, key]:
            return TokenName(service, name, None, key)
        case [service, name, scope, key]:
            return TokenName(service, name, scope, key)
        case _:
            return None


def is_beside(key: str) -> bool:
    """Tell whether a row of this primary key is none of a token: tokens have their ``#`` percent-encoded."""
    return "#" in key
