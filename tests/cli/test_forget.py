"""`lambda-once forget`: what a token stores is erased, the token stays."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_once.core.lifecycle import Decider, Record, Resolve, State
from lambda_once.core.results import Inline, Parts, Unavailable
from lambda_once.core.writes import Resolver, Write
from lambda_once.dynamodb.retry import Unprocessed
from lambda_once.errors import Held, Misconfigured, ResultUnavailable
from lambda_once.operations import table as table_module
from lambda_once.operations.decisions import FORGOTTEN, Author, decided, forget_objection
from lambda_once.operations.table import TokenTable
from lambda_once.stores import requests
from lambda_once.stores.contract import Refused, Unanswered, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once_tools.cli import decisions, options
from tests.operations.payments import Declined, Payments, output_of, payments_at

BECAUSE = ("--because", "request 77", "--by", "ann")
SURE = (*BECAUSE, "--yes")
NAME = "Ann Private"
LARGE = [NAME, *(hex(hash((n, "x"))) for n in range(60_000))]


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def payments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    """Payments on a table of the strict engine, and of dynoxide."""
    endpoint = request.getfixturevalue("engine_endpoint") if request.param == "engine" else None
    with payments_at(monkeypatch, endpoint) as found:
        yield found


def _charge(payments: Payments, result: Any) -> str:
    """Let the provider return *result* for the payment p-1; return its token."""
    payments.provider = lambda _: result
    assert payments.ask("p-1") == result
    return payments.token("p-1")


def _declines(_payment: str) -> Any:
    raise Declined(NAME)


def _stored(payments: Payments) -> str:
    """Return all rows of the table, parts included, as text."""
    items = payments.client.scan(TableName=payments.table, ConsistentRead=True)["Items"]
    # dynoxide 3.2.0 returns the attributes of an item in another order each time.
    return "\n".join(sorted(str(sorted(item.items())) for item in items))


def _is_erased(payments: Payments, before: Record) -> Record:
    """The row is as before but for what it stored, and who had it forgotten."""
    row = payments.row("p-1")
    assert NAME not in _stored(payments)
    assert (row.state, row.ttl, row.created) == (before.state, before.ttl, before.created)
    assert (row.actual_completion, row.locked_by) == (before.actual_completion, before.locked_by)
    assert (row.fingerprint, row.delivery) == (before.fingerprint, before.delivery)
    assert row.fence == before.fence + 1
    assert row.attempt_id != before.attempt_id
    assert row.write_id not in (None, before.write_id)
    assert row.fields is None
    decision = row.decisions[-1]
    assert (decision.by, decision.because) == ("ann", "request 77")
    return row


@pytest.mark.parametrize("result", [{"name": NAME}, [NAME] * 1_000, LARGE], ids=["text", "bytes", "parts"])
def test_a_result_is_erased(payments: Payments, result: Any) -> None:
    """With its parts; duplicates get ResultUnavailable, a queue's success, and nothing runs again."""
    token = _charge(payments, result)
    before = payments.row("p-1")
    assert isinstance(before.stored, Parts) is (result is LARGE)
    ran = payments.run("forget", token, *SURE)
    assert ran.exit_code == 0, output_of(ran)
    assert _is_erased(payments, before).stored is Unavailable.FORGOTTEN
    assert "#" not in "".join(item["lockToken"]["S"] for item in _items(payments))
    assert isinstance(payments.ask("p-1"), ResultUnavailable)
    assert payments.deliver("p-1")
    assert payments.asked == ["p-1"]
    assert "may return the old outcome for up to five minutes" in output_of(ran)


def _items(payments: Payments) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = payments.client.scan(TableName=payments.table, ConsistentRead=True)["Items"]
    return items


def test_a_forgotten_result_that_is_kept(payments: Payments) -> None:
    """`--done` keeps the token for longer, and brings no result back."""
    token = _charge(payments, {"name": NAME})
    assert payments.run("forget", token, *SURE).exit_code == 0
    ran = payments.run("resolve", token, "--done", "--force", *SURE)
    assert "next delivery: does not run again; it gets ResultUnavailable (on a queue, success)" in output_of(
        ran
    )
    assert isinstance(payments.ask("p-1"), ResultUnavailable)


def test_a_stored_error_is_erased(payments: Payments) -> None:
    """Its message may quote data; its kind stays, or failed work would look like work that was done."""
    payments.provider = _declines
    assert isinstance(payments.ask("p-1"), Declined)
    before = payments.row("p-1")
    ran = payments.run("forget", payments.token("p-1"), *SURE)
    assert ran.exit_code == 0
    assert "duplicates would get StoredError (Declined) without its message" in output_of(ran)
    assert _is_erased(payments, before).error == ("Declined", FORGOTTEN, None)
    duplicate = payments.ask("p-1")
    assert isinstance(duplicate, Declined)
    assert str(duplicate) == FORGOTTEN
    assert payments.asked == ["p-1"]


def test_the_message_of_a_held_token_is_erased(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays held, with the kind of its error; it can be resolved as before."""
    token = payments.hold("p-1")
    before = payments.row("p-1")
    assert before.error is not None
    assert payments.run("forget", token, *SURE).exit_code == 0
    row = _is_erased(payments, before)
    assert row.error is not None
    assert (row.error.kind, row.error.message) == (before.error.kind, FORGOTTEN)
    assert isinstance(payments.ask("p-1"), Held)
    assert payments.run("resolve", token, "--done", *SURE).exit_code == 0
    assert payments.ask("p-1") is None


def test_the_message_of_a_released_token_is_erased(payments: Payments) -> None:
    """The next delivery runs, as it would have."""
    token = payments.hold("p-1")
    assert payments.run("resolve", token, "--not-done", *SURE).exit_code == 0
    before = payments.row("p-1")
    assert payments.run("forget", token, *SURE).exit_code == 0
    row = _is_erased(payments, before)
    assert row.error is not None
    assert (row.state, row.error.message) == (State.RELEASED, FORGOTTEN)
    payments.provider = str
    assert payments.ask("p-1") == "p-1"


# -- what is refused


def _in_progress(payments: Payments) -> str:
    def asks(_payment: str) -> Any:
        refused = payments.run("forget", payments.token("p-1"), *SURE)
        assert (refused.exit_code, "it is in progress" in output_of(refused)) == (1, True)
        return NAME

    payments.provider = asks
    payments.ask("p-1")
    return NAME


def test_a_token_in_progress_is_refused(payments: Payments) -> None:
    """Its attempt may still store something; it finishes as it would have."""
    assert _in_progress(payments) == payments.ask("p-1")
    assert payments.asked == ["p-1"]


def test_the_checksums_of_the_payload_are_erased(payments: Payments) -> None:
    """A single short field can be guessed from them; without a result they are what is left to erase."""
    token = _charge(payments, None)
    before = payments.row("p-1")
    assert before.fields is not None
    assert payments.run("forget", token, *SURE).exit_code == 0
    _is_erased(payments, before)


def test_twice_is_refused(payments: Payments) -> None:
    """The first note stays."""
    token = _charge(payments, NAME)
    assert payments.run("forget", token, *SURE).exit_code == 0
    before = payments.row("p-1")
    ran = payments.run("forget", token, "--because", "again", "--by", "bob", "--yes")
    assert (ran.exit_code, "it stores no result, no message" in output_of(ran)) == (1, True)
    assert payments.row("p-1") == before


@pytest.mark.parametrize(
    ("arguments", "answer", "code"),
    [
        ((*SURE, "--dry-run"), None, 0),
        ((*SURE, "--attempt", "another"), None, 1),
        (BECAUSE, "n\n", 1),
    ],
    ids=["dry run", "another attempt", "declined"],
)
def test_nothing_is_written(
    payments: Payments,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    answer: str | None,
    code: int,
) -> None:
    """Neither the row nor its parts."""
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    token = _charge(payments, LARGE)
    before = _stored(payments)
    assert payments.run("forget", token, *arguments, stdin=answer).exit_code == code
    is_unchanged = _stored(payments) == before  # pytest would compare megabytes line by line
    assert is_unchanged
    assert payments.ask("p-1") == LARGE


def test_an_unknown_token_is_not_found(payments: Payments) -> None:
    """One line, and exit code 1."""
    ran = payments.run("forget", "shop/charge/none", *SURE)
    assert (ran.exit_code, "no token shop/charge/none in the table" in output_of(ran)) == (1, True)


# -- the row itself, whose key is personal data


@pytest.mark.parametrize("result", [NAME, LARGE], ids=["text", "parts"])
def test_the_row_is_deleted_with_its_key(payments: Payments, result: Any) -> None:
    """Nothing of it is left in the table. A later delivery is new work, and the command says so."""
    token = _charge(payments, result)
    ran = payments.run("forget", token, "--row", *SURE)
    assert ran.exit_code == 0, output_of(ran)
    assert _stored(payments) == ""
    assert "duplicates would RUN AGAIN" in output_of(ran)
    assert f"{token}: deleted" in output_of(ran)
    assert "→" not in output_of(ran)
    assert payments.ask("p-1") == result
    assert payments.asked == ["p-1", "p-1"]


def test_a_forgotten_row_can_be_deleted(payments: Payments) -> None:
    """First what it stores, at once; the key once no delivery is left."""
    token = _charge(payments, NAME)
    assert payments.run("forget", token, *SURE).exit_code == 0
    assert payments.run("forget", token, "--row", *SURE).exit_code == 0
    assert _stored(payments) == ""


@pytest.mark.parametrize("state", ["held", "released", "in progress"])
def test_the_row_of_unfinished_work_is_not_deleted(payments: Payments, state: str) -> None:
    """Whether it was done is unknown, or its retry needs the downstream key of the row."""
    if state == "in progress":
        deleting = functools.partial(payments.run, "forget", payments.token("p-1"), "--row", *SURE)
        payments.provider = lambda _: deleting().exit_code
        assert payments.ask("p-1") == 1
        return
    token = payments.hold("p-1")
    if state == "released":
        assert payments.run("resolve", token, "--not-done", *SURE).exit_code == 0
    before = payments.row("p-1")
    ran = payments.run("forget", token, "--row", *SURE)
    assert (ran.exit_code, f"it is {state}: deleted" in output_of(ran)) == (1, True)
    assert "resolve it first" in output_of(ran)
    assert payments.row("p-1") == before


def test_a_row_that_has_changed_is_not_deleted(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another operator's decision stays; so would a newer attempt."""
    _resolved_meanwhile(payments, monkeypatch)
    ran = payments.run("forget", payments.token("p-1"), "--row", *SURE)
    assert (ran.exit_code, "the row has changed since it was shown" in output_of(ran)) == (1, True)
    assert payments.row("p-1").stored == Inline("5")


def test_a_refusal_without_the_row_is_no_deletion(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that ignores ReturnValuesOnConditionCheckFailure: the row that refused it is read."""
    _resolved_meanwhile(payments, monkeypatch)
    deletion = requests.deletion

    def ignored(table: str, record: Record) -> Any:
        request = deletion(table, record)
        del request["ReturnValuesOnConditionCheckFailure"]
        return request

    monkeypatch.setattr(table_module, "deletion", ignored)
    ran = payments.run("forget", payments.token("p-1"), "--row", *SURE)
    assert (ran.exit_code, "the row has changed since it was shown" in output_of(ran)) == (1, True)


def test_twin_that_deletes_whatever_is_there(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the condition the decision is lost with the row."""
    _resolved_meanwhile(payments, monkeypatch)
    deletion = requests.deletion

    def always(table: str, record: Record) -> Any:
        request = deletion(table, record)
        return {name: request[name] for name in ("TableName", "Key")}

    monkeypatch.setattr(table_module, "deletion", always)
    assert payments.run("forget", payments.token("p-1"), "--row", *SURE).exit_code == 0
    assert _stored(payments) == ""


def test_a_deletion_whose_response_was_lost_is_done(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The retry finds no row: that is what was asked for."""
    token = _charge(payments, NAME)
    delete = TokenTable.delete

    def twice(table: TokenTable, record: Record) -> Any:
        assert delete(table, record) is Written.WRITTEN
        return delete(table, record)

    monkeypatch.setattr(TokenTable, "delete", twice)
    ran = payments.run("forget", token, "--row", "--output", "json", *SURE)
    assert (ran.exit_code, json.loads(ran.stdout)["written"], json.loads(ran.stdout)["now"]) == (
        0,
        True,
        None,
    )


def test_a_deletion_without_a_response_is_unknown(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, and how to find out."""
    token = _charge(payments, NAME)
    monkeypatch.setattr(TokenTable, "delete", lambda _table, _record: Unanswered("timed out"))
    ran = payments.run("forget", token, "--row", *SURE)
    assert (ran.exit_code, f"lambda-once show {token} finds no token" in output_of(ran)) == (2, True)


# -- races and faults


def _resolved_meanwhile(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another operator decide between the row that was shown and the write."""
    token = _charge(payments, NAME)

    def meanwhile(_table: TokenTable, _record: Record) -> None:
        options = ("--done", "--force", "--drop-result", "--result", "-")
        assert payments.run("resolve", token, *options, *SURE, stdin="5").exit_code == 0

    monkeypatch.setattr(TokenTable, "erase_parts", meanwhile)


def test_a_row_that_has_changed_is_refused(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision of another operator stays."""
    _resolved_meanwhile(payments, monkeypatch)
    ran = payments.run("forget", payments.token("p-1"), *SURE)
    assert (ran.exit_code, "the row has changed since it was shown" in output_of(ran)) == (1, True)
    row = payments.row("p-1")
    assert (row.state, row.stored) == (State.COMPLETE, Inline("5"))
    assert payments.ask("p-1") == 5


def test_parts_that_were_erased_before_the_row_changed(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another operator keeps it for longer: the parts are gone all the same, and `show` says so, too."""
    token = _charge(payments, LARGE)
    erase = TokenTable.erase_parts

    def meanwhile(table: TokenTable, record: Record) -> int:
        assert payments.run("resolve", token, "--keep", "90d", *SURE).exit_code == 0
        return erase(table, record)

    with monkeypatch.context() as patched:
        patched.setattr(TokenTable, "erase_parts", meanwhile)
        ran = payments.run("forget", token, "--output", "json", *SURE)
    count = payments.row("p-1").stored
    assert isinstance(count, Parts)
    assert ran.exit_code == 1
    assert "nothing was written" not in ran.stderr
    assert ran.stderr.splitlines()[-1] == (
        "refused: the row has changed since it was shown. Parts of its result that were erased before: "
        f"{count.count}. Run this command again to erase the rest"
    )
    outcome = json.loads(ran.stdout)
    assert (outcome["written"], outcome["erasedParts"]) == (False, count.count)
    shown = payments.run("show", token)
    assert shown.exit_code == 1
    assert "done, but parts of its result are missing: a duplicate gets ResultUnavailable" in output_of(shown)
    assert "gets the stored result" not in output_of(shown)
    assert payments.run("forget", token, *SURE).exit_code == 0


def test_twin_without_the_condition(payments: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to whatever row there is erases what was decided meanwhile."""
    _resolved_meanwhile(payments, monkeypatch)
    always = "attribute_exists(lockToken)"
    owner = requests._owner

    def unconditional(write: Write) -> Any:
        forgets = isinstance(write.by, Resolver) and write.decisions and "77" in write.decisions[-1].because
        return (always, {}) if forgets and write.ttl == first.ttl else owner(write)

    first = payments.row("p-1")
    monkeypatch.setattr(requests, "_owner", unconditional)
    assert payments.run("forget", payments.token("p-1"), *SURE).exit_code == 0
    assert isinstance(payments.ask("p-1"), ResultUnavailable)


def test_a_run_that_ends_after_the_parts_is_repeated(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts go first: nothing leads to them once the row is written. Duplicates are refused meanwhile."""
    token = _charge(payments, LARGE)
    before = payments.row("p-1")

    def dies(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(decisions, "is_written", dies)
        assert payments.run("forget", token, *SURE).exit_code != 0
    assert payments.row("p-1") == before
    assert NAME not in _stored(payments)
    assert isinstance(payments.ask("p-1"), ResultUnavailable)
    assert payments.run("forget", token, *SURE).exit_code == 0
    _is_erased(payments, before)
    assert payments.asked == ["p-1"]


@pytest.mark.parametrize(("answer", "code"), [(Refused(None), 1), (Misconfigured("denied"), 2)])
def test_parts_that_are_erased_before_a_refusal_are_named(
    payments: Payments, monkeypatch: pytest.MonkeyPatch, answer: Any, code: int
) -> None:
    """The row was changed meanwhile, or may not be deleted: its result is gone all the same."""
    token = _charge(payments, LARGE)
    monkeypatch.setattr(TokenTable, "delete", lambda _table, _record: answer)
    ran = payments.run("forget", token, "--row", *SURE)
    assert (ran.exit_code, "erased parts of its result: " in output_of(ran)) == (code, True), output_of(ran)
    assert isinstance(payments.ask("p-1"), ResultUnavailable)


def test_parts_that_are_not_deleted_leave_the_row(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2: the row still leads to them, and the next run erases them."""
    token = _charge(payments, LARGE)
    before = payments.row("p-1")

    def throttled(_send: object, _table: str, _writes: object, _deadline: object) -> None:
        message = "not in time"
        raise Unprocessed(message)

    with monkeypatch.context() as patched:
        patched.setattr(table_module, "batch_write", throttled)
        assert payments.run("forget", token, *SURE).exit_code == 2
    assert payments.row("p-1") == before
    assert payments.ask("p-1") == LARGE
    assert payments.run("forget", token, *SURE).exit_code == 0
    _is_erased(payments, before)


def test_a_duplicate_that_reads_meanwhile_gets_no_result(
    payments: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the row; then parts and result go. It gets ResultUnavailable, not None."""
    token = _charge(payments, LARGE)
    chunks = DynamoDBStore.chunks

    def late(store: DynamoDBStore, record: Record, deadline: Any) -> Any:
        monkeypatch.setattr(DynamoDBStore, "chunks", chunks)
        assert payments.run("forget", token, *SURE).exit_code == 0
        return chunks(store, record, deadline)

    monkeypatch.setattr(DynamoDBStore, "chunks", late)
    assert isinstance(payments.ask("p-1"), ResultUnavailable)
    assert payments.asked == ["p-1"]


def test_the_reasons_of_earlier_decisions_are_erased(payments: Payments) -> None:
    """Of --failed it is the message, too. Who decided what, and when, stays."""
    token = payments.hold("p-1")
    because = ("--because", f"the card of {NAME} was closed", "--by", "bob", "--yes")
    assert payments.run("resolve", token, "--failed", *because).exit_code == 0
    assert NAME in _stored(payments)
    assert payments.run("forget", token, *SURE).exit_code == 0
    assert NAME not in _stored(payments)
    decisions = payments.row("p-1").decisions
    assert [(each.by, each.how, each.because) for each in decisions] == [
        ("bob", Resolve.FAILED, "(forgotten)"),
        ("ann", Resolve.FORGET, "request 77"),
    ]


@pytest.mark.parametrize(
    ("option", "state"), [("--done", State.COMPLETE), ("--not-done", State.RELEASED)], ids=str
)
def test_a_reason_is_erased_where_nothing_else_is_stored(
    payments: Payments, option: str, state: State
) -> None:
    """A person wrote it, about a person; once."""
    token = payments.hold("p-1")
    because = ("--because", f"{NAME} has called", "--by", "bob", "--yes")
    assert payments.run("forget", token, *SURE).exit_code == 0
    assert payments.run("resolve", token, option, *because).exit_code == 0
    assert NAME in _stored(payments)
    assert payments.run("forget", token, *SURE).exit_code == 0
    assert NAME not in _stored(payments)
    assert payments.row("p-1").state is state
    assert payments.run("forget", token, *SURE).exit_code == 1


def test_the_reason_of_a_watchdog_is_nothing_to_erase(payments: Payments) -> None:
    """It is one of ours."""
    token = _charge(payments, None)
    assert payments.run("forget", token, *SURE).exit_code == 0
    row = payments.row("p-1")
    last = row.decisions[-1]
    assert forget_objection(row._replace(decisions=(last._replace(how=Resolve.DONE),))) is None
    of_watchdog = last._replace(how=Resolve.DONE, kind=Decider.WATCHDOG)
    assert forget_objection(row._replace(decisions=(of_watchdog,))) is not None


# -- what is printed


def test_show_prints_that_it_was_forgotten(payments: Payments) -> None:
    """Not that the work's result could not be stored."""
    token = _charge(payments, NAME)
    payments.clock.advance(1)
    assert payments.run("forget", token, *SURE).exit_code == 0
    shown = payments.run("show", token)
    assert "its result was forgotten" in output_of(shown)
    assert "ann (identity unverified) had it forgotten (it was complete): request 77" in output_of(shown)
    assert "no result: it was forgotten" in output_of(payments.run("show", token, "--result"))


def test_the_outcome_as_data(payments: Payments) -> None:
    """The row before and now, without any content."""
    token = _charge(payments, NAME)
    ran = payments.run("forget", token, "--output", "json", *SURE)
    outcome = json.loads(ran.stdout)
    assert set(outcome) == {"lockToken", "written", "erasedParts", "shown", "now"}
    assert (outcome["lockToken"], outcome["written"]) == (token, True)
    assert (outcome["shown"]["result"]["kind"], outcome["now"]["result"]["kind"]) == ("text", "forgotten")
    assert NAME not in ran.output


def test_the_write_of_an_attempt_in_progress_is_no_value(payments: Payments) -> None:
    """Without a call of `forget_objection` first a caller gets a ValueError, and no write."""
    _charge(payments, NAME)
    row = payments.row("p-1")._replace(state=State.IN_PROGRESS)
    with pytest.raises(ValueError, match="is in progress"):
        decided(row, Resolve.FORGET, Author("ann", "x"), row.created)
