"""``unscoped="refuse"`` refuses requests that name no caller."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from lambda_once.core.unit import MalformedRequest
from tests.decorators.http_doors import Ask, handled, handled_async, routed, routed_async
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import Json, alb, http, rest
from tests.sources.test_caller import (
    ALICE,
    basic,
    jwt,
    oidc,
    rest_by,
    sent,
    with_certificate,
)

KEY = "idempotency-key"
MISSING = (400, "urn:lambda-once:caller-missing")
Face = Callable[[Rig, Any, list[int]], Ask]


FACES = [handled, handled_async, routed, routed_async]


def problem(answer: Any) -> Any:
    """The status and type of an answer that is a problem."""
    return answer["statusCode"], json.loads(answer["body"])["type"]


def keyed(event: Json) -> Json:
    """The same request under a key."""
    many = (
        {"multiValueHeaders": {**event["multiValueHeaders"], KEY: ["1"]}}
        if "multiValueHeaders" in event
        else {}
    )
    return {**event, "headers": {**event["headers"], KEY: "1"}, **many}


NOBODY: list[tuple[str, Json]] = [
    ("HTTP API", http()),
    ("HTTP API, with a key", keyed(http())),
    ("REST API", keyed(rest())),
    ("load balancer", keyed(alb())),
    ("cookies beside a key do not join", keyed(http(cookies=["session=a"]))),
    ("signed anew each time", keyed(sent("AWS4-HMAC-SHA256 Credential=a"))),
    ("a constant of a Lambda authorizer", keyed(rest_by({"principalId": "user"}))),
]
SOMEBODY: list[tuple[str, Json]] = [
    ("JWT authorizer", http(authorizer={"jwt": {"claims": ALICE}})),
    ("a JWT that nothing verified", keyed(sent(f"Bearer {jwt(ALICE)}"))),
    ("an opaque token beside a key is compared", keyed(sent("Bearer a"))),
    ("Basic", sent(f"Basic {basic('alice', 'a')}")),
    ("API key", keyed(sent(x_api_key="k"))),
    ("API key id", keyed(rest_by(apiKeyId="app"))),
    ("certificate", keyed(with_certificate(http()))),
    ("cookies", http(cookies=["session=a"])),
    ("load balancer's user", keyed(alb(x_amzn_oidc_data=oidc()))),
]
ALL = [(*row, rows is NOBODY) for rows in (NOBODY, SOMEBODY) for row in rows]


@in_memory
@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize(("event", "is_refused"), [row[1:] for row in ALL], ids=[row[0] for row in ALL])
def test_a_request_of_nobody_is_refused(rig: Rig, event: Json, is_refused: bool, face: Face) -> None:
    """With 400, before anything is acquired, unless a name joins the token or a credential is compared."""
    ran: list[int] = []
    answer = face(rig, {"unscoped": "refuse"}, ran)(event)
    if is_refused:
        assert problem(answer) == MISSING
        assert (ran, rig.store.wished) == ([], [])
        assert rig.events() == ["once.caller_missing"]
        answer = face(rig, {}, ran)(event)
    assert answer["statusCode"] == 200
    assert ran == [1]


@in_memory
@pytest.mark.parametrize("face", FACES)
def test_whatever_is_declared_or_unprotected_is_not_refused(rig: Rig, face: Face) -> None:
    """caller=False says that it is intended; a request without a token needs no caller."""
    ran: list[int] = []
    strict = {"unscoped": "refuse"}
    assert face(rig, {**strict, "caller": False}, ran)(keyed(http()))["statusCode"] == 200
    assert face(rig, {**strict, "without_key": "run"}, ran)(http())["statusCode"] == 200
    assert face(rig, {**strict, "methods": ["PUT"]}, ran)(http())["statusCode"] == 200
    assert ran == [1, 1, 1]


@in_memory
@pytest.mark.parametrize(
    ("event", "advice"),
    [
        (keyed(http()), "use an authorizer or caller=, or caller=False"),
        (
            keyed(rest_by({"principalId": "user", "userId": "s3cret"})),
            'its context has userId. Pass .* caller="requestContext.authorizer.userId"',
        ),
    ],
)
def test_the_log_has_what_to_do(rig: Rig, event: Json, advice: str) -> None:
    """And the client learns nothing of it."""
    answer = handled(rig, {"unscoped": "refuse"}, [])(event)
    assert "caller=" not in answer["body"]
    (details,) = rig.reported
    assert details.error == "CallerMissing"

    assert re.search(advice, str(details.reason))
    assert "s3cret" not in str(details)


def _malformed(_: Json) -> str:
    raise MalformedRequest("The header x-user is forged.")


@in_memory
def test_a_caller_that_is_malformed_is_a_bad_request(rig: Rig) -> None:
    """A function that verifies the caller may say what is wrong."""
    answer = handled(rig, {"caller": _malformed}, [])(keyed(http()))
    assert problem(answer) == (400, "urn:lambda-once:bad-request")
    assert "forged" in answer["body"]


@in_memory
def test_once_may_refuse_for_all(rig: Rig) -> None:
    """A decorator may allow again what `Once` refuses."""
    rig.once = rig.new(unscoped="refuse")
    ran: list[int] = []
    assert problem(handled(rig, {}, ran)(keyed(http()))) == MISSING
    assert problem(routed(rig, {}, ran)(keyed(http()))) == MISSING
    assert handled(rig, {"unscoped": "warn"}, ran)(keyed(http()))["statusCode"] == 200
