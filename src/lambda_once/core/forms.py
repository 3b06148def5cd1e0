"""What a Python value stands for in JSON: the walk that `canonical` and results share, and the plain form."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

Path = tuple[object, ...]
"""The names and indexes that lead from a value to a part of it."""

Leaf = Callable[[object, Path], object]
"""Gives the form of a value that JSON has no word for."""

Names = Callable[[Mapping[Any, object]], Mapping[Any, object]]
"""Gives a mapping the names that JSON can write."""

EXPANDED_DIGITS = 4_300
"""Digits of the longest whole number that is written out: Python reads no longer one (sys.int_info)."""

NEVER_WRAPS = frozenset({dict, list, tuple, float})
"""What wraps nothing, told by its type alone: the rest must be looked at (`opened`)."""


class NotCanonical(TypeError):
    """A value, or a part of it, has no form that is the same in another process. Names type and path."""

    @classmethod
    def of(cls, value: object, path: Path) -> NotCanonical:
        where = ".".join(map(str, path)) or "the value itself"
        kind = type(value)
        return cls(f"{where}: a {kind.__module__}.{kind.__qualname__} has no canonical form")


def opened(value: object) -> object:
    """
    Return what *value* wraps, one layer deep; a value that wraps nothing, itself.

    Dataclasses and pydantic models wrap their fields by name, Powertools' data classes the raw event, members
    of an Enum their value. pydantic is recognised by ``model_dump``, and is not imported.
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


def formed(value: object, leaf: Leaf, names: Names, path: Path = ()) -> object:
    """Return *value* as dicts, lists, strings, integers and None, and what *leaf* makes of all else."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    unwrapped = value if kind in NEVER_WRAPS else opened(value)
    if unwrapped is not value:
        return formed(unwrapped, leaf, names, path)
    if isinstance(value, Mapping):
        return {name: formed(each, leaf, names, (*path, name)) for name, each in names(value).items()}
    if isinstance(value, list | tuple):
        return [formed(each, leaf, names, (*path, index)) for index, each in enumerate(value)]
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    return leaf(value, path)


def plain(value: object) -> object:
    """
    Return *value* as JSON could write it: what JMESPath sees of arguments, and what a result becomes.

    A Decimal becomes a number, or its digits where no float has exactly these; dates and times ISO 8601;
    a timedelta its seconds; UUIDs text; bytes base64; a set a sorted list. What has no such form is left as
    it is, so that an expression may pass it by. Raises NotCanonical when the value contains itself, or is
    nested deeper than Python can follow.
    """
    try:
        return formed(value, _plain_leaf, _plain_names)
    except RecursionError:
        raise NotCanonical("a value that contains itself, or is nested too deeply, has no form") from None


def number(value: Decimal) -> int | float | None:
    """
    Return the number that JSON would write with exactly the digits of *value*; None where there is none.

    A float stands for its shortest text, as in JSON: Decimal("0.1") is 0.1, no two Decimals are one float.
    """
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    if value == 0:
        return 0
    if value.adjusted() < EXPANDED_DIGITS and value == value.to_integral_value():
        return int(value)
    nearest = float(value)
    return nearest if Decimal(repr(nearest)) == value else None


def _plain_leaf(value: object, path: Path) -> object:
    match value:
        case Decimal():
            exact = number(value)
            return str(value) if exact is None else exact
        case datetime() | date() | time():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case UUID():
            return str(value)
        case bytes() | bytearray() | memoryview():
            return b64encode(value).decode()
        case set() | frozenset():
            return _in_order([formed(each, _plain_leaf, _plain_names, path) for each in value])
        case _:
            return value


def _plain_names(mapping: Mapping[Any, object]) -> Mapping[Any, object]:
    """Keep the names that JSON can write; give the others their plain form."""
    if all(type(name) is str for name in mapping):
        return mapping
    return {
        name if name is None or type(name) in (str, int, float, bool) else _plain_name(name): each
        for name, each in mapping.items()
    }


def _plain_name(name: object) -> object:
    form = formed(name, _plain_leaf, _plain_names)
    return json.dumps(form, default=repr) if isinstance(form, list | dict) else form


def _in_order(forms: list[object]) -> list[object]:
    return sorted(forms, key=lambda form: json.dumps(form, sort_keys=True, default=repr))
