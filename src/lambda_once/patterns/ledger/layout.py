"""
How a ledger item keeps ids, and which ids an item has. Pure.

An id is kept as a digest of 8 bytes, in a binary set per period of time, a bucket. Bucket number n is the
time from n × width to (n + 1) × width since 1970. The newest `Layout.buckets` of them are live: their ids are
refused. Bucket n is the attribute ``b<n mod 64>``. A name is used again 64 buckets later, and is empty by
then: each write removes the names of all buckets that are not live.

    bt  the number of the newest bucket, the item's own time: it never goes back
    bl  the layout, ``100 × width + buckets``, with the width in milliseconds
    bv  the time of the first write, in milliseconds since 1970, and 1 more for each write
    ttl when the item expires, in seconds since 1970: the table's TTL attribute

An item takes 1,000 writes a second at most, so ``bv`` stays behind the clock, and an item that was deleted
and is made anew begins with a number that the earlier one never had.

These are the usual names; a table may have others (`ledger_table`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import epoch_milliseconds
from lambda_once.errors import Misconfigured
from lambda_once.patterns.items import Item, Values, plain_item
from lambda_once.patterns.table import PatternTable, own_names

if TYPE_CHECKING:
    from collections.abc import Mapping

ID_BYTES: Final = 8
"""Bytes of one id in the item: its digest. A set adds nothing for an element (DynamoDB Local 2.6.1)."""
BUCKET_BYTES: Final = 3
"""Bytes of one bucket beside its ids: its name. A set adds nothing of its own (DynamoDB Local 2.6.1)."""
STAMP_BYTES: Final = 25
"""Of ``bt`` and ``bl`` (16 digits together) and ``bv`` (13): a byte for every two digits and one more."""

FEWEST_BUCKETS: Final = 2
MOST_BUCKETS: Final = 32
"""Beyond 32, a bucket saves less than a thousandth of the ids' bytes, and makes every request larger."""
NAMES: Final = 64
"""Names of buckets: at least as many spare ones as live ones."""
SKEW: Final = timedelta(seconds=2)
"""How far the clocks of writers may be apart."""

BUCKETS, TIME, LAYOUT, VERSION = "b", "bt", "bl", "bv"
STAMPS: Final = (TIME, LAYOUT, VERSION)
TTL: Final = "ttl"

LONGEST_ID: Final = 1024

SEPARATOR: Final = "#"
MOST_SHARDS: Final = 1_000


def waste(ids: float, buckets: int) -> float:
    """Return the bytes that *buckets* add to an item of *ids* in a window: ids kept too long, and names."""
    return ids * ID_BYTES / (buckets - 1) + buckets * BUCKET_BYTES


def bucket_count(ids: float | None = None) -> int:
    """Return the number of live buckets with the least `waste`; the most, where *ids* is not known."""
    if ids is None:
        return MOST_BUCKETS
    return min(range(FEWEST_BUCKETS, MOST_BUCKETS + 1), key=lambda buckets: waste(ids, buckets))


def item_overhead(buckets: int) -> int:
    """Return the bytes of an item beside its key, the caller's attributes and the ids."""
    return buckets * BUCKET_BYTES + STAMP_BYTES


@dataclass(frozen=True, slots=True)
class Layout:
    """Ids are kept in *buckets* live buckets of *width* milliseconds."""

    width: int
    buckets: int

    @property
    def written(self) -> int:
        """The value of ``bl``."""
        return self.width * 100 + self.buckets

    @property
    def span(self) -> int:
        """Milliseconds that an id is kept at least."""
        return self.width * (self.buckets - 1)

    def end(self, number: int) -> int:
        """Return the time, in seconds since 1970, from which no id of bucket *number* is refused."""
        return -(-(number + self.buckets) * self.width // 1_000)

    def number(self, at: datetime) -> int:
        """Return the number of the bucket at this time."""
        return epoch_milliseconds(at) // self.width

    def live(self, number: int) -> range:
        """Return the numbers whose ids are refused while *number* is the newest."""
        return range(number - self.buckets + 1, number + 1)

    def spare(self, number: int) -> range:
        """Return the numbers after *number* whose names no live bucket has."""
        return range(number + 1, number + NAMES - self.buckets + 1)


def layout_for(window: timedelta, buckets: int | None = None) -> Layout:
    """Return the layout that keeps an id for *window*, with clocks `SKEW` apart. Raises `Misconfigured`."""
    given: object = window
    if not isinstance(given, timedelta) or window <= timedelta(0):
        raise Misconfigured(f"a ledger's window is a positive timedelta, not {window!r}")
    count = bucket_count() if buckets is None else buckets
    if type(count) is not int or not FEWEST_BUCKETS <= count <= MOST_BUCKETS:
        raise Misconfigured(f"a ledger has {FEWEST_BUCKETS} to {MOST_BUCKETS} buckets, not {count!r}")
    kept = (window + SKEW) // timedelta(milliseconds=1)
    return Layout(width=-(-kept // (count - 1)), buckets=count)


def longest_window_ms(kept_ms: int, buckets: int) -> int:
    """Return the longest window whose ids are kept for *kept_ms* at most; below 1: there is none."""
    return kept_ms // buckets * (buckets - 1) - SKEW // timedelta(milliseconds=1)


def bucket_name(number: int) -> str:
    return f"{BUCKETS}{number % NAMES}"


class Seen(NamedTuple):
    """An item as it was read: the ledger's own attributes by their usual names, and the caller's."""

    own: Item
    values: Values
    """Without the key."""


def ledger_table(name: str, key: object, names: object = None) -> PatternTable:
    """Return the table with *names* for the ledger's own attributes; that of ``b`` is the buckets' prefix."""
    own = (BUCKETS, *STAMPS, TTL)
    given = own_names(names, own)
    prefix = given.pop(BUCKETS)
    return PatternTable.of(
        name, key, {bucket_name(number): f"{prefix}{number}" for number in range(NAMES)} | given, own
    )


def place_of(table: PatternTable, item: Item) -> tuple[Any, ...]:
    """Return the key of *item* as a value that can be compared: numbers have several texts."""
    return tuple(plain_item({name: item[name] for name in table.key}).values())


def seen_in(table: PatternTable, item: Mapping[str, Mapping[str, Any]]) -> Seen:
    """Return *item* in two parts. Raises `Misconfigured` where others use a name of the ledger's own."""
    own = table.own_of(item)
    for usual, each in own.items():
        if usual == TTL:  # others may have written it, of any type
            continue
        whole = each.get("N", "").isdigit() if usual in STAMPS else "BS" in each
        if not whole or not own.keys() >= {*STAMPS}:
            key = plain_item({name: item[name] for name in table.key})
            raise Misconfigured(
                f"attribute {table.own[usual]!r} of item {key} was not written by ledger {table.name!r}:"
                " give the ledger's own another name by names=. Nothing was written"
            )
    return Seen(own, plain_item({name: item[name] for name in item if name not in table.taken}))


def id_digest(name: object) -> bytes:
    """Return the 8 bytes that an id is kept as; text counts as UTF-8. Raises `Misconfigured`."""
    if not isinstance(name, str | bytes):
        raise Misconfigured(f"an id is text or bytes, not {type(name).__name__}: give the message's own id")
    try:
        written = name.encode() if isinstance(name, str) else name
    except UnicodeEncodeError:
        raise Misconfigured("an id of text must be valid Unicode: it holds half a surrogate pair") from None
    if not 1 <= len(written) <= LONGEST_ID:
        raise Misconfigured(f"an id has 1 to {LONGEST_ID:,} bytes, not {len(written):,}")
    return sha256(written).digest()[:ID_BYTES]


# -- keys, and their shards


def shard_count(shards: object) -> int:
    if isinstance(shards, bool) or not isinstance(shards, int) or not 1 <= shards <= MOST_SHARDS:
        raise Misconfigured(f"a ledger has 1 to {MOST_SHARDS:,} shards, not {shards!r}")
    return shards


def shard_of(digest: bytes, shards: int) -> int:
    return int.from_bytes(digest, "big") % shards


def homes(table: PatternTable, key: object, digest: bytes, shards: int) -> list[Item]:
    """
    Return the keys of the items that may have an id of this digest, first the one that is written to.

    Shard 0 is two items, the one with number 0 and the one without: a ledger of one shard has the latter.
    """
    if shards == 1:
        return [key_item(table, key, None)]
    shard = shard_of(digest, shards)
    return [key_item(table, key, shard), *([key_item(table, key, None)] if shard == 0 else [])]


def all_homes(table: PatternTable, key: object, shards: int) -> list[Item]:
    """Return the keys of all items of *key*; each has a part of its sums."""
    numbers: list[int | None] = [None] if shards == 1 else [None, *range(shards)]
    return [key_item(table, key, shard) for shard in numbers]


def key_item(table: PatternTable, key: object, shard: int | None) -> Item:
    """Return the key of the item, or of one shard, which has a partition of its own."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(table.key):
        names = " and ".join(table.key)
        raise Misconfigured(f"a key here is {names}: {len(table.key)} parts, not {len(parts)}")
    if shard is not None:
        name, part = table.key[0], parts[0]
        if not isinstance(part, str) or part == "" or SEPARATOR in part:
            raise Misconfigured(
                f"key {name!r} of a sharded ledger is text without {SEPARATOR!r}, not {part!r}"
            )
        parts = (f"{part}{SEPARATOR}{shard}", *parts[1:])
    return table.key_item(dict(zip(table.key, parts, strict=True)))


# -- an item as it is: *seen* is `Seen.own`


def ids_at(seen: Item, ours: Layout, now: datetime) -> set[bytes]:
    """Return the ids that the item *seen* refuses to a writer with the layout *ours*."""
    layout = in_use(seen, ours)
    return set().union(*remembered(seen, layout, newest(seen, layout, now)).values())


def in_use(seen: Item, ours: Layout) -> Layout:
    """
    Return the layout to write *seen* in: its own, or *ours* if that keeps ids longer.

    So two writers of different windows do not rearrange ids in turn, which would keep them ever longer.
    """
    present = layout_of(seen)
    return ours if present is None or present.span < ours.span else present


def layout_of(seen: Item) -> Layout | None:
    """Return the layout of *seen*; None where no ledger wrote it."""
    return Layout(*divmod(int(seen[LAYOUT]["N"]), 100)) if LAYOUT in seen else None


def newest(seen: Item, layout: Layout, now: datetime) -> int:
    """Return the number of the bucket that a write of *layout* adds to: the item's time does not go back."""
    number, present = layout.number(now), layout_of(seen)
    return max(number, time_of(seen)) if present and present.width == layout.width else number


def remembered(seen: Item, layout: Layout, number: int) -> dict[int, set[bytes]]:
    """
    Return the ids of *seen* that are live while *number* is the newest, by their bucket in *layout*.

    Ids of a bucket of another width count as added at its end: they are kept too long rather than too short.
    """
    kept: dict[int, set[bytes]] = {}
    present = layout_of(seen)
    if present is None:
        return kept
    width, time = present.width, time_of(seen)
    for position in range(NAMES):
        held = seen.get(bucket_name(position))
        if held is None:
            continue
        stored = time - (time - position) % NAMES
        ours = stored if width == layout.width else ((stored + 1) * width - 1) // layout.width
        if ours in layout.live(number) or ours > number:
            kept.setdefault(min(ours, number), set()).update(bytes(each) for each in held["BS"])
    return kept


def time_of(seen: Item) -> int:
    return int(seen.get(TIME, {"N": "0"})["N"])
