"""
What is running around this code: context variables that the engine sets, for whatever is called inside.

Tasks and `asyncio.to_thread` inherit them, a plain thread only with a ``copy_context()`` or, since Python
3.14, by an option of the interpreter. What inherits them may outlive the block that set them, and its context
never learns of the end. So each value here has a flag of its block; one that is over is as good as none.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol


@dataclass(slots=True)
class Span:
    """A Lambda invocation: when Lambda ends it, and whether it is over."""

    ends: datetime
    over: bool = False


INVOCATION: Final = ContextVar[Span | None]("lambda_once_span", default=None)
"""The invocation in which this code was started; None: in none."""


def invocation_end() -> datetime | None:
    """Return when the current invocation ends; None outside of one."""
    span = INVOCATION.get()
    return None if span is None or span.over else span.ends


class Running(Protocol):
    """An attempt around this code (`engine.ownership.Ownership`)."""

    over: bool

    @property
    def attempt_id(self) -> str: ...


ATTEMPTS: Final = ContextVar[tuple[Running, ...]]("lambda_once_stack", default=())
"""The attempts in which this code was started, of every `Once`, outermost first."""


def call_stack() -> tuple[str, ...]:
    """Return the ids of the running attempts around this code, outermost first; empty in unprotected work."""
    return tuple(attempt.attempt_id for attempt in ATTEMPTS.get() if not attempt.over)
