"""Times for operators: this machine's clock, corrected by DynamoDB's ``Date`` headers, and times as text."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.core.clock import Clock

TOLERATED: Final = timedelta(seconds=2)
"""
How far two clocks may differ before one is corrected.

A lease has this margin already, and a ``Date`` has whole seconds and is as old as its response.
"""

_LARGER = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


class CorrectedClock:
    """
    *local*'s time until a response shows that it is wrong; DynamoDB's from then on.

    With a fast clock, a live attempt would be taken for a lapsed one. *warn* is called at each correction.
    Requests are bounded by *local*, which does not jump.
    """

    def __init__(self, local: Clock, warn: Callable[[str], object] = str) -> None:
        self.local = local
        self.warn = warn
        self.skew = timedelta(0)
        """Correction that is added to the local time."""
        self.synchronised = False
        """Whether a response had a date."""
        self._lock = threading.RLock()

    def now(self) -> datetime:
        return self.local.now() + self.skew

    def sleep(self, seconds: float) -> None:
        self.local.sleep(seconds)

    def observe(self, response: Any, sent: datetime) -> None:
        """
        Read the ``Date`` of *response*, a response or error of botocore; without one nothing changes.

        *sent* is the local time of the request: the response may have taken long.
        """
        theirs = date_of(response)
        if theirs is None:
            return
        apart = _apart(theirs, sent, self.local.now())
        with self._lock:
            self.synchronised = True
            if abs(apart - self.skew) <= TOLERATED:
                return
            self.skew = apart if abs(apart) > TOLERATED else timedelta(0)
        if self.skew:
            way = "behind" if self.skew > timedelta(0) else "ahead of"
            self.warn(
                f"the clock of this machine is {duration_text(self.skew)} {way} DynamoDB's; leases are "
                "judged by DynamoDB's clock. Correct the clock"
            )


def date_of(response: Any) -> datetime | None:
    """Return the ``Date`` header of *response*; None if it is missing or malformed."""
    metadata = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    given = metadata.get("HTTPHeaders", {}).get("date")
    try:
        return None if given is None else parsedate_to_datetime(given).astimezone(UTC)
    except (ValueError, TypeError):
        return None


def _apart(theirs: datetime, sent: datetime, received: datetime) -> timedelta:
    """Return what must be added to the local time; 0 if *theirs*, in whole seconds, lies in between."""
    if received < theirs:
        return theirs - received
    return min(theirs + timedelta(seconds=1) - sent, timedelta(0))


def duration_text(span: timedelta) -> str:
    """Return *span* in its two largest units: ``3 d 4 h``, ``2 h 13 min``, ``45 s``, ``0.4 s``."""
    seconds = abs(span.total_seconds())
    for size, unit, smaller, small in _LARGER:
        if seconds >= size:
            whole, rest = divmod(int(seconds), size)
            return f"{whole} {unit}" + (f" {rest // smaller} {small}" if rest >= smaller else "")
    return f"{int(seconds)} s" if seconds >= 1 or seconds == 0 else f"{seconds:.3g} s"


def time_of_ttl(ttl: int) -> datetime:
    """Return the time of *ttl*, in epoch seconds; the first or last one that there is, if it's beyond."""
    try:
        return datetime.fromtimestamp(ttl, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC) if ttl > 0 else datetime.min.replace(tzinfo=UTC)


def time_text(at: datetime, now: datetime) -> str:
    """Return *at* in UTC to the second, without the date if it is that of *now*."""
    at, now = at.astimezone(UTC), now.astimezone(UTC)
    return at.strftime("%H:%M:%S" if at.date() == now.date() else "%Y-%m-%d %H:%M:%S")
