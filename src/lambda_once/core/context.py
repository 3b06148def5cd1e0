"""
What is running around this code: context variables that the engine sets, for whatever is called inside.

A plain thread does not inherit them; `asyncio.to_thread` and tasks do.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Final

from lambda_once.core.clock import Deadline

INVOCATION_DEADLINE: Final = ContextVar[Deadline | None]("lambda_once_deadline", default=None)
"""The deadline of the current invocation; None outside of one."""

CALL_STACK: Final = ContextVar[tuple[str, ...]]("lambda_once_stack", default=())
"""The ids of the attempts around this code, of every `Once`, outermost first; empty in unprotected work."""
