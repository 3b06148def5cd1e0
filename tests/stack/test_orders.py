"""The sample's handlers, driven by the files of events/: what happened outside, and what the caller got."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from examples.orders import api, fulfilment, invoices, notifications, payments
from examples.orders.effects import EFFECTS, POWER
from examples.orders.gateway import PaymentGateway
from examples.orders.warehouse import Warehouse
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context
from tests.kit.recorded import load

DONE: dict[str, object] = {"batchItemFailures": []}
ORDER = ("created", "order_12345")


class PowerCut(BaseException):
    """In place of the end of the process, as far as that can be caught."""


@pytest.fixture(autouse=True)
def _shop(token_table: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every handler works on a table as the template has it, and nothing has happened yet."""
    gateway = PaymentGateway(slow_seconds=0)
    monkeypatch.setattr(payments, "GATEWAY", gateway)
    monkeypatch.setattr(api, "GATEWAY", gateway)
    monkeypatch.setattr(fulfilment, "WAREHOUSE", Warehouse(slow_seconds=0))
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
    return handler(load(name), lambda_context(request_id=request_id))


def effects() -> list[tuple[str, str]]:
    """Return what happened outside, in order."""
    return [(effect.kind, effect.subject) for effect in EFFECTS.all()]


@pytest.mark.parametrize(
    ("handler", "name", "again", "happened"),
    [
        (payments.charge, "sqs-payment", "redelivery", ["charged"]),
        (payments.charge, "sqs-payment-declined", "redelivery", []),
        (notifications.notify, "sns-notice", "retry", ["mailed"]),
        (notifications.notify, "sns-notice", "republished", ["mailed"]),
        (invoices.issue, "eventbridge-order-paid", "retry", ["invoiced"]),
        (invoices.issue, "eventbridge-order-paid", "resent", ["invoiced"]),
    ],
)
def test_what_comes_again_is_answered_alike(handler: Any, name: str, again: str, happened: list[str]) -> None:
    """Redelivered, retried or published again, it does nothing more."""
    first = send(handler, name)
    assert send(handler, f"{name}-{again}", "r1" if again == "retry" else "r2") == first
    assert [kind for kind, _ in effects()] == happened


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


@pytest.mark.parametrize(
    ("name", "failed", "shipped"),
    [
        ("sqs-batch-twins", [], ["order_12351"]),
        ("sqs-batch-malformed", ["1bd4e9b6-5166-4e89-9f3e-74d2a7c8f9a6"], ["order_12352", "order_12354"]),
        ("sqs-batch-mixed", ["6ac93e0b-a6bb-4dde-8e83-c9c7fcbdeefb"], ["order_12355", "order_12357"]),
        ("sqs-order-slow", [], ["order_12359"]),
        ("sqs-sns-envelope", [], ["order_12370"]),
        ("sqs-eventbridge-envelope", [], ["order_12371"]),
    ],
)
def test_each_order_of_a_batch_ships_once(name: str, failed: list[str], shipped: list[str]) -> None:
    """What cannot be worked comes back alone; a topic or bus may have carried an order to its queue."""
    failures = [{"itemIdentifier": each} for each in failed]
    assert send(fulfilment.ship, name) == {"batchItemFailures": failures}
    assert sorted(effects()) == [("shipped", order) for order in shipped]


@pytest.mark.parametrize(
    ("name", "status", "happened"),
    [
        ("http-api-order", 201, [ORDER]),
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
