"""
Requests to DynamoDB as values. Every condition of the package stands here, beside the guarantee it carries.

The functions are pure: a wish or a write becomes the arguments of ``UpdateItem``.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, assert_never

from lambda_once.core.clock import epoch_milliseconds, epoch_seconds, stamp
from lambda_once.core.record import Failure, State
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Complete,
    Extend,
    Finish,
    Hold,
    Holder,
    Onlooker,
    Pin,
    Release,
    Unclaimed,
)
from lambda_once.stores.rows import Item, error_map, number, part_key, resolution_map, status, text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lambda_once.core.record import Record

Arguments = dict[str, Any]

PART_MARGIN = 86_400
"""Seconds that a part outlives its row (DynamoDB deletes expired items in any order)."""

# ------------------------------------------------------------------ the conditions

ABSENT = "attribute_not_exists(lockToken)"

# Another program's row is never overwritten: what has our key and not our attributes refuses, to be reported.
OF_THIS_PACKAGE = (
    "attribute_type(attempt, :text) AND attribute_type(fence, :number) AND attribute_type(lockedBy, :text) "
    "AND attribute_type(created, :text) AND attribute_type(expectedCompletion, :text)"
)
KINDS: Item = {":text": {"S": "S"}, ":number": {"S": "N"}}

# A finished row past its ttl counts as absent: DynamoDB may be two days late in deleting it.
EXPIRED = "(attribute_not_exists(#status) AND #ttl <= :now_s)"

# "attempt <> :a": a delayed copy of our own acquisition must not re-open a token that we released.
FREE = (
    "(attribute_not_exists(#status) AND "
    "((attribute_not_exists(actualCompletion) AND attempt <> :a) OR #ttl <= :now_s))"
)

# Guarantee 1: what is in progress changes hands only when its lease is over.
# Guarantee 9: what has a caller is taken over as seen only, by who has found out that it is their own.
LAPSED = (
    "(begins_with(#status, :in_progress) AND expectedCompletion < :now AND attempt <> :a "
    "AND attribute_not_exists(caller){same_payload})"
)

# Another payload under this key is KeyReused, never taken over.
SAME_PAYLOAD = " AND (attribute_not_exists(fingerprint) OR fingerprint = :f)"

# Under hold and probe a ghost would call a person for nothing: exactly the row that was looked at.
RELEASED_AS_SEEN = (
    "attempt = :seen AND attribute_not_exists(#status) AND attribute_not_exists(actualCompletion)"
)

# The attempt and the lease that the probe was asked about, or two askers would both run.
LAPSED_AS_SEEN = "attempt = :seen AND begins_with(#status, :in_progress) AND expectedCompletion = :lease"

# The same for who settles what a person was called for, or what is over: exactly what was looked at.
HELD_AS_SEEN = "attempt = :seen AND begins_with(#status, :held) AND expectedCompletion = :lease"
FINISHED_AS_SEEN = (
    "attempt = :seen AND attribute_not_exists(#status) AND attribute_exists(actualCompletion) "
    "AND expectedCompletion = :lease"
)
GIVEN_BACK_AS_SEEN = f"{RELEASED_AS_SEEN} AND expectedCompletion = :lease"

# Guarantee 2: every write after the acquisition asks that the token is still ours and still in progress.
OURS = "attempt = :a AND begins_with(#status, :in_progress)"

# It only ever lengthens: a delayed copy must not shorten a later one, or there are two owners.
LONGER = " AND expectedCompletion < :new"

# ------------------------------------------------------------------ acquire

OUTCOME = ("actualCompletion", "result", "error", "parts", "resultUnavailable", "write")
OPTIONAL = ("fingerprint", "fields", "delivery", "ttl", "caller")


def acquire(table: str, wish: Acquire, shards: int) -> Arguments:
    """Take the token, whole: one conditional write that also clears what an earlier attempt left."""
    sets = acquired_attributes(wish, shards)
    removed = [name for name in (*OUTCOME, *OPTIONAL) if name not in sets]
    condition, values = _claim(wish)
    # The fence starts at the clock's milliseconds, so that it grows across deletion and expiry too.
    fence = "fence = if_not_exists(fence, :epoch_ms) + :one"
    values |= {":epoch_ms": number(epoch_milliseconds(wish.now)), ":one": number(1)}
    return _update(table, wish.token, sets, removed, condition, values, extra=fence) | {
        "ReturnValues": "ALL_OLD"
    }


def acquired_attributes(wish: Acquire, shards: int) -> Item:
    """Return what an acquisition sets, but for the key and the fence."""
    attributes: Item = {
        "lockedBy": text(wish.locked_by),
        "attempt": text(wish.attempt),
        "created": text(stamp(wish.now)),
        "expectedCompletion": text(stamp(wish.lease)),
        "status": text(status(State.IN_PROGRESS, wish.token, shards)),
    }
    if wish.fingerprint is not None:
        attributes["fingerprint"] = text(wish.fingerprint)
    if wish.fields is not None:
        attributes["fields"] = {"B": wish.fields}
    if wish.delivery is not None:
        attributes["delivery"] = text(wish.delivery)
    if wish.caller is not None:
        attributes["caller"] = text(wish.caller)
    if wish.ttl is not None:
        attributes["ttl"] = number(wish.ttl)
    return attributes


def first_fence(wish: Acquire) -> int:
    """Return the fence of a token that had no row."""
    return epoch_milliseconds(wish.now) + 1


def _claim(wish: Acquire) -> tuple[str, Item]:
    match wish.take:
        case Unclaimed(take_over=True):
            same_payload = "" if wish.fingerprint is None else SAME_PAYLOAD
            lapsed = LAPSED.format(same_payload=same_payload)
            condition = f"{ABSENT} OR ({OF_THIS_PACKAGE} AND ({FREE} OR {lapsed}))"
            values = KINDS | {
                ":now_s": number(epoch_seconds(wish.now)),
                ":now": text(stamp(wish.now)),
                ":a": text(wish.attempt),
                ":in_progress": text(State.IN_PROGRESS.value),
            }
            return condition, values | ({} if wish.fingerprint is None else {":f": text(wish.fingerprint)})
        case Unclaimed():
            values = KINDS | {":now_s": number(epoch_seconds(wish.now))}
            return f"{ABSENT} OR ({OF_THIS_PACKAGE} AND {EXPIRED})", values
        case AsSeen(attempt, datetime() as lease):
            seen = {":seen": text(attempt), ":lease": text(stamp(lease))}
            return LAPSED_AS_SEEN, seen | {":in_progress": text(State.IN_PROGRESS.value)}
        case AsSeen(attempt):
            return RELEASED_AS_SEEN, {":seen": text(attempt)}
        case _ as unreachable:
            assert_never(unreachable)


# ------------------------------------------------------------------ finish


def finish(table: str, write: Finish, shards: int) -> Arguments:
    """Write what becomes of an attempt. Refused once another one has the token (guarantee 2)."""
    sets, removed = changed_attributes(write, shards)
    condition, values = _owner(write)
    extra = ""
    if isinstance(write.by, Onlooker):
        sets["attempt"] = text(write.by.attempt)
        extra = "fence = fence + :one"
        values[":one"] = number(1)
    return _update(table, write.token, sets, removed, condition, values, extra=extra)


def changed_attributes(write: Finish, shards: int) -> tuple[Item, list[str]]:
    """Return what *write* sets and what it removes, whoever writes it."""
    sets, removed = _changed(write, shards)
    if write.write is not None:
        sets["write"] = text(write.write)
    if isinstance(write.by, Onlooker) and write.by.state is not State.IN_PROGRESS:
        removed = [name for name in (*OUTCOME, "status") if name not in sets]
    if write.note is not None:
        sets["resolution"] = resolution_map(write.note)
    if write.ttl is None:
        return sets, [*removed, "ttl"]
    return sets | {"ttl": number(write.ttl)}, removed


def _owner(write: Finish) -> tuple[str, Item]:
    match write.by:
        case Holder(attempt):
            values = {":a": text(attempt), ":in_progress": text(State.IN_PROGRESS.value)}
            if isinstance(write.change, Extend):
                return OURS + LONGER, values | {":new": text(stamp(write.change.lease))}
            return OURS, values
        case Onlooker(seen, lease, state=state):
            condition, values = _as_seen(state)
            return condition, {":seen": text(seen), ":lease": text(stamp(lease))} | values
        case _ as unreachable:
            assert_never(unreachable)


def _as_seen(state: State) -> tuple[str, Item]:
    """Return the condition that the row still is what an onlooker saw, and what it names besides."""
    match state:
        case State.IN_PROGRESS:
            return LAPSED_AS_SEEN, {":in_progress": text(state.value)}
        case State.HELD:
            return HELD_AS_SEEN, {":held": text(state.value)}
        case State.COMPLETE:
            return FINISHED_AS_SEEN, {}
        case State.RELEASED:
            return GIVEN_BACK_AS_SEEN, {}
        case _ as unreachable:
            assert_never(unreachable)


def _changed(write: Finish, shards: int) -> tuple[Item, list[str]]:
    match write.change:
        case Complete(result, error):
            sets = {"actualCompletion": text(stamp(write.now))} | result_attribute(result)
            return sets | ({} if error is None else {"error": error_map(error)}), ["status"]
        case Hold(error):
            held = text(status(State.HELD, write.token, shards))
            return {"status": held, "actualCompletion": text(stamp(write.now)), "error": error_map(error)}, []
        case Release(Failure() as error):
            return {"error": error_map(error)}, ["status"]
        case Release():
            return {}, ["status", "error"]
        case Extend(lease):
            return {"expectedCompletion": text(stamp(lease))}, []
        case Pin():
            return {}, []
        case _ as unreachable:
            assert_never(unreachable)


def result_attribute(result: Inline | Chunks | Unavailable | None) -> Item:
    """Return the one attribute that says what became of the result; none for None."""
    match result:
        case None:
            return {}
        case Inline(str() as data):
            return {"result": {"S": data}}
        case Inline(data):
            return {"result": {"B": data}}
        case Chunks(parts):
            return {"parts": number(len(parts))}
        case Unavailable():
            return {"resultUnavailable": {"BOOL": True}}
        case _ as unreachable:
            assert_never(unreachable)


# ------------------------------------------------------------------ parts of large results


def part_items(write: Finish, parts: Sequence[bytes]) -> list[Item]:
    """Return the part rows of *write*'s result: keyed by attempt and write, and outliving the row."""
    assert write.ttl is not None, "a completed row has a ttl"  # noqa: S101  (Finish is made by the engine alone)
    ttl = number(write.ttl + PART_MARGIN)
    return [
        {
            "lockToken": text(part_key(write.token, write.attempt, write.write, n)),
            "data": {"B": part},
            "ttl": ttl,
        }
        for n, part in enumerate(parts)
    ]


def part_keys(record: Record, count: int) -> list[Item]:
    return [
        {"lockToken": text(part_key(record.token, record.attempt, record.write, n))} for n in range(count)
    ]


# ------------------------------------------------------------------ the shape of an UpdateItem


def _update(
    table: str, token: str, sets: Item, removed: list[str], condition: str, values: Item, *, extra: str = ""
) -> Arguments:
    expression, names = _wording(tuple(sets), tuple(removed), condition, extra)
    return {
        "TableName": table,
        "Key": {"lockToken": text(token)},
        "UpdateExpression": expression,
        "ConditionExpression": condition,
        "ExpressionAttributeNames": dict(names),
        "ExpressionAttributeValues": {f":{name}_": value for name, value in sets.items()} | values,
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }


@lru_cache(maxsize=64)  # a function sends the same few forms again and again
def _wording(
    sets: tuple[str, ...], removed: tuple[str, ...], condition: str, extra: str
) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the update's expression, and what its names and those of *condition* stand for."""
    assignments = [f"#{name} = :{name}_" for name in sets] + ([extra] if extra else [])
    expression = f"SET {', '.join(assignments)}" if assignments else ""
    if removed:
        expression = f"{expression} REMOVE {', '.join(f'#{name}' for name in removed)}".strip()
    named = {*sets, *removed} | {name for name in ("status", "ttl") if f"#{name}" in condition}
    return expression, tuple((f"#{name}", name) for name in sorted(named))
