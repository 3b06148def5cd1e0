"""
Writers' timestamps, and other tokens that grow: which are valid, and how far ahead they may be.

A *stamp* is the timestamp as stored: a number (milliseconds since 1970 with up to three decimals, int if
whole; or a version number) or text of one fixed width (a ULID, a zero-padded version). Two types, or texts of
two lengths, have no order: ``"9"`` sorts after ``"10"``.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import stamp
from lambda_once.dynamodb import plain_item, typed_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.results import TooFarAhead

if TYPE_CHECKING:
    from collections.abc import Mapping


Stamp = int | Decimal | str

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
SECONDS_END: Final = 10**11
"""As milliseconds, anything below this is in 1973 or before, so it is probably in seconds."""
MOST_CHARACTERS: Final = 128


def stamp_of(ts: object, *, times: bool) -> Stamp:
    """
    Return *ts* as a stamp, as DynamoDB would return it; a datetime becomes exact milliseconds.

    With *times*, only times are valid: no text, and nothing that is probably in seconds. Raises
    `Misconfigured`.
    """
    if isinstance(ts, datetime) and ts.utcoffset() is not None:
        return milliseconds(ts)
    if isinstance(ts, int | Decimal) and not isinstance(ts, bool):
        number: int | Decimal = plain_item(typed_item({"timestamp": ts}))["timestamp"]
        if times and number < SECONDS_END:
            raise Misconfigured(
                f"timestamp {number} looks like seconds: give milliseconds or a datetime; for a number that"
                " is not a time, give the Ratchet ahead=None"
            )
        if times and 1000 % number.as_integer_ratio()[1]:
            raise Misconfigured(
                f"timestamp {number} has more than three decimals, which are probably those of a float and"
                " not the same in every writer: give a datetime, or round it in every writer alike"
            )
        return number
    if times:
        wanted = "milliseconds (int or Decimal); for other tokens, give the Ratchet ahead=None"
    else:
        wanted = f"a number, or 1 to {MOST_CHARACTERS} printable ASCII characters, of one length"
        if isinstance(ts, str) and 1 <= len(ts) <= MOST_CHARACTERS and ts.isascii() and ts.isprintable():
            return ts
    raise Misconfigured(
        f"timestamp of type {type(ts).__name__}: give a datetime with a time zone, or {wanted}"
    )


def milliseconds(at: datetime, later: timedelta = timedelta(0)) -> int | Decimal:
    """Return *at* plus *later* in milliseconds since 1970, exact under any decimal context; int if whole."""
    spans = (datetime.__sub__(at, EPOCH), later)  # subclasses redefine both operators, pendulum's with a loss
    microseconds = sum(timedelta.__floordiv__(span, timedelta(microseconds=1)) for span in spans)
    whole, rest = divmod(microseconds, 1000)
    return Decimal(f"{microseconds}E-3") if rest else whole


def check_ahead(found: Stamp, now: datetime, ahead: timedelta | None, *, where: str) -> None:
    """Raise `TooFarAhead` if *found*, the timestamp of *where*, is more than *ahead* after *now*."""
    if ahead is None or isinstance(found, str) or found <= milliseconds(now, ahead):
        return
    try:
        shown = stamp(EPOCH + timedelta(milliseconds=float(found)))
    except OverflowError:
        shown = f"{found} ms"
    raise TooFarAhead(
        f"{where} has the timestamp {shown}, more than {ahead.total_seconds():g} s ahead of this clock"
        f" ({stamp(now)}). It would make every write until then stale, so nothing was written; correct the"
        " wrong clock",
        stamp=found,
        now=now,
    )


def comparable(mine: Stamp, stored: Mapping[str, Any]) -> bool:
    """Return whether *stored* can be compared with *mine*: the same type, and for text the same length."""
    if isinstance(mine, str):
        return isinstance(stored.get("S"), str) and len(stored["S"]) == len(mine)
    return "N" in stored
