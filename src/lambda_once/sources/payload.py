"""The payload of an argument: event data classes count by what they carry, not by how they were delivered."""

from __future__ import annotations

from lambda_once.sources import sns, sqs
from lambda_once.sources.envelopes import at
from lambda_once.sources.unit import Unit


def payload_of(value: object) -> object:
    """
    Return what of *value*, an argument of a function, makes it the same work.

    Of Powertools' SQS and SNS records that is the payload: receipt handle, receive count, timestamps and
    signatures are of one delivery. Of its other data classes it is the event; all else is itself.
    """
    raw = getattr(value, "raw_event", None)
    if not isinstance(raw, dict):
        return value
    if at(raw, "eventSource") == "aws:sqs":
        (message,) = sqs.records({"Records": [raw]})
        return message.unit.payload if isinstance(message.unit, Unit) else raw
    if at(raw, "EventSource") == "aws:sns":
        (unit,) = sns.records({"Records": [raw]})
        return unit.payload if isinstance(unit, Unit) else raw
    return raw
