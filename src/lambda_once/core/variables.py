"""
The values of LAMBDA_ONCE_* variables, as functions, the watchdog and ``lambda-once check`` read them.

Blanks around a value don't count, and an empty value is none. Each parser takes a variable's name and its
value, and raises `Misconfigured` for a value that is impossible: what it is, and what to write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from typing import Final

from lambda_once.errors import Misconfigured

TRUE: Final = frozenset(("1", "y", "yes", "t", "true", "on"))
FALSE: Final = frozenset(("0", "n", "no", "f", "false", "off"))
"""The words of Powertools (`shared.functions.strtobool`), in any case of letters."""
CRT: Final = "crt"
_MOST: Final = 999_999_999
_BOUNDS: Final[Mapping[str, tuple[int, int]]] = {
    "LAMBDA_ONCE_WATCHDOG_TIMES": (0, _MOST),
    "LAMBDA_ONCE_WATCHDOG_ROWS": (1, _MOST),
    "LAMBDA_ONCE_DOCUMENTS_GRACE": (0, _MOST),
}


class Listing(Enum):
    """When a token that is acquired for the first time is listed in the index of unfinished ones."""

    AT_ONCE = "at_once"
    """By the acquisition: four write units for new work, and exact without a watchdog."""
    STREAM = "stream"
    """By the watchdog, from the table's stream, if the work was not finished: two write units."""


def given(name: str) -> str:
    """Return the variable *name* of this process; an empty text if it is not set."""
    return os.environ.get(name, "").strip()


def text(_name: str, value: str) -> str:
    return value.strip()


@cache  # of the few values that a process has: it is asked once an invocation
def boolean(name: str, value: str) -> bool | None:
    """Return what *value* means; None if it is empty."""
    word = value.strip().lower()
    if word and word not in TRUE | FALSE:
        raise Misconfigured(f"{name} is {value.strip()!r}: set it to true or false, or unset it")
    return word in TRUE if word else None


def whole(name: str, value: str) -> int | None:
    """Return the number in *value*; None if it is empty."""
    word = value.strip()
    if word and re.fullmatch(r"[0-9]{1,9}", word) is None:
        raise _out_of_bounds(name, repr(word))
    return _bounded(name, int(word)) if word else None


def client_word(name: str, value: str) -> str:
    """Return CRT, or an empty text: boto3's client. *name* may be that of a parameter."""
    word = value.strip()
    if word not in ("", CRT):
        raise Misconfigured(f"{name}={word} is unknown: use {CRT}, or pass a boto3 client")
    return word


def listing(name: str, value: str) -> Listing | None:
    """Return what *value* means; None if it is empty. *name* may be that of a parameter."""
    word = value.strip()
    return sound_listing(name, word) if word else None


def sound_listing(name: str, word: object) -> Listing:
    """Return the mode that *word* names."""
    try:
        return Listing(word)
    except ValueError:
        words = " or ".join(each.value for each in Listing)
        raise Misconfigured(f"{name}={word} is unknown: use {words}") from None


def configured_listing() -> Listing | None:
    """Return LAMBDA_ONCE_LISTING; None if it is not set, which counts as `Listing.AT_ONCE`."""
    return listing("LAMBDA_ONCE_LISTING", given("LAMBDA_ONCE_LISTING"))


def _bounded(name: str, number: int) -> int:
    least, most = _BOUNDS[name]
    if not least <= number <= most:
        raise _out_of_bounds(name, str(number))
    return number


def _out_of_bounds(name: str, shown: str) -> Misconfigured:
    least, most = _BOUNDS[name]
    return Misconfigured(f"{name} is {shown}: give a whole number, {least} to {most}")


Parser = Callable[[str, str], object]

OF_FUNCTIONS: Final[Mapping[str, Parser]] = {
    "LAMBDA_ONCE_TABLE": text,
    "LAMBDA_ONCE_DISABLED": boolean,
    "LAMBDA_ONCE_LISTING": listing,
    "LAMBDA_ONCE_CLIENT": client_word,
}
OF_WATCHDOG: Final[Mapping[str, Parser]] = {
    "LAMBDA_ONCE_WATCHDOG_RELEASE": text,
    "LAMBDA_ONCE_WATCHDOG_TIMES": whole,
    "LAMBDA_ONCE_WATCHDOG_ROWS": whole,
    "LAMBDA_ONCE_WATCHDOG_SWEEP": boolean,
}
OF_OTHERS: Final[Mapping[str, Parser]] = {
    **{f"LAMBDA_ONCE_DOCUMENTS_{each}": text for each in ("TABLE", "KEY", "SORT", "PREFIX", "NAMES")},
    "LAMBDA_ONCE_DOCUMENTS_GRACE": whole,
    **{f"LAMBDA_ONCE_{each}": text for each in ("NAMES", "LOG_GROUP", "OUTPUT")},
}
"""Those of the stream of documents, and of the command line."""
