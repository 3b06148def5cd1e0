"""Guarantee 13: a decision of a person stands until a person decides again or an attempt runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Literal

import pytest

from lambda_once import Held, Once, OnceError
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Parts
from lambda_once.core.writes import Resolver
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.operations import decisions as operations_decisions
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores import requests
from lambda_once.stores.row import listed
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context, using
from lambda_once_tools.cli import decisions
from tests.operations.payments import LEASE, Payments, output_of, payments_at

Scenario = Callable[[Payments], None]
ANNA = ("--because", "it WAS charged, the receipt comes on Monday", "--by", "anna", "--yes")
BERT = ("--because", "the gateway was down", "--by", "bert", "--yes")
RECEIPT = {"receipt": "ch_5"}
LARGE = [f"{n * n * 2_654_435_761 % 2**32:x}" for n in range(90_000)]


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def payments(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    """Payments on a table of the strict engine, and of dynoxide."""
    endpoint = None if request.param == "strict" else request.getfixturevalue("engine_endpoint")
    with payments_at(monkeypatch, endpoint) as found:
        yield found


@pytest.fixture
def strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    """Payments for the twins."""
    with payments_at(monkeypatch, None) as found:
        yield found


def _breaks(scenario: Scenario, payments: Payments) -> None:
    with pytest.raises(AssertionError):
        scenario(payments)


def _resolved(payments: Payments, payment: str, *options: str, who: tuple[str, ...] = ANNA) -> None:
    ran = payments.run("resolve", payments.token(payment), *options, *who)
    assert ran.exit_code == 0, output_of(ran)


def _watched(payments: Payments) -> dict[str, Any]:
    """Let a watchdog run that may release everything."""
    watch = watchdog(payments.table, payments.client, payments.clock, actions={"*": "release"}, sweep=False)
    return watch({}, None)


def _crashed(payments: Payments, payment: str) -> None:
    """Leave *payment* as a killed function does: in progress, its lease over."""
    payments.hold(payment)
    payments.client.update_item(
        TableName=payments.table,
        Key={"lockToken": {"S": payments.token(payment)}},
        UpdateExpression="SET #status = :status, listed = :listed REMOVE actualCompletion, #error, #write",
        ExpressionAttributeNames={"#status": "status", "#error": "error", "#write": "write"},
        ExpressionAttributeValues={
            ":status": {"S": "inProgress"},
            ":listed": {"S": listed(State.IN_PROGRESS, payments.token(payment))},
        },
    )
    payments.clock.advance(LEASE + 60)


# -- what a person decided to hold


def _only_that_person_releases(payments: Payments) -> None:
    """Of three payments of one outage anna knows that one was charged. Bert, the watchdog, deliveries."""
    for payment in ("p-1", "p-2", "p-3"):
        payments.hold(payment)
    _resolved(payments, "p-2", "--hold")
    decided = payments.row("p-2")
    payments.clock.advance(3_600)
    assert payments.run("redrive", *BERT).exit_code == 0
    assert _watched(payments)["released"] == 0
    assert not payments.deliver("p-2")
    assert isinstance(payments.ask("p-2"), Held)
    assert payments.row("p-2") == decided
    assert [payments.row(payment).state for payment in ("p-1", "p-3")] == [State.RELEASED] * 2
    assert payments.asked.count("p-2") == 1


def test_what_a_person_holds_only_a_person_releases(payments: Payments) -> None:
    """Neither a colleague's redrive, nor the watchdog, nor a delivery; her note is there on Monday."""
    _only_that_person_releases(payments)


def test_twin_without_the_question_for_a_decision(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The redrive releases it, and the next delivery charges again."""
    monkeypatch.setattr(decisions, "decided_by_person", lambda _: False)
    _breaks(_only_that_person_releases, strict)


def _decided_while_the_watchdog_looks(payments: Payments) -> None:
    """The watchdog has read an overdue token; before it writes, anna decides to hold it."""
    _crashed(payments, "p-1")
    left = [lambda: _resolved(payments, "p-1", "--hold")]

    def first(**_: Any) -> None:
        if left:
            left.pop()()

    payments.client.meta.events.register_first("before-call.dynamodb.UpdateItem", first)
    watched = _watched(payments)
    assert not left
    assert (watched["released"], watched["refused"]) == (0, 1)
    note = payments.row("p-1").standing
    assert note is not None
    assert (payments.row("p-1").state, note.by) == (State.HELD, "anna")


def test_the_watchdog_overwrites_no_decision(payments: Payments) -> None:
    """Its write is for the row that it read, in progress; what a person decides is another one."""
    _decided_while_the_watchdog_looks(payments)


def test_twin_that_resolves_whatever_is_there(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watchdog would release what a person has just decided to hold."""
    parts = ("attempt = :seen", "begins_with(#status, :in_progress)", "expectedCompletion = :lease")
    always = " AND ".join(f"({part} OR attribute_exists(lockToken))" for part in parts)
    monkeypatch.setattr(requests, "LAPSED_AS_SEEN", always)
    _breaks(_decided_while_the_watchdog_looks, strict)


def _decided_before_the_watchdog_reads(payments: Payments) -> None:
    """The index still lists it as overdue; before the watchdog reads the row, anna decides to hold it."""
    _crashed(payments, "p-1")
    left = [lambda: _resolved(payments, "p-1", "--hold")]

    def first(**_: Any) -> None:
        if left:
            left.pop()()

    payments.client.meta.events.register_first("before-call.dynamodb.BatchGetItem", first)
    watched = _watched(payments)
    assert not left
    assert (watched["overdue"], watched["released"], watched["refused"]) == (1, 0, 0)
    assert payments.row("p-1").state is State.HELD


def test_the_watchdog_meets_no_decision(payments: Payments) -> None:
    """It resolves what is in progress alone, by the row: what a person has decided is not."""
    _decided_before_the_watchdog_reads(payments)


def test_twin_that_resolves_what_the_index_lists(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is in the row: held, which its write would release."""
    monkeypatch.setattr(Record, "lapsed", lambda *_: True)
    _breaks(_decided_before_the_watchdog_reads, strict)


# -- until when


def _until_an_attempt_runs(payments: Payments) -> None:
    """Anna releases two. One is held by the next outage, one dies: she has not decided about that."""
    for payment in ("p-1", "p-2"):
        payments.hold(payment)
        _resolved(payments, payment, "--not-done")
    payments.hold("p-1")
    _crashed(payments, "p-2")
    rows = [payments.row(payment) for payment in ("p-1", "p-2")]
    assert [[decision.by for decision in row.decisions] for row in rows] == [["anna"], ["anna"]]
    assert payments.run("redrive", *BERT).exit_code == 0
    assert payments.row("p-1").state is State.RELEASED
    assert _watched(payments)["released"] == 1


def test_a_decision_ends_where_an_attempt_runs(payments: Payments) -> None:
    """The row keeps it; it does not stand any more, or no redrive would ever release that token again."""
    _until_an_attempt_runs(payments)


def test_twin_whose_decisions_stand_for_ever(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the note alone the redrive skips the token for good."""
    monkeypatch.setattr(Record, "standing", property(lambda record: next(reversed(record.decisions), None)))
    _breaks(_until_an_attempt_runs, strict)


def test_a_person_may_decide_again(payments: Payments) -> None:
    """By name, or by a redrive that says so."""
    for payment in ("p-1", "p-2"):
        payments.hold(payment)
        _resolved(payments, payment, "--hold")
    _resolved(payments, "p-1", "--done", who=BERT)
    assert payments.run("redrive", "--also-decided", *BERT).exit_code == 0
    assert [payments.row(payment).state for payment in ("p-1", "p-2")] == [State.COMPLETE, State.RELEASED]


# -- results


def _deleted_by_ttl(payments: Payments) -> None:
    """Delete what has expired, rows and parts, as DynamoDB does."""
    now = int(payments.clock.now().timestamp())
    for page in payments.client.get_paginator("scan").paginate(TableName=payments.table):
        for item in page["Items"]:
            if int(item.get("ttl", {}).get("N", now + 1)) <= now:
                payments.client.delete_item(TableName=payments.table, Key={"lockToken": item["lockToken"]})


def _kept_until_it_comes_again(payments: Payments, result: Any, *options: str) -> None:
    payments.provider = lambda _: result
    assert payments.ask("p-1") == result
    payments.clock.advance(13 * 86_400)
    _resolved(payments, "p-1", *options)
    payments.clock.advance(20 * 86_400)
    _deleted_by_ttl(payments)
    assert payments.ask("p-1") == result
    assert payments.asked == ["p-1"]


def _kept(payments: Payments) -> None:
    _kept_until_it_comes_again(payments, RECEIPT, "--done", "--keep", "28d", "--force")


def _kept_in_parts(payments: Payments) -> None:
    _kept_until_it_comes_again(payments, LARGE, "--done", "--keep", "28d", "--force")


@pytest.mark.parametrize("result", [RECEIPT, LARGE], ids=["in the row", "in parts"])
@pytest.mark.parametrize(
    "options",
    [("--keep", "28d"), ("--done", "--force"), ("--done", "--keep", "28d", "--force")],
    ids=" ".join,
)
def test_a_result_is_kept_by_who_keeps_its_token(
    payments: Payments, result: Any, options: tuple[str, ...]
) -> None:
    """After its first ttl, when DynamoDB would have deleted row and parts, a duplicate gets it."""
    _kept_until_it_comes_again(payments, result, *options)


def test_twin_whose_parts_live_as_long_as_before(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is there, and its result is gone."""
    monkeypatch.setattr(requests, "kept_parts", lambda *_: [])
    _breaks(_kept_in_parts, strict)


def test_twin_with_an_attempt_id_of_its_own(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing leads to the parts any more."""
    build = requests.finish

    def under_a_fresh_id(table: str, write: Any) -> Any:
        request = build(table, write)
        if isinstance(write.by, Resolver):
            request["ExpressionAttributeValues"][":attempt"] = {"S": "fresh"}
        return request

    monkeypatch.setattr(requests, "finish", under_a_fresh_id)
    _breaks(_kept_in_parts, strict)


def test_twin_that_completes_it_again(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Done with the result that was given: none."""
    monkeypatch.setattr(operations_decisions, "is_done", lambda _: False)
    monkeypatch.setattr(decisions, "drops_result", lambda *_: False)
    _breaks(_kept, strict)


def _sealed(payments: Payments, result: Any) -> Callable[[str], Any]:
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
        payments.asked.append(event["paymentId"])
        return result

    @contextmanager
    def here() -> Iterator[None]:
        with using(once, DynamoDBStore(payments.table, payments.client), payments.clock):
            yield

    def ask(payment: str) -> Any:
        with here():
            return charge({"paymentId": payment}, lambda_context())

    return ask


@pytest.mark.parametrize("result", [RECEIPT, LARGE], ids=["in the row", "in parts"])
def test_a_sealed_result_is_kept(payments: Payments, result: Any) -> None:
    """Without its seal the command line cannot open it, and needs not: it stays as it is."""
    ask = _sealed(payments, result)
    assert ask("p-1") == result
    before = payments.row("p-1")
    assert isinstance(before.stored, Parts) is (result is LARGE)
    payments.clock.advance(13 * 86_400)
    _resolved(payments, "p-1", "--done", "--keep", "28d", "--force")
    assert payments.row("p-1").stored == before.stored
    payments.clock.advance(20 * 86_400)
    _deleted_by_ttl(payments)
    assert ask("p-1") == result
    assert payments.asked == ["p-1"]


def test_a_sealed_result_is_dropped_only_on_request(payments: Payments) -> None:
    """It cannot be saved by the command line, which says so."""
    _sealed(payments, RECEIPT)("p-1")
    refused = payments.run("resolve", payments.token("p-1"), "--not-done", "--force", *ANNA)
    assert refused.exit_code == 1
    assert "It is sealed, and cannot be printed here" in output_of(refused)
    _resolved(payments, "p-1", "--not-done", "--force", "--drop-result")
    assert payments.row("p-1").state is State.RELEASED


def _a_mistyped_order(payments: Payments) -> None:
    """Bert means another token: the command stops, and says how to save what would be lost."""
    payments.provider = lambda _: RECEIPT
    payments.ask("p-1")
    ran = payments.run("resolve", payments.token("p-1"), "--not-done", "--force", *BERT)
    assert ran.exit_code == 1
    assert f"lambda-once show {payments.token('p-1')} --result > backup.json" in output_of(ran)
    assert json.loads(payments.run("show", payments.token("p-1"), "--result").stdout) == RECEIPT
    assert payments.ask("p-1") == RECEIPT
    assert payments.asked == ["p-1"]


def test_a_mistyped_order_loses_no_result(payments: Payments) -> None:
    """Only --drop-result does."""
    _a_mistyped_order(payments)


def test_twin_that_drops_it_without_a_word(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is gone, and the next delivery charges again."""
    monkeypatch.setattr(decisions, "drops_result", lambda *_: False)
    _breaks(_a_mistyped_order, strict)


# -- what was released


def _released_runs(payments: Payments, on_lapse: Literal["take_over", "hold"]) -> None:
    """Held, released by Anna, listed until it is delivered; it runs then, and nothing was taken over."""
    taken: list[Details] = []
    once = Once(service="shop", hooks=[taken.append])

    @once.event(key="paymentId", name="charge", on_lapse=on_lapse, lease=timedelta(seconds=LEASE))
    def charge(event: dict[str, Any]) -> str:
        payments.asked.append(event["paymentId"])
        return "charged"

    payments.hold("p-1")
    _resolved(payments, "p-1", "--not-done")
    payments.clock.advance(40 * 86_400)
    _deleted_by_ttl(payments)
    assert _listed(payments) == [payments.token("p-1")]
    with using(once, DynamoDBStore(payments.table, payments.client), payments.clock):
        assert charge({"paymentId": "p-1"}, lambda_context()) == "charged"
    assert payments.asked == ["p-1"] * 2
    assert [each.event for each in taken if each.event is Event.TAKEN_OVER] == []
    assert _listed(payments) == []


def _listed(payments: Payments) -> list[str]:
    table = payments.operations
    return [entry.token for entry in table.store.unfinished(State.RELEASED, table.deadline())]


@pytest.mark.parametrize("on_lapse", ["take_over", "hold"])
def test_what_a_person_released_is_listed_until_it_runs(
    payments: Payments, on_lapse: Literal["take_over", "hold"]
) -> None:
    """It may be that nobody delivers it again: then it stays in the list, and never expires."""
    _released_runs(payments, on_lapse)


WITHOUT_STATUS = "attribute_not_exists(#status)"


@pytest.mark.parametrize(
    ("condition", "on_lapse"), [("FREE", "take_over"), ("RELEASED_AS_SEEN", "hold"), ("both", "hold")]
)
def test_twin_that_finds_only_what_has_no_status_free(
    strict: Payments,
    monkeypatch: pytest.MonkeyPatch,
    condition: str,
    on_lapse: Literal["take_over", "hold"],
) -> None:
    """`decide` calls it free, and the write is refused: what was released would never run."""
    for name in ("FREE", "RELEASED_AS_SEEN"):
        if condition in (name, "both"):
            narrow = getattr(requests, name).replace(requests.ENDED, WITHOUT_STATUS)
            monkeypatch.setattr(requests, name, narrow)
    _breaks_or_fails(lambda: _released_runs(strict, on_lapse))


def test_twin_that_takes_any_status_for_a_take_over(
    strict: Payments, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every released token would ring the alarm on take-overs."""
    right = requests.won

    def any_status(granted: Any) -> Any:
        return right(granted)._replace(took_over=granted.get("before", {"S": "none"})["S"] != "none")

    monkeypatch.setattr(requests, "won", any_status)
    with pytest.raises(AssertionError):
        _released_runs(strict, "take_over")


def test_twin_that_releases_as_an_attempt_does(strict: Payments, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a status the index does not have it: released, never run, and never seen again."""
    monkeypatch.setattr(requests, "_released", lambda *_: ({}, [*requests.OPEN]))
    with pytest.raises(AssertionError):
        _released_runs(strict, "take_over")


def _breaks_or_fails(scenario: Callable[[], None]) -> None:
    with pytest.raises((AssertionError, OnceError)):
        scenario()
