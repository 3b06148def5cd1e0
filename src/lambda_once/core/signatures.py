"""
Inspect a function: its parameters, its return type, the arguments it accepts.

Annotations are evaluated one at a time: `typing.get_type_hints` fails as a whole on one name that only type
checkers import.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import Field, fields, is_dataclass
from functools import partial
from types import FrameType, SimpleNamespace
from typing import Any, ForwardRef, get_args, get_origin, get_type_hints

from lambda_once.errors import Misconfigured

AnyFunction = Callable[..., Any]


def signature_of(function: AnyFunction, *, follow_wrapped: bool = True) -> inspect.Signature:
    """
    Return the signature of *function*, without evaluating annotations.

    Raises `Misconfigured` for a callable without one, such as some built-in functions.
    """
    try:
        if sys.version_info >= (3, 14):  # a signature evaluates annotations (PEP 649)
            from annotationlib import Format

            return inspect.signature(
                function, follow_wrapped=follow_wrapped, annotation_format=Format.FORWARDREF
            )
        return inspect.signature(function, follow_wrapped=follow_wrapped)
    except (TypeError, ValueError) as error:
        raise Misconfigured(
            f"cannot inspect the signature of {title(function)}; wrap it in a function and decorate that"
        ) from error


def accepts(function: AnyFunction, *args: object, **kwargs: object) -> bool:
    """Return whether *function* accepts *args* and *kwargs*; True if that is unknown."""
    try:
        signature_of(function).bind(*args, **kwargs)
    except Misconfigured:
        return True
    except TypeError:
        return False
    return True


def is_async(function: object) -> bool:
    """Return whether calling *function* returns a coroutine: an `async def`, or an async `__call__`."""
    return any(map(inspect.iscoroutinefunction, _called(function)))


def is_generator(function: object) -> bool:
    """Return whether calling *function* returns a generator, plain or async."""
    return any(
        inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in _called(function)
    )


def _called(function: Any) -> tuple[Any, ...]:
    """Return what a call of *function* may run: a partial's function, and an object's ``__call__``."""
    while isinstance(function, partial):
        function = function.func
    return function, type(function).__call__


def title(function: object) -> str:
    """Return the name of *function* for messages."""
    return str(getattr(function, "__qualname__", None) or repr(function))


def return_type(function: AnyFunction) -> object:
    """
    Return the evaluated return annotation of *function*; Any if there is none.

    Annotations of parameters are not evaluated. Raises `Misconfigured` if the evaluation fails.
    """
    for each in _called(function):
        annotations = _annotations(each)
        if "return" in annotations:
            return resolved(annotations["return"], each, f"the return annotation of {title(each)}")
    return Any


def model_of(function: AnyFunction, parameter: inspect.Parameter) -> str | None:
    """Return the name of the pydantic model that annotates *parameter* of *function*, or None."""
    pydantic = sys.modules.get("pydantic")
    annotation = _annotations(function).get(parameter.name)
    if pydantic is None or annotation is None:
        return None
    try:
        found: Any = resolved(annotation, function, "the annotation of a parameter")
    except Misconfigured:  # imported for type checkers alone
        return None
    is_model = isinstance(found, type) and issubclass(found, pydantic.BaseModel)
    return str(found.__name__) if is_model else None


def parameter_types(function: AnyFunction) -> dict[str, object]:
    """Return the evaluated annotations of *function*'s parameters, but for those with an unknown name."""
    parameters = signature_of(function).parameters.values()
    while isinstance(function, partial):
        function = function.func
    found = {}
    for each in parameters:
        if each.annotation is not each.empty:
            with suppress(Misconfigured):  # imported for type checkers alone
                found[each.name] = resolved(each.annotation, function, each.name, extras=True)
    return found


def resolved(annotation: object, function: AnyFunction, what: str, *, extras: bool = False) -> object:
    """
    Return *annotation*, its strings and forward references evaluated in the scope of *function*.

    Messages call it *what*; *extras*: with the metadata of ``Annotated``. Raises `Misconfigured` for an
    unknown name in it.
    """
    inner: Any = inspect.unwrap(function)
    names = getattr(inner, "__globals__", None)
    if names is None:  # a partial, or an object with a call of its own
        names = vars(sys.modules.get(getattr(inner, "__module__", None) or "", SimpleNamespace()))
    local = {**_type_parameters(inner), **_enclosed(inner)}
    return evaluated(annotation, names, local, what, extras=extras)


def evaluated(
    annotation: object, names: Mapping[str, Any], local: Mapping[str, Any], what: str, *, extras: bool = False
) -> object:
    """Return *annotation* as `typing.get_type_hints` evaluates it. Raises `Misconfigured` if that fails."""
    if annotation is Any or isinstance(annotation, type):
        return annotation
    holder: Any = SimpleNamespace(__annotations__={"return": annotation})
    try:
        return get_type_hints(holder, dict(names), dict(local), include_extras=extras)["return"]
    except Exception as error:
        unknown = f" ({error.name} is not defined)" if isinstance(error, NameError) and error.name else ""
        shown = annotation.__forward_arg__ if isinstance(annotation, ForwardRef) else annotation
        raise Misconfigured(
            f"{what}, {shown}, cannot be resolved{unknown}, so results would come back as plain JSON: "
            "import the name at run time, above the decorator, or pass returns=; returns=Any for plain JSON"
        ) from error


def frame_that_called(frame: FrameType | None) -> FrameType | None:
    """Return the frame that called *frame*; None if this Python keeps no frames (`inspect.currentframe`)."""
    return None if frame is None else frame.f_back


def check_fields(annotation: object) -> None:
    """Raise `Misconfigured` if the type of a dataclass field in *annotation* cannot be resolved."""
    _check_fields(annotation, set())


def _check_fields(annotation: Any, checked: set[Any]) -> None:
    kind = get_origin(annotation) or getattr(annotation, "__supertype__", annotation)
    parts = [*get_args(annotation), *([kind] if kind is not annotation else [])]
    if isinstance(annotation, type) and is_dataclass(annotation) and annotation not in checked:
        checked.add(annotation)
        parts += field_types(annotation).values()
    for part in parts:
        _check_fields(part, checked)


def field_types(kind: Any) -> Mapping[str, Any]:
    """
    Return the types of the fields of *kind*, a dataclass, each evaluated where it is declared.

    Raises `Misconfigured`, with the name of the field, if one cannot be evaluated.
    """
    owners = {name: owner for owner in reversed(kind.__mro__) for name in _annotations(owner)}
    return {field.name: _field_type(owners[field.name], field) for field in fields(kind)}


def _field_type(owner: type, field: Field[Any]) -> object:
    names = {**vars(owner), **vars(sys.modules.get(owner.__module__, SimpleNamespace()))}
    local = {owner.__name__: owner, **_type_parameters(owner)}
    return evaluated(field.type, names, local, f"the type of field {owner.__qualname__}.{field.name}")


def _annotations(function: AnyFunction) -> Mapping[str, object]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(function, format=Format.FORWARDREF)
    return getattr(function, "__annotations__", None) or {}  # an AsyncMock's are None


def _type_parameters(function: Any) -> dict[str, Any]:
    return {each.__name__: each for each in getattr(function, "__type_params__", ())}


def _enclosed(function: Any) -> dict[str, Any]:
    """Return the names that *function* uses from its enclosing function, such as a class in a test."""
    names = getattr(getattr(function, "__code__", None), "co_freevars", ())
    found = {}
    for name, cell in zip(names, getattr(function, "__closure__", None) or (), strict=False):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return found
