"""
HTTP requests and responses of API Gateway, VPC Lattice, Function URLs and Application Load Balancers.

The event is the unit, its scope method, path and caller. The key in `Idempotency-Key` is an Item of RFC 9651
that is a string, in double quotes (IETF draft-ietf-httpapi-idempotency-key-header). Most clients send it
without them. Both are read and mean the same.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Any, Final, NamedTuple, NoReturn
from urllib.parse import parse_qsl

from lambda_once.core.codec import JSON, as_json
from lambda_once.core.results import Unavailable
from lambda_once.core.unit import NOTHING, BadRequest, MalformedRequest, Unit
from lambda_once.sources.caller import NO_VALUE, Caller, cookies_of
from lambda_once.sources.envelopes import TooDeep, parse
from lambda_once.sources.source import Source, misplaced, source_of


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
    match event:
        case {"requestContext": {"http": {"method": found}}}:
            of_context = found
        case _:
            of_context = None
    return str(event.get("httpMethod") or of_context or event.get("method") or "").upper()


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


def route_of(event: Mapping[str, Any]) -> str | None:
    """Return the path template of *event*, ``/orders/{id}``; None where the gateway knows no routes."""
    found = event.get("routeKey") or event.get("resource")
    return found.rpartition(" ")[2] if isinstance(found, str) and found else None


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
        # Bytes that are not UTF-8 stay what they are: under errors="replace" %ff and %fe would be one value.
        for name, value in parse_qsl(raw, keep_blank_values=True, errors="surrogateescape"):
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
    raise MalformedRequest(message)


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


# ------------------------------------------------------------------ headers

KEY_HEADER: Final = "Idempotency-Key"
LONGEST_KEY: Final = 255
"""Characters of a key, the quotes and escapes not counted."""

# RFC 9651, 3.3.3: printable ASCII; backslash escapes itself and the quote, and nothing else.
_STRING: Final = r'"(?:[\x20-\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"'
_BARE_ITEM: Final = "|".join(
    (
        r"-?\d{1,12}\.\d{1,3}",  # a decimal (3.3.2)
        r"@?-?\d{1,15}",  # an integer (3.3.1) or a date (3.3.7)
        _STRING,
        r"[A-Za-z*][\w!#$%&'*+.^`|~:/-]*",  # a token (3.3.4)
        r":[A-Za-z0-9+/=]*:",  # bytes (3.3.5)
        r"\?[01]",  # a boolean (3.3.6)
        r'%"(?:[\x20-\x21\x23-\x24\x26-\x7e]|%[0-9a-f]{2})*"',  # a display string (3.3.8)
    )
)
_ITEM: Final = re.compile(rf"({_STRING})(?:; *[a-z*][a-z0-9_.*-]*(?:=(?:{_BARE_ITEM}))?)*", re.ASCII)
"""A string and its parameters (3.1.2), which have no meaning here."""
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]*")


def header_key(headers: Mapping[str, tuple[str, ...]]) -> str | None:
    """
    Return the key in *headers*: 1 to 255 printable ASCII characters; None if there is none.

    An empty value, and a text for no value such as `undefined`, quoted or not, are none. The same value twice
    is one. Raises `BadRequest`, which never shows the value, for a key that cannot be used.
    """
    keys = {_unquoted(value.strip(" \t")) for value in headers.get(KEY_HEADER.lower(), ())} - {None}
    if len(keys) > 1:
        _refuse("was sent with different values: send one")
    return next(iter(keys), None)


def has_key(event: Mapping[str, object]) -> bool:
    """Whether *event*, an HTTP request, has a key, however malformed. Most have none, and that is quick."""
    names = (str(name).lower() for field in _HEADER_FIELDS for name, _ in _items(event.get(field)))
    if KEY_HEADER.lower() not in names:
        return False
    try:
        return header_key(header_values(event)) is not None
    except BadRequest:
        return True


def _unquoted(value: str) -> str | None:
    if not _PRINTABLE.fullmatch(value):
        _refuse("has characters that are not printable ASCII")
    if value.startswith('"'):
        item = _ITEM.fullmatch(value)
        if item is None:
            _refuse("starts with a quote but is not a quoted string of RFC 9651")
        value = re.sub(r"\\(.)", r"\1", item[1][1:-1])
    key = value.strip(" ")
    if len(key) > LONGEST_KEY:
        _refuse(f"has {len(key)} characters; at most {LONGEST_KEY} are allowed")
    several = key.lower().split(",")  # HTTP APIs join the values of two headers
    return None if NO_VALUE.issuperset(map(str.strip, several)) else key


def _refuse(what: str) -> NoReturn:
    message = f"The header {KEY_HEADER} {what}."
    raise BadRequest(message)


class Headers(dict[str, Any]):
    """
    A mapping of headers, by names in any case.

    It keeps the names in lower case. JMESPath calls `get` for fields, so they are found; its functions over
    whole objects (`keys`, `merge`) want the exact type `dict` and refuse it.
    """

    def __init__(self, headers: Mapping[str, object]) -> None:
        super().__init__((str(name).lower(), value) for name, value in headers.items())

    def get(self, name: object, default: object = None) -> Any:
        """Return the header *name*, in any case, or *default*."""
        return super().get(str(name).lower(), default)

    def __getitem__(self, name: str) -> Any:
        """Return the header *name*, in any case. Raises `KeyError`."""
        return super().__getitem__(name.lower())

    def __contains__(self, name: object) -> bool:
        """Whether there is a header *name*, in any case."""
        return super().__contains__(str(name).lower())


def header_values(event: Mapping[str, object]) -> Mapping[str, tuple[str, ...]]:
    """
    Return every value of every header of *event*, an HTTP request, by lower-case name.

    `multiValueHeaders` (v1, load balancers) has all of them and takes precedence; `headers` has the last one
    only, or in v2 all joined by commas, like one value with commas. In VPC Lattice v2, `headers` has lists.
    Names that differ in case are one header.
    """
    multi, single = event.get("multiValueHeaders"), event.get("headers")
    values: dict[str, tuple[str, ...]] = {}
    for name, several in multi.items() if isinstance(multi, Mapping) else ():
        lower = str(name).lower()
        values[lower] = (*values.get(lower, ()), *map(str, several if isinstance(several, list) else ()))
    known = frozenset(values)
    for name, value in single.items() if isinstance(single, Mapping) else ():
        lower = str(name).lower()
        if lower not in known and value is not None:
            several = value if isinstance(value, list) else [value]
            values[lower] = (*values.get(lower, ()), *map(str, several))
    return values


# ------------------------------------------------------------------ responses

REPLAYED: Final = "Idempotent-Replayed"
"""The header that marks a stored response for the client."""

_LOWEST, _HIGHEST = 100, 599
_HEADER_FIELDS: Final = ("headers", "multiValueHeaders")


def response_status(response: object, kind: Kind) -> int:
    """
    Return the status that the client gets for *response*.

    Payload format 2.0 takes a response without statusCode for the body of a 200. The other kinds answer 502,
    as for an invalid statusCode (API Gateway developer guide, "Lambda proxy integrations": malformed Lambda
    proxy response).
    """
    if not isinstance(response, Mapping) or "statusCode" not in response:
        return HTTPStatus.OK.value if kind.shorthand else HTTPStatus.BAD_GATEWAY.value
    raw = response["statusCode"]
    status = int(raw) if isinstance(raw, str) and raw.isascii() and raw.isdigit() else raw
    if isinstance(status, int) and not isinstance(status, bool) and _LOWEST <= status <= _HIGHEST:
        return status
    return HTTPStatus.BAD_GATEWAY.value


def stored_of(response: object, *, named: bool) -> object:
    """
    Return what is stored of *response* to a request without a key, which others may send as well.

    It is an event's response or the form of an Event Handler's. One that sets a cookie or says ``no-store``
    is for its own caller alone: if one is *named*, it is stored without its cookies; else it is withheld.
    """
    if not isinstance(response, Mapping):
        return response
    bare = _without_cookies(response)
    if bare is response and not _says_no_store(response):
        return response
    return bare if named else Unavailable.WITHHELD


def _without_cookies(response: Mapping[str, object]) -> Mapping[str, object]:
    """Return *response* itself if it sets no cookie, else a copy that sets none."""
    changed: dict[str, object] = {}
    cookies = {"cookies"} if response.get("cookies") else set()
    for field in _HEADER_FIELDS:
        headers = response.get(field)
        if isinstance(headers, Mapping):
            others = {name: value for name, value in headers.items() if str(name).lower() != "set-cookie"}
            if len(others) < len(headers):
                changed[field] = others
    if not (changed or cookies):
        return response
    return {name: value for name, value in {**response, **changed}.items() if name not in cookies}


def _says_no_store(response: Mapping[str, object]) -> bool:
    values = [
        each
        for field in _HEADER_FIELDS
        for name, value in _items(response.get(field))
        if str(name).lower() == "cache-control"
        for each in (value if isinstance(value, list | tuple) else [value])
    ]
    directives = {part.strip().lower() for value in values for part in str(value).split(",")}
    return "no-store" in directives


def replayed(response: object, kind: Kind) -> object:
    """
    Return *response*, a stored one, with the header `Idempotent-Replayed: true`.

    It is a copy. A response that *kind* would refuse is returned unchanged.
    """
    if not isinstance(response, Mapping) or "statusCode" not in response:
        return _with_header(_dressed(response), "headers", "true") if kind.shorthand else response
    if kind is Kind.ALB_MULTI or (kind is Kind.REST and response.get("multiValueHeaders") is not None):
        return _with_header(response, "multiValueHeaders", ["true"])
    return _with_header(response, "headers", "true")


def _dressed(body: object) -> dict[str, object]:
    # AWS Lambda developer guide, "Invoking Lambda function URLs": a string is the body as it is,
    # all else its JSON.
    try:
        text = body if isinstance(body, str) else json.dumps(body)
    except TypeError:  # a Decimal, which Lambda writes as a number
        text = as_json(JSON.dump(body))
    headers = {"content-type": "application/json"}
    return {"statusCode": 200, "headers": headers, "body": text, "isBase64Encoded": False}


def _with_header(response: Mapping[str, object], field: str, value: object) -> dict[str, object]:
    present = response.get(field)
    return {**response, field: {**(present if isinstance(present, Mapping) else {}), REPLAYED: value}}
