"""Amazon SNS: a record is a unit, its Message the payload. Nothing answers it but an exception."""

from __future__ import annotations

from lambda_once.sources.envelopes import at, opened
from lambda_once.sources.json_text import TooDeep
from lambda_once.sources.source import Source, misplaced, source_of
from lambda_once.sources.unit import Malformed, Unit


def records(event: object) -> list[Unit | Malformed]:
    """
    Return the records of *event*, in their order.

    The payload is the Message, its own envelopes opened; never the envelope of SNS,
    whose Timestamp, Signature and URLs are of one delivery. Raises `Misconfigured`
    where *event* is not from SNS.
    """
    found = at(event, "Records")
    source = source_of(event)
    if not isinstance(found, list) or (found and source is not Source.SNS):
        raise misplaced("once.sns", source, event)
    return [_unit(record) for record in found]


def _unit(record: object) -> Unit | Malformed:
    raw_id, message = at(record, "Sns", "MessageId"), at(record, "Sns", "Message")
    id_ = raw_id if isinstance(raw_id, str) and raw_id else None
    if not isinstance(record, dict) or not isinstance(message, str):
        return Malformed("An SNS record has no text Message; not processed. Fix the producer.", id_)
    try:
        content = opened(message)
    except TooDeep as error:
        return Malformed(f"The Message of {id_} {error}; not processed. Fix the producer.", id_)
    from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

    return Unit(content.payload, record, SNSEventRecord(record), id_, content.substance, content.key)
