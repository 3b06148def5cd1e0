"""What the package takes from the world, made to follow from a seed: randomness, threads, and no output."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import _base as futures
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from lambda_once.core import results
from lambda_once.dynamodb import retry, transport
from lambda_once.engine import pipeline, waiting
from lambda_once.observability import reporter
from lambda_once.stores import batches
from tests.simulation import scheduler
from tests.simulation.loop import Loop
from tests.simulation.old_version import POWERTOOLS_TIME


@contextmanager
def determined(seed: int) -> Iterator[None]:
    """Let everything that the package takes from the world come from the schedule instead."""
    ids = iter(range(1, 1_000_000))
    rng = random.Random(f"jitter {seed}")
    threads = SimpleNamespace(Thread=scheduler.Thread, Condition=scheduler.Condition, Lock=threading.Lock)
    replaced: list[tuple[Any, str, Any]] = [
        (asyncio, "new_event_loop", Loop),
        (os, "urandom", lambda size: next(ids).to_bytes(size, "big")),
        (retry, "SystemRandom", lambda: rng),
        (transport.Transport, "_threads", scheduler.Executor),
        (pipeline, "in_kept_thread", in_thread),
        (transport, "in_kept_thread", in_thread),
        (futures, "threading", threads),
        (waiting, "threading", threads),
        (batches.Batches, "usable", property(lambda found: not found._stopped)),
        (reporter, "_write", _nothing),
        (reporter, "standard_logger", _nothing),
        (reporter, "write_metrics", _nothing),
        (results, "INLINE_LIMIT", 300),
        (results, "PART_LIMIT", 500),
        (results, "_PLAIN_LIMIT", 200),
        *POWERTOOLS_TIME,
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in replaced]
    for owner, name, value in replaced:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


def in_thread(work: Callable[[], Callable[[], object] | None]) -> None:
    """Begin *work*, as `in_kept_thread` does, in a thread of its own."""

    def run() -> None:
        if (publish := work()) is not None:
            publish()

    scheduler.Thread(run).start()


def _nothing(*_: Any, **__: Any) -> None:
    return
