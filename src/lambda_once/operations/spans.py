"""Lengths of time and moments as people read them."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, timedelta

_LARGER = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def spoken(span: timedelta) -> str:
    """Return *span* in its two largest units: ``3 d 4 h``, ``2 h 13 min``, ``45 s``, ``0.4 s``."""
    seconds = abs(span.total_seconds())
    for size, unit, smaller, small in _LARGER:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit}" + (f" {rest // smaller} {small}" if rest >= smaller else "")
    return f"{int(seconds)} s" if seconds >= 1 or seconds == 0 else f"{seconds:.3g} s"


def moment(at: datetime, now: datetime) -> str:
    """Return *at* in UTC to the second, without its date where that is *now*'s."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M:%S")
