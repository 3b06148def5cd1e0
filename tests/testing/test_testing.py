"""The kit for users' tests, used as they use it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3
import pytest
from aws_lambda_powertools.utilities.typing import LambdaContext
from moto import mock_aws

from lambda_once import Misconfigured, Once
from lambda_once.core.lifecycle import State
from lambda_once.testing import (
    FakeClock,
    MemoryStore,
    api_event,
    create_table,
    eventbridge_event,
    lambda_context,
    rest_api_event,
    sns_event,
    sqs_event,
    using,
)


def test_a_fake_clock_moves_only_when_advanced() -> None:
    """A sleep advances it, and returns at once."""
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    clock.advance(60)
    clock.sleep(1.5)
    assert clock.now() == datetime(2026, 1, 1, 0, 1, 1, 500_000, tzinfo=UTC)
    assert clock.slept == [1.5]


def test_a_fake_clock_wants_a_zone() -> None:
    """A naive time would be read as anybody's."""
    with pytest.raises(ValueError, match="time zone"):
        FakeClock(datetime(2026, 1, 1))  # noqa: DTZ001


def test_something_happens_while_somebody_sleeps() -> None:
    """One thing a sleep, after the clock was turned."""
    happened: list[tuple[float, datetime]] = []
    clock = FakeClock(on_sleep=(lambda seconds: happened.append((seconds, clock.now())),))
    start = clock.now()
    clock.while_asleep(lambda seconds: happened.append((seconds, clock.now())))
    for seconds in (1, 2, 3):
        clock.sleep(seconds)
    assert happened == [(1, start + timedelta(seconds=1)), (2, start + timedelta(seconds=3))]


def test_a_fake_clock_is_turned_by_many_threads() -> None:
    """No turn is lost."""
    clock = FakeClock()
    start = clock.now()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: clock.sleep(1), range(400)))
    assert clock.now() == start + timedelta(seconds=400)
    assert len(clock.slept) == 400


def test_using_is_for_its_block() -> None:
    """A new store where none is given; afterwards everything is as before."""
    own = MemoryStore()
    once = Once(service="shop", store=own)
    ran: list[str] = []

    @once.event(key="id")
    def handler(event: dict[str, Any]) -> None:
        ran.append(event["id"])

    with using(once) as store:
        handler({"id": "5"}, lambda_context())
        handler({"id": "5"}, lambda_context())
    assert [record.state for record in store.records.values()] == [State.COMPLETE]
    assert own.records == {}
    handler({"id": "5"}, lambda_context())
    assert ran == ["5", "5"]
    assert len(own.records) == 1


def test_using_is_an_environment_that_has_served_no_tenant() -> None:
    """Each block may be another tenant's; afterwards the environment is the one of before."""
    once = Once(service="shop")

    @once.event(name="order", key="id")
    def handler(event: dict[str, Any]) -> None: ...

    with using(once) as outer:
        for tenant in ("blue", "green"):
            with using(once) as store:
                once.run("mail", 5, lambda: None)
                handler({"id": "5"}, lambda_context(tenant_id=tenant))
                assert [*store.acquisitions] == ["shop/mail/5", f"shop/order/{tenant}/5"]
        handler({"id": "5"}, lambda_context(tenant_id="red"))
        with using(once):
            handler({"id": "5"}, lambda_context(tenant_id="blue"))
        once.run("mail", 5, lambda: None)
        with pytest.raises(Misconfigured, match="another tenant"):
            handler({"id": "5"}, lambda_context(tenant_id="blue"))
    assert [*outer.acquisitions] == ["shop/order/red/5", "shop/mail/red/5"]


def test_using_gives_back_the_store_it_was_given() -> None:
    """And the clock tells the time of its rows."""
    once, mine, clock = Once(service="shop"), MemoryStore(), FakeClock()
    with using(once, mine, clock) as store:
        once.run("n", "5", lambda: None)
    assert store is mine
    assert [record.created for record in mine.records.values()] == [clock.now()]


def test_a_context_is_powertools_own() -> None:
    """A new invocation each, unless the request id is given; it cannot be altered."""
    context = lambda_context("charge", "r-1", 500)
    assert isinstance(context, LambdaContext)
    assert (context.function_name, context.aws_request_id) == ("charge", "r-1")
    assert context.get_remaining_time_in_millis() == 500
    assert lambda_context().aws_request_id != lambda_context().aws_request_id
    assert (context.tenant_id, lambda_context(tenant_id="blue").tenant_id) == (None, "blue")
    with pytest.raises(AttributeError):
        context.function_name = "another"  # type: ignore[misc]  # what a type checker refuses, too


@pytest.mark.parametrize("fifo_groups", [None, "one", ["one", "two"]])
def test_a_batch_is_worked_once(fifo_groups: Any) -> None:
    """Standard and FIFO; the same event again is a redelivery."""
    once, bodies = Once(service="shop"), list[str]()

    @once.sqs
    def handler(record: Any) -> None:
        bodies.append(record.body)

    event = sqs_event({"orderId": 5}, "plain", fifo_groups=fifo_groups, attributes={"tenant": "acme"})
    with using(once):
        for _ in range(2):
            assert handler(event, lambda_context()) == {"batchItemFailures": []}
    assert bodies == ['{"orderId": 5}', "plain"]
    ids = [record["messageId"] for record in (*event["Records"], *sqs_event({"orderId": 5})["Records"])]
    assert len(set(ids)) == 3


@pytest.mark.parametrize("build", [rest_api_event, api_event])
def test_a_request_is_answered_once(build: Any) -> None:
    """By its header; another body under the same key is refused."""
    once, bodies = Once(service="shop"), list[str]()

    @once.api_gateway
    def handler(event: dict[str, Any]) -> dict[str, Any]:
        bodies.append(event["body"])
        return {"statusCode": 201, "body": "{}"}

    def answer(body: object) -> dict[str, Any]:
        headers = {"Idempotency-Key": "5f2b"}
        event = build("post", "/orders", body, headers, query={"dry run": "no & no"})
        return handler(event, lambda_context())

    with using(once):
        assert [answer({"item": "tea"})["statusCode"] for _ in range(2)] == [201, 201]
        assert answer({"item": "rum"})["statusCode"] == 422
    assert bodies == ['{"item": "tea"}']


def test_notifications_and_events_are_worked_once() -> None:
    """Each builder's event is of its source, or the decorator would refuse it."""
    once, worked = Once(service="shop"), list[object]()

    @once.sns
    def notified(record: Any) -> None:
        worked.append(record.sns.message)

    @once.event
    def happened(event: dict[str, Any]) -> None:
        worked.append(event["detail"])

    with using(once):
        for _ in range(2):
            notified(sns_event("hello", {"orderId": 5}), lambda_context())
            happened(eventbridge_event({"orderId": 5}), lambda_context())
            happened(eventbridge_event({}, "Scheduled Event", "aws.events", event_id="t-1"), lambda_context())
    assert worked == ["hello", '{"orderId": 5}', {"orderId": 5}, {}]


def test_a_table_is_the_sample_stacks() -> None:
    """Keys, sparse index, billing, and TTL on ``ttl``."""
    with mock_aws():
        client = boto3.client("dynamodb")
        create_table(client, "mine")
        table = client.describe_table(TableName="mine")["Table"]
        lives = client.describe_time_to_live(TableName="mine")["TimeToLiveDescription"]
    assert table["KeySchema"] == [{"AttributeName": "lockToken", "KeyType": "HASH"}]
    assert table["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "byStatus"
    assert [key["AttributeName"] for key in index["KeySchema"]] == ["listed", "expectedCompletion"]
    assert sorted(index["Projection"]["NonKeyAttributes"]) == ["attempt", "created", "lockedBy"]
    assert (lives["AttributeName"], lives["TimeToLiveStatus"]) == ("ttl", "ENABLED")


class Sized(MemoryStore):
    """A store that is empty, and so false, until there is a row in it."""

    def __len__(self) -> int:
        return len(self.records)


def _book(order: int) -> int:
    return order


def test_an_empty_store_of_its_own_is_used() -> None:
    """A store that counts as false is a store: Once looks for no table."""
    store = Sized()
    Once(service="shop", store=store).run("book", "5", _book, 5)
    assert len(store) == 1


def test_an_empty_store_of_a_block_is_used() -> None:
    """The same for a store that a test puts in the place of another."""
    store, other = Sized(), MemoryStore()
    once = Once(service="shop", store=other)
    with using(once, store):
        once.run("book", "5", _book, 5)
    assert (len(store), other.records) == (1, {})
