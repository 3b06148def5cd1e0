"""`once.kinesis`: each record once, in the order of the shard, and nothing behind a failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord

from lambda_once import GiveUp, Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.testing import kinesis_event
from tests.decorators.rig import Rig, in_memory

ALL_WELL: dict[str, Any] = {"batchItemFailures": []}


def failed(event: dict[str, Any], position: int) -> dict[str, Any]:
    """The answer that names the record at *position*."""
    number = event["Records"][position]["kinesis"]["sequenceNumber"]
    return {"batchItemFailures": [{"itemIdentifier": number}]}


def worker(
    seen: list[str], fails: Callable[[str], bool] = lambda _text: False
) -> Callable[[KinesisStreamRecord], None]:
    """A function that collects the text of each record, and fails for some."""

    def work(record: KinesisStreamRecord) -> None:
        text = record.kinesis.data_as_text()
        seen.append(text)
        if fails(text):
            raise ValueError(text)

    return work


def test_records_run_once_in_their_order(rig: Rig) -> None:
    """A redelivery replays all of them; the answer is None."""
    seen: list[str] = []
    handler = rig.once.kinesis(worker(seen))
    event = kinesis_event("c", "a", "b")
    assert handler(event, rig.context()) is None
    assert handler(event, rig.context("request-2")) is None
    assert seen == ["c", "a", "b"]
    assert rig.states() == [State.COMPLETE] * 3


def test_equal_data_is_separate_work(rig: Rig) -> None:
    """Two records are two events, whatever they say; the same record twice in a batch is one."""
    seen: list[str] = []
    handler = rig.once.kinesis(worker(seen))
    event = kinesis_event("a", "a")
    event["Records"].append(event["Records"][1])
    handler(event, rig.context())
    assert seen == ["a", "a"]


def test_nothing_behind_a_failure_is_started(rig: Rig) -> None:
    """It raises the first error; what stood behind it is free, and runs in its order next time."""
    seen: list[str] = []
    broken = {"b"}
    handler = rig.once.kinesis(worker(seen, lambda text: text in broken))
    event = kinesis_event("a", "b", "c", partition_keys=["1", "2", "3"])
    with pytest.raises(ValueError, match="b"):
        handler(event, rig.context())
    assert seen == ["a", "b"]
    assert rig.states() == [State.COMPLETE, State.RELEASED, State.RELEASED]
    broken.clear()
    assert handler(event, rig.context("request-2")) is None
    assert seen == ["a", "b", "b", "c"]


def test_the_first_failure_is_reported(rig: Rig) -> None:
    """For a mapping with ReportBatchItemFailures: the checkpoint is the lowest failed sequence number."""
    seen: list[str] = []
    handler = rig.once.kinesis(report_failures=True)(worker(seen, lambda text: text == "b"))
    event = kinesis_event("a", "b", "c")
    assert handler(event, rig.context()) == failed(event, 1)
    assert handler(kinesis_event("d"), rig.context("request-2")) == ALL_WELL
    assert seen == ["a", "b", "d"]


def _poisoned(rig: Rig) -> None:
    seen: list[str] = []
    handler = rig.once.kinesis(worker(seen, lambda _text: True))
    with pytest.raises(ValueError, match="0"):
        handler(kinesis_event(*map(str, range(10_000))), rig.context(seconds=900))
    assert seen == ["0"]
    assert rig.store.acquisitions <= 25


@in_memory
def test_a_poisonous_first_record_costs_one_window(rig: Rig) -> None:
    """Of 10,000 records behind it 24 are acquired, and released."""
    _poisoned(rig)
    assert rig.states() == [State.RELEASED] * 25


@in_memory
def test_the_function_may_give_a_record_up(rig: Rig) -> None:
    """What can never succeed is parked in its turn, and the shard goes on."""
    seen: list[str] = []
    parked: list[tuple[str, str]] = []

    def park(record: KinesisStreamRecord, error: GiveUp) -> None:
        parked.append((record.kinesis.sequence_number, str(error)))

    handler = rig.once.kinesis(on_give_up=park)(worker(seen))
    event = kinesis_event("a", "b", "c")
    event["Records"][1]["kinesis"]["data"] = "%"
    assert handler(event, rig.context()) is None
    assert seen == ["a", "c"]
    ((number, reason),) = parked
    assert number == event["Records"][1]["kinesis"]["sequenceNumber"]
    assert "is not base64" in reason


@in_memory
def test_a_mistake_is_never_given_up(rig: Rig) -> None:
    """A key= that raises is the developer's, and stops the shard."""
    parked: list[object] = []
    park = parked.append
    options: dict[str, Any] = {"key": lambda record: record.no_such, "on_give_up": lambda *given: park(given)}
    handler = rig.once.kinesis(**options)(worker([]))
    with pytest.raises(Misconfigured):
        handler(kinesis_event("a"), rig.context())
    assert parked == []
