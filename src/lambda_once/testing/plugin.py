"""
Fixtures for pytest.

A top-level conftest.py switches them on, as below; one further down imports them by name.

    pytest_plugins = ["lambda_once.testing.plugin"]

There is no entry point, on purpose: it would load the package into every run of pytest, before coverage
is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lambda_once.testing.clock import FakeClock
from lambda_once.testing.context import InvocationContext
from lambda_once.testing.recording import RecordingStore
from lambda_once.testing.staging import staged

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def once_store() -> Iterator[RecordingStore]:
    """
    Give an empty store in memory, which every Once works with until the test is over.

    That is every Once there is and that the test makes, whatever its table or client; only one that was given
    a store of its own (``store=``, `using`) keeps that.
    """
    store = RecordingStore()
    with staged(store=store):
        yield store


@pytest.fixture
def fake_clock() -> Iterator[FakeClock]:
    """Give a clock that stands still until it is turned, by which every Once tells the time in the test."""
    clock = FakeClock()
    with staged(clock=clock):
        yield clock


@pytest.fixture
def lambda_context() -> InvocationContext:
    """Give the context of one invocation; called, it returns that of another, as the function does."""
    return InvocationContext.new()
