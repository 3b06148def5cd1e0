"""
Size a ledger: `plan` computes the rate, the lifetime of ids, the number of shards or a size in bytes.

Two limits of DynamoDB apply to an item that collects ids. Nothing is rounded before the end:

    ids    = writes a second to the item × seconds that an id is kept
    bytes  = ids × id_bytes + other_bytes + what the ledger adds            at most 409,600
    units  = writes a second × KB of the item, rounded up for each write    at most 1,000 a second

Every write is charged for the whole item, and the item grows with the rate, so the third line is quadratic in
the rate: 8-byte ids that are kept for 300 s allow 20 writes a second to one item, not 100.

Sources: DynamoDB developer guide, "Quotas", "DynamoDB item sizes and formats", "Capacity unit consumption for
write operations" (the whole item; refused writes too), "Designing partition keys". The guide does not give
the size of a set; DynamoDB Local 2.6.1 counts the bytes of its elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from fractions import Fraction
from typing import Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.arguments import MOST_SHARDS
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count, item_overhead, layout_for

OTHER_BYTES: Final = 200
"""Bytes of an item beside its ids where nothing is given: its key, some counters, their names."""
MOST_ITEM_BYTES: Final = 409_600
MOST_UNITS: Final = 1_000
"""Write units a second of one partition, and so of one item."""
UNIT_BYTES: Final = 1_024
READ_UNIT_BYTES: Final = 4_096
LONGEST: Final = timedelta(days=36_525)

_MILLISECOND: Final = timedelta(milliseconds=1)
_BOUNDS: Final[dict[str, tuple[Any, Any, str]]] = {
    "rate": (1e-10, 1e6, "writes a second, 1e-10 to 1,000,000"),
    "lifetime": (_MILLISECOND, LONGEST, "a time of 1 ms to 100 years; a number is in seconds"),
    "shards": (1, MOST_SHARDS, f"a whole number, 1 to {MOST_SHARDS:,}"),
    "id_bytes": (1, MOST_ITEM_BYTES, f"a whole number, 1 to {MOST_ITEM_BYTES:,}"),
    "other_bytes": (0, MOST_ITEM_BYTES, f"a whole number, 0 to {MOST_ITEM_BYTES:,}"),
}


class Limit(Enum):
    """The limit that a higher rate would exceed first."""

    ITEM = "the size of the item, at most 400 KB"
    WRITES = "1,000 write units a second: each write is charged for the whole item"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlan:
    """
    A ledger within both limits, as `plan` computes it. Bytes, ids and units are the most there will be.

    ``rate`` is in requests a second to the whole ledger; refused duplicates count, they are charged alike. An
    id is remembered for ``lifetime`` at least and ``remembered`` at most. ``other_bytes`` is an item without
    ids. ``item_units`` are the write units a second of one item, whose partition takes 1,000;
    ``total_units`` those of the whole ledger; ``read_units`` those of one consistent `Ledger.get`.
    """

    rate: float
    lifetime: timedelta
    remembered: timedelta
    shards: int
    id_bytes: int
    other_bytes: int
    buckets: int
    ids: int
    item_bytes: int
    write_units: int
    item_units: float
    total_units: float
    read_units: int
    limit: Limit
    solved: str | None
    """The argument of `plan` that was computed; None where all were given."""

    def explain(self) -> list[str]:
        """Return the plan in lines of text."""
        most = {self.solved: " (the fewest)" if self.solved == "shards" else " (the most)"}
        rate, shards = f"{rate_text(self.rate)}{most.get('rate', '')}", _items(self.shards)
        lifetime, remembered = f"{_time(self.lifetime)}{most.get('lifetime', '')}", _time(self.remembered)
        ids = f"{self.ids:,} of {self.id_bytes:,} bytes{most.get('id_bytes', '')}"
        other = f"{self.item_bytes - self.ids * self.id_bytes:,} others{most.get('other_bytes', '')}"
        units = f"item {_digits(self.item_units)}, all {_digits(self.total_units)}"
        return [
            f"writes: {rate}, to {shards}{most.get('shards', '')}",
            f"an id is remembered for {lifetime}, and forgotten within about {remembered}",
            f"an item: at most {self.item_bytes:,} bytes, ids {ids}, and {other}",
            f"write units: at most {self.write_units:,} a write; a second: {units}",
            f"read units: {self.read_units:,} to read it all",
            f"next limit: {self.limit.value}",
        ]


def plan(
    *,
    rate: float | None = None,
    lifetime: timedelta | float | None = None,
    shards: int | None = None,
    id_bytes: int | None = ID_BYTES,
    other_bytes: int | None = OTHER_BYTES,
    buckets: int | None = None,
) -> LedgerPlan:
    """
    Compute what is left out: the most, or the fewest shards, within both limits.

    *rate* is in requests a second, *lifetime* a `timedelta` or seconds. Left out, *rate* or *lifetime* is
    the most for *shards* (1 by default); both given, *shards* is the fewest. ``id_bytes=None`` or
    ``other_bytes=None`` is the most for *rate*, *lifetime* and *shards* (1 by default). With everything
    given, the plan is checked. *buckets* is the ledger's. Raises `Misconfigured`, with what is possible.
    """
    count = bucket_count() if buckets is None else buckets
    given = {"rate": rate, "lifetime": lifetime, "shards": shards} | {
        "id_bytes": id_bytes,
        "other_bytes": other_bytes,
    }
    known: dict[str, Any] = {name: _checked(name, each) for name, each in given.items() if each is not None}
    unknown = [name for name in given if name not in known]
    if len(unknown) > 1 and shards is None:
        unknown.remove("shards")
        known["shards"] = 1
    if len(unknown) > 1:
        raise Misconfigured(f"{' and '.join(unknown)} depend on one another: give one of them")
    if unknown == ["shards"] and not _fits(known | {"shards": MOST_SHARDS}, count):
        known["shards"] = MOST_SHARDS  # too few: the alternatives follow
    elif unknown:
        known[unknown[0]] = _most(unknown[0], known, count)
    if not _fits(known, count):
        raise Misconfigured(_alternatives(known, count))
    return _plan(known, count, unknown[0] if unknown else None)


def _plan(known: dict[str, Any], buckets: int, solved: str | None) -> LedgerPlan:
    item_rate = Fraction(known["rate"]) / known["shards"]
    ids, size = _ids_and_bytes(known, buckets)
    units = write_units(size)
    beyond = math.nextafter(_most("rate", known, buckets), math.inf)
    _, too_large = _ids_and_bytes(known | {"rate": beyond}, buckets)
    return LedgerPlan(
        **known,
        remembered=timedelta(seconds=float(_kept(known["lifetime"], buckets))),
        buckets=buckets,
        ids=ids,
        item_bytes=size,
        write_units=units,
        item_units=float(item_rate * units),
        total_units=float(Fraction(known["rate"]) * units),
        read_units=read_units(size) * known["shards"],
        limit=Limit.ITEM if too_large > MOST_ITEM_BYTES else Limit.WRITES,
        solved=solved,
    )


def write_units(size: int) -> int:
    """Return the write units of writing an item of *size* bytes: one for each KB begun."""
    return math.ceil(size / UNIT_BYTES)


def read_units(size: int) -> int:
    """Return the read units of a consistent read: one for every 4 KB begun."""
    return math.ceil(size / READ_UNIT_BYTES)


def _checked(name: str, value: Any) -> Any:
    """Return *value*, a lifetime as a `timedelta`. Raises `Misconfigured` where it is out of bounds."""
    least, most, wanted = _BOUNDS[name]
    kinds = {"rate": (int, float), "lifetime": (timedelta,)}.get(name, (int,))
    found = value
    if name == "lifetime" and type(value) in (int, float) and abs(value) < LONGEST.total_seconds():
        found = timedelta(seconds=value)
    if isinstance(found, bool) or not isinstance(found, kinds) or not least <= found <= most:
        shown = value if isinstance(value, timedelta) else repr(value)
        raise Misconfigured(f"{name} is {shown}: give {wanted}")
    return found


# -- both limits, and the most within them


def _kept(lifetime: timedelta, buckets: int) -> Fraction:
    """Return the seconds that an id is kept at most: until its whole bucket is past *lifetime*."""
    return Fraction(layout_for(lifetime, buckets).width * buckets, 1_000)


def _ids_and_bytes(known: dict[str, Any], buckets: int) -> tuple[int, int]:
    """Return the most ids in one item, and its bytes."""
    ids = math.ceil(Fraction(known["rate"]) / known["shards"] * _kept(known["lifetime"], buckets))
    return ids, ids * known["id_bytes"] + known["other_bytes"] + item_overhead(buckets)


def _fits(known: dict[str, Any], buckets: int) -> bool:
    """Return whether both limits are kept. Then they are with less of anything, and with more shards."""
    _, size = _ids_and_bytes(known, buckets)
    writes = math.floor(MOST_UNITS * known["shards"] / Fraction(known["rate"]))
    return bool(size <= min(MOST_ITEM_BYTES, writes * UNIT_BYTES))


def _most(name: str, known: dict[str, Any], buckets: int) -> Any:
    """Return the most of *name* that fits, or the fewest shards, by bisection. Raises `Misconfigured`."""
    low, high, _ = _BOUNDS[name]

    def fits(value: Any) -> bool:
        return _fits(known | {name: value}, buckets)

    if not fits(high if name == "shards" else low):
        given = ", ".join(f"{each}={value}" for each, value in known.items() if each != name)
        raise Misconfigured(f"no {name} fits {given}: change one of these")
    if name == "rate":
        while low < (middle := (low + high) / 2) < high:
            low, high = (middle, high) if fits(middle) else (low, middle)
        return float(low)
    if name == "shards":
        return -_greatest(-high, -low, lambda number: fits(-number))
    if name == "lifetime":
        return _greatest(1, high // low, lambda number: fits(number * low)) * low
    return _greatest(low, high, fits)


def _greatest(low: int, high: int, fits: Callable[[int], bool]) -> int:
    """Return the greatest number from *low*, which fits, to *high* that fits."""
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _alternatives(known: dict[str, Any], buckets: int) -> str:
    """Return the message for a plan that does not fit, with the most of each quantity that would."""
    shown: dict[str, Callable[[Any], str]] = {
        "shards": lambda most: f"{most:,} shards",
        "rate": lambda most: f"at most {rate_text(most)}",
        "lifetime": lambda most: f"a lifetime of {_time(most)}",
    }
    ways = []
    for name, text in shown.items():
        with suppress(Misconfigured):
            ways.append(text(_most(name, known, buckets)))
    rate, lifetime = rate_text(known["rate"]), _time(known["lifetime"])
    return f"{_items(known['shards'])} cannot take {rate} for {lifetime}: give {' or '.join(ways)}"


# -- text: every quantity is rounded so that the plan still holds


def rate_text(rate: float) -> str:
    """Return a rate as the command line takes it, rounded down to three digits."""
    units = ((1, "s"), (60, "m"), (3_600, "h"), (86_400, "d"))
    seconds, unit = next((each for each in units if rate * each[0] >= 1), units[-1])
    return f"{_digits(rate * seconds)}/{unit}"


def _digits(number: float) -> str:
    """Return a positive number rounded down to three digits; whole numbers are whole."""
    places = max(0, 2 - math.floor(math.log10(number)))
    digits = math.floor(number * 10**places * (1 + 1e-12))  # 2.3 × 100 is 229.99… in floats
    return f"{digits / 10**places:,.{places}f}".rstrip("0").rstrip(".") if places else f"{digits:,}"


def _time(span: timedelta) -> str:
    """Return a length of time, rounded down to the second from a minute on."""
    return str(span - span % timedelta(seconds=1) if span >= timedelta(minutes=1) else span)


def _items(shards: int) -> str:
    return "1 item" if shards == 1 else f"{shards:,} items"
