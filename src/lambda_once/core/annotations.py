"""Annotations: which of them JSON satisfies as it is, and values built from JSON by the others."""

from __future__ import annotations

import types
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from inspect import Parameter
from typing import (
    Annotated,
    Any,
    ForwardRef,
    Literal,
    Never,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)
from uuid import UUID

from lambda_once.core.signatures import field_types

_SCALARS = (str, int, float, bool)
_MAPPINGS = (dict, Mapping, MutableMapping)
_SEQUENCES = (list, Sequence, MutableSequence)
_UNIONS = (Union, types.UnionType)
_ANYTHING = (Any, object, Parameter.empty, Never, NoReturn)
_NOTHING = (None, types.NoneType)


def is_plain(annotation: object) -> bool:
    """Tell whether plain JSON comes back as *annotation* says, or nobody can know what it says."""
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, str | ForwardRef | TypeVar) or is_typeddict(origin or annotation):
        return True
    if not args:
        annotation = origin or annotation
        return any(annotation is one for one in (*_NOTHING, *_ANYTHING, *_SCALARS, *_MAPPINGS, *_SEQUENCES))
    if origin is Annotated:
        return is_plain(args[0])
    if origin is Literal:
        return all(arg is None or type(arg) in _SCALARS for arg in args)
    if origin in _MAPPINGS:
        return args[0] in (str, Any) and is_plain(args[1])
    return (origin in _UNIONS or origin in _SEQUENCES) and all(map(is_plain, args))


def built(annotation: Any, data: Any) -> object:
    """
    Return the value of *annotation* that was written as *data*, by the standard library alone.

    Dataclasses, collections and unions of anything in `_SCALAR_READERS`; what is none of these is returned as
    JSON has it. Raises TypeError, ValueError or LookupError when *data* does not fit.
    """
    if annotation in _NOTHING:
        return _fitting(types.NoneType, data)
    if annotation in _ANYTHING or isinstance(annotation, str | ForwardRef | TypeVar):
        return data
    origin = get_origin(annotation)
    if origin is not None and get_args(annotation):
        return _generic(origin, get_args(annotation), data)
    if hasattr(annotation, "__supertype__"):  # a NewType
        return built(annotation.__supertype__, data)
    annotation = origin or annotation  # a bare typing.Dict
    if not isinstance(annotation, type):
        return data
    if is_dataclass(annotation):
        return _dataclass(annotation, data)
    if issubclass(annotation, Enum):
        return annotation(data)
    reader = _SCALAR_READERS.get(annotation)
    return data if reader is None else reader(data)


def _generic(origin: Any, args: tuple[Any, ...], data: Any) -> object:
    if origin in _UNIONS:
        return _first(args, data)
    if origin is Annotated:
        return built(args[0], data)
    if origin is Literal:
        return args[args.index(data)]
    if origin in _MAPPINGS:
        key = int if args[0] is int else lambda name: built(args[0], name)
        return {key(name): built(args[1], each) for name, each in _fitting(dict, data).items()}
    if origin is tuple:
        return tuple(_positions(args, _fitting(list, data)))
    if origin in (set, frozenset):
        return origin(built(args[0], each) for each in _fitting(list, data))
    if origin in _SEQUENCES:
        return [built(args[0], each) for each in _fitting(list, data)]
    return _dataclass(origin, data, args) if is_dataclass(origin) else data


def _first(choices: Iterable[Any], data: Any) -> object:
    """Return what the first choice that fits makes of *data*."""
    for choice in choices:
        try:
            return built(choice, data)
        except (TypeError, ValueError, LookupError, ArithmeticError):
            continue
    raise TypeError("the stored value fits none of the types of its union")


def _positions(args: tuple[Any, ...], data: list[Any]) -> Iterable[object]:
    if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004  # tuple[X, ...]
        return [built(args[0], each) for each in data]
    return [built(arg, each) for arg, each in zip(args, data, strict=True)]


def _dataclass(kind: Any, data: Any, args: tuple[Any, ...] = ()) -> object:
    meant = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
    hints = {name: _with(hint, meant) for name, hint in _hints(kind).items()}
    given = {field.name for field in fields(kind) if not field.init}
    return kind(
        **{
            name: built(hints.get(name, Any), each)
            for name, each in _fitting(dict, data).items()
            if name not in given
        }
    )


def _with(hint: Any, meant: Mapping[Any, Any]) -> Any:
    """Return *hint* with its type variables replaced by what they are *meant* to be, if that is known."""
    if isinstance(hint, TypeVar):
        return meant.get(hint, Any)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(meant.get(each, Any) for each in variables)] if variables and get_args(hint) else hint


_hints = lru_cache(maxsize=256)(field_types)


def _fitting(kind: type, data: Any) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise TypeError(f"the stored value is not of type {kind.__name__}")
    return data


def _float(data: Any) -> float:
    return float(data if type(data) is int else _fitting(float, data))


_SCALAR_READERS: Mapping[Any, Callable[[Any], object]] = {
    str: lambda data: _fitting(str, data),
    int: lambda data: _fitting(int, data),
    bool: lambda data: _fitting(bool, data),
    float: _float,
    dict: lambda data: _fitting(dict, data),
    list: lambda data: _fitting(list, data),
    tuple: lambda data: tuple(_fitting(list, data)),
    set: lambda data: set(_fitting(list, data)),
    frozenset: lambda data: frozenset(_fitting(list, data)),
    Decimal: lambda data: Decimal(str(data)),
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: lambda data: timedelta(seconds=data),
    UUID: UUID,
    bytes: lambda data: b64decode(data, validate=True),
}
