"""Publishes to a FIFO topic or queue in order within a group, each message once within five minutes."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.dynamodb.client import forget_in_child, low_level
from lambda_once.dynamodb.retry import TRIES, Tries
from lambda_once.errors import Misconfigured, RetryLater
from lambda_once.observability.events import Event
from lambda_once.patterns.fifo.channels import Answer, SendFailure, channel_of
from lambda_once.patterns.fifo.messages import Attributes, Backlog, Message, MessageFormat, Selector
from lambda_once.patterns.observing import Observer
from lambda_once.patterns.transport import retry_deadline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lambda_once.core.keys import Selector as OptionalSelector
    from lambda_once.observability.reporter import AnyLogger, Namespaced

LATE: Final = SendFailure("DeadlinePassed", "the invocation ends", passes=True)
"""In place of an answer, where there is no time to wait for one."""


@dataclass(frozen=True, slots=True)
class Sent:
    """The message was accepted, now or as a duplicate of one within five minutes."""

    group: str
    deduplication_id: str
    message_id: str
    sequence: str | None
    """Its sequence number, where the answer has one."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The message was refused for good, by the service or here: then group and id may be empty."""

    group: str
    deduplication_id: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """No response, or no time left ("DeadlinePassed"): publish it again, the id is the same."""

    group: str
    deduplication_id: str
    code: str


@dataclass(frozen=True, slots=True)
class Unsent:
    """The message was not sent, because an earlier one of its group failed."""

    group: str
    deduplication_id: str
    behind: int
    """The position of the failed message."""


Result = Sent | Failed | Unanswered | Unsent


class Publisher:
    """
    One FIFO topic or queue. Thread-safe; connects at first use.

    *target*: the ARN of an SNS FIFO topic or the URL of an SQS FIFO queue. *key* and *scope* (JMESPath over
    the message, or a callable that gets it), *service* and *name* are those of a lock token, and the
    deduplication id is the SHA-256 of that token: 64 hex digits. *key* None is the whole message, *service*
    None POWERTOOLS_SERVICE_NAME, *name* None that of the topic or queue. *group* selects the message group.
    *with_content*: the content is part of the id, so that an amended message with the same key is delivered,
    and not dropped as a duplicate. *ignore*: dotted paths that do not count as content. *attributes*: message
    attributes, or a callable that returns them for a message. *largest*: bytes of a request; the topic's
    MaximumMessageSize if it was raised. *metrics*, *logger*: your Powertools objects, if any.
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
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._channel = channel_of(target, largest)
        self.format = MessageFormat(
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
        if client is None:
            forget_in_child(self)
        self._observer = Observer(self, self._channel.name, metrics, logger, service=service)

    def token(self, message: object) -> str:
        """Return the token whose digest is the deduplication id of *message*. Raises `KeyMissing`."""
        return self.format.token(message)

    def publish(self, message: object) -> Sent:
        """
        Publish one message.

        Raises `KeyMissing` or `Misconfigured` if it cannot be sent or is refused; `RetryLater` if there is no
        response: publish it again.
        """
        (ready,) = self.format.all_prepared([message])
        (result,) = self._published([ready])
        if ready.problem is not None:
            raise ready.problem
        match result:
            case Sent():
                return result
            case Failed():
                raise Misconfigured(f"{self._channel.name} refused a message: {result.code}, {result.reason}")
            case _:
                raise RetryLater(f"no answer from {self._channel.name}: publish the message again")

    def publish_all(self, messages: Iterable[object]) -> tuple[Result, ...]:
        """
        Publish *messages*, and return the result of each in their order.

        Each group is sent in order: after a message that fails, the rest of its group is `Unsent`. A request
        has at most one message of each group, so many groups need few requests. In protected work no request
        is sent that would end in the last second of the invocation if it took as long as the one before it;
        what is left is `Unanswered`. A message that cannot be sent is `Failed` with the name of the error as
        its code: `KeyMissing`, `Misconfigured`, or `KeyReused` for the second of two with one key that
        differ, which would be dropped.
        """
        return self._published(self.format.all_prepared(list(messages)))

    def _published(self, ready: Sequence[Message]) -> tuple[Result, ...]:
        results = unsendable(ready)
        backlog = Backlog({place: each for place, each in enumerate(ready) if place not in results})
        deadline, late = retry_deadline(self._clock), False
        tries = Tries(deadline, most=None)
        while taken := backlog.take(self._channel.largest):
            began = self._clock.now()
            batch = [ready[position] for position, _ in taken]
            answers = [LATE] * len(batch) if late else self._channel.send(self._connected(), batch)
            for (position, sent), answer in zip(taken, answers, strict=True):
                results |= results_of(backlog, ready, position, TRIES if late else sent + 1, answer)
            done = all(position in results for position, _ in taken)
            if done:
                tries.succeeded()
            again = done or tries.again(began)
            late = late or not (again and deadline.has_time_for_another(began))
        self._report(results)
        return tuple(results[position] for position in range(len(ready)))

    def _report(self, results: Mapping[int, Result]) -> None:
        """Report the messages that were not sent, together."""
        unsent = [each for each in results.values() if not isinstance(each, Sent)]
        if unsent:
            codes = ", ".join(sorted({each.code for each in unsent if not isinstance(each, Unsent)}))
            reason = f"{len(unsent)} of {len(results)} messages not sent"
            self._observer.report(Event.UNSENT, times=len(unsent), reason=reason, error=codes)

    def _forget(self) -> None:
        """Leave the connections to the process that this one was forked from."""
        self._lock = threading.Lock()
        self._client = None

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = self._channel.new_client()
            return self._client


def unsendable(messages: Sequence[Message]) -> dict[int, Result]:
    """Return the results of *messages* with a problem, and of those behind them in their groups."""
    results: dict[int, Result] = {}
    failed: dict[str, int] = {}
    for position, each in enumerate(messages):
        known = (each.group, each.deduplication_id)
        if each.group in failed:
            results[position] = Unsent(*known, failed[each.group])
        elif each.problem is not None:
            results[position] = Failed(*known, type(each.problem).__name__, str(each.problem))
            failed |= {each.group: position} if each.group else {}
    return results


def results_of(
    backlog: Backlog, messages: Sequence[Message], position: int, tries: int, answer: Answer
) -> dict[int, Result]:
    """Return the results by *answer* to try number *tries*, by position; none if another try follows."""
    message = messages[position]
    known = (message.group, message.deduplication_id)
    if not isinstance(answer, SendFailure):
        backlog.sent(position)
        return {position: Sent(*known, answer["MessageId"], answer.get("SequenceNumber"))}
    if answer.passes and tries < TRIES:
        backlog.again(position, tries)
        return {}
    results: dict[int, Result] = {
        held: Unsent(message.group, messages[held].deduplication_id, position)
        for held in backlog.failed(position)
    }
    code, reason = answer.code, answer.reason
    results[position] = Unanswered(*known, code) if answer.passes else Failed(*known, code, reason)
    return results
