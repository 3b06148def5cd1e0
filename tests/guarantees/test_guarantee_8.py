"""Guarantee 8: `transact` reports success only if the user's items were written."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once import Fenced, Misconfigured
from lambda_once.engine.ownership import Ownership
from lambda_once.stores import batches, store
from tests.guarantees.machines import Cluster, breaks, by_content, by_id_and_state, deliver, holds

ORDER = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}


def _written(machines: Cluster) -> bool:
    return "Item" in machines.client.get_item(TableName="tokens", Key={"lockToken": {"S": "the order"}})


def _after_complete(machines: Cluster) -> None:
    """The work completes its token, and then writes an order with the very outcome that is stored."""

    def work() -> None:
        attempt = machines.attempt("first")
        attempt.complete("paid")
        try:
            attempt.transact([ORDER], result="paid")
        except (Fenced, Misconfigured):
            assert not _written(machines)
        else:
            assert _written(machines)

    deliver(machines.machine("first", work))
    assert machines.ran == ["first"]


def test_a_transaction_says_what_was_written() -> None:
    """After a completion it is refused, and says so: a success that wrote nothing loses the order."""
    holds(_after_complete)


@pytest.mark.parametrize("how", [by_id_and_state, by_content])
def test_twin_that_takes_another_completion_for_the_transaction(
    monkeypatch: pytest.MonkeyPatch, how: Any
) -> None:
    """Sent after all, and recognised by less than its id, it reports success with nothing written."""
    begin = Ownership.begin_transaction

    def whenever(attempt: Ownership) -> Any:
        attempt._finishing = False
        return begin(attempt)

    monkeypatch.setattr(Ownership, "begin_transaction", whenever)
    for module in (store, batches):
        monkeypatch.setattr(module, "made_by", how)
    breaks(_after_complete)


def test_without_the_order_in_the_process_the_row_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is sent when, the write id alone tells the two apart."""
    begin = Ownership.begin_transaction

    def whenever(attempt: Ownership) -> Any:
        attempt._finishing = False
        return begin(attempt)

    monkeypatch.setattr(Ownership, "begin_transaction", whenever)
    holds(_after_complete)
