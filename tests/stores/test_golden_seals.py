"""Rows with a trace, sealed results and errors, and a forgotten result, of ``tests/golden/rows.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.core.lifecycle import Failure, Record, Resolve, State
from lambda_once.core.results import Inline, Parts, Seal, Sealed, Unavailable, unpack, unpack_chunks
from lambda_once.operations.decisions import is_forgotten
from lambda_once.stores.requests import part_keys
from lambda_once.stores.row import part_of, record_of
from tests.stores import test_golden_callers
from tests.stores.test_golden_rows import ALL, BY_NAME, START

STATES = {
    "in progress with a trace": State.IN_PROGRESS,
    "complete with a sealed result": State.COMPLETE,
    "complete with a sealed result in parts": State.COMPLETE,
    "sealed stored error": State.COMPLETE,
    "held with a sealed error": State.HELD,
    "released with a sealed error": State.RELEASED,
    "forgotten": State.COMPLETE,
}
ROWS = {name: ALL[name] for name in STATES}
RECORDS = {name: record_of(golden["row"]) for name, golden in ROWS.items()}
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
RESULT = {"name": "Ann", "score": 700}
LONG = [str(n * n * 2_654_435_761 % 2**32) for n in range(900)]


def encrypt(data: bytes, context: str) -> bytes:
    """Encrypt nothing: here the output must depend on *context*, and differ from *data*."""
    return context.encode() + b"\0" + bytes(each ^ 90 for each in data)


def decrypt(sealed: bytes, context: str) -> bytes:
    """Return what `encrypt` got."""
    of, _, hidden = sealed.partition(b"\0")
    if of != context.encode():
        raise ValueError("sealed as something else")
    return bytes(each ^ 90 for each in hidden)


def _seal(record: Record) -> Seal:
    return Seal(encrypt, decrypt, record.token)


def _chunks(name: str) -> list[bytes]:
    """Return the parts of the file, which are where a reader asks for them."""
    parts = ROWS[name]["parts"]
    assert part_keys(RECORDS[name], len(parts)) == [{"lockToken": part["lockToken"]} for part in parts]
    return [part_of(part) for part in parts]


@pytest.mark.parametrize("name", sorted(ROWS.keys() | STATES.keys()))
def test_a_row_reads_as_what_it_was(name: str) -> None:
    """Its state, and the trace of its acquisition."""
    assert (RECORDS[name].state, RECORDS[name].trace) == (STATES[name], TRACE)


def test_a_sealed_result_is_opened() -> None:
    """In the row and in parts; not without its seal, and not with that of another token."""
    name = "complete with a sealed result"
    record, other = RECORDS[name], RECORDS["forgotten"]
    assert isinstance(record.stored, Inline)
    assert json.loads(unpack(record.stored.data, _seal(record))) == RESULT
    for wrong in (None, _seal(other)):
        with pytest.raises(Sealed):
            unpack(record.stored.data, wrong)


def test_a_sealed_result_in_parts_is_opened() -> None:
    """All parts are one sealed text."""
    name = "complete with a sealed result in parts"
    assert RECORDS[name].stored == Parts(2)
    assert json.loads(unpack_chunks(_chunks(name), _seal(RECORDS[name]))) == LONG
    with pytest.raises(Sealed):
        unpack_chunks(_chunks(name))


@pytest.mark.parametrize("name", [name for name in STATES if "error" in name])
def test_a_sealed_error_is_opened(name: str) -> None:
    """Its kind is readable, its message only with the seal."""
    record = RECORDS[name]
    assert record.error is not None
    assert record.error.sealed is not None
    assert record.error == Failure("ValueError", "(sealed)", record.error.sealed)
    assert record.error.text(_seal(record)) == "no such order"


def test_a_forgotten_result_is_known_as_one() -> None:
    """Completed when it was, and forgotten a minute later."""
    record = RECORDS["forgotten"]
    done = START + timedelta(seconds=1.5)
    assert (record.stored, record.actual_completion) == (Unavailable.FORGOTTEN, done)
    at = done + timedelta(minutes=1)
    (decision,) = record.decisions
    assert (decision.by, decision.because, decision.at) == ("ann", "erasure request 77", at)
    assert (decision.how, decision.attempt_id) == (Resolve.FORGET, record.attempt_id)
    assert is_forgotten(record)


# -- all rows together


class Asked(dict[str, Any]):
    """An item that notes what is asked of it, with the names of maps within it."""

    def __init__(self, item: dict[str, Any], names: set[str], above: str = "") -> None:
        super().__init__(item)
        self.names = names
        self.above = above

    def __contains__(self, name: object) -> bool:
        self.names.add(f"{self.above}{name}")
        return super().__contains__(name)

    def __getitem__(self, name: str) -> Any:
        self.names.add(f"{self.above}{name}")
        value = super().__getitem__(name)
        return {"M": Asked(value["M"], self.names, f"{name}.")} if "M" in value else value


def _present(item: dict[str, Any], above: str = "") -> set[str]:
    within = [_present(value["M"], f"{name}.") for name, value in item.items() if "M" in value]
    return {f"{above}{name}" for name in item}.union(*within)


def _without_a_row(rows: Iterable[dict[str, Any]]) -> set[str]:
    """Return the attributes that a reader asks for, and that none of *rows* has."""
    asked: set[str] = set()
    present: set[str] = set()
    for golden in rows:
        record_of(Asked(golden["row"], asked))
        present |= _present(golden["row"])
    return asked - present


def test_every_row_of_the_file_is_known() -> None:
    """A row that no module expects anything of is no test."""
    assert set(ALL) == BY_NAME.keys() | test_golden_callers.STATES.keys() | STATES.keys()


def test_every_attribute_is_in_a_golden_row() -> None:
    """A new one needs a row that has it, which every later version must read."""
    assert not _without_a_row(ALL.values())


def test_an_attribute_without_a_row_is_named() -> None:
    """The rows of this module are left out: the check names what only they have."""
    assert _without_a_row(ALL[name] for name in ALL.keys() - STATES) == {"trace", "error.sealed"}
