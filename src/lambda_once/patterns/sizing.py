"""
Size a ledger by the two limits of the item that collects its ids.

    ids    = ids a second to the item × seconds that an id is kept
    bytes  = ids × id_bytes + other_bytes + what the ledger adds         at most 409,600
    units  = ids a second × KB of the item, rounded up for each write    at most 1,000 a second

Nothing is rounded before the end.

Sources: DynamoDB developer guide, "Quotas", "Capacity unit consumption for write operations" (the whole item;
refused writes too), "Designing partition keys"; the size of a set is measured with dynoxide 3.2.0.
"""

from __future__ import annotations

import math
from datetime import timedelta
from fractions import Fraction
from typing import Any, Final, NamedTuple

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import (
    ID_BYTES,
    MOST_SHARDS,
    SHARDS_BYTES,
    bucket_count,
    item_overhead,
    layout_for,
    longest_window_ms,
)

OTHER_BYTES: Final = 200
"""Default bytes of an item besides its ids: its key, some counters, their names."""
MOST_ITEM_BYTES: Final = 409_600
MOST_UNITS: Final = 1_000
"""Write units a second of one partition, and so of one item."""
BOUNDS: Final[dict[str, tuple[Any, float, float]]] = {
    "rate": ((int, float), 1e-6, 1e6),
    "id_bytes": (int, 1, MOST_ITEM_BYTES),
    "other_bytes": (int, 0, MOST_ITEM_BYTES),
}
"""The types, minimum and maximum of each number that `plan` takes."""


class LedgerPlan(NamedTuple):
    """
    A sized ledger, with at most *ids* and *item_bytes* in each item.

    *rate* is in ids a second to all *shards*, including duplicates, which are charged alike. *write_units* is
    what one write costs at most.
    """

    rate: float
    lifetime: timedelta
    shards: int
    ids: int
    item_bytes: int
    write_units: int


def plan(
    *,
    rate: float | None = None,
    lifetime: timedelta | None = None,
    id_bytes: int = ID_BYTES,
    other_bytes: int = OTHER_BYTES,
) -> LedgerPlan:
    """
    Return the fewest shards for *rate*, in ids a second, and *lifetime*, which is the ledger's window.

    If one of the two is missing, return the most of it that one item takes. Raises `Misconfigured` if no
    ledger takes what is given.
    """
    given = {"rate": rate, "lifetime": lifetime, "id_bytes": id_bytes, "other_bytes": other_bytes}
    for name, (kinds, least, most) in BOUNDS.items():
        value: Any = given[name]
        if value is None and name == "rate":
            continue
        if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
            raise Misconfigured(f"{name} is {value!r}: give a number from {least:g} to {most:g}")
    fixed = other_bytes + item_overhead(bucket_count())
    if lifetime is not None:
        rate = _most_rate(_kept_ms(lifetime), id_bytes, fixed) if rate is None else rate
    elif rate is not None:
        lifetime = _longest_lifetime(rate, id_bytes, fixed)
    else:
        raise Misconfigured("give rate, lifetime, or both")
    if rate > 0 and lifetime:
        for shards in range(1, MOST_SHARDS + 1):
            ids = math.ceil(Fraction(rate) * _kept_ms(lifetime) / 1_000 / shards)
            size = ids * id_bytes + fixed + (SHARDS_BYTES if shards > 1 else 0)
            units = -(-size // 1_024)
            if size <= MOST_ITEM_BYTES and Fraction(rate) / shards * units <= MOST_UNITS:
                return LedgerPlan(rate, lifetime, shards, ids, size, units)
    shown = ", ".join(f"{name}={each}" for name, each in given.items() if each is not None)
    taker = "item" if None in given.values() else f"ledger of {MOST_SHARDS:,} shards"
    raise Misconfigured(f"no {taker} takes {shown}: give less of one of these")


def _kept_ms(lifetime: timedelta) -> int:
    """Return how long an id is kept at most, in milliseconds: the lifetime and up to one bucket's width."""
    layout = layout_for(lifetime)
    return layout.width * layout.buckets


def _most_rate(kept_ms: int, id_bytes: int, fixed: int) -> float:
    """Return the maximum rate of one item: the lower of both limits at each size, at the best size."""
    exact = max(
        min((kb * 1_024 - fixed) // id_bytes * Fraction(1_000, kept_ms), Fraction(MOST_UNITS, kb))
        for kb in range(1, MOST_ITEM_BYTES // 1_024 + 1)
    )
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0)


def _longest_lifetime(rate: float, id_bytes: int, fixed: int) -> timedelta:
    """Return the maximum lifetime of one item: the most ids that both limits allow, over their rate; or 0."""
    room = min(math.floor(MOST_UNITS / Fraction(rate)) * 1_024, MOST_ITEM_BYTES)
    kept_ms = math.floor((room - fixed) // id_bytes * 1_000 / Fraction(rate))
    return timedelta(milliseconds=max(0, longest_window_ms(kept_ms, bucket_count())))
