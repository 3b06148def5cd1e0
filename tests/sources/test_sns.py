from __future__ import annotations

import json

import pytest
from aws_lambda_powertools.utilities.data_classes.sns_event import SNSEventRecord

from lambda_once.core.identity import NOTHING, Refused
from lambda_once.core.unit import Unit
from lambda_once.sources.sns import SNS
from tests.sources import samples


def _only(event: object) -> Unit:
    (found,) = SNS.read(event)
    assert found.what.content.flaw is None
    return found


def test_a_message_is_a_unit() -> None:
    """Payload is the parsed Message, envelope and subject the record, delivery its MessageId."""
    event = samples.sns_event('{"orderId": 5}')
    found = _only(event)
    assert found.what.content.payload == {"orderId": 5}
    assert found.record.envelope is event["Records"][0]
    assert isinstance(found.record.argument, SNSEventRecord)
    assert found.record.argument.sns.message == '{"orderId": 5}'
    assert found.record.delivery == "95df01b4-ee98-5cb9-9903-4c221d41eb5e"
    assert found.what.position is NOTHING


def test_the_envelope_does_not_count() -> None:
    """Timestamp and signature of a delivery enter nothing that is hashed."""
    first = _only(samples.sns_event("m"))
    second = _only(samples.sns_event("m", timestamp="2026-11-20T11:00:00.000Z"))
    assert (
        first.what.content.counted(first.what.content.payload)
        == second.what.content.counted(second.what.content.payload)
        == "m"
    )


def test_an_event_on_a_topic_is_opened() -> None:
    """An EventBridge event that a rule sent to the topic is opened to its detail."""
    found = _only(samples.sns_event(json.dumps(samples.eventbridge({"orderId": 5}))))
    assert found.what.content.payload == {"orderId": 5}
    assert found.what.content.counted(found.what.content.payload) != {"orderId": 5}
    assert _only(samples.sns_event(json.dumps(samples.tick("t-1")))).what.position == ["t-1"]


def test_a_notification_of_s3_is_opened() -> None:
    """An S3 notification on a topic is hashed by what happened to which object."""
    body = samples.batch(samples.s3_record())
    found = _only(samples.sns_event(json.dumps(body)))
    assert found.what.content.payload == body
    assert found.what.content.counted(body) == [
        ["ObjectCreated:Put", "invoices", "invoice.pdf", None, "0A1B2C3D4E5F678901"]
    ]


@pytest.mark.parametrize(
    ("message", "what"), [(None, "no text Message"), ("[" * 200_000, "nested too deeply")]
)
def test_a_bad_message_is_named(message: object, what: str) -> None:
    """A record that cannot be processed is named by its id."""
    (found,) = SNS.read(samples.sns_event(message))
    assert isinstance(found.what.content.flaw, Refused)
    assert what in str(found.what.content.flaw.error)
    assert found.record.delivery == "95df01b4-ee98-5cb9-9903-4c221d41eb5e"
