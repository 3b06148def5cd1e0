"""One run of the watchdog by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Release
from lambda_once_tools.cli import watchdog as module

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


def test_what_a_decision_released_and_nobody_ran_is_unfinished(shop: Shop) -> None:
    """After an hour it's left over: the exit code is 1, as that of a list."""
    shop.decide(shop.hold("orders/charge/1"), Release())
    shop.clock.advance(3_600)
    ran = shop.run("watchdog")
    assert (ran.exit_code, ran.stdout.strip()) == (
        0,
        "0 overdue, 0 held, 0 in progress, 0 released by a decision over an hour ago",
    )
    shop.clock.advance(1)
    ran = shop.run("watchdog")
    assert ran.exit_code == 1
    assert "1 released by a decision over an hour ago" in ran.stdout


@pytest.mark.parametrize("found", [{"streamGap": True}, {"streamLagSeconds": 3_601.0}])
def test_a_list_that_is_not_whole_is_no_answer(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any]
) -> None:
    """As for list: nothing overdue is known, and nobody knows."""
    counts = {
        "overdue": 0,
        "held": 0,
        "inProgress": 0,
        "releasedTokens": 0,
        "streamGap": False,
        "streamLagSeconds": 3_600.0,
    }
    monkeypatch.setattr(module, "watchdog", lambda *_args, **_options: lambda *_: counts)
    assert shop.run("watchdog").exit_code == 0
    counts |= found
    ran = shop.run("watchdog")
    assert ran.exit_code == 2
    assert "isn't whole" in ran.stderr
