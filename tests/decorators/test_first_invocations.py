"""A fresh process whose first eight invocations come at once, in threads, through every decorator."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from lambda_once.testing import (
    activemq_event,
    dynamodb_stream_event,
    eventbridge_event,
    kafka_event,
    kinesis_event,
    rabbitmq_event,
    rest_api_event,
    sns_event,
    sqs_event,
)

AT_ONCE = 8

PROGRAM = """
import json, sys, threading
from types import SimpleNamespace

from lambda_once import MemoryStore, Once

once, runs = Once(store=MemoryStore(), service="shop"), []
{definition}

given = json.load(sys.stdin)
results, errors = [None] * len(given), []
start = threading.Barrier(len(given))

def invoke(n):
    context = SimpleNamespace(
        function_name="orders", aws_request_id=f"r-{{n}}", get_remaining_time_in_millis=lambda: 30_000
    )
    start.wait()
    try:
        results[n] = handler(given[n], context)
    except BaseException as error:
        errors.append(f"{{type(error).__name__}}: {{error}}")

loaded = set(sys.modules)
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=invoke, args=(n,)) for n in range(len(given))]
for each in threads:
    each.start()
for each in threads:
    each.join()
late = sorted(set(sys.modules) - loaded)
print(json.dumps({{"results": results, "errors": errors, "runs": len(runs), "late": late}}))
"""


class Work(NamedTuple):
    """A handler, and its events."""

    definition: str
    events: list[Any]
    result: object


def of_records(decorator: str, events: list[Any], result: object, *, asynchronous: bool = False) -> Work:
    """Return a handler of one record, by *decorator* with its options."""
    is_async = "async " * asynchronous
    return Work(f"@{decorator}\n{is_async}def handler(record): runs.append(record)", events, result)


ORDERS = [{"id": n} for n in range(AT_ONCE)]
QUEUES = [sqs_event(order) for order in ORDERS]
DONE = {"batchItemFailures": list[object]()}
MODEL = "from dataclasses import dataclass\n@dataclass\nclass Order:\n    id: int\n"
REQUESTS = [rest_api_event("POST", "/orders", order) for order in ORDERS]
ROUTES = """
from aws_lambda_powertools.event_handler import APIGatewayRestResolver
def made():
    app = APIGatewayRestResolver()
    @app.post("/orders", middlewares=[once.route({options})])
    {kind}def post(): runs.append(1); return {{"made": 1}}
    return app
apps = [made() for _ in range(8)]
def handler(event, context):
    app = apps[int(context.aws_request_id[2:])]
    return {call}["statusCode"]
"""
WORKS = {
    "sqs": of_records("once.sqs", QUEUES, DONE),
    "async sqs": of_records("once.sqs", QUEUES, DONE, asynchronous=True),
    "sqs model": Work(
        f"{MODEL}@once.sqs(model=Order)\ndef handler(order): runs.append(order.id)", QUEUES, DONE
    ),
    "sns": of_records("once.sns", [sns_event(order) for order in ORDERS], None),
    "kinesis": of_records("once.kinesis", [kinesis_event(order) for order in ORDERS], None),
    "dynamodb_stream": of_records(
        "once.dynamodb_stream", [dynamodb_stream_event((None, order)) for order in ORDERS], None
    ),
    "kafka": of_records("once.kafka(key='id')", [kafka_event(order) for order in ORDERS], None),
    "activemq": of_records("once.mq", [activemq_event(order) for order in ORDERS], None),
    "rabbitmq": of_records("once.mq", [rabbitmq_event(order) for order in ORDERS], None),
    "event": Work(
        "@once.event\ndef handler(event) -> int: runs.append(1); return 5",
        [eventbridge_event(order) for order in ORDERS],
        5,
    ),
    "api_gateway": Work(
        "@once.api_gateway\ndef handler(event): runs.append(1); return {'statusCode': 201}",
        REQUESTS,
        {"statusCode": 201},
    ),
    "route": Work(ROUTES.format(options="", kind="", call="app.resolve(event, context)"), REQUESTS, 200),
    "async route": Work(
        "import asyncio"
        + ROUTES.format(
            options="async_resolver=True",
            kind="async ",
            call="asyncio.run(app.resolve_async(event, context))",
        ),
        REQUESTS,
        200,
    ),
    "function": Work(
        f"{MODEL}from decimal import Decimal\n"
        "@once.function(key='order.id')\n"
        "def made(order) -> tuple[Decimal, Order]: runs.append(1); return Decimal(1), Order(order['id'])\n"
        "def handler(event, context):\n"
        "    amount, order = made(event)\n"
        "    return [type(amount).__name__, type(order).__name__]",
        ORDERS,
        ["Decimal", "Order"],
    ),
    "begin": Work(
        "def handler(event, context):\n"
        "    with once.begin(event['id'], name='work') as attempt:\n"
        "        runs.append(1); attempt.complete(5)\n"
        "    return 5",
        ORDERS,
        5,
    ),
}


ROUTED = ("route", "async route")
"""
Powertools keeps the current event of its Event Handlers on one class: in threads, requests see each other's.

So of these only that nothing is imported late, and nothing raises, holds.
"""


def first_invocations(work: Work) -> Mapping[str, Any]:
    """Send the events of *work* at once to a fresh process, and return what became of them."""
    program = PROGRAM.format(definition=work.definition)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(work.events),
        capture_output=True,
        text=True,
        check=True,
    )
    found: Mapping[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", WORKS)
def test_the_first_eight_at_once_all_succeed(name: str) -> None:
    """Each runs, once; and what the decorator needs was imported when it was applied."""
    work = WORKS[name]
    found = first_invocations(work)
    assert found["errors"] == []
    if name not in ROUTED:
        assert found["results"] == [work.result] * AT_ONCE
        assert found["runs"] == AT_ONCE
    parts = ("aws_lambda_powertools.", "lambda_once.sources.") if name != "begin" else ()
    assert [late for late in found["late"] if late.startswith(parts)] == []


def test_the_first_eight_at_once_may_all_fail() -> None:
    """Each batch whose records all failed raises Powertools' error, and no other."""
    failing = of_records("once.sqs", QUEUES, None)
    failing = failing._replace(definition=f"{failing.definition}; raise ValueError")
    found = first_invocations(failing)
    assert [error.splitlines()[0] for error in found["errors"]] == [
        "BatchProcessingError: all 1 records of the batch failed"
    ] * AT_ONCE
