"""When the next record of a batch may start: work that is not marked yet is never more than a little."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.writes import Complete, Write
from lambda_once.engine.pipeline import OLDEST, Pipeline
from lambda_once.stores.contract import Store, Unanswered, WriteAnswer
from tests.decorators.counted import records
from tests.decorators.rig import Rig
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.kit.frail import FrailStore

PATIENCE = 10
"""Seconds after which somebody who should have come by now is missed."""


class Slow(FrailStore):
    """Its first write is on its way until somebody else does what it waits for."""

    def __init__(self, sound: Store) -> None:
        super().__init__(sound)
        self.on_its_way = threading.Event()
        self.awaited = threading.Event()
        self.second = threading.Event()
        """Set once the second record is in progress."""
        self.order: list[str] = []
        self.retries_to_the_end = False
        self.tried = False

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        if self.retries_to_the_end:
            return self._in_vain(writes)
        self.on_its_way.set()
        assert self.awaited.wait(PATIENCE), "no other attempt came"
        answers = super().write(writes, deadline)
        self.order.append("written")
        return answers

    def _in_vain(self, writes: Sequence[Write]) -> list[WriteAnswer]:
        if not isinstance(writes[0].change, Complete):
            return [Unanswered("ConnectTimeoutError") for _ in writes]
        assert self.second.wait(PATIENCE), "no other attempt came"
        if self.tried:
            self.on_its_way.set()
            assert self.awaited.wait(PATIENCE), "no other attempt came"
        self.tried = True
        return [Unanswered("ConnectTimeoutError") for _ in writes]


@pytest.fixture
def slow(rig: Rig) -> Slow:
    """The rig's store is slow from now on."""
    rig.use_store(Slow)
    assert isinstance(rig.store, Slow)
    return rig.store


pytestmark = pytest.mark.parametrize("rig", ["on_memory"], indirect=True)


def _when(monkeypatch: pytest.MonkeyPatch, method: str, happens: Callable[[], object]) -> None:
    """Let *happens* be called at the beginning of each call of the pipeline's *method*."""
    real: Any = getattr(Pipeline, method)

    def watched(pipeline: Pipeline, *args: Any, **what: Any) -> Any:
        happens()
        return real(pipeline, *args, **what)

    monkeypatch.setattr(Pipeline, method, watched)


def _handler(rig: Rig, slow: Slow, *, is_async: bool) -> Any:
    """Work whose second record takes longer than a completion may be unwritten."""

    def work(record: SQSRecord) -> None:
        slow.order.append(record.body)
        if record.body == "b":
            slow.second.set()
            assert slow.on_its_way.wait(PATIENCE)
            rig.clock.advance(OLDEST + 0.1)

    @rig.once.sqs(concurrency=1)
    async def in_turn(record: SQSRecord) -> None:
        work(record)

    return in_turn if is_async else rig.once.sqs(work)


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_no_record_starts_while_a_completion_is_old(
    rig: Rig, slow: Slow, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """The third asks, and runs when the first one's completion is written."""
    handler = _handler(rig, slow, is_async=is_async)

    def asked() -> None:
        if slow.order == ["a", "b"] and slow.on_its_way.is_set():
            slow.awaited.set()

    _when(monkeypatch, "_may", asked)
    assert handler(records("a", "b", "c"), rig.context()) == ALL_WELL
    assert slow.order[:3] == ["a", "b", "written"]
    assert slow.order.count("c") == 1
    assert rig.states() == [State.COMPLETE] * 3


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_no_record_starts_while_a_completion_is_tried_again(
    rig: Rig, slow: Slow, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """The table is out: what has not started goes back released, and what is done does not run again here."""
    slow.retries_to_the_end = True

    def asked() -> None:
        if slow.order == ["a", "b"]:
            rig.clock.advance(1)

    # The third record asks, and time passes while it waits; the table answers after the wait has ended.
    _when(monkeypatch, "_may_start", asked)
    _when(monkeypatch, "close", slow.awaited.set)
    handler = _handler(rig, slow, is_async=is_async)
    assert handler(records("a", "b", "c", "d"), rig.context(seconds=20)) == failed("c", "d")
    assert slow.order == ["a", "b"]
    assert rig.events().count("once.completion_failed") == 2


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_all_is_written_before_the_handler_returns(
    rig: Rig, slow: Slow, monkeypatch: pytest.MonkeyPatch, is_async: bool
) -> None:
    """An environment may be frozen right after it: no completion is on its way then."""

    def work(record: SQSRecord) -> None:
        slow.order.append(record.body)

    async def in_turn(record: SQSRecord) -> None:
        work(record)

    _when(monkeypatch, "close", slow.awaited.set)
    handler: Any = rig.once.sqs(in_turn) if is_async else rig.once.sqs(work)
    assert handler(records("a", "b", "c"), rig.context()) == ALL_WELL
    assert slow.order[-1] == "written"
    assert rig.states() == [State.COMPLETE] * 3


def test_what_is_done_is_written_when_the_work_exits(rig: Rig, slow: Slow) -> None:
    """SystemExit leaves the handler behind the completions, not before them."""

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        slow.order.append(record.body)
        if record.body == "b":
            slow.awaited.set()
            raise SystemExit(1)

    with pytest.raises(SystemExit):
        handler(records("a", "b", "c"), rig.context())
    assert rig.states() == [State.COMPLETE, State.RELEASED, State.RELEASED]
