"""Guarantee 8: `transact` reports success only if the user's items were written."""

from __future__ import annotations

import pytest

from lambda_once import Fenced, Misconfigured
from tests.guarantees.machines import Cluster, deliver
from tests.simulation.guards import whenever

ORDER = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "the order"}}}}


def _written(machines: Cluster) -> bool:
    return "Item" in machines.client.get_item(TableName="tokens", Key={"lockToken": {"S": "the order"}})


def test_a_transaction_says_what_was_written(machines: Cluster) -> None:
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


def test_without_the_order_in_the_process_the_row_refuses(
    machines: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is sent when, the write id alone tells the two apart."""
    whenever(monkeypatch)
    test_a_transaction_says_what_was_written(machines)
