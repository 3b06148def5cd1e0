"""
Assertions about tokens; a failure prints the token's history.

Each takes the store, or the Once that uses it, and then the key as the work received it, or the whole token;
with a single token the key may be omitted. Each returns the row, and raises AssertionError if it fails.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Any, Final, TypeAlias

from lambda_once._once import Once
from lambda_once.core.clock import Clock, Deadline, SystemClock, stamp
from lambda_once.core.codec import JSON
from lambda_once.core.keys import token as token_of
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Inline, NotSerialisable, Parts, unpack, unpack_chunks
from lambda_once.core.written import HandlerCodec
from lambda_once.dynamodb.retry import PATIENCE
from lambda_once.operations.story import story
from lambda_once.stores.contract import Store
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing.crash import MortalStore
from lambda_once.testing.recording import RecordingStore

Tokens: TypeAlias = Once | Store
"""A store, or the Once that uses it."""

MOST_SHOWN: Final = 20
"""Most tokens that a message lists."""


class _Only:
    def __repr__(self) -> str:
        return "the only token"


ONLY: Final = _Only()
"""Default key: the only token, such as one whose key is the hash of its payload."""
ANY_RESULT: Final = object()


def assert_completed(tokens: Tokens, key: object = ONLY, *, result: object = ANY_RESULT) -> Record:
    """
    Assert that the token is complete and, with *result*, that duplicates get that result.

    Results are compared as JSON values: a tuple is a list, a dataclass an object.
    """
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if record.state is not State.COMPLETE or record.error is not None:
        raise _failed("complete", store, record)
    if result is not ANY_RESULT:
        wanted, stored = JSON.round_trip(result), _result_of(store, record)
        if stored != wanted and stored != _answered(result):
            raise AssertionError(f"duplicates get {stored!r}, not {wanted!r}\n{_described(store, record)}")
    return record


def assert_stored_error(
    tokens: Tokens, key: object = ONLY, *, error: type[BaseException] | str | None = None
) -> Record:
    """Assert that the work failed permanently (STORE), with *error* if given: a class or its name."""
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if record.state is not State.COMPLETE or record.error is None:
        raise _failed("complete with a stored error", store, record)
    return _with_error(error, store, record)


def assert_held(
    tokens: Tokens, key: object = ONLY, *, error: type[BaseException] | str | None = None
) -> Record:
    """
    Assert that the token is held because its work failed, with *error* if given: a class or its name.

    The token of an attempt that died is lapsed, not held (`assert_lapsed`), even if ``on_lapse`` makes each
    of its duplicates raise `Held`.
    """
    __tracebackhide__ = True
    return _in_state(State.HELD, "held", tokens, key, error)


def assert_released(
    tokens: Tokens, key: object = ONLY, *, error: type[BaseException] | str | None = None
) -> Record:
    """Assert that the token was released, because of *error* if given: a class or its name."""
    __tracebackhide__ = True
    return _in_state(State.RELEASED, "released", tokens, key, error)


def assert_in_progress(tokens: Tokens, key: object = ONLY) -> Record:
    """Assert that the token is in progress; its lease may have expired."""
    __tracebackhide__ = True
    return _in_state(State.IN_PROGRESS, "in progress", tokens, key, None)


def assert_lapsed(tokens: Tokens, key: object = ONLY, *, clock: Clock) -> Record:
    """Assert that the token is in progress and its lease has expired by *clock*."""
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if not record.lapsed(clock.now()):
        raise _failed(f"lapsed by {clock.now():%Y-%m-%dT%H:%M:%S}Z", store, record)
    return record


def assert_ran_once(tokens: Tokens, key: object = ONLY) -> Record:
    """
    Assert that exactly one attempt acquired the token, whatever its outcome.

    An attempt that died before its work counts. Requires a `RecordingStore`, which `using` and ``once_store``
    return; raises TypeError for another store.
    """
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if not isinstance(store, RecordingStore):
        raise TypeError(
            f"{store!r} counts no attempts: use the store of using() or of the fixture once_store"
        )
    attempts = store.acquisitions[record.token]
    if attempts != 1:
        raise _failed(f"a token of one attempt ({attempts} acquired it)", store, record)
    return record


def assert_no_token(tokens: Tokens, key: object = ONLY) -> None:
    """Assert that no attempt acquired the token; without *key*, that there are no tokens."""
    __tracebackhide__ = True
    store = _store_of(tokens)
    record = _found(store, key)
    if record is not None:
        raise _failed("absent", store, record)


# -- checks


def _of(tokens: Tokens, key: object) -> tuple[Store, Record]:
    __tracebackhide__ = True
    store = _store_of(tokens)
    record = _found(store, key)
    if record is None:
        raise AssertionError(_unknown(store, key))
    return store, record


def _in_state(
    state: State, word: str, tokens: Tokens, key: object, error: type[BaseException] | str | None
) -> Record:
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if record.state is not state:
        raise _failed(word, store, record)
    return _with_error(error, store, record)


def _with_error(error: type[BaseException] | str | None, store: Store, record: Record) -> Record:
    __tracebackhide__ = True
    kind = error.__name__ if isinstance(error, type) else error
    if kind is not None and (record.error is None or record.error.kind != kind):
        raise _failed(f"so because of {kind}", store, record)
    return record


def _answered(expected: object) -> object:
    """Return *expected* as a handler's duplicates get it; itself if it has no such form."""
    try:
        return HandlerCodec().round_trip(expected)
    except NotSerialisable:
        return expected


def _failed(wanted: str, store: Store, record: Record) -> AssertionError:
    return AssertionError(f"it is not {wanted}\n{_described(store, record)}")


def _described(store: Store, record: Record) -> str:
    """Return a description of the row, and the requests that a `RecordingStore` recorded."""
    state = record.state.name.lower().replace("_", " ")
    moments = [
        f"  {'' if moment.at is None else stamp(moment.at):24}  {moment.what}"
        for moment in story(record, record.created)
    ]
    lines = [f"token {record.token} is {state}", *moments]
    history = store.history.get(record.token, []) if isinstance(store, RecordingStore) else []
    if history:
        lines += ["requests:", *(f"  {stamp(request.at)}  {request.text}" for request in history)]
    return "\n".join(lines)


# -- rows


def _store_of(tokens: Tokens) -> Store:
    store: Store = tokens._runtime.engine.store if isinstance(tokens, Once) else tokens  # noqa: SLF001  (ours)
    return store.real if isinstance(store, MortalStore) else store


def _rows_of(store: Store) -> list[Record] | None:
    """Return all rows of *store*; None for a user's own store, which cannot list them."""
    if isinstance(store, MemoryStore):
        return list(store.records.values())
    dynamodb = sys.modules.get("lambda_once.stores.store")  # imported only if it is in use
    if dynamodb is not None and isinstance(store, dynamodb.DynamoDBStore):
        return _scanned(store)
    return None


def _scanned(store: Any) -> list[Record]:
    from functools import partial

    from lambda_once.dynamodb.retry import pages
    from lambda_once.stores.row import record_of

    send = partial(store.transport.call, deadline=_deadline())
    scanned = pages(send, "scan", {"TableName": store.table, "ConsistentRead": True})
    # The table also has parts of results, and items from the test's own transactions.
    rows = (row for page in scanned for row in page["Items"] if "attempt" in row and "created" in row)
    return [record_of(row) for row in rows]


def _deadline() -> Deadline:
    clock = SystemClock()
    return Deadline(clock, clock.now() + timedelta(seconds=PATIENCE))


def _found(store: Store, key: object) -> Record | None:
    """
    Return the row of *key* (a whole token, a key as the work received it, or `ONLY`); None if there is none.

    Raises AssertionError, listing the tokens, if several rows match.
    """
    rows = _rows_of(store)
    if rows is None:
        if isinstance(key, str):
            return store.read(key, _deadline())
        raise TypeError(f"{store!r} cannot list its rows: pass the whole token, not {key!r}")
    exact = [row for row in rows if row.token == key]
    matching = exact or [row for row in rows if key is ONLY or row.token.rpartition("/")[2] == _part(key)]
    if len(matching) > 1:
        message = f"{len(matching)} tokens match {key!r}: pass the whole token, one of"
        raise AssertionError("\n".join([message, *_listed(matching)]))
    return matching[0] if matching else None


def _part(key: object) -> str:
    """Return the last part of the token of *key*; *key* as text if it cannot be a key."""
    from lambda_once.errors import KeyMissing

    try:
        return token_of("-", "-", None, key).rpartition("/")[2]
    except KeyMissing:
        return str(key)


def _unknown(store: Store, key: object) -> str:
    """Return the message for a missing row, which lists the tokens that exist."""
    rows = _rows_of(store)
    if rows is None:
        return f"there is no token {key!r}; {store!r} cannot list its tokens"
    if not rows:
        return (
            f"there is no token of {key!r}, and no other. Did the work run, with this store? A Once with a "
            "store= of its own keeps it: pass that Once to the assertion, or use using(once)"
        )
    return "\n".join([f"there is no token of {key!r}. There are", *_listed(rows)])


def _listed(rows: list[Record]) -> list[str]:
    tokens = sorted(f"  {row.token} ({row.state.value})" for row in rows)
    return tokens[:MOST_SHOWN] + [f"  … and {len(tokens) - MOST_SHOWN} more"] * (len(tokens) > MOST_SHOWN)


def _result_of(store: Store, record: Record) -> Any:
    """Return the stored result of *record* as JSON values. Raises AssertionError if it is missing."""
    match record.stored:
        case None:
            return None
        case Inline(data):
            return JSON.load(unpack(data))
        case Parts(count):
            parts = store.chunks(record, _deadline())
            if parts is None:
                raise AssertionError(f"one of the {count} parts of its result is missing")
            return JSON.load(unpack_chunks(parts))
        case _:
            raise AssertionError("it is complete, but its result is not stored")
