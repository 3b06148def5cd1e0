"""
Default names: which functions have a name of their own, and where two pieces of work share one.

The default name is ``module.qualname``. Two effects with one name and one key are one token, and the second
never runs. So a function whose name does not lead back to it needs ``name=`` or `Once.run_as`. There is no
registry of names: a reload, a notebook and a test define the same function again, and rightly so.
"""

from __future__ import annotations

import functools
import opcode
import sys
from collections.abc import Callable, Iterator
from enum import Enum
from itertools import chain
from numbers import Number
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any, Final

from lambda_once.core.signatures import title
from lambda_once.errors import Misconfigured

_PLACEHOLDERS: Final = ("<lambda>", "_")
"""Names of functions without a name of their own: several in one module share them."""
_NESTED: Final = "<locals>"
_NOTHING: Final = object()
_SMALL_INT: Final = opcode.opmap.get("LOAD_SMALL_INT")
"""None before CPython 3.14. Its operand is the integer itself, one object wherever it is written."""


def check_own_name(function: object) -> None:
    """Check that `Once.run` can name a token after *function*. Raises `Misconfigured`."""
    if not callable(function):
        raise Misconfigured(
            f"once.run(key, function, …) got a {type(function).__name__} in place of the function; "
            "to pass a name, use once.run_as(name, key, function, …)"
        )
    if not _leads_back(function):
        raise Misconfigured(
            f"once.run cannot name a token after {described(function)}: other work could have the same name, "
            'and would not run for an equal key. Pass a name: once.run_as("send mail", key, function, …)'
        )


def name_of(function: Callable[..., Any]) -> str:
    """Return ``module.qualname``; a partial, which has no name, needs ``name=``."""
    return f"{function.__module__}.{getattr(function, '__qualname__', '')}"


def check_not_by_value(function: Callable[..., Any]) -> None:
    """
    Check that *function*, decorated without ``name=``, was not made from a value. Raises `Misconfigured`.

    A function inside another one that captured a str, a number, a bool, an enum or a tuple of these is one of
    several that a factory makes, all of one name. A default that its def writes as a literal is the same for
    all of them. Of objects this is unknown: `SharedNames`.
    """
    if _NESTED in getattr(function, "__qualname__", "") and any(map(_is_value, _captured(function))):
        raise Misconfigured(
            f"{title(function)} is made by a function and holds a value of it: all functions that are made "
            "there have one name, and for an equal key only the first would run. Pass name=, "
            "or pass the value as an argument"
        )


def described(function: Callable[..., Any]) -> str:
    """Return a description of *function* for messages. The repr of a partial would show its arguments."""
    name = getattr(function, "__name__", None)
    owner = getattr(function, "__self__", None)
    if name == "<lambda>":
        return "a lambda"
    if name is None:
        return f"a {type(function).__name__} object"
    if owner is not None and not isinstance(owner, type(sys)):
        of = owner.__qualname__ if isinstance(owner, type) else type(owner).__qualname__
        return f"the bound method {of}.{name}"
    if _NESTED in title(function):
        return f"{title(function)}, a function with captured values or defaults"
    return f"{title(function)}, which {function.__module__} has not under that name"


# -- where a function comes from


def _leads_back(function: Callable[..., Any]) -> bool:
    """Whether the name of *function* leads to it alone, as far as one function can show it."""
    module, qualname = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return False
    if _NESTED in qualname:
        return _is_constant(function) and not _is_placeholder(qualname)
    found: object = sys.modules.get(module, _NOTHING)
    for name in qualname.split("."):
        found = getattr(found, name, _NOTHING)
    return found is function or _is_same_method(found, function) or _is_reloaded(found, function)


def _is_placeholder(qualname: str) -> bool:
    return qualname.rpartition(".")[2] in _PLACEHOLDERS


def _is_constant(function: object) -> bool:
    """Whether *function* is a def that is the same whenever it is executed: without cells and defaults."""
    return isinstance(function, FunctionType) and not (
        function.__closure__ or function.__defaults__ or function.__kwdefaults__
    )


def _is_same_method(found: object, function: object) -> bool:
    """Whether both are a classmethod of one class, made anew by each look-up; an inherited one is not."""
    return isinstance(found, MethodType) and isinstance(function, MethodType) and found == function


def _is_reloaded(found: object, function: object) -> bool:
    """Whether *function* is *found* as it was imported before a reload of its module."""
    return (
        isinstance(found, FunctionType)
        and isinstance(function, FunctionType)
        and found.__code__ == function.__code__
        and _is_constant(found)
        and _is_constant(function)
    )


# -- what a function holds


def _layers(function: object) -> Iterator[object]:
    """Yield *function*, and what it wraps, the innermost last."""
    while function is not None:
        yield function
        wrapped = getattr(function, "__wrapped__", None)
        function = function.func if isinstance(function, functools.partial) else wrapped


def code_under(function: Callable[..., Any]) -> CodeType | None:
    """Return the code of the innermost def of *function*; None: it is no Python function."""
    *_, innermost = _layers(function)
    code = getattr(innermost, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _enclosed(layer: object) -> Iterator[object]:
    """Yield what is in the cells of *layer*, a partial's arguments, or a method's object."""
    if isinstance(layer, functools.partial):
        yield from (*layer.args, *layer.keywords.values())
    if isinstance(layer, MethodType):
        yield layer.__self__
    for cell in getattr(layer, "__closure__", None) or ():
        try:
            yield cell.cell_contents
        except ValueError:  # assigned later: a recursion, or super()
            continue


def _defaults(layer: object) -> Iterator[object]:
    """Yield the defaults of *layer*, a def that is being executed, that are no literals in it."""
    literals = _literals_around(getattr(layer, "__code__", None))
    given: tuple[object, ...] = getattr(layer, "__defaults__", None) or ()
    if id(given) in literals:  # CPython loads defaults that are all literals as one constant tuple
        given = ()
    named: dict[str, object] = getattr(layer, "__kwdefaults__", None) or {}
    yield from (value for value in (*given, *named.values()) if id(value) not in literals)


def _literals_around(code: object) -> frozenset[int]:
    """Return the ids of the literals of the function that is executing the def of *code*, if one is."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  (a decorator runs inside of that function)
    while frame is not None:
        constants = frame.f_code.co_consts
        if any(each is code for each in constants):
            return frozenset(map(id, (*constants, *_small_literals(frame.f_code))))
        frame = frame.f_back
    return frozenset()


def _small_literals(code: CodeType) -> Iterator[int]:
    """Yield the integers 0 to 255 in *code*: in CPython 3.14 they are instructions, and no constants."""
    units = code.co_code
    return (value for name, value in zip(units[::2], units[1::2], strict=True) if name == _SMALL_INT)


def _captured(function: Callable[..., Any]) -> Iterator[object]:
    """Yield what the innermost def of *function* holds; a decorator's options on top of it name nothing."""
    *outer, innermost = _layers(function)
    for layer in outer:
        if isinstance(layer, functools.partial):
            yield from _enclosed(layer)
    yield from _enclosed(innermost)
    yield from _defaults(innermost)


def _is_value(value: object) -> bool:
    """Whether *value* is a str, a number, a bool, an enum or a tuple of these."""
    if isinstance(value, tuple):
        return bool(value) and all(map(_is_value, value))
    return isinstance(value, str | Number | Enum)


# -- names that two pieces of work share


class SharedNames:
    """
    Finds functions of one `Once` that share a default name, where that may be intended: they are logged.

    *log* gets the name and the reason, once for each function.
    """

    def __init__(self, log: Callable[[str, str], object]) -> None:
        self._log = log
        self._decorated: dict[tuple[str, int], tuple[CodeType, tuple[object, ...] | None]] = {}
        """
        What each def had captured first, by name and code; None: it is logged. The code keeps its id taken.

        Lambdas are one def: several of them in a function, or in a module, have one name.
        """

    def decorated(self, function: Callable[..., Any]) -> None:
        """Note that *function* was decorated without ``name=``."""
        layers, code = [*_layers(function)], code_under(function)
        if code is None:
            return
        name, wrapped = name_of(function), {id(layer) for layer in layers}
        found = chain.from_iterable((*_enclosed(layer), *_defaults(layer)) for layer in layers)
        captured = tuple(each for each in found if id(each) not in wrapped)
        key = name, 0 if _is_placeholder(name) else id(code)
        first, before = self._decorated.setdefault(key, (code, captured))
        if before is not None and not (first == code and _are_same(before, captured)):
            self._decorated[key] = code, None
            self._log(name, f"several functions are decorated under the name {name}: {_SHARED}")

    def receivers(self, method: Callable[..., Any], name: str) -> Receivers:
        """Return what receives the object of each call of *method*."""
        return Receivers(title(method), lambda reason: self._log(name, reason))


_SHARED: Final = "for an equal key only the first of them runs; pass name="


class Receivers:
    """The classes of the objects on which one decorated method is called."""

    def __init__(self, method: str, log: Callable[[str], object]) -> None:
        self._method = method
        self._log = log
        self._first: str | None = None
        self._logged = False

    def called_on(self, receiver: object) -> None:
        """Note a call on *receiver*, an object or, for a classmethod, a class."""
        kind = receiver if isinstance(receiver, type) else type(receiver)
        name = f"{kind.__module__}.{kind.__qualname__}"  # not the class: a reload makes it anew
        if self._first is None:
            self._first = name
        elif name != self._first and not self._logged:
            self._logged = True
            self._log(
                f"{self._method} is called on objects of {self._first} and {name}, under one name: for an "
                "equal key only the first of them runs; pass scope=, or name= if that is intended"
            )


def _are_same(before: tuple[object, ...], after: tuple[object, ...]) -> bool:
    """Whether both hold the same objects. Of objects only the identity counts: their == is the user's."""
    return len(before) == len(after) and all(
        one is other or (_is_value(one) and type(one) is type(other) and one == other)
        for one, other in zip(before, after, strict=True)
    )
