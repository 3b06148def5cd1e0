"""
HTTP requests of API Gateway and VPC Lattice (v1 and v2 each), Function URLs and Application Load Balancers.

The event is the unit, its scope method, path and caller.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl

from lambda_once.sources.caller import Caller, cookies_of
from lambda_once.sources.envelopes import TooDeep, at, parse
from lambda_once.sources.headers import BadRequest, Headers, header_values
from lambda_once.sources.source import Source, misplaced, source_of
from lambda_once.sources.unit import NOTHING, Unit


class Kind(Enum):
    """The sender of a request, which decides the form of the response."""

    REST = "API Gateway, payload format 1.0"
    HTTP = "API Gateway, payload format 2.0"
    FUNCTION_URL = "Function URL"
    ALB = "load balancer"
    ALB_MULTI = "load balancer with multi-value headers"
    LATTICE = "VPC Lattice, event structure 1"
    LATTICE_V2 = "VPC Lattice, event structure 2"

    @property
    def shorthand(self) -> bool:
        """Whether a response without statusCode is the body of a 200 (payload format 2.0)."""
        return self in {Kind.HTTP, Kind.FUNCTION_URL}


class HttpRequest(NamedTuple):
    """One HTTP request, whatever kind of event it came in."""

    kind: Kind
    method: str
    path: str
    """As requested, never the route: `/orders/5/pay` and `/orders/6/pay` are two pieces of work."""
    headers: Mapping[str, tuple[str, ...]]
    """By lower-case name, every value as it came."""
    query: Mapping[str, list[str]]
    body: object
    """JSON if it parses, else the text, else (base64 of non-UTF-8) the bytes; None if there is none."""


_LATTICE: Final = frozenset({Kind.LATTICE, Kind.LATTICE_V2})


def kind_of(event: object) -> Kind:
    """Return the kind of *event*. Raises `Misconfigured` if it is not an HTTP request."""
    source = source_of(event)
    if source is not Source.HTTP:
        raise misplaced("once.api_gateway", source, event)
    match event:
        case {"requestContext": {"elb": elb}, **others} if elb is not None:
            return Kind.ALB if others.get("multiValueHeaders") is None else Kind.ALB_MULTI
        case {"raw_path": path} if path is not None:
            return Kind.LATTICE
        case {"requestContext": {"serviceArn": arn}} if arn is not None:
            return Kind.LATTICE_V2
        case {"requestContext": {"http": http, **context}} if http is not None:
            return Kind.FUNCTION_URL if ".lambda-url." in str(context.get("domainName")) else Kind.HTTP
        case _:
            return Kind.REST


def method_of(event: Mapping[str, Any]) -> str:
    """Return the method of *event*, an HTTP request, in upper case."""
    found = event.get("httpMethod") or at(event, "requestContext", "http", "method") or event.get("method")
    return str(found or "").upper()


def request_of(event: Mapping[str, Any], kind: Kind | None = None, method: str | None = None) -> HttpRequest:
    """
    Read *event*, whose *kind* and *method* may be known.

    Raises `Misconfigured` if it is not an HTTP request, `BadRequest` if its body cannot be decoded.
    """
    kind = kind_of(event) if kind is None else kind
    path, _, query = _path(event).partition("?") if kind in _LATTICE else (_path(event), "", "")
    return HttpRequest(
        kind=kind,
        method=method_of(event) if method is None else method,
        path=path,
        headers=header_values(event),
        query=_query(event, query),
        body=_body(event),
    )


def unit_of(
    request: HttpRequest,
    event: Mapping[str, Any],
    request_id: str | None,
    caller: Caller,
    key: str | None = None,
    envelope: Mapping[str, object] | None = None,
) -> Unit:
    """
    Return *event*, read as *request* of *caller*, as a unit, whose Idempotency-Key is *key*.

    Query and body are hashed; method, path and the caller, if one is named, are its scope. *request_id* is
    Lambda's, for load balancers and VPC Lattice, which give a request none. *envelope*: see `envelope_of`.
    """
    context = event.get("requestContext")
    delivery = context.get("requestId") if isinstance(context, Mapping) else None
    if key is not None:
        delivery = None  # every retry of a client is a request of its own
    elif not isinstance(delivery, str) or not delivery:
        delivery = request_id
    return Unit(
        payload=request.body,
        envelope=event if envelope is None else envelope,
        argument=event,
        delivery=delivery,
        content=partial(_content, request.query),
        key=NOTHING if key is None else key,
        scope=(request.method, request.path, *caller.scope),
        presented=caller.presented,
    )


def seen_for_caller(request: HttpRequest, event: Mapping[str, object]) -> Mapping[str, object]:
    """Return what an expression of ``caller=`` sees: *event*, header names in any case, cookies by name."""
    return {**envelope_of(event, request.headers), "cookies": dict(cookies_of(event, request.headers))}


def _content(query: Mapping[str, list[str]], body: object) -> object:
    return {"query": query, "body": body}


def _path(event: Mapping[str, object]) -> str:
    # Not requestContext.path of v1: whether it begins with the stage depends on the endpoint, and a client
    # that retries through the custom domain means the same work.
    path = event.get("rawPath") or event.get("path") or event.get("raw_path")
    return path if isinstance(path, str) else ""


def _query(event: Mapping[str, object], of_path: str) -> Mapping[str, list[str]]:
    """
    Return every value of every parameter: v2 joins them by commas, so there the raw string is read.

    VPC Lattice's is a part of its path, and *of_path*.
    """
    raw = of_path or event.get("rawQueryString")
    if isinstance(raw, str):
        found: dict[str, list[str]] = {}
        for name, value in parse_qsl(raw, keep_blank_values=True):
            found.setdefault(name, []).append(value)
        return found
    single = event.get("queryStringParameters") or event.get("query_string_parameters")
    multi = event.get("multiValueQueryStringParameters")
    merged = {
        name: [str(each) for each in (value if isinstance(value, list) else [value])]
        for name, value in _items(single)
    }
    return merged | {
        name: [str(value) for value in values] for name, values in _items(multi) if isinstance(values, list)
    }


def _items(mapping: object) -> Iterable[tuple[str, object]]:
    return mapping.items() if isinstance(mapping, Mapping) else ()


def _body(event: Mapping[str, object]) -> object:
    body = event.get("body")
    if not isinstance(body, str):
        return body
    try:
        if True not in (event.get("isBase64Encoded"), event.get("is_base64_encoded")):
            return parse(body)
        raw = base64.b64decode(body, validate=True)
        try:
            return parse(raw.decode())
        except UnicodeDecodeError:
            return raw
    except TooDeep as error:
        message = f"The body of the request {error}."
    except (binascii.Error, ValueError):
        message = "The body of the request is marked as base64 but is not valid base64."
    raise BadRequest(message)


def envelope_of(event: Mapping[str, object], headers: Mapping[str, tuple[str, ...]]) -> Mapping[str, object]:
    """
    Return *event* with header names in any case, which an expression of ``scope=`` sees.

    It has `headers` even if only the multi-value ones came.
    """
    original = event.get("headers")
    single = (
        original
        if isinstance(original, Mapping)
        else {name: ", ".join(values) for name, values in headers.items()}
    )
    multi = event.get("multiValueHeaders")
    return {
        **event,
        "headers": Headers(single),
        **({"multiValueHeaders": Headers(multi)} if isinstance(multi, Mapping) else {}),
    }
