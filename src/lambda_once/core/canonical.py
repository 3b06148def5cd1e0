"""
The canonical form: equal values have the same text. Keys and fingerprints are hashes of it.

JSON values are written as JSON, with names sorted, no white space, and numbers by their exact digits. Other
values are *tagged*: written as an object whose only name begins with U+0000. A name that already begins with
U+0000 gets another one, so a tagged form never equals a plain value. Different values have different texts,
with one exception: numbers, booleans and None as names count as the text that JSON writes for them.

Equal numbers have the same text: 5, 5.0, 5e0 and Decimal("5.00") are `5`. A whole number that ends in ZEROS
zeros or more has an exponent, so the form is never much longer than the input.

The same traversal (`converted`) makes the *plain form* of a value, for JMESPath and for results.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from uuid import UUID

VERSION = "1"
"""The version of the canonical form. Fingerprints of different versions never match."""

MARK = "\0"
"""The first character of the name in a tagged form."""
_DECIMAL = f"{MARK}decimal"
_WRITTEN_MARK = '"\\u0000'

Path = tuple[object, ...]
"""Names and indexes, from a value to a part of it."""
Leaf = Callable[[object, Path], object]
"""Converts a value that is not JSON."""
Names = Callable[[Mapping[Any, object]], Mapping[Any, object]]
"""Converts the names of a mapping."""

_MAPPINGS = (dict, Mapping)  # isinstance of a dict is quick, of an abstract class slow
_LISTS = (list, tuple)
_NUMBERS = frozenset({int, float, Decimal})
NEVER_WRAPS = frozenset({dict, list, tuple, *_NUMBERS})
"""Types that `unwrapped` returns unchanged."""


class NotCanonical(TypeError):
    """A value or a part of it has no canonical form. The message has the type and the path."""

    @classmethod
    def of(cls, value: object, path: Path) -> NotCanonical:
        where = ".".join(map(str, path)) or "the value itself"
        kind = type(value)
        return cls(f"{where}: a {kind.__module__}.{kind.__qualname__} has no canonical form")


def canonical(value: object) -> bytes:
    """
    Return the canonical JSON of *value*.

    The order of names and white space do not matter; 1, 1.0, 1e0 and Decimal("1.00") are equal. Tuples become
    lists, dataclasses and pydantic models objects, Powertools' data classes their raw event, and members of
    an Enum their value. A Decimal that no float represents, datetimes (aware ones by instant), dates, times,
    timedeltas, UUIDs, bytes and sets are tagged, so they never equal a string or a list. Raises NotCanonical
    for any other type, for cycles and for values nested too deeply.
    """
    try:
        return written(value).encode("utf-8", "surrogatepass")
    except UNWRITABLE as error:
        raise not_canonical(error) from None


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form in hex, 64 characters. Raises NotCanonical."""
    return sha256(canonical(value)).hexdigest()


def fingerprint(value: object) -> str:
    """Return ``1.`` (the version of the canonical form) and the digest in hex. Raises NotCanonical."""
    return f"{VERSION}.{digest(value)}"


UNWRITABLE = (RecursionError, ValueError, OverflowError)
"""Raised when writing a cycle or a number out of range."""


def not_canonical(error: Exception) -> NotCanonical:
    """Return the NotCanonical for *error*, one of UNWRITABLE."""
    if isinstance(error, RecursionError):
        return NotCanonical("a value that contains itself or is nested too deeply is not canonical")
    return NotCanonical(f"a number or a time is out of range: {type(error).__name__}")


# -- the walk


def unwrapped(value: object) -> object:
    """
    Return the content of *value*, one layer deep; *value* itself if it is not a wrapper.

    That of a dataclass or pydantic model is a dict of its fields, of Powertools' data classes the raw event,
    of an Enum member its value. pydantic is recognised by ``model_dump``, without an import.
    """
    kind = type(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if callable(getattr(kind, "model_dump", None)):
        return value.model_dump()  # type: ignore[attr-defined]
    if hasattr(kind, "raw_event"):
        return value.raw_event  # type: ignore[attr-defined]
    return value


def converted(value: object, leaf: Leaf, names: Names, path: Path = ()) -> object:
    """
    Return *value* as dicts, lists, strings, integers below LARGE, booleans and None.

    *leaf* converts all else, such as larger integers.
    """
    kind = type(value)
    if kind is str or kind is bool or value is None or (kind is int and abs(value) < LARGE):  # type: ignore[arg-type]  # an int
        return value
    if kind in _NUMBERS:
        return leaf(value, path)
    inner = value if kind in NEVER_WRAPS else unwrapped(value)
    if inner is not value:
        return converted(inner, leaf, names, path)
    if isinstance(value, _MAPPINGS):
        return {name: converted(each, leaf, names, (*path, name)) for name, each in names(value).items()}
    if isinstance(value, _LISTS):
        return [converted(each, leaf, names, (*path, index)) for index, each in enumerate(value)]
    if isinstance(value, str):
        return str.__str__(value)
    return leaf(value, path)


# -- the canonical form


def written(value: object) -> str:
    """Return the canonical text. Raises one of UNWRITABLE if there is none."""
    # The C encoder alone writes most values: few have a number or a name that needs another form.
    try:
        text = _ENCODER.encode(value)
    except (TypeError, InvalidOperation):  # another type; names that cannot be sorted, or compared
        return _walked(value)
    return text if _is_canonical(text) else _walked(value)


def _is_canonical(text: str) -> bool:
    """Return whether *text*, from the encoder, is canonical. A string that looks like a number costs time."""
    return not (
        _WRITTEN_MARK in text
        or _WRITTEN_ZEROS in text
        or (".0" in text and _WHOLE.search(text))
        or _WHOLE_EXPONENT.search(text)
    )


def _walked(value: object, path: Path = ()) -> str:
    return _ENCODER.encode(converted(value, _canonical_leaf, _canonical_names, path))


def _canonical_leaf(value: object, path: Path) -> object:
    match value:
        case int() | float():
            return _number_form(int(value) if isinstance(value, int) else float(value))
        case Decimal() if not value.is_snan():
            return _decimal_form(value)
        case datetime():
            instant = value if value.utcoffset() is None else value.astimezone(UTC)
            return {f"{MARK}datetime": instant.isoformat(timespec="microseconds")}
        case date():
            return {f"{MARK}date": value.isoformat()}
        case time():
            return {f"{MARK}time": value.isoformat(timespec="microseconds")}
        case timedelta():
            return {f"{MARK}timedelta": value // timedelta(microseconds=1)}
        case bytes() | bytearray() | memoryview():
            return {f"{MARK}bytes": bytes(value).hex()}
        case set() | frozenset():
            return {f"{MARK}set": sorted(_walked(each, path) for each in value)}
        case _ if isinstance(value, uuid_class()):
            return {f"{MARK}uuid": value.hex}
        case _:
            raise NotCanonical.of(value, path)


def uuid_class() -> type[UUID] | tuple[()]:
    """Return the class UUID, or () while the module `uuid` is not loaded. Imports nothing."""
    return getattr(sys.modules.get("uuid"), "UUID", ())


def _canonical_names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Escape names that begin with the mark; tag those that JSON cannot write, or cannot sort."""
    if {*map(type, mapping)} == {str} and min(mapping)[:1] > MARK:
        return mapping
    if all(isinstance(name, int | float) for name in mapping) or [*mapping] == [None]:
        return mapping
    named = {_canonical_name(name): each for name, each in mapping.items()}
    if len(named) < len(mapping):
        raise NotCanonical("two names of one mapping are the same in canonical form")
    return named


def _canonical_name(name: object) -> str:
    form = converted(name, _canonical_leaf, _canonical_names)
    if isinstance(form, str):
        return MARK + form if form.startswith(MARK) else form
    return MARK + _ENCODER.encode(form)


# -- the plain form


def plain(value: object, *kept: type) -> object:
    """
    Return *value* in JSON types, for JMESPath and for results; what is of the types *kept* stays.

    A Decimal becomes a number, or its digits as text if no float has exactly these; dates and times become
    ISO 8601, a timedelta its seconds, UUIDs text, bytes base64, and a set a sorted list. Values without such
    a form are left unchanged. Raises NotCanonical if the value contains itself or is nested too deeply.
    """
    try:
        if not kept:
            return converted(value, _plain_leaf, _plain_names)
        return converted(
            value,
            lambda part, path: part if isinstance(part, kept) else _plain_leaf(part, path),
            _plain_names,
        )
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply has no plain form") from None


def _plain_leaf(value: object, path: Path) -> object:
    match value:
        case int():
            return int(value)
        case Decimal():
            exact = json_number(value)
            return str(value) if exact is None else exact
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case _ if isinstance(value, uuid_class()):
            return str(value)
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case set() | frozenset():
            forms = [converted(each, _plain_leaf, _plain_names, path) for each in value]
            return sorted(forms, key=lambda form: json.dumps(form, sort_keys=True, default=repr))
        case _:
            return value


def _plain_names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Return *mapping* with names in plain form; those that JSON can write stay."""
    if all(type(name) is str for name in mapping):
        return mapping
    return {
        name if name is None or type(name) in (str, int, float, bool) else _plain_name(name): each
        for name, each in mapping.items()
    }


def _plain_name(name: object) -> object:
    form = converted(name, _plain_leaf, _plain_names)
    return json.dumps(form, default=repr) if isinstance(form, list | dict) else form


# -- numbers

ZEROS = 25
"""A whole number that ends in this many zeros or more is not written out."""
LARGE: int = 10**ZEROS
"""The first such number."""
EXPANDED_DIGITS = 4_300
"""A longer Decimal is not written out either: Python parses at most this many digits (sys.int_info)."""
FLOAT_DIGITS = 17
"""Most significant digits that `repr(float)` writes (IEEE 754 binary64)."""
LONGEST_FLOAT_TEXT = 24
"""Length of the longest `repr` of a float: -2.2250738585072014e-308."""

# What `repr` writes for a float that is to be written out.
_WHOLE = re.compile(r"\.0(?:[,\]}]|$)")
_WHOLE_EXPONENT = re.compile(r"e\+(?:[1-3]\d|40)(?!\d)")
_ENDS_IN_ZEROS = 10.0 ** (FLOAT_DIGITS + ZEROS - 1)
"""Whole floats from here on end in ZEROS zeros."""
_WRITTEN_ZEROS = "0" * ZEROS


def json_number(value: Decimal) -> int | float | None:
    """
    Return the number that JSON writes with exactly the digits of *value*; None if there is none.

    A float counts by its `repr`: Decimal("0.1") is 0.1, and different Decimals are never the same float.
    """
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    if not value:
        return 0
    if value == value.to_integral_value() and value.adjusted() < EXPANDED_DIGITS:
        digits, exponent = _scientific(value)
        if exponent < ZEROS:
            return int(f"{digits}{'0' * exponent}")
    text = str(value)
    found = float(text)
    return found if is_shortest(text, found) else None


def _scientific(value: Decimal) -> tuple[str, int]:
    """Return *value*, finite and not 0, as sign and digits without zeros at the end, and a power of ten."""
    mantissa, _, exponent = f"{value:e}".partition("e")  # the decimal context has no influence
    digits = mantissa.replace(".", "").rstrip("0")
    return digits, int(exponent) + 1 - len(digits.lstrip("-"))


def _decimal_form(value: Decimal) -> object:
    """Return *value* as a JSON number, or tagged. It must not be a signalling NaN."""
    exact = json_number(value)
    if exact is not None:
        return exact
    digits, exponent = _scientific(value)
    return {_DECIMAL: f"{digits}e{exponent}"}


@lru_cache(maxsize=1_024, typed=True)  # a body of a million such numbers repeats them
def _number_form(value: float) -> object:
    if isinstance(value, float):
        if not value.is_integer() or abs(value) >= _ENDS_IN_ZEROS:
            return value
        value = int(Decimal(repr(value)))
    return value if value % LARGE or not value else _decimal_form(Decimal(value))


def _exact(value: object) -> int | float:
    """Return *value*, a Decimal, as a number. Raises TypeError if there is none, and for any other type."""
    number = json_number(value) if isinstance(value, Decimal) else None
    if number is None:
        raise TypeError
    return number


# A cycle raises RecursionError; the encoder's own check for cycles would cost time.
_ENCODER = json.JSONEncoder(
    sort_keys=True, default=_exact, ensure_ascii=False, check_circular=False, separators=(",", ":")
)


def is_shortest(text: str, number: float) -> bool:
    """
    Return whether the `repr` of *number*, ``float(text)`` and not 0, has exactly the digits of *text*.

    A body may have millions of numbers, so this compares texts and creates no Decimals. Equal digits mean
    equal values, as rounding cannot change a value by a factor of ten.
    """
    if len(text) > LONGEST_FLOAT_TEXT and len(_digits(text)) > FLOAT_DIGITS:
        return False
    shortest = repr(number)
    if shortest == text:
        return True
    if "e" not in shortest and "." in text and text[-1] != "0" and "e" not in text and "E" not in text:
        return False  # a fraction has one text without exponent and trailing zeros
    return _digits(shortest) == _digits(text)


def _digits(text: str) -> str:
    """Return the digits of *text*, a decimal, without leading and trailing zeros."""
    mantissa = text if "e" not in text and "E" not in text else text.lower().partition("e")[0]
    return mantissa.strip("-0.").replace(".", "")
