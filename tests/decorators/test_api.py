"""`once.api_gateway`: a repeated request gets the stored response, from every kind of gateway."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lambda_once import HOLD, RELEASE, STORE, ErrorResponse, Misconfigured
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.sources.samples import alb, base64_of, batch, http, rest, sqs_record

Json = dict[str, Any]
KEY = "Idempotency-Key"
URL = "abc123.lambda-url.eu-central-1.on.aws"


def created(runs: int) -> Json:
    """The response of the handler's n-th run."""
    return {"statusCode": 201, "headers": {"x-run": str(runs)}, "body": json.dumps({"run": runs})}


class Shop:
    """A handler that counts its runs."""

    def __init__(self, rig: Rig, **options: Any) -> None:
        self.runs = 0
        self.rig = rig
        self.answer: Any = None

        @rig.once.api_gateway(**options)
        def handler(event: Json, context: object) -> Any:
            self.runs += 1
            if isinstance(self.answer, Exception):
                raise self.answer
            return created(self.runs) if self.answer is None else self.answer

        self.handler = handler

    def ask(self, event: Json) -> Any:
        """Send one request, in an invocation of its own."""
        return self.handler(event, self.rig.context(f"request-{self.runs}"))


of_every_kind = pytest.mark.parametrize(
    ("event", "place", "value"),
    [
        (rest(headers={KEY: ["k"]}), "headers", "true"),
        (http(headers={KEY.lower(): "k"}), "headers", "true"),
        (http(headers={KEY.lower(): "k"}, domain=URL), "headers", "true"),
        (alb(idempotency_key="k"), "headers", "true"),
        (alb(multi=True, idempotency_key="k"), "multiValueHeaders", ["true"]),
    ],
    ids=["v1", "v2", "function url", "alb", "alb multi-value"],
)


@of_every_kind
@on_every_store
def test_a_repeated_request_gets_the_stored_response(
    rig: Rig, event: Json, place: str, value: object
) -> None:
    """The second answer is the first one, marked as replayed where its gateway reads headers."""
    shop = Shop(rig)
    first, second = shop.ask(event), shop.ask(event)
    assert shop.runs == 1
    assert first == created(1)
    assert second["body"] == first["body"]
    assert second[place]["Idempotent-Replayed"] == value
    assert second["headers"]["x-run"] == "1"


@of_every_kind
def test_two_at_once_are_a_conflict(rig: Rig, event: Json, place: str, value: object) -> None:
    """While the first request is in progress the second gets 409 and a time; problem= words it."""
    origin = {"Access-Control-Allow-Origin": "https://shop.example"}
    answers: list[Json] = []

    @rig.once.api_gateway(problem=lambda problem: replace(problem, detail="Ask again.", extra_headers=origin))
    def handler(event: Json) -> Json:
        answers.append(handler(event, rig.context("request-2")))
        return created(1)

    assert handler(event, rig.context()) == created(1)
    (answer,) = answers
    body = json.loads(answer.pop("body"))
    assert (body["status"], body["type"]) == (409, "urn:lambda-once:in-progress")
    assert body["detail"] == "Ask again."
    headers = {"Content-Type": "application/problem+json", "Retry-After": "5", **origin}
    expected = {name: [text] if value == ["true"] else text for name, text in headers.items()}
    assert answer == {"statusCode": 409, place: expected, "isBase64Encoded": False}


def test_the_shorthand_of_v2_is_a_success(rig: Rig) -> None:
    """A response without statusCode is the body of a 200, and replays as one."""
    shop = Shop(rig)
    shop.answer = {"order": 5}
    event = http(headers={KEY.lower(): "k"})
    assert shop.ask(event) == {"order": 5}
    second = shop.ask(event)
    assert (second["statusCode"], json.loads(second["body"])) == (200, {"order": 5})
    assert second["headers"]["Idempotent-Replayed"] == "true"
    assert shop.runs == 1


NEW, REPLAYED, UNPROTECTED = "new", "replayed", "unprotected"
K = {KEY: ["k"]}
KEYED, GET = rest(headers=K), rest(headers=K, httpMethod="GET")
ACME, ZENITH = (rest(headers={**K, "X-Tenant": [name]}) for name in ("acme", "zenith"))
CONTENT = rest('{"a": 1, "b": 2}')
BODY = '{"orderId": 5}'
ENCODED = rest(base64_of(BODY.encode()), headers=K, isBase64Encoded=True)
NO_VALUE = {KEY: ["undefined"]}
MALFORMED = [(rest(headers={KEY: [key]}), 400) for key in ("k" * 256, "line\nbreak", '"half')]
OF_BOB = rest(headers=K, requestContext={"authorizer": {"principalId": "bob"}})


def form(boundary: str) -> Json:
    """A form as a client sends it, each time with another *boundary*."""
    field = 'Content-Disposition: form-data; name="n"\r\n\r\n5'
    body = f"--{boundary}\r\n{field}\r\n--{boundary}--\r\n"
    return rest(body, headers={**K, "Content-Type": [f"multipart/form-data; boundary={boundary}"]})


# Options, and what becomes of each request. A number is the seconds that pass before the next.
SEQUENCES: dict[str, tuple[dict[str, Any], list[tuple[Any, Any]]]] = {
    "a quoted key is the same": ({}, [(KEYED, NEW), (rest(headers={KEY.lower(): ['"k"']}), REPLAYED)]),
    "another key": ({}, [(KEYED, NEW), (rest(headers={KEY: ["another"]}), NEW)]),
    "another path": ({}, [(KEYED, NEW), (rest(headers=K, path="/orders/6/pay"), NEW)]),
    "another method": ({}, [(KEYED, NEW), (rest(headers=K, httpMethod="PUT"), NEW)]),
    "another principal": ({}, [(KEYED, NEW), (OF_BOB, NEW)]),
    "scope=": (
        {"scope": 'headers."x-tenant"'},
        [(ACME, NEW), (ACME, REPLAYED), (ZENITH, NEW), (KEYED, 400)],
    ),
    **{
        f"{method} is safe": ({}, [(rest(headers=K, httpMethod=method), UNPROTECTED)] * 2)
        for method in ("GET", "HEAD", "OPTIONS")
    },
    "methods=": (
        {"methods": {"get"}},
        [(GET, NEW), (GET, REPLAYED), (KEYED, UNPROTECTED), (KEYED, UNPROTECTED)],
    ),
    "without a key the content, for five minutes": (
        {},
        [
            (CONTENT, NEW),
            (rest('{"b": 2.0, "a": 1}'), REPLAYED),
            (rest(CONTENT["body"], queryStringParameters={"page": "2"}), NEW),
            (rest('{"a": 2, "b": 2}'), NEW),
            (301, None),
            (CONTENT, NEW),
        ],
    ),
    "with a key for a day": (
        {},
        [(KEYED, NEW), (86_000, None), (KEYED, REPLAYED), (500, None), (KEYED, NEW)],
    ),
    "without_key=run": (
        {"without_key": "run"},
        [(rest(), UNPROTECTED), (rest(), UNPROTECTED), (KEYED, NEW), (KEYED, REPLAYED)],
    ),
    "no value is no key": (
        {},
        [(rest(headers=NO_VALUE), NEW), (rest(), REPLAYED), (rest('{"orderId": 6}', headers=NO_VALUE), NEW)],
    ),
    "no value, run": ({"without_key": "run"}, [(rest(headers=NO_VALUE), UNPROTECTED)] * 2),
    "no value, reject": ({"without_key": "reject"}, [(rest(headers=NO_VALUE), 400)]),
    **{
        f"a malformed key, {choice}": ({"without_key": choice}, MALFORMED)
        for choice in ("hash", "run", "reject")
    },
    "no base64": ({}, [(rest("%%%", headers=K, isBase64Encoded=True), 400)]),
    "base64 and text": ({}, [(rest(BODY, headers=K), NEW), (ENCODED, REPLAYED)]),
    "key= of the body": (
        {"key": "orderId"},
        [(rest(BODY), NEW), (rest(BODY), REPLAYED), (rest("{}"), 400)],
    ),
    "a form, whose boundary changes": (
        {"without_key": "reject", "fingerprint": False},
        [(form("----a"), NEW), (form("----b"), REPLAYED), (rest(form("----b")["body"]), 400)],
    ),
    "a form, compared": ({}, [(form("----a"), NEW), (form("----b"), 422)]),
    "a callable key=": (
        {"key": lambda event: event["pathParameters"]["id"]},
        [(rest(), NEW), (rest(), REPLAYED)],
    ),
}


@pytest.mark.parametrize(("options", "requests"), SEQUENCES.values(), ids=SEQUENCES)
def test_which_requests_are_the_same(rig: Rig, options: Any, requests: list[tuple[Any, Any]]) -> None:
    """A new one runs, a duplicate is replayed, one without what it needs is a 400 and runs nothing."""
    shop = Shop(rig, **options)

    def asked(event: Json) -> object:
        runs, acquisitions = shop.runs, rig.store.acquisitions
        answer = shop.ask(event)
        if shop.runs > runs:
            assert answer == created(shop.runs)
            return NEW if rig.store.acquisitions > acquisitions else UNPROTECTED
        if answer["statusCode"] == 400:
            assert rig.store.acquisitions == acquisitions
        return REPLAYED if "Idempotent-Replayed" in answer["headers"] else answer["statusCode"]

    for request, outcome in requests:
        if isinstance(request, int):
            rig.clock.advance(request)
        else:
            assert asked(request) == outcome


def test_reading_has_the_invocations_time(rig: Rig) -> None:
    """A protected function inside an unprotected request still knows the remaining time."""
    leases: list[float] = []

    @rig.once.function
    def look(order: int) -> None:
        leases.append((rig.once.current().lease - rig.clock.now()).total_seconds())

    @rig.once.api_gateway
    def handler(event: Json) -> Json:
        look(5)
        return created(1)

    handler(rest(httpMethod="GET"), rig.context(seconds=30))
    assert leases == [32.0]


def test_a_callable_key_is_the_key(rig: Rig) -> None:
    """It sees the event as it came, and its value is the last part of the token."""
    Shop(rig, key=lambda event: event["pathParameters"]["id"]).ask(rest())
    assert rig.row().token.endswith("/5")


def test_on_replay_dresses_the_response(rig: Rig) -> None:
    """on_replay sees the stored response and the row, and its answer is what the client gets."""
    shop = Shop(rig, on_replay=lambda response, replay: {**response, "body": replay.record.state.value})
    event = rest(headers={KEY: ["k"]})
    shop.ask(event)
    assert shop.ask(event)["body"] == "complete"


def test_an_async_handler_is_plain(rig: Rig) -> None:
    """A coroutine function becomes a plain handler, protected or not."""
    runs: list[str] = []

    @rig.once.api_gateway
    async def handler(event: Json, context: object) -> Json:
        runs.append(event["httpMethod"])
        return created(len(runs))

    event = rest(headers={KEY: ["k"]})
    assert handler(event, rig.context()) == created(1)
    assert handler(event, rig.context())["headers"]["Idempotent-Replayed"] == "true"
    assert handler(rest(httpMethod="GET"), rig.context()) == created(2)


@in_memory
def test_an_event_of_another_source_is_misconfigured(rig: Rig) -> None:
    """Nothing runs for what is no HTTP request, and it is not answered as the client's fault."""
    shop = Shop(rig)
    with pytest.raises(Misconfigured, match=r"once\.sqs"):
        shop.ask(batch(sqs_record("x")))
    assert shop.runs == 0


def stored_if_bad(error: BaseException) -> Any:
    """A policy that reads the response."""
    bad = isinstance(error, ErrorResponse) and (error.status, error.response["body"]) == (502, "bad")
    return STORE if bad else RELEASE


@pytest.mark.parametrize(
    ("options", "answer", "state"),
    [
        ({}, created(1), State.COMPLETE),
        ({}, {"statusCode": 422, "body": "no"}, State.RELEASED),
        ({"on_error": HOLD}, {"statusCode": 404}, State.RELEASED),
        ({}, {"order": 5}, State.RELEASED),  # a REST API makes a 502 of it
        ({"store_status": {402}}, {"statusCode": 402, "body": "declined"}, State.COMPLETE),
        ({}, {"statusCode": 503, "body": "busy"}, State.RELEASED),
        ({"on_error": {ErrorResponse: STORE}}, {"statusCode": 503, "body": "busy"}, State.COMPLETE),
        ({"on_error": {ErrorResponse: HOLD}}, {"statusCode": 503, "body": "busy"}, State.HELD),
        ({"on_error": stored_if_bad}, {"statusCode": "502", "body": "bad"}, State.COMPLETE),
    ],
)
def test_what_becomes_of_a_response(rig: Rig, options: Any, answer: Json, state: State) -> None:
    """The first client gets it as it is; the next request runs, gets the same, or learns that it's held."""
    shop = Shop(rig, **options)
    shop.answer = answer
    assert shop.ask(KEYED) == answer
    assert rig.row().state is state
    again = shop.ask(KEYED)
    assert shop.runs == (2 if state is State.RELEASED else 1)
    assert again.get("statusCode") == (409 if state is State.HELD else answer.get("statusCode"))


def test_what_a_handler_raises_reaches_lambda(rig: Rig) -> None:
    """Its token goes by on_error, and a duplicate's client learns nothing of the message."""
    shop = Shop(rig, on_error={KeyError: STORE})
    shop.answer = KeyError("gone")
    with pytest.raises(KeyError):
        shop.ask(KEYED)
    answer = shop.ask(KEYED)
    assert (answer["statusCode"], shop.runs) == (500, 1)
    assert "gone" not in answer["body"]
