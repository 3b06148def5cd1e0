"""`on_give_up` of the three streams beside concurrent work: what is parked stops nothing."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once import GiveUp
from lambda_once.engine.lanes import Job, Skipped
from lambda_once.testing import dynamodb_stream_event, kafka_event, kinesis_event
from tests.decorators.rig import Rig

Events = dict[str, Any]
TEXTS = ("bad", "a", "b", "c")


def _kinesis() -> Events:
    event = kinesis_event(*TEXTS, partition_keys=list(TEXTS))
    event["Records"][0]["kinesis"]["data"] = "%"
    return event


def _table() -> Events:
    event = dynamodb_stream_event(*((None, {"id": text}) for text in TEXTS))
    del event["Records"][0]["dynamodb"]["Keys"]
    return event


def _kafka() -> Events:
    event = kafka_event(*TEXTS, partitions=[0, 1, 2, 3])
    next(iter(event["records"].values()))[0]["value"] = "%"
    return event


SOURCES = {"kinesis": _kinesis, "dynamodb_stream": _table, "kafka": _kafka}


def _goes_on(source: str, *, is_async: bool, concurrency: int) -> None:
    rig, seen, parked = Rig(), list[object](), list[object]()

    def work(record: Any) -> None:
        seen.append(record)

    async def awaited(record: Any) -> None:
        await rig.clock.sleep_async(0)
        work(record)

    def park(record: object, error: GiveUp) -> None:
        assert "has " in str(error)
        parked.append(record)

    decorate = getattr(rig.once, source)(on_give_up=park, concurrency=concurrency)
    assert decorate(awaited if is_async else work)(SOURCES[source](), rig.context()) is None
    assert [type(record) for record in parked] == list({type(record) for record in seen})
    assert len(seen) == 3


@pytest.mark.parametrize(
    ("is_async", "concurrency"),
    [(False, 1), (True, 1), (True, 2), (True, 10)],
    ids=["plain", "async-1", "async-2", "async-10"],
)
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_parked_stops_nothing(source: str, is_async: bool, concurrency: int) -> None:
    """The records beside and behind it run in the same delivery."""
    _goes_on(source, is_async=is_async, concurrency=concurrency)


def test_twin_that_takes_an_undecided_record_for_a_failed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The shard stops: those behind it are skipped at every delivery."""
    monkeypatch.setattr(Job, "has_failed", property(lambda job: job.error is not None))

    def deliver() -> None:
        for _ in range(50):  # it may be parked before the others begin
            _goes_on("kinesis", is_async=True, concurrency=2)

    with pytest.raises(Skipped):
        deliver()


@pytest.mark.parametrize("concurrency", [1, 2])
def test_what_cannot_be_parked_stops_what_has_not_begun(concurrency: int) -> None:
    """What `on_give_up` raises is the record's failure."""
    rig = Rig()

    def park(_record: object, _error: GiveUp) -> None:
        raise ConnectionError("no queue")

    @rig.once.kinesis(on_give_up=park, concurrency=concurrency, report_failures=True)
    async def handler(_record: object) -> None:
        await rig.clock.sleep_async(0)

    event = _kinesis()
    first = event["Records"][0]["kinesis"]["sequenceNumber"]
    assert handler(event, rig.context()) == {"batchItemFailures": [{"itemIdentifier": first}]}
