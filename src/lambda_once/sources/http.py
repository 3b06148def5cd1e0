"""
`once.api_gateway`: what happens to a request of API Gateway, a Function URL or a load balancer.

The event is the unit, its scope method, path and caller. The key and all other headers are read by `headers`,
the caller by `caller` (which names join the token, and what a duplicate must present again), errors become
the documents of `problems`. A duplicate is answered before any check that the handler makes: so a stored
response goes only to the caller that it was made for. `once.route` (integrations/event_handler.py) identifies
its requests by `HttpIdentifier`, too.

What we're not happy with: five kinds of event, told apart by their fields, and three forms of response.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from enum import Enum
from functools import partial
from http import HTTPMethod, HTTPStatus
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import parse_qsl

from lambda_once.core.fields import printable
from lambda_once.core.identity import NOTHING, Content, Given, Identity, Refused, scope_of, whole
from lambda_once.core.keys import Selector
from lambda_once.core.results import Unavailable
from lambda_once.core.unit import Delivered, MalformedRequest, Unit
from lambda_once.core.written import UNESCAPED, HandlerCodec, form_of, text_of
from lambda_once.decorators.handlers import apply_on_replay, execute, handler_like, unprotected, with_context
from lambda_once.decorators.identify import Identifier
from lambda_once.decorators.names import name_of
from lambda_once.decorators.selectors import with_selectors_of_one
from lambda_once.decorators.validation import check_of_one
from lambda_once.engine.invocation import Output, Receiver, unchanged
from lambda_once.engine.replay import Replayed
from lambda_once.errors import CallerMissing, KeyMissing, Misconfigured, OnceError
from lambda_once.observability.events import Event
from lambda_once.policies import ErrorResponse
from lambda_once.settings import FOR_API, FOR_HASHED_API
from lambda_once.sources.caller import NO_CALLER, Caller, by_option, caller_of, cookies_of
from lambda_once.sources.envelopes import TooDeep, at, parse, parse_bytes, text_at
from lambda_once.sources.headers import (
    HEADER_FIELDS,
    KEY_HEADER,
    envelope_of,
    has_key,
    header_key,
    header_values,
    items_of,
)
from lambda_once.sources.problems import Problem, problem_for
from lambda_once.sources.source import Source, misplaced, source_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.invocation import Call, Invocation
    from lambda_once.settings import Settings

# ------------------------------------------------------------------ reading


class Kind(Enum):
    """The sender of a request, which decides the form of the response."""

    REST = "API Gateway, payload format 1.0"
    HTTP = "API Gateway, payload format 2.0"
    FUNCTION_URL = "Function URL"
    ALB = "load balancer"
    ALB_MULTI = "load balancer with multi-value headers"

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


def kind_of(event: object) -> Kind:
    """Return the kind of *event*. Raises `Misconfigured` if it is not an HTTP request."""
    source = source_of(event)
    if source is not Source.HTTP:
        raise misplaced("once.api_gateway", source, event)
    fields: Any = event
    context = fields["requestContext"]
    if context.get("elb") is not None:
        return Kind.ALB if fields.get("multiValueHeaders") is None else Kind.ALB_MULTI
    if context.get("http") is not None:
        return Kind.FUNCTION_URL if ".lambda-url." in str(context.get("domainName")) else Kind.HTTP
    return Kind.REST


def method_of(event: Mapping[str, Any]) -> str:
    """Return the method of *event*, an HTTP request, in upper case."""
    method = event.get("httpMethod") or at(event, "requestContext", "http", "method")
    return str(method or "").upper()


def request_of(event: Mapping[str, Any], kind: Kind | None = None, method: str | None = None) -> HttpRequest:
    """
    Read *event*, whose *kind* and *method* may be known.

    Raises `Misconfigured` if it is not an HTTP request, `BadRequest` if its body cannot be decoded.
    """
    kind = kind_of(event) if kind is None else kind
    method = method_of(event) if method is None else method
    # Not requestContext.path of v1: whether it begins with the stage depends on the endpoint, and a client
    # that retries through the custom domain means the same work.
    path = event.get("rawPath") or event.get("path")
    path = path if isinstance(path, str) else ""
    query, body = _query(event), _body(event)
    return HttpRequest(kind, method, path, header_values(event), query, body)


def route_of(event: Mapping[str, Any]) -> str | None:
    """Return the path template of *event*, ``/orders/{id}``; None if the gateway has no routes."""
    route = event.get("routeKey") or event.get("resource")
    return route.rpartition(" ")[2] if isinstance(route, str) and route else None


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
    Lambda's, for load balancers, which give a request none. *envelope*: see `envelope_of`.
    """
    # With a key, a retry is another request with another id.
    delivery = None if key is not None else text_at(event, "requestContext", "requestId") or request_id
    identity = Identity(
        who=caller.who,
        operation=(request.method, request.path),
        origin=NOTHING,
        position=NOTHING if key is None else Given(key),
        attributes=NOTHING,
        content=Content(request.body, lambda body: {"query": request.query, "body": body}),
    )
    return Unit(identity, Delivered(event, event if envelope is None else envelope, delivery))


def _query(event: Mapping[str, object]) -> Mapping[str, list[str]]:
    """Return every value of every parameter: v2 joins them by commas, so there the raw string is read."""
    query_string = event.get("rawQueryString")
    if isinstance(query_string, str):
        query: dict[str, list[str]] = {}
        if not query_string:
            return query
        # Bytes that are not UTF-8 stay distinct: under errors="replace" %ff and %fe would be one value.
        for name, value in parse_qsl(query_string, keep_blank_values=True, errors="surrogateescape"):
            query.setdefault(name, []).append(value)
        return query
    single, multi = event.get("queryStringParameters"), event.get("multiValueQueryStringParameters")
    return {name: [str(value)] for name, value in items_of(single)} | {
        name: [str(value) for value in values] for name, values in items_of(multi) if isinstance(values, list)
    }


def _body(event: Mapping[str, object]) -> object:
    body = event.get("body")
    if not isinstance(body, str):
        return body
    is_base64 = event.get("isBase64Encoded") is True
    try:
        return parse_bytes(base64.b64decode(body, validate=True)) if is_base64 else parse(body)
    except TooDeep as error:
        message = f"The body of the request {error}."
    except (binascii.Error, ValueError):
        message = "The body of the request is marked as base64 but is not valid base64."
    raise MalformedRequest(message)


# ------------------------------------------------------------------ identifying

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1): protected only if ``methods=`` names them."""
STORED_BELOW = 400
MOST_PATHS = 32
"""Paths that are named in the log for each decorator, where routes take any path."""
_ANY_PATH: Final = r"\+}|\.[+*]"
"""In the route of a gateway `{proxy+}`, in one of an Event Handler an expression."""


class KeyedRequest(NamedTuple):
    """A request as a unit, and the caller it comes from."""

    unit: Unit
    hashed: bool
    """Whether its key is its hash: the client sent no key that marks equal requests as one."""
    caller: Caller

    @property
    def keep(self) -> timedelta:
        """How long its outcome is kept by default."""
        return FOR_HASHED_API if self.hashed else FOR_API


class HttpIdentifier:
    """
    Identifies HTTP requests of a handler or route: which are protected, and by which call.

    *error_in* returns the error that a returned value means; by default the HTTP status decides. *shown*
    returns a returned value as the response that a client gets.
    """

    def __init__(
        self,
        decorator: str,
        runtime: Runtime,
        settings: Settings,
        default_name: str,
        error_in: Callable[[Any], BaseException | None] | None = None,
        codec: HandlerCodec | None = None,
        shown: Callable[[Any], object] | None = None,
    ) -> None:
        self.decorator = decorator
        self._settings = settings
        self._error_in = error_in
        self._codec = HandlerCodec() if codec is None else codec
        self._shown = as_sent if shown is None else shown
        self.runtime = runtime
        self._default_name = default_name
        self._identifiers: dict[tuple[Kind, timedelta], Identifier] = {}
        self._paths: set[str] = set()
        """Paths that `_place` has returned, of requests whose route takes any path."""

    @property
    def name(self) -> str:
        """The name in the token."""
        return Identifier(self.runtime, self._settings, self._codec, self._default_name).name

    @property
    def caller_selector(self) -> Selector | Literal[False]:
        """``caller=``; None: the rules of `sources.caller`."""
        return self._settings.caller

    def covers(self, method: str) -> bool:
        methods = self._settings.methods
        return method not in SAFE if methods is None else method in methods

    def call(
        self, event: Mapping[str, Any], kind: Kind, invocation: Invocation, route: str | None = None
    ) -> Call | None:
        """
        Return the call of *event*; None: its method is not protected, or ``without_key="run"`` lets it run.

        *route*: its path template, if an Event Handler knows it.
        Raises `KeyMissing` for a key that is malformed, or missing although required, and `CallerMissing`.
        """
        method = method_of(event)
        if not self.covers(method):
            self._warn_if_keyed(event, kind, method, route)
            return None
        try:
            request = self.read(event, kind, method, invocation.request_id, invocation.context)
        except OnceError as error:
            if not self.runtime.disabled:
                self.of_kind(kind).refused(error, invocation, invocation.request_id)
                raise
            # Everything runs unprotected, this request, too.
            unread = Unit(whole(Content(None, flaw=Refused(error))), Delivered(event, event))
            request = KeyedRequest(unread, hashed=False, caller=NO_CALLER)
        if request is None:
            return None
        warning = request.caller.warning
        identifier = self.of_kind(kind, request.keep)
        separate = warning is None and request.caller is not NO_CALLER
        stored: Callable[[Any], Any] = unchanged
        if request.hashed:
            stored = partial(self._stored_of, identifier, request, route or route_of(event))
        call = identifier.call(
            request.unit, invocation, arguments=(event,), separate=separate, stored_of=stored
        )
        if warning is not None and call is not None:
            self.runtime.reporter.warn_once(Event.UNSCOPED, warning, identifier)
        return call

    def _warn_if_keyed(self, event: Mapping[str, Any], kind: Kind, method: str, route: str | None) -> None:
        """Report *event*, of a *method* that is not protected, if its client relies on a key."""
        if self._settings.key is not None or self.runtime.disabled or not has_key(event):
            return
        shown, where = _shown_method(method), printable(route or route_of(event) or "(any path)")
        example = f'"{method}", …' if shown == method else "…"
        reason = (
            f"{shown} {where}: a request with an Idempotency-Key ran unprotected, and so will its retries: "
            f"protect the method with methods={{{example}}}, or let clients send no key"
        )
        identifier = self.of_kind(kind)
        self.runtime.reporter.warn_once(Event.NOT_PROTECTED, reason, identifier, of=(self, shown, where))

    def _stored_of(
        self, identifier: Identifier, request: KeyedRequest, route: str | None, response: object
    ) -> object:
        """Return what is stored of *response* to *request*, which has no key; *route* is for the log."""
        sent = self._shown(response)
        is_body = self._error_in is None and not (isinstance(sent, Mapping) and "statusCode" in sent)
        if is_body:  # the shorthand of payload 2.0: it has no headers
            return response
        stored = stored_of(sent, named=request.caller.joins_as_user)
        if stored is sent:
            return response
        if stored is Unavailable.WITHHELD:
            method, path, *_ = scope_of(request.unit.what)
            where = f"{_shown_method(str(method))} {self._place(str(path), route)}"
            reason = (
                f"{where}: the response sets a cookie or says no-store, and no user is named: it is "
                'not stored, and duplicates get 409. Pass without_key="run", or exclude the route'
            )
            self.runtime.reporter.warn_once(Event.NOT_STORED, reason, identifier, of=(self, where))
        return stored

    def _place(self, path: str, route: str | None) -> str:
        """
        Return where a request belongs, for the log: its *route*, or *path* if the route takes any path.

        Clients invent paths, so only the first `MOST_PATHS` are distinguished.
        """
        if route is not None and route != "$default" and not re.search(_ANY_PATH, route):
            return printable(route)
        place = printable(path)
        if len(self._paths) < MOST_PATHS:
            self._paths.add(place)
        return place if place in self._paths else "(other paths)"

    def read(
        self, event: Mapping[str, Any], kind: Kind, method: str, request_id: str | None, context: object
    ) -> KeyedRequest | None:
        """Return *event* as a unit, and its caller. Returns None and raises as `call` does."""
        settings = self._settings
        request = request_of(event, kind, method)
        key = header_key(request.headers) if settings.key is None else None
        hashed = settings.key is None and key is None
        if hashed and settings.without_key == "run":
            return None
        if hashed and settings.without_key == "reject":
            error = KeyMissing(f"the request has no {KEY_HEADER}: send one")
            error.header = KEY_HEADER
            raise error
        if settings.caller is None:
            caller = caller_of(event, request.headers, hashed=hashed)
        else:
            view: Mapping[str, object] = event
            if isinstance(settings.caller, str):  # it sees header names in any case, and cookies by name
                cookies = dict(cookies_of(event, request.headers))
                view = {**envelope_of(event, request.headers), "cookies": cookies}
            caller = by_option(settings.caller, event, context, view)
        if settings.unscoped == "refuse" and caller.is_nobody:
            raise CallerMissing(caller.refusal)
        envelope = envelope_of(event, request.headers) if isinstance(settings.scope, str) else None
        unit = unit_of(request, event, request_id, caller, key, envelope)
        return KeyedRequest(unit, hashed, caller)

    def of_kind(self, kind: Kind, keep: timedelta = FOR_API) -> Identifier:
        """Return the identifier of requests of *kind* whose outcomes are kept for *keep* by default."""
        identifier = self._identifiers.get((kind, keep))
        if identifier is None:
            error_in = partial(self._error_by_status, kind) if self._error_in is None else self._error_in
            settings = replace(self._settings, keep=self._settings.keep or keep)
            output = Output(error_in, receiver=Receiver.LAMBDA)
            identifier = Identifier(self.runtime, settings, self._codec, self._default_name, output)
            self._identifiers[kind, keep] = identifier
        return identifier

    def _error_by_status(self, kind: Kind, response: object) -> ErrorResponse | None:
        status = response_status(response, kind)
        if status < STORED_BELOW or status in self._settings.store_status:
            return None
        return ErrorResponse(status, response)


def _shown_method(method: str) -> str:
    """Return *method* for the log, or a text in place of one that a client has invented."""
    return method if method in HTTPMethod.__members__ else "(any method)"


# ------------------------------------------------------------------ the handler


def api_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that answers a duplicate request with the stored response."""
    work = with_context(function)
    check_of_one(settings, "the event", of_requests=True)
    settings = with_selectors_of_one(settings, "the event")
    identifier = HttpIdentifier("once.api_gateway", runtime, settings, name_of(function))

    def handle(event: Any, context: Any) -> Any:
        kind = kind_of(event)
        with runtime.invocation(context) as invocation:
            try:
                call = identifier.call(event, kind, invocation)
                if call is None:
                    return unprotected(work, event, context)
                outcome = execute(runtime, work, call, event, context)
            except Misconfigured:
                raise  # not the fault of the client: the Errors metric of the function must alarm
            except OnceError as error:
                return respond(problem_of(settings, error), kind)
        if isinstance(outcome, Replayed):
            return replayed(apply_on_replay(settings, outcome), kind)
        return outcome

    return handler_like(function, handle, identifier)


def problem_of(settings: Settings, error: OnceError) -> Problem:
    """Return the problem document for *error*, passed through ``problem=``."""
    problem = problem_for(error)
    return problem if settings.problem is None else settings.problem(problem)


# ------------------------------------------------------------------ responses

REPLAYED: Final = "Idempotent-Replayed"
"""The header that marks a stored response for the client."""

_STATUSES: Final = range(100, 600)


_NO_OBJECTS: Final = frozenset({str, int, float, bool, list, type(None)})


def as_sent(response: object) -> object:
    """
    Return *response*, what a handler returned, as the gateway gets it from Lambda's runtime: as JSON types.

    Bytes are read as JSON, and a named tuple is an object. A value without a form is returned unchanged, and
    so is a dict with names that are texts, whatever its parts are.
    """
    if type(response) in _NO_OBJECTS or (type(response) is dict and {*map(type, response)} <= {str}):
        return response
    try:
        return json.loads(response) if isinstance(response, bytes) else form_of(response)[0]
    except ValueError:  # NotSerialisable, or bytes that are no JSON
        return response


def response_status(response: object, kind: Kind) -> int:
    """
    Return the status that the client gets for *response*.

    Payload format 2.0 takes a response without statusCode for the body of a 200. The other kinds answer 502,
    as for an invalid statusCode (API Gateway developer guide, "Lambda proxy integrations": malformed Lambda
    proxy response).
    """
    sent = as_sent(response)
    if not isinstance(sent, Mapping) or "statusCode" not in sent:
        return HTTPStatus.OK.value if kind.shorthand else HTTPStatus.BAD_GATEWAY.value
    status = as_sent(sent["statusCode"])
    if isinstance(status, str) and status.isascii() and status.isdigit():
        status = Decimal(status)
    # 201.0 is 201: whether a gateway takes it isn't documented, and what counts as a 502 runs again.
    is_status = isinstance(status, int | float | Decimal) and status in _STATUSES
    return int(status) if is_status else HTTPStatus.BAD_GATEWAY.value  # type: ignore[call-overload]  # a number


def stored_of(response: object, *, named: bool) -> object:
    """
    Return what is stored of *response* to a request without a key, which others may send as well.

    A response that sets a cookie or has ``no-store`` is for its own caller alone: if one is *named*, it is
    stored without its cookies; else it is withheld.
    """
    if not isinstance(response, Mapping):
        return response
    stored = _without_cookies(response)
    if stored is response and not _has_no_store(response):
        return response
    return stored if named else Unavailable.WITHHELD


def _without_cookies(response: Mapping[str, object]) -> Mapping[str, object]:
    """Return *response* itself if it sets no cookie, else a copy that sets none."""
    changed: dict[str, object] = {}
    cookies = {"cookies"} if response.get("cookies") else set()
    for field in HEADER_FIELDS:
        headers = response.get(field)
        if isinstance(headers, Mapping):
            others = {name: value for name, value in headers.items() if str(name).lower() != "set-cookie"}
            if len(others) < len(headers):
                changed[field] = others
    if not (changed or cookies):
        return response
    return {name: value for name, value in {**response, **changed}.items() if name not in cookies}


def _has_no_store(response: Mapping[str, object]) -> bool:
    headers = (
        header
        for field in HEADER_FIELDS
        for name, value in items_of(response.get(field))
        if str(name).lower() == "cache-control"
        for header in (value if isinstance(value, list | tuple) else [value])
    )
    return any(part.strip().lower() == "no-store" for header in headers for part in str(header).split(","))


def replayed(response: object, kind: Kind) -> object:
    """
    Return *response*, a stored one, with the header `Idempotent-Replayed: true`.

    It is a copy. A response that *kind* or the runtime would refuse is returned unchanged.
    """
    field: str = "headers"
    sent = as_sent(response)
    if not isinstance(sent, Mapping) or "statusCode" not in sent:
        body = _shorthand_body(response, sent) if kind.shorthand else None
        if body is None:
            return response
        headers = {"content-type": "application/json"}
        sent = {"statusCode": 200, "headers": headers, "body": body, "isBase64Encoded": False}
    elif kind is Kind.ALB_MULTI or (kind is Kind.REST and sent.get("multiValueHeaders") is not None):
        field = "multiValueHeaders"
    present = sent.get(field)
    mark = "true" if field == "headers" else ["true"]
    return {**sent, field: {**(present if isinstance(present, Mapping) else {}), REPLAYED: mark}}


def _shorthand_body(response: object, sent: object) -> str | None:
    """
    Return the body that the gateway makes of *response*, without a statusCode; None if it has no form.

    AWS Lambda developer guide, "Invoking Lambda function URLs": a string is the body as it is; of any other
    value the body is its JSON, as the runtime has written it.
    """
    if isinstance(sent, str):
        return sent
    try:
        if isinstance(response, bytes):
            return None if sent is response else response.decode()
        form = HandlerCodec().answer(response).loaded
    except ValueError:
        return None
    return text_of(form, escaped=os.environ.get("AWS_EXECUTION_ENV") not in UNESCAPED)


def respond(problem: Problem, kind: Kind) -> dict[str, object]:
    """Return *problem* as a response to *kind* of event."""
    headers: dict[str, object] = {"headers": problem.headers()}
    if kind is Kind.ALB_MULTI:
        headers = {"multiValueHeaders": {name: [value] for name, value in problem.headers().items()}}
    body = json.dumps(problem.body())
    return {"statusCode": problem.status, **headers, "body": body, "isBase64Encoded": False}
