from __future__ import annotations

import getpass
import json
import re
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import click
import pytest

from lambda_once import Misconfigured, StoredError
from lambda_once.core.lifecycle import Failure, Record, Resolve, State
from lambda_once.core.results import Inline, Parts
from lambda_once.operations.decisions import Author, decided
from lambda_once.operations.table import TokenTable
from lambda_once.stores.contract import Refused, Unanswered
from lambda_once.stores.requests import part_keys
from lambda_once_tools.cli import decisions, options
from tests.operations.payments import (
    LEASE,
    Declined,
    Payments,
    Timeout,
    open_each,
    open_payments,
    output_of,
)

__all__ = ["open_each", "open_payments"]

BECAUSE = ("--because", "seen at the provider", "--by", "ann")
SURE = (*BECAUSE, "--yes")


def _file(tmp_path: Any, text: str | bytes) -> str:
    path = tmp_path / "result.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def test_done_stores_the_result(payments: Payments, tmp_path: Any) -> None:
    """It is stored as JSON, with who said so and why, and for 28 days."""
    token = payments.hold("p-1")
    before = payments.row("p-1")
    given = _file(tmp_path, '{ "chargeId": "ch_5",\n "amount": 0 }')
    ran = payments.run("resolve", token, "--done", "--result", given, *SURE)
    assert ran.exit_code == 0
    row = payments.row("p-1")
    assert (row.state, row.stored) == (State.COMPLETE, Inline('{"chargeId":"ch_5","amount":0}'))
    assert (row.error, row.fence) == (None, before.fence + 1)
    assert row.attempt_id != before.attempt_id
    (decision,) = row.decisions
    assert (decision.by, decision.because) == ("ann", "seen at the provider")
    assert row.ttl == int((payments.clock.now() + timedelta(days=28)).timestamp())


def test_every_digit_of_a_result_is_kept(payments: Payments, tmp_path: Any) -> None:
    """It is stored as it was written, but for the blanks between its tokens."""
    token = payments.hold("p-1")
    text = '\ufeff{ "id" : 12345678901234567890.12345678901234567890,\n"e": 1E-4, "text": "a \\" b\\\\" }\n'
    ran = payments.run("resolve", token, "--done", "--result", _file(tmp_path, text), *SURE)
    assert ran.exit_code == 0, output_of(ran)
    assert payments.row("p-1").stored == Inline(
        '{"id":12345678901234567890.12345678901234567890,"e":1E-4,"text":"a \\" b\\\\"}'
    )


@pytest.mark.parametrize("value", ["0", "{}", "[]", '""', "false", "null"])
def test_falsy_results_are_results(payments: Payments, tmp_path: Any, value: str) -> None:
    """Each comes back to duplicates as it was given."""
    token = payments.hold("p-1")
    assert payments.run("resolve", token, "--done", "--result", _file(tmp_path, value), *SURE).exit_code == 0
    assert payments.ask("p-1") == json.loads(value)
    assert type(payments.ask("p-1")) is type(json.loads(value))
    assert payments.asked == ["p-1"]


def test_a_large_result_is_stored_in_parts(payments: Payments, tmp_path: Any) -> None:
    """Under the attempt id of the resolution, so that duplicates find them."""
    token = payments.hold("p-1")
    large = json.dumps([hex(hash((n, "x"))) for n in range(60_000)])
    assert payments.run("resolve", token, "--done", "--result", _file(tmp_path, large), *SURE).exit_code == 0
    assert isinstance(payments.row("p-1").stored, Parts)
    assert payments.ask("p-1") == json.loads(large)


def test_without_a_result_duplicates_get_none(payments: Payments) -> None:
    """And the command says so."""
    ran = payments.run("resolve", payments.hold("p-1"), "--done", *SURE)
    assert "it gets None (no result was given)" in output_of(ran)
    assert payments.ask("p-1") is None


def test_a_result_may_come_by_standard_input(payments: Payments) -> None:
    """It cannot be used to confirm then, so --yes is required."""
    token = payments.hold("p-1")
    refused = payments.run("resolve", token, "--done", "--result", "-", *BECAUSE, stdin="5")
    assert refused.exit_code == 2
    assert "--yes" in output_of(refused)
    assert payments.run("resolve", token, "--done", "--result", "-", *SURE, stdin="5").exit_code == 0
    assert payments.row("p-1").stored == Inline("5")


def test_not_done_lets_the_next_delivery_run(payments: Payments) -> None:
    """The row is released, and keeps its last error."""
    token = payments.hold("p-1")
    ran = payments.run("resolve", token, "--not-done", *SURE)
    assert ran.exit_code == 0
    assert "runs, as a new attempt" in output_of(ran)
    assert "redrive that queue" in output_of(ran)
    row = payments.row("p-1")
    assert row.state is State.RELEASED
    assert row.error is not None
    assert payments.deliver("p-1")
    assert payments.asked == ["p-1", "p-1"]


def test_failed_stores_the_reason(payments: Payments) -> None:
    """They raise a stored error of kind Failed, and nothing runs again."""
    token = payments.hold("p-1")
    ran = payments.run("resolve", token, "--failed", *SURE)
    assert ran.exit_code == 0
    assert "does not run again; it gets StoredError (Failed, with the reason)" in output_of(ran)
    row = payments.row("p-1")
    assert (row.state, row.error) == (State.COMPLETE, Failure("Failed", "seen at the provider"))
    assert row.ttl == int((payments.clock.now() + timedelta(days=28)).timestamp())
    answer = payments.ask("p-1")
    assert isinstance(answer, StoredError)
    assert type(answer).__name__ == "Failed"
    assert "seen at the provider" in str(answer)
    assert payments.asked == ["p-1"]
    shown = payments.run("show", token)
    assert shown.exit_code == 0
    assert (
        "ann (identity unverified) resolved it as failed for good (it was held): seen at the provider"
        in output_of(shown)
    )


@pytest.mark.parametrize(
    ("option", "line"),
    [
        ("--done", ": does not run again; it gets None (no result was given) until "),
        ("--not-done", ": runs, as a new attempt"),
        ("--failed", ": does not run again; it gets StoredError"),
        ("--hold", ": is refused (Held) until the token is resolved"),
    ],
)
def test_a_dry_run_prints_what_the_next_delivery_gets(payments: Payments, option: str, line: str) -> None:
    """As the real run does, that is what it is asked for; but if it were written."""
    token = payments.hold("p-1")
    before = payments.row("p-1")
    dry = payments.run("resolve", token, option, "--dry-run", *BECAUSE)
    assert f"next delivery, if it were written{line}" in output_of(dry)
    assert payments.row("p-1") == before
    assert f"next delivery{line}" in output_of(payments.run("resolve", token, option, *SURE))


DONE_THINGS = re.compile(
    r"resolved it|(?<!be )(?:resolved|released) as|released it|decided to hold|had it forgotten|changed until"
    r"|duplicates (?:get|are|run|RUN)|: deleted"
)
"""What reads as if it were done."""
PLANS = {
    "done": (["resolve", "--done"], "would be resolved as done (it is held): seen at the provider"),
    "not done": (["resolve", "--not-done"], "would be released as not done (it is held): seen"),
    "failed": (["resolve", "--failed"], "would be resolved as failed for good (it is held): seen"),
    "hold": (["resolve", "--hold"], "would be held (it is held): seen"),
    "forget": (["forget"], "what it stores would be forgotten (it is held): seen"),
}
BEFORE = {"resolve": "resolved it|released it|decided to hold", "forget": "had it forgotten"}


@pytest.mark.parametrize(("command", "plan"), PLANS.values(), ids=PLANS)
@pytest.mark.parametrize("stopped", ["dry run", "no terminal", "declined", "denied", "changed", "unanswered"])
def test_nothing_is_done_before_it_is_written(
    payments: Payments, monkeypatch: pytest.MonkeyPatch, command: list[str], plan: str, stopped: str
) -> None:
    """What was planned is in the conditional, and nothing else is said of a write that didn't succeed."""
    token = payments.hold("p-1")
    given = {"dry run": ["--dry-run"], "no terminal": [], "declined": []}.get(stopped, ["--yes"])
    monkeypatch.setattr(options, "is_terminal", lambda: stopped == "declined")
    answer = {"denied": Misconfigured("no"), "changed": Refused(None), "unanswered": Unanswered("timed out")}
    if stopped in answer:
        monkeypatch.setattr(TokenTable, "write", lambda *_: answer[stopped])
    before = payments.row("p-1")
    name, *how = command
    ran = payments.run(name, token, *how, *BECAUSE, *given, stdin="n\n")
    assert f"{token}: {plan}" in output_of(ran)
    assert not DONE_THINGS.search(ran.output)
    assert ran.exit_code == {"dry run": 0, "declined": 1, "changed": 1}.get(stopped, 2)
    assert payments.row("p-1") == before


@pytest.mark.parametrize(("command", "plan"), PLANS.values(), ids=PLANS)
def test_what_was_done_is_said_behind_the_write(payments: Payments, command: list[str], plan: str) -> None:
    """The twin: who decided what, in the past, below the plan."""
    name, *how = command
    token = payments.hold("p-1")
    ran = payments.run(name, token, *how, *SURE)
    assert ran.exit_code == 0
    lines = ran.stderr.splitlines()
    (planned,) = (number for number, line in enumerate(lines) if line.startswith(f"{token}: {plan}"))
    (done,) = (number for number, line in enumerate(lines) if re.search(BEFORE[name], line))
    assert planned < done
    assert lines[done].startswith(f"{token}: ann (identity unverified) ")
    assert lines[done].endswith("(it was held): seen at the provider")


def test_the_plan_has_the_state_that_is_shown(payments: Payments) -> None:
    """Overdue, not in progress: nobody would resolve what is being worked on."""
    payments.provider = _crashing
    with pytest.raises(KeyboardInterrupt):
        payments.deliver("p-1")
    _leave_in_progress(payments, "p-1")
    payments.clock.advance(LEASE + 1)
    token = payments.token("p-1")
    ran = payments.run("resolve", token, "--not-done", *BECAUSE, "--dry-run")
    assert f"{token}: would be released as not done (it is overdue): seen" in output_of(ran)


def test_a_token_that_is_complete_is_planned_for_too(payments: Payments) -> None:
    """Kept, given another result, and deleted: what duplicates would get, and what would be lost."""
    payments.ask("p-1")
    token = payments.token("p-1")
    before = payments.row("p-1")
    for command, plan in {
        ("resolve", "--keep", "28d"): "its outcome would be kept until another time (it is complete)",
        ("resolve", "--done", "--force"): "would be resolved as done (it is complete)",
        ("forget", "--row"): "its row would be deleted, with the key (it is complete)",
    }.items():
        name, *how = command
        ran = payments.run(name, token, *how, *BECAUSE, "--dry-run")
        assert ran.exit_code == 0, output_of(ran)
        assert plan in output_of(ran)
        assert "duplicates would " in output_of(ran)
        assert not DONE_THINGS.search(ran.output)
        assert payments.row("p-1") == before
    ran = payments.run("resolve", token, "--not-done", "--force", "--drop-result", *BECAUSE, "--dry-run")
    assert "WARNING: its stored result would be lost" in output_of(ran)


def test_what_is_overdue_can_be_held(payments: Payments) -> None:
    """Its lease has expired, and nothing runs until it is resolved."""
    payments.provider = _crashing
    with pytest.raises(KeyboardInterrupt):
        payments.deliver("p-1")
    _leave_in_progress(payments, "p-1")
    payments.clock.advance(LEASE + 1)
    assert payments.run("resolve", payments.token("p-1"), "--hold", *SURE).exit_code == 0
    row = payments.row("p-1")
    assert (row.state, row.ttl) == (State.HELD, None)
    assert row.error is not None
    assert (row.error.kind, row.error.message) == ("Held", "seen at the provider")


def _crashing(_payment: str) -> Any:
    raise KeyboardInterrupt


def _leave_in_progress(payments: Payments, payment: str) -> None:
    """Turn the row into what a killed function leaves."""
    payments.client.update_item(
        TableName=payments.table,
        Key={"lockToken": {"S": payments.token(payment)}},
        UpdateExpression="SET #status = :status REMOVE actualCompletion, #error",
        ExpressionAttributeNames={"#status": "status", "#error": "error"},
        ExpressionAttributeValues={":status": {"S": "inProgress"}},
    )


def _in_progress(payments: Payments) -> str:
    token = payments.hold("p-1")
    _leave_in_progress(payments, "p-1")
    return token


def _complete(payments: Payments) -> str:
    assert payments.deliver("p-1")
    return payments.token("p-1")


def _released(payments: Payments) -> str:
    token = payments.hold("p-1")
    assert payments.run("resolve", token, "--not-done", *SURE).exit_code == 0
    return token


@pytest.mark.parametrize(
    ("bring", "why"),
    [
        (_in_progress, "an attempt may be running"),
        (_complete, "duplicates get its outcome"),
        (_released, "the next delivery runs"),
    ],
)
def test_force_is_required_unless_overdue_or_held(
    payments: Payments, bring: Callable[[Payments], str], why: str
) -> None:
    """Without it nothing is written."""
    token = bring(payments)
    before = payments.row("p-1")
    refused = payments.run("resolve", token, "--done", *SURE)
    assert refused.exit_code == 1
    assert why in output_of(refused)
    assert "--force" in output_of(refused)
    assert payments.row("p-1") == before
    assert payments.run("resolve", token, "--hold", "--force", "--drop-result", *SURE).exit_code == 0
    assert payments.row("p-1").state is State.HELD


def test_another_attempt_than_the_given_one_is_refused_at_once(payments: Payments) -> None:
    """`--attempt` is what `show` had printed."""
    token = payments.hold("p-1")
    before = payments.row("p-1")
    refused = payments.run("resolve", token, "--done", "--attempt", "0" * 32, *SURE)
    assert refused.exit_code == 1
    assert before.attempt_id in output_of(refused)
    assert payments.row("p-1") == before
    assert payments.run("resolve", token, "--done", "--attempt", before.attempt_id, *SURE).exit_code == 0


def _resolved_by_another_operator(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """Let another operator release the token between the look and the write of this one."""
    original = TokenTable.write
    seen: list[Record] = []

    def late(table: TokenTable, write: Any) -> Any:
        if not seen:
            seen.append(payments.row("p-1"))
            earlier = decided(seen[0], Resolve.NOT_DONE, Author("bob", "by phone"), payments.clock.now())
            original(table, earlier)
        return original(table, write)

    monkeypatch.setattr(TokenTable, "write", late)
    return seen


def test_a_row_that_has_changed_is_shown_as_it_was_and_is(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written, both states are shown, and the exit code is 1."""
    token = payments.hold("p-1")
    held = _resolved_by_another_operator(payments, monkeypatch)
    refused = payments.run("resolve", token, "--done", *SURE)
    assert refused.exit_code == 1
    text = output_of(refused)
    assert "as shown" in text
    assert "now" in text
    assert "by phone" in text
    row = payments.row("p-1")
    assert {held[0].attempt_id, row.attempt_id} <= set(text.split())
    assert row.state is State.RELEASED


def test_a_refusal_as_json_has_both_states(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the names of the row's attributes."""
    token = payments.hold("p-1")
    _resolved_by_another_operator(payments, monkeypatch)
    refused = payments.run("resolve", token, "--done", "--output", "json", *SURE)
    outcome = json.loads(refused.stdout)
    assert (refused.exit_code, outcome["written"]) == (1, False)
    assert (outcome["shown"]["status"], outcome["now"]["status"]) == ("held", "released")
    assert outcome["now"]["decisions"][-1]["by"] == "bob"


def test_twin_without_the_condition_two_operators_overwrite_each_other(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later one would not even notice."""
    from lambda_once.stores import requests

    token = payments.hold("p-1")
    _resolved_by_another_operator(payments, monkeypatch)
    anything = (
        "(attempt = :seen OR attribute_exists(lockToken)) AND (expectedCompletion = :lease OR :held = :held)"
    )
    monkeypatch.setattr(requests, "HELD_AS_SEEN", anything)
    assert payments.run("resolve", token, "--done", *SURE).exit_code == 0
    assert payments.row("p-1").state is State.COMPLETE


def test_an_unanswered_write_exits_with_2(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have been written: the command says how to tell."""
    token = payments.hold("p-1")
    monkeypatch.setattr(TokenTable, "write", lambda *_: Unanswered("timed out"))
    ran = payments.run("resolve", token, "--done", *SURE)
    assert ran.exit_code == 2
    assert f"lambda-once show {token} prints attempt" in output_of(ran)


def test_a_dry_run_writes_nothing(payments: Payments) -> None:
    """It shows the row and says what would be written."""
    token = payments.hold("p-1")
    before = payments.row("p-1")
    ran = payments.run("resolve", token, "--done", "--dry-run", *BECAUSE)
    assert ran.exit_code == 0
    assert "nothing was written" in output_of(ran)
    assert payments.row("p-1") == before


@pytest.mark.parametrize(("answer", "state", "code"), [("y\n", State.COMPLETE, 0), ("n\n", State.HELD, 1)])
def test_a_person_is_asked(
    payments: Payments, monkeypatch: pytest.MonkeyPatch, answer: str, state: State, code: int
) -> None:
    """What they have seen is written if they say yes."""
    token = payments.hold("p-1")
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    ran = payments.run("resolve", token, "--done", *BECAUSE, stdin=answer)
    assert ran.exit_code == code
    assert payments.row("p-1").state is state


def test_a_row_that_changes_while_a_person_thinks_is_refused(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written is conditional on what was shown, not on what is there when they say yes."""
    token = payments.hold("p-1")

    def meanwhile(_question: str, **_: Any) -> bool:
        assert payments.run("resolve", token, "--not-done", *SURE).exit_code == 0
        return True

    monkeypatch.setattr(options, "is_terminal", lambda: True)
    monkeypatch.setattr(click, "confirm", meanwhile)
    ran = payments.run("resolve", token, "--done", *BECAUSE)
    assert ran.exit_code == 1
    assert "now" in output_of(ran)
    assert payments.row("p-1").state is State.RELEASED


def test_without_a_terminal_yes_is_required(payments: Payments) -> None:
    """A script has to say --yes."""
    ran = payments.run("resolve", payments.hold("p-1"), "--done", *BECAUSE)
    assert ran.exit_code == 2
    assert "--yes" in output_of(ran)
    assert payments.row("p-1").state is State.HELD


def test_as_json_the_data_alone_is_on_standard_output(payments: Payments) -> None:
    """Messages go to standard error."""
    ran = payments.run("resolve", payments.hold("p-1"), "--not-done", "--output", "json", *SURE)
    outcome = json.loads(ran.stdout)
    assert set(outcome) == {"lockToken", "decision", "written", "shown", "now", "nextDelivery", "redrive"}
    assert (outcome["decision"], outcome["written"]) == ("not-done", True)
    assert outcome["nextDelivery"] == (
        "runs, as a new attempt; under history=, only if the old version has not done it"
    )
    assert "next delivery" in ran.stderr


@pytest.mark.parametrize(
    ("result", "shown"),
    [("5", "JSON, 1 byte"), ('"ch_5"', "JSON, 6 bytes"), ("null", "null"), (None, "null")],
)
def test_the_result_is_shown_by_kind_and_size(
    payments: Payments, tmp_path: Any, result: str | None, shown: str
) -> None:
    """What isn't there is "nothing", and what is there no bare word."""
    token = payments.hold("p-1")
    given = [] if result is None else ["--result", _file(tmp_path, result)]
    ran = payments.run("resolve", token, "--done", *given, *SURE)
    (line,) = (line for line in ran.stdout.splitlines() if line.startswith("result"))
    assert line.split(maxsplit=1)[1] == f"nothing → {shown}"


def test_a_large_result_is_shown_by_its_parts(payments: Payments, tmp_path: Any) -> None:
    """They are rows of their own."""
    large = json.dumps([hex(hash((n, "x"))) for n in range(60_000)])
    ran = payments.run("resolve", payments.hold("p-1"), "--done", "--result", _file(tmp_path, large), *SURE)
    assert re.search(r"^result +nothing → in \d parts? beside the row$", ran.stdout, re.MULTILINE)


def test_the_result_is_never_printed(payments: Payments, tmp_path: Any) -> None:
    """Not in any form of output."""
    for form in ("table", "json", "jsonl"):
        token = payments.hold(f"p-{form}")
        given = _file(tmp_path, '{"secret": "open sesame"}')
        ran = payments.run("resolve", token, "--done", "--result", given, "--output", form, *SURE)
        assert ran.exit_code == 0
        assert "open sesame" not in ran.output


def test_the_identity_by_sts_is_kept_beside_the_name(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is free text; the credentials are not. Without an answer it is unverified."""
    arn = "arn:aws:sts::123456789012:assumed-role/on-call/carol"
    token = payments.hold("p-1")
    monkeypatch.setattr(options, "caller_arn", lambda *_: arn)
    assert payments.run("resolve", token, "--hold", *SURE).exit_code == 0
    monkeypatch.setattr(options, "caller_arn", lambda *_: None)
    assert payments.run("resolve", token, "--not-done", *SURE).exit_code == 0
    assert [decision.caller for decision in payments.row("p-1").decisions] == [arn, None]
    shown = output_of(payments.run("show", token))
    assert f"ann ({arn}) decided to hold it (it was held)" in shown
    assert "ann (identity unverified) released it as not done (it was held)" in shown


def test_by_defaults_to_the_user_name(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the machine knows them."""
    monkeypatch.setattr(getpass, "getuser", lambda: "carol")
    assert (
        payments.run("resolve", payments.hold("p-1"), "--done", "--because", "seen", "--yes").exit_code == 0
    )
    assert [decision.by for decision in payments.row("p-1").decisions] == ["carol"]


def test_without_a_user_name_by_is_required(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container."""

    def unknown() -> str:
        raise OSError("No username set in the environment")

    monkeypatch.setattr(getpass, "getuser", unknown)
    ran = payments.run("resolve", payments.hold("p-1"), "--done", "--because", "seen", "--yes")
    assert ran.exit_code == 2
    assert "--by NAME" in output_of(ran)


def test_a_short_keep_is_warned_about(payments: Payments) -> None:
    """A message may wait for longer."""
    ran = payments.run("resolve", payments.hold("p-1"), "--done", "--keep", "1h", *SURE)
    assert "WARNING" in output_of(ran)
    assert payments.row("p-1").ttl == int((payments.clock.now() + timedelta(hours=1)).timestamp())


def test_a_response_without_status_code_is_warned_about(payments: Payments, tmp_path: Any) -> None:
    """Where the scope is that of an API's request: a method and a path."""
    item = payments.client.get_item(TableName=payments.table, Key={"lockToken": {"S": payments.hold("p-1")}})[
        "Item"
    ]
    token = "shop/api/POST:%2Forders/k-1"
    payments.client.put_item(TableName=payments.table, Item=item | {"lockToken": {"S": token}})
    ran = payments.run("resolve", token, "--done", "--dry-run", *BECAUSE)
    assert "statusCode" in output_of(ran)
    response = _file(tmp_path, '{"statusCode": 200, "body": "{}"}')
    ran = payments.run("resolve", token, "--done", "--result", response, "--dry-run", *BECAUSE)
    assert "statusCode" not in output_of(ran)


BAD = {
    "no decision": ([], "--done, --not-done, --failed, --hold"),
    "two decisions": (["--done", "--hold"], "--done, --not-done, --failed, --hold"),
    "done and failed": (["--done", "--failed"], "--done, --not-done, --failed, --hold"),
    "a result of nothing": (["--not-done", "--result", "x.json"], "--done"),
    "a ttl of what is held": (["--hold", "--keep", "1d"], "never expires"),
    "no duration": (["--done", "--keep", "fortnight"], "14d"),
    "no time at all": (["--done", "--keep", "0s"], "ten years"),
    "a lifetime": (["--done", "--keep", "99999d"], "ten years"),
    "the watchdog's name": (["--done", "--by", "watchdog"], "the name of a person"),
    "no reason": (["--done", "--because", " "], "--because is empty"),
    "a book": (["--done", "--because", "x" * 2_000], "at most 256"),
    "no file": (["--done", "--result", "/nowhere/x.json"], "cannot be read"),
    "nothing to keep": (["--keep", "28d"], "--keep alone is for a complete token"),
}


@pytest.mark.parametrize(("options", "expected"), BAD.values(), ids=BAD.keys())
def test_bad_options_are_one_line(payments: Payments, options: list[str], expected: str) -> None:
    """Exit code 2, what is wrong, and nothing written."""
    token = payments.hold("p-1")
    before = payments.row("p-1")
    ran = payments.run("resolve", token, *SURE, *options)
    assert ran.exit_code == 2
    assert ran.stdout == ""
    assert expected in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert payments.row("p-1") == before


MALFORMED: dict[str, tuple[bytes, str]] = {
    "cut off": (b'{"a": 1,\n "b": }', "line 2, column 7"),
    "empty": (b"", "line 1, column 1"),
    "no number": (b'{"a": NaN}', "NaN is not JSON"),
    "too large a number": (b"[1e400]", "cannot be a result"),
    "no UTF-8": (b'"\xff"', "not UTF-8"),
    "a well": (b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize(("data", "expected"), MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_result_is_one_line(
    payments: Payments, tmp_path: Any, data: bytes, expected: str
) -> None:
    """It names the file, and where in it."""
    token = payments.hold("p-1")
    path = _file(tmp_path, data)
    ran = payments.run("resolve", token, "--done", "--result", path, *SURE)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert path in ran.stderr
    assert expected in ran.stderr
    assert len(ran.stderr.splitlines()) == 1
    assert payments.row("p-1").state is State.HELD


def test_a_result_over_the_limit_is_not_read_to_its_end(
    payments: Payments, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says what the limit is."""
    monkeypatch.setattr(decisions, "TEXT_LIMIT", 1_000)
    ran = payments.run(
        "resolve", payments.hold("p-1"), "--done", "--result", _file(tmp_path, '"' + "x" * 2_000 + '"'), *SURE
    )
    assert ran.exit_code == 2
    assert "exceeds the limit of 1,000 bytes" in ran.stderr


def test_terminal_escapes_in_errors_are_escaped(payments: Payments) -> None:
    """Escapes in the message of an exception are shown, not sent."""

    def hostile(_payment: str) -> Any:
        raise Timeout("\x1b[2Jno answer\r")

    payments.provider = hostile
    payments.ask("p-1")
    ran = payments.run("resolve", payments.token("p-1"), "--done", "--dry-run", *BECAUSE)
    assert "\x1b" not in ran.output
    assert "\\x1b[2Jno answer\\r" in ran.output


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("shop/charge/p-9", "lambda-once show p-9 finds the token of a key"),
        ("shop/charge/a@b.example", "lambda-once show a@b.example finds"),
        ("p-9", "lambda-once show p-9 finds the token of a key"),
        ("shop/charge/p-1#a#0", "lambda-once show 'shop/charge/p-1#a#0' finds"),
        ("", "TOKEN is empty"),
    ],
)
def test_an_unknown_token_is_one_line(payments: Payments, token: str, expected: str) -> None:
    """With the command that finds the token of a key."""
    payments.hold("p-1")
    ran = payments.run("resolve", token, "--done", *SURE)
    assert ran.exit_code == (1 if token else 2)
    assert expected in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


# -- results that are there


LARGE = [hex(hash((n, "large"))) for n in range(40_000)]
RESULTS = {"in the row": {"chargeId": "ch_5"}, "in parts": LARGE}
KEEPING = {
    "keep": ("--keep", "28d"),
    "done": ("--done", "--force"),
    "done and keep": ("--done", "--keep", "28d", "--force"),
}
DROPPING = {
    "not done": ("--not-done",),
    "hold": ("--hold",),
    "failed": ("--failed",),
    "another result": ("--done", "--result", "-"),
}


def _charged(payments: Payments, result: Any) -> Record:
    payments.provider = lambda _: result
    assert payments.ask("p-1") == result
    payments.clock.advance(60)
    return payments.row("p-1")


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("options", KEEPING.values(), ids=KEEPING)
def test_a_result_that_is_there_is_kept(each: Payments, result: Any, options: Sequence[str]) -> None:
    """Only the time until which it is replayed changes: attempt, write and result stay."""
    payments = each
    before = _charged(payments, result)
    ran = payments.run("resolve", payments.token("p-1"), *options, *SURE)
    assert ran.exit_code == 0, output_of(ran)
    row = payments.row("p-1")
    assert row == before._replace(ttl=row.ttl, decisions=row.decisions, fence=before.fence + 1)
    assert row.ttl == int((payments.clock.now() + timedelta(days=28)).timestamp())
    payments.clock.advance(27 * 86_400)
    assert payments.ask("p-1") == result
    assert json.loads(payments.run("show", payments.token("p-1"), "--result").stdout) == result
    assert payments.asked == ["p-1"]
    shown = output_of(payments.run("show", payments.token("p-1")))
    assert "ann (identity unverified)" in shown
    assert "gets the stored outcome" in output_of(ran)


def test_done_without_a_time_does_not_shorten(payments: Payments) -> None:
    """28 days is the default of what is kept for less."""
    _charged(payments, 5)
    assert payments.run("resolve", payments.token("p-1"), "--keep", "90d", *SURE).exit_code == 0
    assert payments.run("resolve", payments.token("p-1"), "--done", "--force", *SURE).exit_code == 0
    assert payments.row("p-1").ttl == int((payments.clock.now() + timedelta(days=90)).timestamp())


def test_a_stored_error_is_kept_by_keep_alone(payments: Payments) -> None:
    """`--done` says something else than the row: that it was done."""
    payments.provider = _declines
    payments.ask("p-1")
    error = payments.row("p-1").error
    ran = payments.run("resolve", payments.token("p-1"), "--keep", "28d", *SURE)
    assert ran.exit_code == 0
    assert "duplicates would get: the error Declined" in output_of(ran)
    assert payments.row("p-1").error == error
    assert payments.run("resolve", payments.token("p-1"), "--done", "--force", *SURE).exit_code == 0
    assert payments.row("p-1").error is None


def _declines(_payment: str) -> Any:
    raise Declined("no")


@pytest.mark.parametrize("result", RESULTS.values(), ids=RESULTS)
@pytest.mark.parametrize("options", DROPPING.values(), ids=DROPPING)
def test_a_result_is_dropped_only_on_request(payments: Payments, result: Any, options: Sequence[str]) -> None:
    """Forced alone it is refused, with the command that saves it; --drop-result warns, and writes."""
    before = _charged(payments, result)
    refused = payments.run("resolve", payments.token("p-1"), *options, "--force", *SURE, stdin="6")
    assert refused.exit_code == 1
    assert "its stored result would be lost" in output_of(refused)
    assert "lambda-once show shop/charge/p-1 --result > backup.json" in output_of(refused)
    assert "--drop-result" in output_of(refused)
    assert payments.row("p-1") == before
    ran = payments.run(
        "resolve", payments.token("p-1"), *options, "--force", "--drop-result", *SURE, stdin="6"
    )
    assert ran.exit_code == 0
    assert "lambda-once show shop/charge/p-1 --result > backup.json" in output_of(ran)
    assert payments.row("p-1").attempt_id != before.attempt_id
    assert payments.row("p-1").stored == (Inline("6") if "--result" in options else None)


def test_drop_result_alone_forces_nothing(payments: Payments) -> None:
    """It says what may be lost, not that a finished token may be resolved."""
    before = _charged(payments, 5)
    refused = payments.run("resolve", payments.token("p-1"), "--not-done", "--drop-result", *SURE)
    assert (refused.exit_code, "--force" in output_of(refused)) == (1, True)
    assert payments.row("p-1") == before


def test_what_has_no_result_loses_none(payments: Payments) -> None:
    """None can be given again by `--done`."""
    _charged(payments, None)
    assert payments.run("resolve", payments.token("p-1"), "--not-done", "--force", *SURE).exit_code == 0


def test_a_dropped_result_can_be_restored(payments: Payments, tmp_path: Any) -> None:
    """By what `show --result` had saved, as the refusal says."""
    _charged(payments, {"chargeId": "ch_5"})
    saved = payments.run("show", payments.token("p-1"), "--result").stdout
    forced = ("--force", "--drop-result")
    assert payments.run("resolve", payments.token("p-1"), "--not-done", *forced, *SURE).exit_code == 0
    backup = _file(tmp_path, saved)
    assert (
        payments.run("resolve", payments.token("p-1"), "--done", "--result", backup, *forced, *SURE).exit_code
        == 0
    )
    assert payments.ask("p-1") == {"chargeId": "ch_5"}
    assert payments.asked == ["p-1"]


def test_a_missing_part_is_a_warning(payments: Payments) -> None:
    """The row is kept, for nothing may run again; what a duplicate gets is said."""
    before = _charged(payments, LARGE)
    (first, *_) = part_keys(before, 1)
    payments.client.delete_item(TableName=payments.table, Key=first)
    ran = payments.run("resolve", payments.token("p-1"), "--keep", "28d", *SURE)
    assert ran.exit_code == 0
    assert "WARNING: parts of its result are missing" in output_of(ran)


def test_a_keep_is_refused_after_another_one(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that was shown has changed, though it has the same attempt."""
    _charged(payments, 5)
    token = payments.token("p-1")

    def meanwhile(_question: str, **_: Any) -> bool:
        assert payments.run("resolve", token, "--keep", "90d", *SURE).exit_code == 0
        return True

    monkeypatch.setattr(options, "is_terminal", lambda: True)
    monkeypatch.setattr(click, "confirm", meanwhile)
    ran = payments.run("resolve", token, "--keep", "1d", "--because", "x")
    assert (ran.exit_code, "the row has changed since it was shown" in output_of(ran)) == (1, True)
    assert payments.row("p-1").ttl == int((payments.clock.now() + timedelta(days=90)).timestamp())


def test_a_keep_as_data(payments: Payments) -> None:
    """Under the same names as every decision."""
    _charged(payments, 5)
    ran = payments.run("resolve", payments.token("p-1"), "--keep", "1d", "--output", "json", *SURE)
    outcome = json.loads(ran.stdout)
    assert (outcome["decision"], outcome["written"]) == ("keep", True)
    assert outcome["shown"]["attempt"] == outcome["now"]["attempt"]
    assert outcome["nextDelivery"].startswith("does not run again; it gets the stored outcome until ")
    assert "longer than --keep" in ran.stderr
