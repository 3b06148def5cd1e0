"""
The chain behind `once.route` in an Event Handler, and the outcome of its route function.

Powertools builds a chain of frames for each route, keeps it, and hands the rest of it to each middleware: the
user's middlewares, response validation, an adapter that makes a `Response` of what the function returned, and
the function itself. Only the function does the work. So each request gets a new chain around a watched
function; the chain that Powertools keeps is never changed.
"""

from __future__ import annotations

import functools
import inspect
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from lambda_once.core.signatures import is_async
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_ADAPTERS_HOME = "aws_lambda_powertools.event_handler."


class Watch:
    """The outcome of one request's route function. A middleware may run it more than once, or never."""

    __slots__ = ("error", "left", "response", "started")

    def __init__(self) -> None:
        self.started = False
        self.error: BaseException | None = None
        """What it raised, unless it also returned: work that was done is done."""
        self.response: Any = None
        """The response of what it returned; of several the one with the lowest status."""

        self.left: BaseException | None = None
        """The exception that left the chain instead of a response."""

    def left_by(self, error: BaseException) -> BaseException:
        """Return the exception for the caller: what left the chain, if *error* is that of the function."""
        return error if self.left is None or error is not self.error else self.left

    def raised(self, error: BaseException) -> None:
        self.error = error if self.response is None else None

    def responded(self, response: Any) -> None:
        self.error = None
        if self.response is None or response.status_code < self.response.status_code:
            self.response = response


def is_synchronous(chain: object) -> bool:
    """Whether *chain* is of ``app.resolve``."""
    from aws_lambda_powertools.event_handler.api_gateway import MiddlewareFrame

    return type(chain) is MiddlewareFrame


def load_async_frames() -> None:
    """Import what chains of ``app.resolve_async`` are made of, where Powertools has it."""
    with suppress(ImportError):
        import_module("aws_lambda_powertools.event_handler.middlewares.async_utils")


def watched(chain: Any, watch: Watch) -> Callable[[Any], Any]:
    """
    Return *chain*, of ``app.resolve``, around a route function that *watch* records.

    Raises `Misconfigured`, before anything runs, for a chain that is not made of Powertools' frames, and for
    a coroutine function, which ``app.resolve`` would call and never await.
    """
    from aws_lambda_powertools.event_handler.api_gateway import MiddlewareFrame

    frames, function = _taken_apart(chain, MiddlewareFrame)
    name = getattr(function, "__qualname__", repr(function))
    advice = "Use app.resolve_async and once.route(async_resolver=True), or write a def"
    if is_async(function):
        raise Misconfigured(f"{name} is a coroutine function: app.resolve never awaits it. {advice}")

    def called(arguments: dict[str, Any]) -> Any:
        found = function(**arguments)
        if inspect.iscoroutine(found):
            found.close()
        if inspect.isawaitable(found):
            raise Misconfigured(f"{name} returned an awaitable: app.resolve never awaits it. {advice}")
        return found

    @functools.wraps(function)
    def work(**arguments: Any) -> Any:
        watch.started = True
        try:
            return called(arguments)
        except BaseException as error:
            watch.raised(error)
            raise

    adapter = frames[-1].current_middleware

    @functools.wraps(adapter)
    def adapted(app: Any, function: Callable[..., Any]) -> Any:
        response = adapter(app, function)
        watch.responded(response)
        return response

    return _put_together(frames, adapted, work)


def watched_async(chain: Any, watch: Watch) -> Callable[[Any], Awaitable[Any]]:
    """Do what `watched` does for a chain of ``app.resolve_async``, whose functions may be of either kind."""
    from aws_lambda_powertools.event_handler.middlewares.async_utils import AsyncMiddlewareFrame

    frames, function = _taken_apart(chain, AsyncMiddlewareFrame)

    @functools.wraps(function)
    async def work(**arguments: Any) -> Any:
        watch.started = True
        try:
            found = function(**arguments)
            return await found if inspect.isawaitable(found) else found
        except BaseException as error:
            watch.raised(error)
            raise

    adapter = frames[-1].current_middleware

    @functools.wraps(adapter)
    async def adapted(app: Any, function: Callable[..., Any]) -> Any:
        response = await adapter(app, function)
        watch.responded(response)
        return response

    return _put_together(frames, adapted, work)


def _taken_apart(chain: Any, frame_type: type[Any]) -> tuple[list[Any], Callable[..., Any]]:
    """Return the frames of *chain*, of which the last is Powertools' adapter, and the function at its end."""
    frames: list[Any] = []
    end: Any = chain
    while type(end) is frame_type:
        frames.append(end)
        end = end.next_middleware
    if not frames or hasattr(end, "next_middleware") or not _is_adapter(frames[-1].current_middleware):
        raise Misconfigured(
            "once.route cannot find the route function behind it. Under app.resolve_async write "
            "once.route(async_resolver=True); else this version of Powertools is not supported"
        )
    return frames, end


def _is_adapter(middleware: object) -> bool:
    home = getattr(middleware, "__module__", "")
    return inspect.isfunction(middleware) and home.startswith(_ADAPTERS_HOME)


def _put_together(
    frames: list[Any], adapter: Callable[..., Any], function: Callable[..., Any]
) -> Callable[[Any], Any]:
    """Return frames like *frames*, the last of them made of *adapter* and *function*."""
    middlewares = [*(frame.current_middleware for frame in frames[:-1]), adapter]
    chain = function
    for middleware in reversed(middlewares):
        chain = type(frames[0])(middleware, chain)
    return chain
