from __future__ import annotations

import json
from contextlib import closing

import pytest

from benchmarks import deliveries, standin
from benchmarks.floor import Floor
from benchmarks.world import function_environment, reaching
from lambda_once.testing import lambda_context

TOKEN = "orders/orders.benchmarks.sides.LambdaOnce.api.%3Clocals%3E.create/POST:%2Forders/{}"


def test_the_floor_has_the_effect_that_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    """New work runs, and is logged as ours is; a duplicate gets what is stored, marked."""
    new, seen = deliveries.request(), deliveries.request()
    stored = {"statusCode": 201, "headers": {}, "body": "stored"}
    token = TOKEN.format(seen["headers"]["idempotency-key"])
    row = {"lockToken": {"S": token}, "result": {"S": json.dumps(stored)}}
    with (
        function_environment(),
        standin.running([row], []) as endpoints,
        reaching(endpoints.nearest),
        closing(Floor().client()) as client,
    ):
        create = Floor().api(client)
        assert create(new, lambda_context()) == deliveries.answer()
        assert create(seen, lambda_context()) == stored | {"headers": {"Idempotent-Replayed": "true"}}
    assert caplog.messages == ["once.returned", "once.completed", "once.replayed"]
