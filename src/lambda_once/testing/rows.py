"""The row that a test means: by its token, by its key, or because it is the only one."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any, Final, TypeAlias

from lambda_once._once import Once
from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.core.keys import token as token_of
from lambda_once.core.record import Record
from lambda_once.core.results import Inline, Parts, unpack, unpack_chunks
from lambda_once.stores.contract import Store
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing.crash import MortalStore
from lambda_once.testing.recording import RecordingStore
from lambda_once.testing.story import story_of

Tokens: TypeAlias = Once | Store
"""Where a test looks for tokens: a store, or the store that a Once works with."""

PATIENCE: Final = timedelta(seconds=30)
"""How long an engine may take to answer a test."""
SHOWN: Final = 20
"""Tokens that a message lists."""


class _Only:
    def __repr__(self) -> str:
        return "the only token"


ONLY: Final = _Only()
"""The key of a test that knows of one token only, such as one whose key is the hash of its payload."""


def store_of(tokens: Tokens) -> Store:
    """Return the store that *tokens* is or works with."""
    store: Store = tokens._runtime.engine.store if isinstance(tokens, Once) else tokens  # noqa: SLF001  (ours)
    return store.real if isinstance(store, MortalStore) else store


def rows_of(store: Store) -> list[Record] | None:
    """Return all rows of *store*; None where it is one of the user's own, which cannot list them."""
    if isinstance(store, MemoryStore):
        return list(store.records.values())
    dynamodb = sys.modules.get("lambda_once.stores.store")  # else it is no such store; it needs botocore
    if dynamodb is not None and isinstance(store, dynamodb.DynamoDBStore):
        return _scanned(store)
    return None


def _scanned(store: Any) -> list[Record]:
    from functools import partial

    from lambda_once.dynamodb.paging import pages
    from lambda_once.stores.rows import record_of

    send = partial(store.transport.call, deadline=deadline())
    scanned = pages(send, "scan", {"TableName": store.table, "ConsistentRead": True})
    # Beside tokens there are parts of results, and what a test's own transactions wrote to this table.
    rows = (row for page in scanned for row in page["Items"] if "attempt" in row and "created" in row)
    return [record_of(row) for row in rows]


def deadline() -> Deadline:
    clock = SystemClock()
    return Deadline(clock, clock.now() + PATIENCE)


def found(store: Store, key: object) -> Record | None:
    """
    Return the row of *key*: a whole token, the key of one as it was given, or `ONLY`.

    None where there is none. Raises AssertionError, with the tokens, where several rows could be meant.
    """
    rows = rows_of(store)
    if rows is None:
        return _read(store, key)
    exact = [row for row in rows if row.token == key]
    meant = exact or [row for row in rows if key is ONLY or row.token.rpartition("/")[2] == _part(key)]
    if len(meant) > 1:
        message = f"{len(meant)} tokens could be meant by {key!r}: give the whole token, one of"
        raise AssertionError("\n".join([message, *_listed(meant)]))
    return meant[0] if meant else None


def _read(store: Store, key: object) -> Record | None:
    if isinstance(key, str):
        return store.read(key, deadline())
    raise TypeError(f"{store!r} cannot list its rows: give the whole token, not {key!r}")


def _part(key: object) -> str:
    """Return the part of a token that *key* becomes; the key itself where it can be none."""
    from lambda_once.errors import KeyMissing

    try:
        return token_of("-", "-", None, key).rpartition("/")[2]
    except KeyMissing:
        return str(key)


def unknown(store: Store, key: object) -> str:
    """Return the message that there is no row of *key*, with the tokens that there are."""
    rows = rows_of(store)
    if rows is None:
        return f"there is no token {key!r}; {store!r} cannot list those that there are"
    if not rows:
        return (
            f"there is no token of {key!r}: there is none at all. Did the work run, with this store? A Once "
            "that was given a store= of its own keeps it: hand that Once to the assertion, or use using(once)"
        )
    return "\n".join([f"there is no token of {key!r}. There are", *_listed(rows)])


def _listed(rows: list[Record]) -> list[str]:
    tokens = sorted(f"  {row.token} ({row.state.value})" for row in rows)
    return tokens[:SHOWN] + [f"  … and {len(tokens) - SHOWN} more"] * (len(tokens) > SHOWN)


def told(store: Store, record: Record) -> str:
    """Return the story of *record*, as much of it as *store* remembers."""
    chapters = store.history.get(record.token, []) if isinstance(store, RecordingStore) else []
    return story_of(record, chapters)


def result_of(store: Store, record: Record) -> Any:
    """Return the stored result of *record* as JSON has it. Raises AssertionError where it cannot be had."""
    match record.stored:
        case None:
            return None
        case Inline(data):
            return json.loads(unpack(data))
        case Parts(count):
            parts = store.chunks(record, deadline())
            if parts is None:
                raise AssertionError(f"of the {count} parts of its result one is missing")
            return json.loads(unpack_chunks(parts))
        case _:
            raise AssertionError("its result could not be stored: it is complete, and has none")
