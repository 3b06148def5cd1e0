from __future__ import annotations

import io
import json
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from aws_lambda_powertools.metrics import EphemeralMetrics, Metrics

from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Tally, embedded


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        *("POWERTOOLS_METRICS_NAMESPACE", "POWERTOOLS_SERVICE_NAME", "POWERTOOLS_METRICS_DISABLED"),
        *("POWERTOOLS_DEV", "AWS_LAMBDA_FUNCTION_NAME"),
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def pending() -> Iterator[Metrics]:
    """Give the user's Metrics in the midst of an invocation, and clear what it keeps on its class."""
    metrics = Metrics(namespace="Shop", service="shop")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # older Powertools warn of every default dimension
        metrics.set_default_dimensions(stage="prod")
    metrics.add_metric(name="Sold", unit="Count", value=3)
    yield metrics
    metrics.clear_default_dimensions()
    metrics.clear_metrics()


def tallied(*counts: str) -> Tally:
    """Return a tally that has counted each of *counts*."""
    tally = Tally()
    for metric in counts:
        tally.count(metric)
    return tally


def documents(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """Read all that was written to standard output since the last time."""
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def breaches(document: dict[str, Any]) -> list[str]:
    """Check *document* against the rules of CloudWatch's embedded metric format specification."""
    meta = document["_aws"]
    (directive,) = meta["CloudWatchMetrics"]
    rules = {
        "timestamp is whole milliseconds": type(meta["Timestamp"]) is int and meta["Timestamp"] > 1e12,
        "directive has its three members": set(directive) == {"Namespace", "Dimensions", "Metrics"},
        "namespace is text": isinstance(directive["Namespace"], str)
        and 1 <= len(directive["Namespace"]) <= 256,
        "dimension sets are lists of names": all(
            isinstance(names, list) and len(names) <= 30 for names in directive["Dimensions"]
        ),
        "dimensions have text values": all(
            isinstance(document.get(name), str) and document[name]
            for names in directive["Dimensions"]
            for name in names
        ),
        "metrics are 1 to 100": 1 <= len(directive["Metrics"]) <= 100,
        "metrics have name and unit": all(
            metric.keys() == {"Name", "Unit"} and metric["Unit"] == "Count" for metric in directive["Metrics"]
        ),
        "metrics have numbers": all(
            _numeric(document.get(metric["Name"])) for metric in directive["Metrics"]
        ),
    }
    return [rule for rule, kept in rules.items() if not kept]


def _numeric(value: object) -> bool:
    values = value if isinstance(value, list) else [value]
    return 1 <= len(values) <= 100 and all(type(one) in (int, float) for one in values)


def test_one_valid_document(capsys: pytest.CaptureFixture[str]) -> None:
    """A flush writes one document in CloudWatch's format with the sum of each metric."""
    Reporter("orders").flush(tallied("started", "started", "errors"))
    (document,) = documents(capsys)
    assert breaches(document) == []
    assert (document["started"], document["errors"]) == ([2.0], [1.0])
    assert document["_aws"]["CloudWatchMetrics"][0]["Dimensions"] == [["service", "function"]]
    assert (document["service"], document["function"]) == ("orders", "local")


def test_the_check_itself_finds_breaches() -> None:
    """A document without its dimension's value or with text for a number is not taken for valid."""
    directive = {"Namespace": "", "Dimensions": [["service"]], "Metrics": [{"Name": "n", "Unit": "Count"}]}
    assert breaches({"_aws": {"Timestamp": 1.5, "CloudWatchMetrics": [directive]}, "n": "1"}) == [
        "timestamp is whole milliseconds",
        "namespace is text",
        "dimensions have text values",
        "metrics have numbers",
    ]


def test_nothing_to_say(capsys: pytest.CaptureFixture[str]) -> None:
    """A flush of nothing writes nothing, and nothing is said twice."""
    reporter, tally = Reporter("orders"), tallied("started")
    reporter.flush(tally)
    assert len(documents(capsys)) == 1
    reporter.flush(tally)
    reporter.flush(Tally())
    assert documents(capsys) == []


def test_reports_are_counted_until_flushed(capsys: pytest.CaptureFixture[str]) -> None:
    """Events with a metric are in the document of the next flush, those without are not."""
    reporter, tally = Reporter("orders"), Tally()
    for event in (Event.ACQUIRED, Event.RETURNED, Event.COMPLETED):
        reporter.report(Details(event), tally)
    capsys.readouterr()
    reporter.flush(tally)
    (document,) = documents(capsys)
    names = {metric["Name"] for metric in document["_aws"]["CloudWatchMetrics"][0]["Metrics"]}
    assert names == {"started", "completed"}


@pytest.mark.parametrize(
    ("metrics", "variable", "expected"),
    [
        (EphemeralMetrics(namespace="Shop"), "Env", "Shop"),
        (None, "Env", "Env"),
        (None, None, "LambdaOnce"),
        (EphemeralMetrics(), None, "LambdaOnce"),
    ],
    ids=["given", "environment", "own", "given without one"],
)
def test_namespace(
    metrics: EphemeralMetrics | None,
    variable: str | None,
    expected: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The namespace is the user's, else the environment's, else LambdaOnce."""
    if variable is not None:
        monkeypatch.setenv("POWERTOOLS_METRICS_NAMESPACE", variable)
    Reporter("orders", metrics=metrics).flush(tallied("started"))
    assert documents(capsys)[0]["_aws"]["CloudWatchMetrics"][0]["Namespace"] == expected


def test_dimensions_of_the_environment(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Service and function come from Lambda's environment where no service was given."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "billing")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "charge")
    Reporter().flush(tallied("started"))
    assert documents(capsys)[0].items() >= {"service": "billing", "function": "charge"}.items()


def test_the_users_metrics_stay_pending(pending: Metrics, capsys: pytest.CaptureFixture[str]) -> None:
    """Our flush neither writes, clears nor relabels what the user's Metrics has collected."""
    Reporter("orders", metrics=pending).flush(tallied("started"))
    (ours,) = documents(capsys)
    assert breaches(ours) == []
    assert not {"Sold", "stage"} & ours.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # as above
        pending.flush_metrics()
    (theirs,) = documents(capsys)
    assert theirs["Sold"] == [3.0]
    assert theirs.items() >= {"stage": "prod", "service": "shop"}.items()
    assert not {"started", "function"} & theirs.keys()


def test_two_reporters_in_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    """Two services share nothing: not their names, not their counts."""
    first, second = Reporter("orders"), Reporter("billing", metrics=EphemeralMetrics(namespace="Bills"))
    tally, other = tallied("started"), tallied("replayed")
    first.flush(tally)
    second.flush(other)
    orders, billing = documents(capsys)
    assert (orders["service"], "replayed" in orders) == ("orders", False)
    assert (billing["service"], "started" in billing) == ("billing", False)


@pytest.mark.parametrize("setting", ["POWERTOOLS_METRICS_DISABLED", "POWERTOOLS_DEV"])
def test_disabled(setting: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Powertools' metrics are disabled, ours are, and their counts are not kept for later."""
    reporter, tally = Reporter("orders"), tallied("started")
    monkeypatch.setenv(setting, "true")
    reporter.flush(tally)
    monkeypatch.delenv(setting)
    reporter.flush(tally)
    assert documents(capsys) == []


def test_a_document_is_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line break is written with the line, so that no other thread's output comes between."""
    written: list[str] = []

    class Output(io.StringIO):
        def write(self, text: str, /) -> int:
            written.append(text)
            return len(text)

    monkeypatch.setattr(sys, "stdout", Output())
    Reporter("orders").flush(tallied("started"))
    assert len(written) == 1
    assert written[0].endswith("}\n")


def test_metrics_that_cannot_be_written(capsys: pytest.CaptureFixture[str]) -> None:
    """A Metrics that raises breaks nothing; it is logged once."""

    class Broken:
        @property
        def namespace(self) -> str:
            message = "private"
            raise LookupError(message)

    reporter = Reporter("heard-of-nowhere-else", metrics=Broken())
    reporter.flush(tallied("started"))
    reporter.flush(tallied("started"))
    (line,) = documents(capsys)
    assert (line["message"], line["once_name"], line["error"]) == (
        "once.report_failed",
        "metrics",
        "LookupError",
    )
    assert "private" not in json.dumps(line)


def test_the_document_is_what_powertools_would_write() -> None:
    """The document made here and that of an EphemeralMetrics differ in nothing but the time."""
    theirs = EphemeralMetrics(namespace="Orders", service="orders")
    theirs.set_default_dimensions(service="orders", function="pay")
    for name, count in (("started", 2), ("completed", 1)):
        theirs.add_metric(name=name, unit="Count", value=count)
    expected: Any = theirs.serialize_metric_set()
    now = expected["_aws"]["Timestamp"]
    written = embedded({"started": 2, "completed": 1}, "Orders", "orders", "pay", now)
    assert json.loads(written) == expected
    assert list(json.loads(written)) == list(expected)


def test_a_document_has_what_was_set_at_the_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reporter reads the environment once. What is kept of one's documents is not used for another's."""
    metrics = EphemeralMetrics(namespace="Shop")
    one, other = Reporter(metrics=metrics), Reporter(metrics=metrics)

    def written(reporter: Reporter, *counts: str) -> tuple[object, ...]:
        reporter.flush(tallied(*counts))
        (document,) = documents(capsys)
        assert breaches(document) == []
        (directive,) = document["_aws"]["CloudWatchMetrics"]
        names = [metric["Name"] for metric in directive["Metrics"]]
        return (
            directive["Namespace"],
            document["service"],
            document["function"],
            [document[name] for name in names],
        )

    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "pay")
    assert written(one, "started") == ("Shop", "orders", "pay", [[1.0]])
    assert written(one, "started", "started") == ("Shop", "orders", "pay", [[2.0]])
    metrics.namespace = 'Shop "2"'
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "ship")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "bücher")
    assert written(one, "started", "errors") == ("Shop", "orders", "pay", [[1.0], [1.0]])
    assert written(other, "errors", "started") == ('Shop "2"', "bücher", "ship", [[1.0], [1.0]])
