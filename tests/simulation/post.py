"""Messages, as their source keeps them: each comes again until it is acknowledged."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.scenario import Scenario


@dataclass(eq=False)
class Message:
    """One message, which has a token; several may have the same."""

    id: str
    key: str
    amount: int
    group: str
    place: int
    """Its place in its group."""
    received: int = 0
    away: bool = False
    """It is delivered, and not again until its visibility ends."""
    closed: bool = False
    """It will not come again."""

    @property
    def token(self) -> str:
        return f"shop/charge/{self.key}"

    @property
    def body(self) -> dict[str, Any]:
        return {"order": self.key, "amount": self.amount}

    @property
    def payload(self) -> str:
        return str(self.amount)


@dataclass
class Post:
    """All messages of a schedule."""

    messages: list[Message] = field(default_factory=list)

    @classmethod
    def of(cls, scenario: Scenario, rng: random.Random) -> Post:
        post = cls()
        for n in range(scenario.deliveries):
            key = f"k{n if n < scenario.tokens else rng.randrange(scenario.tokens)}"
            amount = 2 if scenario.amended and n >= scenario.tokens and rng.random() < 0.5 else 1
            group = f"g{int(key[1:]) % 2}"
            place = sum(message.group == group for message in post.messages)
            post.messages.append(Message(f"m{n}", key, amount, group, place))
        return post

    def waiting(self, *, fifo: bool) -> list[Message]:
        """Return what may be delivered now; of a FIFO group nothing while a part of it is away."""
        found = [message for message in self.messages if not (message.closed or message.away)]
        if not fifo:
            return found
        busy = {message.group for message in self.messages if message.away and not message.closed}
        return [message for message in found if message.group not in busy]

    def before(self, message: Message) -> list[Message]:
        """Return what must be finished before *message* starts on a FIFO queue."""
        return [one for one in self.messages if one.group == message.group and one.place < message.place]

    def by_id(self, message_id: str) -> Message:
        return next(message for message in self.messages if message.id == message_id)

    @property
    def open(self) -> list[Message]:
        return [message for message in self.messages if not message.closed]
