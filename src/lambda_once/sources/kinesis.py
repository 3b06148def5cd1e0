"""Kinesis Data Streams: a record is a unit, its data the payload. A batch is of one shard."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from lambda_once.sources.envelopes import NotBase64, TooDeep, at, decoded, parse_bytes
from lambda_once.sources.records import EventRecord, RecordSource, malformed, text_at
from lambda_once.sources.source import Source
from lambda_once.sources.unit import Malformed, Unit, itself

_KPL_MAGIC: Final = b"\xf3\x89\x9a\xc2"
_KPL_DIGEST: Final = 16
"""Kinesis Producer Library, "KPL Aggregated Record Format": magic number, Protobuf message, its MD5."""

_INNER: Final = (
    "kinesisSchemaVersion",
    "partitionKey",
    "sequenceNumber",
    "data",
    "approximateArrivalTimestamp",
)


def _read(raw: object) -> EventRecord:
    from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord

    raw = _nested(raw)
    id_ = text_at(raw, "kinesis", "sequenceNumber")
    group = text_at(raw, "kinesis", "partitionKey")
    record = KinesisStreamRecord(raw) if isinstance(raw, dict) else raw
    return EventRecord(id_, group, _unit(raw, id_, record), record)


def _nested(raw: object) -> object:
    """Return *raw* as Lambda sends it: EventBridge Pipes has the fields of ``kinesis`` beside the others."""
    if not isinstance(raw, dict) or "kinesis" in raw:
        return raw
    inner = {name: raw[name] for name in _INNER if name in raw}
    return {**{name: value for name, value in raw.items() if name not in inner}, "kinesis": inner}


def _unit(raw: object, id_: str | None, record: object) -> Unit | Malformed:
    if not isinstance(raw, Mapping) or id_ is None:
        return malformed(id_, "has no sequence number")
    stream, event_id = text_at(raw, "eventSourceARN"), text_at(raw, "eventID")
    if stream is None or event_id is None:
        return malformed(id_, "has no eventID or no eventSourceARN")
    try:
        data = decoded(at(raw, "kinesis", "data"))
        if _is_aggregated(data):
            return malformed(
                id_,
                "is aggregated by the Kinesis Producer Library, so it holds several records; turn off "
                "AggregationEnabled, or split it in a handler of your own with once.run for each",
            )
        payload = parse_bytes(data)
    except (NotBase64, TooDeep) as error:
        return malformed(id_, f"has data that {error}")
    # A consumer with enhanced fan-out has an ARN of its own, below the stream's.
    key = f"{stream.partition('/consumer/')[0]}/{event_id}"
    return Unit(payload, raw, record, event_id, itself, key, parsed=not isinstance(payload, bytes))


def _is_aggregated(data: bytes) -> bool:
    if not data.startswith(_KPL_MAGIC):
        return False
    message, found = data[len(_KPL_MAGIC) : -_KPL_DIGEST], data[-_KPL_DIGEST:]
    return hashlib.md5(message, usedforsecurity=False).digest() == found


KINESIS: Final = RecordSource(
    Source.KINESIS,
    _read,
    "the data",
    "the eventID, within the stream's ARN",
    piped_id="eventID",
    needs=("kinesis_stream_event",),
)
