"""
Release 0.1 beside today's code, on one table: each reads the rows of the other, and respects its attempts.

``tests/golden/requests-0.1.json`` has the requests that 0.1 sends, alone and in batches, and
``tests/golden/reader_0_1.py`` is how it reads rows. Neither is ever changed: a release that sends or reads
something else gets files of its own beside them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.lifecycle import Failure, OnLapse, Presented, Record, Resolution, State
from lambda_once.core.results import Inline, Unavailable, pack
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    Extend,
    Finish,
    Hold,
    Holder,
    Pin,
    Release,
    Resolver,
    Unclaimed,
)
from lambda_once.stores.contract import Won, Written, answer_acquire, answer_finish
from lambda_once.stores.rows import record_of
from lambda_once.testing.store_suite.world import KEEP, World
from tests.docs.pages import ROOT
from tests.golden import reader_0_1
from tests.stores.world import DynamoDBRows, as_0_1_reads

TOKEN = "orders/charge/5"
START = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
SOON = START + timedelta(seconds=10)
LAPSED = START + timedelta(minutes=5)
EXPIRED = START + timedelta(days=29)
ATTEMPT, OTHER, OPERATOR, WRITE = "a" * 32, "b" * 32, "c" * 32, "d" * 16
LEASE = timedelta(seconds=30)
BROKEN = Failure("ValueError", "no such order")
NOTE = Resolution("ann", "seen at the provider", LAPSED)
PAID = Complete(Inline('{"paid": true}'))
PLAIN = '{"paid": true}'
LONG = json.dumps([f"line {n}" for n in range(60)])
LARGE = json.dumps([str(n * n * 2_654_435_761 % 2**32) for n in range(90_000)])


# ------------------------------------------------------------------ what 0.1 sends


def _acquire(now: datetime, take: Unclaimed | AsSeen, fingerprint: str | None = None) -> Acquire:
    mortal = take != Unclaimed(take_over=False)
    ttl = epoch_seconds(now + LEASE + KEEP) if mortal else None
    return Acquire(TOKEN, OTHER, "orders/request", now, now + LEASE, take, ttl, fingerprint)


def _finish(change: Change, by: Holder | Resolver, now: datetime, *, kept: bool = True) -> Finish:
    write = None if isinstance(change, Extend | Pin) else WRITE
    note = NOTE if isinstance(by, Resolver) else None
    return Finish(TOKEN, by, change, now, epoch_seconds(now + KEEP) if kept else None, write, note=note)


ACQUISITIONS: dict[str, Acquire] = {
    **{
        f"{when}, {how}": _acquire(now, Unclaimed(take_over="take_over" in how), fingerprint)
        for when, now in {"soon": SOON, "lapsed": LAPSED, "expired": EXPIRED}.items()
        for how, fingerprint in {
            "under take_over": None,
            "under take_over with a payload": "f" * 64,
            "under hold": None,
        }.items()
    },
    "as a probe saw it": _acquire(LAPSED, AsSeen(ATTEMPT, START + LEASE)),
    "as it was released": _acquire(SOON, AsSeen(ATTEMPT, None)),
}
CHANGES: dict[str, Change] = {
    "complete": PAID,
    "store": Complete(None, BROKEN),
    "lose": Complete(Unavailable.UNAVAILABLE),
    "hold": Hold(BROKEN),
    "release": Release(BROKEN),
    "extend": Extend(START + 2 * LEASE),
    "pin": Pin.PIN,
}
FINISHES: dict[str, Finish] = {
    **{
        f"{name} by {whose}": _finish(change, Holder(attempt), SOON, kept=name not in ("hold", "pin"))
        for whose, attempt in {"its attempt": ATTEMPT, "another attempt": OTHER}.items()
        for name, change in CHANGES.items()
    },
    **{
        f"{name} as seen {state.value}": _finish(
            change,
            Resolver(ATTEMPT, START + LEASE, OPERATOR, state),
            LAPSED,
            kept=not isinstance(change, Hold),
        )
        for state in State
        for name, change in CHANGES.items()
        if name in ("complete", "release", "hold")
    },
}
INSERTED, IN_A_BATCH = "soon, under take_over", ", in a batch"
SENT: dict[str, dict[str, Any]] = json.loads(
    (ROOT / "tests" / "golden" / "requests-0.1.json").read_text(encoding="utf-8")
)

# ------------------------------------------------------------------ the rows of today


def _row(**options: Any) -> Callable[[World], object]:
    return lambda world: world.won(ATTEMPT, token=TOKEN, **options)


def _finished(change: Change, **options: Any) -> Callable[[World], object]:
    def write(world: World) -> None:
        _row(**options)(world)
        world.clock.advance(1)
        assert world.finish(change, ATTEMPT) == Written.WRITTEN

    return write


def _resolved(world: World) -> None:
    _row()(world)
    world.clock.advance(60)
    done = _finish(PAID, Resolver(ATTEMPT, START + LEASE, OPERATOR), world.clock.now())
    assert world.send(done) == Written.WRITTEN


ROWS: dict[str, Callable[[World], object]] = {
    "in progress": _row(),
    "in progress under hold": _row(rule=OnLapse.HOLD),
    "in progress with a payload": _row(
        fingerprint="f" * 64, fields=b"\0\1ab", delivery="m-1", trace="00-1-2-01"
    ),
    "in progress with another payload": _row(fingerprint="e" * 64),
    "in progress with a caller": _row(presented=Presented("alice")),
    "complete": _finished(PAID),
    "complete with None": _finished(Complete(None)),
    "complete with bytes": _finished(Complete(Inline(b"sealed:\0\xff"))),
    "complete and unavailable": _finished(Complete(Unavailable.UNAVAILABLE)),
    "stored error": _finished(Complete(None, BROKEN)),
    "held": _finished(Hold(Failure("ValueError", "(sealed)", b"sealed:\0\xff")), rule=OnLapse.HOLD),
    "released": _finished(Release(BROKEN)),
    "resolved": _resolved,
}


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def table(request: pytest.FixtureRequest) -> World:
    """A table at the time of the requests, which are all for one token."""
    world: World = request.getfixturevalue(request.param)
    assert world.clock.now() == START
    world.token = TOKEN
    return world


def _of(world: World) -> DynamoDBRows:
    assert isinstance(world.rows, DynamoDBRows)
    return world.rows


def _is_written(world: World, request: dict[str, Any]) -> bool:
    """Send *request* as 0.1 does; return whether its condition held."""
    rows = _of(world)
    if "Statement" in request:
        statement = request | {"Statement": request["Statement"].replace('"tokens"', f'"{rows.name}"')}
        (answer,) = rows.client.batch_execute_statement(Statements=[statement])["Responses"]
        assert answer.get("Error", {}).get("Code") in (None, "DuplicateItem", "ConditionalCheckFailed")
        return "Error" not in answer
    try:
        rows.client.update_item(TableName=rows.name, **request)
    except rows.client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def _left(world: World) -> Record | None:
    item = _of(world).item(TOKEN)
    return None if item is None else record_of(item)


# ------------------------------------------------------------------ tests


def test_every_request_is_known() -> None:
    """A request that nobody expects anything of is no test."""
    batched = {f"{name}{IN_A_BATCH}" for name in (INSERTED, *FINISHES) if " by " in name or name == INSERTED}
    batched -= {name for name in batched if name.startswith("extend")}
    assert SENT.keys() == ACQUISITIONS.keys() | FINISHES.keys() | batched


def _judged(before: Record | None, name: str) -> tuple[bool, Record | None]:
    """Return whether the request called *name* may be written over *before*, and the row afterwards."""
    is_batched, name = name.endswith(IN_A_BATCH), name.removesuffix(IN_A_BATCH)
    if is_batched and name == INSERTED and before is not None:
        return False, before
    if name in ACQUISITIONS:
        answer, row = answer_acquire(before, ACQUISITIONS[name])
        return isinstance(answer, Won) and row is not None, row or before
    _, row = answer_finish(before, FINISHES[name])
    return row is not None, row or before


@pytest.mark.parametrize("name", ["none", *ROWS])
def test_0_1_respects_todays_rows(table: World, name: str) -> None:
    """Each of its requests is accepted where today's is, and leaves the row that today's leaves."""
    if name != "none":
        ROWS[name](table)
    made = _of(table).item(TOKEN)
    before = None if made is None else record_of(made)
    for title, request in SENT.items():
        allowed, after = _judged(before, title)
        assert _is_written(table, request) is allowed, title
        assert _left(table) == after, title
        if allowed:
            _of(table).forget(TOKEN)
            if made is not None:
                _of(table).put(made)


@pytest.mark.parametrize("name", ROWS)
def test_0_1_reads_todays_rows(table: World, name: str) -> None:
    """As today's code reads them."""
    ROWS[name](table)
    rows = _of(table)
    assert as_0_1_reads(rows.client, rows.name) == 1


def test_0_1_reads_todays_results(table: World) -> None:
    """Plain and compressed text, and the parts, in the places where it looks for them."""
    rows = _of(table)
    for text, kind in ((PLAIN, str), (LONG, bytes), (LARGE, int)):
        _finished(Complete(pack(text)))(table)
        item = rows.item(TOKEN)
        assert item is not None
        stored: Any = reader_0_1.read(item)["stored"]
        assert isinstance(stored, kind)
        if isinstance(stored, int):
            parts = map(rows.item, reader_0_1.part_keys(item))
            stored = b"".join(part["data"]["B"] for part in parts if part is not None)
        assert reader_0_1.text(stored) == text
        rows.forget(TOKEN)


@pytest.mark.parametrize("name", ROWS)
def test_an_attribute_of_a_later_version_is_ignored(table: World, name: str) -> None:
    """By today's code, which a later version is deployed beside; an acquisition leaves it in the row."""
    ROWS[name](table)
    item = dict(_of(table).item(TOKEN) or {})
    assert record_of(item | {"region": {"S": "eu-central-1"}}) == record_of(item)


# -- twins: what 0.1 could not read, or would overwrite


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("status", {"S": "waiting"}),
        ("created", {"N": "1795169520"}),
        ("fence", {"S": "1795169520001"}),
        ("result", {"M": {"json": {"S": "{}"}}}),
        ("error", {"S": "ValueError: no such order"}),
        ("lockedBy", None),
    ],
)
def test_a_row_of_another_form_is_noticed(table: World, attribute: str, value: Any) -> None:
    """Another state, another type, and an attribute that is no longer written."""
    ROWS["stored error"](table)
    item = dict(_of(table).item(TOKEN) or {})
    item.pop(attribute, None)
    with pytest.raises(reader_0_1.Unreadable, match=attribute):
        reader_0_1.read(item if value is None else item | {attribute: value})


def test_a_row_that_0_1_would_take_is_noticed(table: World) -> None:
    """In progress by another attribute than status: 0.1 takes it for released, and runs beside it."""
    ROWS["in progress"](table)
    item = dict(_of(table).item(TOKEN) or {})
    allowed, _ = _judged(record_of(item), "soon, under take_over")
    item["state"] = item.pop("status")
    _of(table).put(item)
    assert (allowed, _is_written(table, SENT["soon, under take_over"])) == (False, True)
