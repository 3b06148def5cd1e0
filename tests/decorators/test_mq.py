"""`once.mq`: each message of ActiveMQ or RabbitMQ once; if one failed, all are delivered again."""

from __future__ import annotations

from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.active_mq_event import ActiveMQMessage
from aws_lambda_powertools.utilities.data_classes.rabbit_mq_event import RabbitMessage

from lambda_once import KeyMissing, KeyReused
from lambda_once.testing import activemq_event, rabbitmq_event
from tests.decorators.rig import Rig, in_memory
from tests.decorators.worker import worker


def messages_of(event: dict[str, Any]) -> list[dict[str, Any]]:
    """All messages of a batch."""
    found: list[dict[str, Any]] = event.get("messages") or event["rmqMessagesByQueue"]["orders::/"]
    return found


# -- identity


@in_memory
def test_an_activemq_message_is_its_id(rig: Rig) -> None:
    """Equal data in two messages is two pieces of work; other data under one id is refused."""
    seen: list[str] = []
    handler = rig.once.mq(worker(seen, set()))
    event = activemq_event("x", "x")
    handler(event, rig.context())
    assert seen == ["x", "x"]
    event["messages"][0]["data"] = "eQ=="
    with pytest.raises(KeyReused):
        handler(event, rig.context())


@in_memory
def test_a_rabbitmq_message_is_its_id_in_its_queue(rig: Rig) -> None:
    """The sender sets messageId: the same one in another queue or virtual host is another message."""
    seen: list[str] = []
    handler = rig.once.mq(worker(seen, set()))
    for queue, vhost in (("orders", "/"), ("returns", "/"), ("orders", "test"), ("orders", "/")):
        handler(rabbitmq_event("x", message_ids=["5"], queue=queue, vhost=vhost), rig.context())
    handler(rabbitmq_event("x", message_ids=["6"]), rig.context())
    assert len(seen) == 4


@in_memory
def test_a_rabbitmq_message_without_id_is_its_data_in_its_queue(rig: Rig) -> None:
    """Equal data is one piece of work there, as in a standard queue of SQS; ignore= counts as there."""
    seen: list[str] = []
    handler = rig.once.mq(ignore=("sent",))(worker(seen, set()))
    for sent, queue in ((1, "orders"), (2, "orders"), (3, "returns")):
        handler(rabbitmq_event({"orderId": 5, "sent": sent}, queue=queue), rig.context())
    assert len(seen) == 2


@in_memory
def test_a_key_counts_in_every_queue(rig: Rig) -> None:
    """With key= and without the origin the data identifies the work; scope= sees the message."""
    seen: list[str] = []
    handler = rig.once.mq(key="orderId", ignore=("@origin", "@attributes"))(worker(seen, set()))
    handler(rabbitmq_event({"orderId": 5}, message_ids=["1"]), rig.context())
    handler(rabbitmq_event({"orderId": 5}, message_ids=["2"], queue="returns"), rig.context())
    handler(activemq_event({"orderId": 5}), rig.context())
    assert len(seen) == 1
    scoped = rig.once.mq(key="orderId", scope="eventSourceKey", name="scoped")(worker(seen, set()))
    scoped(rabbitmq_event({"orderId": 5}), rig.context())
    scoped(rabbitmq_event({"orderId": 5}, queue="returns"), rig.context())
    assert len(seen) == 3


@in_memory
@pytest.mark.parametrize("build", [activemq_event, rabbitmq_event])
def test_a_redelivered_message_is_likely_known(rig: Rig, build: Any) -> None:
    """The broker's flag says that a row is likely, so that the row comes with the refusal."""
    from lambda_once.sources.mq import MQ

    for redelivered in (False, True):
        (record,) = MQ.read(build("x", redelivered=redelivered))
        assert record.what.content.flaw is None
        assert record.record.redelivered is redelivered


# -- bad input


@in_memory
def test_an_activemq_message_needs_its_id(rig: Rig) -> None:
    """One without cannot be told from another."""
    event = activemq_event("a", "b")
    del event["messages"][0]["messageID"]
    event["messages"].append(5)
    seen: list[str] = []
    with pytest.raises(KeyMissing, match="has no messageID"):
        rig.once.mq(worker(seen, set()))(event, rig.context())
    assert seen == ["b"]


@in_memory
def test_an_empty_rabbitmq_message_is_no_key(rig: Rig) -> None:
    """Every empty message would be a duplicate of the first; with a messageId it is none."""
    with pytest.raises(KeyMissing, match="an empty payload is not a key"):
        rig.once.mq(worker([], set()))(rabbitmq_event(""), rig.context())
    assert rig.once.mq(worker([], set()))(rabbitmq_event("", message_ids=["5"]), rig.context()) is None


@in_memory
@pytest.mark.parametrize(
    ("build", "kind"), [(activemq_event, ActiveMQMessage), (rabbitmq_event, RabbitMessage)]
)
def test_a_message_stands_for_its_data_in_a_function(rig: Rig, build: Any, kind: Any) -> None:
    """As a message of SQS does: a redelivery, which has another flag and time, is the same call."""
    seen: list[str] = []
    work = rig.once.function(name="work")(lambda message: seen.append(message.decoded_data))
    keyed = rig.once.function(key="message.orderId", name="k")(
        lambda message: seen.append(message.decoded_data)
    )
    (first,) = messages_of(build({"orderId": 5}))
    again = first | {"redelivered": True, "brokerOutTime": 5}
    for raw in (first, again):
        work(kind(raw))
        keyed(kind(raw))
    assert len(seen) == 2


@in_memory
@pytest.mark.parametrize("named", [[0x47, 0x72, -0x3D, -0x4A], [300], ["x"], [None]])
def test_a_first_queue_in_other_numbers_costs_no_other_message(rig: Rig, named: Any) -> None:
    """Bytes may be signed, as those of Kafka's headers are; what are none are no queue."""
    event = rabbitmq_event("a", "b")
    messages_of(event)[0]["basicProperties"]["headers"] = {"x-first-death-queue": {"bytes": named}}
    seen: list[str] = []
    rig.once.mq(worker(seen, set()))(event, rig.context())
    assert seen == ["a", "b"]
