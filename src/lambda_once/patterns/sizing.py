"""
Size a ledger: `plan` computes the rate, the lifetime of ids, the number of shards or a size in bytes.

Two limits of DynamoDB apply to an item that collects ids. Nothing is rounded before the end:

    ids    = ids a second to the item × seconds that an id is kept
    bytes  = ids × id_bytes + other_bytes + what the ledger adds            at most 409,600
    units  = writes a second × KB of the item, rounded up for each write    at most 1,000 a second

`Ledger.add` writes one id. `Ledger.add_all` reads each shard that gets an id of its batch, and writes it
once. A read takes one unit for every 4 KB, and a partition 3,000 units a second, so the limit of writes
always comes first.

Sources: DynamoDB developer guide, "Quotas", "Capacity unit consumption for write operations" (the whole item;
refused writes too), "Designing partition keys", "Warm throughput"; the size of a set is measured with
DynamoDB Local.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import ROUND_FLOOR, Context
from enum import Enum
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import (
    ID_BYTES,
    MOST_SHARDS,
    bucket_count,
    item_overhead,
    layout_for,
    longest_window_ms,
)

OTHER_BYTES: Final = 200
"""Default bytes of an item besides its ids: its key, some counters, their names."""
HEADROOM: Final = 1 / 3
"""The part of both limits that is left free for bursts, and for shards that get more ids than others."""
MOST_ITEM_BYTES: Final = 409_600
MOST_UNITS: Final = 1_000
"""Write units a second of one partition, and so of one item."""
NEW_TABLE_UNITS: Final = 4_000
"""Write units a second that a new on-demand table takes."""
MOST_BATCH: Final = 10_000
"""Most records in a batch (SQS developer guide: of a standard queue with a batch window)."""
LONGEST_LIFETIME: Final = timedelta(days=36_525)
PERIODS: Final = {name: timedelta(**{f"{name}s": 1}) for name in ("day", "hour", "minute", "second")}
RATE_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Units of rates on the command line, in seconds."""

_MS: Final = timedelta(milliseconds=1)


BOUNDS: Final[dict[str, tuple[Any, Any, str]]] = {
    "rate": (1e-10, 1e6, "ids a second, 1e-10 to 1,000,000"),
    "lifetime": (_MS, LONGEST_LIFETIME, "a time of 1 ms to 100 years; a number is in seconds"),
    "shards": (1, MOST_SHARDS, f"a whole number, 1 to {MOST_SHARDS:,}"),
    "id_bytes": (1, MOST_ITEM_BYTES, f"a whole number, 1 to {MOST_ITEM_BYTES:,}"),
    "other_bytes": (0, MOST_ITEM_BYTES, f"a whole number, 0 to {MOST_ITEM_BYTES:,}"),
    "batch": (1, MOST_BATCH, f"a whole number, 1 to {MOST_BATCH:,}"),
    "headroom": (0.0, 0.9, "the part of both limits to leave free, 0 to 0.9"),
}
"""The minimum and maximum of each argument of `plan`, and what to give."""


class Limit(Enum):
    """The limit that a higher rate would exceed first."""

    ITEM = "the size of the item, at most 400 KB"
    WRITES = "1,000 write units a second: each write is charged for the whole item"


@dataclass(frozen=True)
class LedgerPlan:
    """
    A sized ledger. Bytes, ids and units are maxima.

    ``rate`` is in ids a second to the whole ledger, including duplicates, which are charged alike. ``solved``
    is the argument that was computed. With a ``period`` of `PERIODS`, each period has an item of its own.
    """

    rate: float
    lifetime: timedelta
    shards: int
    id_bytes: int
    other_bytes: int
    batch: int
    headroom: float
    buckets: int
    solved: str | None = None
    period: str | None = None

    @property
    def remembered(self) -> timedelta:
        """Maximum time that an id is remembered; ``lifetime`` is the minimum."""
        layout = layout_for(self.lifetime, self.buckets)
        return layout.width * layout.buckets * _MS

    @cached_property
    def ids(self) -> int:
        """Ids of one item, if all ids of the ledger came in whole batches."""
        rate, a_second = self.rate.as_integer_ratio()
        batches = -(-rate * _kept_ms(self) // (a_second * 1_000 * self.batch))
        return -(-batches * self.batch // self.shards)

    @property
    def item_bytes(self) -> int:
        return self.ids * self.id_bytes + _fixed(self)

    @property
    def item_writes(self) -> Fraction:
        """Writes a second to one item. A batch writes to every shard, or to as many as it has ids."""
        # A batch at the turn of a period goes to both items.
        turns = Fraction(1_000, PERIODS[self.period] // _MS) if self.period and self.batch > 1 else 0
        return Fraction(self.rate) / max(self.batch, self.shards) + turns

    @property
    def write_units(self) -> int:
        """Write units of one write to an item."""
        return write_units(self.item_bytes)

    @property
    def total_units(self) -> float:
        """Write units a second of the ledger."""
        return float(self.item_writes * self.write_units * self.shards)

    @property
    def read_units(self) -> int:
        """Read units of one consistent `Ledger.get`; several shards include the item without a number."""
        return read_units(self.item_bytes) * self.shards + (self.shards > 1)

    @property
    def total_read_units(self) -> float:
        """Read units a second of the ledger's writes: `Ledger.add_all` reads before it writes."""
        reads = self.item_writes * self.shards if self.batch > 1 else 0
        return float(reads * read_units(self.item_bytes))

    @property
    def limit(self) -> Limit:
        ids = _in_batches(self, _usable(self.headroom)[0])
        writes = Fraction(ids * 1_000, _kept_ms(self) * max(self.batch, self.shards))
        return Limit.ITEM if writes * write_units(MOST_ITEM_BYTES) <= MOST_UNITS else Limit.WRITES

    def fits(self) -> bool:
        """Return whether both limits are kept; if so, also with lower values, or with more shards."""
        most_bytes, most_units = _usable(self.headroom)
        return self.item_writes * self.write_units <= most_units and self.item_bytes <= most_bytes

    @property
    def cheapest(self) -> LedgerPlan:
        """The plan with the fewest write units a second; of several, the one with the fewest shards."""
        plans = (replace(self, shards=shards) for shards in range(1, MOST_SHARDS + 1))
        return min((each for each in plans if each.fits()), key=lambda each: each.total_units, default=self)

    @property
    def by_period(self) -> LedgerPlan | None:
        """One item for the longest of `PERIODS` that at least halves the write units of a write, if any."""
        plans = (replace(self, shards=1, period=name) for name in PERIODS)
        halved = (each for each in plans if each.fits() and 2 * each.write_units <= self.write_units)
        return next(halved, None)


def plan(
    *,
    rate: float | None = None,
    lifetime: timedelta | float | None = None,
    shards: int | None = None,
    id_bytes: int | None = ID_BYTES,
    other_bytes: int | None = OTHER_BYTES,
    batch: int = 1,
    headroom: float = HEADROOM,
    buckets: int | None = None,
) -> LedgerPlan:
    """
    Compute the missing argument: its maximum, or the fewest shards, within both limits less *headroom*.

    *rate* is in ids a second, *lifetime* a `timedelta` or seconds; if one of them is missing, *shards* is 1
    by default. ``id_bytes=None`` or ``other_bytes=None`` computes that maximum. If everything is given, the
    plan is checked. *batch* is the number of ids of one key in a `Ledger.add_all`; *buckets* is that of the
    ledger. Raises `Misconfigured`, with what is possible.
    """
    given = dict(zip(BOUNDS, (rate, lifetime, shards, id_bytes, other_bytes, batch, headroom), strict=True))
    known: dict[str, Any] = {name: _checked(name, each) for name, each in given.items() if each is not None}
    unknown = [name for name in given if name not in known]
    if len(unknown) > 1 and shards is None:
        unknown.remove("shards")
        known["shards"] = 1
    if len(unknown) > 1:
        raise Misconfigured(f"{' and '.join(unknown)} depend on one another: give one of them")
    solved = unknown[0] if unknown else None
    # For the alternatives in an error, an unknown has the value that fits most easily.
    easiest: dict[str, Any] = {name: MOST_SHARDS if name == "shards" else BOUNDS[name][0] for name in unknown}
    count = bucket_count() if buckets is None else buckets
    draft = LedgerPlan(**easiest | known, buckets=count, solved=solved)
    found = _solved(draft, solved) if solved else draft if draft.fits() else None
    if found is not None:
        return found
    most = {name: _solved(draft, name) for name in ("shards", "rate", "lifetime")}
    ways = [f"{name}={_text(name, getattr(each, name))}" for name, each in most.items() if each]
    values = ", ".join(f"{name}={_text(name, each)}" for name, each in known.items())
    raise Misconfigured(f"no plan fits {values}: give {' or '.join(ways) or 'less of one of these'}")


def write_units(size: int) -> int:
    """Return the write units of an item: one for each KB or part of it."""
    return -(-size // 1_024)


def read_units(size: int) -> int:
    """Return the read units of a consistent read: one for each 4 KB or part of it."""
    return -(-size // 4_096)


def _checked(name: str, value: Any) -> Any:
    """Return *value*, a lifetime as a `timedelta`. Raises `Misconfigured` if it is out of bounds."""
    least, most, wanted = BOUNDS[name]
    found = value
    if name == "lifetime" and type(value) in (int, float) and abs(value) < most.total_seconds():
        found = timedelta(seconds=value)
    kinds = (int, float) if isinstance(least, float) else type(least)
    if isinstance(found, bool) or not isinstance(found, kinds) or not least <= found <= most:
        shown = str(value) if isinstance(value, timedelta) else repr(value)
        raise Misconfigured(f"{name} is {shown}: give {wanted}")
    return found


# -- each quantity from the others, by the two limits


def _solved(draft: LedgerPlan, name: str) -> LedgerPlan | None:
    """Return *draft* with the maximum of *name*, or the fewest shards; None if no value fits."""
    most_bytes, most_units = _usable(draft.headroom)
    room = min(math.floor(most_units / draft.item_writes) * 1_024, most_bytes)
    least, most, _ = BOUNDS[name]
    found: Any
    match name:
        case "rate":
            found = min(_most_rate(draft), most)
        case "shards":
            shards = range(least, most + 1)
            found = least + bisect_left(shards, 1, key=lambda each: replace(draft, shards=each).fits())
        case "lifetime":
            kept_ms = math.floor(_in_batches(draft, room) * 1_000 / Fraction(draft.rate))
            longest_ms = longest_window_ms(kept_ms, draft.buckets)
            found = max(0, min(longest_ms, LONGEST_LIFETIME // _MS)) * _MS
        case "id_bytes":
            found = min((room - _fixed(draft)) // draft.ids, most)
        case _:
            found = min(room - draft.ids * draft.id_bytes - item_overhead(draft.buckets), most)
    return replace(draft, **{name: found}) if least <= found <= most else None


def _most_rate(draft: LedgerPlan) -> float:
    """Return the maximum rate: the lower of both limits at each item size, at the best size."""
    most_bytes, most_units = _usable(draft.headroom)
    writers, one_id = max(draft.batch, draft.shards), Fraction(1_000, _kept_ms(draft))
    exact = max(
        min(_in_batches(draft, min(units * 1_024, most_bytes)) * one_id, most_units / units * writers)
        for units in range(1, write_units(MOST_ITEM_BYTES) + 1)
    )
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0)


def _in_batches(draft: LedgerPlan, room: int) -> int:
    """Return the most ids of the ledger, in whole batches, that keep every item within *room* bytes."""
    ids = (room - _fixed(draft)) // draft.id_bytes
    return ids * draft.shards // draft.batch * draft.batch


def _fixed(draft: LedgerPlan) -> int:
    """Return the bytes of an item besides its ids."""
    return draft.other_bytes + item_overhead(draft.buckets)


def _kept_ms(draft: LedgerPlan) -> int:
    """Return how many milliseconds of ids are in one item: at most its period, if it has one."""
    kept = draft.remembered if draft.period is None else min(draft.remembered, PERIODS[draft.period])
    return kept // _MS


def _usable(headroom: float) -> tuple[int, Fraction]:
    """Return an item's bytes, and its write units a second, within both limits less *headroom*."""
    part = 1 - Fraction(headroom)
    return math.floor(MOST_ITEM_BYTES * part), MOST_UNITS * part


# -- text: every quantity is rounded so that the plan still holds


def rate_text(rate: float) -> str:
    """Return a rate as the command line takes it, rounded down to three digits, or to a whole number."""
    unit = next((unit for unit, seconds in RATE_UNITS.items() if rate * seconds >= 1), "d")
    number = rate * RATE_UNITS[unit]
    context = Context(prec=max(3, len(str(int(number)))), rounding=ROUND_FLOOR)
    return f"{context.create_decimal(f'{number:.12g}').normalize():,f}/{unit}"


def _text(name: str, value: Any) -> str:
    forms: dict[str, Any] = {"rate": rate_text, "lifetime": str, "headroom": "{:.0%}".format}
    return str(forms.get(name, "{:,}".format)(value))
