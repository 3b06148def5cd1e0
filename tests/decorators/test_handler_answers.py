"""
What handlers and routes answer: the first time, again, in the log, and to who asks for the outcome.

Lambda's runtime is the authority (`tests.kit.runtime`): it writes the same JSON for everyone.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum, StrEnum
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.shared.cookies import Cookie
from awslambdaric.lambda_runtime_exception import FaultException
from pydantic import BaseModel, SecretStr

from lambda_once import ResultUnavailable
from lambda_once.core.lifecycle import State
from lambda_once.core.written import HandlerCodec
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.kit.runtime import marshalled
from tests.sources.samples import eventbridge, http, rest

UNAVAILABLE = "urn:lambda-once:result-unavailable"
URL = "abc123.lambda-url.eu-central-1.on.aws"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

Price = namedtuple("Price", "total currency")  # noqa: PYI024  (as users write them)


class Line(NamedTuple):
    item: str
    number: int


@dataclass
class Receipt:
    on: date
    price: Price


class Parcel(BaseModel):
    id: int
    total: Decimal


class Login(BaseModel):
    password: SecretStr


class Colour(Enum):
    RED = "red"


UNTOUCHED: dict[str, Any] = {
    "JSON": {"a": [1, 2.5, None], "b": "é"},
    "None": None,
    "bytes in it": {"receipt": b"r-1"},
    "whole bytes": b'{"ok":true}',
    "named tuples": {"price": Price(1, "EUR"), "lines": [Line("tea", 2)]},
    "Decimals": [Decimal("19.90"), Decimal("1E+2"), Decimal("-0"), Decimal("NaN"), Decimal("9" * 5_000)],
    "names": {2: "a", None: "b", 1.5: "c", True: "d", b"e": "e"},
}
FORMED: dict[str, tuple[Any, Any]] = {
    "a date beside a named tuple": (
        {"on": date(2026, 11, 20), "price": Price(1, "EUR"), "raw": b"r"},
        {"on": "2026-11-20", "price": {"total": 1, "currency": "EUR"}, "raw": "r"},
    ),
    "a dataclass": (
        Receipt(date(2026, 11, 20), Price(Decimal("1.0"), "EUR")),
        {"on": "2026-11-20", "price": {"total": Decimal("1.0"), "currency": "EUR"}},
    ),
    "a model": ([Parcel(id=5, total=Decimal("19.90"))], [{"id": 5, "total": Decimal("19.90")}]),
    "a set": ({"ids": {2, 1}}, {"ids": [1, 2]}),
    "a UUID beside an Enum": ([UUID(int=1), Colour.RED], [str(UUID(int=1)), "red"]),
}
FORMLESS: dict[str, Callable[[], Any]] = {
    "an iterator": lambda: iter([1]),
    "an iterator inside": lambda: {"rows": iter([1])},
    "a masked field": lambda: Login(password=SecretStr("s3cr3t")),
    "bytes that are no UTF-8": lambda: {"body": b"\x89PNG"},
    "equal names": lambda: {1: "a", "1": "b"},
    "an object": object,
}


def handler(rig: Rig, value: Any) -> Callable[[], Any]:
    """A handler of direct invocations, as Step Functions makes them."""
    decorated: Any = rig.once.event(key="id", name="h")(lambda _: value)
    return lambda: decorated({"id": 1}, rig.context())


def async_handler(rig: Rig, value: Any) -> Callable[[], Any]:
    """A coroutine function."""

    async def answer(event: Any) -> Any:
        return value

    decorated = rig.once.event(key="id", name="h")(answer)
    return lambda: decorated({"id": 1}, rig.context())


def bus(rig: Rig, value: Any) -> Callable[[], Any]:
    """A handler of EventBridge."""
    decorated: Any = rig.once.event(key="detail.id", name="h")(lambda _: value)
    return lambda: decorated(eventbridge({"id": 1}), rig.context())


def remembered(rig: Rig, value: Any) -> Callable[[], Any]:
    """A handler whose duplicates are answered from memory."""
    decorated: Any = rig.once.event(key="id", name="h", cache=10)(lambda _: value)
    return lambda: decorated({"id": 1}, rig.context())


doors = pytest.mark.parametrize("door", [handler, async_handler, bus, remembered])


# ---------------------------------------------------------------- once.event


@doors
@pytest.mark.parametrize("name", UNTOUCHED)
@on_every_store
def test_what_the_runtime_writes_goes_to_it_untouched(rig: Rig, door: Any, name: str) -> None:
    """It writes the same of what a duplicate gets; the log has nothing of it."""
    value = UNTOUCHED[name]
    call = door(rig, value)
    assert call() is value
    assert marshalled(call()) == marshalled(value)
    assert {"once.result_changed", "once.result_unavailable"}.isdisjoint(rig.events())


@doors
@pytest.mark.parametrize("name", FORMED)
@on_every_store
def test_what_it_refuses_has_one_form_for_everyone(rig: Rig, door: Any, name: str) -> None:
    """The runtime would fail on the object, once the token is complete."""
    value, form = FORMED[name]
    call = door(rig, value)
    first = call()
    assert first == form
    assert repr(first) == repr(form)
    assert repr(call()) == repr(form)
    assert marshalled(first)
    assert {"once.result_changed", "once.result_unavailable"}.isdisjoint(rig.events())


@doors
@pytest.mark.parametrize("name", FORMLESS)
@on_every_store
def test_what_has_no_form_is_answered_as_without_us(rig: Rig, door: Any, name: str) -> None:
    """The work is done: the token is complete, duplicates get an error, and a line says so."""
    value = FORMLESS[name]()
    call = door(rig, value)
    assert call() is value
    assert rig.row().state is State.COMPLETE
    for _ in range(2):
        with pytest.raises(ResultUnavailable):
            call()
    event = "once.lazy_result" if name.startswith("an iterator") else "once.result_unavailable"
    assert rig.events().count(event) == 1


@pytest.mark.parametrize("name", [*UNTOUCHED, *FORMED])
@in_memory
def test_the_outcome_has_what_duplicates_get(rig: Rig, name: str) -> None:
    """Whoever asks by key and name doesn't know that the work is a handler."""
    value = UNTOUCHED[name] if name in UNTOUCHED else FORMED[name][0]
    call = handler(rig, value)
    call()
    assert marshalled(rig.once.outcome(1, name="h").result) == marshalled(call())


@in_memory
def test_the_outcome_of_what_has_no_form(rig: Rig) -> None:
    """The work is done; its result is nowhere."""
    handler(rig, object())()
    outcome: Any = rig.once.outcome(1, name="h")
    assert outcome.state == "complete"
    with pytest.raises(ResultUnavailable):
        _ = outcome.result


class Created(TypedDict):
    statusCode: int


@pytest.mark.parametrize(
    "annotation", [Created, Created | None, tuple[Created, ...], list[Parcel], int, Parcel | str]
)
@in_memory
def test_the_annotation_plays_no_part(rig: Rig, annotation: Any) -> None:
    """A subclass may have more names than are declared, and type checkers allow it."""
    created = {"statusCode": 201, "headers": {"Location": "/orders/1"}}

    def create(event: Any) -> Any:
        return created

    create.__annotations__["return"] = annotation
    decorated = rig.once.event(key="id")(create)
    assert decorated({"id": 1}, rig.context()) is created
    assert decorated({"id": 1}, rig.context()) == created


@dataclass
class Paid:
    id: str


@dataclass
class Refunded:
    id: str


@in_memory
def test_what_returns_cannot_replay_is_answered_whole(rig: Rig) -> None:
    """By the type that it declares it would come back as something else; the first answer loses nothing."""
    returns: Any = dict[str, Paid | Refunded]
    decorated: Any = rig.once.event(key="id", name="h", returns=returns)(lambda _: {"by": Refunded("r-1")})
    assert decorated({"id": 1}, rig.context()) == {"by": {"id": "r-1"}}
    with pytest.raises(ResultUnavailable):
        decorated({"id": 1}, rig.context())


@in_memory
def test_a_result_that_is_too_large_has_its_form_all_the_same(rig: Rig) -> None:
    """It is stored nowhere, and the runtime would refuse the date."""
    call = handler(rig, {"at": NOON, "text": "x" * 10_000_000})
    assert call()["at"] == NOON.isoformat()
    with pytest.raises(ResultUnavailable):
        call()


@in_memory
def test_complete_answers_with_what_duplicates_get(rig: Rig) -> None:
    """By the attempt, as in functions."""

    @rig.once.event(key="id")
    def decorated(event: Any) -> Any:
        return rig.once.current().complete({"price": Price(1, "EUR"), "raw": b"r"})

    form = {"price": {"total": 1, "currency": "EUR"}, "raw": "r"}
    assert [decorated({"id": 1}, rig.context()) for _ in range(2)] == [form] * 2


# ---------------------------------------------------------------- once.api_gateway


def api(rig: Rig, value: Any, event: Any = None, **options: Any) -> Callable[[], Any]:
    """A handler of HTTP requests."""
    event = http(headers={"idempotency-key": "k"}) if event is None else event
    decorated: Any = rig.once.api_gateway(name="api", **options)(lambda _: value)
    return lambda: decorated(event, rig.context())


def seen(answer: Any) -> dict[str, Any]:
    """Return what the gateway reads of *answer*, without the mark of a replay."""
    text, _ = marshalled(answer)
    read: dict[str, Any] = json.loads(text)
    return read | {
        "headers": {name: each for name, each in read["headers"].items() if name != "Idempotent-Replayed"}
    }


class Full(NamedTuple):
    statusCode: int  # noqa: N815  (Lambda's name)
    headers: dict[str, str]
    body: str


@dataclass
class Whole:
    statusCode: HTTPStatus  # noqa: N815  (Lambda's name)
    headers: dict[str, str]
    body: bytes


class Proxied(dict[str, Any]):
    """The runtime writes what ``_asdict`` returns, and nothing else."""

    def _asdict(self) -> dict[str, Any]:
        return {"statusCode": 201, "headers": {}, "body": self["body"]}


class Name(StrEnum):
    STATUS = "statusCode"
    HEADERS = "headers"


class Status(Enum):
    CREATED = 201


JSON_HEADERS = {"content-type": "application/json"}
RESPONSES: dict[str, Any] = {
    "bytes as body": {"statusCode": 200, "headers": JSON_HEADERS, "body": b'{"ok":true}'},
    "bytes of Base64": {"statusCode": 200, "headers": {}, "body": b"aGVsbG8=", "isBase64Encoded": True},
    "bytes as status": {"statusCode": b"201", "headers": {}, "body": ""},
    "members of an Enum as names": {Name.STATUS: 201, Name.HEADERS: {}},
    "an _asdict": Proxied(statusCode=500, body="{}"),
    "a Decimal as status": {"statusCode": Decimal(201), "headers": {}, "body": ""},
    "a float as status": {"statusCode": 201.0, "headers": {}, "body": ""},
    "a named tuple": Full(201, {"x-a": "é"}, "{}"),
    "whole bytes": b'{"statusCode": 201, "headers": {"x-a": "1"}, "body": "{}"}',
}


@pytest.mark.parametrize(
    "event", [http(headers={"idempotency-key": "k"}), rest(headers={"Idempotency-Key": ["k"]})]
)
@pytest.mark.parametrize("name", RESPONSES)
@on_every_store
def test_a_response_is_the_same_but_for_the_mark(rig: Rig, name: str, event: Any) -> None:
    """Status, headers and body; the first one is untouched, with nothing added."""
    call = api(rig, RESPONSES[name], event)
    first, again = call(), call()
    assert first is RESPONSES[name]
    assert seen(again) == seen(first)
    assert again["headers"]["Idempotent-Replayed"] == "true"
    assert rig.row().state is State.COMPLETE


@pytest.mark.parametrize(
    "response",
    [
        Whole(HTTPStatus.CREATED, {"x-on": "1"}, b"{}"),
        {"statusCode": Status.CREATED, "headers": {"x-on": "1"}, "body": "{}"},
    ],
)
@in_memory
def test_a_response_that_the_runtime_refuses(rig: Rig, response: Any) -> None:
    """The gateway gets its form: it is no error, and both answers are equal."""
    call = api(rig, response)
    first, again = call(), call()
    assert first == {"statusCode": 201, "headers": {"x-on": "1"}, "body": "{}"}
    assert seen(again) == seen(first)


@pytest.mark.parametrize(
    "response", [Full(503, {}, ""), b'{"statusCode": 503}', Whole(HTTPStatus.CONFLICT, {}, b"")]
)
@in_memory
def test_an_error_response_is_one_in_each_form(rig: Rig, response: Any) -> None:
    """It is given back or held, never replayed as a success."""
    api(rig, response)()
    assert rig.row().state is not State.COMPLETE


SHORTHANDS: dict[str, Any] = {
    "a dict": {"orderId": 5, "name": "é"},
    "Decimals": {"total": Decimal("19.90"), "é": [Decimal("1E+2"), Decimal("NaN")]},
    "a named tuple": [Price(1, "€")],
    "bytes in it": {"raw": "é".encode()},
    "None": None,
    "a date": {"on": date(2026, 11, 20)},
    "whole bytes": b'{"ok":true}',
}


@pytest.mark.parametrize("mode", ["AWS_Lambda_python3.11", "AWS_Lambda_python3.13"])
@pytest.mark.parametrize("domain", ["abc123.execute-api.eu-central-1.amazonaws.com", URL])
@pytest.mark.parametrize("name", SHORTHANDS)
@in_memory
def test_the_body_of_a_shorthand_is_what_the_runtime_wrote(
    rig: Rig, name: str, domain: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, non-ASCII characters included: the gateway has made the first body of the same text."""
    monkeypatch.setenv("AWS_EXECUTION_ENV", mode)
    call = api(rig, SHORTHANDS[name], http(headers={"idempotency-key": "k"}, domain=domain))
    text, _ = marshalled(call())
    again = call()
    assert again["statusCode"] == 200
    assert again["body"] == (text.decode() if isinstance(text, bytes) else text)
    assert again["headers"] == JSON_HEADERS | {"Idempotent-Replayed": "true"}


@pytest.mark.parametrize(("response", "body"), [("text", "text"), (b'"text"', "text")])
@in_memory
def test_a_text_is_the_body_as_it_is(rig: Rig, response: Any, body: str) -> None:
    """Of a Function URL and payload 2.0."""
    call = api(rig, response)
    assert call() is response
    assert call()["body"] == body


@in_memory
def test_bytes_that_no_gateway_reads_stay(rig: Rig) -> None:
    """They come back as they were posted."""
    call = api(rig, b"\x89PNG")
    assert call() == call() == b"\x89PNG"


@pytest.mark.parametrize(
    "response",
    [
        {"statusCode": 200, "headers": {"set-cookie": b"session=1"}},
        {"statusCode": 200, "headers": {b"set-cookie": "session=1"}},
        {"statusCode": 200, "headers": {"cache-control": b"no-store"}},
        Full(200, {"cache-control": "no-store"}, ""),
        b'{"statusCode": 200, "cookies": ["session=1"]}',
    ],
)
@in_memory
def test_a_private_response_is_private_in_each_form(rig: Rig, response: Any) -> None:
    """Where nobody is named, what is for one caller alone is stored for no other."""
    call = api(rig, response, http())
    assert call() is response
    again = call()
    assert (again["statusCode"], json.loads(again["body"])["type"]) == (409, UNAVAILABLE)


@pytest.mark.parametrize("make", FORMLESS.values(), ids=FORMLESS)
@in_memory
def test_an_unavailable_response_is_409_until_keep_ends(rig: Rig, make: Any) -> None:
    """The first caller gets what it would get without us; retries are told not to retry."""
    response = {"statusCode": 200, "headers": {}, "body": make()}
    call = api(rig, response, keep=timedelta(days=1))
    assert call() is response
    for hours in (0, 12, 11):
        rig.clock.advance(hours * 3600)
        again = call()
        assert again["statusCode"] == 409
        assert "retry-after" not in {name.lower() for name in again["headers"]}
        problem = json.loads(again["body"])
        assert (problem["type"], problem["title"]) == (
            UNAVAILABLE,
            "The work is done, but its response was not kept",
        )
        assert "Do not retry" in problem["detail"]
    rig.clock.advance(2 * 3600)
    assert call() is response


# ---------------------------------------------------------------- once.route


def routed(rig: Rig, answer: Any, **resolver: Any) -> Callable[[], Any]:
    """A route of an Event Handler."""
    app = APIGatewayHttpResolver(**resolver)

    @app.post("/orders/<order>/pay", middlewares=[rig.once.route()])
    def pay(order: str) -> Any:
        return answer() if callable(answer) else answer

    event = http(headers={"idempotency-key": "k"})
    return lambda: app.resolve(event, rig.context())


def unmarked(answer: Any) -> Any:
    """Return *answer* without the mark of a replay."""
    return answer | {
        "headers": {name: each for name, each in answer["headers"].items() if name != "Idempotent-Replayed"}
    }


def with_str(body: object) -> str:
    """Return the text of *body*, as many write it."""
    return json.dumps(body, default=str)


BODIES: dict[str, Any] = {
    "JSON": {"orderId": 5, "name": "é"},
    "None": None,
    "a list": [1, (2, 3)],
    "a named tuple": {"price": Price(1, "EUR")},
    "Decimals": {"total": Decimal("19.90"), "many": [Decimal(5)]},
    "a dataclass": {"price": Receipt(date(2026, 11, 20), Price(Decimal("4.50"), "EUR"))},
    "a model": Parcel(id=5, total=Decimal("19.90")),
    "names": {1: "a", None: "b"},
}


@pytest.mark.parametrize("serializer", [None, with_str])
@pytest.mark.parametrize("name", BODIES)
@on_every_store
def test_a_route_answers_the_same(rig: Rig, name: str, serializer: Any) -> None:
    """As the resolver writes the route's own body, whatever it writes it with."""
    options = {} if serializer is None else {"serializer": serializer}
    call = routed(rig, BODIES[name], **options)
    first, again = call(), call()
    assert unmarked(again) == first
    assert again["headers"]["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize("name", ["JSON", "Decimals", "a named tuple"])
@in_memory
def test_a_route_answers_as_without_us(rig: Rig, name: str) -> None:
    """The first response is the resolver's of the route's own one, with nothing added."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order>/pay")
    def pay(order: str) -> Any:
        return BODIES[name]

    bare = app.resolve(http(headers={"idempotency-key": "k"}), rig.context())
    assert routed(rig, BODIES[name])() == bare


@in_memory
def test_a_middleware_gets_the_routes_own_response(rig: Rig) -> None:
    """The object itself, the first time."""
    response, got = (
        Response(201, "application/json", {"a": 1}, cookies=[Cookie("theme", "dark")]),
        list[Any](),
    )
    app = APIGatewayHttpResolver()

    def outer(app: Any, next_middleware: Any) -> Any:
        got.append(next_middleware(app))
        return got[-1]

    @app.post("/orders/<order>/pay", middlewares=[outer, rig.once.route()])
    def pay(order: str) -> Any:
        return response

    event = http(headers={"idempotency-key": "k"})
    first, again = (app.resolve(event, rig.context()) for _ in range(2))
    assert got[0] is response
    assert (again["statusCode"], again["body"], again["cookies"]) == (201, '{"a":1}', first["cookies"])


@in_memory
def test_a_body_that_the_resolver_refuses_has_its_form(rig: Rig) -> None:
    """A date, which json.dumps can't write: without us the client would get an error, with the work done."""
    call = routed(rig, {"on": date(2026, 11, 20)})
    first, again = call(), call()
    assert first["body"] == again["body"] == '{"on":"2026-11-20"}'


@pytest.mark.parametrize("body", [{"total": Decimal("4.50")}, {"colour": Colour.RED}, [Price(1, "EUR")]])
@in_memory
def test_a_serialiser_that_returns_bytes(rig: Rig, body: Any) -> None:
    """As orjson's does: the client gets the same bytes, also where the form would be written otherwise."""
    call = routed(rig, body, serializer=lambda body: with_str(body).encode())
    first, again = call(), call()
    assert first["isBase64Encoded"]
    assert unmarked(again) == first


@in_memory
def test_a_json_body_of_bytes(rig: Rig) -> None:
    """The resolver would write it as JSON, and can't: it is the body as it is, for everyone."""
    call = routed(rig, lambda: Response(200, "application/json", b'{"ok":true}'))
    first, again = call(), call()
    assert b64decode(first["body"]) == b'{"ok":true}'
    assert unmarked(again) == first


@in_memory
def test_an_unavailable_response_of_a_route(rig: Rig) -> None:
    """What neither the resolver nor we can write fails as without us; retries get 409."""
    call = routed(rig, lambda: {"rows": iter([1])})
    with pytest.raises(TypeError):
        call()
    assert rig.row().state is State.COMPLETE
    again = call()
    assert (again["statusCode"], json.loads(again["body"])["type"]) == (409, UNAVAILABLE)


@pytest.mark.parametrize("wrapped", [lambda rows: rows, lambda rows: {"rows": rows}], ids=["whole", "inside"])
@in_memory
def test_a_route_keeps_what_its_iterator_yields(rig: Rig, wrapped: Callable[[Any], Any]) -> None:
    """A serialiser may write iterators; nothing reads them before it, so the first client gets all of it."""
    call = routed(rig, lambda: wrapped(iter([1, 2])), serializer=lambda body: json.dumps(body, default=list))
    assert call()["body"] == json.dumps(wrapped([1, 2]))
    assert call()["statusCode"] == 409


# ---------------------------------------------------------------- twins


@in_memory
def test_twin_without_the_writer(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were answers stored as they are given, the runtime would refuse the date of the first caller."""
    unchanged = partial(HandlerCodec.answer, HandlerCodec())
    monkeypatch.setattr(HandlerCodec, "answer", lambda _, value: unchanged(value)._replace(is_written=True))
    with pytest.raises(FaultException):
        marshalled(handler(rig, {"on": date(2026, 11, 20)})())
