"""HTTP requests as API Gateway, Function URLs, load balancers and VPC Lattice hand them to a function."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import quote, urlencode

from lambda_once.testing.events import ACCOUNT, AT_MS, REGION, Event, text_of


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

    *version* 2.0 is that of HTTP APIs, 1.0 that of REST APIs.

        api_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    build = _http_api if version == "2.0" else _rest_api
    return {**build(method.upper(), path, _sent(headers), dict(query or {})), **_body(body)}


def function_url_event(
    method: str = "POST",
    path: str = "/",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
) -> Event:
    """
    Return a request as a Function URL hands it to its function; *body* is sent as JSON unless it is text.

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
    Return a request as a load balancer hands it to a function; *body* is sent as JSON unless it is text.

    *multi_value*: its target group has multi-value headers on, and wants them in the response.

        alb_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    group = f"arn:aws:elasticloadbalancing:{REGION}:{ACCOUNT}:targetgroup/orders/73e2d6bc24d8a067"
    # A load balancer sends header names in lower case, and query parameters as they were encoded.
    sent = {name.lower(): value for name, value in _sent(headers).items()}
    asked = {quote(name): quote(value) for name, value in (query or {}).items()}
    form: Event = {"headers": sent, "queryStringParameters": asked}
    if multi_value:
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


def lattice_event(
    method: str = "POST",
    path: str = "/orders",
    body: object = None,
    headers: Mapping[str, str] | None = None,
    *,
    query: Mapping[str, str] | None = None,
    principal: str | None = None,
) -> Event:
    """
    Return a request as VPC Lattice hands it to a function, by event structure version 2.

    *body* is sent as JSON unless it is text. *principal*: the role that its IAM authorisation has seen.

        lattice_event("POST", "/orders", {"item": "tea"}, {"Idempotency-Key": "5f2b"})
    """
    arn = f"arn:aws:vpc-lattice:{REGION}:{ACCOUNT}"
    network = f"arn:aws:ec2:{REGION}:{ACCOUNT}:vpc/vpc-0b8276c84697e7339"
    signed = {
        "type": "AWS_IAM",
        "principal": principal,
        "sessionName": (principal or "").rpartition("/")[2],
    }
    return {
        "version": "2.0",
        "path": path,
        "method": method.upper(),
        "headers": {name.lower(): [value] for name, value in _sent(headers).items()},
        "queryStringParameters": {name: [value] for name, value in (query or {}).items()},
        **_body(body),
        "requestContext": {
            "serviceNetworkArn": f"{arn}:servicenetwork/sn-0bf3f2882e9cc805a",
            "serviceArn": f"{arn}:service/svc-0a40eebed65f8d69c",
            "targetGroupArn": f"{arn}:targetgroup/tg-6d0ecf831eec9f09",
            "identity": {"sourceVpcArn": network, **({} if principal is None else signed)},
            "region": REGION,
            "timeEpoch": f"{AT_MS}000",
        },
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
            "accountId": ACCOUNT,
            "apiId": "abc123",
            "resourcePath": "/{proxy+}",
            "path": f"/prod{path}",
            "stage": "prod",
            "httpMethod": method,
            "requestId": str(uuid.uuid4()),
            "requestTimeEpoch": int(AT_MS),
            "identity": {"sourceIp": "192.0.2.1", "userAgent": "test"},
        },
    }
