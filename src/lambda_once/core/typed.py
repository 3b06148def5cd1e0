"""How a handler's value becomes text and comes back with its type: the codec that an annotation asks for."""

from __future__ import annotations

import json
import sys
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from lambda_once.core.annotations import built, is_plain
from lambda_once.core.forms import plain
from lambda_once.core.results import Corrupt, NotSerialisable, utf8
from lambda_once.core.signatures import check_fields
from lambda_once.errors import Misconfigured

_OLDEST = (2, 11)
"""The pydantic that first reads by names of fields whatever the configuration of a model (by_name=)."""


def codec_for(annotation: object) -> Codec:
    """
    Return the codec of ``returns=`` or of a return annotation, as `typing.get_type_hints` gives it.

    Annotations that JSON satisfies (None, str, dict, list[int], Mapping, any TypedDict), that are missing,
    and that nothing can describe, get plain JSON. The others get pydantic's TypeAdapter, or where pydantic is
    not installed, nested dataclasses by the standard library; pydantic is imported at first use. Raises
    `Misconfigured` where a pydantic that is too old for it has been imported, and for a dataclass with a
    field whose type cannot be resolved.
    """
    check_fields(annotation)
    pydantic = sys.modules.get("pydantic")
    if pydantic is not None and not _is_new_enough(pydantic) and not is_plain(annotation):
        raise Misconfigured(
            f"pydantic {pydantic.VERSION} cannot read results by the names of their fields: "
            "install pydantic 2.11 or newer, or pass returns=Any for plain JSON"
        )
    return Codec(annotation)


class Codec:
    """
    Writes results of one annotation, and reads them.

    `load` gives back what `dump` was given, in this sense: a typed value of its annotation; an untyped one as
    JSON has it, Decimals, dates, dataclasses and the like in their `plain` form. None is always ``null``.
    Fields that pydantic masks or excludes are stored masked or not at all.
    """

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def dump(self, value: object) -> str:
        """Return *value* as JSON text. Raises NotSerialisable for what JSON cannot write, NaN included."""
        if value is None:
            return "null"
        try:
            return _text(self._form.write(value))
        except NotSerialisable:
            raise
        except Exception as error:
            # The work is done: what a property or serialiser of the user's raises is no failure of the work.
            raise NotSerialisable(
                f"a result of type {_named(value)} cannot be serialised: {type(error).__name__}"
            ) from error

    def load(self, text: str) -> Any:
        """Return the value that *text* stands for. Raises Corrupt when it does not fit the annotation."""
        if text == "null":
            return None
        try:
            return self._form.read(text)
        except Exception as error:  # noqa: BLE001  # a validator of the user's may raise anything
            # Not chained: what validates repeats what it was given.
            raise Corrupt(
                f"the stored result does not fit {self.annotation!r}: {type(error).__name__}"
            ) from None

    def round_trip(self, value: object) -> Any:
        """Return what later callers will get for *value*. Raises NotSerialisable if nothing comes back."""
        try:
            return self.load(self.dump(value))
        except Corrupt:
            raise NotSerialisable(
                f"a result of type {_named(value)} does not round-trip through {self.annotation!r}: "
                f"correct the annotation or give returns="
            ) from None

    @cached_property
    def _form(self) -> _Form:
        return _Untyped() if is_plain(self.annotation) else _typed(self.annotation)


# -- the three ways


class _Form(Protocol):
    def write(self, value: object) -> object: ...
    def read(self, text: str) -> object: ...


class _Untyped:
    """Plain JSON."""

    def write(self, value: object) -> object:
        return value

    def read(self, text: str) -> object:
        return json.loads(text)


class _ByPydantic(NamedTuple):
    """Names are those of fields, not aliases: validation and serialisation aliases may differ."""

    adapter: Any

    def write(self, value: object) -> object:
        return self.adapter.dump_python(value, mode="json", by_alias=False, round_trip=True, warnings=False)

    def read(self, text: str) -> object:
        return self.adapter.validate_json(text, by_alias=False, by_name=True)


class _ByStandardLibrary(NamedTuple):
    annotation: object

    def write(self, value: object) -> object:
        return plain(value)

    def read(self, text: str) -> object:
        return built(self.annotation, json.loads(text))


def _typed(annotation: object) -> _Form:
    try:
        import pydantic
    except ImportError:
        return _ByStandardLibrary(annotation)
    if not _is_new_enough(pydantic):
        return _ByStandardLibrary(annotation)
    try:
        return _ByPydantic(_adapter(pydantic, annotation))
    except Exception:  # noqa: BLE001  # pydantic has many words for "no schema"; all mean plain JSON
        return _Untyped()


def _is_new_enough(pydantic: Any) -> bool:
    major, minor, *_ = pydantic.VERSION.split(".")
    return (int(major), int(minor)) >= _OLDEST


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


_ENCODER = json.JSONEncoder(
    default=_plain_form, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)  # `json.dumps` makes one a value


def _named(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"
