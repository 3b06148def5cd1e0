"""
Replay the stored outcome to duplicates, or raise the error in its place.

A row is read once and answers by itself: only the parts of a large result, and a row that changed while they
were read, cost another request. What cannot be read is `ResultUnavailable`, never a reason to run the work
again. The texts of errors are here, at the decision, as they name what only the row knows; that makes
`_error` our longest table.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from lambda_once.core.clock import Clock, stamp
from lambda_once.core.fields import Difference, difference, printable
from lambda_once.core.identity import ATTRIBUTES, CONTENT, ORIGIN, differing, shown
from lambda_once.core.keys import KeyOfRun
from lambda_once.core.lifecycle import Course, Record, State
from lambda_once.core.results import Corrupt, Inline, Parts, Sealed, Unavailable, unpack, unpack_chunks
from lambda_once.engine.invocation import Receiver, Redelivery
from lambda_once.errors import (
    CallerMissing,
    Held,
    InProgress,
    KeyMissing,
    KeyReused,
    Misconfigured,
    OnceError,
    OtherCaller,
    ResultUnavailable,
    RetryLater,
    StoreUnavailable,
    stored_error,
)
from lambda_once.observability.events import Event

if TYPE_CHECKING:
    from lambda_once.engine.invocation import Call
    from lambda_once.stores.contract import Store

REMEMBERED = timedelta(minutes=5)
"""How long an environment replays from memory, perhaps ignoring an operator's decision for that time."""
SOON = 5.0
"""The longest ``retry_after`` in seconds: attempts usually finish long before their lease expires."""

_NEW_KEY = "use a new key, or list what may differ in ignore="
_UNAVAILABLE = {
    Unavailable.UNAVAILABLE: (
        "could not be stored (the log line once.result_unavailable has the reason): return what JSON can "
        "write, or give returns= or codec="
    ),
    Unavailable.FORGOTTEN: "was erased by `lambda-once forget`",
    Unavailable.WITHHELD: (
        "was not stored: the response sets a cookie or says no-store, and no user is named (the log line "
        'once.not_stored has the route): without_key="run" leaves such requests unprotected'
    ),
}
_OTHER_CALLER = (
    "was acquired with other credentials: use a new key, or identify callers with an authorizer or caller="
)


class Replayed(NamedTuple):
    """The stored result and its row, for a duplicate."""

    result: Any
    record: Record

    @property
    def replayed(self) -> bool:
        return True

    @property
    def token(self) -> str:
        return self.record.token

    def complete(self, result: Any = None) -> NoReturn:
        """Raise `Misconfigured`: the token is already complete."""
        del result
        message = f"token {self.token} is already complete: check .replayed, and return .result"
        raise Misconfigured(message, token=self.token)

    async def acomplete(self, result: Any = None) -> NoReturn:
        """Raise `Misconfigured`, as `complete` does."""
        self.complete(result)


class Memory:
    """
    An in-memory LRU cache of outcomes, each kept for at most `REMEMBERED`.

    It uses the wall clock, as a monotonic clock stops while the environment is frozen.
    """

    def __init__(self) -> None:
        self._records: OrderedDict[str, tuple[Record, datetime]] = OrderedDict()
        self._lock = threading.RLock()

    def get(self, token: str, now: datetime) -> Record | None:
        with self._lock:
            remembered = self._records.get(token)
            if remembered is None:
                return None
            record, put_at = remembered
            if not put_at <= now < put_at + REMEMBERED:  # if the clock was set back, the age is unknown
                self._records.pop(token, None)  # unless a call that interrupts this one did
                return None
            self._records.move_to_end(token)
            return record

    def put(self, record: Record, size: int, now: datetime) -> None:
        """Cache *record* if it is complete with its result in the row; keep at most *size* records."""
        if size < 1 or record.state is not State.COMPLETE or not isinstance(record.stored, Inline | None):
            return
        with self._lock:
            self._records[record.token] = record, now
            self._records.move_to_end(record.token)
            while len(self._records) > size:
                self._records.popitem(last=False)


class Replayer:
    """Turns rows into stored results and errors."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.memory = Memory()
        self._store = store
        self._clock = clock

    def replay_or_raise(
        self, call: Call, record: Record, course: Course, *, remembered: bool = False
    ) -> Replayed:
        """
        Return the stored result for REPLAY; raise the error of any other *course*.

        *remembered*: the record is from `memory`; its age there does not change.
        """
        if course is Course.RESULT_UNAVAILABLE and call.output.receiver is Receiver.NOBODY:
            call.report(Event.REPLAYED, record)
            return Replayed(None, record)
        if course is not Course.REPLAY:
            raise self.error(call, record, course)
        result = self.result(call, record)
        if call.settings.cache and not remembered:
            self.memory.put(record, call.settings.cache, self._clock.now())
        call.report(Event.REPLAYED, record)
        if None not in (call.delivery, record.delivery) and call.delivery != record.delivery:
            reason = "two deliveries have the same content; they may be separate work"
            call.report(Event.SAME_CONTENT, record, reason=reason)
        return Replayed(result, record)

    def error(self, call: Call, record: Record, course: Course, because: str | None = None) -> OnceError:
        """Return the error for *course*; *because* replaces its usual reason."""
        try:
            return self._error(call, record, course, because)
        except Sealed as sealed:
            return self._unreadable(call, record, sealed)

    def _unreadable(self, call: Call, record: Record, problem: Corrupt) -> OnceError:
        """Report and return an unreadable outcome in *record*: it was altered, or a key is missing."""
        because = str(problem) if isinstance(problem, Sealed) else f"is unavailable: {problem}"
        call.report(Event.RESULT_UNAVAILABLE, record, reason=f"the stored result {because}")
        unavailable = self._error(call, record, Course.RESULT_UNAVAILABLE, because)
        unavailable.__cause__ = problem
        return unavailable

    def _error(self, call: Call, record: Record, course: Course, because: str | None) -> OnceError:
        at = f"token {call.token}"
        by = f"attempt {record.attempt_id} ({record.locked_by})"
        match course:
            case Course.OTHER_CALLER:
                make_error: Callable[..., OnceError] = OtherCaller
                message = f"{at} {_other_caller(call)}"
            case Course.KEY_REUSED:
                fields_difference = difference(record.fields, call.compared.hashed, call.token)
                parts = differing(record.fingerprint or "", call.compared.fingerprint or "")
                names = fields_difference.named or tuple(part for part in parts if part != CONTENT)
                make_error = partial(KeyReused, fields=names, hidden=_is_shared(call, record))
                message = f"{at} was used {_for_another(parts, fields_difference, call)}"
                if isinstance(call.settings.key, KeyOfRun):
                    message += "; once.run has no options: use once.function"
                if call.source.redelivery is Redelivery.IN_ORDER:
                    message += "; its sequence stops here unless on_give_up= parks the record"
            case Course.RESULT_UNAVAILABLE:
                make_error = ResultUnavailable
                because = because or _unavailable(record)
                message = f"{at} is complete, but its result {because}; the work is not repeated"
            case Course.STORED_ERROR if record.error is not None:
                message = record.error.text(call.seal_of(record))
                classes = call.settings.on_error if isinstance(call.settings.on_error, Mapping) else ()
                make_error = partial(stored_error, record.error.kind, named=classes)
            case Course.HELD if record.state is State.IN_PROGRESS:
                make_error = partial(Held, lapsed=True)
                message = (
                    f"{at} lapsed: {by} had until {stamp(record.expected_completion)} and its outcome is "
                    f"unknown; check whether it completed, then run `lambda-once resolve {call.token}`"
                )
            case Course.HELD:
                make_error = Held
                message = (
                    f"{at} is held for manual review: check whether {by} completed, "
                    f"then run `lambda-once resolve {call.token}`"
                )
            case _:
                make_error = InProgress
                until = stamp(record.expected_completion)
                message = f"{at} " + (because or f"is in progress: {by} has until {until}; retry later")
        return make_error(
            message,
            token=call.token,
            state=record.state.value,
            locked_by=record.locked_by,
            created=record.created,
            expected_completion=record.expected_completion,
            retry_after=retry_after(record, self._clock.now()) if make_error is InProgress else None,
        )

    def result(self, call: Call, record: Record) -> Any:
        """Return the stored result of *record*. Raises `ResultUnavailable`, and what store and seal raise."""
        try:
            return call.codec.load(self._text(call, record))
        except Corrupt as unreadable:
            raise self._unreadable(call, record, unreadable) from unreadable

    def _text(self, call: Call, record: Record, *, again: bool = True) -> str:
        """Return the JSON of *record*'s result or, with *again*, of a newer row's. Raises Corrupt."""
        match record.stored:
            case Inline(str() as text) if call.settings.seal is None:
                return text
            case Inline(data):
                return unpack(data, call.seal_of(record))
            case Parts():
                parts = self._store.chunks(record, call.invocation.deadline)
                if parts is not None:
                    return unpack_chunks(parts, call.seal_of(record))
                if again:
                    return self._text_of_newer(call, record)
                raise Corrupt("a part of the stored result is missing")
            case _:
                return "null" if call.settings.seal is None else unpack(None, call.seal_of(record))

    def _text_of_newer(self, call: Call, record: Record) -> str:
        """Read the row once more after a part was missing: it may have another outcome by now."""
        newer, now = self._store.read(call.token, call.invocation.deadline), self._clock.now()
        if (
            newer is None
            or newer.state is not State.COMPLETE
            or newer.attempt_id == record.attempt_id
            or newer.expired(now)
        ):
            raise Corrupt("a part of the stored result is missing")
        course = call.course(newer, now)
        if course is not Course.REPLAY:
            raise self.error(call, newer, course)
        return self._text(call, newer, again=False)


def _for_another(parts: tuple[str, ...], fields: Difference, call: Call) -> str:
    """Return what differs from the first delivery, and what to do, for the message of `KeyReused`."""
    named = f" ({fields})" if str(fields) else ""
    if CONTENT in parts:
        return f"for another payload{named}: {_NEW_KEY}"
    if ORIGIN in parts:
        beside = dict(() if call.compared.hashed is None else call.compared.hashed.beside)
        origin = printable(shown(json.loads(beside[ORIGIN])))
        attributes = ATTRIBUTES in parts
        ignored = f'("{ORIGIN}", "{ATTRIBUTES}")' if attributes else f'("{ORIGIN}",)'
        # A block has its key from its caller, and its scope, too.
        scope = "with it" if call.settings.key is None else 'that selects it, such as SQS\'s "eventSourceARN"'
        return (
            f"from another queue, topic, stream or account than this one, {origin}"
            f"{f', with other attributes{named}' if attributes else ''}: if both carry the same work, pass "
            f"ignore={ignored}; if not, a scope= {scope}; this renames tokens: drain the queue first"
        )
    return (
        f"with other attributes{named}: send a new key, or pass "
        f'ignore=("{ATTRIBUTES}",) if they don\'t say what the work is'
    )


def refusal(error: OnceError) -> Event:
    """Return the event to report for a call that *error* kept from running."""
    match error:
        case Misconfigured():
            return Event.MISCONFIGURED
        case KeyMissing():
            return Event.KEY_MISSING
        case CallerMissing():
            return Event.CALLER_MISSING
        case StoreUnavailable():
            return Event.STORE_UNAVAILABLE
        case RetryLater():
            return Event.IN_PROGRESS
        case KeyReused():
            return Event.KEY_REUSED
        case _:
            return Event.REFUSED


def _unavailable(record: Record) -> str:
    """Return why *record*, which is complete, has no result."""
    stored = record.stored if isinstance(record.stored, Unavailable) else Unavailable.UNAVAILABLE
    return _UNAVAILABLE[stored]


def _is_shared(call: Call, record: Record) -> bool:
    """Return whether *record* may be another caller's: callers are not separated, or were not compared."""
    return not call.compared.separate or (call.compared.presented is not None and record.caller is None)


def _other_caller(call: Call) -> str:
    """Return the message for `OtherCaller`: what is wrong with the caller of *call*, and what to do."""
    advice = None if call.compared.presented is None else call.compared.presented.advice
    return _OTHER_CALLER if advice is None else advice


def retry_after(record: Record, now: datetime) -> float:
    """Return when to retry, in seconds: when the lease expires, between 1 and `SOON`."""
    return min(max((record.expected_completion - now).total_seconds(), 1.0), SOON)
