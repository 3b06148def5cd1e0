"""The whole run on dynoxide, AWS played around it: each assertion holds, and fails where AWS differs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from lambda_once.core.clock import SystemClock
from tests.aws import __main__ as script
from tests.aws import of_functions, play
from tests.aws.account import Answer
from tests.aws.play import Run, Verdict
from tests.aws.played import TOKENS, PlayedCloud
from tests.aws.stacks import PROBES, SAMPLE, template
from tests.kit import dynoxide

pytestmark = [pytest.mark.engine, pytest.mark.usefixtures("partiql")]
SETTINGS = {"Runtime": "python3.14", "Architecture": "arm64"}


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """An engine whose tables are made anew for each test."""
    with dynoxide.running() as endpoint:
        yield endpoint


@pytest.fixture
def cloud(engine: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedCloud]:
    """An account without anything in it."""
    monkeypatch.setattr(of_functions, "LISTED_AFTER", timedelta(0))
    cloud = PlayedCloud(engine, monkeypatch)
    yield cloud
    cloud.close()


def played(cloud: PlayedCloud, name: str) -> play.Answer:
    """Play one assertion, outside of a run."""
    (assertion,) = (each for each in script.ASSERTIONS if each.__name__ == name)
    outputs = {
        key: cloud.outputs.get(key, key) for path in (SAMPLE, PROBES) for key in template(path)["Outputs"]
    }
    answer = assertion(
        Run(cloud.aws, outputs | {"Watchdog": "Watchdog", "Namespace": "N"}, cloud.post, cloud.clock.now())
    )
    return answer() if callable(answer) else answer


@pytest.mark.timed  # a lease of two seconds ends
def test_every_assertion_holds_where_aws_does_as_expected(cloud: PlayedCloud, tmp_path: Path) -> None:
    """The run reports them all, with their figures, and leaves nothing."""
    folder = tmp_path / "build" / "aws"
    code = script.conducted(
        cloud.aws, cloud.post, SETTINGS, script.ASSERTIONS, lambda: {"layer.zip": b""}, folder
    )
    (path,) = folder.iterdir()
    report = path.read_text(encoding="utf-8")
    assert code == 0, report
    assert cloud.ours == {}
    assert "33 assertions: 28 holds, 5 seen." in report


def test_messages_that_lambda_hands_out_together_are_no_failure(
    cloud: PlayedCloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that wait in the queue come as one batch, share an outcome, and nothing is replayed."""
    waiting: list[Answer] = []
    arrived, filtered = cloud.arrived, cloud.logs_filter_log_events

    def later(**arguments: Any) -> Answer:
        if waiting:
            arrived("PaymentsQueueUrl", waiting[:])
            waiting.clear()
        return filtered(**arguments)

    monkeypatch.setattr(cloud, "arrived", lambda _, bodies: waiting.extend(bodies))
    monkeypatch.setattr(cloud, "logs_filter_log_events", later)
    assert played(cloud, "message_sent_twice").verdict is Verdict.HOLDS


@pytest.mark.timed
def test_metrics_may_take_a_quarter_of_an_hour(cloud: PlayedCloud, monkeypatch: pytest.MonkeyPatch) -> None:
    """ListMetrics knows a new one after 15 minutes at the latest."""
    listed, known = cloud.cloudwatch_list_metrics, cloud.clock.now() + timedelta(minutes=14)
    monkeypatch.setattr(
        cloud,
        "cloudwatch_list_metrics",
        lambda **more: listed(**more) if cloud.clock.now() > known else {"Metrics": []},
    )
    for name in ("replay", "crash_is_found"):
        played(cloud, name)
    assert played(cloud, "metrics").verdict is Verdict.HOLDS


# ------------------------------------------------------------------ what would be otherwise

Otherwise = Callable[[PlayedCloud, pytest.MonkeyPatch], None]


def disabled(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """Nothing protects."""
    patch.setenv("LAMBDA_ONCE_DISABLED", "true")


def one_tenant(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """Lambda tells no tenant."""
    invoked = cloud.invoked
    patch.setattr(
        cloud, "invoked", lambda function, event, request_id, _=None: invoked(function, event, request_id)
    )


def blind_watchdog(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """The watchdog finds nothing."""
    patch.setattr(cloud, "watch", lambda *_: {})


def killed_later(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """A function goes on for three seconds."""
    now = SystemClock().now().timestamp()
    patch.setattr(cloud, "ends_at", lambda: now - 3)


def another_request_id(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """Retries have an id of their own."""
    asynchronously = cloud.asynchronously
    patch.setattr(cloud, "asynchronously", lambda event, _: asynchronously(event, "another"))


def retried_under_another_id(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """The record has the first request's id, and the attempts have others."""
    invoked = cloud.invoked
    patch.setattr(cloud, "invoked", lambda function, event, _: invoked(function, event, "another"))


def no_partial_failures(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """What the function reports is not read."""
    delivered = cloud.delivered
    patch.setattr(cloud, "delivered", lambda queue, event: delivered(queue, event) and set())


def each_delivery_from_another_queue(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """A redriven message comes from another queue."""
    arrived = cloud.arrived
    names = iter(range(100))
    patch.setattr(
        cloud,
        "arrived",
        lambda queue, bodies: arrived(queue if queue in cloud.queues else f"q{next(names)}", bodies),
    )


def all_from_one_queue(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """Lambda tells no queue."""
    arrived = cloud.arrived
    patch.setattr(cloud, "arrived", lambda _, bodies: arrived("Queue", bodies))


def all_is_allowed(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """IAM has no conditions."""
    patch.setattr(cloud, "limited", nullcontext)


def no_metrics(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """CloudWatch has none."""
    patch.setattr(cloud, "cloudwatch_list_metrics", lambda **_: {"Metrics": []})


def all_statements_are_taken(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """PartiQL refuses nothing."""

    def taken(params: Any, model: Any, **_: Any) -> Any:
        return cloud.http(params), {"Responses": [{} for _ in range(25)][: cloud.statements(params)]}

    cloud.client("dynamodb").meta.events.register("before-call.dynamodb.BatchExecuteStatement", taken)


def no_item_with_a_refusal(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """A refusal brings no item."""

    def stripped(parsed: Answer, **_: Any) -> None:
        parsed.pop("Item", None)
        for reason in parsed.get("CancellationReasons", []):
            reason.pop("Item", None)

    cloud.client("dynamodb").meta.events.register("after-call.dynamodb", stripped)


def twice_the_units(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """All costs twice."""
    fresh = cloud.aws.fresh

    def dearer(parsed: Answer, **_: Any) -> None:
        consumed = parsed.get("ConsumedCapacity", [])
        for each in [consumed] if isinstance(consumed, dict) else consumed:
            each["CapacityUnits"] *= 2

    def with_dearer(service: str) -> Any:
        client = fresh(service)
        client.meta.events.register_first("after-call.dynamodb", dearer)
        return client

    cloud.aws = cloud.aws._replace(fresh=with_dearer)


def records_come_twice(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """A page has each record twice."""
    fresh = cloud.aws.fresh

    def with_doubles(service: str) -> Any:
        client = fresh(service)
        client.meta.events.register(
            "after-call.dynamodb-streams.GetRecords",
            lambda parsed, **_: parsed["Records"].extend(parsed["Records"]),
        )
        return client

    cloud.aws = cloud.aws._replace(fresh=with_doubles)


def no_ttl(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """TTL is off."""
    off = {"AttributeName": "ttl", "Enabled": False}
    cloud.client("dynamodb").update_time_to_live(TableName=TOKENS, TimeToLiveSpecification=off)


class Ahead(SystemClock):
    def now(self) -> datetime:
        return super().now() + timedelta(seconds=5)


def functions_are_ahead(cloud: PlayedCloud, patch: pytest.MonkeyPatch) -> None:
    """Their clock is five seconds ahead."""
    patch.setattr(cloud.probe, "clock", Ahead())


@pytest.mark.parametrize(
    ("name", "otherwise"),
    [
        ("replay", disabled),
        ("race", disabled),
        ("large_result", disabled),
        ("message_sent_twice", disabled),
        ("notice_published_twice", disabled),
        ("request_sent_twice", disabled),
        ("units_of_a_batch", disabled),
        ("tenants", one_tenant),
        ("crash_is_found", blind_watchdog),
        ("killed_late", killed_later),
        ("asynchronous_failure", another_request_id),
        ("asynchronous_failure", retried_under_another_id),
        ("partial_batch", no_partial_failures),
        ("redrive", each_delivery_from_another_queue),
        ("moved_queue", all_from_one_queue),
        ("permissions", all_is_allowed),
        ("metrics", no_metrics),
        ("insert_of_a_taken_key", all_statements_are_taken),
        ("refused_update_in_a_batch", all_statements_are_taken),
        ("update_of_a_missing_row", all_statements_are_taken),
        ("same_item_twice", all_statements_are_taken),
        ("most_statements", all_statements_are_taken),
        ("refused_update_returns_the_row", no_item_with_a_refusal),
        ("transactions", no_item_with_a_refusal),
        ("units_by_stream", twice_the_units),
        ("units_at_once", twice_the_units),
        ("stream_under_two_readers", records_come_twice),
        ("ttl_is_on", no_ttl),
        ("clocks", functions_are_ahead),
    ],
)
def test_it_fails_where_aws_does_otherwise(
    cloud: PlayedCloud, monkeypatch: pytest.MonkeyPatch, name: str, otherwise: Otherwise
) -> None:
    """Its own cause, and no other one, is what an assertion is there for."""
    otherwise(cloud, monkeypatch)
    assert played(cloud, name).verdict is Verdict.FAILS


def test_each_that_is_judged_has_its_twin() -> None:
    """Those without one only notice."""
    (mark,) = test_it_fails_where_aws_does_otherwise.pytestmark  # type: ignore[attr-defined]
    twins = {name for name, _ in mark.args[1]}
    assert {each.__name__ for each in script.ASSERTIONS} - twins == {
        "versions",
        "cold_starts",
        "warm",
        "nagle",
        "ttl",
    }
