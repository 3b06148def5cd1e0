"""
How a ledger item stores ids, and which ids it contains. Pure.

An id is stored as a digest of 8 bytes, in one binary set per period of time, a bucket. Bucket number n covers
the time from n × width to (n + 1) × width since 1970. The newest `Layout.buckets` of them are live: their ids
are refused. Bucket n is the attribute ``b<n mod 64>``. A name is reused 64 buckets later, and is empty by
then, because each write removes the names of all buckets that are not live.

    bt  the number of the newest bucket, the item's own time, which never decreases
    bl  the layout, ``100 × width + buckets``, with the width in milliseconds
    bv  the random id of the write that changed the item last
    bs  the number of shards of the key, if there are several
    ttl when the item expires, in seconds since 1970: the table's TTL attribute

The first item of a key has the key itself, whatever the number of shards; the others have its text, ``#`` and
their number. No shard is created before the first item has the number of shards (`requests.claiming`), so two
ledgers that differ in it meet in that item, and one of them is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import epoch_milliseconds
from lambda_once.dynamodb import Item, Values, plain_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.table import PatternTable

if TYPE_CHECKING:
    from collections.abc import Mapping

ID_BYTES: Final = 8
"""Bytes of one id in the item: its digest. A set adds nothing for each element (dynoxide 3.2.0)."""
BUCKET_BYTES: Final = 3
"""Bytes of one bucket besides its ids: its name. A set has no overhead of its own (dynoxide 3.2.0)."""
STAMP_BYTES: Final = 25
"""Bytes of ``bt`` and ``bl`` (16 digits together: one for every two, plus one each) and ``bv`` (8)."""
SHARDS_BYTES: Final = 5
"""Bytes of ``bs`` (up to 1,000)."""

FEWEST_BUCKETS: Final = 2
MOST_BUCKETS: Final = 32
"""Beyond 32, another bucket saves less than a thousandth of the ids' bytes, and every request grows."""
NAMES: Final = 64
"""Number of bucket names, with at least as many spare as live."""
SKEW: Final = timedelta(seconds=2)
"""How far the writers' clocks may differ."""

BUCKETS, TIME, LAYOUT, VERSION, SHARDS = "b", "bt", "bl", "bv", "bs"
STAMPS: Final = (TIME, LAYOUT, VERSION)
NUMBERS: Final = (TIME, LAYOUT, SHARDS)
TTL: Final = "ttl"

LONGEST_ID: Final = 1024

SEPARATOR: Final = "#"
MOST_SHARDS: Final = 1_000

CARRY_OVER: Final = "which starts from zero: carry the balance over with one add whose id is fixed"
"""What a new key means, for messages that recommend one."""


def waste(ids: float, buckets: int) -> float:
    """Return the bytes that *buckets* add to an item of *ids* in a window: expired ids, and names."""
    return ids * ID_BYTES / (buckets - 1) + buckets * BUCKET_BYTES


def bucket_count(ids: float | None = None) -> int:
    """Return the number of live buckets with the least `waste`; the maximum if *ids* is unknown."""
    if ids is None:
        return MOST_BUCKETS
    return min(range(FEWEST_BUCKETS, MOST_BUCKETS + 1), key=lambda buckets: waste(ids, buckets))


def item_overhead(buckets: int) -> int:
    """Return the bytes of an item besides its key, the caller's attributes and the ids."""
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
        """Minimum time that an id is kept, in milliseconds."""
        return self.width * (self.buckets - 1)

    def end(self, number: int) -> int:
        """Return when the ids of bucket *number* are no longer refused, in seconds since 1970."""
        return -(-(number + self.buckets) * self.width // 1_000)

    def number(self, at: datetime) -> int:
        """Return the number of the bucket for the time *at*."""
        return epoch_milliseconds(at) // self.width

    def live(self, number: int) -> range:
        """Return the live buckets, whose ids are refused, while *number* is the newest."""
        return range(number - self.buckets + 1, number + 1)

    def spare(self, number: int) -> range:
        """Return the bucket numbers after *number* whose names no live bucket uses."""
        return range(number + 1, number + NAMES - self.buckets + 1)


def layout_for(window: timedelta, buckets: int | None = None) -> Layout:
    """Return the layout that keeps an id for *window* plus `SKEW`. Raises `Misconfigured`."""
    given: object = window
    if not isinstance(given, timedelta) or window <= timedelta(0):
        raise Misconfigured(f"a ledger's window is a positive timedelta, not {window!r}")
    count = bucket_count() if buckets is None else buckets
    if type(count) is not int or not FEWEST_BUCKETS <= count <= MOST_BUCKETS:
        raise Misconfigured(f"a ledger has {FEWEST_BUCKETS} to {MOST_BUCKETS} buckets, not {count!r}")
    kept = (window + SKEW) // timedelta(milliseconds=1)
    return Layout(width=-(-kept // (count - 1)), buckets=count)


def longest_window_ms(kept_ms: int, buckets: int) -> int:
    """Return the longest window whose ids are kept for at most *kept_ms*; below 1 if there is none."""
    return kept_ms // buckets * (buckets - 1) - SKEW // timedelta(milliseconds=1)


def bucket_name(number: int) -> str:
    return f"{BUCKETS}{number % NAMES}"


class Seen(NamedTuple):
    """An item as it was read: the ledger's own attributes, and the caller's."""

    own: Item
    values: Values
    """Without the key."""


def ledger_table(name: str, key: object) -> PatternTable:
    own = (*map(bucket_name, range(NAMES)), *STAMPS, SHARDS, TTL)
    return PatternTable.of(name, key, dict(zip(own, own, strict=True)))


def place_of(table: PatternTable, item: Item) -> tuple[Any, ...]:
    """Return the key of *item* as a comparable value: one number can be written in several ways."""
    return tuple(plain_item({name: item[name] for name in table.key}).values())


def seen_in(table: PatternTable, item: Mapping[str, Mapping[str, Any]]) -> Seen:
    """Split *item* into `Seen`. Raises `Misconfigured` if other code uses one of the ledger's names."""
    own = table.own_of(item)
    for name, each in own.items():
        if name == TTL:  # others may have written it, of any type
            continue
        whole = each.get("N", "").isdigit() if name in NUMBERS else ("B" if name == VERSION else "BS") in each
        if not whole or not (name == SHARDS or own.keys() >= {*STAMPS}):
            key = plain_item({part: item[part] for part in table.key})
            raise Misconfigured(
                f"attribute {name!r} of item {key} was not written by ledger {table.name!r}. Nothing was "
                f"written. Give the ledger a new key, {CARRY_OVER}"
            )
    return Seen(own, plain_item({name: item[name] for name in item if name not in table.taken}))


def check_shards(table: PatternTable, item: Mapping[str, Mapping[str, Any]], shards: int) -> None:
    """Raise `Misconfigured` if a ledger with another number of *shards* has written *item*."""
    own = table.own_of(item)
    written = int(own[SHARDS]["N"]) if SHARDS in own else 1
    if written == shards or not own.keys() & {SHARDS, VERSION}:
        return
    key = plain_item({name: item[name] for name in table.key})
    if written > 1:
        key[table.key[0]] = str(key[table.key[0]]).partition(SEPARATOR)[0]
    raise Misconfigured(
        f"key {key} of ledger {table.name!r} was written with shards={written}, and this ledger has "
        f"shards={shards}. Nothing was added. Make the ledger with shards={written}, or give it a new key, "
        f"{CARRY_OVER}"
    )


def id_digest(name: object) -> bytes:
    """Return the 8-byte digest of an id; text is encoded as UTF-8. Raises `Misconfigured`."""
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


def home(table: PatternTable, key: object, digest: bytes, shards: int) -> Item:
    """Return the key of the item that an id of this digest belongs to."""
    return key_item(table, key, None if shards == 1 else shard_of(digest, shards))


def homes(table: PatternTable, key: object, shards: int) -> list[Item]:
    """Return the keys of all items of *key*; each holds a part of its sums."""
    numbers = [None] if shards == 1 else range(shards)
    return [key_item(table, key, shard) for shard in numbers]


def key_item(table: PatternTable, key: object, shard: int | None) -> Item:
    """Return the key of the item, or of one of its shards, each of which is its own partition."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(table.key):
        names = " and ".join(table.key)
        raise Misconfigured(f"a key here is {names}: {len(table.key)} parts, not {len(parts)}")
    if shard is not None:  # of several, even the first, which has no number
        name, part = table.key[0], parts[0]
        if not isinstance(part, str) or part == "" or SEPARATOR in part:
            raise Misconfigured(
                f"key {name!r} of a sharded ledger is text without {SEPARATOR!r}, not {part!r}"
            )
        parts = (f"{part}{SEPARATOR}{shard}" if shard else part, *parts[1:])
    return table.key_item(dict(zip(table.key, parts, strict=True)))


# -- an item as it is: *seen* is `Seen.own`


def ids_at(seen: Item, ours: Layout, now: datetime) -> set[bytes]:
    """Return the ids in *seen* that are refused to a writer with the layout *ours*."""
    layout = in_use(seen, ours)
    return set().union(*remembered(seen, layout, newest(seen, layout, now)).values())


def in_use(seen: Item, ours: Layout) -> Layout:
    """
    Return the layout in which to write *seen*: its own, or *ours* if that keeps ids longer.

    Otherwise two writers with different windows would rearrange the ids in turn, and keep them ever longer.
    """
    present = layout_of(seen)
    return ours if present is None or present.span < ours.span else present


def layout_of(seen: Item) -> Layout | None:
    """Return the layout of *seen*; None if no ledger has written it."""
    return Layout(*divmod(int(seen[LAYOUT]["N"]), 100)) if LAYOUT in seen else None


def newest(seen: Item, layout: Layout, now: datetime) -> int:
    """Return the number of the bucket that a write in *layout* adds to. It never decreases."""
    number, present = layout.number(now), layout_of(seen)
    return max(number, time_of(seen)) if present and present.width == layout.width else number


def remembered(seen: Item, layout: Layout, number: int) -> dict[int, set[bytes]]:
    """
    Return the ids of *seen* that are live while *number* is the newest, by bucket of *layout*.

    Ids from a bucket of another width count as added at its end, so that they are kept too long rather than
    too short.
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
