"""What one Lambda invocation gives to all that runs inside it."""

from __future__ import annotations

import os
from contextvars import ContextVar
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lambda_once.core.clock import Deadline
from lambda_once.core.values import replace, value
from lambda_once.observability.details import Tally

if TYPE_CHECKING:
    from lambda_once.core.clock import Clock

LONGEST = timedelta(seconds=900)
"""What is assumed to remain where no context says: Lambda's longest time limit on a standard function."""


@value
class Invocation:
    """Who is at work, until when, and what is to be counted of it."""

    locked_by: str
    """``function/request id``"""
    context: object
    """Lambda's own; None where there is none."""
    deadline: Deadline
    owner: object
    """Whose counts *tally* holds: two `Once` in one process report by themselves."""
    tally: Tally

    @property
    def request_id(self) -> str | None:
        return getattr(self.context, "aws_request_id", None)

    @property
    def known(self) -> bool:
        """Whether the context tells the remaining time."""
        return callable(getattr(self.context, "get_remaining_time_in_millis", None))

    def of(self, owner: object) -> Invocation:
        """Return the same invocation with counts of *owner*'s."""
        return replace(self, owner=owner, tally=Tally())


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

    Anything without ``get_remaining_time_in_millis`` tells no time limit: 900 s are assumed then.
    """
    function = (
        getattr(context, "function_name", None) or os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or "local"
    )
    request_id = getattr(context, "aws_request_id", None)
    remaining: Any = getattr(context, "get_remaining_time_in_millis", None)
    left = LONGEST if remaining is None else timedelta(milliseconds=remaining())
    return Invocation(
        locked_by=f"{function}/{request_id or '-'}",
        context=context,
        deadline=Deadline(clock, clock.now() + left),
        owner=owner,
        tally=Tally(),
    )
