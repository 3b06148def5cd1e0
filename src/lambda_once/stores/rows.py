"""A row of the token table: the record as DynamoDB's typed attributes, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from zlib import crc32

from lambda_once.core.clock import parse_stamp, stamp
from lambda_once.core.record import Failure, Record, Resolution, State
from lambda_once.core.results import PARTS_LIMIT, Inline, Parts, Stored, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.stores.contract import Unfinished

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

Item = dict[str, dict[str, Any]]
"""An item as the low-level client takes and gives it: ``{"lockToken": {"S": "…"}}``."""


MOST_SHARDS = 100
"""One partition takes 1,000 write units a second, an execution writes the index twice: 50,000 a second."""


def text(value: str) -> dict[str, str]:
    return {"S": value}


def number(value: int) -> dict[str, str]:
    return {"N": str(value)}


def error_map(error: Failure) -> dict[str, dict[str, dict[str, str]]]:
    return {"M": {"kind": text(error.kind), "message": text(error.message)}}


def resolution_map(note: Resolution) -> dict[str, Item]:
    return {
        "M": {
            "by": text(note.by),
            "because": text(note.because),
            "at": text(stamp(note.at)),
            "times": number(note.times),
        }
    }


def configured_shards() -> int:
    """Return LAMBDA_ONCE_STATUS_SHARDS, 1 where it is not set. Raises `Misconfigured`."""
    given = os.environ.get("LAMBDA_ONCE_STATUS_SHARDS", "1")
    if not (given.isascii() and given.isdigit()):
        raise _unsound(repr(given))
    return sound_shards(int(given))


def sound_shards(shards: int) -> int:
    """Return *shards*. Raises `Misconfigured` for a number at which readers would miss some."""
    if not 1 <= shards <= MOST_SHARDS:
        raise _unsound(str(shards))
    return shards


def _unsound(shards: str) -> Misconfigured:
    return Misconfigured(f"LAMBDA_ONCE_STATUS_SHARDS is {shards}: give a whole number, 1 to {MOST_SHARDS}")


def status(state: State, token: str, shards: int) -> str:
    """
    Return the ``status`` of an unfinished row.

    Sharded by the hash of its token, so that no single partition of the sparse index takes all writes.
    """
    if shards == 1:
        return state.value
    return f"{state.value}_{crc32(token.encode()) % shards}"


def part_key(token: str, attempt: str, write: str | None, number_of_part: int) -> str:
    """
    Return the key of a part row.

    By attempt and write: a late attempt can never touch its successor's parts, nor a completion those of
    another one of the same attempt. Rows older than such ids have no *write*, nor have their parts.
    """
    owner = attempt if write is None else f"{attempt}#{write}"
    return f"{token}#{owner}#{number_of_part}"


class Malformed(ValueError):
    """An attribute is not what this package writes; its name is the message."""


def record_of(item: Mapping[str, Mapping[str, Any]]) -> Record:
    """
    Read a row.

    Raises `Misconfigured` for one that this package did not write, whatever attribute is wrong: it says
    nothing that could be trusted, so nothing may run on it.
    """
    try:
        return Record(
            token=_text(item, "lockToken"),
            state=_state(item),
            attempt=_text(item, "attempt"),
            fence=_whole(item, "fence"),
            locked_by=_text(item, "lockedBy"),
            created=_time(item, "created"),
            expected_completion=_time(item, "expectedCompletion"),
            actual_completion=_time(item, "actualCompletion") if "actualCompletion" in item else None,
            delivery=_text(item, "delivery") if "delivery" in item else None,
            fingerprint=_text(item, "fingerprint") if "fingerprint" in item else None,
            ttl=_whole(item, "ttl") if "ttl" in item else None,
            stored=_stored(item),
            error=_failure(item),
            resolution=_resolution(item),
            fields=_bytes(item, "fields") if "fields" in item else None,
            write=_write(item),
            caller=_caller(item),
        )
    except Malformed as malformed:
        token = _name_of(item)
        message = (
            f"the row of token {token} was not written by lambda-once: {malformed} is missing "
            "or malformed. Is the table shared with another program? Give lambda-once a table of its own, or "
            "remove the row"
        )
        raise Misconfigured(message, token=token) from malformed


def unfinished_of(item: Mapping[str, Mapping[str, Any]]) -> Unfinished:
    """Read an entry of the sparse index, which projects a part of the row. Raises `Misconfigured`."""
    try:
        return Unfinished(
            token=_text(item, "lockToken"),
            state=_state(item),
            attempt=_text(item, "attempt"),
            locked_by=_text(item, "lockedBy"),
            created=_time(item, "created"),
            expected_completion=_time(item, "expectedCompletion"),
            shard=_shard(item),
        )
    except Malformed as malformed:
        token = _name_of(item)
        message = (
            f"the index byStatus is incomplete for token {token}: {malformed} is missing or malformed. "
            "It must project lockedBy, created and attempt, and list no other program's rows"
        )
        raise Misconfigured(message, token=token) from malformed


def part_of(item: Mapping[str, Mapping[str, Any]]) -> bytes:
    """Return the bytes of a part row. Raises `Misconfigured`."""
    try:
        return _bytes(item, "data")
    except Malformed as malformed:
        token = _name_of(item)
        message = f"the part {token} of a result was not written by lambda-once: {malformed} is malformed"
        raise Misconfigured(message, token=token) from malformed


# ---------------------------------------------------------------- single attributes


def _name_of(item: Mapping[str, Mapping[str, Any]]) -> str | None:
    try:
        return _text(item, "lockToken")
    except Malformed:
        return None


def _text(item: Mapping[str, Mapping[str, Any]], name: str) -> str:
    try:
        found = item[name]["S"]
    except (KeyError, TypeError):
        raise Malformed(name) from None
    if not isinstance(found, str):
        raise Malformed(name)
    return found


def _bytes(item: Mapping[str, Mapping[str, Any]], name: str) -> bytes:
    try:
        found = item[name]["B"]
    except (KeyError, TypeError):
        raise Malformed(name) from None
    if not isinstance(found, bytes | bytearray):
        raise Malformed(name)
    return bytes(found)


def _whole(item: Mapping[str, Mapping[str, Any]], name: str) -> int:
    try:
        return int(item[name]["N"])
    except (KeyError, TypeError, ValueError):
        raise Malformed(name) from None


def _time(item: Mapping[str, Mapping[str, Any]], name: str) -> datetime:
    try:
        return parse_stamp(_text(item, name))
    except (ValueError, OverflowError):
        raise Malformed(name) from None


def _write(item: Mapping[str, Mapping[str, Any]]) -> str | None:
    if "write" not in item:
        return None
    write = _text(item, "write")
    if not write:
        raise Malformed("write")
    return write


def _caller(item: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the mark of the caller (`Presented.mark`): an attempt id, a dot, and an HMAC."""
    if "caller" not in item:
        return None
    caller = _text(item, "caller")
    if not all(caller.partition(".")):
        raise Malformed("caller")
    return caller


def _state(item: Mapping[str, Mapping[str, Any]]) -> State:
    if "status" not in item:
        return State.COMPLETE if "actualCompletion" in item else State.RELEASED
    try:
        return State(_text(item, "status").partition("_")[0])
    except ValueError:
        raise Malformed("status") from None


def _shard(item: Mapping[str, Mapping[str, Any]]) -> int | None:
    suffix = _text(item, "status").partition("_")[2]
    if not suffix:
        return None
    if not (suffix.isascii() and suffix.isdigit()):
        raise Malformed("status")
    return int(suffix)


def _stored(item: Mapping[str, Mapping[str, Any]]) -> Stored:
    if "result" in item:
        try:
            return Inline(_text(item, "result"))
        except Malformed:
            return Inline(_bytes(item, "result"))
    if "parts" not in item:
        return Unavailable() if "resultUnavailable" in item else None
    count = _whole(item, "parts")
    if not 0 < count <= PARTS_LIMIT:
        raise Malformed("parts")
    return Parts(count)


def _failure(item: Mapping[str, Mapping[str, Any]]) -> Failure | None:
    if "error" not in item:
        return None
    try:
        error = item["error"]["M"]
        return Failure(_text(error, "kind"), _text(error, "message"))
    except (KeyError, TypeError, Malformed):
        raise Malformed("error") from None


def _resolution(item: Mapping[str, Mapping[str, Any]]) -> Resolution | None:
    if "resolution" not in item:
        return None
    try:
        note = item["resolution"]["M"]
        return Resolution(
            by=_text(note, "by"),
            because=_text(note, "because"),
            at=_time(note, "at"),
            times=_whole(note, "times"),
        )
    except (KeyError, TypeError, Malformed):
        raise Malformed("resolution") from None
