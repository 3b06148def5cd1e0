"""The alarms: they name what the code emits, tell somebody, and leave out nothing that must page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import boto3
import pytest

from benchmarks.units import WATCHDOG_METRICS
from examples.orders import announcements, api, fulfilment, invoices, notifications, payments, prices
from examples.orders.effects import EFFECTS
from lambda_once.observability.events import Event
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context

from .conftest import StoppedClock, Template
from .emitted import Emitted, as_function, everything, read, send
from .named import ALARM, Named, by_alarms, by_dashboard, expression, of_type, resolved, target

Run = Callable[[DynamoDBStore], object]

WATCHDOG = "WatchdogFunction"
PROTECTED: dict[str, Run] = {
    "OrdersApiFunction": lambda _: send(api.handler, "http-api-order", lambda_context()),
    "PaymentsFunction": lambda _: send(payments.charge, "sqs-payment", lambda_context()),
    "FulfilmentFunction": lambda _: send(fulfilment.ship, "sqs-order", lambda_context()),
    "NotificationsFunction": lambda _: send(notifications.notify, "sns-notice", lambda_context()),
    "InvoicesFunction": lambda _: send(invoices.issue, "eventbridge-order-paid", lambda_context()),
    "ContractsAnnouncer": lambda _: send(announcements.announce, "stream-contracts", lambda_context()),
    "PricesFunction": lambda _: send(prices.publish, "scheduler-prices", lambda_context()),
}
SPACE = "MetricsNamespace"
"""The parameter; its name is used for its value in these tests."""

DEAD_LETTERS = {"PaymentsDeadLetters", "FulfilmentDeadLetters", "FailedEvents"}

AWS = {
    "AWS/SQS": ({"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage"}, [{"QueueName"}]),
    "AWS/Lambda": ({"Errors", "Throttles", "IteratorAge"}, [{"FunctionName"}]),
    "AWS/ApiGateway": ({"4xx", "5xx", "count"}, [{"ApiId"}, {"ApiId", "Stage"}]),
    "AWS/DynamoDB": (
        {
            "ConsumedReadCapacityUnits",
            "ConsumedWriteCapacityUnits",
            "ReadThrottleEvents",
            "WriteThrottleEvents",
            "SuccessfulRequestLatency",
        },
        [{"TableName"}, {"TableName", "GlobalSecondaryIndexName"}, {"TableName", "Operation"}],
    ),
}
"""
What AWS emits: metrics, and the sets of dimensions under which they stand.

Developer guides of Amazon SQS ("Available CloudWatch metrics"), Lambda ("Types of metrics for Lambda
functions"), API Gateway ("Working with metrics for HTTP APIs") and DynamoDB ("DynamoDB metrics and
dimensions").
"""


@pytest.fixture
def _shop(token_table: DynamoDBStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The handlers work on a table as the template has it; there are no products."""
    EFFECTS.clear()
    monkeypatch.setattr(prices, "_products", lambda _: [])
    monkeypatch.setenv("PRICES_TOPIC", "arn:aws:sns:eu-central-1:123456789012:orders-prices.fifo")
    with ExitStack() as handlers:
        handlers.callback(prices.prices.cache_clear)
        for module in (announcements, api, fulfilment, invoices, notifications, payments, prices):
            handlers.enter_context(module.once._using(token_table, None))
        yield


@pytest.fixture
def _run_of_all(
    template: Template,
    token_table: DynamoDBStore,
    _shop: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> set[Emitted]:
    """Every metric that the functions of the stack emit, by running each of them."""
    found: set[Emitted] = set()
    for name, run in PROTECTED.items():
        as_function(monkeypatch, template, name)
        capsys.readouterr()
        run(token_table)
        of_run = read(capsys.readouterr().out)
        assert {each.metric for each in of_run} == {"started", "completed"}, name
        found |= everything(of_run, capsys)
    as_function(monkeypatch, template, WATCHDOG)
    client: Any = boto3.client("dynamodb")
    watchdog("tokens", client, StoppedClock(), sweep=False)({}, lambda_context())
    return found | read(capsys.readouterr().out)


_kept: set[Emitted] = set()


@pytest.fixture
def emitted(request: pytest.FixtureRequest) -> set[Emitted]:
    """Return the metrics of one run, which all tests here compare."""
    if not _kept:
        _kept.update(request.getfixturevalue("_run_of_all"))
    return set(_kept)


def strangers(named: list[Named], emitted: set[Emitted]) -> set[str]:
    """Return where something is named that is not emitted under that namespace and those dimensions."""
    return {each.where for each in named if not _is_emitted(each, emitted)}


def _is_emitted(named: Named, emitted: set[Emitted]) -> bool:
    if named.space in AWS:
        metrics, dimensions = AWS[named.space]
        return named.metric in metrics and named.dimensions in dimensions
    return any(
        (each.space, each.metric) == (named.space, named.metric)
        and {name for name, _ in each.dimensions} == named.dimensions
        and set(named.fixed.items()) <= set(each.dimensions)
        for each in emitted
    )


def test_alarms_name_what_the_code_emits(translated: Template, emitted: set[Emitted]) -> None:
    """Each metric of each alarm is one that runs of the functions wrote, under the same dimensions."""
    assert strangers(by_alarms(translated), emitted) == set()


def test_the_dashboard_names_what_the_code_emits(translated: Template, emitted: set[Emitted]) -> None:
    """The same of each line of the dashboard."""
    named = by_dashboard(translated)
    assert len(named) > 20
    assert strangers(named, emitted) == set()


@pytest.mark.parametrize(
    ("written", "instead", "where"),
    [
        ('"MetricName": "missingTasks"', '"MetricName": "tasksMissing"', {"MissingTasks"}),
        ('"MetricName": "streamLagSeconds"', '"MetricName": "lag"', {"WatchdogSilent", "WatchdogLagging"}),
        ('SUM(\\"fenced\\")', 'SUM(\\"fencedOff\\")', {"Fenced"}),
        ('SUM(\\"full\\")', 'SUM(\\"filled\\")', {"LedgerFull"}),
        ('\\"service\\", \\"function\\")', '\\"service\\")', {"Fenced", "MessagesUnsent"}),
        ('SCHEMA(\\"${MetricsNamespace}', 'SCHEMA(\\"Orders', {"Fenced", "Misconfigured"}),
        ('"Name": "function"', '"Name": "function_name"', {"MissingTasks", "OldestOverdue"}),
        ('"Namespace": {"Ref": "MetricsNamespace"}', '"Namespace": "Orders"', {"HeldTokens"}),
        ('"MetricName": "5xx"', '"MetricName": "5XXError"', {"ApiFailing"}),
        (f'{{"Ref": "{WATCHDOG}"}}', '{"Ref": "PaymentsFunction"}', {"MissingTasks", "HeldTokens"}),
        ('"QueueName", "Value"', '"Queue", "Value"', {"FailedEventsFilled"}),
        ('MetricName=\\\\\\"replayed\\\\\\"', 'MetricName=\\\\\\"again\\\\\\"', {"Duplicates and refusals"}),
        ("{AWS/SQS,QueueName}", "{AWS/SQS,Queue}", {"Dead letters and failed events"}),
    ],
)
def test_a_metric_of_another_name_is_seen(
    translated: Template, emitted: set[Emitted], written: str, instead: str, where: set[str]
) -> None:
    """With a name changed in the template, the places that name it are found: the tests above can fail."""
    text = json.dumps(translated)
    assert written in text
    changed = json.loads(text.replace(written, instead))
    assert strangers(by_alarms(changed) + by_dashboard(changed), emitted) >= where


def test_a_metric_renamed_in_the_code_is_seen(translated: Template, emitted: set[Emitted]) -> None:
    """The same the other way round: what the code calls by another name is missed."""
    renamed = {each._replace(metric="fencedOff") if each.metric == "fenced" else each for each in emitted}
    assert strangers(by_alarms(translated), renamed) == {"Fenced"}


def test_all_that_must_page_is_alarmed_on(translated: Template) -> None:
    """What is overdue, held, released, failing, fenced, unwritten or out of reach has its alarm."""
    assert {named.metric for named in by_alarms(translated) if named.space == SPACE} == {
        *WATCHDOG_METRICS,
        *("errors", "held", "takenOver", "fenced", "completionFailed", "storeUnavailable", "misconfigured"),
        *(
            "disabled",
            "resultUnavailable",
            "probeFailed",
            "policyFailed",
            "badRecord",
            "givenUp",
            "keyReused",
        ),
        *("conflict", "full", "tooFarAhead", "fellBack", "unsent"),
    }


def test_every_metric_of_the_code_is_on_the_dashboard(translated: Template) -> None:
    """Nothing that is counted is shown nowhere."""
    shown = {named.metric for named in by_dashboard(translated) if named.space == SPACE}
    counted = {event.metric for event in Event if event.metric is not None}
    assert shown == counted | set(WATCHDOG_METRICS)


def test_every_dead_letter_queue_is_alarmed_on(translated: Template) -> None:
    """Each queue that takes what others gave up, and each failure destination, rings when it is not empty."""
    redrives = [queue.get("RedrivePolicy") for queue in of_type(translated, "AWS::SQS::Queue").values()]
    taking = {target(redrive["deadLetterTargetArn"]) for redrive in redrives if redrive is not None}
    for config in of_type(translated, "AWS::Lambda::EventInvokeConfig").values():
        if config.get("DestinationConfig"):  # the watchdog has none: WatchdogFailing rings for it
            taking.add(target(config["DestinationConfig"]["OnFailure"]["Destination"]))
    assert taking >= DEAD_LETTERS
    filled = [each for each in by_alarms(translated) if each.metric == "ApproximateNumberOfMessagesVisible"]
    assert {named.fixed["QueueName"] for named in filled} == taking


def test_a_silent_watchdog_rings(translated: Template) -> None:
    """Where no run reports, the missing data is itself the alarm, after at least two runs."""
    silent = of_type(translated, ALARM)["WatchdogSilent"]
    assert silent["TreatMissingData"] == "breaching"
    assert (silent["Statistic"], silent["ComparisonOperator"], silent["Threshold"]) == (
        "SampleCount",
        "LessThanThreshold",
        1,
    )
    assert silent["Period"] * silent["EvaluationPeriods"] >= 600
    assert "DatapointsToAlarm" not in silent, "of all periods: one run is enough to be silent again"


def test_what_passes_by_itself_rings_the_second_time(translated: Template) -> None:
    """One throttled request in five minutes raises no alarm; a table that stays out of reach does."""
    for name in ("StoreUnavailable", "ApiFailing", "WatchdogFailing"):
        alarm = of_type(translated, ALARM)[name]
        assert (alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (2, 3), name


def test_no_other_alarm_rings_for_want_of_data(translated: Template) -> None:
    """Most metrics are written only when there is something to count; the watchdog's in every run."""
    alarms = of_type(translated, ALARM)
    wanting = {name for name, alarm in alarms.items() if alarm["TreatMissingData"] == "breaching"}
    assert wanting == {"WatchdogSilent"}
    assert {alarm["TreatMissingData"] for alarm in alarms.values()} == {"ignore", "notBreaching", "breaching"}


def test_functions_that_nobody_waits_for_are_alarmed_on(translated: Template) -> None:
    """Those that queues, streams and services invoke; by the age of what waits, too."""
    mappings = of_type(translated, "AWS::Lambda::EventSourceMapping").values()
    sources = {
        target(mapping["FunctionName"]): mapping["EventSourceArn"]["Fn::GetAtt"] for mapping in mappings
    }
    configs = of_type(translated, "AWS::Lambda::EventInvokeConfig").values()
    asynchronous = {target(each["FunctionName"]) for each in configs if "DestinationConfig" in each}
    found: dict[str, set[str]] = {}
    for named in by_alarms(translated):
        found.setdefault(named.metric, set()).update(named.fixed.values())
    assert found["Throttles"] == found["Errors"] - {WATCHDOG} == sources.keys() | asynchronous
    assert found["IteratorAge"] == {name for name, (_, kind) in sources.items() if kind == "StreamArn"}
    queues = {queue for queue, kind in sources.values() if kind == "Arn"}
    assert found["ApproximateAgeOfOldestMessage"] == queues


def test_alarms_stay_within_cloudwatchs_limits(translated: Template) -> None:
    """At most ten metrics, at most one query and no search (PutMetricAlarm, GetMetricData)."""
    for name, alarm in of_type(translated, ALARM).items():
        expressions = [expression(query) for query in alarm.get("Metrics", []) if "Expression" in query]
        assert not [each for each in expressions if "SEARCH" in each], name
        assert len([each for each in expressions if each.startswith("SELECT")]) <= 1, name
        assert len(alarm.get("Metrics", [])) - len(expressions) <= 10, name
        returned = [query for query in alarm.get("Metrics", []) if query.get("ReturnData", True)]
        assert len(returned) == ("Metrics" in alarm), name


def test_cloudwatchs_api_takes_every_alarm(translated: Template, aws: boto3.Session) -> None:
    """With the default parameters each is a sound request of PutMetricAlarm."""
    cloudwatch: Any = aws.client("cloudwatch")
    alarms = of_type(translated, ALARM)
    for name, alarm in alarms.items():
        cloudwatch.put_metric_alarm(AlarmName=name, **_with_arns(resolved(alarm, translated)))
    stored = cloudwatch.describe_alarms()["MetricAlarms"]
    assert {alarm["AlarmName"] for alarm in stored} == alarms.keys()


def _with_arns(alarm: dict[str, Any]) -> dict[str, Any]:
    arn = "arn:aws:sns:eu-central-1:123456789012:"
    return alarm | {kind: [arn + name for name in alarm[kind]] for kind in ("AlarmActions", "OKActions")}
