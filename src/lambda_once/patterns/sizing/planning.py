"""
How often a ledger can be written, for how long it remembers ids, and how many items that takes: `plan`.

Two limits hold at once: an item has at most 400 KB, and a partition takes 1,000 write units a second, of
which a write takes one for each KB of the whole item. The item grows with the rate, so the second limit goes
with the square of it: ids of 8 bytes that are remembered for 300 s allow 20 writes a second to one item, not
100. The arithmetic and its sources are in `sizing_limits`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from fractions import Fraction
from typing import Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count
from lambda_once.patterns.ledger.wishes import MOST_SHARDS
from lambda_once.patterns.sizing import words
from lambda_once.patterns.sizing.bounds import LONGEST, SHORTEST, check, span_of
from lambda_once.patterns.sizing.limits import ItemSize, below, read_units, room, write_units

OTHER_BYTES: Final = 200
"""What an item has beside its ids where nobody says: its key, some counters, their names."""


class Quantity(Enum):
    """What a plan is solved for, by the name of its argument."""

    RATE = "rate"
    LIFETIME = "lifetime"
    SHARDS = "shards"
    ID_BYTES = "id_bytes"
    OTHER_BYTES = "other_bytes"


class Limit(Enum):
    """What ends first where more is written."""

    ITEM = "item"
    """An item has at most 400 KB."""
    WRITES = "writes"
    """A partition takes 1,000 write units a second."""


_WORDS_OF_LIMITS: Final = {
    Limit.ITEM: "the size of the item: it has at most 400 KB",
    Limit.WRITES: (
        "the writes: each is charged for the whole item, and a partition takes 1,000 units a second"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    A ledger that keeps both limits. Raises `Misconfigured` for one that does not, with the ways out.

    ``rate``: requests a second to the whole ledger; refused duplicates count, for they are charged alike.
    ``lifetime``: how long an id is remembered at least. ``other_bytes``: an item without its ids.
    """

    rate: float
    lifetime: timedelta
    shards: int
    id_bytes: int
    other_bytes: int
    buckets: int
    solved: Quantity | None = None
    """What was computed from the rest; None where all was given."""

    def __post_init__(self) -> None:
        check(self.rate, self.lifetime, self.shards, self.id_bytes, self.other_bytes, self.buckets)
        if self.item_bytes > room(self.item_rate):
            raise Misconfigured(_ways_out(self))

    @property
    def size(self) -> ItemSize:
        return ItemSize(self.id_bytes, self.other_bytes, self.buckets)

    @property
    def item_rate(self) -> Fraction:
        """Requests a second to one item, where ids spread evenly."""
        return Fraction(self.rate) / self.shards

    @property
    def remembered(self) -> timedelta:
        """How long an id is remembered at most: ids are forgotten a bucket at a time."""
        return timedelta(seconds=float(self.size.held(self.lifetime)))

    @property
    def ids(self) -> int:
        """Ids in one item at most."""
        return self.size.ids(self.item_rate, self.lifetime)

    @property
    def item_bytes(self) -> int:
        """Bytes of one item at most."""
        return self.size.bytes_of(self.ids)

    @property
    def write_units(self) -> int:
        """What one write is charged at most."""
        return write_units(self.item_bytes)

    @property
    def item_units(self) -> float:
        """Write units a second of one item at most; the partition that it lies in takes 1,000."""
        return float(self.item_rate * self.write_units)

    @property
    def total_units(self) -> float:
        """Write units a second of the whole ledger at most: what the table must take, and what is paid."""
        return float(Fraction(self.rate) * self.write_units)

    @property
    def read_units(self) -> int:
        """What reading all items consistently, as for the balance, is charged at most."""
        return read_units(self.item_bytes) * self.shards

    @property
    def limit(self) -> Limit:
        """The limit that a higher rate would break first."""
        by_size = self.size.most_rate_by_size(self.lifetime)
        return Limit.ITEM if self.size.most_rate(self.lifetime) == by_size else Limit.WRITES

    def explain(self) -> list[str]:
        """Return in sentences what it allows, what an item becomes, what that costs, what ends first."""
        solved = {"" if self.solved is None else self.solved.value: " (the most)"}
        each = f"of {self.id_bytes:,} bytes each{solved.get('id_bytes', '')}"
        beside = f"{self.size.fixed:,} bytes beside them{solved.get('other_bytes', '')}"
        units = (
            f"{words.number(self.item_units)} a second for one item, {words.number(self.total_units)} for all"
        )
        kept = f"{words.span(self.lifetime)}{solved.get('lifetime', '')}"
        few = " (the fewest)" if "shards" in solved else ""
        return [
            f"{words.rate(self.rate)}{solved.get('rate', '')} to {words.items(self.shards)}{few}",
            f"an id is remembered for {kept}, and forgotten within about {words.span(self.remembered)}",
            f"ids in an item: at most {self.ids:,}, {each}; with {beside} {words.size(self.item_bytes)}",
            f"write units: at most {self.write_units:,} a write, {units}",
            f"read units: {self.read_units:,} to read it all",
            f"what ends first: {_WORDS_OF_LIMITS[self.limit]}",
        ]


def plan(
    *,
    rate: float | None = None,
    lifetime: timedelta | float | None = None,
    shards: int | None = None,
    id_bytes: int | None = ID_BYTES,
    other_bytes: int | None = OTHER_BYTES,
    buckets: int | None = None,
) -> Plan:
    """
    Compute what is left out, so that both limits are kept, and more would break one.

    *rate* in requests a second, *lifetime* as a `timedelta` or in seconds. Left out, *rate* or *lifetime* is
    the most for *shards* (1 where that is left out too); of *rate* and *lifetime* follow the fewest *shards*.
    ``id_bytes=None`` or ``other_bytes=None`` is the most for *rate*, *lifetime* and *shards* (1). Where
    nothing is left out, the plan is checked. *buckets* is the ledger's.

    Raises `Misconfigured` for what no ledger can be, and says what could.
    """
    span = span_of(lifetime)
    count = bucket_count() if buckets is None else buckets
    check(rate, span, shards, id_bytes, other_bytes, count)
    items = 1 if shards is None else shards
    if id_bytes is None or other_bytes is None:
        if rate is None or span is None:
            raise Misconfigured("the most bytes are those of a rate and a lifetime: give both")
        return _roomiest(rate, span, items, id_bytes, other_bytes, count)
    size = ItemSize(id_bytes, other_bytes, count)
    solved = None
    if span is None:
        if rate is None:
            raise Misconfigured(
                "nothing says how often it is written, or how long ids count: give one or both"
            )
        solved, shards, span = Quantity.LIFETIME, items, _longest(rate, items, size)
    elif rate is None:
        solved, shards, rate = Quantity.RATE, items, below(size.most_rate(span) * items)
    elif shards is None:
        solved, shards = Quantity.SHARDS, _fewest(rate, span, size)
    return Plan(
        rate=rate,
        lifetime=span,
        shards=shards,
        id_bytes=id_bytes,
        other_bytes=other_bytes,
        buckets=count,
        solved=solved,
    )


def _longest(rate: float, shards: int, size: ItemSize) -> timedelta:
    longest = size.longest(Fraction(rate) / shards, LONGEST)
    if longest < SHORTEST:
        raise Misconfigured(
            f"{words.rate(rate)} are too many for {words.items(shards)}, however short ids are remembered: "
            f"give {_fewest(rate, SHORTEST, size):,} shards or more"
        )
    return longest


def _fewest(rate: float, lifetime: timedelta, size: ItemSize) -> int:
    fewest = size.fewest_items(Fraction(rate), lifetime)
    if fewest > MOST_SHARDS:
        raise Misconfigured(
            f"{words.rate(rate)} of ids remembered for {words.span(lifetime)} need {fewest:,} shards, and "
            f"{MOST_SHARDS:,} is the most: write less, or remember ids for less time"
        )
    return fewest


def _roomiest(
    rate: float, lifetime: timedelta, shards: int, id_bytes: int | None, other_bytes: int | None, buckets: int
) -> Plan:
    """Solve for the size that is None. Raises `Misconfigured` where both are, or where nothing fits."""
    if id_bytes is None and other_bytes is None:
        raise Misconfigured("one size follows from the other: give id_bytes or other_bytes")
    known = ItemSize(0 if id_bytes is None else id_bytes, 0 if other_bytes is None else other_bytes, buckets)
    each = Fraction(rate) / shards
    ids = known.ids(each, lifetime)
    spare = room(each) - known.bytes_of(ids)
    found, least = (spare, 0) if other_bytes is None else (spare // ids, 1)
    if found < least:
        raise Misconfigured(
            f"{words.rate(rate)} of ids remembered for {words.span(lifetime)} leave no room in "
            f"{words.items(shards)}: give more shards, write less, or remember ids for less time"
        )
    return Plan(
        rate=rate,
        lifetime=lifetime,
        shards=shards,
        id_bytes=found if id_bytes is None else id_bytes,
        other_bytes=found if other_bytes is None else other_bytes,
        buckets=buckets,
        solved=Quantity.ID_BYTES if id_bytes is None else Quantity.OTHER_BYTES,
    )


# -- what is refused


def _ways_out(broken: Plan) -> str:
    """Say what cannot be, and what could: more items, fewer writes, or ids that are forgotten sooner."""
    size, lifetime, items = broken.size, broken.lifetime, words.items(broken.shards)
    ways = [
        f"{_fewest(broken.rate, lifetime, size):,} shards",
        f"at most {words.rate(below(size.most_rate(lifetime) * broken.shards))}",
    ]
    if (longest := size.longest(broken.item_rate, LONGEST)) >= SHORTEST:
        ways.append(f"ids remembered for {words.span(longest)}")
    return (
        f"{words.rate(broken.rate)} of ids remembered for {words.span(lifetime)} are too many for {items}: "
        f"give {', '.join(ways[:-1])} or {ways[-1]}"
    )
