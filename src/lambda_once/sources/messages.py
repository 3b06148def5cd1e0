"""
Amazon SQS and SNS: a record is a unit, the content of its message the payload.

Never the envelope of SNS, whose Timestamp, Signature and URLs belong to one delivery. SQS gets the ids of
what failed; SNS gets an exception.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lambda_once.sources.envelopes import TooDeep, at, open_body
from lambda_once.sources.source import Source, misplaced, source_of, source_of_record
from lambda_once.sources.unit import NOTHING, Malformed, Unit


class Message(NamedTuple):
    """One record of an event."""

    id: str | None
    """Its messageId, which SQS gets back if it failed; None where it has none, and for SNS."""
    group: str | None
    """Its message group, on a FIFO queue only (where order counts), whether or not it can be processed."""
    unit: Unit | Malformed


def sqs_messages(event: object) -> list[Message]:
    """
    Return the records of *event*, in order.

    A record that cannot be processed is `Malformed`, never an exception. Raises `Misconfigured` if *event*
    is not from SQS.
    """
    found = at(event, "Records")
    if not isinstance(found, list):
        raise misplaced("once.sqs", source_of(event), event)
    for record in found:
        named = at(record, "eventSource") or at(record, "EventSource")
        if named is not None and named != "aws:sqs":
            raise misplaced("once.sqs", source_of_record(record), event)
    return [_sqs_message(record) for record in found]


def sns_messages(event: object) -> list[Message]:
    """Return the records of *event*, in order, as `sqs_messages` does. Raises as it does."""
    found = at(event, "Records")
    source = source_of(event)
    if not isinstance(found, list) or (found and source is not Source.SNS):
        raise misplaced("once.sns", source, event)
    return [Message(None, None, _sns_unit(record)) for record in found]


def payload_of(value: object) -> object:
    """
    Return the part of *value*, an argument of a function, that identifies the work.

    For Powertools' SQS and SNS records that is the payload: receipt handle, receive count, timestamps and
    signatures belong to one delivery. For its other data classes it is the event; anything else is itself.
    """
    raw = getattr(value, "raw_event", None)
    if not isinstance(raw, dict):
        return value
    if at(raw, "eventSource") == "aws:sqs":
        unit = _sqs_message(raw).unit
    elif at(raw, "EventSource") == "aws:sns":
        unit = _sns_unit(raw)
    else:
        return raw
    return unit.payload if isinstance(unit, Unit) else raw


def failures(failed_ids: Iterable[str | None]) -> dict[str, list[dict[str, str]]]:
    """
    Return the response that makes SQS redeliver the failed records, and only these.

    AWS Lambda developer guide, "Implementing partial batch responses": an empty list is success; an empty or
    null identifier fails the whole batch. A failed record without an id (None or "") can be returned in no
    other way.
    """
    ids = list(dict.fromkeys(id_ or "" for id_ in failed_ids))
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in ([""] if "" in ids else ids)]}


def _sqs_message(record: object) -> Message:
    id_ = _text(record, "messageId")
    fifo = str(at(record, "eventSourceARN")).endswith(".fifo")
    group = str(at(record, "attributes", "MessageGroupId") or "") if fifo else None
    return Message(id_, group, _sqs_unit(record, id_, fifo=fifo))


def _sqs_unit(record: object, id_: str | None, *, fifo: bool) -> Unit | Malformed:
    if not isinstance(record, dict):
        return Malformed("A record of the batch is not a JSON object; not processed. Fix the producer.", id_)
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

    key = _fifo_key(record) if fifo else NOTHING
    return Unit(
        payload=opened.payload,
        envelope=record,
        argument=SQSRecord(record),
        delivery=id_,
        content=opened.content,
        key=opened.key if key is NOTHING else key,
        redelivered=_is_redelivered(record),
    )


def _sns_unit(record: object) -> Unit | Malformed:
    id_, message = _text(record, "Sns", "MessageId"), at(record, "Sns", "Message")
    if not isinstance(record, dict) or not isinstance(message, str):
        return Malformed("An SNS record has no text Message; not processed. Fix the producer.", id_)
    try:
        opened = open_body(message)
    except TooDeep as error:
        return Malformed(f"The Message of {id_} {error}; not processed. Fix the producer.", id_)
    from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

    return Unit(opened.payload, record, SNSEventRecord(record), id_, opened.content, opened.key)


def _text(record: object, *path: str) -> str | None:
    found = at(record, *path)
    return found if isinstance(found, str) and found else None


def _fifo_key(record: Mapping[str, object]) -> object:
    # Amazon SQS developer guide, "Message deduplication ID": SQS fills it in by content too.
    group, id_ = (at(record, "attributes", name) for name in ("MessageGroupId", "MessageDeduplicationId"))
    return [group, id_] if isinstance(group, str) and isinstance(id_, str) else NOTHING


def _is_redelivered(record: Mapping[str, object]) -> bool:
    count = at(record, "attributes", "ApproximateReceiveCount")
    return isinstance(count, str) and count != "1"
