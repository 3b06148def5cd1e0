"""What one Lambda invocation gives to all that runs inside it."""

from __future__ import annotations

import os
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.clock import Deadline
from lambda_once.observability.reporter import Tally

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.clock import Clock

LONGEST = timedelta(seconds=900)
"""What is assumed to remain where no context says: Lambda's longest time limit on a standard function."""
NO_REQUEST_ID = "-"
"""What stands for the request id where there is none."""


class Invocation(NamedTuple):
    """Who is at work, until when, and what is to be counted of it."""

    locked_by: str
    """``function/request id``"""
    context: object
    """Lambda's own; None where there is none."""
    began: datetime
    deadline: Deadline
    owner: object
    """Whose counts *tally* holds: two `Once` in one process report by themselves."""
    tally: Tally
    known: bool = True
    """Whether the context has the remaining time."""

    @property
    def request_id(self) -> str | None:
        return getattr(self.context, "aws_request_id", None)

    @property
    def has_request_id(self) -> bool:
        """Whether the request id is Lambda's: without one every row of the function bears the same."""
        return isinstance(self.request_id, str) and self.request_id not in ("", NO_REQUEST_ID)

    def of(self, owner: object) -> Invocation:
        """Return the same invocation with counts of *owner*'s."""
        return self._replace(owner=owner, tally=Tally())


_current: ContextVar[Invocation | None] = ContextVar("lambda_once_invocation", default=None)


def current_invocation() -> Invocation | None:
    return _current.get()


def set_invocation(invocation: Invocation | None) -> Invocation | None:
    """Make *invocation* the current one and return the one before, to be set again afterwards."""
    before = _current.get()
    _current.set(invocation)
    return before


def invocation_of(context: object, clock: Clock, owner: object) -> Invocation:
    """
    Read Lambda's context.

    Without a remaining time, 900 s are assumed.
    """
    function = (
        getattr(context, "function_name", None) or os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or "local"
    )
    request_id = getattr(context, "aws_request_id", None)
    left = _remaining(context)
    now = clock.now()
    return Invocation(
        locked_by=f"{function}/{request_id or NO_REQUEST_ID}",
        context=context,
        began=now,
        deadline=Deadline(clock, now + (LONGEST if left is None else left)),
        owner=owner,
        tally=Tally(),
        known=left is not None,
    )


def _remaining(context: object) -> timedelta | None:
    """Return the time that *context* says is left; None where it has none to say."""
    ask: Any = getattr(context, "get_remaining_time_in_millis", None)
    milliseconds = ask() if callable(ask) else None
    if isinstance(milliseconds, int | float) and not isinstance(milliseconds, bool):
        return timedelta(milliseconds=milliseconds)
    return None
