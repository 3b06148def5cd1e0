"""A queue that delivers at least once, as SQS does."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from threading import Lock

VISIBILITY = timedelta(seconds=1.8)
"""Shorter than the leases: a redelivery meets tokens of the dead before they lapse. AWS advises more."""
TWINS = 0.15
"""How many pieces of work are sent twice, as two messages of one content."""
FORGOTTEN = 0.1
"""How many deletions are forgotten, so that a message comes once more."""
FLAKY = 0.06
"""How many pieces of work fail at their first delivery, before they take effect."""
GROUPS = 4
"""How many message groups a FIFO queue has."""
HELD_TWICE = 2
"""After how many answers "held" a message goes to the dead-letter queue."""


class Lane(StrEnum):
    """One queue with its handler: what is promised of its effects."""

    TAKE_OVER = "take_over"
    CONCURRENT = "concurrent"
    """The same by an ``async def`` handler."""
    FUNCTION = "function"
    """The same by `once.function`, a call a message."""
    HOLD = "hold"
    TRANSACT = "transact"
    FIFO = "fifo"
    """Work may be taken over, but that of a message group keeps its order: on a real queue alone."""


@dataclass(slots=True, eq=False)
class Message:
    """One message, and what has become of it."""

    id: str
    lane: Lane
    key: str
    flaky: bool
    visible: datetime
    group: str | None = None
    """The message group, on a FIFO queue."""
    receives: int = 0
    acknowledged: bool = False
    """Whether a handler ever answered that it is finished."""
    held: int = 0
    gone: bool = False
    """Deleted, or in the dead-letter queue."""

    @property
    def dead(self) -> bool:
        return self.gone and not self.acknowledged


@dataclass
class Queue:
    """
    All lanes' messages. New ones are made while there is demand, *limit* at most.

    Safe from several threads; the seed decides what is sent, twice, forgotten or flaky.
    """

    lanes: Sequence[Lane]
    seed: int
    limit: int
    messages: list[Message] = field(default_factory=list)
    _random: random.Random = field(init=False)
    _lock: Lock = field(default_factory=Lock)

    def __post_init__(self) -> None:
        self._random = random.Random(f"{self.seed}/queue")

    def stop_sending(self) -> None:
        with self._lock:
            self.limit = len(self.messages)

    def receive(self, now: datetime) -> list[Message]:
        """Return up to ten messages of one lane, invisible from now on; none where nothing is visible."""
        with self._lock:
            lane = self._random.choice(self.lanes)
            many = self._random.randint(1, 10)
            received = self._visible(lane, many, now)
            if len(received) < many:
                received += self._sent(lane, many - len(received), now)
            for message in received:
                message.receives += 1
                message.visible = now + VISIBILITY
            return received

    def settle(self, answered: Sequence[Message], failed: set[str], held: set[str], now: datetime) -> None:
        """Delete what is finished, and show again soon what *failed*; what is *held* twice is dead."""
        with self._lock:
            for message in answered:
                if message.id in failed:
                    self._return(message, now, held=message.id in held)
                else:
                    forgotten = not message.acknowledged and self._random.random() < FORGOTTEN
                    message.acknowledged = True
                    if not forgotten:
                        self._delete(message)

    @property
    def finished(self) -> bool:
        with self._lock:
            return len(self.messages) >= self.limit and all(message.gone for message in self.messages)

    def _visible(self, lane: Lane, many: int, now: datetime) -> list[Message]:
        return [m for m in self.messages if m.lane is lane and not m.gone and m.visible <= now][:many]

    def _return(self, message: Message, now: datetime, *, held: bool) -> None:
        message.held += held
        message.gone = message.gone or message.held >= HELD_TWICE
        message.visible = now + timedelta(seconds=self._random.uniform(0.1, 0.8))

    def _delete(self, message: Message) -> None:
        message.gone = True

    def _sent(self, lane: Lane, many: int, now: datetime) -> list[Message]:
        new = list(self._new(lane, min(many, self.limit - len(self.messages)), now))
        self.messages += new
        return new

    def _new(self, lane: Lane, many: int, now: datetime) -> Iterator[Message]:
        number = len(self.messages)
        while many > 0:
            key = f"{lane}-{number}"
            flaky = self._random.random() < FLAKY
            group = f"group-{self._random.randrange(GROUPS)}" if lane is Lane.FIFO else None
            for _ in range(2 if many > 1 and self._random.random() < TWINS else 1):
                message_id = str(uuid.UUID(int=self._random.getrandbits(128)))
                yield Message(message_id, lane, key, flaky, now, group)
                number += 1
                many -= 1
