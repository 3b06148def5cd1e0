"""What may be a timestamp, and what would block an item."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ratchet.timestamps import Stamp, Timestamps, check_ahead, comparable, stamp_of
from lambda_once.patterns.results import TooFarAhead
from lambda_once.testing import FakeClock

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
MS = 1_795_169_520_000


@pytest.mark.parametrize(
    ("ts", "stamp"),
    [
        (NOW, MS),
        (NOW.astimezone(timezone(timedelta(hours=5))), MS),
        (NOW + timedelta(milliseconds=7), MS + 7),
        (MS, MS),
        (10**11, 10**11),
    ],
)
def test_times_are_milliseconds(ts: object, stamp: int) -> None:
    """Given as such, or as a datetime of any zone."""
    assert stamp_of(ts, times=True) == stamp


@pytest.mark.parametrize(
    "ts", [Decimal(1795169520000), Decimal("1.79516952E+12"), Decimal("1795169520000.00")]
)
def test_a_whole_decimal_is_a_number(ts: Decimal) -> None:
    """As boto3's Table reads it."""
    stamp = stamp_of(ts, times=True)
    assert (stamp, type(stamp)) == (1_795_169_520_000, int)


@pytest.mark.parametrize("ts", [0, -5, 7, "0007", "01JD4A8Q3W9V6Y2K5T7R1M0XZB", 10**38 - 1])
def test_other_tokens_are_taken_as_they_are(ts: Stamp) -> None:
    """Numbers that are counted up, and texts."""
    assert stamp_of(ts, times=False) == ts


@pytest.mark.parametrize(
    ("ts", "said"),
    [
        (datetime(2026, 11, 20), "no time zone"),  # noqa: DTZ001  (a naive one is what is refused)
        (1_795_169_520, "seconds"),
        (1_795_169_520.5, "float"),
        (Decimal("1795169520000.5"), "Decimal"),
        (Decimal("NaN"), "Decimal"),
        (Decimal("1E+400"), "Decimal"),
        (Decimal(1795169520), "seconds"),
        (True, "bool"),
        (None, "NoneType"),
        ("2026-11-20T10:12:00Z", "ahead=None"),
        (b"7", "bytes"),
        (timedelta(1), "timedelta"),
    ],
)
def test_what_is_no_time_is_refused(ts: object, said: str) -> None:
    """The error says what was given and what to give."""
    with pytest.raises(Misconfigured, match=said):
        stamp_of(ts, times=True)


@pytest.mark.parametrize("ts", ["", "a" * 129, "ü", "a\n", 10**38, -(10**38), 1.0, True, None])
def test_what_has_no_order_is_refused(ts: object) -> None:
    """Characters whose order is a matter of encoding, numbers that DynamoDB does not keep whole."""
    with pytest.raises(Misconfigured):
        stamp_of(ts, times=False)


def test_only_what_is_ahead_by_more_than_is_allowed_is_refused() -> None:
    """The bound itself passes; a millisecond more names both times and what to do."""
    five = timedelta(minutes=5)
    check_ahead(MS + 300_000, NOW, five, where="x")
    with pytest.raises(TooFarAhead) as refused:
        check_ahead(MS + 300_001, NOW, five, where="the write of p")
    assert "the write of p has the timestamp 2026-11-20T10:17:00.001Z" in str(refused.value)
    assert "2026-11-20T10:12:00.000Z" in str(refused.value)
    assert (refused.value.stamp, refused.value.now) == (MS + 300_001, NOW)
    copy = pickle.loads(pickle.dumps(refused.value))
    assert (copy.stamp, copy.now) == (MS + 300_001, NOW)


def test_nanoseconds_are_far_ahead() -> None:
    """Beyond what a datetime can say; the error still does."""
    with pytest.raises(TooFarAhead, match="1795169520000000000 ms"):
        check_ahead(MS * 10**6, NOW, timedelta(minutes=5), where="x")


def test_tokens_that_are_no_times_have_no_future() -> None:
    """Without a bound nothing is refused, and under the widest one nothing that a datetime can say."""
    check_ahead(10**30, NOW, None, where="x")
    check_ahead(MS * 100, NOW, timedelta.max, where="x")


@pytest.mark.parametrize(
    ("mine", "stored", "has_order"),
    [
        (5, {"N": "7"}, True),
        (5, {"S": "7"}, False),
        ("5", {"N": "7"}, False),
        ("5", {"S": "7"}, True),
        ("10", {"S": "9"}, False),
        (5, {"NULL": True}, False),
    ],
)
def test_stamps_of_one_kind_and_width_have_an_order(
    mine: Stamp, stored: dict[str, object], *, has_order: bool
) -> None:
    """Numbers with numbers, texts with texts of their length."""
    assert comparable(mine, stored) is has_order


def test_times_of_one_writer_grow() -> None:
    """In one millisecond, after the clock was set back, and after what was read of another's."""
    clock = FakeClock(NOW)
    growing = Timestamps(clock)
    assert [growing.next(), growing.next()] == [MS, MS + 1]
    clock.advance(-60)
    assert growing.next() == MS + 2
    assert growing.next(after=MS + 50) == MS + 51
    clock.advance(120)
    assert growing.next(after=MS) == MS + 60_000


def test_no_two_threads_get_one_time() -> None:
    """Eight threads, two hundred times, one millisecond."""
    growing = Timestamps(FakeClock(NOW))
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: growing.next(), range(200)))
    assert sorted(given) == list(range(MS, MS + 200))
