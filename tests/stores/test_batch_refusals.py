"""Batches that are refused: by another owner, for want of a permission, as not understood."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse

from lambda_once.core.lifecycle import State
from lambda_once.dynamodb.retry import TRIES
from lambda_once.errors import Misconfigured
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from lambda_once.stores.store import DynamoDBStore
from tests.kit.strict import mounted
from tests.kit.wire import (
    Fate,
    Forward,
    altered,
    arrives,
    before,
    failing,
    refused,
    request_lost,
)
from tests.stores.line import BATCH, READ, SINGLE, Line, on_wire
from tests.stores.world import DynamoDBRows

# ------------------------------------------------------------------ the read of the losers


def test_unprocessed_keys_are_asked_for_again(line: Line) -> None:
    """DynamoDB may give less than it was asked for: the rest is asked for after a pause."""
    line.won(5, "other")
    table = line.table

    def but_two(arguments: dict[str, Any]) -> dict[str, Any]:
        wanted = arguments["RequestItems"][table]
        left = {**wanted, "Keys": wanted["Keys"][:2]}
        wanted["Keys"] = wanted["Keys"][2:]
        return {"UnprocessedKeys": {table: left}}

    line.wire.fates = [arrives, altered(but_two)]
    assert line.acquire(*(line.acquisition(n) for n in range(5))) == [Refused(line.row(n)) for n in range(5)]
    assert line.wire.sent == [BATCH, READ, READ]
    assert [len(body["RequestItems"][table]["Keys"]) for body in line.wire.bodies[1:]] == [5, 2]
    assert len(line.world.clock.slept) == 1


def test_losers_that_cannot_be_read_are_unanswered(line: Line) -> None:
    """Who has them is not known, but that somebody has: no outage. What was won is won."""
    line.won(2, "other")
    line.wire.fates = [arrives] + [request_lost] * TRIES
    answers = line.acquire(*(line.acquisition(n) for n in range(3)))
    assert [type(answer) for answer in answers] == [Unanswered, Unanswered, Won]


def test_a_row_that_is_gone_when_it_is_read_is_acquired_alone(line: Line) -> None:
    """It expired or was deleted in between: the single write finds the token free."""
    line.won(2, "other")
    rows = line.world.rows
    line.wire.fates = [arrives, before(lambda: rows.forget(line.token(1)))]
    first, second, third = line.acquire(*(line.acquisition(n) for n in range(3)))
    assert first == Refused(line.row(0))
    assert isinstance(second, Won)
    assert line.row(1).attempt_id == "a1"
    assert isinstance(third, Won)
    assert line.wire.sent == [BATCH, READ, SINGLE]


def test_an_ending_whose_row_is_gone_is_refused(line: Line) -> None:
    """There is nothing to complete, and no row comes of it."""
    line.won(2)
    line.world.rows.forget(line.token(0))
    assert line.finish(line.write(0), line.write(1)) == [Refused(None), Written.WRITTEN]
    assert line.row(0) is None


def test_a_row_of_another_program_is_not_trusted(line: Line) -> None:
    """Its token is rejected, and the others are won."""
    rows = line.world.rows
    assert isinstance(rows, DynamoDBRows)
    rows.put({"lockToken": {"S": line.token(0)}, "status": {"S": "inProgress"}, "owner": {"S": "them"}})
    before = rows.item(line.token(0))
    first, second = line.acquire(line.acquisition(0), line.acquisition(1))
    assert isinstance(first, Misconfigured)
    assert "use a table that no other" in str(first)
    assert isinstance(second, Won)
    assert rows.item(line.token(0)) == before


# ------------------------------------------------------------------ not permitted, not understood

DENIALS = {
    "each statement": failing(*["AccessDenied"] * 25),
    "one statement": failing(None, "AccessDenied"),
    "the call": refused("AccessDeniedException"),
}


@pytest.mark.parametrize("denial", DENIALS.values(), ids=DENIALS.keys())
def test_without_the_permission_single_writes_do_the_same(line: Line, denial: Fate) -> None:
    """The missing permission is logged once, and batches are not tried again."""
    line.wire.fates = [denial]
    assert [type(a) for a in line.acquire(*(line.acquisition(n) for n in range(3)))] == [Won] * 3
    assert line.finish(*(line.write(n) for n in range(3))) == [Written.WRITTEN] * 3
    assert line.states(3) == [State.COMPLETE] * 3
    assert line.wire.sent.count(BATCH) == 1
    (warnings,) = line.warnings
    assert "PartiQLInsert" in warnings


@pytest.mark.parametrize("denial", DENIALS.values(), ids=DENIALS.keys())
def test_endings_without_the_permission(line: Line, denial: Fate) -> None:
    """A role that may insert and not update completes by single writes."""
    line.won(3)
    line.wire.fates = [denial]
    assert line.finish(*(line.write(n) for n in range(3))) == [Written.WRITTEN] * 3
    assert [type(a) for a in line.acquire(*(line.acquisition(n, "a2") for n in range(3)))] == [Refused] * 3
    assert line.wire.sent.count(BATCH) == 1
    assert READ not in line.wire.sent
    assert len(line.warnings) == 1


def test_several_denied_calls_are_logged_once(line: Line) -> None:
    """They were under way at the same time."""
    line.wire.fates = [refused("AccessDeniedException")] * 3
    assert [type(a) for a in line.acquire(*(line.acquisition(n) for n in range(60)))] == [Won] * 60
    assert len(line.warnings) == 1


def test_an_identity_that_has_expired_says_nothing_of_permissions(line: Line) -> None:
    """Every token is rejected for what it is, and batches go on once it is renewed."""
    line.wire.fates = [refused("ExpiredTokenException")] * 3
    assert [type(a) for a in line.acquire(line.acquisition(0), line.acquisition(1))] == [
        Misconfigured,
        Misconfigured,
    ]
    line.wire.fates.clear()
    line.wire.sent.clear()
    line.acquire(line.acquisition(0), line.acquisition(1))
    assert line.wire.sent == [BATCH]
    assert line.warnings == []


@pytest.mark.parametrize("code", ["ValidationError", "ResourceNotFound", "SomethingNew"])
def test_what_a_statement_cannot_explain_the_single_write_does(line: Line, code: str) -> None:
    """It is asked alone for what is wrong; where nothing is, it is done."""
    line.wire.fates = [failing(None, code), refused("ResourceNotFoundException")]
    first, second = line.acquire(line.acquisition(0), line.acquisition(1))
    assert isinstance(first, Won)
    assert isinstance(second, Misconfigured)
    assert "does not exist in region eu-central-1 (http" in str(second)
    line.acquire(line.acquisition(2))
    line.wire.fates = [failing(None, code)]
    assert line.finish(line.write(0), line.write(2)) == [Written.WRITTEN, Written.WRITTEN]
    assert line.warnings == []


def test_an_engine_without_partiql_serves_as_well(line: Line) -> None:
    """What single writes can do is done by them, and batches are not tried again."""
    line.wire.fates = [refused("UnknownOperationException")]
    assert [type(a) for a in line.acquire(line.acquisition(0), line.acquisition(1))] == [Won, Won]
    assert line.finish(line.write(0), line.write(1)) == [Written.WRITTEN] * 2
    assert line.wire.sent.count(BATCH) == 1
    assert len(line.warnings) == 1


def test_what_a_call_cannot_explain_the_single_writes_do(line: Line) -> None:
    """One statement that DynamoDB cannot take must not stop the others of its call."""
    line.wire.fates = [refused("ValidationException")]
    assert [type(a) for a in line.acquire(line.acquisition(0), line.acquisition(1))] == [Won, Won]
    line.wire.fates = [refused("ValidationException")]
    assert line.finish(line.write(0), line.write(1)) == [Written.WRITTEN] * 2
    assert line.warnings == []


# ------------------------------------------------------------------ a page in place of an answer


HTML = b"<html></html>"


def page(arrives_first: bool, status: int = 500, body: bytes = HTML) -> Fate:
    """Something answers by HTTP 500 and a page, as moto's server does; the request may have got through."""

    def fate(request: AWSPreparedRequest, forward: Forward) -> AWSResponse:
        if arrives_first:
            forward()
        return mounted.response(request.url, status, body)

    return fate


@pytest.mark.engine
@pytest.mark.parametrize("arrives_first", [False, True], ids=["refused", "answer lost"])
def test_a_page_from_an_endpoint_that_was_given_turns_batches_off(
    engine_endpoint: str, arrives_first: bool
) -> None:
    """The same attempts are written singly, once, whether or not the batch arrived; it is said once."""
    with on_wire(engine_endpoint) as line:
        line.wire.fates_of[BATCH] = [page(arrives_first)] * 2 * TRIES
        for first, second in ((0, 1), (2, 3)):
            answers = line.acquire(line.acquisition(first), line.acquisition(second))
            assert [type(answer) for answer in answers] == [Won, Won]
        assert [line.row(n).attempt_id for n in range(4)] == ["a1"] * 4
        assert line.wire.sent.count(BATCH) == TRIES
        assert line.warnings == [
            "batches were answered by something that is not DynamoDB; using single writes"
        ]


NO_ANSWERS = {
    "HTML, 404": (404, HTML),
    "HTML, 501": (501, HTML),
    "empty, 200": (200, b""),
    "empty, 404": (404, b""),
    "empty, 500": (500, b""),
    "JSON, 200": (200, b"{}"),
    "no name, 400": (400, b'{"message": "no"}'),
    "no name, 500": (500, b'{"message": "no"}'),
    "null for a name, 400": (400, b'{"__type": null}'),
    "an empty name, 400": (400, b'{"__type": ""}'),
    "a list, 400": (400, b"[]"),
    "not implemented, 501": (501, b'{"__type": "InternalFailure", "message": "not implemented"}'),
}


@pytest.mark.engine
@pytest.mark.parametrize(("status", "body"), NO_ANSWERS.values(), ids=NO_ANSWERS)
def test_whatever_is_no_answer_of_dynamodbs_turns_batches_off(
    engine_endpoint: str, status: int, body: bytes
) -> None:
    """What else engines and web servers answer to an operation that they do not know."""
    with on_wire(engine_endpoint) as line:
        line.wire.fates_of[BATCH] = [page(False, status, body)] * TRIES
        answers = line.acquire(line.acquisition(0), line.acquisition(1))
        assert [type(answer) for answer in answers] == [Won, Won]
        assert len(line.warnings) == 1


@pytest.mark.engine
def test_it_is_said_once_for_a_client_that_several_stores_share(engine_endpoint: str) -> None:
    """A second table behind the same endpoint is not asked again."""
    with on_wire(engine_endpoint) as line:
        line.wire.fates_of[BATCH] = [page(arrives_first=False)] * 2 * TRIES
        line.acquire(line.acquisition(0), line.acquisition(1))
        assert isinstance(line.world.store, DynamoDBStore)
        warnings: list[str] = []
        second = DynamoDBStore(line.table, line.world.store.transport.client, warn=warnings.append)
        answers = second.acquire([line.acquisition(2), line.acquisition(3)], line.world.deadline)
        assert [type(answer) for answer in answers] == [Won, Won]
        assert line.wire.sent.count(BATCH) == TRIES
        assert warnings == []


@pytest.mark.engine
def test_a_batch_that_is_answered_afterwards_ends_the_doubt(engine_endpoint: str) -> None:
    """An engine that restarts behind a proxy: what is written singly beside a later batch proves nothing."""
    with on_wire(engine_endpoint) as line:
        line.wire.fates = [page(arrives_first=False)] * 3 * TRIES
        line.acquire(line.acquisition(0), line.acquisition(1))
        line.wire.fates.clear()
        line.wire.sent.clear()
        line.acquire(line.acquisition(2), line.acquisition(3), line.acquisition(4)._replace(known=True))
        assert line.wire.sent == [BATCH, SINGLE]
        assert line.warnings == []


@pytest.mark.engine
def test_single_writes_that_get_pages_too_turn_nothing_off(engine_endpoint: str) -> None:
    """It's an outage: nothing is known of the endpoint, and the next batch is sent as one."""
    with on_wire(engine_endpoint) as line:
        line.wire.fates = [page(arrives_first=False)] * 3 * TRIES
        answers = line.acquire(line.acquisition(0), line.acquisition(1))
        assert [type(answer) for answer in answers] == [Unanswered, Unanswered]
        line.wire.fates.clear()
        line.wire.sent.clear()
        line.acquire(line.acquisition(2), line.acquisition(3))
        assert line.wire.sent == [BATCH]
        assert line.warnings == []


@pytest.mark.parametrize(
    ("status", "body"), [(500, HTML), *NO_ANSWERS.values()], ids=["HTML, 500", *NO_ANSWERS]
)
def test_what_is_no_answer_at_aws_own_endpoint_turns_nothing_off(status: int, body: bytes) -> None:
    """Nothing runs, no token counts as refused, nothing goes singly, and the next batch is sent as one."""
    with mounted.mounted(), on_wire(None) as line:
        line.wire.fates_of[BATCH] = [page(False, status, body)] * TRIES
        answers = line.acquire(line.acquisition(0), line.acquisition(1))
        assert all(isinstance(answer, Unanswered | Misconfigured) for answer in answers)
        assert {*line.wire.sent} == {BATCH}
        if status >= 500:
            assert line.wire.sent == [BATCH] * TRIES
            assert [type(answer) for answer in answers] == [Unanswered, Unanswered]
        line.wire.fates_of[BATCH].clear()
        line.wire.sent.clear()
        answers = line.acquire(line.acquisition(0), line.acquisition(1))
        assert [type(answer) for answer in answers] == [Won, Won]
        assert line.wire.sent == [BATCH]
        assert line.warnings == []
