"""Coroutines under handlers that Lambda calls plainly: one event loop a thread, kept between invocations."""

from __future__ import annotations

import asyncio
import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_loops = threading.local()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """
    Run *coroutine* to its end on this thread's event loop.

    The loop lives as long as the environment, so that clients that belong to a loop can be kept. It
    cannot run inside another loop: raises `Misconfigured` there (in an async test, call the handler by
    ``await asyncio.to_thread(handler, event, context)``).
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        coroutine.close()
        raise Misconfigured(
            "the handler was called from a running event loop: Lambda calls it plainly, "
            "and an async test by `await asyncio.to_thread(handler, event, context)`"
        )
    if getattr(_loops, "runner", None) is None:
        _loops.runner = asyncio.Runner()
    runner: asyncio.Runner = _loops.runner
    return runner.run(coroutine, context=copy_context())  # its own is as old as the runner
