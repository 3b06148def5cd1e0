"""The same on real queues, ElasticMQ's: visibility timeouts, the order of message groups, redrive."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.chaos.deliveries import Lane, Message, Queue

VISIBILITY_SECONDS = 1
"""Shorter than the leases, as that of `deliveries`; SQS knows whole seconds."""
RECEIVES = 6
"""After how many receives a message of the lane that holds is a dead letter. Those of others are never."""


@dataclass
class RealQueue(Queue):
    """A queue a lane. What is deleted, and what becomes a dead letter, is known from the queues alone."""

    client: Any = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._by_id: dict[str, Message] = {}
        self._receipts: dict[str, str] = {}
        self._dead = self._create(f"{uuid.uuid4()}-dead")
        redrive = {"deadLetterTargetArn": self._arn(self._dead), "maxReceiveCount": RECEIVES}
        of_lane = {
            Lane.FIFO: {"FifoQueue": "true"},
            Lane.HOLD: {"RedrivePolicy": json.dumps(redrive)},
        }
        self._urls = {
            lane: self._create(
                f"{uuid.uuid4()}{'.fifo' if lane is Lane.FIFO else ''}",
                VisibilityTimeout=str(VISIBILITY_SECONDS),
                **of_lane.get(lane, {}),
            )
            for lane in self.lanes
        }

    @property
    def finished(self) -> bool:
        with self._lock:
            for message in self._received(self._dead, 10):
                message.gone = True
        return super().finished

    def _create(self, name: str, **attributes: str) -> str:
        return str(self.client.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"])

    def _arn(self, url: str) -> str:
        asked = self.client.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(asked["Attributes"]["QueueArn"])

    def _visible(self, lane: Lane, many: int, now: datetime) -> list[Message]:
        del now
        return self._received(self._urls[lane], many)

    def _received(self, url: str, many: int) -> list[Message]:
        answer = self.client.receive_message(QueueUrl=url, MaxNumberOfMessages=many)
        received = answer.get("Messages", [])
        self._receipts |= {message["MessageId"]: message["ReceiptHandle"] for message in received}
        return [self._by_id[message["MessageId"]] for message in received]

    def _return(self, message: Message, now: datetime, *, held: bool) -> None:
        """Leave it to its visibility timeout, and to the redrive policy."""

    def _delete(self, message: Message) -> None:
        # Another receive may have deleted it meanwhile, or this was the last one: it is a dead letter.
        with suppress(self.client.exceptions.ReceiptHandleIsInvalid):
            url, receipt = self._urls[message.lane], self._receipts[message.id]
            self.client.delete_message(QueueUrl=url, ReceiptHandle=receipt)
            super()._delete(message)

    def _sent(self, lane: Lane, many: int, now: datetime) -> list[Message]:
        """Send them to the queue, which gives them their ids; who asks next receives them."""
        for message in super()._sent(lane, many, now):
            fifo = {"MessageGroupId": message.group, "MessageDeduplicationId": message.id}
            sent = self.client.send_message(
                QueueUrl=self._urls[lane], MessageBody=message.key, **(fifo if message.group else {})
            )
            message.id = sent["MessageId"]
            self._by_id[message.id] = message
        return []
