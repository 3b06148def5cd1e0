"""A real queue in front of the built function: ElasticMQ, a mapping, and `sam local start-lambda`."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import boto3
import pytest
from botocore.config import Config

from lambda_once.core.clock import Deadline, SystemClock
from tests.kit import elasticmq
from tests.kit.event_source import EventSourceMapping

from .conftest import Tokens
from .sam import REGION, Stack

pytestmark = pytest.mark.e2e

ORDERS = ("order_q1", "order_q2", "order_q1")
"""The last is the first, sent again."""


def test_a_queue_is_worked_through(shop: Stack, tokens: Tokens) -> None:
    """Orders ship once, a deletion that was lost is replayed, and the queue is empty afterwards."""
    with elasticmq.running() as endpoint, shop.functions() as functions:
        lambda_, sqs = _lambda(functions), elasticmq.client(endpoint)
        queue = sqs.create_queue(QueueName="orders", Attributes={"VisibilityTimeout": "1"})["QueueUrl"]
        sent = {sqs.send_message(QueueUrl=queue, MessageBody=_order(order))["MessageId"] for order in ORDERS}
        responses: list[str | None] = []

        def invoke(event: dict[str, Any]) -> str | None:
            done = lambda_.invoke(FunctionName="FulfilmentFunction", Payload=json.dumps(event).encode())
            responses.append(None if "FunctionError" in done else done["Payload"].read().decode())
            return responses[-1]

        lost = iter([True])
        mapping = EventSourceMapping(sqs, queue, invoke, forgets=lambda: next(lost, False))
        first = mapping.poll()
        deadline = Deadline(SystemClock(), SystemClock().now() + timedelta(seconds=30))
        while not (again := mapping.poll()) and not deadline.passed():
            deadline.pause(0.1)  # until the message is visible again
        left = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"])["Attributes"]
    assert (first, again, mapping.deleted) == (3, 1, sent)
    assert [json.loads(response or "") for response in responses] == [{"batchItemFailures": []}] * 2
    assert left["ApproximateNumberOfMessages"] == left["ApproximateNumberOfMessagesNotVisible"] == "0"
    ours = [row for row in tokens.all() if row["lockToken"]["S"].rpartition("/")[2] in ORDERS]
    assert len(ours) == len({*ORDERS})
    assert all("status" not in row for row in ours), "complete"


def _lambda(endpoint: str) -> Any:
    return boto3.client(
        "lambda",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
        config=Config(read_timeout=120, retries={"total_max_attempts": 1}),
    )


def _order(order: str) -> str:
    return json.dumps({"orderId": order, "customer": "cust_77", "items": ["lamp"]})
