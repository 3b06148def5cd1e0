"""The five scenes. Each is played without the package and with it, and compared with its promise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, NoReturn

from lambda_once import HOLD, RELEASE, Once
from lambda_once.policies import OnError
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, State, sqs_event, using

from .side import Messages, Side

FIRST, SECOND, LATE = "1st delivery", "2nd delivery", "1st wakes up"


class Step(NamedTuple):
    """What happened in one delivery, or in a part of it."""

    name: str
    without: str
    protected: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Something that goes wrong on AWS Lambda, and how it ends."""

    title: str
    orders: tuple[str, ...]
    """A message each, in one batch."""
    play: Callable[[Side, Messages], object]
    promise: tuple[Step, ...]
    row: str
    """The row of the last order in the end."""
    why: str
    on_error: OnError = RELEASE


@dataclass(frozen=True, slots=True)
class Played:
    """How a scene went."""

    scene: Scene
    steps: tuple[Step, ...]
    charges: tuple[Counter[str], Counter[str]]
    """How often each order was charged, without the package and with it."""
    row: str

    @property
    def broken(self) -> bool:
        """Whether it went otherwise than promised."""
        return (self.steps, self.row) != (self.scene.promise, self.scene.row)


def play(scene: Scene, client: Any, table: str, clock: FakeClock) -> Played:
    """Play *scene* on both sides, with the token table *table*."""
    without, protected = sides = Side(clock), Side(clock)
    once = Once(service="shop", on_error=scene.on_error, hooks=[protected.hear])
    with using(once, DynamoDBStore(table, client), clock):
        protected.protect(once)
        for side in sides:
            scene.play(side, sqs_event(*({"orderId": order} for order in scene.orders))["Records"])
    steps = tuple(
        Step(name, happened, with_it)
        for (name, happened), (_, with_it) in zip(without.steps, protected.steps, strict=True)
    )
    charges = without.provider.charges, protected.provider.charges
    key = {"lockToken": {"S": f"shop/charge/{scene.orders[-1]}"}}
    return Played(scene, steps, charges, _row(client.get_item(TableName=table, Key=key, ConsistentRead=True)))


def _row(found: Mapping[str, Any]) -> str:
    """Return the state of the row *found*, and which delivery wrote it."""
    if "Item" not in found:
        return "none"
    record = record_of(found["Item"])
    state = "completed" if record.state is State.COMPLETE else record.state.name.lower()
    return f"{state} by the {record.locked_by.rpartition('/')[2]} delivery"


# ---------------------------------------------------------------- the scenes


def _duplicate(side: Side, messages: Messages) -> None:
    side.deliver(FIRST, messages)
    side.deliver(SECOND, messages)


def _crash(side: Side, messages: Messages) -> None:
    side.provider.remembers_keys = True
    back = side.deliver(FIRST, messages, killed=True)
    side.wait()
    side.deliver(SECOND, back)


def _late_attempt(side: Side, messages: Messages) -> None:
    def hang() -> None:
        side.happened.append("hangs")
        side.end(FIRST)
        side.wait()
        with ThreadPoolExecutor(1) as elsewhere:  # another environment
            elsewhere.submit(side.deliver, SECOND, messages).result()

    side.provider.remembers_keys = True
    side.provider.before["o-3"] = hang
    side.deliver(LATE, messages)


def _batch(side: Side, messages: Messages) -> None:
    def refuse() -> NoReturn:
        side.happened.append("o-5 failed")
        raise ConnectionError

    side.provider.before["o-5"] = refuse
    back = side.deliver(FIRST, messages)
    side.deliver(SECOND, back)


def _held(side: Side, messages: Messages) -> None:
    def time_out() -> NoReturn:
        side.happened.append("no answer")
        raise TimeoutError

    side.provider.after["o-6"] = time_out
    back = side.deliver(FIRST, messages)
    side.deliver(SECOND, back)


SCENES = (
    Scene(
        "Duplicate: SQS delivers a message again, though the handler succeeded.",
        ("o-1",),
        _duplicate,
        (Step(FIRST, "charged o-1", "charged o-1"), Step(SECOND, "charged o-1", "once.replayed")),
        "completed by the 1st delivery",
        "The 2nd got its result.",
    ),
    Scene(
        "Crash: the function is killed right after the charge, before it answers.",
        ("o-2",),
        _crash,
        (
            Step(FIRST, "charged o-2, killed", "charged o-2, killed"),
            Step(SECOND, "charged o-2", "once.taken_over, key known: no charge"),
        ),
        "completed by the 2nd delivery",
        "It ran again, with the same key.",
    ),
    Scene(
        "Late attempt: the first delivery hangs until the second is done.",
        ("o-3",),
        _late_attempt,
        (
            Step(FIRST, "hangs", "hangs"),
            Step(SECOND, "charged o-3", "once.taken_over, charged o-3"),
            Step(LATE, "charged o-3", "key known: no charge, once.fenced, once.replayed"),
        ),
        "completed by the 2nd delivery",
        "The 1st can't overwrite it.",
    ),
    Scene(
        "Batch: one of two messages fails before its charge.",
        ("o-4", "o-5"),
        _batch,
        (
            Step(
                FIRST,
                "charged o-4, o-5 failed, 2 of 2 back in queue",
                "charged o-4, o-5 failed, 1 of 2 back in queue",
            ),
            Step(SECOND, "charged o-4, charged o-5", "charged o-5"),
        ),
        "completed by the 2nd delivery",
        "Each message has a row of its own.",
    ),
    Scene(
        "Held: the call times out. Did it charge? With on_error={TimeoutError: HOLD}.",
        ("o-6",),
        _held,
        (
            Step(
                FIRST,
                "charged o-6, no answer, back in queue",
                "charged o-6, no answer, once.held, back in queue",
            ),
            Step(SECOND, "charged o-6", "once.refused, back in queue"),
        ),
        "held by the 1st delivery",
        "A person decides: `lambda-once resolve`.",
        {TimeoutError: HOLD},
    ),
)
