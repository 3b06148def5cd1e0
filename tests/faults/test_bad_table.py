"""A table that is missing, closed or out of reach: a clear error that names what to do, and nothing runs."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from lambda_once import Misconfigured, Once, OnceError, RetryLater, StoreUnavailable
from lambda_once.dynamodb.client import new_client
from lambda_once.observability.reporter import Details
from tests.faults.tables import Layers
from tests.kit.strict.mounted import mounted, over_http
from tests.sources.samples import batch, http, sqs_record


def runs_nothing(layers: Layers, error: type[OnceError], words: str, **options: Any) -> None:
    """Check that work on the table is refused by *error* in *words*, never starts, and is reported."""
    reported: list[Details] = []

    @layers.once(hooks=[reported.append], **options).function
    def work(order: int) -> None:
        pytest.fail("it ran unprotected")

    with pytest.raises(error, match=words) as raised:
        work(5)
    reasons = [details.reason for details in reported if details.event == "once.misconfigured"]
    assert reasons == ([str(raised.value)] if error is Misconfigured else [])


def test_no_table_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no table is named at all that is reported at each call, before anything is connected."""
    monkeypatch.delenv("LAMBDA_ONCE_TABLE", raising=False)
    reported: list[Details] = []

    @Once(service="shop", hooks=[reported.append]).function
    def work(order: int) -> None:
        pytest.fail("it ran unprotected")

    for _ in range(2):
        with pytest.raises(Misconfigured, match="LAMBDA_ONCE_TABLE"):
            work(5)
    assert [details.event.value for details in reported] == ["once.misconfigured"] * 2


@pytest.fixture
def no_table() -> Any:
    """An account without the table."""
    with mounted():
        yield Layers(new_client())


def test_a_missing_table(no_table: Layers) -> None:
    """It is no outage: the error names table and template."""
    runs_nothing(no_table, Misconfigured, "table 'tokens' does not exist.*LAMBDA_ONCE_TABLE")


class Answers:
    """Answers every request of a client with one error, without a network."""

    def __init__(self, status: int, code: str, said: str = "as the test says") -> None:
        self.asked = 0
        self._status = status
        self._body = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": said}

    def __call__(self, request: Any, **_: Any) -> AWSResponse:
        self.asked += 1
        content = json.dumps(self._body).encode()
        raw: Any = type("Raw", (), {"stream": lambda _: iter([content])})()
        return AWSResponse(request.url, self._status, {}, raw)


def answering(status: int, code: str, *said: str) -> tuple[Layers, Answers]:
    """Layers whose client gets *code* for every request, and what DynamoDB *said*."""
    client, answers = new_client(), Answers(status, code, *said)
    client.meta.events.register_first("before-send.dynamodb", answers)
    return Layers(client), answers


@pytest.mark.parametrize(
    ("code", "what"),
    [
        ("AccessDeniedException", "permission"),
        ("UnrecognizedClientException", "credentials have expired, or"),
    ],
)
def test_no_permission(code: str, what: str) -> None:
    """It is no outage either, and it is not tried again: the error names the call, and what is missing."""
    layers, answers = answering(400, code)
    runs_nothing(layers, Misconfigured, f"UpdateItem on table 'tokens'.*{what}")
    assert answers.asked == 1


def test_a_table_of_another_kind() -> None:
    """What the table refuses as malformed is said to be the table's keys."""
    layers, _ = answering(400, "ValidationException")
    runs_nothing(layers, Misconfigured, "partition key must be lockToken")


@pytest.mark.parametrize(
    ("status", "code"), [(400, "ThrottlingException"), (500, "InternalServerError"), (503, "SomethingNew")]
)
def test_a_table_that_cannot_answer(status: int, code: str) -> None:
    """Throttling and server errors are tried again a few times, and then are an outage: deliver again."""
    layers, answers = answering(status, code)
    runs_nothing(layers, StoreUnavailable, "retry later")
    assert 6 <= answers.asked <= 12
    assert issubclass(StoreUnavailable, RetryLater)


def closed_port() -> int:
    """A port of this machine on which nothing listens."""
    with socket.socket() as placeholder:
        placeholder.bind(("127.0.0.1", 0))
        port: int = placeholder.getsockname()[1]
        return port


def unreachable() -> Layers:
    """Layers whose client finds no server."""
    import boto3

    config = Config(connect_timeout=1, read_timeout=1, retries={"total_max_attempts": 1})
    endpoint = f"http://127.0.0.1:{closed_port()}"
    return Layers(boto3.client("dynamodb", endpoint_url=endpoint, config=config))


def test_no_network() -> None:
    """No server is an outage: nothing runs."""
    runs_nothing(unreachable(), StoreUnavailable, "retry later")


def test_a_batch_without_a_table(no_table: Layers) -> None:
    """Every record fails, so the batch raises, and nothing was worked."""

    @no_table.once().sqs
    def handler(record: Any) -> None:
        pytest.fail("it ran unprotected")

    with pytest.raises(BatchProcessingError) as raised:
        handler(batch(sqs_record("x"), sqs_record("y", id_="b")), no_table.context())
    assert {kind for kind, _, _ in raised.value.child_exceptions} == {Misconfigured}


def test_a_batch_without_a_network() -> None:
    """Every record goes back: it may be delivered again."""
    layers = unreachable()

    @layers.once().sqs
    def handler(record: Any) -> None:
        pytest.fail("it ran unprotected")

    answer = handler(batch(sqs_record("x", id_="a"), sqs_record("y", id_="b")), layers.context())
    assert [each["itemIdentifier"] for each in answer["batchItemFailures"]] == ["a", "b"]


def test_a_request_without_a_network() -> None:
    """The client learns that nothing was done, and may retry."""
    layers = unreachable()

    @layers.once().api_gateway
    def handler(event: Any) -> Any:
        pytest.fail("it ran unprotected")

    answer = handler(http(), layers.context())
    assert (answer["statusCode"], answer["headers"]["Retry-After"]) == (503, "1")


def test_a_request_without_permission() -> None:
    """That is no fault of the client's: it is raised, so that the Errors metric rings."""
    layers, _ = answering(400, "AccessDeniedException")

    @layers.once().api_gateway
    def handler(event: Any) -> Any:
        pytest.fail("it ran unprotected")

    with pytest.raises(Misconfigured):
        handler(http(), layers.context())


def test_a_completion_that_is_refused_does_not_fail_the_caller() -> None:
    """A permission taken away during the work leaves the caller its result, and is logged as an error."""
    reported: list[str] = []
    with mounted():
        layers = Layers(over_http(new_client()))
        layers.client.create_table(
            TableName="tokens",
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "lockToken", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "lockToken", "KeyType": "HASH"}],
        )

        @layers.once(hooks=[lambda details: reported.append(details.event)]).function
        def work(order: int) -> str:
            answers = Answers(400, "AccessDeniedException")
            layers.client.meta.events.register_first("before-send.dynamodb", answers)
            return "done"

        assert work(5) == "done"
    assert "once.completion_failed" in reported
