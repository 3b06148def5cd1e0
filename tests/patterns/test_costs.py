"""What the pages say that each pattern costs is what a real engine charges."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from benchmarks.units import size_of
from lambda_once.patterns import Documents, Ledger, Ratchet, Unique
from lambda_once.patterns.ledger.layout import bucket_name, layout_for
from lambda_once.patterns.results import Applied, Conflict, Duplicate
from lambda_once.testing import FakeClock
from tests.docs.pages import ROOT
from tests.patterns.conftest import Ground
from tests.patterns.meter import Meter

MS = 1_795_169_520_000
HOUR = timedelta(hours=1)
Row = tuple[object, ...]
BESIDE = {
    "ledger.md": [
        ["1", "1", "1", "1", "1", "10", "1 + 1"],
        ["1,000", "8", "8", "8", "2", "87", "9 + 3"],
    ],
    "ratchet.md": [
        ["put of 0.5 KB, nothing there", "1", "1"],
        ["the same again", "1", "1"],
        ["put of 4 KB in place of 0.5 KB", "1", "4"],
        ["put of 0.5 KB in place of 4 KB", "1", "4"],
        ["delete of 0.5 KB", "1", "1"],
        ["put of 4 KB over a tombstone", "1", "4"],
        ["delete of 4 KB", "1", "4"],
        ["delete of a tombstone", "1", "1"],
        ["get of 0.5 KB", "1", "1"],
        ["get, `consistent=False`", "1", "0.5"],
        ["the same, 5 tombstones among them", "2", "3"],
    ],
    "documents.md": [
        ["`write`, 1 MB, over another", "3", "979", "1"],
        ["`write` of 1 KB", "3", "2", "1"],
        ["`write` with an `expected_version` that is not current", "1", "0", "1"],
        ["`read`, 1 MB, before the old version is removed", "1", "0", "122.5"],
        ["`read`, 1 MB", "1", "0", "122.5"],
        ["`read` of 1 KB", "1", "0", "0.5"],
        ["`delete`, 1 MB", "4", "979", "246"],
        ["`write`, 10 MB", "5", "9,773", "1"],
        ["`read`, 10 MB", "14", "0", "1,221.5"],
        ["`list`, a page of 20, whatever their sizes", "20", "0", "10"],
    ],
    "unique.md": [
        ["`put` of a receipt of 500 bytes", "1"],
        ["`put` of it again, the duplicate", "1"],
    ],
}
"""What is charged and not on the page."""


def ledger(meter: Meter, ground: Ground) -> list[Row]:
    """Requests of each kind to items of so many ids, spread as by a steady rate; ten ids in two ways."""
    rows: list[Row] = []
    for ids in (1, 100, 1_000, 4_800):
        clock, table = FakeClock(), ground.table()
        points = Ledger(table, meter, window=HOUR, clock=clock)
        points.add("cust_77", {"balance": 1}, id="m0")
        live = layout_for(HOUR).live(layout_for(HOUR).number(clock.now()))
        for position, number in enumerate(live):
            own = [each.to_bytes(8, "big") for each in range(position, ids - 1, len(live))]
            if own:
                ground.client.update_item(
                    TableName=table,
                    Key={"pk": {"S": "cust_77"}},
                    UpdateExpression=f"ADD {bucket_name(number)} :ids",
                    ExpressionAttributeValues={":ids": {"BS": own}},
                )
        add = partial(points.add, "cust_77", {"balance": 10, "count": 1}, id="m1")
        version = partial(points.update, "cust_77", {"version": 1}, expected={"version": None})
        charged = [meter.of(each) for each in (add, add, version, partial(points.get, "cust_77"))]
        assert isinstance(add(), Duplicate)
        single = [partial(points.add, "cust_77", {"balance": 10}, id=f"one{each}") for each in range(10)]
        ten = sum(meter.of(each)[1] for each in single)
        batch = {f"all{each}": {"balance": 10} for each in range(10)}
        requests, written, read = meter.of(partial(points.add_all, "cust_77", batch))
        assert requests == 2
        rows.append((ids, *(units[1] + units[2] for units in charged), ten, f"{written:g} + {read:g}"))
    return rows


def ratchet(meter: Meter, ground: Ground) -> list[Row]:
    """Requests and units of writes, of reads and of tombstones."""
    prices = Ratchet(ground.table("pk", "sk"), meter, key=("pk", "sk"), clock=FakeClock())

    def put(sk: str, size: int, ts: int) -> Callable[[], object]:
        return lambda: prices.put({"pk": "p", "sk": sk, "text": "x" * size}, MS + ts)

    def delete(sk: str, ts: int) -> Callable[[], object]:
        return lambda: prices.delete({"pk": "p", "sk": sk}, MS + ts)

    def several(*work: Callable[[], object]) -> None:
        for each in work:
            each()

    key = {"pk": "p", "sk": "01"}
    keys = [{"pk": "p", "sk": f"{n:02}"} for n in range(10)]
    steps: list[tuple[str, Callable[[], object]]] = [
        ("put of 0.5 KB, nothing there", put("a", 400, 0)),
        ("the same again", put("a", 400, 0)),
        ("put of 4 KB in place of 0.5 KB", put("a", 4_000, 1)),
        ("put of 0.5 KB in place of 4 KB", put("a", 400, 2)),
        ("delete of 0.5 KB", delete("a", 3)),
        ("put of 4 KB over a tombstone", put("a", 4_000, 4)),
        ("delete of 4 KB", delete("a", 5)),
        ("delete of a tombstone", delete("a", 6)),
        ("", partial(several, *(put(f"{n:02}", 400, 0) for n in range(20)))),
        ("get of 0.5 KB", partial(prices.get, key)),
        ("get, `consistent=False`", partial(prices.get, key, consistent=False)),
        ("batch_get of 10 × 0.5 KB", partial(prices.batch_get, keys)),
        ("query of 10 × 0.5 KB", partial(prices.query, "p", limit=10)),
        ("", partial(several, *(delete(f"{n:02}", 1) for n in range(5)))),
        ("the same, 5 tombstones among them", partial(prices.query, "p", limit=10)),
    ]
    rows = [(name, *meter.of(step)) for name, step in steps]
    return [(name, requests, written + read) for name, requests, written, read in rows if name]


def documents(meter: Meter, ground: Ground) -> list[Row]:
    """Requests, write and read units of documents of one and of ten megabytes, and of small ones."""
    table = ground.table("pk", "sk")
    contracts = Documents(table, meter, clock=FakeClock())
    large, whole = bytes(1_000_000), "contract#7"
    ours = Documents(table, meter, prefix="CONTRACT#", clock=FakeClock())
    for n in range(20):
        ours.write(("cust_77", f"{n}"), large[:100_000])

    def conflict() -> None:
        with pytest.raises(Conflict):
            contracts.write(whole, large, expected_version="0" * 26)

    steps: dict[str, Callable[[], object]] = {
        "`write`, 1 MB, the first": partial(contracts.write, whole, large),
        "`write`, 1 MB, over another": partial(contracts.write, whole, large),
        "`write` of 1 KB": partial(contracts.write, "small", "x" * 800),
        "`write` with an `expected_version` that is not current": conflict,
        "`read`, 1 MB, before the old version is removed": partial(contracts.read, whole),
        "`clean`, 1 MB superseded": partial(contracts.clean, whole),
        "`read`, 1 MB": partial(contracts.read, whole),
        "`read`, 1 MB, `consistent=True`": partial(contracts.read, whole, consistent=True),
        "`read` of 1 KB": partial(contracts.read, "small"),
        "`delete`, 1 MB": partial(contracts.delete, whole),
        "`write`, 10 MB": partial(contracts.write, "ten", 10 * large),
        "`read`, 10 MB": partial(contracts.read, "ten"),
        "`list`, a page of 20, whatever their sizes": partial(ours.list, "cust_77", limit=20),
    }
    return [(name, *meter.of(step)) for name, step in steps.items()]


def unique(meter: Meter, ground: Ground) -> list[Row]:
    """Write units of a put and of its duplicate; the bytes are those without key and mark."""
    key = {"pk": "customer", "sk": ["orderId", "kind"]}
    receipts = Unique(ground.table("pk", "sk"), meter, key=key, clock=FakeClock())
    rows: list[Row] = []
    for size, what in ((500, "a receipt of 500 bytes"), (3_000, "3,000 bytes")):
        fields = {"customer": f"cust_{size}", "orderId": "order_5", "kind": "paid"}
        rest = size - sum(len(name) + len(each) for name, each in fields.items()) - len("note")
        results: list[object] = []
        for name in (f"`put` of {what}", "`put` of it again, the duplicate"):
            charged = meter.of(lambda: results.append(receipts.put({**fields, "note": "x" * rest})))  # noqa: B023
            rows.append((name, charged[1]))
        assert [type(each) for each in results] == [Applied, Duplicate]
    return rows


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of the measured table of *page*."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    table = text.partition("<!-- measured: begin -->")[2].partition("<!-- measured: end -->")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


@pytest.mark.engine
@pytest.mark.parametrize("measured", [ledger, ratchet, documents, unique])
def test_the_page_has_what_is_charged(engine: Ground, measured: Callable[[Meter, Ground], list[Row]]) -> None:
    """Row by row, but for those in `BESIDE`."""
    rows = measured(Meter(engine.client), engine)
    charged = [[each if isinstance(each, str) else f"{each:,g}" for each in row] for row in rows]
    page = f"{measured.__name__}.md"
    beside = BESIDE.get(page, [])
    assert [row for row in charged if row in beside] == beside
    assert [row for row in charged if row not in beside] == rows_of(page)


def test_the_page_has_what_the_mark_costs(strict: Ground) -> None:
    """Bytes that a put adds to its item beside the key."""
    table = strict.table("pk", "sk")
    Unique(table, strict.client, clock=FakeClock()).put({"pk": "a", "sk": "b", "x": 1})
    (item,) = strict.client.scan(TableName=table)["Items"]
    page = (ROOT / "docs" / "unique.md").read_text(encoding="utf-8")
    assert f"the attribute `put` ({size_of({'put': item['put']})} bytes;" in page
