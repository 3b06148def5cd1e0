"""What every Once of the process works with, for as long as a test says so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lambda_once.decorators.runtime import Host, Stage

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def staged(**changes: Any) -> Iterator[None]:
    """
    Set *changes* (fields of `Stage`) on the stage of every Once, and take them back after the block.

    It counts for all threads, and for every Once there is or that is made meanwhile; one with a store or
    clock of its own (``Once(store=…)``, `using`) keeps that.
    """
    before = Host.stage
    Host.stage = (before or Stage())._replace(**changes)
    try:
        yield
    finally:
        Host.stage = before
