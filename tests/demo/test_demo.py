"""The demo: its scenes end as promised, and it fails where lambda-once is broken."""

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
from examples.demo.report import COLUMNS, NEXT
from examples.demo.run import Run, run
from examples.demo.sandbox import Sandbox, pause_at
from examples.demo.template import TABLE, Template, Unresolved
from examples.orders import fulfilment, payments
from examples.orders.effects import EFFECTS, POWER
from lambda_once.core.lifecycle import State
from lambda_once.patterns.ledger import requests as ledger_requests
from lambda_once.stores import requests
from tests.demo.pictures import FOLDER, THEMES, drawn
from tests.kit import tables
from tests.kit.terminal import text_of

pytestmark = pytest.mark.timed

ROOT = Path(__file__).parents[2]
LATE = "An attempt is late"


class Printed(NamedTuple):
    """What one call of the demo printed."""

    code: int
    text: str
    found: Run


def main_on_a_pipe(*arguments: str) -> tuple[int, str]:
    """Run the demo as into a pipe, and return its exit code and what it printed."""
    text = io.StringIO()
    code = main(arguments, Console(file=text, width=COLUMNS, no_color=True, highlight=False))
    return code, text.getvalue()


def printed() -> Printed:
    """Run the whole demo, and keep what it found."""
    found: list[Run] = []

    def kept(endpoint: str | None) -> Run:
        found.append(run(endpoint))
        return found[0]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "run", kept)
        code, text = main_on_a_pipe()
    return Printed(code, text, found[0])


@cache
def whole_demo() -> Printed:
    """Run the whole demo once for all tests that only read its output."""
    return printed()


def broken(found: Run) -> dict[str, tuple[str, ...]]:
    """Return the scenes that broke their promise, and how."""
    return {result.scene.title: result.broken for result in found.results if result.broken}


def keys(found: Run, state: State) -> set[str]:
    """Return the keys of the rows in *state*."""
    return {record.token.rpartition("/")[2] for record in found.records if record.state is state}


def test_every_scene_ends_as_promised() -> None:
    """Every verdict is printed, in order, then the next command; the exit code is 0."""
    code, text, _ = whole_demo()
    assert code == KEPT
    assert "All 11 scenes and 4 patterns ended as promised" in text
    verdicts = [line.split("  ")[0] for line in text.split("Tokens:")[0].splitlines() if line.startswith("✓")]
    assert [re.sub(r" (1st|2nd).*", "", verdict) for verdict in verdicts] == [
        f"✓ {scene.verdict}" for scene in scenes.SCENES
    ]
    assert "✗" not in text
    assert text.splitlines()[-1] == NEXT


def test_what_needs_an_operator_is_named() -> None:
    """One payment is held for manual review, one is lapsed, and everything else is complete."""
    _, text, found = whole_demo()
    assert "8 complete, 1 held for manual review (pay_12347), 1 lapsed (pay_12348)" in text
    assert keys(found, State.HELD) == {"pay_12347"}
    assert keys(found, State.IN_PROGRESS) == {"pay_12348"}
    assert len(keys(found, State.COMPLETE)) == len(found.records) - 2 == 8
    (died,) = (record for record in found.records if record.state is State.IN_PROGRESS)
    assert died.lapsed(found.ended)


def test_unfinished_attempts_are_counted() -> None:
    """Of the acquired attempts two died and one was fenced."""
    assert "13 acquired, 10 finished, 2 died, 1 fenced" in whole_demo().text


def test_without_protection_the_demo_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """With LAMBDA_ONCE_DISABLED no scene keeps its promise: cards are charged again; the exit code is 1."""
    monkeypatch.setenv("LAMBDA_ONCE_DISABLED", "true")
    code, text, found = printed()
    failed = broken(found)
    assert set(failed) == {scene.title for scene in scenes.SCENES}
    assert "2× charged 5, promised 1×" in failed["Two clicks at once"]
    assert "2× created order_12345, promised 1×" in failed["An API client retries"]
    assert "5× charged pay_12347, promised 1×" in failed["Gateway times out"]
    assert "2× charged pay_12348, promised 1×" in failed["Crash while charging"]
    assert code == BROKEN
    assert "Of 11 scenes and 4 patterns 11 did not end as promised" in text
    assert "All 11" not in text
    assert NEXT not in text


def test_without_fencing_the_demo_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a late attempt may overwrite its successor, exactly that scene breaks its promise."""
    anyone = "(attempt = :a OR attempt <> :a)"
    anything = "(begins_with(#status, :in_progress) OR attribute_not_exists(#status))"
    monkeypatch.setattr(requests, "OURS", f"{anyone} AND {anything}")
    failed = broken(run(None))
    assert set(failed) == {LATE}
    assert "0× fenced, promised 1×" in failed[LATE]


def test_the_patterns_keep_what_plain_writes_lose() -> None:
    """Plain writes are really made, and leave something wrong."""
    found = {each.pattern: each for each in whole_demo().found.comparisons}
    assert list(found) == ["Ledger", "Ratchet", "Unique", "Documents"]
    assert not any(each.broken for each in found.values())
    plain = {name: each.plain for name, each in found.items()}
    assert plain == {
        "Ledger": "100 points",
        "Ratchet": "200 or 250 or 300",
        "Unique": "receipt R-2",
        "Documents": "half of each",
    }


def test_a_pattern_without_its_condition_fails_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its condition that an id is new the ledger counts twice, and the exit code is 1."""
    monkeypatch.setattr(ledger_requests, "id_is_new", lambda *_: "")
    code, text = main_on_a_pipe()
    assert code == BROKEN
    assert "✗ 100 points" in text
    assert "Of 11 scenes and 4 patterns 1 did not end as promised" in text


@pytest.mark.parametrize("scheme", THEMES)
def test_the_picture_is_what_the_demo_prints(scheme: str) -> None:
    """Drawn again by `make docs`, it says the same. It has fewer than 40 lines and fetches nothing."""
    _, text, found = whole_demo()
    there = (FOLDER / f"demo-{scheme}.svg").read_text(encoding="utf-8")
    assert text_of(there) == text_of(drawn(found, scheme))
    assert len(text.split("Patterns:")[0].splitlines()) < 40
    assert "url(http" not in there
    assert "@import" not in there
    for scene in scenes.SCENES:
        assert scene.title in text_of(there).replace("\xa0", " ")


def test_an_old_picture_is_seen() -> None:
    """One that says something else differs."""
    there = (FOLDER / "demo-light.svg").read_text(encoding="utf-8")
    assert text_of(there.replace("replayed", "repeated")) != text_of(drawn(whole_demo().found, "light"))


def test_logs_are_printed_only_with_verbose(monkeypatch: pytest.MonkeyPatch) -> None:
    """The output of the handlers is captured."""
    _, quiet, found = whole_demo()
    monkeypatch.setattr(demo, "run", lambda _endpoint: found)
    _, verbose = main_on_a_pipe("--verbose")
    assert "once.replayed" not in quiet
    assert "_aws" not in quiet
    assert "once.replayed" in verbose
    assert "_aws" in verbose


def test_everything_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards environment, gateway, warehouse and standard output are as they were."""
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", "mine")

    def surroundings() -> tuple[object, ...]:
        outside = vars(payments)["GATEWAY"], vars(fulfilment)["WAREHOUSE"], POWER.die
        return dict(os.environ), outside, sys.stdout

    before = surroundings()
    run(None)
    assert surroundings() == before
    assert EFFECTS.all() == ()


def test_a_pipe_gets_neither_colours_nor_long_lines() -> None:
    """Piped, the output is 80 columns wide and has no control codes, whatever the terminal."""
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
    assert max(map(len, process.stdout.splitlines())) == COLUMNS
    assert re.search(r"[\x00-\x09\x0b-\x1f]", process.stdout) is None


def test_an_address_without_a_database_is_named() -> None:
    """The message names the endpoint, and the exit code is not that of a broken promise."""
    code, text = main_on_a_pipe("--endpoint", "http://127.0.0.1:1")
    assert code == UNREACHABLE
    assert "No DynamoDB answers at http://127.0.0.1:1" in text


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
    """The demo guesses no value."""
    with pytest.raises(Unresolved, match="TokenTable"):
        Template({}).function("PaymentsFunction")


def test_an_invocation_pauses_only_where_requested() -> None:
    """It passes other places and pauses at its own, until it is resumed."""
    passed: list[str] = []

    def work() -> str:
        pause_at("elsewhere")
        passed.append("elsewhere")
        pause_at("here")
        passed.append("here")
        return "done"

    sandbox = Sandbox("here", work)
    sandbox.run_until_paused()
    assert passed == ["elsewhere"]
    assert sandbox.resume() == "done"
    assert passed == ["elsewhere", "here"]


def test_a_killed_invocation_does_nothing_more() -> None:
    """The code after the pause never runs."""
    passed: list[str] = []

    def work() -> None:
        pause_at("here")
        passed.append("here")

    sandbox = Sandbox("here", work)
    sandbox.run_until_paused()
    sandbox.kill()
    assert passed == []


@pytest.mark.engine
def test_promises_are_kept_on_a_real_engine(engine_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards the demo's table is gone."""
    name = table.fresh_name()
    monkeypatch.setattr(table, "fresh_name", lambda: name)
    code, text = main_on_a_pipe("--endpoint", engine_endpoint)
    assert "All 11 scenes and 4 patterns ended as promised" in text
    assert code == KEPT
    client = tables.client(engine_endpoint)
    with pytest.raises(client.exceptions.ResourceNotFoundException):
        client.describe_table(TableName=name)
    client.close()
