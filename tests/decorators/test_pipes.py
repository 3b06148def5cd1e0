"""EventBridge Pipes, with a function as its target: the list of the source's records under its decorator."""

from __future__ import annotations

from typing import Any

import pytest

from lambda_once import Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.testing import (
    activemq_event,
    dynamodb_stream_event,
    kafka_event,
    kinesis_event,
    pipes_event,
    rabbitmq_event,
    sns_event,
    sqs_event,
)
from tests.decorators.rig import Rig, in_memory

Builder = Any


def changes(*ids: str) -> Any:
    """New items with these ids."""
    return dynamodb_stream_event(*[(None, {"id": each}) for each in ids])


SOURCES: dict[str, tuple[str, Builder, str | None]] = {
    "sqs": ("sqs", sqs_event, "messageId"),
    "fifo": ("sqs", lambda *bodies: sqs_event(*bodies, fifo_groups="g"), "messageId"),
    "kinesis": ("kinesis", kinesis_event, "eventID"),
    "dynamodb_stream": ("dynamodb_stream", changes, "eventID"),
    "kafka": ("kafka", kafka_event, None),
    "self-managed kafka": ("kafka", lambda *v: kafka_event(*v, bootstrap_servers="a:9092,b:9092"), None),
    "activemq": ("mq", activemq_event, None),
    "rabbitmq": ("mq", rabbitmq_event, None),
}
OF_EACH = pytest.mark.parametrize(("decorator", "build", "field"), SOURCES.values(), ids=SOURCES)
NAMED = pytest.mark.parametrize(
    ("decorator", "build", "field"),
    [row for row in SOURCES.values() if row[2] is not None],
    ids=[name for name, row in SOURCES.items() if row[2] is not None],
)
IN_ORDER = {"fifo", "kinesis", "dynamodb_stream"}


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


@OF_EACH
def test_records_run_once_through_pipe_and_mapping(
    rig: Rig, decorator: str, build: Builder, field: str | None
) -> None:
    """A record has one token, whether a pipe or an event source mapping delivers it."""
    seen: list[Any] = []
    handler = getattr(rig.once, decorator)(counting(seen))
    event = build("a", "b")
    assert handler(pipes_event(event), rig.context()) in SUCCESS
    assert handler(pipes_event(event), rig.context()) in SUCCESS
    handler(event, rig.context())
    assert len(seen) == 2
    assert rig.states() == [State.COMPLETE] * 2
    assert type(seen[0]).__module__.startswith("aws_lambda_powertools")


@NAMED
@pytest.mark.parametrize("reports", [False, True])
def test_every_unfinished_record_is_named(
    rig: Rig, decorator: str, build: Builder, field: str, reports: bool, request: pytest.FixtureRequest
) -> None:
    """Pipes retries what is named and nothing else: what was not started is named, too."""
    seen: list[object] = []
    options = {"report_failures": reports} if decorator != "sqs" else {}
    handler = getattr(rig.once, decorator)(name="work", **options)(counting(seen, fails_at=2))
    batch = pipes_event(build("a", "b", "c", "d"))
    ids = [record[field] for record in batch]
    in_order = any(name in request.node.callspec.id for name in IN_ORDER)
    expected = ids[1:] if in_order else ids[1:2]
    assert handler(batch, rig.context()) == named(*expected)
    assert len(seen) == (2 if in_order else 4)
    rest = [record for record in batch if record[field] in expected]
    assert handler(rest, rig.context("request-2")) == named()
    assert len(seen) == 5


@in_memory
@pytest.mark.parametrize("decorator", ["kinesis", "dynamodb_stream"])
def test_what_is_beyond_the_window_is_named(rig: Rig, decorator: str) -> None:
    """100 records whose second fails: 99 are named, 25 acquired."""
    _, build, _ = SOURCES[decorator]
    handler = getattr(rig.once, decorator)(name="work")(counting([], fails_at=2))
    batch = pipes_event(build(*map(str, range(100))))
    assert handler(batch, rig.context()) == named(*[record["eventID"] for record in batch[1:]])
    assert rig.store.acquisitions <= 25


@in_memory
@pytest.mark.parametrize("name", ["kafka", "self-managed kafka", "activemq", "rabbitmq"])
def test_what_a_pipe_cannot_be_told_is_raised(rig: Rig, name: str) -> None:
    """For Kafka and Amazon MQ it retries the whole batch: what was done is replayed."""
    decorator, build, _ = SOURCES[name]
    seen: list[object] = []
    options = {"report_failures": True} if decorator == "kafka" else {}
    handler = getattr(rig.once, decorator)(name="work", **options)(counting(seen, fails_at=2))
    batch = pipes_event(build("a", "b"))
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
def test_a_record_without_id_returns_the_batch(rig: Rig, decorator: str, build: Builder, field: str) -> None:
    """It failed, and cannot be named: the error is raised, so that all come again."""
    batch = pipes_event(build("a", "b"))
    del batch[1][field]
    with pytest.raises(Exception, match="has no"):
        getattr(rig.once, decorator)(counting([]))(batch, rig.context())


# -- what is no such list


@in_memory
@OF_EACH
def test_an_empty_list_is_success(rig: Rig, decorator: str, build: Builder, field: str | None) -> None:
    """Pipes sends none; one is nothing to do."""
    assert getattr(rig.once, decorator)(counting([]))([], rig.context()) in SUCCESS


@in_memory
@OF_EACH
def test_the_right_decorator_is_named(rig: Rig, decorator: str, build: Builder, field: str | None) -> None:
    """Another decorator refuses the list, and what a mapping sends; one foreign record is enough."""
    batch = pipes_event(build("a"))
    others = {"sqs", "kinesis", "dynamodb_stream", "kafka", "mq"} - {decorator}
    for other in sorted(others | {"event", "sns", "api_gateway"}):
        handler: Any = getattr(rig.once, other)(counting([]))
        for event in (batch, build("a")):
            with pytest.raises(Misconfigured, match=f"once.{other} received .* Use once.{decorator} for it"):
                handler(event, rig.context())
    own = {"sqs": "kinesis"}.get(decorator, "sqs")
    mixed: Any = [*pipes_event(sqs_event("a") if own == "sqs" else kinesis_event("a")), *batch]
    with pytest.raises(Misconfigured, match=f"Use once.{decorator} for it"):
        getattr(rig.once, own)(counting([]))(mixed, rig.context())
    assert rig.rows() == []


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
        handler: Any = getattr(rig.once, decorator)(counting([]))
        with pytest.raises(Misconfigured):
            handler(batch, rig.context())
