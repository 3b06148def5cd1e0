"""The known faults of Powertools' idempotency utility in its keys, shown there first, and absent here."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once import KeyMissing, KeyReused
from lambda_once.testing import lambda_context
from tests.faults.tables import Layers
from tests.sources.samples import batch, rest, sqs_record

ALIVE = lambda_context()


def test_a_second_configuration_counts(layers: Layers) -> None:
    """Each decorator has its own key; theirs ignores every configuration but the first."""
    layer = layers.layer()

    def by_id(event: Any, context: Any) -> str:
        return str(event["id"])

    def by_order(event: Any, context: Any) -> str:
        return str(event["order"])

    first, second = {"id": 1, "order": 5}, {"id": 1, "order": 6}
    layers.theirs(by_id, layer, event_key_jmespath="id")(first, ALIVE)
    theirs = layers.theirs(by_order, layer, event_key_jmespath="order")
    assert [theirs(first, ALIVE), theirs(second, ALIVE)] == ["5", "5"]

    once = layers.once()
    once.event(key="id")(by_id)(first, ALIVE)
    ours = once.event(key="order", fingerprint=False)(by_order)
    assert [ours(first, ALIVE), ours(second, ALIVE)] == ["5", "6"]


def test_what_differs_by_delivery_is_no_key(layers: Layers) -> None:
    """
    A redelivered record and a retried request are duplicates, whatever their receipt handle and request id.

    Theirs hash the event as it comes, and run again.
    """
    ran: list[str] = []

    def utility(event: Any, context: Any) -> None:
        ran.append("theirs")

    def redelivered(receipt: str) -> Any:
        return batch(sqs_record({"order": 5}, receiptHandle=receipt))

    def retried(request_id: str) -> Any:
        return rest(requestContext={"requestId": request_id, "identity": {}})

    protected = layers.theirs(utility)
    for event in (redelivered("a"), redelivered("b"), retried("a"), retried("b")):
        protected(event, ALIVE)
    assert ran == ["theirs"] * 4

    @layers.once().sqs
    def queue(record: Any) -> None:
        ran.append("queue")

    @layers.once().api_gateway
    def api(event: Any) -> dict[str, int]:
        ran.append("api")
        return {"statusCode": 200}

    for name in ("a", "b"):
        queue(redelivered(name), layers.context(name))
        api(retried(name), layers.context(name))
    assert ran[4:] == ["queue", "api"]


def test_a_composite_key_is_whole(layers: Layers) -> None:
    """A key of which a part is missing is refused; theirs takes it, and two orders for one."""

    def utility(event: Any, context: Any) -> Any:
        return event["order"]

    protected = layers.theirs(utility, event_key_jmespath="[customer, id]", raise_on_no_idempotency_key=True)
    first, second = {"customer": 1, "order": 5}, {"customer": 1, "order": 6}
    assert [protected(first, ALIVE), protected(second, ALIVE)] == [5, 5]

    ran: list[int] = []

    @layers.once().event(key="[customer, id]")
    def handler(event: dict[str, int]) -> None:
        ran.append(event["order"])

    for event in (first, second):
        with pytest.raises(KeyMissing, match="part of the key"):
            handler(event, layers.context())
    assert (ran, layers.tokens()) == ([], [])


def test_another_payload_is_no_duplicate(layers: Layers) -> None:
    """The same key with another payload is refused, without being asked for."""

    def utility(event: Any, context: Any) -> Any:
        return event["what"]

    protected = layers.theirs(utility, event_key_jmespath="order")
    new, amended = {"order": 1, "what": "new"}, {"order": 1, "what": "amended"}
    assert [protected(new, ALIVE), protected(amended, ALIVE)] == ["new", "new"]

    ours = layers.once().event(key="order")(utility)
    assert ours(new, ALIVE) == "new"
    with pytest.raises(KeyReused):
        ours(amended, ALIVE)
