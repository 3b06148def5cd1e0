"""
The row of a token in the table: its attributes, and how they are written and read.

`ROW` lists the plain attributes, each a field of `Record`. The others have their own code: the state
(``status``, or which attributes are present), the result in one of three forms, the error, the decisions.
`requests` has the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple, TypeVar, assert_never

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Decider, Decision, Failure, Record, Resolve, State
from lambda_once.core.results import PARTS_LIMIT, Chunks, Inline, Parts, Stored, Unavailable
from lambda_once.core.writes import BROUGHT
from lambda_once.errors import Misconfigured

TOKEN: Final = "lockToken"
"""The partition key of every token table; there is no sort key."""
INDEX: Final = "byStatus"
"""The index of unfinished tokens, by ``status`` and ``expectedCompletion``."""
INDEXED: Final = (TOKEN, "status", "expectedCompletion", "lockedBy", "created", "attempt")
"""The attributes of an entry in it."""
Item = dict[str, dict[str, Any]]
"""An item of the low-level client: ``{"lockToken": {"S": "…"}}``."""
Attributes = Mapping[str, Mapping[str, Any]]
V = TypeVar("V")


class Entry(NamedTuple):
    """A row as an operator sees it: whole, or as the sparse index has it, which lags behind the table."""

    record: Record
    shard: int | None = None
    """The suffix of its status in the index, if any."""

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole row; the index has no fence, no outcome and no decisions."""
        return self.record.fence > 0


class MalformedRow(ValueError):
    """An attribute is missing or malformed; its name is the message."""


# ---------------------------------------------------------------- types


def _typed(item: Attributes, name: str, letter: str, kind: type | tuple[type, ...]) -> Any:
    try:
        found = item[name][letter]
    except (KeyError, TypeError):
        raise MalformedRow(name) from None
    if not isinstance(found, kind):
        raise MalformedRow(name)
    return found


def _text(item: Attributes, name: str) -> str:
    found: str = _typed(item, name, "S", str)
    return found


def _identifier(item: Attributes, name: str) -> str:
    found = _text(item, name)
    if not found:
        raise MalformedRow(name)
    return found


def _mark(item: Attributes, name: str) -> str:
    """Return the caller's mark (`Presented.mark`): an attempt id, a dot, and an HMAC or a word."""
    mark = _text(item, name)
    if not all(mark.partition(".")):
        raise MalformedRow(name)
    return mark


def _bytes(item: Attributes, name: str) -> bytes:
    return bytes(_typed(item, name, "B", (bytes, bytearray)))


def _whole(item: Attributes, name: str) -> int:
    try:
        return int(item[name]["N"])
    except (KeyError, TypeError, ValueError):
        raise MalformedRow(name) from None


def parse_stamp(text: str) -> datetime:
    """Read a time written by `core.clock.stamp`. Raises ValueError for anything else."""
    return datetime.fromisoformat(text).astimezone(UTC)


def _time(item: Attributes, name: str) -> datetime:
    try:
        return parse_stamp(_text(item, name))
    except (ValueError, OverflowError):
        raise MalformedRow(name) from None


class Type(NamedTuple):
    """How to write a value under DynamoDB's *letter* and in JSON (None: unchanged), and how to read it."""

    letter: str
    write: Callable[[Any], str] | None
    json: Callable[[Any], Any] | None
    read: Callable[[Attributes, str], Any]


TEXT: Final = Type("S", None, None, _text)
ID: Final = Type("S", None, None, _identifier)
MARK: Final = Type("S", None, None, _mark)
TIME: Final = Type("S", stamp, stamp, _time)
WHOLE: Final = Type("N", str, None, _whole)
BYTES: Final = Type("B", None, None, _bytes)


# ---------------------------------------------------------------- the table


class When(Enum):
    """When a row has an attribute."""

    ALWAYS = "always"
    ATTEMPT = "attempt"
    """If the acquisition set it; the next acquisition replaces or removes it."""
    OUTCOME = "outcome"
    """Once the attempt has ended, until the next acquisition."""
    WORK = "work"
    """From the first acquisition until the completion."""


class Attribute(NamedTuple):
    """One plain attribute: its *name* in the table, the *field* of `Record`, and whether operators see it."""

    name: str
    field: str
    type: Type
    when: When
    shown: bool = True


ROW: Final = (
    Attribute("attempt", "attempt_id", TEXT, When.ALWAYS),
    Attribute("fence", "fence", WHOLE, When.ALWAYS),
    Attribute("lockedBy", "locked_by", TEXT, When.ALWAYS),
    Attribute("created", "created", TIME, When.ALWAYS),
    Attribute("expectedCompletion", "expected_completion", TIME, When.ALWAYS),
    Attribute("actualCompletion", "actual_completion", TIME, When.OUTCOME),
    Attribute("write", "write_id", ID, When.OUTCOME, shown=False),
    Attribute("delivery", "delivery", TEXT, When.ATTEMPT),
    Attribute("fingerprint", "fingerprint", TEXT, When.ATTEMPT),
    Attribute("fields", "fields", BYTES, When.ATTEMPT, shown=False),
    Attribute("caller", "caller", MARK, When.ATTEMPT, shown=False),
    Attribute("trace", "trace", TEXT, When.ATTEMPT),
    Attribute("ttl", "ttl", WHOLE, When.ATTEMPT),
    Attribute("generation", "generation", TEXT, When.WORK, shown=False),
)
ALWAYS: Final = tuple(each.name for each in ROW if each.when is When.ALWAYS)
OPTIONAL: Final = tuple(each.name for each in ROW if each.when is When.ATTEMPT)
OUTCOME: Final = (
    *(each.name for each in ROW if each.when is When.OUTCOME),
    *("result", "parts", "resultUnavailable", "error"),
)
LISTED: Final = (TOKEN, "status", "decisions", *(each.name for each in ROW if each.shown))
"""What operators see of a row besides its result and error: all that TokenListing in tokens.yaml allows."""
GIVEN: Final = tuple((each.name, each.field, *each.type[:2]) for each in ROW if each.field in BROUGHT)
"""Name, field, letter and writer of each attribute that an acquisition sets."""
_REQUIRED: Final = tuple((each.name, each.field, each.type.read) for each in ROW if each.when is When.ALWAYS)
_OTHERS: Final = tuple(
    (each.name, each.field, each.type.read) for each in ROW if each.when is not When.ALWAYS
)


# ---------------------------------------------------------------- writing


def result_attribute(result: Inline | Chunks | Unavailable | None) -> Item:
    """Return the attribute for the result of a completed row; none for None."""
    match result:
        case None:
            return {}
        case Inline(str() as data):
            return {"result": {"S": data}}
        case Inline(data):
            return {"result": {"B": data}}
        case Chunks(parts):
            return {"parts": {"N": str(len(parts))}}
        case Unavailable():
            return {"resultUnavailable": {"S": result.value}}
        case _ as unreachable:
            assert_never(unreachable)


def error_map(error: Failure) -> dict[str, Item]:
    sealed = {} if error.sealed is None else {"sealed": {"B": error.sealed}}
    return {"M": {"kind": {"S": error.kind}, "message": {"S": error.message}, **sealed}}


def decision_list(decisions: Sequence[Decision]) -> dict[str, list[Item]]:
    return {"L": [_decision_map(decision) for decision in decisions]}


def _decision_map(decision: Decision) -> Item:
    texts = {
        "at": stamp(decision.at),
        "kind": decision.kind.value,
        "by": decision.by,
        "because": decision.because,
        "before": decision.before.value,
        "how": decision.how.value,
        "attempt": decision.attempt_id,
    }
    if decision.caller is not None:
        texts["caller"] = decision.caller
    written: Item = {name: {"S": text} for name, text in texts.items()}
    return {"M": written | {"times": {"N": str(decision.times)}}}


# ---------------------------------------------------------------- reading


def record_of(item: Attributes) -> Record:
    """Return the record of a row. Raises `Misconfigured` for a row that this package did not write."""
    try:
        plain: dict[str, Any] = {field: read(item, name) for name, field, read in _REQUIRED}
        for name, field, read in _OTHERS:
            if name in item:
                plain[field] = read(item, name)
        return Record(
            token=_text(item, "lockToken"),
            state=_state(item),
            stored=_stored(item),
            error=_optional(_failure, item, "error"),
            decisions=_optional(_decisions, item, "decisions") or (),
            **plain,
        )
    except MalformedRow as malformed:
        token = _name_of(item)
        raise Misconfigured(
            f"the row of token {token} was not written by lambda-once: {malformed} is missing or malformed; "
            "use a table that no other program writes to, or delete the row",
            token=token,
        ) from malformed


def shown(record: Record) -> dict[str, Any]:
    """Return the plain attributes of *record* as JSON values, for operators; null if it has none."""
    found: dict[str, Any] = {}
    for name, field, kind, _, is_shown in ROW:
        value = getattr(record, field)
        if is_shown:
            found[name] = value if value is None or kind.json is None else kind.json(value)
    return found


def indexed(item: Attributes) -> Entry:
    """Return an entry of the sparse index. Raises `Misconfigured`."""
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
            f"index {INDEX}, token {token}: {malformed} is missing or malformed; the index must project "
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


def _optional(read: Callable[[Attributes, str], V], item: Attributes, name: str) -> V | None:
    return read(item, name) if name in item else None


def _name_of(item: Attributes) -> str | None:
    try:
        return _text(item, "lockToken")
    except MalformedRow:
        return None


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


def _decisions(item: Attributes, name: str) -> tuple[Decision, ...]:
    try:
        return tuple(_decision(each["M"]) for each in item[name]["L"])
    except (KeyError, TypeError, ValueError):  # MalformedRow, too
        raise MalformedRow(name) from None


def _decision(found: Attributes) -> Decision:
    return Decision(
        at=_time(found, "at"),
        kind=Decider(_text(found, "kind")),
        by=_text(found, "by"),
        because=_text(found, "because"),
        before=State(_text(found, "before")),
        how=Resolve(_text(found, "how")),
        attempt_id=_text(found, "attempt"),
        caller=_optional(_text, found, "caller"),
        times=_whole(found, "times"),
    )
