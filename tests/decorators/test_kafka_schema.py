"""`once.kafka(schema=…)`: values that Powertools' Kafka consumer decodes."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from avro.io import BinaryEncoder, DatumWriter
from avro.schema import parse as avro_schema
from aws_lambda_powertools.utilities.kafka import ConsumerRecords, SchemaConfig, kafka_consumer
from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecordRecords
from aws_lambda_powertools.utilities.kafka.exceptions import KafkaConsumerDeserializationError
from google.protobuf.struct_pb2 import Value as ProtobufValue  # type: ignore[import-untyped]
from pydantic import BaseModel

from lambda_once import KeyMissing, KeyReused, Misconfigured
from lambda_once.testing import kafka_event
from tests.decorators.rig import Rig, in_memory

ORDER = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "orderId", "type": "int"}, {"name": "item", "type": "string"}],
    }
)


class Order(BaseModel):
    orderId: int  # noqa: N815  (the field of the payload)
    item: str


@dataclasses.dataclass
class Bought:
    orderId: int  # noqa: N815  (the field of the payload)
    item: str


def avro(value: object) -> bytes:
    """*value* in Avro, by the schema ORDER."""
    written = io.BytesIO()
    DatumWriter(avro_schema(ORDER)).write(value, BinaryEncoder(written))
    return written.getvalue()


def with_format(event: Any, data_format: str, schema_id: str = "1") -> Any:
    """*event* from a mapping with a schema registry."""
    for records in event["records"].values():
        for record in records:
            record["valueSchemaMetadata"] = {"dataFormat": data_format, "schemaId": schema_id}
    return event


AVRO = SchemaConfig(value_schema_type="AVRO", value_schema=ORDER)
JSON = SchemaConfig(value_schema_type="JSON")
TEA = {"orderId": 5, "item": "tea"}


@pytest.mark.parametrize(
    ("schema", "value"),
    [(AVRO, avro(TEA)), (JSON, TEA)],
    ids=["avro", "json"],
)
def test_the_function_gets_the_decoded_value(rig: Rig, schema: SchemaConfig, value: object) -> None:
    """The record is Powertools' ConsumerRecordRecords; a redelivery is replayed."""
    seen: list[object] = []

    @rig.once.kafka(schema=schema)
    def handler(record: ConsumerRecordRecords) -> None:
        seen.append(record.value)

    event = kafka_event(value)
    handler(event, rig.context())
    handler(event, rig.context())
    assert seen == [TEA]


@in_memory
def test_protobuf_is_decoded(rig: Rig) -> None:
    """The schema is the message class, as in Powertools."""
    seen: list[object] = []
    schema = SchemaConfig(value_schema_type="PROTOBUF", value_schema=ProtobufValue)
    handler = rig.once.kafka(schema=schema, key="@", name="work")(lambda record: seen.append(record.value))
    handler(kafka_event(ProtobufValue(string_value="order-5").SerializeToString()), rig.context())
    handler(
        kafka_event(ProtobufValue(string_value="order-5").SerializeToString(), first_offset=1), rig.context()
    )
    assert seen == ["order-5"]


@in_memory
def test_a_key_sees_the_decoded_value(rig: Rig) -> None:
    """key=, ignore= and the fingerprint are over the value by its schema."""
    seen: list[object] = []
    handler = rig.once.kafka(schema=AVRO, key="orderId", name="work")(
        lambda record: seen.append(record.value)
    )
    handler(kafka_event(avro(TEA)), rig.context())
    handler(kafka_event(avro(TEA), first_offset=1), rig.context())
    assert seen == [TEA]
    with pytest.raises(KeyReused, match="different: @bytes, item"):
        handler(kafka_event(avro({**TEA, "item": "milk"}), first_offset=2), rig.context())


@in_memory
@pytest.mark.parametrize("made", [Order, Bought])
def test_a_serializer_of_the_schema_is_obeyed(rig: Rig, made: Any) -> None:
    """With value_output_serializer the record's value is of that type; key= sees its fields."""
    seen: list[object] = []
    schema = SchemaConfig(value_schema_type="AVRO", value_schema=ORDER, value_output_serializer=made)
    handler = rig.once.kafka(schema=schema, key="orderId", name="work")(
        lambda record: seen.append(record.value)
    )
    handler(kafka_event(avro(TEA)), rig.context())
    handler(kafka_event(avro(TEA), first_offset=1), rig.context())
    assert seen == [made(**TEA)]


@in_memory
def test_a_model_is_made_of_the_decoded_value(rig: Rig) -> None:
    """model= goes with schema=."""
    seen: list[Order] = []

    @rig.once.kafka(schema=AVRO, model=Order)
    def handler(order: Order) -> None:
        seen.append(order)

    handler(kafka_event(avro(TEA)), rig.context())
    assert seen == [Order(orderId=5, item="tea")]


@in_memory
def test_the_default_key_compares_what_was_sent(rig: Rig) -> None:
    """A later version of the schema decodes the same bytes to another value: the record is the same."""
    seen: list[object] = []
    wider = json.loads(ORDER)
    wider["fields"][1]["name"] = "article"
    event = kafka_event(avro(TEA))
    later = SchemaConfig(value_schema_type="AVRO", value_schema=json.dumps(wider))
    for schema in (AVRO, later):
        handler = rig.new().kafka(schema=schema, name="orders")(lambda record: seen.append(record.value))
        handler(event, rig.context())
    assert len(seen) == 1


@in_memory
def test_a_tombstone_has_no_schema(rig: Rig) -> None:
    """It runs; the record's own value raises in Powertools, so the raw one tells."""
    seen: list[object] = []

    @rig.once.kafka(schema=AVRO)
    def handler(record: ConsumerRecordRecords) -> None:
        seen.append(record.original_value)
        with pytest.raises(KafkaConsumerDeserializationError):
            _ = record.value

    handler(kafka_event(None), rig.context())
    assert seen == [None]


# -- frames of schema registries

CONFLUENT = b"\0\0\0\0\5"  # the magic byte and the schema's id
GLUE = b"\3\5" + b"u" * 16  # version, compression, the schema version's UUID
DECLARED = SchemaConfig(value_schema_type="AVRO", value_schema=ORDER, value_schema_wire_format="CONFLUENT")


Warned = Callable[[Any, SchemaConfig | None], list[str]]


@pytest.fixture
def warned(rig: Rig, capsys: pytest.CaptureFixture[str]) -> Warned:
    """Deliver an event twice; return what was logged of frames."""

    def deliver(event: Any, schema: SchemaConfig | None) -> list[str]:
        handler = rig.once.kafka(schema=schema, name="work", on_give_up=lambda *_: None)(lambda _record: None)
        for request in ("request-1", "request-2"):
            handler(event, rig.context(request))
        logged = map(json.loads, capsys.readouterr().out.splitlines())
        return [each["reason"] for each in logged if each.get("message") == "once.framed_value"]

    return deliver


@in_memory
@pytest.mark.parametrize("schema", [None, AVRO, JSON], ids=["no schema", "avro", "json"])
@pytest.mark.parametrize(("name", "frame"), [("Confluent", CONFLUENT), ("AWS Glue", GLUE)])
def test_a_frame_that_nothing_declares_is_warned_of(
    warned: Warned, name: str, frame: bytes, schema: SchemaConfig | None
) -> None:
    """Once for a function, with the ways out; the record runs, since a value may begin so without a frame."""
    (reason,) = warned(kafka_event(None, frame + avro(TEA), frame + avro(TEA)), schema)
    assert reason.startswith(f"the first value begins as {name}'s frame does")
    assert "SchemaRegistryConfig" in reason
    assert "value_schema_wire_format" in reason
    assert "tea" not in reason


@in_memory
@pytest.mark.parametrize(
    ("event", "schema"),
    [
        (with_format(kafka_event(CONFLUENT + avro(TEA)), "AVRO", "7"), AVRO),
        (with_format(kafka_event(GLUE + avro(TEA)), "AVRO", "7"), None),
        (kafka_event(CONFLUENT + avro(TEA)), DECLARED),
        (kafka_event(TEA, CONFLUENT + avro(TEA)), None),
        (kafka_event(CONFLUENT[:4]), None),
        (kafka_event(b"\3\1" + GLUE[2:]), None),
        (kafka_event(GLUE[:17]), None),
        (kafka_event(None), None),
        (kafka_event(avro(TEA)), AVRO),
    ],
    ids=[
        *("declared by the mapping", "by the mapping, without a schema", "declared by the schema"),
        *("a later value", "too short", "another compression", "short for Glue", "a tombstone", "no frame"),
    ],
)
def test_what_is_declared_or_no_frame_is_not_warned_of(
    warned: Warned, event: Any, schema: SchemaConfig | None
) -> None:
    """A mapping's registry has removed the frame; only the first value is looked at."""
    assert warned(event, schema) == []


@in_memory
def test_a_frame_of_no_base64_is_a_bad_record_alone(warned: Warned) -> None:
    """It has an error of its own."""
    event = kafka_event("x")
    event["records"]["orders-0"][0]["value"] = "%"
    assert warned(event, None) == []


@in_memory
def test_framed_orders_that_a_reader_takes_for_one_are_key_reused(rig: Rig) -> None:
    """A mapping without registry: the reader takes the frame for the order, and both for zeros."""
    handler = rig.once.kafka(schema=AVRO, key="orderId", name="work")(lambda _record: None)
    first, second = (CONFLUENT + avro({"orderId": n, "item": ""}) for n in (5, 6))
    handler(kafka_event(first), rig.context())
    with pytest.raises(KeyReused, match="@bytes"):
        handler(kafka_event(second, first_offset=1), rig.context())


@in_memory
@pytest.mark.parametrize("beside", ["@origin", "@attributes", "@attributes.sentAt"])
def test_what_is_ignored_beside_the_value_is_not_in_its_bytes(rig: Rig, beside: str) -> None:
    """So the bytes are compared all the same, and are the payload, not attributes."""
    handler = rig.once.kafka(schema=AVRO, key="orderId", name="work", ignore=(beside,))(lambda _record: None)
    first, second = (CONFLUENT + avro({"orderId": n, "item": ""}) for n in (5, 6))
    handler(kafka_event(first), rig.context())
    with pytest.raises(KeyReused, match=r"for another payload.*@bytes"):
        handler(kafka_event(second, first_offset=1), rig.context())


@in_memory
@pytest.mark.parametrize(
    "options", [{"fingerprint": "orderId"}, {"ignore": ("item",)}, {"ignore": ("@bytes",)}]
)
def test_a_narrower_fingerprint_compares_no_bytes(rig: Rig, options: Any) -> None:
    """They have all that it leaves out."""
    seen: list[object] = []
    handler = rig.once.kafka(schema=AVRO, key="orderId", name="work", **options)(
        lambda record: seen.append(record.value)
    )
    for n, each in enumerate((TEA, TEA | {"item": "tea" if "@bytes" in str(options) else "coffee"})):
        handler(kafka_event(avro(each) + b"x" * n, first_offset=n), rig.context())
    assert seen == [TEA]


@in_memory
@pytest.mark.parametrize(("index", "is_read"), [(b"\0", True), (b"\2\2", False)], ids=["first", "second"])
def test_only_a_files_first_protobuf_message_is_read_under_confluents_frame(
    rig: Rig, index: bytes, is_read: bool
) -> None:
    """
    docs/sources.md, "Kafka".

    The mapping leaves the message's index before the value. Powertools 3.37 reads its zigzag varints as
    plain ones.
    """
    seen: list[object] = []
    schema = SchemaConfig(value_schema_type="PROTOBUF", value_schema=ProtobufValue)
    value = index + ProtobufValue(string_value="order-5").SerializeToString()
    event = with_format(kafka_event(value), "PROTOBUF", "8")
    handler = rig.once.kafka(schema=schema, name="work", on_give_up=lambda *_: None)(
        lambda record: seen.append(record.value)
    )
    handler(event, rig.context())
    assert (seen == ["order-5"]) is is_read


@in_memory
@pytest.mark.parametrize("schema", [None, JSON], ids=["no schema", "json"])
def test_a_tombstone_is_told_by_its_original_value(rig: Rig, schema: SchemaConfig | None) -> None:
    """docs/sources.md, "Kafka": what decodes the value raises."""
    seen: list[object] = []

    def work(record: Any) -> None:
        seen.append(record.original_value if schema is not None else record.value)
        with pytest.raises((KafkaConsumerDeserializationError, TypeError)):
            _ = record.json_value if schema is None else record.value

    rig.once.kafka(schema=schema, name="work")(work)(kafka_event(None), rig.context())
    assert seen == [None]


# -- bad input


@in_memory
@pytest.mark.parametrize(
    ("event", "says"),
    [
        (kafka_event("a", b"\xff", "c"), "KafkaConsumerDeserializationError"),
        (
            with_format(kafka_event(*[avro(TEA)] * 3), "PROTOBUF"),
            "KafkaConsumerDeserializationFormatMismatch",
        ),
    ],
    ids=["other bytes", "another format"],
)
def test_a_value_of_an_unknown_schema_fails_its_record(rig: Rig, event: Any, says: str) -> None:
    """It stops the partition, or is parked; the message names the class of the error and no content."""
    parked: list[str] = []
    done: list[object] = []
    options: dict[str, Any] = {"on_give_up": lambda _record, error: parked.append(str(error))}
    with pytest.raises(KeyMissing, match=rf"does not fit its schema \({says}\); not processed") as raised:
        rig.once.kafka(schema=AVRO)(done.append)(event, rig.context())
    assert raised.value.__cause__ is None
    rig.once.kafka(schema=AVRO, **options)(done.append)(event, rig.context())
    assert len(parked) == 3
    assert done == []


@in_memory
def test_a_value_that_is_no_base64_is_refused(rig: Rig) -> None:
    """Powertools would skip foreign characters, and decode something else."""
    event = kafka_event(avro(TEA))
    value = event["records"]["orders-0"][0]["value"]
    event["records"]["orders-0"][0]["value"] = f"%{value}"
    with pytest.raises(KeyMissing, match="is not base64"):
        rig.once.kafka(schema=AVRO, name="work")(lambda _record: None)(event, rig.context())


@in_memory
def test_a_serializer_that_raises_fails_its_record(rig: Rig) -> None:
    """It is the user's, and may raise anything."""

    def broken(_value: object) -> object:
        raise ZeroDivisionError

    schema = SchemaConfig(value_schema_type="JSON", value_output_serializer=broken)
    with pytest.raises(KeyMissing, match=r"does not fit its schema \(ZeroDivisionError\)"):
        rig.once.kafka(schema=schema, name="work")(lambda _record: None)(kafka_event(TEA), rig.context())


# -- when decorated


@pytest.mark.parametrize("schema", ["AVRO", {}, SchemaConfig, ProtobufValue])
def test_what_is_no_schema_is_refused(schema: Any) -> None:
    """Before the first event."""
    with pytest.raises(Misconfigured, match="schema= must be Powertools' SchemaConfig, not a "):
        Rig().once.kafka(schema=schema)


def test_a_schema_that_cannot_be_read_is_refused() -> None:
    """An Avro schema is parsed when decorated."""
    schema = SchemaConfig(value_schema_type="AVRO", value_schema='{"type": "recrod"}')
    with pytest.raises(Misconfigured, match="schema= cannot be read: KafkaConsumerAvroSchemaParserError"):
        Rig().once.kafka(schema=schema)


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What Powertools needs for Avro or Protobuf is an extra of it."""
    import sys

    monkeypatch.setitem(sys.modules, "aws_lambda_powertools.utilities.kafka.deserializer.avro", None)
    monkeypatch.setattr(
        "aws_lambda_powertools.utilities.kafka.deserializer.deserializer._deserializer_cache", {}
    )
    with pytest.raises(Misconfigured, match=r"install aws-lambda-powertools\[kafka-consumer-avro\]"):
        Rig().once.kafka(schema=AVRO)


@in_memory
def test_the_consumer_of_powertools_outside_is_refused(rig: Rig) -> None:
    """Its schema would be lost, so the message says where it belongs; without a schema it does no harm."""
    seen: list[object] = []
    handler: Any = rig.once.kafka(name="work")(lambda record: seen.append(record.decoded_value))
    with pytest.raises(Misconfigured, match=r"pass its schema_config to once\.kafka as schema="):
        kafka_consumer(schema_config=AVRO)(handler)(kafka_event(avro(TEA)), rig.context())
    handler(ConsumerRecords(kafka_event("x")), rig.context())
    assert seen == [b"x"]
    assert base64.b64decode(kafka_event("x")["records"]["orders-0"][0]["value"]) == b"x"
