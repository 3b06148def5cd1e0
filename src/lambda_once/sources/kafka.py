"""
Kafka, Amazon MSK or self-managed: a record is a unit, its value the payload. Each partition is an order.

A record is read as EventBridge Pipes sends it, with its cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import NotBase64, TooDeep, at, decoded, parse_bytes
from lambda_once.sources.records import EventRecord, RecordSource, grouped, malformed, text_at
from lambda_once.sources.source import Source
from lambda_once.sources.unit import Malformed, Unit, itself

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig

Make = Callable[[dict[str, Any]], Any]
"""From a record to Powertools' data class of it."""


class Undecoded(ValueError):
    """The value of a record does not fit its schema."""


def kafka_source(schema: SchemaConfig | None = None) -> RecordSource:
    """
    Return the source of records whose values have *schema*; None: of text, JSON where it is JSON, or bytes.

    Raises `Misconfigured` if *schema* is none, or cannot be read.
    """
    if schema is None:
        read = partial(_read, _kafka_event_record, _plain_value)
        return RecordSource(Source.KAFKA, read, "the value", _IDENTITY, _partitions, needs=("kafka_event",))
    read = partial(_read, _consumer_record(schema), _schema_value)
    return RecordSource(Source.KAFKA, read, "the value, by its schema", _IDENTITY, _partitions)


_MOST_DIGITS: Final = 19  # an offset is a signed integer of 64 bits
_IDENTITY: Final = "topic, partition and offset, within the cluster"


def _partitions(event: object) -> list[list[object]]:
    if getattr(event, "schema_config", None) is not None:
        raise Misconfigured(
            "once.kafka received the records of Powertools' kafka_consumer. Nothing ran. "
            "Remove that decorator and pass its schema_config to once.kafka as schema="
        )
    return grouped(event, Source.KAFKA, "records")


def _read(make: Make, value_of: Callable[[Any], object], raw: object) -> EventRecord:
    topic, partition, offset = text_at(raw, "topic"), _whole(at(raw, "partition")), _whole(at(raw, "offset"))
    if not isinstance(raw, dict) or topic is None or partition is None or offset is None:
        return EventRecord(None, None, malformed(None, "has no topic, partition or offset"), raw)
    # AWS Lambda developer guide, Kafka, "Partial batch response".
    id_ = {"partition": f"{topic}-{partition}", "offset": offset}
    record = make(raw)
    unit = _unit(raw, f"{topic}-{partition}/{offset}", record, value_of)
    return EventRecord(id_, None, unit, record)


def _unit(
    raw: dict[str, Any], place: str, record: Any, value_of: Callable[[Any], object]
) -> Unit | Malformed:
    cluster = _cluster(raw)
    if cluster is None:
        return malformed(place, "has no eventSourceArn and no bootstrapServers")
    value = raw.get("value")
    try:
        payload = None if value is None else value_of(record)  # None: a tombstone, the key's value is deleted
    except (NotBase64, TooDeep, Undecoded) as error:
        return malformed(place, f"has a value that {error}")
    # A topic that is made again begins at 0, with other records.
    stamp = {"timestamp": raw.get("timestamp"), "value": value}
    parsed = not isinstance(payload, bytes) and value_of is _plain_value
    return Unit(payload, raw, record, place, itself, f"{cluster}/{place}", stamp=stamp, parsed=parsed)


def _cluster(raw: Mapping[str, object]) -> str | None:
    """Return the cluster of *raw*: its ARN, or its bootstrap servers in one order."""
    servers = text_at(raw, "bootstrapServers")
    return text_at(raw, "eventSourceArn") or (servers and ",".join(sorted(servers.split(","))))


def _whole(number: object) -> int | None:
    """Return *number*, which EventBridge Pipes writes as text for some; None if it is none."""
    if isinstance(number, str) and number.isdecimal() and len(number) <= _MOST_DIGITS:
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None


# -- values


def _kafka_event_record(raw: dict[str, Any]) -> Any:
    from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord

    return KafkaEventRecord(raw)


def _plain_value(record: Any) -> object:
    return parse_bytes(decoded(record.raw_event["value"]))


def _consumer_record(schema: SchemaConfig) -> Make:
    """Return what makes a record with *schema*. Raises `Misconfigured` if that cannot be read."""
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
    decoded(record.original_value)
    try:
        return record.value
    except Exception as error:  # noqa: BLE001  (the codecs, and a serializer of the user's, may raise anything)
        # Not chained: messages of the codecs repeat the value.
        raise Undecoded(f"does not fit its schema ({type(error).__name__})") from None
