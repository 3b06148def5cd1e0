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
from typing import TYPE_CHECKING, Any

from lambda_once.core import signatures
from lambda_once.errors import Misconfigured
from lambda_once.integrations.private import taken_apart

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from lambda_once.integrations.private import Chain


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


def watched(chain: Any, watch: Watch) -> Callable[[Any], Any]:
    """
    Return *chain*, of ``app.resolve``, around a route function that *watch* records.

    Raises `Misconfigured`, before anything runs, for a chain that is not made of Powertools' frames, and for
    a coroutine function, which ``app.resolve`` would call and never await.
    """
    parts = _parts(chain, is_async=False)
    if parts is None:
        return _whole(chain, watch)
    function, adapter = parts.function, parts.adapter
    name = getattr(function, "__qualname__", repr(function))
    advice = "Use app.resolve_async and once.route(async_resolver=True), or write a def"
    if signatures.is_async(function):
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

    @functools.wraps(adapter)
    def adapted(app: Any, function: Callable[..., Any]) -> Any:
        response = adapter(app, function)
        watch.responded(response)
        return response

    return parts.around(adapted, work)


def watched_async(chain: Any, watch: Watch) -> Callable[[Any], Awaitable[Any]]:
    """Do what `watched` does for a chain of ``app.resolve_async``, whose functions may be of either kind."""
    parts = _parts(chain, is_async=True)
    if parts is None:
        return _whole(chain, watch)
    function, adapter = parts.function, parts.adapter

    @functools.wraps(function)
    async def work(**arguments: Any) -> Any:
        watch.started = True
        try:
            found = function(**arguments)
            return await found if inspect.isawaitable(found) else found
        except BaseException as error:
            watch.raised(error)
            raise

    @functools.wraps(adapter)
    async def adapted(app: Any, function: Callable[..., Any]) -> Any:
        response = await adapter(app, function)
        watch.responded(response)
        return response

    return parts.around(adapted, work)


def _parts(chain: Any, *, is_async: bool) -> Chain | None:
    """Return the parts of *chain*; None if this Powertools has chains that we don't know."""
    try:
        return taken_apart(chain, is_async=is_async)
    except ValueError:
        raise Misconfigured(
            "once.route cannot find the route function behind it. Under app.resolve_async write "
            "once.route(async_resolver=True); else this version of Powertools is not supported"
        ) from None


def _whole(chain: Callable[[Any], Any], watch: Watch) -> Callable[[Any], Any]:
    """
    Return *chain*, which *watch* takes for a function that always does its work.

    Its response is stored whatever the status, and after an exception duplicates get `ResultUnavailable`: who
    can't see the function must not do its work again.
    """

    def run(app: Any) -> Any:
        watch.started = True
        return chain(app)

    return run
