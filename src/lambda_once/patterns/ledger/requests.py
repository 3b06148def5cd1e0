"""The writes of a ledger as values: arguments, requests, conditions with their guarantees, refusals. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.items import Item, Values, decimal_of, plain_item, typed, typed_item
from lambda_once.patterns.ledger import layout as layouts
from lambda_once.patterns.ledger.layout import (
    LAYOUT,
    STAMPS,
    TIME,
    VERSION,
    WIDTH,
    Layout,
    Seen,
    ids_at,
    in_use,
)
from lambda_once.patterns.results import Conflict, Duplicate, Refused
from lambda_once.patterns.table import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet
    from datetime import datetime

    from lambda_once.patterns.table import PatternTable


Number = int | Decimal
Amount = int | float | Decimal
"""A float counts as the decimal that it prints as."""

DIGITS: Final = 300
"""Enough for the exact sum of any two of DynamoDB's numbers; one of more than 38 digits it refuses."""

_MISSING: Final = object()
_PATH: Final = frozenset(".[]")


@dataclass(frozen=True, slots=True)
class LedgerWrite:
    """One write to one item. *amounts* are added, *sets* are set."""

    table: PatternTable
    key: Item
    digest: bytes
    """Of the id; empty where only the layout changes."""
    layout: Layout
    amounts: Mapping[str, Number]
    floor: Mapping[str, Number]
    """For counters of *amounts*."""
    sets: Mapping[str, object]
    expected: Mapping[str, object]
    """The values that attributes must have; None for one that must be missing."""

    @property
    def shown(self) -> str:
        return f"item {plain_item(self.key)} of ledger {self.table.name!r}"


# -- arguments: all of it raises `Misconfigured`, before anything is sent


def checked_amounts(amounts: object, apart: AbstractSet[str]) -> dict[str, Number]:
    return {name: _number(name, each) for name, each in _named("amounts", amounts, apart).items()}


def checked_floor(floor: object, amounts: Mapping[str, Number]) -> dict[str, Number]:
    """Return the floors, each of a counter that something is added to."""
    floors = {name: _number(name, each) for name, each in _named("floor", floor, frozenset()).items()}
    if not floors.keys() <= amounts.keys():
        strange = sorted(floors.keys() - amounts.keys())
        raise Misconfigured(f"floor names {strange}, to which nothing is added: name counters of this write")
    return floors


def checked_values(what: str, values: object, apart: AbstractSet[str]) -> dict[str, object]:
    found = _named(what, values, apart)
    typed_item(found)
    return found


def checked_expected(expected: object, apart: AbstractSet[str]) -> dict[str, object]:
    found = _named("expected", expected, apart)
    if not found:
        raise Misconfigured("expected names no attribute: give what was read, such as a version")
    for name, each in found.items():
        if not isinstance(each, str | bytes | bool | int | float | Decimal | None):
            raise Misconfigured(
                f"expected {name!r} is a {type(each).__name__}: compare text, bytes, a number, a bool or None"
            )
    typed_item(found)
    return found


def _named(what: str, given: object, apart: AbstractSet[str]) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise Misconfigured(f"{what} is a mapping by attribute, not a {type(given).__name__}")
    for name in given:
        _check_name(name, apart)
    return dict(given)


def _check_name(name: object, apart: AbstractSet[str]) -> None:
    if not isinstance(name, str) or not 1 <= len(name.encode(errors="replace")) <= LONGEST_NAME:
        raise Misconfigured(f"an attribute's name is text of 1 to {LONGEST_NAME} bytes, not {name!r}")
    if _PATH & {*name}:
        raise Misconfigured(f"attribute {name!r}: a ledger writes whole attributes, not paths into them")
    if name in apart:
        raise Misconfigured(
            f"attribute {name!r} is named twice, belongs to the key, or is the ledger's own: give it another"
            " name, or the ledger's by names="
        )


def _number(name: str, amount: object) -> Number:
    if isinstance(amount, float) and isfinite(amount):
        amount = decimal_of(amount)
    if isinstance(amount, bool) or not isinstance(amount, int | Decimal):
        kind = type(amount).__name__
        raise Misconfigured(f"attribute {name!r}: {kind} is not added exactly: give an int or a Decimal")
    if isinstance(amount, Decimal) and not amount.is_finite():
        raise Misconfigured(f"attribute {name!r}: {amount} is not an amount")
    try:
        typed(amount)  # refuses what has more than 38 digits
    except Misconfigured as error:
        raise Misconfigured(f"attribute {name!r}: {error}") from None
    return amount


# -- requests


def adding(write: LedgerWrite, number: int) -> dict[str, Any]:
    """Return the UpdateItem of *write* with bucket *number* as the newest: the usual form."""
    terms = _Terms(write.table)
    live, spare = write.layout.live(number), write.layout.spare(number)
    ids = terms.typed({"BS": [write.digest]})
    condition = [
        in_step(terms, write.layout, number),
        id_is_new(terms, write.digest, [terms.bucket(each) for each in live]),
        *_conditions(terms, write),
    ]
    update = (
        f"SET {', '.join(_settings(terms, write, number))} "
        f"ADD {', '.join([f'{terms.bucket(number)} {ids}', *_additions(terms, write)])} "
        f"REMOVE {', '.join(map(terms.bucket, spare))}"
    )
    return _request(write, terms, update, condition)


def rearranging(write: LedgerWrite, number: int, seen: Item) -> dict[str, Any]:
    """Return the UpdateItem that also rearranges the ids of *seen*: long idle, or of another window."""
    terms = _Terms(write.table)
    kept = layouts.remembered(seen, write.layout, number)
    if write.digest:
        kept.setdefault(number, set()).add(write.digest)
    names = {terms.bucket(each): ids for each, ids in kept.items()}
    others = [name for name in map(terms.bucket, range(layouts.NAMES)) if name not in names]
    buckets = [f"{name} = {terms.typed({'BS': sorted(ids)})}" for name, ids in names.items()]
    condition = [as_seen(terms, seen), *_conditions(terms, write)]
    update = (
        f"SET {', '.join([*_settings(terms, write, number), *buckets])} "
        f"ADD {', '.join(_additions(terms, write))} "
        f"REMOVE {', '.join(others)}"
    )
    return _request(write, terms, update, condition)


def _request(write: LedgerWrite, terms: _Terms, update: str, condition: list[str]) -> dict[str, Any]:
    names = {"ExpressionAttributeNames": terms.names} if terms.names else {}
    return {
        "TableName": write.table.name,
        "Key": write.key,
        "UpdateExpression": update,
        "ConditionExpression": " AND ".join(filter(None, condition)),
        **names,
        "ExpressionAttributeValues": terms.values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _settings(terms: _Terms, write: LedgerWrite, number: int) -> list[str]:
    stamps = {TIME: number, WIDTH: write.layout.width, LAYOUT: write.layout.written}
    return [f"{terms.own(name)} = {terms.value(each)}" for name, each in stamps.items()] + [
        f"{terms.name(name)} = {terms.value(each)}" for name, each in write.sets.items()
    ]


def _additions(terms: _Terms, write: LedgerWrite) -> list[str]:
    added = [f"{terms.name(name)} {terms.value(amount)}" for name, amount in write.amounts.items()]
    return [f"{terms.own(VERSION)} {terms.value(1)}", *added]


# -- conditions


def id_is_new(terms: _Terms, digest: bytes, names: list[str]) -> str:
    """Let an id take effect once within its window: no live bucket has it; a missing one has no ids."""
    mark = terms.typed({"B": digest})
    return f"NOT ({' OR '.join(f'contains({name}, {mark})' for name in names)})"


def in_step(terms: _Terms, layout: Layout, number: int) -> str:
    """
    Let no live id be removed or overlooked: writer and item mean the same buckets by their names.

    The item's time is not later than the writer's (a slow clock would remove live buckets, and a late copy of
    a request would not find its id), and not so much earlier that the name of the new bucket could have ids
    of 64 buckets ago. A stamp without the others is not a ledger's.
    """
    time, layout_name = terms.own(TIME), terms.own(LAYOUT)
    width, now = terms.value(layout.width), terms.value(number)
    same = f"{terms.own(WIDTH)} = {width} AND {layout_name} = {terms.value(layout.written)}"
    near = terms.value(number - len(layout.spare(number)))
    none = " AND ".join(f"attribute_not_exists({terms.own(each)})" for each in STAMPS)
    return (
        f"({none} OR ({same} AND {time} <= {now} "
        f"AND ({time} >= {near} OR attribute_not_exists({terms.bucket(number)}))))"
    )


def as_seen(terms: _Terms, seen: Item) -> str:
    """Let no id be lost when they are rearranged: no ledger has written to the item since it was read."""
    name = terms.own(VERSION)
    return f"{name} = {terms.typed(seen[VERSION])}" if VERSION in seen else f"attribute_not_exists({name})"


def floor_holds(terms: _Terms, name: str, needed: Number) -> str:
    """Let no counter fall below its floor; a missing one counts as 0, as it does for ADD."""
    enough = f"{terms.name(name)} >= {terms.value(needed)}"
    return enough if needed > 0 else f"(attribute_not_exists({terms.name(name)}) OR {enough})"


def is_as_expected(terms: _Terms, name: str, expected: object) -> str:
    """Let one of two writers that expect the same succeed."""
    if expected is None:
        return f"attribute_not_exists({terms.name(name)})"
    return f"{terms.name(name)} = {terms.value(expected)}"


def _conditions(terms: _Terms, write: LedgerWrite) -> list[str]:
    floors = [floor_holds(terms, name, needed) for name, needed in needs(write).items()]
    return floors + [is_as_expected(terms, name, expected) for name, expected in write.expected.items()]


def needs(write: LedgerWrite) -> dict[str, Number]:
    """Return the least value of each counter that is taken from and has a floor."""
    taken = {name: amount for name, amount in write.amounts.items() if amount < 0 and name in write.floor}
    with localcontext(prec=DIGITS):
        return {name: write.floor[name] - amount for name, amount in taken.items()}


# -- refusals


def refused_because(write: LedgerWrite, now: datetime, seen: Seen) -> Duplicate | Refused | None:
    """
    Return why *seen* refused *write*; None: it is at another time, or has another layout (`again`).

    Raises `Conflict`; `Misconfigured` where a counter with a floor is not a number.
    """
    if write.digest in ids_at(seen.own, write.layout, now):
        return Duplicate(seen.values)
    if any(_counter(seen.values, name) < needed for name, needed in needs(write).items()):
        return Refused(seen.values, dict(write.floor))
    found = seen.values | {name: n for name, n in version_of(write.table, seen).items() if n is not None}
    if any(not _has(found, name, expected) for name, expected in write.expected.items()):
        raise Conflict(f"{write.shown} is not as expected: read it, and decide again", values=seen.values)
    return None


def version_of(table: PatternTable, seen: Seen) -> dict[str, int | None]:
    """Return what a write must expect if no ledger may write to the item meanwhile."""
    version = seen.own.get(VERSION)
    return {table.own[VERSION]: None if version is None else int(version["N"])}


def again(write: LedgerWrite, now: datetime, seen: Item) -> dict[str, Any]:
    """Return *write* in the form that the item *seen* takes, in the layout in use there."""
    layout = in_use(seen, write.layout)
    write = replace(write, layout=layout)
    number = layouts.newest(seen, layout, now)
    return adding(write, number) if _is_in_step(seen, layout, number) else rearranging(write, number, seen)


def _is_in_step(seen: Item, layout: Layout, number: int) -> bool:
    """Return whether the item takes `adding`: see `in_step`."""
    ours = {WIDTH: str(layout.width), LAYOUT: str(layout.written)}
    same = all(seen.get(name) == {"N": each} for name, each in ours.items())
    near = number - len(layout.spare(number))
    return TIME not in seen or (same and near <= layouts.time_of(seen) <= number)


def _counter(values: Values, name: str) -> Number:
    found: object = values.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, Number):
        raise Misconfigured(f"attribute {name!r} is a {type(found).__name__}: only a number has a floor")
    return found


def _has(values: Values, name: str, expected: object) -> bool:
    found = values.get(name, _MISSING)
    if expected is None:
        return found is _MISSING
    wanted = plain_item({name: typed(expected)})[name]
    return type(found) is type(wanted) and found == wanted


class _Terms:
    """The names and values of one request's expressions, by placeholder."""

    def __init__(self, table: PatternTable) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self._placeholders: dict[str, str] = {}
        self._own = table.own

    @property
    def names(self) -> dict[str, str]:
        return {placeholder: name for name, placeholder in self._placeholders.items()}

    def name(self, attribute: str) -> str:
        return self._placeholders.setdefault(attribute, f"#n{len(self._placeholders)}")

    def own(self, usual: str) -> str:
        """Return an attribute of the ledger's own: the usual names are no reserved words."""
        name = self._own[usual]
        return usual if name == usual else self.name(name)

    def bucket(self, number: int) -> str:
        return self.own(layouts.bucket_name(number))

    def value(self, plain: object) -> str:
        return self.typed(typed(plain))

    def typed(self, attribute: dict[str, Any]) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = attribute
        return placeholder
