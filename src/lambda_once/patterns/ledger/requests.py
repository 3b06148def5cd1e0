"""
The one request that adds to a ledger item and remembers its id, and what a refusal of it means. Pure.

Every condition of the ledger stands here, with the guarantee that it carries.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal, localcontext
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.items import Item, Values, plain_item, typed
from lambda_once.patterns.ledger.layout import (
    LAYOUT,
    NAMES,
    TIME,
    VERSION,
    WIDTH,
    Layout,
    bucket_name,
)
from lambda_once.patterns.ledger.standing import ids_at, in_use, newest, remembered, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Number = int | Decimal

DIGITS: Final = 300
"""Enough for the exact sum of any two of DynamoDB's numbers; one of more than 38 digits it refuses."""

_MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Write:
    """What is to be done to one item, once. *amounts* are added, *sets* are set."""

    table: str
    key: Item
    digest: bytes
    """Of the id; empty where there is none, and only the layout changes."""
    layout: Layout
    amounts: Mapping[str, Number]
    floor: Mapping[str, Number]
    """For counters of *amounts*."""
    sets: Mapping[str, object]
    expected: Mapping[str, object]
    """What attributes must stand at; None for one that must not be there."""


class Refusal(Enum):
    """Why the item did not take a write."""

    DUPLICATE = "its id is remembered"
    BELOW_FLOOR = "a counter would fall below its floor"
    UNEXPECTED = "an attribute is not as expected"
    OTHER_TIME = "the item is at another time than this writer: the same write, in another form"


# -- requests


def adding(write: Write, number: int) -> dict[str, Any]:
    """Return the UpdateItem that does *write* with bucket *number* as the newest: the usual form."""
    terms = _Terms()
    live, spare = write.layout.live(number), write.layout.spare(number)
    ids = terms.typed({"BS": [write.digest]})
    condition = [
        in_step(terms, write.layout, number),
        id_is_new(terms, write.digest, [bucket_name(each) for each in live]),
        *_wished(terms, write),
    ]
    update = (
        f"SET {', '.join(_settings(terms, write, number))} "
        f"ADD {', '.join([f'{bucket_name(number)} {ids}', *_additions(terms, write)])} "
        f"REMOVE {', '.join(bucket_name(each) for each in spare)}"
    )
    return _request(write, terms, update, condition)


def laying_out(write: Write, number: int, seen: Item) -> dict[str, Any]:
    """
    Return the UpdateItem that does *write* and arranges anew the ids of an item that stands as *seen*.

    For an item that a write of the usual form cannot bring to bucket *number*: it lay idle for long, or was
    written with another window.
    """
    terms = _Terms()
    kept = remembered(seen, write.layout, number)
    if write.digest:
        kept.setdefault(number, set()).add(write.digest)
    names = {bucket_name(each): ids for each, ids in kept.items()}
    others = [name for name in map(bucket_name, range(NAMES)) if name not in names]
    buckets = [f"{name} = {terms.typed({'BS': sorted(ids)})}" for name, ids in names.items()]
    condition = [as_seen(terms, seen), *_wished(terms, write)]
    update = (
        f"SET {', '.join([*_settings(terms, write, number), *buckets])} "
        f"ADD {', '.join(_additions(terms, write))} "
        f"REMOVE {', '.join(others)}"
    )
    return _request(write, terms, update, condition)


def _request(write: Write, terms: _Terms, update: str, condition: list[str]) -> dict[str, Any]:
    names = {"ExpressionAttributeNames": terms.names} if terms.names else {}
    return {
        "TableName": write.table,
        "Key": write.key,
        "UpdateExpression": update,
        "ConditionExpression": " AND ".join(filter(None, condition)),
        **names,
        "ExpressionAttributeValues": terms.values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _settings(terms: _Terms, write: Write, number: int) -> list[str]:
    stamps = {TIME: number, WIDTH: write.layout.width, LAYOUT: write.layout.written}
    return [f"{name} = {terms.value(each)}" for name, each in stamps.items()] + [
        f"{terms.name(name)} = {terms.value(each)}" for name, each in write.sets.items()
    ]


def _additions(terms: _Terms, write: Write) -> list[str]:
    added = [f"{terms.name(name)} {terms.value(amount)}" for name, amount in write.amounts.items()]
    return [f"{VERSION} {terms.value(1)}", *added]


# -- conditions


def id_is_new(terms: _Terms, digest: bytes, names: list[str]) -> str:
    """Let an id take effect once within its window: no live bucket holds it; a missing one holds nothing."""
    mark = terms.typed({"B": digest})
    return f"NOT ({' OR '.join(f'contains({name}, {mark})' for name in names)})"


def in_step(terms: _Terms, layout: Layout, number: int) -> str:
    """
    Let no live id be removed or overlooked: writer and item mean the same by the names of the buckets.

    The item's time is not later than the writer's (a clock behind would remove live buckets, and a late copy
    of a request would find its id gone), and not so much earlier that the name of the new bucket could hold
    ids of an earlier round. Items of before do not say how many buckets they have.
    """
    width, now = terms.value(layout.width), terms.value(number)
    same = (
        f"{WIDTH} = {width} AND ({LAYOUT} = {terms.value(layout.written)} OR attribute_not_exists({LAYOUT}))"
    )
    near = terms.value(number - len(layout.spare(number)))
    return (
        f"(attribute_not_exists({TIME}) OR ({same} AND {TIME} <= {now} "
        f"AND ({TIME} >= {near} OR attribute_not_exists({bucket_name(number)}))))"
    )


def as_seen(terms: _Terms, seen: Item) -> str:
    """Ids are carried over whole: nobody wrote to the item since it was read."""
    return (
        f"{VERSION} = {terms.typed(seen[VERSION])}" if VERSION in seen else f"attribute_not_exists({VERSION})"
    )


def floor_holds(terms: _Terms, name: str, needed: Number) -> str:
    """Let no counter fall below its floor; one that is missing counts as 0, as it does for ADD."""
    enough = f"{terms.name(name)} >= {terms.value(needed)}"
    return enough if needed > 0 else f"(attribute_not_exists({terms.name(name)}) OR {enough})"


def stands_at(terms: _Terms, name: str, expected: object) -> str:
    """Let one of two writers that expect the same find it."""
    if expected is None:
        return f"attribute_not_exists({terms.name(name)})"
    return f"{terms.name(name)} = {terms.value(expected)}"


def _wished(terms: _Terms, write: Write) -> list[str]:
    floors = [floor_holds(terms, name, needed) for name, needed in needs(write).items()]
    return floors + [stands_at(terms, name, expected) for name, expected in write.expected.items()]


def needs(write: Write) -> dict[str, Number]:
    """Return how much must be there of each counter that is taken from and has a floor."""
    taken = {name: amount for name, amount in write.amounts.items() if amount < 0 and name in write.floor}
    with localcontext(prec=DIGITS):
        return {name: write.floor[name] - amount for name, amount in taken.items()}


# -- refusals


def why(write: Write, now: datetime, seen: Item) -> Refusal:
    """
    Return why an item that stands as *seen* refused *write*. A duplicate is one whatever else holds.

    Raises `Misconfigured` where a counter with a floor is no number.
    """
    if write.digest in ids_at(seen, write.layout, now):
        return Refusal.DUPLICATE
    standing = plain_item({name: each for name, each in seen.items() if "BS" not in each})
    if any(_counter(standing, name) < needed for name, needed in needs(write).items()):
        return Refusal.BELOW_FLOOR
    if any(not _is_at(standing, name, expected) for name, expected in write.expected.items()):
        return Refusal.UNEXPECTED
    return Refusal.OTHER_TIME


def again(write: Write, now: datetime, seen: Item) -> dict[str, Any]:
    """Return the form of *write* that an item takes which stands as *seen*, in the layout in use there."""
    layout = in_use(seen, write.layout)
    write = replace(write, layout=layout)
    number = newest(seen, layout, now)
    return adding(write, number) if _is_in_step(seen, layout, number) else laying_out(write, number, seen)


def _is_in_step(seen: Item, layout: Layout, number: int) -> bool:
    """Tell whether `adding` is taken: what `in_step` asks, and no live name is of an earlier round."""
    if TIME not in seen:
        return True
    said = {WIDTH: str(layout.width), LAYOUT: str(layout.written)}
    if any(seen.get(name, {"N": each})["N"] != each for name, each in said.items()) or WIDTH not in seen:
        return False
    return number - len(layout.spare(number)) <= time_of(seen) <= number


def _counter(standing: Values, name: str) -> Number:
    found: object = standing.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, Number):
        raise Misconfigured(
            f"attribute {name!r} holds a {type(found).__name__}, and only a number has a floor"
        )
    return found


def _is_at(standing: Values, name: str, expected: object) -> bool:
    found = standing.get(name, _MISSING)
    if expected is None:
        return found is _MISSING
    wanted = plain_item({name: typed(expected)})[name]
    return type(found) is type(wanted) and found == wanted


class _Terms:
    """The names and values of one request's expressions; each gets a placeholder when it is first used."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.values: dict[str, dict[str, Any]] = {}

    def name(self, attribute: str) -> str:
        for placeholder, known in self.names.items():
            if known == attribute:
                return placeholder
        return self._kept(self.names, "#n", attribute)

    def value(self, plain: object) -> str:
        return self.typed(typed(plain))

    def typed(self, attribute: dict[str, Any]) -> str:
        return self._kept(self.values, ":v", attribute)

    @staticmethod
    def _kept(of: dict[str, Any], prefix: str, each: Any) -> str:
        placeholder = f"{prefix}{len(of)}"
        of[placeholder] = each
        return placeholder
