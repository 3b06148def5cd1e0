"""Loyalty points: those of an order count once, and nobody spends what is not there."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from examples.orders import loyalty, settings
from lambda_once.patterns.ledger import Ledger
from lambda_once.testing import FakeClock, lambda_context, sqs_event

from .conftest import NOW, ROOT, Deployed, Template
from .named import of_type
from .test_permissions import allowed, noted, statements

SETTLED: dict[str, object] = {"batchItemFailures": []}
CUSTOMER = "cust_77"


def event(name: str) -> dict[str, Any]:
    """Return one of the events of this function."""
    loaded: dict[str, Any] = json.loads((ROOT / "events" / f"{name}.json").read_text())
    return loaded


@pytest.fixture
def clock() -> FakeClock:
    """The clock of the function."""
    return FakeClock(NOW)


@pytest.fixture
def points(deployed: Deployed, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    """The deployed table, as the function sees it."""
    ledger = Ledger(
        deployed.outputs["LoyaltyTableName"],
        deployed.client("dynamodb"),
        key=loyalty.POINTS._names,
        window=settings.KEEP,
        clock=clock,
    )
    monkeypatch.setattr(loyalty, "POINTS", ledger)
    return ledger


def test_points_count_once(points: Ledger, clock: FakeClock) -> None:
    """120 and 45 are earned, 150 spent, 20 more refused: so much stands, and a redelivery changes nothing."""
    for name in ("sqs-loyalty", "sqs-loyalty-redelivery", "sqs-loyalty-redelivery"):
        assert loyalty.count(event(name), lambda_context()) == SETTLED
        assert points.get(CUSTOMER) == {"balance": 15, "entries": 3, "lastOrder": "order_12403"}
        clock.advance(timedelta(days=6).total_seconds())


def test_an_order_sent_again_by_its_sender_counts_once(points: Ledger) -> None:
    """Another message, the same order: the id is the order's, not the message's."""
    order = {"orderId": "order_5", "customer": CUSTOMER, "kind": "earned", "points": 10}
    for _ in range(2):
        assert loyalty.count(sqs_event(order), lambda_context()) == SETTLED
    balance = points.get(CUSTOMER)
    assert balance is not None
    assert balance["balance"] == 10


def test_a_bad_message_comes_back_alone(points: Ledger) -> None:
    """Points that are no number fail their own message, and the rest is counted."""
    good = {"orderId": "order_5", "customer": CUSTOMER, "kind": "earned", "points": 10}
    batch = sqs_event(good, {**good, "orderId": "order_6", "points": "ten"})
    failed = batch["Records"][1]["messageId"]
    assert loyalty.count(batch, lambda_context()) == {"batchItemFailures": [{"itemIdentifier": failed}]}
    assert points.get(CUSTOMER) == {"balance": 10, "entries": 1, "lastOrder": "order_5"}


def test_the_function_may_do_what_it_does(deployed: Deployed, translated: Template, points: Ledger) -> None:
    """To update, on its table; nothing of DynamoDB beside."""
    calls = noted(points._transport._client)
    for name in ("sqs-loyalty", "sqs-loyalty-redelivery"):
        loyalty.count(event(name), lambda_context())
    assert calls == allowed(translated, "LoyaltyFunctionRole")
    (own,) = [each for name, each in statements(translated) if name == "LoyaltyFunctionRole"]
    assert own["Resource"] == {"Fn::GetAtt": ["LoyaltyTable", "Arn"]}


def test_the_table_has_the_key_of_the_code(translated: Template) -> None:
    """Its key is what the function says; it has no TTL, for balances stay."""
    properties = of_type(translated, "AWS::DynamoDB::Table")["LoyaltyTable"]
    assert tuple(each["AttributeName"] for each in properties["KeySchema"]) == loyalty.POINTS._names
    assert "TimeToLiveSpecification" not in properties
