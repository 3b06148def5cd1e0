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
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_FLOOR, Context
from enum import Enum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger.layout import (
    ID_BYTES,
    MOST_SHARDS,
    bucket_count,
    item_overhead,
    layout_for,
    longest_window_ms,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
LONGEST_LIFETIME: Final = timedelta(days=36_525)
PERIODS: Final = {name: timedelta(**{f"{name}s": 1}) for name in ("day", "hour", "minute", "second")}
RATE_UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
"""Seconds of the units in which the command line takes a rate."""

_MS: Final = timedelta(milliseconds=1)
_ROW: Final = "{0:<20}{1.shards:>8,}{1.item_bytes:>12,}{1.write_units:>13,}{2:>10,}{1.read_units:>12,}"


class PlanBounds(NamedTuple):
    """The values that an argument of `plan` may have."""

    kinds: Any
    least: Any
    most: Any
    wanted: str


BOUNDS: Final = {
    "rate": PlanBounds((int, float), 1e-10, 1e6, "writes a second, 1e-10 to 1,000,000"),
    "lifetime": PlanBounds(
        timedelta, _MS, LONGEST_LIFETIME, "a time of 1 ms to 100 years; a number is in seconds"
    ),
    "shards": PlanBounds(int, 1, MOST_SHARDS, f"a whole number, 1 to {MOST_SHARDS:,}"),
    "id_bytes": PlanBounds(int, 1, MOST_ITEM_BYTES, f"a whole number, 1 to {MOST_ITEM_BYTES:,}"),
    "other_bytes": PlanBounds(int, 0, MOST_ITEM_BYTES, f"a whole number, 0 to {MOST_ITEM_BYTES:,}"),
    "headroom": PlanBounds((int, float), 0, 0.9, "the part of both limits to leave free, 0 to 0.9"),
}


class Limit(Enum):
    """The limit that a higher rate would exceed first."""

    ITEM = "the size of the item, at most 400 KB"
    WRITES = "1,000 write units a second: each write is charged for the whole item"


class PlanTerms(NamedTuple):
    """What a plan follows from."""

    rate: float
    lifetime: timedelta
    shards: int
    id_bytes: int
    other_bytes: int
    headroom: float
    buckets: int
    solved: str | None = None
    period: str | None = None


@dataclass(frozen=True, slots=True)
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
    period: str | None
    remembered: timedelta
    ids: int
    item_bytes: int
    write_units: int
    item_units: float
    total_units: float
    read_units: int
    warm_units: int | None
    limit: Limit

    def fits(self) -> bool:
        """Return whether both limits are kept. Then they are with less of anything, and with more shards."""
        most_bytes, most_units = _usable(self.headroom)
        within = Fraction(self.rate) * self.write_units <= most_units * self.shards
        return within and self.item_bytes <= most_bytes

    @property
    def cheapest(self) -> LedgerPlan:
        """The fewest shards with the fewest write units: with more, no write is charged less."""
        shards = _fewest_shards(self, changed(self, shards=MOST_SHARDS).write_units)
        return self if shards is None or shards > MOST_SHARDS else changed(self, shards=shards)

    @property
    def by_period(self) -> LedgerPlan | None:
        """One item for the longest of `PERIODS` that at least halves what a write is charged."""
        plans = (changed(self, shards=1, period=name) for name in PERIODS)
        halved = (each for each in plans if each.fits() and 2 * each.write_units <= self.write_units)
        return next(halved, None)

    def explain(self) -> list[str]:
        """Return the plan in lines of text."""
        name, best = ("the fewest",) * 2 if self.solved == "shards" else ("this plan", "the most")
        text = {each: _text(each, getattr(self, each)) for each in BOUNDS}
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
    given = dict(zip(BOUNDS, (rate, lifetime, shards, id_bytes, other_bytes, headroom), strict=True))
    known: dict[str, Any] = {name: _checked(name, each) for name, each in given.items() if each is not None}
    unknown = [name for name in given if name not in known]
    if len(unknown) > 1 and shards is None:
        unknown.remove("shards")
        known["shards"] = 1
    if len(unknown) > 1:
        raise Misconfigured(f"{' and '.join(unknown)} depend on one another: give one of them")
    solved = unknown[0] if unknown else None
    # In the ways out of an error, what is unknown has the value that fits most easily.
    easiest: dict[str, Any] = {
        name: MOST_SHARDS if name == "shards" else BOUNDS[name].least for name in unknown
    }
    count = bucket_count() if buckets is None else buckets
    draft = ledger_plan(PlanTerms(**easiest | known, buckets=count, solved=solved))
    found = _solved(draft, solved) if solved else draft if draft.fits() else None
    if found is not None:
        return found
    most = {name: _solved(draft, name) for name in ("shards", "rate", "lifetime")}
    ways = [f"{name}={_text(name, getattr(each, name))}" for name, each in most.items() if each]
    values = ", ".join(f"{name}={_text(name, each)}" for name, each in known.items())
    raise Misconfigured(f"no plan fits {values}: give {' or '.join(ways) or 'less of one of these'}")


def ledger_plan(terms: PlanTerms) -> LedgerPlan:
    """Return the plan of *terms*, whether it fits or not."""
    layout = layout_for(terms.lifetime, terms.buckets)
    remembered = layout.width * layout.buckets * _MS
    kept_ms = _kept_ms(remembered, terms.period)
    ids = math.ceil(Fraction(terms.rate) * kept_ms / (1_000 * terms.shards))
    fixed = terms.other_bytes + item_overhead(terms.buckets)
    item_bytes = ids * terms.id_bytes + fixed
    total_units = terms.rate * write_units(item_bytes)
    most_ids = (_usable(terms.headroom)[0] - fixed) // terms.id_bytes
    full_first = most_ids * write_units(MOST_ITEM_BYTES) * 1_000 <= MOST_UNITS * kept_ms
    return LedgerPlan(
        *terms,
        remembered=remembered,
        ids=ids,
        item_bytes=item_bytes,
        write_units=write_units(item_bytes),
        item_units=total_units / terms.shards,
        total_units=total_units,
        read_units=read_units(item_bytes) * terms.shards,
        warm_units=math.ceil(total_units) if total_units > NEW_TABLE_UNITS else None,
        limit=Limit.ITEM if full_first else Limit.WRITES,
    )


def changed(found: LedgerPlan, **terms: Any) -> LedgerPlan:
    """Return *found* with other *terms*, and what follows from them."""
    before = PlanTerms(*(getattr(found, name) for name in PlanTerms._fields))
    return ledger_plan(before._replace(**terms))


def write_units(size: int) -> int:
    """Return the write units of an item: one for each KB begun."""
    return -(-size // UNIT_BYTES)


def read_units(size: int) -> int:
    """Return the read units of a consistent read: one for every 4 KB begun."""
    return -(-size // READ_UNIT_BYTES)


def _checked(name: str, value: Any) -> Any:
    """Return *value*, a lifetime as a `timedelta`. Raises `Misconfigured` where it is out of bounds."""
    kinds, least, most, wanted = BOUNDS[name]
    seconds = (
        name == "lifetime" and type(value) in (int, float) and abs(value) < LONGEST_LIFETIME.total_seconds()
    )
    found = timedelta(seconds=value) if seconds else value
    if isinstance(found, bool) or not isinstance(found, kinds) or not least <= found <= most:
        shown = str(value) if isinstance(value, timedelta) else repr(value)
        raise Misconfigured(f"{name} is {shown}: give {wanted}")
    return found


# -- each quantity from the others, by the two limits


def _solved(draft: LedgerPlan, name: str) -> LedgerPlan | None:
    """Return *draft* with the most of *name* that fits, or the fewest shards; None where nothing does."""
    most_bytes, most_units = _usable(draft.headroom)
    a_second = Fraction(draft.rate) / draft.shards
    room = min(math.floor(most_units / a_second) * UNIT_BYTES, most_bytes)
    fixed = draft.item_bytes - draft.ids * draft.id_bytes
    least, most = BOUNDS[name].least, BOUNDS[name].most
    found: Any
    match name:
        case "rate":
            found = min(_most_rate(draft), most)
        case "shards":
            found = _fewest_shards(draft, write_units(MOST_ITEM_BYTES))
        case "lifetime":
            kept_ms = math.floor((room - fixed) // draft.id_bytes * 1_000 / a_second)
            longest_ms = longest_window_ms(kept_ms, draft.buckets)
            found = max(0, min(longest_ms, LONGEST_LIFETIME // _MS)) * _MS
        case "id_bytes":
            found = min((room - fixed) // draft.ids, most)
        case _:
            found = min(room - draft.ids * draft.id_bytes - item_overhead(draft.buckets), most)
    return changed(draft, **{name: found}) if found is not None and least <= found <= most else None


def _most_rate(draft: LedgerPlan) -> float:
    """Return the greatest rate: at the units a write where the lower of both limits is highest."""
    most_units, one_id = _usable(draft.headroom)[1], Fraction(1_000, _kept_ms(draft.remembered, draft.period))
    exact = draft.shards * max(
        min(ids * one_id, most_units / units) for units, ids in _most_ids(draft, write_units(MOST_ITEM_BYTES))
    )
    nearest = float(exact)
    return nearest if nearest <= exact else math.nextafter(nearest, 0)


def _fewest_shards(draft: LedgerPlan, units_of_a_write: int) -> int | None:
    """Return the fewest shards with which no write is charged more; None: none has room for an id."""
    rate = Fraction(draft.rate)
    all_ids = rate * _kept_ms(draft.remembered, draft.period) / 1_000
    one_unit = rate / _usable(draft.headroom)[1]
    enough = (
        max(math.ceil(all_ids / ids), math.ceil(one_unit * units))
        for units, ids in _most_ids(draft, units_of_a_write)
        if ids > 0
    )
    return min(enough, default=None)


def _kept_ms(remembered: timedelta, period: str | None) -> int:
    """Return the milliseconds whose ids are in one item: at most its period, if it has one."""
    return (remembered if period is None else min(remembered, PERIODS[period])) // _MS


def _most_ids(draft: LedgerPlan, most_units: int) -> Iterator[tuple[int, int]]:
    """Yield each number of units that a write may be charged, with the most ids of such an item."""
    most_bytes = _usable(draft.headroom)[0]
    fixed = draft.item_bytes - draft.ids * draft.id_bytes
    for units in range(1, most_units + 1):
        yield units, (min(units * UNIT_BYTES, most_bytes) - fixed) // draft.id_bytes


def _usable(headroom: float) -> tuple[int, Fraction]:
    """Return the bytes and the units a second of an item within both limits less *headroom*."""
    part = 1 - Fraction(headroom)
    return math.floor(MOST_ITEM_BYTES * part), MOST_UNITS * part


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
