"""Records, functions, HTTP requests: what Powertools made its key of is asked for, sync and async."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import threading
from datetime import timedelta
from typing import Any

import pytest
from aws_durable_execution_sdk_python import DurableContext
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)
from pydantic import BaseModel

from lambda_once import Done, Misconfigured, PowertoolsHistory
from lambda_once.testing import api_event, lambda_context, s3_event
from tests.kit.executions import executions
from tests.kit.powertools import PREFIX, Shop
from tests.sources.samples import batch, sns_event, sqs_record

BY_BODY = "powertools_json(body).id"
CONTEXT = lambda_context("shop")
PLAIN, BY_ID = IdempotencyConfig(), IdempotencyConfig(event_key_jmespath="id")
IDS = [f"o-{n}" for n in range(6)]


def messages(received: int = 1) -> dict[str, Any]:
    """A batch of one message an order."""
    records = [sqs_record({"id": id_}, id_=f"m-{id_}-{received}") for id_ in IDS]
    return batch(*records)


def of_records(shop: Shop) -> PowertoolsHistory:
    """Return a history of records, keyed by their bodies."""
    return shop.history(key=BY_BODY)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("on_lapse", ["take_over", "hold"])
def test_records_of_a_batch(shop: Shop, is_async: bool, on_lapse: Any) -> None:
    """Records that the old version worked are acknowledged; those that it works on are delivered again."""
    worked: list[str] = []
    old = shop.old_records(lambda record: worked.append(record.json_body["id"]), event_key_jmespath=BY_BODY)
    once = shop.once(history=of_records(shop), on_lapse=on_lapse)

    def plain(record: SQSRecord) -> None:
        worked.append(record.json_body["id"])

    async def coroutine(record: SQSRecord) -> None:
        worked.append(record.json_body["id"])

    new = once.sqs(key="id", name="charge")(coroutine if is_async else plain)
    raw = messages()["Records"]
    old(SQSRecord(raw[0]))
    seen: list[Any] = []

    def deliver_meanwhile(record: Any) -> None:
        seen.append(new(messages(2), lambda_context("shop")))
        worked.append(record.json_body["id"])

    shop.old_records(deliver_meanwhile, event_key_jmespath=BY_BODY)(SQSRecord(raw[1]))
    assert seen == [{"batchItemFailures": [{"itemIdentifier": "m-o-1-2"}]}]
    assert new(messages(3), lambda_context("shop")) == {"batchItemFailures": []}
    assert sorted(worked) == IDS
    for each in raw:
        old(SQSRecord(each))
    assert sorted(worked) == IDS


def test_an_async_handler(shop: Shop) -> None:
    """The history is asked off the event loop, and lets both versions exclude each other."""
    runs: list[Any] = []

    async def work(event: Any) -> dict[str, int]:
        runs.append(event)
        return {"run": len(runs)}

    @shop.once().event(key="id", name="charge")
    async def handler(event: Any) -> Any:
        return await work(event)

    assert handler({"id": 1}, lambda_context("shop")) == {"run": 1}
    assert shop.old(lambda _: {"run": 9})({"id": 1}) == {"run": 1}


class Threads:
    """A client that knows on which threads its requests were sent."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.seen: set[int] = set()

    def __getattr__(self, operation: str) -> Any:
        self.seen.add(threading.get_ident())
        return getattr(self._client, operation)


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("records", [1, 3])
def test_requests_leave_the_event_loop_free(shop: Shop, records: int, fails: bool) -> None:
    """No request of the history is sent on the thread of the loop, in a batch or alone."""
    client = Threads(shop.client)
    history = shop.through(client).history(key=BY_BODY)
    loops: set[int] = set()
    client.seen.clear()

    @shop.once(history=history).sqs(key="id", name="n", raise_on_entire_batch_failure=False)
    async def handler(record: SQSRecord) -> None:
        loops.add(threading.get_ident())
        if fails:
            raise ValueError

    answer = handler(batch(*messages()["Records"][:records]), lambda_context("shop"))
    assert len(answer["batchItemFailures"]) == (records if fails else 0)
    assert len(loops) == 1
    assert client.seen
    assert not client.seen & loops


@dataclasses.dataclass
class Order:
    id: str
    total: int


class Model(BaseModel):
    id: str
    total: int


@pytest.mark.parametrize("order", [{"id": "1", "total": 5}, Order("1", 5), Model(id="1", total=5)])
@pytest.mark.parametrize("is_async", [False, True])
def test_functions(shop: Shop, order: Any, is_async: bool) -> None:
    """The argument that ``data_keyword_argument`` named is hashed, whatever it is an instance of."""
    runs: list[str] = []
    config = IdempotencyConfig(lambda_context=lambda_context("shop"))

    @idempotent_function(  # type: ignore[untyped-decorator]
        data_keyword_argument="order", persistence_store=shop.layer(), config=config, key_prefix=PREFIX
    )
    def old(customer: str, order: Any) -> str:
        runs.append(customer)
        return "charged"

    once = shop.once(history=shop.history(key="", data="order"))

    def plain(customer: str, order: Any) -> str:
        runs.append(customer)
        return "charged"

    async def coroutine(customer: str, order: Any) -> str:
        return plain(customer, order)

    def new(*args: Any) -> Any:
        if is_async:
            return asyncio.run(once.function(key="order.id", fingerprint=False)(coroutine)(*args))
        return once.function(key="order.id", fingerprint=False)(plain)(*args)

    assert old("bob", order=order) == new("bob", order) == "charged"
    assert runs == ["bob"]


def test_a_function_of_one_argument_needs_no_name(shop: Shop) -> None:
    """Nor does `once.run`."""
    old = shop.old(lambda event: event["id"])
    old({"id": 5})
    once = shop.once()
    answer: Any = once.run("n", 5, lambda _: "again", {"id": 5})
    assert answer == 5


def test_requests(shop: Shop) -> None:
    """A response that the old version stored is replayed, and marked as a replay."""
    event = api_event(body={"id": 1}, headers={"Idempotency-Key": "k-1"})
    key = 'headers."idempotency-key"'
    response = {"statusCode": 201, "body": '{"charged": 1}'}
    shop.old(lambda _: response, event_key_jmespath=key)(event)
    runs: list[Any] = []

    @shop.once(history=shop.history(key=key, across_callers=True)).api_gateway(caller=False)
    def handler(event: Any) -> Any:
        runs.append(event)

    answer = handler(event, lambda_context("shop"))
    assert answer["body"] == response["body"]
    assert answer["headers"]["Idempotent-Replayed"] == "true"
    assert runs == []


BY_HEADER = 'headers."idempotency-key"'


def request(method: str = "POST", path: str = "/pay", user: str = "alice") -> dict[str, Any]:
    """Return a request of *user*, whose key another one has, too."""
    event = api_event(method, path, body={"id": 1}, headers={"Idempotency-Key": "k-1"})
    event["requestContext"]["authorizer"] = {"jwt": {"claims": {"iss": "https://issuer", "sub": user}}}
    return event


def test_a_failed_response_leaves_no_record(shop: Shop) -> None:
    """A 503 is not stored by this package, so the old version may run, too."""
    history = shop.history(key=BY_HEADER, across_callers=True)

    @shop.once(history=history).api_gateway
    def handler(event: Any) -> Any:
        return {"statusCode": 503}

    assert handler(request(), CONTEXT)["statusCode"] == 503
    assert shop.record() is None


@pytest.mark.parametrize(
    ("status", "store_status", "is_copied"), [(200, (), True), (402, (), False), (402, (402,), True)]
)
def test_a_response_is_copied_if_it_would_be_stored(
    shop: Shop, status: int, store_status: tuple[int, ...], is_copied: bool
) -> None:
    """One of 400 and above outside ``store_status`` is replayed while its record lives, no longer."""
    runs: list[Any] = []
    response = {"statusCode": status, "body": "from Powertools"}
    shop.old(lambda _: response, event_key_jmespath=BY_HEADER)(request())
    history = shop.history(key=BY_HEADER, across_callers=True)

    @shop.once(history=history).api_gateway(store_status=store_status)
    def handler(event: Any) -> Any:
        runs.append(event)
        return {"statusCode": 201}

    for _ in range(2):
        assert handler(request(), CONTEXT)["body"] == "from Powertools"
    (row,) = shop.items(shop.tokens)
    assert ("actualCompletion" in row) is is_copied
    assert runs == []
    shop.change(expiration={"N": "1000"})
    assert handler(request(), CONTEXT)["statusCode"] == (status if is_copied else 201)


PRIVATE = {"statusCode": 200, "cookies": ["session=s3cret"], "body": "in"}


def without_a_key(user: str | None) -> dict[str, Any]:
    """Return a request of *user*, or of nobody, whose body is its key for Powertools alone."""
    event = request(user=str(user))
    del event["headers"]["idempotency-key"]
    if user is None:
        del event["requestContext"]["authorizer"]
    return event


@pytest.mark.parametrize(("user", "status"), [("alice", 200), (None, 409)])
@pytest.mark.parametrize("by_old", [True, False])
def test_a_private_response_is_in_neither_table(
    shop: Shop, user: str | None, status: int, *, by_old: bool
) -> None:
    """A duplicate gets it without cookies, or nothing of it; the record of the new version has no more."""
    runs: list[Any] = []
    if by_old:
        shop.old(lambda _: PRIVATE, event_key_jmespath=BY_BODY)(without_a_key(user))

    @shop.once(history=shop.history(key=BY_BODY, across_callers=True)).api_gateway
    def handler(event: Any) -> Any:
        runs.append(event)
        return PRIVATE

    if not by_old:
        assert handler(without_a_key(user), CONTEXT) == PRIVATE
        assert "s3cret" not in str(shop.record())
    for _ in range(2):
        answer = handler(without_a_key(user), CONTEXT)
        assert answer["statusCode"] == status
        assert "s3cret" not in str(answer)
        assert (answer["body"] == "in") is (status == 200)
    assert "s3cret" not in str(shop.items(shop.tokens))
    assert len(runs) == (0 if by_old else 1)


@pytest.mark.parametrize(("user", "status"), [("alice", 200), (None, 409)])
def test_a_private_response_that_a_probe_found(shop: Shop, user: str | None, status: int) -> None:
    """Whoever sends the request of a killed attempt again may be another client."""
    shop.begun(without_a_key(user), event_key_jmespath=BY_BODY)
    shop.lapse()
    history = shop.history(key=BY_BODY, across_callers=True)

    @shop.once(history=history, on_lapse=lambda *_: Done(PRIVATE)).api_gateway
    def handler(event: Any) -> Any:
        raise AssertionError(event)

    for _ in range(2):
        answer = handler(without_a_key(user), CONTEXT)
        assert answer["statusCode"] == status
        assert "s3cret" not in str(answer)
    assert "s3cret" not in str([shop.items(shop.tokens), shop.record()])


def test_requests_need_a_word(shop: Shop) -> None:
    """A record has no caller, method or path: any sender of its key would get the response (guarantee 9)."""
    once = shop.once(history=shop.history(key=BY_HEADER))
    for options in ({}, {"caller": False}, {"caller": "headers.user"}):
        with pytest.raises(Misconfigured, match=r"across_callers=True"):
            once.api_gateway(**options, name="work")(lambda event: event)


def test_what_across_callers_means(shop: Shop) -> None:
    """As in Powertools: another caller's request, to another path, gets the response to the first one."""
    runs: list[str] = []
    history = shop.history(key=BY_HEADER, across_callers=True)

    @shop.once(history=history).api_gateway
    def handler(event: Any) -> Any:
        runs.append(event["rawPath"])
        return {"statusCode": 200, "body": f"run {len(runs)}"}

    requests = (request(), request(user="bob"), request("DELETE", "/account/7", user="bob"))
    assert [handler(each, CONTEXT)["body"] for each in requests] == ["run 1"] * 3
    assert runs == ["/pay"]


def test_data_may_be_derived(shop: Shop) -> None:
    """The old version hashed the body of a record: a callable gives it."""
    shop.old(lambda _: None)({"id": "o-0"})
    history = shop.history(data=lambda record: SQSRecord(record).json_body)
    worked: list[str] = []

    @shop.once(history=history).sqs(key="id")
    def handler(record: SQSRecord) -> None:
        worked.append(record.json_body["id"])

    handler(messages(), lambda_context("shop"))
    assert sorted(worked) == IDS[1:]


def test_a_callable_that_raises(shop: Shop) -> None:
    """It is the developer's mistake, whatever the client sent: nothing runs, and an alarm rings."""
    runs: list[Any] = []
    once = shop.once(history=shop.history(data=lambda event: event["absent"]))
    handler = once.event(key="id")(runs.append)
    with pytest.raises(Misconfigured, match="data= of PowertoolsHistory raised KeyError"):
        handler({"id": 1}, lambda_context("shop"))
    assert runs == []
    assert shop.events() == ["once.misconfigured"]


def test_a_notification_in_an_event_of_its_own(shop: Shop) -> None:
    """The old version had the whole event for its key, the new one has the record."""
    event, key = sns_event('{"id": 1}'), "Records[0].Sns.MessageId"
    shop.old(lambda _: None, event_key_jmespath=key)(event)
    worked: list[Any] = []
    history = shop.history(key=key, data=lambda record: {"Records": [record]})
    shop.once(history=history).sns(worked.append)(event, lambda_context("shop"))
    assert worked == []


def test_transact_completes_both(shop: Shop) -> None:
    """A completion by the user's transaction is recorded, too."""
    once = shop.once()

    @once.event(key="id")
    def handler(event: Any) -> Any:
        item = {"id": {"S": "written"}, "status": {"S": "COMPLETED"}, "expiration": {"N": "1"}}
        put = {"Put": {"TableName": shop.records, "Item": item}}
        return once.current().transact([put], {"charged": 1})

    handler({"id": 1}, lambda_context("shop"))
    assert shop.old_result({"id": 1}) == {"charged": 1}


def test_disabled(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """LAMBDA_ONCE_DISABLED: the history is neither asked nor written."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "1")
    assert shop.new(lambda _: 1)({"id": 1}) == 1
    assert shop.record() is None


# ------------------------------------------------------------------------------------------- mistakes


def test_several_units_of_one_event_are_refused(shop: Shop) -> None:
    """Powertools hashed the whole event; no unit of it has that key."""

    @shop.once().event
    def handler(event: Any) -> None: ...

    with pytest.raises(Misconfigured, match="one record an event, as Powertools has keyed it; this has 2"):
        handler(s3_event("a", "b"), lambda_context("shop"))


def test_what_has_no_counterpart_is_refused(shop: Shop) -> None:
    """Blocks and routes: nothing of Powertools has their key."""
    once = shop.once()
    with pytest.raises(Misconfigured, match=r"a block cannot have a history"):
        once.begin("k", name="work")
    with pytest.raises(Misconfigured, match=r"once\.route cannot have a history"):
        once.route()
    with shop.once(history=None).begin("k", name="work") as attempt:
        assert not attempt.replayed


def test_a_durable_execution_has_no_history(shop: Shop) -> None:
    """Nor has it a counterpart: `once.execution` is refused, and nothing is acquired."""
    once = shop.once()

    def handle(event: Any, context: DurableContext) -> None:
        with once.execution(context, key=5, name="work", lease=timedelta(hours=1)):
            raise AssertionError("it ran")

    with executions(handle) as of:
        outcome = of.run("first", {})
    assert "a block cannot have a history" in (outcome.message or "")
    assert shop.events() == []


def two(a: int, b: int) -> None:
    """Take two arguments."""


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda shop: PowertoolsHistory(shop.records, config=PLAIN), "takes a persistence layer"),
        *(
            (lambda shop, name=name, value=value: shop.history(**{name: value}), f"^{name}={value!r}: give ")
            for name, value in (
                *(("across_callers", "no"), ("across_callers", 1), ("across_callers", None)),
                *(("writes", "no"), ("writes", 0), ("function_name", 5), ("key_prefix", b"a")),
            )
        ),
        (lambda _: PowertoolsHistory(DynamoDBPersistenceLayer, config=PLAIN), "takes a persistence layer"),  # type: ignore[arg-type]
        (lambda shop: shop.history(key="a["), "'a\\[' is not JMESPath"),
        (lambda shop: shop.history(config={}), "must be the old version's IdempotencyConfig"),
        (lambda shop: shop.history(config=None), "must be the old version's IdempotencyConfig"),
        (lambda shop: shop.history(data=5), "the name of an argument or a callable"),
        (lambda shop: shop.history(data=two), "a plain def of one argument"),
        (lambda shop: shop.once(history=PowertoolsHistory), "give an instance"),
        (lambda shop: shop.once().function(two), "needs data=.*one of a, b"),
        (lambda shop: shop.once(history=shop.history(data="c")).function(two), "one of a, b"),
        (lambda shop: shop.once(history=shop.history(data="c")).event(lambda e: e), "a handler has none"),
    ],
)
def test_mistakes_are_found_when_decorated(shop: Shop, make: Any, problem: str) -> None:
    """Nothing waits for the first event."""
    with pytest.raises(Misconfigured, match=problem):
        make(shop)


def test_a_layer_that_is_in_use_is_refused(shop: Shop) -> None:
    """A layer keeps the key of its first function, and the prefix of its last one."""
    layer = shop.layer()
    layer.configure(IdempotencyConfig(), "old")
    with pytest.raises(Misconfigured, match="a persistence layer of its own"):
        PowertoolsHistory(layer, config=PLAIN)


def test_one_layer_serves_several_functions(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key has the name of each, as Powertools makes it; a later use of the layer changes nothing."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop")
    layer = shop.layer()
    history = PowertoolsHistory(layer, config=PLAIN)
    layer.configure(IdempotencyConfig(event_key_jmespath="other"), "other")
    records = [history.of({"id": 1}, name, is_call=False) for name in ("app.a", "app.b", "app.a")]
    assert [record._layer.function_name for record in records] == ["shop.app.a", "shop.app.b", "shop.app.a"]
    assert all(record._layer.event_key_jmespath == "" for record in records)


@pytest.mark.parametrize("options", [{"function_name": "app.old"}, {"key_prefix": "shop#charge"}])
def test_two_functions_do_not_share_records(shop: Shop, options: Any) -> None:
    """A history that names its function is refused to another one, which would replay that one's results."""
    history = PowertoolsHistory(shop.layer(), config=BY_ID, **options)
    history.of({"id": 1}, "app.charge", is_call=False)
    history.of({"id": 2}, "app.charge", is_call=False)
    with pytest.raises(Misconfigured, match=r"app\.refund would share its records with app\.charge"):
        history.of({"id": 1}, "app.refund", is_call=False)


def test_the_key_is_powertools_own(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prefix is the Lambda function and ``module.qualname``; *function_name* names an old one."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "orders")

    def charge(event: Any) -> str:
        return "charged"

    def old(event: Any, context: Any) -> str:
        return charge(event)

    config = IdempotencyConfig(event_key_jmespath="id")
    decorated = idempotent(persistence_store=shop.layer(), config=config)(old)
    assert decorated({"id": 1}, lambda_context("orders")) == "charged"
    record = shop.record()
    assert record is not None
    name = f"{__name__}.{old.__qualname__}"
    assert record["id"]["S"].startswith(f"orders.{name}#")

    def again(event: Any) -> str:
        raise AssertionError("it ran")

    for function, given in ((old, None), (again, name)):
        renamed = functools.wraps(function)(again) if given is None else again
        history = PowertoolsHistory(shop.layer(), config=BY_ID, function_name=given)
        handler = shop.once(history=history).event(key="id", name=f"charge-{given}")(renamed)
        assert handler({"id": 1}, lambda_context("orders")) == "charged"
