"""A row of the token table: the record as DynamoDB's typed attributes, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any
from zlib import crc32

from lambda_once.core.clock import parse_stamp, stamp
from lambda_once.core.record import Failure, Record, Resolution, State
from lambda_once.core.results import Inline, Parts, Stored, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.stores.contract import Unfinished

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def record_of(item: Mapping[str, Mapping[str, Any]]) -> Record:
    """
    Read a row.

    Raises `Misconfigured` for one that this package did not write: it says nothing that could be
    trusted, so nothing may run on it.
    """
    try:
        return Record(
            token=item["lockToken"]["S"],
            state=_state(item),
            attempt=item["attempt"]["S"],
            fence=int(item["fence"]["N"]),
            locked_by=item["lockedBy"]["S"],
            created=parse_stamp(item["created"]["S"]),
            expected_completion=parse_stamp(item["expectedCompletion"]["S"]),
            actual_completion=parse_stamp(item["actualCompletion"]["S"])
            if "actualCompletion" in item
            else None,
            delivery=item["delivery"]["S"] if "delivery" in item else None,
            fingerprint=item["fingerprint"]["S"] if "fingerprint" in item else None,
            ttl=int(item["ttl"]["N"]) if "ttl" in item else None,
            stored=_stored(item),
            error=_failure(item),
            resolution=_resolution(item),
            fields=item.get("fields", {}).get("B"),
            write=item["write"]["S"] if "write" in item else None,
        )
    except (KeyError, ValueError) as unreadable:
        token = item.get("lockToken", {}).get("S")
        message = (
            f"the row of token {token} is none of this package's ({unreadable!r}): is the table shared with "
            "another program? Give lambda-once a table of its own, or remove the row"
        )
        raise Misconfigured(message, token=token) from unreadable


def unfinished_of(item: Mapping[str, Mapping[str, Any]]) -> Unfinished:
    """Read an entry of the sparse index, which projects a part of the row. Raises `Misconfigured`."""
    try:
        return Unfinished(
            token=item["lockToken"]["S"],
            state=_state(item),
            attempt=item["attempt"]["S"],
            locked_by=item["lockedBy"]["S"],
            created=parse_stamp(item["created"]["S"]),
            expected_completion=parse_stamp(item["expectedCompletion"]["S"]),
            shard=_shard(item["status"]["S"]),
        )
    except (KeyError, ValueError) as unreadable:
        token = item.get("lockToken", {}).get("S")
        message = (
            f"the index byStatus does not tell enough of token {token} ({unreadable!r}): it must project "
            "lockedBy, created and attempt, and list no other program's rows"
        )
        raise Misconfigured(message, token=token) from unreadable


def _state(item: Mapping[str, Mapping[str, Any]]) -> State:
    if "status" in item:
        return State(item["status"]["S"].partition("_")[0])
    return State.COMPLETE if "actualCompletion" in item else State.RELEASED


def _shard(status: str) -> int | None:
    suffix = status.partition("_")[2]
    return int(suffix) if suffix else None


def _stored(item: Mapping[str, Mapping[str, Any]]) -> Stored:
    if "result" in item:
        (data,) = item["result"].values()
        return Inline(data)
    if "parts" in item:
        return Parts(int(item["parts"]["N"]))
    return Unavailable() if "resultUnavailable" in item else None


def _failure(item: Mapping[str, Mapping[str, Any]]) -> Failure | None:
    if "error" not in item:
        return None
    error = item["error"]["M"]
    return Failure(error["kind"]["S"], error["message"]["S"])


def _resolution(item: Mapping[str, Mapping[str, Any]]) -> Resolution | None:
    if "resolution" not in item:
        return None
    note = item["resolution"]["M"]
    return Resolution(
        by=note["by"]["S"],
        because=note["because"]["S"],
        at=parse_stamp(note["at"]["S"]),
        times=int(note["times"]["N"]),
    )
