"""Settings from which no client can be made are `Misconfigured`, logged and counted as a missing table is."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from lambda_once import Misconfigured, Once
from lambda_once.observability.reporter import Details
from lambda_once.patterns.unique import Unique
from lambda_once.testing import create_table, lambda_context, sqs_event
from tests.kit import tables
from tests.kit.strict.mounted import mounted

WRONG: dict[str, tuple[dict[str, str], str]] = {
    "an unknown word": ({"LAMBDA_ONCE_CLIENT": "ctr"}, "LAMBDA_ONCE_CLIENT=ctr is unknown: use crt, or"),
    "crt without awscrt": (
        {"LAMBDA_ONCE_CLIENT": "crt"},
        "client=crt needs awscrt: pip install 'lambda-once",
    ),
    "an endpoint": (
        {"AWS_ENDPOINT_URL_DYNAMODB": "the:secret endpoint"},
        "AWS_ENDPOINT_URL_DYNAMODB is no URL of an endpoint: give one such as",
    ),
    "an endpoint for all": ({"AWS_ENDPOINT_URL": "the:secret endpoint"}, "AWS_ENDPOINT_URL is no URL"),
}
settings = pytest.mark.parametrize(("environ", "message"), WRONG.values(), ids=WRONG)


@pytest.fixture
def wrong(monkeypatch: pytest.MonkeyPatch, environ: dict[str, str]) -> None:
    """Set the variables; for crt's client awscrt is not installed."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    monkeypatch.delitem(sys.modules, "lambda_once.dynamodb.crt", raising=False)
    monkeypatch.setattr("lambda_once.dynamodb.client.of_modules", lambda _: None)  # moto would decline crt's
    if environ.get("LAMBDA_ONCE_CLIENT") == "crt":
        for name in ("awscrt", "awscrt.auth"):
            monkeypatch.setitem(sys.modules, name, None)


def counted(written: str) -> dict[str, float]:
    """Return the sums of the metrics in *written*."""
    sums: dict[str, float] = {}
    for line in written.splitlines():
        document = json.loads(line)
        for each in document.get("_aws", {}).get("CloudWatchMetrics", [{}])[0].get("Metrics", []):
            sums[each["Name"]] = sums.get(each["Name"], 0) + document[each["Name"]][0]
    return sums


@settings
@pytest.mark.usefixtures("wrong")
def test_it_is_logged_and_counted(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing runs, and the error names what to correct."""
    seen, runs = list[Details](), list[object]()
    once = Once(table="tokens", service="s", hooks=[seen.append])

    @once.event(key="id")
    def handler(event: Any) -> None:
        runs.append(event)

    with pytest.raises(Misconfigured) as caught:
        handler({"id": 1}, lambda_context())
    assert str(caught.value).startswith(message)
    assert "secret" not in str(caught.value)
    assert runs == []
    assert [details.event.value for details in seen] == ["once.misconfigured"]
    assert str(seen[0].reason).startswith(message)
    written = capsys.readouterr().out
    assert counted(written)["misconfigured"] == 1
    assert "secret" not in written


@settings
@pytest.mark.usefixtures("wrong")
def test_a_batch_logs_it_for_its_records(message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """They are handed back."""
    seen = list[Details]()
    once = Once(table="tokens", service="s", hooks=[seen.append])
    handler: Any = once.sqs(key="id", raise_on_entire_batch_failure=False, name="n")(print)
    failed = handler(sqs_event({"id": 1}, {"id": 2}), lambda_context())["batchItemFailures"]
    assert len(failed) == 2
    (details, *_) = [details for details in seen if details.event.value == "once.misconfigured"]
    assert str(details.reason).startswith(message)
    assert counted(capsys.readouterr().out)["misconfigured"] >= 1


@settings
@pytest.mark.usefixtures("wrong")
def test_patterns_raise_it(message: str, environ: dict[str, str]) -> None:
    """They make their client in the same way, boto3's unless the word is set."""
    del environ
    with pytest.raises(Misconfigured) as caught:
        Unique("items").put({"pk": "a", "sk": "b"})
    assert str(caught.value).startswith(message)


def test_an_endpoint_that_is_one_works(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same way, with settings that are right."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", "https://dynamodb.eu-central-1.amazonaws.com")
    monkeypatch.setenv("LAMBDA_ONCE_CLIENT", "")
    with mounted():
        create_table(tables.shared(), "tokens")
        handler: Any = Once(table="tokens", service="s").event(key="id", name="n")(lambda event: event["id"])
        assert handler({"id": 1}, lambda_context()) == 1
