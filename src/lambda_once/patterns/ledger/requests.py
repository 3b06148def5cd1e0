"""The writes of a ledger as values: arguments, requests, conditions with their guarantees, refusals. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import epoch_seconds
from lambda_once.dynamodb import Item, Values, plain_item, typed, typed_item
from lambda_once.errors import Misconfigured
from lambda_once.patterns.ledger import layout as layouts
from lambda_once.patterns.ledger.layout import (
    LAYOUT,
    SHARDS,
    STAMPS,
    TIME,
    TTL,
    VERSION,
    Layout,
    Seen,
    bucket_name,
    ids_at,
    in_use,
)
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Refused
from lambda_once.patterns.table import LONGEST_NAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from collections.abc import Set as AbstractSet

    from lambda_once.patterns.table import PatternTable


Number = int | Decimal
Amount = int | float | Decimal
"""A float counts as the decimal that `repr` writes."""

DIGITS: Final = 300
"""Enough for an exact sum of two of DynamoDB's numbers, before DynamoDB refuses more than 38 digits."""

MOST_ADDITIONS: Final = 10_000
"""Ids of one `Ledger.add_all`: as many records as SQS, Kinesis and Kafka deliver in one batch."""
_PATH: Final = frozenset(".[]")

UNCLAIMED: Final = " AND ".join(f"attribute_not_exists({each})" for each in (*STAMPS, SHARDS))
"""No ledger has written the item: one of one shard has stamps alone."""


@dataclass(frozen=True, slots=True)
class LedgerWrite:
    """One write to one item. *amounts* are added, *sets* are set."""

    table: PatternTable
    key: Item
    layout: Layout
    ids: frozenset[bytes]
    """Digests to remember."""
    write_id: bytes
    """Random. The item has that of its last write, so a write recognises itself if its response was lost."""
    shards: int = 1
    first: Item | None = None
    """The first item of the key, which must have the number of shards before this write creates its item."""
    amounts: Mapping[str, Number] = field(default_factory=dict)
    floor: Mapping[str, Number] = field(default_factory=dict)
    """For counters of *amounts*."""
    sets: Mapping[str, object] = field(default_factory=dict)
    expected: Mapping[str, object] = field(default_factory=dict)
    """Values that attributes must have; None requires that the attribute is missing or NULL."""
    expires: datetime | None = None

    @property
    def place(self) -> tuple[Any, ...]:
        return layouts.place_of(self.table, self.key)

    @property
    def shown(self) -> str:
        return f"item {plain_item(self.key)} of ledger {self.table.name!r}"


# -- arguments: all of it raises `Misconfigured`, before anything is sent


def checked_numbers(what: str, given: object, apart: AbstractSet[str] = frozenset()) -> dict[str, Number]:
    found = _named(what, given, apart)
    for name, each in found.items():
        if isinstance(each, bool) or not isinstance(each, Amount):
            kind = type(each).__name__
            raise Misconfigured(f"attribute {name!r}: {kind} is not added exactly: give an int or a Decimal")
    return plain_item(typed_item(found))


def checked_floor(floor: object, added: AbstractSet[str]) -> dict[str, Number]:
    """Return the floors, empty for None; each must belong to a counter in *added*."""
    floors = {} if floor is None else checked_numbers("floor", floor)
    if not floors.keys() <= added:
        strange = sorted(floors.keys() - added)
        raise Misconfigured(f"floor names {strange}, to which nothing is added: name counters of this write")
    return floors


def checked_additions(additions: object, floor: object) -> list[tuple[Any, Any, dict[str, Number]]]:
    """Return each id with its amounts and their floors."""
    if not isinstance(additions, Mapping) or len(additions) > MOST_ADDITIONS:
        raise Misconfigured(f"add_all takes a mapping of up to {MOST_ADDITIONS:,} ids to their amounts")
    added = [each if isinstance(each, Mapping) else {} for each in additions.values()]
    floors = {} if floor is None else checked_numbers("floor", floor)
    if added:
        checked_floor(floors, set().union(*added))
    return [
        (name, amounts, {counter: floors[counter] for counter in floors if counter in known})
        for (name, amounts), known in zip(additions.items(), added, strict=True)
    ]


def checked_values(what: str, values: object, apart: AbstractSet[str]) -> Values:
    """Return *values* as they will be read: a float as a Decimal, a tuple as a list."""
    return plain_item(typed_item(_named(what, values, apart)))


def checked_expected(expected: object, apart: AbstractSet[str]) -> dict[str, object]:
    found = checked_values("expected", expected, apart)
    if not found:
        raise Misconfigured("expected names no attribute: give what was read, such as a version")
    for name, each in found.items():
        if not isinstance(each, str | bytes | bool | int | float | Decimal | None):
            raise Misconfigured(
                f"expected {name!r} is a {type(each).__name__}: compare text, bytes, a number, a bool or None"
            )
    return found


def _named(what: str, given: object, apart: AbstractSet[str]) -> dict[str, object]:
    if not isinstance(given, Mapping):
        raise Misconfigured(f"{what} is a mapping by attribute, not a {type(given).__name__}")
    for name in given:
        if not isinstance(name, str) or not 1 <= len(name.encode(errors="replace")) <= LONGEST_NAME:
            raise Misconfigured(f"an attribute's name is text of 1 to {LONGEST_NAME} bytes, not {name!r}")
        if _PATH & {*name}:
            raise Misconfigured(f"attribute {name!r}: a ledger writes whole attributes, not paths into them")
        if name in apart:
            raise Misconfigured(
                f"attribute {name!r} is named twice, belongs to the key, or is the ledger's own: give it"
                " another name"
            )
    return dict(given)


def checked_expiry(expires: object) -> datetime | None:
    if expires is None or (isinstance(expires, datetime) and expires.utcoffset() is not None):
        return expires
    raise Misconfigured(f"expires is a datetime with a time zone, not {expires!r}")


# -- requests


def request_for(
    write: LedgerWrite, seen: Item, now: datetime, *, unless_written: bool = False
) -> dict[str, Any]:
    """
    Return the UpdateItem of *write* in the form and layout that the item *seen* requires.

    With *unless_written* it is refused if a ledger has written to the item since it was *seen*.
    """
    layout = in_use(seen, write.layout)
    write, number = replace(write, layout=layout), layouts.newest(seen, layout, now)
    present = layouts.layout_of(seen)
    recent = layouts.time_of(seen) >= number - len(layout.spare(number))
    if present is None or (present == layout and recent):  # as in `in_step`
        return adding(write, number, seen, unless_written=unless_written)
    return rearranging(write, number, seen)


def adding(write: LedgerWrite, number: int, seen: Item, *, unless_written: bool = False) -> dict[str, Any]:
    """Return the UpdateItem of *write* with bucket *number* as the newest, for an item that is in step."""
    terms = _Terms()
    spare = map(bucket_name, write.layout.spare(number))
    ids = f"{bucket_name(number)} {terms.typed({'BS': sorted(write.ids)})}"
    if not unless_written:
        live = [bucket_name(each) for each in write.layout.live(number)]
        guards = [in_step(terms, write.layout, number), *(id_is_new(terms, each, live) for each in write.ids)]
    else:
        guards = [as_seen(terms, seen)]
    return _request(write, terms, number, seen, guards, added=[ids], removed=spare)


def rearranging(write: LedgerWrite, number: int, seen: Item) -> dict[str, Any]:
    """Return the UpdateItem that also rearranges the ids of *seen*: long idle, or of another layout."""
    terms = _Terms()
    kept = layouts.remembered(seen, write.layout, number)
    kept.setdefault(number, set()).update(write.ids)
    names = {bucket_name(each): ids for each, ids in kept.items()}
    others = [name for name in map(bucket_name, range(layouts.NAMES)) if name not in names]
    buckets = [f"{name} = {terms.typed({'BS': sorted(ids)})}" for name, ids in names.items()]
    return _request(write, terms, number, seen, [as_seen(terms, seen)], set_=buckets, removed=others)


def _request(
    write: LedgerWrite,
    terms: _Terms,
    number: int,
    seen: Item,
    guards: list[str],
    *,
    set_: Iterable[str] = (),
    added: Iterable[str] = (),
    removed: Iterable[str],
) -> dict[str, Any]:
    floors = [floor_holds(terms, name, needed) for name, needed in needs(write).items()]
    conditions = [
        has_shards(terms, write),
        *guards,
        *floors,
        *(is_as_expected(terms, *each) for each in write.expected.items()),
    ]
    settings = [f"{TIME} = {terms.value(number)}", f"{LAYOUT} = {terms.value(write.layout.written)}"]
    settings.append(f"{VERSION} = {terms.typed({'B': write.write_id})}")
    if write.shards > 1:
        settings.append(f"{SHARDS} = {terms.value(write.shards)}")
    until, is_set = _expiry(write, number, seen)
    ttl, end = terms.name(TTL), terms.value(until)
    if is_set:
        settings.append(f"{ttl} = {end}")
    if write.expires is None:
        conditions.append(f"NOT ({ttl} {'>' if is_set else '<'} {end})")
    settings += [f"{terms.name(name)} = {terms.value(each)}" for name, each in write.sets.items()]
    amounts = [f"{terms.name(name)} {terms.value(amount)}" for name, amount in write.amounts.items()]
    additions = ", ".join([*added, *amounts])
    update = (
        f"SET {', '.join([*settings, *set_])} {additions and f'ADD {additions} '}REMOVE {', '.join(removed)}"
    )
    return _update_item(write.table, write.key, update, " AND ".join(filter(None, conditions)), terms)


def claiming(write: LedgerWrite, now: datetime) -> dict[str, Any]:
    """
    Return the UpdateItem that makes the first item of a key, before *write* creates another one.

    Refused if a ledger has made it: then its number of shards is what counts.
    """
    terms = _Terms()
    settings = {
        TIME: terms.value(write.layout.number(now)),
        LAYOUT: terms.value(write.layout.written),
        VERSION: terms.typed({"B": write.write_id}),
        SHARDS: terms.value(write.shards),
    }
    update = ", ".join(f"{name} = {value}" for name, value in settings.items())
    first = write.key if write.first is None else write.first
    return _update_item(write.table, first, f"SET {update}", UNCLAIMED, terms)


def _expiry(write: LedgerWrite, number: int, seen: Item) -> tuple[int, bool]:
    """
    Return until when the item must stay, and whether its TTL attribute is set to that.

    It stays at least until the ids of *write* are forgotten: a write without *expires* moves an earlier end.
    """
    end = write.layout.end(number)
    if write.expires is not None:
        return max(epoch_seconds(write.expires), end), True
    found = seen.get(TTL, {}).get("N")
    return end, found is not None and Decimal(found) < end


def _update_item(
    table: PatternTable, key: Item, update: str, condition: str, terms: _Terms
) -> dict[str, Any]:
    return {
        "TableName": table.name,
        "Key": key,
        "UpdateExpression": update,
        "ConditionExpression": condition,
        **({"ExpressionAttributeNames": terms.names} if terms.names else {}),
        "ExpressionAttributeValues": terms.values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


# -- conditions


def has_shards(terms: _Terms, write: LedgerWrite) -> str:
    """Require that all writers of the key have one number of shards: with another, ids count twice."""
    if write.shards == 1:
        return f"attribute_not_exists({SHARDS})"
    same = f"{SHARDS} = {terms.value(write.shards)}"
    return same if write.first is not None else f"({same} OR ({UNCLAIMED}))"


def id_is_new(terms: _Terms, digest: bytes, names: list[str]) -> str:
    """Require that no live bucket has the id, so that it takes effect once within its window."""
    mark = terms.typed({"B": digest})
    return f"NOT ({' OR '.join(f'contains({name}, {mark})' for name in names)})"


def in_step(terms: _Terms, layout: Layout, number: int) -> str:
    """
    Require that writer and item name the same buckets alike, so that no live id is removed or missed.

    The item's time is not later than the writer's: a slow clock would remove live buckets, and a delayed copy
    of a request would not find its id. Nor is it so much earlier that the name of the new bucket could
    contain ids from 64 buckets ago. A stamp without the others was not written by a ledger.
    """
    now, same = terms.value(number), f"{LAYOUT} = {terms.value(layout.written)}"
    near = terms.value(number - len(layout.spare(number)))
    none = " AND ".join(f"attribute_not_exists({each})" for each in STAMPS)
    return (
        f"({none} OR ({same} AND {TIME} <= {now} "
        f"AND ({TIME} >= {near} OR attribute_not_exists({bucket_name(number)}))))"
    )


def as_seen(terms: _Terms, seen: Item) -> str:
    """Require that no ledger has written to the item since it was read, so that rearranging loses no id."""
    if VERSION not in seen:
        return f"attribute_not_exists({VERSION})"
    return f"{VERSION} = {terms.typed(seen[VERSION])}"


def floor_holds(terms: _Terms, name: str, needed: Number) -> str:
    """Require that the counter does not fall below its floor. A missing one counts as 0, as for ADD."""
    enough = f"{terms.name(name)} >= {terms.value(needed)}"
    return enough if needed > 0 else f"(attribute_not_exists({terms.name(name)}) OR {enough})"


def is_as_expected(terms: _Terms, name: str, expected: object) -> str:
    """Require the expected value, so that one of two writers wins. None: the attribute is missing or NULL."""
    name = terms.name(name)
    if expected is None:
        return f"(attribute_not_exists({name}) OR attribute_type({name}, {terms.value('NULL')}))"
    return f"{name} = {terms.value(expected)}"


def together(
    writes: Sequence[LedgerWrite], seen: Seen, now: datetime
) -> tuple[list[Applied | Duplicate | Refused], LedgerWrite | None]:
    """
    Return the results of *writes* to the item *seen*, in order, and one merged write of all that apply.

    The write is None if nothing applies. It expects the counters that were read, so even a writer that
    bypasses the ledger cannot cause a broken floor or two equal results. Raises `Misconfigured` for a counter
    that is not a number.
    """
    known, values = ids_at(seen.own, writes[0].layout, now), dict(seen.values)
    results: list[Applied | Duplicate | Refused] = []
    ids: set[bytes] = set()
    amounts: dict[str, Number] = {}
    for write in writes:
        refused = refused_because(write, known, values)
        if refused is None:
            results.append(_applied(write, values, amounts))
            known |= write.ids
            ids |= write.ids
        else:
            results.append(replace(refused, values=dict(values)))
    expected = {name: seen.values.get(name) for name in amounts}
    merged = replace(writes[0], ids=frozenset(ids), amounts=amounts, floor={}, expected=expected)
    return results, merged if ids else None


def _applied(write: LedgerWrite, values: Values, amounts: dict[str, Number]) -> Applied:
    """Add the amounts of *write* to *values*, the item so far, and to *amounts*."""
    with localcontext(prec=DIGITS):
        for name, amount in write.amounts.items():
            amounts[name] = amounts.get(name, 0) + amount
            values |= plain_item(typed_item({name: _counter(values, name) + amount}))
    return Applied({name: values[name] for name in write.amounts})


def needs(write: LedgerWrite) -> dict[str, Number]:
    """Return the minimum that each counter with a floor must have before its subtraction."""
    taken = {name: amount for name, amount in write.amounts.items() if amount < 0 and name in write.floor}
    with localcontext(prec=DIGITS):
        return {name: write.floor[name] - amount for name, amount in taken.items()}


def needs_item(write: LedgerWrite) -> bool:
    """Return whether an item that is missing refuses *write*, by what it expects or by a floor."""
    expects = any(expected is not None for expected in write.expected.values())
    return expects or any(needed > 0 for needed in needs(write).values())


# -- results


def is_last_write(write: LedgerWrite, seen: Item) -> bool:
    """Return whether *write* itself is what changed *seen* last: only its response was lost."""
    return VERSION in seen and bytes(seen[VERSION]["B"]) == write.write_id


def values_of(write: LedgerWrite, changed: Mapping[str, Mapping[str, Any]]) -> Values:
    """Return the caller's attributes that *write* changed; *changed* is what DynamoDB returned."""
    counters = {name: changed[name] for name in write.amounts if name in changed}  # moto: not by adding 0
    return {**plain_item(counters), **write.sets}


def refused_because(
    write: LedgerWrite, ids: AbstractSet[bytes], values: Values
) -> Duplicate | Refused | None:
    """
    Return why an item with *ids* and *values* refuses *write*; None if only its form was wrong.

    Raises `Conflict`, and `Misconfigured` if a counter with a floor is not a number.
    """
    if not ids.isdisjoint(write.ids):
        return Duplicate(values)
    if not all(_has(values, name, expected) for name, expected in write.expected.items()):
        raise Conflict(f"{write.shown} is not as expected: read it, and decide again", values=values)
    if any(_counter(values, name) < needed for name, needed in needs(write).items()):
        return Refused(values, dict(write.floor))
    return None


def _counter(values: Values, name: str) -> Number:
    found: object = values.get(name, 0)
    if isinstance(found, bool) or not isinstance(found, Number):
        raise Misconfigured(f"attribute {name!r} is a {type(found).__name__}: a counter is a number")
    return found


def _has(values: Values, name: str, expected: object) -> bool:
    wanted, found = plain_item({name: typed(expected)})[name], values.get(name)
    return type(found) is type(wanted) and found == wanted


class _Terms:
    """The names and values of one request's expressions, by placeholder."""

    def __init__(self) -> None:
        self.values: dict[str, dict[str, Any]] = {}
        self._placeholders: dict[str, str] = {}

    @property
    def names(self) -> dict[str, str]:
        return {placeholder: name for name, placeholder in self._placeholders.items()}

    def name(self, attribute: str) -> str:
        return self._placeholders.setdefault(attribute, f"#n{len(self._placeholders)}")

    def value(self, plain: object) -> str:
        return self.typed(typed(plain))

    def typed(self, attribute: dict[str, Any]) -> str:
        placeholder = f":v{len(self.values)}"
        self.values[placeholder] = attribute
        return placeholder
