from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lambda_once.errors import Misconfigured
from lambda_once.patterns import sizing
from lambda_once.patterns.ledger.layout import item_overhead, layout_for
from lambda_once.patterns.sizing import (
    LONGEST_LIFETIME,
    MOST_ITEM_BYTES,
    MOST_UNITS,
    LedgerPlan,
    Limit,
    plan,
    read_units,
    write_units,
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
        "batch": st.one_of(st.just(1), st.integers(2, 100)),
        "buckets": st.integers(2, 32),
        "headroom": st.floats(0, 0.5),
    }
)
Sizes = dict[str, Any]


def _check(found: LedgerPlan) -> None:
    """Compute both limits anew, from what the ledger stores and what the guide says is charged."""
    batches = Fraction(found.rate) / found.batch
    layout = layout_for(found.lifetime, found.buckets)
    kept = math.ceil(batches * layout.width * layout.buckets / 1_000) * found.batch
    ids = math.ceil(Fraction(kept, found.shards))
    size = ids * found.id_bytes + found.other_bytes + item_overhead(found.buckets)
    assert (found.ids, found.item_bytes) == (ids, size)
    usable = 1 - Fraction(found.headroom)
    assert size <= 400 * 1_024 * usable
    assert found.write_units == -(-size // 1_024)
    writes = batches * (Fraction(found.batch, found.shards) if found.shards > found.batch else 1)
    assert writes * found.write_units <= 1_000 * usable
    assert found.total_units == pytest.approx(float(writes * found.write_units * found.shards))


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
    assert not replace(found, rate=found.rate + 1).fits()
    assert not replace(found, rate=math.nextafter(found.rate, math.inf)).fits()


@given(rates, lifetimes, sizes)
def test_the_fewest_shards_keep_both_limits_and_one_less_breaks_one(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """However the rate is spread."""
    found = _possible(rate=rate, lifetime=lifetime, **size)
    _check(found)
    assert found.solved == "shards"
    assert found.shards == 1 or not replace(found, shards=found.shards - 1).fits()


@given(rates, shards, sizes)
def test_the_longest_lifetime_keeps_both_limits_and_a_millisecond_more_breaks_one(
    rate: float, items: int, size: Sizes
) -> None:
    """Up to a hundred years."""
    found = _possible(rate=rate, shards=items, **size)
    _check(found)
    assert found.solved == "lifetime"
    assert (
        found.lifetime == LONGEST_LIFETIME or not replace(found, lifetime=found.lifetime + MILLISECOND).fits()
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
    assert not replace(found, **larger).fits()


@given(lifetimes, shards, sizes)
def test_what_was_found_can_be_given(lifetime: timedelta, items: int, size: Sizes) -> None:
    """The rate that was found takes no more shards than it was found for, and lasts as long."""
    found = plan(lifetime=lifetime, shards=items, **size)
    fewest = plan(rate=found.rate, lifetime=lifetime, **size).shards
    assert fewest <= items if found.batch > 1 else fewest == items
    assert plan(rate=found.rate, shards=items, **size).lifetime >= lifetime


@given(rates, lifetimes, shards, sizes)
def test_a_plan_is_refused_exactly_where_a_limit_is_broken(
    rate: float, lifetime: timedelta, items: int, size: Sizes
) -> None:
    """By both limits computed anew."""
    draft = LedgerPlan(rate=rate, lifetime=lifetime, shards=items, **size)
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
    with pytest.raises(Misconfigured, match="give shards=5 or rate=20/s or lifetime=0:00:09"):
        plan(rate=100, lifetime=5 * MINUTES, shards=1, headroom=0)


def test_a_third_is_left_free_by_default() -> None:
    """Of the units of an item, and of its size."""
    by_units, by_size = plan(lifetime=300), plan(lifetime=timedelta(days=1))
    assert (by_units.limit, by_size.limit) == (Limit.WRITES, Limit.ITEM)
    assert 640 < by_units.total_units <= MOST_UNITS * 2 / 3
    assert MOST_ITEM_BYTES * 2 // 3 - 8 < by_size.item_bytes <= MOST_ITEM_BYTES * 2 / 3
    with pytest.raises(Misconfigured, match="headroom=33%: give shards=2"):
        plan(rate=20, lifetime=300, shards=1)
    assert plan(rate=20, lifetime=300, shards=1, headroom=0).fits()


# -- the alternatives


@settings(max_examples=30)
@given(rates, lifetimes, sizes, st.lists(shards, max_size=20))
def test_the_cheapest_is_charged_least_with_the_fewest_shards(
    rate: float, lifetime: timedelta, size: Sizes, others: list[int]
) -> None:
    """No number of shards that fits is charged less, and fewer are charged more."""
    found = _possible(rate=rate, lifetime=lifetime, **size).cheapest
    _check(found)
    for number in {*others, max(1, found.shards - 1), 1, 1_000}:
        other = replace(found, shards=number)
        if other.fits() and number < found.shards:
            assert other.total_units > found.total_units
        elif other.fits():
            assert other.total_units >= found.total_units


def test_the_cheapest_may_have_fewer_shards_than_given() -> None:
    """Beyond a number of shards, nothing is saved."""
    given = plan(rate=100, lifetime=300, shards=1_000)
    assert given.cheapest == replace(given, shards=359)
    assert given.cheapest.total_units == 100


@settings(max_examples=30)
@given(rates, lifetimes, sizes)
def test_one_item_a_period_is_the_longest_that_halves_the_charge(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """It has the ids of its period alone, in one item within both limits; a longer one would not do."""
    found = _possible(rate=rate, lifetime=lifetime, **size)
    usable = 1 - Fraction(size["headroom"])
    fixed, batch = size["other_bytes"] + item_overhead(size["buckets"]), size["batch"]
    fitting = []
    for name, seconds in {"day": 86_400, "hour": 3_600, "minute": 60, "second": 1}.items():
        kept = min(Fraction(seconds), Fraction(found.remembered // MILLISECOND, 1_000))
        ids = math.ceil(Fraction(rate) * kept / batch) * batch
        units = -(-(ids * size["id_bytes"] + fixed) // 1_024)
        writes = Fraction(rate) / batch + (0 if batch == 1 else Fraction(1, seconds))
        within = ids * size["id_bytes"] + fixed <= 409_600 * usable and writes * units <= 1_000 * usable
        if within and 2 * units <= found.write_units:
            fitting.append((name, ids, units))
    named = found.by_period
    assert (named and (named.period, named.ids, named.write_units)) == (fitting[0] if fitting else None)
    assert named is None or (named.shards, named.cheapest.period) == (1, named.period)
    assert named is None or named.cheapest.total_units <= named.total_units


@given(st.integers(1, 400), st.integers(1, 20), st.integers(50, 20_000), st.integers(2, 12), st.floats(0, 1))
def test_a_ledger_never_holds_more_ids_than_planned(
    tenths: int, batch: int, milliseconds: int, buckets: int, phase: float
) -> None:
    """Batches that come evenly fill the live buckets up to what the plan says, to one batch, not further."""
    rate, lifetime = Fraction(tenths, 10), milliseconds * MILLISECOND
    layout = layout_for(lifetime, buckets)
    ends = [layout.width * number for number in range(buckets + 1, buckets + 4)]
    draft = plan(rate=1e-10, lifetime=lifetime, batch=batch, buckets=buckets)
    planned = replace(draft, rate=float(rate)).ids
    first, batches = Fraction(phase).limit_denominator(100), rate / batch / 1_000
    for end in ends:
        start = end - layout.width * buckets
        held = batch * (math.ceil(end * batches - first) - math.ceil(start * batches - first))
        assert planned - batch <= held <= planned


# -- units and words


def test_units_follow_from_the_item() -> None:
    """Of one item, of all, and of a read of all."""
    found = plan(rate=10, lifetime=5 * MINUTES, shards=3)
    assert (found.item_bytes, found.write_units) == (1_040 * 8 + 200 + 121, 9)
    assert found.total_units == 90
    assert found.read_units == 3 * 3 + 1  # and the item without a number
    assert found.total_read_units == 0
    assert found.solved is None
    assert found.remembered > found.lifetime


def test_a_lifetime_may_be_in_seconds() -> None:
    """A number is what a timedelta of so many seconds is."""
    assert plan(lifetime=300) == plan(lifetime=5 * MINUTES) == plan(lifetime=300.0)


# -- batches


def test_a_batch_is_one_write_of_one_item() -> None:
    """Ten ids a write allow some three times the rate: the units grow with its square."""
    one, ten = plan(lifetime=300), plan(lifetime=300, batch=10)
    assert 3.1 < ten.rate / one.rate < 3.3
    assert ten.total_units == pytest.approx(ten.rate / 10 * ten.write_units)
    assert ten.total_read_units == pytest.approx(ten.rate / 10 * ten.read_units)
    _check(ten)


def test_a_batch_is_written_to_each_shard_it_has_ids_of() -> None:
    """Up to as many shards as it has ids, more make no write less; beyond, each id is a write of its own."""
    few, many, single = (
        plan(rate=100, lifetime=60, shards=shards, batch=batch)
        for shards, batch in ((5, 10), (50, 10), (50, 1))
    )
    assert few.total_units == 10 * 5 * few.write_units
    assert many.total_units == single.total_units == 100 * many.write_units


def test_what_ends_first_changes_at_two_and_a_half_writes_of_a_batch() -> None:
    """Of 25 ids a second with batches of ten."""
    near = plan(rate=25, shards=1, other_bytes=0, headroom=0, batch=10)
    assert near.write_units == 400
    assert plan(lifetime=near.lifetime / 2, other_bytes=0, batch=10).limit is Limit.WRITES
    assert plan(lifetime=near.lifetime * 2, other_bytes=0, batch=10).limit is Limit.ITEM


@given(st.integers(1, MOST_ITEM_BYTES))
def test_the_reads_of_an_item_never_end_before_its_writes(size: int) -> None:
    """Each is read as often as it is written, by no more units, and a partition takes 3,000 of these."""
    assert read_units(size) <= write_units(size)


# -- what is refused


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "rate and lifetime depend on one another: give one of them"),
        ({"shards": 3}, "rate and lifetime depend on one another"),
        ({"rate": 0}, "rate is 0: give ids a second"),
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
        ({"lifetime": 60, "batch": 0}, "batch is 0: give a whole number, 1 to 10,000"),
        ({"lifetime": 60, "buckets": 1}, "2 to 32 buckets, not 1"),
        (
            {"lifetime": 60, "other_bytes": 409_600},
            "id_bytes=8, other_bytes=409,600, batch=1, headroom=33%, shards=1: give less",
        ),
        ({"rate": 1, "id_bytes": None}, "lifetime and id_bytes depend on one another"),
        (
            {"rate": 1, "lifetime": 1, "id_bytes": None, "other_bytes": None},
            "id_bytes and other_bytes depend on one another",
        ),
        (
            {"rate": 100, "lifetime": 3_000, "id_bytes": None},
            "no plan fits rate=100/s, lifetime=0:50:00, other_bytes=200",
        ),
        (
            {"rate": 1_500, "lifetime": 1, "shards": 1, "other_bytes": None},
            "no plan fits rate=1,500/s, lifetime=0:00:01, shards=1",
        ),
        (
            {"rate": 1_000},
            "rate=1,000/s, id_bytes=8, other_bytes=200, batch=1, headroom=33%, shards=1: give shards=",
        ),
        (
            {"rate": 1e6, "lifetime": 3e6},
            (
                "no plan fits rate=1,000,000/s, lifetime=34 days, 17:20:00, id_bytes=8, other_bytes=200, "
                "batch=1, headroom=33%: give rate="
            ),
        ),
        (
            {"rate": 300, "lifetime": 60, "shards": 1},
            (
                "no plan fits rate=300/s, lifetime=0:01:00, shards=1, id_bytes=8, other_bytes=200, "
                "batch=1, headroom=33%: give shards=9 or rate=35.3/s"
            ),
        ),
    ],
)
def test_what_no_ledger_can_be_is_refused(given: dict[str, Any], why: str) -> None:
    """With what was given, and what could be."""
    with pytest.raises(Misconfigured) as refused:
        plan(**given)
    assert why in str(refused.value)
