"""What may be a timestamp, and what would block an item."""

from __future__ import annotations

import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal, localcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.ratchet.timestamps import Stamp, check_ahead, stamp_of
from lambda_once.patterns.results import TooFarAhead
from lambda_once.testing import FakeClock
from tests.patterns.ratchet.conftest import MS, NOW


@pytest.mark.parametrize(
    ("ts", "stamp"),
    [
        (NOW, MS),
        (NOW.astimezone(timezone(timedelta(hours=5))), MS),
        (NOW + timedelta(milliseconds=7), MS + 7),
        (MS, MS),
        (NOW + timedelta(microseconds=1), Decimal(f"{MS}.001")),
        (NOW + timedelta(microseconds=-1), Decimal(f"{MS - 1}.999")),
        (datetime(1970, 1, 1, tzinfo=UTC) - timedelta(microseconds=1), Decimal("-0.001")),
        (datetime.min.replace(tzinfo=UTC), -62_135_596_800_000),
        (datetime.max.replace(tzinfo=UTC), Decimal("253402300799999.999")),
        (10**11, 10**11),
        (Decimal(MS), MS),
        (Decimal("1.79516952E+12"), MS),
        (Decimal(f"{MS}.000"), MS),
        (Decimal(f"{MS}.123"), Decimal(f"{MS}.123")),
        (Decimal(f"{MS}.50000"), Decimal(f"{MS}.5")),
    ],
)
@pytest.mark.parametrize("times", [True, False])
def test_times_are_milliseconds(ts: object, stamp: Stamp, *, times: bool) -> None:
    """Given as such or as a datetime of any zone, exact in any decimal context; an int where whole."""
    with localcontext(prec=3):
        found = stamp_of(ts, times=times)
    assert (found, type(found)) == (stamp, type(stamp))


TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=st.timezones())  # noqa: DTZ001


@given(TIMES, TIMES)
def test_stamps_have_the_order_of_their_datetimes(one: datetime, other: datetime) -> None:
    """To the microsecond, with whole milliseconds as ints among them."""
    stamps = stamp_of(one, times=True), stamp_of(other, times=True)
    assert (stamps[0] < stamps[1]) == (one.astimezone(UTC) < other.astimezone(UTC))  # type: ignore[operator]
    assert (stamps[0] == stamps[1]) == (one.astimezone(UTC) == other.astimezone(UTC))


class Calendar(datetime):
    """A datetime whose differences have units of their own, as those of pendulum have."""

    def __sub__(self, other: object) -> Any:
        return "3 months"


class Span(timedelta):
    """A timedelta that is not divided by the standard library's, as pendulum's is not."""

    def __floordiv__(self, other: object) -> Any:
        raise AttributeError


def test_times_of_other_libraries_are_their_fields() -> None:
    """A subclass may redefine its arithmetic; its time is that of the class that it is made of."""
    at = Calendar(2026, 11, 20, 10, 12, 0, 123_456, tzinfo=UTC)
    assert stamp_of(at, times=True) == Decimal(f"{MS}.456") + 123
    check_ahead(MS + 300_000, NOW, Span(minutes=5), where="x")


@pytest.mark.parametrize(
    "ts", [0, -5, 7, "0007", "01JD4A8Q3W9V6Y2K5T7R1M0XZB", 10**38 - 1, 10**38, Decimal("-0.123456789")]
)
def test_other_tokens_are_taken_as_they_are(ts: Stamp) -> None:
    """Numbers that are counted up, and texts."""
    assert stamp_of(ts, times=False) == ts


@pytest.mark.parametrize(
    ("ts", "said"),
    [
        (datetime(2026, 11, 20), "datetime with a time zone"),  # noqa: DTZ001  (a naive one is what is refused)
        (1_795_169_520, "seconds"),
        (1_795_169_520.5, "float"),
        (Decimal("1795169520000.0001"), "more than three decimals"),
        (Decimal("1795169520000.10009765625"), "more than three decimals"),
        (Decimal("NaN"), "Decimal"),
        (Decimal("1E+400"), "Decimal"),
        (Decimal("1E+999999"), "Decimal"),
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


@pytest.mark.parametrize(
    "ts", ["", "a" * 129, "ü", "a\n", 10**38 + 1, Decimal("1E+127"), Decimal("NaN"), 1.0, True, None]
)
def test_what_has_no_order_is_refused(ts: object) -> None:
    """Characters whose order is a matter of encoding, numbers that DynamoDB does not keep whole."""
    with pytest.raises(Misconfigured):
        stamp_of(ts, times=False)


def test_only_what_is_ahead_by_more_than_is_allowed_is_refused() -> None:
    """The bound itself passes; a millisecond more names both times and what to do."""
    five = timedelta(minutes=5)
    check_ahead(MS + 300_000, NOW, five, where="x")
    with pytest.raises(TooFarAhead):
        check_ahead(Decimal(f"{MS + 300_000}.001"), NOW, five, where="x")
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


def test_times_of_one_writer_grow() -> None:
    """In one millisecond, after the clock was set back, and after what was read of another's."""
    clock = FakeClock(NOW)
    ratchet = Ratchet("t", clock=clock)
    assert [ratchet.revision().stamp, ratchet.revision(after=None).stamp] == [MS, MS + 1]
    clock.advance(-60)
    assert ratchet.revision().stamp == MS + 2
    assert ratchet.revision(after=MS + 50).stamp == MS + 51
    assert ratchet.revision(after=Decimal(f"{MS + 60}.999999")).stamp == MS + 61
    clock.advance(120)
    assert ratchet.revision(after=MS).stamp == MS + 60_000


class Yielding(int):
    """A number that lets other threads go first when it is read."""

    def __int__(self) -> int:
        os.sched_yield()
        return int.__int__(self)


def times_of_threads(ratchet: Ratchet) -> list[Any]:
    """Return two hundred times of one millisecond, made by eight threads."""
    with ThreadPoolExecutor(8) as threads:
        return sorted(threads.map(lambda _: ratchet.revision(after=Yielding(1)).stamp, range(200)))


def test_no_two_threads_get_one_time() -> None:
    """Two hundred times are two hundred, although the threads take turns in the midst of it."""
    assert times_of_threads(Ratchet("t", clock=FakeClock(NOW))) == list(range(MS, MS + 200))


def test_without_the_lock_two_threads_get_one_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: some of them are equal."""
    ratchet = Ratchet("t", clock=FakeClock(NOW))
    monkeypatch.setattr(ratchet, "_lock", SimpleNamespace(alone=nullcontext))
    assert len(set(times_of_threads(ratchet))) < 200


def test_a_time_is_not_after_a_text() -> None:
    """The item that was read has a token of another kind."""
    with pytest.raises(Misconfigured, match="after is a str"):
        Ratchet("t", clock=FakeClock(NOW)).revision(after="7")  # type: ignore[arg-type]
