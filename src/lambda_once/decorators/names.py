"""
Names: which work a token is for.

The default name is ``module.qualname``. Two pieces of work with one name and one key are one token, and the
second never runs. So each `Once` knows what it has decorated, and refuses a second function of one name while
the first is alive. It compares functions, their code objects and whose globals they have, never what they
hold. A reload and a notebook define a function again, and rightly so: in the globals of the first, or in a
module that has taken the place of its module. A file that is loaded twice defines two.

What one process cannot see is listed under guarantee 12.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from lambda_once.errors import Misconfigured

AnyFunction: TypeAlias = Callable[..., Any]
Name: TypeAlias = str | AnyFunction | None
"""``name=``: a text, the decorated function whose name it shares, or None for the default name."""

_NESTED: Final = "<locals>"
_NAMELESS: Final = {"<lambda>": "a lambda", "_": "a function called _"}
"""What several functions of one module may be called."""


def name_of(function: AnyFunction) -> str:
    """Return ``module.qualname``."""
    return f"{function.__module__}.{getattr(function, '__qualname__', '')}"


def token_name(decorated: AnyFunction) -> str:
    """Return the second part of the tokens of *decorated*, what one of our decorators has returned."""
    name: str = decorated.__once__.name  # type: ignore[attr-defined]
    return name


def check_shared(name: Name, runtime: object) -> None:
    """Raise `Misconfigured` if *name* is a function that the `Once` of *runtime* has not decorated."""
    if callable(name) and getattr(getattr(name, "__once__", None), "runtime", None) is not runtime:
        raise Misconfigured(
            f"name={_shown(name)} is not decorated by this Once: pass a text, or the decorated "
            "function whose name and tokens this work shares"
        )


def _without_name(function: AnyFunction) -> str | None:
    """Return what *function* is if it has no default name, such as "a lambda"; None: it has one."""
    inner = _innermost(function)
    last = str(getattr(inner, "__qualname__", "")).rpartition(".")[2]
    if isinstance(inner, partial) or not last:
        return f"a {type(inner).__name__} object"  # its repr may show arguments
    return _NAMELESS.get(last)


# -- the same work, or another


def _innermost(function: AnyFunction) -> AnyFunction:
    """Return what decorators have wrapped. A partial or bound method is itself: it holds an argument."""
    inner: AnyFunction = inspect.unwrap(function, stop=lambda each: isinstance(each, partial | MethodType))
    return inner


def _def_of(function: AnyFunction) -> FunctionType | None:
    """Return the def that *function* calls in the end; None: it is not written in Python."""
    function = inspect.unwrap(function)
    if isinstance(function, FunctionType):
        return function
    if isinstance(function, partial):
        return _def_of(function.func)
    if isinstance(function, MethodType):
        return _def_of(function.__func__)
    call = getattr(type(function), "__call__", None)  # noqa: B004  (the method itself)
    return call if isinstance(call, FunctionType) else None


def _is_same_work(new: AnyFunction, old: AnyFunction) -> bool:
    """Whether both are one function, or one that was loaded again with equal code."""
    new, old = _innermost(new), _innermost(old)
    if new is old or (isinstance(new, MethodType | BuiltinMethodType) and new == old):
        return True
    one, other = _def_of(new), _def_of(old)
    if one is None or other is None or one.__code__ is other.__code__:
        return False
    return one.__code__ == other.__code__ and _is_loaded_again(one, other)


def _is_loaded_again(new: FunctionType, old: FunctionType) -> bool:
    """
    Whether the module of *new* is that of *old*, executed again, or imported in its place.

    Else both modules are alive, each with values of its own, and two functions of one name are two works.
    """
    if new.__globals__ is old.__globals__:
        return True
    name = new.__globals__.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return old.__globals__.get("__name__") == name and getattr(module, "__dict__", None) is new.__globals__


def _is_loaded_twice(new: FunctionType, old: FunctionType) -> bool:
    """Whether both are of one file, executed in globals of their own."""
    is_of_one_file = new.__code__.co_filename == old.__code__.co_filename
    return is_of_one_file and new.__globals__ is not old.__globals__


def _succeeds(new: AnyFunction, old: AnyFunction) -> bool:
    """Whether *new* replaces *old*: its module was reloaded with changes, or a notebook's cell run again."""
    one, other = _def_of(new), _def_of(old)
    return (
        one is not None
        and other is not None
        and (one.__module__, one.__qualname__) == (other.__module__, other.__qualname__)
        and one.__code__ is not other.__code__
        and _is_loaded_again(one, other)
        and _NESTED not in one.__qualname__
        and _without_name(one) is None
    )


def _shown(function: AnyFunction) -> str:
    """Return *function* with its file and line."""
    found = _def_of(function)
    if found is None:
        kind: Any = function if hasattr(function, "__qualname__") else type(function)
        return f"{kind.__module__}.{kind.__qualname__}"
    return f"{name_of(found)} ({found.__code__.co_filename}:{found.__code__.co_firstlineno})"


# -- what one Once has decorated


class _Known(NamedTuple):
    name: str
    is_nested: bool
    """Whether it was made inside a function."""
    block: object
    """The innermost `Names.apart` around its decoration, or None."""


class Names:
    """
    The functions that one `Once` has decorated, by the names of their tokens.

    A function is known for as long as its decorated form is alive: nothing else runs it. One that shares the
    name of another keeps that one alive, so it need not be known itself.
    """

    blocks: ClassVar[tuple[object, ...]] = ()
    """The blocks of `apart` that have not ended."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # collecting garbage may run a finaliser that decorates
        self._known: WeakKeyDictionary[AnyFunction, _Known] = WeakKeyDictionary()

    def add(self, decorated: AnyFunction, name: Name) -> None:
        """
        Note that *decorated* was decorated with ``name=`` *name*.

        Raises `Misconfigured` if it has no name, or if other work that is alive has that name.
        """
        if callable(name):
            return
        nameless = _without_name(decorated)
        if name is None and nameless is not None:
            raise Misconfigured(f"{nameless} has no name of its own: pass name=, or write a def")
        name = token_name(decorated)
        with self._lock:
            if self._other(decorated, name) is not None:
                gc.collect()
            other = self._other(decorated, name)
            if other is not None:
                raise Misconfigured(_conflict(decorated, other, name))
            for each in self._of_name(name):
                if not _is_same_work(decorated, each):
                    del self._known[each]  # its successor has the name
            found = _def_of(decorated)
            is_nested = found is not None and _NESTED in found.__qualname__
            self._known[decorated] = _Known(name, is_nested, self._block)

    @classmethod
    @contextmanager
    def apart(cls) -> Iterator[None]:
        """
        Begin with the functions that modules have, and forget at the end what was decorated in the block.

        For tests. It applies to every `Once` and all threads.
        """
        block = object()
        Names.blocks = (*Names.blocks, block)
        try:
            yield
        finally:
            Names.blocks = tuple(each for each in Names.blocks if each is not block)

    @property
    def _block(self) -> object:
        return self.blocks[-1] if self.blocks else None

    def _of_name(self, name: str) -> list[AnyFunction]:
        lasting, block = (None, *self.blocks), self._block
        return [
            each
            for each, known in list(self._known.items())
            if known.name == name
            and (known.block is block or (known.block in lasting and not known.is_nested))
        ]

    def _other(self, decorated: AnyFunction, name: str) -> AnyFunction | None:
        """Return a living function of *name* whose place *decorated* may not take."""
        others = self._of_name(name)
        return next((x for x in others if not (_is_same_work(decorated, x) or _succeeds(decorated, x))), None)


def _conflict(new: AnyFunction, old: AnyFunction, name: str) -> str:
    message = (
        f"{_shown(old)} and {_shown(new)} have one name, {name!r}: for an equal key only the first of them "
        "would run. Give each a name= of its own; to share one on purpose, pass the decorated function as "
        "the name= of the other"
    )
    found, again = _def_of(old), _def_of(new)
    if found is not None and again is not None and _is_loaded_twice(again, found):
        message += "; or load its file once"
    if found is not None and _NESTED in found.__qualname__:
        message += "; or an earlier test's traceback keeps it alive: use using()"
    return message


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
