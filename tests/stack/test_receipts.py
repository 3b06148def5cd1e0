"""Receipts: the files of events/ are what the publisher makes, and the queue is in order from end to end."""

from __future__ import annotations

import json

import pytest

from examples.orders import publishing
from tests.kit.recorded import load
from tests.patterns.fifo.queues import WINDOW_SECONDS

from .conftest import Template
from .named import of_type, target

# -- the files of events/


def test_the_files_have_the_ids_that_the_publisher_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies, groups and deduplication ids of events/ are those of the sample's own publisher."""
    monkeypatch.setenv("RECEIPTS_TOPIC", "arn:aws:sns:eu-central-1:123456789012:orders-receipts.fifo")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    prepared = publishing.receipts.__wrapped__().format.prepared
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
