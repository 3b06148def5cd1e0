"""`once.sqs` on a FIFO queue: the order of a message group is kept, whatever fails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import HOLD, STORE
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, on_every_store
from tests.decorators.test_sqs import ALL_WELL, failed
from tests.decorators.worker import worker
from tests.sources.samples import batch, fifo_record


def message(id_: str, group: str) -> dict[str, Any]:
    """One record of *group*, its body its id."""
    return fifo_record(id_, group=group, deduplication=f"d-{id_}", id_=id_)


@on_every_store
def test_the_first_failure_ends_its_group(rig: Rig) -> None:
    """The failed record and what follows in its group go back; other groups are processed."""
    seen: list[str] = []
    handler = rig.once.sqs(worker(seen, {"a2"}))
    event = batch(*(message(id_, id_[0]) for id_ in ("a1", "b1", "a2", "b2", "a3", "a4")))
    assert handler(event, rig.context()) == failed("a2", "a3", "a4")
    assert seen == ["a1", "a2", "b1", "b2"]


@on_every_store
def test_what_was_not_started_can_be_acquired_at_once(rig: Rig) -> None:
    """The tokens of the group's rest are released: the next delivery runs them in their order."""
    seen: list[str] = []
    fails = {"a1"}
    handler = rig.once.sqs(raise_on_entire_batch_failure=False)(worker(seen, fails))
    event = batch(message("a1", "a"), message("a2", "a"))
    assert handler(event, rig.context()) == failed("a1", "a2")
    assert rig.states() == [State.RELEASED, State.RELEASED]
    fails.clear()
    assert handler(event, rig.context("request-2")) == ALL_WELL
    assert seen == ["a1", "a1", "a2"]


def test_a_replay_does_not_end_its_group(rig: Rig) -> None:
    """What was done before is success, and the group goes on behind it; so is a stored failure."""
    seen: list[str] = []
    handler = rig.once.sqs(on_error={ValueError: STORE})(worker(seen, {"a2"}))
    handler(batch(message("a1", "a"), message("a2", "a")), rig.context())
    event = batch(message("a1", "a"), message("a2", "a"), message("a3", "a"))
    assert handler(event, rig.context("request-2")) == ALL_WELL
    assert seen == ["a1", "a2", "a3"]


def test_a_held_record_ends_its_group(rig: Rig) -> None:
    """While a record is held nothing of its group overtakes it."""
    seen: list[str] = []

    @rig.once.sqs(on_error=HOLD, raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        raise ValueError

    handler(batch(message("a1", "a")), rig.context())
    event = batch(message("a1", "a"), message("a2", "a"))
    assert handler(event, rig.context("request-2")) == failed("a1", "a2")
    assert seen == ["a1"]


def test_a_group_never_waits(rig: Rig) -> None:
    """A record in progress ends its group at once, even under on_in_progress="wait"."""
    answers: list[Any] = []
    event = batch(message("a1", "a"), message("a2", "a"))

    @rig.once.sqs(on_in_progress="wait")
    def handler(record: SQSRecord) -> None:
        if record.body == "a1":
            answers.append(handler(event, rig.context("request-2")))

    assert handler(batch(message("a1", "a")), rig.context()) == ALL_WELL
    assert answers == [failed("a1", "a2")]
    assert rig.slept == 0


def test_a_whole_batch_of_failures_raises(rig: Rig) -> None:
    """One failure and its skipped followers are a batch that failed whole."""

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        raise ValueError

    with pytest.raises(BatchProcessingError):
        handler(batch(message("a1", "a"), message("a2", "a")), rig.context())


def test_async_groups_run_in_order(rig: Rig) -> None:
    """With a coroutine function the groups run concurrently, the records of one in their order."""
    seen: list[str] = []

    @rig.once.sqs(concurrency=2)
    async def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if record.body == "a2":
            raise ValueError

    event = batch(*(message(id_, id_[0]) for id_ in ("a1", "b1", "a2", "b2", "a3")))
    assert handler(event, rig.context()) == failed("a2", "a3")
    assert [id_ for id_ in seen if id_[0] == "a"] == ["a1", "a2"]
    assert [id_ for id_ in seen if id_[0] == "b"] == ["b1", "b2"]


def test_a_lost_lease_does_not_wait_either(rig: Rig) -> None:
    """Where another attempt took the token over meanwhile, the group ends at once."""
    seen: list[str] = []
    second = message("a2", "a")

    @rig.once.sqs(on_in_progress="wait", lease=timedelta(seconds=12))
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)
        if record.body == "a1":
            rig.clock.advance(13)
            with rig.crash():
                handler(batch(second), rig.context("request-2"))

    assert handler(batch(message("a1", "a"), second), rig.context(seconds=60)) == failed("a2")
    assert seen == ["a1", "a2"]
    assert rig.slept == 0
