"""A response that sets a cookie or says ``no-store`` reaches no one else where the request has no key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import (
    APIGatewayHttpResolver,
    APIGatewayRestResolver,
    Response,
)
from aws_lambda_powertools.shared.cookies import Cookie

from lambda_once import STORE, Done, StoreUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.core.results import Unavailable
from lambda_once.core.writes import Write
from lambda_once.sources.http import MOST_PATHS
from lambda_once.stores.contract import Unanswered, WriteAnswer
from tests.decorators.rig import Rig, in_memory, on_every_store
from tests.kit.frail import FrailStore
from tests.sources.samples import Json, alb, http, rest
from tests.sources.test_caller import ALICE, URL, jwt, rest_by, sent, with_certificate

SECRET = "s3cret"
UNAVAILABLE = (409, "urn:lambda-once:result-unavailable")
COOKIE = f"session={SECRET}; HttpOnly"


def works(rig: Rig, response: Any, **options: Any) -> tuple[Callable[[Json], Any], list[int]]:
    """A handler that always returns *response*, how to ask it, and its runs."""
    ran: list[int] = []

    @rig.once.api_gateway(**{"name": "sign in", **options})
    def handler(_event: Json) -> Any:
        ran.append(1)
        return response

    return lambda event: handler(event, rig.context(f"request-{len(ran)}")), ran


def problem(answer: Any) -> Any:
    """The status and type of an answer that is a problem."""
    return answer["statusCode"], json.loads(answer["body"])["type"]


def stored(rig: Rig) -> str:
    """What the table has, whole."""
    return repr([(row, row.stored) for row in rig.rows()])


RESPONSES: list[tuple[str, Json]] = [
    ("headers", {"statusCode": 200, "headers": {"sEt-CoOkIe": COOKIE, "x": "1"}}),
    ("multi-value", {"statusCode": 200, "multiValueHeaders": {"set-cookie": [COOKIE], "x": ["1"]}}),
    ("payload 2.0", {"statusCode": 200, "cookies": [COOKIE], "headers": {"x": "1"}}),
    ("a redirect", {"statusCode": 303, "headers": {"Set-Cookie": COOKIE, "x": "1"}, "body": ""}),
    (
        "everywhere",
        {
            "statusCode": 200,
            "headers": {"Set-Cookie": COOKIE, "x": "1"},
            "multiValueHeaders": {"Set-Cookie": [COOKIE, COOKIE]},
            "cookies": [COOKIE],
        },
    ),
]
NO_STORE: list[tuple[str, Json]] = [
    ("no-store", {"statusCode": 200, "headers": {"Cache-Control": "no-store"}, "body": SECRET}),
    ("among others", {"statusCode": 200, "headers": {"cache-control": "private, No-Store"}, "body": SECRET}),
    (
        "multi",
        {"statusCode": 200, "multiValueHeaders": {"Cache-Control": ["private", "no-store"]}, "body": SECRET},
    ),
    ("listed", {"statusCode": 200, "headers": {"cache-control": ["private", "no-store"]}, "body": SECRET}),
]
ALL = [*RESPONSES, *NO_STORE]


def each(rows: list[tuple[str, Json]]) -> pytest.MarkDecorator:
    """The responses of *rows*, by their names."""
    return pytest.mark.parametrize("response", [row[1] for row in rows], ids=[row[0] for row in rows])


# ------------------------------------------------------------------ nobody is named


@on_every_store
@pytest.mark.parametrize("response", [RESPONSES[0][1], NO_STORE[0][1]])
def test_it_is_withheld_where_nobody_is_named(rig: Rig, response: Json) -> None:
    """The work is done once, the first client has all of its response, and duplicates get 409."""
    ask, ran = works(rig, response)
    assert ask(http()) == response
    assert problem(ask(http())) == UNAVAILABLE
    assert problem(ask(http())) == UNAVAILABLE
    assert ran == [1]
    assert rig.row().state is State.COMPLETE
    assert rig.row().stored is Unavailable.WITHHELD
    assert SECRET not in stored(rig)


@in_memory
@each(ALL)
@pytest.mark.parametrize("options", [{}, {"cache": 10}, {"caller": False}])
def test_however_it_is_said(rig: Rig, response: Json, options: Any) -> None:
    """In each form of a response, for each way of having no caller, with memory and without."""
    ask, ran = works(rig, response, **options)
    assert ask(http()) == response
    assert problem(ask(http())) == UNAVAILABLE
    assert ran == [1]
    assert SECRET not in stored(rig)
    assert rig.events().count("once.released") == 0


@in_memory
@pytest.mark.parametrize(
    "event",
    [
        sent(x_api_key="of all users of an app"),
        rest_by(apiKeyId="app"),
        with_certificate(http()),
    ],
)
def test_an_application_is_nobody(rig: Rig, event: Json) -> None:
    """Its users have it in common: the second who sends the same may be another one."""
    ask, ran = works(rig, NO_STORE[0][1])
    ask(event)
    assert problem(ask(event)) == UNAVAILABLE
    assert ran == [1]


@in_memory
def test_after_five_minutes_the_same_is_new_work(rig: Rig) -> None:
    """The token lives as long as any of a request without a key."""
    ask, ran = works(rig, RESPONSES[0][1])
    ask(http())
    rig.clock.advance(301)
    assert ask(http()) == RESPONSES[0][1]
    assert ran == [1, 1]


@in_memory
def test_the_error_names_the_way_out(rig: Rig) -> None:
    """For the operator; the client gets a fixed text."""
    ask, _ = works(rig, RESPONSES[0][1])
    ask(http())
    ask(http())
    refused = [details for details in rig.reported if details.event.value == "once.refused"]
    assert [details.error for details in refused] == ["ResultUnavailable"]


# ------------------------------------------------------------------ somebody is named

NAMED: list[tuple[str, Json]] = [
    ("JWT authorizer", http(authorizer={"jwt": {"claims": ALICE}})),
    ("unverified JWT", sent(f"Bearer {jwt(ALICE)}")),
    ("opaque token", sent("Bearer a")),
    ("cookies", http(cookies=["session=a"])),
]


@in_memory
@pytest.mark.parametrize("event", [row[1] for row in NAMED], ids=[row[0] for row in NAMED])
@each(RESPONSES)
def test_it_is_stored_without_cookies_where_a_caller_joins(rig: Rig, event: Json, response: Json) -> None:
    """A replay has all the rest."""
    ask, ran = works(rig, response)
    assert ask(event) == response
    again = ask(event)
    assert again["statusCode"] == response["statusCode"]
    assert SECRET not in json.dumps(again) + stored(rig)
    assert "cookie" not in json.dumps(again).lower()
    assert '"x"' in json.dumps(again)
    assert ran == [1]


@in_memory
@each(NO_STORE)
def test_no_store_without_a_cookie_is_stored_whole(rig: Rig, response: Json) -> None:
    """It goes back to the same caller."""
    ask, _ = works(rig, response)
    assert ask(NAMED[0][1]) == response
    assert ask(NAMED[0][1])["body"] == SECRET


# ------------------------------------------------------------------ as it is

AS_IT_IS: list[tuple[str, Json, Json, dict[str, Any]]] = [
    ("a key", http(headers={"idempotency-key": "1"}), RESPONSES[0][1], {}),
    ("a key, no-store", http(headers={"idempotency-key": "1"}), NO_STORE[0][1], {}),
    ("key=", http(json.dumps({"id": "1"})), RESPONSES[0][1], {"key": "id", "caller": False}),
    ("other directives", http(), {"statusCode": 200, "headers": {"cache-control": "no-cache, private"}}, {}),
    ("no-store elsewhere", http(), {"statusCode": 200, "headers": {"x": "no-store, set-cookie"}}, {}),
    ("no cookies", http(), {"statusCode": 200, "cookies": [], "headers": {}}, {}),
    ("odd headers", http(), {"statusCode": 200, "headers": None, "multiValueHeaders": []}, {}),
]


@in_memory
@pytest.mark.parametrize(
    ("event", "response", "options"), [row[1:] for row in AS_IT_IS], ids=[row[0] for row in AS_IT_IS]
)
def test_it_is_stored_as_it_is(rig: Rig, event: Json, response: Json, options: Any) -> None:
    """Under a key, which its client vouches for, and where nothing says that it is private."""
    ask, ran = works(rig, response, **options)
    first, again = ask(event), ask(event)
    assert first == response
    replayed = {"Idempotent-Replayed": "true"}
    assert again == response | {"headers": (response.get("headers") or {}) | replayed}
    assert ran == [1]


@in_memory
@pytest.mark.parametrize(
    "body", [{"cookies": ["oatmeal"], "headers": {"set-cookie": "a"}}, "no-store", ["a"], 5]
)
def test_the_shorthand_is_a_body(rig: Rig, body: Any) -> None:
    """A response of payload 2.0 without statusCode has no headers, whatever its fields are called."""
    ask, _ = works(rig, body)
    assert ask(http()) == body
    assert json.loads(ask(http())["body"]) == body if not isinstance(body, str) else True


@in_memory
@pytest.mark.parametrize(("status", "released"), [(422, True), (500, True), (402, False)])
def test_failures_are_what_they_were(rig: Rig, status: int, released: bool) -> None:
    """What is released stores nothing; a stored status is a response like any other."""
    ask, ran = works(rig, {"statusCode": status, "cookies": [COOKIE]}, store_status=[402])
    ask(http())
    ask(http())
    assert len(ran) == (2 if released else 1)
    assert SECRET not in stored(rig)


@in_memory
def test_a_5xx_that_is_stored_is_withheld_too(rig: Rig) -> None:
    """STORE keeps a response."""
    ask, ran = works(rig, {"statusCode": 503, "cookies": [COOKIE]}, on_error=STORE)
    assert ask(http())["cookies"] == [COOKIE]
    assert problem(ask(http())) == UNAVAILABLE
    assert ran == [1]


# ------------------------------------------------------------------ other ways to a stored response


@in_memory
def test_on_replay_sees_what_is_stored(rig: Rig) -> None:
    """It cannot pass on what nobody else is to get."""
    seen: list[Any] = []

    def noted(response: Any, _: Any) -> Any:
        seen.append(response)
        return response

    ask, _ = works(rig, RESPONSES[0][1], on_replay=noted)
    ask(NAMED[0][1])
    ask(NAMED[0][1])
    assert seen == [{"statusCode": 200, "headers": {"x": "1"}}]


@in_memory
def test_a_probe_stores_no_more(rig: Rig) -> None:
    """Of the response that it found out only what the handler's own would leave."""
    ask, ran = works(rig, RESPONSES[0][1], on_lapse=lambda *_: Done(RESPONSES[0][1]))
    with rig.crash():
        ask(http())
    rig.clock.advance(60)
    assert problem(ask(http())) == UNAVAILABLE
    assert ran == [1]
    assert SECRET not in stored(rig)


@in_memory
def test_a_transaction_stores_no_more(rig: Rig) -> None:
    """The completion that is written with the user's items."""

    @rig.once.api_gateway(name="sign in")
    def handler(_event: Json) -> Any:
        return rig.once.current().transact([], RESPONSES[0][1])

    assert handler(http(), rig.context())["headers"] == RESPONSES[0][1]["headers"]
    assert problem(handler(http(), rig.context())) == UNAVAILABLE
    assert SECRET not in stored(rig)


class LosesTransactions(FrailStore):
    """A store that writes a transaction, and whose answer is lost."""

    def transact(
        self, finish: Write | None, items: Sequence[Mapping[str, Any]], deadline: Deadline
    ) -> WriteAnswer:
        super().transact(finish, items, deadline)
        return Unanswered("ReadTimeoutError")


@in_memory
@pytest.mark.parametrize("event", [http(), NAMED[0][1]])
def test_a_lost_answer_costs_the_first_client_nothing(rig: Rig, event: Json) -> None:
    """The row is its own, and has less than its response."""
    rig.use_store(LosesTransactions)

    @rig.once.api_gateway(name="sign in")
    def handler(_event: Json) -> Any:
        with suppress(StoreUnavailable):
            rig.once.current().transact([], RESPONSES[0][1])
        return RESPONSES[0][1]

    assert handler(event, rig.context())["headers"] == RESPONSES[0][1]["headers"]
    assert SECRET not in str(handler(event, rig.context()))


@in_memory
def test_an_async_handler(rig: Rig) -> None:
    """As a plain one."""
    ran: list[int] = []

    @rig.once.api_gateway(name="sign in")
    async def handler(_event: Json) -> Any:
        ran.append(1)
        return RESPONSES[0][1]

    assert handler(http(), rig.context()) == RESPONSES[0][1]
    assert problem(handler(http(), rig.context())) == UNAVAILABLE
    assert ran == [1]


# ------------------------------------------------------------------ routes


def _answers() -> dict[str, Any]:
    cookie = Cookie("session", SECRET)
    return {
        "cookies": lambda: Response(200, "text/plain", "in", cookies=[cookie]),
        "headers": lambda: Response(200, "text/plain", "in", headers={"Set-Cookie": COOKIE}),
        "several": lambda: Response(200, "text/plain", "in", headers={"set-cookie": [COOKIE, COOKIE]}),
        "no-store": lambda: Response(200, "text/plain", SECRET, headers={"Cache-Control": "no-store"}),
    }


@in_memory
@pytest.mark.parametrize("kind", _answers())
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("resolver", [APIGatewayHttpResolver, APIGatewayRestResolver])
def test_routes(rig: Rig, kind: str, resolver: Any, *, is_async: bool) -> None:
    """The response of an Event Handler: withheld from others, without its cookies for its own caller."""
    app, answer, ran = resolver(), _answers()[kind], []

    @app.post("/orders/5/pay", middlewares=[rig.once.route(async_resolver=is_async)])  # type: ignore[untyped-decorator]
    def pay() -> Any:
        ran.append(1)
        return answer()

    def ask(event: Json) -> Any:
        context = rig.context(f"request-{len(ran)}")
        return asyncio.run(app.resolve_async(event, context)) if is_async else app.resolve(event, context)

    is_rest = resolver is APIGatewayRestResolver
    nobody = rest() if is_rest else http()
    mine = rest(headers={"authorization": ["Bearer a"]}) if is_rest else sent("Bearer a")
    first = ask(nobody)
    assert SECRET in json.dumps(first)
    assert problem(ask(nobody)) == UNAVAILABLE
    assert ran == [1]
    assert SECRET not in stored(rig)
    ask(mine)
    again = ask(mine)
    assert again["statusCode"] == 200
    assert (SECRET in json.dumps(again)) is (kind == "no-store")
    assert not again.get("cookies")
    assert "set-cookie" not in json.dumps(again).lower()
    assert ran == [1, 1]


# ------------------------------------------------------------------ the log


def _lines(out: str) -> list[str]:
    return [json.loads(line)["reason"] for line in out.splitlines() if "once.not_stored" in line]


def _places(out: str) -> list[str]:
    return [reason.partition(": ")[0] for reason in _lines(out)]


PROXY = {"resource": "/{proxy+}"}
PLACES: list[tuple[Json, str]] = [
    (http() | {"rawPath": "/orders/s3cret-1/pay"}, "POST /orders/{id}/pay"),
    (http() | {"rawPath": "/orders/s3cret-2/pay"}, "POST /orders/{id}/pay"),
    (rest() | {"path": "/s3cret"}, "POST /orders/{id}/pay"),
    # A route that takes any path says nothing about the app's own.
    (http() | {"rawPath": "/login", "routeKey": "$default"}, "POST /login"),
    (http(domain=URL) | {"rawPath": "/codes", "routeKey": "$default"}, "POST /codes"),
    (http() | {"rawPath": "/v1/a", "routeKey": "ANY /v1/{proxy+}"}, "POST /v1/a"),
    (rest() | {"path": "/b"} | PROXY, "POST /b"),
    (rest() | {"path": "/a\n\x1b\u202e"} | PROXY, "POST /a\\n\\x1b\\u202e"),
    (rest() | {"path": "/" + "x" * 10_000} | PROXY, "POST /" + "x" * 63),
    (alb() | {"path": "/c", "httpMethod": "PUT"}, "PUT /c"),
    (alb(multi=True) | {"path": "/d"}, "POST /d"),
]


@in_memory
def test_each_route_is_logged_once(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """By its method and template, or by the path that was requested if the template takes any path."""
    ask, _ = works(rig, RESPONSES[0][1], methods=["POST", "PUT"])
    for event, _place in PLACES:
        ask(event)
        ask(event)
    out = capsys.readouterr().out
    assert _places(out) == list(dict.fromkeys(place for _, place in PLACES))
    assert all('without_key="run"' in reason for reason in _lines(out))


@in_memory
def test_a_client_invents_no_lines(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Each method and path would be a line, and an entry that stays."""
    ask, ran = works(rig, RESPONSES[0][1])
    for n in range(9):
        ask(alb() | {"httpMethod": f"S3CRET-{n}"})
    ask(alb() | {"httpMethod": "delete"})
    for n in range(3 * MOST_PATHS):
        ask(alb() | {"path": f"/{n}"})
    found = _places(capsys.readouterr().out)
    assert found[:3] == ["(any method) /orders/5/pay", "DELETE /orders/5/pay", "POST /0"]
    assert found[-1] == "POST (other paths)"
    assert len(found) == 2 + MOST_PATHS
    assert len(ran) == 10 + 3 * MOST_PATHS


@in_memory
def test_a_route_is_named_by_its_rule(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """An API with one proxy route has its routes in the Event Handler."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order>/pay", middlewares=[rig.once.route()])
    def pay(order: str) -> Any:
        return Response(200, "text/plain", order, headers={"Cache-Control": "no-store"})

    app.resolve(http() | {"rawPath": "/orders/s3cret/pay"}, rig.context())
    (reason,) = _lines(capsys.readouterr().out)
    assert reason.startswith("POST /orders/{order}/pay: ")


@in_memory
@pytest.mark.parametrize("rule", [".+", "/v1/.*"])
def test_a_rule_that_takes_any_path_names_the_path(
    rig: Rig, rule: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a route of the gateway that does."""
    app = APIGatewayHttpResolver()

    @app.post(rule, middlewares=[rig.once.route()])
    def anything() -> Any:
        return Response(200, "text/plain", "in", headers={"Cache-Control": "no-store"})

    app.resolve(http() | {"rawPath": "/v1/login"}, rig.context())
    assert _places(capsys.readouterr().out) == ["POST /v1/login"]


@in_memory
def test_there_is_no_line_where_a_caller_joins(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is lost but cookies."""
    ask, _ = works(rig, RESPONSES[0][1])
    ask(NAMED[0][1])
    assert _lines(capsys.readouterr().out) == []
