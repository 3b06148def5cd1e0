"""`once.route`: one route of a Powertools Event Handler."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode
from dataclasses import replace
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import (
    ALBResolver,
    APIGatewayHttpResolver,
    APIGatewayRestResolver,
    AppSyncResolver,
    BedrockAgentResolver,
    CORSConfig,
    LambdaFunctionUrlResolver,
    Response,
)
from aws_lambda_powertools.event_handler.exceptions import NotFoundError, ServiceError
from aws_lambda_powertools.shared.cookies import Cookie

from lambda_once import HOLD, ErrorResponse, Misconfigured
from lambda_once.core.lifecycle import State
from lambda_once.engine.replay import Replayed
from tests.decorators.rig import Rig
from tests.decorators.test_api import KEY, URL
from tests.sources.samples import alb, http, rest

Json = dict[str, Any]
HTTP = http(headers={KEY.lower(): "k", "origin": "https://shop.example"})


def rest_event() -> Json:
    """A request to a REST API, from a browser."""
    return rest(headers={KEY: ["k"], "Origin": ["https://shop.example"]})


AGENT: Json = {
    "messageVersion": "1.0",
    "agent": {"name": "shop", "id": "A1", "alias": "live", "version": "1"},
    "inputText": "pay order 5",
    "sessionId": "s-1",
    "actionGroup": "orders",
    "apiPath": "/pay",
    "httpMethod": "POST",
    "parameters": [],
    "sessionAttributes": {},
    "promptSessionAttributes": {},
}
"""As a Bedrock agent sends an action group defined by an API schema (Amazon Bedrock user guide)."""

RESOLVERS = [
    pytest.param(APIGatewayRestResolver, rest_event(), id="v1"),
    pytest.param(APIGatewayHttpResolver, HTTP, id="v2"),
    pytest.param(LambdaFunctionUrlResolver, http(headers={KEY.lower(): "k"}, domain=URL), id="function url"),
    pytest.param(ALBResolver, alb(idempotency_key="k"), id="alb"),
    pytest.param(ALBResolver, alb(multi=True, idempotency_key="k"), id="alb multi-value"),
]


def header(response: Json, name: str) -> str | None:
    """One header of *response*, in whatever form its gateway wants it."""
    several = response.get("multiValueHeaders") or {}
    single = response.get("headers") or {}
    return several[name][0] if name in several else single.get(name)


class Orders:
    """An Event Handler with one protected route."""

    def __init__(self, rig: Rig, resolver: Any, answer: Any = None, **options: Any) -> None:
        self.rig = rig
        self.runs = 0
        self.answer = answer
        self.app = resolver(**options.pop("resolver_options", {}))
        self.app.post("/orders/<order_id>/pay", middlewares=[rig.once.route(**options)])(self.pay)

    def pay(self, order_id: str) -> Any:
        self.runs += 1
        answer = {"order": order_id, "run": self.runs} if self.answer is None else self.answer
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask(self, event: Json) -> Any:
        """Send one request."""
        return self.app.resolve(event, self.rig.context(f"request-{self.runs}"))


@pytest.mark.parametrize(("resolver", "event"), RESOLVERS)
def test_a_repeated_request_gets_the_stored_response(rig: Rig, resolver: Any, event: Json) -> None:
    """The route runs once; the second answer is the first, marked as replayed."""
    orders = Orders(rig, resolver)
    first, second = orders.ask(event), orders.ask(event)
    assert orders.runs == 1
    assert (first["statusCode"], json.loads(first["body"])) == (200, {"order": "5", "run": 1})
    assert (second["statusCode"], second["body"]) == (200, first["body"])
    assert header(first, "Idempotent-Replayed") is None
    assert header(second, "Idempotent-Replayed") == "true"


@pytest.mark.parametrize(
    ("resolver", "event"),
    [(APIGatewayRestResolver, rest_event()), (APIGatewayHttpResolver, HTTP)],
)
def test_replays_and_problems_carry_cors_headers(rig: Rig, resolver: Any, event: Json) -> None:
    """The Event Handler's CORS headers stand on the replay and on the problem."""
    cors = {"cors": CORSConfig(allow_origin="https://shop.example")}
    orders = Orders(rig, resolver, resolver_options=cors)
    orders.ask(event)
    replay = orders.ask(event)
    problem = orders.ask({**event, "body": '{"orderId": 6}'})
    assert (replay["statusCode"], problem["statusCode"]) == (200, 422)
    assert header(problem, "Content-Type") == "application/problem+json"
    for answer in (replay, problem):
        assert header(answer, "Access-Control-Allow-Origin") == "https://shop.example"


@pytest.mark.parametrize(
    ("resolver", "event"),
    [(APIGatewayRestResolver, rest()), (APIGatewayHttpResolver, http())],
)
def test_a_problem_has_the_headers_of_the_user(rig: Rig, resolver: Any, event: Json) -> None:
    """``problem=`` may add some to the Event Handler's."""
    vary = {"Vary": "Origin"}
    options = {"without_key": "reject", "problem": lambda problem: replace(problem, extra_headers=vary)}
    refused = Orders(rig, resolver, **options).ask(event)
    assert (refused["statusCode"], header(refused, "Vary")) == (400, "Origin")


def test_another_path_is_other_work(rig: Rig) -> None:
    """`/orders/5/pay` and `/orders/6/pay` under one key are two payments."""
    orders = Orders(rig, APIGatewayHttpResolver)
    orders.ask(HTTP)
    other = {**HTTP, "rawPath": "/orders/6/pay"}
    other["requestContext"] = {
        **HTTP["requestContext"],
        "http": {**HTTP["requestContext"]["http"], "path": "/orders/6/pay"},
    }
    assert json.loads(orders.ask(other)["body"]) == {"order": "6", "run": 2}


@pytest.mark.parametrize("resolver", [APIGatewayRestResolver, APIGatewayHttpResolver])
def test_a_service_error_of_4xx_is_given_back(rig: Rig, resolver: Any) -> None:
    """The client gets the Event Handler's own answer, and may ask again."""
    event = rest_event() if resolver is APIGatewayRestResolver else HTTP
    orders = Orders(rig, resolver, NotFoundError("no such order"))
    assert orders.ask(event)["statusCode"] == 404
    assert rig.row().state is State.RELEASED
    orders.answer = None
    assert orders.ask(event)["statusCode"] == 200


def test_a_service_error_in_store_status_is_kept(rig: Rig) -> None:
    """First and second answer are what the Event Handler makes of the error."""
    orders = Orders(rig, APIGatewayRestResolver, ServiceError(402, "declined"), store_status={402})
    first, second = orders.ask(rest_event()), orders.ask(rest_event())
    assert orders.runs == 1
    body = {"statusCode": 402, "message": "declined"}
    for answer in (first, second):
        assert (answer["statusCode"], json.loads(answer["body"])) == (402, body)
    assert header(second, "Idempotent-Replayed") == "true"


def test_a_service_error_of_5xx_is_an_error_response_to_on_error(rig: Rig) -> None:
    """ServiceError of 500 or above goes by on_error as a returned one does; the client gets it as it is."""
    orders = Orders(rig, APIGatewayRestResolver, ServiceError(503, "busy"), on_error={ErrorResponse: HOLD})
    assert orders.ask(rest_event())["statusCode"] == 503
    assert rig.row().state is State.HELD
    assert orders.ask(rest_event())["statusCode"] == 409
    assert orders.runs == 1


@pytest.mark.parametrize("resolver", [APIGatewayRestResolver, APIGatewayHttpResolver, ALBResolver])
def test_bytes_and_cookies_come_back(rig: Rig, resolver: Any) -> None:
    """A binary body and its cookies are the same in the replay."""
    event = {
        APIGatewayRestResolver: rest_event(),
        APIGatewayHttpResolver: HTTP,
        ALBResolver: alb(multi=True, idempotency_key="k"),
    }[resolver]
    answer = Response(
        200,
        content_type="image/png",
        body=b"\x89PNG\x00\xff",
        headers={"X-Kind": "label"},
        cookies=[Cookie(name="session", value="1"), Cookie(name="theme", value="dark")],
    )
    orders = Orders(rig, resolver, answer)
    first, second = orders.ask(event), orders.ask(event)
    assert orders.runs == 1
    assert first["isBase64Encoded"]
    assert b64decode(first["body"]) == b"\x89PNG\x00\xff"
    assert all(cookie in json.dumps(first) for cookie in ("session=1", "theme=dark"))
    unmarked = json.loads(json.dumps(second))
    for form in ("headers", "multiValueHeaders"):
        (unmarked.get(form) or {}).pop("Idempotent-Replayed", None)
    assert unmarked == first


def test_an_exception_handler_still_answers(rig: Rig) -> None:
    """What the route raises is on_error's first, and then the Event Handler's."""
    orders = Orders(rig, APIGatewayRestResolver, ValueError("no answer"), on_error={ValueError: HOLD})

    @orders.app.exception_handler(ValueError)  # type: ignore[untyped-decorator]
    def not_answered(error: ValueError) -> Response[str]:
        return Response(504, content_type="text/plain", body=str(error))

    assert orders.ask(rest_event())["statusCode"] == 504
    assert rig.row().state is State.HELD
    assert orders.ask(rest_event())["statusCode"] == 409


def test_a_missing_key_can_be_refused(rig: Rig) -> None:
    """without_key="reject" answers 400, and the route does not run."""
    orders = Orders(rig, APIGatewayHttpResolver, without_key="reject")
    assert orders.ask(http())["statusCode"] == 400
    assert orders.runs == 0


def test_without_key_run_lets_it_through(rig: Rig) -> None:
    """without_key="run" calls the route unprotected where there is no key."""
    orders = Orders(rig, APIGatewayHttpResolver, without_key="run")
    orders.ask(http())
    orders.ask(http())
    assert (orders.runs, rig.rows()) == (2, [])


def test_a_route_knows_the_remaining_time(rig: Rig) -> None:
    """The lease of a route ends with the invocation that `resolve` was given."""
    Orders(rig, APIGatewayHttpResolver).ask(HTTP)
    row = rig.row()
    assert (row.expected_completion - row.created).total_seconds() == 32


@pytest.mark.parametrize(
    ("answer", "status", "state"),
    [
        (None, 200, State.COMPLETE),
        (NotFoundError("no such order"), 404, State.RELEASED),
        (ServiceError(500, "busy"), 500, State.RELEASED),
    ],
)
def test_async_routes(rig: Rig, answer: Any, status: int, state: State) -> None:
    """With async_resolver=True the middleware works under resolve_async, errors and replays alike."""
    app = APIGatewayHttpResolver()
    runs: list[str] = []

    @app.post("/orders/<order_id>/pay", middlewares=[rig.once.route(async_resolver=True)])
    async def pay(order_id: str) -> Json:
        runs.append(order_id)
        if answer is not None:
            raise answer
        return {"order": order_id}

    def ask() -> Any:
        return asyncio.run(app.resolve_async(HTTP, rig.context()))

    first, second = ask(), ask()
    assert (first["statusCode"], rig.row().state) == (status, state)
    assert second["statusCode"] == status
    assert len(runs) == (1 if state is State.COMPLETE else 2)
    assert header(second, "Idempotent-Replayed") == ("true" if state is State.COMPLETE else None)


def test_on_replay_gets_a_response_of_the_event_handler(rig: Rig) -> None:
    """As middlewares do, which may alter it or return another answer of a route."""

    def dressed(response: Response[Any], replayed: Replayed) -> Any:
        assert response.status_code == 200
        response.headers["x-state"] = replayed.record.state.value
        return response

    orders = Orders(rig, APIGatewayHttpResolver, on_replay=dressed)
    first, second = orders.ask(HTTP), orders.ask(HTTP)
    assert header(first, "x-state") is None
    assert (header(second, "x-state"), header(second, "Idempotent-Replayed")) == ("complete", "true")
    assert second["body"] == first["body"]


def test_on_replay_may_answer_as_a_route_does(rig: Rig) -> None:
    """A body and a status."""
    orders = Orders(rig, APIGatewayHttpResolver, on_replay=lambda *_: ({"already": True}, 208))
    orders.ask(HTTP)
    second = orders.ask(HTTP)
    assert (second["statusCode"], second["body"]) == (208, '{"already":true}')
    assert header(second, "Idempotent-Replayed") == "true"


WHOLE = Response(201, "text/plain", "paid")
GIVEN: list[tuple[str, Any, int, str]] = [
    ("a body", {"paid": 5}, 200, '{"paid":5}'),
    ("a body with a status", {"status": "paid"}, 200, '{"status":"paid"}'),
    ("nothing", None, 200, "null"),
    ("a body and a status", ({"paid": 5}, 201), 201, '{"paid":5}'),
    ("a response", WHOLE, 201, "paid"),
    ("as Lambda writes it", {"statusCode": 201, "body": "paid"}, 201, "paid"),
]


@pytest.mark.parametrize("way", ["complete", "transact"])
@pytest.mark.parametrize(
    ("result", "status", "body"), [row[1:] for row in GIVEN], ids=[row[0] for row in GIVEN]
)
@pytest.mark.parametrize("is_async", [False, True])
def test_a_route_completes_with_what_it_could_return(
    rig: Rig, result: Any, status: int, body: str, way: str, *, is_async: bool
) -> None:
    """By the attempt, which its first caller and duplicates get, whatever it returns later."""
    app, runs = APIGatewayHttpResolver(), []

    @app.post("/orders/<order_id>/pay", middlewares=[rig.once.route(async_resolver=is_async)])
    def pay(order_id: str) -> Json:
        runs.append(order_id)
        attempt = rig.once.current()
        attempt.complete(result) if way == "complete" else attempt.transact([], result)
        return {"another": "answer"}

    def ask() -> Any:
        context = rig.context(f"request-{len(runs)}")
        return asyncio.run(app.resolve_async(HTTP, context)) if is_async else app.resolve(HTTP, context)

    answers = [ask(), ask(), ask()]
    assert [(answer["statusCode"], answer["body"]) for answer in answers] == [(status, body)] * 3
    assert [header(answer, "Idempotent-Replayed") for answer in answers] == [None, "true", "true"]
    assert runs == ["5"]


@pytest.mark.parametrize("result", [({"broken": 1}, 500), Response(422, "text/plain", "no"), ({}, 404)])
def test_a_route_that_completes_with_an_error_is_released(rig: Rig, result: Any) -> None:
    """As one that returns it."""
    app, runs = APIGatewayHttpResolver(), []

    @app.post("/orders/<order_id>/pay", middlewares=[rig.once.route()])
    def pay(order_id: str) -> Any:
        runs.append(order_id)
        return rig.once.current().complete(result)

    statuses = [app.resolve(HTTP, rig.context(f"request-{len(runs)}"))["statusCode"] for _ in range(2)]
    assert statuses == [result[1] if isinstance(result, tuple) else result.status_code] * 2
    assert (rig.row().state, runs) == (State.RELEASED, ["5", "5"])


def test_a_route_completes_in_private(rig: Rig) -> None:
    """A cookie that is given to `complete` is no duplicate's, either, where the request has no key."""
    app = APIGatewayHttpResolver()

    @app.post("/orders/<order_id>/pay", middlewares=[rig.once.route()])
    def pay(order_id: str) -> Any:
        return rig.once.current().complete(Response(200, cookies=[Cookie("session", order_id)]))

    first, second = (app.resolve(http(), rig.context(each)) for each in ("request-1", "request-2"))
    assert (first["cookies"], second["statusCode"]) == (["session=5; Secure"], 409)


def test_an_async_conflict(rig: Rig) -> None:
    """Two at once under resolve_async: the second gets 409."""
    app = APIGatewayHttpResolver()
    answers: list[Json] = []

    @app.post("/orders/<order_id>/pay", middlewares=[rig.once.route(async_resolver=True)])
    async def pay(order_id: str) -> Json:
        answers.append(await app.resolve_async(HTTP, rig.context("request-2")))
        return {}

    asyncio.run(app.resolve_async(HTTP, rig.context()))
    assert [answer["statusCode"] for answer in answers] == [409]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("options", [{}, {"key": "sessionId"}])
def test_a_resolver_without_http_routes_is_refused_by_name(
    rig: Rig, options: Json, *, is_async: bool
) -> None:
    """In the name of `once.route`, with advice that fits a route; the route runs unprotected elsewhere."""
    ran: list[int] = []

    def ask(**protected: Any) -> Any:
        app = BedrockAgentResolver()

        @app.post("/pay", description="Pays an order.", **protected)  # type: ignore[untyped-decorator]
        def pay() -> str:
            ran.append(5)
            return "paid"

        if is_async:
            return asyncio.run(app.resolve_async(AGENT, rig.context()))
        return app.resolve(AGENT, rig.context())

    with pytest.raises(
        Misconfigured, match=r"^once\.route received an event of a Bedrock agent\. Nothing ran\."
    ) as no:
        ask(middlewares=[rig.once.route(async_resolver=is_async, **options)])
    assert "api_gateway" not in str(no.value)
    assert str(no.value).endswith("Protect the effect inside with once.run.")
    assert (ran, rig.rows()) == ([], [])
    assert ask()["response"]["httpStatusCode"] == 200
    assert ran == [5]


def test_as_a_decorator_of_a_resolver_without_middlewares_it_is_refused(rig: Rig) -> None:
    """AppSync's has fields and no routes."""
    app: Any = AppSyncResolver()  # type: ignore[no-untyped-call]
    with pytest.raises(
        Misconfigured, match=r"^once\.route\(\) is a middleware .* without HTTP routes .* once\.run"
    ):
        app.resolver(type_name="Mutation", field_name="pay")(rig.once.route()(lambda: 1))
