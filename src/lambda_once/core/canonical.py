"""
The canonical form: equal values have the same text. Keys and fingerprints are hashes of it.

JSON values are written as JSON, with names sorted, no white space, and numbers by their exact digits. Other
values are *tagged*: written as an object whose only name begins with U+0000. A name that already begins with
U+0000 gets another one, so a tagged form never equals a plain value. Different values have different texts,
with one exception: numbers, booleans and None as names count as the text that JSON writes for them.

Equal whole numbers have the same text: 5, 5.0, 5e0 and Decimal("5.00") are `5`. A number of more than
WRITTEN_OUT digits that ends in ZEROS zeros is written with an exponent, so the form is never much longer than
the input.

The same traversal (`converted`) makes the *plain form* of a value, for JMESPath and for results.
"""

from __future__ import annotations

import json
import re
import sys
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from enum import Enum
from hashlib import sha256
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

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

NEVER_WRAPS = frozenset({dict, list, tuple, float})
"""Types that `unwrapped` returns unchanged."""

# A cycle raises RecursionError; the encoder's own check for cycles would cost time.
_OPTIONS: Any = {"ensure_ascii": False, "check_circular": False, "separators": (",", ":")}
_SORTED = json.JSONEncoder(sort_keys=True, **_OPTIONS)


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
    return b"".join(_chunks(value))


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form in hex, 64 characters. Raises NotCanonical."""
    hashed = sha256()
    for chunk in _chunks(value):
        hashed.update(chunk)
    return hashed.hexdigest()


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


def _chunks(value: object) -> Iterator[bytes]:
    """Yield the canonical form in pieces: it may be much longer than the text (`1e24` has 25 digits)."""
    try:
        for piece in with_canonical_numbers(_text(value)):
            yield piece.encode("utf-8", "surrogatepass")
    except UNWRITABLE as error:
        raise not_canonical(error) from None


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
    """Return *value* as dicts, lists, strings, integers, booleans and None; *leaf* converts all else."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    inner = value if kind in NEVER_WRAPS else unwrapped(value)
    if inner is not value:
        return converted(inner, leaf, names, path)
    if isinstance(value, Mapping):
        return {name: converted(each, leaf, names, (*path, name)) for name, each in names(value).items()}
    if isinstance(value, list | tuple):
        return [converted(each, leaf, names, (*path, index)) for index, each in enumerate(value)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return leaf(value, path)


# -- the canonical form


def written(value: object) -> str:
    """Return the canonical text. Raises one of UNWRITABLE if there is none."""
    return "".join(with_canonical_numbers(_text(value)))


def _text(value: object) -> str:
    """
    Return the JSON of *value*; its numbers may not be canonical yet.

    The C encoder writes JSON values and Decimals directly; other values are converted first.
    """
    if isinstance(value, Decimal):
        return _SORTED.encode(_canonical_leaf(value, ()))
    text = _encoded(value)
    return _walked(value) if text is None else text


# Raised for another type, and for names that cannot be sorted or compared (Decimal and NaN).
_NO_JSON = (TypeError, InvalidOperation)


def _encoded(value: object) -> str | None:
    """Return the C encoder's text of *value*; None if it cannot encode it, or if names need escaping."""
    try:
        text = _SORTED.encode(value)
    except _NO_JSON:
        return _encoded_with_decimals(value)
    return None if _WRITTEN_MARK in text else text


def _encoded_with_decimals(value: object) -> str | None:
    tags = 0

    def decimal(part: object) -> object:
        nonlocal tags
        if not isinstance(part, Decimal) or part.is_snan():
            raise TypeError
        form = decimal_form(part)
        tags += isinstance(form, dict)
        return form

    try:
        text = json.JSONEncoder(sort_keys=True, default=decimal, **_OPTIONS).encode(value)
    except _NO_JSON:
        return None
    return text if text.count(_WRITTEN_MARK) == tags else None


def _walked(value: object, path: Path = ()) -> str:
    return _SORTED.encode(converted(value, _canonical_leaf, _canonical_names, path))


def _canonical_leaf(value: object, path: Path) -> object:
    match value:
        case float():
            return json_number(Decimal(repr(float(value))))
        case Decimal() if not value.is_snan():
            return decimal_form(value)
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
            texts = ("".join(with_canonical_numbers(_walked(each, path))) for each in value)
            return {f"{MARK}set": sorted(texts)}
        case _ if isinstance(value, uuid_class()):
            return {f"{MARK}uuid": value.hex}
        case _:
            raise NotCanonical.of(value, path)


def uuid_class() -> type[UUID] | tuple[()]:
    """Return the class UUID, or () while the module `uuid` is not loaded. Imports nothing."""
    return getattr(sys.modules.get("uuid"), "UUID", ())


def _canonical_names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Escape names that begin with the mark; tag those that JSON cannot write, or cannot sort."""
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
    return MARK + "".join(with_canonical_numbers(_SORTED.encode(form)))


# -- the plain form


def plain(value: object) -> object:
    """
    Return *value* in JSON types, for JMESPath and for results.

    A Decimal becomes a number, or its digits as text if no float has exactly these; dates and times become
    ISO 8601, a timedelta its seconds, UUIDs text, bytes base64, and a set a sorted list. Values without such
    a form are left unchanged. Raises NotCanonical if the value contains itself or is nested too deeply.
    """
    try:
        return converted(value, _plain_leaf, _plain_names)
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply has no plain form") from None


def _plain_leaf(value: object, path: Path) -> object:
    match value:
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

WRITTEN_OUT = 25
"""A whole number of at most this many digits is always written out."""
ZEROS = 9
"""A longer one gets an exponent if it ends in this many zeros or more, as every such float does."""
EXPANDED_DIGITS = 4_300
"""A longer whole number is never written out: Python parses at most this many digits (sys.int_info)."""
FLOAT_DIGITS = 17
"""Most significant digits that `repr(float)` writes (IEEE 754 binary64)."""
LONGEST_FLOAT_TEXT = 24
"""Length of the longest `repr` of a float: -2.2250738585072014e-308."""
ALWAYS_EXACT = 15
"""Significant digits that every normal float preserves (IEEE 754 binary64)."""
LEAST_NORMAL = 2.2250738585072014e-308
"""The smallest normal float (IEEE 754 binary64)."""


class Digits(NamedTuple):
    """A finite decimal number: *sign* ("-" or ""), then *significant* times 10 to the power *exponent*."""

    sign: str
    significant: str
    """The digits without leading and trailing zeros; "" for 0."""
    exponent: int

    @classmethod
    def of(cls, value: Decimal) -> Digits:
        """Return the digits of *value*, which is finite. The decimal context has no influence."""
        mantissa, _, exponent = f"{value:e}".partition("e")
        sign = mantissa[:1] if mantissa[0] == "-" else ""
        digits = mantissa[len(sign) :].replace(".", "").rstrip("0")
        return cls(sign, digits, int(exponent) + 1 - len(digits))

    def __str__(self) -> str:
        return f"{self.sign}{self.significant}e{self.exponent}"

    @property
    def is_written_out(self) -> bool:
        """Whether this is a whole number whose canonical form has no exponent; `1e308` has one."""
        if self.exponent < 0:
            return False
        length = len(self.significant) + self.exponent
        return length <= WRITTEN_OUT or (self.exponent < ZEROS and length <= EXPANDED_DIGITS)

    @property
    def nearest(self) -> float | None:
        """The float whose `repr` has exactly these digits; None if there is none."""
        if len(self.significant) > FLOAT_DIGITS:
            return None
        text = str(self)
        found = float(text)
        if len(self.significant) <= ALWAYS_EXACT and LEAST_NORMAL < abs(found) < inf:
            return found
        return found if is_shortest(text, found) else None

    @property
    def json_number(self) -> int | float | None:
        """
        The number that JSON writes with exactly these digits; None if there is none.

        A float counts by its `repr`: Decimal("0.1") is 0.1, and different Decimals are never the same float.
        """
        if not self.significant:
            return 0
        if self.is_written_out:
            return int(f"{self.sign}{self.significant}{'0' * self.exponent}")
        return self.nearest


def digits_of(text: str) -> str:
    """Return the digits of *text*, a decimal, without leading and trailing zeros."""
    mantissa = text if "e" not in text and "E" not in text else text.lower().partition("e")[0]
    return mantissa.strip("-0.").replace(".", "")


def is_shortest(text: str, number: float) -> bool:
    """
    Return whether the `repr` of *number*, ``float(text)`` and not 0, has exactly the digits of *text*.

    A body may have millions of numbers, so this compares texts and creates no Decimals. Equal digits mean
    equal values, as rounding cannot change a value by a factor of ten.
    """
    if len(text) > LONGEST_FLOAT_TEXT and len(digits_of(text)) > FLOAT_DIGITS:
        return False
    shortest = repr(number)
    if shortest == text:
        return True
    if is_plain_fraction(text) and "e" not in shortest:  # a fraction has one text of this form
        return False
    return digits_of(shortest) == digits_of(text)


def is_plain_fraction(text: str) -> bool:
    """Return whether *text*, a decimal, has a point, no exponent and no trailing zero."""
    return text[-1] != "0" and "." in text and "e" not in text and "E" not in text


def json_number(value: Decimal) -> int | float | None:
    """Return the number that JSON writes with exactly the digits of *value*; None if there is none."""
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    return Digits.of(value).json_number


def decimal_form(value: Decimal) -> object:
    """Return *value* as a JSON number, or tagged. It must not be a signalling NaN."""
    if not value.is_finite():
        return float(value)
    text = str(value)
    plain = is_plain_fraction(text)
    if plain or ("E-" in text and value):  # a fraction: by far the most, so without the steps below
        found, digits = float(text), digits_of(text)
        exponent = text.index(".") + 1 - len(text) if plain else int(text.partition("E")[2]) + 1 - len(digits)
        sign = "-" if text[0] == "-" else ""
        return found if is_shortest(text, found) else {_DECIMAL: f"{sign}{digits}e{exponent}"}
    number = Digits.of(value)
    exact = number.json_number
    return {_DECIMAL: str(number)} if exact is None else exact


# -- numbers in JSON text

# Numbers that the encoder does not write in canonical form. A match within a string only costs time.
# A float has at most 17 digits: one that repr writes with "e+" is whole, and below e+25 it is written out.
_WHOLE_FLOAT = re.compile(r"\.0(?:[,\]}]|$)")
_SHORT_EXPONENT = re.compile(r"e\+(?:1\d|2[0-4])(?!\d)")
_MANY_ZEROS = "0" * ZEROS
_LONG_WHOLE = re.compile(rf"{_MANY_ZEROS}(?!\d)(?<=\d{{{WRITTEN_OUT + 1}}})")
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# About 64 KB, ending neither in a string nor in a number.
_SLICE = re.compile(rf'(?:[^"]{{1,512}}+|{_STRING}){{1,128}}+[-+.\de]*+')
# A number that may need another form, or a string, which stays unchanged.
_NUMBERS = re.compile(
    rf"((?<![\d.])-?\d++(?:\.0(?![\de])|(?:\.\d++)?e\+(?:1\d|2[0-4])(?!\d)|(?<={_MANY_ZEROS})(?![\d.e]))|{_STRING})"
)
_FLOAT_RANGE = 300  # digits: the largest float has 309
_REMEMBERED = 4_096


def with_canonical_numbers(text: str) -> Iterator[str]:
    """Yield *text*, JSON from Python's encoder, with whole numbers in their canonical form."""
    if (
        _SHORT_EXPONENT.search(text)
        or (".0" in text and _WHOLE_FLOAT.search(text))
        or (_MANY_ZEROS in text and _LONG_WHOLE.search(text))
    ):
        canonical = _CanonicalNumbers()
        for part in _SLICE.finditer(text):
            pieces = _NUMBERS.split(part.group())
            pieces[1::2] = map(canonical.__getitem__, pieces[1::2])
            yield "".join(pieces)
    else:
        yield text


class _CanonicalNumbers(dict[str, str]):
    """
    A cache of canonical forms, by the text that `_NUMBERS` matched.

    If 6 MB contain more than a million numbers, the numbers are short and few differ, so most are hits.
    """

    def __missing__(self, text: str) -> str:
        if text[0] == '"':
            return text
        form = _canonical_number(text)
        if len(self) < _REMEMBERED:
            self[text] = form
        return form


def _canonical_number(text: str) -> str:
    mantissa, exponential, exponent = text.partition("e+")
    whole, _, fraction = mantissa.partition(".")
    if exponential:
        return f"{whole}{fraction}{'0' * (int(exponent) - len(fraction))}"
    if fraction:
        return "0" if whole == "-0" else whole
    return _canonical_whole(text)


def _canonical_whole(text: str) -> str:
    """Return the text of the long whole number *text* as it is written for an equal float or Decimal."""
    digits = text.lstrip("-")
    if len(digits) <= WRITTEN_OUT:
        return text
    if len(digits) <= _FLOAT_RANGE and len(digits.rstrip("0")) <= ALWAYS_EXACT:
        return repr(float(text))
    return json.dumps(decimal_form(Decimal(text)), separators=(",", ":"))
