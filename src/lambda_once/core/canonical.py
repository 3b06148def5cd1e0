"""
One text for what is one value, whatever wrote it: the ground of keys and fingerprints.

What JSON can write is JSON: names sorted, no white space, whole floats as integers. What it cannot is a
*tagged* form, an object whose only name begins with U+0000; a name that begins so by itself gets a second
U+0000. So no tagged form equals a plain value, and no two values have one text, with one exception: numbers,
booleans and None as names count as JSON writes them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from hashlib import sha256
from typing import Any
from uuid import UUID

from lambda_once.core.forms import NotCanonical, Path, formed, number, opened, plain

__all__ = ["NotCanonical", "canonical", "digest", "fingerprint", "plain", "without"]

VERSION = "1"
"""The version of the canonical form: fingerprints of two versions never match by accident."""

MARK = "\0"
"""What the name of a tagged form begins with."""
_WRITTEN_MARK = '"\\u0000'
_WHOLE_FLOAT = re.compile(r"\.0[,\]}]")  # as repr writes it, or with "e+"; within a string it only costs time

# A cycle ends in a RecursionError, and costs nothing where there is none.
_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False, check_circular=False, separators=(",", ":"))
_AS_ORDERED = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":"))


def canonical(value: object) -> bytes:
    """
    Return the canonical JSON of *value*.

    Equal by content is equal in text: the order of names and white space do not matter, nor do 1, 1.0, 1e0
    and Decimal("1.00"); tuples are lists, dataclasses and pydantic models objects, Powertools' data classes
    their raw event, members of an Enum their value. A Decimal that no float writes, datetimes (aware ones by
    instant), dates, times, timedeltas, UUIDs, bytes and sets are tagged: none equals a string or a list.
    Raises NotCanonical, with type and path, for all else, for cycles and for too deep a nesting.
    """
    try:
        return written(value).encode("utf-8", "surrogatepass")
    except RecursionError:
        raise NotCanonical("a value that contains itself or is nested too deeply is not canonical") from None
    except (ValueError, OverflowError) as error:
        raise NotCanonical(f"a number or a time is out of range: {type(error).__name__}") from None


def digest(value: object) -> str:
    """Return the SHA-256 of the canonical form in hex, 64 characters. Raises NotCanonical."""
    return sha256(canonical(value)).hexdigest()


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
    """
    Return the canonical text, for who turns its RecursionError and ValueError into NotCanonical.

    The C encoder writes what is JSON already; only what it cannot is walked through.
    """
    try:
        text = _SORTED.encode(value)
    except TypeError:  # another type, or names that cannot be sorted
        return _SORTED.encode(formed(value, _tagged, _names))
    if _WRITTEN_MARK in text:
        return _SORTED.encode(formed(value, _tagged, _names))
    if isinstance(value, float) or "e+" in text or (".0" in text and _WHOLE_FLOAT.search(text)):
        return _AS_ORDERED.encode(json.loads(text, parse_float=_shortest))
    return text


def _shortest(text: str) -> int | float:
    exact = number(Decimal(text))
    return float(text) if exact is None else exact


def _tagged(value: object, path: Path) -> object:
    match value:
        case float():
            return number(Decimal(repr(float(value))))
        case Decimal():
            exact = number(value)
            return _tag("decimal", _digits(value, path)) if exact is None else exact
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
            return _tag("set", sorted(_SORTED.encode(formed(each, _tagged, _names, path)) for each in value))
        case _:
            raise NotCanonical.of(value, path)


def _tag(kind: str, form: object) -> dict[str, object]:
    return {MARK + kind: form}


def _digits(value: Decimal, path: Path) -> str:
    """Return sign, digits and exponent without trailing zeros: one text a value, whatever the context."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise NotCanonical.of(value, path)
    text = "".join(map(str, digits))
    significant = text.rstrip("0")
    return f"{'-' * sign}{significant}e{exponent + len(text) - len(significant)}"


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
    return MARK + _SORTED.encode(form)


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
