"""
HTTP requests of API Gateway and VPC Lattice (v1 and v2 each), Function URLs and Application Load Balancers.

The event is the unit. Its token stands within method, path and caller.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qsl

from lambda_once.sources.caller import Caller, caller_of, cookies_of
from lambda_once.sources.envelopes import TooDeep, at, parse
from lambda_once.sources.headers import BadRequest, Headers, header_values
from lambda_once.sources.source import Source, misplaced, source_of
from lambda_once.sources.unit import NOTHING, Unit


class Kind(Enum):
    """Who speaks, and so in which form it wants its answer."""

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


class Request(NamedTuple):
    """One HTTP request, read the same from every kind of event."""

    kind: Kind
    method: str
    path: str
    """As requested, never the route: `/orders/5/pay` and `/orders/6/pay` are two pieces of work."""
    headers: Mapping[str, tuple[str, ...]]
    """By lower-case name, every value as it came. A name in any case finds it."""
    query: Mapping[str, list[str]]
    body: object
    """JSON where it parses, else the text, else (base64 of no UTF-8) the bytes; None where there is none."""


_LATTICE: Final = frozenset({Kind.LATTICE, Kind.LATTICE_V2})


def kind_of(event: object) -> Kind:
    """Return the kind of *event*. Raises `Misconfigured` where it is no HTTP request."""
    source = source_of(event)
    if source is not Source.HTTP:
        raise misplaced("once.api_gateway", source, event)
    context = at(event, "requestContext")
    if at(context, "elb") is not None:
        return Kind.ALB_MULTI if at(event, "multiValueHeaders") is not None else Kind.ALB
    if at(event, "raw_path") is not None:
        return Kind.LATTICE
    if at(context, "serviceArn") is not None:
        return Kind.LATTICE_V2
    if at(context, "http") is None:
        return Kind.REST
    return Kind.FUNCTION_URL if ".lambda-url." in str(at(context, "domainName")) else Kind.HTTP


def method_of(event: object) -> str:
    """Return the method of *event*, an HTTP request, in upper case."""
    gateway = at(event, "httpMethod") or at(event, "requestContext", "http", "method")
    return str(gateway or at(event, "method") or "").upper()


def request_of(event: Mapping[str, object], kind: Kind | None = None) -> Request:
    """
    Read *event*, whose *kind* may be known.

    Raises `Misconfigured` where it is no HTTP request, `BadRequest` where its
    body cannot be decoded.
    """
    kind = kind_of(event) if kind is None else kind
    path, _, query = _path(event).partition("?") if kind in _LATTICE else (_path(event), "", "")
    return Request(
        kind=kind,
        method=method_of(event),
        path=path,
        headers=header_values(event),
        query=_query(event, query),
        body=_body(event),
    )


def unit(event: Mapping[str, object], request_id: str | None) -> Unit:
    """
    Return *event* as a unit. Raises what `request_of` raises.

    Its default hash and fingerprint are query and body: method and path, and the
    caller as far as one is named, are its scope. Who wants the Idempotency-Key asks
    `header_key`. *request_id* is Lambda's, for load balancers and VPC Lattice: they give a request none.
    """
    request = request_of(event)
    return unit_of(request, event, request_id, caller_of(event, request.headers, hashed=True))


def unit_of(request: Request, event: Mapping[str, object], request_id: str | None, caller: Caller) -> Unit:
    """Return *event*, already read as *request* of *caller*, as a unit."""
    delivery = at(event, "requestContext", "requestId")
    return Unit(
        payload=request.body,
        envelope=_envelope(event, request.headers),
        argument=event,
        delivery=delivery if isinstance(delivery, str) and delivery else request_id,
        content=partial(_content, request.query),
        key=NOTHING,
        scope=(request.method, request.path, *caller.scope),
        presented=caller.presented,
    )


def seen_for_caller(request: Request, event: Mapping[str, object]) -> Mapping[str, object]:
    """Return what an expression of ``caller=`` sees: *event*, header names in any case, cookies by name."""
    return {**_envelope(event, request.headers), "cookies": dict(cookies_of(event, request.headers))}


def _content(query: Mapping[str, list[str]], body: object) -> object:
    return {"query": query, "body": body}


def _path(event: object) -> str:
    # Not requestContext.path of v1: whether the stage stands in front depends on the endpoint, and a client
    # that tries again through the custom domain asks for the same work.
    path = at(event, "rawPath") or at(event, "path") or at(event, "raw_path")
    return path if isinstance(path, str) else ""


def _query(event: object, of_path: str) -> Mapping[str, list[str]]:
    """
    Return every value of every parameter: v2 joins them by commas, so there the raw string is read.

    VPC Lattice's is a part of its path, and *of_path*.
    """
    raw = of_path or at(event, "rawQueryString")
    if isinstance(raw, str):
        found: dict[str, list[str]] = {}
        for name, value in parse_qsl(raw, keep_blank_values=True):
            found.setdefault(name, []).append(value)
        return found
    single = at(event, "queryStringParameters") or at(event, "query_string_parameters")
    multi = at(event, "multiValueQueryStringParameters")
    merged = {
        name: [str(each) for each in (value if isinstance(value, list) else [value])]
        for name, value in _items(single)
    }
    return merged | {
        name: [str(value) for value in values] for name, values in _items(multi) if isinstance(values, list)
    }


def _items(mapping: object) -> Iterable[tuple[str, object]]:
    return mapping.items() if isinstance(mapping, Mapping) else ()


def _body(event: object) -> object:
    body = at(event, "body")
    if not isinstance(body, str):
        return body
    try:
        if True not in (at(event, "isBase64Encoded"), at(event, "is_base64_encoded")):
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


def _envelope(event: Mapping[str, object], headers: Mapping[str, tuple[str, ...]]) -> Mapping[str, object]:
    """Return *event*, header names in any case; with `headers` even where only the multi-value ones came."""
    original = at(event, "headers")
    single = (
        original
        if isinstance(original, Mapping)
        else {name: ", ".join(values) for name, values in headers.items()}
    )
    multi = at(event, "multiValueHeaders")
    return {
        **event,
        "headers": Headers(single),
        **({"multiValueHeaders": Headers(multi)} if isinstance(multi, Mapping) else {}),
    }
