"""
Requests to the token table as values, each condition with the guarantee that it implements.

An acquisition or a finish becomes the arguments of ``UpdateItem``, or a PartiQL statement of a batch. Pure.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds, stamp
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import INLINE_LIMIT, Inline
from lambda_once.core.variables import Listing
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Complete,
    Extend,
    Hold,
    Holder,
    Keep,
    Pin,
    Release,
    Resolver,
    Unclaimed,
    Write,
    clears,
)
from lambda_once.stores.contract import Won
from lambda_once.stores.proof import ATTEMPT, GRANT
from lambda_once.stores.row import (
    GIVEN,
    OPTIONAL,
    OUTCOME,
    Item,
    decision_list,
    error_map,
    listed,
    result_attribute,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


Arguments = dict[str, Any]

RESERVED = ("before", "error", "fields", "result", "status", "ttl", "write")
"""Those of our attributes that need a placeholder (DynamoDB developer guide, "Reserved words")."""

OPEN = ("status", "listed")
"""Attributes of a row whose token is unfinished; the index has the rows with ``listed``."""

PART_MARGIN = 86_400
"""Seconds that a part outlives its row, because DynamoDB deletes expired items in any order."""

# ------------------------------------------------------------------ the conditions

ABSENT = "attribute_not_exists(lockToken)"

# Another program's row is never overwritten: a row without our attributes refuses, and is reported.
OF_THIS_PACKAGE = (
    "attribute_type(attempt, :text) AND attribute_type(fence, :number) AND attribute_type(lockedBy, :text) "
    "AND attribute_type(created, :text) AND attribute_type(expectedCompletion, :text)"
)
_IN_PROGRESS: dict[str, str] = {"S": State.IN_PROGRESS.value}
KINDS: Item = {":text": {"S": "S"}, ":number": {"S": "N"}}

# Neither in progress nor held. A token released by a decision is in the index until an attempt runs.
ENDED = "(attribute_not_exists(#status) OR begins_with(#status, :released))"
OF_ENDED: Item = {":released": {"S": State.RELEASED.value}}

# An ended row past its ttl counts as absent: DynamoDB may be two days late in deleting it.
EXPIRED = f"({ENDED} AND #ttl <= :now_s)"

# "attempt <> :a": a delayed copy of our own acquisition must not reopen a token that we released.
FREE = f"({ENDED} AND ((attribute_not_exists(actualCompletion) AND attempt <> :a) OR #ttl <= :now_s))"

# Guarantee 1: a token in progress is taken over only when its lease is over.
# Guarantee 9: one with a caller is taken over only as seen, after the callers were compared.
LAPSED = (
    "(begins_with(#status, :in_progress) AND expectedCompletion < :now AND attempt <> :a "
    "AND attribute_not_exists(caller){same_payload})"
)

# Another payload under this key is KeyReused, never a takeover.
SAME_PAYLOAD = " AND (attribute_not_exists(fingerprint) OR fingerprint = :f)"

# Under hold and probe only the row that was read is acquired, or a delayed copy would be held for review.
RELEASED_AS_SEEN = f"attempt = :seen AND {ENDED} AND attribute_not_exists(actualCompletion)"

# Only the attempt and the lease that the probe checked, or two probing attempts would both run.
LAPSED_AS_SEEN = "attempt = :seen AND begins_with(#status, :in_progress) AND expectedCompletion = :lease"

# Likewise, only the row that was read is resolved: held, complete or released.
HELD_AS_SEEN = "attempt = :seen AND begins_with(#status, :held) AND expectedCompletion = :lease"
FINISHED_AS_SEEN = (
    "attempt = :seen AND attribute_not_exists(#status) AND attribute_exists(actualCompletion) "
    "AND expectedCompletion = :lease AND fence = :fence"
)
RELEASED_WITH_LEASE = f"{RELEASED_AS_SEEN} AND expectedCompletion = :lease"

# Guarantee 2: every write after the acquisition requires that the token is still ours and still in progress.
OURS = "attempt = :a AND begins_with(#status, :in_progress)"
OURS_IN_PARTIQL = '"attempt" = ? AND begins_with("status", ?)'

# No extension shortens a lease: a delayed copy must not undo a later one, or two attempts hold the token.
LONGER = " AND expectedCompletion < :new"

# ------------------------------------------------------------------ acquire

_NONE: dict[str, str] = {"S": "none"}
"""Value of ``before`` if the token had no status; the first acquisition of a token writes none."""


def acquire(table: str, acquisition: Acquire) -> Arguments:
    """
    Acquire the token, and clear the attributes of an earlier attempt, by one conditional write.

    It lists the token in either mode: the watchdog reads only INSERTs in the stream, and this is a change.
    """
    sets = acquired_attributes(acquisition, Listing.AT_ONCE)
    removed = [name for name in (*OUTCOME, *OPTIONAL) if name not in sets]
    condition, values = _claim(acquisition)
    # The fence starts at the clock's milliseconds, so that it grows across deletion and expiry too.
    # The response is the new row, with the attempt id, so the previous status is stored there as `before`.
    extra = (
        "fence = if_not_exists(fence, :epoch_ms) + :one, #before = if_not_exists(#status, :before), "
        f"generation = if_not_exists(generation, {ATTEMPT})"
    )
    values |= {
        ":epoch_ms": {"N": str(epoch_milliseconds(acquisition.now))},
        ":one": {"N": str(1)},
        ":before": _NONE,
    }
    request = _update(table, acquisition.token, sets, removed, condition, values, extra=extra)
    return request | {"ReturnValues": GRANT}


def acquire_new(table: str, acquisition: Acquire, listing: Listing) -> Arguments:
    """
    Acquire a token that has no row. Any row refuses it, and comes with the refusal.

    Nearly every acquisition meets no row, or a complete one, so what a take-over needs is left out. With
    `Listing.STREAM` the token is not listed: the watchdog reads the INSERT in the stream.
    """
    sets = {**acquired_attributes(acquisition, listing), "fence": {"N": str(acquisition.first_fence)}}
    extra = f"generation = {ATTEMPT}"
    return _update(table, acquisition.token, sets, [], ABSENT, {}, extra=extra) | {"ReturnValues": GRANT}


def won(row: Item) -> Won:
    """Return the answer to an acquisition whose response is *row*."""
    took_over = row.get("before", _NONE)["S"].startswith(State.IN_PROGRESS.value)
    return Won(int(row["fence"]["N"]), took_over, generation=row["generation"]["S"])


def acquired_attributes(acquisition: Acquire, listing: Listing) -> Item:
    """Return the attributes that an acquisition sets, without the key, the fence and the generation."""
    attributes: Item = {
        "created": {"S": stamp(acquisition.now)},
        "expectedCompletion": {"S": stamp(acquisition.lease)},
        "status": _IN_PROGRESS,
    }
    if listing is Listing.AT_ONCE:
        attributes["listed"] = {"S": listed(State.IN_PROGRESS, acquisition.token)}
    for name, field, letter, write in GIVEN:
        value = getattr(acquisition, field)
        if value is not None:
            attributes[name] = {letter: value if write is None else write(value)}
    return attributes


def _listed(state: State, token: str) -> Item:
    return {"listed": {"S": listed(state, token)}}


def _claim(acquisition: Acquire) -> tuple[str, Item]:
    match acquisition.take:
        case Unclaimed(take_over=True):
            same_payload = "" if acquisition.fingerprint is None else SAME_PAYLOAD
            lapsed = LAPSED.format(same_payload=same_payload)
            condition = f"{ABSENT} OR ({OF_THIS_PACKAGE} AND ({FREE} OR {lapsed}))"
            values = (
                KINDS
                | {
                    ":now_s": {"N": str(epoch_seconds(acquisition.now))},
                    ":now": {"S": stamp(acquisition.now)},
                    ":a": {"S": acquisition.attempt_id},
                    ":in_progress": _IN_PROGRESS,
                }
                | OF_ENDED
            )
            if acquisition.fingerprint is not None:
                values[":f"] = {"S": acquisition.fingerprint}
            return condition, values
        case Unclaimed():
            values = KINDS | OF_ENDED | {":now_s": {"N": str(epoch_seconds(acquisition.now))}}
            return f"{ABSENT} OR ({OF_THIS_PACKAGE} AND {EXPIRED})", values
        case AsSeen(attempt, datetime() as lease):
            values = {":seen": {"S": attempt}, ":lease": {"S": stamp(lease)}, ":in_progress": _IN_PROGRESS}
            return LAPSED_AS_SEEN, values
        case AsSeen(attempt):
            return RELEASED_AS_SEEN, {":seen": {"S": attempt}} | OF_ENDED
        case _ as unreachable:
            assert_never(unreachable)


# ------------------------------------------------------------------ finish


def finish(table: str, write: Write) -> Arguments:
    """Write *write*. Refused once another attempt has the token (guarantee 2)."""
    sets, removed = changed_attributes(write)
    condition, values = _owner(write)
    extra = ""
    if isinstance(write.by, Resolver):
        sets["attempt"] = {"S": write.by.attempt_id}
        extra = "fence = fence + :one"
        values[":one"] = {"N": str(1)}
    return _update(table, write.token, sets, removed, condition, values, extra=extra)


def list_open(table: str, record: Record) -> Arguments:
    """List the token of *record*, which is in progress. Refused once its attempt has ended (guarantee 2)."""
    values = {":a": {"S": record.attempt_id}, ":in_progress": _IN_PROGRESS}
    return _update(table, record.token, _listed(State.IN_PROGRESS, record.token), [], OURS, values)


def changed_attributes(write: Write) -> tuple[Item, list[str]]:
    """
    Return the attributes that *write* sets, except attempt and fence, and those that it removes.

    A write that leaves the token unfinished sets ``listed``, in either mode; one that ends it removes status
    and listed.
    """
    sets, removed = _changed(write)
    if write.id is not None:
        sets["write"] = {"S": write.id}
    if write.fields is not None:
        sets["fields"] = {"S": write.fields.hex()}
    if clears(write):
        removed = [name for name in dict.fromkeys((*OUTCOME, *removed)) if name not in sets]
    if write.decisions:
        sets["decisions"] = decision_list(write.decisions)
    if write.ttl is None:
        return sets, [*removed, "ttl"]
    return sets | {"ttl": {"N": str(write.ttl)}}, removed


def _owner(write: Write) -> tuple[str, Item]:
    match write.by:
        case Holder(attempt):
            values = {":a": {"S": attempt}, ":in_progress": _IN_PROGRESS}
            if isinstance(write.change, Extend):
                return OURS + LONGER, values | {":new": {"S": stamp(write.change.lease)}}
            return OURS, values
        case Resolver(attempt, lease, state=state, fence=fence):
            condition, values = _as_seen(state, fence)
            return condition, {":seen": {"S": attempt}, ":lease": {"S": stamp(lease)}} | values
        case _ as unreachable:
            assert_never(unreachable)


def _as_seen(state: State, fence: int) -> tuple[str, Item]:
    """Return the condition that the row is still as the resolver read it, and its values."""
    match state:
        case State.IN_PROGRESS:
            return LAPSED_AS_SEEN, {":in_progress": {"S": state.value}}
        case State.HELD:
            return HELD_AS_SEEN, {":held": {"S": state.value}}
        case State.COMPLETE:
            return FINISHED_AS_SEEN, {":fence": {"N": str(fence)}}
        case State.RELEASED:
            return RELEASED_WITH_LEASE, OF_ENDED
        case _ as unreachable:
            assert_never(unreachable)


def _changed(write: Write) -> tuple[Item, list[str]]:
    match write.change:
        case Complete(result, error):
            sets = {"actualCompletion": {"S": stamp(write.now)}} | result_attribute(result)
            return sets | ({} if error is None else {"error": error_map(error)}), [*OPEN, "generation"]
        case Hold(error):
            sets = {"status": {"S": State.HELD.value}, **_listed(State.HELD, write.token)}
            return sets | {"actualCompletion": {"S": stamp(write.now)}, "error": error_map(error)}, []
        case Release(error):
            sets, removed = _released(write)
            if error is None:
                return sets, [*removed, "error"]
            return sets | {"error": error_map(error)}, removed
        case Extend(lease):
            sets = {"expectedCompletion": {"S": stamp(lease)}}
            return sets | _listed(State.IN_PROGRESS, write.token), []
        case Pin():
            return _listed(State.IN_PROGRESS, write.token), []
        case Keep():
            return {}, []
        case _ as unreachable:
            assert_never(unreachable)


def _released(write: Write) -> tuple[Item, list[str]]:
    """Return what a release sets and removes, without its error; one without a ttl is listed."""
    if write.ttl is not None:
        return {}, [*OPEN]
    sets = {"status": {"S": State.RELEASED.value}, **_listed(State.RELEASED, write.token)}
    return sets | {"expectedCompletion": {"S": stamp(write.now)}}, []


# ------------------------------------------------------------------ PartiQL


def insert(table: str, acquisition: Acquire, listing: Listing) -> Arguments:
    """Acquire a token that has no row, as `acquire_new`. Any row refuses it (``DuplicateItem``)."""
    row = {
        "lockToken": {"S": acquisition.token},
        "fence": {"N": str(acquisition.first_fence)},
        "generation": {"S": acquisition.attempt_id},
        **acquired_attributes(acquisition, listing),
    }
    return {"Statement": _insert_into(table, tuple(row)), "Parameters": list(row.values())}


def can_update(write: Write) -> bool:
    """
    Return whether a statement can express *write*: by the holder, no extension, no long result.

    25 long results in their rows, as their parts could not be written, would make a request of 9 MB.
    """
    match write.change:
        case Extend():
            return False
        case Complete(Inline(data)) if len(data) > INLINE_LIMIT:
            return False
        case _:
            return isinstance(write.by, Holder)


def update(table: str, write: Write) -> Arguments:
    """Write *write*. Refused (``ConditionalCheckFailed``) as `finish` is (guarantee 2)."""
    sets, removed = changed_attributes(write)
    return {
        "Statement": _update_where(table, tuple(sets), tuple(removed), OURS_IN_PARTIQL),
        "Parameters": [
            *sets.values(),
            {"S": write.token},
            {"S": write.attempt_id},
            _IN_PROGRESS,
        ],
    }


@lru_cache(maxsize=64)
def _insert_into(table: str, names: tuple[str, ...]) -> str:
    values = ", ".join(f"'{name}': ?" for name in names)
    return f'INSERT INTO "{table}" VALUE {{{values}}}'


@lru_cache(maxsize=64)
def _update_where(table: str, sets: tuple[str, ...], removed: tuple[str, ...], condition: str) -> str:
    changes = [f'SET "{name}" = ?' for name in sets] + [f'REMOVE "{name}"' for name in removed]
    return f'UPDATE "{table}" {" ".join(changes)} WHERE "lockToken" = ? AND {condition}'


# ------------------------------------------------------------------ parts of large results


def part_key(token: str, attempt_id: str, write_id: str | None, number_of_part: int) -> str:
    """
    Return the key of a part row. It has the ids of attempt and write.

    So a late attempt can't overwrite its successor's parts, nor one completion those of another.
    """
    return f"{token}#{attempt_id}#{write_id}#{number_of_part}"


def part_items(write: Write, parts: Sequence[bytes]) -> list[Item]:
    """Return the part rows of *write*'s result."""
    assert write.ttl is not None, "a completed row has a ttl"  # noqa: S101  (Write is made by the engine alone)
    ttl = {"N": str(write.ttl + PART_MARGIN)}
    return [
        {
            "lockToken": {"S": part_key(write.token, write.attempt_id, write.id, n)},
            "data": {"B": part},
            "ttl": ttl,
        }
        for n, part in enumerate(parts)
    ]


def part_keys(record: Record, count: int) -> list[Item]:
    return [
        {"lockToken": {"S": part_key(record.token, record.attempt_id, record.write_id, n)}}
        for n in range(count)
    ]


# A deleted part is not created again, without its data; one with a later ttl keeps that.
SHORTER_LIVED = "attribute_exists(lockToken) AND #ttl < :ttl"


def kept_parts(table: str, write: Write, keep: Keep) -> list[Arguments]:
    """Extend the ttl of each part of the outcome beyond that of the row."""
    assert write.ttl is not None, "a completed row has a ttl"  # noqa: S101  (as in `part_items`)
    ttl = {"N": str(write.ttl + PART_MARGIN)}
    return [
        {
            "TableName": table,
            "Key": {"lockToken": {"S": part_key(write.token, write.attempt_id, keep.write_id, n)}},
            "UpdateExpression": "SET #ttl = :ttl",
            "ConditionExpression": SHORTER_LIVED,
            "ExpressionAttributeNames": {"#ttl": "ttl"},
            "ExpressionAttributeValues": {":ttl": ttl},
        }
        for n in range(keep.parts)
    ]


# ------------------------------------------------------------------ delete


def deletion(table: str, record: Record) -> Arguments:
    """Delete the row of *record*, which is complete. Refused unless it is exactly as it was read."""
    condition, values = _as_seen(State.COMPLETE, record.fence)
    values = {":seen": {"S": record.attempt_id}, ":lease": {"S": stamp(record.expected_completion)}} | values
    return {
        "TableName": table,
        "Key": {"lockToken": {"S": record.token}},
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {"#status": "status"},
        "ExpressionAttributeValues": values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


# ------------------------------------------------------------------ the shape of an UpdateItem


def _update(
    table: str, token: str, sets: Item, removed: list[str], condition: str, values: Item, *, extra: str = ""
) -> Arguments:
    expression, names = _expression(tuple(sets), tuple(removed), condition, extra)
    return {
        "TableName": table,
        "Key": {"lockToken": {"S": token}},
        "UpdateExpression": expression,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": dict(names),
        "ExpressionAttributeValues": {
            **dict(zip(placeholders(tuple(sets)), sets.values(), strict=True)),
            **values,
        },
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


@lru_cache(maxsize=64)  # a function sends the same few forms again and again
def _expression(
    sets: tuple[str, ...], removed: tuple[str, ...], condition: str, extra: str
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the update expression, and the name placeholders in it and in *condition*, with their names."""
    pairs = zip(map(_name_of, sets), placeholders(sets), strict=True)
    assignments = [f"{name} = {value}" for name, value in pairs] + ([extra] if extra else [])
    expression = f"SET {', '.join(assignments)}" if assignments else ""
    if removed:
        expression = f"{expression} REMOVE {', '.join(map(_name_of, removed))}".strip()
    both = f"{expression} {condition}"
    return expression, tuple((f"#{name}", name) for name in RESERVED if f"#{name}" in both)


def placeholders(sets: Iterable[str]) -> tuple[str, ...]:
    """Return the placeholders for the values of the attributes *sets*: short, as each is sent twice."""
    return tuple(ATTEMPT if name == "attempt" else f":{n}" for n, name in enumerate(sets))


def _name_of(attribute: str) -> str:
    return f"#{attribute}" if attribute in RESERVED else attribute
