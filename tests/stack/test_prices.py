"""Prices: published once a day by a schedule, however often and however late its run starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from examples.orders import prices
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context
from tests.kit.recorded import load

from .conftest import Deployed, Template
from .named import of_type, target
from .test_permissions import allowed, noted

PRODUCTS = ("chair-ash", "desk-oak", "lamp-brass")
CHANGED_AT = 1_768_903_918_250


def event(name: str = "") -> dict[str, Any]:
    """Return one of the events of this function."""
    loaded: dict[str, Any] = load(f"scheduler-prices{name}")
    return loaded


def run(name: str = "") -> object:
    """Run the function with one of its events."""
    return prices.publish(event(name), lambda_context())


class Shop:
    """The deployed catalogue and topic, and a queue that is subscribed to it."""

    def __init__(self, deployed: Deployed) -> None:
        self.catalogue = Ratchet(
            deployed.outputs["CatalogueTableName"],
            deployed.client("dynamodb"),
            key=("shop", "productId"),
            stamp="changedAt",
        )
        self.topic = deployed.outputs["PricesTopicArn"]
        self.sns: Any = deployed.client("sns")
        self.requests: list[dict[str, Any]] = []
        self._changes = 0
        self._tokens, self._dynamodb = deployed.outputs["TokenTableName"], deployed.client("dynamodb")
        self.sns.meta.events.register("before-parameter-build.sns.PublishBatch", self._note)
        self._sqs: Any = deployed.client("sqs")
        made = self._sqs.create_queue(QueueName="subscriber.fifo", Attributes={"FifoQueue": "true"})
        self._queue = made["QueueUrl"]
        arn = "arn:aws:sqs:eu-central-1:123456789012:subscriber.fifo"
        self.sns.subscribe(
            TopicArn=self.topic, Protocol="sqs", Endpoint=arn, Attributes={"RawMessageDelivery": "true"}
        )

    def put(self, product: str) -> None:
        """Put a product of the shop "north" into the catalogue."""
        item = {"shop": "north", "productId": product, "price": 24_900}
        self._changes += 1
        self.catalogue.put(item, CHANGED_AT + self._changes)

    def delivered(self) -> list[tuple[str, str]]:
        """Return day and product of each message that was delivered since."""
        found = []
        while answer := self._sqs.receive_message(QueueUrl=self._queue, MaxNumberOfMessages=10).get(
            "Messages"
        ):
            for message in answer:
                body = json.loads(message["Body"])
                found.append((body["day"], body["productId"]))
                self._sqs.delete_message(QueueUrl=self._queue, ReceiptHandle=message["ReceiptHandle"])
        return sorted(found)

    def tokens(self) -> list[str]:
        """Return the tokens of the table."""
        rows = self._dynamodb.scan(TableName=self._tokens)["Items"]
        return [row["lockToken"]["S"] for row in rows]

    def _note(self, params: dict[str, Any], **_: Any) -> None:
        self.requests.append(params)


@pytest.fixture
def shop(deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The deployed stack with three products; the function works with it."""
    made = Shop(deployed)
    for product in PRODUCTS:
        made.put(product)
    monkeypatch.setattr(prices, "CATALOGUE", made.catalogue)
    monkeypatch.setenv("PRICES_TOPIC", made.topic)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    prices.prices.cache_clear()
    monkeypatch.setattr(prices.prices(), "_client", made.sns)
    store = DynamoDBStore(deployed.outputs["TokenTableName"], deployed.client("dynamodb"))
    with prices.once._using(store, None):
        yield made
    prices.prices.cache_clear()


# -- runs


def test_a_run_is_published_once(shop: Shop) -> None:
    """Tried again under another execution id, its answer is that of the first; nothing is sent."""
    assert run() == {"published": 3}
    assert shop.delivered() == [("2026-11-20", product) for product in PRODUCTS]
    assert shop.tokens() == ["orders/examples.orders.prices.publish/north/2026-11-20"]
    shop.requests.clear()
    assert run("-again") == {"published": 3}
    assert shop.requests == []


# -- the template


def schedule(translated: Template) -> dict[str, Any]:
    """Return the one schedule of the stack."""
    (found,) = of_type(translated, "AWS::Scheduler::Schedule").values()
    return found


def test_the_schedule_sends_what_the_files_of_events_have(translated: Template) -> None:
    """Its scheduled time and its execution id, by the names that EventBridge Scheduler replaces."""
    made = json.loads(schedule(translated)["Target"]["Input"])
    assert made == event() | {
        "scheduledTime": "<aws.scheduler.scheduled-time>",
        "executionId": "<aws.scheduler.execution-id>",
    }
    assert (schedule(translated)["ScheduleExpressionTimezone"], "Name" in schedule(translated)) == (
        "UTC",
        False,
    )


def test_what_does_not_start_and_what_fails_is_kept(translated: Template) -> None:
    """One queue for both: what the scheduler could not hand to Lambda, and what Lambda gave up on."""
    aimed = schedule(translated)["Target"]
    assert aimed["RetryPolicy"] == {"MaximumRetryAttempts": 5, "MaximumEventAgeInSeconds": 3600}
    assert target(aimed["DeadLetterConfig"]["Arn"]) == "FailedEvents"
    assert "FifoQueue" not in of_type(translated, "AWS::SQS::Queue")["FailedEvents"]
    config = of_type(translated, "AWS::Lambda::EventInvokeConfig")["PricesFunctionEventInvokeConfig"]
    assert config["MaximumRetryAttempts"] == 2


def test_the_schedule_may_start_this_function_and_give_up(translated: Template) -> None:
    """Only EventBridge Scheduler of this account, for this group, has the role."""
    assert target(schedule(translated)["Target"]["RoleArn"]) == "PricesScheduleRole"
    (trust,) = of_type(translated, "AWS::IAM::Role")["PricesScheduleRole"]["AssumeRolePolicyDocument"][
        "Statement"
    ]
    assert trust["Principal"] == {"Service": "scheduler.amazonaws.com"}
    assert trust["Condition"]["StringEquals"].keys() == {"aws:SourceAccount", "aws:SourceArn"}
    assert re.search(
        r":schedule-group/default$", trust["Condition"]["StringEquals"]["aws:SourceArn"]["Fn::Sub"]
    )


def test_the_function_may_do_what_it_does(translated: Template, shop: Shop) -> None:
    """To query the catalogue, and to publish to its topic; and what tokens need, by their own policy."""
    calls = noted(shop.catalogue._sender._transport._client)
    run()
    assert calls == {"dynamodb:Query"}
    assert allowed(translated, "PricesFunctionRole") == {*calls, "sns:Publish", "sqs:SendMessage"}
