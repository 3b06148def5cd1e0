"""A role that lacks a permission after the work: the token is complete all the same (guarantee 5)."""

from __future__ import annotations

import os

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.core.results import ROW_LIMIT, Chunks, Inline, Unavailable
from lambda_once.core.writes import Complete
from lambda_once.stores.contract import Refused, Unanswered, Written
from tests.kit.wire import failing, muddled, refused, request_lost
from tests.stores.line import BATCH, PARTS, READ, SINGLE, Line

DENIED = refused("AccessDeniedException", message="User f is not authorized to perform it")


def large(size: int) -> Chunks:
    """A result of *size* bytes, which has no shorter form."""
    return Chunks((os.urandom(size // 2), os.urandom(size - size // 2)))


@pytest.mark.parametrize("many", [1, 3])
def test_denied_parts_are_stored_in_the_row(line: Line, many: int) -> None:
    """As far as a row holds them, and every duplicate reads the same bytes."""
    line.won(many)
    line.wire.fates_of[PARTS] = [DENIED] * many
    results = [large(20_000) for _ in range(many)]
    writes = [line.write(n, Complete(result)) for n, result in enumerate(results)]
    assert line.finish(*writes) == [Written.WRITTEN] * many
    for n, result in enumerate(results):
        assert line.row(n).state is State.COMPLETE
        assert line.row(n).stored == Inline(b"".join(result.parts))


def test_parts_denied_twice_are_reported_once(line: Line) -> None:
    """With the permission that is missing, and without the result."""
    line.won(2)
    line.wire.fates_of[PARTS] = [DENIED] * 2
    for n in range(2):
        assert line.finish(line.write(n, Complete(large(20_000)))) == [Written.WRITTEN]
    (warnings,) = line.parts_denied
    assert "BatchWriteItem on table" in warnings
    assert "is not allowed (AccessDeniedException)" in warnings
    service = line.token(0).partition("/")[0]
    assert f"the permission dynamodb:BatchWriteItem on the keys {service}/*#*#*, or set" in warnings


@pytest.mark.parametrize(
    ("size", "stored"), [(ROW_LIMIT, Inline), (ROW_LIMIT + 1, Unavailable)], ids=["fits", "too large"]
)
def test_a_row_holds_380_kb(line: Line, size: int, stored: type) -> None:
    """What is larger is marked unavailable; the token is complete in any case."""
    line.won(1)
    line.wire.fates_of[PARTS] = [DENIED]
    assert line.finish(line.write(0, Complete(large(size)))) == [Written.WRITTEN]
    assert line.row(0).state is State.COMPLETE
    assert isinstance(line.row(0).stored, stored)


def test_a_lost_answer_to_the_row_leaves_no_row_without_its_parts(line: Line) -> None:
    """The next try finds its parts denied again; it does not take them for written."""
    line.won(1)
    result = large(20_000)
    write = line.write(0, Complete(result))
    line.wire.fates_of[PARTS] = [DENIED] * 2
    line.wire.fates_of[SINGLE] = [request_lost] * 10
    (answer,) = line.finish(write)
    assert isinstance(answer, Unanswered)
    assert answer.parts == 0
    line.wire.fates_of.pop(SINGLE)
    assert line.finish(write) == [Written.WRITTEN]
    assert line.row(0).stored == Inline(b"".join(result.parts))


def test_a_transaction_whose_parts_are_denied_has_its_result_in_the_row(line: Line) -> None:
    """The same as of a plain completion."""
    line.won(1)
    line.wire.fates_of[PARTS] = [DENIED]
    result = large(20_000)
    world = line.world
    assert world.store.transact(line.write(0, Complete(result)), [], world.deadline) is Written.WRITTEN
    assert line.row(0).stored == Inline(b"".join(result.parts))


def test_a_lost_batch_whose_rows_may_not_be_read_is_retried_by_single_writes(line: Line) -> None:
    """Their refusals carry the rows: our own completions are recognised without a read."""
    line.won(2)
    line.wire.fates_of[BATCH] = [muddled("ConditionalCheckFailed")]
    line.wire.fates_of[READ] = [DENIED]
    assert line.finish(line.write(0), line.write(1)) == [Written.WRITTEN] * 2
    assert line.wire.sent == [BATCH, READ, SINGLE, SINGLE]
    assert line.states(2) == [State.COMPLETE] * 2


def test_duplicates_whose_rows_may_not_be_read_are_refused_by_single_writes(line: Line) -> None:
    """An acquisition too."""
    line.won(2)
    line.wire.fates_of[READ] = [DENIED]
    answers = line.acquire(line.acquisition(0, "a2"), line.acquisition(1, "a2"))
    assert answers == [Refused(line.row(0)), Refused(line.row(1))]
    (warnings,) = line.warnings
    assert "BatchGetItem on table" in warnings
    line.wire.sent.clear()
    line.acquire(line.acquisition(0, "a3"), line.acquisition(1, "a3"))
    assert line.wire.sent == [SINGLE, SINGLE]


def test_a_refused_statement_without_permission_is_written_singly(line: Line) -> None:
    """A role that may insert by PartiQL and not update by it."""
    line.won(2)
    line.wire.fates_of[BATCH] = [failing("AccessDenied", "AccessDenied")]
    assert line.finish(line.write(0), line.write(1)) == [Written.WRITTEN] * 2
    assert line.states(2) == [State.COMPLETE] * 2
