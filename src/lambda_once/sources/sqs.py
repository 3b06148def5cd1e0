"""Amazon SQS: a record is a unit, and the ids of what failed are the answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from lambda_once.sources.envelopes import Opened, at, opened
from lambda_once.sources.json_text import TooDeep
from lambda_once.sources.source import misplaced, source_of, source_of_record
from lambda_once.sources.unit import NOTHING, Malformed, Unit


class Message(NamedTuple):
    """One record of a batch."""

    id: str | None
    """Its messageId; None where it has none."""
    group: str | None
    """Its message group, on a FIFO queue only (there order counts), whether or not it can be worked."""
    unit: Unit | Malformed


def records(event: object) -> list[Message]:
    """
    Return the records of *event*, in their order.

    A record that cannot be worked is `Malformed`, never an exception. Raises
    `Misconfigured` where *event* is not from SQS.
    """
    found = at(event, "Records")
    if not isinstance(found, list):
        raise misplaced("once.sqs", source_of(event), event)
    for record in found:
        _refuse_foreign(record, event)
    return [_message(record) for record in found]


def is_redelivered(unit: Unit) -> bool:
    """Tell whether SQS has delivered *unit* before. A hint for the order of requests: it enters no key."""
    count = at(unit.envelope, "attributes", "ApproximateReceiveCount")
    return isinstance(count, str) and count != "1"


def response(failed_ids: Iterable[str | None]) -> dict[str, list[dict[str, str]]]:
    """
    Return the answer that makes SQS deliver the failed records again, and only these.

    AWS Lambda developer guide, "Implementing partial batch responses": an empty
    list is success; an empty or null identifier fails the whole batch. A failed record
    without an id (None or "") can only be returned in that way, and then alone.
    """
    ids = list(dict.fromkeys(id_ or "" for id_ in failed_ids))
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in ([""] if "" in ids else ids)]}


def _refuse_foreign(record: object, event: object) -> None:
    named = at(record, "eventSource") or at(record, "EventSource")
    if named is not None and named != "aws:sqs":
        raise misplaced("once.sqs", source_of_record(record), event)


def _message(record: object) -> Message:
    raw_id = at(record, "messageId")
    id_ = raw_id if isinstance(raw_id, str) and raw_id else None
    fifo = str(at(record, "eventSourceARN")).endswith(".fifo")
    group = str(at(record, "attributes", "MessageGroupId") or "") if fifo else None
    return Message(id_, group, _unit(record, id_, fifo=fifo))


def _unit(record: object, id_: str | None, *, fifo: bool) -> Unit | Malformed:
    if not isinstance(record, dict):
        return Malformed("A record of the batch is not a JSON object; not processed. Fix the producer.", id_)
    if id_ is None:
        return Malformed("A record of the batch has no messageId; not processed. Fix the producer.", id_)
    body = record.get("body")
    if not isinstance(body, str):
        return Malformed(f"Message {id_} has no text body; not processed. Fix the producer.", id_)
    try:
        content = opened(body)
    except TooDeep as error:
        return Malformed(f"The body of message {id_} {error}; not processed. Fix the producer.", id_)
    return _worked(record, id_, content, _fifo_key(record) if fifo else NOTHING)


def _worked(record: dict[str, object], id_: str, content: Opened, fifo_key: object) -> Unit:
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    return Unit(
        payload=content.payload,
        envelope=record,
        subject=SQSRecord(record),
        delivery=id_,
        substance=content.substance,
        key=content.key if fifo_key is NOTHING else fifo_key,
    )


def _fifo_key(record: Mapping[str, object]) -> object:
    # Amazon SQS developer guide, "Message deduplication ID": SQS fills it in by content too.
    group, id_ = (at(record, "attributes", name) for name in ("MessageGroupId", "MessageDeduplicationId"))
    return [group, id_] if isinstance(group, str) and isinstance(id_, str) else NOTHING
