"""Guarantee 13: a decision of a person stands until a person decides again or an attempt runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from lambda_once import Held, Once
from lambda_once.cli import decisions
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Parts
from lambda_once.core.writes import Resolver
from lambda_once.operations import resolution as resolutions
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores import requests
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context, using
from tests.operations.desk import LEASE, Desk, desk, output_of

Scenario = Callable[[Desk], None]
ANNA = ("--because", "it WAS charged, the receipt comes on Monday", "--by", "anna", "--yes")
BERT = ("--because", "the gateway was down", "--by", "bert", "--yes")
RECEIPT = {"receipt": "ch_5"}
LARGE = [f"{n * n * 2_654_435_761 % 2**32:x}" for n in range(90_000)]


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk at a table of the strict engine, and of DynamoDB Local."""
    endpoint = None if request.param == "strict" else request.getfixturevalue("dynamodb_local")
    with desk(monkeypatch, endpoint) as found:
        yield found


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A desk for the twins."""
    with desk(monkeypatch, None) as found:
        yield found


def _breaks(scenario: Scenario, at: Desk) -> None:
    with pytest.raises(AssertionError):
        scenario(at)


def _resolved(at: Desk, payment: str, *options: str, who: tuple[str, ...] = ANNA) -> None:
    ran = at.run("resolve", at.token(payment), *options, *who)
    assert ran.exit_code == 0, output_of(ran)


def _watched(at: Desk) -> dict[str, Any]:
    """Let a watchdog run that may release everything."""
    watch = watchdog(at.table, at.client, at.clock, actions={"*": "release"}, sweep=False)
    return watch({}, None)


def _crashed(at: Desk, payment: str) -> None:
    """Leave *payment* as a killed function does: in progress, its lease over."""
    at.hold(payment)
    at.client.update_item(
        TableName=at.table,
        Key={"lockToken": {"S": at.token(payment)}},
        UpdateExpression="SET #status = :status REMOVE actualCompletion, #error, #write",
        ExpressionAttributeNames={"#status": "status", "#error": "error", "#write": "write"},
        ExpressionAttributeValues={":status": {"S": "inProgress"}},
    )
    at.clock.advance(LEASE + 60)


# -- what a person decided to hold


def _nobody_releases(at: Desk) -> None:
    """Of three payments of one outage anna knows that one was charged. Bert, the watchdog, deliveries."""
    for payment in ("p-1", "p-2", "p-3"):
        at.hold(payment)
    _resolved(at, "p-2", "--hold")
    decided = at.row("p-2")
    at.clock.advance(3_600)
    assert at.run("redrive", *BERT).exit_code == 0
    assert _watched(at)["released"] == 0
    assert not at.deliver("p-2")
    assert isinstance(at.ask("p-2"), Held)
    assert at.row("p-2") == decided
    assert [at.row(payment).state for payment in ("p-1", "p-3")] == [State.RELEASED] * 2
    assert at.asked.count("p-2") == 1


def test_what_a_person_holds_nobody_else_releases(at: Desk) -> None:
    """Neither a colleague's redrive, nor the watchdog, nor a delivery; her note is there on Monday."""
    _nobody_releases(at)


def test_twin_without_the_question_for_a_decision(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The redrive releases it, and the next delivery charges again."""
    monkeypatch.setattr(decisions, "decided_by_person", lambda _: False)
    _breaks(_nobody_releases, strict)


def _decided_while_the_watchdog_looks(at: Desk) -> None:
    """The watchdog has read an overdue token; before it writes, anna decides to hold it."""
    _crashed(at, "p-1")
    left = [lambda: _resolved(at, "p-1", "--hold")]

    def first(**_: Any) -> None:
        if left:
            left.pop()()

    at.client.meta.events.register_first("before-call.dynamodb.UpdateItem", first)
    watched = _watched(at)
    assert not left
    assert (watched["released"], watched["refused"]) == (0, 1)
    note = at.row("p-1").standing
    assert note is not None
    assert (at.row("p-1").state, note.by) == (State.HELD, "anna")


def test_the_watchdog_overwrites_no_decision(at: Desk) -> None:
    """Its write is for the row that it read, in progress; what a person decides is another one."""
    _decided_while_the_watchdog_looks(at)


def test_twin_that_resolves_whatever_is_there(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog would release what a person has just decided to hold."""
    parts = ("attempt = :seen", "begins_with(#status, :in_progress)", "expectedCompletion = :lease")
    always = " AND ".join(f"({part} OR attribute_exists(lockToken))" for part in parts)
    monkeypatch.setattr(requests, "LAPSED_AS_SEEN", always)
    _breaks(_decided_while_the_watchdog_looks, strict)


# -- until when


def _until_an_attempt_runs(at: Desk) -> None:
    """Anna releases two. One is held by the next outage, one dies: she has not decided about that."""
    for payment in ("p-1", "p-2"):
        at.hold(payment)
        _resolved(at, payment, "--not-done")
    at.hold("p-1")
    _crashed(at, "p-2")
    notes = [at.row(payment).resolution for payment in ("p-1", "p-2")]
    assert [note and note.by for note in notes] == ["anna", "anna"]
    assert at.run("redrive", *BERT).exit_code == 0
    assert at.row("p-1").state is State.RELEASED
    assert _watched(at)["released"] == 1


def test_a_decision_ends_where_an_attempt_runs(at: Desk) -> None:
    """The row keeps it; it does not stand any more, or nobody would ever release that token again."""
    _until_an_attempt_runs(at)


def test_twin_whose_decisions_stand_for_ever(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the note alone the redrive skips the token for good."""
    monkeypatch.setattr(Record, "standing", property(lambda record: record.resolution))
    _breaks(_until_an_attempt_runs, strict)


def test_a_person_may_decide_again(at: Desk) -> None:
    """By name, or by a redrive that says so."""
    for payment in ("p-1", "p-2"):
        at.hold(payment)
        _resolved(at, payment, "--hold")
    _resolved(at, "p-1", "--done", who=BERT)
    assert at.run("redrive", "--also-decided", *BERT).exit_code == 0
    assert [at.row(payment).state for payment in ("p-1", "p-2")] == [State.COMPLETE, State.RELEASED]


# -- results


def _deleted_by_ttl(at: Desk) -> None:
    """Delete what has expired, rows and parts, as DynamoDB does."""
    now = int(at.clock.now().timestamp())
    for page in at.client.get_paginator("scan").paginate(TableName=at.table):
        for item in page["Items"]:
            if int(item.get("ttl", {}).get("N", now + 1)) <= now:
                at.client.delete_item(TableName=at.table, Key={"lockToken": item["lockToken"]})


def _kept_until_it_comes_again(at: Desk, result: Any, *options: str) -> None:
    at.provider = lambda _: result
    assert at.ask("p-1") == result
    at.clock.advance(13 * 86_400)
    _resolved(at, "p-1", *options)
    at.clock.advance(20 * 86_400)
    _deleted_by_ttl(at)
    assert at.ask("p-1") == result
    assert at.asked == ["p-1"]


def _kept(at: Desk) -> None:
    _kept_until_it_comes_again(at, RECEIPT, "--done", "--keep", "28d", "--force")


def _kept_in_parts(at: Desk) -> None:
    _kept_until_it_comes_again(at, LARGE, "--done", "--keep", "28d", "--force")


@pytest.mark.parametrize("result", [RECEIPT, LARGE], ids=["in the row", "in parts"])
@pytest.mark.parametrize(
    "options",
    [("--keep", "28d"), ("--done", "--force"), ("--done", "--keep", "28d", "--force")],
    ids=" ".join,
)
def test_a_result_is_kept_by_who_keeps_its_token(at: Desk, result: Any, options: tuple[str, ...]) -> None:
    """After its first ttl, when DynamoDB would have deleted row and parts, a duplicate gets it."""
    _kept_until_it_comes_again(at, result, *options)


def test_twin_whose_parts_live_as_long_as_before(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is there, and its result is gone."""
    monkeypatch.setattr(requests, "kept_parts", lambda *_: [])
    _breaks(_kept_in_parts, strict)


def test_twin_with_an_attempt_id_of_its_own(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leads to the parts any more."""
    build = requests.finish

    def under_a_fresh_id(table: str, write: Any, shards: int) -> Any:
        request = build(table, write, shards)
        if isinstance(write.by, Resolver):
            request["ExpressionAttributeValues"][":attempt_"] = {"S": "fresh"}
        return request

    monkeypatch.setattr(requests, "finish", under_a_fresh_id)
    _breaks(_kept_in_parts, strict)


def test_twin_that_completes_it_again(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Done with the result that was given: none."""
    monkeypatch.setattr(resolutions, "is_done", lambda _: False)
    monkeypatch.setattr(decisions, "drops_result", lambda *_: False)
    _breaks(_kept, strict)


def _sealed(at: Desk, result: Any) -> Callable[[str], Any]:
    """Return a function at *at*'s table whose results are sealed, bound to their token."""

    def encrypt(data: bytes, token: str) -> bytes:
        return token.encode() + b"\0" + bytes(each ^ 90 for each in data)

    def decrypt(sealed: bytes, token: str) -> bytes:
        of, _, hidden = sealed.partition(b"\0")
        assert of == token.encode()
        return bytes(each ^ 90 for each in hidden)

    once = Once(service="shop", seal=(encrypt, decrypt))

    @once.event(key="paymentId", name="charge")
    def charge(event: dict[str, Any]) -> Any:
        at.asked.append(event["paymentId"])
        return result

    @contextmanager
    def here() -> Iterator[None]:
        with using(once, DynamoDBStore(at.table, at.client), at.clock):
            yield

    def ask(payment: str) -> Any:
        with here():
            return charge({"paymentId": payment}, lambda_context())

    return ask


@pytest.mark.parametrize("result", [RECEIPT, LARGE], ids=["in the row", "in parts"])
def test_a_sealed_result_is_kept(at: Desk, result: Any) -> None:
    """Without its seal the command line cannot open it, and needs not: it stays as it is."""
    ask = _sealed(at, result)
    assert ask("p-1") == result
    before = at.row("p-1")
    assert isinstance(before.stored, Parts) is (result is LARGE)
    at.clock.advance(13 * 86_400)
    _resolved(at, "p-1", "--done", "--keep", "28d", "--force")
    assert at.row("p-1").stored == before.stored
    at.clock.advance(20 * 86_400)
    _deleted_by_ttl(at)
    assert ask("p-1") == result
    assert at.asked == ["p-1"]


def test_a_sealed_result_is_dropped_only_on_request(at: Desk) -> None:
    """It cannot be saved by the command line, which says so."""
    _sealed(at, RECEIPT)("p-1")
    refused = at.run("resolve", at.token("p-1"), "--not-done", "--force", *ANNA)
    assert refused.exit_code == 1
    assert "It is sealed, and cannot be printed here" in output_of(refused)
    _resolved(at, "p-1", "--not-done", "--force", "--drop-result")
    assert at.row("p-1").state is State.RELEASED


def _a_mistyped_order(at: Desk) -> None:
    """Bert means another token: the command stops, and says how to save what would be lost."""
    at.provider = lambda _: RECEIPT
    at.ask("p-1")
    ran = at.run("resolve", at.token("p-1"), "--not-done", "--force", *BERT)
    assert ran.exit_code == 1
    assert f"lambda-once show {at.token('p-1')} --result > backup.json" in output_of(ran)
    assert json.loads(at.run("show", at.token("p-1"), "--result").stdout) == RECEIPT
    assert at.ask("p-1") == RECEIPT
    assert at.asked == ["p-1"]


def test_a_mistyped_order_loses_no_result(at: Desk) -> None:
    """Only --drop-result does."""
    _a_mistyped_order(at)


def test_twin_that_drops_it_without_a_word(strict: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is gone, and the next delivery charges again."""
    monkeypatch.setattr(decisions, "drops_result", lambda *_: False)
    _breaks(_a_mistyped_order, strict)
