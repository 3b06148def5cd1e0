"""A FIFO topic or queue in memory: takes batches, forgets ids after five minutes, fails on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from enum import Enum
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError, ReadTimeoutError

from lambda_once.core.clock import Clock

TOPIC = "arn:aws:sns:eu-central-1:123456789012:receipts.fifo"
QUEUE = "https://sqs.eu-central-1.amazonaws.com/123456789012/receipts.fifo"
WINDOW_SECONDS: Final = 300
"""How long an id is remembered (API references, MessageDeduplicationId of the batch operations)."""


class Fate(Enum):
    """What becomes of one entry of a request."""

    TAKEN = "taken"
    LATER = "failed by the service"
    SLOWER = "throttled, which SQS calls the sender's fault"
    NEVER = "refused for good"
    UNMENTIONED = "taken, and the answer does not speak of it"


FAILURES: Final = {
    Fate.LATER: ("InternalError", False),
    Fate.SLOWER: ("RequestThrottled", True),
    Fate.NEVER: ("InvalidMessageContents", True),
}
"""Code of an entry, and whether it is the sender's fault."""


class Whole(Enum):
    """What becomes of one request."""

    SOUND = "each entry by its fate"
    ANSWER_LOST = "each entry by its fate, and the answer lost"
    REQUEST_LOST = "nothing taken"
    THROTTLED = "nothing taken, and said so"
    DENIED = "nothing taken, now and ever"


class Entry(NamedTuple):
    """One message as the other side has it."""

    body: str
    group: str
    deduplication_id: str


class Fifo:
    """
    The client of an SNS FIFO topic or an SQS FIFO queue, one request of either at a time.

    ``delivered`` is what its receivers get, in their order; ``requests`` what was asked.
    """

    def __init__(
        self,
        clock: Clock,
        fate: Callable[[Entry], Fate] = lambda _: Fate.TAKEN,
        whole: Iterator[Whole] | None = None,
    ) -> None:
        self.delivered: list[Entry] = []
        self.requests: list[dict[str, Any]] = []
        self._clock = clock
        self._fate = fate
        self._whole = whole
        self._taken: dict[str, datetime] = {}

    def publish_batch(self, **request: Any) -> dict[str, Any]:
        return self._batch(request, request["PublishBatchRequestEntries"], "Message")

    def send_message_batch(self, **request: Any) -> dict[str, Any]:
        return self._batch(request, request["Entries"], "MessageBody")

    def _batch(self, request: dict[str, Any], entries: list[dict[str, Any]], body: str) -> dict[str, Any]:
        self.requests.append(request)
        whole = Whole.SOUND if self._whole is None else next(self._whole, Whole.SOUND)
        if whole is Whole.REQUEST_LOST:
            raise ReadTimeoutError(endpoint_url="http://fifo")
        if whole is Whole.THROTTLED:
            raise ClientError({"Error": {"Code": "Throttling", "Message": "slower"}}, "PublishBatch")
        if whole is Whole.DENIED:
            raise ClientError({"Error": {"Code": "AuthorizationError", "Message": "no"}}, "PublishBatch")
        answer: dict[str, Any] = {"Successful": [], "Failed": []}
        for each in entries:
            entry = Entry(each[body], each["MessageGroupId"], each["MessageDeduplicationId"])
            self._take(each["Id"], entry, answer)
        if whole is Whole.ANSWER_LOST:
            raise ReadTimeoutError(endpoint_url="http://fifo")
        return answer

    def _take(self, identity: str, entry: Entry, answer: dict[str, Any]) -> None:
        fate = self._fate(entry)
        if fate in FAILURES:
            code, is_sender = FAILURES[fate]
            answer["Failed"].append({"Id": identity, "Code": code, "Message": "", "SenderFault": is_sender})
            return
        now = self._clock.now()
        before = self._taken.get(entry.deduplication_id)
        if before is None or (now - before).total_seconds() >= WINDOW_SECONDS:
            self._taken[entry.deduplication_id] = now
            self.delivered.append(entry)
        if fate is Fate.TAKEN:
            sequence = f"{len(self.delivered):020}"
            answer["Successful"].append(
                {"Id": identity, "MessageId": f"m-{identity}", "SequenceNumber": sequence}
            )
