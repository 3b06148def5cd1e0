"""``--scan``: what nobody has listed yet is found all the same, at a price that is printed first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from benchmarks.units import LIST
from lambda_once.core.lifecycle import State
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Hold, Release
from lambda_once.operations.table import TokenTable
from lambda_once.stores.index import partitions
from lambda_once.stores.store import DynamoDBStore
from lambda_once_tools.cli import options
from lambda_once_tools.cli.scans import describe_size
from lambda_once_tools.search import READ_PRICE, ScannedIndex, TableSize
from tests.cli.shop import TIMED_OUT, Shop, lines, on_engine, on_strict

SURE = ("--because", "the provider was down", "--by", "ann", "--yes")


class Shops(NamedTuple):
    """The same tokens listed at once, and in stream mode, where no watchdog has run."""

    listed: Shop
    bare: Shop

    def do(self, write: Callable[[Shop], object]) -> None:
        for shop in self:
            write(shop)


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def bare(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop in stream mode, without a watchdog, on each engine."""
    with ExitStack() as stack:
        if request.param == "strict":
            yield _streaming(stack.enter_context(on_strict(monkeypatch)))
        else:
            endpoint = request.getfixturevalue("engine_endpoint")
            yield _streaming(stack.enter_context(on_engine(monkeypatch, endpoint)))


def _streaming(shop: Shop) -> Shop:
    shop.store = DynamoDBStore(shop.name, shop.client, Listing.STREAM)
    return shop


@pytest.fixture
def shops(engine_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shops]:
    """Both on dynoxide, under clocks that move alike."""
    with (
        on_engine(monkeypatch, engine_endpoint) as listed,
        on_engine(monkeypatch, engine_endpoint) as bare,
    ):
        shops = Shops(listed, _streaming(bare))
        shops.do(_some_of_each_status)
        yield shops


def _some_of_each_status(shop: Shop) -> None:
    """Overdue, held, in progress, released by a decision, released by its function, complete; a part row."""
    for number in range(5):
        shop.begin(f"orders/ship/late-{number}", lease=60)
        shop.clock.advance(1)
    shop.complete("orders/charge/done")
    for number in range(4):
        shop.hold(f"orders/refund/acme/held-{number}", attempt=f"h{number}")
        shop.clock.advance(60)
    shop.decide("orders/refund/acme/held-3", Release(None))
    shop.decide("orders/refund/acme/held-2", Hold(TIMED_OUT))
    shop.release("orders/charge/given-back")
    shop.put({"lockToken": {"S": "orders/charge/done#a1#0"}, "data": {"B": b"part"}})
    shop.clock.advance(3_600)
    shop.begin("orders/charge/busy", lease=900)


LISTS: dict[str, list[str]] = {
    "all": [],
    "released": ["--released"],
    "held, with the reason": ["--held"],
    "two, of one function": ["--overdue", "--in-progress", "--name", "ship"],
    "by error": ["--error", "PaymentTimeout"],
    "by age": ["--older-than", "61m"],
    "consistent": ["--consistent"],
    "counted": ["--by-function"],
    "cut": ["--limit", "3"],
}


@pytest.mark.engine
@pytest.mark.parametrize("asked", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_a_scan_lists_what_the_index_lists(shops: Shops, asked: list[str], form: str) -> None:
    """The same rows, columns, order, summary and exit code, and on standard error the price before."""
    wanted = shops.listed.run("list", *asked, "--output", form)
    found = shops.bare.run("list", *asked, "--output", form, "--scan", "--yes")
    assert wanted.stdout.strip()
    assert found.stdout == wanted.stdout
    assert found.exit_code == wanted.exit_code
    before, after, *rest = found.stderr.splitlines()
    assert before.startswith("reading the whole table: about ")
    assert re.fullmatch(r"read 8 pages for [\d.]+ read units", after)
    assert rest == wanted.stderr.splitlines()


@pytest.mark.engine
def test_watch_counts_the_same_in_each_round(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """It scans again: what has changed since is counted."""
    monkeypatch.setattr(options, "clock", lambda: shops.listed.clock)
    wanted = shops.listed.run("watch", "--count", "1", "--output", "jsonl")
    monkeypatch.setattr(options, "clock", lambda: shops.bare.clock)
    asked = ["watch", "--scan", "--yes", "--output", "jsonl"]
    found = shops.bare.run(*asked, "--count", "1")
    assert (found.stdout, found.exit_code) == (wanted.stdout, wanted.exit_code)
    assert found.stderr.startswith("reading the whole table in each round: about ")

    def sleep(_: float) -> None:
        shops.bare.begin("orders/charge/next", lease=900)

    monkeypatch.setattr(shops.bare.clock, "sleep", sleep)
    rounds = lines(shops.bare.run(*asked, "--count", "2"))
    assert [each["inProgress"] for each in rounds] == [1, 2]


@pytest.mark.engine
def test_redrive_releases_the_same(shops: Shops) -> None:
    """Held tokens but those on which a person decided; each write is conditional as ever."""
    asked = ["redrive", "--output", "jsonl", "--older-than", "10m", *SURE]
    wanted = shops.listed.run(*asked)
    found = shops.bare.run(*asked, "--scan")
    assert [(row["lockToken"], row["outcome"]) for row in lines(found)] == [
        (row["lockToken"], row["outcome"]) for row in lines(wanted)
    ]
    assert found.exit_code == wanted.exit_code == 0
    row = shops.bare.store.read("orders/refund/acme/held-0", shops.bare._deadline())
    assert row is not None
    assert row.state is State.RELEASED


@pytest.mark.engine
def test_scan_works_with_the_index_too(shops: Shops) -> None:
    """The option says what is done, not what the table lacks."""
    wanted, found = (
        shops.listed.run("list", "--output", "json", *scan) for scan in ([], ["--scan", "--yes"])
    )
    assert found.stdout == wanted.stdout


@pytest.mark.engine
def test_a_scan_counts_what_the_index_counts(shops: Shops) -> None:
    """All of it, also where the index would be read in part: none is asked that isn't there."""
    table, bare = (TokenTable(shop.name, shop.client, shop.clock) for shop in shops)
    found = ScannedIndex(bare)
    for state in (State.IN_PROGRESS, State.HELD, State.RELEASED):
        wanted, deadline = partitions(state), table.deadline()
        in_part = found.count_some(wanted, deadline, most=1, limit=1)
        assert in_part == table.index.count_some(wanted, deadline)
        assert found.count(wanted, deadline) == in_part[0]


@pytest.mark.parametrize("command", [["list"], ["watch", "--count", "1"]], ids=["list", "watch"])
def test_a_scan_is_asked_for(bare: Shop, command: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read before: without a terminal --yes is needed; declined, the exit code is 1."""
    scans: list[object] = []
    bare.client.meta.events.register("before-call.dynamodb.Scan", lambda **_: scans.append(1))
    ran = bare.run(*command, "--scan")
    assert ran.exit_code == 2
    assert "no terminal to ask for confirmation: pass --yes" in ran.stderr
    monkeypatch.setattr(options, "is_terminal", lambda: True)
    ran = bare.run(*command, "--scan")  # an empty standard input declines
    assert (ran.exit_code, ran.stdout) == (1, "")
    assert "reading the whole table: about 0 rows" in ran.stderr.replace(" in each round", "")
    assert scans == []


def test_commands_of_one_token_need_no_index(bare: Shop) -> None:
    """A key is found by a scan, a token is shown, resolved and forgotten."""
    token = bare.hold("orders/refund/order-5")
    assert bare.run("show", token).exit_code == 1
    assert lines(bare.run("show", "order-5", "--output", "jsonl"))[0]["lockToken"] == token
    assert lines(bare.run("find", "order-5", "--output", "jsonl"))[0]["lockToken"] == token
    assert bare.run("resolve", token, "--done", *SURE).exit_code == 0
    assert bare.run("forget", token, *SURE).exit_code == 0
    assert bare.run("show", token).exit_code == 1


def test_the_price_is_that_of_the_page() -> None:
    """One list price, for costs.md and the command line."""
    assert LIST.read == READ_PRICE
    size = TableSize(10_000_000, 20_000_000_000)
    assert describe_size(size) == "about 10,000,000 rows, 20.0 GB, 2,441,407 read units, $0.31"


def test_a_size_that_may_not_be_read_is_said(bare: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """--scan works without DescribeTable."""
    from lambda_once_tools.cli import scans

    monkeypatch.setattr(scans, "table_size", lambda _: None)
    bare.hold("orders/refund/held")
    ran: Any = bare.run("list", "--scan", "--yes", "--output", "jsonl")
    assert "its size is unknown (dynamodb:DescribeTable is denied)" in ran.stderr
    assert [row["key"] for row in lines(ran)] == ["held"]
