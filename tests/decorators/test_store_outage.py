"""`on_store_outage="run"`: what runs unprotected, what it may do, and how it gets its token after all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import Fenced, Misconfigured, StoreUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Acquire
from lambda_once.engine.finish import Finisher
from lambda_once.stores.contract import AcquireAnswer, Unanswered
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, in_memory
from tests.kit.frail import FrailStore

RUN: dict[str, Any] = {"on_store_outage": "run"}


@in_memory
@pytest.mark.parametrize("on_store_outage", ["run", "fail"])
def test_a_refusal_whose_row_cannot_be_read_is_no_outage(rig: Rig, on_store_outage: Any) -> None:
    """Somebody has the token: nothing runs, whatever the policy says of outages."""

    class Unreadable(FrailStore):
        def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
            del deadline
            return [Unanswered("ThrottlingException", refused=True) for _ in acquisitions]

    rig.stand_on(Unreadable)

    @rig.once.function(on_store_outage=on_store_outage)
    def work(order: int) -> None:
        pytest.fail("it ran")

    with pytest.raises(StoreUnavailable):
        work(5)


def test_work_whose_table_comes_back_is_completed(rig: Rig) -> None:
    """By its own attempt, which acquires before its finish: the next delivery gets the outcome."""
    runs: list[str] = []

    @rig.once.function(**RUN)
    def work(order: int) -> str:
        attempt = rig.once.current()
        runs.append(attempt.id)
        assert attempt._ownership.unprotected
        rig.store.out = False
        return f"run {len(runs)}"

    rig.store.out = True
    assert [work(5), work(5)] == ["run 1", "run 1"]
    row = rig.row()
    assert (row.attempt, row.state) == (runs[0], State.COMPLETE)
    assert rig.happenings().count("once.acquired") == 1


def test_work_that_fails_when_the_table_is_back_is_released(rig: Rig) -> None:
    """As any other: the next delivery runs at once."""

    @rig.once.function(**RUN)
    def work(order: int) -> str:
        unprotected = rig.once.current()._ownership.unprotected
        rig.store.out = False
        if unprotected:
            raise ValueError
        return "done"

    rig.store.out = True
    with pytest.raises(ValueError, match=r"^$"):
        work(5)
    assert rig.row().state is State.RELEASED
    assert work(5) == "done"


@pytest.mark.parametrize("records", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "async"])
def test_records_of_a_batch_are_completed_too(rig: Rig, records: int, kind: str) -> None:
    """Each by itself, before it joins the others' write."""

    def work(record: Any) -> None:
        rig.store.out = False

    async def work_async(record: Any) -> None:
        rig.store.out = False

    handler = rig.once.sqs(**RUN)(work if kind == "plain" else work_async)
    rig.store.out = True
    assert handler(sqs_event(*map(str, range(records))), rig.context()) == {"batchItemFailures": []}
    assert rig.states() == [State.COMPLETE] * records


def test_a_transaction_acquires_before_it_is_sent(rig: Rig) -> None:
    """So that its condition holds; what it writes is written once."""

    @rig.once.function(**RUN)
    def work(order: int) -> Any:
        rig.store.out = False
        return rig.once.current().transact([rig.ground.booking], "booked")

    rig.store.out = True
    assert [work(5), work(5)] == ["booked", "booked"]
    assert rig.ground.bookings == 1


def test_a_transaction_writes_nothing_where_another_attempt_has_the_token(rig: Rig) -> None:
    """It is Fenced; the work goes on or ends as it likes, and the other one's outcome stands."""
    other = rig.new()

    def act(order: int) -> str:
        return "of the other"

    act.__qualname__ = "act"
    protected = other.function(name="n")(act)

    @rig.once.function(name="n", **RUN)
    def work(order: int) -> Any:
        rig.store.out = False
        assert protected(5) == "of the other"
        with pytest.raises(Fenced):
            rig.once.current().transact([rig.ground.booking], "booked")
        return "of its own"

    rig.store.out = True
    assert work(5) == "of its own"
    assert work(5) == "of the other"
    assert rig.ground.bookings == 0
    failed = [details for details in rig.told if details.event.value == "once.completion_failed"]
    assert [details.reason is not None and "owns it" in details.reason for details in failed] == [True]


@in_memory
def test_a_transaction_is_not_sent_while_the_table_is_out(rig: Rig) -> None:
    """Whether it could be written is not known; what is known is that nothing was."""

    @rig.once.function(**RUN)
    def work(order: int) -> Any:
        with pytest.raises(StoreUnavailable, match="nothing was written"):
            rig.once.current().transact([rig.ground.booking], "booked")
        return "anyhow"

    rig.store.out = True
    assert work(5) == "anyhow"
    assert rig.ground.bookings == 0


@in_memory
def test_it_tries_once(rig: Rig) -> None:
    """An outage that lasts is not waited for a second time."""
    asked: list[tuple[float, bool]] = []

    class Out(FrailStore):
        def acquire(self, acquisitions: Sequence[Acquire], deadline: Deadline) -> list[AcquireAnswer]:
            asked.append((deadline.remaining(), deadline.is_final()))
            return super().acquire(acquisitions, deadline)

    rig.stand_on(Out)

    @rig.once.function(**RUN)
    def work(order: int) -> None:
        rig.clock.advance(1)

    rig.store.out = True
    with rig.once.invocation(rig.context(seconds=30)):
        work(5)
    assert asked == [(29.85, False), (2.0, True)]


@in_memory
def test_there_is_no_fence_without_a_token(rig: Rig) -> None:
    """A system that refuses older fences must not be given a made-up one."""

    @rig.once.function(**RUN)
    def work(order: int) -> None:
        with pytest.raises(Misconfigured, match="no fence"):
            _ = rig.once.current().fence

    rig.store.out = True
    work(5)


def test_extend_lengthens_its_own_lease_and_says_so(rig: Rig) -> None:
    """It is not fenced by a row that it could not write; the row gets this lease once it can be written."""

    @rig.once.function(lease=timedelta(seconds=10), **RUN)
    def work(order: int) -> str:
        attempt = rig.once.current()
        attempt.extend(100)
        assert attempt.lease == rig.clock.now() + timedelta(seconds=100)
        rig.store.out = False
        return "done"

    rig.store.out = True
    assert work(5) == "done"
    assert rig.row().expected_completion == rig.clock.now() + timedelta(seconds=100)
    assert rig.happenings().count("once.store_unavailable") == 2


def test_the_async_forms(rig: Rig) -> None:
    """Off the loop, as the plain ones."""

    @rig.once.function(**RUN)
    async def work(order: int) -> Any:
        attempt = rig.once.current()
        await attempt.aextend(100)
        rig.store.out = False
        return await attempt.atransact([rig.ground.booking], "booked")

    rig.store.out = True
    assert [asyncio.run(work(5)), asyncio.run(work(5))] == ["booked", "booked"]
    assert rig.ground.bookings == 1


def test_twin_that_never_acquires(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is done a second time, though the table had come back before its end."""
    monkeypatch.setattr(Finisher, "_secure", lambda *_: None)
    with pytest.raises(AssertionError):
        test_work_whose_table_comes_back_is_completed(rig)
