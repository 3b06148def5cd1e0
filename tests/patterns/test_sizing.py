from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lambda_once.errors import Misconfigured
from lambda_once.patterns import sizing
from lambda_once.patterns.ledger.layout import layout_for
from lambda_once.patterns.sizing import LONGEST, MOST_ITEM_BYTES, MOST_UNITS, LedgerPlan, Limit, plan

MINUTES = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)

rates = st.floats(1e-6, 1e5)
lifetimes = st.integers(1, 400 * 86_400_000).map(lambda ms: ms * MILLISECOND)
shards = st.integers(1, 1_000)
sizes = st.fixed_dictionaries(
    {"id_bytes": st.integers(1, 1_024), "other_bytes": st.integers(0, 100_000), "buckets": st.integers(2, 32)}
)
Sizes = dict[str, int]


def _check(found: LedgerPlan) -> None:
    """Compute both limits anew, from what the ledger stores and what the guide says is charged."""
    rate = Fraction(found.rate) / found.shards
    layout = layout_for(found.lifetime, found.buckets)
    ids = math.ceil(rate * layout.width * layout.buckets / 1_000)
    size = ids * found.id_bytes + found.other_bytes + 3 * found.buckets + 30
    assert (found.ids, found.item_bytes) == (ids, size)
    assert size <= 400 * 1_024
    assert found.write_units == -(-size // 1_024)
    assert rate * found.write_units <= 1_000


def _possible(**given: Any) -> LedgerPlan:
    """Return the plan, and leave out the example where there is none."""
    try:
        return plan(**given)
    except Misconfigured:
        assume(False)
        raise


# -- what is found is the very most


@given(lifetimes, shards, sizes)
def test_the_most_writes_keep_both_limits_and_more_break_one(
    lifetime: timedelta, items: int, size: Sizes
) -> None:
    """One more a second is refused, and so is a millionth more."""
    found = plan(lifetime=lifetime, shards=items, **size)
    _check(found)
    assert found.solved == "rate"
    for more in (found.rate + 1, found.rate * (1 + 1e-6)):
        with pytest.raises(Misconfigured):
            plan(rate=more, lifetime=lifetime, shards=items, **size)


@given(rates, lifetimes, sizes)
def test_the_fewest_shards_keep_both_limits_and_one_less_breaks_one(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """However the rate is spread."""
    found = _possible(rate=rate, lifetime=lifetime, **size)
    _check(found)
    assert found.solved == "shards"
    if found.shards > 1:
        with pytest.raises(Misconfigured):
            plan(rate=rate, lifetime=lifetime, shards=found.shards - 1, **size)


@given(rates, shards, sizes)
def test_the_longest_lifetime_keeps_both_limits_and_a_millisecond_more_breaks_one(
    rate: float, items: int, size: Sizes
) -> None:
    """Up to a hundred years."""
    found = _possible(rate=rate, shards=items, **size)
    _check(found)
    assert found.solved == "lifetime"
    if found.lifetime < LONGEST:
        with pytest.raises(Misconfigured):
            plan(rate=rate, lifetime=found.lifetime + MILLISECOND, shards=items, **size)


@given(rates, lifetimes, shards, st.sampled_from(["id_bytes", "other_bytes"]), st.integers(1, 5_000))
def test_the_most_bytes_keep_both_limits_and_a_byte_more_breaks_one(
    rate: float, lifetime: timedelta, items: int, size: str, other: int
) -> None:
    """Of an id, and of what stands beside the ids."""
    rest = {"id_bytes": 8, "other_bytes": other} | {size: None}
    found = _possible(rate=rate, lifetime=lifetime, shards=items, **rest)
    _check(found)
    assert found.solved == size
    larger: dict[str, Any] = rest | {size: getattr(found, size) + 1}
    with pytest.raises(Misconfigured):
        plan(rate=rate, lifetime=lifetime, shards=items, **larger)


@given(lifetimes, shards, sizes)
def test_what_was_found_can_be_given(lifetime: timedelta, items: int, size: Sizes) -> None:
    """The rate that was found takes no more shards than it was found for, and lasts as long."""
    found = plan(lifetime=lifetime, shards=items, **size)
    assert plan(rate=found.rate, lifetime=lifetime, **size).shards == items
    assert plan(rate=found.rate, shards=items, **size).lifetime >= lifetime


# -- more of one is less of the other


@given(lifetimes, lifetimes, shards, sizes)
def test_longer_memories_are_written_less_often(
    one: timedelta, other: timedelta, items: int, size: Sizes
) -> None:
    """And never more often."""
    shorter, longer = sorted((one, other))
    most = plan(lifetime=shorter, shards=items, **size).rate
    assert plan(lifetime=longer, shards=items, **size).rate <= most


@given(rates, rates, lifetimes, sizes)
def test_higher_rates_take_more_shards(one: float, other: float, lifetime: timedelta, size: Sizes) -> None:
    """And never fewer."""
    lower, higher = sorted((one, other))
    most = _possible(rate=higher, lifetime=lifetime, **size).shards
    assert plan(rate=lower, lifetime=lifetime, **size).shards <= most


@given(lifetimes, st.integers(1, 999), st.integers(1, 1_023), sizes)
def test_more_shards_and_smaller_ids_allow_more(
    lifetime: timedelta, items: int, id_bytes: int, size: Sizes
) -> None:
    """Writes a second; and no larger an item is charged more."""
    few = plan(lifetime=lifetime, shards=items, **size | {"id_bytes": id_bytes + 1})
    assert plan(lifetime=lifetime, shards=items, **size | {"id_bytes": id_bytes}).rate >= few.rate
    assert plan(lifetime=lifetime, shards=items + 1, **size | {"id_bytes": id_bytes + 1}).rate >= few.rate
    spread = plan(rate=few.rate, lifetime=lifetime, shards=items + 1, **size | {"id_bytes": id_bytes + 1})
    assert spread.write_units <= few.write_units


# -- the limits


@pytest.mark.parametrize(("limit", "lifetime"), [("MOST_UNITS", 300), ("MOST_ITEM_BYTES", 400_000)])
def test_twin_without_one_limit_plans_break_it(
    monkeypatch: pytest.MonkeyPatch, limit: str, lifetime: float
) -> None:
    """Each of the two is what holds a plan back somewhere."""
    _check(plan(lifetime=lifetime))
    monkeypatch.setattr(sizing, limit, getattr(sizing, limit) * 2)
    with pytest.raises(AssertionError):
        _check(plan(lifetime=lifetime))


@given(lifetimes, sizes)
def test_the_most_is_within_each_limit_alone(lifetime: timedelta, size: Sizes) -> None:
    """It is the lesser of both, but for what rounding up to whole units and whole ids takes."""
    most = plan(lifetime=lifetime, **size).rate
    layout = layout_for(lifetime, size["buckets"])
    kept = layout.width * layout.buckets / 1_000
    fixed = size["other_bytes"] + 3 * size["buckets"] + 30
    by_size = (MOST_ITEM_BYTES - fixed) // size["id_bytes"] / kept
    assert most <= by_size * (1 + 1e-9)
    assert most <= _by_units(size["id_bytes"], fixed, kept) * (1 + 1e-9)
    coarser = _by_units(size["id_bytes"], fixed + 1_024 + size["id_bytes"], kept)
    assert most >= min(by_size, coarser) * (1 - 1e-9)


def _by_units(id_bytes: int, fixed: int, kept: float) -> float:
    """Return the most writes a second if 1,000 units were the only limit, by the quadratic."""
    a = id_bytes * kept
    return (math.sqrt(fixed * fixed + 4 * a * MOST_UNITS * 1_024) - fixed) / (2 * a)


def test_what_ends_first_changes_at_two_and_a_half_writes_a_second() -> None:
    """A write of 400 KB is charged 400 of 1,000 units, whatever the size of an id."""
    for id_bytes in (8, 16, 32, 64, 128):
        near = plan(rate=2.5, shards=1, id_bytes=id_bytes, other_bytes=0)
        assert near.write_units == 400
        assert plan(lifetime=near.lifetime / 2, id_bytes=id_bytes, other_bytes=0).limit is Limit.WRITES
        assert plan(lifetime=near.lifetime * 2, id_bytes=id_bytes, other_bytes=0).limit is Limit.ITEM


def test_five_minutes_of_eight_bytes_allow_twenty_writes_a_second() -> None:
    """Not the 100 whose ids would fit, and not the 1,000 that a small item takes."""
    found = plan(lifetime=5 * MINUTES)
    assert (found.rate, found.write_units, found.limit) == (20, 50, Limit.WRITES)
    assert 100 * 300 * 8 < 409_600
    with pytest.raises(Misconfigured, match="5 shards or at most 20/s or a lifetime of 0:00:09"):
        plan(rate=100, lifetime=5 * MINUTES, shards=1)


@given(st.integers(1, 400), st.integers(50, 20_000), st.integers(2, 12), st.floats(0, 1))
def test_a_ledger_never_holds_more_ids_than_planned(
    tenths: int, milliseconds: int, buckets: int, phase: float
) -> None:
    """Ids that come evenly fill the live buckets up to what the plan says, to one, and no further."""
    rate, lifetime = Fraction(tenths, 10), milliseconds * MILLISECOND
    layout = layout_for(lifetime, buckets)
    ends = [layout.width * number for number in range(buckets + 1, buckets + 4)]
    expected = math.ceil(rate * layout.width * buckets / 1_000)
    first = Fraction(phase).limit_denominator(100)
    for end in ends:
        start = end - layout.width * buckets
        held = math.ceil(end * rate / 1_000 - first) - math.ceil(start * rate / 1_000 - first)
        assert expected - 1 <= held <= expected


# -- units and words


def test_units_follow_from_the_item() -> None:
    """Of one item, of all, and of a read of all."""
    found = plan(rate=10, lifetime=5 * MINUTES, shards=3)
    assert (found.item_bytes, found.write_units) == (1_040 * 8 + 200 + 126, 9)
    assert found.item_units == pytest.approx(30)
    assert found.total_units == pytest.approx(90)
    assert found.read_units == 9
    assert found.solved is None
    assert found.remembered > found.lifetime


def test_a_lifetime_may_be_in_seconds() -> None:
    """A number is what a timedelta of so many seconds is."""
    assert plan(lifetime=300) == plan(lifetime=5 * MINUTES) == plan(lifetime=300.0)


def test_a_plan_is_explained() -> None:
    """Rate, lifetime, size of an item, units, next limit."""
    assert plan(lifetime=300).explain() == [
        "writes: 20/s (the most), to 1 item",
        "an id is remembered for 0:05:00, and forgotten within about 0:05:11",
        "an item: at most 50,206 bytes, ids 6,235 of 8 bytes, and 326 others",
        "write units: at most 50 a write; a second: item 1,000, all 1,000",
        "read units: 13 to read it all",
        "next limit: 1,000 write units a second: each write is charged for the whole item",
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"rate": 1 / 60, "lifetime": timedelta(days=30)}, "1/m, to 1 item (the fewest)"),
        (
            {"rate": 1 / 60, "lifetime": timedelta(days=30)},
            "30 days, 0:00:00, and forgotten within about 30 days, 23:",
        ),
        (
            {"rate": 1 / 60, "lifetime": timedelta(days=30)},
            "limit: the size of the item, at most 400 KB",
        ),
        ({"rate": 100, "shards": 4}, "remembered for 0:03:14 (the most), and forgotten"),
        ({"rate": 10, "lifetime": 300, "id_bytes": None}, "of 32 bytes (the most), and"),
        ({"rate": 10, "lifetime": 300, "other_bytes": None}, "others (the most)"),
        ({"rate": 1e-6, "lifetime": 1}, "writes: 0.0864/d, to 1 item"),
        ({"rate": 1e-6, "lifetime": 1}, "at most 334 bytes, ids 1 of 8 bytes, and 326 others"),
        ({"rate": 2.3, "lifetime": 1}, "writes: 2.3/s"),
        ({"rate": 200, "lifetime": 0.25, "shards": 2}, "remembered for 0:00:00.250000, and forgotten"),
    ],
)
def test_what_was_computed_is_marked(given: dict[str, Any], text: str) -> None:
    """Each figure is in the unit that reads best."""
    assert text in "\n".join(plan(**given).explain())


# -- what is refused


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "rate and lifetime depend on one another: give one of them"),
        ({"shards": 3}, "rate and lifetime depend on one another"),
        ({"rate": 0}, "rate is 0: give writes a second"),
        ({"rate": -1.5, "lifetime": 60}, "rate is -1.5"),
        ({"rate": True}, "rate is True"),
        ({"rate": "20"}, "rate is '20'"),
        ({"rate": math.nan}, "rate is nan"),
        ({"rate": math.inf}, "rate is inf"),
        ({"lifetime": 0}, "lifetime is 0: give a time"),
        ({"lifetime": timedelta(0)}, "lifetime is 0:00:00: give a time"),
        ({"lifetime": -MINUTES}, "lifetime is -1 day, 23:59:00"),
        ({"lifetime": timedelta(days=40_000)}, "lifetime is 40000 days"),
        ({"lifetime": math.nan}, "lifetime is nan"),
        ({"lifetime": "5m"}, "lifetime is '5m'"),
        ({"lifetime": 60, "shards": 0}, "shards is 0: give a whole number, 1 to 1,000"),
        ({"lifetime": 60, "shards": 1.5}, "shards is 1.5"),
        ({"lifetime": 60, "shards": 1_001}, "shards is 1001"),
        ({"lifetime": 60, "id_bytes": 0}, "id_bytes is 0"),
        ({"lifetime": 60, "other_bytes": -1}, "other_bytes is -1"),
        ({"lifetime": 60, "buckets": 1}, "2 to 32 buckets, not 1"),
        (
            {"lifetime": 60, "other_bytes": 409_600},
            "no rate fits lifetime=0:01:00, id_bytes=8",
        ),
        ({"rate": 1, "id_bytes": None}, "lifetime and id_bytes depend on one another"),
        (
            {"rate": 1, "lifetime": 1, "id_bytes": None, "other_bytes": None},
            "id_bytes and other_bytes depend on one another",
        ),
        ({"rate": 100, "lifetime": 3_000, "id_bytes": None}, "no id_bytes fits rate=100"),
        ({"rate": 1_500, "lifetime": 1, "shards": 1, "other_bytes": None}, "no other_bytes fits rate=1500"),
        ({"rate": 1_000}, "no lifetime fits rate=1000, id_bytes=8, other_bytes=200, shards=1: change one"),
        ({"rate": 1e6, "lifetime": 3e6}, "1,000 items cannot take"),
        (
            {"rate": 300, "lifetime": 60, "shards": 1},
            "1 item cannot take 300/s for 0:01:00: give 7 shards or at most 43.4/s",
        ),
    ],
)
def test_what_no_ledger_can_be_is_refused(given: dict[str, Any], why: str) -> None:
    """With what was given, and what could be."""
    with pytest.raises(Misconfigured) as refused:
        plan(**given)
    assert why in str(refused.value)
