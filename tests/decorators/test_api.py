"""`once.api_gateway`: a repeated request gets the stored response, from every kind of gateway."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambda_once import Misconfigured
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


@pytest.mark.parametrize(
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


def test_state_of_a_success(rig: Rig) -> None:
    """A response below 400 completes its token."""
    shop = Shop(rig)
    shop.ask(rest(headers={KEY: ["k"]}))
    assert rig.row().state is State.COMPLETE
