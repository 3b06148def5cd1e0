"""DynamoDB: which attributes a row has in each state, and in which form."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Failure, OnLapse, State
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.writes import Change, Complete, Extend
from lambda_once.stores.row import listed
from tests.stores.suite.world import FAILED, HELD, PAID, RELEASED, UNSTARTED, World

AT = "2026-11-20T10:12:00.000Z"
LEASE_ENDS = "2026-11-20T10:12:30.000Z"
ALWAYS = {"lockToken", "lockedBy", "attempt", "fence", "created", "expectedCompletion"}
ERROR = {"M": {"kind": {"S": "ValueError"}, "message": {"S": "no such order"}}}
IN_TWO_WEEKS = {"N": "1796379120"}  # 2026-12-04T10:12:00Z


def _acquired(world: World, rule: OnLapse = OnLapse.TAKE_OVER) -> dict[str, object]:
    answer = world.won(rule=rule, fingerprint="f", delivery="m-1", presented=Presented("Bearer x"))
    return {
        "lockToken": {"S": world.token},
        "lockedBy": {"S": "orders/request-of-a1"},
        "attempt": {"S": "a1"},
        "fence": {"N": str(answer.fence)},
        "delivery": {"S": "m-1"},
        "caller": {"S": "a1.69b662c8ad059f6fb82c14553d1d8854b2a9099a6e87f0c72306fa7e620f6f0b"},
        "fingerprint": {"S": "f"},
        "created": {"S": AT},
        "expectedCompletion": {"S": LEASE_ENDS},
        "generation": {"S": "a1"},
    }


def _open(world: World) -> dict[str, dict[str, str]]:
    return {"status": {"S": "inProgress"}, "listed": _listed(world, State.IN_PROGRESS)}


def _listed(world: World, state: State) -> dict[str, str]:
    return {"S": listed(state, world.token)}


def test_in_progress_under_take_over(dynamodb: World) -> None:
    """A status, its partition of the index, and a ttl: its lease and keep, in seconds."""
    row = _acquired(dynamodb)
    assert dynamodb.item() == row | {
        "status": {"S": "inProgress"},
        "listed": _listed(dynamodb, State.IN_PROGRESS),
        "ttl": {"N": "1796379150"},
    }


@pytest.mark.parametrize("rule", [OnLapse.HOLD, OnLapse.PROBE])
def test_in_progress_under_hold_and_probe(dynamodb: World, rule: OnLapse) -> None:
    """What may have to wait for a person has no ttl."""
    row = _acquired(dynamodb, rule)
    assert dynamodb.item() == row | {
        "status": {"S": "inProgress"},
        "listed": _listed(dynamodb, State.IN_PROGRESS),
    }


def test_without_delivery_and_payload(dynamodb: World) -> None:
    """A source without a delivery id, and a call without a fingerprint, leave no empty attributes."""
    dynamodb.won()
    assert set(dynamodb.item() or ()) == ALWAYS | {"generation", "status", "listed", "ttl"}


SEALED = Failure("ValueError", "(sealed)", b"sealed:x")

FINISHED = {
    "a text": (PAID, {"result": {"S": '{"paid": true}'}}),
    "bytes": (Complete(Inline(b"\x01")), {"result": {"B": b"\x01"}}),
    "none": (Complete(None), {}),
    "a sealed error": (
        Complete(None, SEALED),
        {"error": {"M": {**ERROR["M"], "message": {"S": "(sealed)"}, "sealed": {"B": b"sealed:x"}}}},
    ),
    "unavailable": (Complete(Unavailable.UNAVAILABLE), {"resultUnavailable": {"S": "unavailable"}}),
    "parts": (Complete(Chunks((b"1", b"2"))), {"parts": {"N": "2"}}),
    "stored error": (FAILED, {"error": ERROR}),
}


@pytest.mark.parametrize(("change", "result"), FINISHED.values(), ids=FINISHED.keys())
def test_complete(dynamodb: World, change: Change, result: dict[str, object]) -> None:
    """Neither status nor listed, as the index is to forget it; no generation; at most one result."""
    row = _acquired(dynamodb)
    del row["generation"]
    dynamodb.send(dynamodb.write(change, write="w1", fields=b"\0\1ab"))
    ends = {"actualCompletion": {"S": AT}, "ttl": IN_TWO_WEEKS, "write": {"S": "w1"}}
    assert dynamodb.item() == row | result | ends | {"fields": {"S": "00016162"}}


def test_held(dynamodb: World) -> None:
    """In the index as an error, with the error, and without a ttl."""
    row = _acquired(dynamodb)
    dynamodb.finish(HELD, write="w1")
    held = {"status": {"S": "error"}, "listed": _listed(dynamodb, State.HELD)}
    ends = {"actualCompletion": {"S": AT}, "error": ERROR, "write": {"S": "w1"}}
    assert dynamodb.item() == row | held | ends


@pytest.mark.parametrize(("change", "error"), [(RELEASED, {"error": ERROR}), (UNSTARTED, {})])
def test_released(dynamodb: World, change: Change, error: dict[str, object]) -> None:
    """Neither status nor completion; the error where there was one."""
    row = _acquired(dynamodb)
    dynamodb.finish(change, write="w1")
    assert dynamodb.item() == row | error | {"ttl": IN_TWO_WEEKS, "write": {"S": "w1"}}


def test_extended(dynamodb: World) -> None:
    """Lease and ttl move together, the rest stays."""
    row = _acquired(dynamodb)
    dynamodb.finish(Extend(dynamodb.ends(timedelta(seconds=60))))
    ends = {"expectedCompletion": {"S": "2026-11-20T10:13:00.000Z"}, "ttl": {"N": "1796379180"}}
    assert dynamodb.item() == row | _open(dynamodb) | ends


def test_times_have_one_width(dynamodb: World) -> None:
    """They are compared as text: a time without milliseconds is as long as one with them."""
    dynamodb.clock.advance(0.007)
    dynamodb.won()
    item = dynamodb.item() or {}
    assert item["created"] == {"S": "2026-11-20T10:12:00.007Z"}
    assert item["expectedCompletion"] == {"S": "2026-11-20T10:12:30.007Z"}


def test_a_lease_in_another_zone_is_stored_in_utc(dynamodb: World) -> None:
    """The text sorts as time does only in one zone."""
    from datetime import timezone

    acquisition = dynamodb.acquisition()
    dynamodb.acquire(acquisition._replace(lease=acquisition.lease.astimezone(timezone(timedelta(hours=-5)))))
    assert (dynamodb.item() or {})["expectedCompletion"] == {"S": LEASE_ENDS}
