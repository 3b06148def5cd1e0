from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from moto import mock_aws

from lambda_once import HOLD, InProgress, MemoryStore, Once
from lambda_once.core.lifecycle import State
from lambda_once.testing import (
    Crash,
    FakeClock,
    Step,
    api_event,
    crash_at,
    create_table,
    lambda_context,
    sns_event,
    sqs_event,
    using,
)
from tests.decorators.grounds import Ground, Memory, Table
from tests.kit import tables

STEPS: list[Step] = ["acquire", "work", "complete"]
LEFT_IN = {"acquire": State.IN_PROGRESS, "work": State.IN_PROGRESS, "complete": State.COMPLETE}
"""What the row of the work at that step says afterwards."""
LEASE = 60.0
"""Seconds after which every lease of these tests is over."""


@pytest.fixture
def on_memory() -> Ground:
    """A store in memory."""
    return Memory()


@pytest.fixture
def on_moto() -> Iterator[Ground]:
    """A table of moto's."""
    with mock_aws():
        client = tables.client()
        create_table(client, "tokens")
        yield Table(client, "tokens")


@pytest.fixture
def on_engine(engine_endpoint: str, partiql: None) -> Iterator[Ground]:
    """A table of a real engine."""
    client = tables.client(engine_endpoint)
    with tables.fresh(client) as name:
        yield Table(client, name)
    client.close()


@pytest.fixture(params=["on_memory", "on_moto", pytest.param("on_engine", marks=pytest.mark.engine)])
def ground(request: pytest.FixtureRequest) -> Ground:
    """Each store in turn."""
    found: Ground = request.getfixturevalue(request.param)
    return found


class Shop:
    """One piece of work, under every face, on a clock set by hand."""

    def __init__(self, ground: Ground, **options: Any) -> None:
        self.ground = ground
        self.clock = FakeClock()
        self.once: Any = Once(store=ground.store, service="shop", **options)
        self.once._runtime.clock = self.clock
        self.did: list[Any] = []

    def do(self, what: Any) -> dict[str, Any]:
        self.did.append(what)
        return {"statusCode": 200, "body": "done"}

    def states(self) -> dict[str, State]:
        """The state of each key."""
        return {row.token.rpartition("/")[2]: row.state for row in self.ground.records}


def by_sqs(shop: Shop) -> Callable[[], Any]:
    """A batch of one."""
    handler = shop.once.sqs(key="id", name="work")(lambda record: shop.do(record.json_body["id"]))
    event = sqs_event({"id": "k"})
    return lambda: handler(event, lambda_context())


def by_sns(shop: Shop) -> Callable[[], Any]:
    """A notification."""
    handler = shop.once.sns(key="id", name="work")(lambda _: shop.do("k"))
    event = sns_event({"id": "k"})
    return lambda: handler(event, lambda_context())


def by_event(shop: Shop) -> Callable[[], Any]:
    """A direct invocation."""
    handler = shop.once.event(key="id", name="work")(lambda event: shop.do(event["id"]))
    return lambda: handler({"id": "k"}, lambda_context())


def by_async_event(shop: Shop) -> Callable[[], Any]:
    """The same, by a coroutine."""

    async def work(event: dict[str, Any]) -> dict[str, Any]:
        return shop.do(event["id"])

    handler = shop.once.event(key="id")(work)
    return lambda: handler({"id": "k"}, lambda_context())


def by_api(shop: Shop) -> Callable[[], Any]:
    """A request."""
    handler = shop.once.api_gateway(name="work")(lambda _: shop.do("k"))
    event = api_event(body={"item": "tea"}, headers={"Idempotency-Key": "k"})
    return lambda: handler(event, lambda_context())


def by_route(shop: Shop) -> Callable[[], Any]:
    """A request to a route of an Event Handler."""
    app = APIGatewayHttpResolver()

    @app.post("/orders", middlewares=[shop.once.route()])
    def order() -> Response[str]:
        return Response(200, body=shop.do("k")["body"])

    event = api_event(body={"item": "tea"}, headers={"Idempotency-Key": "k"})
    return lambda: app.resolve(event, lambda_context())


def by_function(shop: Shop) -> Callable[[], Any]:
    """A function."""
    function = shop.once.function(key="what")(shop.do)
    return lambda: _invoked(shop, lambda: function("k"))


def by_async_function(shop: Shop) -> Callable[[], Any]:
    """A coroutine function."""

    async def work(what: str) -> dict[str, Any]:
        return shop.do(what)

    function: Callable[[str], Awaitable[Any]] = shop.once.function(key="what")(work)

    async def awaited() -> Any:
        return await function("k")

    return lambda: _invoked(shop, lambda: asyncio.run(awaited()))


def by_block(shop: Shop) -> Callable[[], Any]:
    """The explicit form."""

    def block() -> Any:
        with shop.once.begin("k", name="block") as attempt:
            return attempt.result if attempt.replayed else attempt.complete(shop.do("k"))

    return lambda: _invoked(shop, block)


def by_transaction(shop: Shop) -> Callable[[], Any]:
    """Work that writes its outcome with items of the user's."""

    def work(event: dict[str, Any]) -> Any:
        return shop.once.current().transact([shop.ground.booking], result=shop.do("k"))

    handler = shop.once.event(key="id")(work)
    return lambda: handler({"id": "k"}, lambda_context())


def _invoked(shop: Shop, call: Callable[[], Any]) -> Any:
    with shop.once.invocation(lambda_context()):
        return call()


FACES = [
    by_sqs,
    by_sns,
    by_event,
    by_async_event,
    by_api,
    by_route,
    by_function,
    by_async_function,
    by_block,
    by_transaction,
]


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("step", STEPS)
def test_a_crash_leaves_what_a_killed_function_leaves(
    ground: Ground, step: Step, face: Callable[[Shop], Callable[[], Any]]
) -> None:
    """One row, as its last write made it; after its lease the next delivery does what is not written."""
    shop = Shop(ground)
    deliver = face(shop)
    with crash_at(step) as killed:
        deliver()
        pytest.fail("the handler came back")
    assert shop.did == ([] if step == "acquire" else ["k"])
    assert shop.states() == {"k": LEFT_IN[step]}
    (row,) = ground.records
    assert killed.token == row.token
    assert row.expected_completion > shop.clock.now()
    shop.clock.advance(LEASE)
    deliver()
    assert shop.did == (["k", "k"] if step == "work" else ["k"])
    assert shop.states() == {"k": State.COMPLETE}
    if step != "complete":
        assert ground.records[0].fence > row.fence


@pytest.mark.parametrize("step", STEPS)
def test_a_transaction_of_the_dead_is_whole_or_absent(ground: Ground, step: Step) -> None:
    """The user's items are written with the outcome, or not at all."""
    shop = Shop(ground)
    deliver = by_transaction(shop)
    with crash_at(step):
        deliver()
    assert ground.bookings == (1 if step == "complete" else 0)
    shop.clock.advance(LEASE)
    deliver()
    assert ground.bookings == 1


def _batch(shop: Shop, *, coroutine: bool = False, **options: Any) -> Callable[[Any], Any]:
    async def later(record: Any) -> Any:
        return shop.do(record.json_body["id"])

    work = later if coroutine else (lambda record: shop.do(record.json_body["id"]))
    handler: Any = shop.once.sqs(key="id", name="work", **options)(work)
    return lambda event: handler(event, lambda_context())


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("coroutine", [False, True])
@pytest.mark.parametrize("groups", [None, "one"])
def test_a_batch_dies_as_a_whole(ground: Ground, step: Step, coroutine: bool, groups: str | None) -> None:
    """All tokens were acquired, the first work ended, and of no other was anything written."""
    shop = Shop(ground)
    deliver = _batch(shop, coroutine=coroutine)
    event = sqs_event({"id": "1"}, {"id": "2"}, {"id": "3"}, fifo_groups=groups)
    with crash_at(step) as killed:
        deliver(event)
        pytest.fail("the handler came back")
    at_once = coroutine and groups is None  # then any of the three may have been the first to end
    left = shop.states()
    first = next((id_ for id_, state in left.items() if state is not State.IN_PROGRESS), "1")
    assert left == dict.fromkeys("123", State.IN_PROGRESS) | {first: LEFT_IN[step]}
    assert at_once or first == "1"
    assert len(killed.tokens) == (3 if step == "acquire" else 1)
    begun = ["1", "2", "3"] if at_once else ["1"]
    assert shop.did == ([] if step == "acquire" else begun)
    shop.clock.advance(LEASE)
    assert deliver(event) == {"batchItemFailures": []}
    assert shop.states() == dict.fromkeys("123", State.COMPLETE)
    assert shop.did.count(first) == (2 if step == "work" else 1)


def test_where_a_person_decides_only_what_began_is_left(ground: Ground) -> None:
    """Under hold the records of a batch are acquired one by one: the others have no row."""
    shop = Shop(ground, on_lapse="hold")
    deliver = _batch(shop)
    event = sqs_event({"id": "1"}, {"id": "2"})
    with crash_at("work"):
        deliver(event)
    assert shop.states() == {"1": State.IN_PROGRESS}
    assert ground.records[0].ttl is None
    shop.clock.advance(LEASE)
    assert deliver(event) == {"batchItemFailures": [{"itemIdentifier": event["Records"][0]["messageId"]}]}
    assert shop.did == ["1", "2"]


@pytest.mark.parametrize(
    ("options", "step", "state"),
    [
        ({}, "work", State.IN_PROGRESS),
        ({}, "complete", State.RELEASED),
        ({"on_error": HOLD}, "work", State.IN_PROGRESS),
        ({"on_error": HOLD}, "complete", State.HELD),
    ],
)
def test_work_that_fails_comes_to_its_steps_too(
    ground: Ground, options: Any, step: Step, state: State
) -> None:
    """Its end is an end: nothing of it is written, or what its policy says."""
    shop = Shop(ground, **options)

    @shop.once.event(key="id")  # type: ignore[untyped-decorator]  # the shop does not tell the types
    def handler(event: dict[str, Any]) -> None:
        raise ValueError

    with crash_at(step):
        handler({"id": "k"}, lambda_context())
    assert shop.states() == {"k": state}


def test_the_dead_ask_for_nothing_more() -> None:
    """Work that swallows the crash, and calls that follow it, reach no table either."""
    shop = Shop(Memory())
    function = shop.once.function(key="what")(shop.do)

    @shop.once.event(key="id")  # type: ignore[untyped-decorator]  # the shop does not tell the types
    def handler(event: dict[str, Any]) -> None:
        with suppress(BaseException):
            function("inner")
        with suppress(BaseException):
            function("another")

    with crash_at("work") as killed:
        handler({"id": "outer"}, lambda_context())
    assert killed.token.endswith("/inner")
    assert shop.states() == {"outer": State.IN_PROGRESS, "inner": State.IN_PROGRESS}
    assert shop.did == ["inner"]


def test_every_once_of_the_process_dies() -> None:
    """One environment is one process: the second layer of a function dies with its first."""
    first, second = Shop(Memory()), Shop(Memory())
    with crash_at("work"):
        with suppress(Crash):
            by_event(first)()
        by_event(second)()
    assert second.states() == {}
    by_event(second)()
    assert second.states() == {"k": State.COMPLETE}


def test_what_was_remembered_dies_with_the_environment() -> None:
    """An outcome in the environment's memory (cache=) is asked for again in the next."""
    store = MemoryStore()
    once, ran = Once(store=store, service="shop", cache=10), list[str]()

    @once.event(key="id")
    def handler(event: dict[str, str]) -> None:
        ran.append(event["id"])

    handler({"id": "k"}, lambda_context())
    store.records.clear()
    handler({"id": "k"}, lambda_context())
    assert ran == ["k"]
    with crash_at("acquire"):
        handler({"id": "another"}, lambda_context())
    handler({"id": "k"}, lambda_context())
    assert ran == ["k", "k"]


def test_a_crash_is_within_using() -> None:
    """It kills on whatever store `using` has put in place, and gives that back."""
    once = Once(service="shop")
    handler: Any = once.event(key="id", name="h")(lambda _: 5)
    clock = FakeClock()
    with using(once, clock=clock) as store:
        with crash_at("work"):
            handler({"id": "k"}, lambda_context())
        with pytest.raises(InProgress):
            handler({"id": "k"}, lambda_context())
        clock.advance(LEASE)
        assert handler({"id": "k"}, lambda_context()) == 5
        assert store.acquisitions == {"shop/h/k": 2}


def test_another_environment_may_be_another_tenants() -> None:
    """The one that dies has served none before, and nor has the one after it."""
    once = Once(service="shop")
    handler: Any = once.event(key="id", name="h")(lambda _: 5)
    with using(once) as store:
        handler({"id": "k"}, lambda_context(tenant_id="red"))
        with crash_at("work"):
            once.run("mail", "k", lambda: None)  # it dies here: no context was seen
        with crash_at("work"):
            handler({"id": "k"}, lambda_context(tenant_id="blue"))
        once.run("book", "k", lambda: None)
        handler({"id": "k"}, lambda_context(tenant_id="green"))
    assert [*store.acquisitions] == [
        *("shop/h/red/k", "shop/mail/k", "shop/h/blue/k", "shop/book/k", "shop/h/green/k")
    ]


def test_using_is_within_a_crash() -> None:
    """The other way round; afterwards no invocation is dead."""
    own = Memory()
    once = Once(service="shop", store=own.store)
    handler: Any = once.event(key="id", name="h")(lambda _: 5)
    handler({"id": "before"}, lambda_context())
    with crash_at("work"), using(once) as store:
        handler({"id": "k"}, lambda_context())
    assert [record.state for record in store.records.values()] == [State.IN_PROGRESS]
    assert handler({"id": "k"}, lambda_context()) == 5
    assert len(own.records) == 2


def test_using_revives_no_crashed_invocation() -> None:
    """An engine from before the block is not what `using` puts back in it."""
    shop = Shop(Memory())
    handler = shop.once.event(key="id")(shop.do)
    handler({"id": "before"}, lambda_context())
    with crash_at("work"):
        with using(shop.once):
            pass
        handler({"id": "k"}, lambda_context())
    assert shop.states() == {"before": State.COMPLETE, "k": State.IN_PROGRESS}


def test_a_block_without_a_crash_fails() -> None:
    """A duplicate comes to no step: a test that meant to see a crash must not pass."""
    shop = Shop(Memory())
    deliver = by_event(shop)
    deliver()
    with pytest.raises(AssertionError, match="nothing reached 'work'"), crash_at("work"):
        deliver()
    with pytest.raises(ZeroDivisionError), crash_at("work"):
        raise ZeroDivisionError


def test_a_step_that_there_is_not() -> None:
    """Says which there are."""
    with pytest.raises(ValueError, match=r"unknown step 'commit': .*'acquire', 'work', 'complete'"):
        crash_at("commit")  # type: ignore[arg-type]  # what a type checker refuses, too


def test_a_crash_cannot_be_caught() -> None:
    """Handlers catch Exceptions."""
    assert not issubclass(Crash, Exception)
