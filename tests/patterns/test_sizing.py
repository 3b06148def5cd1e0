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
from lambda_once.patterns.ledger.layout import MOST_BUCKETS, SHARDS_BYTES, item_overhead, layout_for
from lambda_once.patterns.sizing import LedgerPlan, plan

MINUTES = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)

rates = st.floats(1e-6, 1e5)
lifetimes = st.integers(1, 400 * 86_400_000).map(lambda ms: ms * MILLISECOND)
sizes = st.fixed_dictionaries({"id_bytes": st.integers(1, 1_024), "other_bytes": st.integers(0, 10_000)})
Sizes = dict[str, Any]


def _computed(rate: float, lifetime: timedelta, shards: int, size: Sizes) -> LedgerPlan:
    """Compute an item anew, from what the ledger stores and what the guide says is charged."""
    layout = layout_for(lifetime)
    ids = math.ceil(Fraction(rate) * layout.width * layout.buckets / 1_000 / shards)
    item_bytes = ids * size["id_bytes"] + size["other_bytes"] + item_overhead(MOST_BUCKETS)
    item_bytes += 0 if shards == 1 else SHARDS_BYTES
    return LedgerPlan(rate, lifetime, shards, ids, item_bytes, math.ceil(Fraction(item_bytes, 1_024)))


def _fits(found: LedgerPlan) -> bool:
    units = Fraction(found.rate) / found.shards * found.write_units
    return found.item_bytes <= 400 * 1_024 and units <= 1_000


def _check(found: LedgerPlan, size: Sizes) -> None:
    assert found == _computed(found.rate, found.lifetime, found.shards, size)
    assert _fits(found)


def _possible(**given: Any) -> LedgerPlan:
    """Return the plan, and leave out the example where there is none."""
    try:
        return plan(**given)
    except Misconfigured:
        assume(False)
        raise


# -- what is found is the very most


@given(lifetimes, sizes)
def test_the_most_writes_keep_both_limits_and_more_break_one(lifetime: timedelta, size: Sizes) -> None:
    """One more a second does not fit, and neither does the next float."""
    found = plan(lifetime=lifetime, **size)
    _check(found, size)
    assert found.shards == 1
    assert not _fits(_computed(found.rate + 1, lifetime, 1, size))
    assert not _fits(_computed(math.nextafter(found.rate, math.inf), lifetime, 1, size))


@given(rates, lifetimes, sizes)
def test_the_fewest_shards_keep_both_limits_and_one_less_breaks_one(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """However the rate is spread."""
    found = _possible(rate=rate, lifetime=lifetime, **size)
    _check(found, size)
    assert found.shards == 1 or not _fits(_computed(rate, lifetime, found.shards - 1, size))


@given(st.floats(1e-6, 20), sizes)
def test_the_longest_lifetime_keeps_both_limits_and_a_millisecond_more_breaks_one(
    rate: float, size: Sizes
) -> None:
    """In one item."""
    found = _possible(rate=rate, **size)
    _check(found, size)
    assert found.shards == 1
    assert not _fits(_computed(rate, found.lifetime + MILLISECOND, 1, size))


@given(lifetimes, sizes)
def test_what_was_found_can_be_given(lifetime: timedelta, size: Sizes) -> None:
    """The rate that was found takes one item, and lasts as long."""
    found = plan(lifetime=lifetime, **size)
    assert plan(rate=found.rate, lifetime=lifetime, **size) == found
    assert plan(rate=found.rate, **size).lifetime >= lifetime


@given(rates, lifetimes, sizes)
def test_a_plan_is_refused_exactly_where_a_limit_is_broken(
    rate: float, lifetime: timedelta, size: Sizes
) -> None:
    """By both limits computed anew, with the most shards that a ledger has."""
    if _fits(_computed(rate, lifetime, 1_000, size)):
        assert plan(rate=rate, lifetime=lifetime, **size).shards <= 1_000
    else:
        with pytest.raises(Misconfigured, match="no ledger of 1,000 shards takes"):
            plan(rate=rate, lifetime=lifetime, **size)


@given(lifetimes, st.integers(1, 1_023), st.integers(0, 10_000))
def test_smaller_ids_allow_more(lifetime: timedelta, id_bytes: int, other_bytes: int) -> None:
    """Writes a second."""
    few = plan(lifetime=lifetime, id_bytes=id_bytes + 1, other_bytes=other_bytes)
    assert plan(lifetime=lifetime, id_bytes=id_bytes, other_bytes=other_bytes).rate >= few.rate


# -- the limits


@pytest.mark.parametrize(("limit", "minutes"), [("MOST_UNITS", 5), ("MOST_ITEM_BYTES", 7_000)])
def test_twin_without_one_limit_plans_break_it(
    monkeypatch: pytest.MonkeyPatch, limit: str, minutes: int
) -> None:
    """Each of the two is what holds a plan back somewhere."""
    assert _fits(plan(lifetime=minutes * MINUTES))
    monkeypatch.setattr(sizing, limit, getattr(sizing, limit) * 2)
    assert not _fits(plan(lifetime=minutes * MINUTES))


@pytest.mark.parametrize("id_bytes", [8, 16, 32, 64, 128])
def test_what_ends_first_changes_at_two_and_a_half_writes_a_second(id_bytes: int) -> None:
    """A write of 400 KB is charged 400 of 1,000 units, whatever the size of an id."""
    near = plan(rate=2.5, id_bytes=id_bytes, other_bytes=0)
    assert near.write_units == 400
    shorter, longer = (
        plan(lifetime=near.lifetime * times, id_bytes=id_bytes, other_bytes=0) for times in (0.5, 2)
    )
    assert shorter.item_bytes + id_bytes <= 409_600
    assert shorter.rate * (shorter.write_units + 1) > 1_000
    assert longer.item_bytes + id_bytes > 409_600
    assert longer.rate * (longer.write_units + 1) < 1_000


def test_five_minutes_of_eight_bytes_allow_twenty_writes_a_second() -> None:
    """Not the 100 whose ids would fit, and not the 1,000 that a small item takes."""
    found = plan(lifetime=5 * MINUTES)
    assert (found.rate, found.write_units) == (20, 50)
    assert 100 * 300 * 8 < 409_600
    assert plan(rate=100, lifetime=5 * MINUTES).shards == 5


@given(st.integers(1, 400), st.integers(50, 20_000), st.floats(0, 1))
def test_a_ledger_never_holds_more_ids_than_planned(tenths: int, milliseconds: int, phase: float) -> None:
    """Ids that come evenly fill the live buckets up to what the plan says, to one id, not further."""
    rate, lifetime = Fraction(tenths, 10), milliseconds * MILLISECOND
    layout = layout_for(lifetime)
    found = plan(rate=float(rate), lifetime=lifetime)
    first, a_millisecond = Fraction(phase).limit_denominator(100), rate / 1_000
    for end in (layout.width * number for number in range(layout.buckets + 1, layout.buckets + 4)):
        start = end - layout.width * layout.buckets
        held = math.ceil(end * a_millisecond - first) - math.ceil(start * a_millisecond - first)
        assert found.ids - 1 <= math.ceil(Fraction(held, found.shards)) <= found.ids


# -- what is refused


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "give rate, lifetime, or both"),
        ({"rate": 0}, "rate is 0: give a number from 1e-06 to 1e+06"),
        ({"rate": -1.5, "lifetime": MINUTES}, "rate is -1.5"),
        ({"rate": True}, "rate is True"),
        ({"rate": "20"}, "rate is '20'"),
        ({"rate": math.nan}, "rate is nan"),
        ({"rate": math.inf}, "rate is inf"),
        ({"lifetime": 0}, "a positive timedelta, not 0"),
        ({"lifetime": timedelta(0)}, "a positive timedelta"),
        ({"lifetime": -MINUTES}, "a positive timedelta"),
        ({"lifetime": "5m"}, "a positive timedelta, not '5m'"),
        ({"lifetime": MINUTES, "id_bytes": 0}, "id_bytes is 0: give a number from 1 to 409600"),
        ({"lifetime": MINUTES, "id_bytes": None}, "id_bytes is None"),
        ({"lifetime": MINUTES, "id_bytes": 8.0}, "id_bytes is 8.0"),
        ({"lifetime": MINUTES, "other_bytes": -1}, "other_bytes is -1"),
        (
            {"lifetime": MINUTES, "other_bytes": 409_600},
            "no item takes lifetime=0:01:00, id_bytes=8, other_bytes=409600: give less of one of these",
        ),
        ({"rate": 1_001}, "no item takes rate=1001, id_bytes=8, other_bytes=200: give less"),
        (
            {"rate": 1e6, "lifetime": timedelta(days=40)},
            "no ledger of 1,000 shards takes rate=1000000.0, lifetime=40 days, 0:00:00, id_bytes=8, other",
        ),
    ],
)
def test_what_no_ledger_can_be_is_refused(given: dict[str, Any], why: str) -> None:
    """With what was given, or with what could be."""
    with pytest.raises(Misconfigured) as refused:
        plan(**given)
    assert why in str(refused.value)
