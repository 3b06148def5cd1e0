"""JSON in which a Decimal is a number with all its digits, which `json.dumps` cannot write."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_NULS: Final = re.compile(r"(?:\\u0000)+")


def exact_json(value: object, number: Callable[[object], str]) -> str:
    """
    Return *value* as JSON.

    *number* returns the JSON of a value that `json.dumps` cannot write, or raises TypeError. Raises
    TypeError, ValueError or RecursionError as `json.dumps` does; NaN and infinity raise ValueError, and so do
    two names of one object that JSON writes alike, such as 1 and "1": one of the two values would be lost.
    """
    text, numbers = _marked(value, number, "\0")
    pieces = text.split(r'"\u0000"')
    if len(pieces) != len(numbers) + 1:  # the value contains the mark, too: more NULs than it has in a row
        most = max(len(run) for run in _NULS.findall(text)) // len(r"\u0000")
        text, numbers = _marked(value, number, "\0" * (most + 1))
        pieces = text.split('"' + r"\u0000" * (most + 1) + '"')
    _check_names(value)
    return "".join(piece for pair in zip(pieces, [*numbers, ""], strict=True) for piece in pair)


def _check_names(value: object) -> None:
    """Raise ValueError for an object in *value*, which is JSON-serialisable, two of whose names are one."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if not {*map(type, part)} <= {str}:
                names = Counter(next(iter(json.loads(json.dumps({name: 0})))) for name in part)
                name, times = names.most_common(1)[0]
                if times > 1:
                    raise ValueError(f"{times} names of one object are {name!r} in JSON")
            waiting.extend(part.values())
        elif isinstance(part, list | tuple):
            waiting.extend(part)


def _marked(value: object, number: Callable[[object], str], mark: str) -> tuple[str, list[str]]:
    """Return the JSON of *value* with *mark* in place of each number, and the numbers in order."""
    numbers: list[str] = []

    def marked(part: object) -> str:
        numbers.append(number(part))
        return mark

    encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=marked)
    return encoder.encode(value), numbers
