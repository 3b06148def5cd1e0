"""The outcome of an attempt is final, whatever the work, its caller or its batch do afterwards."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from pydantic import BaseModel

from lambda_once import RetryLater
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.results import Chunks, Unavailable
from lambda_once.core.writes import Acquire, Extend, Release, Write
from lambda_once.dynamodb import retry
from lambda_once.engine import finish
from lambda_once.engine.pipeline import Pipeline
from lambda_once.observability.events import Event
from lambda_once.stores.contract import AcquireAnswer, Store, WriteAnswer
from tests.decorators.counted import Counted, records
from tests.decorators.rig import Rig, elsewhere
from tests.decorators.test_sqs import failed
from tests.decorators.test_sqs_fifo import message
from tests.kit.frail import FrailStore
from tests.kit.wire import arrives, refused
from tests.sources.samples import batch, http
from tests.stores.line import PARTS, SINGLE

THROTTLED = refused("ProvisionedThroughputExceededException")
PATIENCE = 10
"""Seconds after which somebody who should have come by now is missed."""


class Counting(FrailStore):
    """Keeps what is asked of it, call by call."""

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.acquired: list[int] = []
        """How many acquisitions each call had."""
        self.finished: list[Write] = []

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        self.acquired.append(len(acquisitions))
        return super().acquire(acquisitions, deadline)

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        self.finished += writes
        return super().write(writes, deadline)


class Invoice(BaseModel):
    number: int


@pytest.fixture
def rig() -> Rig:
    """A rig whose store counts."""
    rig = Rig()
    rig.use_store(Counting)
    return rig


def counting(rig: Rig) -> Counting:
    """Return the store of *rig*."""
    assert isinstance(rig.store, Counting)
    return rig.store


# ------------------------------------------------------------------ the work is done


def test_a_result_that_is_not_of_its_annotation_is_done_work(rig: Rig) -> None:
    """It can be written and would not be read: its caller gets it, and the work does not run again."""
    unfit = Invoice.model_construct(number="five")

    @rig.once.function
    def work(order: int) -> Invoice:
        return unfit

    assert work(5) is unfit
    assert rig.row().state is State.COMPLETE
    assert rig.row().stored == Unavailable.UNAVAILABLE


def test_the_first_completion_stands(rig: Rig) -> None:
    """A second one writes nothing, and answers what every duplicate gets; so does the return."""

    @rig.once.function
    def work(order: int) -> Any:
        attempt = rig.once.current()
        assert [attempt.complete("first"), attempt.complete("second")] == ["first", "first"]
        return "third"

    assert [work(5), work(5)] == ["first", "first"]
    assert len(counting(rig).finished) == 1


@pytest.mark.parametrize("ends", ["complete", "transact"])
def test_a_final_outcome_needs_no_lease(rig: Rig, ends: str) -> None:
    """A late extension: nothing is written, and no attempt is fenced by its own finish."""

    @rig.once.function(name="n", lease=timedelta(seconds=30))
    def work(order: int) -> Any:
        attempt = rig.once.current()
        _ = attempt.complete(1) if ends == "complete" else attempt.transact([], 1)
        attempt.extend(1_000)

    work(5)
    assert rig.row().state is State.COMPLETE
    assert not any(isinstance(write.change, Extend) for write in counting(rig).finished)


@pytest.mark.parametrize("in_batch", [False, True], ids=["alone", "in a batch"])
def test_the_parts_of_a_result_are_sent_once(
    counted: Counted, monkeypatch: pytest.MonkeyPatch, in_batch: bool
) -> None:
    """A throttled try leaves the parts that it has written: the next one writes the others, and the row."""
    monkeypatch.setattr(retry, "MOST_WRITES", 1)
    monkeypatch.setattr(finish, "pack", lambda _text, _seal: Chunks((b"1", b"2", b"3")))
    rig, parts = counted.rig, list[str]()

    def sent(request: Any, forward: Any) -> Any:
        ((put,),) = json.loads(request.body)["RequestItems"].values()
        parts.append(put["PutRequest"]["Item"]["lockToken"]["S"][-1])
        return forward()

    counted.wire.fates_of[PARTS] = [sent, THROTTLED, sent, THROTTLED, sent, *[sent] * 6]
    if in_batch:
        rig.once.sqs(name="work")(lambda _record: None)(records("a", "b"), rig.context())
    else:
        rig.once.event(name="work")(lambda event: event)({"order": 5}, rig.context())
    assert rig.states() == [State.COMPLETE] * (2 if in_batch else 1)
    assert sorted(parts) == sorted("012" * (2 if in_batch else 1))


# ------------------------------------------------------------------ what never started


def test_near_the_end_the_unstarted_are_released_by_one_request(counted: Counted) -> None:
    """It is not sent again: where it is throttled, the token keeps its lease."""
    rig = counted.rig

    def work(event: dict[str, int]) -> None:
        raise AssertionError

    counted.wire.fates_of[SINGLE] = [arrives, THROTTLED]
    with pytest.raises(RetryLater, match="too little time"):
        rig.once.event(work)({"order": 5}, rig.context(seconds=0.5))
    assert counted.wire.sent == [SINGLE] * 2
    assert rig.row().state is State.IN_PROGRESS
    rig.clock.advance(10)
    with pytest.raises(RetryLater, match="too little time"):
        rig.once.event(work)({"order": 5}, rig.context(seconds=0.5))
    assert rig.row().state is State.RELEASED


def test_released_tokens_are_acquired_together(counted: Counted) -> None:
    """The next delivery of a failed batch asks twice, whatever its size."""
    rig = counted.rig
    rig.use_store(Counting)

    @rig.once.sqs(key=lambda record: record.body, raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        raise ValueError

    for again in ("request-1", "request-2"):
        handler(records("a", "b", "c"), rig.context(again))
    assert counting(rig).acquired == [3, 3, 3]
    assert rig.states() == [State.RELEASED] * 3


# ------------------------------------------------------------------ one batch


class Following(FrailStore):
    """The first release stays on its way until somebody waits for it, or asks for a token without."""

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.somebody = threading.Event()
        self.releases = 0

    def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
        answers = super().acquire(acquisitions, deadline)
        if self.acquisitions > 1:
            self.somebody.set()
        return answers

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if isinstance(writes[0].change, Release) and not self.releases:
            self.releases += 1
            assert self.somebody.wait(PATIENCE)
        return super().write(writes, deadline)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_another_payload_waits_for_the_first_ones_end(
    monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """The first one fails and is released: so the second, under the same token, is worked."""
    rig, worked = Rig(), list[str]()
    rig.use_store(Following)
    store = rig.store
    assert isinstance(store, Following)
    real = Pipeline._may

    def waits(pipeline: Pipeline, *args: Any, **what: Any) -> bool | None:
        store.somebody.set()
        return real(pipeline, *args, **what)

    monkeypatch.setattr(Pipeline, "_may", waits)

    def work(record: SQSRecord) -> None:
        worked.append(record.body)
        if record.body == "a":
            raise ValueError

    @rig.once.sqs(key=lambda _: "k", concurrency=1)
    async def in_turn(record: SQSRecord) -> None:
        work(record)

    handler: Any = in_turn if is_async else rig.once.sqs(key=lambda _: "k")(work)
    assert handler(records("a", "b"), rig.context()) == failed("a")
    assert worked == ["a", "b"]


class Overtaken(FrailStore):
    """The completion of token "…a1" gets there when the next record is at work."""

    at_work = threading.Event()

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if not self.loses_ends and any(write.token.endswith("a1") for write in writes):
            assert self.at_work.wait(PATIENCE)
        return super().write(writes, deadline)


def test_a_group_ends_with_a_completion_that_was_refused(rig: Rig) -> None:
    """The next of the group had begun: it goes back all the same, for the order is that of the queue."""
    rig.use_store(Overtaken)
    Overtaken.at_work.clear()
    worked: list[str] = []

    @rig.once.sqs(key=lambda record: record.body, lease=timedelta(seconds=30))
    def handler(record: SQSRecord) -> None:
        worked.append(record.body)
        if worked == ["a1"]:
            rig.clock.advance(31)
            with rig.crash():
                elsewhere(handler, batch(message("a1", "a")), rig.context("request-2"))
        if record.body == "a2":
            Overtaken.at_work.set()

    event = batch(message("a1", "a"), message("a2", "a"), message("b1", "b"))
    assert handler(event, rig.context(seconds=600)) == failed("a1", "a2")
    assert worked == ["a1", "a1", "a2", "b1"]


# ------------------------------------------------------------------ a request


def test_a_clients_retry_is_no_second_delivery(rig: Rig) -> None:
    """Each try is a request of its own: under one Idempotency-Key equal content is no surprise."""

    @rig.once.api_gateway
    def handler(event: dict[str, Any]) -> dict[str, Any]:
        return {"statusCode": 201}

    for request in ("request-1", "request-2"):
        event = http(headers={"idempotency-key": "k"})
        event["requestContext"]["requestId"] = request
        handler(event, rig.context(request))
    assert rig.events().count(Event.REPLAYED.value) == 1
    assert Event.SAME_CONTENT.value not in rig.events()
