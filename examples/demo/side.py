"""One side of a scene: a handler that charges orders from a queue, with its queue and payment provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSEvent, SQSRecord

from lambda_once import Once
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.testing import FakeClock, crash_at, lambda_context

Messages = list[dict[str, Any]]
SHOWN = {Event.TAKEN_OVER, Event.REPLAYED, Event.FENCED, Event.HELD, Event.REFUSED}
"""The log events that the scenes are about."""
VISIBILITY_SECONDS = 180.0
"""After that long SQS delivers a message again. No lease lasts longer here."""


class Provider:
    """A payment provider. It charges at every call, unless it knows the call's idempotency key."""

    def __init__(self, happened: list[str]) -> None:
        self.charges = Counter[str]()
        self.before: dict[str, Callable[[], object]] = {}
        """What goes wrong in the next call for an order, before it's charged."""
        self.after: dict[str, Callable[[], object]] = {}
        """The same, once it's charged."""
        self.remembers_keys = False
        self._happened = happened
        self._keys: set[str] = set()

    def charge(self, order_id: str, key: str = "") -> None:
        """Charge the order."""
        self.before.pop(order_id, bool)()
        if key in self._keys:
            self._happened.append("key known: no charge")
        else:
            self.charges[order_id] += 1
            self._happened.append(f"charged {order_id}")
        if key and self.remembers_keys:
            self._keys.add(key)
        self.after.pop(order_id, bool)()


class Side:
    """The handler, not protected until `protect` is called. Nothing sleeps: `wait` advances the clock."""

    def __init__(self, clock: FakeClock) -> None:
        self.happened: list[str] = []
        """Since the last step ended."""
        self.steps: list[tuple[str, str]] = []
        """The name of each step, and what happened in it."""
        self.provider = Provider(self.happened)
        self._clock = clock
        self._is_protected = False
        self._handler: Callable[[dict[str, Any], Any], Any] = self._unprotected

    def _unprotected(self, event: dict[str, Any], _context: object) -> None:
        for record in SQSEvent(event).records:
            self.provider.charge(record.json_body["orderId"])

    def protect(self, once: Once) -> None:
        """Decorate the handler, which now has an idempotency key for its provider."""

        @once.sqs(key="orderId", name="charge")
        def protected(record: SQSRecord) -> None:
            self.provider.charge(record.json_body["orderId"], once.current().downstream_key())

        self._handler, self._is_protected = protected, True

    def hear(self, details: Details) -> None:
        """Note a log event."""
        if details.event in SHOWN:
            self.happened.append(details.event.value)

    def deliver(self, step: str, messages: Messages, *, killed: bool = False) -> Messages:
        """
        Invoke the handler with *messages*, and return those that SQS will deliver again.

        If *killed*, the environment is killed right after the work, before it can answer.
        """
        back = messages
        if killed:
            with crash_at("work") if self._is_protected else nullcontext():
                self._invoke(step, messages)
            self.happened.append("killed")
        else:
            back = self._invoke(step, messages)
            which = f"{len(back)} of {len(messages)} " if len(messages) > 1 else ""
            self.happened += [f"{which}back in queue"] if back else []
        self.end(step)
        return back

    def end(self, step: str) -> None:
        """End a step: what has happened belongs to it."""
        self.steps.append((step, ", ".join(self.happened)))
        self.happened.clear()

    def wait(self) -> None:
        """Let the visibility timeout pass."""
        self._clock.advance(VISIBILITY_SECONDS)

    def _invoke(self, step: str, messages: Messages) -> Messages:
        """Return the messages that the handler didn't acknowledge. The request id is ``1st`` or ``2nd``."""
        context = lambda_context(request_id=step.partition(" ")[0])
        try:
            answer = self._handler({"Records": messages}, context)
        except Exception:  # noqa: BLE001  (Lambda's rule: after any error the whole batch goes back)
            return messages
        failures = {} if answer is None else {each["itemIdentifier"] for each in answer["batchItemFailures"]}
        return [message for message in messages if message["messageId"] in failures]
