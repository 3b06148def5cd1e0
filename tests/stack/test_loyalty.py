"""Loyalty points: those of an order count once, and only points that exist are spent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from examples.orders import loyalty, settings
from lambda_once.patterns.ledger import Ledger
from lambda_once.testing import FakeClock, lambda_context, sqs_event
from tests.kit.recorded import load

from .conftest import NOW, Deployed, Template
from .named import of_type
from .test_permissions import allowed, noted

ALL_DONE: dict[str, object] = {"batchItemFailures": []}
CUSTOMER = "cust_77"


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
        key=loyalty.POINTS._table.key,
        window=settings.KEEP,
        clock=clock,
    )
    monkeypatch.setattr(loyalty, "POINTS", ledger)
    return ledger


def test_points_count_once(points: Ledger, clock: FakeClock) -> None:
    """120 and 45 are earned, 150 spent, 20 more refused: a redelivery changes nothing."""
    for name in ("sqs-loyalty", "sqs-loyalty-redelivery", "sqs-loyalty-redelivery"):
        assert len(loyalty.count(load(name), lambda_context())["batchItemFailures"]) == 1  # the 20 more
        assert points.get(CUSTOMER) == {"balance": 15, "entries": 3, "lastOrder": "order_12403"}
        clock.advance(timedelta(days=6).total_seconds())


def test_what_was_never_earned_is_refused_at_the_last_delivery(points: Ledger, translated: Template) -> None:
    """Points that a customer does not have make no dead letter."""
    redrive = of_type(translated, "AWS::SQS::Queue")["LoyaltyQueue"]["RedrivePolicy"]
    assert redrive["maxReceiveCount"] == loyalty.LAST_DELIVERY
    spent = {"orderId": "order_6", "customer": CUSTOMER, "kind": "spent", "points": -10}
    batch: dict[str, Any] = sqs_event(spent)
    batch["Records"][0]["attributes"]["ApproximateReceiveCount"] = str(loyalty.LAST_DELIVERY)
    assert loyalty.count(batch, lambda_context()) == ALL_DONE
    assert points.get(CUSTOMER) is None


def test_the_function_may_do_what_it_does(deployed: Deployed, translated: Template, points: Ledger) -> None:
    """To update, on its table; nothing of DynamoDB beside."""
    calls = noted(points._sender._transport._client)
    for name in ("sqs-loyalty", "sqs-loyalty-redelivery"):
        loyalty.count(load(name), lambda_context())
    assert calls == allowed(translated, "LoyaltyFunctionRole")


def test_the_table_has_the_key_of_the_code(translated: Template) -> None:
    """Its key is what the function says; it has no TTL, for balances stay."""
    properties = of_type(translated, "AWS::DynamoDB::Table")["LoyaltyTable"]
    assert tuple(each["AttributeName"] for each in properties["KeySchema"]) == loyalty.POINTS._table.key
    assert "TimeToLiveSpecification" not in properties
