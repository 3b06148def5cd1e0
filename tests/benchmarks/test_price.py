from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from benchmarks import bill, price, prices
from benchmarks.bill import Bill, Charged, Recorded
from benchmarks.counting import STATEMENT_INDEX_UNITS, STATEMENT_UNITS, Meter
from benchmarks.prices import LIST, Prices
from benchmarks.steps import steps
from benchmarks.units import (
    EXPIRY_UNITS,
    Item,
    index_units,
    read_units,
    refused_units,
    size_of,
    stored_bytes,
    update_units,
    write_units,
)
from lambda_once.dynamodb.client import new_client
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.batches import Batches
from lambda_once.testing import create_table, lambda_context
from tests.kit.dynoxide import EngineAbsent, running

TOKEN: Item = {"lockToken": {"S": "orders/charge/12345"}, "attempt": {"S": "a" * 32}}
IN_PROGRESS: Item = {
    **TOKEN,
    "status": {"S": "inProgress"},
    "expectedCompletion": {"S": "2026-11-20T10:12:30.000Z"},
    "created": {"S": "2026-11-20T10:12:00.000Z"},
}
COMPLETE: Item = {name: value for name, value in IN_PROGRESS.items() if name != "status"}
NOTHING = Charged(0, 0, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("size", "write", "read"),
    [(0, 1, 1), (1024, 1, 1), (1025, 2, 1), (4096, 4, 1), (4097, 5, 2), (100_000, 98, 25)],
)
def test_sizes_are_rounded_up(size: int, write: int, read: int) -> None:
    """A write unit for each KB begun, a read unit for every 4 KB begun; at least one of either."""
    assert (write_units(size), read_units(size)) == (write, read)


def test_an_item_has_the_bytes_of_its_names_and_values() -> None:
    """The developer guide's rules: text in UTF-8, two digits a byte, 3 bytes for a map and one an entry."""
    assert size_of({"a": {"S": "ä"}}) == 3
    assert size_of({"n": {"N": "1795193761845"}}) == 1 + 7 + 1
    assert size_of({"b": {"B": b"12345"}}) == 6
    assert size_of({"m": {"M": {"kind": {"S": "x"}}}}) == 1 + 3 + 1 + 4 + 1
    assert size_of({"l": {"L": [{"BOOL": True}]}}) == 1 + 3 + 1 + 1
    assert size_of({"s": {"SS": ["ab", "c"]}}) == 4


def test_a_refused_write_costs_what_is_there() -> None:
    """A duplicate that finds a large result in the row pays for all of it; one of nothing, one unit."""
    large: Item = {**COMPLETE, "result": {"S": "x" * 100_000}}
    assert refused_units(None) == 1
    assert refused_units(COMPLETE) == 1
    assert refused_units(large) == 98


def test_the_index_is_written_when_the_status_comes_and_when_it_goes() -> None:
    """Acquire and complete cost one entry each, a longer lease two; a finished row has none."""
    extended: Item = {**IN_PROGRESS, "expectedCompletion": {"S": "2026-11-20T10:15:00.000Z"}}
    other: Item = {**IN_PROGRESS, "attempt": {"S": "b" * 32}}
    assert index_units(None, IN_PROGRESS) == 1
    assert index_units(IN_PROGRESS, COMPLETE) == 1
    assert index_units(IN_PROGRESS, extended) == 2
    assert index_units(IN_PROGRESS, other) == 1
    assert index_units(COMPLETE, {**COMPLETE, "decisions": {"L": []}}) == 0


def test_a_write_costs_the_larger_row_and_the_index() -> None:
    """Completing with a result pays for the row with it; re-acquiring a large row pays for what it had."""
    large: Item = {**COMPLETE, "result": {"S": "x" * 3_000}}
    assert update_units(None, IN_PROGRESS) == 2
    assert update_units(IN_PROGRESS, COMPLETE) == 2
    assert update_units(IN_PROGRESS, large) == 4 + 1
    assert update_units(large, IN_PROGRESS) == 4 + 1


def test_a_transaction_doubles_the_row_and_not_the_index() -> None:
    """`transact` pays twice for our row, once for its entry."""
    assert update_units(IN_PROGRESS, COMPLETE, transacted=True) == 3


def test_a_statement_costs_what_the_same_write_costs() -> None:
    """What the meter puts a PartiQL statement at, which dynoxide does not say."""
    assert update_units(None, IN_PROGRESS) == STATEMENT_UNITS
    assert index_units(None, IN_PROGRESS) == STATEMENT_INDEX_UNITS


def test_expiry_is_free_and_storage_is_not() -> None:
    """Rows that ttl deletes cost no unit; while they are kept, each has 100 bytes more than its own."""
    assert EXPIRY_UNITS == 0
    assert stored_bytes(COMPLETE) == size_of(COMPLETE) + 100
    kept = NOTHING._replace(stored_bytes=1_000)
    assert prices.storage(kept, Prices(storage=0.25, backup=0.20), days=30.4) == pytest.approx(0.45)
    assert prices.storage(kept, days=7) == pytest.approx(prices.storage(kept, days=14) / 2)


def test_requests_are_units_at_their_prices() -> None:
    """Four write units at $0.625 and two read units at $0.125 a million are $2.75 a million invocations."""
    charged = NOTHING._replace(write_units=4, index_units=2, read_units=2)
    assert prices.requests(charged) == pytest.approx(2.75)
    assert prices.requests(prices.unindexed(charged)) == pytest.approx(1.5)
    assert prices.requests(charged, Prices(write=1.0, read=0.5)) == pytest.approx(5.0)


def test_logs_and_metrics_have_lines_of_their_own() -> None:
    """A kilobyte an invocation is a GB a million; metrics cost by their number, whatever the traffic."""
    assert prices.output(NOTHING._replace(output_bytes=1_000)) == pytest.approx(0.50)
    assert prices.metrics(4) == pytest.approx(1.20)
    assert {"started", "completed", "replayed"} <= prices.every_metric()


def test_steps_cost_what_their_writes_come_to() -> None:
    """New work 4 units, with an item beside it 5, by `transact` 7; what moves an entry 3, else 1."""
    units = [each for _, each in steps()]
    assert units == [4, 5, 7, 3, 3, 5, EXPIRY_UNITS]
    assert [each for _, each in steps(indexed=False)] == [2, 3, 5, 1, 1, 2, EXPIRY_UNITS]
    assert bill.load().bills[0].ours.write_units == units[0]


@mock_aws
def test_the_watchdog_asks_every_partition_once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queries that the page prices are those that a run sends where nothing is stuck, and one read."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    client = new_client()
    create_table(client, "tokens")
    meter = Meter(client)
    watchdog("tokens", client, sweep=False)({}, lambda_context())
    assert meter.spent().calls == ("GetItem", *("Query",) * (prices.WATCHDOG_QUERIES - 1))
    assert prices.watchdog(Prices(read=1.0)) == pytest.approx(30.4 * 288 * 304 * 0.5 / 1e6)


@pytest.mark.parametrize(
    ("amount", "printed"), [(0, "0"), (0.625, "$0.625"), (2.5, "$2.50"), (117, "$117.00"), (2315.6, "$2,316")]
)
def test_dollars_are_written_by_their_size(amount: float, printed: str) -> None:
    """Tenths of a cent below a dollar, cents below a thousand."""
    assert price.dollars(amount) == printed


def test_the_page_has_what_alarms_cost() -> None:
    """docs/costs.md, but for the shop's; a hundred functions that have written all that the six look for."""
    page = (price.DOCS / "costs.md").read_text(encoding="utf-8")
    for of, (listed, queries) in prices.ALARMS.items():
        name = re.sub(r"(\w+\.yaml|TasksInProgress)", r"`\1`", of)
        fixed, each = (price.dollars(count * LIST.alarm) if count else "–" for count in (listed, queries))
        assert (f"| {name} | {fixed} | {each} |" in page) is (not of.startswith("the shop"))
    listed, queries = prices.ALARMS["the six of tokens.yaml"]
    least, most = (price.dollars(count * LIST.alarm) for count in (listed, listed + 100 * queries))
    assert f"between {least} and {most}" in page.replace("\n", " ")
    watchdog = price.dollars(prices.metrics(len(prices.WATCHDOG_METRICS)) + prices.watchdog())
    assert f"the watchdog's metrics and queries {watchdog}." in page.replace("\n", " ")


def test_the_page_has_what_the_recorded_units_come_to() -> None:
    """The tables of benchmarks/README.md are those that the computation makes of benchmarks/recorded.json."""
    page = price.PAGE.read_text(encoding="utf-8")
    assert price.replaced(page, bill.load()) == page


def test_other_units_make_another_page() -> None:
    """A unit more in one case changes the tables, so the comparison above can fail."""
    recorded = bill.load()
    first = recorded.bills[0]
    dearer = first._replace(ours=first.ours._replace(write_units=first.ours.write_units + 1))
    changed = recorded._replace(bills=(dearer, *recorded.bills[1:]))
    assert price.markdown(changed) != price.markdown(recorded)


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    """A file keeps every figure, and that a side could not do a case."""
    charged = Charged(2, 4.0, 2.0, 0.5, 500, 900)
    recorded = Recorded({"date": "2026-11-20"}, (Bill("a", charged, None), Bill("b", charged, charged)))
    bill.save(recorded, tmp_path / "recorded.json")
    assert bill.load(tmp_path / "recorded.json") == recorded


def test_every_price_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of another region sees the tables at the prices there."""
    price.main(["--write", "1.25"])
    printed = capsys.readouterr().out
    assert "| a million write, read units | $1.25, $0.125 |" in printed
    assert "| API event, new | $5.00 |" in printed


def test_the_page_keeps_list_prices(capsys: pytest.CaptureFixture[str]) -> None:
    """--docs with another price is refused, with what to do."""
    with pytest.raises(SystemExit):
        price.main(["--docs", "--write", "1.25"])
    assert "leave --docs out" in capsys.readouterr().err


@pytest.fixture(scope="module")
def taken_anew() -> Iterator[Recorded]:
    """What an engine of its own, whose tables are empty, charges now; by batches, though moto is loaded."""
    try:
        with pytest.MonkeyPatch.context() as patch, running() as endpoint:
            patch.setattr(Batches, "usable", True)
            yield bill.measured(endpoint)
    except EngineAbsent as absent:
        if os.environ.get("CI"):
            pytest.fail(str(absent), pytrace=False)
        pytest.skip(str(absent))


@pytest.mark.engine
def test_the_recorded_units_are_what_the_engine_charges(taken_anew: Recorded) -> None:
    """Measured again on dynoxide, each case costs the requests and units that the page is made of."""
    known = {each.case: each for each in bill.load().bills}
    assert [each.case for each in taken_anew.bills] == list(known)
    for each in taken_anew.bills:
        ours, recorded = _counted(each.ours), _counted(known[each.case].ours)
        assert ours is not None
        assert recorded is not None
        assert ours[1:] == recorded[1:], each.case
        assert abs(ours[0] - recorded[0]) <= 1, each.case  # a slow thread's completions take one request more
        assert _counted(each.theirs) == _counted(known[each.case].theirs), each.case


def _counted(charged: Charged | None) -> tuple[float, ...] | None:
    return None if charged is None else charged[:4]
