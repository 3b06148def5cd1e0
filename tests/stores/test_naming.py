"""A table whose key and index have names of their own: what is refused, and what stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambda_once import Misconfigured, Once
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete
from lambda_once.dynamodb.retry import TRIES
from lambda_once.stores.contract import Unanswered, Won, Written
from lambda_once.stores.names import TableNames
from lambda_once.stores.naming import NamedTransport, named, renamed
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table
from lambda_once.testing.store_suite.world import LEASE, PAID, World
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Wire, altered, refused, request_lost
from tests.stores.conftest import NAMED, NAMES, world_of
from tests.stores.line import BATCH, PARTS, READ, SINGLE
from tests.stores.world import NamedRows

ROW_READ = "GetItem"


def work(order: int) -> int:
    """What a Once protects."""
    return order


@pytest.fixture(params=NAMED)
def world(request: pytest.FixtureRequest) -> World:
    """Each store on such a table."""
    return world_of(request)


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def client(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A client of each engine."""
    if request.param == "strict":
        with mounted():
            yield tables.client()
        return
    request.getfixturevalue("partiql")
    found = tables.client(request.getfixturevalue("dynamodb_local"))
    yield found
    found.close()


def test_a_row_has_the_names_of_the_table(world: World) -> None:
    """The token under the partition key, the constant under the sort key; part rows, too."""
    world.won()
    world.finish(Complete(Chunks((b"1", b"2"))), write="w1")
    for token in (world.token, f"{world.token}#a1#w1#1"):
        item = world.rows.item(token)
        assert (item["pk"], item["sk"]) == ({"S": token}, {"S": "lambda-once"})
        assert "lockToken" not in item


def test_a_users_items_of_the_same_table_are_theirs(world: World) -> None:
    """Neither what they write nor what refuses it is renamed."""
    world.won()
    assert isinstance(world.rows, NamedRows)
    mine = {"pk": {"S": world.token}, "sk": {"S": "order"}}
    put = {"Put": {"TableName": world.rows.name, "Item": mine | {"lockToken": {"S": "of another kind"}}}}
    assert world.transact(None, [put]) == Written.WRITTEN
    only_new = {
        **put["Put"],
        "ConditionExpression": "attribute_not_exists(lockToken)",
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    write = world.write(PAID)
    with pytest.raises(ClientError) as raised:
        world.transact(write, [{"Put": only_new}])
    assert raised.value.response["CancellationReasons"][0]["Item"] == put["Put"]["Item"]
    assert world.transact(write) == Written.WRITTEN


def test_a_users_update_of_another_table_keeps_its_key(world: World) -> None:
    """That table may have the usual key, ``lockToken``: in what is written, and in what refuses it."""
    world.won()
    assert isinstance(world.rows, NamedRows)
    with tables.fresh(world.rows.client) as other:
        theirs = {
            "TableName": other,
            "Key": {"lockToken": {"S": world.token}},
            "UpdateExpression": "SET price = :price",
            "ConditionExpression": "attribute_not_exists(lockToken)",
            "ExpressionAttributeValues": {":price": {"N": "5"}},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        assert world.transact(None, [{"Update": theirs}]) == Written.WRITTEN
        with pytest.raises(ClientError) as raised:
            world.transact(world.write(PAID), [{"Update": theirs}])
    kept = {"lockToken": {"S": world.token}, "price": {"N": "5"}}
    assert raised.value.response["CancellationReasons"][0]["Item"] == kept


def test_an_attempt_that_lost_its_token_is_refused_by_a_transaction(world: World) -> None:
    """The row that comes with the refusal is read by its own names."""
    world.won()
    world.clock.advance(LEASE.total_seconds() + 1)
    world.won("a2")
    answer = world.transact(world.write(PAID), world.orders())
    assert getattr(answer, "record", None) == world.row()


# ------------------------------------------------------------------ the token has to be the partition key

SWAPPED = TableNames(key="sk", sort="pk", index="unfinished-tokens")


def _acquired_by_swapped_names(client: Any) -> tuple[list[Any], list[Any]]:
    """Acquire one token and two together; return the answers, and what is in the table."""

    def create(client: Any, name: str) -> None:
        create_table(client, name, NAMES)

    with tables.fresh(client, create) as name:
        world = World(DynamoDBStore(name, client, names=SWAPPED), NamedRows(client, name, SWAPPED))
        both = [world.acquisition(token=f"{world.token}-{n}") for n in range(2)]
        answers = [world.acquire(world.acquisition()), *world.store.acquire(both, world.deadline)]
        return answers, client.scan(TableName=name)["Items"]


def test_a_constant_partition_key_is_refused(client: Any) -> None:
    """DynamoDB would take it: a key names its attributes, and not which of them is which."""
    answers, items = _acquired_by_swapped_names(client)
    assert items == []
    for answer in answers:
        assert isinstance(answer, Misconfigured)
        for words in ("partition key must be sk (S)", "sort key pk (S)", "500 executions", "LAMBDA_ONCE_KEY"):
            assert words in str(answer)


def test_twin_without_the_look_at_the_key_all_tokens_are_in_one_partition(
    client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every execution of the table would share its 1,000 write units."""
    monkeypatch.setattr(NamedTransport, "_checked", property(lambda _: True, lambda *_: None), raising=False)
    answers, items = _acquired_by_swapped_names(client)
    assert [type(answer) for answer in answers] == [Won] * 3
    assert {item["pk"]["S"] for item in items} == {"lambda-once"}


def test_the_look_costs_one_read_an_environment() -> None:
    """Before the first request of a table with a sort key; a look that is not answered is repeated."""
    with mounted():
        create_table(tables.client(), "tokens", NAMES)
        wire = Wire()
        world = World(
            DynamoDBStore("tokens", wire.client, names=NAMES), NamedRows(wire.client, "tokens", NAMES)
        )
        wire.fates = [request_lost] * TRIES
        assert isinstance(world.acquire(world.acquisition()), Unanswered)
        assert set(wire.sent) == {ROW_READ}
        wire.sent.clear()
        world.won()
        world.finish(PAID)
        assert wire.sent == [ROW_READ, SINGLE, SINGLE]


@pytest.mark.parametrize("together", [1, 2])
def test_a_role_may_look_for_its_own_service_alone(together: int) -> None:
    """The key that is looked at begins with a token of the request, and nothing but the key is read."""
    seen: list[Any] = []
    with mounted():
        client = tables.client()
        create_table(client, "tokens", NAMES)
        client.meta.events.register(
            "before-parameter-build.dynamodb.GetItem", lambda params, **_: seen.append(params)
        )
        world = World(DynamoDBStore("tokens", client, names=NAMES), NamedRows(client, "tokens", NAMES))
        acquisitions = [world.acquisition(token=f"{world.token}-{n}") for n in range(together)]
        assert [type(each) for each in world.store.acquire(acquisitions, world.deadline)] == [Won] * together
    (look,) = seen
    assert look["Key"]["pk"]["S"].startswith(f"{world.token}-0#")
    shown = [look["ExpressionAttributeNames"][each] for each in look["ProjectionExpression"].split(", ")]
    assert shown == ["pk", "sk"]


def test_without_a_sort_key_there_is_no_look() -> None:
    """A table has one partition key, and another name is a ValidationException."""
    names = TableNames(key="pk")
    with mounted():
        create_table(tables.client(), "tokens", names)
        wire = Wire()
        world = World(
            DynamoDBStore("tokens", wire.client, names=names), NamedRows(wire.client, "tokens", names)
        )
        world.won()
        assert wire.sent == [SINGLE]


def test_names_that_the_table_lacks_are_named(client: Any) -> None:
    """What is wrong with the table, and what to set."""
    with tables.fresh(client) as name:
        store = DynamoDBStore(name, client, names=TableNames(key="pk"))
        world = World(store, NamedRows(client, name, TableNames(key="pk")))
        answer = world.acquire(world.acquisition())
    assert isinstance(answer, Misconfigured)
    for words in (name, "partition key must be pk (S), with no sort key", "LAMBDA_ONCE_KEY"):
        assert words in str(answer)


# ------------------------------------------------------------------ by the environment


def test_a_once_takes_the_names_of_the_environment(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing in the code names them."""
    for name, value in asdict(NAMES).items():
        monkeypatch.setenv(f"LAMBDA_ONCE_{name.upper()}", value)
    with tables.fresh(client) as table:
        once = Once(table=table, client=client, service="shop")
        once.run("5", work, 5)
        (item,) = client.scan(TableName=table)["Items"]
    assert (item["pk"], item["sk"]) == ({"S": "shop/tests.stores.test_naming.work/5"}, {"S": "lambda-once"})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("KEY", "pk=TOKENS", "500 executions"),
        ("SORT", "sk=TOKEN", "always 'lambda-once'"),
        ("SORT", "lockToken", "the name of the token"),
        ("KEY", "created", "an attribute that every row has"),
        ("SORT", "status", "an attribute that every row has"),
        ("INDEX", "by status", "the name of an attribute or index"),
    ],
)
def test_names_that_no_table_of_tokens_has(
    name: str, value: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything is sent."""
    monkeypatch.setenv(f"LAMBDA_ONCE_{name}", value)
    once = Once(table="tokens", service="shop")
    with pytest.raises(Misconfigured, match=words) as raised:
        once.run("5", work, 5)
    assert f"LAMBDA_ONCE_{name}" in str(raised.value)


# ------------------------------------------------------------------ what DynamoDB leaves undone


@pytest.fixture
def wired() -> Iterator[tuple[Wire, World]]:
    """A store on such a table at the end of a wire, whose key schema has been read."""
    with mounted():
        create_table(tables.client(), "tokens", NAMES)
        wire = Wire()
        store = DynamoDBStore("tokens", wire.client, names=NAMES)
        world = World(store, NamedRows(tables.client(), "tokens", NAMES))
        world.read()
        wire.sent.clear()
        wire.bodies.clear()
        yield wire, world


def _but_the_first(left: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """All but the first key or item of a batch are unprocessed."""

    def change(arguments: dict[str, Any]) -> dict[str, Any]:
        batch = arguments["RequestItems"]["tokens"]
        if isinstance(batch, list):
            rest, batch[1:] = batch[1:], []
            return {left: {"tokens": rest}}
        rest, batch["Keys"][1:] = batch["Keys"][1:], []
        return {left: {"tokens": {**batch, "Keys": rest}}}

    return change


def test_what_is_left_of_a_batch_is_sent_again_by_the_right_names(wired: tuple[Wire, World]) -> None:
    """Parts that were not written, and keys that were not read."""
    wire, world = wired
    parts = (b"1", b"2", b"3")
    world.won()
    wire.fates_of = {
        PARTS: [altered(_but_the_first("UnprocessedItems"))],
        READ: [altered(_but_the_first("UnprocessedKeys"))],
    }
    assert world.finish(Complete(Chunks(parts))) == Written.WRITTEN
    assert world.chunks(world.row()) == parts
    assert (wire.sent.count(PARTS), wire.sent.count(READ)) == (2, 2)


def test_parts_are_counted_whatever_they_are_called(wired: tuple[Wire, World]) -> None:
    """The next try goes on behind those that were written."""
    wire, world = wired
    world.won()
    throttled = refused("ThrottlingException")
    wire.fates_of = {PARTS: [altered(_but_the_first("UnprocessedItems")), *[throttled] * 9]}
    answer = world.finish(Complete(Chunks((b"1", b"2", b"3"))))
    assert isinstance(answer, Unanswered)
    assert answer.parts == 1


# ------------------------------------------------------------------ the translation alone


def test_a_row_of_another_program_is_left_out() -> None:
    """Under our partition key, and another sort key."""
    ours = {"pk": {"S": "t"}, "sk": {"S": "lambda-once"}}
    theirs = {"pk": {"S": "t"}, "sk": {"S": "address"}}
    page = {"Items": [ours, theirs], "Count": 2, "LastEvaluatedKey": theirs}
    found = renamed(page, "tokens", NAMES)
    assert found["Items"] == [{"lockToken": {"S": "t"}}]
    again = named({"ExclusiveStartKey": found["LastEvaluatedKey"]}, "tokens", NAMES)
    assert again["ExclusiveStartKey"] == theirs  # and the next page begins behind it


def test_an_expression_names_the_key_by_a_placeholder() -> None:
    """A key may have any name, reserved words included; a projection has the sort key, too."""
    request = named(
        {
            "ConditionExpression": "attribute_not_exists(#lockToken)",
            "ProjectionExpression": "#lockToken, #ttl",
            "ExpressionAttributeNames": {"#ttl": "ttl", "#lockToken": "lockToken"},
        },
        "tokens",
        NAMES,
    )
    assert request == {
        "ConditionExpression": "attribute_not_exists(#lockToken)",
        "ProjectionExpression": "#lockToken, #ttl, #sortKey",
        "ExpressionAttributeNames": {"#ttl": "ttl", "#lockToken": "pk", "#sortKey": "sk"},
    }


def test_batches_are_sent_to_such_a_table(wired: tuple[Wire, World]) -> None:
    """One call acquires ten tokens, and one completes them."""
    wire, world = wired
    tokens = [f"{world.token}-{n}" for n in range(10)]
    won = world.store.acquire([world.acquisition(token=token) for token in tokens], world.deadline)
    assert all(isinstance(answer, Won) for answer in won)
    writes = [world.write(PAID, token=token) for token in tokens]
    assert world.store.write(writes, world.deadline) == [Written.WRITTEN] * 10
    assert wire.sent == [BATCH, BATCH]
