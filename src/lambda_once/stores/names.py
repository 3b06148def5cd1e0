"""The names in a token table, and the number of shards of its index, both from the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from lambda_once.errors import Misconfigured
from lambda_once.stores.row import NAMES as ATTRIBUTES

TOKEN, INDEX = "lockToken", "byStatus"
SORT_VALUE = "lambda-once"
"""The sort key of every row, if the table has a sort key."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,254}")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The names in one token table. The partition key is the token; the sort key, if any, is constant."""

    key: str = TOKEN
    sort: str | None = None
    index: str = INDEX

    def key_of(self, token: str) -> dict[str, dict[str, str]]:
        """Return the key of the row of *token*."""
        key = {self.key: {"S": token}}
        return key if self.sort is None else {**key, self.sort: {"S": SORT_VALUE}}

    def sound(self) -> TableNames:
        """Return self. Raises `Misconfigured` for names that no token table can have."""
        for variable, name in (("KEY", self.key), ("SORT", self.sort), ("INDEX", self.index)):
            if name is None:
                continue
            if not _NAME.fullmatch(name):
                raise Misconfigured(
                    f"LAMBDA_ONCE_{variable} is {name!r}: give the name of an attribute or index alone. The "
                    "partition key is the token: a constant one is one partition, which takes 500 executions "
                    f"a second. The sort key is always {SORT_VALUE!r}"
                )
            if variable != "INDEX" and name in ATTRIBUTES:
                raise Misconfigured(
                    f"LAMBDA_ONCE_{variable} is {name!r}, an attribute that every row has with another "
                    "content: use a table with another key"
                )
        if self.sort in (self.key, TOKEN):
            raise Misconfigured(
                f"LAMBDA_ONCE_SORT is {self.sort!r}, the name of the token: name the sort key"
            )
        return self


USUAL = TableNames()

# ---------------------------------------------------------------- the environment

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


def configured_names() -> TableNames | None:
    """Return LAMBDA_ONCE_KEY, LAMBDA_ONCE_SORT and LAMBDA_ONCE_INDEX; None if none is set."""
    given = {name: os.environ.get(f"LAMBDA_ONCE_{name.upper()}") for name in ("key", "sort", "index")}
    names = {name: value for name, value in given.items() if value}
    if not names:
        return None
    return TableNames(**names)
