"""
One text for what is one value, whatever wrote it: the ground of keys and fingerprints.

What JSON can write is JSON: names sorted, no white space, whole numbers as integers; those that end in many
zeros with an exponent, so that the form is never much longer than what was sent. What JSON cannot is a
*tagged* form, an object whose only name begins with U+0000; a name that begins so by itself gets a second
U+0000. So no tagged form equals a plain value, and no two values have one text, with one exception: numbers,
booleans and None as names count as JSON writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from lambda_once.core.forms import (
    ALWAYS_EXACT,
    WRITTEN_OUT,
    ZEROS,
    Digits,
    NotCanonical,
    Path,
    formed,
    number,
    opened,
    plain,
)

__all__ = ["NotCanonical", "canonical", "digest", "fingerprint", "plain", "without"]

VERSION = "1"
"""The version of the canonical form: fingerprints of two versions never match by accident."""

MARK = "\0"
"""What the name of a tagged form begins with."""
_WRITTEN_MARK = '"\\u0000'
# Whole numbers that the encoder writes in another way than the canonical form; within a string they only cost
# time. A float has at most 17 digits: what repr writes with "e+" is whole, and below e+25 it is written out.
_WHOLE_FLOAT = re.compile(r"\.0[,\]}]")
_SHORT_EXPONENT = re.compile(r"e\+(?:1\d|2[0-4])(?!\d)")
_MANY_ZEROS = "0" * ZEROS
_LONG_WHOLE = re.compile(rf"{_MANY_ZEROS}(?!\d)(?<=\d{{{WRITTEN_OUT + 1}}})")
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# Some 64 KB, which end neither in a string nor in a number.
_SLICE = re.compile(rf'(?:[^"]{{1,512}}+|{_STRING}){{1,128}}+[-+.\de]*+')
# A number that may need another form; or a string, which is passed over.
_NUMBERS = re.compile(
    rf"(?<![\d.])-?\d++(?:\.0(?![\de])|(?:\.\d++)?e\+(?:1\d|2[0-4])(?!\d)|(?<={_MANY_ZEROS})(?![\d.e]))|{_STRING}"
)
_FLOAT_RANGE = 300  # digits: the largest float has 309

# A cycle ends in a RecursionError, and costs nothing where there is none.
_OPTIONS: Any = {"ensure_ascii": False, "check_circular": False, "separators": (",", ":")}
_SORTED = json.JSONEncoder(sort_keys=True, **_OPTIONS)


def canonical(value: object) -> bytes:
    """
    Return the canonical JSON of *value*.

    Equal by content is equal in text: the order of names and white space do not matter, nor do 1, 1.0, 1e0
    and Decimal("1.00"); tuples are lists, dataclasses and pydantic models objects, Powertools' data classes
    their raw event, members of an Enum their value. A Decimal that no float writes, datetimes (aware ones by
    instant), dates, times, timedeltas, UUIDs, bytes and sets are tagged: none equals a string or a list.
    Raises NotCanonical, with type and path, for all else, for cycles and for too deep a nesting.
    """
    return b"".join(_chunks(value))


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form in hex, 64 characters. Raises NotCanonical."""
    hashed = sha256()
    for chunk in _chunks(value):
        hashed.update(chunk)
    return hashed.hexdigest()


def _chunks(value: object) -> Iterator[bytes]:
    """Yield the canonical form in pieces: `1e24` has four characters and 25 digits."""
    try:
        for piece in _with_canonical_numbers(_text(value)):
            yield piece.encode("utf-8", "surrogatepass")
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply is not canonical") from None
    except (ValueError, OverflowError) as error:
        raise NotCanonical(f"a number or a time is out of range: {type(error).__name__}") from None


def fingerprint(value: object) -> str:
    """Return the version of the canonical form and the digest: ``1.`` and 64 hex. Raises NotCanonical."""
    return f"{VERSION}.{digest(value)}"


def without(payload: object, ignore: Sequence[str]) -> object:
    """
    Return *payload* without the dotted paths of *ignore*, through lists into each element.

    What a path names may be missing. *payload* is never changed; branches no path enters are shared with it.
    """
    return _pruned(payload, _branches(tuple(ignore))) if ignore else payload


# -- writing


def written(value: object) -> str:
    """Return the canonical text, for who turns its RecursionError and ValueError into NotCanonical."""
    return "".join(_with_canonical_numbers(_text(value)))


def _text(value: object) -> str:
    """
    Return the JSON of *value*, whose numbers may not be canonical yet.

    The C encoder writes what is JSON already, and Decimals; only what it cannot is walked through.
    """
    if isinstance(value, float | Decimal):
        return _SORTED.encode(_tagged(value, ()))
    text = _encoded(value)
    return _walked(value) if text is None else text


# Another type; names that cannot be sorted, or that compare in no way (Decimal and NaN).
_NO_JSON = (TypeError, InvalidOperation)


def _encoded(value: object) -> str | None:
    """Return what the C encoder makes of *value*; None where it cannot, or where names must be escaped."""
    try:
        text = _SORTED.encode(value)
    except _NO_JSON:
        return _encoded_with_decimals(value)
    return None if _WRITTEN_MARK in text else text


def _encoded_with_decimals(value: object) -> str | None:
    tags = 0

    def tagged(part: object) -> object:
        nonlocal tags
        if not isinstance(part, Decimal):
            raise TypeError
        form = _decimal(part, ())
        tags += isinstance(form, dict)
        return form

    try:
        text = json.JSONEncoder(sort_keys=True, default=tagged, **_OPTIONS).encode(value)
    except _NO_JSON:
        return None
    return text if text.count(_WRITTEN_MARK) == tags else None


def _walked(value: object, path: Path = ()) -> str:
    return _SORTED.encode(formed(value, _tagged, _names, path))


def _canonically(value: object, path: Path) -> str:
    return "".join(_with_canonical_numbers(_walked(value, path)))


def _with_canonical_numbers(text: str) -> Iterator[str]:
    """Yield the JSON *text*, which the encoder wrote, with whole numbers as the canonical form has them."""
    if (
        _SHORT_EXPONENT.search(text)
        or (".0" in text and _WHOLE_FLOAT.search(text))
        or (_MANY_ZEROS in text and _LONG_WHOLE.search(text))
    ):
        for part in _SLICE.finditer(text):
            yield _NUMBERS.sub(_rewritten, part.group())
    else:
        yield text


def _rewritten(found: re.Match[str]) -> str:
    text = found.group()
    return text if text[0] == '"' else _number(text)


@lru_cache(maxsize=4096)
def _number(text: str) -> str:
    """
    Return the number of `_NUMBERS`, as the canonical form has it.

    Cached: where 6 MB hold more than a million of them, they are so short that there are few different ones.
    """
    mantissa, exponential, exponent = text.partition("e+")
    whole, _, fraction = mantissa.partition(".")
    if exponential:
        return f"{whole}{fraction}{'0' * (int(exponent) - len(fraction))}"
    if fraction:
        return "0" if whole == "-0" else whole
    return _whole(text)


def _whole(text: str) -> str:
    """Return the long whole number *text* as a float or a Decimal of its value is written."""
    digits = text.lstrip("-")
    if len(digits) <= WRITTEN_OUT:
        return text
    if len(digits) <= _FLOAT_RANGE and len(digits.rstrip("0")) <= ALWAYS_EXACT:
        return repr(float(text))
    return _SORTED.encode(_decimal(Decimal(text), ()))


def _tagged(value: object, path: Path) -> object:
    match value:
        case float():
            return number(Decimal(repr(float(value))))
        case Decimal():
            return _decimal(value, path)
        case datetime():
            return _tag("datetime", _instant(value).isoformat(timespec="microseconds"))
        case date():
            return _tag("date", value.isoformat())
        case time():
            return _tag("time", value.isoformat(timespec="microseconds"))
        case timedelta():
            return _tag("timedelta", value // timedelta(microseconds=1))
        case UUID():
            return _tag("uuid", value.hex)
        case bytes() | bytearray() | memoryview():
            return _tag("bytes", bytes(value).hex())
        case set() | frozenset():
            return _tag("set", sorted(_canonically(each, path) for each in value))
        case _:
            raise NotCanonical.of(value, path)


def _tag(kind: str, form: object) -> dict[str, object]:
    return {MARK + kind: form}


def _decimal(value: Decimal, path: Path) -> object:
    """Return the number that *value* is, or its digits: one text a value, whatever the decimal context."""
    if not value.is_finite():
        if value.is_snan():
            raise NotCanonical.of(value, path)
        return float(value)
    digits = Digits.of(value)
    exact = digits.number
    return _tag("decimal", str(digits)) if exact is None else exact


def _instant(value: datetime) -> datetime:
    return value if value.utcoffset() is None else value.astimezone(UTC)


def _names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Escape names that begin with the mark; tag those that JSON cannot write, or not sort among others."""
    if all(isinstance(name, int | float) for name in mapping) or [*mapping] == [None]:
        return mapping
    named = {_name(name): each for name, each in mapping.items()}
    if len(named) < len(mapping):
        raise NotCanonical("two names of one mapping are the same in canonical form")
    return named


def _name(name: object) -> str:
    form = formed(name, _tagged, _names)
    if isinstance(form, str):
        return MARK + form if form.startswith(MARK) else form
    return MARK + "".join(_with_canonical_numbers(_SORTED.encode(form)))


# -- leaving out

_Branches = dict[str, "_Branches"]


@lru_cache(maxsize=256)
def _branches(paths: tuple[str, ...]) -> _Branches:
    """Return the paths as a tree; a path's end is an empty branch."""
    tree: _Branches = {}
    for path in sorted(paths, key=len, reverse=True):
        branch = tree
        *way, last = path.split(".")
        for name in way:
            branch = branch.setdefault(name, {})
        branch[last] = {}
    return tree


def _pruned(value: object, branches: _Branches) -> object:
    value = opened(value)
    if isinstance(value, Mapping):
        if not any(name in value for name in branches):
            return value
        kept = ((name, each, branches.get(name)) for name, each in value.items())
        return {
            name: each if branch is None else _pruned(each, branch)
            for name, each, branch in kept
            if branch != {}
        }
    if isinstance(value, list | tuple):
        return [_pruned(each, branches) for each in value]
    return value
