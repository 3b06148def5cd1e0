"""Guarantee 3: a response lost on the wire never turns an attempt against itself."""

from __future__ import annotations

import random
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lambda_once import Done, OnceError, StoreUnavailable
from lambda_once.core.writes import Complete, Hold, Resolver, new_write_id
from lambda_once.engine import acquire as acquiring
from lambda_once.engine import attempt
from lambda_once.stores import batches, requests, store
from lambda_once.stores.contract import Refused, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing.store_suite.world import BROKEN
from tests.guarantees.machines import Cluster, breaks, by_content, by_id_and_state, deliver, holds, tried

LARGE = {which: random.Random(which).randbytes(60_000).hex() for which in ("transacted", "returned")}
RECOGNISING = (store, batches)
"""Where the store asks whether a refused write is its own: single writes, batches and transactions."""


def _acquisition_lost(machines: Cluster) -> None:
    """The acquisition is written, and its answer is lost."""
    machines.lose_answers()
    assert tried(machines.machine("first")) == "first"


def _renewal_lost(machines: Cluster) -> None:
    """The lease is renewed, and the answer is lost."""

    def work() -> str:
        machines.lose_answers()
        machines.attempt("first").extend(3_100 / 3)  # the row keeps whole milliseconds of it
        return "paid"

    assert tried(machines.machine("first", work)) == "paid"


def _transaction_lost(machines: Cluster) -> None:
    """The transaction is written, and its answer is lost."""

    def work() -> Any:
        machines.lose_answers()
        order = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}
        return machines.attempt("first").transact([order], result="paid")

    assert tried(machines.machine("first", work)) == "paid"


def test_a_lost_acquisition_is_ours() -> None:
    """The second try finds our attempt id in the row, and the work runs."""
    holds(_acquisition_lost)


def test_a_lost_renewal_is_ours() -> None:
    """The second try finds the lease as it should be, and the work goes on."""
    holds(_renewal_lost)


def test_a_lost_transaction_is_ours() -> None:
    """The second try is refused by our own completion: it is done."""
    holds(_transaction_lost)


def test_a_lost_completion_is_ours() -> None:
    """The second try finds the token complete by us, and nobody is told anything else."""

    def completion_lost(machines: Cluster) -> None:
        def work() -> str:
            machines.lose_answers()
            return "paid"

        assert tried(machines.machine("first", work)) == "paid"
        assert tried(machines.machine("second")) == "paid"
        assert machines.ran == ["first"]

    holds(completion_lost)


def test_twin_without_recognition_an_acquisition_is_its_own_enemy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It finds the token in progress, by itself, and gives up."""

    def unrecognised(self: DynamoDBStore, error: Any, acquisition: Any, deadline: Any) -> Refused:
        return Refused(self.read(acquisition.token, deadline))

    monkeypatch.setattr(DynamoDBStore, "_not_acquired", unrecognised)
    breaks(_acquisition_lost)


@pytest.mark.parametrize("scenario", [_renewal_lost, _transaction_lost])
def test_twin_without_recognition_an_attempt_is_fenced_by_itself(
    monkeypatch: pytest.MonkeyPatch, scenario: Any
) -> None:
    """It takes its own write for a successor's."""
    for module in RECOGNISING:
        monkeypatch.setattr(module, "made_by", lambda *_: False)
    breaks(scenario)


def _two_completions(machines: Cluster) -> None:
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


def test_another_completion_of_the_attempt_is_not_ours() -> None:
    """A transaction that was refused by it says so: nothing of the user's was written (guarantee 8)."""
    holds(_two_completions)


def _large_after_a_lost_transaction(machines: Cluster) -> None:
    """A transaction with a large result is written, unheard, and the work returns another one."""

    def work() -> Any:
        machines.lose_answers(6)
        order = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}
        with pytest.raises(StoreUnavailable):
            machines.attempt("first").transact([order], result=LARGE["transacted"])
        return LARGE["returned"]

    answers = [tried(machines.machine("first", work)), tried(machines.machine("second"))]
    assert answers == [LARGE["transacted"]] * 2


def test_what_a_lost_transaction_wrote_stands() -> None:
    """The caller gets it, as every duplicate does, and a refused completion has not touched its parts."""
    holds(_large_after_a_lost_transaction)


@pytest.mark.parametrize(
    ("how", "scenario"),
    [
        (by_id_and_state, _two_completions),
        (by_id_and_state, _large_after_a_lost_transaction),
        (by_content, _two_completions),
    ],
)
def test_twin_that_recognises_by_state_or_content(
    monkeypatch: pytest.MonkeyPatch, how: Any, scenario: Any
) -> None:
    """It takes another write of its attempt for its own."""
    for module in RECOGNISING:
        monkeypatch.setattr(module, "made_by", how)
    breaks(scenario)


def test_twin_with_parts_named_by_attempt_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A completion that is refused has overwritten the parts of the transaction that stands."""
    monkeypatch.setattr(requests, "part_key", lambda token, attempt, _write, n: f"{token}#{attempt}#{n}")
    breaks(_large_after_a_lost_transaction)


def _another_final_state(machines: Cluster) -> None:
    """A completed attempt's late hold is refused: the store must not call that written."""
    answers = []

    def work() -> None:
        attempt = machines.attempt("first")
        attempt.complete("paid")
        write = machines.write(attempt.id, Hold(BROKEN), ttl=None)
        answers.extend(machines.store.write([write], machines.deadline))

    deliver(machines.machine("first", work))
    assert answers == [Refused(machines.row())]


def test_our_id_in_another_final_state_is_no_success() -> None:
    """The id alone does not make the write ours: that state stands."""
    holds(_another_final_state)


def test_twin_that_looks_at_the_id_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reports a hold that nobody will ever see."""

    def by_id(record: Any, write: Any) -> bool:
        return record is not None and record.attempt_id == write.attempt_id

    for module in RECOGNISING:
        monkeypatch.setattr(module, "made_by", by_id)
    breaks(_another_final_state)


def _resolved_while_asleep(machines: Cluster) -> None:
    """A probe completes the token of an attempt that is only slow; then the attempt wakes up."""
    prober = machines.machine("second", on_lapse=lambda *_: Done("what the probe found"))

    def overslept() -> str:
        machines.lapse()
        assert not isinstance(tried(prober), OnceError)
        return "what the sleeper has"

    woken = tried(machines.machine("first", overslept, on_lapse="hold"))
    assert woken == tried(prober) == "what the probe found"


def test_who_wakes_up_after_a_resolution_gets_it() -> None:
    """It is answered what every duplicate is answered."""
    holds(_resolved_while_asleep)


def test_twin_with_the_sleepers_id_and_state_at_the_resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognised by id and state, the woken attempt takes the resolution for its own write."""
    from lambda_once.engine import probe as probing

    for module in (acquiring, probing):
        if hasattr(module, "Resolver"):
            seen = SimpleNamespace(of=lambda record, _: Resolver.of(record, record.attempt_id))
            monkeypatch.setattr(module, "Resolver", seen)
    for module in RECOGNISING:
        monkeypatch.setattr(module, "made_by", by_id_and_state)
    breaks(_resolved_while_asleep)


def test_twin_with_fractions_of_a_millisecond_a_renewal_is_its_own_enemy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lease in the row is a little shorter than the one that was wished for: it is no renewal of ours."""
    monkeypatch.setattr(attempt, "to_milliseconds", lambda at: at)
    breaks(_renewal_lost)
