"""Convert results to text and back, by the codec of a return annotation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from functools import cached_property
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

from lambda_once.core.canonical import plain
from lambda_once.core.results import Corrupt, NotSerialisable, utf8
from lambda_once.core.signatures import check_fields, title
from lambda_once.errors import Misconfigured

_SCALARS = (str, int, float, bool)
_MAPPINGS = (dict, Mapping, MutableMapping)
_SEQUENCES = (list, Sequence, MutableSequence)
_UNIONS = (Union, UnionType)
_ANYTHING = (Any, object, Parameter.empty, Never, NoReturn)
_NOTHING = (None, NoneType)

_OLDEST_PYDANTIC = (2, 11)
"""The first version that can always read by field names, whatever the model's configuration (by_name=)."""


BUILDING: Final = RLock()
"""Held while pydantic builds an adapter: it imports its modules then, and concurrent imports may deadlock."""


def codec_for(annotation: object) -> Codec:
    """
    Return the codec for ``returns=`` or for a return annotation, as `typing.get_type_hints` returns it.

    Annotations of JSON types (None, str, dict, list[int], Mapping, any TypedDict), missing and unknown ones
    get plain JSON. Others get pydantic's TypeAdapter, imported here, as concurrent imports may deadlock.
    Raises `Misconfigured` if pydantic is missing or too old, and for a dataclass field whose type cannot be
    resolved.
    """
    check_fields(annotation)
    if not is_plain(annotation):
        _check_pydantic(annotation)
    return Codec(annotation)


def _check_pydantic(annotation: object) -> None:
    """Raise `Misconfigured` if pydantic is missing or too old: duplicates would get dicts."""
    try:
        import pydantic
    except ImportError:
        raise Misconfigured(
            f"results of type {annotation!r} need pydantic: install lambda-once[pydantic], "
            "or pass returns=Any for plain JSON"
        ) from None
    major, minor, *_ = pydantic.VERSION.split(".")
    if (int(major), int(minor)) < _OLDEST_PYDANTIC:
        raise Misconfigured(
            f"pydantic {pydantic.VERSION} cannot read results by the names of their fields: "
            "install pydantic 2.11 or newer, or pass returns=Any for plain JSON"
        )
    for part in ("ConfigDict", "PydanticUserError", "TypeAdapter"):
        getattr(pydantic, part)  # imports it: pydantic imports its parts at first use


def codec_by(to_json: Callable[[Any], object], from_json: Callable[[Any], object]) -> Codec:
    """Return the codec of a pair of functions: to JSON types, and back from them."""
    return Codec(_ByPair(to_json, from_json))


class Codec:
    """
    Writes and reads results of one annotation.

    With a typed annotation, `load` returns a value of that type. Otherwise it returns JSON types, with
    Decimals, dates, dataclasses and the like in their `plain` form. None is always ``null``. Fields that
    pydantic masks are stored masked, and fields that it excludes are not stored.
    """

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def dump(self, value: object) -> str:
        """
        Return *value* as JSON text, with NaN and infinities as Python's `json` writes them.

        Raises NotSerialisable if it is not JSON-serialisable.
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
        """Return *value* as duplicates get it. Raises NotSerialisable if it cannot be read back."""
        try:
            return self.load(self.dump(value))
        except Corrupt:
            raise NotSerialisable(
                f"a result of type {_named(value)} does not round-trip through {self.annotation!r}: "
                f"correct the annotation or give returns="
            ) from None

    @cached_property
    def _form(self) -> _ByPydantic | _PlainJson | _ByPair:
        with BUILDING:
            return _form_of(self.annotation)


class _ByPydantic(NamedTuple):
    """Uses field names, not aliases: validation and serialisation aliases may differ."""

    adapter: Any

    def write(self, value: object) -> object:
        return self.adapter.dump_python(value, mode="json", by_alias=False, round_trip=True, warnings=False)

    def read(self, text: str) -> object:
        return self.adapter.validate_json(text, by_alias=False, by_name=True)


class _ByPair(NamedTuple):
    """The developer's pair of functions. None is always ``null`` and not passed to them."""

    to_json: Callable[[Any], object]
    from_json: Callable[[Any], object]

    def write(self, value: object) -> object:
        return self.to_json(value)

    def read(self, text: str) -> object:
        return self.from_json(json.loads(text))

    def __repr__(self) -> str:
        return f"codec=({title(self.to_json)}, {title(self.from_json)})"


class _PlainJson(NamedTuple):
    """Plain JSON, without a type."""

    def write(self, value: object) -> object:
        return value

    def read(self, text: str) -> object:
        return json.loads(text)


def _form_of(annotation: object) -> _ByPydantic | _PlainJson | _ByPair:
    if isinstance(annotation, _ByPair):
        return annotation
    if is_plain(annotation):
        return _PlainJson()
    try:
        return _ByPydantic(_adapter(annotation))
    except Exception:  # noqa: BLE001  # pydantic has many words for "no schema"; all mean plain JSON
        return _PlainJson()


def _adapter(annotation: object) -> Any:
    """Return the TypeAdapter; it writes bytes as base64 unless the type has its own configuration."""
    import pydantic

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


# `json.dumps` would create an encoder for each value.
_ENCODER = json.JSONEncoder(default=_plain_form, ensure_ascii=False, separators=(",", ":"))


def _named(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# -- annotations


def is_plain(annotation: object) -> bool:
    """Return whether *annotation* consists of JSON types, or is unknown."""
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
