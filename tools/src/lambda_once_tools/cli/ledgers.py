"""``lambda-once show --ledger``: the values in the items of one key, and the traces of an id."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from lambda_once.core.canonical import json_number
from lambda_once.core.clock import stamp
from lambda_once.operations.times import CorrectedClock, duration_text, time_text
from lambda_once.patterns.ledger import layout as layouts
from lambda_once.patterns.ledger.ledger import summed
from lambda_once_tools.cli.ledger_items import (
    LedgerItem,
    LedgerTransport,
    Trace,
    key_part,
    key_types,
    read_items,
)
from lambda_once_tools.cli.options import NotFound
from lambda_once_tools.cli.render import labelled, numbered

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from lambda_once_tools.cli.options import Access

FORGOTTEN: Final = "WARNING: the id was added, and is forgotten: it would be added again"
ABSENT: Final = "WARNING: the id was never added, or is forgotten: it would be added"


class LedgerOptions(NamedTuple):
    """The arguments as they were typed."""

    key: tuple[str, ...]
    id: str | None
    key_names: str | None


def show_ledger(access: Access, given: LedgerOptions) -> None:
    """Print the items of a key, and the traces of an id. Exit code 1: none. Raises `OnceError`."""
    clock, name = access.table.clock, access.table.name
    transport = LedgerTransport(
        name, access.client, clock.observe if isinstance(clock, CorrectedClock) else None
    )
    transport.is_patient = True
    deadline = access.table.deadline()
    if given.key_names is None:
        types = key_types(transport, deadline)
    else:
        types = {each.strip(): "S" for each in given.key_names.split(",")}
    if len(given.key) != len(types):
        raise click.UsageError(f"the key of table {name} is {' and '.join(types)}: give {len(types)} of them")
    table = layouts.ledger_table(name, tuple(types))
    key = tuple(map(key_part, given.key, types.values()))
    digest = None if given.id is None else layouts.id_digest(given.id)
    first = next(iter(read_items(transport, table, [layouts.key_item(table, key, None)], deadline)), None)
    if first is None:
        shown = " ".join(given.key)
        raise NotFound(f"table {name} has no item {shown}: nothing was added to it, or it has expired")
    if first.shards > 1:  # its other items have their number behind a "#": any of them may have been typed
        key = (str(key[0]).partition(layouts.SEPARATOR)[0], *key[1:])
    items = [first]
    if digest is not None and (home := layouts.home(table, key, digest, first.shards)) != first.where:
        items = read_items(transport, table, [home], deadline) or [first]
    elif digest is None:
        homes = layouts.homes(table, key, first.shards)
        items += read_items(transport, table, [each for each in homes if each != first.where], deadline)
        items.sort(key=lambda each: homes.index(each.where))
    trace = None if digest is None else items[0].trace(digest)
    found = LedgerAnswer(name, items, given.id, trace)
    now = clock.now()
    access.output.one(_as_json(found, now), labelled(_rows(found, now)))
    if given.id is not None and found.trace is None:
        access.output.say(ABSENT)
        raise click.exceptions.Exit(1)
    if found.trace is not None and found.trace.until <= now:
        access.output.say(FORGOTTEN)


class LedgerAnswer(NamedTuple):
    """What was read."""

    table: str
    items: Sequence[LedgerItem]
    id: str | None
    trace: Trace | None

    def values(self) -> dict[str, Any]:
        """Return the attributes in JSON values; of several items, the sums."""
        only, *more = self.items
        found = summed(each.values for each in self.items) if more else only.values
        return {name: _json(found[name]) for name in sorted(found)}


def _as_json(found: LedgerAnswer, now: datetime) -> dict[str, Any]:
    answer: dict[str, Any] | None = None
    if found.id is not None:
        answer = {"id": found.id, "state": "notFound"}
    if answer is not None and found.trace is not None:
        (began, ended), until = map(stamp, found.trace.added), found.trace.until
        state = "remembered" if now < until else "forgotten"
        answer |= {"state": state, "addedFrom": began, "addedTo": ended, "rememberedUntil": stamp(until)}
    items = [
        {
            "key": {name: _json(value) for name, value in each.key.items()},
            "ids": each.ids(now),
            "windowSeconds": each.window.total_seconds(),
            "newestFrom": stamp(each.newest.began),
            "newestTo": stamp(each.newest.ended),
            "expires": each.expires and stamp(each.expires),
        }
        for each in found.items
    ]
    return {"table": found.table, "id": answer, "values": found.values(), "items": items}


def _rows(found: LedgerAnswer, now: datetime) -> Iterator[tuple[str, str, str]]:
    if found.trace is not None:
        began, ended, until = (time_text(at, now) for at in (*found.trace.added, found.trace.until))
        kept = "remembered until" if now < found.trace.until else "forgotten since"
        yield f"id {found.id}", f"added {began} to {ended}, {kept} {until}", "bold"
    elif found.id is not None:
        yield f"id {found.id}", "not found", "bold"
    for name, value in found.values().items():
        yield name, json.dumps(value, ensure_ascii=False), ""
    for each in found.items:
        key, ids = " ".join(str(_json(part)) for part in each.key.values()), each.ids(now)
        newest = " to ".join(time_text(at, now) for at in each.newest)
        expires = f"; expires {time_text(each.expires, now)}" if each.expires else ""
        kept = f"{numbered(ids, 'id')} remembered, each for {duration_text(each.window)}"
        yield f"item {key}", f"{kept}; newest bucket {newest}{expires}", "dim"


def _json(value: Any) -> Any:
    """Return a stored value in JSON values: digits that a float has not as text, binary in base64."""
    match value:
        case dict():
            return {name: _json(each) for name, each in value.items()}
        case list():
            return [_json(each) for each in value]
        case set():
            return sorted(map(_json, value), key=str)
        case bytes():
            return base64.b64encode(value).decode()
        case Decimal():
            number = json_number(value)
            return str(value) if number is None else number
        case _:
            return value
