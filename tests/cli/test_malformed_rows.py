"""Rows that another program wrote, or that lost an attribute: they are named last, and hide no other."""

from __future__ import annotations

import json

import pytest

from lambda_once.core.lifecycle import State
from lambda_once.operations.listing import MOST_NAMED
from lambda_once.stores.row import listed
from tests.cli.shop import Shop, lines, open_shop

__all__ = ["open_shop"]

LEGACY = "legacy-row-1"
SURE = ("--because", "nothing was charged", "--by", "ann", "--yes")


@pytest.fixture(name="mixed")
def some_of_all(shop: Shop) -> Shop:
    """One overdue, two held, one in progress; between them an entry of the index without its attributes."""
    _legacy(shop, LEGACY, "inProgress")
    shop.begin("orders/charge/late")
    shop.hold("orders/charge/held-1")
    shop.hold("orders/charge/held-2")
    shop.clock.advance(3_600)
    shop.begin("orders/charge/busy", lease=900)
    return shop


def _legacy(shop: Shop, token: str, status: str) -> None:
    partition, lease = listed(State(status), token), "2026-11-19T00:00:00.000Z"
    texts = {"lockToken": token, "status": status, "listed": partition, "expectedCompletion": lease}
    shop.put({name: {"S": text} for name, text in texts.items()})


def _without(shop: Shop, token: str, attribute: str) -> None:
    """Remove *attribute*, which the index does not project, so that only the row cannot be read."""
    change = {"UpdateExpression": "REMOVE #gone", "ExpressionAttributeNames": {"#gone": attribute}}
    shop.client.update_item(TableName=shop.name, Key={"lockToken": {"S": token}}, **change)


def _keys(shop: Shop, *args: str) -> list[str]:
    ran = shop.run(*args, "--output", "jsonl")
    assert ran.exit_code == 2
    return [row["key"] for row in lines(ran)]


@pytest.mark.parametrize(
    ("options", "keys"),
    [
        ([], ["late", "held-1", "held-2", "busy"]),
        (["--consistent"], ["late", "held-1", "held-2", "busy"]),
        (["--overdue"], ["late"]),
        (["--in-progress", "--held"], ["held-1", "held-2", "busy"]),
    ],
)
def test_a_malformed_entry_hides_no_other(mixed: Shop, options: list[str], keys: list[str]) -> None:
    """All others are listed, and then token and attribute are named; the exit code is 2."""
    assert _keys(mixed, "list", *options) == keys
    ran = mixed.run("list", *options)
    said = ran.stderr.splitlines()
    assert said[-1].startswith(
        f"not readable: index byStatus, token {LEGACY}: attempt is missing or malformed"
    )
    assert [line for line in said if "not readable" in line] == said[-1:]
    assert len(json.loads(mixed.run("list", *options, "--output", "json").stdout)) == len(keys)


def test_a_list_without_malformed_rows_exits_as_ever(mixed: Shop) -> None:
    """The twin: what is not listed is not reported, and what is held is 1."""
    ran = mixed.run("list", "--held")
    assert (ran.exit_code, "not readable" in ran.stderr) == (1, False)
    mixed.client.delete_item(TableName=mixed.name, Key={"lockToken": {"S": LEGACY}})
    assert mixed.run("list").exit_code == 1


@pytest.mark.parametrize("options", [["--held"], ["--consistent", "--held"]])
def test_a_malformed_row_hides_no_other(mixed: Shop, options: list[str]) -> None:
    """A row that is read for its reason, and cannot be."""
    _without(mixed, "orders/charge/held-1", "fence")
    assert _keys(mixed, "list", *options) == ["held-2"]
    assert (
        "token orders/charge/held-1 was not written by lambda-once: fence is missing"
        in (mixed.run("list", *options).stderr.splitlines()[-1])
    )


def test_watch_counts_what_it_can_judge(mixed: Shop) -> None:
    """Its lease may be anything, so the oldest is the first of the others; the count is that of the index."""
    (row,) = lines(mixed.run("watch", "--count", "1", "--output", "jsonl"))
    assert (row["overdue"], row["held"], row["inProgress"]) == (2, 2, 1)
    assert row["oldestOverdueSeconds"] == 3_572


def test_show_finds_a_key_beside_a_malformed_entry(mixed: Shop) -> None:
    """It is no token, so it does not matter to this key."""
    ran = mixed.run("show", "busy", "--output", "json")
    assert (ran.exit_code, json.loads(ran.stdout)["lockToken"]) == (0, "orders/charge/busy")
    assert "not readable" not in ran.stderr


def test_show_names_the_malformed_row_of_the_key(shop: Shop) -> None:
    """Alone it is the error; beside another function's row it is named after that."""
    shop.begin("orders/charge/5")
    _without(shop, "orders/charge/5", "attempt")
    ran = shop.run("show", "5")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "row of token orders/charge/5 was not written by lambda-once: attempt is missing" in ran.stderr
    shop.begin("orders/ship/5")
    ran = shop.run("show", "5", "--output", "jsonl")
    assert [row["lockToken"] for row in lines(ran)] == ["orders/ship/5"]
    assert ran.exit_code == 2
    assert "2 tokens have the key 5" in ran.stderr
    assert "token orders/charge/5" in ran.stderr.splitlines()[-1]


def test_show_finds_what_is_finished_beside_a_malformed_row(shop: Shop) -> None:
    """The whole table is read as ever; a finished row that cannot be read is named, too, each once."""
    shop.begin("orders/charge/5")
    _without(shop, "orders/charge/5", "attempt")
    shop.complete("orders/mail/5")
    _without(shop, "orders/mail/5", "fence")
    shop.complete("orders/ship/5")
    ran = shop.run("show", "5", "--output", "jsonl")
    assert ([row["lockToken"] for row in lines(ran)], ran.exit_code) == (["orders/ship/5"], 2)
    assert "3 tokens have the key 5" in ran.stderr
    named = [line for line in ran.stderr.splitlines() if "not readable" in line]
    assert sorted(line.split()[6] for line in named) == ["orders/charge/5", "orders/mail/5"]


def test_redrive_releases_the_others(mixed: Shop) -> None:
    """All that can be read; what cannot is named last."""
    _legacy(mixed, "legacy-row-2", "error")
    _without(mixed, "orders/charge/held-1", "fence")
    ran = mixed.run("redrive", *SURE, "--output", "jsonl")
    assert [(row["key"], row["outcome"]) for row in lines(ran)] == [("held-2", "released")]
    assert ran.exit_code == 2
    named = [line for line in ran.stderr.splitlines() if "not readable" in line]
    assert named == ran.stderr.splitlines()[-2:]
    assert "legacy-row-2" in named[0]
    assert "orders/charge/held-1" in named[1]


def test_many_malformed_rows_are_counted(shop: Shop) -> None:
    """An index that projects too little makes all of them so: few are named."""
    for n in range(MOST_NAMED + 3):
        _legacy(shop, f"legacy-\x1b[31m-{n}", "inProgress")
    named = [line for line in shop.run("list").stderr.splitlines() if "not readable" in line]
    assert len(named) == MOST_NAMED + 1
    assert named[-1] == "not readable: 3 more"
    assert all("\x1b" not in line for line in named)


WRONG: dict[str, dict[str, object]] = {
    "another word": {"status": {"S": "waiting"}},
    "a status that is no text": {"status": {"N": "1"}},
    "no lease": {"expectedCompletion": None},
    "a lease that is no time": {"expectedCompletion": {"S": "soon"}},
    "no attempt": {"attempt": None},
    "no creation": {"created": None},
}


@pytest.mark.parametrize("command", [("list", "--in-progress"), ("watch", "--count", "1")])
@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_scan_names_what_it_cannot_read(
    shop: Shop, wrong: dict[str, object], command: tuple[str, ...]
) -> None:
    """Its row may be lost work: "nothing" is no answer. The twin without it is one."""
    shop.begin("orders/charge/odd", lease=900)
    shop.begin("orders/charge/busy", lease=900)
    assert shop.run(*command, "--scan", "--yes").exit_code == 0
    row = shop.client.get_item(TableName=shop.name, Key={"lockToken": {"S": "orders/charge/odd"}})["Item"]
    shop.put({name: each for name, each in {**row, **wrong}.items() if each is not None})
    ran = shop.run(*command, "--scan", "--yes")
    assert ran.exit_code == 2
    assert f"not readable: token orders/charge/odd: {next(iter(wrong))} is missing or malformed" in ran.stderr
    if command[0] == "list":
        assert "orders/charge/busy" in ran.stdout


def test_a_scan_knows_the_rows_that_are_no_tokens(shop: Shop) -> None:
    """Parts of a result, and what the watchdog keeps, have a "#" in their key."""
    shop.put({"lockToken": {"S": "watchdog#stream"}, "status": {"S": "open"}})
    assert shop.run("list", "--in-progress", "--scan", "--yes").exit_code == 0
