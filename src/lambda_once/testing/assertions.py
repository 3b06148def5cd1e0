"""
Assertions about tokens, which tell a token's story where they fail.

Each takes the store, or the Once whose store it is; then the key as the work was given it, the whole token,
or nothing where there is one token only; and returns the row. Each raises AssertionError.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.codec import codec_for
from lambda_once.core.record import State
from lambda_once.testing.recording import RecordingStore
from lambda_once.testing.rows import ONLY, found, result_of, store_of, told, unknown

if TYPE_CHECKING:
    from lambda_once.core.clock import Clock
    from lambda_once.core.record import Record
    from lambda_once.stores.contract import Store
    from lambda_once.testing.rows import Tokens

ANY_RESULT: Final = object()


def assert_completed(tokens: Tokens, key: object = ONLY, *, result: object = ANY_RESULT) -> Record:
    """
    Assert that the work is done, and where *result* is given, that duplicates get that.

    Results are compared as JSON has them: a tuple is a list, a dataclass an object.
    """
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if record.state is not State.COMPLETE or record.error is not None:
        raise _failed("complete", store, record)
    if result is not ANY_RESULT:
        _compare(result, store, record)
    return record


def assert_stored_error(
    tokens: Tokens, key: object = ONLY, *, error: type[BaseException] | str | None = None
) -> Record:
    """Assert that the work failed for good (STORE), with *error* where it is given: a class, or its name."""
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if record.state is not State.COMPLETE or record.error is None:
        raise _failed("complete with a stored error", store, record)
    return _with_error(error, store, record)


def assert_held(
    tokens: Tokens, key: object = ONLY, *, error: type[BaseException] | str | None = None
) -> Record:
    """
    Assert that the token waits for a person because its work failed with *error*: a class, or its name.

    The token of an attempt that died is not held but lapsed (`assert_lapsed`), even where ``on_lapse`` makes
    every duplicate of it `Held`.
    """
    __tracebackhide__ = True
    return _in_state(State.HELD, "held", tokens, key, error)


def assert_released(
    tokens: Tokens, key: object = ONLY, *, error: type[BaseException] | str | None = None
) -> Record:
    """Assert that the token was given back, because of *error* where it is given: a class, or its name."""
    __tracebackhide__ = True
    return _in_state(State.RELEASED, "released", tokens, key, error)


def assert_in_progress(tokens: Tokens, key: object = ONLY) -> Record:
    """Assert that an attempt has the token and has written no outcome, its lease over or not."""
    __tracebackhide__ = True
    return _in_state(State.IN_PROGRESS, "in progress", tokens, key, None)


def assert_lapsed(tokens: Tokens, key: object = ONLY, *, clock: Clock) -> Record:
    """Assert that an attempt has the token, and by *clock* its lease is over."""
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if not record.lapsed(clock.now()):
        raise _failed(f"lapsed by {clock.now():%Y-%m-%dT%H:%M:%S}Z", store, record)
    return record


def assert_ran_once(tokens: Tokens, key: object = ONLY) -> Record:
    """
    Assert that one attempt got the token and no other, whatever came of it.

    It counts acquisitions, so an attempt that died before its work counts. Only the stores of `using` and
    ``once_store`` count: raises TypeError for another.
    """
    __tracebackhide__ = True
    store, record = _of(tokens, key)
    if not isinstance(store, RecordingStore):
        raise TypeError(
            f"{store!r} counts no attempts: use the store of using() or of the fixture once_store"
        )
    attempts = store.acquisitions[record.token]
    if attempts != 1:
        raise _failed(f"a token of one attempt ({attempts} got it)", store, record)
    return record


def assert_no_token(tokens: Tokens, key: object = ONLY) -> None:
    """Assert that no attempt ever got the token; without *key*, that there is no token at all."""
    __tracebackhide__ = True
    store = store_of(tokens)
    record = found(store, key)
    if record is not None:
        raise _failed("absent", store, record)


# ---------------------------------------------------------------- parts of these


def _of(tokens: Tokens, key: object) -> tuple[Store, Record]:
    __tracebackhide__ = True
    store = store_of(tokens)
    record = found(store, key)
    if record is None:
        raise AssertionError(unknown(store, key))
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


def _compare(expected: object, store: Store, record: Record) -> None:
    __tracebackhide__ = True
    wanted = codec_for(Any).round_trip(expected)
    stored = result_of(store, record)
    if stored != wanted:
        what = f"its duplicates get {stored!r}, and not {wanted!r}"
        raise AssertionError(f"{what}\n{told(store, record)}")


def _failed(wanted: str, store: Store, record: Record) -> AssertionError:
    return AssertionError(f"it is not {wanted}\n{told(store, record)}")
