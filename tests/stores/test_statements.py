"""PartiQL statements as values: the whole of what goes to DynamoDB."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambda_once.core.lifecycle import Failure
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.writes import (
    Acquire,
    Change,
    Complete,
    Extend,
    Hold,
    Holder,
    Pin,
    Release,
    Resolver,
    Unclaimed,
    Write,
)
from lambda_once.stores import requests

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
LEASE = NOW + timedelta(seconds=30)
AT, ENDS = "2026-11-20T10:12:00.000Z", "2026-11-20T10:12:30.000Z"
ACQUISITION = Acquire(
    *("t", "a1", "orders/r1", NOW, LEASE, Unclaimed(take_over=True), 1796379150, "f", "m-1"),
    fields=b"ab",
    caller="a1.c",
)
ERROR = {"M": {"kind": {"S": "ValueError"}, "message": {"S": "no"}}}
FAILURE = Failure("ValueError", "no")
OURS = ' WHERE "lockToken" = ? AND "attempt" = ? AND begins_with("status", ?)'
WRITE = {"S": "w1"}
ASKED = [{"S": "t"}, {"S": "a1"}, {"S": "inProgress"}]


def test_insert() -> None:
    """The whole row; there is no condition but that there is no row."""
    assert requests.insert("tokens", ACQUISITION, 1) == {
        "Statement": (
            "INSERT INTO \"tokens\" VALUE {'lockToken': ?, 'fence': ?, 'before': ?, 'lockedBy': ?, "
            "'attempt': ?, 'created': ?, 'expectedCompletion': ?, 'status': ?, 'fingerprint': ?, "
            "'fields': ?, 'delivery': ?, 'caller': ?, 'ttl': ?}"
        ),
        "Parameters": [
            {"S": "t"},
            {"N": "1795169520001"},
            {"S": "none"},
            {"S": "orders/r1"},
            {"S": "a1"},
            {"S": AT},
            {"S": ENDS},
            {"S": "inProgress"},
            {"S": "f"},
            {"B": b"ab"},
            {"S": "m-1"},
            {"S": "a1.c"},
            {"N": "1796379150"},
        ],
    }


def test_insert_of_the_bare_row() -> None:
    """Under hold there is no ttl, and what the source does not give is left out."""
    acquisition = ACQUISITION._replace(
        take=Unclaimed(take_over=False),
        ttl=None,
        fingerprint=None,
        fields=None,
        delivery=None,
        caller=None,
    )
    built = requests.insert("tokens", acquisition, 1)
    assert built["Statement"].endswith("'created': ?, 'expectedCompletion': ?, 'status': ?}")
    assert len(built["Parameters"]) == built["Statement"].count("?") == 8


def test_insert_makes_the_row_of_the_single_write() -> None:
    """Every attribute has the value that the single write gives it, the shard included."""
    single = requests.acquire("tokens", ACQUISITION, 4)["ExpressionAttributeValues"]
    built = requests.insert("tokens", ACQUISITION, 4)
    names = re.findall(r"'(\w+)': \?", built["Statement"])
    row = dict(zip(names, built["Parameters"], strict=True))
    assert row.pop("lockToken") == {"S": "t"}
    assert row.pop("fence") == {"N": str(int(single[":epoch_ms"]["N"]) + 1)}
    assert row == {name: single[f":{name}_"] for name in row}
    assert {f":{name}_" for name in row} == {name for name in single if name.endswith("_")}


ENDED = 'REMOVE "status" REMOVE "generation"'
FINISHES: dict[str, tuple[Change, int | None, str, list[Any]]] = {
    "complete": (
        Complete(Inline("1")),
        9,
        f'SET "actualCompletion" = ? SET "result" = ? SET "write" = ? SET "ttl" = ? {ENDED}',
        [{"S": AT}, {"S": "1"}, WRITE, {"N": "9"}],
    ),
    "complete, compressed": (
        Complete(Inline(b"\x00")),
        9,
        f'SET "actualCompletion" = ? SET "result" = ? SET "write" = ? SET "ttl" = ? {ENDED}',
        [{"S": AT}, {"B": b"\x00"}, WRITE, {"N": "9"}],
    ),
    "complete with None": (
        Complete(None),
        9,
        f'SET "actualCompletion" = ? SET "write" = ? SET "ttl" = ? {ENDED}',
        [{"S": AT}, WRITE, {"N": "9"}],
    ),
    "complete with parts": (
        Complete(Chunks((b"1", b"2"))),
        9,
        f'SET "actualCompletion" = ? SET "parts" = ? SET "write" = ? SET "ttl" = ? {ENDED}',
        [{"S": AT}, {"N": "2"}, WRITE, {"N": "9"}],
    ),
    "complete without its result": (
        Complete(Unavailable.UNAVAILABLE),
        9,
        (f'SET "actualCompletion" = ? SET "resultUnavailable" = ? SET "write" = ? SET "ttl" = ? {ENDED}'),
        [{"S": AT}, {"S": "unavailable"}, WRITE, {"N": "9"}],
    ),
    "store": (
        Complete(None, FAILURE),
        9,
        f'SET "actualCompletion" = ? SET "error" = ? SET "write" = ? SET "ttl" = ? {ENDED}',
        [{"S": AT}, ERROR, WRITE, {"N": "9"}],
    ),
    "hold": (
        Hold(FAILURE),
        None,
        'SET "status" = ? SET "actualCompletion" = ? SET "error" = ? SET "write" = ? REMOVE "ttl"',
        [{"S": "error"}, {"S": AT}, ERROR, WRITE],
    ),
    "release": (
        Release(FAILURE),
        9,
        'SET "error" = ? SET "write" = ? SET "ttl" = ? REMOVE "status"',
        [ERROR, WRITE, {"N": "9"}],
    ),
    "release unstarted": (
        Release(),
        9,
        'SET "write" = ? SET "ttl" = ? REMOVE "status" REMOVE "error"',
        [WRITE, {"N": "9"}],
    ),
    "pin": (Pin.PIN, None, 'REMOVE "ttl"', []),
}


@pytest.mark.parametrize(("change", "ttl", "changes", "values"), FINISHES.values(), ids=FINISHES.keys())
def test_update(change: Change, ttl: int | None, changes: str, values: list[Any]) -> None:
    """Conditional on our attempt, and on its being in progress, as the single write is."""
    write = Write("t", Holder("a1"), change, NOW, ttl, "w1" if WRITE in values else None)
    assert requests.can_update(write)
    assert requests.update("tokens", write, 1) == {
        "Statement": f'UPDATE "tokens" {changes}{OURS}',
        "Parameters": [*values, *ASKED],
    }


def test_a_held_status_is_sharded_and_its_condition_is_not() -> None:
    """The row may have been written before the shards were raised."""
    write = Write("t", Holder("a1"), Hold(FAILURE), NOW, None, "w1")
    parameters = requests.update("tokens", write, 4)["Parameters"]
    assert parameters[0]["S"].startswith("error_")
    assert parameters[-1] == {"S": "inProgress"}


@pytest.mark.parametrize(
    "write",
    [
        Write("t", Holder("a1"), Extend(LEASE), NOW, 9, None),
        Write("t", Resolver("a1", LEASE, "probe"), Complete(None), NOW, 9, "w1"),
    ],
    ids=["extension", "resolver"],
)
def test_what_asks_for_more_is_no_statement(write: Write) -> None:
    """A renewal only ever lengthens, and a resolver moves the fence: these stay single writes."""
    assert not requests.can_update(write)
