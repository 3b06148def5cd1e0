"""Rows of the token table as DynamoDB returns them, read as records; `requests` writes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from lambda_once.core.lifecycle import Decider, Failure, Record, Resolution, State
from lambda_once.core.results import PARTS_LIMIT, Inline, Parts, Stored, Unavailable
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from lambda_once.stores.naming import TableNames

Item = dict[str, dict[str, Any]]
"""An item of the low-level client: ``{"lockToken": {"S": "…"}}``."""
Attributes = Mapping[str, Mapping[str, Any]]
V = TypeVar("V")

MOST_SHARDS = 100
"""A partition takes 1,000 write units a second, an execution writes the index twice: 50,000 a second."""


def configured_shards() -> int:
    """Return LAMBDA_ONCE_STATUS_SHARDS, 1 where it is not set. Raises `Misconfigured`."""
    given = os.environ.get("LAMBDA_ONCE_STATUS_SHARDS", "1")
    if not (given.isascii() and given.isdigit()):
        raise _unsound(repr(given))
    return sound_shards(int(given))


def sound_shards(shards: int) -> int:
    """Return *shards*. Raises `Misconfigured` unless readers ask for all of them."""
    if not 1 <= shards <= MOST_SHARDS:
        raise _unsound(str(shards))
    return shards


def _unsound(shards: str) -> Misconfigured:
    return Misconfigured(f"LAMBDA_ONCE_STATUS_SHARDS is {shards}: give a whole number, 1 to {MOST_SHARDS}")


def configured_names() -> TableNames | None:
    """Return LAMBDA_ONCE_KEY, LAMBDA_ONCE_SORT and LAMBDA_ONCE_INDEX; None where none is set."""
    given = {name: os.environ.get(f"LAMBDA_ONCE_{name.upper()}") for name in ("key", "sort", "index")}
    names = {name: value for name, value in given.items() if value}
    if not names:
        return None
    from lambda_once.stores.naming import TableNames  # few tables have names of their own

    return TableNames(**names)


class Entry(NamedTuple):
    """A row as an operator sees it: whole, or as the sparse index projects it. That lags behind the table."""

    record: Record
    shard: int | None = None
    """The suffix of its status in the index, if it has one."""

    @property
    def is_whole(self) -> bool:
        """Whether the row was read; the index has no fence, no outcome and no decision."""
        return self.record.fence > 0


class MalformedRow(ValueError):
    """An attribute is missing or malformed; its name is the message."""


def record_of(item: Attributes) -> Record:
    """Read a row. Raises `Misconfigured` for one that this package did not write."""
    try:
        return Record(
            token=_text(item, "lockToken"),
            state=_state(item),
            attempt_id=_text(item, "attempt"),
            fence=_whole(item, "fence"),
            locked_by=_text(item, "lockedBy"),
            created=_time(item, "created"),
            expected_completion=_time(item, "expectedCompletion"),
            actual_completion=_optional(_time, item, "actualCompletion"),
            delivery=_optional(_text, item, "delivery"),
            fingerprint=_optional(_text, item, "fingerprint"),
            ttl=_optional(_whole, item, "ttl"),
            stored=_stored(item),
            error=_optional(_failure, item, "error"),
            resolution=_optional(_resolution, item, "resolution"),
            fields=_optional(_bytes, item, "fields"),
            write_id=_optional(_write, item, "write"),
            caller=_optional(_caller, item, "caller"),
            trace=_optional(_text, item, "trace"),
            generation=_optional(_text, item, "generation"),
        )
    except MalformedRow as malformed:
        token = _name_of(item)
        raise Misconfigured(
            f"the row of token {token} was not written by lambda-once: {malformed} is missing or malformed; "
            "use a table that no other program writes to, or delete the row",
            token=token,
        ) from malformed


def indexed(item: Attributes) -> Entry:
    """Read an entry of the sparse index. Raises `Misconfigured`."""
    try:
        record = Record(
            token=_text(item, "lockToken"),
            state=_state(item),
            attempt_id=_text(item, "attempt"),
            fence=0,
            locked_by=_text(item, "lockedBy"),
            created=_time(item, "created"),
            expected_completion=_time(item, "expectedCompletion"),
        )
        return Entry(record, _shard(item))
    except MalformedRow as malformed:
        token = _name_of(item)
        raise Misconfigured(
            f"index byStatus, token {token}: {malformed} is missing or malformed; the index must project "
            "lockedBy, created and attempt, and the table must have no other program's rows",
            token=token,
        ) from malformed


def part_of(item: Attributes) -> bytes:
    """Return the bytes of a part row. Raises `Misconfigured`."""
    try:
        return _bytes(item, "data")
    except MalformedRow as malformed:
        token = _name_of(item)
        message = f"the part {token} of a result was not written by lambda-once: {malformed} is malformed"
        raise Misconfigured(message, token=token) from malformed


# ---------------------------------------------------------------- single attributes


def _name_of(item: Attributes) -> str | None:
    try:
        return _text(item, "lockToken")
    except MalformedRow:
        return None


def _typed(item: Attributes, name: str, letter: str, kind: type | tuple[type, ...]) -> object:
    try:
        found = item[name][letter]
    except (KeyError, TypeError):
        raise MalformedRow(name) from None
    if not isinstance(found, kind):
        raise MalformedRow(name)
    return found


def _text(item: Attributes, name: str) -> str:
    return cast("str", _typed(item, name, "S", str))


def _bytes(item: Attributes, name: str) -> bytes:
    return bytes(cast("bytes", _typed(item, name, "B", (bytes, bytearray))))


def _optional(read: Callable[[Attributes, str], V], item: Attributes, name: str) -> V | None:
    return read(item, name) if name in item else None


def _whole(item: Attributes, name: str) -> int:
    try:
        return int(item[name]["N"])
    except (KeyError, TypeError, ValueError):
        raise MalformedRow(name) from None


def parse_stamp(text: str) -> datetime:
    """Read what `core.clock.stamp` wrote. Raises ValueError for anything that is no time."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _time(item: Attributes, name: str) -> datetime:
    try:
        return parse_stamp(_text(item, name))
    except (ValueError, OverflowError):
        raise MalformedRow(name) from None


def _write(item: Attributes, name: str) -> str:
    write = _text(item, name)
    if not write:
        raise MalformedRow(name)
    return write


def _caller(item: Attributes, name: str) -> str:
    """Return the mark of the caller (`Presented.mark`): an attempt id, a dot, and an HMAC or a word."""
    caller = _text(item, name)
    if not all(caller.partition(".")):
        raise MalformedRow(name)
    return caller


def _state(item: Attributes) -> State:
    if "status" not in item:
        return State.COMPLETE if "actualCompletion" in item else State.RELEASED
    try:
        return State(_text(item, "status").partition("_")[0])
    except ValueError:
        raise MalformedRow("status") from None


def _shard(item: Attributes) -> int | None:
    suffix = _text(item, "status").partition("_")[2]
    if not suffix:
        return None
    if not (suffix.isascii() and suffix.isdigit()):
        raise MalformedRow("status")
    return int(suffix)


def _stored(item: Attributes) -> Stored:
    if "result" in item:
        try:
            return Inline(_text(item, "result"))
        except MalformedRow:
            return Inline(_bytes(item, "result"))
    if "parts" not in item:
        return _optional(_unavailable, item, "resultUnavailable")
    count = _whole(item, "parts")
    if not 0 < count <= PARTS_LIMIT:
        raise MalformedRow("parts")
    return Parts(count)


def _unavailable(item: Attributes, name: str) -> Unavailable:
    try:
        return Unavailable(_text(item, name))
    except ValueError:
        raise MalformedRow(name) from None


def _failure(item: Attributes, name: str) -> Failure:
    try:
        error = item[name]["M"]
        return Failure(_text(error, "kind"), _text(error, "message"), _optional(_bytes, error, "sealed"))
    except (KeyError, TypeError, MalformedRow):
        raise MalformedRow(name) from None


def _resolution(item: Attributes, name: str) -> Resolution:
    try:
        note = item[name]["M"]
        return Resolution(
            by=_text(note, "by"),
            because=_text(note, "because"),
            at=_time(note, "at"),
            attempt_id=_text(note, "attempt"),
            kind=Decider(_text(note, "kind")),
            times=_whole(note, "times"),
        )
    except (KeyError, TypeError, ValueError):  # MalformedRow, too
        raise MalformedRow(name) from None
