"""A protected function by its address, ``module:function``, as Lambda finds a handler."""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lambda_once.errors import Misconfigured
from lambda_once.explain.explanation import Explanation, explain, identifier_of
from lambda_once.integrations.event_handler import ROUTES, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Explain = Callable[[Any], list[Explanation]]


def explain_at(address: str) -> Explain:
    """
    Return what explains events to the function at *address*; the working directory is searched first.

    Raises `Misconfigured` if *address* is malformed, the module cannot be imported, or the function does not
    exist or is not protected.
    """
    name, _, path = address.partition(":")
    if not name or not path:
        raise Misconfigured(
            f"{address!r} is not the address of a function: give module:function, such as app.orders:handler"
        )
    module = _imported(name)
    found: Any = module
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            raise Misconfigured(f"the module {name} has no {path}; {_protected_in(module)}")
    explains = _explain_of(found, module)
    if explains is None:
        raise Misconfigured(f"{address} is not protected by lambda-once itself; {_protected_in(module)}")
    return explains


def _imported(name: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise Misconfigured(f"no module {name} in {here} or on the Python path") from None
        raise Misconfigured(f"the module {name} needs {error.name}, which is not installed here") from None
    except Exception as error:
        raise Misconfigured(
            f"the module {name} cannot be imported here: {type(error).__name__}: {error}; "
            "set what its environment has in Lambda"
        ) from error


def _protected_in(module: ModuleType) -> str:
    names = [
        name
        for name, each in vars(module).items()
        if callable(each) and _explain_of(each, module) is not None
    ]
    return f"protected are {', '.join(names)}" if names else "nothing in that module is protected"


def _explain_of(function: object, module: ModuleType) -> Explain | None:
    """Return what explains events to *function*, itself or under other decorators; None if unprotected."""
    layers = [*_layers(function)]
    found = next((identifier for each in layers if (identifier := identifier_of(each)) is not None), None)
    if found is None and (route := _route_of(layers[-1], module)) is not None:
        found = route.identifier
    return None if found is None else partial(explain, found)


def _layers(function: object) -> Iterator[object]:
    """Yield *function* and what it wraps, down to the innermost."""
    seen = set[int]()
    while function is not None and id(function) not in seen:
        seen.add(id(function))
        yield function
        function = getattr(function, "__wrapped__", None)


def _route_of(function: Any, module: ModuleType) -> Route | None:
    """Return the route among the decorators of *function*: made there, or there by the name it has."""
    try:
        lines, first = inspect.getsourcelines(function)
        (definition,) = ast.parse(textwrap.dedent("".join(lines))).body
        file = function.__code__.co_filename
    except (OSError, TypeError, SyntaxError, ValueError, AttributeError):
        return None
    for decorator in getattr(definition, "decorator_list", ()):
        for line in range(decorator.lineno, decorator.end_lineno + 1):
            if (file, first + line - 1) in ROUTES:
                return ROUTES[file, first + line - 1]
        for node in ast.walk(decorator):
            named = vars(module).get(node.id) if isinstance(node, ast.Name) else None
            for middleware in named if isinstance(named, list | tuple) else (named,):
                route = getattr(middleware, "__self__", None)
                if isinstance(route, Route):
                    return route
    return None
