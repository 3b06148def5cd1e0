"""
What we use of other libraries' private parts: nothing else of ours does (`tests/structure/test_private.py`).

Each function names the version it was seen in, and what happens once a library has changed: its caller does
without. Where a user would notice, a RuntimeWarning says so, once a process. The tests of this file fail as
soon as an installed library has changed.

Every part may import this file, so it imports nothing of ours, and at its head only the standard library.
"""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from typing import _SpecialForm

    SpecialForm = _SpecialForm
    """What type checkers see in ``Annotated[…]`` (mypy 2.4.1). Nothing of it runs."""


@cache
def _changed(library: str, part: str, effect: str) -> None:
    """Warn, once a process, that the *part* of the installed *library* isn't as we know it."""
    message = (
        f"lambda-once does not know the {part} of the installed {library}: {effect}. Pin an older {library}"
    )
    warnings.warn(message, RuntimeWarning, stacklevel=3)


# ------------------------------------------------------------------ boto3 and botocore


class Mistake(NamedTuple):
    """What botocore's validation finds wrong in a request."""

    reason: str
    place: str
    details: dict[str, Any]


def mistakes(found: Any) -> list[Mistake] | None:
    """
    Return the mistakes in *found*, the ValidationErrors of botocore; None if they can't be read.

    botocore 1.35.20 to 1.44.8: ``_errors``, each a reason, a place, details. The public report quotes values.
    """
    try:
        return [Mistake(str(reason), str(place), dict(details)) for reason, place, details in found._errors]
    except (AttributeError, TypeError, ValueError):
        _changed("botocore", "ValidationErrors", "transact() doesn't say what is wrong with an item")
        return None


def without_needless_headers(events: Any) -> None:
    """
    Take from *events*, of a client for DynamoDB that tries once, what adds headers nobody there reads.

    botocore 1.35.20 to 1.44.8, ``handlers``: ``add_retry_headers`` counts tries of botocore's own,
    ``add_recursion_detection_header`` is for Lambda, ``inject_api_version_header_if_needed`` for services
    with endpoint discovery of their own. Where botocore has none of the name, its requests are as they come.
    """
    handlers = import_module("botocore.handlers")
    for event, name in _NEEDLESS:
        handler = getattr(handlers, name, None)
        if handler is not None:
            events.unregister(event, handler)


_NEEDLESS: Final = (
    ("request-created", "add_retry_headers"),
    ("before-call", "add_recursion_detection_header"),
    ("before-call", "inject_api_version_header_if_needed"),
)


def converts_attributes(events: Any) -> bool:
    """
    Return whether *events*, which stay as they are, are of a boto3 resource's client.

    boto3 1.35.20 to 1.44.8, ``dynamodb.transform``: such a client has a handler by the id `_CONVERTS`,
    registered without a count; botocore raises ValueError for a registration of the same id with one. Where
    boto3 has none of the id, the client counts as a plain one, and DynamoDB refuses its requests.
    """
    try:
        events.register(_NEVER_EMITTED, lambda **_: None, unique_id=_CONVERTS, unique_id_uses_count=True)
    except ValueError:
        return True
    events.unregister(_NEVER_EMITTED, unique_id=_CONVERTS, unique_id_uses_count=True)
    return False


_CONVERTS: Final = "dynamodb-attr-value-input"
_NEVER_EMITTED: Final = "lambda-once"
"""An event of no service."""

# ------------------------------------------------------------------ awscrt

_DESCRIPTORS: Final = "/proc/self/fd"


def without_nagle(port: int) -> None:
    """
    Switch Nagle's algorithm off on this process's TCP connections to *port*.

    awscrt 0.38.1 leaves it on, and its SocketOptions can't say otherwise: a request that follows an
    unacknowledged one waits up to 40 ms (Linux). Its connections tell no descriptor, so all to that port are
    looked through, but none that blocks, for awscrt's don't: to look at one where a default timeout is set
    (`socket.setdefaulttimeout`) would make it one that doesn't. Where there is no /proc, requests are sent
    with the delay.
    """
    import os

    try:
        descriptors = os.listdir(_DESCRIPTORS)  # noqa: PTH208 - names alone
    except OSError:
        _delayed()
        return
    for each in descriptors:
        _undelay(int(each), port)


def _undelay(descriptor: int, port: int) -> None:
    import os
    import socket
    from stat import S_ISSOCK

    with suppress(OSError):  # closed meanwhile, or one that listens
        if S_ISSOCK(os.fstat(descriptor).st_mode) and not os.get_blocking(descriptor):
            with socket.socket(fileno=os.dup(descriptor)) as copy:
                if copy.family in (socket.AF_INET, socket.AF_INET6) and copy.getpeername()[1] == port:
                    copy.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


@cache
def _delayed() -> None:
    """Say, once a process, that crt's connections have Nagle's algorithm."""
    warnings.warn(
        "lambda-once can't switch Nagle's algorithm off for client='crt' here (it can on Linux): requests "
        "may wait 40 ms. boto3's client doesn't",
        RuntimeWarning,
        stacklevel=4,
    )


# ------------------------------------------------------------------ pydantic


def adapted_type(adapter: object) -> object:
    """
    Return the type that *adapter*, a TypeAdapter of pydantic's, was made of; *adapter* itself if it has none.

    pydantic 2.11.0 to 2.13.5: ``_type``. What the public ``core_schema`` has may change with each release.
    """
    try:
        return adapter._type  # type: ignore[attr-defined]
    except AttributeError:
        _changed("pydantic", "TypeAdapter", "as model= it is accepted with a model of Powertools' inside")
        return adapter


# ------------------------------------------------------------------ Powertools: the Event Handler

_ADAPTERS_HOME: Final = "aws_lambda_powertools.event_handler."


class Chain(NamedTuple):
    """The parts of what runs behind a middleware: Powertools hands it the first frame."""

    middlewares: list[Callable[..., Any]]
    adapter: Callable[..., Any]
    """Powertools' own last middleware: it makes a Response of what the function returned."""
    function: Callable[..., Any]
    frame: Callable[..., Any]

    def around(self, adapter: Callable[..., Any], function: Callable[..., Any]) -> Callable[[Any], Any]:
        """Return a new chain of the same middlewares, that ends in *adapter* and *function*."""
        chain = function
        for middleware in reversed([*self.middlewares, adapter]):
            chain = self.frame(middleware, chain)
        return chain


def taken_apart(chain: Any, *, is_async: bool) -> Chain | None:
    """
    Return the parts of *chain*, of ``app.resolve`` or ``app.resolve_async``; None if chains can't be read.

    Raises ValueError if it is no chain of that kind. Powertools 3.29.0 to 3.37.0: a `MiddlewareFrame`, or
    `AsyncMiddlewareFrame`, has ``current_middleware`` and ``next_middleware``.
    """
    frame = _frame(is_async=is_async)
    if frame is None:
        return None
    middlewares: list[Callable[..., Any]] = []
    end: Any = chain
    while type(end) is frame:
        middlewares.append(end.current_middleware)
        end = end.next_middleware
    if not middlewares or hasattr(end, "next_middleware") or not _is_adapter(middlewares[-1]):
        raise ValueError
    return Chain(middlewares[:-1], middlewares[-1], end, frame)


def is_of_resolve(chain: object) -> bool:
    """Return whether *chain* is of ``app.resolve``; if chains can't be read, whether no event loop runs."""
    frame = _frame(is_async=False)
    if frame is not None:
        return type(chain) is frame
    import asyncio

    with suppress(RuntimeError):
        return asyncio.get_running_loop() is None
    return True


def load_async_frames() -> None:
    """Import what chains of ``app.resolve_async`` are made of."""
    _frame(is_async=True)


def _frame(*, is_async: bool) -> type[Any] | None:
    """Return the class of frames; None if this Powertools has none that we know."""
    home = "middlewares.async_utils" if is_async else "api_gateway"
    with suppress(ImportError):
        module = import_module(f"{_ADAPTERS_HOME}{home}")
        frame = getattr(module, "AsyncMiddlewareFrame" if is_async else "MiddlewareFrame", None)
        if frame is not None and _is_a_frame(frame):
            return frame  # type: ignore[no-any-return]
    _changed(
        "Powertools",
        "middleware chain",
        "once.route takes all that runs behind it for the work, and stores whatever comes of it",
    )
    return None


@cache
def _is_a_frame(frame: Any) -> bool:
    try:
        one = frame(_is_adapter, _frame)
        known = (one.current_middleware, one.next_middleware)
    except (AttributeError, TypeError):
        return False
    return known == (_is_adapter, _frame)


def _is_adapter(middleware: object) -> bool:
    home = getattr(middleware, "__module__", "")
    return inspect.isfunction(middleware) and home.startswith(_ADAPTERS_HOME)


def route_path(app: Any) -> str | None:
    """
    Return the path template of the route that *app* has chosen, for log lines; None if it doesn't say.

    Powertools 3.29.0 to 3.37.0: ``context["_route"]``. The event's own path takes its place.
    """
    path = getattr(app.context.get("_route"), "openapi_path", None)
    return path if isinstance(path, str) else None


def serialiser_of(app: Any) -> Callable[[Any], str] | None:
    """
    Return the ``serializer=`` by which *app*, an Event Handler, writes bodies; None if it doesn't say.

    Powertools 3.29.0 to 3.37.0: ``_serializer``. Without it a body is stored as it is.
    """
    serialise: Any = getattr(app, "_serializer", None)
    return serialise if callable(serialise) else None


def routes_of(router: Any) -> Iterator[tuple[object, Sequence[object]]]:
    """
    Yield the functions of all routes of a Router or an Event Handler, with their middlewares.

    Powertools 3.29.0 to 3.37.0: ``_static_routes`` and ``_dynamic_routes`` of a handler, ``_routes`` and
    ``_routes_with_middleware`` of a Router. Without them nothing; there is no public list.
    """
    try:
        if hasattr(router, "_routes"):
            for place, function in router._routes.items():
                yield function, router._routes_with_middleware.get(place, ())
            return
        for route in (*router._static_routes, *router._dynamic_routes):
            yield route.func, route.middlewares
    except AttributeError:
        _changed("Powertools", "list of routes", "explain takes the address of the middleware instead")


# ------------------------------------------------------------------ Powertools: idempotency


def with_put_record(layer: Any, write: Callable[..., None]) -> Any:
    """
    Return a copy of the persistence *layer* that has *write*, given its own method, put each record.

    Powertools 3.29.0 to 3.37.0: ``_put_record``, the method that a layer of one's own overrides. Without it
    *layer* itself, whose records have no marks: what lapsed is held, because it might be the old version's.
    """
    put = getattr(layer, "_put_record", None)
    if put is None:
        _changed("Powertools", "persistence layer", "lapsed work that it has a record of is always held")
        return layer
    marking = copy.copy(layer)
    marking._put_record = partial(write, put)
    return marking
