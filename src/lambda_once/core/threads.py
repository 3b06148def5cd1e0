"""Threads that are kept: to start one costs more than to wake it."""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[], Callable[[], object] | None]

_kept: list[SimpleQueue[Work]] = []
"""The queue of each idle thread."""


def in_kept_thread(work: Work) -> None:
    """
    Begin *work* in a thread that is kept for later work. Raises RuntimeError if none can be started.

    A function that *work* returns is called when the thread is idle again, so whoever it wakes can use the
    thread at once. As many are kept as were ever busy at the same time. They are daemons: a request that
    hangs keeps no process from ending.
    """
    try:
        begin = _kept.pop()
    except IndexError:
        begin = SimpleQueue()
        threading.Thread(target=_keep, args=(begin, _kept), daemon=True).start()
    begin.put(work)


def _keep(begin: SimpleQueue[Work], kept: list[SimpleQueue[Work]]) -> None:
    while True:
        publish = begin.get()()
        kept.append(begin)
        if publish is not None:
            publish()
        del publish  # it has a response, which an idle thread would keep


if hasattr(os, "register_at_fork"):  # a child has none of the threads
    os.register_at_fork(after_in_child=_kept.clear)
