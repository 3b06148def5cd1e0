from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_once.cli import options
from lambda_once.core.lifecycle import State
from lambda_once.operations import resolution as resolutions
from lambda_once.operations.listing import unfinished
from lambda_once.operations.resolution import HELD, Resolve, resolution
from lambda_once.operations.table import TokenTable
from lambda_once.stores.contract import Unanswered
from tests.operations.desk import Desk, desk, said

SURE = ("--because", "the provider was down", "--by", "ann", "--yes")


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk at a table of the strict engine."""
    with desk(monkeypatch, None) as found:
        yield found


@pytest.fixture
def on_engine(monkeypatch: pytest.MonkeyPatch, dynamodb_local: str) -> Iterator[Desk]:
    """A desk at a table of a real engine."""
    with desk(monkeypatch, dynamodb_local) as found:
        yield found


def _some_are_held(at: Desk) -> None:
    """Four payments are held, an hour between each two of them, and one is done."""
    for number in range(4):
        at.hold(f"p-{number}")
        at.clock.advance(3_600)
    at.ask("p-done")


def _states(at: Desk) -> list[State]:
    return [at.row(f"p-{number}").state for number in range(4)]


def _released(at: Desk) -> None:
    _some_are_held(at)
    ran = at.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "4 released" in said(ran)
    assert _states(at) == [State.RELEASED] * 4
    assert at.row("p-done").state is State.COMPLETE
    resolution = at.row("p-0").resolution
    assert resolution is not None
    assert (resolution.by, resolution.because) == ("ann", "the provider was down")
    assert all(at.deliver(f"p-{number}") for number in range(4))


def test_what_is_held_is_released_and_runs(at: Desk) -> None:
    """All of it, with the reason on each row; what is done stays done."""
    _released(at)


@pytest.mark.engine
def test_what_is_held_is_released_and_runs_on_the_engine(on_engine: Desk) -> None:
    """The same, by a real index."""
    _released(on_engine)


FILTERS = {
    "service": (["--service", "shop"], 4),
    "another service": (["--service", "stock"], 0),
    "a pattern": (["--service", "s*", "--name", "ch?rge"], 4),
    "another function": (["--name", "refund"], 0),
    "older": (["--older-than", "150m"], 2),
    "limited": (["--limit", "3"], 3),
}


@pytest.mark.parametrize(("options", "many"), FILTERS.values(), ids=FILTERS.keys())
def test_only_what_was_asked_for_is_released(at: Desk, options: list[str], many: int) -> None:
    """The oldest first."""
    _some_are_held(at)
    ran = at.run("redrive", *options, *SURE)
    assert ran.exit_code == 0
    assert _states(at) == [State.RELEASED] * many + [State.HELD] * (4 - many)


def test_a_limit_says_that_there_is_more(at: Desk) -> None:
    """So that nobody takes it for all."""
    _some_are_held(at)
    assert "more than --limit 3" in said(at.run("redrive", "--limit", "3", *SURE))
    assert "more than" not in said(at.run("redrive", "--limit", "3", *SURE))


def test_nothing_held_is_well(at: Desk) -> None:
    """Exit code 0, and an empty list as JSON."""
    ran = at.run("redrive", "--output", "json", *SURE)
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, [])
    assert "no matching token is held" in ran.stderr


def test_a_dry_run_shows_and_writes_nothing(at: Desk) -> None:
    """Nobody is asked either."""
    _some_are_held(at)
    ran = at.run("redrive", "--because", "x", "--dry-run")
    assert ran.exit_code == 0
    assert "shop/charge/p-3" in ran.stdout
    assert _states(at) == [State.HELD] * 4


@pytest.mark.parametrize(
    ("answer", "state", "code"), [("y\n", State.RELEASED, 0), ("n\n", State.HELD, 1), ("", State.HELD, 1)]
)
def test_a_person_is_asked(
    at: Desk, monkeypatch: pytest.MonkeyPatch, answer: str, state: State, code: int
) -> None:
    """After they have seen the tokens; who says no, or nothing, changes nothing."""
    _some_are_held(at)
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    ran = at.run("redrive", "--because", "x", stdin=answer)
    assert ran.exit_code == code
    assert "Release 4" in said(ran)
    assert _states(at) == [state] * 4


def test_one_that_has_changed_is_refused_and_the_others_go_on(
    at: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write is conditional on what was shown: exit code 1, and the token is named."""
    _some_are_held(at)
    settle = TokenTable.finish
    second = at.row("p-1")

    def late(table: TokenTable, write: Any) -> Any:
        if write.token == second.token:
            done = resolution(second, Resolve.DONE, by="bob", because="seen", now=at.clock.now(), result="5")
            settle(table, done)
        return settle(table, write)

    monkeypatch.setattr(TokenTable, "finish", late)
    ran = at.run("redrive", "--output", "jsonl", *SURE)
    assert ran.exit_code == 1
    outcomes = [json.loads(line)["outcome"] for line in ran.stdout.splitlines()]
    assert outcomes == ["released", "refused", "released", "released"]
    assert "3 released, 1 refused" in said(ran)
    assert at.row("p-1").state is State.COMPLETE
    assert at.ask("p-1") == 5


def test_no_answer_leaves_the_rest(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take half a minute for each of them."""
    _some_are_held(at)
    settle = TokenTable.finish

    def silent(table: TokenTable, write: Any) -> Any:
        return Unanswered("timed out") if write.token.endswith("p-1") else settle(table, write)

    monkeypatch.setattr(TokenTable, "finish", silent)
    ran = at.run("redrive", "--output", "json", *SURE)
    assert ran.exit_code == 1
    assert [row["outcome"] for row in json.loads(ran.stdout)] == ["released", "unanswered", "left", "left"]
    assert "lambda-once show shop/charge/p-1" in said(ran)
    assert _states(at) == [State.RELEASED, *[State.HELD] * 3]


def test_the_row_counts_not_the_index(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the index still lists as held, and is settled, is not even shown."""
    _some_are_held(at)
    listed = list(unfinished(at.operations, HELD, at.clock.now()))
    assert at.run("resolve", at.token("p-1"), "--done", *SURE).exit_code == 0
    monkeypatch.setattr(resolutions, "unfinished", lambda *_: iter(listed))
    ran = at.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "shop/charge/p-1" not in ran.output
    assert at.row("p-1").state is State.COMPLETE


@pytest.mark.parametrize("options", [["--limit", "0"], ["--older-than", "old"], ["--because", ""]])
def test_bad_options_are_one_line(at: Desk, options: list[str]) -> None:
    """Exit code 2, and nothing is written."""
    _some_are_held(at)
    ran = at.run("redrive", *SURE, *options)
    assert (ran.exit_code, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)
    assert _states(at) == [State.HELD] * 4
