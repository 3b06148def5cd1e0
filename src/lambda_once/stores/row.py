"""
The row of a token in the table: its attributes, and how they are written and read.

`ROW` lists the plain attributes, each a field of `Record`. The others have their own code: the state
(``status``, or which attributes are present), the partition of the index (``listed``), the result in one of
three forms, the error, the decisions. `requests` has the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, NamedTuple, assert_never
from zlib import crc32

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Decider, Decision, Failure, Record, Resolve, State
from lambda_once.core.results import PARTS_LIMIT, Chunks, Inline, Parts, Stored, Unavailable
from lambda_once.core.writes import BROUGHT
from lambda_once.errors import Misconfigured

TOKEN: Final = "lockToken"
"""The partition key of every token table; there is no sort key."""
INDEX: Final = "byStatus"
"""The index of unfinished tokens, by ``listed`` and ``expectedCompletion``."""
INDEXED: Final = (TOKEN, "listed", "expectedCompletion", "lockedBy", "created", "attempt")
"""The attributes of an entry in it."""
PARTITIONS: Final = 8
"""
Partitions of the index for each state, by the hash of the token.

One takes 1,000 write units a second (developer guide, partitions).
"""
Item = dict[str, dict[str, Any]]
"""An item of the low-level client: ``{"lockToken": {"S": "…"}}``."""
Attributes = Mapping[str, Mapping[str, Any]]


class Entry(NamedTuple):
    """A row as an operator sees it: whole, or as the sparse index has it, which lags behind the table."""

    record: Record

    @property
    def is_whole(self) -> bool:
        """Whether this is the whole row; the index has no fence, no outcome and no decisions."""
        return self.record.fence > 0


class MalformedRow(ValueError):
    """An attribute is missing or malformed; its name is the message."""


# ---------------------------------------------------------------- types


def _identifier(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _mark(text: str) -> str:
    """Return the caller's mark (`Presented.mark`): an attempt id, a dot, and an HMAC or a word."""
    if not all(text.partition(".")):
        raise ValueError
    return text


def parse_stamp(text: str) -> datetime:
    """Read a time written by `core.clock.stamp`. Raises ValueError for anything else."""
    at = datetime.fromisoformat(text)
    return at if at.tzinfo is UTC else at.astimezone(UTC)


class Type(NamedTuple):
    """
    A type of attributes: DynamoDB's *letter*, and how a value is written to it, shown as JSON, and read.

    A function that is None leaves the value unchanged. *read* raises ValueError or OverflowError for a value
    that it cannot read.
    """

    letter: str
    write: Callable[[Any], str] | None = None
    json: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


TEXT: Final = Type("S")
ID: Final = Type("S", read=_identifier)
MARK: Final = Type("S", read=_mark)
TIME: Final = Type("S", stamp, stamp, parse_stamp)
WHOLE: Final = Type("N", str, read=int)
BYTES: Final = Type("B", read=bytes)
HEX: Final = Type("S", bytes.hex, read=bytes.fromhex)
"""Bytes as text: with a B in a response, the decoder calls Python code for every object in it."""
_KINDS: Final[dict[str, Any]] = {"S": str, "N": str, "B": (bytes, bytearray)}
"""The type of the low-level client's value for a letter."""


def _read(item: Attributes, name: str, kind: Type) -> Any:
    """Return the attribute *name* of *item*. Raises `MalformedRow` if it is missing or malformed."""
    try:
        value = item[name][kind.letter]
        if isinstance(value, _KINDS[kind.letter]):
            return value if kind.read is None else kind.read(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        pass
    raise MalformedRow(name)


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
    Attribute("fields", "fields", HEX, When.OUTCOME, shown=False),
    Attribute("caller", "caller", MARK, When.ATTEMPT, shown=False),
    Attribute("trace", "trace", TEXT, When.ATTEMPT),
    Attribute("ttl", "ttl", WHOLE, When.ATTEMPT),
    Attribute("generation", "generation", TEXT, When.WORK, shown=False),
)
_PLAIN: Final = tuple(
    (name, field, kind.letter, _KINDS[kind.letter], kind.read, when is When.ALWAYS)
    for name, field, kind, when, _ in ROW
)
ALWAYS: Final = tuple(each.name for each in ROW if each.when is When.ALWAYS)
OPTIONAL: Final = tuple(each.name for each in ROW if each.when is When.ATTEMPT)
OUTCOME: Final = (
    *(each.name for each in ROW if each.when is When.OUTCOME),
    *("result", "parts", "resultUnavailable", "error"),
)
LISTED: Final = (TOKEN, "status", "listed", "decisions", *(each.name for each in ROW if each.shown))
"""What operators see of a row besides its result and error: all that TokenListing in tokens.yaml allows."""
GIVEN: Final = tuple((each.name, each.field, *each.type[:2]) for each in ROW if each.field in BROUGHT)
"""Name, field, letter and writer of each attribute that an acquisition sets."""


# ---------------------------------------------------------------- writing


def listed(state: State, token: str) -> str:
    """Return the ``listed`` of a row that the index has: the word of *state* and the token's partition."""
    return f"{state.value}_{crc32(token.encode()) % PARTITIONS}"


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
    attributes: Item = {name: {"S": text} for name, text in texts.items()}
    return {"M": attributes | {"times": {"N": str(decision.times)}}}


# ---------------------------------------------------------------- reading


def record_of(item: Attributes) -> Record:
    """Return the record of a row. Raises `Misconfigured` for a row that this package did not write."""
    try:
        return Record(
            token=_read(item, TOKEN, TEXT),
            state=_state(item),
            stored=_stored(item),
            error=_failure(item) if "error" in item else None,
            decisions=_decisions(item) if "decisions" in item else (),
            **_plain(item),
        )
    except MalformedRow as malformed:
        token = _token_of(item)
        raise Misconfigured(
            f"the row of token {token} was not written by lambda-once: {malformed} is missing or malformed; "
            "use a table that no other program writes to, or delete the row",
            token=token,
        ) from malformed


def _plain(item: Attributes) -> dict[str, Any]:
    """Return the plain attributes of *item* by field, as `_read` returns them, but in one faster loop."""
    values: dict[str, Any] = {}
    name = ""
    try:
        for name, field, letter, kinds, read, always in _PLAIN:
            if always or name in item:
                value = item[name][letter]
                if not isinstance(value, kinds):
                    raise MalformedRow(name)
                values[field] = value if read is None else read(value)
    except (KeyError, TypeError, ValueError, OverflowError):
        raise MalformedRow(name) from None
    return values


def shown(record: Record) -> dict[str, Any]:
    """Return the plain attributes of *record* as JSON values, for operators; null if it has none."""
    values: dict[str, Any] = {}
    for name, field, kind, _, is_shown in ROW:
        value = getattr(record, field)
        if is_shown:
            values[name] = value if value is None or kind.json is None else kind.json(value)
    return values


def indexed(item: Attributes) -> Entry:
    """Return an entry of the sparse index. Raises `Misconfigured`."""
    try:
        record = Record(
            token=_read(item, TOKEN, TEXT),
            state=_listed_state(item),
            attempt_id=_read(item, "attempt", TEXT),
            fence=0,
            locked_by=_read(item, "lockedBy", TEXT),
            created=_read(item, "created", TIME),
            expected_completion=_read(item, "expectedCompletion", TIME),
        )
        return Entry(record)
    except MalformedRow as malformed:
        token = _token_of(item)
        raise Misconfigured(
            f"index {INDEX}, token {token}: {malformed} is missing or malformed; the index must project "
            "lockedBy, created and attempt, and the table must have no other program's rows",
            token=token,
        ) from malformed


def part_of(item: Attributes) -> bytes:
    """Return the bytes of a part row. Raises `Misconfigured`."""
    try:
        return bytes(_read(item, "data", BYTES))
    except MalformedRow as malformed:
        token = _token_of(item)
        message = f"the part {token} of a result was not written by lambda-once: {malformed} is malformed"
        raise Misconfigured(message, token=token) from malformed


def _token_of(item: Attributes) -> str | None:
    try:
        token: str = _read(item, TOKEN, TEXT)
    except MalformedRow:
        return None
    return token


def _state(item: Attributes) -> State:
    if "status" not in item:
        return State.COMPLETE if "actualCompletion" in item else State.RELEASED
    try:
        return State(_read(item, "status", TEXT))
    except ValueError:
        raise MalformedRow("status") from None


def _listed_state(item: Attributes) -> State:
    """Return the state of an entry, its ``listed`` without the suffix: ``status`` is not projected."""
    partition = _read(item, "listed", TEXT)
    for state in State:
        if partition == listed(state, item[TOKEN]["S"]):
            return state
    raise MalformedRow("listed")


def _stored(item: Attributes) -> Stored:
    if "result" in item:
        try:
            return Inline(_read(item, "result", TEXT))
        except MalformedRow:
            return Inline(_read(item, "result", BYTES))
    if "parts" in item:
        count = _read(item, "parts", WHOLE)
        if not 0 < count <= PARTS_LIMIT:
            raise MalformedRow("parts")
        return Parts(count)
    if "resultUnavailable" not in item:
        return None
    try:
        return Unavailable(_read(item, "resultUnavailable", TEXT))
    except ValueError:
        raise MalformedRow("resultUnavailable") from None


def _failure(item: Attributes) -> Failure:
    try:
        error = item["error"]["M"]
        sealed = _read(error, "sealed", BYTES) if "sealed" in error else None
        return Failure(_read(error, "kind", TEXT), _read(error, "message", TEXT), sealed)
    except (KeyError, TypeError, MalformedRow):
        raise MalformedRow("error") from None


def _decisions(item: Attributes) -> tuple[Decision, ...]:
    try:
        return tuple(_decision(entry["M"]) for entry in item["decisions"]["L"])
    except (KeyError, TypeError, ValueError):  # MalformedRow, too
        raise MalformedRow("decisions") from None


def _decision(entry: Attributes) -> Decision:
    return Decision(
        at=_read(entry, "at", TIME),
        kind=Decider(_read(entry, "kind", TEXT)),
        by=_read(entry, "by", TEXT),
        because=_read(entry, "because", TEXT),
        before=State(_read(entry, "before", TEXT)),
        how=Resolve(_read(entry, "how", TEXT)),
        attempt_id=_read(entry, "attempt", TEXT),
        caller=_read(entry, "caller", TEXT) if "caller" in entry else None,
        times=_read(entry, "times", WHOLE),
    )
