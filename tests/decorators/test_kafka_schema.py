"""`once.kafka(schema=…)`: values that Powertools' Kafka consumer decodes."""

from __future__ import annotations

import base64
import dataclasses
import io
import json
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
