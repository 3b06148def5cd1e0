"""
An order feed: a function on the stream of orders publishes each event, one on the queue stores it once.

An event is one item of the table ``order-events``, keyed by the order's id and the event's number. A stream's
numbers are Decimals, those of JSON are not: they are the same key.
"""

from __future__ import annotations

import json
import os
from decimal import Decimal
from typing import Any

from aws_lambda_powertools.utilities.data_classes import DynamoDBStreamEvent

from lambda_once.patterns.fifo import Publisher, Sent, work_in_order
from lambda_once.patterns.results import Duplicate
from lambda_once.patterns.unique import Unique

order_events = Unique("order-events", key={"pk": "orderId", "sk": "sequence"}, ignore="sentAt")
feed = Publisher(
    os.environ["ORDER_EVENTS_QUEUE_URL"],
    service="orders",
    name="order-events",
    key="[orderId, sequence]",
    group="orderId",
    with_content=True,
    ignore="sentAt",
)


def publish_changes(event: dict[str, Any], _context: object) -> None:
    """On the stream: a batch that fails is published again, under the same ids."""
    images = [record.dynamodb.new_image for record in DynamoDBStreamEvent(event).records if record.dynamodb]
    changes = [image for image in images if image]  # a deletion, by TTL too, has none, and is no event
    unsent = [result for result in feed.publish_all(changes) if not isinstance(result, Sent)]
    if unsent:
        raise RuntimeError(f"{len(unsent)} events were not sent, the first: {type(unsent[0]).__name__}")


def store_events(event: dict[str, Any], _context: object) -> Any:
    """On the queue."""
    return work_in_order(event, store_event)


def store_event(record: Any) -> None:
    """Store one event; another one of the same number becomes a dead letter, after five receives."""
    result = order_events.put(json.loads(record["body"], parse_float=Decimal))
    if isinstance(result, Duplicate) and not result.same:
        raise ValueError("another event has this number")
