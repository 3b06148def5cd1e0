"""
Where a ledger item keeps the ids it has seen, and how many bytes that takes.

An id is kept as a digest of 8 bytes, in a binary set that stands for one stretch of time, a bucket. Bucket
number n is the time from n × width to (n + 1) × width since 1970. The newest `Layout.buckets` of them are
live: their ids are refused. Number n is stored in attribute ``b<n mod 64>``, so a name comes round again, and
is emptied long before that: each write removes the names of all numbers that are not live.

    bt  the number of the newest bucket, the item's own time: it never goes back
    bw  the width, in milliseconds: of another window, the numbers mean something else
    bl  the layout whole, ``100 × width + buckets``; items of before have none
    bv  how often the item was written through a ledger
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from lambda_once.core.clock import epoch_milliseconds
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from datetime import datetime

ID_BYTES: Final = 8
"""What one id takes in the item: its digest. A set adds nothing for an element (DynamoDB Local 2.6.1)."""

BUCKET_BYTES: Final = 3
"""What one bucket takes beside its ids: its name. A set adds nothing of its own (DynamoDB Local 2.6.1)."""

STAMP_BYTES: Final = 30
"""
What ``bt``, ``bw``, ``bl`` and ``bv`` take: names of 2 bytes, and for each number a byte for two digits and
one more.

``bt`` and ``bw`` have 14 digits between them, for their product is the time; widths have 11, writes 9.
"""

FEWEST_BUCKETS: Final = 2
MOST_BUCKETS: Final = 32
"""Beyond 32, another bucket saves less than a thousandth of the ids' bytes, and every request grows by it."""

NAMES: Final = 64
"""How many names there are: at least as many spare ones as live ones."""

SKEW: Final = timedelta(seconds=2)
"""How far the clocks of writers may be apart without an id being forgotten within its window."""

TIME, WIDTH, LAYOUT, VERSION = "bt", "bw", "bl", "bv"

LONGEST_ID: Final = 1024

_ITS_OWN: Final = re.compile(r"b([0-9]+|[twlv])")


def waste(ids: float, buckets: int) -> float:
    """
    Return the bytes that *buckets* cost an item that sees *ids* in a window, beyond those ids' own.

    The oldest bucket goes as a whole, so ids stay up to one width, window / (buckets - 1), too long; and each
    bucket has a name.
    """
    return ids * ID_BYTES / (buckets - 1) + buckets * BUCKET_BYTES


def bucket_count(ids: float | None = None) -> int:
    """
    Return the number of live buckets of the least `waste`, for an item that sees *ids* in a window.

    Where *ids* is not known it is the most: a bucket that holds nothing is not stored.
    """
    if ids is None:
        return MOST_BUCKETS
    return min(range(FEWEST_BUCKETS, MOST_BUCKETS + 1), key=lambda buckets: waste(ids, buckets))


def overhang(buckets: int) -> float:
    """Return how many windows an id is kept at most: it is kept for one at least."""
    return buckets / (buckets - 1)


def item_overhead(buckets: int) -> int:
    """Return the bytes that an item takes beside its key, the caller's attributes and the ids."""
    return buckets * BUCKET_BYTES + STAMP_BYTES


@dataclass(frozen=True, slots=True)
class Layout:
    """How ids are kept: in *buckets* stretches of *width* milliseconds."""

    width: int
    buckets: int

    @property
    def written(self) -> int:
        """As the item says it."""
        return self.width * 100 + self.buckets

    @property
    def span(self) -> int:
        """How long an id is kept at least, in milliseconds."""
        return self.width * (self.buckets - 1)

    def number(self, at: datetime) -> int:
        """Return the number of the bucket of this time."""
        return epoch_milliseconds(at) // self.width

    def live(self, number: int) -> range:
        """Return the numbers whose ids are refused while *number* is the newest."""
        return range(number - self.buckets + 1, number + 1)

    def spare(self, number: int) -> range:
        """Return the numbers that follow *number* and whose names none of the live ones bears."""
        return range(number + 1, number + NAMES - self.buckets + 1)


def layout_for(window: timedelta, buckets: int | None = None) -> Layout:
    """
    Return the layout that keeps an id for *window* at least, by clocks at most `SKEW` apart.

    Raises `Misconfigured` for a window that is not positive and for a number of buckets out of bounds.
    """
    given: object = window
    if not isinstance(given, timedelta) or window <= timedelta(0):
        raise Misconfigured(f"a ledger's window is a positive timedelta, not {window!r}")
    count = bucket_count() if buckets is None else buckets
    if type(count) is not int or not FEWEST_BUCKETS <= count <= MOST_BUCKETS:
        raise Misconfigured(f"a ledger has {FEWEST_BUCKETS} to {MOST_BUCKETS} buckets, not {count!r}")
    kept = (window + SKEW) // timedelta(milliseconds=1)
    return Layout(width=-(-kept // (count - 1)), buckets=count)


def bucket_name(number: int) -> str:
    """Return the attribute of bucket *number*."""
    return f"b{number % NAMES}"


def is_its_own(name: str) -> bool:
    """Tell whether *name* is an attribute that the ledger keeps for itself."""
    return _ITS_OWN.fullmatch(name) is not None


def id_digest(name: str | bytes) -> bytes:
    """Return the 8 bytes that stand for an id; text counts by its UTF-8. Raises `Misconfigured`."""
    return sha256(_id_bytes(name)).digest()[:ID_BYTES]


def shard_of(digest: bytes, shards: int) -> int:
    """Return the shard that an id of this digest belongs to: the same one every time."""
    return int.from_bytes(digest, "big") % shards


def _id_bytes(name: object) -> bytes:
    if not isinstance(name, str | bytes):
        raise Misconfigured(f"an id is text or bytes, not {type(name).__name__}: give the message's own id")
    try:
        written = name.encode() if isinstance(name, str) else name
    except UnicodeEncodeError:
        raise Misconfigured("an id of text must be valid Unicode: it holds half a surrogate pair") from None
    if not 1 <= len(written) <= LONGEST_ID:
        raise Misconfigured(f"an id has 1 to {LONGEST_ID:,} bytes, this one has {len(written):,}")
    return written
