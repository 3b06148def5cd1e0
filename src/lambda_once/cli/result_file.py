"""The result that duplicates will get, read from a file or standard input, and checked."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple, Never

from lambda_once.core.codec import Codec
from lambda_once.core.results import TEXT_LIMIT, NotSerialisable, pack
from lambda_once.errors import Misconfigured

STDIN = "-"


class Result(NamedTuple):
    """A result as it was read, and the JSON text that is stored of it."""

    value: Any
    text: str

    def described(self) -> str:
        """Say what it is, and nothing that is in it."""
        return f"JSON {_KINDS[type(self.value)]}, {len(self.text):,} characters"


_BLANKS: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\n\r]+')
"""A string, which is kept, or blanks between tokens (RFC 8259, whitespace)."""

_KINDS = {
    dict: "object",
    list: "list",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


def read_result(path: str) -> Result:
    """
    Read the JSON of *path*; ``-`` is standard input. At most `TEXT_LIMIT` bytes are read.

    Raises `Misconfigured`: the file cannot be read, is no JSON (with line and column), or is over the limits.
    """
    where = "standard input" if path == STDIN else path
    data = _bytes_of(path)
    if len(data) > TEXT_LIMIT:
        raise Misconfigured(f"{where} is over the {TEXT_LIMIT:,} bytes that a result may have")
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_no_json)
        Codec(Any).dump(value)
        text = _without_blanks(text)
        pack(text)
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{where} is no UTF-8: byte {error.start} is none") from None
    except json.JSONDecodeError as error:
        message = f"{where} is no JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise Misconfigured(message) from None
    except RecursionError:
        raise Misconfigured(f"{where} is nested too deeply to be a result") from None
    except (ValueError, NotSerialisable) as error:
        raise Misconfigured(f"{where} cannot be a result: {error}") from None
    return Result(value, text)


def _without_blanks(text: str) -> str:
    """Return JSON as it was written, but for the blanks between its tokens: no digit of a number is lost."""
    return _BLANKS.sub(r"\1", text)


def _bytes_of(path: str) -> bytes:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(TEXT_LIMIT + 1)
        with Path(path).open("rb") as file:
            return file.read(TEXT_LIMIT + 1)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from None


def _no_json(constant: str) -> Never:
    raise ValueError(f"{constant} is no JSON")


def looks_like_a_response(value: object) -> bool:
    """Tell whether *value* has the statusCode that an API's response has."""
    return isinstance(value, dict) and "statusCode" in value
