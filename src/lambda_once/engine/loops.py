"""Coroutines under handlers that Lambda calls plainly: one event loop a thread, kept between invocations."""

from __future__ import annotations

import threading
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from asyncio import Runner
    from collections.abc import Coroutine

T = TypeVar("T")

_loops = threading.local()


class _Kept:
    """A thread's event loop, closed when the thread ends: a test's worker thread must leave none open."""

    def __init__(self, runner: Runner) -> None:
        self.runner = runner
        self._loop = runner.get_loop()

    def __del__(self) -> None:
        self._loop.close()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """
    Run *coroutine* to its end on this thread's event loop.

    The loop lives as long as the environment, so that clients that belong to a loop can be kept. It
    cannot run inside another loop: raises `Misconfigured` there (in an async test, call the handler by
    ``await asyncio.to_thread(handler, event, context)``).
    """
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        coroutine.close()
        raise Misconfigured(
            "the handler was called from a running event loop; call it outside one, "
            "in an async test with `await asyncio.to_thread(handler, event, context)`"
        )
    if getattr(_loops, "kept", None) is None:
        _loops.kept = _Kept(asyncio.Runner())
    kept: _Kept = _loops.kept
    return kept.runner.run(coroutine, context=copy_context())  # its own is as old as the runner
