"""Publishes to a FIFO topic or queue in order within a group, each message once within five minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lambda_once.core.checks import checked_flag
from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.core.threads import Exclusive
from lambda_once.dynamodb import TRIES, Tries, forget_in_child, low_level, retry_deadline
from lambda_once.errors import Misconfigured, RetryLater
from lambda_once.observability.events import Event
from lambda_once.patterns.fifo.channels import LATE, Channel
from lambda_once.patterns.fifo.messages import Attributes, Backlog, Message, MessageFormat, Selector
from lambda_once.patterns.fifo.results import Answer, Failed, Result, Sent, Unanswered, Unsent
from lambda_once.patterns.observing import Observer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lambda_once.core.keys import Selector as OptionalSelector
    from lambda_once.observability.reporter import AnyLogger, Namespaced


class Publisher:
    """
    One FIFO topic or queue. Thread-safe; connects at first use.

    *target*: the ARN of an SNS FIFO topic or the URL of an SQS FIFO queue. *key*, *scope* (each JMESPath over
    the message, or a callable that receives it), *service* and *name* make a lock token; the deduplication id
    is the SHA-256 of its canonical form, 64 hex digits. Defaults: *key* is the whole message, *service*
    POWERTOOLS_SERVICE_NAME, *name* that of the topic or queue. *group* selects the message group. With
    *with_content* the id also depends on the content, so that an amended message with the same key is
    delivered instead of dropped as a duplicate. *ignore*: dotted paths that do not count as content.
    *attributes*: message attributes, or a callable that returns them for a message. *largest*: the most bytes
    in a request; give the topic's MaximumMessageSize if it was raised. *metrics*, *logger*: your Powertools
    objects.
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
        self._channel = Channel(target, largest)
        self.format = MessageFormat(
            key=key,
            scope=scope,
            group=group,
            service=service,
            name=self._channel.name if name is None else name,
            with_content=checked_flag("with_content", with_content),
            ignore=(ignore,) if isinstance(ignore, str) else tuple(ignore),
            attributes=attributes,
            largest=self._channel.largest,
        )
        self._clock: Clock = SystemClock() if clock is None else clock
        self._client = low_level(client)
        self._lock = Exclusive("a client is being made")
        if client is None:
            forget_in_child(self)
        self._observer = Observer(self, self._channel.name, metrics, logger, service=service)

    def token(self, message: object) -> str:
        """Return the token from which the deduplication id of *message* is derived. Raises `KeyMissing`."""
        return self.format.token(message)

    def publish(self, message: object) -> Sent:
        """
        Publish one message.

        Raises `KeyMissing` or `Misconfigured` if it cannot be sent or is refused. Raises `RetryLater` if
        there is no response: publish it again.
        """
        (result,) = self.publish_all([message])
        match result:
            case Sent():
                return result
            case Failed():
                self.format.prepared(message)  # raises again what it failed with, if it was not sent
                raise Misconfigured(f"{self._channel.name} refused a message: {result.code}, {result.reason}")
            case _:
                raise RetryLater(f"no answer from {self._channel.name}: publish the message again")

    def publish_all(self, messages: Iterable[object]) -> tuple[Result, ...]:
        """
        Publish *messages*, and return their results in order.

        Each group is sent in order: after a message that fails, the rest of its group is `Unsent`. A request
        has at most one message of each group, so many groups need few requests. In protected work, no request
        is sent that would end in the last second of the invocation if it took as long as the previous one;
        what is left is `Unanswered`. A message that cannot be sent is `Failed`, and its code is the name of
        the error: `KeyMissing`, `Misconfigured`, or `KeyReused` if an earlier message has the same key and
        other content, because SNS or SQS would drop the second one.
        """
        ready = self.format.all_prepared(list(messages))
        backlog = Backlog({place: each for place, each in enumerate(ready) if each.group})
        results: dict[int, Result] = {}
        deadline, late = retry_deadline(self._clock), False
        tries = Tries(deadline, most=None)
        while not late and (taken := backlog.take(self._channel.largest)):
            began = self._clock.now()
            answers = self._answers([ready[place] for place, _ in taken], deadline)
            for (place, before), answer in zip(taken, answers, strict=True):
                if isinstance(answer, Unanswered) and before + 1 < TRIES:
                    backlog.again(place, before + 1)
                    continue
                results[place] = answer
                if isinstance(answer, Sent):
                    backlog.sent(place)
                    continue
                for held in backlog.failed(place):
                    results[held] = Unsent(answer.group, ready[held].deduplication_id, place)
            done = all(place in results for place, _ in taken)
            if done:
                tries.succeeded()
            late = not ((done or tries.again(began)) and deadline.has_time_for_another(began))
        for place, each in enumerate(ready):
            if place not in results:
                ended = Unanswered(each.group, each.deduplication_id, LATE)
                results[place] = ended if each.problem is None else each.problem
        self._report(results)
        return tuple(results[place] for place in range(len(ready)))

    def _answers(self, batch: Sequence[Message], deadline: Deadline) -> list[Answer]:
        """Send the messages of *batch* that have no problem, and return the outcome of each."""
        sendable = [each for each in batch if each.problem is None]
        answers = iter(self._channel.send(self._connected(), sendable, deadline) if sendable else ())
        return [next(answers) if each.problem is None else each.problem for each in batch]

    def _report(self, results: Mapping[int, Result]) -> None:
        """Report all messages that were not sent."""
        unsent = [each for each in results.values() if not isinstance(each, Sent)]
        if unsent:
            codes = ", ".join(sorted({each.code for each in unsent if not isinstance(each, Unsent)}))
            reason = f"{len(unsent)} of {len(results)} messages not sent"
            self._observer.report(Event.UNSENT, times=len(unsent), reason=reason, error=codes)

    def _forget(self) -> None:
        """Drop the client after a fork, without closing the parent's connections."""
        self._lock = Exclusive("a client is being made")
        self._client = None

    def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        with self._lock.alone():
            if self._client is None:
                self._client = self._channel.new_client()
            return self._client
