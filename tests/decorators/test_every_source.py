"""What every source of records has in common, whether a mapping or EventBridge Pipes delivers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import InProgress, KeyMissing, Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.observability.events import Event
from lambda_once.sources.source import Source, as_sent, source_of_record
from lambda_once.testing import (
    activemq_event,
    api_event,
    eventbridge_event,
    kafka_event,
    pipes_event,
    rabbitmq_event,
    s3_event,
    sns_event,
)
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import PIPED, SOURCES, SUCCESS, Row
from tests.decorators.worker import text_of, worker

of_every_source = pytest.mark.parametrize("row", SOURCES, ids=lambda row: row.name)
of_piped_sources = pytest.mark.parametrize("row", PIPED, ids=lambda row: row.name)


def collecting(seen: list[Any]) -> Callable[[Any], None]:
    """A function that collects its records."""

    def work(record: Any) -> None:
        seen.append(record)

    return work


def _refused(handler: Any, rig: Rig, event: object) -> None:
    """Deliver *event*, one of whose records is bad: it is no success."""
    try:
        answer = handler(event, rig.context())
    except KeyMissing as error:
        answer = str(error)
    assert answer not in SUCCESS
    assert "secret" not in str(answer)


def as_data_classes(row: Row, event: Any) -> list[Any]:
    """Return the records of *event* as the decorator hands them to its function."""
    records: list[Any] = []
    rig = Rig()
    getattr(rig.once, row.decorator)(collecting(records))(event, rig.context())
    return records


def test_every_source_has_a_row() -> None:
    """A source that's added is tested like the others."""
    added = {str(source.decorator) for source in Source if source.fields}
    assert {f"once.{row.decorator}" for row in SOURCES} == added


@of_every_source
def test_a_record_is_known_by_itself(row: Row) -> None:
    """As an argument of a function it comes without its event."""
    for record in row.records(row.build("a", "b")):
        assert as_sent(record) is record
        source = source_of_record(record)
        assert source is not None
        assert source.decorator == f"once.{row.decorator}"


@pytest.mark.parametrize("records_of", [Row.records, as_data_classes], ids=["as dict", "as data class"])
@of_every_source
def test_a_redelivered_record_is_one_call_of_a_function(
    rig: Rig, row: Row, records_of: Callable[[Row, Any], list[Any]]
) -> None:
    """As an argument a record is what it is under its decorator: a redelivery is the same work."""
    seen: list[Any] = []
    work = rig.once.function(collecting(seen))
    event = row.build("a", "b")
    for delivery in (event, row.redelivered(event)):
        for record in records_of(row, delivery):
            work(record)
    assert len(seen) == 2


@of_every_source
def test_records_run_once(rig: Rig, row: Row) -> None:
    """A redelivery, with fields of its own, replays them; the function gets Powertools' data class."""
    seen: list[Any] = []
    handler = getattr(rig.once, row.decorator)(collecting(seen))
    event = row.build("c", "a", "b")
    assert handler(event, rig.context()) == row.success
    assert handler(event, rig.context("request-2")) == row.success
    assert handler(row.redelivered(event), rig.context("request-3")) == row.success
    assert [text_of(record) for record in seen] == ["c", "a", "b"]
    assert rig.states() == [State.COMPLETE] * 3
    assert type(seen[0]).__module__.startswith("aws_lambda_powertools")


@of_piped_sources
def test_a_record_has_one_token_through_pipe_and_mapping(rig: Rig, row: Row) -> None:
    """Whichever delivers it first."""
    seen: list[Any] = []
    handler = getattr(rig.once, row.decorator)(collecting(seen))
    event = row.build("a", "b")
    assert handler(pipes_event(event), rig.context()) in SUCCESS
    assert handler(pipes_event(event), rig.context()) in SUCCESS
    assert handler(event, rig.context()) in SUCCESS
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("decorator", "event"),
    [
        ("sns", sns_event("a", "b")),
        ("mq", activemq_event("a", "b")),
        ("mq", rabbitmq_event("a", "b")),
        ("event", s3_event("a", "b")),
    ],
    ids=["sns", "activemq", "rabbitmq", "s3"],
)
def test_a_failure_is_raised_after_all_were_tried(rig: Rig, decorator: str, event: Any) -> None:
    """They take no partial response: the whole batch comes again, and only what failed runs again."""
    seen: list[str] = []
    broken = {"a"}
    handler = getattr(rig.once, decorator)(worker(seen, broken))
    with pytest.raises(ValueError, match=r"^a$"):
        handler(event, rig.context())
    assert seen == ["a", "b"]
    assert rig.states() == [State.RELEASED, State.COMPLETE]
    broken.clear()
    assert handler(event, rig.context("request-2")) == ([None, None] if decorator == "event" else None)
    assert seen == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("decorator", "event"),
    [("sns", sns_event("x")), ("event", eventbridge_event({"order": 5})), ("event", {"order": 5})],
    ids=["sns", "eventbridge", "direct"],
)
def test_lambdas_own_retry_waits_for_the_lease(rig: Rig, decorator: str, event: Any) -> None:
    """After a crash the same request id waits for the lease, and works if it has the time; others don't."""
    seen: list[float] = []
    handler = getattr(rig.once, decorator)(name="work")(lambda _: seen.append(rig.slept))
    with rig.crash():
        handler(event, rig.context(seconds=10))
    rig.clock.advance(1)
    with pytest.raises(InProgress):
        handler(event, rig.context("request-2", seconds=60))
    assert rig.slept == 0
    with pytest.raises(InProgress) as raised:
        handler(event, rig.context(seconds=5))
    assert raised.value.locked_by == "orders/request-1"
    assert rig.states() == [State.IN_PROGRESS]
    handler(event, rig.context(seconds=60))
    first, second = seen
    assert first == 0
    assert 11 < second < 13
    assert "once.taken_over" in rig.events()


@in_memory
def test_each_record_of_s3_has_a_result_of_its_own(rig: Rig) -> None:
    """An overlapping event replays what was done, and runs what is new on an event of one record."""
    seen: list[Any] = []

    @rig.once.event
    def handler(event: Any) -> Any:
        seen.append(event)
        return len(seen)

    a, b, c = s3_event("a", "b", "c")["Records"]
    assert handler({"Records": [a, b]}, rig.context()) == [1, 2]
    assert handler({"Records": [b, c]}, rig.context("request-2")) == [2, 3]
    assert [len(event["Records"]) for event in seen] == [1, 1, 1]


@in_memory
@pytest.mark.parametrize("empty", [{}, [], "", None])
def test_an_empty_event_is_no_key(rig: Rig, empty: Any) -> None:
    """Every empty event would be a duplicate of the first: it is refused, and nothing runs."""
    seen: list[Any] = []
    with pytest.raises(KeyMissing, match="key="):
        rig.once.event(collecting(seen))(empty, rig.context())
    assert seen == []


@in_memory
@of_every_source
def test_an_empty_batch_is_success(rig: Rig, row: Row) -> None:
    """Lambda sends none, nor does Pipes; nothing runs."""
    handler = getattr(rig.once, row.decorator)(collecting([]))
    assert handler(row.build(), rig.context()) in SUCCESS
    if row in PIPED:
        assert handler([], rig.context()) in SUCCESS


@in_memory
@of_every_source
def test_the_function_gets_the_model(rig: Rig, row: Row) -> None:
    """With model= it gets the payload as that type; one that does not fit fails, and is not quoted."""
    seen: list[Any] = []
    handler = getattr(rig.once, row.decorator)(model=row.model)(collecting(seen))
    _refused(handler, rig, row.build({"orderId": 5}, {"orderId": "secret"}))
    (model,) = seen
    assert isinstance(model, row.model)
    assert "orderId=5" in repr(model)
    (logged,) = [details for details in rig.reported if details.event is Event.BAD_RECORD]
    assert "orderId (int_parsing)" in str(logged.reason)
    assert "secret" not in str(logged.reason)


@in_memory
@of_every_source
@pytest.mark.parametrize("is_object", [True, False])
def test_a_bad_record_fails_alone(rig: Rig, row: Row, is_object: bool) -> None:
    """It can never succeed. What is before it is done, and in a source without order what is behind it."""
    seen: list[Any] = []
    event = row.build("a", "b", "c")
    if is_object:
        row.spoil(event, 1)
    else:
        row.records(event)[1] = 5  # type: ignore[call-overload]  # no record
    _refused(getattr(rig.once, row.decorator)(collecting(seen)), rig, event)
    ends = row.in_order and (is_object or row.decorator != "sqs")  # what is no object has no group
    assert len(seen) == (1 if ends else 2)
    (logged,) = [details for details in rig.reported if details.event is Event.BAD_RECORD]
    assert "not processed. Fix the producer" in str(logged.reason)
    assert "secret" not in str(logged.reason)


@in_memory
@of_every_source
def test_another_decorator_names_the_right_one(rig: Rig, row: Row) -> None:
    """It refuses what a mapping sends, and what a pipe does; one foreign record is enough."""
    decorators = {each.decorator for each in SOURCES} | {"event", "api_gateway"}
    events: list[Any] = [row.build("a"), *([pipes_event(row.build("a"))] if row in PIPED else [])]
    for other in sorted(decorators - {row.decorator}):
        handler: Any = getattr(rig.once, other)(name=other)(collecting([]))
        for event in events:
            with pytest.raises(
                Misconfigured, match=f"once.{other} received .* Use once.{row.decorator} for it"
            ):
                handler(event, rig.context())
    own = next(each for each in SOURCES if each.decorator == ("kinesis" if row.decorator == "sqs" else "sqs"))
    mixed: list[Any] = []
    if row in PIPED:
        mixed.append([*pipes_event(own.build("a")), *pipes_event(row.build("a"))])
    if "Records" in row.build("a"):
        mixed.append({"Records": [*own.build("a")["Records"], *row.build("a")["Records"]]})
    for event in mixed:
        with pytest.raises(Misconfigured, match=f"Use once.{row.decorator} for it"):
            getattr(rig.new(), own.decorator)(collecting([]))(event, rig.context())
    assert rig.rows() == []


@in_memory
@of_every_source
@pytest.mark.parametrize(
    ("event", "right"),
    [
        (api_event(), "api_gateway"),
        ({}, "event"),
        (None, "event"),
        ({"records": []}, "event"),
        (eventbridge_event({"orderId": 5}), "event"),
        (s3_event("5.pdf"), "event"),
        ({"Records": None}, "event"),
        ([{"orderId": 5}], "event"),
        ([None], "event"),
    ],
    ids=[
        "an API's",
        "empty",
        "null",
        "no Records",
        "EventBridge's",
        "S3's",
        "Records null",
        "a list",
        "a list of null",
    ],
)
def test_an_event_of_no_records_is_refused(rig: Rig, row: Row, event: Any, right: str) -> None:
    """Nothing runs, and nothing counts as success; the right decorator is named."""
    handler = getattr(rig.once, row.decorator)(collecting([]))
    with pytest.raises(Misconfigured, match=f"once.{row.decorator} received .* Use once.{right} for it"):
        handler(event, rig.context())
    assert rig.rows() == []


NO_LIST, NO_OBJECT = "Its records are not as that source sends them", "is not a JSON object"


@in_memory
@pytest.mark.parametrize(
    ("decorator", "event", "error", "says"),
    [
        ("mq", {**activemq_event("a"), "messages": None}, Misconfigured, NO_LIST),
        ("mq", {**activemq_event("a"), "messages": {"orders::/": 5}}, Misconfigured, NO_LIST),
        ("mq", {**rabbitmq_event("a"), "rmqMessagesByQueue": None}, Misconfigured, NO_LIST),
        ("mq", {**rabbitmq_event("a"), "rmqMessagesByQueue": {"orders::/": None}}, Misconfigured, NO_LIST),
        ("kafka", {**kafka_event("a"), "records": None}, Misconfigured, NO_LIST),
        ("kafka", {**kafka_event("a"), "records": [5]}, KeyMissing, NO_OBJECT),
        ("kafka", {**kafka_event("a"), "records": 5}, Misconfigured, NO_LIST),
        ("kafka", {**kafka_event("a"), "records": {"orders-0": None}}, Misconfigured, NO_LIST),
        ("kafka", {**kafka_event("a"), "records": {"orders-0": {}}}, Misconfigured, NO_LIST),
    ],
    ids=[
        "activemq: no messages",
        "activemq: messages by queue",
        "rabbitmq: no queues",
        "rabbitmq: a queue of null",
        "kafka: no records",
        "kafka: a list of no object",
        "kafka: a number",
        "kafka: a partition of null",
        "kafka: a partition that is an object",
    ],
)
def test_records_in_another_shape_are_refused(
    rig: Rig, decorator: str, event: Any, error: type[Exception], says: str
) -> None:
    """Nothing runs, and nothing counts as success."""
    seen: list[str] = []
    with pytest.raises(error, match=says):
        getattr(rig.once, decorator)(worker(seen))(event, rig.context())
    assert (seen, rig.rows()) == ([], [])
