"""
What one item of a ledger can take, as arithmetic in fractions: nothing is rounded before the end.

    ids of an item    = writes a second × how long ids are held, rounded up
    bytes of an item  = ids × bytes of an id + what it has beside                   at most 409,600
    units a second    = writes a second × bytes / 1,024, rounded up for each        at most 1,000

**The item grows with the rate, and each write is charged for the whole item**: the third line is a quadratic
in the rate.

Sources: DynamoDB developer guide, "Quotas" (an item), "DynamoDB item sizes and formats" (names and values),
"Capacity unit consumption for write operations" (the whole item, the larger of before and after; refused
conditional writes too), "Designing partition keys" (1,000 write units a second of a partition). The guide
says nothing of sets; DynamoDB Local 2.6.1 counts the bytes of their elements, and nothing beside.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Final

from lambda_once.patterns.ledger.layout import SKEW, item_overhead, layout_for

MOST_ITEM_BYTES: Final = 409_600
MOST_UNITS: Final = 1_000
"""Write units a second of one partition, and so of one item."""
UNIT_BYTES: Final = 1_024
READ_UNIT_BYTES: Final = 4_096

_MILLISECONDS: Final = 1_000
"""In a second."""
_MILLISECOND: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class ItemSize:
    """What an item is made of: ids, *other_bytes*, and what the ledger takes for so many *buckets*."""

    id_bytes: int
    other_bytes: int
    buckets: int

    @property
    def fixed(self) -> int:
        """Bytes of an item without ids."""
        return self.other_bytes + item_overhead(self.buckets)

    def bytes_of(self, ids: int) -> int:
        return ids * self.id_bytes + self.fixed

    def ids_in(self, room: int) -> int:
        return max(0, room - self.fixed) // self.id_bytes

    def held(self, lifetime: timedelta) -> Fraction:
        """Return for how many seconds an id is held at most: until all of its bucket are past *lifetime*."""
        return Fraction(layout_for(lifetime, self.buckets).width * self.buckets, _MILLISECONDS)

    def ids(self, rate: Fraction, lifetime: timedelta) -> int:
        """Return the most ids in an item that is written *rate* times a second."""
        return math.ceil(rate * self.held(lifetime))

    def most_rate(self, lifetime: timedelta) -> Fraction:
        """
        Return the most writes a second of one item.

        An item of so many KB takes 1,000 / KB writes a second, and has room for so many ids. The best of all
        sizes up to 400 KB solves the quadratic, to the last id: it is where the one falls below the other.
        """
        held = self.held(lifetime)
        sizes = range(1, MOST_ITEM_BYTES // UNIT_BYTES + 1)
        needed = math.ceil(MOST_UNITS * held)
        crossing = bisect_left(sizes, needed, key=lambda kb: kb * self.ids_in(kb * UNIT_BYTES))
        return max(
            min(Fraction(MOST_UNITS, kb), self.ids_in(kb * UNIT_BYTES) / held)
            for kb in sizes[max(0, crossing - 1) : crossing + 1]
        )

    def most_rate_by_size(self, lifetime: timedelta) -> Fraction:
        """Return what the most would be if 400 KB an item were the only limit."""
        return self.ids_in(MOST_ITEM_BYTES) / self.held(lifetime)

    def most_rate_by_units(self, lifetime: timedelta) -> float:
        """Return what the most would be if 1,000 units a second were the only limit, by the quadratic."""
        a, b = float(self.id_bytes * self.held(lifetime)), self.fixed
        return (math.sqrt(b * b + 4 * a * MOST_UNITS * UNIT_BYTES) - b) / (2 * a)

    def fewest_items(self, rate: Fraction, lifetime: timedelta) -> int:
        """Return how many items *rate* writes a second take, spread evenly."""
        return math.ceil(rate / self.most_rate(lifetime))

    def longest(self, rate: Fraction, at_most: timedelta) -> timedelta:
        """Return for how long an item that is written *rate* times a second remembers ids; 0 or less: not."""
        width = math.floor(self.ids_in(room(rate)) / rate * _MILLISECONDS / self.buckets)
        kept = min(width * (self.buckets - 1), (at_most + SKEW) // _MILLISECOND)
        return kept * _MILLISECOND - SKEW


def write_units(size: int) -> int:
    """Return what writing an item of *size* bytes is charged: one for each KB begun."""
    return math.ceil(size / UNIT_BYTES)


def read_units(size: int) -> int:
    """Return what reading it consistently is charged: one for every 4 KB begun."""
    return math.ceil(size / READ_UNIT_BYTES)


def room(rate: Fraction) -> int:
    """Return the bytes that an item may have which is written *rate* times a second, by both limits."""
    return min(MOST_ITEM_BYTES, math.floor(MOST_UNITS / rate) * UNIT_BYTES)


def below(most: Fraction) -> float:
    """Return *most* as a float that is not greater."""
    near = float(most)
    return near if Fraction(near) <= most else math.nextafter(near, 0)
