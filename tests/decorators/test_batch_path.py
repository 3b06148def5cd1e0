"""A batch on a real engine: what it costs on the wire."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from logging import WARNING, getLogger
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once
from lambda_once.core.lifecycle import State
from tests.decorators.counted import TEN, Counted, records
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.decorators.worker import worker
from tests.kit.wire import refused
from tests.stores.line import BATCH, READ, SINGLE


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
@pytest.mark.parametrize("received", [1, 2])
def test_ten_records_cost_two_calls(counted: Counted, received: int, is_async: bool) -> None:
    """
    One acquires, one completes; all is written when the handler returns.

    Of duplicates one is refused, one reads who had them, whether or not SQS says that it delivered them.
    """
    seen: list[str] = []
    handler = counted.rig.once.sqs(worker(seen, is_async=is_async))
    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, BATCH]
    assert sorted(seen) == TEN
    assert counted.rig.states() == [State.COMPLETE] * 10
    counted.calls()
    assert handler(records(*TEN, received=received), counted.rig.context("request-2")) == ALL_WELL
    assert sorted(counted.calls()) == [BATCH, READ]
    assert counted.rig.events().count("once.replayed") == 10
    assert len(seen) == 10


def test_half_new_half_duplicate_cost_three(counted: Counted) -> None:
    """The losers' read is the one call more."""
    seen: list[str] = []
    handler = counted.rig.once.sqs(worker(seen))
    handler(records(*TEN[::2]), counted.rig.context())
    counted.calls()
    seen.clear()
    assert handler(records(*TEN), counted.rig.context("request-2")) == ALL_WELL
    assert counted.calls() == [BATCH, READ, BATCH]
    assert seen == TEN[1::2]


def test_redelivered_released_records_run_again(counted: Counted) -> None:
    """What failed before is read and taken together, one write each; and completed together."""
    fails = True
    seen: list[str] = []

    @counted.rig.once.sqs(name="n", raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if fails:
            raise ValueError

    assert handler(records(*TEN), counted.rig.context()) == failed(*TEN)
    assert counted.calls() == [BATCH, BATCH]
    assert counted.rig.states() == [State.RELEASED] * 10
    counted.calls()
    fails = False
    assert handler(records(*TEN, received=2), counted.rig.context("request-2")) == ALL_WELL
    calls = counted.calls()
    assert set(calls[:2]) == {BATCH, READ}  # at once, for a redelivery most likely has a row
    assert calls[2:] == [*[SINGLE] * 10, BATCH]
    assert seen == TEN * 2
    assert counted.rig.states() == [State.COMPLETE] * 10


def test_one_redelivery_among_new_records_costs_no_read(counted: Counted) -> None:
    """It goes straight to the write that meets rows too."""
    seen: list[str] = []

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if seen == ["0"]:
            raise ValueError

    with pytest.raises(BatchProcessingError):
        handler(records("0"), counted.rig.context())
    counted.calls()
    event = records(*TEN)
    event["Records"][0]["attributes"]["ApproximateReceiveCount"] = "2"
    assert handler(event, counted.rig.context("request-2")) == ALL_WELL
    assert counted.calls() == [BATCH, SINGLE, BATCH]
    assert seen == ["0", *TEN]


# ------------------------------------------------------------------ what memory saves


def test_cached_duplicates_of_finished_work_cost_nothing(counted: Counted) -> None:
    """What was done here, or replayed here, is known without asking; new records beside it are asked for."""
    seen: list[str] = []
    handler = counted.rig.once.sqs(cache=100)(worker(seen))
    handler(records(*TEN), counted.rig.context())
    counted.calls()
    assert handler(records(*TEN), counted.rig.context("request-2")) == ALL_WELL
    assert counted.calls() == []
    assert handler(records(*TEN, "x", "y"), counted.rig.context("request-3")) == ALL_WELL
    assert counted.calls() == [BATCH, BATCH]
    assert seen == [*TEN, "x", "y"]


def test_unfinished_work_is_never_answered_from_memory(counted: Counted) -> None:
    """What failed, and what is done but could not be marked, is asked for at every delivery."""
    seen: list[str] = []

    @counted.rig.once.sqs(cache=100, lease=timedelta(seconds=60))
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if record.body in ("0", "1") and len(seen) <= 4:
            raise ValueError

    assert handler(records("0", "1", "2", "3"), counted.rig.context()) == failed("0", "1")
    with counted.rig.crash():
        assert handler(records("4", "5"), counted.rig.context("request-2")) == ALL_WELL
    counted.calls()
    event = records("0", "1", "2", "3", "4", "5")
    assert handler(event, counted.rig.context("request-3")) == failed("4", "5")
    assert counted.calls()[:2] == [BATCH, READ]
    assert seen == ["0", "1", "2", "3", "4", "5", "0", "1"]


# ------------------------------------------------------------------ what ends otherwise


@pytest.mark.parametrize("finishes", [True, False], ids=["done", "in progress"])
def test_a_fenced_completion_gets_its_successors_outcome(counted: Counted, finishes: bool) -> None:
    """Record a oversleeps: it goes back, alone, if the delivery that took its token over is in progress."""
    inner: list[Any] = []

    @counted.rig.once.sqs(name="n", lease=timedelta(seconds=12), raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        if record.body == "a" and not inner:
            inner.append(None)
            counted.rig.clock.advance(13)
            with nullcontext() if finishes else counted.rig.crash():
                handler(records("a"), counted.rig.context("request-2"))

    answer = handler(records("a", "b", "c"), counted.rig.context(seconds=60))
    assert answer == (ALL_WELL if finishes else failed("a"))
    assert "once.fenced" in counted.rig.events()
    first = State.COMPLETE if finishes else State.IN_PROGRESS
    assert counted.rig.states() == [first, State.COMPLETE, State.COMPLETE]


def test_completed_by_hand_is_not_written_twice(counted: Counted) -> None:
    """A record that completes its token itself has no part in the batch's write."""

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        if record.body == "a":
            counted.rig.once.current().transact([counted.rig.ground.booking], "done")

    assert handler(records("a", "b", "c"), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, "TransactWriteItems", BATCH]
    assert counted.rig.states() == [State.COMPLETE] * 3
    assert counted.rig.ground.bookings == 1


def test_a_missing_permission_is_logged_once(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    """The first batch says which one is missing; all work is done by single writes, and none asks again."""
    once = Once(table=counted.table, client=counted.wire.client, service="shop", logger=getLogger("test"))
    seen: list[str] = []
    handler = once.sqs(worker(seen))
    counted.wire.fates = [refused("AccessDeniedException")]
    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert handler(records("x", "y"), counted.rig.context("request-2")) == ALL_WELL
    assert counted.calls() == [BATCH, *[SINGLE] * 24]
    assert seen == [*TEN, "x", "y"]
    (denied,) = [line for line in caplog.records if line.message == "once.batches_off"]
    assert denied.levelno == WARNING
