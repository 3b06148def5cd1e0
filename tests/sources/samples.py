"""Events as their sources send them, one builder a source."""

from __future__ import annotations

import base64
import json
from typing import Any

from lambda_once.core.unit import Unit
from lambda_once.sources.caller import caller_of
from lambda_once.sources.headers import envelope_of
from lambda_once.sources.http import request_of, unit_of

Json = dict[str, Any]

QUEUE = "arn:aws:sqs:eu-central-1:123456789012:orders"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:orders"


def sqs_record(
    body: object = None, *, id_: str = "059f36b4-87a3-44ab-83d2-661975830a7d", **changes: Any
) -> Json:
    """One record of a standard queue, its body JSON where it is no text."""
    return {
        "messageId": id_,
        "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
        "body": body if isinstance(body, str) else json.dumps(body),
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": "1763633520000",
            "SenderId": "AIDAIENQZJOLO23YVJ4VO",
            "ApproximateFirstReceiveTimestamp": "1763633520010",
        },
        "messageAttributes": {"tenant": {"stringValue": "acme", "dataType": "String"}},
        "md5OfBody": "e4e68fb7bd0e697a0ae8f1bb342846b3",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE,
        "awsRegion": "eu-central-1",
        **changes,
    }


def fifo_record(
    body: object, *, group: str = "order-1", deduplication: str = "d-1", id_: str = "m-1"
) -> Json:
    """One record of a FIFO queue."""
    record = sqs_record(body, id_=id_, eventSourceARN=QUEUE + ".fifo")
    record["attributes"] |= {
        "MessageGroupId": group,
        "MessageDeduplicationId": deduplication,
        "SequenceNumber": "18849496460467696128",
    }
    return record


def batch(*records: object) -> Json:
    """A batch of records."""
    return {"Records": list(records)}


def notification(message: str) -> Json:
    """What SNS puts around a message on its way to a queue."""
    return {
        "Type": "Notification",
        "MessageId": "95df01b4-ee98-5cb9-9903-4c221d41eb5e",
        "TopicArn": TOPIC,
        "Message": message,
        "Timestamp": "2026-11-20T10:12:00.000Z",
        "SignatureVersion": "1",
        "Signature": "EXAMPLE",
        "SigningCertURL": "https://sns.eu-central-1.amazonaws.com/cert.pem",
        "UnsubscribeURL": "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe",
    }


def sns_event(message: object, *, timestamp: str = "2026-11-20T10:12:00.000Z") -> Json:
    """What SNS sends to a function."""
    return batch(
        {
            "EventSource": "aws:sns",
            "EventVersion": "1.0",
            "EventSubscriptionArn": TOPIC + ":21be56ed-a058-49f5-8c98-aedd2564c486",
            "Sns": {
                "Type": "Notification",
                "MessageId": "95df01b4-ee98-5cb9-9903-4c221d41eb5e",
                "TopicArn": TOPIC,
                "Subject": None,
                "Message": message,
                "Timestamp": timestamp,
                "SignatureVersion": "1",
                "Signature": "EXAMPLE " + timestamp,
                "SigningCertUrl": "https://sns.eu-central-1.amazonaws.com/cert.pem",
                "UnsubscribeUrl": "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe",
                "MessageAttributes": {},
            },
        }
    )


def eventbridge(detail: object, **changes: object) -> Json:
    """An event of EventBridge."""
    return {
        "version": "0",
        "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718",
        "detail-type": "OrderPlaced",
        "source": "shop.orders",
        "account": "123456789012",
        "time": "2026-11-20T10:12:00Z",
        "region": "eu-central-1",
        "resources": [],
        "detail": detail,
        **changes,
    }


def tick(id_: str) -> Json:
    """One tick of a schedule: the next differs by id and time alone."""
    rule = "arn:aws:events:eu-central-1:123456789012:rule/hourly"
    return eventbridge(
        {}, **{"id": id_, "detail-type": "Scheduled Event", "source": "aws.events", "resources": [rule]}
    )


def s3_record(key: str = "invoice.pdf", **changes: object) -> Json:
    """One record of an S3 notification; *changes* are of its object."""
    thing = {
        "key": key,
        "size": 1024,
        "eTag": "0123456789abcdef",
        "sequencer": "0A1B2C3D4E5F678901",
        **changes,
    }
    return {
        "eventVersion": "2.1",
        "eventSource": "aws:s3",
        "awsRegion": "eu-central-1",
        "eventTime": "2026-11-20T10:12:00.000Z",
        "eventName": "ObjectCreated:Put",
        "userIdentity": {"principalId": "AIDAJDPLRKLG7UEXAMPLE"},
        "requestParameters": {"sourceIPAddress": "192.0.2.1"},
        "responseElements": {"x-amz-request-id": "C3D13FE58DE4C810", "x-amz-id-2": "FMyUVURIY8/IgAtTv8xRjsk"},
        "s3": {
            "s3SchemaVersion": "1.0",
            "configurationId": "invoices",
            "bucket": {"name": "invoices", "arn": "arn:aws:s3:::invoices"},
            "object": {name: value for name, value in thing.items() if value is not None},
        },
    }


def rest(
    body: str | None = '{"orderId": 5}', headers: dict[str, list[str]] | None = None, **changes: object
) -> Json:
    """A request through a REST API (payload format 1.0)."""
    several = {"Content-Type": ["application/json"], **(headers or {})}
    return {
        "resource": "/orders/{id}/pay",
        "path": "/orders/5/pay",
        "httpMethod": "POST",
        "headers": {name: values[-1] for name, values in several.items()},
        "multiValueHeaders": several,
        "queryStringParameters": None,
        "multiValueQueryStringParameters": None,
        "pathParameters": {"id": "5"},
        "stageVariables": None,
        "requestContext": {
            "resourcePath": "/orders/{id}/pay",
            "path": "/prod/orders/5/pay",
            "stage": "prod",
            "httpMethod": "POST",
            "requestId": "c6af9ac6-7b61-11e6-9a41-93e8deadbeef",
            "requestTimeEpoch": 1763633520000,
            "identity": {"sourceIp": "192.0.2.1", "userArn": None, "cognitoIdentityId": None},
        },
        "body": body,
        "isBase64Encoded": False,
        **changes,
    }


def http(
    body: str | None = '{"orderId": 5}', headers: dict[str, str] | None = None, **changes: object
) -> Json:
    """A request through an HTTP API (payload format 2.0); *changes* may name `domain` and `authorizer`."""
    domain = changes.pop("domain", "abc123.execute-api.eu-central-1.amazonaws.com")
    authorizer = changes.pop("authorizer", None)
    return {
        "version": "2.0",
        "routeKey": "POST /orders/{id}/pay",
        "rawPath": "/orders/5/pay",
        "rawQueryString": "",
        "headers": {"content-type": "application/json", **(headers or {})},
        "requestContext": {
            "accountId": "123456789012",
            "domainName": domain,
            "http": {
                "method": "POST",
                "path": "/orders/5/pay",
                "protocol": "HTTP/1.1",
                "sourceIp": "192.0.2.1",
            },
            "requestId": "JKJaXmPLvHcESHA=",
            "stage": "$default",
            "time": "20/Nov/2026:10:12:00 +0000",
            **({"authorizer": authorizer} if authorizer else {}),
        },
        "body": body,
        "isBase64Encoded": False,
        **changes,
    }


def alb(body: str = '{"orderId": 5}', *, multi: bool = False, **headers: str) -> Json:
    """A request through a load balancer, in *multi* form with multi-value headers alone."""
    sent = {
        "content-type": "application/json",
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    form: Json = {"headers": sent, "queryStringParameters": {"a": "1"}}
    if multi:
        form = {
            "multiValueHeaders": {name: [value] for name, value in sent.items()},
            "multiValueQueryStringParameters": {"a": ["1"]},
        }
    group = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/orders/49e9d65c45c6791a"
    context = {"elb": {"targetGroupArn": group}}
    return {
        "requestContext": context,
        "httpMethod": "POST",
        "path": "/orders/5/pay",
        **form,
        "body": body,
        "isBase64Encoded": False,
    }


def base64_of(raw: bytes) -> str:
    """*raw* as gateways send binary bodies."""
    return base64.b64encode(raw).decode()


FOREIGN: dict[str, tuple[object, str]] = {
    "kafka": (
        {"eventSource": "aws:kafka", "records": {"o-0": [{"offset": 1, "value": "e30="}]}},
        "once.kafka",
    ),
    "self-managed kafka": ({"eventSource": "SelfManagedKafka", "records": {"orders-0": []}}, "once.kafka"),
    "self-managed kafka, as samples have it": (
        {"eventSource": "aws:SelfManagedKafka", "records": {"o-0": []}},
        "once.kafka",
    ),
    "rabbitmq": ({"eventSource": "aws:rmq", "rmqMessagesByQueue": {}}, "once.mq"),
    "activemq": ({"eventSource": "aws:amq", "messages": [{"messageID": "ID:1"}]}, "once.mq"),
    "activemq, as it was": ({"eventSource": "aws:mq", "messages": []}, "once.mq"),
    "pipes of kafka": ([{"eventSource": "aws:kafka", "eventSourceKey": "o-0", "offset": 1}], "once.kafka"),
    "pipes of self-managed kafka": ([{"eventSource": "SelfManagedKafka", "offset": 1}], "once.kafka"),
    "pipes of activemq": ([{"eventSource": "aws:amq", "eventSourceArn": "a", "data": "e30="}], "once.mq"),
    "pipes of rabbitmq": ([{"eventSource": "aws:rmq", "eventSourceKey": "q::/"}], "once.mq"),
    "pipes of kinesis": ([{"eventSource": "aws:kinesis", "sequenceNumber": "1"}], "once.kinesis"),
}
"""Events of records, each with its decorator."""

_API = "arn:aws:execute-api:eu-central-1:123456789012:abc123/prod/POST/orders"
AUTHORIZERS: dict[str, Json] = {
    "REST API, TOKEN": {"type": "TOKEN", "methodArn": _API, "authorizationToken": "Bearer good"},
    "REST API, REQUEST": rest(None) | {"type": "REQUEST", "methodArn": _API},
    "HTTP API, 1.0": rest(None) | {"version": "1.0", "type": "REQUEST", "methodArn": _API},
    "HTTP API, 2.0": http(None) | {"type": "REQUEST", "routeArn": _API, "identitySource": ["Bearer good"]},
}
"""Requests to a Lambda authorizer: each looks like an HTTP request, or like an event of somebody's own."""


def request_unit(event: Json, request_id: str = "r-1") -> Unit:
    """Return *event*, an HTTP request, as a unit that is keyed by hash, with all that expressions may see."""
    request = request_of(event)
    caller = caller_of(event, request.headers, hashed=True)
    envelope = envelope_of(event, request.headers)
    return unit_of(request, event, request_id, caller, envelope=envelope)
