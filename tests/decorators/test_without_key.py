"""``without_key="run"``: work for which ``key=`` selects nothing runs each time, and says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from lambda_once import KeyMissing, Misconfigured
from lambda_once.observability.events import Event
from lambda_once.testing import api_event
from lambda_once_tools.explain.explanation import explain, identifier_of
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import batch, fifo_record, sns_event, sqs_record

pytestmark = in_memory
Json = dict[str, Any]
Told = Callable[[], tuple[list[str], int]]


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Read the reasons that were logged since the last time, and how often it was counted."""

    def read() -> tuple[list[str], int]:
        lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        counts = [line["unprotected"][0] for line in lines if "unprotected" in line]
        return [line["reason"] for line in lines if line.get("message") == Event.UNPROTECTED], int(
            sum(counts)
        )

    return read


class Shop:
    """Work under one decorator, and how to deliver a body to it."""

    def __init__(self, rig: Rig, face: str, key: Any = "id", **options: Any) -> None:
        self.runs: list[Any] = []
        decorate = getattr(rig.once, face)(key=key, without_key="run", name="work", **options)
        self.work: Any = decorate(self._work if face != "function" else self._call)
        self._rig, self._face = rig, face

    def _work(self, unit: Any) -> int:
        self.runs.append(unit)
        return len(self.runs)

    def _call(self, id: Any = None, more: Any = None) -> int:  # noqa: A002, ARG002  (what is selected)
        self.runs.append(id)
        return len(self.runs)

    def deliver(self, *bodies: Json) -> Any:
        """Deliver *bodies*, of a source of records as one event."""
        context = self._rig.context()
        match self._face:
            case "function":
                with self._rig.once.invocation(context):
                    return [self.work(**body) for body in bodies]
            case "sqs":
                records = [sqs_record(body, id_=f"m-{n}") for n, body in enumerate(bodies)]
                return self.work(batch(*records), context)
            case "sns":
                return [self.work(sns_event(json.dumps(body)), context) for body in bodies]
            case "api_gateway":
                return [self.work(api_event(body=body), context) for body in bodies]
            case _:
                return [self.work(body, context) for body in bodies]


FACES = ["event", "function", "sqs", "sns", "api_gateway"]


@pytest.mark.parametrize("face", FACES)
def test_what_has_no_key_runs_each_time(rig: Rig, told: Told, face: str) -> None:
    """It sends no request, each run is counted, and the first is logged; what has a key runs once."""
    shop = Shop(rig, face)
    for _ in range(2):
        shop.deliver({"more": 1}, {"id": None, "more": 1})
    assert len(shop.runs) == 4
    assert rig.store.wished == []
    (reason,), count = told()
    assert count == 4
    assert "selects nothing" in reason
    assert 'without_key="run"' in reason
    for _ in range(2):
        shop.deliver({"id": "o-1"})
        shop.deliver({"id": ""})
    assert len(shop.runs) == 7
    assert len(rig.rows()) == 1
    assert told() == ([], 2)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("key", ["[id, more]", "{id: id, more: more}"])
def test_a_null_part_is_still_no_key(rig: Rig, told: Told, face: str, key: str) -> None:
    """Half a key is not none: whoever wrote the expression counts on all of it."""
    shop = Shop(rig, face, key)
    for body in ({"id": "o-1", "more": None}, {}):
        with suppress(KeyMissing, BatchProcessingError):
            shop.deliver(body)
    assert shop.runs == []
    assert told() == ([], 0)


def test_a_callable_key_may_select_nothing(rig: Rig) -> None:
    """None is no key; a part of a list that is, is half of one, and the message has the way out."""
    shop = Shop(rig, "event", lambda event: event.get("key"))
    shop.deliver({}, {}, {"key": []})
    assert len(shop.runs) == 3
    with pytest.raises(KeyMissing, match=r"or join the parts that may be missing to a text$"):
        shop.deliver({"key": ["a", None]})


def test_an_expression_that_fails_is_no_missing_key(rig: Rig) -> None:
    """A body that is not JSON where the expression reads JSON."""
    shop = Shop(rig, "event", "powertools_json(body).id")
    with pytest.raises(KeyMissing, match="failed on this payload"):
        shop.deliver({"body": "{"})
    shop.deliver({})
    assert len(shop.runs) == 1


def test_a_missing_scope_is_no_missing_key(rig: Rig) -> None:
    """The key is there, so that the work is protected or refused."""
    shop = Shop(rig, "event", scope="tenant")
    with pytest.raises(KeyMissing, match="scope"):
        shop.deliver({"id": 1})


def test_what_it_returns_and_raises_is_the_callers(rig: Rig) -> None:
    """As if it had no decorator; async work too."""

    @rig.once.function(key="order", without_key="run")
    async def charge(order: Any) -> Any:
        if order == "":
            raise ValueError(order)
        return order

    assert asyncio.run(charge(None)) is None
    assert asyncio.run(charge({})) == {}
    with pytest.raises(ValueError, match=r"^$"):
        asyncio.run(charge(""))

    @rig.once.event(key="id", without_key="run")
    async def handler(event: Any, context: Any) -> Any:
        return [event, context.function_name]

    assert handler({}, rig.context()) == [{}, "orders"]


def test_a_route_runs(rig: Rig, told: Told) -> None:
    """The key of its body is missing."""
    app = APIGatewayHttpResolver()
    runs: list[int] = []

    @app.post("/orders", middlewares=[rig.once.route(key="id", without_key="run")])
    def order() -> Json:
        runs.append(1)
        return {}

    for body in ({}, {}, {"id": 1}, {"id": 1}):
        assert app.resolve(api_event("POST", "/orders", body), rig.context())["statusCode"] == 200
    assert len(runs) == 3
    assert told()[1] == 2


# ------------------------------------------------------------------ batches


def in_order(*bodies: Json) -> Json:
    """A batch of a FIFO queue: the first three are of one group, the others of another."""
    groups = ["g" if n < 3 else "h" for n in range(len(bodies))]
    given = enumerate(zip(bodies, groups, strict=True))
    return batch(
        *(fifo_record(body, group=of, deduplication=f"d-{n}", id_=f"m-{n}") for n, (body, of) in given)
    )


@pytest.mark.parametrize("is_async", [False, True])
def test_a_failure_stops_its_group(rig: Rig, is_async: bool) -> None:
    """A record without a key has its turn, and what it raises is logged and retried, as of any other."""
    worked: list[Any] = []

    def plain(record: Any) -> None:
        worked.append(record.json_body["n"])
        if record.json_body.get("fails"):
            raise ValueError

    async def coroutine(record: Any) -> None:
        plain(record)

    handler = rig.once.sqs(key="id", without_key="run", name="work")(coroutine if is_async else plain)
    bodies: list[Json] = [{"n": 0, "id": 1}, {"n": 1, "fails": 1}, {"n": 2, "id": 2}, {"n": 3}, {"n": 4}]
    event = in_order(*bodies)
    failed = [{"itemIdentifier": "m-1"}, {"itemIdentifier": "m-2"}]
    assert handler(event, rig.context()) == {"batchItemFailures": failed}
    assert sorted(worked) == [0, 1, 3, 4]
    assert rig.events().count("once.raised") == 1
    (raised,) = [each for each in rig.reported if each.event is Event.RAISED]
    assert (raised.name, raised.delivery, raised.error, raised.token) == ("work", "m-1", "ValueError", None)
    bodies[1]["fails"] = 0
    assert handler(in_order(*bodies), rig.context()) == {"batchItemFailures": []}
    assert sorted(worked) == [0, 1, 1, 2, 3, 3, 4, 4]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("number", [1, 3])
def test_near_the_end_nothing_begins(rig: Rig, is_async: bool, number: int) -> None:
    """What has no token is retried like the rest."""
    worked: list[Any] = []

    async def coroutine(record: Any) -> None:
        worked.append(record)

    work: Any = coroutine if is_async else worked.append
    handler = rig.once.sqs(key="id", without_key="run", name="work")(work)
    event = batch(*(sqs_record({"n": n}, id_=f"m-{n}") for n in range(number)))
    failed = [{"itemIdentifier": f"m-{n}"} for n in range(number)]
    assert handler(event, rig.context(seconds=0.1)) == {"batchItemFailures": failed}
    assert worked == []


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_an_exit_ends_the_batch(rig: Rig, is_async: bool, error: type[BaseException]) -> None:
    """What was done before is written."""

    def plain(record: Any) -> None:
        if "id" not in record.json_body:
            raise error

    async def coroutine(record: Any) -> None:
        plain(record)

    options: Any = {"concurrency": 1} if is_async else {}
    protect: Any = rig.once.sqs(key="id", without_key="run", name="work", **options)
    handler = protect(coroutine if is_async else plain)
    event = batch(*(sqs_record(body, id_=f"m-{n}") for n, body in enumerate([{"id": 1}, {"id": 2}, {}])))
    with pytest.raises(error):
        handler(event, rig.context())
    assert [row.state.name for row in rig.rows()] == ["COMPLETE", "COMPLETE"]


@pytest.mark.parametrize("is_async", [False, True])
def test_a_leaked_cancellation_fails_its_record(rig: Rig, is_async: bool) -> None:
    """As of a record with a token."""

    def plain(record: Any) -> None:
        if record.json_body["n"] == 0:
            raise asyncio.CancelledError

    async def coroutine(record: Any) -> None:
        plain(record)

    handler = rig.once.sqs(key="id", without_key="run", name="work")(coroutine if is_async else plain)
    event = batch(*(sqs_record({"n": n}, id_=f"m-{n}") for n in range(2)))
    assert handler(event, rig.context()) == {"batchItemFailures": [{"itemIdentifier": "m-0"}]}


def test_an_unawaited_result_fails_its_record(rig: Rig) -> None:
    """The work is not done, and the message must not be deleted."""

    async def later(_: Any) -> None: ...

    handler = rig.once.sqs(key="id", without_key="run", name="work", raise_on_entire_batch_failure=False)(
        lambda record: later(record)  # noqa: PLW0108  (a plain function)
    )
    failed = {"batchItemFailures": [{"itemIdentifier": "m-0"}]}
    assert handler(batch(sqs_record({}, id_="m-0")), rig.context()) == failed
    (raised,) = [each for each in rig.reported if each.event is Event.RAISED]
    assert raised.error == "Misconfigured"


# ------------------------------------------------------------------ around


@pytest.mark.parametrize("face", ["event", "function", "sqs", "sns", "mq"])
def test_it_needs_a_key(rig: Rig, face: str) -> None:
    """Without one there always is a key; and only HTTP has other ways."""
    decorate = getattr(rig.once, face)
    with pytest.raises(Misconfigured, match="there always is a key"):
        decorate(without_key="run")
    for way in ("hash", "reject"):
        with pytest.raises(Misconfigured, match='give "run", or leave it out'):
            decorate(without_key=way, key="id")


@pytest.mark.parametrize("face", ["kinesis", "dynamodb_stream", "kafka"])
def test_streams_do_not_take_it(rig: Rig, face: str) -> None:
    """They have a default key that every record has."""
    with pytest.raises(Misconfigured, match="unknown option without_key"):
        getattr(rig.once, face)(without_key="run", key="id")


def test_switched_off_is_counted_otherwise(rig: Rig, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    """``LAMBDA_ONCE_DISABLED`` runs everything."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "1")
    shop = Shop(rig, "event")
    shop.deliver({}, {})
    assert len(shop.runs) == 2
    assert told() == ([], 0)


def test_each_function_is_logged(rig: Rig, told: Told) -> None:
    """Once."""

    def work(_: object) -> None: ...

    handlers: list[Any] = [rig.once.event(key="id", without_key="run", name=name)(work) for name in "ab"]
    for _ in range(2):
        for handler in handlers:
            handler({}, rig.context())
    reasons, count = told()
    assert (len(reasons), count) == (2, 4)


@pytest.mark.parametrize("face", FACES)
def test_explain_says_so(rig: Rig, face: str) -> None:
    """It has no token, and is no error."""
    shop = Shop(rig, face)
    given: Any = {
        "function": {"kwargs": {}},
        "sqs": batch(sqs_record({})),
        "sns": sns_event("{}"),
        "api_gateway": api_event(body={"a": 1}),
    }.get(face, {})
    found = identifier_of(shop.work)
    assert found is not None
    (explained,) = explain(found, given)
    assert explained.unprotected is not None
    assert 'without_key is "run"' in explained.unprotected
    assert (explained.token, explained.problem) == (None, None)


# ------------------------------------------------------------------ what a key is written for


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("body", "write key='@'."),
        ("powertools_json(body)", "write key='@'."),
        ("powertools_json(body).id", "write key='id'."),
        ("powertools_json( body ).[a, b]", "write key='[a, b]'."),
        ("[powertools_json(body).a, powertools_json(body).b]", "write key='[a, b]'."),
        ("body.id", "write key='id'."),
        ("[body.a, body.b]", "write key='[a, b]'."),
        ('headers."idempotency-key"', "the header Idempotency-Key is the key."),
        ('headers."X-Id"', 'key=lambda event: event["headers"]["id"].'),
        ("requestContext.requestId", 'key=lambda event: event["requestContext"]["id"].'),
    ],
)
def test_a_key_for_the_whole_event_is_refused_over_http(rig: Rig, given: str, written: str) -> None:
    """Each request would get 400; the message has what to write, and what for a field of that name."""
    once = rig.once
    for face in (once.api_gateway, once.route):
        with pytest.raises(Misconfigured) as refused:
            face(key=given)
        assert written in str(refused.value)
        assert "For a JSON body with a field" in str(refused.value)
    with pytest.raises(Misconfigured, match="fingerprint="):
        once.api_gateway(fingerprint=given)
    once.event(key=given)  # it sees the event


@pytest.mark.parametrize(
    "key",
    ["bodyId", "id", "[id, body]", "powertools_json(data).id", "headersOf.id", "@.body.id", "meta.body"],
)
def test_a_field_of_the_body_is_a_key(rig: Rig, key: str) -> None:
    """Names that only begin like those, and what the message offers."""
    rig.once.api_gateway(key=key)


def test_a_body_with_a_field_body(rig: Rig) -> None:
    """What the message offers for it works."""
    runs: list[Any] = []

    def work(event: Any) -> Json:
        runs.append(event)
        return {}

    handler: Any = rig.once.api_gateway(key="@.body.id", name="mail")(work)
    for n in (1, 1, 2):
        handler(api_event(body={"body": {"id": n}}), rig.context())
    assert len(runs) == 2


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("idempotencyKey", "operation.idempotencyKey"),
        ("[id, n]", "operation.[id, n]"),
        ("powertools_json(body).id", "operation.powertools_json(body).id"),
        ("id || n", "operation | id || n"),
        ("(id || n)", "operation | (id || n)"),
        ("@.id", "operation | @.id"),
    ],
)
def test_a_field_of_the_only_argument_is_offered(rig: Rig, given: str, meant: str) -> None:
    """Powertools' expression sees one argument, ours sees all by name; what is offered works."""
    operation = {"idempotencyKey": "k", "id": 1, "n": 2, "body": '{"id": 5}'}

    def work(operation: Any, lambda_context: Any = None) -> int:
        runs.append(operation)
        return len(runs)

    for option in ("key", "fingerprint", "scope"):
        options: Any = {"key": "operation", option: given}
        with pytest.raises(Misconfigured, match="did you mean") as refused:
            rig.once.function(**options)(work)
        assert str(refused.value).endswith(f"did you mean {option}={meant!r}?")
    runs: list[Any] = []
    protected = rig.once.function(key=meant, name="work")(work)
    assert protected(operation) == protected(operation) == 1


def test_no_field_is_offered_of_several_arguments(rig: Rig) -> None:
    """Nobody knows which."""

    def charge(order: Any, customer: Any) -> None: ...

    with pytest.raises(Misconfigured, match=r"are order, customer$"):
        rig.once.function(key="id")(charge)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("order_idd", "order_id"),
        ("ordr_id", "order_id"),
        ("[order_idd, note]", "[order_id, note]"),
        ("join('-', [orderid, 'order_idd'])", "join('-', [order_id, 'order_idd'])"),
    ],
)
def test_a_typo_of_an_argument_is_corrected(rig: Rig, given: str, meant: str) -> None:
    """It is no field of it."""

    def charge(order_id: str, note: str = "", lambda_context: Any = None) -> None: ...

    def pay(order_id: str) -> None: ...

    for function in (charge, pay) if "note" not in given else (charge,):
        with pytest.raises(Misconfigured) as refused:
            rig.once.function(key=given)(function)
        assert str(refused.value).endswith(f"; did you mean key={meant!r}?")


@pytest.mark.parametrize("given", ["order_id", "orderId", "customer"])
def test_a_field_of_an_argument_is_no_typo(rig: Rig, given: str) -> None:
    """Its name begins with that of the argument, or is like none."""

    def charge(order: Any) -> None: ...

    with pytest.raises(Misconfigured, match=f"did you mean key='order.{given}'"):
        rig.once.function(key=given)(charge)
