"""
When the end of an attempt that was not answered is sent again.

A completion or hold that is given up leaves a lapsed token of work that was done. A throttled partition of a
few seconds must not cost that, so it is tried for up to half a minute; so is a release where a lapsed token
is not simply taken over. The invocation must outlive the last try, whose answer may never come: tries end
`RESERVE` before the deadline, the wait for an answer included (`Deadline.one_try`).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import OnLapse
from lambda_once.core.writes import Release
from lambda_once.dynamodb.retry import TRIES, jitter

if TYPE_CHECKING:
    from lambda_once.engine.ownership import Ending

RESERVE = 0.3
"""Seconds kept for what is done: nothing starts, nobody waits, nothing is retried at an invocation's end."""
LONGEST = timedelta(seconds=30)
"""How long after its first try an end is sent again."""


class Tries(NamedTuple):
    """How often a write was sent so far, and since when."""

    first: datetime
    """When it was sent for the first time, or is about to be."""
    sent: int = 0

    def limit(self, deadline: Deadline) -> Deadline:
        """Return until when one more try may last; the first is made even where that is over already."""
        at = min(self.first + LONGEST, deadline.earlier(RESERVE).at)
        return Deadline(deadline.clock, at, one_try=True)

    def one_more(self) -> Tries:
        return self._replace(sent=self.sent + 1)

    def pause(self, ending: Ending, deadline: Deadline, now: datetime) -> timedelta | None:
        """Return how long to wait before *ending* is sent again, with full jitter; None: it is given up."""
        on_lapse = ending.attempt.call.plan.on_lapse
        is_minor = isinstance(ending.write.change, Release) and on_lapse is OnLapse.TAKE_OVER
        if is_minor and self.sent >= TRIES:
            return None
        pause = timedelta(seconds=jitter(self.sent))
        return pause if now + pause < self.limit(deadline).at else None
