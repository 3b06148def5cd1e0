"""Events as AWS sends them. Each call makes a new delivery; hand the same event in twice for a redelivery."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlencode

Event = dict[str, Any]

_REGION = "eu-central-1"
_ACCOUNT = "123456789012"
_AT = "2026-11-20T10:12:00.000Z"
_AT_MS = "1795169520000"


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
        text = _text(body)
        record: Event = {
            "messageId": message_id,
            "receiptHandle": f"AQEB{uuid.uuid4().hex}",
            "body": text,
            "attributes": {
                "ApproximateReceiveCount": str(receive_count),
                "SentTimestamp": _AT_MS,
                "SenderId": "AIDAIENQZJOLO23YVJ4VO",
                "ApproximateFirstReceiveTimestamp": _AT_MS,
            },
            "messageAttributes": {
                name: {"stringValue": value, "dataType": "String"}
                for name, value in (attributes or {}).items()
            },
            "md5OfBody": hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(),
            "eventSource": "aws:sqs",
            "eventSourceARN": f"arn:aws:sqs:{_REGION}:{_ACCOUNT}:{queue}{'' if groups is None else '.fifo'}",
            "awsRegion": _REGION,
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
    arn = f"arn:aws:sns:{_REGION}:{_ACCOUNT}:{topic}"
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
                    "Message": _text(message),
                    "Timestamp": _AT,
                    "SignatureVersion": "1",
                    "Signature": "EXAMPLE",
                    "SigningCertUrl": f"https://sns.{_REGION}.amazonaws.com/cert.pem",
                    "UnsubscribeUrl": f"https://sns.{_REGION}.amazonaws.com/?Action=Unsubscribe",
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
        "account": _ACCOUNT,
        "time": "2026-11-20T10:12:00Z",
        "region": _REGION,
        "resources": list(resources),
        "detail": dict(detail),
    }


def api_event(
    method: str = "POST",
    path: str = "/orders",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
    version: Literal["1.0", "2.0"] = "2.0",
) -> Event:
    """
    Return a request as API Gateway hands it to a function; *body* is sent as JSON unless it is text.

    *version* 2.0 is that of HTTP APIs and Function URLs, 1.0 that of REST APIs.

        api_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    text = None if body is None else _text(body)
    sent = {"Content-Type": "application/json", **(headers or {})}
    build = _http_api if version == "2.0" else _rest_api
    return {**build(method.upper(), path, sent, dict(query or {})), "body": text, "isBase64Encoded": False}


def _http_api(method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Event:
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": urlencode(query),
        "headers": {name.lower(): value for name, value in headers.items()},
        **({"queryStringParameters": query} if query else {}),
        "requestContext": {
            "accountId": _ACCOUNT,
            "apiId": "abc123",
            "domainName": f"abc123.execute-api.{_REGION}.amazonaws.com",
            "http": {
                "method": method,
                "path": path,
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
                "userAgent": "test",
            },
            "requestId": uuid.uuid4().hex[:15],
            "routeKey": "$default",
            "stage": "$default",
            "time": "20/Nov/2026:10:12:00 +0000",
            "timeEpoch": int(_AT_MS),
        },
    }


def _rest_api(method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Event:
    return {
        "version": "1.0",
        "resource": "/{proxy+}",
        "path": path,
        "httpMethod": method,
        "headers": dict(headers),
        "multiValueHeaders": {name: [value] for name, value in headers.items()},
        "queryStringParameters": query or None,
        "multiValueQueryStringParameters": {name: [value] for name, value in query.items()} or None,
        "pathParameters": {"proxy": path.lstrip("/")},
        "stageVariables": None,
        "requestContext": {
            "accountId": _ACCOUNT,
            "apiId": "abc123",
            "resourcePath": "/{proxy+}",
            "path": f"/prod{path}",
            "stage": "prod",
            "httpMethod": method,
            "requestId": str(uuid.uuid4()),
            "requestTimeEpoch": int(_AT_MS),
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "test"},
        },
    }


def _text(body: object) -> str:
    return body if isinstance(body, str) else json.dumps(body)
