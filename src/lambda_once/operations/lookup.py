"""The token that an operator means: by its name, by its parts, or by its key alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.keys import token as token_of
from lambda_once.core.results import Parts, unpack, unpack_chunks
from lambda_once.errors import Misconfigured
from lambda_once.operations.entries import Entry
from lambda_once.operations.listing import UNFINISHED, unfinished
from lambda_once.operations.names import is_beside, parts_of
from lambda_once.operations.searching import encoded, exactly, keys_of, rounds
from lambda_once.stores.requests import part_keys
from lambda_once.stores.rows import record_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from lambda_once.core.record import Record
    from lambda_once.operations.searching import Found
    from lambda_once.operations.table import TokenTable


FEW = 5

SEGMENTS = 8
"""Parts of the table that are read at once."""

MOST_NAMES = 1_000
"""Functions, with their scopes, under whose names a key is asked for before the whole table is read."""


class Known(NamedTuple):
    """What was found without reading the whole table."""

    records: tuple[Record, ...]
    """Rows with this very key."""
    alike: tuple[Entry, ...]
    """A few unfinished tokens whose key contains it."""


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
    owner = token_of(service, name, scope, key).rpartition("/")[0]
    found = _rows(table, [owner], key)
    return found[0] if found else None


def by_known_names(table: TokenTable, key: str, names: Iterable[str], now: datetime) -> Known:
    """
    Return the rows of the key *key* under *names*, and under every name that something unfinished has.

    A name is what a token begins with: ``service/name`` or ``service/name/scope``. Raises `Misconfigured`,
    `StoreUnavailable`, and `KeyMissing` for what can be no key.
    """
    owners, alike = dict.fromkeys(names), list[Entry]()
    keys = keys_of(key)
    for entry in unfinished(table, UNFINISHED, now):
        parts = entry.name
        if parts is None:
            continue
        if parts.key in keys or len(owners) < MOST_NAMES:
            owners[entry.token.rpartition("/")[0]] = None
        if parts.key not in keys and key in parts.key and len(alike) < FEW:
            alike.append(entry)
    return Known(_rows(table, owners, key), tuple(alike))


def by_reading_all(table: TokenTable, key: str, most_pages: int) -> Iterator[Found]:
    """Look for the key *key* in the whole table, page by page, as `searching.rounds` does."""
    return rounds(table, exactly(key), SEGMENTS, most_pages)


def names_from(given: str) -> tuple[str, ...]:
    """Return the names that *given* lists with commas. Raises `Misconfigured` for what begins no token."""
    names = tuple(name.strip() for name in given.split(",") if name.strip())
    for name in names:
        if parts_of(f"{name}/key") is None or not all(name.split("/")):
            raise Misconfigured(f"LAMBDA_ONCE_NAMES has {name!r}: give service/name, with commas between")
    return names


def _rows(table: TokenTable, owners: Iterable[str], key: str) -> tuple[Record, ...]:
    """Return the rows of *key* under *owners*, in their order; as text before as another form of it."""
    forms = [encoded(form) for form in sorted(keys_of(key), key=lambda form: (form != key, form))]
    tokens = [f"{owner}/{form}" for owner in owners for form in forms]
    rows = table.rows(tokens)
    return tuple(record_of(rows[token]) for token in tokens if token in rows)


def parts_there(table: TokenTable, record: Record) -> int | None:
    """Return how many parts of a large result are there; None where the result has none."""
    if not isinstance(record.stored, Parts):
        return None
    keys = part_keys(record, record.stored.count)
    return len(table.transport.items(keys, table.deadline(), record.token, only="lockToken"))


def result_text(table: TokenTable, record: Record) -> str | None:
    """Return the JSON of a stored result; None where a part is missing. Raises `Corrupt`."""
    if isinstance(record.stored, Parts):
        chunks = table.store.chunks(record, table.deadline())
        return None if chunks is None else unpack_chunks(chunks)
    return "null" if record.stored is None else unpack(record.stored.data)  # type: ignore[union-attr]
