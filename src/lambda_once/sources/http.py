"""`once.api_gateway`: HTTP requests of API Gateway, Function URLs and load balancers, as whole events."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from http import HTTPMethod
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from lambda_once.core.codec import Codec, codec_for
from lambda_once.core.fields import printable
from lambda_once.core.keys import Selector, labels_of, select, select_from
from lambda_once.core.results import Unavailable
from lambda_once.core.unit import BadRequest
from lambda_once.decorators.handlers import (
    apply_on_replay,
    execute,
    handler_like,
    unprotected,
    with_context,
)
from lambda_once.decorators.identify import Identifier
from lambda_once.decorators.names import name_of
from lambda_once.decorators.runtime import Runtime
from lambda_once.decorators.validation import check_of_one
from lambda_once.engine.invocation import Receiver
from lambda_once.engine.replay import Replayed
from lambda_once.errors import CallerMissing, KeyMissing, Misconfigured, OnceError
from lambda_once.observability.events import Event
from lambda_once.policies import ErrorResponse
from lambda_once.settings import FOR_API, FOR_HASHED_API, Settings
from lambda_once.sources import api_gateway as source
from lambda_once.sources.api_gateway import HttpRequest, Kind, header_key, replayed, response_status
from lambda_once.sources.caller import NO_CALLER, Caller, caller_of, given
from lambda_once.sources.problems import Problem, problem_for, respond

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import timedelta

    from lambda_once.core.unit import Unit
    from lambda_once.engine.invocation import Call, Invocation

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that change nothing (RFC 9110, 9.2.1): protected only if ``methods=`` names them."""
STORED_BELOW = 400
MOST_PATHS = 32
"""Paths that are named in the log for each decorator, where routes take any path."""
_ANY_PATH: Final = re.compile(r"\+}|\.[+*]")
"""In the route of a gateway `{proxy+}`, in one of an Event Handler an expression."""


class KeyedRequest(NamedTuple):
    """A request as a unit, and the caller it comes from."""

    unit: Unit
    hashed: bool
    """Whether its key is its hash: the client has not said that two equal requests are one."""
    caller: Caller

    @property
    def keep(self) -> timedelta:
        """How long its outcome is kept by default."""
        return FOR_HASHED_API if self.hashed else FOR_API


class HttpIdentifier:
    """
    Identifies HTTP requests of a handler or route: which are protected, and by which call.

    *error_in* returns the error that a returned value means; by default the HTTP status decides.
    """

    def __init__(
        self,
        decorator: str,
        runtime: Runtime,
        settings: Settings,
        default_name: str,
        error_in: Callable[[Any], BaseException | None] | None = None,
        codec: Codec | None = None,
    ) -> None:
        self.decorator = decorator
        self._settings = settings
        self._error_in = error_in
        self._codec = codec_for(Any) if codec is None else codec
        self.runtime = runtime
        self._default_name = default_name
        self._identifiers: dict[tuple[Kind, timedelta], Identifier] = {}
        self._paths: set[str] = set()
        """Of requests whose route takes any path, as `_place` has named them."""

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

        *route*: its path template, where an Event Handler knows it.
        Raises `KeyMissing` for a key that is malformed, or missing although required, and `CallerMissing`.
        """
        method = source.method_of(event)
        if not self.covers(method):
            self._warn_if_keyed(event, kind, method, route)
            return None
        try:
            found = self.read(event, kind, method, invocation.request_id)
        except OnceError as error:
            self.of_kind(kind).refused(error, invocation, invocation.request_id)
            raise
        if found is None:
            return None
        warning = found.caller.warning
        identifier = self.of_kind(kind, found.keep)
        if warning is not None:
            self.runtime.reporter.warn_once(Event.UNSCOPED, warning, identifier.name)
        call = identifier.call(found.unit, invocation, arguments=(event,))
        separate = warning is None and found.caller is not NO_CALLER
        if not found.hashed:
            return call if separate else call._replace(separate=False)
        kept = partial(self._stored_of, identifier, found, route or source.route_of(event))
        return call._replace(separate=separate, stored_of=kept)

    def _warn_if_keyed(self, event: Mapping[str, Any], kind: Kind, method: str, route: str | None) -> None:
        """Report *event*, of a *method* that is not protected, if its client relies on a key."""
        if self._settings.key is not None or self.runtime.disabled or not source.has_key(event):
            return
        known, at = _known(method), printable(route or source.route_of(event) or "(any path)")
        named = f'"{method}", …' if known == method else "…"
        reason = (
            f"{known} {at}: a request with an Idempotency-Key ran unprotected, and so will its retries: "
            f"protect the method with methods={{{named}}}, or let clients send no key"
        )
        name = self.of_kind(kind).name
        self.runtime.reporter.warn_once(Event.NOT_PROTECTED, reason, name, of=(self, known, at))

    def _stored_of(
        self, identifier: Identifier, found: KeyedRequest, route: str | None, response: object
    ) -> object:
        """Return what is stored of *response* to the request *found*, which has no key, by its *route*."""
        is_body = self._error_in is None and not (isinstance(response, dict) and "statusCode" in response)
        if is_body:  # the shorthand of payload 2.0: it has no headers
            return response
        kept = source.stored_of(response, named=found.caller.joins_as_user)
        if kept is Unavailable.WITHHELD:
            method, path = found.unit.scope[:2]
            at = f"{_known(str(method))} {self._place(str(path), route)}"
            reason = (
                f"{at}: the response sets a cookie or says no-store, and no user is named: it is "
                'not stored, and duplicates get 409. Pass without_key="run", or exclude the route'
            )
            self.runtime.reporter.warn_once(Event.NOT_STORED, reason, identifier.name, of=(self, at))
        return kept

    def _place(self, path: str, route: str | None) -> str:
        """
        Return where a request belongs, for the log: its *route*, or *path* if the route takes any path.

        Clients invent paths, so only the first `MOST_PATHS` are distinguished.
        """
        if route is not None and route != "$default" and not _ANY_PATH.search(route):
            return printable(route)
        place = printable(path)
        if len(self._paths) < MOST_PATHS:
            self._paths.add(place)
        return place if place in self._paths else "(other paths)"

    def read(
        self, event: Mapping[str, Any], kind: Kind, method: str, request_id: str | None
    ) -> KeyedRequest | None:
        """Return *event* as a unit, and its caller. Returns None and raises as `call` does."""
        settings = self._settings
        request = source.request_of(event, kind, method)
        key = header_key(request.headers) if settings.key is None else None
        hashed = settings.key is None and key is None
        if hashed and settings.without_key == "run":
            return None
        if hashed and settings.without_key == "reject":
            raise KeyMissing("the request has no Idempotency-Key: send one")
        if settings.caller is None:
            caller = caller_of(event, request.headers, hashed=hashed)
        else:
            caller = _selected(settings.caller, request, event)
        if settings.unscoped == "refuse" and caller.is_nobody:
            raise CallerMissing(caller.refusal)
        envelope = source.envelope_of(event, request.headers) if isinstance(settings.scope, str) else None
        unit = source.unit_of(request, event, request_id, caller, key, envelope)
        return KeyedRequest(unit, hashed, caller)

    def of_kind(self, kind: Kind, keep: timedelta = FOR_API) -> Identifier:
        """Return the identifier of requests of *kind* whose outcomes are kept for *keep* by default."""
        identifier = self._identifiers.get((kind, keep))
        if identifier is None:
            error_in = partial(self._error_by_status, kind) if self._error_in is None else self._error_in
            settings = replace(self._settings, keep=self._settings.keep or keep)
            identifier = Identifier(
                self.runtime,
                settings,
                self._codec,
                self._default_name,
                error_in=error_in,
                receiver=Receiver.LAMBDA,
            )
            self._identifiers[kind, keep] = identifier
        return identifier

    def _error_by_status(self, kind: Kind, response: object) -> ErrorResponse | None:
        status = response_status(response, kind)
        if status < STORED_BELOW or status in self._settings.store_status:
            return None
        return ErrorResponse(status, response)


def _known(method: str) -> str:
    """Return *method*, or a text in place of one that a client has invented."""
    return method if method in HTTPMethod.__members__ else "(any method)"


def _selected(
    selector: str | Callable[..., object] | Literal[False], request: HttpRequest, event: Mapping[str, Any]
) -> Caller:
    """Return the caller of *event* by ``caller=``. Raises `CallerMissing` if that selects nothing."""
    if selector is False:
        return NO_CALLER
    try:
        if isinstance(selector, str):
            found = select(selector, source.seen_for_caller(request, event), "caller")
            return given(found, are_parts=bool(labels_of(selector)))
        return given(select_from(selector, (event,), {}, "caller"), are_parts=True)
    except BadRequest:
        raise
    except KeyMissing as error:
        raise CallerMissing(str(error)) from None


def api_handler(runtime: Runtime, function: Callable[..., Any], settings: Settings) -> Callable[..., Any]:
    """Return the Lambda handler that answers a duplicate request with the stored response."""
    work = with_context(function)
    check_of_one(settings, "the event", of_requests=True)
    identifier = HttpIdentifier("once.api_gateway", runtime, settings, name_of(function))

    def handle(event: Any, context: Any) -> Any:
        kind = source.kind_of(event)
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
