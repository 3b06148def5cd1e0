"""
Timestamps of writers, and other tokens that grow: which are valid, and that none is far ahead.

A *stamp* is the timestamp as an item has it: an int (milliseconds since 1970, or a version number) or text of
one fixed width (a ULID, a zero-padded version). Two types, or texts of two lengths, have no order: ``"9"``
sorts after ``"10"``.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import Clock, epoch_milliseconds, stamp
from lambda_once.errors import Misconfigured
from lambda_once.patterns.results import TooFarAhead

if TYPE_CHECKING:
    from collections.abc import Mapping


Stamp = int | str

SECONDS_END: Final = 10**11
"""Milliseconds below this are in 1973 or before: they are probably seconds."""
MOST_DIGITS: Final = 38
"""DynamoDB developer guide, "Number": up to 38 digits of precision."""
MOST_CHARACTERS: Final = 128


def stamp_of(ts: object, *, times: bool) -> Stamp:
    """
    Return *ts* as a stamp: a datetime in milliseconds, a whole Decimal as an int, anything else as it is.

    *times*: only times are valid, no text and not what are probably seconds. Raises `Misconfigured`.
    """
    match ts:
        case datetime():
            if ts.utcoffset() is None:
                raise Misconfigured(f"timestamp {ts!r} has no time zone: give an aware datetime")
            return epoch_milliseconds(ts)
        case bool():
            pass
        case int():
            return _checked_number(ts, times=times)
        case Decimal() if ts.is_finite() and ts == ts.to_integral_value() and ts.adjusted() <= MOST_DIGITS:
            return _checked_number(int(ts), times=times)
        case str() if not times:
            if 1 <= len(ts) <= MOST_CHARACTERS and ts.isascii() and ts.isprintable():
                return ts
            wanted = f"1 to {MOST_CHARACTERS} printable ASCII characters, of one length"
            raise Misconfigured(f"token {ts!r}: give {wanted}")
    wanted = "milliseconds (int) or an aware datetime" if times else "int, text of fixed width or a datetime"
    hint = "; for other tokens, give the Ratchet ahead=None" if times and isinstance(ts, str) else ""
    raise Misconfigured(f"timestamp of type {type(ts).__name__}: give {wanted}{hint}")


def _checked_number(ts: int, *, times: bool) -> int:
    if times and ts < SECONDS_END:
        raise Misconfigured(
            f"timestamp {ts} is {_shown(ts)} in milliseconds: it looks like seconds. Give milliseconds or a"
            " datetime; for a number that is not a time, give the Ratchet ahead=None"
        )
    if abs(ts) >= 10**MOST_DIGITS:
        raise Misconfigured(f"token of {len(str(abs(ts)))} digits: DynamoDB keeps {MOST_DIGITS}")
    return ts


def check_ahead(found: Stamp, now: datetime, ahead: timedelta | None, *, where: str) -> None:
    """Raise `TooFarAhead` where *found*, the timestamp of *where*, is more than *ahead* after *now*."""
    if ahead is None or isinstance(found, str):
        return
    if found - epoch_milliseconds(now) <= ahead / timedelta(milliseconds=1):
        return
    raise TooFarAhead(
        f"{where} has the timestamp {_shown(found)}, more than {ahead.total_seconds():g} s ahead of this"
        f" clock ({stamp(now)}). It would make every write until then stale, so nothing was written; correct"
        " the wrong clock",
        stamp=found,
        now=now,
    )


def _shown(milliseconds: int | Decimal) -> str:
    try:
        return stamp(datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=float(milliseconds)))
    except OverflowError:
        return f"{milliseconds} ms"


def comparable(mine: Stamp, stored: Mapping[str, Any]) -> bool:
    """Return whether the attribute *stored* can be compared with *mine*: one type, texts of one length."""
    if isinstance(mine, str):
        return isinstance(stored.get("S"), str) and len(stored["S"]) == len(mine)
    return "N" in stored


def is_older(one: Stamp, other: Stamp) -> bool:
    """Return whether *one* is less than *other*, a comparable stamp."""
    return str(one) < str(other) if isinstance(one, str) or isinstance(other, str) else one < other


class Timestamps:
    """Times of *clock* in milliseconds, strictly increasing. Safe from several threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._last: int | None = None

    def next(self, after: int | None = None) -> int:
        """Return the time, or the first one after every earlier result and after *after*."""
        now = epoch_milliseconds(self._clock.now())
        with self._lock:
            self._last = max([now, *(each + 1 for each in (self._last, after) if each is not None)])
            return self._last
