"""The sample's handlers, driven by the files of events/: what happened outside, and what the caller got."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.orders import api, fulfilment, invoices, notifications, payments
from examples.orders.effects import EFFECTS, POWER
from examples.orders.gateway import PaymentGateway
from examples.orders.warehouse import Warehouse
from lambda_once import KeyMissing, Misconfigured
from lambda_once.stores.store import DynamoDBStore
from tests.kit.recorded import load


class Invocation(LambdaContext):
    """An invocation with half a minute left."""

    def __init__(self, request_id: str) -> None:
        self._aws_request_id = request_id
        self._function_name = "orders"
        self._memory_limit_in_mb = 512
        self._invoked_function_arn = "arn:aws:lambda:eu-central-1:123456789012:function:orders"

    @staticmethod
    def get_remaining_time_in_millis() -> int:
        return 30_000


class PowerCut(BaseException):
    """In place of the end of the process, as far as that can be caught."""


@pytest.fixture(autouse=True)
def _shop(token_table: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every handler works on a table as the template has it, and nothing has happened yet."""
    gateway = PaymentGateway()
    monkeypatch.setattr(payments, "GATEWAY", gateway)
    monkeypatch.setattr(api, "GATEWAY", gateway)
    monkeypatch.setattr(fulfilment, "WAREHOUSE", Warehouse())
    monkeypatch.setattr(POWER, "die", _cut)
    EFFECTS.clear()
    with ExitStack() as handlers:
        for module in (api, fulfilment, invoices, notifications, payments):
            handlers.enter_context(module.once._using(token_table, None))
        yield


def _cut() -> None:
    raise PowerCut


def send(handler: Any, name: str, request_id: str = "r1") -> Any:
    """Hand one file of events/ to *handler*."""
    return handler(load(name), Invocation(request_id))


def effects() -> list[tuple[str, str]]:
    """Return what happened outside, in order."""
    return [(effect.kind, effect.subject) for effect in EFFECTS.all()]


def test_a_redelivered_payment_is_charged_once() -> None:
    """The second delivery of a payment succeeds and charges nothing."""
    assert send(payments.charge, "sqs-payment") == {"batchItemFailures": []}
    assert send(payments.charge, "sqs-payment-redelivery", "r2") == {"batchItemFailures": []}
    assert effects() == [("charged", "pay_12345")]


def test_an_amended_payment_is_no_duplicate() -> None:
    """A payment that names the id of another is refused, and neither charged nor acknowledged."""
    send(payments.charge, "sqs-payment")
    with pytest.raises(BatchProcessingError):
        send(payments.charge, "sqs-payment-amended", "r2")
    assert effects() == [("charged", "pay_12345")]


def test_a_declined_card_is_final() -> None:
    """A declined card is stored: both deliveries are acknowledged, and no money moved."""
    assert send(payments.charge, "sqs-payment-declined") == {"batchItemFailures": []}
    assert send(payments.charge, "sqs-payment-declined-redelivery", "r2") == {"batchItemFailures": []}
    assert effects() == []


@pytest.mark.parametrize(
    ("name", "payment", "error"),
    [
        ("sqs-payment-timeout", "pay_12347", BatchProcessingError),
        ("sqs-payment-crash", "pay_12348", PowerCut),
    ],
)
def test_a_payment_in_doubt_waits_for_a_person(name: str, payment: str, error: type[BaseException]) -> None:
    """A payment that was not answered, or died half-way, is not charged by the next delivery, which fails."""
    with pytest.raises(error):
        send(payments.charge, name)
    with pytest.raises(BatchProcessingError):
        send(payments.charge, f"{name}-redelivery", "r2")
    assert effects() == [("charged", payment)]


def test_a_busy_warehouse_is_asked_again() -> None:
    """An order that the warehouse did not take fails, and is shipped by its next delivery."""
    with pytest.raises(BatchProcessingError):
        send(fulfilment.ship, "sqs-order-flaky")
    assert effects() == []
    assert send(fulfilment.ship, "sqs-order-flaky-redelivery", "r2") == {"batchItemFailures": []}
    assert effects() == [("shipped", "order_12349")]


def test_what_is_slow_is_done_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow card is charged, and a heavy order shipped, once their time has passed."""
    monkeypatch.setattr(payments, "GATEWAY", PaymentGateway(slow_seconds=0))
    monkeypatch.setattr(fulfilment, "WAREHOUSE", Warehouse(slow_seconds=0))
    assert send(payments.charge, "sqs-payment-slow") == {"batchItemFailures": []}
    assert send(fulfilment.ship, "sqs-order-slow", "r2") == {"batchItemFailures": []}
    assert effects() == [("charged", "pay_12358"), ("shipped", "order_12359")]


def test_twins_of_a_batch_are_shipped_once() -> None:
    """Two messages of one order in one batch are one shipment and two successes."""
    assert send(fulfilment.ship, "sqs-batch-twins") == {"batchItemFailures": []}
    assert effects() == [("shipped", "order_12351")]


@pytest.mark.parametrize(
    ("name", "failed", "shipped"),
    [
        ("sqs-batch-malformed", "1bd4e9b6-5166-4e89-9f3e-74d2a7c8f9a6", ["order_12352", "order_12354"]),
        ("sqs-batch-mixed", "6ac93e0b-a6bb-4dde-8e83-c9c7fcbdeefb", ["order_12355", "order_12357"]),
    ],
)
def test_one_failure_leaves_the_rest_of_its_batch(name: str, failed: str, shipped: list[str]) -> None:
    """Of three messages the one that cannot be worked comes back, and the others are done."""
    assert send(fulfilment.ship, name) == {"batchItemFailures": [{"itemIdentifier": failed}]}
    assert sorted(effects()) == [("shipped", order) for order in shipped]


@pytest.mark.parametrize(
    ("name", "order"), [("sqs-sns-envelope", "order_12370"), ("sqs-eventbridge-envelope", "order_12371")]
)
def test_orders_arrive_through_a_topic_or_a_bus(name: str, order: str) -> None:
    """A handler of orders needs not know what carried them to its queue."""
    assert send(fulfilment.ship, name) == {"batchItemFailures": []}
    assert effects() == [("shipped", order)]


def test_a_notice_is_mailed_once() -> None:
    """Neither Lambda's retry nor the publisher's makes a second mail."""
    send(notifications.notify, "sns-notice")
    send(notifications.notify, "sns-notice-retry")
    send(notifications.notify, "sns-notice-republished", "r2")
    assert [kind for kind, _ in effects()] == ["mailed"]


def test_an_order_is_invoiced_once() -> None:
    """A retry and an event sent again get the invoice of the first."""
    first = send(invoices.issue, "eventbridge-order-paid")
    assert first == {"invoice": "INV-order_12345", "amount": 4990}
    assert send(invoices.issue, "eventbridge-order-paid-retry") == first
    assert send(invoices.issue, "eventbridge-order-paid-resent", "r2") == first
    assert effects() == [("invoiced", "order_12345")]


@pytest.mark.parametrize(
    ("name", "error"), [("eventbridge-schedule", KeyMissing), ("sqs-order", Misconfigured)]
)
def test_an_event_of_another_kind_runs_nothing(name: str, error: type[Exception]) -> None:
    """An event without an order, or of another source, is refused before anything happens."""
    with pytest.raises(error):
        send(invoices.issue, name)
    assert effects() == []


@pytest.mark.parametrize(
    ("name", "status", "happened"),
    [
        ("http-api-order", 201, [("created", "order_12345")]),
        ("http-api-order-blocked", 409, []),
        ("http-api-pay-5", 200, [("charged", "5")]),
        ("http-api-pay-declined", 402, []),
    ],
)
def test_a_retried_request_gets_the_first_answer(
    name: str, status: int, happened: list[tuple[str, str]]
) -> None:
    """The same key gets the same answer, stored refusals included, marked as a replay."""
    first = send(api.handler, name)
    second = send(api.handler, f"{name}-retry", "r2")
    assert (first["statusCode"], second["statusCode"]) == (status, status)
    assert second["body"] == first["body"]
    assert "Idempotent-Replayed" not in first["headers"]
    assert second["headers"]["Idempotent-Replayed"] == "true"
    assert effects() == happened


def test_a_key_used_for_another_order_is_refused() -> None:
    """The same key with another body is a 422, and creates nothing."""
    send(api.handler, "http-api-order")
    assert send(api.handler, "http-api-order-same-key-other-body", "r2")["statusCode"] == 422
    assert effects() == [("created", "order_12345")]


def test_an_order_that_was_refused_may_be_corrected() -> None:
    """A 422 stores nothing: the same request is handled again, and is no replay."""
    first = send(api.handler, "http-api-order-invalid")
    second = send(api.handler, "http-api-order-invalid", "r2")
    assert (first["statusCode"], second["statusCode"]) == (422, 422)
    assert "Idempotent-Replayed" not in second["headers"]


def test_two_orders_are_paid_with_one_key() -> None:
    """The path belongs to the key: paying order 6 is no duplicate of paying order 5."""
    assert send(api.handler, "http-api-pay-5")["statusCode"] == 200
    assert send(api.handler, "http-api-pay-6", "r2")["statusCode"] == 200
    assert effects() == [("charged", "5"), ("charged", "6")]


def test_a_payment_without_an_answer_is_held() -> None:
    """The client learns that the outcome is unknown; a retry with the same key charges nothing."""
    assert send(api.handler, "http-api-pay-timeout")["statusCode"] == 504
    assert send(api.handler, "http-api-pay-timeout-retry", "r2")["statusCode"] == 409
    assert effects() == [("charged", "8")]


def test_a_payment_needs_a_key() -> None:
    """Without a key a payment is a 400, and nothing is charged."""
    assert send(api.handler, "http-api-pay-without-key")["statusCode"] == 400
    assert effects() == []


def test_an_order_can_be_read() -> None:
    """Reading is not guarded: the same request gives another answer once the order exists."""
    assert send(api.handler, "http-api-get-order")["statusCode"] == 404
    send(api.handler, "http-api-order", "r2")
    found = send(api.handler, "http-api-get-order", "r3")
    assert found["statusCode"] == 200
    assert json.loads(found["body"]) == {"orderId": "order_12345", "status": "new"}
