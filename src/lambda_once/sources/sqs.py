"""
`once.sqs`: what happens to a message of a queue, standard or FIFO.

The code that all sources share is in `records`: `Records.run` reads each message by `_locate` and
`_read_content`, identifies it (`decorators/identify.py`) and runs the batch (`engine/batch.py`, which also
keeps the order of message groups and stops before the deadline). The rule: SQS deletes a message unless the
response names it, so the response names every message whose work isn't known to be done, and no other.

What we're not happy with: a queue counts as FIFO by its name, ".fifo"; no field of a message says so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once.core.identity import NOTHING, Flaw
from lambda_once.core.unit import BadRecord, Delivered, Unit
from lambda_once.decorators.handlers import handler_like
from lambda_once.errors import RetryLater
from lambda_once.sources.attributes import counted, united
from lambda_once.sources.envelopes import BadData, at, opened, origin_of, text_at
from lambda_once.sources.records import Raw, Records, RecordSource, failures, pipe_response
from lambda_once.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings


def _locate(raw: Raw) -> Delivered:
    """Return the message *raw* with its id, whether it came before, and its group if the queue is FIFO."""
    message_id, system_attributes = text_at(raw, "messageId"), raw.get("attributes")
    count = at(system_attributes, "ApproximateReceiveCount")
    redelivered = isinstance(count, str) and count != "1"
    is_fifo = str(raw.get("eventSourceARN")).endswith(".fifo")
    group = str(at(system_attributes, "MessageGroupId") or "") if is_fifo else None
    return Delivered(SQSRecord(raw), raw, message_id, redelivered, id=message_id, group=group)


def _read_content(record: Delivered, raw: Raw) -> Unit:
    """Return *record* with its body opened. Its default key: that of an event in it, or the FIFO queue's."""
    if record.delivery is None:
        raise BadData("has no messageId")
    attributes = counted(raw.get("messageAttributes"))
    system_attributes = raw.get("attributes")
    group, moved_from = text_at(system_attributes, "MessageGroupId"), text_at(system_attributes, _MOVED_FROM)
    if group is not None:  # a fair queue's message has one, too: its tenant
        attributes = united({"MessageGroupId": group}, attributes)
    origin = origin_of(moved_from or raw.get("eventSourceARN"), raw.get("messageAttributes"))
    identity = opened(raw, raw.get("body"), "body", origin, attributes)
    if record.group is None or identity.attributes is NOTHING:  # no FIFO queue, or an event
        return Unit(identity, record)
    if moved_from is not None:
        flaw = Flaw(BadRecord(f"Record {record.delivery} {_NO_ID_OF_ITS_OWN}"))
        return Unit(identity._replace(content=identity.content._replace(flaw=flaw)), record)
    # Amazon SQS developer guide, "Message deduplication ID": SQS can derive it from the content.
    position = [at(system_attributes, name) for name in ("MessageGroupId", "MessageDeduplicationId")]
    has_id = all(isinstance(part, str) for part in position)
    return Unit(identity._replace(position=position) if has_id else identity, record)


_MOVED_FROM: Final = "DeadLetterQueueSourceArn"
"""The queue that a message was moved from (Amazon SQS developer guide, "Dead-letter queues")."""
_NO_ID_OF_ITS_OWN: Final = (
    "comes from a dead-letter queue of a FIFO queue, where SQS gives it its message id as deduplication id: "
    "done and held work would run again. Pass key=."
)

SQS: Final = RecordSource(
    Source.SQS,
    _locate,
    _read_content,
    "the body",
    "MessageGroupId and MessageDeduplicationId, within the queue",
    piped_id="messageId",
)


def sqs_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """
    Return the Lambda handler that runs *function* for each message, and returns the failed ones.

    EventBridge Pipes, which sends a list, gets their ids too, and no `BatchProcessingError` if all failed.
    """
    records = Records(SQS, runtime, function, settings)

    def handle(event: Any, context: Any) -> Any:
        failed = records.run(event, context)
        if isinstance(event, list):
            return pipe_response([*zip(failed.ids, failed.errors, strict=True)])
        if failed.whole and settings.raise_on_entire_batch_failure:
            _raise_unless_retried(failed.errors)
        return failures(failed.ids)

    return handler_like(function, handle, records)


def _raise_unless_retried(errors: list[BaseException]) -> None:
    """
    Raise `BatchProcessingError` with *errors*, as Powertools does if all records failed.

    So the Errors metric shows it, and a mapping without ReportBatchItemFailures, which takes any response for
    success, deletes no message. A batch that only waits for other attempts is no failure.
    """
    if all(isinstance(error, RetryLater) for error in errors):
        return
    # The package first: threads that begin with its module `exceptions` could deadlock.
    from aws_lambda_powertools.utilities import batch

    children: list[Any] = [(type(error), error, error.__traceback__) for error in dict.fromkeys(errors)]
    raise batch.exceptions.BatchProcessingError(f"all {len(errors)} records of the batch failed", children)
