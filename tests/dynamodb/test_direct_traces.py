"""Tracers that wrap botocore see each request that our client sends directly, as they see its own."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import botocore.client
import pytest
from aws_xray_sdk import global_sdk_config
from aws_xray_sdk.core import xray_recorder
from aws_xray_sdk.core.context import Context
from botocore.client import BaseClient
from botocore.endpoint import Endpoint
from botocore.exceptions import ClientError
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.kit import tables
from tests.kit.host import Host, Request, nothing, refusal, serving

KEY = {"lockToken": {"S": "t"}}
TRACE = "x-amzn-trace-id"
LAMBDAS = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


def answer(request: Request) -> bytes:
    """Refuse a put, fail a deletion, and answer all else."""
    match request.operation:
        case "PutItem":
            return refusal("ConditionalCheckFailedException")
        case "DeleteItem":
            return refusal("InternalServerError", status=500)
        case _:
            return nothing(request)


def calls(client: Any) -> None:
    """Send one request that is answered, one that is refused, one that fails, and one of several items."""
    client.get_item(TableName="tokens", Key=KEY)
    with suppress(ClientError):
        client.put_item(TableName="tokens", Item=KEY)
    with suppress(ClientError):
        client.delete_item(TableName="tokens", Key=KEY)
    client.batch_get_item(RequestItems={"tokens": {"Keys": [KEY]}})


@pytest.fixture
def host() -> Iterator[Host]:
    """Answer the calls."""
    with serving(answer) as host:
        yield host


def sent_by(client: str, host: Host) -> list[Request]:
    """Send the calls by *client*, and return the requests."""
    host.requests.clear()
    made = tables.CLIENTS[client](host.url)
    calls(made)
    made.close()
    assert {request.by_botocore for request in host.requests} == {client == tables.BOTOCORE}
    return host.requests.copy()


@contextmanager
def as_it_was(patched: tuple[tuple[Any, str], ...]) -> Iterator[None]:
    """Undo what is patched in the block."""
    before = [(owner, name, getattr(owner, name)) for owner, name in patched]
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)


# -- X-Ray


@pytest.fixture
def xray() -> Iterator[None]:
    """Patch botocore as X-Ray's SDK does, with an open trace that is sent nowhere."""
    from aws_xray_sdk.ext.botocore.patch import patch

    enabled = global_sdk_config.sdk_enabled()
    global_sdk_config.set_sdk_enabled(True)
    already = hasattr(botocore.client, "_xray_enabled")
    with as_it_was(((BaseClient, "_make_api_call"), (Endpoint, "prepare_request"))):
        patch()
        xray_recorder.emitter._socket.close()  # it opens one for good when it is made
        xray_recorder.configure(service="shop", sampling=False, context=Context(), streaming_threshold=1000)
        xray_recorder.begin_segment("invocation")
        yield
        xray_recorder.clear_trace_entities()
    if not already:
        del botocore.client._xray_enabled
    global_sdk_config.set_sdk_enabled(enabled)


def subsegments(client: str, host: Host) -> tuple[list[dict[str, Any]], list[Request]]:
    """Return what X-Ray keeps of the calls by *client*, without times and ids, and the requests."""
    segment = xray_recorder.current_segment()
    requests = sent_by(client, host)
    found = [each.to_dict() for each in segment.subsegments]
    segment.subsegments.clear()
    return [
        {name: each.get(name) for name in ("name", "namespace", "aws", "http", "fault", "error")}
        for each in found
    ], requests


@pytest.mark.usefixtures("xray")
def test_xray_sees_each_call_as_it_sees_botocores(host: Host) -> None:
    """A subsegment each, with operation, table, status and error."""
    found, _ = subsegments(tables.BOTO3, host)
    botocores, _ = subsegments(tables.BOTOCORE, host)
    assert found == botocores
    assert [each["aws"]["operation"] for each in found] == [
        "GetItem",
        "PutItem",
        "DeleteItem",
        "BatchGetItem",
    ]
    assert [each["aws"].get("table_name") for each in found] == ["tokens", "tokens", "tokens", None]
    assert [each["http"]["response"]["status"] for each in found] == [200, 400, 500, 200]


@pytest.mark.usefixtures("xray")
@pytest.mark.parametrize("in_lambda", [False, True])
def test_the_header_of_xrays_subsegment_goes_out(
    host: Host, monkeypatch: pytest.MonkeyPatch, in_lambda: bool
) -> None:
    """DynamoDB gets the trace, and which subsegment asked; not that of the invocation."""
    if in_lambda:
        monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop")
        monkeypatch.setenv("_X_AMZN_TRACE_ID", LAMBDAS)
    segment = xray_recorder.current_segment()
    requests = sent_by(tables.BOTO3, host)
    for request, subsegment in zip(requests, segment.subsegments, strict=True):
        assert f"Root={segment.trace_id}" in request.headers[TRACE]
        assert f"Parent={subsegment.id}" in request.headers[TRACE]


def test_lambdas_trace_goes_out(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a tracer, too: botocore's protection against recursion reads it."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", LAMBDAS)
    for client in (tables.BOTO3, tables.BOTOCORE):
        assert {request.headers[TRACE] for request in sent_by(client, host)} == {LAMBDAS}


# -- OpenTelemetry


@pytest.fixture
def spans() -> Iterator[Callable[[str, Host], tuple[list[tuple[Any, ...]], list[Request]]]]:
    """Instrument botocore, and return what gives the spans and the requests of a client's calls."""
    pytest.importorskip("opentelemetry.instrumentation.botocore")
    instrumentation: Any = importlib.import_module("opentelemetry.instrumentation.botocore")
    exporter = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    instrumentor = instrumentation.BotocoreInstrumentor()

    def of(client: str, host: Host) -> tuple[list[tuple[Any, ...]], list[Request]]:
        exporter.clear()
        requests = sent_by(client, host)
        found = [
            (
                span.name,
                span.kind,
                span.status.status_code,
                dict(span.attributes or {}),
                span.get_span_context(),
            )
            for span in exporter.get_finished_spans()
        ]
        return found, requests

    with as_it_was(((BaseClient, "_make_api_call"), (Endpoint, "prepare_request"))):
        instrumentor.instrument(tracer_provider=provider, skip_dep_check=True)
        try:
            yield of
        finally:
            instrumentor.uninstrument()


def test_opentelemetry_sees_each_call_as_it_sees_botocores(spans: Any, host: Host) -> None:
    """A span each, with operation, table, status, retries and errors."""
    found, _ = spans(tables.BOTO3, host)
    botocores, _ = spans(tables.BOTOCORE, host)
    assert [each[:-1] for each in found] == [each[:-1] for each in botocores]
    assert [attributes["rpc.method"] for *_, attributes, _ in found] == [
        "GetItem",
        "PutItem",
        "DeleteItem",
        "BatchGetItem",
    ]
    assert {attributes["aws.dynamodb.table_names"] for *_, attributes, _ in found} == {("tokens",)}
    assert [attributes["http.status_code"] for *_, attributes, _ in found] == [200, 400, 500, 200]
    assert {attributes["retry_attempts"] for *_, attributes, _ in found} == {0}


def test_the_header_of_opentelemetrys_span_goes_out(spans: Any, host: Host) -> None:
    """DynamoDB gets the trace, and which span asked."""
    found, requests = spans(tables.BOTO3, host)
    for (*_, context), request in zip(found, requests, strict=True):
        assert f"Parent={context.span_id:016x}" in request.headers[TRACE]
