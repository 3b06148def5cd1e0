"""
Lazy results: generators and iterators, plain and async.

What one yields would run after the token is complete, where nothing protects it; and storing one would leave
its caller an exhausted one. So none is declared, none is stored, and none is drained.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from itertools import islice
from types import NoneType, UnionType
from typing import Annotated, Any, Final, NewType, TypeVar, Union, get_args, get_origin

from lambda_once.core.results import NotSerialisable
from lambda_once.errors import Misconfigured

_UNIONS: Final = (Union, UnionType)
_SCALARS: Final = frozenset(
    {str, int, float, bool, NoneType, bytes, Decimal, datetime, date, time, timedelta}
)

_OF_MODELS: Final = "pydantic.main"
"""The module of `BaseModel`, whose ``__iter__`` yields the fields."""

MOST_PARTS: Final = 50_000
"""Parts of a typed result, beyond which it is neither compared nor stored: its token waits for that."""


def _has_next(kind: Any) -> bool:
    """
    Whether objects of the class *kind* yield: pydantic drains them, also those without ``__iter__``.

    Not what it writes by its fields or its value, such as a node of a linked list or a day of the week,
    unless that iterates in a way of its own.
    """
    if not (hasattr(kind, "__next__") or hasattr(kind, "__anext__")):
        return False
    if not (_has_fields(kind) or issubclass(kind, Enum)):
        return True
    own = [vars(each) for each in kind.__mro__ if each.__module__ != _OF_MODELS]
    return any("__iter__" in each or "__aiter__" in each for each in own)


def _has_fields(kind: Any) -> bool:
    return hasattr(kind, "__dataclass_fields__") or hasattr(kind, "__pydantic_fields__")


class Shape(Enum):
    """How the parts of a value are found."""

    LAZY = "lazy"
    FIELDS = "fields"
    MAPPING = "mapping"
    SET = "set"
    ROW = "row"
    NONE = "none"


@lru_cache(maxsize=1_024)
def shape_of(kind: Any) -> Shape:
    """Return the shape of objects of the class *kind*: a dataclass or model has fields, a list is a row."""
    if issubclass(kind, (str, bytes, bytearray, memoryview)):
        return Shape.NONE
    if _has_next(kind):
        return Shape.LAZY
    if _has_fields(kind):
        return Shape.FIELDS
    if issubclass(kind, Mapping):
        return Shape.MAPPING
    if issubclass(kind, AbstractSet):
        return Shape.SET
    return Shape.ROW if issubclass(kind, Sequence) else Shape.NONE


class TooManyParts(NotSerialisable):
    """A result of a declared type has more than `MOST_PARTS`."""

    def __init__(self) -> None:
        super().__init__(
            f"the result has more than {MOST_PARTS:,} parts, too many to compare with what duplicates would "
            "get. Declare no types of parts, as in -> list, or pass codec="
        )


class Lazy(NotSerialisable):
    """A result is a generator or iterator, or has one in it."""

    def __init__(self, *, is_whole: bool) -> None:
        what = "the result is" if is_whole else "the result contains"
        super().__init__(
            f"{what} a generator or iterator, so it is not stored: what that yields runs after "
            "the token is complete, unprotected. Return a list"
        )
        self.is_whole = is_whole


def check_not_lazy(result: object) -> None:
    """Raise Lazy if *result* is a generator or iterator."""
    if _has_next(type(result)):
        raise Lazy(is_whole=True)


def check_no_lazy_part(value: object) -> None:
    """Raise Lazy if *value* has an iterator, which a serialiser of the user's may drain."""
    with suppress(TooManyParts):  # that limit is for what is compared before the write
        check_parts(value)


def check_type(annotation: object, what: str) -> None:
    """Raise `Misconfigured` if *annotation*, called *what*, says that results are generators or iterators."""
    if _is_lazy(annotation):
        raise Misconfigured(
            f"{what} is {annotation}: return a list. What a generator or iterator yields would run after the "
            "token is complete, unprotected"
        )


def bare(annotation: Any) -> object:
    """Return *annotation* without aliases and metadata."""
    while not issubclass(type(annotation), type):  # isinstance calls list[int] a type, too
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, NewType):
            annotation = annotation.__supertype__
        elif (named := unaliased(annotation)) is not annotation:
            annotation = named
        elif str(get_origin(annotation)).endswith(("Required", "ReadOnly")):  # of either module
            annotation = get_args(annotation)[0]
        else:
            break
    return annotation


def unaliased(annotation: Any) -> Any:
    """
    Return what *annotation* is the name of; itself if it is no alias.

    Raises `Misconfigured` for an unknown name in its value, which is evaluated when it is asked for.
    """
    try:
        while True:
            if _is_alias(annotation):
                annotation = annotation.__value__
            elif _is_alias(get_origin(annotation)):
                annotation = _with_arguments(get_origin(annotation), get_args(annotation))
            else:
                return annotation
    except NameError as error:
        raise Misconfigured(
            f"the type {annotation} cannot be resolved ({error.name} is not defined): "
            "import the name at run time, or pass returns=; returns=Any for plain JSON"
        ) from error


def _is_alias(annotation: object) -> bool:
    return type(annotation).__name__ == "TypeAliasType"  # of either module


def _with_arguments(alias: Any, arguments: tuple[Any, ...]) -> Any:
    """Return the value of a generic *alias* with *arguments*; as it is if they don't fit."""
    value, given = alias.__value__, dict(zip(alias.__type_params__, arguments, strict=False))
    if isinstance(value, TypeVar):
        return given.get(value, Any)
    try:
        return value[tuple(given[each] for each in value.__parameters__)]
    except (AttributeError, KeyError, TypeError):  # it has none, or one that stands for several
        return value


def _is_lazy(annotation: object) -> bool:
    annotation = bare(annotation)
    kind = get_origin(annotation) or annotation
    if kind in _UNIONS:
        return any(map(_is_lazy, get_args(annotation)))
    if not isinstance(kind, type):
        return False
    if issubclass(kind, Awaitable):  # of a coroutine what it returns is the last of three
        return any(map(_is_lazy, get_args(annotation)[-1:]))
    return _has_next(kind)


def check_count(parts: int) -> None:
    """Raise `TooManyParts` if *parts* are."""
    if parts > MOST_PARTS:
        raise TooManyParts


def check_parts(value: object) -> bool:
    """
    Return whether *value* has a float in it that is not finite. Raises Lazy if it has an iterator.

    Looks into what pydantic writes part by part, before that drains anything. Raises as `check_count`, and
    nothing of the user's: the work is done.
    """
    parts, count, has_odd_float = [value], 0, False
    while parts:
        part: Any = parts.pop()
        count += 1
        kind: Any = type(part)
        if kind in _SCALARS:
            has_odd_float = has_odd_float or (kind is float and part - part != 0)
            continue
        shape = shape_of(kind)
        if shape is Shape.LAZY:
            raise Lazy(is_whole=False)
        inner = _inner(part, shape)
        check_count(count + len(parts) + len(inner))
        parts += inner
    return has_odd_float


def _inner(part: Any, shape: Shape) -> list[Any]:
    """Return the parts of *part*, as many as count; none if the user's code raises when it is read."""
    kind: Any = type(part)
    inner: Iterable[Any] = ()
    try:
        match shape:
            case Shape.FIELDS if hasattr(kind, "__dataclass_fields__"):
                inner = [getattr(part, name, None) for name in kind.__dataclass_fields__]
            case Shape.FIELDS:
                inner = [*vars(part).values(), *(getattr(part, "__pydantic_extra__", None) or {}).values()]
            case Shape.MAPPING:
                inner = part.values()
            case Shape.SET | Shape.ROW:
                inner = part
            case _:
                pass
        return list(islice(inner, MOST_PARTS + 1))
    except Exception:  # noqa: BLE001  (a property may raise anything)
        return []
