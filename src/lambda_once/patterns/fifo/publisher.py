"""
Publishes to an SNS FIFO topic or an SQS FIFO queue, in order within a group.

Each message goes under the deduplication id that its key gives: publishing it again within five minutes
delivers nothing again.

    publisher = Publisher(topic_arn, name="receipts", key="receiptId", group="customer")
    for receipt, result in zip(receipts, publisher.publish_all(receipts)):
        if not isinstance(result, Sent): ...          # Refused, Unanswered or Unsent: nothing is dropped
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import SystemClock
from lambda_once.dynamodb.client import low_level
from lambda_once.dynamodb.retry import TRIES, jitter
from lambda_once.errors import Misconfigured, RetryLater
from lambda_once.patterns.fifo.channels import Trouble, channel_of
from lambda_once.patterns.fifo.messages import Backlog
from lambda_once.patterns.fifo.rules import Rules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lambda_once.core.clock import Clock
    from lambda_once.core.keys import Selector as OptionalSelector
    from lambda_once.patterns.fifo.channels import Answer
    from lambda_once.patterns.fifo.messages import Attributes, Message
    from lambda_once.patterns.fifo.rules import Selector

WINDOW_SECONDS: Final = 300
"""
How long a deduplication id is remembered once a message was taken.

Source: API references, MessageDeduplicationId of PublishBatch (SNS) and SendMessageBatch (SQS). The six tries
of one message follow each other, with at most five seconds for an answer and one between: a late try is well
within it, and delivers nothing again.
"""


@dataclass(frozen=True, slots=True)
class Sent:
    """The message was taken: now, or as a duplicate of one within five minutes."""

    group: str
    deduplication_id: str
    message_id: str
    sequence: str | None
    """Its number in the order of the topic or queue, where the answer tells it."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The message was refused for good: as it is, and as things are, it will not be taken."""

    group: str
    deduplication_id: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No try succeeded, and one may have been taken all the same: publish it again, the id is the same."""

    group: str
    deduplication_id: str
    code: str


@dataclass(frozen=True, slots=True)
class Unsent:
    """The message was not sent, because one that goes before it failed."""

    group: str
    deduplication_id: str
    behind: int
    """The position of the one that failed."""


Result = Sent | Refused | Unanswered | Unsent


class Publisher:
    """
    One FIFO topic or queue. Safe from several threads; connects at first use.

    *target*: the ARN of an SNS FIFO topic or the URL of an SQS FIFO queue. *key* and *scope* (JMESPath over
    the message, or a callable that gets it), *service* and *name* are those of a lock token, and the
    deduplication id is the digest of that token: 64 hex. *key* None is the whole message, *service* None
    POWERTOOLS_SERVICE_NAME, *name* None that of the topic or queue. *group* selects the message group.
    *with_content*: the content counts for the id, too, so that an amended message of one key is delivered
    instead of vanishing as a duplicate. *ignore*: dotted paths that make no other content. *attributes*:
    message attributes, or a callable that makes them of a message. *largest*: bytes of a request; give the
    topic's MaximumMessageSize where that was raised.
    """

    def __init__(  # noqa: PLR0913  (options of one object, all but two by name)
        self,
        target: str,
        client: Any = None,
        *,
        group: Selector,
        key: OptionalSelector = None,
        scope: OptionalSelector = None,
        service: str | None = None,
        name: str | None = None,
        with_content: bool = False,
        ignore: str | Sequence[str] = (),
        attributes: Attributes | Callable[[Any], Attributes] | None = None,
        largest: int | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._channel = channel_of(target, largest)
        self.rules = Rules(
            key=key,
            scope=scope,
            group=group,
            service=service,
            name=self._channel.name if name is None else name,
            with_content=with_content,
            ignore=(ignore,) if isinstance(ignore, str) else tuple(ignore),
            attributes=attributes,
            largest=self._channel.largest,
        )
        self._clock: Clock = SystemClock() if clock is None else clock
        self._client = low_level(client)
        self._lock = threading.Lock()

    def publish(self, message: object) -> Sent:
        """
        Publish one message.

        Raises `KeyMissing` or `Misconfigured` for one that cannot be sent or is refused; `RetryLater` where
        no try was answered: publish it again.
        """
        (result,) = self.publish_all([message])
        match result:
            case Sent():
                return result
            case Refused():
                raise Misconfigured(f"{self._channel.name} refused a message: {result.code}, {result.reason}")
            case _:
                raise RetryLater(f"no answer from {self._channel.name}: publish the message again")

    def publish_all(self, messages: Iterable[object]) -> tuple[Result, ...]:
        """
        Publish *messages*, and return the result of each in their order.

        Within a group they are taken in their order: after one that fails, the rest of its group is `Unsent`.
        A request has at most one message of each group, so many groups make few requests. Raises, before
        anything is sent, `KeyMissing` or `Misconfigured` for a message that cannot be, and `KeyReused` where
        two of one key differ, of which the second would vanish.
        """
        ready = self.rules.all_prepared(list(messages))
        backlog = Backlog(ready)
        results: dict[int, Result] = {}
        troubled = 0
        while taken := backlog.take(self._channel.largest):
            batch = [ready[position] for position, _ in taken]
            answers = self._channel.send(self._connected(), batch)
            for (position, tries), answer in zip(taken, answers, strict=True):
                results |= settled(backlog, ready, position, tries + 1, answer)
            troubled = 0 if all(position in results for position, _ in taken) else troubled + 1
            if troubled:
                self._clock.sleep(jitter(troubled))
        return tuple(results[position] for position in range(len(ready)))

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._channel.new_client()
            return self._client


def settled(
    backlog: Backlog, messages: Sequence[Message], position: int, tries: int, answer: Answer
) -> dict[int, Result]:
    """Return what *answer* to try number *tries* settles, by position: nothing where another try follows."""
    message = messages[position]
    known = (message.group, message.deduplication_id)
    if not isinstance(answer, Trouble):
        backlog.sent(position)
        return {position: Sent(*known, answer["MessageId"], answer.get("SequenceNumber"))}
    if answer.passes and tries < TRIES:
        backlog.again(position, tries)
        return {}
    unsent = {
        held: Unsent(message.group, messages[held].deduplication_id, position)
        for held in backlog.failed(position)
    }
    if answer.passes:
        return {position: Unanswered(*known, answer.code), **unsent}
    return {position: Refused(*known, answer.code, answer.reason), **unsent}
