"""
A queue that is moved under ``key=``: a new queue takes the old one's place while its messages are in flight.

Nothing is dropped and nothing runs twice: the first delivery from the new queue is `KeyReused`, whose message
names both ways out. Deployed with ``ignore=("@origin",)``, the function finishes all of it.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from lambda_once import HOLD, Held, KeyReused, RetryLater
from lambda_once.core.lifecycle import State
from lambda_once.testing import sqs_event
from tests.decorators.rig import MEMORY, Rig, elsewhere, on_every_store
from tests.decorators.test_beside import refusal

DONE, IN_FLIGHT, DEAD = range(1, 4)
"""Orders: done, of an attempt that was killed, and given up by its queue."""


def message(order: int, queue: str = "blue") -> Any:
    """An order's message, as *queue* delivers it."""
    return sqs_event({"orderId": order}, queue=queue, message_ids=[f"m-{order}"])


def dead(order: int) -> Any:
    """The message of *order* as the old queue's dead-letter queue delivers it."""
    event = copy.deepcopy(message(order))
    (record,) = event["Records"]
    record["attributes"]["DeadLetterQueueSourceArn"] = record["eventSourceARN"]
    record["eventSourceARN"] += "-dead"
    return event


class Deployment:
    """A function as it is deployed, and the orders that it ran."""

    def __init__(self, rig: Rig, **options: Any) -> None:
        self.ran: list[int] = []
        self.broken: set[int] = set()
        self.handler: Any = rig.new().sqs(name="ship", key="orderId", **options)(self._ship)

    def _ship(self, record: Any) -> None:
        order = record.json_body["orderId"]
        self.ran.append(order)
        if order in self.broken:
            raise ValueError

    def deliver(self, event: Any) -> Any:
        """Deliver *event* in an environment of its own; return its message's error, None if it's done."""
        return elsewhere(refusal, self.handler, event)


def old_deployment(rig: Rig) -> Deployment:
    """What was deployed before, with an order in each state."""
    old = Deployment(rig)
    old.broken.add(DEAD)
    assert old.deliver(message(DONE)) is None
    with rig.crash():
        old.deliver(message(IN_FLIGHT))
    assert isinstance(old.deliver(message(DEAD)), ValueError)
    assert rig.states() == [State.COMPLETE, State.IN_PROGRESS, State.RELEASED]
    return old


@on_every_store
def test_the_new_queues_message_is_refused_with_both_ways_out(rig: Rig) -> None:
    """Done, in flight or lapsed: none is dropped, and none runs."""
    old_deployment(rig)
    new = Deployment(rig)
    before = rig.rows()
    for order in (DONE, IN_FLIGHT):
        error = new.deliver(message(order, "green"))
        assert isinstance(error, KeyReused)
        assert "from another queue, topic, stream or account than this one, 123456789012/green" in str(error)
        assert 'ignore=("@origin",)' in str(error)
        assert "a scope= that selects it" in str(error)
        assert "; this renames tokens: drain the queue first" in str(error)
    assert (new.ran, rig.rows()) == ([], before)
    rig.clock.advance(60)  # it lapses
    assert isinstance(new.deliver(message(IN_FLIGHT, "green")), KeyReused)
    assert (new.ran, rig.rows()) == ([], before)


@on_every_store
@pytest.mark.parametrize("moved", [True, False], ids=["from the new queue first", "from the old queue first"])
def test_the_first_way_out_holds_at_once(rig: Rig, moved: bool) -> None:
    """Old rows, messages in flight and dead letters are done: replayed, or run once."""
    old_deployment(rig)
    new = Deployment(rig, ignore=("@origin",))
    queues = ("green", "blue") if moved else ("blue", "green")

    for queue in queues:  # done before
        assert new.deliver(message(DONE, queue)) is None
    assert new.ran == []

    for queue in queues:  # its attempt may be alive
        assert isinstance(new.deliver(message(IN_FLIGHT, queue)), RetryLater)
    assert new.ran == []
    rig.clock.advance(60)
    for queue in queues:
        assert new.deliver(message(IN_FLIGHT, queue)) is None
    assert new.ran == [IN_FLIGHT]

    letters = [dead(DEAD), message(DEAD, "green")]
    for letter in letters if moved else reversed(letters):
        assert new.deliver(letter) is None
    assert new.ran == [IN_FLIGHT, DEAD]

    assert rig.states() == [State.COMPLETE] * 3


@on_every_store
def test_what_waits_for_a_person_still_does(rig: Rig) -> None:
    """Held or lapsed under ``on_error=HOLD``: KeyReused comes first, and the way out doesn't let it run."""
    old = Deployment(rig, on_error=HOLD)
    old.broken.add(DEAD)
    with rig.crash():
        old.deliver(message(IN_FLIGHT))
    old.deliver(message(DEAD))
    rig.clock.advance(60)
    refusing = Deployment(rig, on_error=HOLD)
    ignoring = Deployment(rig, on_error=HOLD, ignore=("@origin",))
    for order in (IN_FLIGHT, DEAD):
        assert isinstance(refusing.deliver(message(order, "green")), KeyReused)
        for letter in (message(order, "green"), dead(order)):
            assert isinstance(ignoring.deliver(letter), Held)
    assert (refusing.ran, ignoring.ran) == ([], [])


@on_every_store
def test_an_amended_order_is_still_refused(rig: Rig) -> None:
    """Only the origin is ignored."""
    old_deployment(rig)
    new = Deployment(rig, ignore=("@origin",))
    amended = message(DONE, "green")
    amended["Records"][0]["body"] = '{"orderId": 1, "total": 9}'
    assert isinstance(new.deliver(amended), KeyReused)
    assert new.ran == []


@pytest.mark.parametrize("rig", [MEMORY], indirect=True)
def test_a_dead_letter_is_the_old_queues_work_without_the_way_out(rig: Rig) -> None:
    """Its origin is the queue that it was moved from."""
    old = old_deployment(rig)
    old.broken.clear()
    assert old.deliver(dead(DONE)) is None
    assert old.deliver(dead(DEAD)) is None
    assert old.ran.count(DONE) == 1
    assert old.ran.count(DEAD) == 2
