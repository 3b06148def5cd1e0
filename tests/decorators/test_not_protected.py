"""A request whose client relies on a key that does not count: its method is not protected."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import Json, alb, http, rest

pytestmark = in_memory
Told = Callable[[], list[str]]
KEY = "Idempotency-Key"
URL = "abc123.lambda-url.eu-central-1.on.aws"


def by(event: Json, method: str) -> Json:
    """*event* with another method."""
    if "httpMethod" in event:
        return {**event, "httpMethod": method}
    if "http" in event.get("requestContext", {}):
        context = event["requestContext"]
        return {**event, "requestContext": {**context, "http": {**context["http"], "method": method}}}
    return {**event, "method": method}


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Read the reasons that were logged."""

    def read() -> list[str]:
        lines = capsys.readouterr().out.splitlines()
        return [json.loads(line)["reason"] for line in lines if "once.not_protected" in line]

    return read


def handler(rig: Rig, **options: Any) -> Any:
    """A handler, and how to ask it."""
    work: Any = rig.once.api_gateway(name="h", **options)(lambda _event: {"statusCode": 200})
    return lambda event: work(event, rig.context())


KEYED: list[tuple[str, Json, str]] = [
    ("REST", rest(headers={KEY: ["k"]}), "/orders/{id}/pay"),
    ("REST, one value", rest() | {"headers": {KEY: "k"}, "multiValueHeaders": None}, "/orders/{id}/pay"),
    ("HTTP API", http(headers={KEY.lower(): "k"}), "/orders/{id}/pay"),
    ("HTTP API, $default", http(headers={KEY.upper(): "k"}, routeKey="$default"), "$default"),
    ("Function URL", http(headers={KEY: "k"}, domain=URL, routeKey="$default"), "$default"),
    ("load balancer", alb(idempotency_key="k"), "(any path)"),
    ("load balancer, several", alb(multi=True, idempotency_key="k"), "(any path)"),
    ("malformed", http(headers={KEY: "k" * 300}), "/orders/{id}/pay"),
]


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
@pytest.mark.parametrize(("event", "route"), [row[1:] for row in KEYED], ids=[row[0] for row in KEYED])
def test_a_key_of_a_method_that_is_not_protected_is_reported(
    told: Told, rig: Rig, event: Json, route: str, method: str
) -> None:
    """Once for each route: its client takes the request for protected."""
    ask = handler(rig)
    for _ in range(3):
        assert ask(by(event, method)) == {"statusCode": 200}
    (reason,) = told()
    assert reason.startswith(f"{method} {route}: ")
    assert f'methods={{"{method}", …}}' in reason
    assert rig.rows() == []


def test_each_route_and_method_is_reported(told: Told, rig: Rig) -> None:
    """Paths and keys are of clients, and make no further lines."""
    ask = handler(rig, methods={"POST"})
    for method in ("GET", "PUT", "POST", "made-up", "made-up-2"):
        for n in range(3):
            event = http(
                headers={KEY: f"secret-{n}"}, rawPath=f"/orders/{n}/secret", routeKey=f"ANY /r/{n % 2}"
            )
            ask(by(event, method))
    reasons = told()
    assert [reason.partition(":")[0] for reason in reasons] == [
        f"{method} /r/{n}" for method in ("GET", "PUT", "(any method)") for n in (0, 1)
    ]
    assert "methods={…}" in reasons[-1]
    assert not any("secret" in reason or "made-up" in reason.lower() for reason in reasons)


SILENT: list[tuple[str, Json, dict[str, Any]]] = [
    ("no key", by(http(), "GET"), {}),
    ("no headers", by(http() | {"headers": None}, "GET"), {}),
    ("no value", by(http(headers={KEY: "undefined"}), "GET"), {}),
    ("a preflight", by(http(headers={"access-control-request-headers": KEY}), "OPTIONS"), {}),
    ("protected", by(http(headers={KEY: "k"}), "GET"), {"methods": {"GET"}}),
    ("POST", http(headers={KEY: "k"}), {}),
    ("without a key, as asked for", http(), {"without_key": "run"}),
    ("the header is not the key", by(http(headers={KEY: "k"}), "GET"), {"key": "id"}),
]


@pytest.mark.parametrize(("event", "options"), [row[1:] for row in SILENT], ids=[row[0] for row in SILENT])
def test_what_nobody_relies_on_is_not_reported(
    told: Told, rig: Rig, event: Json, options: dict[str, Any]
) -> None:
    """A request without a key, one that is protected, and where the header does not count at all."""
    handler(rig, **options)(event)
    assert told() == []


def test_switched_off_is_reported_otherwise(told: Told, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """``LAMBDA_ONCE_DISABLED`` has a line of its own."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "1")
    rig.once = rig.new()
    handler(rig)(by(http(headers={KEY: "k"}), "GET"))
    assert told() == []


def test_a_route_is_named_by_its_template(told: Told, rig: Rig) -> None:
    """Behind $default, too, as the Event Handler knows it."""
    app = APIGatewayHttpResolver()
    protect = rig.once.route()

    @app.get("/orders/<order_id>", middlewares=[protect])
    def order(order_id: str) -> Json:
        return {"order": order_id}

    for n in range(3):
        event = by(http(headers={KEY: "k"}, rawPath=f"/orders/{n}", routeKey="$default"), "GET")
        event["requestContext"]["http"]["path"] = event["rawPath"]
        assert app.resolve(event, rig.context())["statusCode"] == 200
    (reason,) = told()
    assert reason.startswith("GET /orders/{order_id}: ")
