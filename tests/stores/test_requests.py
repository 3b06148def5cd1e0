"""Requests as values: the whole of what goes to DynamoDB."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from lambda_once.core.lifecycle import Failure, Resolution, State
from lambda_once.core.results import Inline
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
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
    trace="00-5b-6c-01",
)
ERROR = {"M": {"kind": {"S": "ValueError"}, "message": {"S": "no"}}}
IN_PROGRESS = {":in_progress": {"S": "inProgress"}}


def _names(*names: str) -> dict[str, str]:
    return {f"#{name}": name for name in names}


TAKEN = {
    ":lockedBy_": {"S": "orders/r1"},
    ":attempt_": {"S": "a1"},
    ":created_": {"S": AT},
    ":expectedCompletion_": {"S": ENDS},
    ":status_": {"S": "inProgress"},
    ":epoch_ms": {"N": "1795169520000"},
    ":one": {"N": "1"},
    ":before_": {"S": "none"},
}
CLEARED = "#actualCompletion, #result, #error, #parts, #resultUnavailable, #write"
SETS = (
    "SET #lockedBy = :lockedBy_, #attempt = :attempt_, #created = :created_, "
    "#expectedCompletion = :expectedCompletion_, #status = :status_"
)
SHAPE = (
    "attribute_type(attempt, :text) AND attribute_type(fence, :number) AND attribute_type(lockedBy, :text) "
    "AND attribute_type(created, :text) AND attribute_type(expectedCompletion, :text)"
)
KINDS = {":text": {"S": "S"}, ":number": {"S": "N"}}
FENCE = "fence = if_not_exists(fence, :epoch_ms) + :one, #before = if_not_exists(#status, :before_)"
TOUCHED = (
    *("lockedBy", "attempt", "created", "expectedCompletion", "status", "before"),
    *("actualCompletion", "result", "error", "parts", "resultUnavailable", "write"),
    *("fingerprint", "fields", "delivery", "caller", "trace", "ttl"),
)


def test_acquire_under_take_over() -> None:
    """Absent, finished and expired, released by another, or lapsed with the same payload."""
    assert requests.acquire("tokens", ACQUISITION, 1) == {
        "TableName": "tokens",
        "Key": {"lockToken": {"S": "t"}},
        "UpdateExpression": (
            f"{SETS}, #fingerprint = :fingerprint_, #fields = :fields_, #delivery = :delivery_, "
            f"#caller = :caller_, #trace = :trace_, #ttl = :ttl_, {FENCE} "
            f"REMOVE {CLEARED}"
        ),
        "ConditionExpression": (
            f"attribute_not_exists(lockToken) OR ({SHAPE} AND ((attribute_not_exists(#status) AND "
            "((attribute_not_exists(actualCompletion) AND attempt <> :a) OR #ttl <= :now_s)) OR "
            "(begins_with(#status, :in_progress) AND expectedCompletion < :now AND attempt <> :a "
            "AND attribute_not_exists(caller) AND (attribute_not_exists(fingerprint) OR fingerprint = :f))))"
        ),
        "ExpressionAttributeNames": _names(*TOUCHED),
        "ExpressionAttributeValues": {
            **TAKEN,
            **IN_PROGRESS,
            **KINDS,
            ":fingerprint_": {"S": "f"},
            ":fields_": {"B": b"ab"},
            ":delivery_": {"S": "m-1"},
            ":caller_": {"S": "a1.c"},
            ":trace_": {"S": "00-5b-6c-01"},
            ":ttl_": {"N": "1796379150"},
            ":now_s": {"N": "1795169520"},
            ":now": {"S": AT},
            ":a": {"S": "a1"},
            ":f": {"S": "f"},
        },
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def _bare(take: Unclaimed | AsSeen, condition: str, values: dict[str, Any], *, asks: set[str]) -> None:
    """Without payload, delivery, caller and ttl these are removed, and each of *asks* is among the names."""
    acquisition = ACQUISITION._replace(
        take=take, ttl=None, fingerprint=None, fields=None, delivery=None, caller=None, trace=None
    )
    built = requests.acquire("tokens", acquisition, 1)
    assert built == {
        "TableName": "tokens",
        "Key": {"lockToken": {"S": "t"}},
        "UpdateExpression": (
            f"{SETS}, {FENCE} REMOVE {CLEARED}, #fingerprint, #fields, #delivery, #ttl, #caller, #trace"
        ),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": _names(*TOUCHED),
        "ExpressionAttributeValues": TAKEN | values,
        "ReturnValues": "ALL_NEW",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    assert asks <= set(built["ExpressionAttributeNames"])


def test_the_first_acquisition_sets_the_generation() -> None:
    """A later one keeps it; without one of its own, nothing is asked for."""
    plain = requests.acquire("tokens", ACQUISITION, 1)
    given = requests.acquire("tokens", ACQUISITION._replace(generation="g"), 1)
    set_once = f"{FENCE}, generation = if_not_exists(generation, :generation)"
    assert given["UpdateExpression"] == plain["UpdateExpression"].replace(FENCE, set_once)
    values = plain["ExpressionAttributeValues"] | {":generation": {"S": "g"}}
    assert given["ExpressionAttributeValues"] == values
    left_out = ("UpdateExpression", "ExpressionAttributeValues")
    assert all(given[name] == plain[name] for name in plain if name not in left_out)


def test_acquire_under_hold() -> None:
    """Absent, or finished and expired; nothing else."""
    condition = (
        f"attribute_not_exists(lockToken) OR ({SHAPE} AND (attribute_not_exists(#status) AND #ttl <= :now_s))"
    )
    values = {":now_s": {"N": "1795169520"}, **KINDS}
    _bare(Unclaimed(take_over=False), condition, values, asks={"#status", "#ttl"})


def test_acquire_what_was_seen_released() -> None:
    """Exactly that attempt, still released."""
    condition = "attempt = :seen AND attribute_not_exists(#status) AND attribute_not_exists(actualCompletion)"
    _bare(AsSeen("a0", None), condition, {":seen": {"S": "a0"}}, asks={"#status"})


def test_acquire_what_was_seen_lapsed() -> None:
    """Exactly that attempt and lease."""
    condition = "attempt = :seen AND begins_with(#status, :in_progress) AND expectedCompletion = :lease"
    _bare(
        AsSeen("a0", LEASE),
        condition,
        {":seen": {"S": "a0"}, ":lease": {"S": ENDS}} | IN_PROGRESS,
        asks={"#status"},
    )


OURS = "attempt = :a AND begins_with(#status, :in_progress)"
FAILURE = Failure("ValueError", "no")
LATER = LEASE + timedelta(seconds=30)
WRITE = {":write_": {"S": "w1"}}
FINISHES: dict[str, tuple[Change, int | None, str, str, dict[str, Any], tuple[str, ...]]] = {
    "complete": (
        Complete(Inline("1")),
        9,
        (
            "SET #actualCompletion = :actualCompletion_, #result = :result_, #write = :write_, #ttl = :ttl_ "
            "REMOVE #status, #generation"
        ),
        OURS,
        {":actualCompletion_": {"S": AT}, ":result_": {"S": "1"}, ":ttl_": {"N": "9"}, **WRITE},
        ("actualCompletion", "generation", "result", "status", "ttl", "write"),
    ),
    "store": (
        Complete(None, FAILURE),
        9,
        (
            "SET #actualCompletion = :actualCompletion_, #error = :error_, #write = :write_, #ttl = :ttl_ "
            "REMOVE #status, #generation"
        ),
        OURS,
        {":actualCompletion_": {"S": AT}, ":error_": ERROR, ":ttl_": {"N": "9"}, **WRITE},
        ("actualCompletion", "error", "generation", "status", "ttl", "write"),
    ),
    "hold": (
        Hold(FAILURE),
        None,
        (
            "SET #status = :status_, #actualCompletion = :actualCompletion_, #error = :error_, "
            "#write = :write_ REMOVE #ttl"
        ),
        OURS,
        {":status_": {"S": "error"}, ":actualCompletion_": {"S": AT}, ":error_": ERROR, **WRITE},
        ("actualCompletion", "error", "status", "ttl", "write"),
    ),
    "release": (
        Release(FAILURE),
        9,
        "SET #error = :error_, #write = :write_, #ttl = :ttl_ REMOVE #status",
        OURS,
        {":error_": ERROR, ":ttl_": {"N": "9"}, **WRITE},
        ("error", "status", "ttl", "write"),
    ),
    "release unstarted": (
        Release(),
        9,
        "SET #write = :write_, #ttl = :ttl_ REMOVE #status, #error",
        OURS,
        {":ttl_": {"N": "9"}, **WRITE},
        ("error", "status", "ttl", "write"),
    ),
    "extend": (
        Extend(LATER),
        9,
        "SET #expectedCompletion = :expectedCompletion_, #ttl = :ttl_",
        f"{OURS} AND expectedCompletion < :new",
        {
            ":expectedCompletion_": {"S": "2026-11-20T10:13:00.000Z"},
            ":ttl_": {"N": "9"},
            ":new": {"S": "2026-11-20T10:13:00.000Z"},
        },
        ("expectedCompletion", "status", "ttl"),
    ),
    "pin": (Pin.PIN, None, "REMOVE #ttl", OURS, {}, ("status", "ttl")),
}


@pytest.mark.parametrize(
    ("change", "ttl", "update", "condition", "values", "names"), FINISHES.values(), ids=FINISHES.keys()
)
def test_finish(
    change: Change,
    ttl: int | None,
    update: str,
    condition: str,
    values: dict[str, Any],
    names: tuple[str, ...],
) -> None:
    """Conditional on our attempt, and on its being in progress."""
    write = Write("t", Holder("a1"), change, NOW, ttl, "w1" if ":write_" in values else None)
    assert requests.finish("tokens", write, 1) == {
        "TableName": "tokens",
        "Key": {"lockToken": {"S": "t"}},
        "UpdateExpression": update,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": _names(*names),
        "ExpressionAttributeValues": {**values, **IN_PROGRESS, ":a": {"S": "a1"}},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_finish_by_an_onlooker() -> None:
    """Conditional on the attempt and lease that were seen; with a fresh id, and the fence one above."""
    write = Write("t", Resolver("a1", LEASE, "probe"), Complete(None), NOW, 9, "w1")
    assert requests.finish("tokens", write, 1) == {
        "TableName": "tokens",
        "Key": {"lockToken": {"S": "t"}},
        "UpdateExpression": (
            "SET #actualCompletion = :actualCompletion_, #write = :write_, #ttl = :ttl_, "
            "#attempt = :attempt_, fence = fence + :one REMOVE #status, #generation"
        ),
        "ConditionExpression": (
            "attempt = :seen AND begins_with(#status, :in_progress) AND expectedCompletion = :lease"
        ),
        "ExpressionAttributeNames": _names(
            "actualCompletion", "attempt", "generation", "status", "ttl", "write"
        ),
        "ExpressionAttributeValues": {
            ":actualCompletion_": {"S": AT},
            ":attempt_": {"S": "probe"},
            ":ttl_": {"N": "9"},
            **WRITE,
            ":one": {"N": "1"},
            ":seen": {"S": "a1"},
            ":lease": {"S": ENDS},
            **IN_PROGRESS,
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


RELEASED = "attempt = :seen AND attribute_not_exists(#status) AND attribute_not_exists(actualCompletion)"
SEEN: dict[State, tuple[str, dict[str, Any]]] = {
    State.IN_PROGRESS: (
        "attempt = :seen AND begins_with(#status, :in_progress) AND expectedCompletion = :lease",
        IN_PROGRESS,
    ),
    State.HELD: (
        "attempt = :seen AND begins_with(#status, :held) AND expectedCompletion = :lease",
        {":held": {"S": "error"}},
    ),
    State.COMPLETE: (
        (
            "attempt = :seen AND attribute_not_exists(#status) AND attribute_exists(actualCompletion) "
            "AND expectedCompletion = :lease AND fence = :fence"
        ),
        {":fence": {"N": "7"}},
    ),
    State.RELEASED: (f"{RELEASED} AND expectedCompletion = :lease", {}),
}


@pytest.mark.parametrize("seen", SEEN)
def test_a_verdict_names_who_decided_and_what_was_seen(seen: State) -> None:
    """Attempt, state and lease; what an earlier outcome left is removed, and the reason is set."""
    condition, values = SEEN[seen]
    note = Resolution("ann", "seen at the provider", NOW, "fresh", times=2)
    by = Resolver("a1", LEASE, "fresh", seen, 7)
    cleared = ["#status", "#error"]
    if seen is not State.IN_PROGRESS:
        cleared = ["#actualCompletion", "#result", "#error", "#parts", "#resultUnavailable", "#status"]
    touched = {name.removeprefix("#") for name in cleared} | {
        "status",
        "resolution",
        "ttl",
        "attempt",
        "write",
    }
    assert requests.finish("tokens", Write("t", by, Release(), NOW, 9, "w1", note), 1) == {
        "TableName": "tokens",
        "Key": {"lockToken": {"S": "t"}},
        "UpdateExpression": (
            "SET #write = :write_, #resolution = :resolution_, #ttl = :ttl_, #attempt = :attempt_, "
            "fence = fence + :one "
            f"REMOVE {', '.join(cleared)}"
        ),
        "ConditionExpression": condition,
        "ExpressionAttributeNames": _names(*touched),
        "ExpressionAttributeValues": {
            ":resolution_": {
                "M": {
                    "kind": {"S": "person"},
                    "by": {"S": "ann"},
                    "because": {"S": "seen at the provider"},
                    "at": {"S": AT},
                    "attempt": {"S": "fresh"},
                    "times": {"N": "2"},
                }
            },
            ":attempt_": {"S": "fresh"},
            ":ttl_": {"N": "9"},
            **WRITE,
            ":one": {"N": "1"},
            ":seen": {"S": "a1"},
            ":lease": {"S": ENDS},
            **values,
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


def test_a_verdict_that_holds_leaves_its_status() -> None:
    """It sets status, completion and error, and removes the rest of an earlier outcome, and the ttl."""
    by = Resolver("a1", LEASE, "fresh", State.COMPLETE)
    built = requests.finish("tokens", Write("t", by, Hold(FAILURE), NOW, None, "w1"), 1)
    _, removed = built["UpdateExpression"].split(" REMOVE ")
    assert removed == "#result, #parts, #resultUnavailable, #ttl"


def test_a_status_is_sharded_by_its_token() -> None:
    """The same token always writes to the same shard, and not all tokens to one."""
    written = [
        requests.acquire("tokens", ACQUISITION._replace(token=f"t{n}"), 4)["ExpressionAttributeValues"][
            ":status_"
        ]["S"]
        for n in (*range(50), *range(50))
    ]
    assert written[:50] == written[50:]
    assert set(written) == {f"inProgress_{n}" for n in range(4)}
