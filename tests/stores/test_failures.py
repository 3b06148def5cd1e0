"""DynamoDB's failures: what is tried again, what is given up, and what is said then."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import ClientError

from lambda_once import Misconfigured, StoreUnavailable
from lambda_once.core.lifecycle import State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete
from lambda_once.dynamodb.retry import LONGEST_PAUSE, TRIES
from lambda_once.stores.contract import Refused, Unanswered, Won, Written
from lambda_once.stores.row import PARTITIONS, listed
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table
from tests.kit import tables
from tests.kit.strict.mounted import mounted, response, single_writes
from tests.kit.wire import Fate, Forward, Wire, altered, answer_lost, arrives, refused, request_lost
from tests.stores.suite.world import HELD, PAID, RELEASED, World
from tests.stores.world import DynamoDBRows

THROTTLED = refused("ProvisionedThroughputExceededException")
CONFLICT = refused("TransactionConflictException")
SERVER_ERROR = refused("InternalServerError", 500)
TRANSIENT = {
    "request lost": request_lost,
    "throttled": THROTTLED,
    "throttled on demand": refused("ThrottlingException"),
    "limit": refused("RequestLimitExceeded"),
    "server error": SERVER_ERROR,
    "unavailable": refused("ServiceUnavailable", 503),
    "unnamed server error": refused("SomethingNew", 502),
    "another region's write": refused("ReplicatedWriteConflictException"),
    "conflict": CONFLICT,
}


@pytest.fixture
def wire() -> Iterator[Wire]:
    """A wire to a new table of the strict engine."""
    with mounted():
        create_table(tables.client(), "tokens")
        yield Wire()


@pytest.fixture
def wired(wire: Wire) -> World:
    """A world whose store is at the other end of the wire; its rows are read directly."""
    rows = DynamoDBRows(tables.client(), "tokens")
    return World(DynamoDBStore("tokens", wire.client), rows)


def test_round_trips_on_the_wire(wired: World, wire: Wire) -> None:
    """New work costs two, a duplicate one: the refusal brings the row along."""
    wired.won()
    wired.finish(PAID)
    assert wire.sent == ["UpdateItem", "UpdateItem"]
    assert isinstance(wired.acquire(wired.acquisition("a2")), Refused)
    assert wire.sent == ["UpdateItem"] * 3


@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_of_an_acquisition_is_won(wired: World, wire: Wire, lost: int) -> None:
    """Tried again, it finds its own attempt id in the row that refuses it."""
    wire.fates = [answer_lost] * lost
    answer = wired.acquire(wired.acquisition())
    assert answer == Won.before(wired.row())
    assert wired.row().attempt_id == "a1"
    assert wire.sent[: lost + 1] == ["UpdateItem"] * (lost + 1)


@pytest.mark.parametrize("change", [PAID, HELD, RELEASED], ids=["complete", "hold", "release"])
@pytest.mark.parametrize("lost", [1, 2])
def test_a_lost_answer_of_an_ending_is_written(wired: World, wire: Wire, lost: int, change: Any) -> None:
    """Tried again, it finds the state that it makes."""
    wired.won()
    wire.fates = [answer_lost] * lost
    assert wired.finish(change) == Written.WRITTEN
    assert wired.row().attempt_id == "a1"
    assert wired.row().state is not State.IN_PROGRESS


def test_a_lost_answer_of_a_transaction_is_written(wired: World, wire: Wire) -> None:
    """The same request goes out again; our own completion refuses it."""
    wired.won()
    wire.fates = [answer_lost]
    put = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "order"}}}}
    assert wired.store.transact(wired.write(PAID), [put], wired.deadline) == Written.WRITTEN
    assert wired.row().state is State.COMPLETE


def cancelled(*codes: str) -> Fate:
    """Nothing of a transaction was written, for these reasons, one an item."""

    def fate(request: AWSPreparedRequest, _forward: Forward) -> AWSResponse:
        body = {
            "__type": "com.amazonaws.dynamodb.v20120810#TransactionCanceledException",
            "CancellationReasons": [{"Code": code} for code in codes],
        }
        return response(request.url, 400, json.dumps(body).encode())

    return fate


def test_a_refused_item_beside_a_conflict_is_raised(wired: World, wire: Wire) -> None:
    """The conflict may pass, the user's condition does not: sent again, it would read as an outage."""
    wired.won()
    wire.sent.clear()
    wire.fates = [cancelled("ConditionalCheckFailed", "TransactionConflict")]
    put = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "order"}}}}
    with pytest.raises(ClientError) as raised:
        wired.store.transact(wired.write(PAID), [put], wired.deadline)
    assert raised.value.response["CancellationReasons"][0]["Code"] == "ConditionalCheckFailed"
    assert wire.sent == ["TransactWriteItems"]


@pytest.mark.parametrize("fate", TRANSIENT.values(), ids=TRANSIENT.keys())
def test_what_may_pass_is_tried_again(wired: World, wire: Wire, fate: Fate) -> None:
    """After a pause, and then it is as if nothing had been."""
    wire.fates = [fate, fate]
    assert isinstance(wired.acquire(wired.acquisition()), Won)
    wire.fates = [fate]
    assert wired.finish(PAID) == Written.WRITTEN
    assert wire.sent == ["UpdateItem"] * 5
    assert len(wired.clock.slept) == 3


@pytest.mark.parametrize("fate", [request_lost, THROTTLED, SERVER_ERROR])
def test_tries_and_pauses_are_bounded(wired: World, wire: Wire, fate: Fate) -> None:
    """Then there is no answer: the store does not guess."""
    wired.won()
    before = wired.row()
    wire.sent.clear()
    wire.fates = [fate] * 2 * TRIES
    assert isinstance(wired.finish(PAID), Unanswered)
    assert wire.sent == ["UpdateItem"] * TRIES
    assert len(wired.clock.slept) == TRIES - 1
    assert max(wired.clock.slept) <= LONGEST_PAUSE
    wire.fates.clear()
    assert wired.row() == before


def test_nothing_is_tried_after_the_deadline(wired: World, wire: Wire) -> None:
    """Nor does a pause go beyond it."""
    deadline = wired.deadline
    wired.clock.advance(20)
    wire.fates = [THROTTLED] * TRIES
    (answer,) = wired.store.acquire([wired.acquisition()], deadline)
    assert isinstance(answer, Unanswered)
    assert wire.sent == ["UpdateItem"]
    assert wired.clock.slept == []


def test_a_lasting_conflict_returns_the_stored_row(wired: World, wire: Wire) -> None:
    """A transaction has the row: its owner is in progress."""
    wired.won()
    wire.fates = [CONFLICT] * TRIES
    assert wired.acquire(wired.acquisition("a2")) == Refused(wired.row())


def test_a_reader_without_an_answer_says_so(wired: World, wire: Wire) -> None:
    """The token is named, and that nothing was run."""
    wire.fates = [request_lost] * TRIES
    with pytest.raises(StoreUnavailable, match="retry later") as raised:
        wired.read()
    assert raised.value.token == wired.token


REJECTED = {
    "denied": (refused("AccessDeniedException"), r"UpdateItem on table 'tokens' is not allowed.*role"),
    "expired": (refused("ExpiredTokenException"), "have expired"),
    "missing": (refused("ResourceNotFoundException"), r"table 'tokens' does not exist.*LAMBDA_ONCE_TABLE"),
    "another key": (
        refused("ValidationException", message="The provided key element does not match the schema"),
        r"partition key must be lockToken \(S\)",
    ),
    "unknown": (refused("SomethingNew"), "failed permanently: SomethingNew"),
}


@pytest.mark.parametrize(("fate", "says"), REJECTED.values(), ids=REJECTED.keys())
def test_what_never_passes_is_not_tried_again(wired: World, wire: Wire, fate: Fate, says: str) -> None:
    """It is said what is wrong, and what to do; nothing was written."""
    wire.fates = [fate]
    answer = wired.acquire(wired.acquisition())
    assert isinstance(answer, Misconfigured)
    with pytest.raises(Misconfigured, match=says) as raised:
        raise answer
    assert raised.value.token == wired.token
    assert wire.sent == ["UpdateItem"]
    assert wired.read() is None


def test_a_table_with_another_key(wired: World) -> None:
    """What the engine itself says of it is understood."""
    client = tables.client()
    client.create_table(
        TableName="others",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    wired.store = DynamoDBStore("others", client)
    answer = wired.acquire(wired.acquisition())
    assert isinstance(answer, Misconfigured)
    assert "lockToken (S)" in str(answer)


MISSING = {
    "credentials": (
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
        "no AWS credentials",
    ),
    "region": (("AWS_DEFAULT_REGION",), "set AWS_DEFAULT_REGION"),
}


@pytest.mark.parametrize(("names", "says"), MISSING.values(), ids=MISSING.keys())
def test_an_environment_that_is_not_set_up(
    memory: World, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], says: str
) -> None:
    """Every token is rejected, and it is said what to set."""
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps the credentials that it has found
    for name in names:
        monkeypatch.delenv(name)
    memory.store = DynamoDBStore("tokens")
    acquisitions = [memory.acquisition(token="a"), memory.acquisition(token="b")]
    for answer in memory.store.acquire(acquisitions, memory.deadline):
        assert isinstance(answer, Misconfigured)
        assert says in str(answer)


def test_a_row_of_another_program_is_not_trusted(wired: World) -> None:
    """Nothing runs on what it may mean."""
    assert isinstance(wired.rows, DynamoDBRows)
    wired.rows.put({"lockToken": {"S": wired.token}, "status": {"S": "inProgress"}, "owner": {"S": "them"}})
    before = wired.item()
    answer = wired.acquire(wired.acquisition())
    assert isinstance(answer, Misconfigured)
    assert "no other program writes to" in str(answer)
    assert wired.item() == before
    with pytest.raises(Misconfigured, match="not written by lambda-once"):
        wired.read()


def _puts_but_two(arguments: dict[str, Any]) -> dict[str, Any]:
    puts = arguments["RequestItems"]["tokens"]
    arguments["RequestItems"]["tokens"] = puts[2:]
    return {"UnprocessedItems": {"tokens": puts[:2]}}


def _keys_but_two(arguments: dict[str, Any]) -> dict[str, Any]:
    wanted = arguments["RequestItems"]["tokens"]
    left = {**wanted, "Keys": wanted["Keys"][:2]}
    wanted["Keys"] = wanted["Keys"][2:]
    return {"UnprocessedKeys": {"tokens": left}}


def test_unprocessed_parts_are_written_and_read_in_the_end(wired: World, wire: Wire) -> None:
    """DynamoDB may take and give less than it was asked: the rest is asked for again."""
    parts = tuple(bytes([n]) * 10 for n in range(30))
    wired.won()
    wire.sent.clear()
    wire.fates = [altered(_puts_but_two)]
    assert wired.finish(Complete(Chunks(parts))) == Written.WRITTEN
    assert wire.sent == ["BatchWriteItem", "BatchWriteItem", "UpdateItem"]
    row = wired.row()
    wire.fates = [altered(_keys_but_two), arrives]
    assert wired.store.chunks(row, wired.deadline) == parts


def _no_puts(arguments: dict[str, Any]) -> dict[str, Any]:
    puts = arguments["RequestItems"]["tokens"]
    arguments["RequestItems"]["tokens"] = [
        {"PutRequest": {"Item": {"lockToken": {"S": "nothing of ours was taken"}}}}
    ]
    return {"UnprocessedItems": {"tokens": puts}}


def test_parts_that_are_never_taken_are_given_up_at_the_deadline(wired: World, wire: Wire) -> None:
    """With a pause after every answer, and the row is still in progress."""
    wired.won()
    before = wired.row()
    wire.fates = [altered(_no_puts)] * 10_000
    assert isinstance(wired.finish(Complete(Chunks((b"one",)))), Unanswered)
    assert sum(wired.clock.slept) == pytest.approx(20, abs=0.1)
    wire.fates.clear()
    assert wired.row() == before


def test_parts_that_are_not_taken_leave_the_row_in_progress(wired: World, wire: Wire) -> None:
    """A result with a missing part is never complete."""
    wired.won()
    before = wired.row()
    wire.fates = [refused("ProvisionedThroughputExceededException")] * TRIES
    assert isinstance(wired.finish(Complete(Chunks((b"one",)))), Unanswered)
    assert wired.row() == before


def test_one_that_fails_takes_no_other_with_it(wired: World, wire: Wire) -> None:
    """Of ten acquisitions, each written alone, one is denied, and nine are won."""
    wire.fates = [refused("AccessDeniedException")]
    acquisitions = [wired.acquisition(token=f"{wired.token}-{n}") for n in range(10)]
    with single_writes():
        answers = wired.store.acquire(acquisitions, wired.deadline)
    assert sorted(type(answer).__name__ for answer in answers) == ["Misconfigured"] + ["Won"] * 9


PUT = {"Put": {"TableName": "tokens", "Item": {"lockToken": {"S": "order"}}}}


def test_a_transaction_is_sent_again_as_it_was(wired: World, wire: Wire) -> None:
    """With the same ClientRequestToken, by which DynamoDB knows it."""
    wired.won()
    wire.bodies.clear()
    wire.fates = [request_lost, THROTTLED]
    assert wired.store.transact(wired.write(PAID), [PUT], wired.deadline) == Written.WRITTEN
    first, second, third = wire.bodies
    assert first == second == third
    wired.store.transact(None, [PUT], wired.deadline)
    assert wire.bodies[-1]["ClientRequestToken"] != first["ClientRequestToken"]


@pytest.mark.parametrize("fate", [request_lost, THROTTLED])
def test_a_transaction_without_an_answer(wired: World, wire: Wire, fate: Fate) -> None:
    """Whether it was written is not known, and is not guessed."""
    wired.won()
    wire.fates = [fate] * TRIES
    assert isinstance(wired.store.transact(wired.write(PAID), [PUT], wired.deadline), Unanswered)
    assert wired.row().state is State.IN_PROGRESS


def test_a_transaction_whose_parts_are_not_taken_is_not_sent(wired: World, wire: Wire) -> None:
    """The result would miss them."""
    wired.won()
    wire.sent.clear()
    wire.fates = [THROTTLED] * TRIES
    write = wired.write(Complete(Chunks((b"one",))))
    assert isinstance(wired.store.transact(write, [PUT], wired.deadline), Unanswered)
    assert set(wire.sent) == {"BatchWriteItem"}


def test_a_conflict_whose_row_cannot_be_read(wired: World, wire: Wire) -> None:
    """No answer is no refusal."""
    wire.fates = [CONFLICT] * TRIES + [request_lost] * TRIES
    assert isinstance(wired.acquire(wired.acquisition()), Unanswered)


def test_parts_that_do_not_arrive_by_the_deadline(wired: World, wire: Wire) -> None:
    """The read may be retried; it does not report that there is no result."""
    wired.won()
    wired.finish(Complete(Chunks((b"one", b"two", b"three"))))
    row = wired.row()
    wire.fates = [altered(_never_the_first)] * 10_000
    with pytest.raises(StoreUnavailable, match=r"was throttled \(UnprocessedKeys\)"):
        wired.store.chunks(row, wired.deadline)


def _never_the_first(arguments: dict[str, Any]) -> dict[str, Any]:
    wanted = arguments["RequestItems"]["tokens"]
    left = {**wanted, "Keys": wanted["Keys"][:1]}
    wanted["Keys"] = wanted["Keys"][1:] or [{"lockToken": {"S": "nothing of ours was given"}}]
    return {"UnprocessedKeys": {"tokens": left}}


def test_the_list_goes_on_over_pages(wired: World, wire: Wire) -> None:
    """A page ends where DynamoDB says, and the list does not."""

    def short(arguments: dict[str, Any]) -> dict[str, Any]:
        arguments["Limit"] = 2
        return {}

    alike = [token for n in range(60) if listed(State.IN_PROGRESS, token := f"t-{n}").endswith("_3")][:5]
    for token in alike:
        wired.won(token=token)
        wired.clock.advance(1)
    wire.sent.clear()
    wire.fates = [altered(short)] * (PARTITIONS + 2)
    found = [entry.token for entry in wired.store.unfinished(State.IN_PROGRESS, wired.deadline)]
    assert found == alike
    assert wire.sent == ["Query"] * (PARTITIONS + 2)
