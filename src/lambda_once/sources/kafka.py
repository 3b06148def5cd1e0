"""
`once.kafka`: what happens to a record of a topic, of Amazon MSK or a Kafka of your own.

Its shared reader is in `records`; `streams` runs the batch in the order of each partition and makes the
response, so a failure stops its partition alone. The value of a record is the payload, its position (topic,
partition, offset) the key. A topic that is made again begins at offset 0 with other records, so timestamp
and value are in the key, too.

What we're not happy with: `_schema_value` uses Powertools' consumer, whose class decodes in a property.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord

from lambda_once.core.identity import NOTHING, Content, Identity
from lambda_once.core.unit import Delivered, Unit
from lambda_once.errors import Misconfigured
from lambda_once.sources.attributes import counted_kafka
from lambda_once.sources.envelopes import BadData, Parsed, at, decoded, read_data, text_at
from lambda_once.sources.records import Raw, RecordSource, grouped
from lambda_once.sources.source import Source
from lambda_once.sources.streams import stream_handler

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

_MOST_OFFSET_DIGITS: Final = 19  # an offset is a signed integer of 64 bits
_FRAMES: Final = {
    "Confluent": re.compile(rb"\x00.{4}", re.DOTALL),  # magic byte, schema id (its docs, "Wire format")
    # Header version, compression, schema version's UUID (aws-glue-schema-registry, SerializationDataEncoder)
    "AWS Glue": re.compile(rb"\x03[\x00\x05].{16}", re.DOTALL),
}
_LONGEST_FRAME: Final = 24
"""Characters of base64: 18 bytes."""


def _partitions(event: object) -> list[list[object]]:
    if getattr(event, "schema_config", None) is not None:
        raise Misconfigured(
            "once.kafka received the records of Powertools' kafka_consumer. Nothing ran. "
            "Remove that decorator and pass its schema_config to once.kafka as schema="
        )
    return grouped(event, Source.KAFKA, "records")


def _locate(record_of: Callable[[Raw], Any], raw: Raw) -> Delivered:
    """Return *raw*, made a record by *record_of*, with the id of the AWS Lambda developer guide."""
    record = record_of(raw)
    topic, partition, offset = text_at(raw, "topic"), _whole(at(raw, "partition")), _whole(at(raw, "offset"))
    if topic is None or partition is None or offset is None:
        return Delivered(record, raw)
    id_ = {"partition": f"{topic}-{partition}", "offset": offset}  # Kafka, "Partial batch response"
    return Delivered(record, raw, f"{topic}-{partition}/{offset}", id=id_)


def _read_content(record: Delivered, raw: Raw, *, has_schema: bool = False) -> Unit:
    """Return *record* with the value of *raw*: JSON, text or bytes, unless a schema says otherwise."""
    if record.delivery is None:
        raise BadData("has no topic, partition or offset")
    payload, value, timestamp = None, _as_sent(raw), raw.get("timestamp")
    if value is not None:  # None: a tombstone, the key's value is deleted
        payload = _schema_value(record.argument) if has_schema else read_data(value, "a value", raw)
    if isinstance(timestamp, datetime):  # of a parser
        timestamp = round(timestamp.timestamp() * 1000)
    identity = Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=[raw["topic"]],
        position=[_whole(raw["partition"]), at(record.id, "offset"), timestamp, value],
        attributes=counted_kafka(raw.get("headers")),
        content=Content(
            payload,
            parsed=not (has_schema or isinstance(payload, bytes)),
            data=value if has_schema and value is not None else NOTHING,
        ),
    )
    return Unit(identity, record)


def _as_sent(raw: Raw) -> object:
    """Return the value of *raw* in base64, also where a parser has decoded it to text; else as it is."""
    value = raw.get("value")
    if isinstance(raw, Parsed) and isinstance(value, str | bytes):
        return b64encode(
            value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        ).decode()
    return value


def _whole(number: object) -> int | None:
    """Return *number*, which EventBridge Pipes writes as text for some; None if it is none."""
    if isinstance(number, str) and number.isdecimal() and len(number) <= _MOST_OFFSET_DIGITS:
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def _undeclared_frame(raws: list[object]) -> str | None:
    """
    Return a warning if the first value of *raws* may be in a frame of a schema registry; else None.

    A mapping that knows the registry removes the frame and adds valueSchemaMetadata (Lambda developer guide,
    "Using schema registries with Kafka event sources"). A value that has no frame may begin so, too.
    """
    first = next((raw for raw in raws if text_at(raw, "value") is not None), None)
    if first is None or at(first, "valueSchemaMetadata") is not None:
        return None
    try:
        head = decoded(str(at(first, "value"))[:_LONGEST_FRAME])
    except BadData:
        return None
    registry = next((name for name, frame in _FRAMES.items() if frame.match(head)), None)
    if registry is None:
        return None
    return (
        f"the first value begins as {registry}'s frame does, and the record has no valueSchemaMetadata: what "
        "reads it may take the frame for data. If it is framed, set SchemaRegistryConfig in the event source "
        'mapping, or, for Avro by Confluent, value_schema_wire_format="CONFLUENT" in schema='
    )


def kafka_source(schema: SchemaConfig | None = None) -> RecordSource:
    """
    Return the source of records whose values have *schema*; None: of text, JSON where it is JSON, or bytes.

    Raises `Misconfigured` if *schema* is none, or cannot be read.
    """
    has_schema = schema is not None
    is_frame_declared = getattr(schema, "value_schema_wire_format", None) is not None
    return RecordSource(
        Source.KAFKA,
        partial(_locate, KafkaEventRecord if schema is None else _record_class(schema)),
        partial(_read_content, has_schema=True) if has_schema else _read_content,
        "the value, by its schema" if has_schema else "the value",
        "partition, offset, timestamp and value, within the topic",
        _partitions,
        doubt=None if is_frame_declared else _undeclared_frame,
    )


KAFKA: Final = kafka_source()


def kafka_handler(
    schema: SchemaConfig | None = None,
) -> Callable[[Runtime, Callable[..., Any], Settings], Callable[..., Any]]:
    """
    Return what makes the Lambda handler that runs a function for each record, partition by partition.

    Raises as `kafka_source` does.
    """
    return partial(stream_handler, kafka_source(schema))


# ------------------------------------------------------------------ values by a schema


def _record_class(schema: SchemaConfig) -> Callable[[dict[str, Any]], Any]:
    """Return a function that decodes records by *schema*. Raises `Misconfigured` if the schema is invalid."""
    try:
        from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecordRecords
        from aws_lambda_powertools.utilities.kafka.deserializer.deserializer import get_deserializer
        from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig as Schema

        if isinstance(schema, Schema):
            get_deserializer(schema.value_schema_type, schema.value_schema, None)
    except ImportError as error:
        raise Misconfigured(
            f"schema= needs {error.name}: install aws-lambda-powertools[kafka-consumer-avro] or "
            "aws-lambda-powertools[kafka-consumer-protobuf]"
        ) from error
    except Exception as error:
        raise Misconfigured(f"schema= cannot be read: {type(error).__name__}") from error
    if not isinstance(schema, Schema):
        raise Misconfigured(f"schema= must be Powertools' SchemaConfig, not a {type(schema).__name__}")
    return lambda raw: ConsumerRecordRecords(raw, schema)


def _schema_value(record: Any) -> object:
    """Return the value of *record*, of such a class. Raises `BadData` if it does not fit its schema."""
    try:
        decoded(record.original_value)
    except BadData as error:
        raise BadData(f"has a value that {error}") from None
    try:
        return record.value
    except Exception as error:  # noqa: BLE001  (the codecs, and a serializer of the user's, may raise anything)
        # Not chained: messages of the codecs repeat the value.
        raise BadData(f"has a value that does not fit its schema ({type(error).__name__})") from None
