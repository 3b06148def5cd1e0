"""``--tenant``: what operators see and decide of one isolated tenant, the third part of its tokens."""

from __future__ import annotations

import pytest

from lambda_once.core.canonical import digest
from lambda_once.core.keys import token
from lambda_once.core.lifecycle import Failure, Record, State
from lambda_once.core.writes import Hold
from tests.cli.shop import REQUEST, Shop, complaint, lines, open_shop

__all__ = ["open_shop"]

LONG = "/" * 200
"""A tenant that has more than 255 bytes where it's percent-encoded."""
SURE = ("--because", "seen at the bank", "--by", "ann", "--yes")
BLUE, SCOPED, GREEN = "orders/charge/blue/5", "orders/charge/blue/eu/5", "orders/charge/green/5"


@pytest.fixture
def tenants(shop: Shop) -> Shop:
    """Work of two tenants, of a function with a scope, and of none; a scope may have a tenant's text."""
    for each in (BLUE, SCOPED, GREEN, "orders/charge/5", "orders/mail/blue/6"):
        shop.hold(each)
    return shop


def _tokens(shop: Shop, *args: str) -> list[str]:
    return sorted(row["lockToken"] for row in lines(shop.run(*args, "--output", "jsonl")))


def _row(shop: Shop, of: str) -> Record:
    row = shop.store.read(of, shop._deadline())
    assert row is not None
    return row


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (["--tenant", "blue"], [BLUE, SCOPED, "orders/mail/blue/6"]),
        (["--tenant", "blue", "--name", "charge"], [BLUE, SCOPED]),
        (["--tenant", "blue", "--scope", "eu"], [SCOPED]),
        (["--tenant", "b*"], [BLUE, SCOPED, "orders/mail/blue/6"]),
        (["--tenant", "*"], [BLUE, SCOPED, GREEN, "orders/mail/blue/6"]),
        (["--tenant", "Blue"], []),
        (["--tenant", "eu"], []),
        (["--scope", "eu"], [SCOPED]),
        (["--scope", "green"], [GREEN]),  # nothing shows that it's a tenant
    ],
)
def test_list_filters_by_tenant(tenants: Shop, options: list[str], wanted: list[str]) -> None:
    """By the third part alone, with wildcards; of four parts it's what is asked for."""
    assert _tokens(tenants, "list", *options) == wanted


def test_a_long_tenant_is_filtered_by_its_whole_text(shop: Shop) -> None:
    """Its part is a SHA-256."""
    long = token("orders", "charge", None, 5, LONG)
    assert long == f"orders/charge/{digest(LONG)}/5"
    shop.hold(long)
    shop.hold(BLUE)
    assert _tokens(shop, "list", "--tenant", LONG) == [long]
    assert _tokens(shop, "find", "5", "--tenant", LONG) == [long]
    ran = shop.run("show", "5", "--tenant", LONG, "--output", "json")
    assert f'"lockToken": "{long}"' in ran.stdout


def test_json_has_the_tenant_where_a_token_shows_it(tenants: Shop) -> None:
    """Of five parts; of four the third counts as the scope."""
    rows = {row["lockToken"]: row for row in lines(tenants.run("list", "--output", "jsonl"))}
    parts = {of: (row["name"], row["tenant"], row["scope"], row["key"]) for of, row in rows.items()}
    assert parts[SCOPED] == ("charge", "blue", "eu", "5")
    assert parts[BLUE] == ("charge", None, "blue", "5")
    assert parts["orders/charge/5"] == ("charge", None, None, "5")


def test_redrive_releases_one_tenants_tokens(tenants: Shop) -> None:
    """Those of others stay held."""
    ran = tenants.run("redrive", "--tenant", "blue", *SURE)
    assert (ran.exit_code, "3 released" in ran.stderr) == (0, True)
    states = {of: _row(tenants, of).state for of in (BLUE, SCOPED, GREEN, "orders/charge/5")}
    assert states == {
        BLUE: State.RELEASED,
        SCOPED: State.RELEASED,
        GREEN: State.HELD,
        "orders/charge/5": State.HELD,
    }


@pytest.mark.parametrize("finished", [False, True])
def test_show_finds_a_tenants_key(shop: Shop, finished: bool) -> None:
    """A bare key, whatever other tenants have of it, under known names or in the whole table."""
    make = shop.complete if finished else shop.hold
    for each in (BLUE, GREEN, "orders/charge/5"):
        make(each)
    for options in ((), ("--names", "orders/charge"), ("--names", "orders/charge", "--scan")):
        ran = shop.run("show", "5", "--tenant", "green", *options)
        assert (ran.exit_code, GREEN in ran.stdout) == (0 if finished else 1, True), ran.output
        assert BLUE not in ran.stdout
        assert _tokens(shop, "show", "5", "--names", "orders/charge", "--scan") == [
            "orders/charge/5",
            BLUE,
            GREEN,
        ]
    message = complaint_of_last(shop, "show", "5", "--tenant", "red")
    assert "no token and no key 5 of tenant red" in message
    assert "unfinished and similar" not in message


def complaint_of_last(shop: Shop, *args: str) -> str:
    """Return the last line that a command said of what isn't there; those before are of a scan."""
    ran = shop.run(*args)
    assert (ran.exit_code, ran.stdout) == (1, "")
    return ran.stderr.splitlines()[-1]


def test_show_looks_under_the_tenants_part_of_a_known_name(shop: Shop) -> None:
    """Of a name in --names, with or without a scope, and of the names of others' unfinished tokens."""
    shop.complete(SCOPED)
    shop.complete(BLUE)
    shop.begin("orders/ship/green/1")
    shop.complete("orders/ship/blue/7")
    for key, names, found, under in (
        ("5", "orders/charge", BLUE, "orders/charge/blue, orders/ship/blue"),
        ("5", "orders/charge/blue", BLUE, "orders/charge/blue, orders/ship/blue"),
        ("5", "orders/charge/eu", SCOPED, "orders/charge/blue/eu, orders/ship/blue"),
        ("5", "orders/charge/blue/eu", SCOPED, "orders/charge/blue/eu, orders/ship/blue"),
        ("7", "orders/charge", "orders/ship/blue/7", "orders/charge/blue, orders/ship/blue"),
    ):
        ran = shop.run("show", key, "--tenant", "blue", "--names", names)
        assert ran.stdout.startswith(f"complete  {found}\n"), ran.output
        assert ran.stderr == f"WARNING: only looked under {under}; --scan searches all functions\n"


def test_show_builds_the_token_of_a_tenant(tenants: Shop) -> None:
    """With --service and --name: the tenant stands before the scope."""
    of_charge = ("show", "5", "--service", "orders", "--name", "charge")
    assert BLUE in tenants.run(*of_charge, "--tenant", "blue").stdout
    assert SCOPED in tenants.run(*of_charge, "--tenant", "blue", "--scope", "eu").stdout
    message = complaint(tenants.run(*of_charge, "--tenant", "red", "--scope", "eu"), 1)
    assert "orders/charge of tenant red in scope eu has no key 5" in message


def test_a_whole_token_is_shown_to_its_tenant_alone(tenants: Shop) -> None:
    """Another one's is not found."""
    assert tenants.run("show", BLUE, "--tenant", "blue").stdout.startswith(f"held  {BLUE}\n")
    assert f"no key {GREEN} of tenant blue" in complaint_of_last(tenants, "show", GREEN, "--tenant", "blue")


def test_find_is_limited_to_a_tenant(shop: Shop) -> None:
    """By a part of a key, or by a delivery."""
    for each in (BLUE, SCOPED, GREEN):
        shop.complete(each, delivery="m-1")
    assert _tokens(shop, "find", "5", "--tenant", "blue") == [BLUE, SCOPED]
    assert _tokens(shop, "find", "5", "--tenant", "blue", "--ignore-case") == [BLUE, SCOPED]
    assert _tokens(shop, "find", "--delivery", "m-1", "--tenant", "green") == [GREEN]
    assert _tokens(shop, "find", "blue") == [BLUE, SCOPED]
    ran = shop.run("find", "5", "--tenant", "red")
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "no key or scope of tenant red contains '5'" in ran.stderr
    ran = shop.run("find", "--delivery", "m-1", "--tenant", "red")
    assert "no token of tenant red was last acquired for the delivery 'm-1'" in ran.stderr


@pytest.mark.parametrize("command", [("resolve", "--not-done"), ("forget",)])
def test_a_decision_on_another_tenants_token_is_refused(tenants: Shop, command: tuple[str, ...]) -> None:
    """Nothing is written; of the tenant's own it is."""
    name, *how = command
    before = _row(tenants, GREEN)
    message = complaint(tenants.run(name, GREEN, *how, "--tenant", "blue", *SURE), 1)
    assert f"{GREEN} is no token of tenant blue" in message
    assert _row(tenants, GREEN) == before
    assert tenants.run(name, GREEN, *how, "--tenant", "green", *SURE).exit_code == 0
    assert _row(tenants, GREEN) != before


@pytest.mark.parametrize(
    "args",
    [
        ("list",),
        ("show", "5"),
        ("show", BLUE),
        ("show", "5", "--service", "orders", "--name", "charge"),
        ("find", "5"),
        ("resolve", BLUE, "--done", *SURE),
        ("redrive", *SURE),
    ],
)
def test_an_empty_tenant_is_bad_input(tenants: Shop, args: tuple[str, ...]) -> None:
    """It names none."""
    ran = tenants.run(*args, "--tenant", "")
    assert (ran.exit_code, "the tenant is empty" in ran.stderr) == (2, True), ran.output


def test_a_ledger_has_no_tenants(shop: Shop) -> None:
    """Its items have the keys that you give them."""
    ran = shop.run("show", "c-7", "--ledger", "points", "--tenant", "blue")
    assert "--tenant is for tokens" in complaint(ran)


def test_a_request_of_a_tenant_is_one(shop: Shop) -> None:
    """The scope with method and path is the fourth part: an operator's result must be a response."""
    request = "orders/api/blue/POST:%2Forders/7"
    shop.begin(request, locked_by=f"api/{REQUEST}")
    shop.end(request, Hold(Failure("Timeout", "no answer")))
    ran = shop.run("resolve", request, "--done", *SURE)
    assert "this is an API request" in ran.stderr
