"""Why a table is out of reach: log line and exception name the error, the request and the likely cure."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from botocore.exceptions import (
    ConnectTimeoutError,
    EndpointConnectionError,
    ProxyConnectionError,
    ReadTimeoutError,
    ResponseStreamingError,
    SSLError,
)

from lambda_once import Once, StoreUnavailable
from lambda_once.dynamodb.errors import outage
from lambda_once.dynamodb.retry import TRIES
from lambda_once.patterns import Unique
from lambda_once.stores.transport import TokenTransport
from lambda_once.testing import FakeClock, api_event, create_table, lambda_context, sqs_event
from tests.kit import tables
from tests.kit.strict.mounted import mounted
from tests.kit.wire import Fate, Wire, failing, refused

SECRET = "4111111111111111"
HOST = "dynamodb.eu-central-1.amazonaws.com"
URL = f"https://someone:{SECRET}@{HOST}:8000/path"


def _raising(make: Callable[[], Exception]) -> Fate:
    def fate(*_: Any) -> NoReturn:
        raise make()

    return fate


OUTAGES: dict[str, tuple[Fate, str]] = {
    "throttled": (
        refused("ProvisionedThroughputExceededException"),
        "was throttled (ProvisionedThroughputExceededException): raise the table's capacity",
    ),
    "throttled on demand": (refused("ThrottlingException"), "was throttled (ThrottlingException): raise"),
    "refused": (
        _raising(lambda: EndpointConnectionError(endpoint_url=URL)),
        "found nobody there (EndpointConnectionError): check AWS_ENDPOINT_URL_DYNAMODB and the region",
    ),
    "no route": (
        _raising(lambda: ConnectTimeoutError(endpoint_url=URL)),
        "could not connect in time (ConnectTimeoutError): in a VPC, add a gateway endpoint for DynamoDB",
    ),
    "silent": (
        _raising(lambda: ReadTimeoutError(endpoint_url=URL)),
        "got no response in time (ReadTimeoutError)",
    ),
    "a certificate": (
        _raising(lambda: SSLError(endpoint_url=URL, error=SECRET)),
        "could not connect by TLS (SSLError): check AWS_CA_BUNDLE",
    ),
    "a proxy": (
        _raising(lambda: ProxyConnectionError(proxy_url=URL)),
        "could not connect to its proxy (ProxyConnectionError): check HTTPS_PROXY",
    ),
    "half an answer": (
        _raising(lambda: ResponseStreamingError(error=SECRET)),
        "got no whole response (ResponseStreamingError): retry",
    ),
    "a fault": (refused("InternalServerError", 500), "failed at DynamoDB (InternalServerError): retry"),
    "a fault without a name": (refused("SomethingNew", 502), "failed at DynamoDB (SomethingNew): retry"),
}


@pytest.fixture
def wire() -> Any:
    """A wire to a table."""
    with mounted():
        create_table(tables.client(), "tokens")
        yield Wire()


def _once(wire: Wire) -> Once:
    once = Once(table="tokens", client=wire.client, service="shop", logger=logging.getLogger("shop"))
    once._runtime.clock = FakeClock()
    return once


@pytest.mark.parametrize("name", OUTAGES)
def test_the_log_says_what_happened_and_what_to_do(
    wire: Wire, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """Of a queue nobody sees the exception, and a client of an API gets no word of it."""
    fate, said = OUTAGES[name]
    once = _once(wire)
    queue = once.sqs(name="queue", key="card")(lambda _record: pytest.fail("it ran"))
    wire.fates = [fate] * TRIES
    event = sqs_event({"card": SECRET[:4], "number": SECRET})
    assert queue(event, lambda_context())["batchItemFailures"]
    api: Any = once.api_gateway(name="api", key="card")(lambda _event: pytest.fail("it ran"))
    wire.fates = [fate] * TRIES
    answer = api(api_event("POST", "/", {"card": SECRET[:4], "number": SECRET}), lambda_context())
    assert answer["statusCode"] == 503
    assert "tokens" not in str(answer)
    lines = [vars(line) for line in caplog.records if line.message == "once.store_unavailable"]
    assert [line["error"] for line in lines] == ["StoreUnavailable"] * 2
    for line in lines:
        assert line["reason"].startswith(f"UpdateItem on table 'tokens' at {HOST} {said}")
        assert SECRET not in line["reason"]


@pytest.mark.parametrize("name", OUTAGES)
def test_the_exception_says_it_too(wire: Wire, name: str) -> None:
    """With the token, in its message and as an attribute; a pattern's as well."""
    fate, said = OUTAGES[name]
    wire.fates = [fate] * TRIES
    with pytest.raises(
        StoreUnavailable, match="token shop/len/k was not run, retry later: UpdateItem"
    ) as run:
        _once(wire).run("len", "k", len, [])
    wire.fates = [fate] * TRIES
    with pytest.raises(StoreUnavailable, match=f"; tried {TRIES} times") as put:
        Unique("receipts", wire.client, key="id", clock=FakeClock()).put({"id": SECRET})
    for raised in (run, put):
        assert said in str(raised.value)
        assert said in str(raised.value.reason)
        assert SECRET not in str(raised.value)


def test_a_part_of_a_batch_that_stays_throttled(wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    """Its record's line names the batch's operation."""
    queue = _once(wire).sqs(name="queue", key="id")(lambda _record: None)
    wire.fates = [failing(None, "ThrottlingError")] + [failing("ThrottlingError")] * 2 * TRIES
    failed = queue(sqs_event({"id": 1}, {"id": 2}), lambda_context())["batchItemFailures"]
    assert len(failed) == 1
    (line,) = [vars(line) for line in caplog.records if line.message == "once.store_unavailable"]
    assert line["reason"].startswith(f"BatchExecuteStatement on table 'tokens' at {HOST} was throttled")


def test_a_canceled_transaction_names_the_reason() -> None:
    """Not the cancellation, which says nothing."""
    from botocore.exceptions import ClientError

    reasons = [{"Code": "None"}, {"Code": "ThrottlingError"}]
    error = ClientError(
        {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons},  # type: ignore[typeddict-unknown-key,unused-ignore]
        "TransactWriteItems",
    )
    assert outage(error, "transact_write_items", "tokens", None).startswith(
        "TransactWriteItems on table 'tokens' was throttled (ThrottlingError)"
    )


@pytest.mark.parametrize(
    ("url", "host"),
    [(URL, f"{HOST}:8000"), ("http://localhost:8123", "localhost:8123"), ("http://[::1]:1", "[::1]:1")],
)
def test_the_host_has_no_credentials(url: str, host: str) -> None:
    """An endpoint may have a user and a password."""
    assert TokenTransport("tokens", tables.client(url)).host == host
    assert TokenTransport("tokens").host is None
