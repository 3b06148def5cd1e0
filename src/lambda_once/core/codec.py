"""A result as text and back: the codec of a return annotation."""

from __future__ import annotations

import json
import sys
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from functools import cached_property, lru_cache, partial
from inspect import Parameter
from threading import RLock
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    ForwardRef,
    Literal,
    NamedTuple,
    Never,
    NoReturn,
    TypeVar,
    Union,
    get_args,
    get_origin,
    is_typeddict,
)

from lambda_once.core.canonical import plain, uuid_class
from lambda_once.core.results import Corrupt, NotSerialisable, utf8
from lambda_once.core.signatures import check_fields, field_types, title
from lambda_once.errors import Misconfigured

_SCALARS = (str, int, float, bool)
_MAPPINGS = (dict, Mapping, MutableMapping)
_SEQUENCES = (list, Sequence, MutableSequence)
_UNIONS = (Union, UnionType)
_ANYTHING = (Any, object, Parameter.empty, Never, NoReturn)
_NOTHING = (None, NoneType)

_OLDEST_PYDANTIC = (2, 11)
"""The first that reads by names of fields whatever a model's configuration (by_name=)."""


BUILDING: Final = RLock()
"""Held while pydantic builds an adapter: it imports its parts then, and threads that do so may deadlock."""


def codec_for(annotation: object) -> Codec:
    """
    Return the codec of ``returns=`` or of a return annotation, as `typing.get_type_hints` gives it.

    Annotations that JSON satisfies (None, str, dict, list[int], Mapping, any TypedDict), missing ones and
    unknown ones get plain JSON. The others get pydantic's TypeAdapter, imported here, for threads that import
    it at once may deadlock; without pydantic, nested dataclasses are read by the standard library. Raises
    `Misconfigured` where a pydantic that is too old had been imported, and for a dataclass with a field whose
    type cannot be resolved.
    """
    check_fields(annotation)
    is_used = "pydantic" in sys.modules
    pydantic = None if is_plain(annotation) else _pydantic()
    if is_used and pydantic is not None and not _is_new_enough(pydantic):
        raise Misconfigured(
            f"pydantic {pydantic.VERSION} cannot read results by the names of their fields: "
            "install pydantic 2.11 or newer, or pass returns=Any for plain JSON"
        )
    return Codec(annotation)


def codec_by(to_json: Callable[[Any], object], from_json: Callable[[Any], object]) -> Codec:
    """Return the codec of a pair of functions: to what JSON can write, and back from what JSON reads."""
    return Codec(_ByPair(to_json, from_json))


class Codec:
    """
    Writes and reads results of one annotation.

    `load` returns what `dump` was given: a typed value of its annotation; an untyped one as JSON has it, with
    Decimals, dates, dataclasses and the like in their `plain` form. None is always ``null``.
    Fields that pydantic masks or excludes are stored masked or not at all.
    """

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def dump(self, value: object) -> str:
        """
        Return *value* as JSON text, with NaN and infinities as Python's `json` writes them.

        Raises NotSerialisable for what JSON cannot write.
        """
        if value is None:
            return "null"
        try:
            return _text(self._form.write(value))
        except NotSerialisable:
            raise
        except Exception as error:
            # The work is done: an error in a user's property or serialiser is not a failure of the work.
            raise NotSerialisable(
                f"a result of type {_named(value)} cannot be serialised: {type(error).__name__}"
            ) from error

    def load(self, text: str) -> Any:
        """Return the value of *text*. Raises Corrupt if it does not fit the annotation."""
        if text == "null":
            return None
        try:
            return self._form.read(text)
        except Exception as error:  # noqa: BLE001  # a validator of the user's may raise anything
            # Not chained: validation errors quote the input.
            raise Corrupt(
                f"the stored result does not fit {self.annotation!r}: {type(error).__name__}"
            ) from None

    def round_trip(self, value: object) -> Any:
        """Return what duplicates get for *value*. Raises NotSerialisable where it cannot be read back."""
        try:
            return self.load(self.dump(value))
        except Corrupt:
            raise NotSerialisable(
                f"a result of type {_named(value)} does not round-trip through {self.annotation!r}: "
                f"correct the annotation or give returns="
            ) from None

    @cached_property
    def _form(self) -> _ByPydantic | _ByStandardLibrary | _ByPair:
        with BUILDING:
            return _form_of(self.annotation)


class _ByPydantic(NamedTuple):
    """Names are those of fields, not aliases: validation and serialisation aliases may differ."""

    adapter: Any

    def write(self, value: object) -> object:
        return self.adapter.dump_python(value, mode="json", by_alias=False, round_trip=True, warnings=False)

    def read(self, text: str) -> object:
        return self.adapter.validate_json(text, by_alias=False, by_name=True)


class _ByPair(NamedTuple):
    """A pair of functions of the developer's. They never get None, which is always ``null``."""

    to_json: Callable[[Any], object]
    from_json: Callable[[Any], object]

    def write(self, value: object) -> object:
        return self.to_json(value)

    def read(self, text: str) -> object:
        return self.from_json(json.loads(text))

    def __repr__(self) -> str:
        return f"codec=({title(self.to_json)}, {title(self.from_json)})"


class _ByStandardLibrary(NamedTuple):
    """Plain JSON, read as *annotation*."""

    annotation: object

    def write(self, value: object) -> object:
        return value if self.annotation is Any else plain(value)

    def read(self, text: str) -> object:
        return _built(self.annotation, json.loads(text))


_UNTYPED = _ByStandardLibrary(Any)


def _form_of(annotation: object) -> _ByPydantic | _ByStandardLibrary | _ByPair:
    if isinstance(annotation, _ByPair):
        return annotation
    if is_plain(annotation):
        return _UNTYPED
    pydantic = _pydantic()
    if pydantic is None or not _is_new_enough(pydantic):
        return _ByStandardLibrary(annotation)
    try:
        return _ByPydantic(_adapter(pydantic, annotation))
    except Exception:  # noqa: BLE001  # pydantic has many words for "no schema"; all mean plain JSON
        return _UNTYPED


def _pydantic() -> Any:
    """Return pydantic; None without it. It imports its parts at first use: those used here are."""
    try:
        import pydantic
    except ImportError:
        return None
    for part in ("ConfigDict", "PydanticUserError", "TypeAdapter"):
        getattr(pydantic, part, None)  # version 1 lacks some
    return pydantic


def _is_new_enough(pydantic: Any) -> bool:
    major, minor, *_ = pydantic.VERSION.split(".")
    return (int(major), int(minor)) >= _OLDEST_PYDANTIC


def _adapter(pydantic: Any, annotation: object) -> Any:
    """Return the TypeAdapter, with bytes as base64 where the type has no configuration of its own."""
    config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    try:
        return pydantic.TypeAdapter(annotation, config=config)
    except pydantic.PydanticUserError:
        return pydantic.TypeAdapter(annotation)


# -- text


def _text(form: object) -> str:
    try:
        return _json(form)
    except TypeError:  # names that are no strings
        return _json(plain(form))


def _json(form: object) -> str:
    return utf8(_ENCODER.encode(form)).decode()


def _plain_form(value: object) -> object:
    form = plain(value)
    if form is value:
        raise NotSerialisable(f"a {_named(value)} in the result is not JSON-serialisable; return JSON values")
    return form


# `json.dumps` would make an encoder a value.
_ENCODER = json.JSONEncoder(default=_plain_form, ensure_ascii=False, separators=(",", ":"))


def _named(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# -- annotations


def is_plain(annotation: object) -> bool:
    """Return whether plain JSON satisfies *annotation*, or *annotation* cannot be known."""
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


def _built(annotation: Any, data: Any) -> object:
    """
    Build the value of *annotation* from *data*, by the standard library alone.

    Handles dataclasses, collections, unions and `_SCALAR_READERS`; returns *data* for anything else. Raises
    TypeError, ValueError or LookupError when *data* does not fit.
    """
    if annotation in _NOTHING:
        return _fitting(NoneType, data)
    if annotation in _ANYTHING or isinstance(annotation, str | ForwardRef | TypeVar):
        return data
    origin = get_origin(annotation)
    if origin is not None and get_args(annotation):
        return _generic(origin, get_args(annotation), data)
    if hasattr(annotation, "__supertype__"):  # a NewType
        return _built(annotation.__supertype__, data)
    annotation = origin or annotation  # a bare typing.Dict
    if not isinstance(annotation, type):
        return data
    if is_dataclass(annotation):
        return _dataclass(annotation, data)
    if issubclass(annotation, Enum):
        return annotation(data)
    reader: Any = annotation if annotation is uuid_class() else _SCALAR_READERS.get(annotation)
    return data if reader is None else reader(data)


def _generic(origin: Any, args: tuple[Any, ...], data: Any) -> object:
    if origin in _UNIONS:
        return _first(args, data)
    if origin is Annotated:
        return _built(args[0], data)
    if origin is Literal:
        return args[args.index(data)]
    if origin in _MAPPINGS:
        key = int if args[0] is int else lambda name: _built(args[0], name)
        return {key(name): _built(args[1], each) for name, each in _fitting(dict, data).items()}
    if origin is tuple:
        return tuple(_positions(args, _fitting(list, data)))
    if origin in (set, frozenset):
        return origin(_built(args[0], each) for each in _fitting(list, data))
    if origin in _SEQUENCES:
        return [_built(args[0], each) for each in _fitting(list, data)]
    return _dataclass(origin, data, args) if is_dataclass(origin) else data


def _first(choices: Iterable[Any], data: Any) -> object:
    """Build the first of *choices* that fits *data*."""
    for choice in choices:
        try:
            return _built(choice, data)
        except (TypeError, ValueError, LookupError, ArithmeticError):
            continue
    raise TypeError("the stored value fits none of the types of its union")


def _positions(args: tuple[Any, ...], data: list[Any]) -> Iterable[object]:
    if len(args) == 2 and args[1] is Ellipsis:  # noqa: PLR2004  # tuple[X, ...]
        return [_built(args[0], each) for each in data]
    return [_built(arg, each) for arg, each in zip(args, data, strict=True)]


def _dataclass(kind: Any, data: Any, args: tuple[Any, ...] = ()) -> object:
    types = dict(zip(getattr(kind, "__parameters__", ()), args, strict=False))
    hints = {name: _substituted(hint, types) for name, hint in _field_types(kind).items()}
    given = {field.name for field in fields(kind) if not field.init}
    return kind(
        **{
            name: _built(hints.get(name, Any), each)
            for name, each in _fitting(dict, data).items()
            if name not in given
        }
    )


def _substituted(hint: Any, types: Mapping[Any, Any]) -> Any:
    """Return *hint* with its type variables replaced by *types*; Any for an unknown one."""
    if isinstance(hint, TypeVar):
        return types.get(hint, Any)
    variables = getattr(hint, "__parameters__", ())
    return hint[tuple(types.get(each, Any) for each in variables)] if variables and get_args(hint) else hint


_field_types = lru_cache(maxsize=256)(field_types)


def _fitting(kind: type, data: Any) -> Any:
    if not isinstance(data, kind) or (isinstance(data, bool) and kind is not bool):
        raise TypeError(f"the stored value is not of type {kind.__name__}")
    return data


def _float(data: Any) -> float:
    return float(data if type(data) is int else _fitting(float, data))


_SCALAR_READERS: Mapping[Any, Callable[[Any], object]] = {
    **{kind: partial(_fitting, kind) for kind in (str, int, bool, dict, list)},
    float: _float,
    tuple: lambda data: tuple(_fitting(list, data)),
    set: lambda data: set(_fitting(list, data)),
    frozenset: lambda data: frozenset(_fitting(list, data)),
    Decimal: lambda data: Decimal(str(data)),
    datetime: datetime.fromisoformat,
    date: date.fromisoformat,
    time: time.fromisoformat,
    timedelta: lambda data: timedelta(seconds=data),
    bytes: lambda data: b64decode(data, validate=True),
}
