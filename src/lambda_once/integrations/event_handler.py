"""`once.route`: one route of a Powertools Event Handler, protected by a middleware."""

from __future__ import annotations

import json
import sys
from base64 import b64decode, b64encode
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeGuard

from lambda_once.core.results import NotSerialisable
from lambda_once.core.written import Answer, HandlerCodec
from lambda_once.decorators.handlers import apply_on_replay
from lambda_once.decorators.runtime import Runtime
from lambda_once.decorators.selectors import with_selectors_of_one
from lambda_once.decorators.validation import check_no_history, check_of_one
from lambda_once.engine.replay import Replayed
from lambda_once.errors import Misconfigured, OnceError, RetryLater, StoredError
from lambda_once.integrations.event_handler_chain import Watch, watched, watched_async
from lambda_once.integrations.private import is_of_resolve, load_async_frames, route_path, serialiser_of
from lambda_once.policies import ErrorResponse
from lambda_once.sources import http as source
from lambda_once.sources.http import REPLAYED, STORED_BELOW, HttpIdentifier, problem_of
from lambda_once.sources.services import service_of
from lambda_once.sources.source import Source, source_of

if TYPE_CHECKING:
    from aws_lambda_powertools.event_handler import Response

    from lambda_once.engine.invocation import Call, Invocation
    from lambda_once.settings import Settings

_FORM: Final = frozenset({"status", "headers", "body"})
"""The fields of every `stored` form."""
_INSIDE: Final = "Protect the effect inside with once.run."
_EXCEPTIONS = "aws_lambda_powertools.event_handler.exceptions"


class NotStarted(RetryLater):
    """A middleware behind `once.route` failed before the route function ran: nothing was done."""


class Ended(NamedTuple):
    """How a request ended behind `once.route`."""

    form: dict[str, Any] | None
    """Its response as it is stored; None: there is none to store."""
    error: BaseException | None = None
    """The error that ``on_error`` decides on; None: the work is done."""
    response: Any = None
    """The response for the first caller; None: the stored one."""
    is_written: bool = True
    """Whether the resolver can write its body; if not, its first caller gets the stored one, too."""
    raised: BaseException | None = None
    """The exception for the first caller, instead of a response."""


class FormCodec(HandlerCodec):
    """Writes the form of an `Ended`, and reads forms."""

    def answer(self, value: Any) -> Answer:
        """Return the form of *value*, an `Ended`, whose first caller gets its own response if it can."""
        if not isinstance(value, Ended):  # of a probe, or what the route function completes with
            return super().answer(value if _is_form(value) else _stored(value))
        if value.form is None:
            raise NotSerialisable("the route function has run, and its middlewares made no response of it")
        answer = super().answer(value.form)
        is_written = value.response is not None and value.is_written
        return answer._replace(is_written=is_written and answer.is_written)


class Route:
    """
    Answers a duplicate request of one route with the stored response.

    The answer is a `Response` of the Event Handler, so CORS and other middlewares apply to it. The route
    function's own result or exception decides about the token. Failures before it ran release the token.
    Failures after it release nothing: the response is stored whatever its status, and if an exception comes
    instead, duplicates get `ResultUnavailable`.
    """

    def __init__(self, runtime: Runtime, settings: Settings) -> None:
        check_of_one(settings, "the event")
        settings = with_selectors_of_one(settings, "the event")
        _check(settings)
        self._runtime = runtime
        self._settings = settings
        self.identifier = HttpIdentifier(
            "once.route", runtime, settings, "route", self._error_in, FormCodec(), _shown
        )

    def middleware(self, app: Any, next_middleware: Any = None) -> Any:
        """Handle a request of ``app.resolve``."""
        _check_call(next_middleware)
        watch = Watch()
        with self._runtime.invocation(app.lambda_context) as invocation:
            try:
                chain, call = self._prepared(app, invocation, lambda: watched(next_middleware, watch))
                if call is None:
                    return next_middleware(app)
                outcome = self._runtime.engine.execute(call, lambda: self._worked(chain, app, watch))
            except BaseException as error:  # noqa: BLE001  (raised again below)
                failure = watch.left_by(error)
            else:
                return self._answer(outcome)
        return self._refused(app, failure)

    async def async_middleware(self, app: Any, next_middleware: Any) -> Any:
        """Handle a request of ``app.resolve_async``."""
        watch = Watch()
        with self._runtime.invocation(app.lambda_context) as invocation:
            try:
                chain, call = self._prepared(app, invocation, lambda: watched_async(next_middleware, watch))
                if call is None:
                    return await next_middleware(app)
                outcome = await self._runtime.engine.execute_async(
                    call, lambda: self._worked_async(chain, app, watch)
                )
            except BaseException as error:  # noqa: BLE001  (raised again below)
                failure = watch.left_by(error)
            else:
                return self._answer(outcome)
        return self._refused(app, failure)

    def refuse_synchronous(self, app: Any) -> NoReturn:
        """Report and raise that the coroutine middleware is under ``app.resolve``."""
        error = Misconfigured(
            "once.route(async_resolver=True) is for app.resolve_async: leave it out under app.resolve"
        )
        with self._runtime.invocation(app.lambda_context) as invocation:
            kind = _kind_of(app.current_event.raw_event)
            self.identifier.of_kind(kind).refused(error, invocation, invocation.request_id)
        raise error

    def _prepared(
        self, app: Any, invocation: Invocation, chain: Callable[[], Callable[[Any], Any]]
    ) -> tuple[Callable[[Any], Any], Call | None]:
        """Return the chain to run and the call of the request; None: it is not protected."""
        event = app.current_event.raw_event
        kind = _kind_of(event)
        try:
            found = chain()
        except Misconfigured as error:
            self.identifier.of_kind(kind).refused(error, invocation, invocation.request_id)
            raise
        return found, self.identifier.call(event, kind, invocation, route_path(app))

    # ---------------------------------------------------------------- how the request ended

    def _worked(self, chain: Callable[[Any], Any], app: Any, watch: Watch) -> Ended:
        try:
            response = chain(app)
        except BaseException as error:  # noqa: BLE001  (what it means is for the route function to say)
            watch.left = error
        else:
            return self._by_response(watch, response, app)
        return self._by_exception(watch, watch.left)

    async def _worked_async(self, chain: Callable[[Any], Awaitable[Any]], app: Any, watch: Watch) -> Ended:
        try:
            response = await chain(app)
        except BaseException as error:  # noqa: BLE001  (as above)
            watch.left = error
        else:
            return self._by_response(watch, response, app)
        return self._by_exception(watch, watch.left)

    def _by_response(self, watch: Watch, answered: Any, app: Any) -> Ended:
        """Return how the request ended, given the response *answered* of the chain of *app*."""
        response = as_response(answered)
        error: BaseException | None
        if not watch.started:
            error = self._error_of(response)
            if error is not None and error.status >= ErrorResponse.SERVER_ERROR:
                error = NotStarted("a middleware answered with an error before the route function ran")
        elif watch.error is None:
            error = None if watch.response is None else self._error_of(watch.response)
        elif isinstance(watch.error, _service_error()):
            error = self._error_of(service_response(watch.error))
        else:
            error = watch.error
        body, is_written = _body_of(response, serialiser_of(app))
        return Ended(_form_of(response, body), error, response=response, is_written=is_written)

    def _by_exception(self, watch: Watch, left: BaseException) -> Ended:
        """Return how the request ended, given the exception *left* of the chain; raise the function's own."""
        response = service_response(left) if isinstance(left, _service_error()) else None
        form = None if response is None else _form_of(response, response.body)
        if not watch.started:
            if response is not None and self._error_of(response) is None:
                return Ended(form)
            reason = f"a middleware raised {type(left).__name__} before the route function ran"
            return Ended(form, NotStarted(reason), raised=left)
        if watch.error is None:
            # It has returned, or still runs in a thread of a middleware: no other attempt may do its work.
            error = None if watch.response is None else self._error_of(watch.response)
            return Ended(None, error, raised=left)
        if isinstance(watch.error, _service_error()):
            error = self._error_of(service_response(watch.error))
            return Ended(form, error, raised=None if error is None and form is not None else left)
        raise watch.error

    def _error_in(self, value: Any) -> BaseException | None:
        """Return the error that *value* means: an `Ended`, or what the route function completes with."""
        return value.error if isinstance(value, Ended) else self._error_of(revived(value))

    def _error_of(self, response: Any) -> ErrorResponse | None:
        status = int(response.status_code)
        if status < STORED_BELOW or status in self._settings.store_status:
            return None
        return ErrorResponse(status, response)

    # ---------------------------------------------------------------- what the client gets

    def _refused(self, app: Any, error: BaseException) -> Any:
        if not isinstance(error, OnceError) or isinstance(error, Misconfigured):
            raise error
        if isinstance(error, StoredError) and _is_handled(app, error):
            raise error
        from aws_lambda_powertools.event_handler import Response

        problem = problem_of(self._settings, error)
        return Response(problem.status, None, json.dumps(problem.body()), headers=problem.headers())

    def _answer(self, outcome: Any) -> Any:
        if isinstance(outcome, Ended):
            if outcome.raised is not None:
                raise outcome.raised
            return outcome.response
        if not isinstance(outcome, Replayed):
            return revived(outcome)
        replayed = outcome._replace(result=revived(outcome.result))
        response = revived(apply_on_replay(self._settings, replayed))
        response.headers[REPLAYED] = "true"
        return response


def middleware_of(route: Route, *, async_resolver: bool) -> Callable[..., Any]:
    """Return the middleware of *route*: a coroutine function for ``app.resolve_async``."""
    if not async_resolver:
        return route.middleware
    load_async_frames()
    middleware = CoroutineMiddleware(route.async_middleware)
    middleware.route = route
    return update_wrapper(middleware, route.async_middleware)


class CoroutineMiddleware(partial[Awaitable[Any]]):
    """
    A coroutine middleware that checks how it is called, before there is a coroutine.

    ``app.resolve`` would never await it. The Event Handler asks `inspect.iscoroutinefunction` what a
    middleware is, and that looks through a partial at the function.
    """

    route: Route

    def __call__(self, app: Any, next_middleware: Any = None) -> Awaitable[Any]:
        _check_call(next_middleware)
        if is_of_resolve(next_middleware):
            self.route.refuse_synchronous(app)
        return super().__call__(app, next_middleware)


def _check(settings: Settings) -> None:
    """Raise `Misconfigured` for a history, and if ``on_error`` names a class that never reaches it."""
    check_no_history(settings, "once.route")
    exceptions = sys.modules.get(_EXCEPTIONS)
    if exceptions is None or not isinstance(settings.on_error, Mapping):
        return
    for kind in settings.on_error:
        if issubclass(kind, exceptions.ServiceError):
            raise Misconfigured(
                f"on_error names {kind.__name__}: to once.route an Event Handler's ServiceError is the "
                "response that it becomes. Name its status in store_status=, or for 5xx name ErrorResponse"
            )


def _check_call(next_middleware: object) -> None:
    if next_middleware is None:
        raise Misconfigured(
            "once.route() is a middleware and no decorator: "
            'write @app.post("/pay", middlewares=[once.route()]). '
            f"A resolver without HTTP routes has no middlewares: {_INSIDE}"
        )


def _kind_of(event: object) -> source.Kind:
    """Return the kind of *event*. Raises `Misconfigured` if it is not an HTTP request."""
    origin = source_of(event)
    if origin is Source.HTTP:
        return source.kind_of(event)
    service = service_of(event)
    raise Misconfigured(
        f"once.route received an event of {origin.title if service is None else service.name}. Nothing ran. "
        f"It protects routes of {Source.HTTP.title}. {_INSIDE}"
    )


def _service_error() -> Any:
    from aws_lambda_powertools.event_handler.exceptions import ServiceError

    return ServiceError


def _is_handled(app: Any, error: StoredError) -> bool:
    """Whether the Event Handler has a handler for the class of the original error."""
    manager = getattr(app, "exception_handler_manager", None)
    look_up = getattr(manager, "lookup_exception_handler", None)
    return error.original is not None and look_up is not None and look_up(type(error)) is not None


def service_response(error: Any) -> Response[Any]:
    """Return the response that the Event Handler makes of *error*, a ServiceError."""
    from aws_lambda_powertools.event_handler import Response

    status = int(error.status_code)
    return Response(status, "application/json", {"statusCode": status, "message": error.msg})


def as_response(answered: Any) -> Any:
    """Return *answered*, possibly the short form of a middleware, as a response of the Event Handler."""
    if hasattr(answered, "status_code"):
        return answered
    from aws_lambda_powertools.event_handler import Response

    body, status = answered if isinstance(answered, tuple) and len(answered) == 2 else (answered, 200)  # noqa: PLR2004
    return Response(status, "application/json", body)


def _stored(answered: Any) -> dict[str, Any]:
    """Return what a probe or the route function *answered* as it is stored."""
    response = as_response(answered)
    return stored(response, response.body)


def _form_of(response: Any, body: object) -> dict[str, Any] | None:
    """Return *response* with *body* as it is stored; None if it cannot be."""
    try:
        return stored(response, body)
    except Exception:  # noqa: BLE001  (the work is done: what a middleware made of it changes nothing)
        return None


def stored(response: Response[Any], body: object) -> dict[str, Any]:
    """Return *response*, whose body is *body*, as it is stored."""
    form: dict[str, Any] = {
        "status": int(response.status_code),
        "headers": dict(response.headers),
        "body": body,
    }
    if isinstance(body, bytes):
        form |= {"body": b64encode(body).decode(), "base64": True}
    if response.cookies:
        form["cookies"] = [str(cookie) for cookie in response.cookies]
    if response.compress is not None:
        form["compress"] = response.compress
    return form


def _body_of(response: Any, serialise: Callable[[Any], str | bytes] | None) -> tuple[object, bool]:
    """
    Return what is stored of the body of *response*, and whether the resolver can write the body itself.

    The resolver writes a body by *serialise*, and text as it is. So where the stored body would become
    another text, that text is stored; bytes stay bytes (`revived`).
    """
    body = response.body
    if serialise is None or body is None or isinstance(body, str) or not response.is_json():
        return body, True
    try:
        loaded = HandlerCodec().answer(body).loaded
    except NotSerialisable:  # it may have an iterator in it, which *serialise* would drain
        return body, True
    try:
        text = serialise(body)
    except Exception:  # noqa: BLE001  (the resolver would raise it, with the work done)
        return loaded, False
    with suppress(Exception):  # a serialiser of the user's may raise anything
        if not isinstance(loaded, bytes) and serialise(loaded) == text:
            return loaded, True
    return text, True


def _shown(value: Any) -> object:
    """Return *value*, an `Ended` or a form, as the form that is stored."""
    return value.form if isinstance(value, Ended) else value


def _is_form(value: object) -> TypeGuard[Mapping[str, Any]]:
    return isinstance(value, Mapping) and ("statusCode" in value or value.keys() >= _FORM)


def revived(form: Any) -> Any:
    """
    Return the response of a `stored` *form*; its cookies are texts, as in Set-Cookie.

    A probe, an operator or the route function may write it as Lambda does,
    ``{"statusCode": 200, "body": …}``; all else is what a route function returns.
    """
    if not _is_form(form):
        return as_response(form)
    from aws_lambda_powertools.event_handler import Response

    body = form.get("body")
    if isinstance(body, str) and (form.get("base64") or form.get("isBase64Encoded")):
        body = b64decode(body)
    response: Response[Any] = Response(
        form["statusCode"] if "statusCode" in form else form["status"],
        None,
        body,
        headers={**(form.get("headers") or {}), **(form.get("multiValueHeaders") or {})},
        cookies=form.get("cookies"),
        compress=form.get("compress"),
    )
    if isinstance(body, bytes):
        response.is_json = bool  # type: ignore[method-assign]  # they are written: no serialiser takes them
    return response
