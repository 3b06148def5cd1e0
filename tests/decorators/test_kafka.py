"""`once.kafka`: each record once, in the order of its partition; a failure stops that partition alone."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from lambda_once import KeyMissing
from lambda_once.testing import kafka_event
from tests.decorators.rig import Rig, in_memory
from tests.decorators.worker import worker

Seen = list[str]


class Order(BaseModel):
    orderId: int  # noqa: N815  (the field of the payload)


def failures(*places: tuple[str, int]) -> dict[str, Any]:
    """The answer that names *places*, pairs of a partition and an offset."""
    return {
        "batchItemFailures": [
            {"itemIdentifier": {"partition": partition, "offset": offset}} for partition, offset in places
        ]
    }


@pytest.mark.parametrize("is_async", [False, True], ids=["plain", "async"])
def test_a_failure_stops_its_partition_alone(rig: Rig, is_async: bool) -> None:
    """The other partition goes on. What is behind the failure is released, and runs in order next time."""
    seen: Seen = []
    broken = {"a2"}
    handler = rig.once.kafka(worker(seen, broken, is_async=is_async))
    event = kafka_event("a1", "b1", "a2", "b2", "a3", "b3", partitions=[0, 1] * 3)
    with pytest.raises(ValueError, match="a2"):
        handler(event, rig.context())
    assert [text for text in seen if text[0] == "a"] == ["a1", "a2"]
    assert [text for text in seen if text[0] == "b"] == ["b1", "b2", "b3"]
    broken.clear()
    assert handler(event, rig.context("request-2")) is None
    assert [text for text in seen if text[0] == "a"] == ["a1", "a2", "a2", "a3"]
    assert len(seen) == 7


@in_memory
def test_a_failure_stops_its_partition_beyond_the_window(rig: Rig) -> None:
    """Of 60 records in two partitions, 30 of the other one run though the first fails at its second."""
    seen: Seen = []
    texts = [f"{partition}{n}" for n in range(30) for partition in "ab"]
    handler = rig.once.kafka(report_failures=True)(worker(seen, {"a1"}))
    event = kafka_event(*texts, partitions=[0, 1] * 30)
    assert handler(event, rig.context()) == failures(("orders-0", 1))
    assert seen.count("a0") == seen.count("a1") == 1
    assert [text for text in seen if text[0] == "b"] == [f"b{n}" for n in range(30)]
    assert len(seen) == 32


def test_the_first_failure_of_each_partition_is_reported(rig: Rig) -> None:
    """For a mapping with ReportBatchItemFailures: topic, partition and offset."""
    handler = rig.once.kafka(report_failures=True)(worker([], {"a2", "a3", "c1"}))
    event = kafka_event("a1", "b1", "a2", "b2", "a3", "c1", partitions=[0, 1, 0, 1, 0, 2], first_offset=10)
    assert handler(event, rig.context()) == failures(("orders-0", 11), ("orders-2", 10))
    assert handler(kafka_event("d", first_offset=99), rig.context("request-2")) == failures()


# -- values


@in_memory
def test_a_tombstone_is_a_record_like_others(rig: Rig) -> None:
    """Its payload is None: it runs once, a key= finds nothing in it, and it fits no model."""
    seen: list[object] = []
    handler = rig.once.kafka(name="work")(lambda record: seen.append(record.value))
    event = kafka_event(None)
    handler(event, rig.context())
    handler(event, rig.context())
    assert seen == [None]
    with pytest.raises(KeyMissing):
        rig.once.kafka(key="orderId", name="keyed")(lambda _record: None)(event, rig.context())
    with pytest.raises(KeyMissing, match="not a valid Order"):
        rig.once.kafka(model=Order, name="typed")(lambda _order: None)(event, rig.context())


# -- bad input


@in_memory
@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("value", "%", "Record orders-0/1 has a value that is not base64"),
        ("value", 5, "Record orders-0/1 has a value that is not base64"),
        ("offset", None, "has no topic, partition or offset"),
        ("offset", True, "has no topic, partition or offset"),
        ("partition", "x", "has no topic, partition or offset"),
        ("partition", "9" * 5_000, "has no topic, partition or offset"),
        ("topic", "", "has no topic, partition or offset"),
    ],
)
def test_a_malformed_record_stops_its_partition(rig: Rig, field: str, value: object, says: str) -> None:
    """It can never succeed; what is before it is done, the other partition too."""
    seen: Seen = []
    handler = rig.once.kafka(worker(seen, set()))
    event = kafka_event("a", "b", "c", "d", partitions=[0, 0, 0, 1])
    event["records"]["orders-0"][1][field] = value
    with pytest.raises(KeyMissing, match=says):
        handler(event, rig.context())
    assert sorted(seen) == ["a", "d"]


@in_memory
@pytest.mark.parametrize("raw", [None, 5, "x", []])
def test_what_is_no_record_fails_the_batch(rig: Rig, raw: object) -> None:
    """It cannot be named, so that an empty identifier returns the whole batch."""
    handler = rig.once.kafka(report_failures=True)(worker([], set()))
    event = kafka_event("a")
    event["records"]["orders-0"].append(raw)
    assert handler(event, rig.context()) == {"batchItemFailures": [{"itemIdentifier": ""}]}
