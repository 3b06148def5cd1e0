"""
One ``name=`` for two sources that deliver the same work: what's one work under it, and what's two.

Two fingerprints are compared by the parts that both have. A call of a function has no origin, so an order
from a queue and one from a call are the same; two queues aren't, nor is an event of EventBridge, whose source
and detail-type are in the token.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import KeyReused, MemoryStore, Misconfigured, Once
from lambda_once.testing import eventbridge_event, lambda_context, sns_event, sqs_event
from tests.decorators.sources_table import SOURCES, Row
from tests.decorators.test_beside import deliver, refusal

ORDER = {"orderId": 5}
ROWS = [row for row in SOURCES if row.key == "orderId"]  # a change of an item is no order


class Shop:
    """Handlers and functions of one name, and the doors by which work came that ran."""

    def __init__(self, row: Row) -> None:
        self.once = Once(store=MemoryStore(), service="shop")
        self.ran: list[str] = []
        decorator = getattr(self.once, row.decorator)
        self.handler: Any = decorator(name="ship", key=row.key)(lambda _: self.ran.append("records"))
        self._event = row.build(ORDER)

    def by_records(self) -> None:
        deliver(self.handler, self._event)

    def by_function(self) -> None:
        def ship(orderId: int) -> None:  # noqa: N803  (the field of the payload)
            self.ran.append("function")

        self.once.function(name=self.handler, key="orderId")(ship)(5)

    def by_direct_event(self) -> None:
        def ship(event: Any) -> None:
            self.ran.append("event")

        self.once.event(name=self.handler, key="orderId")(ship)(dict(ORDER), lambda_context())

    def by_block(self) -> None:
        with self.once.begin(5, name=self.handler, payload=ORDER) as attempt:
            if not attempt.replayed:
                self.ran.append("block")


CALLS: dict[str, Callable[[Shop], None]] = {
    "function": Shop.by_function,
    "event": Shop.by_direct_event,
    "block": Shop.by_block,
}


@pytest.mark.parametrize("is_first", [True, False], ids=["the record first", "the call first"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_record_and_a_call_are_one_work(row: Row, call: Callable[[Shop], None], *, is_first: bool) -> None:
    """Under a shared name and key: only one side has an origin, and a call has no attributes."""
    shop = Shop(row)
    doors = [Shop.by_records, call]
    for door in doors if is_first else reversed(doors):
        door(shop)
    call(shop)
    shop.by_records()
    assert len(shop.ran) == 1


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_another_payload_of_a_call_is_key_reused(call: Callable[[Shop], None]) -> None:
    """What both have is compared."""
    shop = Shop(SOURCES[0])
    deliver(shop.handler, sqs_event(ORDER | {"cents": 1}))
    with pytest.raises(KeyReused, match="another payload"):
        call(shop)
    assert shop.ran == ["records"]


def test_a_row_of_a_call_then_of_a_queue_knows_no_queue() -> None:
    """A duplicate's origin is not written into the first one's row: a second queue is the same, too."""
    shop = Shop(SOURCES[0])
    shop.by_block()
    deliver(shop.handler, sqs_event(ORDER, queue="blue"), sqs_event(ORDER, queue="green"))
    assert shop.ran == ["block"]


def test_a_queue_and_a_topic_of_one_name_are_key_reused() -> None:
    """Both have an origin; with ``ignore=`` of both parts they are one, as docs/key-design.md says."""
    shop = Shop(SOURCES[0])
    shop.by_records()
    event = sns_event(ORDER, topic="order-placed")
    ignored: list[tuple[str, ...]] = [(), ("@origin", "@attributes")]
    refusing, sharing = (
        shop.once.sns(name=shop.handler, key="orderId", ignore=ignore)(lambda _: shop.ran.append("topic"))
        for ignore in ignored
    )
    assert isinstance(refusal(refusing, event), KeyReused)
    assert refusal(sharing, event) is None
    assert shop.ran == ["records"]


# ------------------------------------------------------------------ EventBridge


def of_queue_and_bus(**options: Any) -> tuple[Any, Any, list[str]]:
    """A queue's handler, one of events under its name, and what ran."""
    once, ran = Once(store=MemoryStore(), service="shop"), list[str]()
    queue = once.sqs(name="ship", **options)(lambda _: ran.append("message"))
    key = {"key": "detail.orderId"} if "key" in options else {}
    bus: Any = once.event(name=queue, **{**options, **key})(lambda _: ran.append("event"))
    return queue, bus, ran


@pytest.mark.parametrize("options", [{}, {"key": "orderId"}], ids=["no key", "key="])
def test_an_event_and_a_queues_own_message_are_two_works(options: Any) -> None:
    """The event's token has its source and detail-type: neither is dropped for the other."""
    queue, bus, ran = of_queue_and_bus(**options)
    event = eventbridge_event(ORDER, event_id="i-1")
    for _ in range(2):
        deliver(queue, sqs_event(ORDER, message_ids=["m-1"]))
        deliver(bus, event)
    assert sorted(ran) == ["event", "message"]


@pytest.mark.parametrize("options", [{}, {"key": "orderId"}], ids=["no key", "key="])
def test_an_event_and_the_message_that_carries_it_are_one_work(options: Any) -> None:
    """A rule's own queue, or its dead-letter queue: the event counts, not the queue that it came through."""
    queue, bus, ran = of_queue_and_bus(**options)
    event = eventbridge_event(ORDER, event_id="i-1")
    dead = sqs_event(event, queue="dead", attributes={"ERROR_CODE": "THROTTLING", "TARGET_ARN": "arn:aws:x"})
    deliver(bus, event)
    deliver(queue, sqs_event(event), dead)
    deliver(bus, event)
    assert ran == ["event"]


def test_an_operation_is_asked_about_with_its_scope() -> None:
    """Without it the answer would be about a message: Misconfigured, never "not done"."""
    once = Once(store=MemoryStore(), service="shop")
    bus: Any = once.event(name="ship", key="detail.orderId")(lambda _: "shipped")
    deliver(bus, eventbridge_event(ORDER))
    with pytest.raises(Misconfigured, match="scope="):
        once.outcome(5, name="ship")
    assert once.outcome(5, name="ship", scope=["shop.orders", "OrderPlaced"]) is not None
