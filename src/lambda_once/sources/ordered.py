"""
Sources whose records come in sequences: Kinesis, DynamoDB Streams, Amazon MQ and Kafka.

Records of MQ and Kafka are read as EventBridge Pipes sends them, with what the event says of all; those of
Kinesis as Lambda does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn

from lambda_once.core.unit import NOTHING, Unit, itself
from lambda_once.errors import Misconfigured
from lambda_once.sources.envelopes import BadData, at, decoded, parse, parse_bytes
from lambda_once.sources.kafka_schema import record_class, schema_value
from lambda_once.sources.records import (
    Raw,
    RecordIds,
    RecordSource,
    piped,
    reader,
    records_of,
    text_at,
    wrapped,
)
from lambda_once.sources.source import Parsed, Source, misplaced, source_of

if TYPE_CHECKING:
    from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig


def _grouped(event: object, source: Source, field: str) -> list[list[object]]:
    """
    Return the records of *event*, which Lambda sends under *field* as a list, or as lists by a name.

    Each has what the event says of all, and the name of its list as eventSourceKey. Raises `Misconfigured`
    for an event of another source.
    """
    if isinstance(event, list):
        groups: dict[object, list[object]] = {}
        for record in piped(event, source):
            groups.setdefault(text_at(record, "eventSourceKey"), []).append(record)
        return [*groups.values()]
    found = at(event, field) if at(event, "eventSource") in source.of_event else None
    lists = {None: found} if isinstance(found, list) else found
    if not isinstance(event, Mapping) or not isinstance(lists, Mapping):
        raise misplaced(str(source.decorator), source_of(event), event)
    if not all(isinstance(each, list) for each in lists.values()):
        raise misplaced(str(source.decorator), source, event)
    shared = {name: value for name, value in event.items() if name != field}
    return [
        [
            {**shared, **({} if name is None else {"eventSourceKey": name}), **record}
            if isinstance(record, dict)
            else record
            for record in records
        ]
        for name, records in lists.items()
    ]


def _read_data(data: object, name: str = "data", raw: Raw | None = None) -> object:
    """
    Return *data*, base64, as JSON, text or bytes; that of *raw*, which was parsed, may be read already.

    Raises `BadData` with the *name* of the field.
    """
    if isinstance(raw, Parsed) and not isinstance(data, str | bytes | None):
        return data
    try:
        return parse_bytes(data if isinstance(data, bytes) else decoded(data))
    except BadData as error:
        raise BadData(f"has {name} that {error}") from None


def _in_stream(raw: Raw, ids: RecordIds) -> tuple[str, str]:
    """Return the eventID of *raw*, a record of a stream, and the ARN that it is unique within."""
    if ids.label is None:
        raise BadData("has no sequence number")
    event_id, arn = text_at(raw, "eventID"), text_at(raw, "eventSourceARN")
    if event_id is None or arn is None:
        raise BadData("has no eventID or no eventSourceARN")
    return event_id, arn


# -- Kinesis Data Streams: the data of a record is the payload. A batch is of one shard.

_KPL_MAGIC: Final = b"\xf3\x89\x9a\xc2"
_KPL_DIGEST: Final = 16
"""Kinesis Producer Library, "KPL Aggregated Record Format": magic number, Protobuf message, its MD5."""
_NESTED: Final = (
    *("kinesisSchemaVersion", "partitionKey", "sequenceNumber", "data"),
    "approximateArrivalTimestamp",
)


def _kinesis_records(event: object) -> list[list[object]]:
    return [[_nested(raw) for raw in records_of(event, Source.KINESIS)]]


def _nested(raw: object) -> object:
    """Return *raw* as Lambda sends it: EventBridge Pipes has the fields of ``kinesis`` beside the others."""
    if not isinstance(raw, dict) or "kinesis" in raw:
        return raw
    inner = {name: raw[name] for name in _NESTED if name in raw}
    return {**{name: value for name, value in raw.items() if name not in inner}, "kinesis": inner}


def _kinesis_ids(raw: Raw) -> RecordIds:
    number = text_at(raw, "kinesis", "sequenceNumber")
    return RecordIds(number, number, text_at(raw, "kinesis", "partitionKey"))


def _kinesis_unit(raw: Raw, ids: RecordIds, record: Any) -> Unit:
    event_id, arn = _in_stream(raw, ids)
    payload = _read_data(raw["kinesis"].get("data"), raw=raw)
    if isinstance(payload, bytes) and _is_aggregated(payload):
        raise BadData(
            "is aggregated by the Kinesis Producer Library, so it holds several records; turn off "
            "AggregationEnabled, or split it in a handler of your own with once.run for each"
        )
    unread = None
    if isinstance(payload, bytes) and payload.startswith(_KPL_MAGIC):
        unread = f"Record {event_id} begins like one of the Kinesis Producer Library, without its checksum."
    # A consumer with enhanced fan-out has an ARN of its own, below the stream's.
    key = f"{arn.partition('/consumer/')[0]}/{event_id}"
    parsed = not isinstance(payload, bytes)
    return Unit(payload, raw, record, event_id, itself, key, parsed=parsed, unread=unread)


def _is_aggregated(data: bytes) -> bool:
    if not data.startswith(_KPL_MAGIC):  # which is no UTF-8
        return False
    message, found = data[len(_KPL_MAGIC) : -_KPL_DIGEST], data[-_KPL_DIGEST:]
    return hashlib.md5(message, usedforsecurity=False).digest() == found


_KINESIS_RECORD: Final = "kinesis_stream_event.KinesisStreamRecord"
KINESIS: Final = RecordSource(
    Source.KINESIS,
    reader(_kinesis_ids, _kinesis_unit, partial(wrapped, _KINESIS_RECORD)),
    "the data",
    "the eventID, within the stream's ARN",
    _kinesis_records,
    piped_id="eventID",
    needs=(_KINESIS_RECORD,),
)


# -- DynamoDB Streams: a change in plain values is the payload. A batch is of one shard.
# Numbers are as in a JSON body (`envelopes.parse`), sets are sets, binary is bytes.

_CHANGES: Final = ("INSERT", "MODIFY", "REMOVE")
_ITEMS: Final = ("Keys", "NewImage", "OldImage")


def _change_ids(raw: Raw) -> RecordIds:
    number, keys = text_at(raw, "dynamodb", "SequenceNumber"), at(raw, "dynamodb", "Keys")
    item = json.dumps(keys, sort_keys=True) if isinstance(keys, Mapping) and keys else None
    return RecordIds(number, number, item)


def _change_unit(raw: Raw, ids: RecordIds, record: Any) -> Unit:
    event_id, arn = _in_stream(raw, ids)
    if raw.get("eventName") not in _CHANGES or ids.group is None:
        raise BadData(f"has no Keys, or its eventName is none of {', '.join(_CHANGES)}")
    change = raw["dynamodb"]
    read = dict if isinstance(raw, Parsed) else _plain_item
    items = {name: read(change[name]) for name in _ITEMS if change.get(name) is not None}
    payload = {"eventName": raw["eventName"], **items}
    return Unit(payload, raw, record, event_id, itself, f"{arn}/{event_id}", parsed=False)


def _plain_item(item: object) -> dict[str, object]:
    if not isinstance(item, Mapping):
        _refuse("an item that is not an object")
    return {name: _plain(value) for name, value in item.items()}


def _plain(value: object) -> object:
    if not isinstance(value, Mapping) or len(value) != 1:
        _refuse("an attribute value that is not one type and its content")
    ((kind, content),) = value.items()
    if kind not in _TYPES:
        _refuse("an attribute value of an unknown type")
    return _TYPES[kind](content)


def _is(kind: type, otherwise: str) -> Callable[[object], object]:
    return lambda content: content if isinstance(content, kind) else _refuse(otherwise)


def _number(content: object) -> int | float | Decimal:
    found = parse(content) if isinstance(content, str) else None
    if isinstance(found, int | float | Decimal) and not isinstance(found, bool):
        return found
    return _refuse("an N that is not a number")


def _binary(content: object) -> bytes:
    try:
        return decoded(content)
    except BadData:
        return _refuse("binary data that is not base64")


def _members(content: object) -> list[object]:
    return content if isinstance(content, list) else _refuse("a list or set that is not an array")


def _refuse(what: str) -> NoReturn:
    raise BadData(f"has {what}")


_text: Final = _is(str, "an S that is not text")
_TYPES: Final[dict[object, Callable[[object], object]]] = {
    "S": _text,
    "N": _number,
    "B": _binary,
    "BOOL": _is(bool, "a BOOL that is not true or false"),
    "NULL": lambda _: None,
    "M": _plain_item,
    "L": lambda content: [_plain(each) for each in _members(content)],
    "SS": lambda content: {_text(each) for each in _members(content)},
    "NS": lambda content: {_number(each) for each in _members(content)},
    "BS": lambda content: {_binary(each) for each in _members(content)},
}
"""How each type is read (DynamoDB API reference, AttributeValue)."""

_DYNAMODB_RECORD: Final = "dynamo_db_stream_event.DynamoDBRecord"
DYNAMODB_STREAM: Final = RecordSource(
    Source.DYNAMODB,
    reader(_change_ids, _change_unit, partial(wrapped, _DYNAMODB_RECORD)),
    "eventName, Keys, NewImage and OldImage in plain values",
    "the eventID, within the stream's ARN",
    piped_id="eventID",
    needs=(_DYNAMODB_RECORD,),
)


# -- Amazon MQ, ActiveMQ or RabbitMQ: the data of a message is the payload.


_ACTIVE: Final = "active_mq_event.ActiveMQMessage"
_RABBIT: Final = "rabbit_mq_event.RabbitMessage"


def _is_rabbit(value: object) -> bool:
    return at(value, "eventSource") == "aws:rmq"


def _messages(event: object) -> list[list[object]]:
    return _grouped(event, Source.MQ, "rmqMessagesByQueue" if _is_rabbit(event) else "messages")


def _message(raw: Raw) -> Any:
    return wrapped(_RABBIT if _is_rabbit(raw) else _ACTIVE, raw)


def _message_ids(raw: Raw) -> RecordIds:
    """Return the id of *raw*; of RabbitMQ the sender's, which not every sender gives."""
    id_ = text_at(raw, "basicProperties", "messageId") if _is_rabbit(raw) else text_at(raw, "messageID")
    return RecordIds(id_)


def _message_unit(raw: Raw, ids: RecordIds, record: Any) -> Unit:
    queue = text_at(raw, "eventSourceKey") if _is_rabbit(raw) else None
    if _is_rabbit(raw) and queue is None:
        raise BadData("has no queue")
    if not _is_rabbit(raw) and ids.label is None:
        raise BadData("has no messageID")
    payload = _read_data(raw.get("data"))
    return Unit(
        payload,
        raw,
        record,
        ids.label,
        itself,
        NOTHING if ids.label is None else ids.label,
        within=NOTHING if queue is None else queue,  # a sender's id counts in its queue
        parsed=not isinstance(payload, bytes),
        redelivered=raw.get("redelivered") is True,
    )


MQ: Final = RecordSource(
    Source.MQ,
    reader(_message_ids, _message_unit, _message),
    "the data",
    "the messageID; of RabbitMQ messageId, within the queue and virtual host",
    _messages,
    needs=(_ACTIVE, _RABBIT),
)


# -- Kafka, Amazon MSK or self-managed: the value of a record is the payload. Each partition is a sequence.

_MOST_OFFSET_DIGITS: Final = 19  # an offset is a signed integer of 64 bits
_KAFKA_RECORD: Final = "kafka_event.KafkaEventRecord"


def kafka_source(schema: SchemaConfig | None = None) -> RecordSource:
    """
    Return the source of records whose values have *schema*; None: of text, JSON where it is JSON, or bytes.

    Raises `Misconfigured` if *schema* is none, or cannot be read.
    """
    identity = "topic, partition and offset, within the cluster"
    if schema is None:
        read = reader(_kafka_ids, partial(_kafka_unit, _plain_value), partial(wrapped, _KAFKA_RECORD))
        return RecordSource(Source.KAFKA, read, "the value", identity, _partitions, needs=(_KAFKA_RECORD,))
    read = reader(_kafka_ids, partial(_kafka_unit, schema_value), record_class(schema))
    return RecordSource(Source.KAFKA, read, "the value, by its schema", identity, _partitions)


def _partitions(event: object) -> list[list[object]]:
    if getattr(event, "schema_config", None) is not None:
        raise Misconfigured(
            "once.kafka received the records of Powertools' kafka_consumer. Nothing ran. "
            "Remove that decorator and pass its schema_config to once.kafka as schema="
        )
    return _grouped(event, Source.KAFKA, "records")


def _kafka_ids(raw: Raw) -> RecordIds:
    topic, partition, offset = text_at(raw, "topic"), _whole(at(raw, "partition")), _whole(at(raw, "offset"))
    if topic is None or partition is None or offset is None:
        return RecordIds()
    # AWS Lambda developer guide, Kafka, "Partial batch response".
    id_ = {"partition": f"{topic}-{partition}", "offset": offset}
    return RecordIds(f"{topic}-{partition}/{offset}", id_)


def _plain_value(record: Any) -> object:
    return _read_data(record.raw_event["value"], "a value")


def _kafka_unit(value_of: Callable[[Any], object], raw: Raw, ids: RecordIds, record: Any) -> Unit:
    if ids.label is None:
        raise BadData("has no topic, partition or offset")
    cluster = _cluster(raw)
    if cluster is None:
        raise BadData("has no eventSourceArn and no bootstrapServers")
    value = raw.get("value")
    payload = None if value is None else value_of(record)  # None: a tombstone, the key's value is deleted
    # A topic that is made again begins at 0, with other records.
    stamp = {"timestamp": raw.get("timestamp"), "value": value}
    parsed = value_of is _plain_value and not isinstance(payload, bytes)
    return Unit(payload, raw, record, ids.label, itself, f"{cluster}/{ids.label}", stamp=stamp, parsed=parsed)


def _cluster(raw: Raw) -> str | None:
    """Return the cluster of *raw*: its ARN, or its bootstrap servers in one order."""
    servers = text_at(raw, "bootstrapServers")
    return text_at(raw, "eventSourceArn") or (servers and ",".join(sorted(servers.split(","))))


def _whole(number: object) -> int | None:
    """Return *number*, which EventBridge Pipes writes as text for some; None if it is none."""
    if isinstance(number, str) and number.isdecimal() and len(number) <= _MOST_OFFSET_DIGITS:
        return int(number)
    return number if isinstance(number, int) and not isinstance(number, bool) else None
