from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools.utilities.parser.models import EventBridgeModel, SqsRecordModel
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_serializer
from pydantic.alias_generators import to_camel

from lambda_once import KeyReused, MemoryStore, Once, OnceError
from lambda_once.core.identity import NOTHING
from lambda_once.core.unit import Unit
from lambda_once.errors import Misconfigured
from lambda_once.sources.event import is_asynchronous, read
from lambda_once.testing import eventbridge_event, lambda_context, sqs_event
from tests.sources import samples


def _only(event: object) -> Unit:
    (unit,) = read(event, "r-1")
    assert unit.record.argument is event
    return unit


def _substance(event: object) -> object:
    unit = _only(event)
    return unit.what.content.counted(unit.what.content.payload)


def test_an_eventbridge_event_is_a_unit() -> None:
    """The whole event is payload, envelope and subject; its id is the delivery."""
    event = samples.eventbridge({"orderId": 5})
    unit = _only(event)
    assert unit.what.content.payload is event
    assert unit.record.envelope is event
    assert unit.record.argument is event
    assert unit.record.delivery == event["id"]
    assert unit.what.position is NOTHING


def test_an_event_put_twice_is_the_same_work() -> None:
    """Id and time do not count; source, type, resources and detail do."""
    event = samples.eventbridge({"orderId": 5})
    assert _substance(event) == _substance(event | {"id": "other", "time": "2026-11-20T11:00:00Z"})
    for change in ({"source": "x"}, {"detail-type": "x"}, {"resources": ["x"]}, {"detail": {"orderId": 6}}):
        assert _substance(event) != _substance(event | change)


def test_ignored_fields_of_an_event_do_not_count() -> None:
    """The content bears a payload from which the whole detail was removed."""
    event = samples.eventbridge({"orderId": 5})
    unit = _only(event)
    rest = {name: value for name, value in event.items() if name != "detail"}
    assert unit.what.content.counted(rest) == unit.what.content.counted(event | {"detail": None})


@pytest.mark.parametrize("detail", [{}, None, "", []])
def test_an_event_without_content_is_keyed_by_its_id(detail: object) -> None:
    """Two events with an empty detail are two pieces of work."""
    assert _only(samples.eventbridge(detail)).what.position == ["6a7e8feb-b491-4cf7-a9f1-bf3703467718"]


@pytest.mark.parametrize("detail", [0, False, {"a": None}])
def test_a_falsy_detail_is_content(detail: object) -> None:
    """Zero and False say something."""
    assert _only(samples.eventbridge(detail)).what.position is NOTHING


def test_events_of_aws_are_keyed_by_their_id() -> None:
    """AWS' own events come again in the same words: the id tells them apart."""
    assert _only(samples.eventbridge({"state": "running"}, source="aws.ec2", id="e-1")).what.position == [
        "e-1"
    ]
    assert (
        _only(samples.eventbridge({"state": "running"}, source="awsome", id="e-1")).what.position is NOTHING
    )


def test_equal_ticks_are_two_pieces_of_work() -> None:
    """Two ticks of one schedule differ by their key."""
    assert _only(samples.tick("t-1")).what.position != _only(samples.tick("t-2")).what.position


def test_each_s3_record_is_a_unit() -> None:
    """Each record of an S3 event is processed as an event of its own."""
    first, second = samples.s3_record(), samples.s3_record("b.pdf")
    found = read(samples.batch(first, second), "r-1")
    assert [unit.record.argument for unit in found] == [{"Records": [first]}, {"Records": [second]}]
    assert [unit.what.content.payload for unit in found] == [{"Records": [first]}, {"Records": [second]}]
    assert {unit.record.delivery for unit in found} == {"C3D13FE58DE4C810"}


def _s3_substance(record: object) -> object:
    (unit,) = read(samples.batch(record), "r-1")
    return unit.what.content.counted(unit.what.content.payload)


def test_an_s3_record_is_what_happened_to_a_version() -> None:
    """Event name, bucket, key, version and sequencer are hashed; the time is not."""
    record = samples.s3_record(versionId="v1")
    expected = [["ObjectCreated:Put", "invoices", "invoice.pdf", "v1", "0A1B2C3D4E5F678901"]]
    assert _s3_substance(record) == expected
    assert _s3_substance(record | {"eventTime": "later"}) == expected
    for other in (
        samples.s3_record(),
        samples.s3_record(versionId="v1", sequencer="0B"),
        record | {"eventName": "x"},
    ):
        assert _s3_substance(other) != expected


def test_without_sequencer_the_request_counts() -> None:
    """An S3 event without a sequencer is distinguished by the request that caused it."""
    record = samples.s3_record(sequencer=None)
    assert _s3_substance(record) == [
        ["ObjectCreated:Put", "invoices", "invoice.pdf", None, "C3D13FE58DE4C810"]
    ]


def test_without_sequencer_and_request_the_record_counts() -> None:
    """An S3 record that nothing identifies counts whole, and never collapses with the next."""
    record = samples.s3_record(sequencer=None) | {"responseElements": None}
    assert _s3_substance(record) != _s3_substance(record | {"eventTime": "later"})


def test_intelligent_tiering_names_its_object_otherwise() -> None:
    """The object of an Intelligent-Tiering event is found under its other name."""
    record = samples.s3_record()
    record["s3"]["get_object"] = record["s3"].pop("object")
    assert _s3_substance(record) == _s3_substance(samples.s3_record())


def test_a_payload_that_ignores_its_records_counts_whole() -> None:
    """With the records ignored, what is left of the event is hashed."""
    (unit,) = read(samples.batch(samples.s3_record()), "r-1")
    assert unit.what.content.counted({"left": 1}) == {"left": 1}


@pytest.mark.parametrize(
    "event",
    [
        {"orderId": 5},
        {},
        [1, 2],
        "text",
        None,
        {"Records": []},
        {"source": "shop", "detail-type": "t", "detail": {}},
    ],
)
def test_a_direct_invocation_counts_whole(event: object) -> None:
    """What no source claims is hashed as it is; its delivery is Lambda's request id."""
    unit = _only(event)
    assert unit.what.content.payload is event
    assert unit.what.content.counted(event) is event
    assert unit.record.delivery == "r-1"
    assert unit.what.position is NOTHING
    assert is_asynchronous(event), "the event does not show it"


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        (samples.batch(samples.sqs_record({})), "once.sqs"),
        (samples.sns_event("m"), "once.sns"),
        (samples.rest(), "once.api_gateway"),
        (samples.http(), "once.api_gateway"),
        (samples.alb(), "once.api_gateway"),
        (samples.alb(multi=True), "once.api_gateway"),
    ],
)
def test_an_event_with_a_decorator_of_its_own_is_refused(event: object, advice: str) -> None:
    """An event of another source is refused, and the right decorator named."""
    with pytest.raises(Misconfigured, match=f"Nothing ran. Use {advice} for it"):
        read(event, "r-1")


@pytest.mark.parametrize(
    "event", [samples.sns_event("m"), samples.eventbridge({"a": 1}), samples.batch(samples.s3_record())]
)
def test_asynchronous_sources_are_known(event: object) -> None:
    """SNS, EventBridge and S3 invoke asynchronously; Lambda tries again by itself."""
    assert is_asynchronous(event)


def test_synchronous_sources_are_not_asynchronous() -> None:
    """SQS and API Gateway wait for the answer."""
    assert not is_asynchronous(samples.batch(samples.sqs_record({})))
    assert not is_asynchronous(samples.rest())


# ------------------------------------------------------------------ made by a parser


class Order(BaseModel):
    """A detail that prints less than it holds."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)
    order_id: int = 5
    note: str = Field(default="", exclude=True)
    cents: float = 1
    parsed: str = Field(default_factory=lambda: str(uuid4()), exclude=True)

    @field_serializer("cents")
    def _whole(self, cents: float) -> int:
        return round(cents)


class Amended(Order):
    reason: str = ""


class Cancelled(Order):
    pass


class Placed(EventBridgeModel):
    detail: Order


class Changed(EventBridgeModel):
    detail: Order | Cancelled


class Charged(SqsRecordModel):
    body: Order


def _placed(order: Order, kind: type[EventBridgeModel] = Placed) -> EventBridgeModel:
    event = kind.model_validate(eventbridge_event(order.model_dump(by_alias=True)))
    return event.model_copy(update={"detail": order})


def _charged(order: Order) -> Charged:
    (record,) = sqs_event({})["Records"]
    return Charged.model_validate(record | {"body": order.model_dump(by_alias=True)}).model_copy(
        update={"body": order}
    )


HOLDERS: dict[str, tuple[str, Callable[[Order], Any]]] = {
    "an event": ("event", _placed),
    "an event as an argument": ("function", _placed),
    "a record as an argument": ("function", _charged),
}


def _runs(decorator: str, *events: object, key: Any = None) -> list[type[Exception]]:
    """Deliver *events*; return the errors, and Exception for each that was a duplicate."""
    once, ran = Once(store=MemoryStore(), service="shop"), 0
    outcomes: list[type[Exception]] = []

    def work(event: Any) -> None:
        nonlocal ran
        ran += 1

    handler = getattr(once, decorator)(name="work", key=key)(work)
    for event in events:
        before = ran
        try:
            handler(event, *([lambda_context()] if decorator == "event" else []))
        except OnceError as error:
            outcomes.append(type(error))
        else:
            outcomes += [Exception] * (ran == before)
    return outcomes


@pytest.mark.parametrize("key", [None, lambda _: 5], ids=["hash", "key="])
@pytest.mark.parametrize(
    "other",
    [Order(note="other"), Order(cents=1.2), Amended(reason="other"), Order(parsed="given")],
    ids=["an excluded field", "a field that a serialiser rounds", "a subclass", "a field that was given"],
)
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_parsed_event_counts_by_what_it_holds(holder: str, other: Order, key: Any) -> None:
    """As any other model does, and not as it prints: the second order isn't the first."""
    decorator, hold = HOLDERS[holder]
    first = hold(Order())
    assert _runs(decorator, first, hold(Order()), key=key) == [Exception]
    assert _runs(decorator, first, hold(other), key=key) == ([] if key is None else [KeyReused])


def test_the_class_counts_in_a_union_of_details() -> None:
    """Where only the class says what happened."""
    first, again, other = (
        _placed(order, Changed) for order in (Order(note="a"), Order(note="a"), Cancelled(note="a"))
    )
    assert _runs("event", first, again) == [Exception]
    assert _runs("event", first, other) == []


def test_a_parsed_event_is_the_event_that_it_was_made_of() -> None:
    """Under the names of the source: a parser that is added renames no token."""
    sent = eventbridge_event({"orderId": 5, "note": "a", "cents": 1.2})
    assert _runs("event", sent, Placed.model_validate(sent)) == [Exception]


def test_a_field_that_is_not_printed_names_the_caller() -> None:
    """An identity with ``exclude=True`` is an identity: another user's call is other work."""

    class Call(BaseModel):
        info: dict[str, str]
        arguments: dict[str, int]
        identity: dict[str, str] = Field(exclude=True)

    info = {"fieldName": "pay", "parentTypeName": "Mutation"}
    alice, bob = (
        Call(info=info, arguments={"orderId": 5}, identity={"sub": name, "issuer": "i"})
        for name in ("a", "b")
    )
    assert _runs("event", alice, alice, key="arguments.orderId") == [Exception]
    assert _runs("event", alice, bob, key="arguments.orderId") == []


def test_of_two_fields_that_share_a_name_the_first_has_it() -> None:
    """As in Powertools' models, which read one time as two fields: the other names stay the source's."""

    class Happened(EventBridgeModel):
        text: str = Field("", alias="note")
        again: str = Field("", alias="note")

    sent = eventbridge_event({"orderId": 5}) | {"note": "a"}
    assert _runs("event", sent, Happened.model_validate(sent)) == [Exception]


def test_an_empty_model_is_an_empty_detail() -> None:
    """A schedule's detail is: the next tick is other work."""

    class Tick(EventBridgeModel):
        detail: RootModel[dict[str, int]]

    ticks = [
        Tick.model_validate(eventbridge_event({}, "Scheduled Event", event_id=name))
        for name in ("1", "1", "2")
    ]
    assert _runs("event", *ticks) == [Exception]


def test_a_field_that_is_neither_printed_nor_canonical_does_not_count() -> None:
    """As in any other model, be it the event itself."""

    class Looked(BaseModel):
        info: str
        client: Any = Field(exclude=True)

    assert _runs("event", Looked(info="a", client=object()), Looked(info="a", client=object())) == [Exception]
    assert _runs("event", Looked(info="a", client=1), Looked(info="a", client=2)) == []
