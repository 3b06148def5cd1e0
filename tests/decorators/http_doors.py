"""The doors of an HTTP request: a handler and a route, plain and async. Each gives a function that asks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.event_handler import (
    ALBResolver,
    APIGatewayHttpResolver,
    APIGatewayRestResolver,
)

from tests.decorators.rig import Rig
from tests.sources.samples import Json

Ask = Callable[[Json], Any]


def _note(ran: list[int] | None) -> None:
    if ran is not None:
        ran.append(1)


def handled(rig: Rig, options: Any, ran: list[int] | None = None) -> Ask:
    """A whole handler under the decorator."""

    @rig.once.api_gateway(**options)
    def handler(_event: Json) -> Json:
        _note(ran)
        return {"statusCode": 200}

    return lambda event: handler(event, rig.context())


def handled_async(rig: Rig, options: Any, ran: list[int] | None = None) -> Ask:
    """An async handler."""

    @rig.once.api_gateway(**options)
    async def handler(_event: Json) -> Json:
        _note(ran)
        return {"statusCode": 200}

    return lambda event: handler(event, rig.context())


def _resolver(event: Json) -> Any:
    if "elb" in event["requestContext"]:
        return ALBResolver()
    return APIGatewayRestResolver() if "resource" in event else APIGatewayHttpResolver()


def routed(rig: Rig, options: Any, ran: list[int] | None = None) -> Ask:
    """A route of an Event Handler."""

    def ask(event: Json) -> Any:
        app = _resolver(event)

        @app.post("/orders/5/pay", middlewares=[rig.once.route(**options)])  # type: ignore[untyped-decorator]
        def pay() -> Json:
            _note(ran)
            return {}

        return app.resolve(event, rig.context())

    return ask


def routed_async(rig: Rig, options: Any, ran: list[int] | None = None) -> Ask:
    """An async route."""

    def ask(event: Json) -> Any:
        app = _resolver(event)

        @app.post("/orders/5/pay", middlewares=[rig.once.route(async_resolver=True, **options)])  # type: ignore[untyped-decorator]
        async def pay() -> Json:
            _note(ran)
            return {}

        return asyncio.run(app.resolve_async(event, rig.context()))

    return ask
