"""The embedded demo tells the truth: its scenes end as promised, and it fails where the layer does."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from examples.demo import __main__ as demo
from examples.demo import scenes, table
from examples.demo.__main__ import BROKEN, KEPT, UNREACHABLE, main
from examples.demo.performance import Performance, perform
from examples.demo.sandbox import Sandbox, come_to
from examples.demo.template import TABLE, Template, Unresolved
from examples.orders import fulfilment, payments
from examples.orders.effects import EFFECTS, POWER
from lambda_once.core.lifecycle import State
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.stores import requests
from tests.kit import tables

ROOT = Path(__file__).parents[2]
LATE = "The dead one wakes up"
HELD_OR_LAPSED = {"pay_12347": State.HELD, "pay_12348": State.IN_PROGRESS}


class Run(NamedTuple):
    """One run of the demo."""

    code: int
    said: str
    performance: Performance


def tell(*arguments: str) -> tuple[int, str]:
    """Run the demo as into a pipe, and return its exit code and what it said."""
    said = io.StringIO()
    code = main(arguments, Console(file=said, width=110, no_color=True, highlight=False))
    return code, said.getvalue()


def run() -> Run:
    """Run the whole demo, and keep what it performed."""
    performed: list[Performance] = []

    def performing(endpoint: str | None) -> Performance:
        performed.append(perform(endpoint))
        return performed[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "perform", performing)
        code, said = tell()
    (performance,) = performed
    return Run(code, said, performance)


@cache
def whole_run() -> Run:
    """Run the whole demo once for all tests that only look at what it said and left."""
    return run()


def broken(performance: Performance) -> dict[str, tuple[str, ...]]:
    """Return the scenes that broke their promise, and how."""
    return {act.scene.title: act.broken for act in performance.played if act.broken}


def keys(performance: Performance, state: State) -> set[str]:
    """Return the keys of the rows in *state*."""
    return {record.token.rpartition("/")[2] for record in performance.records if record.state is state}


def test_every_scene_ends_as_promised_and_says_so() -> None:
    """All twelve outcomes are printed, in their order, and the exit code is 0."""
    code, said, _ = whole_run()
    assert code == KEPT
    assert "All 12 scenes and 4 patterns ended as promised" in said
    outcomes = [line[1:].split("  ")[0].rstrip() for line in said.splitlines() if line.startswith(" ✓")]
    assert outcomes == [f"✓ {scene.verdict}" for scene in scenes.SCENES]
    assert "✗" not in said


def test_the_rows_tell_what_waits_for_a_person() -> None:
    """One payment is held, one is in progress with its lease over, and everything else is complete."""
    performance = whole_run().performance
    assert keys(performance, State.HELD) == {"pay_12347"}
    assert keys(performance, State.IN_PROGRESS) == {"pay_12348"}
    assert len(keys(performance, State.COMPLETE)) == len(performance.records) - 2 == 8
    (died,) = (record for record in performance.records if record.state is State.IN_PROGRESS)
    assert died.lapsed(performance.ended)


def test_unfinished_attempts_are_counted() -> None:
    """Of the attempts that began, those that died and the one that was fenced are missing, as on an alarm."""
    code, said, _ = whole_run()
    assert code == KEPT
    assert "3 attempts began and did not finish (2 died, 1 fenced)" in said


def test_without_the_layer_the_demo_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switched off, the layer keeps no promise: cards are charged again, and the exit code is 1."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    code, said, performance = run()
    failed = broken(performance)
    assert set(failed) == {scene.title for scene in scenes.SCENES}
    assert "2× charged 5, promised 1×" in failed["Two clicks at once"]
    assert "2× created order_12345, promised 1×" in failed["An API client retries"]
    assert "5× charged pay_12347, promised 1×" in failed["The gateway is silent"]
    assert "2× charged pay_12348, promised 1×" in failed["…and while charging"]
    assert code == BROKEN
    assert "Of 12 scenes and 4 patterns 12 did not end as promised" in said
    assert "All 12" not in said


def test_without_fencing_the_demo_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a late attempt may overwrite its successor, exactly that scene breaks its promise."""
    anyone = "(attempt = :a OR attempt <> :a)"
    anything = "(begins_with(#status, :in_progress) OR attribute_not_exists(#status))"
    monkeypatch.setattr(requests, "OURS", f"{anyone} AND {anything}")
    failed = broken(perform(None))
    assert set(failed) == {LATE}
    assert "0× fenced, promised 1×" in failed[LATE]


def test_the_patterns_keep_what_plain_writes_lose() -> None:
    """Each is seen beside the plain writes, which were really made; no pattern needs a token."""
    found = {each.pattern: each for each in whole_run().performance.contrasts}
    assert list(found) == ["Ledger", "Ratchet", "Unique", "Documents"]
    assert not any(each.broken for each in found.values())
    plain = {name: each.plain for name, each in found.items()}
    assert plain == {
        "Ledger": "100 points",
        "Ratchet": "ends at 200 or 250 or 300",
        "Unique": "receipt R-2",
        "Documents": "half of each version",
    }


def test_a_pattern_without_its_condition_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the ledger asks no more whether an id is new, it counts twice, and the exit code is 1."""
    monkeypatch.setattr(ledger_requests, "id_is_new", lambda *_: "")
    code, said = tell()
    assert code == BROKEN
    assert "✗ 100 points" in said
    assert "Of 12 scenes and 4 patterns 1 did not end as promised" in said


def test_the_tables_hold_no_log_lines_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the handlers print is captured; --verbose shows it."""
    _, quiet, performance = whole_run()
    monkeypatch.setattr(demo, "perform", lambda _endpoint: performance)
    _, verbose = tell("--verbose")
    assert "once.replayed" not in quiet
    assert "_aws" not in quiet
    assert "once.replayed" in verbose
    assert "_aws" in verbose


def test_everything_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment, outside world and standard output are afterwards as they were."""
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", "mine")

    def surroundings() -> tuple[object, ...]:
        outside = vars(payments)["GATEWAY"], vars(fulfilment)["WAREHOUSE"], POWER.die
        return dict(os.environ), outside, sys.stdout

    before = surroundings()
    perform(None)
    assert surroundings() == before
    assert EFFECTS.all() == ()


def test_a_pipe_gets_neither_colours_nor_long_lines() -> None:
    """Piped, the output has a fixed width and no control codes, whatever the terminal may do."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "300", "TERM": "xterm-256color"}
    process = subprocess.run(
        [sys.executable, "-m", "examples.demo"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    assert process.stderr == ""
    assert max(map(len, process.stdout.splitlines())) == 110
    assert re.search(r"[\x00-\x09\x0b-\x1f]", process.stdout) is None


def test_an_address_without_a_database_is_named() -> None:
    """Where nothing answers, the demo says where it asked; its exit code is not that of a broken promise."""
    code, said = tell("--endpoint", "http://127.0.0.1:1")
    assert code == UNREACHABLE
    assert "No DynamoDB answers at http://127.0.0.1:1" in said


def test_the_table_is_the_one_of_the_template() -> None:
    """Keys, index and expiry on the engine are what template.yaml says."""
    template = Template({TABLE: "tokens"})
    wanted = template.table()
    with table.engine(None), table.token_table(template, "tokens", None) as client:
        found = client.describe_table(TableName="tokens")["Table"]
        expiry = client.describe_time_to_live(TableName="tokens")["TimeToLiveDescription"]
    assert found["KeySchema"] == wanted["KeySchema"]
    (index,) = found["GlobalSecondaryIndexes"]
    (wanted_index,) = wanted["GlobalSecondaryIndexes"]
    assert {name: index[name] for name in wanted_index} == wanted_index
    assert expiry == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}


def test_functions_are_set_up_as_in_the_template() -> None:
    """A function has its own time limit, the shared environment, and the values that stand for references."""
    template = Template({TABLE: "tokens", "DynamoDBEndpoint": "http://localhost:8000"})
    api = template.function("OrdersApiFunction")
    assert (api.module, api.handler, api.timeout.total_seconds()) == ("examples.orders.api", "handler", 29)
    assert api.environment["LAMBDA_ONCE_TABLE"] == "tokens"
    assert api.environment["ORDERS_KEEP_DAYS"] == "28"
    assert api.environment["AWS_ENDPOINT_URL_DYNAMODB"] == "http://localhost:8000"
    assert api.environment["AWS_LAMBDA_FUNCTION_NAME"] == "orders-OrdersApiFunction"
    assert template.function("PaymentsFunction").timeout.total_seconds() == 30


def test_a_reference_without_a_value_is_refused() -> None:
    """What the demo does not make is not guessed."""
    with pytest.raises(Unresolved, match="TokenTable"):
        Template({}).function("PaymentsFunction")


def test_an_invocation_pauses_only_where_requested() -> None:
    """It passes other places, stops at its own, and goes on when it may."""
    passed: list[str] = []

    def work() -> str:
        come_to("elsewhere")
        passed.append("elsewhere")
        come_to("here")
        passed.append("here")
        return "done"

    sandbox = Sandbox("here", work)
    sandbox.run_to_the_place()
    assert passed == ["elsewhere"]
    assert sandbox.go_on() == "done"
    assert passed == ["elsewhere", "here"]


def test_a_killed_invocation_does_nothing_more() -> None:
    """The code behind the place is never executed."""
    passed: list[str] = []

    def work() -> None:
        come_to("here")
        passed.append("here")

    sandbox = Sandbox("here", work)
    sandbox.run_to_the_place()
    sandbox.kill()
    assert passed == []


@pytest.mark.engine
def test_the_story_is_the_same_on_a_real_engine(dynamodb_local: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On DynamoDB Local every promise is kept, too, and the demo's table is gone."""
    name = table.fresh_name()
    monkeypatch.setattr(table, "fresh_name", lambda: name)
    code, said = tell("--endpoint", dynamodb_local)
    assert "All 12 scenes and 4 patterns ended as promised" in said
    assert code == KEPT
    client = tables.client(dynamodb_local)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_table(TableName=name)
    client.close()
