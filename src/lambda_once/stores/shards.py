"""The number of shards of the index, from the environment."""

from __future__ import annotations

import os

from lambda_once.errors import Misconfigured

MOST_SHARDS = 100
"""A partition takes 1,000 write units a second and an execution writes the index twice: 50,000 a second."""


def configured_shards() -> int:
    """Return LAMBDA_ONCE_STATUS_SHARDS, by default 1. Raises `Misconfigured`."""
    given = os.environ.get("LAMBDA_ONCE_STATUS_SHARDS", "1")
    if not (given.isascii() and given.isdigit()):
        raise _unsound(repr(given))
    return sound_shards(int(given))


def sound_shards(shards: int) -> int:
    """Return *shards*. Raises `Misconfigured` outside 1 to `MOST_SHARDS`, the shards that readers query."""
    if not 1 <= shards <= MOST_SHARDS:
        raise _unsound(str(shards))
    return shards


def _unsound(shards: str) -> Misconfigured:
    return Misconfigured(f"LAMBDA_ONCE_STATUS_SHARDS is {shards}: give a whole number, 1 to {MOST_SHARDS}")
