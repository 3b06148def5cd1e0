"""
Sources of records, such as a queue or a stream: how an event is read record by record, and what it gets back.

Each is one `RecordSource` and one row of `Source`. SQS and SNS are at the end; each stream and broker has a
module of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Final, NamedTuple

from lambda_once.sources.envelopes import TooDeep, at, open_body
from lambda_once.sources.services import is_tumbling_window
from lambda_once.sources.source import PIPED, Source, misplaced, named_source, source_of
from lambda_once.sources.unit import NOTHING, Malformed, Unit

RecordId = str | Mapping[str, object] | None
"""What a partial batch response names a record by; None if it has none."""

_FIX: Final = "not processed. Fix the producer"


class EventRecord(NamedTuple):
    """One record of an event."""

    id: RecordId
    """What its source gets back if it failed; None if it has none, and for SNS."""
    group: str | None
    """
    Where order counts: records of one group run one after the other, whether or not they can be processed.

    A message group, a partition key, the key of an item.
    """
    unit: Unit | Malformed
    record: object = None
    """The record as the function gets it without ``model=``: Powertools' data class."""


class RecordSource(NamedTuple):
    """A source of records."""

    source: Source
    read: Callable[[object], EventRecord]
    """From a raw record to its unit. What cannot be processed is `Malformed`, never an exception."""
    payload: str
    """What ``key=`` sees, in words."""
    identity: str = ""
    """The default key, in words."""
    split: Callable[[object], list[list[object]]] | None = None
    """
    From an event to its raw records, a list for each order; None: ``Records``, in one order.

    Raises `Misconfigured` for an event of another source.
    """
    piped_id: str | None = None
    """
    The field of a record by which EventBridge Pipes is told that it failed; None: only the whole batch can.

    EventBridge user guide, "Amazon EventBridge Pipes batching and concurrency".
    """

    needs: tuple[str, ...] = ()
    """
    The modules of Powertools that `read` imports.

    They import each other in circles, so threads that read their first records at once would deadlock.
    """

    def load(self) -> None:
        """Import what `read` needs: when a function is decorated, before any record."""
        for module in self.needs:
            import_module(f"aws_lambda_powertools.utilities.data_classes.{module}")

    @property
    def decorator(self) -> str:
        """The name of its decorator."""
        return str(self.source.decorator)

    def orders(self, event: object) -> list[list[object]]:
        """
        Return the raw records of *event*, one list for each order, such as a shard or a partition.

        In an ordered source, what follows a failure in its list is not started. Raises as `split`.
        """
        return [_records(event, self.source)] if self.split is None else self.split(event)

    def records(self, event: object) -> list[EventRecord]:
        """Return all records of *event*, order by order. Raises as `split`."""
        return [self.read(raw) for order in self.orders(event) for raw in order]


def _records(event: object, source: Source) -> list[object]:
    """
    Return ``Records`` of *event*, or what EventBridge Pipes sends of *source*: the records alone. Unread.

    Raises `Misconfigured` if one names another source than *source*, and for a tumbling window, whose
    response is its state.
    """
    if isinstance(event, list) and source in PIPED:
        return piped(event, source)
    decorator = str(source.decorator)
    given = event if isinstance(event, Mapping) else {}
    found = given.get("Records")
    if not isinstance(found, list) or ("window" in given and is_tumbling_window(given)):
        raise misplaced(decorator, source_of(event), event)
    for record in found:
        named = record.get("eventSource", record.get("EventSource")) if isinstance(record, dict) else None
        if named is not None and named not in source.of_record:
            raise misplaced(decorator, named_source(record), event)
    return found


def piped(event: list[object], source: Source) -> list[object]:
    """
    Return *event*, the records that EventBridge Pipes sends of *source*.

    Raises `Misconfigured` if one is of another source, or does not name its source: an input transformer or
    an enrichment made it.
    """
    for record in event:
        if at(record, "eventSource") not in source.names:
            raise misplaced(str(source.decorator), named_source(record), event)
    return event


def grouped(event: object, source: Source, field: str) -> list[list[object]]:
    """
    Return the records of *event*, which Lambda sends under *field* as a list, or as lists by a name.

    Each is as EventBridge Pipes sends it: with what the event says of all, and the name of its list as
    eventSourceKey. Raises `Misconfigured` for an event of another source.
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
    return [[_with(shared, name, record) for record in records] for name, records in lists.items()]


def _with(shared: Mapping[str, object], name: str | None, record: object) -> object:
    if not isinstance(record, dict):
        return record
    return {**shared, **({} if name is None else {"eventSourceKey": name}), **record}


def malformed(id_: str | None, lacks: str) -> Malformed:
    """Return a record that *lacks* something, such as "has no data"."""
    return Malformed(f"{'A record of the batch' if id_ is None else f'Record {id_}'} {lacks}; {_FIX}.", id_)


def text_at(value: object, *path: str) -> str | None:
    """Return the text in *value* under *path*; None if there is none, or an empty one."""
    return _text(at(value, *path))


def _text(found: object) -> str | None:
    return found if isinstance(found, str) and found else None


def failures(ids: Iterable[RecordId]) -> dict[str, list[dict[str, RecordId]]]:
    """
    Return the response that makes a source redeliver the records named by *ids*, and only what it must.

    AWS Lambda developer guide, "Implementing partial batch responses": an empty list is success; an empty or
    null identifier fails the whole batch. A failed record without an id (None or "") can be returned in no
    other way.
    """
    named = {str(id_ or ""): id_ or "" for id_ in ids}
    failed: list[RecordId] = [""] if "" in named else [*named.values()]
    return {"batchItemFailures": [{"itemIdentifier": id_} for id_ in failed]}


# -- queues and topics


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


SQS: Final = RecordSource(
    Source.SQS,
    _sqs_message,
    "the body",
    "MessageGroupId and MessageDeduplicationId",
    piped_id="messageId",
    needs=("sqs_event",),
)
SNS: Final = RecordSource(Source.SNS, _sns_message, "the Message", needs=("sns_event",))
