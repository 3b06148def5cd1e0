"""
Numbers by their exact digits: which of them JSON can write, and by which number.

A whole number is one text, whatever wrote it: 5, 5.0, 5e0 and Decimal("5.00") are `5`. One of more than
WRITTEN_OUT digits that ends in ZEROS zeros has an exponent: the form is never much longer than what was sent.
"""

from __future__ import annotations

from decimal import Decimal
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
LONGEST_SHORTEST = 24
"""Characters of the longest `repr` of a float: -2.2250738585072014e-308."""
ALWAYS_EXACT = 15
"""Digits that every normal float keeps (IEEE 754 binary64)."""
LEAST_NORMAL = 2.2250738585072014e-308
"""The smallest normal float (IEEE 754 binary64)."""

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
        text = str(self)
        found = float(text)
        if len(self.significant) <= ALWAYS_EXACT and LEAST_NORMAL < abs(found) < inf:
            return found
        return found if is_shortest(text, found) else None

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


def digits_of(text: str) -> str:
    """Return the digits of *text*, a decimal, less the zeros at both ends."""
    mantissa = text if "e" not in text and "E" not in text else text.lower().partition("e")[0]
    return mantissa.strip("-0.").replace(".", "")


def is_shortest(text: str, number: float) -> bool:
    """
    Return whether Python writes *number*, ``float(text)`` and not 0, with exactly the digits of *text*.

    A body may have millions of numbers, so this compares texts and makes no decimals: rounding multiplies
    nothing by ten, so where the digits are the same the values are.
    """
    if len(text) > LONGEST_SHORTEST and len(digits_of(text)) > FLOAT_DIGITS:
        return False
    shortest = repr(number)
    if shortest == text:
        return True
    if is_plain_fraction(text) and "e" not in shortest:  # a fraction has one text of this form
        return False
    return digits_of(shortest) == digits_of(text)


def is_plain_fraction(text: str) -> bool:
    """Return whether *text*, a decimal, has a point, no exponent, and no zero at its end."""
    return text[-1] != "0" and "." in text and "e" not in text and "E" not in text


def json_number(value: Decimal) -> int | float | None:
    """Return the number that JSON writes with exactly *value*'s digits, None where there is none."""
    if not value.is_finite():
        return None if value.is_snan() else float(value)
    return Digits.of(value).json_number


def decimal_form(value: Decimal) -> object:
    """Return *value*, no signalling NaN, as a JSON number, or its digits tagged."""
    if not value.is_finite():
        return float(value)
    text = str(value)
    plain = is_plain_fraction(text)
    if plain or ("E-" in text and value):  # a fraction: by far the most, so without the steps below
        found, digits = float(text), digits_of(text)
        exponent = text.index(".") + 1 - len(text) if plain else int(text.partition("E")[2]) + 1 - len(digits)
        sign = "-" if text[0] == "-" else ""
        return found if is_shortest(text, found) else {DECIMAL: f"{sign}{digits}e{exponent}"}
    number = Digits.of(value)
    exact = number.json_number
    return {DECIMAL: str(number)} if exact is None else exact
