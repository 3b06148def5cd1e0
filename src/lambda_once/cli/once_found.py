"""Where a function's identifier is: on itself, under what decorators put around it, or on its route."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from lambda_once.explain.explanation import explain, identifier_of
from lambda_once.integrations.event_handler import Route

if TYPE_CHECKING:
    from types import ModuleType

    from lambda_once.explain.explanation import Explanation

Explain = Callable[[Any], "list[Explanation]"]


def explain_of(function: object, module: ModuleType) -> Explain | None:
    """Return what explains events to *function* of *module*; None where it is not protected."""
    for each in _layers(function):
        identifier = identifier_of(each)
        if identifier is not None:
            return partial(explain, identifier)
    layers = [*_layers(function)]
    for resolver in vars(module).values():
        for routed, middlewares in _routes(resolver):
            if any(routed is layer for layer in layers):
                for middleware in middlewares:
                    route = getattr(middleware, "__self__", None)
                    if isinstance(route, Route):
                        return partial(explain, route.identifier)
    return None


def _layers(function: object) -> Iterator[object]:
    """Yield *function* and what it wraps, down to what was written."""
    seen = set[int]()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(function, "__wrapped__", None)


def _routes(resolver: object) -> Iterator[tuple[object, list[Any]]]:
    """
    Yield the functions of a Powertools resolver or router, each with its middlewares.

    Powertools 3 keeps them in attributes that it does not document; where they are not, there are none.
    """
    for name in ("_static_routes", "_dynamic_routes"):
        routes = getattr(resolver, name, None)
        if isinstance(routes, list):
            yield from ((route.func, route.middlewares or []) for route in routes if hasattr(route, "func"))
    functions = getattr(resolver, "_routes", None)
    middlewares = getattr(resolver, "_routes_with_middleware", None)
    if isinstance(functions, dict) and isinstance(middlewares, dict):
        yield from ((function, middlewares.get(key) or []) for key, function in functions.items())
