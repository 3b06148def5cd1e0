"""Times, deadlines, and the clocks that tell them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.clock import (
    Deadline,
    SystemClock,
    epoch_milliseconds,
    epoch_seconds,
    stamp,
    to_milliseconds,
)
from lambda_once.stores.row import parse_stamp
from lambda_once.testing import FakeClock

times = st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


def test_a_stamp_has_one_width() -> None:
    """UTC, to the millisecond, cut and not rounded."""
    at = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
    assert stamp(at) == "2026-11-20T10:12:00.000Z"
    assert stamp(at + timedelta(microseconds=7_999)) == "2026-11-20T10:12:00.007Z"
    assert stamp(at.astimezone(timezone(timedelta(hours=5, minutes=30)))) == "2026-11-20T10:12:00.000Z"


@given(times, times)
def test_stamps_sort_as_times_do(one: datetime, other: datetime) -> None:
    """DynamoDB compares them as text."""
    one, other = to_milliseconds(one), to_milliseconds(other)
    assert (stamp(one) < stamp(other)) is (one < other)
    assert parse_stamp(stamp(one)) == one


def test_what_is_no_time_is_refused() -> None:
    """Rather than read as some time."""
    with pytest.raises(ValueError, match="yesterday"):
        parse_stamp("yesterday")


def test_epochs() -> None:
    """TTL counts seconds, fences milliseconds."""
    at = datetime(2026, 11, 20, 10, 12, 0, 999_000, tzinfo=UTC)
    assert epoch_seconds(at) == 1795169520
    assert epoch_milliseconds(at) == 1795169520999


def test_a_deadline_tells_what_remains() -> None:
    """Never less than nothing."""
    clock = FakeClock()
    deadline = Deadline(clock, clock.now() + timedelta(seconds=10))
    assert (deadline.remaining(), deadline.passed()) == (10.0, False)
    clock.advance(10)
    assert (deadline.remaining(), deadline.passed()) == (0.0, True)
    clock.advance(1)
    assert (deadline.remaining(), deadline.passed()) == (0.0, True)


def test_a_pause_ends_at_the_deadline() -> None:
    """No sleep ends beyond it."""
    clock = FakeClock()
    deadline = Deadline(clock, clock.now() + timedelta(seconds=10))
    deadline.pause(4)
    deadline.pause(60)
    assert clock.slept == [4, 6]
    assert deadline.passed()


def test_an_earlier_deadline_leaves_time() -> None:
    """To do something after it."""
    clock = FakeClock()
    assert Deadline(clock, clock.now() + timedelta(seconds=10)).earlier(3).remaining() == 7.0


def test_the_machines_clock_tells_whole_milliseconds_in_utc() -> None:
    """What a row keeps; and it waits as long as it is asked to."""
    clock = SystemClock()
    before = clock.now()
    clock.sleep(0.002)
    after = clock.now()
    assert after - before >= timedelta(milliseconds=1)
    assert before.tzinfo is UTC
    assert before.microsecond % 1000 == 0


def test_a_clock_that_was_set_back_leaves_no_time_after_the_deadline() -> None:
    """A try ends before it began then; it counts as one that took no time."""
    clock = FakeClock()
    began = clock.now()
    deadline = Deadline(clock, began - timedelta(seconds=1.5))
    clock.advance(-1)
    assert not deadline.has_time_for_another(began)


def test_a_slow_try_leaves_time_for_another_as_long() -> None:
    """Or for none: what would end after the deadline is not begun."""
    clock = FakeClock()
    began = clock.now()
    clock.advance(2)
    assert Deadline(clock, began + timedelta(seconds=4.001)).has_time_for_another(began)
    assert not Deadline(clock, began + timedelta(seconds=4)).has_time_for_another(began)
