"""
An event source mapping: gives a function what a queue has, and deletes what it has done.

By the AWS Lambda developer guide, "Using Lambda with Amazon SQS" and "Implementing partial batch responses".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = dict[str, Any]
"""A message as ReceiveMessage returns it."""
Invoke = Callable[[dict[str, Any]], str | None]
"""From an event to the function's response, as JSON; None: it failed, was killed or timed out."""

MOST_MESSAGES = 10
"""Messages of one ReceiveMessage."""


def event_of(messages: Sequence[Message], queue_arn: str) -> dict[str, Any]:
    """Return the event of *messages*, as Lambda makes it."""
    return {
        "Records": [
            {
                "messageId": message["MessageId"],
                "receiptHandle": message["ReceiptHandle"],
                "body": message["Body"],
                "attributes": message.get("Attributes", {}),
                "messageAttributes": message.get("MessageAttributes", {}),
                "md5OfBody": message["MD5OfBody"],
                "eventSource": "aws:sqs",
                "eventSourceARN": queue_arn,
                "awsRegion": queue_arn.split(":")[3],
            }
            for message in messages
        ]
    }


def done(ids: Collection[str], response: str | None, *, reports: bool) -> set[str]:
    """
    Return which of *ids*, the messages of one invocation, are deleted after *response*.

    *reports*: the mapping has ReportBatchItemFailures. Then an empty or null response, or list of failures,
    is success; what cannot be understood, and an id that was not in the batch, fails all. Without it any
    response is success.
    """
    if response is None:
        return set()
    if not reports:
        return {*ids}
    try:
        answer = json.loads(response) if response.strip() else None
    except ValueError:
        return set()
    if answer in (None, {}):
        return {*ids}
    failures = answer.get("batchItemFailures") if isinstance(answer, dict) else answer
    if failures is None:
        return {*ids}
    if not isinstance(failures, list):
        return set()
    failed = [each.get("itemIdentifier") if isinstance(each, dict) else None for each in failures]
    known = all(isinstance(one, str) and one in ids for one in failed)
    return {*ids} - {*failed} if known else set()


@dataclass(slots=True)
class EventSourceMapping:
    """One queue and its function, which reports failures; ``deleted`` has the ids that were acknowledged."""

    client: Any
    queue_url: str
    invoke: Invoke
    forgets: Callable[[], bool] = lambda: False
    """Whether a deletion is lost on the network: the message is delivered again."""
    deleted: set[str] = field(default_factory=set)

    def poll(self) -> int:
        """Receive once, without waiting, and invoke the function; return the number of messages."""
        received = self.client.receive_message(
            QueueUrl=self.queue_url,
            MaxNumberOfMessages=MOST_MESSAGES,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        messages = received.get("Messages", [])
        if not messages:
            return 0
        handles = {message["MessageId"]: message["ReceiptHandle"] for message in messages}
        response = self.invoke(event_of(messages, self._arn))
        for id_ in done(handles, response, reports=True):
            self.deleted.add(id_)
            if not self.forgets():
                self.client.delete_message(QueueUrl=self.queue_url, ReceiptHandle=handles[id_])
        return len(messages)

    @property
    def _arn(self) -> str:
        return f"arn:aws:sqs:eu-central-1:000000000000:{self.queue_url.rpartition('/')[2]}"
