"""Guarantee 4: every duplicate gets the stored outcome, and the first caller exactly the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from awslambdaric.lambda_runtime_exception import FaultException

from lambda_once import STORE, StoredError, StoreUnavailable
from tests.guarantees.machines import Cluster, Scenario, deliver, tried
from tests.kit.runtime import marshalled

FALSY: list[Any] = [0, {}, [], "", False, None, 0.0]
ROUND_TRIPPED: list[Any] = [(1, 2), {1: "a"}, datetime(2026, 11, 20, tzinfo=UTC), {"b": {"set"}}]


def same_for_all(value: Any) -> Scenario:
    """Lambda's runtime writes *value* alike for the first caller and a duplicate."""

    def scenario(machines: Cluster) -> None:
        first = tried(machines.machine("first", lambda: value))
        second = tried(machines.machine("second", lambda: "run again"))
        assert machines.ran == ["first"]
        assert posted(first) == posted(second)

    return scenario


def posted(answer: Any) -> Any:
    """Return what the runtime writes of *answer*, or how it refuses it."""
    try:
        return marshalled(answer)
    except FaultException as refused:
        return refused


@pytest.mark.parametrize("value", FALSY, ids=repr)
def test_falsy_outcomes_are_replayed(machines: Cluster, value: Any) -> None:
    """They are results like any other."""
    same_for_all(value)(machines)
    again = deliver(machines.machine("third"))
    assert (type(again), again) == (type(value), value)


@pytest.mark.parametrize("value", ROUND_TRIPPED, ids=repr)
def test_the_first_caller_gets_what_duplicates_get(machines: Cluster, value: Any) -> None:
    """What the runtime can write goes to it untouched; all else has been through the serialiser and back."""
    same_for_all(value)(machines)


def test_a_stored_error_is_every_duplicates_error(machines: Cluster) -> None:
    """By the name of the first, with its message."""

    class CardDeclined(Exception):
        pass

    def declined() -> None:
        raise CardDeclined("no funds")

    with pytest.raises(CardDeclined):
        deliver(machines.machine("first", declined, on_error=STORE))
    answer = tried(machines.machine("second"))
    assert isinstance(answer, StoredError)
    assert (type(answer).__name__, str(answer)) == ("CardDeclined", "no funds")
    assert machines.ran == ["first"]


def test_work_that_catches_a_lost_transaction_gets_the_stored_outcome(machines: Cluster) -> None:
    """A transaction is written, its answers are lost; the work catches that and returns something else."""

    def work() -> Any:
        machines.lose_answers(6)
        order = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}
        try:
            return machines.attempt("first").transact([order], result={"paid": True})
        except StoreUnavailable:
            return {"paid": False}

    first = machines.machine("first", work, cache=5)
    answers = [tried(first), tried(first), tried(machines.machine("second"))]
    assert answers == [{"paid": True}] * 3
    assert machines.ran == ["first"]
