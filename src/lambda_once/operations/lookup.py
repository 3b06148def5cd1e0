"""The one token that an operator means: by its name, by its parts, or by its key among what is unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.keys import token as token_of
from lambda_once.core.results import Parts, unpack, unpack_chunks
from lambda_once.operations.entries import Entry
from lambda_once.operations.listing import UNFINISHED, unfinished
from lambda_once.operations.names import is_beside, parts_of
from lambda_once.operations.searching import digests_of
from lambda_once.stores.requests import part_keys

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.record import Record
    from lambda_once.operations.table import TokenTable


class Nearby(NamedTuple):
    """What is unfinished and has a key like the one that was asked for."""

    exact: tuple[Entry, ...]
    """Tokens with this very key."""
    alike: tuple[Entry, ...]
    """Tokens whose key contains it, a few."""


FEW = 5


def by_token(table: TokenTable, token: str) -> Record | None:
    """Return the row of *token*; None for what is no token, and where there is none."""
    if is_beside(token) or parts_of(token) is None:
        return None
    return table.read(token)


def by_parts(table: TokenTable, service: str, name: str, scope: str | None, key: str) -> Record | None:
    """
    Return the row of the key *key*, as text or else as the number or JSON that it writes.

    Raises `Misconfigured` and `KeyMissing` for parts that make no token.
    """
    token = token_of(service, name, scope, key)
    found = table.read(token)
    if found is not None:
        return found
    owner = token.rpartition("/")[0]
    for digest in sorted(digests_of(key)):
        found = table.read(f"{owner}/{digest}")
        if found is not None:
            return found
    return None


def nearby(table: TokenTable, key: str, now: datetime) -> Nearby:
    """Return what is unfinished and has the key *key*, or one that contains it."""
    hashed = digests_of(key)
    exact: list[Entry] = []
    alike: list[Entry] = []
    for entry in unfinished(table, UNFINISHED, now):
        parts = entry.name
        if parts is None:
            continue
        if parts.key == key or parts.key in hashed:
            exact.append(entry)
        elif len(alike) < FEW and key in parts.key:
            alike.append(entry)
    return Nearby(tuple(exact), tuple(alike))


def parts_there(table: TokenTable, record: Record) -> int | None:
    """Return how many parts of a large result are there; None where the result has none."""
    if not isinstance(record.stored, Parts):
        return None
    keys = part_keys(record, record.stored.count)
    return len(table.wire.items(keys, table.deadline(), record.token, only="lockToken"))


def result_text(table: TokenTable, record: Record) -> str | None:
    """Return the JSON of a stored result; None where a part is missing. Raises `Corrupt`."""
    if isinstance(record.stored, Parts):
        chunks = table.store.chunks(record, table.deadline())
        return None if chunks is None else unpack_chunks(chunks)
    return "null" if record.stored is None else unpack(record.stored.data)  # type: ignore[union-attr]
