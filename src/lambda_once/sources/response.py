"""Responses of a handler to API Gateway, Function URLs and load balancers: read, marked as replayed, made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from lambda_once.sources.api_gateway import Kind
from lambda_once.sources.problem import Problem

REPLAYED: Final = "Idempotent-Replayed"
"""The header that tells a client that it got a stored response."""

_LOWEST, _HIGHEST = 100, 599


def status_of(response: object, kind: Kind) -> int:
    """
    Return the status that the client gets for *response*.

    Payload format 2.0 takes a response without statusCode for the body of a 200. The others,
    and a statusCode that is none, are answered 502 (API Gateway developer guide,
    "Lambda proxy integrations": malformed Lambda proxy response).
    """
    if not isinstance(response, Mapping) or "statusCode" not in response:
        return HTTPStatus.OK.value if kind.shorthand else HTTPStatus.BAD_GATEWAY.value
    raw = response["statusCode"]
    status = int(raw) if isinstance(raw, str) and raw.isascii() and raw.isdigit() else raw
    if isinstance(status, int) and not isinstance(status, bool) and _LOWEST <= status <= _HIGHEST:
        return status
    return HTTPStatus.BAD_GATEWAY.value


def replayed(response: object, kind: Kind) -> object:
    """
    Return *response*, a stored one, with the header `Idempotent-Replayed: true`.

    A copy: the stored one stays as it is. A response that *kind* would refuse
    comes back as it was.
    """
    if not isinstance(response, Mapping) or "statusCode" not in response:
        return _with_header(_dressed(response), "headers", "true") if kind.shorthand else response
    if kind is Kind.ALB_MULTI or (kind is Kind.REST and response.get("multiValueHeaders") is not None):
        return _with_header(response, "multiValueHeaders", ["true"])
    return _with_header(response, "headers", "true")


def respond(problem: Problem, kind: Kind) -> dict[str, object]:
    """Return *problem* as the response that *kind* of event wants."""
    headers = problem.headers()
    placed: dict[str, object] = (
        {"multiValueHeaders": {name: [value] for name, value in headers.items()}}
        if kind is Kind.ALB_MULTI
        else {"headers": headers}
    )
    return {
        "statusCode": problem.status,
        **placed,
        "body": json.dumps(problem.body()),
        "isBase64Encoded": False,
    }


def _dressed(body: object) -> dict[str, object]:
    # AWS Lambda developer guide, "Invoking Lambda function URLs": a string is the body as it is,
    # all else its JSON.
    text = body if isinstance(body, str) else json.dumps(body)
    headers = {"content-type": "application/json"}
    return {"statusCode": 200, "headers": headers, "body": text, "isBase64Encoded": False}


def _with_header(response: Mapping[str, object], field: str, value: object) -> dict[str, object]:
    present = response.get(field)
    return {**response, field: {**(present if isinstance(present, Mapping) else {}), REPLAYED: value}}
