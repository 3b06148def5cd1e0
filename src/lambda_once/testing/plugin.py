"""
Fixtures for pytest.

A top-level conftest.py enables them as below; one further down imports them by name.

    pytest_plugins = ["lambda_once.testing.plugin"]

There is no entry point: it would load the package into every run of pytest, before coverage is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lambda_once.testing.clock import FakeClock
from lambda_once.testing.context import InvocationContext
from lambda_once.testing.recording import RecordingStore
from lambda_once.testing.stores import overridden

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def once_store() -> Iterator[RecordingStore]:
    """
    Return an empty store in memory, which every Once uses until the test ends.

    Also one that the test makes, whatever its table or client; only a Once with a store of its own
    (``store=``, `using`) keeps that.
    """
    store = RecordingStore()
    with overridden(store=store):
        yield store


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Return a clock that only the test advances, and that every Once uses until the test ends."""
    clock = FakeClock()
    with overridden(clock=clock):
        yield clock


@pytest.fixture
def lambda_context() -> InvocationContext:
    """Return the context of one invocation; called, it returns that of another, as the function does."""
    return InvocationContext.new()
