"""The time as DynamoDB has it: the clock of this machine, corrected by the ``Date`` of DynamoDB's answers."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

from lambda_once.operations.spans import spoken

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.core.clock import Clock

TOLERATED: Final = timedelta(seconds=2)
"""
How far two clocks may be apart before one is corrected.

A lease has this margin already, and a ``Date`` has whole seconds and is as old as its answer was under way.
"""


class CorrectedClock:
    """
    Tells *local*'s time until an answer says that it is wrong, and DynamoDB's from then on.

    Who judges a lease by a clock that is fast takes living work for dead. *told* hears of each correction.
    Requests are bounded by *local*, which does not jump.
    """

    def __init__(self, local: Clock, told: Callable[[str], object] = str) -> None:
        self.local = local
        self.told = told
        self.skew = timedelta(0)
        """What is added to the local time."""
        self.heard = False
        """Whether an answer had a date."""
        self._lock = threading.Lock()

    def now(self) -> datetime:
        return self.local.now() + self.skew

    def sleep(self, seconds: float) -> None:
        self.local.sleep(seconds)

    def hear(self, answer: Any, sent: datetime) -> None:
        """
        Take the ``Date`` of *answer*, as botocore gives answers and errors; one without changes nothing.

        *sent* is the local time at which it was asked for: an answer may be long under way.
        """
        theirs = date_of(answer)
        if theirs is None:
            return
        apart = _apart(theirs, sent, self.local.now())
        with self._lock:
            self.heard = True
            if abs(apart - self.skew) <= TOLERATED:
                return
            self.skew = apart if abs(apart) > TOLERATED else timedelta(0)
        if self.skew:
            way = "behind" if self.skew > timedelta(0) else "ahead of"
            self.told(
                f"the clock of this machine is {spoken(self.skew)} {way} DynamoDB's, by which leases are "
                "judged here: set the clock"
            )


def date_of(answer: Any) -> datetime | None:
    """Return the ``Date`` header of *answer*; None where it has none that can be read."""
    metadata = answer.get("ResponseMetadata", {}) if isinstance(answer, dict) else {}
    given = metadata.get("HTTPHeaders", {}).get("date")
    try:
        return None if given is None else parsedate_to_datetime(given).astimezone(UTC)
    except (ValueError, TypeError):
        return None


def _apart(theirs: datetime, sent: datetime, received: datetime) -> timedelta:
    """Return what must be added to the local time; none where *theirs*, in whole seconds, is in between."""
    if received < theirs:
        return theirs - received
    return min(theirs + timedelta(seconds=1) - sent, timedelta(0))
