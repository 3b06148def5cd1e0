"""`once.route`: one route of a Powertools Event Handler, protected by a middleware."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING, Any

from lambda_once.errors import Misconfigured, OnceError
from lambda_once.events import api_gateway as source
from lambda_once.events.api_response import REPLAYED
from lambda_once.faces.api import HttpProtection, problem_of
from lambda_once.faces.events import dressed
from lambda_once.policies import ErrorResponse
from lambda_once.runner.outcomes import Replayed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from aws_lambda_powertools.event_handler import Response
    from aws_lambda_powertools.event_handler.exceptions import ServiceError

    from lambda_once.faces.explaining import Explanation
    from lambda_once.faces.host import Host
    from lambda_once.faces.settings import Settings
    from lambda_once.runner.call import Call


class Route:
    """
    Answers a repeated request of one route by the stored response.

    It answers by the Event Handler's own `Response`, so CORS and other middlewares stay around it.
    """

    def __init__(self, host: Host, settings: Settings) -> None:
        self._host = host
        self._settings = settings
        self._protection = HttpProtection(host, settings, "route", lambda stored, _kind: stored["status"])

    def middleware(self, app: Any, next_middleware: Callable[[Any], Any]) -> Any:
        """Handle a request of ``app.resolve``."""
        event = app.current_event.raw_event
        with self._host.invocation(app.lambda_context) as invocation:
            try:
                call = self._call(event, invocation)
                if call is None:
                    return next_middleware(app)
                outcome = self._host.engine.execute(call, lambda: self._worked(next_middleware, app))
            except (OnceError, ErrorResponse) as error:
                return self._refused(error)
        return self._answer(outcome)

    async def async_middleware(self, app: Any, next_middleware: Callable[[Any], Awaitable[Any]]) -> Any:
        """Handle a request of ``app.resolve_async``."""
        event = app.current_event.raw_event
        with self._host.invocation(app.lambda_context) as invocation:
            try:
                call = self._call(event, invocation)
                if call is None:
                    return await next_middleware(app)
                outcome = await self._host.engine.execute_async(
                    call, lambda: self._worked_async(next_middleware, app)
                )
            except (OnceError, ErrorResponse) as error:
                return self._refused(error)
        return self._answer(outcome)

    def explain(self, event: Any) -> list[Explanation]:
        """Tell which token *event* would get, and why; nothing runs and nothing is stored."""
        from lambda_once.faces.explaining import of_request

        return of_request(self._protection, "once.route", event)

    def _call(self, event: Any, invocation: Any) -> Call | None:
        kind = source.kind_of(event)
        if not self._protection.covers(source.method_of(event)):
            return None
        return self._protection.call(event, kind, invocation)

    def _worked(self, next_middleware: Callable[[Any], Any], app: Any) -> Any:
        from aws_lambda_powertools.event_handler.exceptions import ServiceError

        try:
            return stored(next_middleware(app))
        except ServiceError as error:
            return self._of_service_error(error)

    async def _worked_async(self, next_middleware: Callable[[Any], Awaitable[Any]], app: Any) -> Any:
        from aws_lambda_powertools.event_handler.exceptions import ServiceError

        try:
            return stored(await next_middleware(app))
        except ServiceError as error:
            return self._of_service_error(error)

    def _of_service_error(self, error: ServiceError) -> Any:
        """Treat an error with a status as the response that the Event Handler makes of it."""
        status = int(error.status_code)
        if status in self._settings.store_status:
            body = {"statusCode": status, "message": error.msg}
            return {"status": status, "headers": {"Content-Type": "application/json"}, "body": body}
        raise ErrorResponse(status, error) from error

    def _refused(self, error: OnceError | ErrorResponse) -> Any:
        from aws_lambda_powertools.event_handler import Response

        if isinstance(error, ErrorResponse):
            raise error.response from None  # the Event Handler makes the response of it, as without us
        if isinstance(error, Misconfigured):
            raise error
        problem = problem_of(self._settings, error)
        return Response(problem.status, None, json.dumps(problem.body()), headers=problem.headers())

    def _answer(self, outcome: Any) -> Any:
        if not isinstance(outcome, Replayed):
            return revived(outcome)
        response = revived(dressed(self._settings, outcome))
        response.headers[REPLAYED] = "true"
        return response


def stored(response: Response[Any]) -> dict[str, Any]:
    """Return *response* as JSON can keep it."""
    form: dict[str, Any] = {
        "status": int(response.status_code),
        "headers": dict(response.headers),
        "body": response.body,
    }
    if isinstance(response.body, bytes):
        form |= {"body": b64encode(response.body).decode(), "base64": True}
    if response.cookies:
        form["cookies"] = [str(cookie) for cookie in response.cookies]
    if response.compress is not None:
        form["compress"] = response.compress
    return form


def revived(form: dict[str, Any]) -> Response[Any]:
    """Return the response that `stored` kept; its cookies are the texts that stand in Set-Cookie."""
    from aws_lambda_powertools.event_handler import Response

    body = b64decode(form["body"]) if form.get("base64") else form["body"]
    return Response(
        form["status"],
        None,
        body,
        headers=dict(form["headers"]),
        cookies=form.get("cookies"),
        compress=form.get("compress"),
    )
