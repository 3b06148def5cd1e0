"""moto as a server in a process of its own, as users run it beside `sam local`: batches are handled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta

import pytest

from lambda_once.core.clock import Deadline, SystemClock
from tests.kit.ports import answers, free_port

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_DEFAULT_REGION": "eu-west-1"}
BATCHES = """
import json, logging, sys
import boto3
from lambda_once import Once
from lambda_once.testing import activemq_event, create_table, lambda_context, sqs_event

class Names(logging.Handler):
    def emit(self, record):
        events.append(record.getMessage())

events, handled = [], []
logger = logging.Logger("engines", logging.DEBUG)
logger.addHandler(Names())
create_table(boto3.client("dynamodb"), "tokens")
once = Once(table="tokens", service="shop", logger=logger)

@once.sqs(key="orderId")
def charge(record):
    handled.append(record.json_body["orderId"])

@once.mq(key="orderId")
def charge_message(message):
    handled.append(message.json_data["orderId"])

deliver, event_of = (charge_message, activemq_event) if sys.argv[2] == "mq" else (charge, sqs_event)
failures, number = [], 0
for size in json.loads(sys.argv[1]):
    orders = [{"orderId": number + n} for n in range(size)]
    number += size
    for _ in range(2):
        answer = deliver(event_of(*orders), lambda_context())
        failures.append(len((answer or {}).get("batchItemFailures", ())))
print(json.dumps({"failures": failures, "handled": handled, "off": events.count("once.batches_off")}))
"""


@pytest.fixture
def server() -> Iterator[str]:
    """The endpoint of a moto server."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        clock = SystemClock()
        deadline = Deadline(clock, clock.now() + timedelta(seconds=60))
        while not answers(port):
            assert process.poll() is None
            assert not deadline.passed()
            deadline.pause(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize(
    ("source", "sizes", "off"),
    [("sqs", (1, 1), 0), ("sqs", (3, 2), 1), ("mq", (3, 2), 1)],
    ids=["single messages", "batches", "batches of Amazon MQ"],
)
def test_messages_are_handled_once_by_a_moto_server(
    server: str, source: str, sizes: tuple[int, ...], off: int
) -> None:
    """
    Each batch is delivered twice; nothing fails, nothing runs twice.

    moto 5.2.5 as a server answers PartiQL with parameters by HTTP 500 and a page of HTML: the batch is sent
    again as single writes with the same attempt ids, and batches stay off.
    """
    environment = CREDENTIALS | {"AWS_ENDPOINT_URL_DYNAMODB": server, "POWERTOOLS_METRICS_DISABLED": "true"}
    program = subprocess.run(
        [sys.executable, "-c", BATCHES, json.dumps(sizes), source],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert program.returncode == 0, program.stderr
    result = json.loads(program.stdout.splitlines()[-1])
    assert result == {"failures": [0] * 4, "handled": list(range(sum(sizes))), "off": off}
