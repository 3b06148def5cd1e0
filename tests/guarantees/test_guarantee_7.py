"""Guarantee 7: nothing runs while it is unknown who has the token. And 10: what is not promised."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from lambda_once import Fenced, Held, Misconfigured, StoreUnavailable
from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from tests.guarantees.machines import Cluster, tried
from tests.kit import tables


def _unreachable(**_: Any) -> None:
    raise EndpointConnectionError(endpoint_url="the token table")


@pytest.mark.parametrize("machines", [tables.BOTO3], indirect=True)
def test_nothing_runs_while_the_table_is_out_of_reach(machines: Cluster) -> None:
    """The caller may deliver it again."""
    machines.client.meta.events.register("before-send.dynamodb", _unreachable)
    answer = tried(machines.machine("first"))
    assert isinstance(answer, StoreUnavailable)
    assert answer.token == machines.token
    assert machines.ran == []


class _Contested:
    """A client whose acquisition meets a transaction at the row, each time, and that can read nothing."""

    def __init__(self, client: Any) -> None:
        self.meta = client.meta

    def update_item(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "TransactionConflictException"}}, "UpdateItem")

    def get_item(self, **_: Any) -> Any:
        raise ClientError({"Error": {"Code": "ProvisionedThroughputExceededException"}}, "GetItem")


def test_a_refusal_is_no_outage(machines: Cluster) -> None:
    """Somebody's write is at the row, and who has it cannot be read."""
    store = DynamoDBStore("tokens", _Contested(machines.client))
    answer = tried(machines.machine("first", store=store))
    assert isinstance(answer, StoreUnavailable)
    assert machines.ran == []


def test_an_acquisition_given_up_is_released(machines: Cluster) -> None:
    """All answers were lost, but it had been written: the next delivery need not wait for its lease."""
    machines.lose_answers(6)
    assert isinstance(tried(machines.machine("first")), StoreUnavailable)
    assert machines.row().state is State.RELEASED
    assert tried(machines.machine("second")) == "second"
    assert machines.ran == ["second"]


def test_a_missing_table_is_no_outage(machines: Cluster) -> None:
    """It is Misconfigured."""
    store = DynamoDBStore("missing", machines.client)
    answer = tried(machines.machine("first", store=store))
    assert isinstance(answer, Misconfigured)
    assert "'missing'" in str(answer)
    assert machines.ran == []


def test_a_crash_is_run_again_under_take_over(machines: Cluster) -> None:
    """Not promised: whether the crashed attempt took effect is unknown, and the next one runs."""
    machines.crash()
    machines.lapse()
    assert tried(machines.machine("second")) == "second"


def test_a_crash_is_held_under_hold(machines: Cluster) -> None:
    """Where running again is worse than waiting."""
    machines.crash(on_lapse="hold")
    machines.lapse()
    assert isinstance(tried(machines.machine("second", on_lapse="hold")), Held)
    assert machines.ran == []


def test_transact_closes_the_gap(machines: Cluster) -> None:
    """An attempt that was taken over writes nothing of its own: its effect is its successor's alone."""

    def work(who: str, *, sleeps: bool) -> Any:
        if sleeps:
            machines.lapse()
            tried(second)
        put = {"TableName": "tokens", "Item": {"lockToken": {"S": f"effect of {who}"}}}
        return machines.attempt(who).transact([{"Put": put}], result=who)

    second = machines.machine("second", lambda: work("second", sleeps=False))
    answer = tried(machines.machine("first", lambda: work("first", sleeps=True)))
    assert isinstance(answer, Fenced) or answer == "second"
    keys = {item["lockToken"]["S"] for item in machines.client.scan(TableName="tokens")["Items"]}
    assert keys == {machines.token, "effect of second"}


def test_the_key_for_the_next_system_is_the_same_for_every_attempt(machines: Cluster) -> None:
    """What cannot be in the transaction can be refused there as a duplicate."""
    keys: list[str] = []

    def crash() -> None:
        keys.append(machines.attempt("first").downstream_key("charge"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        tried(machines.machine("first", crash))
    tried(
        machines.machine("second", lambda: keys.append(machines.attempt("second").downstream_key("charge")))
    )
    assert len(keys) == 2
    assert len(set(keys)) == 1
