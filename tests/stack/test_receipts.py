"""Receipts: published to the topic, queued, filed once; the key catches what comes after five minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import moto.sqs.models
import pytest

from examples.orders import publishing, receipts
from lambda_once import KeyReused
from lambda_once.dynamodb.items import plain_item
from lambda_once.patterns.fifo import Publisher, Sent
from lambda_once.patterns.unique import Unique
from lambda_once.testing import lambda_context
from tests.kit.recorded import load
from tests.patterns.fifo.queues import WINDOW_SECONDS

from .conftest import Deployed, Template
from .named import of_type, target
from .test_permissions import allowed, noted

ALL_DONE: dict[str, object] = {"batchItemFailures": []}


class Post:
    """The deployed topic, queue and table, and Lambda's poller between them and the function."""

    def __init__(self, deployed: Deployed) -> None:
        self.sqs: Any = deployed.client("sqs")
        self.table = deployed.outputs["ReceiptsTableName"]
        self.topic = deployed.outputs["ReceiptsTopicArn"]
        self.queue = deployed.outputs["ReceiptsQueueUrl"]
        self.dead_letters = deployed.outputs["ReceiptsDeadLettersUrl"]
        self.delivered = 0
        self._dynamodb: Any = deployed.client("dynamodb")

    def deliver(self) -> list[Any]:
        """Hand over what is visible, one batch an invocation; return what each invocation answered."""
        answers = []
        while messages := self._receive():
            self.delivered += len(messages)
            answers.append(_answer({"Records": [self._record(message) for message in messages]}))
            failed = {each["itemIdentifier"] for each in answers[-1]["batchItemFailures"]}
            for message in messages:
                if message["MessageId"] not in failed:
                    self.sqs.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return answers

    def filed(self) -> dict[tuple[str, str], dict[str, Any]]:
        """Return the receipts of the table by their keys."""
        rows = [plain_item(item) for item in self._dynamodb.scan(TableName=self.table)["Items"]]
        return {(row["pk"], row["sk"]): row for row in rows}

    def dead(self) -> int:
        """Return how many receipts were given up."""
        asked = self.sqs.get_queue_attributes(
            QueueUrl=self.dead_letters, AttributeNames=["ApproximateNumberOfMessages"]
        )
        return int(asked["Attributes"]["ApproximateNumberOfMessages"])

    def _receive(self) -> list[dict[str, Any]]:
        answer = self.sqs.receive_message(
            QueueUrl=self.queue, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
        )
        found: list[dict[str, Any]] = answer.get("Messages", [])
        return found

    def _record(self, message: dict[str, Any]) -> dict[str, Any]:
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message["Attributes"],
            "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": "arn:aws:sqs:eu-central-1:123456789012:orders-receipts.fifo",
            "awsRegion": "eu-central-1",
        }


def _answer(event: dict[str, Any]) -> Any:
    """Return what Lambda makes of an invocation: an exception is the failure of every record."""
    try:
        return receipts.file(event, lambda_context())
    except KeyReused:
        return {"batchItemFailures": [{"itemIdentifier": each["messageId"]} for each in event["Records"]]}


class Hands:
    """The clock of moto's queues."""

    def __init__(self) -> None:
        self.seconds = 1_795_169_520.0

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """Moto's queues forget ids and show messages again (milliseconds), and drop them (seconds), by it."""
    clock = Hands()
    monkeypatch.setattr(moto.sqs.models, "unix_time", lambda: clock.seconds)
    monkeypatch.setattr(moto.sqs.models, "unix_time_millis", lambda: clock.seconds * 1000)
    return clock


@pytest.fixture
def post(
    deployed: Deployed, translated: Template, hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Post]:
    """The deployed stack, subscribed as the template says; both functions work with it."""
    del hands
    made = Post(deployed)
    functions = deployed.client("lambda")  # moto would run the deployed code, in a container
    for mapping in functions.list_event_source_mappings()["EventSourceMappings"]:
        functions.update_event_source_mapping(UUID=mapping["UUID"], Enabled=False)
    subscription = of_type(translated, "AWS::SNS::Subscription")["ReceiptsSubscription"]
    sns: Any = deployed.client("sns")
    arn = made.sqs.get_queue_attributes(QueueUrl=made.queue, AttributeNames=["QueueArn"])["Attributes"]
    sns.subscribe(
        TopicArn=made.topic,
        Protocol=subscription["Protocol"],
        Endpoint=arn["QueueArn"],
        Attributes={"RawMessageDelivery": str(subscription["RawMessageDelivery"]).lower()},
    )
    monkeypatch.setenv("RECEIPTS_TOPIC", made.topic)
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    monkeypatch.setattr(receipts, "RECEIPTS", _unique(made.table, deployed.client("dynamodb")))
    monkeypatch.setattr(publishing.receipts(), "_client", sns)
    yield made
    publishing.receipts.cache_clear()


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """The publisher of an earlier test is gone, and there is a topic to be named."""
    publishing.receipts.cache_clear()
    monkeypatch.setenv("RECEIPTS_TOPIC", "arn:aws:sns:eu-central-1:123456789012:orders-receipts.fifo")


def _unique(table: str, client: Any) -> Unique:
    """Return the module's own with another table and client: key, identity and what is ignored are its."""
    made = Unique.__new__(Unique)
    made.__dict__.update(receipts.RECEIPTS.__dict__)
    made.__dict__.update(_table=table, _sender=type(receipts.RECEIPTS._sender)(client))
    return made


# -- the way through


def test_a_duplicate_after_the_window_is_caught_by_the_key(post: Post, hands: Hands) -> None:
    """
    Published again within five minutes, nothing is delivered; after them everything is, and changes nothing.

    The duplicates are acknowledged: the queue is empty, and nothing reaches the dead letters.
    """
    batch = load("direct-receipts")
    assert publishing.publish(batch, lambda_context()) == {"sent": 3}
    # moto 5.2.5 knows an id for as long as its message is there, SQS for five minutes: so it stays there.
    hands.advance(WINDOW_SECONDS - 1)
    assert publishing.publish(batch, lambda_context()) == {"sent": 3}
    assert post.deliver() == [ALL_DONE]
    filed = post.filed()
    assert sorted(filed) == [
        ("cust_81", "order_12380#paid"),
        ("cust_81", "order_12380#refunded"),
        ("cust_82", "order_12381#paid"),
    ]
    assert post.delivered == 3, "the queue knew the ids"

    hands.advance(2)
    assert publishing.publish(batch, lambda_context()) == {"sent": 3}
    assert post.deliver() == [ALL_DONE]
    assert post.delivered == 6, "delivered again, and acknowledged"
    assert post.filed() == filed
    hands.advance(10_000)
    assert post.deliver() == []
    assert post.dead() == 0


def test_an_amended_receipt_reaches_a_person(post: Post, hands: Hands) -> None:
    """Within the window too: it is not filed, and not dropped; after five deliveries it is a dead letter."""
    batch = load("direct-receipts")
    publishing.publish(batch, lambda_context())
    post.deliver()
    filed = post.filed()
    amended = {"receipts": [{**batch["receipts"][0], "amount": 5990}]}
    publishing.publish(amended, lambda_context())
    for _ in range(5):
        (answer,) = post.deliver()
        assert len(answer["batchItemFailures"]) == 1
        hands.advance(181)
    assert post.deliver() == []
    assert (post.dead(), post.filed()) == (1, filed)


# -- the files of events/


def test_the_files_have_the_ids_that_the_publisher_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies, groups and deduplication ids of events/ are those of the sample's own publisher."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    prepared = publishing.receipts().format.prepared
    for name in ("sqs-fifo-receipts", "sqs-fifo-receipts-republished", "sqs-fifo-receipt-amended"):
        for record in load(name)["Records"]:
            made = prepared(json.loads(record["body"]))
            attributes = record["attributes"]
            assert made.body == record["body"]
            assert made.group == attributes["MessageGroupId"]
            assert made.deduplication_id == attributes["MessageDeduplicationId"]
    sent = [prepared(receipt).body for receipt in load("direct-receipts")["receipts"]]
    assert sent == [record["body"] for record in load("sqs-fifo-receipts")["Records"]]


def test_published_again_a_receipt_differs_in_its_time_alone() -> None:
    """And so it has the id of the first, under a message of its own."""
    first, second = (load(f"sqs-fifo-receipts{more}")["Records"] for more in ("", "-republished"))
    for before, after in zip(first, second, strict=True):
        one, other = json.loads(before["body"]), json.loads(after["body"])
        assert {name for name in one if one[name] != other[name]} == {"sentAt"}
        ids = [each["attributes"]["MessageDeduplicationId"] for each in (before, after)]
        assert ids[0] == ids[1]
        passed = int(after["attributes"]["SentTimestamp"]) - int(before["attributes"]["SentTimestamp"])
        assert passed > WINDOW_SECONDS * 1000


# -- the template


def test_the_queue_is_in_order_and_takes_what_the_topic_says(translated: Template) -> None:
    """FIFO from end to end, ids by the publisher alone, the message delivered as it was published."""
    topic = translated["Resources"]["ReceiptsTopic"]["Properties"]
    queues = of_type(translated, "AWS::SQS::Queue")
    assert (topic["FifoTopic"], topic["ContentBasedDeduplication"]) == (True, False)
    assert topic["TopicName"]["Fn::Sub"].endswith(".fifo")
    for name in ("ReceiptsQueue", "ReceiptsDeadLetters"):
        assert queues[name]["FifoQueue"] is True
        assert queues[name].get("ContentBasedDeduplication", False) is False
        assert queues[name]["QueueName"]["Fn::Sub"].endswith(".fifo")
    subscription = of_type(translated, "AWS::SNS::Subscription")["ReceiptsSubscription"]
    assert subscription["RawMessageDelivery"] is True
    assert target(subscription["TopicArn"]) == "ReceiptsTopic"
    assert target(subscription["Endpoint"]) == "ReceiptsQueue"
    assert target(subscription["RedrivePolicy"]["deadLetterTargetArn"]) == "ReceiptsDeadLetters"


def test_only_the_topic_may_send_to_the_queues(translated: Template) -> None:
    """SNS as such may not: the policy names the topic that it sends for."""
    policy = of_type(translated, "AWS::SQS::QueuePolicy")["ReceiptsQueuePolicy"]
    (statement,) = [each for each in policy["PolicyDocument"]["Statement"] if each["Effect"] == "Allow"]
    assert [target(queue) for queue in policy["Queues"]] == ["ReceiptsQueue", "ReceiptsDeadLetters"]
    assert [target(queue) for queue in statement["Resource"]] == ["ReceiptsQueue", "ReceiptsDeadLetters"]
    assert statement["Action"] == "sqs:SendMessage"
    assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": {"Ref": "ReceiptsTopic"}}}


def test_the_functions_may_do_what_they_do(
    deployed: Deployed, translated: Template, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To put receipts into their table, and to publish to their topic; nothing else."""
    dynamodb: Any = deployed.client("dynamodb")
    monkeypatch.setattr(receipts, "RECEIPTS", _unique(deployed.outputs["ReceiptsTableName"], dynamodb))
    calls = noted(dynamodb)
    receipts.file(load("sqs-fifo-receipts"), lambda_context())
    receipts.file(load("sqs-fifo-receipts-redelivery"), lambda_context())
    assert calls == allowed(translated, "ReceiptsFunctionRole")
    # PublishBatch has no action of its own (Service Authorization Reference, Amazon SNS).
    assert allowed(translated, "PublishingFunctionRole") == {"sns:Publish"}


def test_the_publisher_is_made_for_the_stacks_topic(post: Post) -> None:
    """By the variable that the template sets, as one message shows."""
    assert isinstance(publishing.receipts(), Publisher)
    one = {"orderId": "order_1", "customer": "cust_1", "kind": "paid", "amount": 1}
    assert isinstance(publishing.receipts().publish(one), Sent)
    assert post.deliver() == [ALL_DONE]
