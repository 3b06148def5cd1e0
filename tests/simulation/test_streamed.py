"""What is lost is what is listed, whatever befalls works, watchdogs and the stream; twins lose it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.operations import checkpoint, stream
from tests.kit.strict.trees import Item
from tests.simulation.streamed import NeverListed, Scenario, play, scenario

SEEDS = 14
"""`make simulate` plays thousands."""
PLAYED = 60
"""How many seeds a twin has at most until it is found."""
HAPPENS = (
    "acquired",
    "asleep",
    "complete",
    "crashes",
    "expired",
    "extend",
    "extend and lost",
    "hold",
    "late",
    "lost",
    "off",
    "pinned",
    "release",
    "resolved: done",
    "resolved: failed",
    "resolved: hold",
    "resolved: not-done",
    "second",
    "store",
    "throttled",
)


def test_what_is_lost_is_listed_in_every_schedule() -> None:
    """And among these schedules is everything that they are to try."""
    told: Counter[str] = Counter()
    for seed in range(SEEDS):
        told += play(scenario(seed))
    assert [name for name in HAPPENS if not told[name]] == []


def test_a_seed_is_one_schedule() -> None:
    """Played again it is the same."""
    assert play(scenario(5)) == play(scenario(5))


def test_three_hundred_empty_pages_hide_nothing() -> None:
    """A run goes on with the iterator of the one before, and so gets through."""
    found = Scenario(7, minutes=60, stretch=60, empties=0, skipped=0)
    assert play(found)["lost"]


def test_long_leases_do_not_fill_the_checkpoint() -> None:
    """Whole hours of work that is alive: none of it is in the way of what is lost."""
    found = Scenario(8, minutes=40, long=900, rate=(6, 12), crash=0)
    assert play(found)["lost"]


def test_wide_keys_do_not_fill_the_checkpoint() -> None:
    """Keys of 1,900 bytes, most of them alive: 220 of them are more than an item may have."""
    found = Scenario(9, minutes=12, width=1_900, rate=(120, 150), lost=950, long=0, crash=0, second=0)
    assert play(found)["lost"]


def test_a_second_gap_begins_the_scan_anew() -> None:
    """The stream is off again and again, and a run scans only a part."""
    found = Scenario(10, minutes=60, off=400, crash=150)
    assert play(found)["off"] > 1


def test_who_goes_back_to_listing_at_once_leaves_nothing() -> None:
    """Old environments go on for a while, and works that nobody listed are alive."""
    assert play(Scenario(11, back=60))["lost"]


def test_twin_whose_watchdog_forgets_the_stream() -> None:
    """Functions and watchdog go back together, and nobody reads on."""
    with pytest.raises(NeverListed):
        play(Scenario(11, back=60), leaver=lambda _world: None)


def test_twin_that_keeps_no_iterator(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run walks the same empty pages, and takes them for the tip."""
    monkeypatch.setattr(checkpoint, "ITERATOR_AGE", timedelta(0))
    monkeypatch.setattr(stream, "PATIENT_PAGES", 0)
    assert any(
        loses(Scenario(seed, minutes=60, stretch=60, empties=0, skipped=0)) for seed in range(7, 7 + PLAYED)
    )


def loses(found: Scenario, **more: Any) -> bool:
    """Whether work is lost and never listed in the schedule *found*."""
    try:
        play(found, **more)
    except NeverListed:
        return True
    return False


def is_open(item: Item | None) -> bool:
    """Whether the row is of a token that isn't finished."""
    return item is not None and "status" in item


def extended_only(before: Item | None, after: Item) -> bool:
    """An extension of what isn't listed."""
    if before is None or not (is_open(before) and is_open(after)) or "listed" in before:
        return False
    return bool(
        before["attempt"] == after["attempt"]
        and before["expectedCompletion"]["S"] < after["expectedCompletion"]["S"]
    )


def expired_and_taken(before: Item | None, after: Item) -> bool:
    """An acquisition of a row that is complete, and past its ttl."""
    return before is not None and "actualCompletion" in before and not is_open(before) and is_open(after)


def released_and_taken(before: Item | None, after: Item) -> bool:
    """An acquisition of a row that an attempt released."""
    return before is not None and "actualCompletion" not in before and not is_open(before) and is_open(after)


@pytest.mark.parametrize("drops", [extended_only, expired_and_taken, released_and_taken])
def test_twin_that_leaves_listed_out(drops: Callable[[Item | None, Item], bool]) -> None:
    """No record is an INSERT then, so nobody but a scan would find it."""
    schedules = (replace(scenario(seed), asleep=0, off=0, lost=400) for seed in range(PLAYED))
    assert any(loses(found, drops=drops) for found in schedules)
