"""A rig whose requests are counted on their way to the engine, and may get lost there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.decorators.rig import Rig
from tests.kit.wire import Wire
from tests.sources.samples import batch, sqs_record

TEN = [f"{n}" for n in range(10)]
"""The bodies of ten records."""


@dataclass
class Counted:
    """A rig whose requests are counted on their way to the engine."""

    rig: Rig
    wire: Wire
    table: str

    def calls(self) -> list[str]:
        """The requests since this was asked for the last time."""
        calls, self.wire.sent = self.wire.sent, []
        return calls


def records(*bodies: str, received: int = 1) -> dict[str, Any]:
    """A batch of *bodies*, each its own messageId, delivered the *received*th time."""
    made = [sqs_record(body, id_=body) for body in bodies]
    for record in made:
        record["attributes"]["ApproximateReceiveCount"] = str(received)
    return batch(*made)
