"""Bodies and messages: JSON where the text is JSON, else the text itself."""

from __future__ import annotations

import json
from decimal import Decimal
from math import inf, isinf
from typing import Final, NoReturn

from lambda_once.core.forms import ALWAYS_EXACT, FLOAT_DIGITS, LEAST_NORMAL, Digits

_SHORT: Final = ALWAYS_EXACT + 1  # characters: one more is the point


class TooDeep(ValueError):
    """
    The text nests deeper than Python's recursion limit.

    Where that limit is reached depends on the stack it is read on. Taking
    such a text for plain text would give one body two hashes, so it is refused.
    """


def parse(text: str) -> object:
    """
    Return what *text* says as JSON, or *text* where it is no JSON.

    Numbers keep every digit: one that a float would round is a `Decimal`.
    `NaN`, `Infinity`, a number outside the range of a float and an integer over
    Python's limit for conversions (4,300 digits) make the whole plain text.
    Raises `TooDeep`.
    """
    try:
        result: object = _DECODER.decode(text)
    except RecursionError:
        message = "is JSON nested too deeply to be read"
        raise TooDeep(message) from None
    except ValueError:
        return text
    return result


def _exact(text: str) -> float | Decimal:
    number = float(text)
    if len(text) <= _SHORT and LEAST_NORMAL < abs(number) < inf:
        return number
    if isinf(number) or (number == 0 and text.lower().partition("e")[0].strip("-0.")):
        # Kept exact, "1e999999999" would grow to a gigabyte as soon as someone writes it out.
        _no_json(text)
    if number == 0 or ("e" not in text and repr(number) == text):
        return number
    exact = Decimal(text)
    if "e" not in text and "E" not in text:
        # Digits without the zeros before and behind: more of them than any float writes.
        digits = text.strip("-0.")
        if len(digits) - ("." in digits) > FLOAT_DIGITS:
            return exact
    return exact if Digits.of(exact).nearest is None else number


def _no_json(text: str) -> NoReturn:
    message = f"{len(text)} characters that are not a portable JSON number"
    raise ValueError(message)


_DECODER: Final = json.JSONDecoder(
    parse_float=_exact, parse_constant=_no_json
)  # `json.loads` makes one a text
