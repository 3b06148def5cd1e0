"""What every Once of the process works with, for as long as a test says so."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from lambda_once.decorators.runtime import Overrides, Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def staged(**changes: Any) -> Iterator[None]:
    """
    Override *changes* (fields of `Overrides`) for every Once, until the block ends.

    It counts for all threads, and for every Once there is or that is made meanwhile; one with a store or
    clock of its own (``Once(store=…)``, `using`) keeps that.
    """
    before = Runtime.overrides
    Runtime.overrides = (before or Overrides())._replace(**changes)
    try:
        yield
    finally:
        Runtime.overrides = before
