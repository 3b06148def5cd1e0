"""LAMBDA_ONCE_DISABLED: everything runs, nothing is stored."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.kinesis_stream_event import KinesisStreamRecord
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

from lambda_once import Once
from lambda_once.testing import kinesis_event
from tests.decorators.http_doors import handled, handled_async, routed, routed_async
from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import batch, http, sqs_record

Face = Callable[..., Callable[[Any], Any]]


@pytest.fixture(autouse=True)
def _disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")


def test_everything_runs_and_nothing_is_stored(rig: Rig) -> None:
    """Duplicates, twins and records without a key run; the table stays empty."""
    seen: list[str] = []

    @rig.once.sqs(key="id")
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)

    event = batch(sqs_record({"id": 1}, id_="a"), sqs_record({"id": 1}, id_="b"), sqs_record({}, id_="c"))
    for _ in range(2):
        assert handler(event, rig.context()) == {"batchItemFailures": []}
    assert seen == ["a", "b", "c"] * 2
    assert rig.rows() == []


@in_memory
def test_failures_are_still_failures(rig: Rig) -> None:
    """A record that raises goes back to the queue."""

    @rig.once.sqs(raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        raise ValueError

    answer = handler(batch(sqs_record("x", id_="a")), rig.context())
    assert answer == {"batchItemFailures": [{"itemIdentifier": "a"}]}


def test_the_attempt_still_answers(rig: Rig) -> None:
    """current() gives keys for the next system that tell orders apart; transact writes the user's items."""
    keys: list[str] = []

    @rig.once.function
    def work(order: int) -> Any:
        attempt = rig.once.current()
        keys.append(attempt.downstream_key("charge"))
        attempt.extend(100)
        return attempt.transact([rig.ground.booking], {"order": order})

    assert work(5) == {"order": 5}
    work(5)
    work(6)
    assert keys[0] == keys[1] != keys[2]
    assert rig.ground.bookings == 3
    assert rig.rows() == []


@in_memory
def test_work_without_a_key_has_a_key_of_its_own(rig: Rig) -> None:
    """Where no key can be had, no two pieces of work share one for the next system."""
    keys: list[str] = []

    @rig.once.event(key="missing")
    def handler(event: Any) -> None:
        keys.append(rig.once.current().downstream_key("charge"))

    handler({"order": 5}, rig.context())
    handler({"order": 6}, rig.context())
    assert keys[0] != keys[1]


@in_memory
@pytest.mark.parametrize(
    ("options", "headers"),
    [
        ({"caller": "cookies.session"}, {}),
        ({"unscoped": "refuse"}, {}),
        ({"without_key": "reject"}, {}),
        ({}, {"idempotency-key": "5" * 256}),
        ({}, {"authorization": "Bearer a, Bearer b"}),
    ],
    ids=["no caller", "nobody", "no key", "a bad key", "two credentials"],
)
@pytest.mark.parametrize("face", [handled, handled_async, routed, routed_async])
def test_no_request_is_refused(rig: Rig, face: Face, options: Any, headers: dict[str, str]) -> None:
    """Whatever its protection would have asked for, its handler runs."""
    ran: list[int] = []
    ask = face(rig, options, ran)
    for _ in range(2):
        assert ask(http(headers=headers))["statusCode"] == 200
    assert ran == [1, 1]


@in_memory
def test_records_that_nothing_tells_apart_run(rig: Rig) -> None:
    """Two of one eventID, of which protection would have to take one for the other."""
    seen: list[str] = []

    @rig.once.kinesis
    def handler(record: KinesisStreamRecord) -> None:
        seen.append(record.kinesis.partition_key)

    event = kinesis_event({"page": "/"}, {"page": "/help"})
    for name in ("eventID", "eventSourceARN"):
        event["Records"][1][name] = event["Records"][0][name]
    handler(event, rig.context())
    assert len(seen) == 2


@in_memory
def test_it_is_told(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """A warning once an environment, and a metric for every call."""
    work = rig.once.function(len)
    work([])
    work([])
    output = capsys.readouterr().out
    assert output.count('"message":"once.disabled"') == 1
    assert output.replace(" ", "").count('"disabled":[1.0]') == 2


def test_no_table_is_needed() -> None:
    """Nothing is looked up: neither a table nor credentials."""
    assert Once().run("len", "k", len, [1]) == 1


@in_memory
@pytest.mark.parametrize("value", ["false", "0", "", "no"])
def test_other_values_do_not_disable(rig: Rig, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    """Only a clear yes switches the protection off."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", value)
    rig.once.run("len", "k", len, [1])
    assert len(rig.rows()) == 1


@in_memory
@pytest.mark.parametrize(
    ("environment", "warned"),
    [
        ({"POWERTOOLS_IDEMPOTENCY_DISABLED": "True"}, 1),
        ({"POWERTOOLS_IDEMPOTENCY_DISABLED": "0"}, 0),
        ({"POWERTOOLS_IDEMPOTENCY_DISABLED": "1", "LAMBDA_ONCE_DISABLED": "false"}, 0),
        ({"POWERTOOLS_IDEMPOTENCY_DISABLED": "1", "LAMBDA_ONCE_DISABLED": "true"}, 0),
        ({}, 0),
    ],
)
def test_the_switch_of_powertools_is_named(
    rig: Rig,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    environment: dict[str, str],
    warned: int,
) -> None:
    """It disables nothing here, which is logged once per environment, unless our own switch is set."""
    monkeypatch.delenv("LAMBDA_ONCE_DISABLED")
    for name, word in environment.items():
        monkeypatch.setenv(name, word)

    @rig.once.function
    def work(n: int) -> int:
        return n

    for n in (1, 1, 2):
        work(n)
    assert [line.message for line in caplog.records].count("once.powertools_disabled") == warned
    assert len(rig.rows()) == (0 if environment.get("LAMBDA_ONCE_DISABLED") == "true" else 2)


@in_memory
def test_an_invocation_is_disabled_as_a_whole(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that changes while it runs counts from the next one on; outside of one, at once."""
    with rig.once.invocation(rig.context()):
        rig.once.run("len", "a", len, [])
        monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "false")
        rig.once.run("len", "b", len, [])
    assert rig.rows() == []
    with rig.once.invocation(rig.context()):
        rig.once.run("len", "c", len, [])
    assert len(rig.rows()) == 1
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    rig.once.run("len", "d", len, [])
    assert len(rig.rows()) == 1


@in_memory
def test_two_invocations_at_once_read_for_themselves(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """What one has read is not what another, which began later, goes by; nor another `Once`."""
    begin = rig.once.invocation(rig.context("r1"))

    def first() -> None:
        begin.__enter__()
        rig.once.run("len", "a", len, [])

    def second() -> None:
        with rig.once.invocation(rig.context("r2")):
            rig.once.run("len", "b", len, [])

    one = contextvars.copy_context()
    one.run(first)
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "false")
    contextvars.copy_context().run(second)
    assert [row.token.rpartition("/")[2] for row in rig.rows()] == ["b"]
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    contextvars.copy_context().run(second)
    one.run(begin.__exit__, None, None, None)
    assert len(rig.rows()) == 1
