"""
`once.kinesis`: what happens to a record of a Kinesis data stream.

Its shared reader is in `records`; `streams` runs the batch in the order of its shard and makes the response.
The data of a record is the payload, its eventID the key: one record is one piece of work, however often it is
delivered. A producer's retry is another record, so work that a producer may repeat needs ``key=``.

What we're not happy with: records that the Producer Library has aggregated are refused, not opened.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord

from lambda_once.core.identity import NOTHING, Content, Flaw, Identity, Refused
from lambda_once.core.unit import BadRecord, Delivered, Unit
from lambda_once.sources.envelopes import BadData, at, named_in, read_data, text_at
from lambda_once.sources.records import Raw, RecordSource, records_of
from lambda_once.sources.source import Source
from lambda_once.sources.streams import in_stream, stream_handler

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

_KPL_MAGIC: Final = b"\xf3\x89\x9a\xc2"
_KPL_DIGEST: Final = 16
"""Kinesis Producer Library, "KPL Aggregated Record Format": magic number, Protobuf message, its MD5."""
_NESTED: Final = (
    *("kinesisSchemaVersion", "partitionKey", "sequenceNumber", "subSequenceNumber", "data"),
    "approximateArrivalTimestamp",
)


class _Twin(dict[str, Any]):
    """A record of an event that has another one with its eventID, and no sub-sequence number."""


def _shard(event: object) -> list[list[object]]:
    """Return the records of *event*, all of one shard."""
    records = [_nested(raw) for raw in records_of(event, Source.KINESIS)]
    places = Counter(map(_place, records))
    return [[_Twin(raw) if places[_place(raw)] > 1 and isinstance(raw, dict) else raw for raw in records]]


def _place(raw: object) -> tuple[str, str]:
    """
    Return what distinguishes *raw* from the other records of its event.

    Records that were aggregated share an eventID; aws-kinesis-agg 1.2.3 adds ``subSequenceNumber``.
    """
    return str(at(raw, "eventID")), str(at(raw, "kinesis", "subSequenceNumber"))


def _nested(raw: object) -> object:
    """Return *raw* as Lambda sends it: EventBridge Pipes has the fields of ``kinesis`` beside the others."""
    if not isinstance(raw, dict) or "kinesis" in raw:
        return raw
    inner = {name: raw[name] for name in _NESTED if name in raw}
    return {**{name: value for name, value in raw.items() if name not in inner}, "kinesis": inner}


def _locate(raw: Raw) -> Delivered:
    number, group = (text_at(raw, "kinesis", name) for name in ("sequenceNumber", "partitionKey"))
    return Delivered(KinesisStreamRecord(raw), raw, number, id=number, group=group)


def _read_content(record: Delivered, raw: Raw) -> Unit:
    event_id, arn = in_stream(record, raw)
    payload = read_data(raw["kinesis"].get("data"), raw=raw)
    part = raw["kinesis"].get("subSequenceNumber")  # of a record that was aggregated
    flaw: Refused | Flaw | None = None
    if isinstance(raw, _Twin):  # one of the two would be lost
        flaw = Refused(
            BadRecord(
                f"Record {record.delivery} has an eventID, {event_id}, that another record of its event has, "
                "and no subSequenceNumber; not processed. Number the records that a deaggregator makes."
            )
        )
    elif isinstance(payload, bytes) and payload.startswith(_KPL_MAGIC):  # which is no UTF-8
        message, digest = payload[len(_KPL_MAGIC) : -_KPL_DIGEST], payload[-_KPL_DIGEST:]
        if hashlib.md5(message, usedforsecurity=False).digest() == digest:
            raise BadData(
                "is aggregated by the Kinesis Producer Library, so it holds several records; turn off "
                "AggregationEnabled, or split it in a handler of your own with once.run for each"
            )
        unread = f"Record {event_id} begins like one of the Kinesis Producer Library, without its checksum."
        flaw = Flaw(unread=unread)
    identity = Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=named_in(arn),
        position=[event_id] if part is None else [event_id, part],
        attributes=NOTHING,
        content=Content(payload, parsed=not isinstance(payload, bytes), flaw=flaw),
    )
    return Unit(identity, Delivered(record.argument, raw, event_id, id=record.id, group=record.group))


KINESIS: Final = RecordSource(
    Source.KINESIS,
    _locate,
    _read_content,
    "the data",
    "the eventID and subSequenceNumber, within the stream",
    _shard,
    repeats=True,
    piped_id="eventID",
)


def kinesis_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* for each record of a shard, in order."""
    return stream_handler(KINESIS, runtime, function, settings)
