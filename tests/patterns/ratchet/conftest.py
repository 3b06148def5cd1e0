"""A ratchet on an empty table, at a fixed time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lambda_once.patterns.ratchet import Ratchet
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
MS = 1_795_169_520_000
LAMP = {"pk": "lamp"}
ITEM = {**LAMP, "price": 10}


def rows(ground: Ground, table: str) -> list[dict[str, Any]]:
    """Return all that is stored, tombstones included."""
    items: list[dict[str, Any]] = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    return items


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the ratchet."""
    return FakeClock(NOW)


@pytest.fixture
def table(ground: Ground) -> str:
    """An empty table of one key attribute."""
    return ground.table()


@pytest.fixture
def ratchet(ground: Ground, table: str, clock: FakeClock) -> Ratchet:
    """A ratchet of times on that table."""
    return Ratchet(table, ground.client, clock=clock)
