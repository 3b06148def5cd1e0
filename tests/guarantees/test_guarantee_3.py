"""Guarantee 3: a response lost on the wire never turns an attempt against itself."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from lambda_once import Done, OnceError, StoreUnavailable
from lambda_once.core.writes import Complete, Hold, new_write_id
from lambda_once.stores.contract import Refused, Written
from tests.guarantees.machines import Cluster, deliver, tried
from tests.stores.suite.world import BROKEN

LARGE = {which: random.Random(which).randbytes(60_000).hex() for which in ("transacted", "returned")}


def test_a_lost_acquisition_is_ours(machines: Cluster) -> None:
    """The acquisition is written, and its answer is lost."""
    machines.lose_answers()
    assert tried(machines.machine("first")) == "first"


def test_a_lost_renewal_is_ours(machines: Cluster) -> None:
    """The lease is renewed, and the answer is lost."""

    def work() -> str:
        machines.lose_answers()
        machines.attempt("first").extend(3_100 / 3)  # the row keeps whole milliseconds of it
        return "paid"

    assert tried(machines.machine("first", work)) == "paid"


def test_a_lost_transaction_is_ours(machines: Cluster) -> None:
    """The transaction is written, and its answer is lost."""

    def work() -> Any:
        machines.lose_answers()
        order = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}
        return machines.attempt("first").transact([order], result="paid")

    assert tried(machines.machine("first", work)) == "paid"


def test_a_lost_completion_is_ours(machines: Cluster) -> None:
    """The second try finds the token complete by us, and no caller gets anything else."""

    def work() -> str:
        machines.lose_answers()
        return "paid"

    assert tried(machines.machine("first", work)) == "paid"
    assert tried(machines.machine("second")) == "paid"
    assert machines.ran == ["first"]


def test_another_completion_of_the_attempt_is_not_ours(machines: Cluster) -> None:
    """A transaction meets the completion of its own attempt, equal and of the same millisecond."""
    answers = []

    def work() -> str:
        attempt = machines.attempt("first")
        write = machines.write(attempt.id, Complete(None), ttl=2_000_000_000)
        equal = replace(write, id=new_write_id(write.change))
        order = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}
        answers.extend(machines.store.write([write], machines.deadline))
        answers.append(machines.store.transact(equal, [order], machines.deadline))
        return "paid"

    deliver(machines.machine("first", work))
    assert answers == [Written.WRITTEN, Refused(machines.row())]
    assert "Item" not in machines.client.get_item(TableName="tokens", Key={"lockToken": {"S": "the order"}})


def test_a_lost_transaction_is_the_outcome(machines: Cluster) -> None:
    """A transaction with a large result is written, unheard, and the work returns another one."""

    def work() -> Any:
        machines.lose_answers(6)
        order = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}
        with pytest.raises(StoreUnavailable):
            machines.attempt("first").transact([order], result=LARGE["transacted"])
        return LARGE["returned"]

    answers = [tried(machines.machine("first", work)), tried(machines.machine("second"))]
    assert answers == [LARGE["transacted"]] * 2


def test_our_id_in_another_final_state_is_no_success(machines: Cluster) -> None:
    """A completed attempt's late hold is refused: the store must not call that written."""
    answers = []

    def work() -> None:
        attempt = machines.attempt("first")
        attempt.complete("paid")
        write = machines.write(attempt.id, Hold(BROKEN), ttl=None)
        answers.extend(machines.store.write([write], machines.deadline))

    deliver(machines.machine("first", work))
    assert answers == [Refused(machines.row())]


def test_an_attempt_that_resumes_after_a_decision_gets_it(machines: Cluster) -> None:
    """A probe completes the token of an attempt that is only slow; then the attempt wakes up."""
    prober = machines.machine("second", on_lapse=lambda *_: Done("what the probe found"))

    def outlives_its_lease() -> str:
        machines.lapse()
        assert not isinstance(tried(prober), OnceError)
        return "what the sleeper has"

    woken = tried(machines.machine("first", outlives_its_lease, on_lapse="hold"))
    assert woken == tried(prober) == "what the probe found"
