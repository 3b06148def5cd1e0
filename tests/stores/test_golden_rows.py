"""
Rows of every state in today's form: each of ``tests/golden/rows.json`` is read as what it was, for ever.

A version that writes rows of another form adds rows, and changes none.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lambda_once.core.lifecycle import (
    Course,
    Decider,
    Decision,
    Failure,
    OnLapse,
    Record,
    Resolve,
    State,
    decide,
)
from lambda_once.core.results import Inline, Parts, Stored, Unavailable, unpack, unpack_chunks
from lambda_once.stores.row import record_of
from tests.stores.suite.world import World
from tests.stores.world import DynamoDBRows, Item


def _attributes(value: Any) -> Any:
    if isinstance(value, list):
        return [_attributes(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: base64.b64decode(each) if name == "B" and isinstance(each, str) else _attributes(each)
        for name, each in value.items()
    }


FILE = Path(__file__).parents[1] / "golden" / "rows.json"
ALL: dict[str, dict[str, Any]] = _attributes(json.loads(FILE.read_text(encoding="utf-8")))

START = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
DONE_AT = START + timedelta(seconds=1.5)
RESOLVED_AT = START + timedelta(seconds=61.5)
LATER = START + timedelta(minutes=5)
EXPIRED = START + timedelta(days=29)
TTL_OF_LEASE = 1_796_379_150
TTL_OF_OUTCOME = 1_796_379_121
TTL_RESOLVED = 1_797_588_781
ATTEMPT = "0123456789abcdef0123456789abcdef"
OPERATOR = "fedcba9876543210fedcba9876543210"
FENCE = 1_795_169_520_001
BROKEN = Failure("ValueError", "no such order")
WRITTEN = {"write_id": "0011223344556677"}
GENERATION = {"generation": "8899aabbccddeeff8899aabbccddeeff"}
PAYLOAD = {"delivery": "m-1", "fingerprint": "f" * 64, "fields": b"\0\1ab"}
LINES = json.dumps({"lines": [f"line {n}" for n in range(60)]})
COMPRESSED = ALL["complete with compressed bytes"]["row"]["result"]["B"]


def _row(name: str, state: State, **changes: Any) -> Record:
    given: dict[str, Any] = {
        "token": f"orders/charge/{name.replace(' ', '-')}",
        "attempt_id": ATTEMPT,
        "fence": FENCE,
        "locked_by": f"orders/request-of-{ATTEMPT}",
        "created": START,
        "expected_completion": START + timedelta(seconds=30),
    }
    return Record(state=state, **given | changes)


def _going(name: str, **changes: Any) -> Record:
    return _row(name, State.IN_PROGRESS, **{"ttl": TTL_OF_LEASE} | GENERATION | changes)


def _complete(name: str, stored: Stored = None, **changes: Any) -> Record:
    given = {"actual_completion": DONE_AT, "ttl": TTL_OF_OUTCOME, "stored": stored, **WRITTEN}
    return _row(name, State.COMPLETE, **given | changes)


def _held(name: str, **changes: Any) -> Record:
    return _row(
        name, State.HELD, **{"actual_completion": DONE_AT, "error": BROKEN} | WRITTEN | GENERATION | changes
    )


def _released(name: str, **changes: Any) -> Record:
    return _row(name, State.RELEASED, **WRITTEN | GENERATION | changes)


def _by_hand(at: datetime, how: Resolve) -> dict[str, Any]:
    return {
        "attempt_id": OPERATOR,
        "fence": FENCE + 1,
        "decisions": (
            Decision(at, Decider.PERSON, "ann", "seen at the provider", State.HELD, how, OPERATOR),
        ),
    }


RECORDS = (
    _going("in progress under take_over"),
    _going("in progress under hold", ttl=None),
    _going("in progress with delivery and payload", **PAYLOAD),
    _going("in progress and not listed"),
    _going("extended", expected_completion=START + timedelta(seconds=61.5), ttl=TTL_OF_LEASE + 31),
    _going(
        "in progress again after a decision",
        **_by_hand(DONE_AT, Resolve.NOT_DONE)
        | {
            "attempt_id": "00112233445566778899aabbccddeeff",
            "fence": FENCE + 2,
            "locked_by": "orders/request-of-00112233445566778899aabbccddeeff",
            "created": START + timedelta(seconds=11.5),
            "expected_completion": START + timedelta(seconds=41.5),
            "ttl": TTL_OF_LEASE + 11,
        },
    ),
    _complete("complete with a text", Inline('{"paid": true}')),
    _complete("complete with compressed bytes", Inline(COMPRESSED)),
    _complete("complete with parts", Parts(2)),
    _complete("complete with None"),
    _complete("complete and unavailable", Unavailable.UNAVAILABLE),
    _complete("complete with delivery and payload", Inline('"done"'), **PAYLOAD),
    _complete("stored error", error=BROKEN),
    _complete(
        "resolved as done",
        Inline('"by hand"'),
        **_by_hand(RESOLVED_AT, Resolve.DONE) | {"actual_completion": RESOLVED_AT, "ttl": TTL_RESOLVED},
    ),
    _complete(
        "resolved as done with parts",
        Parts(2),
        **_by_hand(RESOLVED_AT, Resolve.DONE) | {"actual_completion": RESOLVED_AT, "ttl": TTL_RESOLVED},
    ),
    _held("held"),
    _held(
        "resolved as held",
        **_by_hand(RESOLVED_AT, Resolve.HOLD)
        | {"actual_completion": RESOLVED_AT, "error": Failure("Held", "seen at the provider")},
    ),
    _released("released with an error", ttl=TTL_OF_OUTCOME, error=BROKEN),
    _released("released without an error", ttl=TTL_OF_OUTCOME),
    _released(
        "resolved as not done",
        **_by_hand(DONE_AT, Resolve.NOT_DONE) | {"expected_completion": DONE_AT, "error": BROKEN},
    ),
)
BY_NAME = {record.token.rpartition("/")[2].replace("-", " "): record for record in RECORDS}
ROWS = {name: golden for name, golden in ALL.items() if name in BY_NAME}

TEXTS = {
    "complete with a text": '{"paid": true}',
    "complete with compressed bytes": LINES,
    "complete with parts": '"a result in parts"',
    "complete with None": "null",
    "complete with delivery and payload": '"done"',
    "resolved as done": '"by hand"',
    "resolved as done with parts": '"a result in parts"',
}

LAPSE = {
    OnLapse.TAKE_OVER: Course.RUN,
    OnLapse.HOLD: Course.HELD,
    OnLapse.PROBE: Course.ASK,
}


def _finished(name: str, record: Record) -> Course:
    match record.state:
        case State.HELD:
            return Course.HELD
        case State.RELEASED:
            return Course.RUN
        case _ if name == "stored error":
            return Course.STORED_ERROR
        case _ if name == "complete and unavailable":
            return Course.RESULT_UNAVAILABLE
        case _:
            return Course.REPLAY


def _put(world: World, name: str) -> Item:
    assert isinstance(world.rows, DynamoDBRows)
    golden = ROWS[name]
    for item in (golden["row"], *golden.get("parts", ())):
        world.rows.put(item)
    row: Item = golden["row"]
    return row


@pytest.mark.parametrize("name", ROWS)
def test_a_row_reads_as_what_it_was(name: str) -> None:
    """Attribute by attribute."""
    assert record_of(ROWS[name]["row"]) == BY_NAME[name]


@pytest.mark.parametrize("on_lapse", OnLapse)
@pytest.mark.parametrize("name", ROWS)
def test_a_row_decides_as_it_did(name: str, on_lapse: OnLapse) -> None:
    """While its lease is alive, when it is over, and once the row has expired."""
    record = record_of(ROWS[name]["row"])
    if record.state is State.IN_PROGRESS:
        assert decide(record, START + timedelta(seconds=20), "another", None, on_lapse) is Course.IN_PROGRESS
        assert decide(record, LATER, "another", None, on_lapse) is LAPSE[on_lapse]
        assert decide(record, LATER, record.attempt_id, None, on_lapse) is Course.RUN
        return
    assert decide(record, LATER, "another", None, on_lapse) is _finished(name, record)
    kept = record.state is State.HELD
    assert decide(record, EXPIRED, "another", None, on_lapse) is (Course.HELD if kept else Course.RUN)


@pytest.mark.parametrize("name", [name for name in ROWS if "payload" in name])
def test_a_row_with_a_fingerprint_still_refuses_another_payload(name: str) -> None:
    """The same one passes, another one is KEY_REUSED."""
    record = record_of(ROWS[name]["row"])
    same, other = (decide(record, LATER, "another", mark * 64, OnLapse.TAKE_OVER) for mark in "fg")
    assert other is Course.KEY_REUSED
    assert same in (Course.RUN, Course.REPLAY)


@pytest.mark.parametrize("name", TEXTS)
def test_a_stored_result_comes_back(dynamodb: World, name: str) -> None:
    """Through the store, parts in their places of then included."""
    _put(dynamodb, name)
    record = dynamodb.row_of(BY_NAME[name].token)
    assert record == BY_NAME[name]
    match record.stored:
        case Parts():
            chunks = dynamodb.store.chunks(record, dynamodb.deadline)
            assert chunks is not None
            text = unpack_chunks(chunks)
        case Inline(data):
            text = unpack(data)
        case _:
            text = "null"
    assert text == TEXTS[name]


@pytest.mark.parametrize("name", [name for name in ROWS if "listed" in ROWS[name]["row"]])
def test_a_listed_row_is_in_the_index(dynamodb: World, name: str) -> None:
    """Under the partition of its state and token."""
    _put(dynamodb, name)
    record = BY_NAME[name]
    (entry,) = dynamodb.store.unfinished(record.state, dynamodb.deadline)
    assert (entry.token, entry.attempt_id, entry.expected_completion) == (
        record.token,
        record.attempt_id,
        record.expected_completion,
    )
