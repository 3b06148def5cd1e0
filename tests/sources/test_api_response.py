from __future__ import annotations

import json
from copy import deepcopy

import pytest

from lambda_once.sources.api_gateway import REPLAYED, Kind, replayed, response_status
from lambda_once.sources.problems import Problem, respond

SHORTHAND = (Kind.HTTP, Kind.FUNCTION_URL)
FULL = (Kind.REST, Kind.ALB, Kind.ALB_MULTI)
PROBLEM = Problem(409, "Busy", "Wait.", "urn:x", 2)


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize(("code", "status"), [(201, 201), ("402", 402), (599, 599)])
def test_the_status_is_read(kind: Kind, code: object, status: int) -> None:
    """A statusCode is read, as a number or as digits."""
    assert response_status({"statusCode": code, "body": ""}, kind) == status


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("code", [None, "abc", "", "²", True, 99, 600, 200.5, [200]])
def test_a_status_that_is_none_is_a_bad_gateway(kind: Kind, code: object) -> None:
    """What the gateway cannot read it answers with 502."""
    assert response_status({"statusCode": code}, kind) == 502


@pytest.mark.parametrize("response", [{"orderId": 5}, {}, None, "text", 0, [1]])
def test_a_response_without_status(response: object) -> None:
    """Payload format 2.0 takes it for the body of a 200; the other kinds refuse it."""
    assert {response_status(response, kind) for kind in SHORTHAND} == {200}
    assert {response_status(response, kind) for kind in FULL} == {502}


@pytest.mark.parametrize("kind", [Kind.REST, Kind.HTTP, Kind.FUNCTION_URL, Kind.ALB])
def test_a_replay_is_marked(kind: Kind) -> None:
    """A stored response gets the header; everything else of it stays, and so does the stored one."""
    stored = {
        "statusCode": 201,
        "headers": {"X-A": "1"},
        "body": "{}",
        "isBase64Encoded": False,
        "cookies": ["a=b"],
    }
    before = deepcopy(stored)
    assert replayed(stored, kind) == stored | {"headers": {"X-A": "1", REPLAYED: "true"}}
    assert stored == before


@pytest.mark.parametrize("kind", [Kind.REST, Kind.ALB_MULTI])
def test_a_replay_is_marked_among_multi_value_headers(kind: Kind) -> None:
    """Where multi-value headers are in use the mark is one of them."""
    stored = {"statusCode": 201, "multiValueHeaders": {"X-A": ["1", "2"]}}
    before = deepcopy(stored)
    assert replayed(stored, kind) == {
        "statusCode": 201,
        "multiValueHeaders": {"X-A": ["1", "2"], REPLAYED: ["true"]},
    }
    assert stored == before


def test_a_load_balancer_gets_the_form_it_sent() -> None:
    """A load balancer reads one form alone, the one of its event."""
    bare = {"statusCode": 201}
    assert replayed(bare, Kind.ALB_MULTI) == {"statusCode": 201, "multiValueHeaders": {REPLAYED: ["true"]}}
    assert replayed(bare, Kind.ALB) == {"statusCode": 201, "headers": {REPLAYED: "true"}}
    assert replayed({"statusCode": 201, "headers": None}, Kind.REST) == {
        "statusCode": 201,
        "headers": {REPLAYED: "true"},
    }


@pytest.mark.parametrize("kind", SHORTHAND)
@pytest.mark.parametrize(
    ("stored", "body"),
    [
        ({"orderId": 5}, '{"orderId": 5}'),
        ({}, "{}"),
        (None, "null"),
        (0, "0"),
        ("text", "text"),
        ([1], "[1]"),
    ],
)
def test_a_shorthand_response_is_dressed(kind: Kind, stored: object, body: str) -> None:
    """A response without statusCode becomes the full one that the gateway would have made."""
    assert replayed(stored, kind) == {
        "statusCode": 200,
        "headers": {"content-type": "application/json", REPLAYED: "true"},
        "body": body,
        "isBase64Encoded": False,
    }


@pytest.mark.parametrize("kind", FULL)
@pytest.mark.parametrize("stored", [None, {"orderId": 5}, "text"])
def test_a_response_that_is_refused_anyway_stays(kind: Kind, stored: object) -> None:
    """What the gateway refuses is handed back unchanged."""
    assert replayed(stored, kind) is stored


@pytest.mark.parametrize("kind", [Kind.REST, Kind.HTTP, Kind.FUNCTION_URL, Kind.ALB])
def test_a_problem_is_a_response(kind: Kind) -> None:
    """A problem is answered as application/problem+json, with Retry-After where it is known."""
    response = respond(PROBLEM, kind)
    assert response["statusCode"] == response_status(response, kind) == 409
    assert response["headers"] == {"Content-Type": "application/problem+json", "Retry-After": "2"}
    assert json.loads(str(response["body"])) == PROBLEM.body()
    assert response["isBase64Encoded"] is False


def test_a_problem_for_multi_value_headers() -> None:
    """A load balancer with multi-value headers gets these, and no others."""
    response = respond(PROBLEM, Kind.ALB_MULTI)
    assert response["multiValueHeaders"] == {
        "Content-Type": ["application/problem+json"],
        "Retry-After": ["2"],
    }
    assert "headers" not in response
