"""A day in the life of an operator: a payment times out, an operator is called, looks, and resolves it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lambda_once import Held
from lambda_once.core.lifecycle import State
from lambda_once.operations.watchdog import watchdog
from lambda_once.testing import lambda_context
from tests.operations.payments import Payments, Timeout, output_of, payments_at, times_out

RECEIPT = {"chargeId": "ch_5", "amount": 0}


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def payments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    """Payments on a table of the strict engine, and on one of a real engine."""
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "Watchdog")
    endpoint = request.getfixturevalue("engine_endpoint") if request.param == "engine" else None
    with payments_at(monkeypatch, endpoint) as found:
        yield found


def _metrics(printed: str) -> dict[str, float]:
    """The metrics of the EMF documents in *printed*: the last value of each."""
    found: dict[str, float] = {}
    for line in printed.splitlines():
        document = json.loads(line) if line.startswith('{"_aws"') else {"_aws": {"CloudWatchMetrics": []}}
        for directive in document["_aws"]["CloudWatchMetrics"]:
            for metric in directive["Metrics"]:
                values = document[metric["Name"]]
                found[metric["Name"]] = values[-1] if isinstance(values, list) else values
    return found


def _watched(payments: Payments, capsys: pytest.CaptureFixture[str]) -> dict[str, float]:
    """Let the watchdog make its round, and return what it emits."""
    capsys.readouterr()
    watchdog(payments.table, payments.client, payments.clock, service="shop", sweep=False)(
        {}, lambda_context()
    )
    return _metrics(capsys.readouterr().out)


def _a_payment_times_out(payments: Payments, capsys: pytest.CaptureFixture[str]) -> str:
    """The provider does not answer, the payment is held, and the alarm's metric says so; return the token."""
    assert _watched(payments, capsys)["heldTokens"] == 0
    payments.provider = times_out
    assert isinstance(payments.ask("p-1"), Timeout)
    assert isinstance(payments.ask("p-1"), Held)
    assert not payments.deliver("p-1")  # the message goes back, and in the end to the dead-letter queue
    assert payments.asked == ["p-1"]
    payments.clock.advance(600)
    seen = _watched(payments, capsys)
    assert (seen["heldTokens"], seen["missingTasks"]) == (1, 0)
    payments.provider = lambda _payment: dict(RECEIPT)
    return payments.token("p-1")


def _the_operator_looks(payments: Payments) -> str:
    """`list` tells the token, `show` its story and the attempt; return that."""
    listed = payments.run("list", "--held", "--output", "jsonl")
    (row,) = [json.loads(line) for line in listed.stdout.splitlines()]
    assert (listed.exit_code, row["status"], row["key"]) == (1, "held", "p-1")
    shown = payments.run("show", row["lockToken"])
    assert "no answer in 10 s" in output_of(shown)
    assert "resolve" in output_of(shown)
    assert row["attempt"] == payments.row("p-1").attempt_id
    return str(row["attempt"])


def test_it_was_done(payments: Payments, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The provider's page says that the money moved: duplicates get the receipt, nothing is charged twice."""
    token = _a_payment_times_out(payments, capsys)
    attempt = _the_operator_looks(payments)
    receipt = tmp_path / "receipt.json"
    receipt.write_text(json.dumps(RECEIPT), encoding="utf-8")
    because = ("--because", "the provider's page has ch_5", "--by", "ann", "--yes")
    resolved = payments.run(
        "resolve", token, "--done", "--result", str(receipt), "--attempt", attempt, *because
    )
    assert resolved.exit_code == 0
    assert "not needed" in output_of(resolved)
    assert payments.ask("p-1") == RECEIPT
    assert payments.deliver("p-1")
    assert payments.asked == ["p-1"]
    assert _watched(payments, capsys)["heldTokens"] == 0
    assert payments.run("list").exit_code == 0
    assert "the provider's page has ch_5" in output_of(payments.run("show", token))
    assert json.loads(payments.run("show", token, "--result").stdout) == RECEIPT


def test_it_was_not_done(payments: Payments, capsys: pytest.CaptureFixture[str]) -> None:
    """The provider knows nothing of it: the next delivery charges, once."""
    token = _a_payment_times_out(payments, capsys)
    attempt = _the_operator_looks(payments)
    because = ("--because", "the provider has no charge of it", "--by", "ann", "--yes")
    resolved = payments.run("resolve", token, "--not-done", "--attempt", attempt, *because)
    assert resolved.exit_code == 0
    assert "redrive that queue" in output_of(resolved)
    assert _watched(payments, capsys)["heldTokens"] == 0
    assert payments.deliver("p-1")
    assert payments.asked == ["p-1", "p-1"]
    assert payments.deliver("p-1")
    assert payments.ask("p-1") == RECEIPT
    assert payments.asked == ["p-1", "p-1"]
    row = payments.row("p-1")
    assert row.state is State.COMPLETE
    assert row.decisions[-1].because == "the provider has no charge of it"


def test_two_operators_decide_at_once(payments: Payments, capsys: pytest.CaptureFixture[str]) -> None:
    """Two operators look; the second is refused, and sees the row as it was and as it is."""
    token = _a_payment_times_out(payments, capsys)
    attempt = _the_operator_looks(payments)
    quick = ("--because", "seen", "--by", "bob", "--yes")
    assert payments.run("resolve", token, "--not-done", *quick).exit_code == 0
    before = payments.row("p-1")
    late = ("--because", "seen as well", "--by", "ann", "--yes")
    refused = payments.run("resolve", token, "--done", "--attempt", attempt, "--output", "json", *late)
    outcome: dict[str, Any] = json.loads(refused.stdout)
    assert (refused.exit_code, outcome["written"]) == (1, False)
    assert outcome["now"]["decisions"][-1]["by"] == "bob"
    assert attempt in refused.stderr
    assert payments.row("p-1") == before


def test_many_are_held_while_the_provider_is_down(
    payments: Payments, capsys: pytest.CaptureFixture[str]
) -> None:
    """It had not taken any: all are released at once, and their messages, redriven, charge once each."""
    for number in range(3):
        payments.hold(f"p-{number}")
    assert _watched(payments, capsys)["heldTokens"] == 3
    released = payments.run("redrive", "--because", "the provider was down", "--by", "ann", "--yes")
    assert released.exit_code == 0
    for _ in range(2):
        assert all(payments.deliver(f"p-{number}") for number in range(3))
    assert payments.asked == [f"p-{number % 3}" for number in range(6)]
    assert _watched(payments, capsys)["heldTokens"] == 0
