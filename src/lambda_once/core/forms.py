"""What a Python value stands for in JSON: the walk that `canonical` and results share, and the plain form."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from math import inf
from typing import Any, NamedTuple
from uuid import UUID

Path = tuple[object, ...]
"""The names and indexes that lead from a value to a part of it."""

Leaf = Callable[[object, Path], object]
"""Gives the form of a value that JSON has no word for."""

Names = Callable[[Mapping[Any, object]], Mapping[Any, object]]
"""Gives a mapping the names that JSON can write."""

WRITTEN_OUT = 25
"""Digits that a whole number has at most to be written out, however many zeros it ends in."""

ZEROS = 9
"""Zeros that a longer whole number ends in at least, to be written with an exponent: every float does."""

EXPANDED_DIGITS = 4_300
"""Digits of the longest whole number that is written out: Python reads no longer one (sys.int_info)."""

FLOAT_DIGITS = 17
"""Digits that the shortest text of a float has at most (IEEE 754 binary64)."""

MOST_DIGITS = 255
"""Digits of a whole number that is looked at as text (`whole_digits`)."""
_TOO_LONG = 10**MOST_DIGITS

ALWAYS_EXACT = 15
"""Digits of a decimal number that any float keeps, as long as it is a normal one (IEEE 754 binary64)."""

LEAST_NORMAL = 1e-300
"""Above the smallest normal float, which is 2.2e-308."""

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


class Digits(NamedTuple):
    """A finite decimal number: *sign* (a minus or nothing), and *significant* times 10 to the *exponent*."""

    sign: str
    significant: str
    """The digits without the zeros in front and behind; nothing of 0."""
    exponent: int

    @classmethod
    def of(cls, value: Decimal) -> Digits:
        """Read *value*, which is finite, whatever the decimal context, without writing its zeros out."""
        mantissa, _, exponent = f"{value:e}".partition("e")
        sign = mantissa[:1] if mantissa[0] == "-" else ""
        digits = mantissa[len(sign) :].replace(".", "").rstrip("0")
        return cls(sign, digits, int(exponent) + 1 - len(digits))

    def __str__(self) -> str:
        return f"{self.sign}{self.significant}e{self.exponent}"

    @property
    def is_written_out(self) -> bool:
        """
        Tell whether this is a whole number of which the canonical form has every digit.

        A float of more than WRITTEN_OUT digits ends in ZEROS zeros or more: `1e308` never becomes 309 digits.
        """
        length = len(self.significant) + self.exponent
        few_zeros = self.exponent < ZEROS and length <= EXPANDED_DIGITS
        return self.exponent >= 0 and (length <= WRITTEN_OUT or few_zeros)

    @property
    def nearest(self) -> float | None:
        """The float whose shortest text has exactly these digits; None where there is none."""
        if len(self.significant) > FLOAT_DIGITS:
            return None
        found = float(str(self))
        if len(self.significant) <= ALWAYS_EXACT and LEAST_NORMAL < abs(found) < inf:
            return found
        return found if abs(found) < inf and Digits.of(Decimal(repr(found))) == self else None

    @property
    def number(self) -> int | float | None:
        """
        The number that JSON would write with exactly these digits; None where there is none.

        A float stands for its shortest text, as in JSON: Decimal("0.1") is 0.1, and no two are one float.
        """
        if not self.significant:
            return 0
        if self.is_written_out:
            return int(f"{self.sign}{self.significant}{'0' * self.exponent}")
        return self.nearest


def number(value: Decimal) -> int | float | None:
    """Return the number that JSON would write with exactly *value*'s digits; None where there is none."""
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    return Digits.of(value).number


def whole_digits(value: object) -> str | None:
    """
    Return the digits of a number that equals an integer, at most MOST_DIGITS; None for all else.

    A boolean is no number. A float stands for its shortest text, and -0.0 is 0.
    """
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        return str(int(value)) if abs(value) < _TOO_LONG else None
    exact = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    if not exact.is_finite():
        return None
    digits = Digits.of(exact)
    if not digits.significant:
        return "0"
    if digits.exponent < 0 or len(digits.significant) + digits.exponent > MOST_DIGITS:
        return None
    return f"{digits.sign}{digits.significant}{'0' * digits.exponent}"


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
