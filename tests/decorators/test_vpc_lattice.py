"""Requests of VPC Lattice are refused by name; those of API Gateway are answered, as before."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import (
    APIGatewayHttpResolver,
    VPCLatticeResolver,
    VPCLatticeV2Resolver,
)
from aws_lambda_powertools.utilities.data_classes import VPCLatticeEvent, VPCLatticeEventV2
from aws_lambda_powertools.utilities.parser.models import VpcLatticeModel, VpcLatticeV2Model

from lambda_once import Misconfigured
from tests.decorators.http_doors import handled, handled_async
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import http
from tests.sources.services import REFUSED

V1: Any = REFUSED["vpc lattice, event structure 1"]
V2: Any = REFUSED["vpc lattice, event structure 2"]
REFUSAL = r" received an event of VPC Lattice\. Nothing ran\. .* Protect the effect inside with once\.run\."

pytestmark = in_memory


@pytest.mark.parametrize("face", [handled, handled_async])
@pytest.mark.parametrize("event", [V1, V2], ids=["1", "2"])
def test_a_handler_refuses_it(rig: Rig, event: Any, face: Any) -> None:
    """It raises, for the client isn't at fault, and stores nothing; a request of an HTTP API is answered."""
    ran: list[int] = []
    with pytest.raises(Misconfigured, match="once.api_gateway" + REFUSAL):
        face(rig, {}, ran)(event)
    assert (ran, rig.rows()) == ([], [])
    assert face(rig, {}, ran)(http())["statusCode"] == 200
    assert (ran, len(rig.rows())) == ([1], 1)


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("resolver", "event"), [(VPCLatticeResolver, V1), (VPCLatticeV2Resolver, V2)], ids=["1", "2"]
)
def test_a_route_refuses_it(rig: Rig, resolver: Any, event: Any, *, is_async: bool) -> None:
    """Under Powertools' resolvers of it, too; under that of an HTTP API the route runs."""
    ran: list[int] = []

    def ask(app: Any, event: Any) -> Any:
        protected = rig.once.route(async_resolver=is_async)

        @app.post("/orders/5/pay", middlewares=[protected])  # type: ignore[untyped-decorator]
        def pay() -> None:
            ran.append(1)

        if is_async:
            return asyncio.run(app.resolve_async(event, rig.context()))
        return app.resolve(event, rig.context())

    with pytest.raises(Misconfigured, match=REFUSAL):
        ask(resolver(), event)
    assert (ran, rig.rows()) == ([], [])
    assert ask(APIGatewayHttpResolver(), http())["statusCode"] == 200
    assert (ran, len(rig.rows())) == ([1], 1)


@pytest.mark.parametrize(
    "event",
    [
        VPCLatticeEvent(V1),
        VPCLatticeEventV2(V2),
        VpcLatticeModel.model_validate(V1),
        VpcLatticeV2Model.model_validate(V2 | {"headers": {}}),  # Powertools 3.37 expects texts, not lists
    ],
    ids=lambda event: type(event).__name__,
)
def test_a_handler_of_events_refuses_it(rig: Rig, event: Any) -> None:
    """As Powertools' objects, too; what has its fields but no method is a direct invocation."""
    ran: list[object] = []

    @rig.once.event
    def handler(event: Any) -> None:
        ran.append(event)

    with pytest.raises(Misconfigured, match="once.event" + REFUSAL):
        handler(event, rig.context())
    assert (ran, rig.rows()) == ([], [])
    own = {"raw_path": "/orders/5/pay", "orderId": 5}
    handler(own, rig.context())
    assert ran == [own]
