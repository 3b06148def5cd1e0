"""Events as AWS sends them. Each call makes a new delivery; hand the same event in twice for a redelivery."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from urllib.parse import quote_plus

Event = dict[str, Any]

REGION = "eu-central-1"
ACCOUNT = "123456789012"
AT = "2026-11-20T10:12:00.000Z"
AT_MS = "1795169520000"
_writes = count(0x68A3D21F5D0AA4C1)


def sqs_event(
    *bodies: object,
    fifo_groups: str | Sequence[str] | None = None,
    receive_count: int = 1,
    message_ids: Sequence[str] | None = None,
    attributes: Mapping[str, str] | None = None,
    queue: str = "orders",
) -> Event:
    """
    Return a batch with one record for each of *bodies*, which are sent as JSON unless they are text.

    *fifo_groups*: the queue is FIFO; one group for all records, or one for each. Deduplication ids are
    the bodies' hashes, as with content-based deduplication. *attributes* are message attributes of every
    record.

        sqs_event({"orderId": 5}, {"orderId": 6})
        sqs_event({"orderId": 5}, {"orderId": 6}, fifo_groups=["a", "b"])
    """
    groups = [fifo_groups] * len(bodies) if isinstance(fifo_groups, str) else fifo_groups
    ids = message_ids or [str(uuid.uuid4()) for _ in bodies]
    records: list[Event] = []
    for position, (body, message_id) in enumerate(zip(bodies, ids, strict=True)):
        text = text_of(body)
        record: Event = {
            "messageId": message_id,
            "receiptHandle": f"AQEB{uuid.uuid4().hex}",
            "body": text,
            "attributes": {
                "ApproximateReceiveCount": str(receive_count),
                "SentTimestamp": AT_MS,
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": AT_MS,
            },
            "messageAttributes": {
                name: {"stringValue": value, "dataType": "String"}
                for name, value in (attributes or {}).items()
            },
            "md5OfBody": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}{'' if groups is None else '.fifo'}",
            "awsRegion": REGION,
        }
        if groups is not None:
            record["attributes"] |= {
                "MessageGroupId": groups[position],
                "MessageDeduplicationId": hashlib.sha256(text.encode()).hexdigest(),
                "SequenceNumber": f"{18849496460467696128 + position}",
            }
        records.append(record)
    return {"Records": records}


def sns_event(*messages: object, topic: str = "orders") -> Event:
    """
    Return an event with one notification for each of *messages*, which are sent as JSON unless they are text.

        sns_event({"orderId": 5})
    """
    arn = f"arn:aws:sns:{REGION}:{ACCOUNT}:{topic}"
    return {
        "Records": [
            {
                "EventSource": "aws:sns",
                "EventVersion": "1.0",
                "EventSubscriptionArn": f"{arn}:{uuid.uuid4()}",
                "Sns": {
                    "Type": "Notification",
                    "MessageId": str(uuid.uuid4()),
                    "TopicArn": arn,
                    "Subject": None,
                    "Message": text_of(message),
                    "Timestamp": AT,
                    "SignatureVersion": "1",
                    "Signature": "EXAMPLE",
                    "SigningCertUrl": f"https://sns.{REGION}.amazonaws.com/cert.pem",
                    "UnsubscribeUrl": f"https://sns.{REGION}.amazonaws.com/?Action=Unsubscribe",
                    "MessageAttributes": {},
                },
            }
            for message in messages
        ]
    }


def eventbridge_event(
    detail: Mapping[str, object],
    detail_type: str = "OrderPlaced",
    source: str = "shop.orders",
    *,
    event_id: str | None = None,
    resources: Sequence[str] = (),
) -> Event:
    """
    Return an event as EventBridge hands it to a target.

        eventbridge_event({"orderId": 5}, "OrderPlaced", "shop.orders")
        eventbridge_event({}, "Scheduled Event", "aws.events", resources=[rule_arn])
    """
    return {
        "version": "0",
        "id": event_id or str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": "2026-11-20T10:12:00Z",
        "region": REGION,
        "resources": list(resources),
        "detail": dict(detail),
    }


def s3_event(
    *keys: str,
    bucket: str = "orders",
    event_name: str = "ObjectCreated:Put",
    version_id: str | None = None,
    sequencer: str | None = None,
) -> Event:
    """
    Return a notification with one record for each of *keys*, the objects to which *event_name* happened.

    Each call is another write to them, for S3 numbers the writes of a key; give the same *sequencer* again
    for a notification of the same write that is sent twice. Keys are given readable, and sent URL-encoded.

        s3_event("orders/5.pdf", bucket="documents")
    """
    return {
        "Records": [
            {
                "eventVersion": "2.1",
                "eventSource": "aws:s3",
                "awsRegion": REGION,
                "eventTime": AT,
                "eventName": event_name,
                "userIdentity": {"principalId": "AWS:AIDAIENQZJOLO23YVJ4VO"},
                "requestParameters": {"sourceIPAddress": "192.0.2.1"},
                "responseElements": {"x-amz-request-id": uuid.uuid4().hex[:16].upper()},
                "s3": {
                    "s3SchemaVersion": "1.0",
                    "configurationId": "notify",
                    "bucket": {
                        "name": bucket,
                        "ownerIdentity": {"principalId": "A3NL1KOZZKEXAMPLE"},
                        "arn": f"arn:aws:s3:::{bucket}",
                    },
                    "object": {
                        "key": quote_plus(key, safe="/"),
                        "size": 1024,
                        "eTag": hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(),
                        **({} if version_id is None else {"versionId": version_id}),
                        "sequencer": f"{next(_writes):018X}" if sequencer is None else sequencer,
                    },
                },
            }
            for key in keys
        ]
    }


def text_of(body: object) -> str:
    """Return *body* as it is sent: text as it is, anything else as JSON."""
    return body if isinstance(body, str) else json.dumps(body)
