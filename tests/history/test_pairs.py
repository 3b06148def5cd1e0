"""Each row of docs/from-powertools.md, "Your decorator, and ours": same events, same answers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from lambda_once.testing import crash_at
from tests.docs.pages import ROOT
from tests.history.pairs import DICTS, KEPT, PAIRS, RECORDS, Pair, rows
from tests.kit.powertools import Shop

PAGE = ROOT / "docs" / "from-powertools.md"
EACH = pytest.mark.parametrize("pair", PAIRS, ids=[f"{each.door.name} {each.key}" for each in PAIRS])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Powertools warns of an event without a key."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "No idempotency key")
        yield


@EACH
def test_duplicates_get_the_same(shop: Shop, pair: Pair) -> None:
    """A duplicate, the key with another payload, and another key."""
    events = [each for each in (pair.first, pair.first, pair.changed, pair.second, pair.second) if each]
    old, new = (
        [side.deliver(each) for each in events] for side in (pair.old_side(shop), pair.new_side(shop))
    )
    assert new == old
    of_records = pair.door in (RECORDS, KEPT, DICTS)
    first, again = old[:2]
    assert (first, again) == ("run 1", "nothing" if of_records and pair.door is RECORDS else again)
    assert len({each for each in old if each.startswith("run")}) == (1 if pair.second is None else 2)


@EACH
def test_a_failure_is_tried_again(shop: Shop, pair: Pair) -> None:
    """What raised has left nothing behind."""
    for side in (pair.old_side(shop), pair.new_side(shop)):
        found = [side.deliver(pair.first, ValueError()), side.deliver(pair.first), side.deliver(pair.first)]
        assert found[0] in ("failed", "retried")
        assert side.work.runs == 2


@EACH
def test_a_crash_is_taken_over(shop: Shop, pair: Pair) -> None:
    """A duplicate is refused until the time of what was killed is over, and then runs."""
    answers = []
    old, new = pair.old_side(shop), pair.new_side(shop)
    for side in (old, new):
        with crash_at("work") if side is new else nullcontext():
            side.deliver(pair.first, None if side is new else SystemExit())
        found = [side.deliver(pair.first)]
        shop.lapse_all()
        answers.append([*found, side.deliver(pair.first), side.deliver(pair.first)])
        assert side.work.runs == 2
    assert answers[0] == answers[1]
    assert answers[0][0] in ("in progress", "retried")


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.keyless], ids=lambda each: each.new)
def test_what_has_no_key_is_refused(shop: Shop, pair: Pair) -> None:
    """As under raise_on_no_idempotency_key=True."""
    sides = (pair.old_side(shop, raise_on_no_idempotency_key=True), pair.new_side(shop))
    old, new = (side.deliver(pair.keyless) for side in sides)
    assert old == new
    assert old in ("no key", "retried")


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.keyless], ids=lambda each: each.new)
def test_what_has_no_key_may_run(shop: Shop, pair: Pair) -> None:
    """By Powertools' default, and here by ``without_key="run"``."""
    for side in (pair.old_side(shop), pair.new_side(shop, keyless=True)):
        assert [side.deliver(pair.keyless) for _ in range(2)] == ["run 1", "run 2"]


@pytest.mark.parametrize("pair", [each for each in PAIRS if each.door.has_history], ids=lambda each: each.new)
def test_both_versions_at_once(shop: Shop, pair: Pair) -> None:
    """With ``history=`` neither does what the other has done."""
    old, new = pair.old_side(shop), pair.new_side(shop, history=True)
    assert old.deliver(pair.first) == "run 1"
    assert new.deliver(pair.first) in ("run 1", "nothing")
    assert new.work.runs == 0
    if pair.second is not None:
        assert new.deliver(pair.second) == "run 1"
        old.deliver(pair.second)
        assert old.work.runs == 1


def test_the_page_has_the_pairs() -> None:
    """In their order."""
    text = PAGE.read_text(encoding="utf-8").partition("## Your decorator, and ours")[2].partition("\n## ")[0]
    assert [line for line in text.splitlines() if line.startswith("|")][2:] == rows()
