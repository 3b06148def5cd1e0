"""
Size a ledger: `plan` computes the rate, the lifetime of ids, the number of shards or a size in bytes.

Two limits of DynamoDB apply to an item that collects ids. Nothing is rounded before the end:

    ids    = writes a second to the item × seconds that an id is kept
    bytes  = ids × id_bytes + other_bytes + what the ledger adds            at most 409,600
    units  = writes a second × KB of the item, rounded up for each write    at most 1,000 a second

Sources: DynamoDB developer guide, "Quotas", "Capacity unit consumption for write operations" (the whole item;
refused writes too), "Designing partition keys", "Warm throughput"; the size of a set is DynamoDB Local's.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import ROUND_FLOOR, Context
from enum import Enum
from fractions import Fraction
from functools import partial
from typing import Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.arguments import MOST_SHARDS
from lambda_once.patterns.ledger.layout import ID_BYTES, bucket_count, item_overhead, layout_for

OTHER_BYTES: Final = 200
"""Bytes of an item beside its ids where nothing is given: its key, some counters, their names."""
HEADROOM: Final = 1 / 3
"""The part of both limits that is left free, for bursts and for shards that get more than others."""
MOST_ITEM_BYTES: Final = 409_600
MOST_UNITS: Final = 1_000
"""Write units a second of one partition, and so of one item."""
NEW_TABLE_UNITS: Final = 4_000
"""Write units a second that a new on-demand table takes."""
UNIT_BYTES: Final = 1_024
READ_UNIT_BYTES: Final = 4_096
LONGEST: Final = timedelta(days=36_525)
PERIODS: Final = {name: timedelta(**{f"{name}s": 1}) for name in ("day", "hour", "minute", "second")}
RATE_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Seconds of the units in which the command line takes a rate."""

_MS: Final = timedelta(milliseconds=1)
_BOUNDS: Final[dict[str, tuple[Any, Any, Any, str]]] = {
    "rate": ((int, float), 1e-10, 1e6, "writes a second, 1e-10 to 1,000,000"),
    "lifetime": (timedelta, _MS, LONGEST, "a time of 1 ms to 100 years; a number is in seconds"),
    "shards": (int, 1, MOST_SHARDS, f"a whole number, 1 to {MOST_SHARDS:,}"),
    "id_bytes": (int, 1, MOST_ITEM_BYTES, f"a whole number, 1 to {MOST_ITEM_BYTES:,}"),
    "other_bytes": (int, 0, MOST_ITEM_BYTES, f"a whole number, 0 to {MOST_ITEM_BYTES:,}"),
    "headroom": ((int, float), 0, 0.9, "the part of both limits to leave free, 0 to 0.9"),
}
_ROW: Final = "{0:<20}{1.shards:>8,}{1.item_bytes:>12,}{1.write_units:>13,}{2:>10,}{1.read_units:>12,}"


class Limit(Enum):
    """The limit that a higher rate would exceed first."""

    ITEM = "the size of the item, at most 400 KB"
    WRITES = "1,000 write units a second: each write is charged for the whole item"


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerPlan:
    """
    A ledger within both limits, as `plan` computes it. Bytes, ids and units are the most there will be.

    ``rate`` is in requests a second to the whole ledger; refused duplicates count, they are charged alike. An
    id is remembered for ``lifetime`` at least and ``remembered`` at most. ``solved`` is the argument that was
    computed. With a ``period`` of `PERIODS`, each period has an item of its own. ``item_units`` are the write
    units a second of one item, ``total_units`` those of the ledger, ``read_units`` those of one consistent
    `Ledger.get`. ``warm_units`` is the warm throughput that a new on-demand table needs, if any.
    """

    rate: float
    lifetime: timedelta
    shards: int
    id_bytes: int
    other_bytes: int
    headroom: float
    buckets: int
    solved: str | None
    period: str | None = None
    remembered: timedelta = field(init=False)
    ids: int = field(init=False)
    item_bytes: int = field(init=False)
    write_units: int = field(init=False)
    item_units: float = field(init=False)
    total_units: float = field(init=False)
    read_units: int = field(init=False)
    warm_units: int | None = field(init=False)
    limit: Limit = field(init=False)

    def __post_init__(self) -> None:
        put = partial(object.__setattr__, self)  # a frozen value computes its fields once
        layout = layout_for(self.lifetime, self.buckets)
        put("remembered", layout.width * layout.buckets * _MS)
        kept = min(self.remembered, PERIODS.get(self.period or "", self.remembered)) // _MS
        writes, seconds = self.rate.as_integer_ratio()
        put("ids", -(-writes * kept // (seconds * 1_000 * self.shards)))
        fixed = self.other_bytes + item_overhead(self.buckets)
        put("item_bytes", self.ids * self.id_bytes + fixed)
        put("write_units", write_units(self.item_bytes))
        put("total_units", self.rate * self.write_units)
        put("item_units", self.total_units / self.shards)
        put("read_units", read_units(self.item_bytes) * self.shards)
        put("warm_units", math.ceil(self.total_units) if self.total_units > NEW_TABLE_UNITS else None)
        most_ids = math.floor(MOST_ITEM_BYTES * (1 - self.headroom) - fixed) // self.id_bytes
        full_first = most_ids * write_units(MOST_ITEM_BYTES) * 1_000 <= MOST_UNITS * kept
        put("limit", Limit.ITEM if full_first else Limit.WRITES)

    def fits(self, most_units: int = MOST_UNITS) -> bool:
        """Return whether both limits are kept. Then they are with less of anything, and with more shards."""
        writes, seconds = self.rate.as_integer_ratio()
        usable, whole = (1 - Fraction(self.headroom)).as_integer_ratio()
        within = writes * self.write_units * whole <= MOST_UNITS * usable * self.shards * seconds
        small = self.item_bytes * whole <= MOST_ITEM_BYTES * usable
        return within and small and self.write_units <= most_units

    @property
    def cheapest(self) -> LedgerPlan:
        """The fewest shards with the fewest write units: with more, no write is charged less."""
        return _most(self, "shards", replace(self, shards=MOST_SHARDS).write_units) or self

    @property
    def by_period(self) -> LedgerPlan | None:
        """One item for the longest of `PERIODS` that at least halves what a write is charged."""
        plans = (replace(self, shards=1, period=name) for name in PERIODS)
        return next((each for each in plans if each.fits(self.write_units // 2)), None)

    def explain(self) -> list[str]:
        """Return the plan in lines of text."""
        name, best = ("the fewest",) * 2 if self.solved == "shards" else ("this plan", "the most")
        text = {each: _text(each, getattr(self, each)) for each in _BOUNDS}
        text["other_bytes"] = f"{self.item_bytes - self.ids * self.id_bytes:,}"
        text |= {self.solved: f"{text[self.solved]} ({best})"} if self.solved else {}
        rows, notes = {name: self, "the cheapest": self.cheapest}, []
        if row := self.by_period:
            rows[f"one item per {row.period}"] = row
            notes.append(f"one item per {row.period}: its key ends with the {row.period} of the message")
        if self.warm_units:
            notes.append(
                f"a new on-demand table takes {NEW_TABLE_UNITS:,} units/s: before traffic starts, set its "
                f"warm throughput to {self.warm_units:,} write units, or provision as many"
            )
        kept = f"{text['lifetime']}, and forgotten after about {_time(self.remembered)}"
        ids = f"{self.ids:,} ids of {text['id_bytes']} bytes at most"
        return [
            f"shards: {text['shards']} for {text['rate']}; an id is kept for {kept}",
            f"an item: {ids}, others {text['other_bytes']} bytes",
            f"{'shards':>28}{'bytes/item':>12}{'units/write':>13}{'units/s':>10}{'read units':>12}",
            *(_ROW.format(name, row, math.ceil(row.total_units)) for name, row in rows.items()),
            f"headroom: {text['headroom']} of both limits; next limit: {self.limit.value}",
            *notes,
        ]


def plan(
    *,
    rate: float | None = None,
    lifetime: timedelta | float | None = None,
    shards: int | None = None,
    id_bytes: int | None = ID_BYTES,
    other_bytes: int | None = OTHER_BYTES,
    buckets: int | None = None,
    headroom: float = HEADROOM,
) -> LedgerPlan:
    """
    Compute what is left out: the most, or the fewest shards, within both limits less *headroom*.

    *rate* is in requests a second, *lifetime* a `timedelta` or seconds; without one of them *shards* is 1 by
    default. ``id_bytes=None`` or ``other_bytes=None`` computes the most. If everything is given, the plan is
    checked. *buckets* is the ledger's. Raises `Misconfigured`, with what is possible.
    """
    given = dict(zip(_BOUNDS, (rate, lifetime, shards, id_bytes, other_bytes, headroom), strict=True))
    known: dict[str, Any] = {name: _checked(name, each) for name, each in given.items() if each is not None}
    unknown = [name for name in given if name not in known]
    if len(unknown) > 1 and shards is None:
        unknown.remove("shards")
        known["shards"] = 1
    if len(unknown) > 1:
        raise Misconfigured(f"{' and '.join(unknown)} depend on one another: give one of them")
    easiest: dict[str, Any] = {name: _BOUNDS[name][2 if name == "shards" else 1] for name in unknown}
    count = bucket_count() if buckets is None else buckets
    draft = LedgerPlan(**easiest | known, buckets=count, solved=unknown[0] if unknown else None)
    if found := _most(draft, unknown[0]) if unknown else draft if draft.fits() else None:
        return found
    most = {name: _most(draft, name) for name in ("shards", "rate", "lifetime")}
    ways = [f"{name}={_text(name, getattr(each, name))}" for name, each in most.items() if each]
    values = ", ".join(f"{name}={_text(name, each)}" for name, each in known.items())
    raise Misconfigured(f"no plan fits {values}: give {' or '.join(ways) or 'less of one of these'}")


def write_units(size: int) -> int:
    """Return the write units of an item: one for each KB begun."""
    return -(-size // UNIT_BYTES)


def read_units(size: int) -> int:
    """Return the read units of a consistent read: one for every 4 KB begun."""
    return -(-size // READ_UNIT_BYTES)


def _checked(name: str, value: Any) -> Any:
    """Return *value*, a lifetime as a `timedelta`. Raises `Misconfigured` where it is out of bounds."""
    kinds, least, most, wanted = _BOUNDS[name]
    seconds = name == "lifetime" and type(value) in (int, float) and abs(value) < LONGEST.total_seconds()
    found = timedelta(seconds=value) if seconds else value
    if isinstance(found, bool) or not isinstance(found, kinds) or not least <= found <= most:
        shown = str(value) if isinstance(value, timedelta) else repr(value)
        raise Misconfigured(f"{name} is {shown}: give {wanted}")
    return found


def _most(draft: LedgerPlan, name: str, most_units: int = MOST_UNITS) -> LedgerPlan | None:
    """Return *draft* with the most of *name* that fits, or the fewest shards; None where nothing does."""
    _, low, high, _ = _BOUNDS[name]
    if name == "rate":  # positive floats have the order of their bits
        low, high = struct.unpack("2q", struct.pack("2d", low, high))
    numbers = range(1, high // low + 1) if name == "lifetime" else range(low, high + 1)
    if name == "shards":
        numbers = numbers[::-1]

    def tried(number: int) -> LedgerPlan:
        value: Any = struct.unpack("d", struct.pack("q", number))[0] if name == "rate" else number
        return replace(draft, **{name: value * _MS if name == "lifetime" else value})

    fitting = bisect_left(numbers, 1, key=lambda number: not tried(number).fits(most_units))
    return tried(numbers[fitting - 1]) if fitting else None


# -- text: every quantity is rounded so that the plan still holds


def rate_text(rate: float) -> str:
    """Return a rate as the command line takes it, rounded down to three digits; whole numbers are whole."""
    unit = next((unit for unit, seconds in RATE_UNITS.items() if rate * seconds >= 1), "d")
    number = rate * RATE_UNITS[unit]
    context = Context(prec=max(3, len(str(int(number)))), rounding=ROUND_FLOOR)
    return f"{context.create_decimal(f'{number:.12g}').normalize():,f}/{unit}"


def _time(span: timedelta) -> str:
    """Return a length of time, rounded down to the second from a minute on."""
    if span < PERIODS["minute"]:
        return f"{span.total_seconds():g} s"
    minutes, seconds = divmod(span.seconds, 60)
    parts = {"d": span.days, "h": minutes // 60, "min": minutes % 60, "s": seconds}
    return " ".join(f"{count:,} {unit}" for unit, count in parts.items() if count)


def _text(name: str, value: Any) -> str:
    forms: dict[str, Any] = {"rate": rate_text, "lifetime": _time, "headroom": "{:.0%}".format}
    return str(forms.get(name, "{:,}".format)(value))
