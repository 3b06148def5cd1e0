from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.results import Unavailable
from lambda_once.sources.http import REPLAYED, Kind, replayed, respond, response_status, stored_of
from lambda_once.sources.problems import Problem

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


_TEXT = st.one_of(st.text(max_size=5), st.sampled_from(["no-store", "private, NO-STORE", "a=b; HttpOnly"]))
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=5,
)
_NAMES = st.one_of(_TEXT, st.sampled_from(["Set-Cookie", "SET-COOKIE", "Cache-Control", "x"]))
_RESPONSES = st.one_of(
    _JSON,
    st.fixed_dictionaries(
        {"statusCode": st.just(200)},
        optional={
            "headers": st.one_of(_JSON, st.dictionaries(_NAMES, _JSON, max_size=3)),
            "multiValueHeaders": st.one_of(_JSON, st.dictionaries(_NAMES, _JSON, max_size=3)),
            "cookies": _JSON,
            "body": _JSON,
        },
    ),
)


@given(_RESPONSES, st.booleans())
def test_whatever_is_stored_sets_no_cookie(response: Any, named: bool) -> None:
    """Of any JSON: the rest of it stays, the original is unchanged, and only a private one is withheld."""
    before = deepcopy(response)
    kept: Any = stored_of(response, named=named)
    assert response == before
    if kept is Unavailable.WITHHELD:
        assert not named
        return
    if kept is response:
        return
    assert named
    assert not kept.get("cookies")
    assert kept.get("body") == response.get("body")
    for field in ("headers", "multiValueHeaders"):
        headers = kept.get(field)
        if isinstance(headers, dict):
            others = {name: text for name, text in response[field].items() if name.lower() != "set-cookie"}
            assert headers == others


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    "response", [{"headers": {}}, {"cookies": []}, {"headers": {"x-set-cookie": "a"}}, None, "a"]
)
def test_what_is_not_private_is_stored_itself(response: object, *, named: bool) -> None:
    """Not even copied."""
    assert stored_of(response, named=named) is response
