"""Rows with a caller, of ``tests/golden/rows.json``."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Course, OnLapse, Record, State, decide
from lambda_once.core.results import unpack_chunks
from lambda_once.stores.requests import part_keys
from lambda_once.stores.row import part_of, record_of
from tests.stores.test_golden_rows import ALL, ATTEMPT, START

WRITE = "00112233445566778899aabbccddeeff"
RESOLVED = "ffeeddccbbaa99887766554433221100"
ALICE, BOB = (Presented(f"authorization\0bearer\0{name}") for name in ("alice", "bob"))

STATES = {
    "in progress of a caller": (State.IN_PROGRESS, None),
    "in progress of a caller under hold": (State.IN_PROGRESS, None),
    "complete of a caller": (State.COMPLETE, WRITE),
    "complete without a caller": (State.COMPLETE, WRITE),
    "complete with parts of a caller": (State.COMPLETE, WRITE),
    "stored error of a caller": (State.COMPLETE, WRITE),
    "held of a caller": (State.HELD, WRITE),
    "released of a caller": (State.RELEASED, WRITE),
    "resolved of a caller": (State.COMPLETE, RESOLVED),
}
ROWS = {name: ALL[name] for name in STATES}
RECORDS = {name: record_of(golden["row"]) for name, golden in ROWS.items()}


def _decided(record: Record, presented: Presented) -> Course:
    return decide(record, START + timedelta(seconds=20), "another", None, OnLapse.HOLD, presented)


@pytest.mark.parametrize("name", sorted(ROWS.keys() | STATES.keys()))
def test_a_row_reads_as_what_it_was(name: str) -> None:
    """Its state, the write that ended it, and the mark of its caller, whose salt is the acquiring attempt."""
    record = RECORDS[name]
    assert (record.state, record.write_id) == STATES[name]
    assert record.caller == (None if "without" in name else ALICE.mark(ATTEMPT))
    assert record.attempt_id == (
        ATTEMPT if record.write_id != RESOLVED else "fedcba9876543210fedcba9876543210"
    )


@pytest.mark.parametrize("name", ROWS)
def test_an_outcome_is_its_callers(name: str) -> None:
    """Another credential gets no outcome; a released row, and one without a caller, are anybody's."""
    record = RECORDS[name]
    anybody = record.state is State.RELEASED or record.caller is None
    assert _decided(record, ALICE) is not Course.OTHER_CALLER
    assert (_decided(record, BOB) is Course.OTHER_CALLER) is not anybody


def test_parts_are_found_by_attempt_and_write() -> None:
    """The keys that a reader asks for are those of the file, and their text is whole."""
    name = "complete with parts of a caller"
    parts = ROWS[name]["parts"]
    assert part_keys(RECORDS[name], len(parts)) == [{"lockToken": part["lockToken"]} for part in parts]
    assert len(json.loads(unpack_chunks(map(part_of, parts)))) == 9_000
