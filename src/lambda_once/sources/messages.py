"""
Amazon SQS and SNS: a record is a unit, the content of its message the payload.

Never the envelope of SNS, whose Timestamp, Signature and URLs belong to one delivery. SQS gets the ids of
what failed; SNS gets an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from lambda_once.sources.envelopes import NotBase64, TooDeep, at, open_body
from lambda_once.sources.records import EventRecord, RecordSource
from lambda_once.sources.source import Source, named_source
from lambda_once.sources.unit import NOTHING, Malformed, Unit


class Argument(NamedTuple):
    """An argument of a function, as far as it identifies the work."""

    payload: object
    key: object = NOTHING
    """What tells a record of a stream from another one with an equal payload."""


def argument_of(value: object) -> Argument:
    """
    Return what identifies the work in *value*, an argument of a function.

    For Powertools' records of SQS, SNS, Amazon MQ, Kinesis and DynamoDB Streams that is the payload: receipt
    handle, receive count, timestamps, signatures and roles belong to one delivery. For a record that cannot
    be read, and for its other data classes, it is the event; anything else is itself.
    """
    raw = getattr(value, "raw_event", None)
    if not isinstance(raw, dict):
        return Argument(value)
    if "redelivered" in raw:
        from lambda_once.sources.mq import data_of

        with suppress(NotBase64, TooDeep):
            return Argument(data_of(raw))
        return Argument(raw)
    source = named_source(raw)
    unit = _unit_of(source, raw)
    if not isinstance(unit, Unit):
        return Argument(raw)
    return Argument(unit.payload, unit.key if source in _STREAMS else NOTHING)


_STREAMS: Final = frozenset({Source.KINESIS, Source.DYNAMODB})


def _unit_of(source: Source, record: dict[str, object]) -> Unit | Malformed | None:
    match source:
        case Source.SQS:
            return _sqs_message(record).unit
        case Source.SNS:
            return _sns_unit(record)
        case Source.KINESIS:
            from lambda_once.sources.kinesis import KINESIS

            return KINESIS.read(record).unit
        case Source.DYNAMODB:
            from lambda_once.sources.dynamodb_stream import DYNAMODB_STREAM

            return DYNAMODB_STREAM.read(record).unit
        case _:
            return None


def _sqs_message(record: object) -> EventRecord:
    if not isinstance(record, dict):
        wrong = "A record of the batch is not a JSON object; not processed. Fix the producer."
        return EventRecord(None, None, Malformed(wrong, None))
    id_ = _text(record.get("messageId"))
    attributes = record.get("attributes")
    attributes = attributes if isinstance(attributes, dict) else {}
    if not str(record.get("eventSourceARN")).endswith(".fifo"):
        return EventRecord(id_, None, _sqs_unit(record, id_, attributes, NOTHING))
    # Amazon SQS developer guide, "Message deduplication ID": SQS fills it in by content too.
    group, deduplication = attributes.get("MessageGroupId"), attributes.get("MessageDeduplicationId")
    known = isinstance(group, str) and isinstance(deduplication, str)
    unit = _sqs_unit(record, id_, attributes, [group, deduplication] if known else NOTHING)
    return EventRecord(id_, str(group or ""), unit)


def _sqs_unit(
    record: dict[str, object], id_: str | None, attributes: Mapping[str, object], fifo_key: object
) -> Unit | Malformed:
    if id_ is None:
        return Malformed("A record of the batch has no messageId; not processed. Fix the producer.", id_)
    body = record.get("body")
    if not isinstance(body, str):
        return Malformed(f"Message {id_} has no text body; not processed. Fix the producer.", id_)
    try:
        opened = open_body(body)
    except TooDeep as error:
        return Malformed(f"The body of message {id_} {error}; not processed. Fix the producer.", id_)
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    count = attributes.get("ApproximateReceiveCount")
    return Unit(
        payload=opened.payload,
        envelope=record,
        argument=SQSRecord(record),
        delivery=id_,
        content=opened.content,
        key=opened.key if fifo_key is NOTHING else fifo_key,
        redelivered=isinstance(count, str) and count != "1",
    )


def _sns_unit(record: object) -> Unit | Malformed:
    id_, message = _text(at(record, "Sns", "MessageId")), at(record, "Sns", "Message")
    if not isinstance(record, dict) or not isinstance(message, str):
        return Malformed("An SNS record has no text Message; not processed. Fix the producer.", id_)
    try:
        opened = open_body(message)
    except TooDeep as error:
        return Malformed(f"The Message of {id_} {error}; not processed. Fix the producer.", id_)
    from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

    return Unit(opened.payload, record, SNSEventRecord(record), id_, opened.content, opened.key)


def _sns_message(record: object) -> EventRecord:
    return EventRecord(None, None, _sns_unit(record))


def _text(found: object) -> str | None:
    return found if isinstance(found, str) and found else None


SQS: Final = RecordSource(
    Source.SQS,
    _sqs_message,
    "the body",
    "MessageGroupId and MessageDeduplicationId",
    piped_id="messageId",
)
SNS: Final = RecordSource(Source.SNS, _sns_message, "the Message")
