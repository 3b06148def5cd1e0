"""What wraps botocore, or the HTTP below it, sees each request: nothing of ours stands between."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from typing import Any

import botocore.auth
import botocore.endpoint
import pytest
import urllib3
from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.dynamodb.scripted import Server, answer
from tests.kit import tables


@pytest.fixture
def server() -> Iterator[Server]:
    """Answer one request."""
    found = Server([answer({})])
    yield found
    found.close()


def request(server: Server) -> None:
    """Send one request by the client that the package has by default."""
    client = tables.boto3s(f"http://127.0.0.1:{server.port}")
    client.update_item(TableName="tokens", Key={"lockToken": {"S": "t"}})
    client.close()


def test_opentelemetry_sees_it(server: Server) -> None:
    """It wraps `_make_api_call`, and adds the header of its trace."""
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    instrumentor = BotocoreInstrumentor()  # type: ignore[no-untyped-call]
    instrumentor.instrument(tracer_provider=provider)
    try:
        request(server)
    finally:
        instrumentor.uninstrument()
    assert [span.name for span in spans.get_finished_spans()] == ["DynamoDB.UpdateItem"]
    ((headers, _),) = server.requests
    assert "x-amzn-trace-id" in headers


WRAPPED: dict[str, tuple[Any, str]] = {
    "Lumigo": (http.client.HTTPConnection, "send"),
    "Elastic, Sentry, Datadog": (urllib3.HTTPConnectionPool, "urlopen"),
    "what reads answers": (http.client.HTTPConnection, "getresponse"),
    "X-Ray": (botocore.endpoint.Endpoint, "prepare_request"),
    "what signs": (botocore.auth.AUTH_TYPE_MAPS["v4"], "add_auth"),  # awscrt's, where it is installed
}


@pytest.mark.parametrize("name", WRAPPED)
def test_a_wrapper_is_called(name: str, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a tool hooks in."""
    owner, method = WRAPPED[name]
    original: Callable[..., Any] = getattr(owner, method)
    called: list[str] = []

    def wrapper(*args: Any, **options: Any) -> Any:
        called.append(name)
        return original(*args, **options)

    monkeypatch.setattr(owner, method, wrapper)
    request(server)
    assert called
