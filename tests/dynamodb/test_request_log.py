"""One debug line a request: what AWS Support asks for, and nothing that it carries."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any

import pytest

from lambda_once.core.clock import Deadline
from lambda_once.dynamodb.transport import Transport
from lambda_once.testing import FakeClock, create_table
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Wire, arrives, refused, request_lost

LOGGER = "lambda_once.dynamodb"
SECRET = "4111111111111111"
HOST = "host=dynamodb.eu-central-1.amazonaws.com"


@pytest.fixture
def wire() -> Any:
    """A wire to a table."""
    with mounted():
        create_table(tables.client(), "tokens")
        yield Wire()


def _sent(wire: Wire) -> None:
    clock = FakeClock()
    request = {"TableName": "tokens", "Item": {"lockToken": {"S": SECRET}}}
    Transport(wire.client).call("put_item", request, Deadline(clock, clock.now() + timedelta(minutes=1)))


def test_each_try_is_one_line(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    """Those that got no answer, too."""
    caplog.set_level(logging.DEBUG, LOGGER)
    wire.fates = [request_lost, refused("ThrottlingException", message=SECRET), arrives]
    _sent(wire)
    lines = [line.message for line in caplog.records if line.name.startswith(LOGGER)]
    assert [re.sub(r"request_id=[\w-]+", "request_id=…", line) for line in lines] == [
        f"put_item {HOST} status=- error=ConnectTimeoutError request_id=… try=1",
        f"put_item {HOST} status=400 error=ThrottlingException request_id=… try=2",
        f"put_item {HOST} status=200 error=- request_id=… try=3",
    ]
    assert SECRET not in str(lines)


def test_nothing_is_made_of_it_by_default(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    """The level is asked for, and that is all it costs."""
    caplog.set_level(logging.INFO, LOGGER)
    _sent(wire)
    assert caplog.records == []
