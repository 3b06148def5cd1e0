"""
Sources of records, such as a queue or a stream: how an event is read record by record, and what it gets back.

Each is one `RecordSource` and one row of `Source`. SQS and SNS are at the end, the ordered ones in `ordered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import Any, Final, NamedTuple

from lambda_once.core.unit import Malformed, Unit
from lambda_once.sources.attributes import counted
from lambda_once.sources.envelopes import BadData, Body, at, open_body
from lambda_once.sources.services import is_tumbling_window
from lambda_once.sources.source import PIPED, Parsed, Source, misplaced, named_source, source_of

RecordId = str | Mapping[str, object] | None
"""What a partial batch response names a record by; None if it has none."""


class EventRecord(NamedTuple):
    """One record of an event."""

    id: RecordId
    """The id to return to the source if the record failed; None if it has none, and for SNS."""
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
    """Return the unit of a raw record; `Malformed`, never an exception, if it cannot be processed."""
    payload: str
    """Describes what ``key=`` selects from."""
    identity: str = ""
    """Describes the default key."""
    split: Callable[[object], list[list[object]]] | None = None
    """
    From an event to its raw records, a list for each sequence; None: ``Records``, in one sequence.

    Raises `Misconfigured` for an event of another source.
    """
    piped_id: str | None = None
    """
    The field of a record by which EventBridge Pipes learns that it failed; None: only the whole batch can.

    EventBridge user guide, "Amazon EventBridge Pipes batching and concurrency".
    """

    asynchronous: bool = False
    """Whether it invokes asynchronously, so that Lambda retries under the same request id."""
    needs: tuple[str, ...] = ()
    """The data classes that `read` makes (`data_class`)."""

    def load(self) -> None:
        """
        Import what `read` needs: when a function is decorated, before any record.

        Powertools' modules import each other in circles: threads that read their first records at once would
        deadlock.
        """
        for each in self.needs:
            data_class(each)

    @property
    def decorator(self) -> str:
        """The name of its decorator."""
        return str(self.source.decorator)

    def sequences(self, event: object) -> list[list[object]]:
        """
        Return the raw records of *event*, one list for each sequence, such as a shard or a partition.

        In an ordered source, what follows a failure in its list is not started. Raises as `split`.
        """
        return [records_of(event, self.source)] if self.split is None else self.split(event)

    def records(self, event: object) -> list[EventRecord]:
        """Return all records of *event*, sequence by sequence. Raises as `split`."""
        return [self.read(raw) for sequence in self.sequences(event) for raw in sequence]


def records_of(event: object, source: Source) -> list[object]:
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


def malformed(label: str | None, lacks: str) -> Malformed:
    """Return a record that *lacks* something, such as "has no data"."""
    named = "A record of the batch" if label is None else f"Record {label}"
    return Malformed(f"{named} {lacks}; not processed. Fix the producer.", label)


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


# -- reading


Raw = dict[str, Any]
"""A record as it came."""


class RecordIds(NamedTuple):
    """The ids of a record, as far as it has any: for messages, and those of `EventRecord`."""

    label: str | None = None
    id: RecordId = None
    group: str | None = None


def reader(
    ids_of: Callable[[Raw], RecordIds],
    unit_of: Callable[[Raw, RecordIds, Any], Unit],
    wrap: Callable[[Raw], Any],
) -> Callable[[object], EventRecord]:
    """
    Return `RecordSource.read` of a source: the same for each, but for what these functions get of a record.

    *unit_of* gets the raw record, its ids, and what *wrap* made of it, Powertools' data class. It raises
    `BadData` for a record that cannot be processed.
    """

    def read(raw: object) -> EventRecord:
        if not isinstance(raw, dict):
            return EventRecord(None, None, malformed(None, "is not a JSON object"), raw)
        ids, record = ids_of(raw), wrap(raw)
        unit: Unit | Malformed
        try:
            unit = unit_of(raw, ids, record)
        except BadData as error:
            unit = malformed(ids.label, str(error))
        return EventRecord(ids.id, ids.group, unit, record)

    return read


@cache
def data_class(path: str) -> Callable[[Raw], Any]:
    """Return Powertools' data class *path*, such as ``sqs_event.SQSRecord``."""
    module, _, name = path.partition(".")
    found: Any = import_module(f"aws_lambda_powertools.utilities.data_classes.{module}")
    return getattr(found, name)  # type: ignore[no-any-return]


def wrapped(path: str, raw: Raw) -> Any:
    """Return *raw* as the data class *path*."""
    return data_class(path)(raw)


# -- queues and topics

_SQS_RECORD: Final = "sqs_event.SQSRecord"
_SNS_RECORD: Final = "sns_event.SNSEventRecord"


def _sqs_ids(raw: Raw) -> RecordIds:
    id_ = _text(raw.get("messageId"))
    is_fifo = str(raw.get("eventSourceARN")).endswith(".fifo")
    return RecordIds(id_, id_, str(_attributes(raw).get("MessageGroupId") or "") if is_fifo else None)


def _attributes(raw: Raw) -> Mapping[str, object]:
    found = raw.get("attributes")
    return found if isinstance(found, dict) else {}


def _sqs_unit(raw: Raw, ids: RecordIds, record: Any) -> Unit:
    if ids.label is None:
        raise BadData("has no messageId")
    attributes, fifo_key = _attributes(raw), None
    count = attributes.get("ApproximateReceiveCount")
    if ids.group is not None:
        # Amazon SQS developer guide, "Message deduplication ID": SQS fills it in by content too.
        known = [attributes.get(name) for name in ("MessageGroupId", "MessageDeduplicationId")]
        fifo_key = known if all(isinstance(each, str) for each in known) else None
    opened = _opened(raw, raw.get("body"), "body", raw.get("messageAttributes"))
    return Unit(
        opened.payload,
        raw,
        record,
        ids.label,
        opened.content,
        opened.key if fifo_key is None else fifo_key,
        redelivered=isinstance(count, str) and count != "1",
        attributes=opened.attributes,
    )


def _sns_ids(raw: Raw) -> RecordIds:
    return RecordIds(text_at(raw, "Sns", "MessageId"))


def _sns_unit(raw: Raw, ids: RecordIds, record: Any) -> Unit:
    opened = _opened(raw, at(raw, "Sns", "Message"), "Message", at(raw, "Sns", "MessageAttributes"))
    return Unit(
        opened.payload, raw, record, ids.label, opened.content, opened.key, attributes=opened.attributes
    )


def _opened(raw: Raw, body: object, name: str, attributes: object) -> Body:
    """
    Return *body*, the field *name* of *raw*, with its envelopes opened, and what counts of all attributes.

    Raises `BadData`.
    """
    if not isinstance(body, str) and (body is None or not isinstance(raw, Parsed)):
        raise BadData(f"has no text {name}")
    try:
        opened = open_body(body)
    except BadData as error:
        raise BadData(f"has a {name} that {error}") from None
    if not attributes:
        return opened
    return opened._replace(attributes={**counted(attributes), **opened.attributes})


SQS: Final = RecordSource(
    Source.SQS,
    reader(_sqs_ids, _sqs_unit, partial(wrapped, _SQS_RECORD)),
    "the body",
    "MessageGroupId and MessageDeduplicationId",
    piped_id="messageId",
    needs=(_SQS_RECORD,),
)
SNS: Final = RecordSource(
    Source.SNS,
    reader(_sns_ids, _sns_unit, partial(wrapped, _SNS_RECORD)),
    "the Message",
    asynchronous=True,
    needs=(_SNS_RECORD,),
)
