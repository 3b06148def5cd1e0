"""A table that is not the token table: a clear error that says how it should be, and nothing runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from lambda_once import Misconfigured, Once
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, lambda_context
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.sources.samples import batch, sqs_record

STRINGS = {"lockToken": "S"}
BY_STATUS = {"listed": "S", "expectedCompletion": "S"}


def table(
    key: dict[str, str], index: dict[str, str] | None = None, projected: str = "ALL", name: str = "byStatus"
) -> Callable[[Any, str], None]:
    """Return what creates a table of these keys, the partition key first, and types."""
    indexes = [
        {"IndexName": name, "KeySchema": _schema(index), "Projection": {"ProjectionType": projected}}
        for index in ([index] if index else [])
    ]
    attributes = {**key, **(index or {})}

    def create(client: Any, name: str) -> None:
        client.create_table(
            TableName=name,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[
                {"AttributeName": attribute, "AttributeType": kind} for attribute, kind in attributes.items()
            ],
            KeySchema=_schema(key),
            **({"GlobalSecondaryIndexes": indexes} if indexes else {}),
        )
        client.get_waiter("table_exists").wait(TableName=name)

    return create


def _schema(key: dict[str, str]) -> list[dict[str, str]]:
    kinds = ("HASH", "RANGE")
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(key, kinds, strict=False)]


KEY = r"partition key must be lockToken \(S\), with no sort key; give lambda-once a table of its own"
INDEX = r"index byStatus must have the keys listed \(S\) and expectedCompletion \(S\); add it, or give"
WRITTEN_TO = {
    "another key": (table({"id": "S"}), KEY),
    "a numeric key": (table({"lockToken": "N"}), KEY),
    "a sort key": (table({"lockToken": "S", "sortKey": "S"}), KEY),
}
LISTED = {
    "no index": (table(STRINGS), INDEX),
    "an index of another name": (table(STRINGS, BY_STATUS, name="status-index"), INDEX),
    "an index of another key": (table(STRINGS, {"expectedCompletion": "S"}), INDEX),
    "an index of keys only": (table(STRINGS, BY_STATUS, "KEYS_ONLY"), "must project"),
}


class Wrong:
    """A client for an engine on which wrong tables can be made."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def once(self, name: str) -> Once:
        """A `Once` on the table *name*."""
        once = Once(table=name, client=self.client, service="shop")
        once._runtime.clock = FakeClock()
        return once


@pytest.fixture
def on_strict() -> Iterator[Wrong]:
    """An account in the strict engine."""
    with mounted():
        yield Wrong(tables.client())


@pytest.fixture
def on_engine(engine_endpoint: str, partiql: None) -> Iterator[Wrong]:
    """A real engine, which takes batches."""
    client = tables.client(engine_endpoint)
    yield Wrong(client)
    client.close()


@pytest.fixture(params=["on_strict", pytest.param("on_engine", marks=pytest.mark.engine)])
def wrong(request: pytest.FixtureRequest) -> Wrong:
    """Each engine in turn."""
    found: Wrong = request.getfixturevalue(request.param)
    return found


OWN_NAME = table({"lockToken": "S", "created": "S"})
"""Its sort key is an attribute that the row has anyway."""
ALONE = {**WRITTEN_TO, "a sort key of a name of ours": (OWN_NAME, KEY)}


@pytest.mark.parametrize(("create", "words"), ALONE.values(), ids=ALONE)
def test_a_table_that_cannot_take_tokens(
    wrong: Wrong, create: Callable[[Any, str], None], words: str
) -> None:
    """Work on it is misconfigured, in words that say what the table must be."""
    with tables.fresh(wrong.client, create) as name:

        @wrong.once(name).function
        def work(order: int) -> None:
            pytest.fail("it ran unprotected")

        with pytest.raises(Misconfigured, match=words):
            work(5)
        assert wrong.client.scan(TableName=name)["Items"] == []


@pytest.mark.parametrize(("create", "words"), WRITTEN_TO.values(), ids=WRITTEN_TO.keys())
def test_a_batch_on_a_table_that_cannot_take_tokens(
    wrong: Wrong, create: Callable[[Any, str], None], words: str
) -> None:
    """No record runs, each says why, and nothing is written."""
    messages: list[str] = []
    with tables.fresh(wrong.client, create) as name:

        @wrong.once(name).sqs
        def handler(record: Any) -> None:
            pytest.fail("it ran unprotected")

        with pytest.raises(BatchProcessingError) as raised:
            handler(batch(sqs_record("x"), sqs_record("y", id_="b")), lambda_context())
        messages = [str(error) for _, error, _ in raised.value.child_exceptions]
        assert wrong.client.scan(TableName=name)["Items"] == []
    assert len(messages) == 2
    for each in messages:
        assert pytest.raises(AssertionError, match=words).matches(AssertionError(each))


@pytest.mark.engine
@pytest.mark.xfail(
    strict=True, reason="an INSERT takes every table whose keys are among the row's attributes"
)
def test_a_batch_under_a_sort_key_of_a_name_of_ours(on_engine: Wrong) -> None:
    """Nothing runs in a batch either."""
    runs: list[str] = []
    with tables.fresh(on_engine.client, OWN_NAME) as name:

        @on_engine.once(name).sqs(raise_on_entire_batch_failure=False)
        def handler(record: Any) -> None:
            runs.append(record.message_id)

        handler(batch(sqs_record("x"), sqs_record("y", id_="b")), lambda_context())
    assert runs == []


@pytest.mark.parametrize(("create", "words"), LISTED.values(), ids=LISTED.keys())
def test_a_table_without_its_index(wrong: Wrong, create: Callable[[Any, str], None], words: str) -> None:
    """Work is protected; the list of what is unfinished says what is missing, and is never empty instead."""
    with tables.fresh(wrong.client, create) as name:
        once = wrong.once(name)
        store, clock = DynamoDBStore(name, wrong.client), FakeClock()

        @once.function(name="n")
        def work(order: int) -> str:
            with pytest.raises(Misconfigured, match=words):
                list(store.unfinished(State.IN_PROGRESS, Deadline(clock, clock.now())))
            return "done"

        assert [work(5), work(5)] == ["done", "done"]
