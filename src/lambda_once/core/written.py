"""
What Lambda's runtime writes of a handler's answer, and what is stored so that it writes the same again.

The runtime is the authority: awslambdaric 4.2.2, whose marshaller is simplejson's encoder. To it bytes are
text, and named tuples and everything else with an ``_asdict`` are objects; it writes a Decimal by its digits,
and posts a result that is bytes as it is. A test compares both, `HandlerCodec` and `text_of`, with it.

What the runtime refuses (a date, a UUID, a member of an Enum, a set, a model, a dataclass) gets its `plain`
form, and what is inside is again as the runtime would write it. So the first caller can't get the object
then: it gets the same JSON as the duplicates.
"""

from __future__ import annotations

import json
import marshal
import math
from base64 import b64encode
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any, Final, NamedTuple

from lambda_once.core.canonical import MARK, plain
from lambda_once.core.codec import JSON, ExactCodec
from lambda_once.core.lazy import check_no_lazy_part, check_not_lazy
from lambda_once.core.objects import Fields, content_of, kind_of
from lambda_once.core.results import NotSerialisable

UNESCAPED: Final = frozenset(f"AWS_Lambda_python3.{minor}" for minor in (12, 13, 14, 15))
"""Values of AWS_EXECUTION_ENV under which the runtime writes non-ASCII characters as they are."""


class Answer(NamedTuple):
    """A handler's result in its stored form, and as a duplicate gets it."""

    text: str
    loaded: Any
    """JSON types and Decimals; or bytes, if the whole is bytes."""
    is_written: bool
    """Whether the runtime writes the result itself; it writes *loaded* as the same JSON then."""


class HandlerCodec(ExactCodec):
    """Writes what a handler returned, whatever its annotation says, as Lambda's runtime would."""

    def dump(self, value: Any) -> str:
        """Return the text of `answer`. Raises NotSerialisable as that does."""
        return self.answer(value).text

    def answer(self, value: Any) -> Answer:
        """
        Return *value*, what a handler returned, as an `Answer`.

        Raises NotSerialisable if it has no form: a part without one, such as an iterator or bytes that aren't
        UTF-8, and names that the runtime writes as equal ones, as in ``{1: "a", "1": "b"}``.
        """
        check_not_lazy(value)
        if isinstance(value, bytes):
            text = json.dumps({f"{MARK}bytes": b64encode(value).decode()}, separators=(",", ":"))
            return Answer(text, bytes(value), is_written=True)
        with suppress(ValueError):  # another type, or a subclass; nested too deeply; a number is too long
            content = marshal.dumps(value, 2)  # at C speed; 2: no references
            text = JSON.dump(value)
            loaded = JSON.load(text)
            if marshal.dumps(loaded, 2) == content:
                return Answer(text, loaded, is_written=True)
        form, is_written = form_of(value)
        text = JSON.dump(form)
        loaded = JSON.load(text)
        # Two surrogates are read back as one character; the runtime can't post them, as they are no UTF-8.
        return Answer(text, loaded, is_written and JSON.dump(loaded) == text)


def form_of(value: object) -> tuple[Any, bool]:
    """
    Return the form of *value*, and whether the runtime writes *value* itself, as it writes the form.

    Raises NotSerialisable as `HandlerCodec.answer` does.
    """
    walk = _Walk()
    try:
        return walk.form(value), walk.is_written
    except Exception as error:
        check_no_lazy_part(value)  # an iterator has a word of its own
        if isinstance(error, NotSerialisable):
            raise
        # The work is done: an error in a user's property or _asdict is not a failure of the work.
        raise NotSerialisable(
            f"{kind_of(value)} cannot be written as an answer: {type(error).__name__}"
        ) from error


def writable(value: Any) -> Any:
    """Return *value*; its form if the runtime would refuse it and it has one."""
    try:
        form, is_written = form_of(value)
    except NotSerialisable:
        return value
    return value if is_written else form


class _Walk:
    def __init__(self) -> None:
        self.is_written = True

    def form(self, value: Any) -> Any:
        """Return the form of *value*, in the order in which the encoder asks for its type."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, bytes):
            return str(value, "utf-8")
        if isinstance(value, int):
            return int(value)
        if isinstance(value, float):
            return float(value)
        fields = _as_dict(value)
        if fields is not None:
            return self._mapping(fields)
        if isinstance(value, list | tuple):
            return self._items(value)
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, Decimal):
            return math.nan if value.is_nan() else _number(value)
        self.is_written = False
        return self._refused(value)

    def _refused(self, value: Any) -> Any:
        """Return the form of *value*, of a type that the runtime refuses."""
        content = content_of(value)
        if isinstance(content, Fields):
            return self.form(content.printed())
        if content is not value:
            return self.form(content)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, deque):
            return self._items(value)
        if isinstance(value, set | frozenset):
            return sorted(self._items(value), key=lambda item: json.dumps(item, sort_keys=True, default=repr))
        form = plain(value)
        if form is value:
            raise NotSerialisable(
                f"{kind_of(value)} in the result is not JSON-serialisable; return JSON values"
            )
        return form

    def _items(self, values: Iterable[Any]) -> list[Any]:
        items = []
        for value in values:  # no comprehension, which takes a frame of its own
            items.append(self.form(value))  # noqa: PERF401
        return items

    def _mapping(self, mapping: Mapping[Any, Any]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for key, value in mapping.items():
            name = self._name(key)
            if name in named:
                raise NotSerialisable("two names of one object in the result are equal as JSON")
            named[name] = self.form(value)
        return named

    def _name(self, key: Any) -> str:
        """Return *key* as the name that the runtime writes for it."""
        if isinstance(key, str):
            return str.__str__(key)
        if isinstance(key, bytes):
            return str(key, "utf-8")
        if key is None or isinstance(key, int | float):
            return json.dumps(self.form(key))
        self.is_written = False
        named: Any = plain({key: None})
        (name,) = named
        return self._name(name)


def _number(value: Decimal) -> Decimal:
    """Return the number that *value* prints, as a class of its own may; the runtime writes that."""
    number = Decimal(str(value))
    if str(number) != str(value):
        raise NotSerialisable(f"{kind_of(value)} in the result prints no number as Decimal does")
    return number


def _as_dict(value: Any) -> dict[Any, Any] | None:
    """Return what the ``_asdict`` of *value* returns; None if it has none that can be called so."""
    method = getattr(value, "_asdict", None)
    if not callable(method):
        return None
    try:
        fields = method()
    except TypeError:
        return None
    if not isinstance(fields, dict):
        raise NotSerialisable(f"the _asdict of {kind_of(value)} in the result returns no dict")
    return fields


# -- text


def text_of(form: object, *, escaped: bool) -> str:
    """Return the text that the runtime writes of *form*; *escaped*: with non-ASCII characters as escapes."""
    encoder = json.JSONEncoder(ensure_ascii=escaped)
    try:
        return encoder.encode(form)
    except TypeError:  # a Decimal
        return _text(form, encoder)


def _text(form: object, encoder: json.JSONEncoder) -> str:
    match form:
        case Decimal():
            return str(form)
        case dict():
            fields = [f"{encoder.encode(name)}: {_text(part, encoder)}" for name, part in form.items()]
            return f"{{{', '.join(fields)}}}"
        case list():
            return f"[{', '.join([_text(part, encoder) for part in form])}]"
        case _:
            return encoder.encode(form)
