"""
Numbers by their exact digits: which of them JSON can write, and how the canonical form writes whole ones.

A whole number is one text, whatever wrote it: 5, 5.0, 5e0 and Decimal("5.00") are `5`. One of more than
WRITTEN_OUT digits that ends in ZEROS zeros has an exponent: the form is never much longer than what was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from enum import Enum
from math import inf
from typing import NamedTuple

WRITTEN_OUT = 25
"""Digits of the longest whole number that is always written out."""
ZEROS = 9
"""Trailing zeros from which a longer one gets an exponent: every float has as many."""
EXPANDED_DIGITS = 4_300
"""Digits of the longest whole number that is ever written out: Python reads no longer one (sys.int_info)."""
FLOAT_DIGITS = 17
"""Digits of the longest shortest text of a float (IEEE 754 binary64)."""
ALWAYS_EXACT = 15
"""Digits that every normal float keeps (IEEE 754 binary64)."""
LEAST_NORMAL = 1e-300
"""Above the smallest normal float, 2.2e-308."""
MOST_DIGITS = 255
"""Digits of the longest number that `whole_digits` returns."""
_TOO_LONG = 10**MOST_DIGITS

DECIMAL = "\0decimal"
"""The tag of a Decimal that JSON cannot write."""


class Digits(NamedTuple):
    """A finite decimal number: *sign* ("-" or ""), and *significant* times 10 to the *exponent*."""

    sign: str
    significant: str
    """The digits without leading and trailing zeros; "" of 0."""
    exponent: int

    @classmethod
    def of(cls, value: Decimal) -> Digits:
        """Read *value*, which is finite, independent of the decimal context."""
        mantissa, _, exponent = f"{value:e}".partition("e")
        sign = mantissa[:1] if mantissa[0] == "-" else ""
        digits = mantissa[len(sign) :].replace(".", "").rstrip("0")
        return cls(sign, digits, int(exponent) + 1 - len(digits))

    def __str__(self) -> str:
        return f"{self.sign}{self.significant}e{self.exponent}"

    @property
    def is_written_out(self) -> bool:
        """Whether this is a whole number whose canonical form has every digit; `1e308` is not."""
        if self.exponent < 0:
            return False
        length = len(self.significant) + self.exponent
        return length <= WRITTEN_OUT or (self.exponent < ZEROS and length <= EXPANDED_DIGITS)

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
    def json_number(self) -> int | float | None:
        """
        The number that JSON writes with exactly these digits; None where there is none.

        A float counts by its shortest text: Decimal("0.1") is 0.1, and no two Decimals are one float.
        """
        if not self.significant:
            return 0
        if self.is_written_out:
            return int(f"{self.sign}{self.significant}{'0' * self.exponent}")
        return self.nearest


def json_number(value: Decimal) -> int | float | None:
    """Return the number that JSON writes with exactly *value*'s digits, None where there is none."""
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    return Digits.of(value).json_number


def decimal_form(value: Decimal) -> object:
    """Return *value*, no signalling NaN, as a JSON number, or its digits tagged."""
    if not value.is_finite():
        return float(value)
    digits = Digits.of(value)
    exact = digits.json_number
    return {DECIMAL: str(digits)} if exact is None else exact


def whole_digits(value: object) -> str | None:
    """
    Return the digits of a number that equals an integer of at most MOST_DIGITS digits; None for all else.

    A boolean is no number. A float counts by its shortest text, and -0.0 is 0.
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


# -- whole numbers in JSON text

# What the encoder writes in another way than the canonical form. A match within a string only costs time.
# A float has at most 17 digits: one that repr writes with "e+" is whole, and below e+25 it is written out.
_WHOLE_FLOAT = re.compile(r"\.0[,\]}]")
_SHORT_EXPONENT = re.compile(r"e\+(?:1\d|2[0-4])(?!\d)")
_MANY_ZEROS = "0" * ZEROS
_LONG_WHOLE = re.compile(rf"{_MANY_ZEROS}(?!\d)(?<=\d{{{WRITTEN_OUT + 1}}})")
_STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
# About 64 KB, ending neither in a string nor in a number.
_SLICE = re.compile(rf'(?:[^"]{{1,512}}+|{_STRING}){{1,128}}+[-+.\de]*+')
# A number that may need another form; or a string, which stays as it is.
_NUMBERS = re.compile(
    rf"((?<![\d.])-?\d++(?:\.0(?![\de])|(?:\.\d++)?e\+(?:1\d|2[0-4])(?!\d)|(?<={_MANY_ZEROS})(?![\d.e]))|{_STRING})"
)
_FLOAT_RANGE = 300  # digits: the largest float has 309
_REMEMBERED = 4_096


def with_canonical_numbers(text: str) -> Iterator[str]:
    """Yield the JSON *text*, as Python's encoder wrote it, with whole numbers in their canonical form."""
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
    The canonical forms of what `_NUMBERS` matches.

    Where 6 MB hold more than a million numbers, they are so short that few differ: most are looked up.
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
    """Return the long whole number *text* as a float or a Decimal of its value is written."""
    digits = text.lstrip("-")
    if len(digits) <= WRITTEN_OUT:
        return text
    if len(digits) <= _FLOAT_RANGE and len(digits.rstrip("0")) <= ALWAYS_EXACT:
        return repr(float(text))
    return json.dumps(decimal_form(Decimal(text)), separators=(",", ":"))
