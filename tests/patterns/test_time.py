"""Inside an invocation the retries of a pattern end before it does."""

from __future__ import annotations

import os
import string
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from lambda_once import Once, StoreUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.context import invocation_end
from lambda_once.dynamodb import sender
from lambda_once.patterns import Documents, Ledger, Publisher, Ratchet, Unique
from lambda_once.patterns.fifo import Sent, Unanswered
from lambda_once.patterns.results import Conflict
from lambda_once.stores.memory import MemoryStore
from lambda_once.testing import FakeClock, lambda_context
from tests.patterns.conftest import Ground
from tests.patterns.fifo.queues import TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.patterns.fifo.results import Result

WEEK = timedelta(days=7)


class Silent:
    """A client that gets no answer to any request, each time after three seconds."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.sent = 0

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        def request(**_: Any) -> Any:
            self.sent += 1
            self.clock.advance(3)
            raise ReadTimeoutError(endpoint_url="http://table")

        return request


class Throttled(Silent):
    """A client whose table has nothing, and takes nothing of a batch."""

    def get_item(self, **_: Any) -> Any:
        return {}

    def batch_write_item(self, **request: Any) -> Any:
        self.sent += 1
        self.clock.advance(3)
        return {"UnprocessedItems": request["RequestItems"]}


def protected(clock: FakeClock, work: Callable[[], object]) -> bool:
    """Do *work* in an invocation that has eleven seconds left, and return whether it ended before them."""
    end = clock.now() + timedelta(seconds=11)
    once = Once(store=MemoryStore(), service="shop")
    once._runtime.clock = clock

    @once.event(key="id")
    def handler(event: dict[str, Any], context: Any) -> None:
        work()

    handler({"id": "5"}, lambda_context(remaining_ms=11_000))
    return clock.now() < end


PUT: dict[str, Any] = {"id": "5"}
TS = 1_795_169_520_000
CALLS: dict[str, Callable[[Any, FakeClock], object]] = {
    "Unique.put": lambda client, clock: Unique("t", client, key="id", clock=clock).put(PUT),
    "Ledger.add": lambda client, clock: Ledger("t", client, window=WEEK, clock=clock).add(
        "ann", {"n": 1}, id="5"
    ),
    "Ledger.get": lambda client, clock: Ledger("t", client, window=WEEK, clock=clock).get("ann"),
    "Ledger.transact_item": lambda client, clock: Ledger("t", client, window=WEEK, clock=clock).transact_item(
        "ann", {"n": 1}, id="5"
    ),
    "Ratchet.put": lambda client, clock: Ratchet("t", client, key="id", clock=clock).put(PUT, TS),
    "Ratchet.query": lambda client, clock: Ratchet("t", client, key=("id", "s"), clock=clock).query("5"),
    "Documents.write": lambda client, clock: Documents("t", client, clock=clock).write("5", {"a": 1}),
    "Documents.read": lambda client, clock: Documents("t", client, clock=clock).read("5"),
}
"""A call of each kind of request: a write, a read, and what reads before it makes an entry."""


def without_answer(clock: FakeClock, client: Silent, call: str) -> None:
    """Make a call that gets no answer."""
    with pytest.raises(StoreUnavailable):
        CALLS[call](client, clock)


@pytest.mark.parametrize("call", CALLS)
def test_retries_end_before_the_invocation(call: str) -> None:
    """After 9 of 11 seconds there is no fourth try: it would end at 12."""
    clock = FakeClock()
    client = Silent(clock)
    assert protected(clock, lambda: without_answer(clock, client, call))
    assert client.sent == 3
    assert invocation_end() is None


@pytest.mark.parametrize("call", CALLS)
def test_twin_that_forgets_how_long_a_try_takes(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fourth try begins in time, and the invocation ends before it does."""
    monkeypatch.setattr(Deadline, "has_time_for_another", lambda self, _: not self.passed())
    clock = FakeClock()
    client = Silent(clock)
    assert not protected(clock, lambda: without_answer(clock, client, call))
    assert client.sent == 4


@pytest.mark.parametrize("call", CALLS)
def test_outside_of_protected_work_there_are_six(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no deadline there; and the twin: inside, too, if the invocation's end is not read."""
    clock = FakeClock()
    client = Silent(clock)
    without_answer(clock, client, call)
    assert client.sent == 6
    monkeypatch.setattr(sender, "invocation_end", lambda: None)
    client.sent = 0
    assert not protected(clock, lambda: without_answer(clock, client, call))
    assert client.sent == 6


def test_what_a_table_does_not_take_ends_before_the_invocation(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch nothing is processed, three times; by the twin six times."""
    clock = FakeClock()
    client = Throttled(clock)
    assert protected(clock, lambda: without_answer(clock, client, "Documents.write"))
    assert client.sent == 3
    monkeypatch.setattr(sender, "invocation_end", lambda: None)
    client.sent = 0
    protected(clock, lambda: without_answer(clock, client, "Documents.write"))
    assert client.sent == 6


# -- publishing, and races


class Slow:
    """A topic that takes every message, or answers none, three seconds after it was asked."""

    def __init__(self, clock: FakeClock, *, silent: bool = False) -> None:
        self.clock = clock
        self.silent = silent
        self.sent = 0

    def publish_batch(self, *, PublishBatchRequestEntries: list[dict[str, Any]], **_: Any) -> Any:  # noqa: N803
        self.sent += 1
        self.clock.advance(3)
        if self.silent:
            raise ReadTimeoutError(endpoint_url="http://topic")
        return {
            "Successful": [{"Id": each["Id"], "MessageId": "m"} for each in PublishBatchRequestEntries],
            "Failed": [],
        }


def published(clock: FakeClock, topic: Slow, groups: str) -> tuple[Result, ...]:
    """Publish a message for each of *groups* in an invocation that has eleven seconds left."""
    publisher = Publisher(TOPIC, topic, key="id", group="group", service="shop", clock=clock)
    messages = [{"id": number, "group": group} for number, group in enumerate(groups)]
    results: list[tuple[Result, ...]] = []
    protected(clock, lambda: results.append(publisher.publish_all(messages)))
    (found,) = results
    return found


def test_a_publisher_without_answers_ends_before_the_invocation() -> None:
    """Three tries in nine of eleven seconds; what was never sent is to be published again as well."""
    topic = Slow(clock := FakeClock(), silent=True)
    results = published(clock, topic, "abcdefghijkla")
    assert topic.sent == 3
    assert {getattr(result, "code", None) for result in results} == {"DeadlinePassed"}
    assert {type(result) for result in results} == {Unanswered}


def test_a_slow_publisher_returns_what_it_sent() -> None:
    """Thirty messages in three requests; the others are named while there is time to raise."""
    topic = Slow(clock := FakeClock())
    results = published(clock, topic, string.ascii_letters)
    assert topic.sent == 3
    assert [type(result) for result in results] == [Sent] * 30 + [Unanswered] * 22


def test_a_refused_request_is_divided_while_there_is_time() -> None:
    """Each message is a request of its own then: of eleven seconds there are two left for that."""

    class Refusing(Slow):
        def publish_batch(self, *, PublishBatchRequestEntries: list[dict[str, Any]], **given: Any) -> Any:  # noqa: N803
            answer = super().publish_batch(PublishBatchRequestEntries=PublishBatchRequestEntries, **given)
            if len(PublishBatchRequestEntries) > 1:
                raise ClientError({"Error": {"Code": "BatchRequestTooLong"}}, "PublishBatch")
            return answer

    topic = Refusing(clock := FakeClock())
    results = published(clock, topic, "abcdefghij")
    assert topic.sent == 3
    assert [type(result) for result in results] == [Sent] * 2 + [Unanswered] * 8


def test_the_first_request_is_always_sent() -> None:
    """Past the deadline too, as of the other patterns: each deals with one answer at least."""
    topic = Slow(clock := FakeClock())
    publisher = Publisher(TOPIC, topic, key="id", group="group", service="shop", clock=clock)

    def late() -> None:
        clock.advance(60)
        assert isinstance(publisher.publish({"id": 1, "group": "a"}), Sent)

    protected(clock, late)
    assert topic.sent == 1


def test_without_the_invocations_end_a_publisher_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: six tries of each message, and all of the groups."""
    monkeypatch.setattr(sender, "invocation_end", lambda: None)
    clock = FakeClock()
    silent, slow = Slow(clock, silent=True), Slow(clock)
    published(clock, silent, "a")
    assert silent.sent == 6
    assert [type(result) for result in published(clock, slow, string.ascii_letters)] == [Sent] * 52


class Contended:
    """A table on which another writer is always faster, by three seconds."""

    def __init__(self, client: Any, clock: FakeClock) -> None:
        self.client = client
        self.clock = clock
        self.rival: Ledger | None = None
        self.sent = 0

    def get_item(self, **request: Any) -> Any:
        return self.client.get_item(**request)

    def update_item(self, **request: Any) -> Any:
        self.sent += 1
        self.clock.advance(3)
        assert self.rival is not None
        self.rival.add("ann", {"n": 1}, id=os.urandom(8))
        return self.client.update_item(**request)


def test_races_end_before_the_invocation(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of ten; and the twin: ten, if the invocation's end is not read."""
    clock, table = FakeClock(), ground.table()
    client = Contended(ground.client, clock)
    client.rival = Ledger(table, ground.client, window=WEEK, clock=clock)

    def change() -> None:
        with pytest.raises(Conflict):
            Ledger(table, client, window=WEEK, clock=clock).change("ann", lambda _: {"n": 0})

    protected(clock, change)
    assert client.sent == 3
    assert client.rival.get("ann") == {"n": 3}
    client.sent = 0
    monkeypatch.setattr(sender, "invocation_end", lambda: None)
    protected(clock, change)
    assert client.sent == 10
