"""``--scan``: what nobody has listed yet is found all the same, at a price that is printed first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from benchmarks.units import LIST
from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import State
from lambda_once.core.results import pack
from lambda_once.core.variables import Listing
from lambda_once.core.writes import Complete, Hold, Release
from lambda_once.operations.table import TokenTable
from lambda_once.stores.index import StatusIndex, partitions
from lambda_once.stores.store import DynamoDBStore
from lambda_once_tools.cli import options
from lambda_once_tools.cli.scans import UNLISTED, describe_size
from lambda_once_tools.search import READ_PRICE, ScannedIndex, TableSize
from tests.cli.shop import KEEP, TIMED_OUT, Shop, lines, on_engine, on_strict

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
    assert found.stdout == wanted.stdout.replace("releasedByDecision", "released")
    assert found.exit_code == wanted.exit_code
    before, after, *rest = found.stderr.splitlines()
    assert before.startswith("reading the whole table: about ")
    assert re.fullmatch(r"read 8 pages for [\d.]+ read units?", after)
    assert rest == [
        line.replace("released by a decision", "released")
        for line in wanted.stderr.splitlines()
        if line != UNLISTED
    ]


# ------------------------------------------------------------------ released


def _released(shop: Shop, *options: str) -> dict[str, dict[str, Any]]:
    """Return the rows of ``list --released``, by key."""
    return {row["key"]: row for row in lines(shop.run("list", "--released", *options, "--output", "jsonl"))}


def test_a_scan_lists_whatever_was_released(bare: Shop) -> None:
    """By a decision or by its function, with the error and until when the row is kept; the exit code is 1."""
    _some_of_each_status(bare)
    assert [*_released(bare)] == ["held-3"]
    rows = _released(bare, "--scan", "--yes")
    assert {*rows} == {"held-3", "given-back"}
    assert {row["status"] for row in rows.values()} == {"released"}
    back = rows["given-back"]
    assert back["error"] == {"kind": "ValueError", "message": "no such order"}
    assert back["until"] == stamp(datetime.fromtimestamp(back["ttl"], UTC))
    assert rows["held-3"]["until"] is None
    ran = bare.run("list", "--released", "--scan", "--yes")
    assert (ran.exit_code, ran.stderr.splitlines()[2:]) == (1, ["2 released", "next: lambda-once show TOKEN"])
    head, *_ = ran.stdout.splitlines()
    assert head.split() == ["state", "token", "since", "age", "reason", "kept", "until", "decided"]


def test_what_its_function_released_alone_is_lost_work(bare: Shop) -> None:
    """Nothing else is unfinished: the list has nothing and says what it lacks, the scan exits with 1."""
    bare.release("orders/charge/given-back")
    asked = ["list", "--overdue", "--held", "--released"]
    ran = bare.run(*asked)
    assert (ran.exit_code, ran.stdout) == (0, "")
    assert ran.stderr.splitlines() == ["no matching token", UNLISTED]
    assert bare.run(*asked, "--scan", "--yes").exit_code == 1
    assert bare.run("list", "--overdue", "--held", "--scan", "--yes").exit_code == 0
    assert UNLISTED not in bare.run(*asked, "--scan", "--yes").stderr
    assert UNLISTED not in bare.run("list", "--held").stderr


def test_past_its_ttl_a_released_row_is_absent(bare: Shop) -> None:
    """As everywhere, whether it is deleted yet or not; a second before it is there."""
    bare.release("orders/charge/given-back")
    bare.clock.advance(KEEP.total_seconds() - 1)
    assert [*_released(bare, "--scan", "--yes")] == ["given-back"]
    bare.clock.advance(1)
    for command in (["list", "--released"], ["watch", "--count", "1"]):
        assert bare.run(*command, "--scan", "--yes").exit_code == 0
    assert _released(bare, "--scan", "--yes") == {}


def test_what_has_run_since_the_scan_is_left_out(bare: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are read again: a redelivery that has acquired, finished or released it again is another story."""
    for key in ("acquired", "done", "again", "expired", "left"):
        bare.release(f"orders/charge/{key}")
    unfinished = StatusIndex.unfinished

    def later(self: StatusIndex, *args: Any) -> Any:
        found = [*unfinished(self, *args)]
        for name in ("acquired", "done", "again"):
            bare.begin(f"orders/charge/{name}", "a2", lease=900)
        bare.end("orders/charge/done", Complete(pack("1")), "a2")
        bare.end("orders/charge/again", Release(None), "a2")
        key = {"lockToken": {"S": "orders/charge/expired"}}
        past = {":past": {"N": "1"}}
        names = {"#ttl": "ttl"}
        bare.client.update_item(
            TableName=bare.name,
            Key=key,
            UpdateExpression="SET #ttl = :past",
            ExpressionAttributeNames=names,
            ExpressionAttributeValues=past,
        )
        return iter(found)

    monkeypatch.setattr(StatusIndex, "unfinished", later)
    assert [*_released(bare, "--scan", "--yes")] == ["left"]


def test_a_released_row_of_another_program_hides_no_other(bare: Shop) -> None:
    """It is named, with the attribute, and the exit code is 2: nobody knows."""
    bare.release("orders/charge/given-back")
    bare.release("orders/charge/odd")
    bare.client.update_item(
        TableName=bare.name,
        Key={"lockToken": {"S": "orders/charge/odd"}},
        UpdateExpression="SET #ttl = :odd",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues={":odd": {"S": "tomorrow"}},
    )
    ran = bare.run("list", "--released", "--scan", "--yes", "--output", "jsonl")
    assert (ran.exit_code, [row["key"] for row in lines(ran)]) == (2, ["given-back"])
    assert "token orders/charge/odd" in ran.stderr.splitlines()[-1]
    assert "ttl is missing or malformed" in ran.stderr.splitlines()[-1]


@pytest.mark.parametrize("ttl", ["253402300800", "9" * 30])
def test_a_ttl_beyond_all_years_is_printed(bare: Shop, ttl: str) -> None:
    """As the last one that there is, by each command that prints the row."""
    token = bare.release("orders/charge/given-back")
    bare.client.update_item(
        TableName=bare.name,
        Key={"lockToken": {"S": token}},
        UpdateExpression="SET #ttl = :beyond",
        ExpressionAttributeNames={"#ttl": "ttl"},
        ExpressionAttributeValues={":beyond": {"N": ttl}},
    )
    for command in (["list", "--released", "--scan", "--yes"], ["show", token], ["find", "given"]):
        assert "9999-12-31" in bare.run(*command).stdout, command


def test_filters_take_what_its_function_released(bare: Shop) -> None:
    """By error, function and age, which is since it was acquired: no row has the time of such a release."""
    bare.clock.advance(-7_200)
    bare.release("orders/charge/old")
    bare.clock.advance(7_200)
    bare.begin("orders/charge/long", lease=7_200)
    bare.end("orders/charge/long", Release(None))
    bare.clock.advance(3_600)
    bare.release("orders/ship/new")
    scan = ("--scan", "--yes")
    assert [*_released(bare, *scan, "--older-than", "1h", "--newer-than", "2h")] == ["long"]
    key = {"lockToken": {"S": "orders/charge/long"}}
    bare.client.delete_item(TableName=bare.name, Key=key)
    assert [*_released(bare, *scan, "--older-than", "1h")] == ["old"]
    assert [*_released(bare, *scan, "--newer-than", "1h")] == ["new"]
    assert [*_released(bare, *scan, "--name", "ship")] == ["new"]
    assert {*_released(bare, *scan, "--error", "ValueError")} == {"old", "new"}
    assert [*_released(bare, *scan, "--error", "Timeout")] == []
    counted = lines(bare.run("list", "--released", "--by-function", *scan, "--output", "jsonl"))
    assert {(row["name"], row["released"]) for row in counted} == {("charge", 1), ("ship", 1)}
    ran = bare.run("list", "--released", "--limit", "1", *scan)
    assert "first 1 shown; 2 released in the whole table" in ran.stderr
    assert bare.run("redrive", *scan[:1], *SURE).stderr.splitlines()[-1] == "no matching token is held"


def test_watch_counts_whatever_was_released(bare: Shop) -> None:
    """By the list a decision's, and it says so; by a scan all. Both under their own name, and exit code 1."""
    bare.release("orders/charge/given-back")
    ran = bare.run("watch", "--count", "1")
    assert (ran.exit_code, ran.stderr.splitlines()) == (0, [UNLISTED])
    assert ran.stdout.endswith(" 0 held, 0 released by a decision\n")
    (row,) = lines(bare.run("watch", "--count", "1", "--output", "jsonl"))
    assert row["releasedByDecision"] == 0
    assert "released" not in row
    ran = bare.run("watch", "--count", "1", "--scan", "--yes")
    assert ran.exit_code == 1
    assert ran.stdout.endswith(" 0 held, 1 released\n")
    assert UNLISTED not in ran.stderr
    (row,) = lines(bare.run("watch", "--count", "1", "--scan", "--yes", "--output", "jsonl"))
    assert row["released"] == 1
    assert "releasedByDecision" not in row
    bare.decide(bare.hold("orders/charge/2"), Release())
    assert bare.run("watch", "--count", "1").exit_code == 1


@pytest.mark.engine
def test_watch_counts_the_same_in_each_round(shops: Shops, monkeypatch: pytest.MonkeyPatch) -> None:
    """It scans again: what has changed since is counted."""
    monkeypatch.setattr(options, "clock", lambda: shops.listed.clock)
    wanted = shops.listed.run("watch", "--count", "1", "--output", "jsonl")
    monkeypatch.setattr(options, "clock", lambda: shops.bare.clock)
    asked = ["watch", "--scan", "--yes", "--output", "jsonl"]
    found = shops.bare.run(*asked, "--count", "1")
    (listed,), (scanned,) = lines(wanted), lines(found)
    assert listed.pop("releasedByDecision") == 1
    assert scanned.pop("released") == 2
    assert (scanned, found.exit_code) == (listed, wanted.exit_code)
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
    assert describe_size(size) == "about 10,000,000 rows, 20.0 GB, 2,441,411 read units, $0.31"
    assert describe_size(TableSize(1, 230), 1) == "about 1 row, 230 bytes, 1 read unit, less than $0.01"
    assert describe_size(TableSize(0, 0)) == "about 0 rows, 0 bytes, 4 read units, less than $0.01"


@pytest.mark.parametrize("rows", [0, 1, 8, 40])
@pytest.mark.parametrize("command", [["list", "--scan", "--yes"], ["find", "key-", "--segments", "5"]])
def test_a_small_table_costs_no_more_than_announced(bare: Shop, command: list[str], rows: int) -> None:
    """A page of each segment is half a unit at least, also of an empty one."""
    for number in range(rows):
        bare.complete(f"orders/charge/key-{number}", '"' + "r" * 900 + '"')
    bare.clock.advance(1)
    before, after, *_ = bare.run(*command).stderr.splitlines()
    announced, spent = (float(re.findall(r"([\d.]+) read unit", line)[0]) for line in (before, after))
    assert spent <= announced <= spent + 4.5


def test_a_size_that_may_not_be_read_is_said(bare: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """--scan works without DescribeTable."""
    from lambda_once_tools.cli import scans

    monkeypatch.setattr(scans, "table_size", lambda _: None)
    bare.hold("orders/refund/held")
    ran: Any = bare.run("list", "--scan", "--yes", "--output", "jsonl")
    assert "its size is unknown (dynamodb:DescribeTable is denied)" in ran.stderr
    assert [row["key"] for row in lines(ran)] == ["held"]
