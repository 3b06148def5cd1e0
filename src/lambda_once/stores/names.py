"""What the environment says of the token table: how many shards its index has, and names of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from lambda_once.stores.naming import TableNames

MOST_SHARDS = 100
"""A partition takes 1,000 write units a second, an execution writes the index twice: 50,000 a second."""


def configured_shards() -> int:
    """Return LAMBDA_ONCE_STATUS_SHARDS, 1 where it is not set. Raises `Misconfigured`."""
    given = os.environ.get("LAMBDA_ONCE_STATUS_SHARDS", "1")
    if not (given.isascii() and given.isdigit()):
        raise _unsound(repr(given))
    return sound_shards(int(given))


def sound_shards(shards: int) -> int:
    """Return *shards*. Raises `Misconfigured` unless readers ask for all of them."""
    if not 1 <= shards <= MOST_SHARDS:
        raise _unsound(str(shards))
    return shards


def _unsound(shards: str) -> Misconfigured:
    return Misconfigured(f"LAMBDA_ONCE_STATUS_SHARDS is {shards}: give a whole number, 1 to {MOST_SHARDS}")


def configured_names() -> TableNames | None:
    """Return LAMBDA_ONCE_KEY, LAMBDA_ONCE_SORT and LAMBDA_ONCE_INDEX; None where none is set."""
    given = {name: os.environ.get(f"LAMBDA_ONCE_{name.upper()}") for name in ("key", "sort", "index")}
    names = {name: value for name, value in given.items() if value}
    if not names:
        return None
    from lambda_once.stores.naming import TableNames  # few tables have names of their own

    return TableNames(**names)
