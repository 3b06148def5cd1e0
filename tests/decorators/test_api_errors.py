"""What `once.api_gateway` answers where there is no response to give, and what error responses do."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lambda_once import HOLD, STORE, ErrorResponse
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory
from tests.decorators.test_api import KEY, Json, Shop, created
from tests.sources.samples import alb, http, rest

EVENT = rest(headers={KEY: ["k"]})


def status(response: Json) -> int:
    """The status of a problem, once its form is checked."""
    headers = response.get("headers") or {
        name: value[0] for name, value in response["multiValueHeaders"].items()
    }
    assert headers["Content-Type"] == "application/problem+json"
    body = json.loads(response["body"])
    assert body["status"] == response["statusCode"]
    return int(body["status"])


@pytest.mark.parametrize(
    "event", [EVENT, http(headers={KEY.lower(): "k"}), alb(multi=True, idempotency_key="k")]
)
def test_two_at_once_are_a_conflict(rig: Rig, event: Json) -> None:
    """While the first request is in progress the second gets 409 and when to ask again."""
    answers: list[Json] = []

    @rig.once.api_gateway
    def handler(event: Json) -> Json:
        answers.append(handler(event, rig.context("request-2")))
        return created(1)

    assert handler(event, rig.context()) == created(1)
    (answer,) = answers
    assert status(answer) == 409
    headers = answer.get("headers") or answer["multiValueHeaders"]
    assert headers["Retry-After"] in ("5", ["5"])


def test_another_body_under_one_key_is_422(rig: Rig) -> None:
    """A key that was used for another payload is refused, and nothing runs."""
    shop = Shop(rig)
    shop.ask(EVENT)
    assert status(shop.ask(rest('{"orderId": 6}', headers={KEY: ["k"]}))) == 422
    assert shop.runs == 1


@in_memory
@pytest.mark.parametrize("key", ["", '""', "undefined", "NULL", '"null"'])
@pytest.mark.parametrize(
    ("without_key", "runs", "rows"),
    [("hash", [1, 1, 2, 2], 2), ("run", [1, 2, 3, 4], 0), ("reject", [0] * 4, 0)],
)
def test_no_value_is_as_no_header(rig: Rig, key: str, without_key: str, runs: list[int], rows: int) -> None:
    """Two clients whose key is undefined do not share a response: ``without_key=`` decides."""
    shop = Shop(rig, without_key=without_key)
    found = []
    for body, headers in ((1, {KEY: [key]}), (1, {}), (2, {KEY: [key]}), (2, {KEY: [key]})):
        answer = shop.ask(rest(f'{{"orderId": {body}}}', headers=headers))
        found.append(shop.runs)
        if without_key == "reject":
            assert status(answer) == 400
            assert json.loads(answer["body"])["type"] == "urn:lambda-once:key-missing"
            assert "Send the header Idempotency-Key " in json.loads(answer["body"])["detail"]
    assert found == runs
    assert len(rig.rows()) == rows


@in_memory
@pytest.mark.parametrize("key", ["k" * 256, "tab\there", "line\nbreak", "ümlaut", '"half'])
def test_a_malformed_key_is_400(rig: Rig, key: str) -> None:
    """A key of 256 characters, or with control characters, is refused under every without_key."""
    for without_key in ("hash", "reject", "run"):
        shop = Shop(rig, without_key=without_key, name=without_key)
        answer = shop.ask(rest(headers={KEY: [key]}))
        assert status(answer) == 400
        assert KEY in json.loads(answer["body"])["detail"]
        assert shop.runs == 0
    assert rig.rows() == []


def test_a_key_of_255_characters_is_taken(rig: Rig) -> None:
    """The longest key there may be works, and its duplicate is one."""
    shop = Shop(rig)
    event = rest(headers={KEY: ["k" * 255]})
    shop.ask(event)
    assert shop.ask(event)["headers"]["Idempotent-Replayed"] == "true"


@in_memory
@pytest.mark.parametrize(
    ("options", "event"),
    [
        ({"without_key": "reject"}, rest()),
        ({}, rest("%%%", headers={KEY: ["k"]}, isBase64Encoded=True)),
    ],
    ids=["no key", "no base64"],
)
def test_a_malformed_request_is_400(rig: Rig, options: Any, event: Json) -> None:
    """Without the header under without_key="reject", and with a body that is not base64 as it claims."""
    shop = Shop(rig, **options)
    assert status(shop.ask(event)) == 400
    assert shop.runs == 0


@in_memory
def test_a_table_out_of_reach_is_503(rig: Rig) -> None:
    """Without an answer of the table nothing runs, and the client may ask again."""
    shop = Shop(rig)
    rig.store.out = True
    answer = shop.ask(EVENT)
    assert (status(answer), answer["headers"]["Retry-After"]) == (503, "1")
    assert shop.runs == 0


@pytest.mark.parametrize(
    ("options", "answer"),
    [({}, {"statusCode": 422, "body": "no"}), ({"on_error": HOLD}, {"statusCode": 404}), ({}, {"order": 5})],
    ids=["4xx", "whatever on_error says", "no response"],
)
def test_what_was_not_done_is_released(rig: Rig, options: Any, answer: Json) -> None:
    """The client gets a 4xx, or what a REST API would answer with 502; the next request runs."""
    shop = Shop(rig, **options)
    shop.answer = answer
    assert shop.ask(EVENT) == answer
    assert rig.row().state is State.RELEASED
    shop.answer = None
    assert shop.ask(EVENT) == created(2)


def test_store_status_keeps_a_4xx(rig: Rig) -> None:
    """A status in store_status is stored like a success."""
    shop = Shop(rig, store_status={402})
    shop.answer = {"statusCode": 402, "body": "declined"}
    shop.ask(EVENT)
    again = shop.ask(EVENT)
    assert (again["statusCode"], again["body"], shop.runs) == (402, "declined", 1)
    assert again["headers"]["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize(
    ("policy", "state", "second", "runs"),
    [
        ({}, State.RELEASED, 503, 2),
        ({"on_error": {ErrorResponse: STORE}}, State.COMPLETE, 503, 1),
        ({"on_error": {ErrorResponse: HOLD}}, State.HELD, 409, 1),
    ],
    ids=["release", "store", "hold"],
)
def test_a_5xx_goes_by_on_error(rig: Rig, policy: Any, state: State, second: int, runs: int) -> None:
    """A response of 500 or above is an ErrorResponse to on_error; the first client gets it as it is."""
    shop = Shop(rig, **policy)
    shop.answer = {"statusCode": 503, "body": "busy"}
    assert shop.ask(EVENT) == {"statusCode": 503, "body": "busy"}
    assert rig.row().state is state
    assert shop.ask(EVENT)["statusCode"] == second
    assert shop.runs == runs


@in_memory
def test_on_error_sees_status_and_response(rig: Rig) -> None:
    """A callable policy gets the ErrorResponse with its status and the handler's response."""
    seen: list[Any] = []

    def on_error(error: BaseException) -> Any:
        seen.append(error)
        return STORE

    shop = Shop(rig, on_error=on_error)
    shop.answer = {"statusCode": "502", "body": "bad"}
    shop.ask(EVENT)
    assert [(error.status, error.response["body"]) for error in seen][:1] == [(502, "bad")]


def test_an_exception_reaches_lambda(rig: Rig) -> None:
    """What the handler raises is raised, and the token goes by on_error."""
    shop = Shop(rig, on_error={KeyError: STORE})
    shop.answer = KeyError("gone")
    with pytest.raises(KeyError):
        shop.ask(EVENT)
    answer = shop.ask(EVENT)
    assert (status(answer), shop.runs) == (500, 1)
    assert "gone" not in answer["body"]


def test_an_unserialisable_response_is_not_made_again(rig: Rig) -> None:
    """The first client gets the response, the second 409: the work is not done a second time."""
    shop = Shop(rig)
    shop.answer = {"statusCode": 200, "body": object()}
    assert shop.ask(EVENT)["statusCode"] == 200
    assert (status(shop.ask(EVENT)), shop.runs) == (409, 1)


@in_memory
def test_problem_is_worded_by_the_user(rig: Rig) -> None:
    """problem= may replace what the client gets."""
    shop = Shop(rig, without_key="reject", problem=lambda problem: replace(problem, detail="Send a key."))
    assert json.loads(shop.ask(rest())["body"])["detail"] == "Send a key."


@in_memory
@pytest.mark.parametrize("event", [rest(), http(), alb(), alb(multi=True)])
def test_a_problem_has_the_headers_of_the_user(rig: Rig, event: Json) -> None:
    """A browser reads the answer only with those of CORS; what else it needs to know stays."""
    origin = {"Access-Control-Allow-Origin": "https://shop.example"}
    shop = Shop(rig, without_key="reject", problem=lambda problem: replace(problem, extra_headers=origin))
    answer = shop.ask(event)
    assert status(answer) == 400
    headers = answer.get("headers") or {name: value for name, (value,) in answer["multiValueHeaders"].items()}
    assert headers == {"Content-Type": "application/problem+json", **origin}
