"""
What release 0.1 reads in a row of the token table, and its text of a result. Frozen: never changed.

While a deployment runs 0.1 beside a newer version, or goes back to it, 0.1 reads the newer one's rows. It
ignores attributes that it does not know, and refuses a row that lacks one, or has one of another type.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

Item = Mapping[str, Mapping[str, Any]]

UNFINISHED = {"inProgress", "error"}
SEALED = b"sealed:"


class Unreadable(ValueError):
    """0.1 raises `Misconfigured` for this attribute: the row was not written by lambda-once."""


def read(item: Item) -> dict[str, object]:
    """Return what 0.1 knows of a row, by its own names. Raises Unreadable."""
    return {
        "token": _text(item, "lockToken"),
        "state": _state(item),
        "attempt": _text(item, "attempt"),
        "fence": _whole(item, "fence"),
        "locked_by": _text(item, "lockedBy"),
        "created": _time(item, "created"),
        "expected_completion": _time(item, "expectedCompletion"),
        "actual_completion": _optional(_time, item, "actualCompletion"),
        "delivery": _optional(_text, item, "delivery"),
        "fingerprint": _optional(_text, item, "fingerprint"),
        "ttl": _optional(_whole, item, "ttl"),
        "stored": _stored(item),
        "error": _optional(_failure, item, "error"),
        "resolution": _optional(_resolution, item, "resolution"),
        "fields": _optional(_bytes, item, "fields"),
        "write": _optional(_text, item, "write"),
        "caller": _optional(_caller, item, "caller"),
        "trace": _optional(_text, item, "trace"),
    }


def part_keys(item: Item) -> list[str]:
    """Return the keys of the rows in which 0.1 looks for the parts of a result."""
    known = read(item)
    owner = "#".join(str(known[name]) for name in ("token", "attempt", "write") if known[name] is not None)
    return [f"{owner}#{number}" for number in range(_whole(item, "parts"))]


def text(stored: str | bytes) -> str:
    """Return the JSON text of a result that is not sealed: as it is, or compressed by zlib."""
    return stored if isinstance(stored, str) else zlib.decompress(stored).decode()


def _typed(item: Item, name: str, letter: str, kind: type) -> Any:
    try:
        found = item[name][letter]
    except (KeyError, TypeError):
        raise Unreadable(name) from None
    if not isinstance(found, kind):
        raise Unreadable(name)
    return found


def _text(item: Item, name: str) -> str:
    return str(_typed(item, name, "S", str))


def _bytes(item: Item, name: str) -> bytes:
    return bytes(_typed(item, name, "B", bytes))


def _whole(item: Item, name: str) -> int:
    try:
        return int(_typed(item, name, "N", str))
    except ValueError:
        raise Unreadable(name) from None


def _time(item: Item, name: str) -> datetime:
    try:
        return datetime.fromisoformat(_text(item, name)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise Unreadable(name) from None


def _optional(read: Callable[[Item, str], object], item: Item, name: str) -> object:
    return read(item, name) if name in item else None


def _caller(item: Item, name: str) -> str:
    caller = _text(item, name)
    if not all(caller.partition(".")):
        raise Unreadable(name)
    return caller


def _state(item: Item) -> str:
    if "status" not in item:
        return "complete" if "actualCompletion" in item else "released"
    state = _text(item, "status").partition("_")[0]
    if state not in UNFINISHED:
        raise Unreadable("status")
    return state


def _stored(item: Item) -> object:
    if "result" in item:
        return item["result"]["S"] if "S" in item["result"] else _bytes(item, "result")
    if "parts" in item:
        count = _whole(item, "parts")
        if not 0 < count <= 40:
            raise Unreadable("parts")
        return count
    return "resultUnavailable" in item or None


def _failure(item: Item, name: str) -> tuple[object, ...]:
    error = _typed(item, name, "M", dict)
    return _text(error, "kind"), _text(error, "message"), _optional(_bytes, error, "sealed")


def _resolution(item: Item, name: str) -> tuple[object, ...]:
    note = _typed(item, name, "M", dict)
    return _text(note, "by"), _text(note, "because"), _time(note, "at"), _whole(note, "times")
