"""An SNS FIFO topic or an SQS FIFO queue: its requests, and the result for each message of a request."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from lambda_once.core.clock import Deadline
from lambda_once.errors import Misconfigured
from lambda_once.patterns.fifo.messages import Message
from lambda_once.patterns.fifo.results import Answer, Failed, Sent, Unanswered

LARGEST: Final = 1024 * 1024
"""The most bytes in a message and in a request. Source: API references, PublishBatch and SendMessageBatch."""

LATE: Final = "DeadlinePassed"
"""Code of a message that was not sent, because too little time was left before the end of the invocation."""

PASSING: Final = frozenset(
    {
        *("InternalError", "InternalErrorException", "InternalFailure"),
        *("ServiceUnavailable", "RequestTimeout"),
        *("RequestThrottled", "Throttled", "ThrottledException", "Throttling", "ThrottlingException"),
        *("KMSThrottling", "KMSThrottlingException", "KmsThrottled"),
    }
)
"""Transient errors: a retry may succeed. Source: API references, common errors and batch errors."""


class _Service(NamedTuple):
    """The names that one of the two services uses in a batch request."""

    name: str
    address: re.Pattern[str]
    operation: str
    target: str
    entries: str
    body: str
    largest: int
    """Most bytes in a request, unless a topic's MaximumMessageSize was raised."""


_SERVICES: Final = (
    _Service(
        "sns",
        re.compile(r"arn:[^:]+:sns:(?P<region>[^:]+):\d+:(?P<name>[A-Za-z0-9_-]+\.fifo)"),
        *("publish_batch", "TopicArn", "PublishBatchRequestEntries", "Message"),
        LARGEST // 4,
    ),
    _Service(
        "sqs",
        re.compile(r"https?://[^/]+/(?:[^/]+/)*(?P<name>[A-Za-z0-9_-]+\.fifo)"),
        *("send_message_batch", "QueueUrl", "Entries", "MessageBody"),
        LARGEST,
    ),
)


class Channel:
    """
    The topic or queue *target*, an ARN or a URL; *largest* is the most bytes in a request.

    Raises `Misconfigured` for any other target, and for a *largest* outside 1 to 1,048,576.
    """

    def __init__(self, target: str, largest: int | None = None) -> None:
        if largest is not None and not 0 < largest <= LARGEST:
            raise Misconfigured(f"largest={largest}: a request takes 1 to {LARGEST} bytes")
        found = {each: match for each in _SERVICES if (match := each.address.fullmatch(target))}
        if not found:
            raise Misconfigured(
                f"{target!r} is neither the ARN of an SNS FIFO topic nor the URL of an SQS FIFO queue: both "
                "end in .fifo"
            )
        ((self._service, match),) = found.items()
        self._target = target
        self._region: str | None = match.groupdict().get("region")
        self.name: str = match["name"]
        self.largest = self._service.largest if largest is None else largest

    def request(self, batch: Sequence[Message]) -> dict[str, Any]:
        """Return the arguments of the request that sends *batch*."""
        entries = [
            {
                "Id": str(place),
                self._service.body: message.body,
                "MessageGroupId": message.group,
                "MessageDeduplicationId": message.deduplication_id,
                "MessageAttributes": dict(message.attributes),
            }
            for place, message in enumerate(batch)
        ]
        return {self._service.target: self._target, self._service.entries: entries}

    def send(self, client: Any, batch: Sequence[Message], deadline: Deadline) -> list[Answer]:
        """
        Send *batch* in one request, and return the outcome of each message, in order.

        If the whole request is refused, which one bad message may cause, each message is sent separately,
        until *deadline*.
        """
        from botocore.parsers import ResponseParserError

        from lambda_once.dynamodb import Caught, code_of, is_transient, message_of

        began = deadline.clock.now()
        try:
            response = getattr(client, self._service.operation)(**self.request(batch))
        except Caught as error:
            for_good = not is_transient(error, PASSING)
            if for_good and len(batch) > 1:
                return self._one_by_one(client, batch, deadline, began)
            refusal = {"Code": code_of(error), "Message": message_of(error), "SenderFault": for_good}
            return [_answer(message, refusal) for message in batch]
        except (ResponseParserError, AttributeError, LookupError, TypeError, ValueError):
            # botocore cannot parse the response, such as a proxy's error page
            return [Unanswered(each.group, each.deduplication_id, "NotAnAnswer") for each in batch]
        named = {each["Id"]: each for list_ in ("Successful", "Failed") for each in response.get(list_, ())}
        return [_answer(message, named.get(str(place))) for place, message in enumerate(batch)]

    def _one_by_one(
        self, client: Any, batch: Sequence[Message], deadline: Deadline, began: datetime
    ) -> list[Answer]:
        """Send each message separately, while a request as long as the last one meets the deadline."""
        answers: list[Answer] = []
        for message in batch:
            if deadline.has_time_for_another(began):
                began = deadline.clock.now()
                answers += self.send(client, [message], deadline)
            else:
                answers.append(Unanswered(message.group, message.deduplication_id, LATE))
        return answers

    def new_client(self) -> Any:
        """Return a new client without botocore's retries: the publisher retries each message."""
        import boto3
        from botocore.config import Config

        settings = Config(
            connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}, tcp_keepalive=True
        )
        return boto3.client(self._service.name, region_name=self._region, config=settings)  # type: ignore[call-overload,unused-ignore]


def _answer(message: Message, entry: Mapping[str, Any] | None) -> Answer:
    """Return the outcome of *message* from its *entry* in the response; None if the response omits it."""
    known = (message.group, message.deduplication_id)
    if entry is None:
        return Unanswered(*known, "NoAnswer")
    if "Code" not in entry:
        return Sent(*known, entry["MessageId"], entry.get("SequenceNumber"))
    if entry["SenderFault"] and entry["Code"] not in PASSING:  # SQS counts throttling as the sender's fault
        return Failed(*known, entry["Code"], entry.get("Message", ""))
    return Unanswered(*known, entry["Code"])
