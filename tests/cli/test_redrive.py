from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import click
import pytest

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Decider, Resolve, State
from lambda_once.errors import Misconfigured
from lambda_once.operations import decisions as operations_decisions
from lambda_once.operations.decisions import HELD, Author, decided
from lambda_once.operations.listing import unfinished
from lambda_once.operations.table import TokenTable
from lambda_once.stores.contract import Unanswered, Written
from lambda_once_tools.cli import decisions, options
from tests.cli.shop import Shop, open_shop
from tests.operations.payments import Payments, open_each, open_payments, output_of

__all__ = ["open_each", "open_payments", "open_shop"]

REMAIN = "{} remain: run this command again before you redrive the queue"
SURE = ("--because", "the provider was down", "--by", "ann", "--yes")


def _some_are_held(payments: Payments) -> None:
    """Four payments are held, an hour between each two of them, and one is done."""
    for number in range(4):
        payments.hold(f"p-{number}")
        payments.clock.advance(3_600)
    payments.ask("p-done")


def _states(payments: Payments) -> list[State]:
    return [payments.row(f"p-{number}").state for number in range(4)]


def test_what_is_held_is_released_and_runs(each: Payments) -> None:
    """All of it, with the reason on each row; what is done stays done."""
    payments = each
    _some_are_held(payments)
    ran = payments.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "4 released" in output_of(ran)
    assert _states(payments) == [State.RELEASED] * 4
    assert payments.row("p-done").state is State.COMPLETE
    (decision,) = payments.row("p-0").decisions
    assert (decision.by, decision.because) == ("ann", "the provider was down")
    assert all(payments.deliver(f"p-{number}") for number in range(4))


FILTERS = {
    "service": (["--service", "shop"], 4),
    "another service": (["--service", "stock"], 0),
    "a pattern": (["--service", "s*", "--name", "ch?rge"], 4),
    "another function": (["--name", "refund"], 0),
    "older": (["--older-than", "150m"], 2),
    "limited": (["--limit", "3"], 3),
    "after an error": (["--error", "Timeout"], 4),
    "after another error": (["--error", "Declined"], 0),
}


@pytest.mark.parametrize(("options", "many"), FILTERS.values(), ids=FILTERS.keys())
def test_only_what_was_asked_for_is_released(payments: Payments, options: list[str], many: int) -> None:
    """The oldest first."""
    _some_are_held(payments)
    ran = payments.run("redrive", *options, *SURE)
    assert ran.exit_code == ("--limit" in options)
    assert _states(payments) == [State.RELEASED] * many + [State.HELD] * (4 - many)


def test_a_limit_prints_what_remains(payments: Payments) -> None:
    """Otherwise an operator would take it for all, and redrive the queue."""
    _some_are_held(payments)
    ran = payments.run("redrive", "--limit", "3", *SURE)
    assert ran.exit_code == 1
    assert ran.stderr.splitlines()[-1] == REMAIN.format(1)
    assert payments.run("redrive", "--limit", "3", *SURE).exit_code == 0


def test_a_whole_outage_is_released(each: Payments) -> None:
    """More than a table shows and than a page of the index has; each is written once."""
    payments = each
    for number in range(105):
        payments.hold(f"p-{number}")
    ran = payments.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "105 released" in output_of(ran)
    assert "105 held, the first 100 shown" in output_of(ran)
    assert {payments.row(f"p-{number}").state for number in range(105)} == {State.RELEASED}


def test_what_is_held_again_meanwhile_is_left(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """A poison message that comes back at once would otherwise run without an end."""
    _some_are_held(payments)
    original = TokenTable.write

    def at_once(table: TokenTable, write: Any) -> Any:
        answer = original(table, write)
        payments.hold(write.token.rpartition("/")[2])
        return answer

    monkeypatch.setattr(TokenTable, "write", at_once)
    ran = payments.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "4 released" in output_of(ran)
    assert [payments.asked.count(f"p-{number}") for number in range(4)] == [2] * 4
    assert _states(payments) == [State.HELD] * 4


EXPIRED = Misconfigured("UpdateItem was refused: the token has expired")
STOPPED = {
    "Ctrl-C": (KeyboardInterrupt(), "interrupted", "unanswered"),
    "credentials that expired": (EXPIRED, "lambda-once: UpdateItem was refused", "left"),
}


@pytest.mark.parametrize("form", ["table", "json", "jsonl"])
@pytest.mark.parametrize(("stop", "why", "second"), STOPPED.values(), ids=STOPPED.keys())
def test_an_interrupted_redrive_reports_what_it_did(
    payments: Payments,
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    stop: BaseException,
    why: str,
    second: str,
) -> None:
    """What was released, what remains, and of which token it is unknown: exit code 1."""
    _some_are_held(payments)
    original = TokenTable.write

    def stopped(table: TokenTable, write: Any) -> Any:
        if write.token.endswith("p-1"):
            raise stop
        return original(table, write)

    monkeypatch.setattr(TokenTable, "write", stopped)
    ran = payments.run("redrive", "--output", form, *SURE)
    assert ran.exit_code == 1
    said = ran.stderr.splitlines()
    assert any(line.startswith(why) for line in said)
    assert any(line.startswith("1 released") for line in said)
    assert said[-1] == REMAIN.format(3)
    if form != "table":
        rows = json.loads(ran.stdout) if form == "json" else list(map(json.loads, ran.stdout.splitlines()))
        assert [row["outcome"] for row in rows] == ["released", second, "left", "left"]
    assert _states(payments) == [State.RELEASED, *[State.HELD] * 3]


def test_a_reader_that_exits_stops_the_release(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `head` does: nobody would see what becomes of the others."""
    _some_are_held(payments)
    printed: list[str] = []
    echo = click.echo

    def closed(message: Any = None, **options: Any) -> None:
        if not options.get("err"):
            printed.append(message)
            if len(printed) == 2:
                raise BrokenPipeError
        echo(message, **options)

    monkeypatch.setattr(click, "echo", closed)
    ran = payments.run("redrive", "--output", "jsonl", *SURE)
    assert ran.exit_code == 1
    assert "2 released, 2 left" in ran.stderr
    assert ran.stderr.splitlines()[-1] == REMAIN.format(2)
    assert _states(payments) == [State.RELEASED] * 2 + [State.HELD] * 2


LOST = [f"shop/charge/p-{number}" for number in range(2)]


def _some_are_overdue(shop: Shop) -> None:
    """The function was killed in two payments; a third is in progress, a fourth held."""
    shop.hold("shop/charge/p-held")
    for token in LOST:
        shop.begin(token)
    shop.clock.advance(31)
    shop.begin("shop/charge/p-alive")


def _state(shop: Shop, token: str) -> State:
    record = TokenTable(shop.name, shop.client, shop.clock).read(token)
    assert record is not None
    return record.state


def test_overdue_tokens_are_released_only_if_asked_for(shop: Shop) -> None:
    """Not done is then a claim about the provider, and the question is about that."""
    _some_are_overdue(shop)
    ran = shop.run("redrive", *SURE)
    assert (ran.exit_code, _state(shop, "shop/charge/p-held")) == (0, State.RELEASED)
    assert [_state(shop, token) for token in LOST] == [State.IN_PROGRESS] * 2
    ran = shop.run("redrive", "--overdue", *SURE)
    assert ran.exit_code == 0
    assert "2 overdue: it is unknown whether the work was done" in output_of(ran)
    assert "2 released" in output_of(ran)
    assert [_state(shop, token) for token in LOST] == [State.RELEASED] * 2
    assert _state(shop, "shop/charge/p-alive") is State.IN_PROGRESS


def test_overdue_tokens_have_a_question_of_their_own(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who declines changes nothing."""
    _some_are_overdue(shop)
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    ran = shop.run("redrive", "--overdue", "--because", "x")
    assert ran.exit_code == 1
    assert "Their next deliveries run. Are you sure that none of these 2 was done?" in output_of(ran)
    ran = shop.run("redrive", "--overdue", "--limit", "1", "--because", "x")
    assert "Its next delivery runs. Are you sure that it was not done?" in output_of(ran)
    assert [_state(shop, token) for token in LOST] == [State.IN_PROGRESS] * 2


def test_a_lease_that_was_extended_meanwhile_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was overdue when it was shown, and its attempt is alive."""
    _some_are_overdue(shop)
    original = TokenTable.write

    def late(table: TokenTable, write: Any) -> Any:
        if write.token == LOST[0]:
            shop.client.update_item(
                TableName=shop.name,
                Key={"lockToken": {"S": write.token}},
                UpdateExpression="SET expectedCompletion = :later",
                ExpressionAttributeValues={":later": {"S": stamp(shop.clock.now() + timedelta(60))}},
            )
        return original(table, write)

    monkeypatch.setattr(TokenTable, "write", late)
    ran = shop.run("redrive", "--overdue", *SURE)
    assert ran.exit_code == 1
    assert "1 released, 1 refused" in output_of(ran)
    assert [_state(shop, token) for token in LOST] == [State.IN_PROGRESS, State.RELEASED]


def test_nothing_held_exits_with_0(payments: Payments) -> None:
    """Exit code 0, and an empty list as JSON."""
    ran = payments.run("redrive", "--output", "json", *SURE)
    assert (ran.exit_code, json.loads(ran.stdout)) == (0, [])
    assert "no matching token is held" in ran.stderr


def test_a_dry_run_shows_and_writes_nothing(payments: Payments) -> None:
    """No confirmation is asked for either."""
    _some_are_held(payments)
    ran = payments.run("redrive", "--because", "x", "--dry-run")
    assert ran.exit_code == 0
    assert "shop/charge/p-3" in ran.stdout
    assert _states(payments) == [State.HELD] * 4


@pytest.mark.parametrize(
    ("answer", "state", "code"), [("y\n", State.RELEASED, 0), ("n\n", State.HELD, 1), ("", State.HELD, 1)]
)
def test_a_person_is_asked(
    payments: Payments, monkeypatch: pytest.MonkeyPatch, answer: str, state: State, code: int
) -> None:
    """After they have seen the tokens; who says no, or nothing, changes nothing."""
    _some_are_held(payments)
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    ran = payments.run("redrive", "--because", "x", stdin=answer)
    assert ran.exit_code == code
    assert "Release 4" in output_of(ran)
    assert _states(payments) == [state] * 4


def test_one_that_has_changed_is_refused_and_the_others_go_on(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each write is conditional on what was shown: exit code 1, and the token is named."""
    _some_are_held(payments)
    original = TokenTable.write
    second = payments.row("p-1")

    def late(table: TokenTable, write: Any) -> Any:
        if write.token == second.token:
            done = decided(second, Resolve.DONE, Author("bob", "seen"), payments.clock.now(), result="5")
            original(table, done)
        return original(table, write)

    monkeypatch.setattr(TokenTable, "write", late)
    ran = payments.run("redrive", "--output", "jsonl", *SURE)
    assert ran.exit_code == 1
    outcomes = [json.loads(line)["outcome"] for line in ran.stdout.splitlines()]
    assert outcomes == ["released", "refused", "released", "released"]
    assert "3 released, 1 refused" in output_of(ran)
    assert payments.row("p-1").state is State.COMPLETE
    assert payments.ask("p-1") == 5


def test_no_answer_leaves_the_rest(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would take half a minute for each of them."""
    _some_are_held(payments)
    original = TokenTable.write

    def silent(table: TokenTable, write: Any) -> Any:
        return Unanswered("timed out") if write.token.endswith("p-1") else original(table, write)

    monkeypatch.setattr(TokenTable, "write", silent)
    ran = payments.run("redrive", "--output", "json", *SURE)
    assert ran.exit_code == 1
    assert [row["outcome"] for row in json.loads(ran.stdout)] == ["released", "unanswered", "left", "left"]
    assert "lambda-once show shop/charge/p-1" in output_of(ran)
    assert _states(payments) == [State.RELEASED, *[State.HELD] * 3]


def test_the_row_counts_not_the_index(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that is resolved, but still in the index as held, is not shown."""
    _some_are_held(payments)
    listed = list(unfinished(payments.operations, HELD, payments.clock.now(), []))
    assert payments.run("resolve", payments.token("p-1"), "--done", *SURE).exit_code == 0
    monkeypatch.setattr(operations_decisions, "unfinished", lambda *_: iter(listed))
    ran = payments.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "shop/charge/p-1" not in ran.output
    assert payments.row("p-1").state is State.COMPLETE


@pytest.mark.parametrize("options", [["--limit", "0"], ["--older-than", "old"], ["--because", ""]])
def test_bad_options_are_one_line(payments: Payments, options: list[str]) -> None:
    """Exit code 2, and nothing is written."""
    _some_are_held(payments)
    ran = payments.run("redrive", *SURE, *options)
    assert (ran.exit_code, ran.stdout, len(ran.stderr.splitlines())) == (2, "", 1)
    assert _states(payments) == [State.HELD] * 4


HELD_BY_ANNA = ("--hold", "--because", "it WAS charged, the receipt comes on Monday", "--by", "anna", "--yes")


def _anna_keeps_one(payments: Payments) -> None:
    """Four payments are held by one outage; of the second a person has found out that it was charged."""
    _some_are_held(payments)
    assert payments.run("resolve", payments.token("p-1"), *HELD_BY_ANNA).exit_code == 0


def _decided_by_a_person(payments: Payments) -> None:
    _anna_keeps_one(payments)
    before = payments.row("p-1")
    ran = payments.run("redrive", *SURE)
    assert ran.exit_code == 0
    assert "3 released, 1 skipped" in output_of(ran)
    assert "by anna: it WAS charged, the receipt comes on Monday" in output_of(ran)
    assert _states(payments) == [State.RELEASED, State.HELD, State.RELEASED, State.RELEASED]
    assert payments.row("p-1") == before
    assert not payments.deliver("p-1")
    assert payments.asked.count("p-1") == 1


def test_what_a_person_decided_is_skipped(each: Payments) -> None:
    """It stays held, with the note; the others of the outage are released."""
    _decided_by_a_person(each)


def test_twin_that_asks_for_no_decision(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the guard the second payment is charged again."""
    monkeypatch.setattr(decisions, "decided_by_person", lambda _: False)
    with pytest.raises(AssertionError):
        _decided_by_a_person(payments)


def test_also_decided_releases_what_a_person_held(payments: Payments) -> None:
    """And the list shows who decided what, before they are asked."""
    _anna_keeps_one(payments)
    dry = payments.run("redrive", "--also-decided", "--because", "x", "--dry-run", "--output", "json")
    by = [[decision["by"] for decision in row["decisions"]] for row in json.loads(dry.stdout)]
    assert by == [[], ["anna"], [], []]
    ran = payments.run("redrive", "--also-decided", *SURE)
    assert ran.exit_code == 0
    assert "by anna: it WAS charged" in output_of(ran)
    assert "4 released" in output_of(ran)
    assert _states(payments) == [State.RELEASED] * 4


def test_a_skipped_token_is_a_row_of_the_data(payments: Payments) -> None:
    """With its outcome, and the decision that stands."""
    _anna_keeps_one(payments)
    ran = payments.run("redrive", "--output", "json", *SURE)
    rows = {row["key"]: row for row in json.loads(ran.stdout)}
    assert {key: row["outcome"] for key, row in rows.items()} == {
        "p-0": "released",
        "p-1": "skipped",
        "p-2": "released",
        "p-3": "released",
    }
    (decision,) = rows["p-1"]["decisions"]
    assert (decision["kind"], decision["by"], decision["stands"]) == ("person", "anna", True)
    assert rows["p-0"]["decisions"] == []


def test_only_decided_ones_are_nothing_to_release(payments: Payments) -> None:
    """They are listed, without a question, and the exit code is 0."""
    payments.hold("p-1")
    assert payments.run("resolve", payments.token("p-1"), *HELD_BY_ANNA).exit_code == 0
    ran = payments.run("redrive", "--because", "x")
    assert ran.exit_code == 0
    assert "no other matching token is held" in output_of(ran)
    assert "anna" in output_of(ran)


def test_a_decision_ends_with_the_next_attempt(payments: Payments) -> None:
    """Released by a person, delivered, and held by the outage again: that is not decided."""
    payments.hold("p-0")
    assert payments.run("resolve", payments.token("p-0"), "--not-done", *SURE).exit_code == 0
    payments.hold("p-0")
    assert payments.row("p-0").decisions
    ran = payments.run("redrive", *SURE)
    assert "(an attempt has run since)" in output_of(ran)
    assert "1 released" in output_of(ran)


def test_what_the_watchdog_held_is_released(payments: Payments) -> None:
    """Its decision is no person's."""
    payments.hold("p-0")
    hold = decided(
        payments.row("p-0"),
        Resolve.HOLD,
        Author("watchdog", "3 times", Decider.WATCHDOG),
        payments.clock.now(),
    )
    assert payments.operations.write(hold) is Written.WRITTEN
    assert "1 released" in output_of(payments.run("redrive", *SURE))


def test_newer_than_selects_by_acquisition(payments: Payments) -> None:
    """What was acquired within the time that was asked for."""
    _some_are_held(payments)
    assert "2 released" in output_of(payments.run("redrive", "--newer-than", "150m", *SURE))
    assert _states(payments) == [State.HELD, State.HELD, State.RELEASED, State.RELEASED]


def test_the_list_shows_the_last_decision(payments: Payments) -> None:
    """Who and why, as text and as data; the index alone does not have it."""
    _anna_keeps_one(payments)
    listed = output_of(payments.run("list", "--held"))
    assert "decided" in listed
    assert "hold by anna: it WAS charged, the receipt comes on Monday" in listed
    rows = {row["key"]: row for row in json.loads(payments.run("list", "--held", "--output", "json").stdout)}
    (decision,) = rows["p-1"]["decisions"]
    assert decision == {
        "at": "2026-11-20T14:12:00.000Z",
        "kind": "person",
        "by": "anna",
        "caller": None,
        "because": "it WAS charged, the receipt comes on Monday",
        "before": "held",
        "decision": "hold",
        "attempt": payments.row("p-1").attempt_id,
        "times": 1,
        "stands": True,
    }
    assert rows["p-0"]["decisions"] == []
    assert json.loads(payments.run("list", "--output", "json").stdout)[1]["decisions"] == [decision]
    assert "hold by anna" in output_of(payments.run("list"))
