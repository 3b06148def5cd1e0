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


def test_a_quoted_key_is_the_same_key(rig: Rig) -> None:
    """The header may be a quoted string of RFC 8941 or plain."""
    shop = Shop(rig)
    shop.ask(rest(headers={KEY: ["k"]}))
    shop.ask(rest(headers={KEY.lower(): ['"k"']}))
    assert shop.runs == 1


@pytest.mark.parametrize(
    "other",
    [
        rest(headers={KEY: ["k"]}, path="/orders/6/pay"),
        rest(headers={KEY: ["k"]}, httpMethod="PUT"),
        rest(headers={KEY: ["k"]}, requestContext={"authorizer": {"principalId": "bob"}}),
        rest(headers={KEY: ["another"]}),
    ],
    ids=["path", "method", "principal", "key"],
)
def test_a_key_stands_within_path_method_and_principal(rig: Rig, other: Json) -> None:
    """The same key in another place, or of somebody else, is no duplicate."""
    shop = Shop(rig)
    shop.ask(rest(headers={KEY: ["k"]}))
    assert shop.ask(other) == created(2)


def test_scope_is_one_more_wall(rig: Rig) -> None:
    """scope= sees the event, its header names in any case; a request without it is a 400."""
    shop = Shop(rig, scope='headers."x-tenant"')
    acme, zenith = ({KEY: ["k"], "X-Tenant": [name]} for name in ("acme", "zenith"))
    shop.ask(rest(headers=acme))
    shop.ask(rest(headers=acme))
    shop.ask(rest(headers=zenith))
    assert shop.runs == 2
    assert shop.ask(rest(headers={KEY: ["k"]}))["statusCode"] == 400
    assert shop.runs == 2


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_reading_is_not_protected(rig: Rig, method: str) -> None:
    """Safe methods run every time, and leave no token."""
    shop = Shop(rig)
    event = rest(headers={KEY: ["k"]}, httpMethod=method)
    shop.ask(event)
    assert shop.ask(event) == created(2)
    assert rig.rows() == []


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


def test_methods_says_what_is_protected(rig: Rig) -> None:
    """methods= replaces the default set: GET may be in it, and POST left out."""
    shop = Shop(rig, methods={"get"})
    shop.ask(rest(headers={KEY: ["k"]}, httpMethod="GET"))
    shop.ask(rest(headers={KEY: ["k"]}, httpMethod="GET"))
    assert shop.runs == 1
    shop.ask(rest(headers={KEY: ["k"]}))
    shop.ask(rest(headers={KEY: ["k"]}))
    assert shop.runs == 3


def test_without_a_key_the_content_counts_for_five_minutes(rig: Rig) -> None:
    """A request without a key is known by method, path, query and body, for a short time."""
    shop = Shop(rig)
    shop.ask(rest('{"a": 1, "b": 2}'))
    shop.ask(rest('{"b": 2.0, "a": 1}'))
    assert shop.runs == 1
    shop.ask(rest('{"a": 1, "b": 2}', queryStringParameters={"page": "2"}))
    shop.ask(rest('{"a": 2, "b": 2}'))
    assert shop.runs == 3
    rig.clock.advance(301)
    shop.ask(rest('{"a": 1, "b": 2}'))
    assert shop.runs == 4


def test_a_keyed_response_is_kept_for_a_day(rig: Rig) -> None:
    """With a key the stored response is given for 24 hours, and no longer."""
    shop = Shop(rig)
    event = rest(headers={KEY: ["k"]})
    shop.ask(event)
    rig.clock.advance(86_000)
    shop.ask(event)
    assert shop.runs == 1
    rig.clock.advance(500)
    shop.ask(event)
    assert shop.runs == 2


def test_without_key_run_is_unprotected(rig: Rig) -> None:
    """without_key="run": a request without a key runs every time, one with it once."""
    shop = Shop(rig, without_key="run")
    shop.ask(rest())
    shop.ask(rest())
    assert (shop.runs, rig.rows()) == (2, [])
    shop.ask(rest(headers={KEY: ["k"]}))
    shop.ask(rest(headers={KEY: ["k"]}))
    assert shop.runs == 3


def test_a_base64_body_is_decoded(rig: Rig) -> None:
    """The same body, as base64 and as text, is the same payload under one key."""
    shop = Shop(rig)
    shop.ask(rest('{"orderId": 5}', headers={KEY: ["k"]}))
    encoded = rest(base64_of(b'{"orderId": 5}'), headers={KEY: ["k"]}, isBase64Encoded=True)
    assert shop.ask(encoded)["headers"]["Idempotent-Replayed"] == "true"


def test_a_key_of_the_body_can_be_named(rig: Rig) -> None:
    """key= selects from the parsed body; a body without it is a 400 and runs nothing."""
    shop = Shop(rig, key="orderId")
    shop.ask(rest('{"orderId": 5}'))
    shop.ask(rest('{"orderId": 5}'))
    assert shop.runs == 1
    assert shop.ask(rest("{}"))["statusCode"] == 400
    assert shop.runs == 1


def test_a_callable_key_gets_the_event(rig: Rig) -> None:
    """A callable key sees the event as it came."""
    shop = Shop(rig, key=lambda event: event["pathParameters"]["id"])
    shop.ask(rest())
    shop.ask(rest())
    assert shop.runs == 1
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
