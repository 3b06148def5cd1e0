"""A FIFO topic or queue: its requests as values, and the answer for each message of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.patterns.fifo.messages import Message

KIBIBYTE: Final = 1024
TOPIC_LARGEST: Final = 256 * KIBIBYTE
"""Bytes of a message and of a request, unless the topic's MaximumMessageSize was raised (at most 1 MiB)."""
LARGEST: Final = 1024 * KIBIBYTE
"""The same of a queue, and the most of a topic. Source: API references, PublishBatch and SendMessageBatch."""

PASSING: Final = frozenset(
    {
        *("InternalError", "InternalErrorException", "InternalFailure"),
        *("ServiceUnavailable", "RequestTimeout"),
        *("RequestThrottled", "Throttled", "ThrottledException", "Throttling", "ThrottlingException"),
        *("KMSThrottling", "KMSThrottlingException", "KmsThrottled"),
    }
)
"""Errors after which the same request may succeed. Source: API references, common errors and the batches'."""
ABOUT_A_MESSAGE: Final = frozenset(
    {
        *("BatchRequestTooLong", "BatchRequestTooLongException", "InvalidMessageContents"),
        *("InvalidParameter", "InvalidParameterException"),
        *("InvalidParameterValue", "InvalidParameterValueException"),
        *("MissingParameter", "ParamValidationError", "ValidationError", "ValidationException"),
    }
)
"""Errors by which one message may cause a whole request to be refused."""

_TOPIC = re.compile(r"arn:[^:]+:sns:(?P<region>[^:]+):\d+:(?P<name>[A-Za-z0-9_-]+\.fifo)")
_QUEUE = re.compile(r"https?://[^/]+/(?:[^/]+/)*(?P<name>[A-Za-z0-9_-]+\.fifo)")


@dataclass(frozen=True, slots=True)
class SendFailure:
    """Why a message was not accepted, or may not have been."""

    code: str
    reason: str
    passes: bool
    """Whether the fault is not the sender's: a retry may succeed."""


Answer = Mapping[str, Any] | SendFailure
"""The entry of the answer for an accepted message, with its MessageId; or why it was not."""


@dataclass(frozen=True, slots=True)
class Channel:
    """A topic or a queue."""

    name: str
    largest: int
    """Bytes of one request, which may be one message."""
    service: str
    region: str | None
    operation: str
    request: Callable[[Sequence[Message]], dict[str, Any]]

    def send(self, client: Any, batch: Sequence[Message]) -> list[Answer]:
        """
        Send *batch* in one request, and return the answer for each message, in order.

        If it is refused because of one message, each message is sent by itself.
        """
        from botocore.parsers import ResponseParserError

        from lambda_once.dynamodb.errors import Caught, code_of, is_transient

        publish = getattr(client, self.operation)
        try:
            answer = publish(**self.request(batch))
        except Caught as error:
            if len(batch) > 1 and code_of(error) in ABOUT_A_MESSAGE:
                return [answer for message in batch for answer in self.send(client, [message])]
            return [SendFailure(code_of(error), str(error), is_transient(error, PASSING))] * len(batch)
        except (ResponseParserError, AttributeError, LookupError, TypeError, ValueError) as error:
            # botocore cannot parse the answer: it is a proxy's page, for example
            page = f"the endpoint's answer is not {self.service.upper()}'s ({type(error).__name__})"
            return [SendFailure("NotAnAnswer", page, passes=True)] * len(batch)
        answers: dict[str, Answer] = {each["Id"]: each for each in answer.get("Successful", ())}
        for each in answer.get("Failed", ()):
            answers[each["Id"]] = SendFailure(each["Code"], each.get("Message", ""), not each["SenderFault"])
        silence = SendFailure("NoAnswer", "the answer does not name this message", passes=True)
        return [answers.get(str(place), silence) for place in range(len(batch))]

    def new_client(self) -> Any:
        """Connect, without retries by botocore: the publisher retries message by message."""
        import boto3
        from botocore.config import Config

        settings = Config(
            connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}, tcp_keepalive=True
        )
        return boto3.client(self.service, region_name=self.region, config=settings)  # type: ignore[call-overload,unused-ignore]


def channel_of(target: str, largest: int | None = None) -> Channel:
    """
    Return the channel of *target*, the ARN of an SNS FIFO topic or the URL of an SQS FIFO queue.

    Raises `Misconfigured` for anything else, and for a *largest* that neither takes.
    """
    if largest is not None and not 0 < largest <= LARGEST:
        raise Misconfigured(f"largest={largest}: a request takes 1 to {LARGEST} bytes")
    if found := _TOPIC.fullmatch(target):
        most = TOPIC_LARGEST if largest is None else largest
        make = partial(topic_request, target)
        return Channel(found["name"], most, "sns", found["region"], "publish_batch", make)
    if found := _QUEUE.fullmatch(target):
        most = LARGEST if largest is None else largest
        make = partial(queue_request, target)
        return Channel(found["name"], most, "sqs", None, "send_message_batch", make)
    raise Misconfigured(
        f"{target!r} is neither the ARN of an SNS FIFO topic nor the URL of an SQS FIFO queue: both end in"
        " .fifo"
    )


def topic_request(topic: str, batch: Sequence[Message]) -> dict[str, Any]:
    """Return the arguments of the PublishBatch that publishes *batch*."""
    return {"TopicArn": topic, "PublishBatchRequestEntries": _entries(batch, "Message")}


def queue_request(queue: str, batch: Sequence[Message]) -> dict[str, Any]:
    """Return the arguments of the SendMessageBatch that sends *batch*."""
    return {"QueueUrl": queue, "Entries": _entries(batch, "MessageBody")}


def _entries(batch: Sequence[Message], body: str) -> list[dict[str, Any]]:
    return [
        {
            "Id": str(place),
            body: message.body,
            "MessageGroupId": message.group,
            "MessageDeduplicationId": message.deduplication_id,
            "MessageAttributes": dict(message.attributes),
        }
        for place, message in enumerate(batch)
    ]
