"""Where a ledger keeps ids: names that come round, buckets of the least waste, windows in time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.units import size_of
from lambda_once.core.clock import epoch_milliseconds
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import (
    BUCKET_BYTES,
    FEWEST_BUCKETS,
    ID_BYTES,
    MOST_BUCKETS,
    NAMES,
    SHARDS_BYTES,
    SKEW,
    Layout,
    bucket_count,
    bucket_name,
    id_digest,
    item_overhead,
    layout_for,
    ledger_table,
    shard_of,
    waste,
)

WINDOWS = st.timedeltas(timedelta(milliseconds=1), timedelta(days=400))
BUCKETS = st.integers(FEWEST_BUCKETS, MOST_BUCKETS)
TIMES = st.datetimes(datetime(2020, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
NUMBERS = st.integers(0, 10**10)


@given(WINDOWS, BUCKETS, TIMES)
def test_an_id_outlives_its_window_and_the_skew(window: timedelta, buckets: int, at: datetime) -> None:
    """Its bucket is live until the window and 2 s have passed, and gone a width later."""
    layout = layout_for(window, buckets)
    number = layout.number(at)
    assert number in layout.live(layout.number(at + window + SKEW))
    longest = timedelta(milliseconds=layout.width * buckets)
    assert number not in layout.live(layout.number(at + longest + timedelta(milliseconds=1)))
    assert longest <= (window + SKEW) * buckets / (buckets - 1) + timedelta(milliseconds=buckets)


@given(WINDOWS, BUCKETS, TIMES)
def test_a_bucket_is_its_stretch_of_time(window: timedelta, buckets: int, at: datetime) -> None:
    """Its number counts the widths since 1970."""
    layout = layout_for(window, buckets)
    start = layout.number(at) * layout.width
    assert start <= epoch_milliseconds(at) < start + layout.width


@given(BUCKETS, NUMBERS)
def test_live_and_spare_numbers_have_all_names(buckets: int, number: int) -> None:
    """Each of the names belongs to one live or one spare number, and the newest is live."""
    layout = Layout(width=1000, buckets=buckets)
    names = [bucket_name(each) for each in (*layout.live(number), *layout.spare(number))]
    assert len({*names}) == len(names) == NAMES
    assert number == layout.live(number)[-1] == layout.spare(number)[0] - 1
    assert len(layout.live(number)) == buckets <= len(layout.spare(number))


@given(st.integers(1, 10**6), BUCKETS)
def test_no_other_number_of_buckets_wastes_less(ids: int, buckets: int) -> None:
    """The count for a known number of ids is the one of the least waste."""
    assert waste(ids, bucket_count(ids)) <= waste(ids, buckets)


@pytest.mark.parametrize(("ids", "buckets"), [(1, 3), (10, 6), (100, 17), (361, 32), (10**6, 32), (None, 32)])
def test_bucket_counts(ids: int | None, buckets: int) -> None:
    """One more than the root of the ids' bytes over a bucket's, up to 32, the default."""
    assert bucket_count(ids) == buckets


@given(WINDOWS, BUCKETS, TIMES)
def test_what_else_an_item_holds(window: timedelta, buckets: int, at: datetime) -> None:
    """The names of the buckets, three stamps, and the number of shards."""
    layout = layout_for(window, buckets)
    stamps = {"bt": layout.number(at), "bl": layout.written}
    size = size_of({name: {"N": str(each)} for name, each in stamps.items()} | {"bv": {"B": bytes(8)}})
    assert size <= item_overhead(buckets) - buckets * BUCKET_BYTES <= size + 8
    assert max(size_of({"bs": {"N": str(shards)}}) for shards in (2, 999, 1_000)) == SHARDS_BYTES


def test_names_of_its_own() -> None:
    """B with a number, three stamps, bs and ttl are the ledger's, whatever else begins with b is not."""
    taken = ledger_table("points", ("pk",)).taken
    assert taken == {"pk", "bt", "bl", "bv", "bs", "ttl", *map(bucket_name, range(NAMES))}
    assert not taken & {"b", "balance", "bx", "b1x", "xb1", "bt1", "B1"}


@given(st.text(min_size=1, max_size=20, alphabet=st.characters(codec="utf-8")))
def test_an_id_is_eight_bytes(name: str) -> None:
    """The digest of text is that of its UTF-8."""
    assert len(id_digest(name)) == ID_BYTES
    assert id_digest(name) == id_digest(name.encode())


def test_ids_spread_over_shards() -> None:
    """Each of 8 shards gets its share of 8,000 ids, within a fifth."""
    shards = [shard_of(id_digest(f"m{n}"), 8) for n in range(8_000)]
    assert all(800 < shards.count(shard) < 1_200 for shard in range(8))


@pytest.mark.parametrize("buckets", [0, 1, 33, -1, True, 2.0, "3"])
def test_wrong_numbers_of_buckets(buckets: object) -> None:
    """Two at least, for one would forget everything at once; 32 at most."""
    with pytest.raises(Misconfigured, match="2 to 32 buckets"):
        layout_for(timedelta(hours=1), buckets)  # type: ignore[arg-type]


@pytest.mark.parametrize("window", [timedelta(0), timedelta(seconds=-1), 3600, 1.5, None, "1h"])
def test_wrong_windows(window: object) -> None:
    """A window is a positive timedelta: a number would not say its unit."""
    with pytest.raises(Misconfigured, match="positive timedelta"):
        layout_for(window)  # type: ignore[arg-type]
