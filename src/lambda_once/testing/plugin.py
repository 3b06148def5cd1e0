"""
Fixtures for pytest.

A top-level conftest.py enables them as below; other conftest files import them by name.

    pytest_plugins = ["lambda_once.testing.plugin"]

There is no pytest entry point, because it would import the package in every run, before coverage is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lambda_once.core.tenant import TENANCY
from lambda_once.decorators.names import Names
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

    That includes each Once that the test creates, whatever its table or client. Only a Once with its own
    store (``store=``, `using`) keeps that. What the test decorates has a name
    for that long, and no tenant was served before it.
    """
    store = RecordingStore()
    with overridden(store=store), Names.apart(), TENANCY.fresh():
        yield store


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Return a clock that only the test advances; every Once uses it until the test ends."""
    clock = FakeClock()
    with overridden(clock=clock):
        yield clock


@pytest.fixture
def lambda_context() -> InvocationContext:
    """Return the context of one invocation; calling it returns that of another, as the function does."""
    return InvocationContext.new()
