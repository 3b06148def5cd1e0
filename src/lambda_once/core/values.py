"""
Frozen, slotted value classes that cost little when a function starts cold: `value`, and `replace` for them.

A value class is what `dataclasses.dataclass(frozen=True, slots=True)` makes, to type checkers too. The
standard library writes and compiles six functions for every class when its module is imported (0.3 ms a
class, Python 3.11). Here the methods are shared by all classes; the only one that is compiled is
``__init__``, and not before it is asked for: a cold start makes values of few of the classes it imports.
`dataclasses.fields`, `replace`, `asdict` and `is_dataclass` take values as they take any dataclass.
"""

from __future__ import annotations

from dataclasses import Field, FrozenInstanceError, dataclass
from functools import partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform, overload

if TYPE_CHECKING:
    from collections.abc import Callable

V = TypeVar("V")


@overload
def value(kind: type[V], /) -> type[V]: ...
@overload
def value(*, kw_only: bool = False) -> Callable[[type[V]], type[V]]: ...
@dataclass_transform(frozen_default=True)
def value(kind: type | None = None, /, *, kw_only: bool = False) -> Any:
    """
    Make *kind* a value class of its annotated attributes.

    Fields may have plain defaults, and ``__post_init__`` is called. Raises TypeError for what only a
    dataclass can: `dataclasses.field`, and fields of a base class; ValueError for a default that all values
    would share and that could change.
    """
    if kind is None:
        return partial(_made, kw_only=kw_only)
    return _made(kind, kw_only=kw_only)


def _made(kind: type, *, kw_only: bool) -> type:
    if hasattr(kind, "__value_fields__"):
        raise TypeError(f"{kind.__qualname__}: a value class takes no fields from another one")
    fields = tuple(name for name, text in kind.__annotations__.items() if "ClassVar[" not in str(text))
    body = {name: each for name, each in vars(kind).items() if name not in _ITS_OWN}
    defaults = {name: _checked(name, body.pop(name)) for name in fields if name in body}

    def constructor(made: type) -> Callable[..., None]:
        return _constructor(made, defaults, kw_only=kw_only)

    def twin(made: type) -> Any:
        return _twin(made, defaults, kw_only=kw_only)

    body |= _SHARED
    body |= {
        "__slots__": fields,
        "__value_fields__": fields,
        "__match_args__": () if kw_only else fields,
        "__qualname__": kind.__qualname__,
        "__init__": _Late(constructor),
        "__dataclass_fields__": _Late(lambda made: twin(made).__dataclass_fields__),
        "__dataclass_params__": _Late(lambda made: twin(made).__dataclass_params__),
    }
    return type(kind)(kind.__name__, kind.__bases__, body)


def _replace(self: V, /, **changes: Any) -> V:
    """Return the same value with *changes*."""
    for name in self.__value_fields__:  # type: ignore[attr-defined]
        if name not in changes:
            changes[name] = getattr(self, name)
    return type(self)(**changes)


if TYPE_CHECKING:  # for `dataclasses.replace` type checkers look up the fields and check the changes
    from dataclasses import replace
else:
    replace = _replace

__all__ = ["replace", "value"]


# -- what is made for one class, when it is first asked for


class _Late:
    """Stands for an attribute of a class until that is asked for; then *make* makes it, once."""

    __slots__ = ("_make", "_name", "_owner")

    def __init__(self, make: Callable[[type], Any]) -> None:
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, kind: type) -> Any:
        # Two threads may make it at the same time: both make the same.
        setattr(self._owner, self._name, self._make(self._owner))
        return getattr(kind if instance is None else instance, self._name)


def _constructor(kind: type, defaults: dict[str, Any], *, kw_only: bool) -> Callable[..., None]:
    """
    Compile ``__init__``.

    Each field is set by its slot, past ``__setattr__``: half the time of the `object.__setattr__` by which a
    frozen dataclass does it.
    """
    fields: tuple[str, ...] = vars(kind)["__value_fields__"]
    names: dict[str, Any] = {f"_set_{name}": vars(kind)[name].__set__ for name in fields}
    names |= {f"_default_{name}": default for name, default in defaults.items()}
    parameters = [f"{name}=_default_{name}" if name in defaults else name for name in fields]
    if kw_only and fields:
        parameters.insert(0, "*")
    steps = [f"_set_{name}(self, {name})" for name in fields]
    if hasattr(kind, "__post_init__"):
        steps.append("self.__post_init__()")
    source = f"def __init__({', '.join(['self', *parameters])}):\n {'; '.join(steps) or 'pass'}"
    exec(source, names)  # noqa: S102  # of names that are identifiers; dataclasses does the same
    constructor: Callable[..., None] = names["__init__"]
    constructor.__qualname__ = f"{kind.__qualname__}.__init__"
    constructor.__module__ = kind.__module__
    return constructor


def _twin(kind: type, defaults: dict[str, Any], *, kw_only: bool) -> Any:
    """Return the dataclass that *kind* would be: it tells `dataclasses` what its fields are."""
    body = {"__annotations__": kind.__annotations__, "__module__": kind.__module__, "__doc__": kind.__doc__}
    return dataclass(frozen=True, slots=True, kw_only=kw_only)(type(kind.__name__, (), body | defaults))


def _checked(name: str, default: Any) -> Any:
    if isinstance(default, Field):
        raise TypeError(f"field {name}: dataclasses.field() is not known here, give a plain default")
    if type(default).__hash__ is None:
        raise ValueError(f"field {name}: a {type(default).__name__} is shared by all values and can change")
    return default


# -- what all classes share


def _contents(self: Any) -> tuple[object, ...]:
    return tuple([getattr(self, name) for name in self.__value_fields__])


def _eq(self: object, other: object) -> bool:
    return _contents(self) == _contents(other) if type(self) is type(other) else NotImplemented


def _hash(self: object) -> int:
    return hash(_contents(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join([f"{name}={getattr(self, name)!r}" for name in self.__value_fields__])
    return f"{type(self).__qualname__}({shown})"


def _setattr(_self: object, name: str, _new: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(_self: object, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _setstate(self: Any, contents: tuple[object, ...]) -> None:
    for name, each in zip(self.__value_fields__, contents, strict=True):
        object.__setattr__(self, name, each)


_SHARED = {
    "__eq__": _eq,
    "__hash__": _hash,
    "__repr__": _repr,
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _contents,  # pickle and copy would set the fields of an empty value by setattr
    "__setstate__": _setstate,
    "__replace__": _replace,  # copy.replace, Python 3.13
}
_ITS_OWN = frozenset({"__dict__", "__weakref__"})
"""What Python puts into a class without slots, and a slotted one does not have."""
