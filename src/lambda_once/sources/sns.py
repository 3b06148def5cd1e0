"""
`once.sns`: what happens to a notification of a topic.

Its shared reader and runner are in `records`. SNS invokes asynchronously: there is no response, so the
handler tries all records, of which SNS sends one, and raises the first error. Lambda then retries twice,
under the same request id; that tells a killed attempt of the same invocation from a rival's
(`Redelivery.SAME_REQUEST`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

from lambda_once.core.unit import Delivered, Unit
from lambda_once.decorators.handlers import handler_like
from lambda_once.engine.invocation import Redelivery
from lambda_once.sources.attributes import counted
from lambda_once.sources.envelopes import at, opened, origin_of, text_at
from lambda_once.sources.records import Raw, Records, RecordSource
from lambda_once.sources.source import Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings


def _locate(raw: Raw) -> Delivered:
    return Delivered(SNSEventRecord(raw), raw, text_at(raw, "Sns", "MessageId"))


def _read_content(record: Delivered, raw: Raw) -> Unit:
    """Return *record* with the Message of *raw*, opened. Each publish has another MessageId."""
    attributes = at(raw, "Sns", "MessageAttributes")
    origin = origin_of(at(raw, "Sns", "TopicArn"), attributes)
    return Unit(opened(raw, at(raw, "Sns", "Message"), "Message", origin, counted(attributes)), record)


SNS: Final = RecordSource(Source.SNS, _locate, _read_content, "the Message")


def sns_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that runs *function* for each notification, and raises the first error."""
    records = Records(SNS, runtime, function, settings, Redelivery.SAME_REQUEST)

    def handle(event: Any, context: Any) -> None:
        for error in records.run(event, context).errors:
            raise error

    return handler_like(function, handle, records)
