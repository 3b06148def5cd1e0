"""Events as AWS sends them. Each call makes a new delivery; pass the same event twice for a redelivery."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from urllib.parse import quote, quote_plus, urlencode

from lambda_once.core.checks import checked_flag

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
    Return an event with one notification for each of *messages*, sent as JSON unless they are text.

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
    Return an event as EventBridge sends it to a target.

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
    Return a notification of *event_name* with one record for each of *keys*, the objects.

    Each call is a new write of the objects; pass the same *sequencer* again for a second notification of one
    write. Keys are sent URL-encoded.

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


def s3_eventbridge_event(
    key: str,
    *,
    bucket: str = "orders",
    detail_type: str = "Object Created",
    version_id: str | None = None,
    sequencer: str | None = None,
    event_id: str | None = None,
) -> Event:
    """
    Return what S3 sends through EventBridge of the object *key*: the kind is *detail_type*.

    Each call is a new write of the object; pass the same *sequencer* again for a second event of one write.
    The key is sent as it is, not URL-encoded.

        s3_eventbridge_event("orders/5.pdf", bucket="documents")
    """
    thing = {
        "key": key,
        "size": 1024,
        "etag": hashlib.md5(key.encode(), usedforsecurity=False).hexdigest(),
        **({} if version_id is None else {"version-id": version_id}),
        "sequencer": f"{next(_writes):018X}" if sequencer is None else sequencer,
    }
    detail = {
        "version": "0",
        "bucket": {"name": bucket},
        "object": thing,
        "request-id": uuid.uuid4().hex[:16].upper(),
        "requester": ACCOUNT,
        "source-ip-address": "192.0.2.1",
        "reason": "PutObject",
    }
    resources = [f"arn:aws:s3:::{bucket}"]
    return eventbridge_event(detail, detail_type, "aws.s3", event_id=event_id, resources=resources)


# -- HTTP requests


def api_event(
    method: str = "POST",
    path: str = "/orders",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
) -> Event:
    """
    Return a request as an HTTP API sends it to a function; *body* is sent as JSON unless it is text.

        api_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    return {**_http_api(method.upper(), path, _sent(headers), dict(query or {})), **_body(body)}


def rest_api_event(
    method: str = "POST",
    path: str = "/orders",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
) -> Event:
    """
    Return a request as a REST API sends it to a function; *body* is sent as JSON unless it is text.

        rest_api_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    return {**_rest_api(method.upper(), path, _sent(headers), dict(query or {})), **_body(body)}


def function_url_event(
    method: str = "POST",
    path: str = "/",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
) -> Event:
    """
    Return a request as a Function URL sends it to its function; *body* is sent as JSON unless it is text.

        function_url_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    event = _http_api(method.upper(), path, _sent(headers), dict(query or {}))
    event["requestContext"] |= {
        "accountId": "anonymous",
        "apiId": "abc123",
        "domainName": f"abc123.lambda-url.{REGION}.on.aws",
        "domainPrefix": "abc123",
        "requestId": str(uuid.uuid4()),
    }
    return {**event, **_body(body)}


def alb_event(
    method: str = "POST",
    path: str = "/orders",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
    multi_value: bool = False,
) -> Event:
    """
    Return a request as a load balancer sends it to a function; *body* is sent as JSON unless it is text.

    *multi_value*: its target group uses multi-value headers, also in the response.

        alb_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    group = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup/orders/73e2d6bc24d8a067"
    # A load balancer sends header names in lower case, and query parameters as they were encoded.
    sent = {name.lower(): value for name, value in _sent(headers).items()}
    asked = {quote(name): quote(value) for name, value in (query or {}).items()}
    form: Event = {"headers": sent, "queryStringParameters": asked}
    if checked_flag("multi_value", multi_value):
        form = {
            "multiValueHeaders": {name: [value] for name, value in sent.items()},
            "multiValueQueryStringParameters": {name: [value] for name, value in asked.items()},
        }
    context = {"elb": {"targetGroupArn": group}}
    return {
        "requestContext": context,
        "httpMethod": method.upper(),
        "path": path,
        **form,
        **_body(body, absent=""),
    }


def _sent(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {"Content-Type": "application/json", **(headers or {})}


def _body(body: object, absent: str | None = None) -> dict[str, Any]:
    return {"body": absent if body is None else text_of(body), "isBase64Encoded": False}


def _http_api(method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Event:
    return {
        "version": "2.0",
        "routeKey": "$default",
        "rawPath": path,
        "rawQueryString": urlencode(query),
        "headers": {name.lower(): value for name, value in headers.items()},
        **({"queryStringParameters": query} if query else {}),
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": "abc123",
            "domainName": f"abc123.execute-api.{REGION}.amazonaws.com",
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
            "timeEpoch": int(AT_MS),
        },
    }


def _rest_api(method: str, path: str, headers: Mapping[str, str], query: Mapping[str, str]) -> Event:
    return {
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
            "accountId": ACCOUNT,
            "apiId": "abc123",
            "domainName": f"abc123.execute-api.{REGION}.amazonaws.com",
            "resourcePath": "/{proxy+}",
            "path": f"/prod{path}",
            "stage": "prod",
            "httpMethod": method,
            "requestId": str(uuid.uuid4()),
            "requestTimeEpoch": int(AT_MS),
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "test"},
        },
    }


def text_of(body: object) -> str:
    """Return *body* as it is sent: text unchanged, anything else as JSON."""
    return body if isinstance(body, str) else json.dumps(body)
