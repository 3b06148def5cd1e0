"""EventBridge Pipes, with a function as its target: the list of the source's records under its decorator."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once import Misconfigured
from lambda_once.testing import (
    kafka_event,
    pipes_event,
    sns_event,
    sqs_event,
)
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import PIPED, Row

NAMED = pytest.mark.parametrize(
    "row", [row for row in PIPED if row.piped_id is not None], ids=lambda row: row.name
)


def named(*ids: str) -> dict[str, Any]:
    """The answer that names *ids*."""
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in ids]}


SUCCESS = (None, named())


def counting(seen: list[object], fails_at: int | None = None) -> Any:
    """A function that collects its records, and fails when it has so many."""

    def work(record: Any) -> None:
        seen.append(record)
        if len(seen) == fails_at:
            raise ValueError(fails_at)

    return work


@NAMED
@pytest.mark.parametrize("reports", [False, True])
def test_every_unfinished_record_is_named(rig: Rig, row: Row, reports: bool) -> None:
    """Pipes retries what is named and nothing else: what was not started is named, too."""
    seen: list[object] = []
    options = {"report_failures": reports} if row.decorator != "sqs" else {}
    handler = getattr(rig.once, row.decorator)(name="work", **options)(counting(seen, fails_at=2))
    batch = pipes_event(row.build("a", "b", "c", "d"))
    ids = [record[str(row.piped_id)] for record in batch]
    expected = ids[1:] if row.in_order else ids[1:2]
    assert handler(batch, rig.context()) == named(*expected)
    assert len(seen) == (2 if row.in_order else 4)
    rest = [record for record in batch if record[str(row.piped_id)] in expected]
    assert handler(rest, rig.context("request-2")) == named()
    assert len(seen) == 5


@in_memory
@pytest.mark.parametrize("row", [row for row in PIPED if row.piped_id == "eventID"], ids=lambda row: row.name)
def test_what_is_beyond_the_window_is_named(rig: Rig, row: Row) -> None:
    """100 records whose second fails: 99 are named, 25 acquired."""
    handler = getattr(rig.once, row.decorator)(name="work")(counting([], fails_at=2))
    batch = pipes_event(row.build(*map(str, range(100))))
    assert handler(batch, rig.context()) == named(*[record["eventID"] for record in batch[1:]])
    assert rig.store.acquisitions <= 25


@in_memory
@pytest.mark.parametrize("row", [row for row in PIPED if row.piped_id is None], ids=lambda row: row.name)
def test_what_a_pipe_cannot_be_told_is_raised(rig: Rig, row: Row) -> None:
    """For Kafka and Amazon MQ it retries the whole batch: what was done is replayed."""
    seen: list[object] = []
    options = {"report_failures": True} if row.decorator == "kafka" else {}
    handler = getattr(rig.once, row.decorator)(name="work", **options)(counting(seen, fails_at=2))
    batch = pipes_event(row.build("a", "b"))
    with pytest.raises(ValueError, match="2"):
        handler(batch, rig.context())
    assert handler(batch, rig.context("request-2")) in SUCCESS
    assert len(seen) == 3


@in_memory
def test_partitions_of_a_pipe_are_separate_orders(rig: Rig) -> None:
    """A failure stops its partition alone."""
    seen: list[str] = []

    @rig.once.kafka
    def handler(record: Any) -> None:
        seen.append(record.decoded_value.decode())
        if seen[-1] == "a1":
            raise ValueError("a1")

    batch = pipes_event(kafka_event("a1", "a2", "b1", "b2", partitions=[0, 0, 1, 1]))
    with pytest.raises(ValueError, match="a1"):
        handler(batch, rig.context())
    assert sorted(seen) == ["a1", "b1", "b2"]


@in_memory
def test_all_of_a_queue_may_fail(rig: Rig) -> None:
    """A pipe needs no setting to read the answer, so nothing is raised if every record failed."""
    handler = rig.once.sqs(name="work")(counting([], fails_at=1))
    batch = pipes_event(sqs_event("a"))
    assert handler(batch, rig.context()) == named(batch[0]["messageId"])


@in_memory
@NAMED
def test_a_record_without_id_returns_the_batch(rig: Rig, row: Row) -> None:
    """It failed, and cannot be named: the error is raised, so that all come again."""
    batch = pipes_event(row.build("a", "b"))
    del batch[1][str(row.piped_id)]
    with pytest.raises(Exception, match="has no"):
        getattr(rig.once, row.decorator)(counting([]))(batch, rig.context())


# -- what is no such list


@in_memory
@pytest.mark.parametrize("batch", [[{"orderId": 5}], [5], [None], ["a"]])
def test_transformed_records_are_refused(rig: Rig, batch: Any) -> None:
    """An input transformer that drops eventSource makes events of one's own: those are for once.event."""
    with pytest.raises(Misconfigured, match=r"Use once\.event for it"):
        rig.once.sqs(counting([]))(batch, rig.context())


@in_memory
def test_notifications_come_through_no_pipe(rig: Rig) -> None:
    """SNS is no source of Pipes: a list of its records is refused by every decorator of records."""
    batch: Any = [*sns_event("a")["Records"]]
    for decorator in ("sqs", "kinesis", "sns"):
        handler: Any = getattr(rig.once, decorator)(name=decorator)(counting([]))
        with pytest.raises(Misconfigured):
            handler(batch, rig.context())
