"""One run of the watchdog by hand."""

from __future__ import annotations

import json

from lambda_once.core.lifecycle import State

from .shop import Shop, open_shop

__all__ = ["open_shop"]


def test_it_counts_and_releases_nothing(shop: Shop) -> None:
    """It names what is overdue, exits as a list would, and prints its counts alone: no metric document."""
    assert shop.run("watchdog").exit_code == 0
    shop.begin("orders/charge/late")
    shop.clock.advance(3_600)
    ran = shop.run("watchdog", "--output", "json", LAMBDA_ONCE_WATCHDOG_RELEASE="*")
    assert ran.exit_code == 1
    counts = json.loads(ran.stdout)
    assert (counts["overdue"], counts["released"], counts["swept"]) == (1, 0, 0)
    assert "once.overdue orders/charge/late" in ran.stderr
    row = shop.store.read("orders/charge/late", shop._deadline())
    assert row is not None
    assert row.state is State.IN_PROGRESS
