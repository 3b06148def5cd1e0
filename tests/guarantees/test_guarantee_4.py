"""Guarantee 4: every duplicate gets the stored outcome, and the first caller exactly the same."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from lambda_once import STORE, StoredError, StoreUnavailable
from lambda_once.engine import finish as finishing
from lambda_once.stores import batches, store
from tests.guarantees.machines import Cluster, Scenario, breaks, by_id_and_state, deliver, holds, tried

FALSY: list[Any] = [0, {}, [], "", False, None, 0.0]
ROUND_TRIPPED: list[Any] = [(1, 2), {1: "a"}, datetime(2026, 11, 20, tzinfo=UTC), {"b": {"set"}}]


def _same_for_all(value: Any) -> Scenario:
    def scenario(machines: Cluster) -> None:
        first = tried(machines.machine("first", lambda: value))
        second = tried(machines.machine("second", lambda: "run again"))
        assert machines.ran == ["first"]
        assert (type(first), first) == (type(second), second)

    return scenario


@pytest.mark.parametrize("value", FALSY, ids=repr)
def test_falsy_outcomes_are_replayed(value: Any) -> None:
    """They are results like any other."""

    def scenario(machines: Cluster) -> None:
        _same_for_all(value)(machines)
        again = deliver(machines.machine("third"))
        assert (type(again), again) == (type(value), value)

    holds(scenario)


@pytest.mark.parametrize("value", ROUND_TRIPPED, ids=repr)
def test_the_first_caller_gets_what_later_ones_get(value: Any) -> None:
    """It has been through the serialiser and back."""
    holds(_same_for_all(value))


def test_twin_that_returns_the_value_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller's tuple is a list to all others."""
    kept = finishing.stored_result
    monkeypatch.setattr(
        finishing, "stored_result", lambda codec, value, seal: kept(codec, value, seal)._replace(value=value)
    )
    breaks(_same_for_all((1, 2)))


@pytest.mark.parametrize("value", [0, {}, [], "", False], ids=repr)
def test_twin_that_asks_for_truth(monkeypatch: pytest.MonkeyPatch, value: Any) -> None:
    """A store of `value or None` turns every falsy result into None."""
    kept = finishing.stored_result

    def truthy(codec: Any, value: Any, seal: Any) -> Any:
        result = kept(codec, value, seal)
        return result if value else result._replace(stored=None)

    monkeypatch.setattr(finishing, "stored_result", truthy)
    breaks(_same_for_all(value))


def test_a_stored_error_is_every_duplicates_error() -> None:
    """By the name of the first, with its message."""

    class CardDeclined(Exception):
        pass

    def declined() -> None:
        raise CardDeclined("no funds")

    def scenario(machines: Cluster) -> None:
        with pytest.raises(CardDeclined):
            deliver(machines.machine("first", declined, on_error=STORE))
        answer = tried(machines.machine("second"))
        assert isinstance(answer, StoredError)
        assert (type(answer).__name__, str(answer)) == ("CardDeclined", "no funds")
        assert machines.ran == ["first"]

    holds(scenario)


def _caught(machines: Cluster) -> None:
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


def test_a_work_that_catches_a_lost_transaction_gets_what_stands() -> None:
    """Its caller, its own environment's cache and every other environment answer alike."""
    holds(_caught)


def test_twin_that_returns_its_own_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller hears that it was not paid, and all others that it was."""
    for module in (store, batches):
        monkeypatch.setattr(module, "made_by", by_id_and_state)
    breaks(_caught)
