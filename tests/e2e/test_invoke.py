from __future__ import annotations

import pytest

from .conftest import Tokens
from .sam import Invocation, Stack

pytestmark = pytest.mark.e2e

SOURCES = [
    ("sample", "PaymentsFunction", "sqs-payment", "sqs-payment-redelivery", "charged"),
    ("sample", "NotificationsFunction", "sns-notice", "sns-notice-retry", "mailed"),
    ("sample", "OrdersApiFunction", "http-api-order", "http-api-order-retry", "created"),
    ("shop", "FulfilmentFunction", "sqs-order", "sqs-order-redelivery", "shipped"),
    ("shop", "InvoicesFunction", "eventbridge-order-paid", "eventbridge-order-paid-retry", "invoiced"),
    ("shop", "ContractsAnnouncer", "stream-contracts", "stream-contracts", "announced"),
]

STEPS = ("once.acquired", "once.returned", "once.completed")


def assert_done(tokens: Tokens, invocation: Invocation) -> None:
    """Assert that every token that *invocation* acquired is complete, by the attempt that its log names."""
    for entry in invocation.said.entries("once.acquired"):
        row = tokens.row(entry["token"])
        assert row["attempt"] == {"S": entry["attempt"]}
        assert row["lockedBy"] == {"S": entry["locked_by"]}
        assert {"actualCompletion", "ttl"} <= row.keys()
        assert "status" not in row


@pytest.mark.parametrize(("template", "function", "first", "again", "work"), SOURCES)
def test_an_event_takes_effect_once(
    request: pytest.FixtureRequest,
    tokens: Tokens,
    template: str,
    function: str,
    first: str,
    again: str,
    work: str,
) -> None:
    """The first delivery runs the function, the second gets its answer, and log, metrics and table say so."""
    stack: Stack = request.getfixturevalue(template)
    ran = stack.invoke(function, first)
    assert len(ran.said.entries(work)) == 1
    assert [len(ran.said.entries(event)) for event in STEPS] == [1, 1, 1]
    assert ran.said.counted() == {"started": 1, "completed": 1}
    assert_done(tokens, ran)

    before = tokens.all()
    replayed = stack.invoke(function, again)
    assert replayed.said.entries(work) == []
    assert len(replayed.said.entries("once.replayed")) == 1
    assert replayed.said.counted() == {"replayed": 1}
    assert tokens.all() == before
    if function == "OrdersApiFunction":
        assert replayed.answer["headers"].pop("Idempotent-Replayed") == "true"
    assert replayed.answer == ran.answer


def test_one_bad_message_leaves_the_rest_of_its_batch(shop: Stack, tokens: Tokens) -> None:
    """Of three messages the one that is no JSON goes back to its queue; the others are done."""
    ran = shop.invoke("FulfilmentFunction", "sqs-batch-malformed")
    assert ran.answer == {"batchItemFailures": [{"itemIdentifier": "1bd4e9b6-5166-4e89-9f3e-74d2a7c8f9a6"}]}
    shipped = {entry["order_id"] for entry in ran.said.entries("shipped")}
    assert shipped == {"order_12352", "order_12354"}
    assert_done(tokens, ran)


def test_a_batch_delivered_again_runs_only_what_failed(shop: Stack, tokens: Tokens) -> None:
    """The message that failed is released and tried again; the two that were worked are replayed."""
    failed = {"batchItemFailures": [{"itemIdentifier": "6ac93e0b-a6bb-4dde-8e83-c9c7fcbdeefb"}]}
    ran = shop.invoke("FulfilmentFunction", "sqs-batch-mixed")
    assert ran.answer == failed
    assert ran.said.counted() == {"started": 3, "completed": 2, "errors": 1, "released": 1}
    (refused,) = [entry["token"] for entry in ran.said.entries("once.acquired") if "12356" in entry["token"]]
    row = tokens.row(refused)
    assert not {"status", "actualCompletion"} & row.keys()
    assert row["error"]["M"]["kind"]["S"].endswith("WarehouseBusy")

    again = shop.invoke("FulfilmentFunction", "sqs-batch-mixed")
    assert again.answer == failed
    assert again.said.entries("shipped") == []
    assert again.said.counted() == {"replayed": 2, "started": 1, "errors": 1, "released": 1}


def test_a_batch_of_which_nothing_worked_is_an_error(shop: Stack) -> None:
    """Where every message failed the invocation fails as a whole, so that Lambda's Errors metric rings."""
    ran = shop.invoke("FulfilmentFunction", "sqs-order-flaky")
    assert ran.answer["errorType"] == "BatchProcessingError"
    assert ran.said.counted() == {"started": 1, "errors": 1, "released": 1}
    assert ran.said.entries("shipped") == []


def test_without_the_layer_a_redelivery_charges_again(sample: Stack, tokens: Tokens) -> None:
    """The negative twin: switched off, both deliveries charge, and no token is taken."""
    before = tokens.all()
    off = sample.switched_off()
    for event in ("sqs-payment", "sqs-payment-redelivery"):
        ran = off.invoke("PaymentsFunction", event)
        assert ran.answer == {"batchItemFailures": []}
        assert len(ran.said.entries("charged")) == 1
        assert ran.said.counted()["disabled"] == 1
    assert tokens.all() == before
