from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from moto import mock_aws

from benchmarks import costs, report, units
from benchmarks.cases import API_DUPLICATE, API_NEW, DUPLICATES, NEW, RECORDS
from benchmarks.meter import Meter
from benchmarks.sides import LIBRARY
from benchmarks.units import (
    LIST,
    Charged,
    Item,
    Prices,
    dollars,
    read_units,
    refused_units,
    size_of,
    write_units,
)
from lambda_once.dynamodb.client import new_client
from lambda_once.observability.events import Event
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.batches import Batches
from lambda_once.testing import create_table, lambda_context
from tests.kit.dynoxide import EngineAbsent, running

COMPLETE: Item = {"lockToken": {"S": "orders/charge/12345"}, "attempt": {"S": "a" * 32}}
NOTHING = Charged(0, 0, 0, 0)
PAGE = costs.PAGE.read_text(encoding="utf-8")


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


def test_requests_are_units_at_their_prices() -> None:
    """Four write units at $0.625 and two read units at $0.125 a million are $2.75 a million invocations."""
    charged = NOTHING._replace(write_units=4, index_units=2, read_units=2)
    assert charged.requests() == pytest.approx(2.75)
    assert charged.by_stream().requests() == pytest.approx(1.5)
    assert charged.requests(Prices(write=1.0, read=0.5)) == pytest.approx(5.0)


@mock_aws
def test_the_watchdog_asks_every_partition_once_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queries that the page prices are those that a run sends where nothing is stuck, and one read."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    client = new_client()
    create_table(client, "tokens")
    meter = Meter(client)
    watchdog("tokens", client, sweep=False)({}, lambda_context())
    assert meter.spent().calls == ("GetItem", *("Query",) * (units.WATCHDOG_QUERIES - 1))
    assert units.watchdog(Prices(read=1.0)) == pytest.approx(30.4 * 288 * 25 * 0.5 / 1e6)


@pytest.mark.parametrize(("amount", "printed"), [(0.625, "$0.625"), (2.5, "$2.50"), (2315.6, "$2,315.60")])
def test_dollars_are_written_by_their_size(amount: float, printed: str) -> None:
    """Tenths of a cent below a dollar, else cents."""
    assert dollars(amount) == printed


def test_the_page_has_what_the_recorded_units_come_to() -> None:
    """The tables of docs/costs.md are those that the program makes of benchmarks/recorded.json."""
    assert report.section(PAGE, costs.REQUESTS_MARK) == costs.requests_table(costs.load())
    assert report.section(PAGE, costs.ALARMS_MARK) == costs.alarms_table()


def test_the_page_has_what_is_paid_beside_requests() -> None:
    """Output, metrics, the watchdog, and the six alarms of a hundred functions with all their metrics."""
    page, recorded = " ".join(PAGE.split()), costs.load()
    event, batch = (dollars(recorded[case][LIBRARY].output()) for case in (API_NEW, NEW))
    assert f"of an API event add {event}, of ten records {batch}." in page
    metrics = dollars(len(units.USUAL_METRICS) * LIST.metric)
    watched = dollars(len(units.WATCHDOG_METRICS) * LIST.metric + units.watchdog())
    assert f"of a function cost {metrics} a month, the watchdog's metrics and queries {watched}." in page
    assert {*units.USUAL_METRICS} <= {event.metric for event in Event}
    listed, queries = units.ALARMS["the six of `tokens.yaml`"]
    least, most = (dollars(count * LIST.alarm) for count in (listed, listed + 100 * queries))
    assert f"cost between {least} and {most}." in page


def test_a_statement_costs_what_the_same_write_costs() -> None:
    """The meter puts a batch's records, of which dynoxide says nothing, at what it says of single writes."""
    recorded = costs.load()
    for single, batch in ((API_NEW, NEW), (API_DUPLICATE, DUPLICATES)):
        assert recorded[batch][LIBRARY].write_units == RECORDS * recorded[single][LIBRARY].write_units
        assert recorded[batch][LIBRARY].index_units == RECORDS * recorded[single][LIBRARY].index_units


def test_what_was_recorded_is_read_back(tmp_path: Path) -> None:
    """A file keeps every figure."""
    bills = {"a": {LIBRARY: Charged(4.0, 2.0, 0.5, 900)}}
    costs.save(bills, tmp_path / "recorded.json")
    assert costs.load(tmp_path / "recorded.json") == bills


def test_prices_can_be_given(capsys: pytest.CaptureFixture[str]) -> None:
    """A reader of another region sees the table at the prices there."""
    costs.main(["--write", "1.25"])
    assert "| API event, new | $2.50 |" in capsys.readouterr().out


def test_the_page_keeps_list_prices(capsys: pytest.CaptureFixture[str]) -> None:
    """--docs with another price is refused, with what to do."""
    with pytest.raises(SystemExit):
        costs.main(["--docs", "--write", "1.25"])
    assert "leave --docs out" in capsys.readouterr().err


@pytest.fixture(scope="module")
def taken_anew() -> Iterator[costs.Bills]:
    """What an engine of its own, whose tables are empty, charges now; by batches, though moto is loaded."""
    try:
        with pytest.MonkeyPatch.context() as patch, running() as endpoint:
            patch.setattr(Batches, "usable", True)
            yield costs.measured(endpoint)
    except EngineAbsent as absent:
        if os.environ.get("CI"):
            pytest.fail(str(absent), pytrace=False)
        pytest.skip(str(absent))


@pytest.mark.engine
def test_the_recorded_units_are_what_the_engine_charges(taken_anew: costs.Bills) -> None:
    """Measured again on dynoxide, each case costs the units that the page is made of."""
    assert _units(taken_anew) == _units(costs.load())


def _units(bills: costs.Bills) -> dict[tuple[str, str], tuple[float, ...]]:
    return {(case, name): each[:3] for case, libraries in bills.items() for name, each in libraries.items()}
