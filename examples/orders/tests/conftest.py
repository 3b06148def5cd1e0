"""
A new world for each test: an empty token table, a clock set by hand, and nothing has happened yet.

The fixtures are imported by name: ``pytest_plugins`` is for a conftest.py at the top of all tests.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lambda_once.testing.plugin import fake_clock, lambda_context, once_store

from .. import api, fulfilment, payments
from ..effects import EFFECTS
from ..gateway import PaymentGateway
from ..warehouse import Warehouse

__all__ = ["fake_clock", "lambda_context", "once_store"]


@pytest.fixture(autouse=True)
def _new_world(once_store: object, fake_clock: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing was charged or shipped; every Once has an empty store and the test's clock."""
    monkeypatch.delenv("LAMBDA_ONCE_DISABLED", raising=False)
    gateway = PaymentGateway(slow_seconds=0)
    monkeypatch.setattr(payments, "GATEWAY", gateway)
    monkeypatch.setattr(api, "GATEWAY", gateway)
    monkeypatch.setattr(fulfilment, "WAREHOUSE", Warehouse(slow_seconds=0))
    EFFECTS.clear()
    yield
    EFFECTS.clear()
