from __future__ import annotations

import json

import pytest

from lambda_once.core.lifecycle import Failure, State
from lambda_once.core.writes import Hold, Release
from lambda_once.operations.listing import unfinished
from lambda_once.operations.table import TokenTable
from lambda_once.operations.tokens import Status
from lambda_once.stores.index import partitions
from lambda_once.stores.transport import TokenTransport
from lambda_once.testing import FakeClock
from lambda_once_tools.cli import options
from lambda_once_tools.cli.scans import UNLISTED
from tests.cli.shop import Shop, lines, on_strict, open_shop
from tests.kit.strict.mounted import index_behind
from tests.operations.big_table import (
    HELD,
    IN_PROGRESS,
    NOW,
    OLDEST,
    OVERDUE,
    BigTable,
    overdue_token,
)

__all__ = ["open_shop"]


def _some_of_each_status(shop: Shop) -> None:
    """Two overdue, the earlier lease first; one held; one in progress; one complete."""
    shop.begin("orders/ship/late-2", lease=60)
    shop.begin("orders/charge/acme/late-1", lease=30)
    shop.complete("orders/charge/done")
    shop.hold("orders/refund/held-1")
    shop.clock.advance(3_600)
    shop.begin("orders/charge/busy", lease=900)


def _keys(shop: Shop, *options: str) -> list[str]:
    return [row["key"] for row in lines(shop.run("list", "--output", "jsonl", *options))]


def test_overdue_then_held_then_in_progress(shop: Shop) -> None:
    """Overdue by lease, held, in progress; what is complete is not unfinished."""
    _some_of_each_status(shop)
    ran = shop.run("list", "--output", "jsonl")
    assert [(row["key"], row["status"]) for row in lines(ran)] == [
        ("late-1", "overdue"),
        ("late-2", "overdue"),
        ("held-1", "held"),
        ("busy", "inProgress"),
    ]
    assert ran.exit_code == 1
    assert ran.stderr == "2 overdue, 1 held, 1 in progress\nnext: lambda-once show TOKEN\n"


def test_list_has_what_the_index_has(shop: Shop) -> None:
    """By the names of the row, with the token's parts and ages; no name for what only the row knows."""
    _some_of_each_status(shop)
    assert lines(shop.run("list", "--output", "jsonl"))[0] == {
        "lockToken": "orders/charge/acme/late-1",
        "status": "overdue",
        "service": "orders",
        "name": "charge",
        "tenant": None,
        "scope": "acme",
        "key": "late-1",
        "lockedBy": "payments/5f2b6a3e-7d0c-4c1d-9a51-0e8d7c6b5a49",
        "attempt": "a1",
        "created": "2026-11-20T10:12:00.000Z",
        "expectedCompletion": "2026-11-20T10:12:30.000Z",
        "ageSeconds": 3602,
        "overdueSeconds": 3572,
    }


def test_list_held_has_the_reason(shop: Shop) -> None:
    """Read from the rows of what is shown, in one request; the rest of the list stays the index's."""
    _some_of_each_status(shop)
    held, busy = lines(shop.run("list", "--held", "--in-progress", "--output", "jsonl"))
    assert held["error"] == {"kind": "PaymentTimeout", "message": "the bank did not answer"}
    assert held["actualCompletion"] == "2026-11-20T10:12:02.200Z"
    assert {"error", "actualCompletion"}.isdisjoint(busy)
    ran = shop.run("list", "--held")
    assert ran.stdout.splitlines()[0].split()[-1] == "reason"
    assert "PaymentTimeout: the bank did not answer" in ran.stdout
    (row,) = lines(shop.run("list", "--held", "--consistent", "--output", "jsonl"))
    assert row == held


def test_list_held_omits_what_was_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row is read as it is now, though the index lags behind."""
    with on_strict(monkeypatch) as shop:
        shop.hold("orders/refund/held-1")
        shop.hold("orders/refund/held-2")
        with index_behind():
            shop.decide("orders/refund/held-1", Release())
            assert _keys(shop, "--held") == ["held-2"]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        (["--overdue"], ["late-1", "late-2"]),
        (["--held"], ["held-1"]),
        (["--in-progress"], ["busy"]),
        (["--held", "--in-progress"], ["held-1", "busy"]),
        (["--released"], []),
        (["--name", "charge"], ["late-1", "busy"]),
        (["--name", "?h*", "--service", "ord*"], ["late-1", "late-2", "busy"]),
        (["--service", "other"], []),
        (["--older-than", "1h"], ["late-1", "late-2", "held-1"]),
        (["--older-than", "2h"], []),
        (["--limit", "1"], ["late-1"]),
    ],
)
def test_the_options_choose(shop: Shop, options: list[str], keys: list[str]) -> None:
    """By state, several together; by name with wildcards; by age; so many."""
    _some_of_each_status(shop)
    assert _keys(shop, *options) == keys


def test_the_exit_code_is_of_what_was_listed(shop: Shop) -> None:
    """Work that goes on is no reason to worry."""
    shop.begin("orders/charge/busy")
    ran = shop.run("list")
    assert (ran.exit_code, ran.stderr.splitlines()[0]) == (0, "0 overdue, 0 held, 1 in progress")
    assert shop.run("list", "--held").exit_code == 0


def test_nothing_unfinished(shop: Shop) -> None:
    """An empty list as JSON, no table, exit code 0."""
    ran = shop.run("list")
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr == (
        "nothing is overdue, held or in progress; "
        "for work that was released and has not run since: lambda-once list --released --scan\n"
    )
    assert json.loads(shop.run("list", "--output", "json").stdout) == []
    assert shop.run("list", "--held").stderr == "no matching token\n"


def test_the_table_is_one_line_a_token(shop: Shop) -> None:
    """Where no terminal is, so that grep finds it; a key with brackets is no markup."""
    shop.hold("orders/charge/[red]" + "k" * 200)
    head, row = shop.run("list").stdout.splitlines()
    assert not row.endswith(" ")
    assert head.split() == ["state", "token", "since", "age", "reason"]
    assert row.split()[:2] == ["held", "orders/charge/[red]" + "k" * 200]


def test_a_limit_still_counts_exactly(shop: Shop) -> None:
    """What is beyond it is counted by the index."""
    _some_of_each_status(shop)
    ran = shop.run("list", "--limit", "2")
    assert ran.stderr.splitlines()[0] == (
        "first 2 shown; 2 overdue, 1 held, 1 in progress in the whole table"
    )
    ran = shop.run("list", "--overdue", "--limit", "1", "--name", "ship")
    assert ran.stderr.splitlines()[0] == "1 overdue"
    ran = shop.run("list", "--overdue", "--limit", "1", "--service", "orders")
    assert ran.stderr.splitlines()[0].endswith("2 overdue in the whole table, unfiltered")


def test_consistent_leaves_out_what_has_moved_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index may still list what is complete by now; the row decides."""
    with on_strict(monkeypatch) as shop:
        _some_of_each_status(shop)
        with index_behind():
            shop.client.update_item(
                TableName=shop.name,
                Key={"lockToken": {"S": "orders/ship/late-2"}},
                UpdateExpression="SET actualCompletion = :now REMOVE #status",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={":now": {"S": "2026-11-20T11:12:00.000Z"}},
            )
            shop.client.delete_item(TableName=shop.name, Key={"lockToken": {"S": "orders/refund/held-1"}})
            assert _keys(shop, "--consistent") == ["late-1", "busy"]


# ------------------------------------------------------------------ released, and by function


def _released(shop: Shop, *keys: str, token: str = "orders/charge/{}") -> None:
    """Let a person release what was held."""
    for key in keys:
        shop.decide(shop.hold(token.format(key)), Release(), because="nothing was charged")


def test_released_are_listed_if_asked_for(shop: Shop) -> None:
    """By the time of the decision, with who and why; without the flag the list is as ever."""
    _released(shop, "one")
    shop.clock.advance(3_600)
    _released(shop, "two")
    ran = shop.run("list", "--released", "--output", "jsonl")
    assert [(row["key"], row["status"]) for row in lines(ran)] == [("one", "released"), ("two", "released")]
    assert (ran.exit_code, ran.stderr.splitlines()[:2]) == (1, ["2 released by a decision", UNLISTED])
    text = shop.run("list", "--released").stdout
    assert "nothing was charged" in text
    assert "by ann" in text
    shop.begin("orders/ship/busy")
    assert _keys(shop) == ["busy"]
    assert _keys(shop, "--in-progress", "--released") == ["busy", "one", "two"]


def test_the_age_of_what_was_released_is_since_then(shop: Shop) -> None:
    """An hour is what `releasedTokens` is about, not how long ago the first attempt began."""
    shop.clock.advance(-7_200)
    shop.hold("orders/charge/old")
    shop.clock.advance(7_200)
    _released(shop, "new")
    shop.clock.advance(1_800)
    assert _keys(shop, "--released", "--older-than", "1h") == []
    assert _keys(shop, "--released", "--newer-than", "1h") == ["new"]
    shop.clock.advance(1_800)
    assert _keys(shop, "--released", "--older-than", "1h") == ["new"]


def test_what_ran_since_it_was_released_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index may lag behind; an attempt that released the token itself has another id."""
    with on_strict(monkeypatch) as shop:
        _released(shop, "one", "two")
        with index_behind():
            shop.client.update_item(
                TableName=shop.name,
                Key={"lockToken": {"S": "orders/charge/one"}},
                UpdateExpression="SET attempt = :later REMOVE #status",
                ExpressionAttributeNames={"#status": "status"},
                ExpressionAttributeValues={":later": {"S": "a2"}},
            )
            assert _keys(shop, "--released") == ["two"]


STATE = ["get_item", "describe_table"]
"""What is asked about the list itself."""


def test_a_list_asks_for_released_only_where_it_must(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight queries for each state that is listed, and one before all."""
    asked: list[str] = []
    call = TokenTransport.call

    def counted(self: TokenTransport, operation: str, *rest: object) -> object:
        asked.append(operation)
        return call(self, operation, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenTransport, "call", counted)
    each = len(partitions(State.RELEASED))
    for given, states in (([], 2), (["--held"], 1), (["--released"], 1), (["--held", "--released"], 2)):
        asked.clear()
        shop.run("list", *given)
        assert asked == [*STATE, *["query"] * (1 + states * each)], given
    shop.hold("orders/charge/1")
    shop.hold("orders/charge/2")
    asked.clear()
    shop.run("list", "--held", "--limit", "1")  # what is beyond the limit is counted
    assert asked.count("query") == 2 * (1 + each)


def test_scope_and_error_choose(shop: Shop) -> None:
    """A tenant, and the error after which tokens are held, which only their rows have."""
    shop.begin("orders/charge/acme/late")
    shop.hold("orders/charge/acme/held")
    shop.hold("orders/charge/other/held")
    shop.begin("orders/charge/plain")
    shop.end("orders/charge/plain", Hold(Failure("Declined", "no")))
    shop.clock.advance(60)
    assert _keys(shop, "--scope", "acme") == ["late", "held"]
    assert _keys(shop, "--scope", "o*") == ["held"]
    assert _keys(shop, "--error", "Declined") == ["plain"]
    assert _keys(shop, "--error", "PaymentTimeout", "--scope", "acme") == ["held"]
    assert _keys(shop, "--error", "PaymentTimeout", "--overdue") == []
    assert _keys(shop, "--error", "Other") == []


def test_counts_by_function(shop: Shop) -> None:
    """Those with most to do first; all of them, however few a table would show."""
    _some_of_each_status(shop)
    _released(shop, "again")
    rows = lines(shop.run("list", "--by-function", "--output", "jsonl", "--limit", "1"))
    assert rows == [
        {"service": "orders", "name": name, "overdue": n, "held": held, "inProgress": busy}
        | {"releasedByDecision": None}
        for name, n, held, busy in (("charge", 1, 0, 1), ("ship", 1, 0, 0), ("refund", 0, 1, 0))
    ]
    ran = shop.run("list", "--by-function", "--held", "--released")
    assert [line.split() for line in ran.stdout.splitlines()] == [
        ["held", "released", "by", "a", "decision", "function"],
        ["1", "0", "orders/refund"],
        ["0", "1", "orders/charge"],
    ]
    assert (ran.exit_code, ran.stderr) == (1, f"1 held, 1 released by a decision\n{UNLISTED}\n")
    assert shop.run("list", "--by-function", "--name", "none").stdout == ""


@pytest.mark.engine
def test_the_first_rows_of_a_big_table_come_after_one_round(
    big_table: BigTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 20,000 tokens the oldest overdue one is there when each partition was asked once."""
    asked: list[str] = []
    calls = TokenTransport.call

    def counted(self: TokenTransport, operation: str, *rest: object) -> object:
        asked.append(operation)
        return calls(self, operation, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(TokenTransport, "call", counted)
    table = TokenTable(big_table.name, big_table.client, FakeClock(NOW))
    entries = unfinished(table, frozenset({Status.OVERDUE}), NOW, [])
    assert next(entries).record.token == overdue_token(0)
    assert asked == ["query"] * (1 + len(partitions(State.IN_PROGRESS)))
    assert 1 + sum(1 for _ in entries) == OVERDUE


@pytest.mark.engine
def test_the_counts_of_a_big_table_are_exact(big_table: BigTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """In all partitions, whether they are listed or counted."""
    monkeypatch.setattr(options, "clock", lambda: FakeClock(NOW))
    shop = Shop(big_table.client, big_table.name, big_table.endpoint)
    ran = shop.run("list", "--overdue", "--output", "jsonl")
    keys = [row["lockToken"] for row in lines(ran)]
    assert keys == [overdue_token(n) for n in range(OVERDUE)]
    assert ran.stderr.splitlines()[0] == f"{OVERDUE:,} overdue"
    ran = shop.run("list", "--limit", "5")
    assert f"{OVERDUE:,} overdue, {HELD:,} held, {IN_PROGRESS:,} in progress in the whole table" in ran.stderr
    ran = shop.run("watch", "--count", "1", "--output", "jsonl")
    (row,) = lines(ran)
    assert (row["overdue"], row["held"], row["inProgress"]) == (OVERDUE, HELD, IN_PROGRESS)
    assert row["oldestOverdueSeconds"] == (NOW - OLDEST).total_seconds()


@pytest.mark.engine
def test_one_token_of_a_big_table_is_found(big_table: BigTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished ones too, through all pages of all segments; it costs the read units that were said before."""
    monkeypatch.setattr(options, "clock", lambda: FakeClock(NOW))
    shop = Shop(big_table.client, big_table.name, big_table.endpoint)
    ran = shop.run("find", "order_019999", "--output", "jsonl")
    assert [(row["lockToken"], row["status"]) for row in lines(ran)] == [
        ("orders/charge/order_019999", "complete")
    ]
    before, after, *_ = ran.stderr.splitlines()
    message = float(before.split(", ")[-2].split()[0].replace(",", ""))
    cost = float(after.split()[4].replace(",", ""))
    assert message == pytest.approx(cost, rel=0.1), (before, after)
