from __future__ import annotations

import math
import re
from copy import deepcopy
from decimal import Decimal
from typing import Any

import jmespath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.canonical import fingerprint
from lambda_once.core.identity import NOTHING, scope_of
from lambda_once.core.results import Unavailable
from lambda_once.core.unit import MalformedRequest
from lambda_once.errors import Misconfigured
from lambda_once.sources.headers import Headers
from lambda_once.sources.http import (
    REPLAYED,
    HttpRequest,
    Kind,
    kind_of,
    method_of,
    replayed,
    request_of,
    response_status,
    stored_of,
)
from tests.sources import samples
from tests.sources.samples import Json, request_unit
from tests.sources.services import ASKING

URL = "abc123.lambda-url.eu-central-1.on.aws"

EVENTS: dict[Kind, Json] = {
    Kind.REST: samples.rest(),
    Kind.HTTP: samples.http(),
    Kind.FUNCTION_URL: samples.http(domain=URL),
    Kind.ALB: samples.alb(),
    Kind.ALB_MULTI: samples.alb(multi=True),
}


def _hashed(event: Json) -> object:
    found = request_unit(event, "r-1")
    return scope_of(found.what), found.what.content.counted(found.what.content.payload)


@pytest.mark.parametrize("kind", Kind)
def test_each_kind_is_known(kind: Kind) -> None:
    """Every kind of request is recognised by its event, and read the same."""
    event = EVENTS[kind]
    request = request_of(event)
    assert kind_of(event) is request.kind is kind
    assert (request.method, request.path, request.body) == ("POST", "/orders/5/pay", {"orderId": 5})
    assert request.headers["content-type"] == ("application/json",)
    assert method_of(event) == "POST"


@pytest.mark.parametrize("kind", Kind)
def test_a_request_is_a_unit(kind: Kind) -> None:
    """Payload is the parsed body, subject the event as it came, scope method and path."""
    event = EVENTS[kind]
    found = request_unit(event, "r-1")
    assert found.what.content.payload == {"orderId": 5}
    assert found.record.argument is event
    assert scope_of(found.what) == ("POST", "/orders/5/pay")
    assert found.what.position is NOTHING
    assert found.record.delivery == event.get("requestContext", {}).get("requestId", "r-1")


def test_a_retry_is_the_same_work() -> None:
    """Request id and time enter nothing that is hashed."""
    again = deepcopy(samples.rest())
    again["requestContext"] |= {"requestId": "other", "requestTimeEpoch": 1763633999999}
    assert _hashed(again) == _hashed(samples.rest())


def test_what_is_asked_for_counts() -> None:
    """Another path, method, query or body is other work."""
    first = _hashed(samples.rest())
    assert first != _hashed(samples.rest(path="/orders/6/pay"))
    assert first != _hashed(samples.rest(httpMethod="PUT"))
    assert first != _hashed(samples.rest('{"orderId": 6}'))
    assert first != _hashed(samples.rest(queryStringParameters={"a": "1"}))


def test_the_path_has_no_stage() -> None:
    """The path of v1 is the one without the stage, the same on every endpoint."""
    event = samples.rest()
    assert event["requestContext"]["path"] == "/prod/orders/5/pay"
    assert request_of(event).path == "/orders/5/pay"


def test_a_request_without_path_has_an_empty_one() -> None:
    """A path that is missing is empty, never an error."""
    assert request_of(samples.rest(path=None)).path == ""


@pytest.mark.parametrize(
    ("event", "query"),
    [
        (samples.rest(), {}),
        (samples.rest(queryStringParameters={"a": "2"}), {"a": ["2"]}),
        (
            samples.rest(
                queryStringParameters={"a": "2", "b": "3"},
                multiValueQueryStringParameters={"a": ["1", "2"], "c": None},
            ),
            {"a": ["1", "2"], "b": ["3"]},
        ),
        (samples.http(rawQueryString="a=1&a=2&b="), {"a": ["1", "2"], "b": [""]}),
        (samples.http(rawQueryString="a=1%2C2", queryStringParameters={"a": "1,2"}), {"a": ["1,2"]}),
        (samples.alb(), {"a": ["1"]}),
        (samples.alb(multi=True), {"a": ["1"]}),
    ],
)
def test_every_value_of_the_query_is_kept(event: Json, query: object) -> None:
    """Parameters that come twice keep both values, and a comma inside one stays inside."""
    assert request_of(event).query == query


@pytest.mark.parametrize(
    ("body", "encoded", "expected"),
    [
        (None, False, None),
        ("", False, ""),
        ("a=1&b=2", False, "a=1&b=2"),
        ("[1]", False, [1]),
        ("\ud800", False, "\ud800"),
        ("9" * 5000, False, "9" * 5000),
        (samples.base64_of(b'{"orderId": 5}'), True, {"orderId": 5}),
        (samples.base64_of("Grüße".encode()), True, "Grüße"),
        (samples.base64_of(b"\xff\xd8\xff"), True, b"\xff\xd8\xff"),
        ("", True, ""),
    ],
)
def test_bodies_are_decoded(body: str | None, encoded: bool, expected: object) -> None:
    """A body is JSON where it parses, else text, else bytes; base64 is undone first."""
    assert request_of(samples.rest(body, isBase64Encoded=encoded)).body == expected


@pytest.mark.parametrize(
    ("body", "encoded", "what"),
    [
        ("[" * 200_000, False, "nested too deeply"),
        (samples.base64_of(b"[" * 200_000), True, "nested too deeply"),
        ("secret!", True, "marked as base64"),
        ("c2VjcmV0", None, None),
        ("ü", True, "marked as base64"),
        ("abc", True, "marked as base64"),
    ],
)
def test_a_body_that_cannot_be_decoded_is_refused(body: str, encoded: object, what: str | None) -> None:
    """A body that cannot be read is a bad request, and is not repeated in the message."""
    event = samples.rest(body, isBase64Encoded=encoded)
    if what is None:
        assert request_of(event).body == body
        return
    with pytest.raises(MalformedRequest, match=what) as raised:
        request_unit(event, "r-1")
    assert body not in str(raised.value)


def test_bytes_of_a_query_that_are_no_text_are_kept() -> None:
    """%ff and %fe are two values, so two pieces of work; U+FFFD is a third."""

    def hashed(query: str) -> object:
        unit = request_unit(samples.http(rawQueryString=query))
        return fingerprint(unit.what.content.counted(unit.what.content.payload))

    assert len({hashed(f"id={each}") for each in ("%ff", "%fe", "%EF%BF%BD", "%ED%B3%BF")}) == 4


def test_the_caller_is_part_of_the_scope() -> None:
    """The caller that the gateway verified is in the scope as a SHA-256; an unknown caller adds nothing."""
    unit = request_unit(samples.http(authorizer={"jwt": {"claims": {"sub": "u-3"}}}), "r-1")
    (caller,) = scope_of(unit.what)[2:]
    assert re.fullmatch("[0-9a-f]{64}", str(caller))
    assert scope_of(request_unit(samples.http(), "r-1").what)[2:] == ()


@pytest.mark.parametrize("name", ["X-Tenant", "x-tenant", "X-TENANT"])
@pytest.mark.parametrize(
    "event",
    [
        samples.rest(headers={"X-Tenant": ["acme"]}),
        samples.http(headers={"x-tenant": "acme"}),
        samples.alb(x_tenant="acme"),
        samples.alb(multi=True, x_tenant="acme"),
    ],
)
def test_headers_are_selected_in_any_case(event: Json, name: str) -> None:
    """A scope by header finds it in any case, whatever the gateway made of it."""
    before = deepcopy(event)
    envelope = request_unit(event, "r-1").record.envelope
    assert jmespath.search(f'headers."{name}"', envelope) == "acme"
    assert event == before


def test_multi_value_headers_are_selected_too() -> None:
    """The multi-value headers are found in any case; the rest of the envelope is the event."""
    envelope = request_unit(samples.rest(headers={"X-Tenant": ["a", "b"]}), "r-1").record.envelope
    assert jmespath.search('multiValueHeaders."x-TENANT"[0]', envelope) == "a"
    assert jmespath.search('headers."x-TENANT"', envelope) == "b"
    assert jmespath.search("requestContext.stage", envelope) == "prod"
    assert jmespath.search('headers."X-Other"', envelope) is None


def test_headers_are_mappings_in_any_case() -> None:
    """A header is found in any case, and one that is missing is a KeyError."""
    headers = request_unit(samples.rest(headers={"X-Tenant": ["a"]})).record.envelope["headers"]
    assert isinstance(headers, Headers)
    assert headers["X-TENANT"] == headers.get("x-tenant") == "a"
    assert "X-tenant" in headers
    assert "X-Other" not in headers
    with pytest.raises(KeyError):
        headers["X-Other"]


@pytest.mark.parametrize("headers", [None, {}, {"X-A": None}])
def test_headers_may_be_missing(headers: object) -> None:
    """Test events and consoles leave headers out."""
    request: HttpRequest = request_of(samples.rest() | {"headers": headers, "multiValueHeaders": None})
    assert dict(request.headers) == {}


@pytest.mark.parametrize(
    ("event", "advice"),
    [
        (samples.batch(samples.sqs_record({})), r"Use once\.sqs"),
        (samples.eventbridge({"a": 1}), r"Use once\.event"),
        ({"httpMethod": "POST"}, r"Use once\.event"),
        ({}, r"Use once\.event"),
        (ASKING["websocket"], "an event of a WebSocket API. .*with key="),
        *((event, r"a Lambda authorizer. Nothing ran") for event in samples.AUTHORIZERS.values()),
    ],
)
def test_an_event_that_is_no_request_is_refused(event: Json, advice: str) -> None:
    """An event of another source is refused, and the right decorator named."""
    with pytest.raises(Misconfigured, match=advice):
        request_unit(event, "r-1")


# ------------------------------------------------------------------ responses

SHORTHAND = {Kind.HTTP, Kind.FUNCTION_URL}


@pytest.mark.parametrize("kind", Kind)
def test_the_status_is_read(kind: Kind) -> None:
    """As a whole number or as digits; what the gateway cannot read it answers with 502."""
    for code, status in ((201, 201), ("402", 402), (599, 599), (201.0, 201), (Decimal("201.0"), 201)):
        assert response_status({"statusCode": code, "body": ""}, kind) == status
    numbers = (True, 99, 600, 200.5, math.nan, Decimal("sNaN"))
    for malformed in (None, "abc", "", "²", "2" * 5_000, [200], *numbers):
        assert response_status({"statusCode": malformed}, kind) == 502
    for response in ({"orderId": 5}, {}, None, "text", 0, [1]):  # of payload 2.0 the body of a 200
        assert response_status(response, kind) == (200 if kind in SHORTHAND else 502)


MARK, MARKS = {REPLAYED: "true"}, {REPLAYED: ["true"]}
FULL = {
    "statusCode": 201,
    "headers": {"X-A": "1"},
    "body": "{}",
    "isBase64Encoded": False,
    "cookies": ["a=b"],
}
MULTI = {"statusCode": 201, "multiValueHeaders": {"X-A": ["1", "2"]}}
MULTI_MARKED = {"statusCode": 201, "multiValueHeaders": {"X-A": ["1", "2"], **MARKS}}
JSON_HEADERS = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("stored", "kinds", "marked"),
    [
        (FULL, set(Kind) - {Kind.ALB_MULTI}, FULL | {"headers": {"X-A": "1", **MARK}}),
        (MULTI, {Kind.REST, Kind.ALB_MULTI}, MULTI_MARKED),
        ({"statusCode": 201}, {Kind.ALB_MULTI}, {"statusCode": 201, "multiValueHeaders": MARKS}),
        ({"statusCode": 201}, {Kind.ALB}, {"statusCode": 201, "headers": MARK}),
        ({"statusCode": 201, "headers": None}, {Kind.REST}, {"statusCode": 201, "headers": MARK}),
        (
            {"orderId": 5},
            SHORTHAND,
            {
                "statusCode": 200,
                "headers": JSON_HEADERS | MARK,
                "body": '{"orderId": 5}',
                "isBase64Encoded": False,
            },
        ),
        *((refused, set(Kind) - SHORTHAND, refused) for refused in ({"orderId": 5}, None, "text")),
    ],
)
def test_a_replay_is_marked_in_the_form_that_is_read(
    stored: object, kinds: set[Kind], marked: object
) -> None:
    """The stored response stays as it is, and what the gateway refuses is handed back."""
    before = deepcopy(stored)
    for kind in kinds:
        assert replayed(stored, kind) == marked
    assert stored == before


_TEXT = st.one_of(st.text(max_size=5), st.sampled_from(["no-store", "private, NO-STORE", "a=b; HttpOnly"]))
_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_TEXT, inner, max_size=3)),
    max_leaves=5,
)
_NAMES = st.one_of(_TEXT, st.sampled_from(["Set-Cookie", "SET-COOKIE", "Cache-Control", "x"]))
_HEADERS = st.one_of(_JSON, st.dictionaries(_NAMES, _JSON, max_size=3))
_RESPONSES = st.one_of(
    _JSON,
    st.fixed_dictionaries(
        {"statusCode": st.just(200)},
        optional={"headers": _HEADERS, "multiValueHeaders": _HEADERS, "cookies": _JSON, "body": _JSON},
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
