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
from lambda_once.patterns.sizing import (
    LONGEST_LIFETIME,
    MOST_ITEM_BYTES,
    MOST_UNITS,
    LedgerPlan,
    Limit,
    PlanTerms,
    changed,
    ledger_plan,
    plan,
)

MINUTES = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)

rates = st.floats(1e-6, 1e5)
lifetimes = st.integers(1, 400 * 86_400_000).map(lambda ms: ms * MILLISECOND)
shards = st.integers(1, 1_000)
sizes = st.fixed_dictionaries(
    {
        "id_bytes": st.integers(1, 1_024),
        "other_bytes": st.integers(0, 10_000),
        "buckets": st.integers(2, 32),
        "headroom": st.floats(0, 0.5),
    }
)
Sizes = dict[str, Any]


def _check(found: LedgerPlan) -> None:
    """Compute both limits anew, from what the ledger stores and what the guide says is charged."""
    rate = Fraction(found.rate) / found.shards
    layout = layout_for(found.lifetime, found.buckets)
    ids = math.ceil(rate * layout.width * layout.buckets / 1_000)
    size = ids * found.id_bytes + found.other_bytes + 3 * found.buckets + 30
    assert (found.ids, found.item_bytes) == (ids, size)
    usable = 1 - Fraction(found.headroom)
    assert size <= 400 * 1_024 * usable
    assert found.write_units == -(-size // 1_024)
    assert rate * found.write_units <= 1_000 * usable


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
    """One more a second does not fit, and neither does the next float."""
    found = plan(lifetime=lifetime, shards=items, **size)
    _check(found)
    assert found.solved == "rate"
    assert not changed(found, rate=found.rate + 1).fits()
    assert not changed(found, rate=math.nextafter(found.rate, math.inf)).fits()


@given(rates, lifetimes, sizes)
def test_the_fewest_shards_keep_both_limits_and_one_less_breaks_one(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """However the rate is spread."""
    found = _possible(rate=rate, lifetime=lifetime, **size)
    _check(found)
    assert found.solved == "shards"
    assert found.shards == 1 or not changed(found, shards=found.shards - 1).fits()


@given(rates, shards, sizes)
def test_the_longest_lifetime_keeps_both_limits_and_a_millisecond_more_breaks_one(
    rate: float, items: int, size: Sizes
) -> None:
    """Up to a hundred years."""
    found = _possible(rate=rate, shards=items, **size)
    _check(found)
    assert found.solved == "lifetime"
    assert (
        found.lifetime == LONGEST_LIFETIME or not changed(found, lifetime=found.lifetime + MILLISECOND).fits()
    )


@given(rates, lifetimes, shards, st.sampled_from(["id_bytes", "other_bytes"]), st.integers(1, 5_000))
def test_the_most_bytes_keep_both_limits_and_a_byte_more_breaks_one(
    rate: float, lifetime: timedelta, items: int, size: str, other: int
) -> None:
    """Of an id, and of what is beside the ids."""
    rest = {"id_bytes": 8, "other_bytes": other} | {size: None}
    found = _possible(rate=rate, lifetime=lifetime, shards=items, **rest)
    _check(found)
    assert found.solved == size
    larger: dict[str, Any] = {size: getattr(found, size) + 1}
    assert not changed(found, **larger).fits()


@given(lifetimes, shards, sizes)
def test_what_was_found_can_be_given(lifetime: timedelta, items: int, size: Sizes) -> None:
    """The rate that was found takes no more shards than it was found for, and lasts as long."""
    found = plan(lifetime=lifetime, shards=items, **size)
    assert plan(rate=found.rate, lifetime=lifetime, **size).shards == items
    assert plan(rate=found.rate, shards=items, **size).lifetime >= lifetime


@given(rates, lifetimes, shards, sizes)
def test_a_plan_is_refused_exactly_where_a_limit_is_broken(
    rate: float, lifetime: timedelta, items: int, size: Sizes
) -> None:
    """By both limits computed anew."""
    draft = ledger_plan(PlanTerms(rate=rate, lifetime=lifetime, shards=items, **size))
    try:
        _check(draft)
    except AssertionError:
        assert not draft.fits()
        with pytest.raises(Misconfigured, match="no plan fits"):
            plan(rate=rate, lifetime=lifetime, shards=items, **size)
    else:
        assert plan(rate=rate, lifetime=lifetime, shards=items, **size) == draft


# -- more of one is less of the other


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


def test_what_ends_first_changes_at_two_and_a_half_writes_a_second() -> None:
    """A write of 400 KB is charged 400 of 1,000 units, whatever the size of an id."""
    for id_bytes in (8, 16, 32, 64, 128):
        near = plan(rate=2.5, shards=1, id_bytes=id_bytes, other_bytes=0, headroom=0)
        assert near.write_units == 400
        assert plan(lifetime=near.lifetime / 2, id_bytes=id_bytes, other_bytes=0).limit is Limit.WRITES
        assert plan(lifetime=near.lifetime * 2, id_bytes=id_bytes, other_bytes=0).limit is Limit.ITEM


def test_five_minutes_of_eight_bytes_allow_twenty_writes_a_second() -> None:
    """Not the 100 whose ids would fit, and not the 1,000 that a small item takes."""
    found = plan(lifetime=5 * MINUTES, headroom=0)
    assert (found.rate, found.write_units, found.limit) == (20, 50, Limit.WRITES)
    assert 100 * 300 * 8 < 409_600
    with pytest.raises(Misconfigured, match="give shards=5 or rate=20/s or lifetime=9"):
        plan(rate=100, lifetime=5 * MINUTES, shards=1, headroom=0)


def test_a_third_is_left_free_by_default() -> None:
    """Of the units of an item, and of its size."""
    by_units, by_size = plan(lifetime=300), plan(lifetime=timedelta(days=1))
    assert (by_units.limit, by_size.limit) == (Limit.WRITES, Limit.ITEM)
    assert 640 < by_units.item_units <= MOST_UNITS * 2 / 3
    assert MOST_ITEM_BYTES * 2 // 3 - 8 < by_size.item_bytes <= MOST_ITEM_BYTES * 2 / 3
    with pytest.raises(Misconfigured, match="headroom=33%: give shards=2"):
        plan(rate=20, lifetime=300, shards=1)
    assert plan(rate=20, lifetime=300, shards=1, headroom=0).fits()


# -- the alternatives


@given(rates, lifetimes, sizes)
def test_the_cheapest_is_charged_least_with_the_fewest_shards(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """No number of shards is charged less for a write, and one shard less is charged more or does not fit."""
    found = _possible(rate=rate, lifetime=lifetime, **size).cheapest
    _check(found)
    most = plan(rate=rate, lifetime=lifetime, shards=1_000, **size)
    assert (found.write_units, found.total_units) == (most.write_units, most.total_units)
    if found.shards > 1:
        fewer = changed(found, shards=found.shards - 1)
        assert fewer.write_units > found.write_units or not fewer.fits()


def test_the_cheapest_may_have_fewer_shards_than_given() -> None:
    """Beyond a number of shards, nothing is saved."""
    given = plan(rate=100, lifetime=300, shards=1_000)
    assert given.cheapest == changed(given, shards=359)
    assert given.cheapest.total_units == 100


@given(rates, lifetimes, sizes)
def test_one_item_a_period_is_the_longest_that_halves_the_charge(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """It has the ids of its period alone, in one item within both limits; a longer one would not do."""
    found = _possible(rate=rate, lifetime=lifetime, **size)
    usable = 1 - Fraction(size["headroom"])
    fixed = size["other_bytes"] + 3 * size["buckets"] + 30
    fitting = []
    for name, seconds in {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}.items():
        ids = math.ceil(
            Fraction(rate) * min(Fraction(seconds), Fraction(found.remembered // MILLISECOND, 1_000))
        )
        units = -(-(ids * size["id_bytes"] + fixed) // 1_024)
        within = (
            ids * size["id_bytes"] + fixed <= 409_600 * usable and Fraction(rate) * units <= 1_000 * usable
        )
        if within and 2 * units <= found.write_units:
            fitting.append((name, ids, units))
    named = found.by_period
    assert (named and (named.period, named.ids, named.write_units)) == (fitting[0] if fitting else None)
    assert named is None or (named.shards, named.cheapest.period) == (1, named.period)
    assert named is None or named.cheapest.write_units <= named.write_units


def test_a_plan_of_more_than_4000_units_warms_the_table() -> None:
    """That is where a new on-demand table starts; the notes have the figure to set."""
    at_the_start, beyond = plan(rate=4_000, lifetime=0.1, shards=200), plan(rate=1_000, lifetime=60)
    assert (at_the_start.total_units, at_the_start.warm_units) == (4_000, None)
    assert "on-demand" not in "\n".join(at_the_start.explain())
    assert (beyond.total_units, beyond.warm_units) == (18_000, 18_000)
    assert beyond.explain()[-1] == (
        "a new on-demand table takes 4,000 units/s: before traffic starts, set its warm throughput to 18,000 "
        "write units, or provision as many"
    )


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
    """Rate, lifetime and item; what the plan, the cheapest number of shards and a period cost; headroom."""
    assert plan(rate=100, lifetime=300).explain() == [
        "shards: 7 (the fewest) for 100/s; an id is kept for 5 min, and forgotten after about 5 min 11 s",
        "an item: 4,454 ids of 8 bytes at most, others 326 bytes",
        "                      shards  bytes/item  units/write   units/s  read units",
        "the fewest                 7      35,958           36     3,600          63",
        "the cheapest             359       1,022            1       100         359",
        "one item per second        1       1,126            2       200           1",
        f"headroom: 33% of both limits; next limit: {Limit.WRITES.value}",
        "one item per second: its key ends with the second of the message",
    ]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"rate": 1 / 60, "lifetime": timedelta(days=30)}, "shards: 2 (the fewest) for 1/m; an id"),
        (
            {"rate": 1 / 60, "lifetime": timedelta(days=30)},
            "for 30 d, and forgotten after about 30 d 23 h 13 min",
        ),
        ({"rate": 1, "lifetime": timedelta(days=1)}, "for 1 d, and forgotten after about 1 d 46 min 29 s"),
        ({"rate": 1 / 60, "lifetime": timedelta(days=30)}, "limit: the size of the item, at most 400 KB"),
        ({"rate": 100, "shards": 4, "headroom": 0}, "kept for 3 min 14 s (the most), and forgotten"),
        ({"lifetime": 300}, "shards: 1 for 16.2/s (the most); an id"),
        (
            {"rate": 10, "lifetime": 300, "id_bytes": None, "headroom": 0},
            "ids of 32 (the most) bytes at most, others",
        ),
        ({"rate": 10, "lifetime": 300, "other_bytes": None}, "(the most) bytes"),
        ({"rate": 1e-6, "lifetime": 1}, "shards: 1 (the fewest) for 0.0864/d"),
        ({"rate": 1e-6, "lifetime": 1}, "an item: 1 ids of 8 bytes at most, others 326 bytes"),
        ({"rate": 2.3, "lifetime": 1}, "for 2.3/s"),
        ({"rate": 200, "lifetime": 0.25, "shards": 2}, "kept for 0.25 s, and forgotten"),
        ({"rate": 20, "lifetime": 300, "shards": 2}, "this plan                  2 "),
        ({"rate": 20, "lifetime": 300, "headroom": 0.5}, "headroom: 50% of both limits"),
        (
            {"rate": 1, "lifetime": timedelta(days=1)},
            "one item per hour          1      29,126           29        29           8",
        ),
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
        (
            {"lifetime": 60, "headroom": -0.1},
            "headroom is -0.1: give the part of both limits to leave free, 0 to 0.9",
        ),
        ({"lifetime": 60, "headroom": 1}, "headroom is 1"),
        ({"lifetime": 60, "buckets": 1}, "2 to 32 buckets, not 1"),
        (
            {"lifetime": 60, "other_bytes": 409_600},
            "no plan fits lifetime=1 min, id_bytes=8, other_bytes=409,600, headroom=33%, shards=1: give less",
        ),
        ({"rate": 1, "id_bytes": None}, "lifetime and id_bytes depend on one another"),
        (
            {"rate": 1, "lifetime": 1, "id_bytes": None, "other_bytes": None},
            "id_bytes and other_bytes depend on one another",
        ),
        (
            {"rate": 100, "lifetime": 3_000, "id_bytes": None},
            "no plan fits rate=100/s, lifetime=50 min, other_bytes=200",
        ),
        (
            {"rate": 1_500, "lifetime": 1, "shards": 1, "other_bytes": None},
            "no plan fits rate=1,500/s, lifetime=1 s, shards=1",
        ),
        (
            {"rate": 1_000},
            "no plan fits rate=1,000/s, id_bytes=8, other_bytes=200, headroom=33%, shards=1: give shards=",
        ),
        (
            {"rate": 1e6, "lifetime": 3e6},
            (
                "no plan fits rate=1,000,000/s, lifetime=34 d 17 h 20 min, id_bytes=8, other_bytes=200, "
                "headroom=33%: give rate="
            ),
        ),
        (
            {"rate": 300, "lifetime": 60, "shards": 1},
            (
                "no plan fits rate=300/s, lifetime=1 min, shards=1, id_bytes=8, other_bytes=200, "
                "headroom=33%: give shards=9 or rate=35.3/s"
            ),
        ),
    ],
)
def test_what_no_ledger_can_be_is_refused(given: dict[str, Any], why: str) -> None:
    """With what was given, and what could be."""
    with pytest.raises(Misconfigured) as refused:
        plan(**given)
    assert why in str(refused.value)
