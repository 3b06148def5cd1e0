"""
The outcome of a key, as a value for the developer. The result is read on access.

It says what a duplicate would get, and by the same errors; only it may be asked before there is any work. The
reading is a closure in a frozen value, which we'd rather not have, but large results should not be read
unasked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar, assert_never

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Course, Record, State
from lambda_once.core.results import Corrupt, Unavailable
from lambda_once.engine.history import Busy, Earlier, HistoryAnswer, Vacant
from lambda_once.engine.invocation import Call
from lambda_once.engine.replay import Replayer
from lambda_once.errors import (
    InProgress,
    OnceError,
    ResultUnavailable,
    RetryLater,
    StoredError,
    StoreUnavailable,
)
from lambda_once.stores.contract import Unanswered

T = TypeVar("T")
OutcomeState: TypeAlias = Literal[
    "unknown", "complete", "failed", "in_progress", "lapsed", "held", "released"
]


MAY_RUN: Final = frozenset({"unknown", "lapsed", "released"})
"""The states in which the next delivery may run, and asks a history first."""


class Found(NamedTuple):
    """A stored result, None included."""

    result: Any


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """
    The outcome of a key when `Once.outcome` read it; later changes of the token do not change it.

    ``state`` is

    * ``unknown``: there is no token, and no record in a history: no attempt has begun, or its outcome has
      expired;
    * ``complete``: the work is done;
    * ``failed``: the work failed for good, and ``error`` is its error;
    * ``in_progress``: an attempt holds the token, and its lease has not expired;
    * ``lapsed``: the lease of the attempt expired before it finished: whether the work was done is unknown;
    * ``held``: held for manual review;
    * ``released``: no attempt holds it, and the next delivery may run.

    The times are aware datetimes in UTC, or None.
    """

    token: str
    state: OutcomeState
    acquired: datetime | None = None
    """When the latest attempt acquired the token; None if ``state`` is ``unknown`` or from a history."""
    finished: datetime | None = None
    """When the token was completed or held."""
    expires: datetime | None = None
    """When the outcome expires; None if it does not, as while the token is in progress or held."""
    _read: Callable[[], Found | OnceError] = field(kw_only=True, repr=False, compare=False)

    @property
    def result(self) -> T:
        """
        The stored result, which may be None. Read on first access, with all parts of a large one.

        Without a result it raises what a duplicate would get: `StoredError` if the work failed,
        `ResultUnavailable`, `InProgress`, `Held`, and `RetryLater` for the other states. Raises
        `StoreUnavailable` if the table does not respond.
        """
        found = self._found
        if isinstance(found, OnceError):
            raise found
        result: T = found.result
        return result

    @property
    def error(self) -> StoredError | None:
        """
        The stored error, with its ``kind`` and message; None unless ``state`` is ``failed``.

        Raises `ResultUnavailable` if it is sealed and cannot be opened.
        """
        if self.state != "failed":
            return None
        if isinstance(self._found, StoredError):
            return self._found
        self.result  # noqa: B018  (raises why there is none)
        return None

    @cached_property
    def _found(self) -> Found | OnceError:
        return self._read()


class Asker(NamedTuple):
    """Reads the result of a token."""

    token: str
    replayer: Replayer
    call: Callable[[], Call]
    """Returns a call of the token, with a deadline for reading."""
    at_once: bool
    """Whether to read the result immediately after the row."""


def outcome_from(asker: Asker, record: Record | None, now: datetime) -> Outcome[Any]:
    """
    Return the outcome of a token whose row is *record*.

    With `Asker.at_once` it raises if reading the result failed and a retry may succeed.
    """
    token, state = asker.token, state_of(record, now)
    if record is None or state == "unknown":
        problem = RetryLater(f"token {token} is unknown: nothing is stored under it", token=token)
        return Outcome(token, "unknown", _read=lambda: problem)

    def read() -> Found | OnceError:
        return _read(asker, record, state)

    found = read() if asker.at_once else None
    ended = record.state in (State.COMPLETE, State.RELEASED)
    return Outcome(
        token=token,
        state=state,
        acquired=record.created,
        finished=record.actual_completion,
        expires=datetime.fromtimestamp(record.ttl, UTC) if ended and record.ttl is not None else None,
        _read=read if found is None else lambda: found,
    )


def outcome_in_history(asker: Asker, answer: HistoryAnswer) -> Outcome[Any] | None:
    """Return the outcome that a history has, None if it has none. Raises `StoreUnavailable`."""
    token, problem = asker.token, f"token {asker.token} is in progress in the history"
    match answer:
        case Earlier(text, expires):
            return Outcome(token, "complete", expires=expires, _read=lambda: _loaded(asker, text))
        case Busy(until):
            running = InProgress(f"{problem}; retry later", token=token, expected_completion=until)
            return Outcome(token, "in_progress", _read=lambda: running)
        case Vacant(datetime() as until):
            lapsed = RetryLater(f"{problem}, lapsed since {stamp(until)}: whether it was done is unknown")
            return Outcome(token, "lapsed", _read=lambda: lapsed)
        case Vacant():
            return None
        case Unanswered(reason):
            message = f"the outcome of token {token} is unknown, retry later: {reason}"
            raise StoreUnavailable(message, token=token, reason=reason)
        case _ as unreachable:
            assert_never(unreachable)


def _loaded(asker: Asker, text: str) -> Found | ResultUnavailable:
    try:
        return Found(asker.call().codec.load(text))
    except Corrupt as error:
        message = f"token {asker.token} is complete in the history, but its result cannot be read ({error})"
        return ResultUnavailable(message, token=asker.token)


def state_of(record: Record | None, now: datetime) -> OutcomeState:
    """Return the state of the work at *now* by its row; None: there is no row."""
    if record is None or record.expired(now):
        return "unknown"
    match record.state:
        case State.COMPLETE:
            return "complete" if record.error is None else "failed"
        case State.IN_PROGRESS:
            return "lapsed" if record.lapsed(now) else "in_progress"
        case State.HELD:
            return "held"
        case State.RELEASED:
            return "released"
        case _ as unreachable:
            assert_never(unreachable)


def _read(asker: Asker, record: Record, state: OutcomeState) -> Found | OnceError:
    """Return the result, or the error in its place. Raises if a retry may succeed."""
    replayer, call = asker.replayer, asker.call()
    match state:
        case "complete" if isinstance(record.stored, Unavailable):
            return replayer.error(call, record, Course.RESULT_UNAVAILABLE)
        case "complete":
            try:
                return Found(replayer.result(call, record))
            except ResultUnavailable as unavailable:
                return unavailable
        case "failed":
            return replayer.error(call, record, Course.STORED_ERROR)
        case "held":
            return replayer.error(call, record, Course.HELD)
        case "in_progress":
            return replayer.error(call, record, Course.IN_PROGRESS)
        case "lapsed" | "released" | "unknown":
            return _no_outcome(record, state)
        case _ as unreachable:
            assert_never(unreachable)


def _no_outcome(record: Record, state: OutcomeState) -> RetryLater:
    by = f"attempt {record.attempt_id} ({record.locked_by}) had until {stamp(record.expected_completion)}"
    why = (
        f"has lapsed: {by}, and whether it did its work is unknown"
        if state == "lapsed"
        else "is released: no attempt has completed it"
    )
    return RetryLater(
        f"token {record.token} {why}",
        token=record.token,
        state=record.state.value,
        locked_by=record.locked_by,
        created=record.created,
        expected_completion=record.expected_completion,
    )
