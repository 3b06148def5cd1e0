"""What every source of records has in common, whether a mapping or EventBridge Pipes delivers it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import KeyMissing, Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.observability.events import Event
from lambda_once.testing import api_event, eventbridge_event, pipes_event, s3_event
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import PIPED, SOURCES, Row

SUCCESS: tuple[Any, ...] = (None, {"batchItemFailures": []})

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


@of_every_source
def test_records_run_once(rig: Rig, row: Row) -> None:
    """A redelivery replays all of them; the function gets Powertools' data class."""
    seen: list[Any] = []
    handler = getattr(rig.once, row.decorator)(collecting(seen))
    event = row.build("a", "b")
    assert handler(event, rig.context()) in SUCCESS
    assert handler(event, rig.context("request-2")) in SUCCESS
    assert len(seen) == 2
    assert rig.states() == [State.COMPLETE] * 2
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
