"""`lambda-once forget`: what a token stores is erased, the token stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from lambda_once.cli import decisions, options
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Inline, Parts, Unavailable
from lambda_once.core.writes import Resolver, Write
from lambda_once.dynamodb.retry import Unprocessed
from lambda_once.errors import Held, ResultUnavailable
from lambda_once.operations import table as table_module
from lambda_once.operations.resolution import FORGOTTEN, forgetting
from lambda_once.operations.table import TokenTable
from lambda_once.stores import requests
from lambda_once.stores.store import DynamoDBStore
from tests.operations.desk import Declined, Desk, desk, output_of

BECAUSE = ("--because", "request 77", "--by", "ann")
SURE = (*BECAUSE, "--yes")
NAME = "Ann Private"
LARGE = [NAME, *(hex(hash((n, "x"))) for n in range(60_000))]


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk at a table of the strict engine, and of DynamoDB Local."""
    endpoint = request.getfixturevalue("dynamodb_local") if request.param == "engine" else None
    with desk(monkeypatch, endpoint) as found:
        yield found


def _charge(at: Desk, result: Any) -> str:
    """Let the provider return *result* for the payment p-1; return its token."""
    at.provider = lambda _: result
    assert at.ask("p-1") == result
    return at.token("p-1")


def _declines(_payment: str) -> Any:
    raise Declined(NAME)


def _stored(at: Desk) -> str:
    """Return all rows of the table, parts included, as text."""
    return str(at.client.scan(TableName=at.table, ConsistentRead=True)["Items"])


def _is_erased(at: Desk, before: Record) -> Record:
    """The row is as before but for what it stored, and who had it forgotten."""
    row = at.row("p-1")
    assert NAME not in _stored(at)
    assert (row.state, row.ttl, row.created) == (before.state, before.ttl, before.created)
    assert (row.actual_completion, row.locked_by) == (before.actual_completion, before.locked_by)
    assert (row.fingerprint, row.delivery) == (before.fingerprint, before.delivery)
    assert row.fence == before.fence + 1
    assert row.attempt_id != before.attempt_id
    assert row.write_id not in (None, before.write_id)
    assert row.resolution is not None
    assert (row.resolution.by, row.resolution.because) == ("ann", "request 77")
    return row


@pytest.mark.parametrize("result", [{"name": NAME}, [NAME] * 1_000, LARGE], ids=["text", "bytes", "parts"])
def test_a_result_is_erased(at: Desk, result: Any) -> None:
    """With its parts; duplicates get ResultUnavailable, a queue's success, and nothing runs again."""
    token = _charge(at, result)
    before = at.row("p-1")
    assert isinstance(before.stored, Parts) is (result is LARGE)
    ran = at.run("forget", token, *SURE)
    assert ran.exit_code == 0, output_of(ran)
    assert _is_erased(at, before).stored is Unavailable.FORGOTTEN
    assert "#" not in "".join(item["lockToken"]["S"] for item in _items(at))
    assert isinstance(at.ask("p-1"), ResultUnavailable)
    assert at.deliver("p-1")
    assert at.asked == ["p-1"]
    assert "may return the old outcome for up to five minutes" in output_of(ran)


def _items(at: Desk) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = at.client.scan(TableName=at.table, ConsistentRead=True)["Items"]
    return items


def test_a_stored_error_is_erased(at: Desk) -> None:
    """Its message may quote data; so duplicates get ResultUnavailable in its place."""
    at.provider = _declines
    assert isinstance(at.ask("p-1"), Declined)
    before = at.row("p-1")
    assert at.run("forget", at.token("p-1"), *SURE).exit_code == 0
    assert _is_erased(at, before).error is None
    assert isinstance(at.ask("p-1"), ResultUnavailable)
    assert at.asked == ["p-1"]


def test_the_message_of_a_held_token_is_erased(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays held, with the kind of its error; it can be resolved as before."""
    token = at.hold("p-1")
    before = at.row("p-1")
    assert before.error is not None
    assert at.run("forget", token, *SURE).exit_code == 0
    row = _is_erased(at, before)
    assert row.error is not None
    assert (row.error.kind, row.error.message) == (before.error.kind, FORGOTTEN)
    assert isinstance(at.ask("p-1"), Held)
    assert at.run("resolve", token, "--done", *SURE).exit_code == 0
    assert at.ask("p-1") is None


def test_the_message_of_a_released_token_is_erased(at: Desk) -> None:
    """The next delivery runs, as it would have."""
    token = at.hold("p-1")
    assert at.run("resolve", token, "--not-done", *SURE).exit_code == 0
    before = at.row("p-1")
    assert at.run("forget", token, *SURE).exit_code == 0
    row = _is_erased(at, before)
    assert row.error is not None
    assert (row.state, row.error.message) == (State.RELEASED, FORGOTTEN)
    at.provider = str
    assert at.ask("p-1") == "p-1"


# -- what is refused


def _in_progress(at: Desk) -> str:
    def asks(_payment: str) -> Any:
        refused = at.run("forget", at.token("p-1"), *SURE)
        assert (refused.exit_code, "it is in progress" in output_of(refused)) == (1, True)
        return NAME

    at.provider = asks
    at.ask("p-1")
    return NAME


def test_a_token_in_progress_is_refused(at: Desk) -> None:
    """Its attempt may still store something; it finishes as it would have."""
    assert _in_progress(at) == at.ask("p-1")
    assert at.asked == ["p-1"]


def test_what_stores_nothing_is_refused(at: Desk) -> None:
    """So is a second time: no note of the first is overwritten."""
    token = _charge(at, None)
    before = at.row("p-1")
    assert at.run("forget", token, *SURE).exit_code == 1
    assert at.row("p-1") == before


def test_twice_is_refused(at: Desk) -> None:
    """The first note stays."""
    token = _charge(at, NAME)
    assert at.run("forget", token, *SURE).exit_code == 0
    before = at.row("p-1")
    ran = at.run("forget", token, "--because", "again", "--by", "bob", "--yes")
    assert (ran.exit_code, "it stores no result and no message" in output_of(ran)) == (1, True)
    assert at.row("p-1") == before


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
    at: Desk,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    answer: str | None,
    code: int,
) -> None:
    """Neither the row nor its parts."""
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    token = _charge(at, LARGE)
    before = _stored(at)
    assert at.run("forget", token, *arguments, stdin=answer).exit_code == code
    assert _stored(at) == before
    assert at.ask("p-1") == LARGE


def test_an_unknown_token_is_bad_input(at: Desk) -> None:
    """One line, and exit code 2."""
    ran = at.run("forget", "shop/charge/none", *SURE)
    assert (ran.exit_code, "no token shop/charge/none in the table" in output_of(ran)) == (2, True)


# -- races and faults


def _resolved_meanwhile(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another operator decide between the row that was shown and the write."""
    token = _charge(at, NAME)

    def meanwhile(_table: TokenTable, _record: Record) -> None:
        options = ("--done", "--force", "--drop-result", "--result", "-")
        assert at.run("resolve", token, *options, *SURE, stdin="5").exit_code == 0

    monkeypatch.setattr(TokenTable, "erase_parts", meanwhile)


def test_a_row_that_has_changed_is_refused(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The decision of another operator stays."""
    _resolved_meanwhile(at, monkeypatch)
    ran = at.run("forget", at.token("p-1"), *SURE)
    assert (ran.exit_code, "the row has changed since it was shown" in output_of(ran)) == (1, True)
    row = at.row("p-1")
    assert (row.state, row.stored) == (State.COMPLETE, Inline("5"))
    assert at.ask("p-1") == 5


def test_twin_without_the_condition(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write to whatever row there is erases what was decided meanwhile."""
    _resolved_meanwhile(at, monkeypatch)
    always = "attribute_exists(lockToken)"
    owner = requests._owner

    def unconditional(write: Write) -> Any:
        forgets = isinstance(write.by, Resolver) and write.note is not None and "77" in write.note.because
        return (always, {}) if forgets and write.ttl == first.ttl else owner(write)

    first = at.row("p-1")
    monkeypatch.setattr(requests, "_owner", unconditional)
    assert at.run("forget", at.token("p-1"), *SURE).exit_code == 0
    assert isinstance(at.ask("p-1"), ResultUnavailable)


def test_a_run_that_ends_after_the_parts_is_repeated(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts go first: nothing leads to them once the row is written. Duplicates are refused meanwhile."""
    token = _charge(at, LARGE)
    before = at.row("p-1")

    def dies(*_: Any) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(decisions, "is_written", dies)
        assert at.run("forget", token, *SURE).exit_code != 0
    assert at.row("p-1") == before
    assert NAME not in _stored(at)
    assert isinstance(at.ask("p-1"), ResultUnavailable)
    assert at.run("forget", token, *SURE).exit_code == 0
    _is_erased(at, before)
    assert at.asked == ["p-1"]


def test_parts_that_are_not_deleted_leave_the_row(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 2: the row still leads to them, and the next run erases them."""
    token = _charge(at, LARGE)
    before = at.row("p-1")

    def throttled(_send: object, _table: str, _writes: object, _deadline: object) -> None:
        message = "not in time"
        raise Unprocessed(message)

    with monkeypatch.context() as patched:
        patched.setattr(table_module, "batch_write", throttled)
        assert at.run("forget", token, *SURE).exit_code == 2
    assert at.row("p-1") == before
    assert at.ask("p-1") == LARGE
    assert at.run("forget", token, *SURE).exit_code == 0
    _is_erased(at, before)


def test_a_duplicate_that_reads_meanwhile_gets_no_result(at: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has read the row; then parts and result go. It gets ResultUnavailable, not None."""
    token = _charge(at, LARGE)
    chunks = DynamoDBStore.chunks

    def late(store: DynamoDBStore, record: Record, deadline: Any) -> Any:
        monkeypatch.setattr(DynamoDBStore, "chunks", chunks)
        assert at.run("forget", token, *SURE).exit_code == 0
        return chunks(store, record, deadline)

    monkeypatch.setattr(DynamoDBStore, "chunks", late)
    assert isinstance(at.ask("p-1"), ResultUnavailable)
    assert at.asked == ["p-1"]


# -- what is printed


def test_show_prints_that_it_was_forgotten(at: Desk) -> None:
    """Not that the work's result could not be stored."""
    token = _charge(at, NAME)
    at.clock.advance(1)
    assert at.run("forget", token, *SURE).exit_code == 0
    shown = at.run("show", token)
    assert "its result was forgotten" in output_of(shown)
    assert "ann had it forgotten, because: request 77" in output_of(shown)
    assert "no result: it was forgotten" in output_of(at.run("show", token, "--result"))


def test_the_outcome_as_data(at: Desk) -> None:
    """The row before and now, without any content."""
    token = _charge(at, NAME)
    ran = at.run("forget", token, "--output", "json", *SURE)
    outcome = json.loads(ran.stdout)
    assert set(outcome) == {"lockToken", "written", "shown", "now"}
    assert (outcome["lockToken"], outcome["written"]) == (token, True)
    assert (outcome["shown"]["result"]["kind"], outcome["now"]["result"]["kind"]) == ("text", "forgotten")
    assert NAME not in ran.output


def test_the_write_of_an_attempt_in_progress_is_no_value(at: Desk) -> None:
    """Whoever does not ask `forget_objection` first gets a ValueError, and no write."""
    _charge(at, NAME)
    row = at.row("p-1")._replace(state=State.IN_PROGRESS)
    with pytest.raises(ValueError, match="is in progress"):
        forgetting(row, by="ann", because="x", now=row.created)
