from __future__ import annotations

import json
from copy import deepcopy

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once.core.identity import NOTHING, Refused, scope_of
from lambda_once.core.unit import Unit
from lambda_once.sources.records import failures
from lambda_once.sources.sqs import SQS
from tests.sources import samples


def _only(record: object) -> Unit:
    (message,) = SQS.read(samples.batch(record))
    return message


def _unit(record: object) -> Unit:
    found = _only(record)
    assert found.what.content.flaw is None
    return found


def _hashed(record: object) -> object:
    found = _unit(record)
    assert found.what.position is NOTHING
    return found.what.content.counted(found.what.content.payload)


def test_a_record_is_a_unit() -> None:
    """Payload is the parsed body, envelope and subject the record, delivery its messageId."""
    record = samples.sqs_record({"orderId": 5}, id_="m-1")
    message = _only(record)
    assert (message.record.id, message.record.group) == ("m-1", None)
    found = _unit(record)
    assert found.what.content.payload == {"orderId": 5}
    assert found.record.envelope is record
    assert isinstance(found.record.argument, SQSRecord)
    assert found.record.argument.raw_event is record
    assert found.record.delivery == "m-1"
    assert found.what.position is NOTHING
    assert scope_of(found.what) == ()


def test_text_is_a_payload() -> None:
    """A body that is no JSON is the payload as it is."""
    assert _unit(samples.sqs_record("order 5")).what.content.payload == "order 5"


def test_a_redelivery_is_the_same_work() -> None:
    """Receipt handle, receive count and timestamps enter nothing that is hashed."""
    first = samples.sqs_record({"orderId": 5})
    again = deepcopy(first) | {"receiptHandle": "AQEBother"}
    again["attributes"] |= {
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": "1763633999999",
    }
    assert _hashed(first) == _hashed(again) == {"orderId": 5}
    assert _unit(first).record.delivery == _unit(again).record.delivery


def test_attributes_do_not_count() -> None:
    """Message attributes are no part of the content, as in SQS' own deduplication."""
    assert _hashed(samples.sqs_record({"a": 1})) == _hashed(
        samples.sqs_record({"a": 1}, messageAttributes={})
    )


def test_a_fifo_record_is_keyed_by_group_and_deduplication_id() -> None:
    """On a FIFO queue the sender's deduplication id within its group is the key."""
    record = samples.fifo_record({"orderId": 5}, group="g", deduplication="d")
    assert _only(record).record.group == "g"
    assert _unit(record).what.position == ["g", "d"]


def test_a_group_on_a_standard_queue_is_no_order() -> None:
    """Standard queues carry group ids too (fair queues): they neither order nor key."""
    record = samples.fifo_record({"orderId": 5}) | {"eventSourceARN": samples.QUEUE}
    assert _only(record).record.group is None
    assert _unit(record).what.position is NOTHING


def test_fifo_without_its_ids_keeps_order() -> None:
    """A FIFO record without ids still belongs to a group, and is hashed by content."""
    record = samples.sqs_record({"orderId": 5}, eventSourceARN=samples.QUEUE + ".fifo")
    assert _only(record).record.group == ""
    assert _unit(record).what.position is NOTHING


def test_a_notification_is_opened() -> None:
    """Of an SNS notification the Message counts, never its id, time or signature."""
    bodies = [samples.notification('{"orderId": 5}', id_=id_) for id_ in ("n-1", "n-2")]
    first, second = (samples.sqs_record(body) for body in bodies)
    assert _unit(first).what.content.payload == {"orderId": 5}
    assert _hashed(first) == _hashed(second) == {"orderId": 5}


def test_an_eventbridge_event_is_opened() -> None:
    """Of an EventBridge event the detail is the payload; source, type and resources are hashed with it."""
    event = samples.eventbridge({"orderId": 5})
    record = samples.sqs_record(event)
    assert _unit(record).what.content.payload == {"orderId": 5}
    assert _hashed(record) == {
        "source": "shop.orders",
        "detail-type": "OrderPlaced",
        "resources": [],
        "detail": {"orderId": 5},
    }
    assert _hashed(record) == _hashed(
        samples.sqs_record(event | {"id": "other", "time": "2026-11-20T11:00:00Z"})
    )
    assert _hashed(record) != _hashed(samples.sqs_record(event | {"detail-type": "OrderCancelled"}))


def test_ignored_fields_of_an_opened_event_do_not_count() -> None:
    """The content is made of the payload it is given, with ignored fields removed."""
    found = _unit(samples.sqs_record(samples.eventbridge({"orderId": 5, "sent": 1})))
    other = _unit(samples.sqs_record(samples.eventbridge({"orderId": 5, "sent": 2})))
    assert found.what.content.counted({"orderId": 5}) == other.what.content.counted({"orderId": 5})


def test_two_ticks_in_a_queue_are_two_pieces_of_work() -> None:
    """Events with an empty detail are distinguished by their id."""
    assert _unit(samples.sqs_record(samples.tick("t-1"))).what.position == ["t-1"]
    assert _unit(samples.sqs_record(samples.tick("t-2"))).what.position == ["t-2"]


def test_an_s3_notification_is_opened() -> None:
    """An S3 notification is the payload itself; its event time does not count."""
    body = samples.batch(samples.s3_record(), samples.s3_record("other.pdf"))
    later = deepcopy(body)
    later["Records"][0]["eventTime"] = "2026-11-20T11:00:00.000Z"
    assert _unit(samples.sqs_record(body)).what.content.payload == body
    assert _hashed(samples.sqs_record(body)) == _hashed(samples.sqs_record(later))
    assert _hashed(samples.sqs_record(body)) != _hashed(
        samples.sqs_record(samples.batch(samples.s3_record()))
    )


@pytest.mark.parametrize(
    ("inner", "payload"),
    [
        (samples.eventbridge({"orderId": 5}), {"orderId": 5}),
        (samples.batch(samples.s3_record()), samples.batch(samples.s3_record())),
        (samples.notification("deep"), "deep"),
    ],
)
def test_envelopes_are_opened_inside_a_notification(inner: object, payload: object) -> None:
    """What SNS carries for EventBridge, S3 or another topic is opened too."""
    assert _unit(samples.sqs_record(samples.notification(json.dumps(inner)))).what.content.payload == payload


def test_opening_is_bounded() -> None:
    """Notifications wrapped without end are opened a few deep, and the rest is payload."""
    text = "core"
    for _ in range(8):
        text = json.dumps(samples.notification(text))
    payload = _unit(samples.sqs_record(text)).what.content.payload
    assert isinstance(payload, dict)
    assert payload["Type"] == "Notification"


@pytest.mark.parametrize(
    "body",
    [
        {"Type": "Notification", "Message": "m"},
        {"Type": "Order", "MessageId": "1", "TopicArn": "t", "Message": "m"},
        {"source": "s", "detail-type": "t", "detail": {}},
        {"Records": []},
        {"Records": [{"eventSource": "aws:other"}]},
        {"Records": 5},
    ],
)
def test_what_only_resembles_an_envelope_stays_closed(body: object) -> None:
    """A body of the user's own that lacks what AWS always sends counts whole."""
    assert _unit(samples.sqs_record(body)).what.content.payload == body
    assert _hashed(samples.sqs_record(body)) == body


@pytest.mark.parametrize(
    ("record", "id_", "what"),
    [
        (None, None, "not a JSON object"),
        ("text", None, "not a JSON object"),
        (
            {key: value for key, value in samples.sqs_record({}).items() if key != "messageId"},
            None,
            "no messageId",
        ),
        (samples.sqs_record({}, messageId=""), None, "no messageId"),
        (samples.sqs_record({}, messageId=5), None, "no messageId"),
        (samples.sqs_record({}, id_="m-1") | {"body": None}, "m-1", "Record m-1 has no text body"),
        (
            samples.sqs_record({}, id_="m-1") | {"body": {"secret": 1}},
            "m-1",
            "Record m-1 has no text body",
        ),
        (
            samples.sqs_record("[" * 200_000, id_="m-1"),
            "m-1",
            "Record m-1 has a body that is JSON nested too deeply",
        ),
        (
            samples.sqs_record(samples.notification("[" * 200_000), id_="m-1"),
            "m-1",
            "Record m-1 has a body that is JSON nested too deeply",
        ),
        ({}, None, "no messageId"),
    ],
)
def test_a_bad_record_fails_alone(record: object, id_: str | None, what: str) -> None:
    """A record that cannot be processed is named, with what to do; the rest of its batch is processed."""
    bad, good = SQS.read(samples.batch(record, samples.sqs_record({"orderId": 5})))
    assert isinstance(bad.what.content.flaw, Refused)
    assert (bad.record.id, bad.record.delivery) == (id_, id_)
    message = str(bad.what.content.flaw.error)
    assert what in message
    assert "Fix the producer" in message
    assert "secret" not in message
    assert good.what.content.flaw is None


def test_a_bad_fifo_record_keeps_its_group() -> None:
    """A bad record of a FIFO queue still ends its message group, so the group is known."""
    assert _only(samples.fifo_record({}, group="g") | {"body": None}).record.group == "g"


def test_failures_are_named_once() -> None:
    """Each failed id is in the response once, in order."""
    assert failures(["b", "a", "b"]) == {
        "batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "a"}]
    }


def test_no_failure_is_success() -> None:
    """An empty list says that the whole batch succeeded."""
    assert failures([]) == {"batchItemFailures": []}


@pytest.mark.parametrize("ids", [[None], ["a", None], ["", "a"]])
def test_a_failure_without_id_fails_the_batch(ids: list[str | None]) -> None:
    """A failed record that cannot be named is not acknowledged: the whole batch comes again."""
    assert failures(ids) == {"batchItemFailures": [{"itemIdentifier": ""}]}
