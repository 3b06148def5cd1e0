"""
Convert results to text and back, by the codec of a return annotation.

There are three forms: pydantic's for a declared type, the developer's pair of ``codec=``, and plain JSON for
the rest. All of them write JSON, as operators and other languages read the rows; a value that JSON lacks is
an object whose only name begins with U+0000.

What we are not happy with: `_IN_PYTHON` is a second form of the same models, for types whose own
configuration writes bytes that JSON cannot hold.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, MutableSequence, Sequence
from decimal import Decimal
from functools import cached_property, partial
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
)

from lambda_once.core.canonical import MARK, converted, plain
from lambda_once.core.differences import Difference, difference, is_typed_dict
from lambda_once.core.fields import printable
from lambda_once.core.lazy import check_no_lazy_part, check_not_lazy, check_parts, check_type, unaliased
from lambda_once.core.results import Corrupt, NotSerialisable, utf8
from lambda_once.core.signatures import check_fields, title
from lambda_once.errors import Misconfigured

_SCALARS = (str, int, float, bool)
_MAPPINGS = (dict, Mapping, MutableMapping)
_ITERABLES = (Iterable, Collection)
_SEQUENCES = (list, *_ITERABLES, Sequence, MutableSequence)
_UNIONS = (Union, UnionType)
_ANYTHING = (Any, object, Parameter.empty, Never, NoReturn)
_NOTHING = (None, NoneType)

_OLDEST_PYDANTIC = (2, 11)
"""The first version that can always read by field names, whatever the model's configuration (by_name=)."""


BUILDING: Final = RLock()
"""Held while pydantic builds an adapter: it imports its modules then, and concurrent imports may deadlock."""


def codec_for(annotation: object, *, converts: bool = False) -> Codec:
    """
    Return the codec for a return annotation, as `typing.get_type_hints` returns it, or for ``returns=``.

    Annotations of JSON types (None, str, dict, list[int], Mapping, any TypedDict), missing and unknown ones
    get plain JSON. Others get pydantic's TypeAdapter; pydantic is imported here, not with the first result,
    as concurrent imports may deadlock.
    Raises `Misconfigured` if pydantic is missing or too old, for a dataclass field whose type cannot be
    resolved, and for iterators and generators.
    """
    check_type(annotation, "the type of the results")
    check_fields(annotation)
    if not is_plain(annotation):
        _check_pydantic(annotation)
    return Codec(annotation, converts=converts)


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

    With a typed annotation, `load` returns a value of that type, otherwise JSON types and Decimals, with
    dates, dataclasses and the like in their `plain` form. None is always ``null``. Fields that pydantic
    masks are stored masked, and fields that it excludes are not stored: `difference` finds them.
    """

    def __init__(self, annotation: object, *, converts: bool = False) -> None:
        self.annotation = annotation
        self.converts = converts
        """Whether the first caller, too, gets a value of the annotation (``returns=``)."""

    def dump(self, value: object) -> str:
        """
        Return *value* as JSON text, with NaN and infinities as Python's `json` writes them.

        Raises NotSerialisable if it is not JSON-serialisable, and `Lazy` if it is or contains an iterator,
        which is not drained.
        """
        if value is None:
            return "null"
        try:
            check_not_lazy(value)
            return self._form.write(value)
        except NotSerialisable:
            raise
        except Exception as error:
            # The work is done: an error in a user's property or serialiser is not a failure of the work.
            raise NotSerialisable(
                f"a result of type {_type_name(value)} cannot be serialised: {type(error).__name__}"
            ) from error

    def load(self, text: str) -> Any:
        """Return the value of *text*. Raises Corrupt if it does not fit the annotation."""
        if text == "null":
            return None
        try:
            return self._form.read(text)
        except Exception as error:  # noqa: BLE001  # a validator of the user's may raise anything
            # Not chained: validation errors quote the input.
            reason = invalid_fields(error, "the result")
            raise Corrupt(f"the stored result does not fit {self.annotation!r}: {reason}") from None

    def difference(
        self,
        returned: object,
        loaded: object,
        is_late: Callable[[], bool] = bool,
        *,
        untyped: bool = False,
    ) -> Difference | None:
        """
        Return where *loaded* differs from *returned*, as `differences.difference`; None for a ``codec=``.

        Raises NotSerialisable as that does, and if they cannot be compared.
        """
        form, is_untyped = self._form, any(self.annotation is one for one in _ANYTHING)
        if isinstance(form, _ByPair) or (is_untyped and not untyped):
            return None
        if self.converts and isinstance(form, _ByPydantic):
            returned = form.converted(returned)
        declared = Any if is_untyped else self.annotation
        try:
            return difference(declared, returned, loaded, is_late, untyped=untyped)
        except NotSerialisable:
            raise
        except Exception as error:
            raise NotSerialisable(
                f"a result of type {_type_name(returned)} cannot be compared: {type(error).__name__}"
            ) from error

    @property
    def problem(self) -> str | None:
        """Why results are plain JSON although a type is declared; None if they are not."""
        form = self._form
        return form.instead if isinstance(form, _PlainJson) else None

    def round_trip(self, value: object) -> Any:
        """Return *value* as duplicates get it. Raises NotSerialisable if it cannot be read back."""
        try:
            return self.load(self.dump(value))
        except Corrupt:
            raise NotSerialisable(
                f"a result of type {_type_name(value)} does not round-trip through {self.annotation!r}: "
                f"correct the annotation or give returns="
            ) from None

    @cached_property
    def _form(self) -> _ByPydantic | _PlainJson | _ByPair:
        with BUILDING:
            return _form_of(self.annotation)


class ExactCodec(Codec):
    """
    Reads and writes JSON so that all digits of its numbers are kept, also of a text that a person wrote.

    For values that are only written again: a number that a float would shorten, such as 4.50, is a Decimal.
    """

    def __init__(self) -> None:
        super().__init__(Any)

    @cached_property
    def _form(self) -> _PlainJson:
        return _PlainJson(number=_number_as_written)


JSON: Final = Codec(Any)
"""The codec of results without a type."""


def invalid_fields(error: Exception, whole: str) -> str:
    """
    Return what is wrong with *whole* according to *error*, without its content.

    For pydantic's ValidationError the first fields, each with the type of its error; for any other its class.
    """
    pydantic = sys.modules.get("pydantic")
    if pydantic is None or not isinstance(error, pydantic.ValidationError):
        return type(error).__name__
    problems = error.errors(include_input=False, include_url=False, include_context=False)
    places = ((".".join(printable(str(step)) for step in each["loc"]), each["type"]) for each in problems[:5])
    return ", ".join(f"{place or whole} ({kind})" for place, kind in places)


class _ByPydantic(NamedTuple):
    """Uses field names, not aliases: validation and serialisation aliases may differ."""

    adapter: Any

    def write(self, value: object) -> str:
        may_have_nan = check_parts(value)
        dump = partial(self.adapter.dump_python, value, by_alias=False, round_trip=True, warnings=False)
        try:
            text = _json(dump(mode="json"), _plain_form)
            if not may_have_nan or "null" not in text:  # without a type pydantic writes NaN as null
                return text
        except ValueError:
            # A model's own configuration decides how its bytes are written, and by default only UTF-8 can be.
            pass
        return f"{_IN_PYTHON}{_tagged(dump(mode='python'), bytes, Decimal)}}}"

    def converted(self, value: object) -> object:
        """Return *value* as one of the type, such as a model of a dict; *value* itself if it is none."""
        try:
            return self.adapter.validate_python(value, by_alias=False, by_name=True)
        except Exception:  # noqa: BLE001  (a validator of the user's may raise anything)
            return value

    def read(self, text: str) -> object:
        if text.startswith(_IN_PYTHON):
            value = _untagged(text[len(_IN_PYTHON) : -1])
            return self.adapter.validate_python(value, by_alias=False, by_name=True)
        return self.adapter.validate_json(text, by_alias=False, by_name=True)


class _ByPair(NamedTuple):
    """The developer's pair of functions. None is always ``null`` and not passed to them."""

    to_json: Callable[[Any], object]
    from_json: Callable[[Any], object]

    def write(self, value: object) -> str:
        check_no_lazy_part(value)
        return _tagged(self.to_json(value), Decimal)

    def read(self, text: str) -> object:
        return self.from_json(_untagged(text))

    def __repr__(self) -> str:
        return f"codec=({title(self.to_json)}, {title(self.from_json)})"


class _PlainJson(NamedTuple):
    """JSON and Decimals, without a type."""

    instead: str | None = None
    """Why a declared type has no adapter, an error's class; None: it needs no adapter."""
    number: Callable[[str], object] | None = None
    """Reads a number that is not whole; None: as a float."""

    def write(self, value: object) -> str:
        return _tagged(value, Decimal)

    def read(self, text: str) -> object:
        return _untagged(text, self.number)


def _form_of(annotation: object) -> _ByPydantic | _PlainJson | _ByPair:
    if isinstance(annotation, _ByPair):
        return annotation
    if is_plain(annotation):
        return _PlainJson()
    try:
        return _ByPydantic(_adapter(annotation))
    except Exception as error:  # noqa: BLE001  # pydantic has many errors for "no schema"; all mean plain JSON
        return _PlainJson(type(error).__name__)


def _adapter(annotation: object) -> Any:
    """Return the TypeAdapter; it writes bytes as base64 unless the type has its own configuration."""
    import pydantic

    annotation = _with_lists(annotation)
    config = pydantic.ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
    try:
        return pydantic.TypeAdapter(annotation, config=config)
    except pydantic.PydanticUserError:
        return pydantic.TypeAdapter(annotation)


def _with_lists(annotation: Any) -> Any:
    """Return *annotation* with lists for iterables and collections, which pydantic doesn't read as lists."""
    named = unaliased(annotation)
    parts = get_args(named) if get_origin(named) in _UNIONS else (named,)
    if any(get_origin(unaliased(part)) in _ITERABLES for part in parts):
        annotation = named  # others keep their name, as they may be recursive
    origin, args = get_origin(annotation), tuple(map(_with_lists, get_args(annotation)))
    if origin in _ITERABLES:
        return list[args[0]]  # type: ignore[valid-type]
    if origin in _UNIONS:
        return Union[args]  # noqa: UP007  (of a tuple)
    return origin[args] if args and origin in (*_MAPPINGS, *_SEQUENCES, tuple) else annotation


# -- text: JSON, in which a value of a type that JSON lacks is an object of one name that begins with MARK

_DECIMAL: Final = f"{MARK}decimal"
_BYTES: Final = f"{MARK}bytes"
_READ: Final[dict[str, Callable[[Any], object]]] = {_DECIMAL: Decimal, _BYTES: b64decode}
_WRITTEN_MARK: Final = '{"\\u0000'
_IN_PYTHON: Final = '{"\\u0000python":'
"""Begins the text of a value of pydantic's Python mode. A mapping with that name is refused as different."""
_WRITTEN_DECIMAL: Final = r'\{"\\u0000decimal":"([^"]*)"\}'


def as_json(text: str) -> str:
    """Return the stored JSON *text* of a result for people, and for other libraries: Decimals are numbers."""
    return re.sub(_WRITTEN_DECIMAL, r"\1", text)


def with_numbers(text: str) -> str:
    """Return the stored JSON *text* of a result with each Decimal as a number of its value, else as text."""
    return re.sub(_WRITTEN_DECIMAL, lambda match: json.dumps(plain(Decimal(match[1]))), text)


def _tagged(value: object, *kinds: type) -> str:
    """Return *value* as JSON, with parts of *kinds* tagged. An object that looks like a tag is escaped."""
    tags = 0

    def default(part: object) -> object:
        nonlocal tags
        if not isinstance(part, kinds):
            return _plain_form(part, *kinds)
        tags += 1
        if isinstance(part, bytes):
            return {_BYTES: b64encode(part).decode()}
        return {_DECIMAL: Decimal.__str__(part)}

    try:
        text = _json(value, default)
    except TypeError:  # names that are no strings
        check_no_lazy_part(value)
        tags, value = 0, plain(value, *kinds)
        text = _json(value, default)
    if text.count(_WRITTEN_MARK) > tags:
        text = _json(converted(plain(value, *kinds), lambda part, _: part, _escape), default)
    return text


def _escape(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    name = next(iter(mapping), None)
    looks_like_a_tag = len(mapping) == 1 and isinstance(name, str) and name.startswith(MARK)
    return {f"{MARK}{name}": mapping[name]} if looks_like_a_tag else mapping


def _untagged(text: str, number: Callable[[str], object] | None = None) -> Any:
    return json.loads(text, object_hook=_read if _WRITTEN_MARK in text else None, parse_float=number)


def _number_as_written(text: str) -> float | Decimal:
    number = float(text)
    return number if str(Decimal(repr(number))) == str(Decimal(text)) else Decimal(text)


def _read(content: dict[str, Any]) -> object:
    """Return the value if *content* is a tag, else *content*, unescaped."""
    name = next(iter(content), "")
    if len(content) != 1 or not name.startswith(MARK):
        return content
    return _READ[name](content[name]) if name in _READ else {name[1:]: content[name]}


def _json(form: object, default: Callable[[object], object]) -> str:
    encoder = json.JSONEncoder(default=default, ensure_ascii=False, separators=(",", ":"))
    return utf8(encoder.encode(form)).decode()


def _plain_form(value: object, *kept: type) -> object:
    check_no_lazy_part(value)
    form = plain(value, *kept)
    if form is value:
        raise NotSerialisable(
            f"a {_type_name(value)} in the result is not JSON-serialisable; return JSON values"
        )
    return form


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


# -- annotations


def is_plain(annotation: object, within: tuple[object, ...] = ()) -> bool:
    """Return whether *annotation*, a part of the aliases *within*, consists of JSON types, or is unknown."""
    if unaliased(annotation) is not annotation:
        return annotation in within or is_plain(unaliased(annotation), (*within, annotation))
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, str | ForwardRef | TypeVar) or is_typed_dict(origin or annotation):
        return True
    if not args:
        annotation = origin or annotation
        return any(annotation is one for one in (*_NOTHING, *_ANYTHING, *_SCALARS, *_MAPPINGS, *_SEQUENCES))
    if origin is Annotated:
        return is_plain(args[0], within)
    if origin is Literal:
        return all(arg is None or type(arg) in _SCALARS for arg in args)
    if origin in _MAPPINGS:
        return args[0] in (str, Any) and is_plain(args[1], within)
    return (origin in _UNIONS or origin in _SEQUENCES) and all(is_plain(each, within) for each in args)
