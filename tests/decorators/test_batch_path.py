"""A batch on a real engine: what it costs on the wire, and what a bad wire does to it."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once
from lambda_once.core.lifecycle import State
from tests.decorators.counted import TEN, Counted, records
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.decorators.worker import worker
from tests.kit.wire import answer_lost, failing, refused
from tests.stores.line import BATCH, READ, SINGLE


def test_ten_new_cost_two_calls(counted: Counted) -> None:
    """One acquires, one completes; all is written when the handler returns."""
    seen: list[str] = []
    handler = counted.rig.once.sqs(worker(seen))
    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, BATCH]
    assert seen == TEN
    assert counted.rig.states() == [State.COMPLETE] * 10


@pytest.mark.parametrize("received", [1, 2])
def test_ten_duplicates_cost_two_calls(counted: Counted, received: int) -> None:
    """One is refused, one reads who had them; whether or not SQS says that it delivered them before."""

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None: ...

    handler(records(*TEN), counted.rig.context())
    counted.calls()
    assert handler(records(*TEN, received=received), counted.rig.context("request-2")) == ALL_WELL
    assert sorted(counted.calls()) == [BATCH, READ]
    assert counted.rig.events().count("once.replayed") == 10


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


def test_async_records_cost_the_same(counted: Counted) -> None:
    """They run at once within their bounds, and end in one write."""
    in_progress: set[str] = set()
    most: list[int] = []

    @counted.rig.once.sqs(concurrency=3)
    async def handler(record: SQSRecord) -> None:
        in_progress.add(record.body)
        await asyncio.to_thread(int)
        most.append(len(in_progress))
        in_progress.remove(record.body)

    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, BATCH]
    assert max(most) == 3
    assert handler(records(*TEN), counted.rig.context("request-2")) == ALL_WELL
    assert counted.calls() == [BATCH, READ]
    assert len(most) == 10


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


# ------------------------------------------------------------------ a bad wire


def test_lost_answers_run_nothing_twice_and_lose_nothing(counted: Counted) -> None:
    """Of the acquisition and of the completion: the rows tell that they are our own."""
    seen: list[str] = []

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if len(seen) == 10:
            counted.wire.fates = [answer_lost]

    counted.wire.fates = [answer_lost]
    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, BATCH, READ] * 2
    assert seen == TEN
    assert counted.rig.states() == [State.COMPLETE] * 10
    assert "once.fenced" not in counted.rig.events()


def test_one_throttled_completion_is_written_by_itself(counted: Counted) -> None:
    """The others are not sent again."""

    @counted.rig.once.sqs
    def handler(record: SQSRecord) -> None:
        if record.body == "9":
            counted.wire.fates = [failing(None, "ThrottlingError")]

    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert counted.calls() == [BATCH, BATCH, "UpdateItem"]
    assert counted.rig.states() == [State.COMPLETE] * 10


def test_an_acquisition_that_stays_unanswered_goes_back_alone(counted: Counted) -> None:
    """One statement is throttled to the end: its record is returned unstarted, the others are worked."""
    seen: list[str] = []
    handler = counted.rig.once.sqs(worker(seen))
    counted.wire.fates = [failing(None, "ThrottlingError")] + [failing("ThrottlingError")] * 5
    assert handler(records("a", "b", "c"), counted.rig.context()) == failed("b")
    assert seen == ["a", "c"]
    assert counted.rig.states() == [State.COMPLETE] * 2


def test_without_the_permission_it_is_told_once(counted: Counted, caplog: pytest.LogCaptureFixture) -> None:
    """The first batch says which permission is missing, works all the same, and none asks again."""
    table, client = counted.table, counted.wire.client
    once = Once(table=table, client=client, service="shop", logger=logging.getLogger("test"))
    seen: list[str] = []
    handler = once.sqs(worker(seen))
    counted.wire.fates = [refused("AccessDeniedException")]
    assert handler(records(*TEN), counted.rig.context()) == ALL_WELL
    assert handler(records("x", "y"), counted.rig.context("request-2")) == ALL_WELL
    assert counted.calls() == [BATCH, *[SINGLE] * 24]
    assert seen == [*TEN, "x", "y"]
    (denied,) = [line for line in caplog.records if line.message == "once.batches_off"]
    assert denied.levelno == logging.WARNING
