"""Documents beside other items of a partition: each is read by itself, and all are listed."""

from __future__ import annotations

import random
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import ABSENT, Documents, requests
from lambda_once.patterns.documents.stream import cleaner
from lambda_once.testing import FakeClock
from tests.patterns.meter import Meter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.patterns.conftest import Ground

PREFIX = "CONTRACT#"


def contracts(ground: Ground, table: str | None = None, **options: Any) -> Documents:
    """Return documents with a prefix, of small parts."""
    table = ground.table("pk", "sk") if table is None else table
    return Documents(
        table, ground.client, **{"prefix": PREFIX, "part_bytes": 100, "clock": FakeClock(), **options}
    )


def fill(ground: Ground, table: str, items: int = 300) -> None:
    """Put orders of 4 KB into the partition, before and after the contracts, and names that are near."""
    near = ["CONTRACT", "CONTRACT#", "CONTRACT#7", "CONTRACT#70#x", "CONTRACT#7$", "head", "CONTRACTS#7#head"]
    for sort in [*near, *(f"{'ORDER' if n % 2 else 'BILL'}#{n:04}" for n in range(items))]:
        item = {"pk": {"S": "ann"}, "sk": {"S": sort}, "text": {"S": "x" * 4_000}}
        ground.client.put_item(TableName=table, Item=item)


def test_documents_of_one_partition_are_apart(ground: Ground) -> None:
    """Each is written, expected, read and deleted by itself."""
    table = ground.table("pk", "sk")
    fill(ground, table, items=4)
    documents = contracts(ground, table)
    for name in ("7", "70", "8"):
        documents.write(("ann", name), {"name": name, "text": "x" * 300}, expected_version=ABSENT)
    first = documents.read(("ann", "7"))
    assert first is not None
    documents.write(("ann", "7"), {"name": "new"}, expected_version=first.version)
    documents.delete(("ann", "8"))
    values = [documents.read(("ann", name)) for name in ("7", "70", "8", "9")]
    assert [each and each.value["name"] for each in values] == ["new", "70", None, None]
    assert documents.clean(("ann", "7")) == 4
    assert documents.read(("bob", "7")) is None


def test_the_documents_of_a_partition_are_listed(ground: Ground) -> None:
    """Name and version of each that is not deleted, other items passed by."""
    table = ground.table("pk", "sk")
    fill(ground, table, items=4)
    documents = contracts(ground, table)
    written = {name: documents.write(("ann", name), "x" * 300) for name in ("1", "7", "70", "a b", "ü")}
    documents.delete(("ann", "1"))
    ground.client.delete_item(  # the parts of a writer that died before its first head
        TableName=table, Key={"pk": {"S": "ann"}, "sk": {"S": "CONTRACT#a b#head"}}
    )
    assert documents.list("ann") == ([(name, written[name]) for name in ("ü", "70", "7")], None)
    assert documents.list("bob") == ([], None)


NAMES = ["a", "a!", "a!b", "a b", "a$", "a0", "ab", "b", "!", "~", "ü", "日本", "\U0001f600"]


def paged(documents: Documents, limit: int, between: Callable[[int], object] = lambda _: None) -> list[str]:
    """Return the names of all pages; *between* happens after each."""
    names: list[str] = []
    cursor: str | None = None
    for number in count():
        page = documents.list("ann", limit=limit, cursor=cursor)
        assert len(page.items) <= limit
        names += [name for name, _ in page.items]
        cursor = page.cursor
        if cursor is None:
            return names
        between(number)
    raise AssertionError


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_pages_have_each_document_once_in_the_order_of_the_page(ground: Ground, limit: int) -> None:
    """By name and "#" in UTF-8, the greatest first, whatever the names; items of others are passed by."""
    table = ground.table("pk", "sk")
    fill(ground, table, items=4)
    documents = contracts(ground, table)
    for name in [*NAMES, "gone", "gone too"]:
        documents.write(("ann", name), "x" * 300)
    for name in ("gone", "gone too"):
        documents.delete(("ann", name))
    assert paged(documents, limit) == sorted(NAMES, key=lambda name: f"{name}#".encode(), reverse=True)


def test_with_cursors_that_are_names_documents_are_skipped(
    strict: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: below "a" is no "a!", whose key is lower than that of "a"."""
    last = requests.DocumentTable.last

    def by_name(*args: Any) -> Any:
        found = last(*args)
        return found and (*found[:2], found[2].removesuffix("#0"))

    monkeypatch.setattr(requests.DocumentTable, "last", by_name)
    documents = contracts(strict)
    for name in NAMES:
        documents.write(("ann", name), "x")
    assert {*NAMES} - {*paged(documents, 1)} == {"a!", "a!b", "a b"}


@pytest.mark.parametrize("seed", range(4))
def test_pages_are_right_while_documents_come_and_go(ground: Ground, seed: int) -> None:
    """What exists throughout is on one page, once; nothing is twice, also where the last one read goes."""
    dice, documents = random.Random(seed), contracts(ground)
    for name in NAMES:
        documents.write(("ann", name), name)
    others = [f"{name}{end}" for name in NAMES for end in ("", "!", "%", "x")]
    gone: set[str] = set()

    def between(number: int) -> None:
        if number > 30:
            return
        name = dice.choice(others)
        if dice.random() < 0.5:
            documents.write(("ann", name), "later")
        else:
            documents.delete(("ann", name))
            gone.add(name)

    names = paged(documents, dice.randint(1, 3), between)
    assert len(set(names)) == len(names)
    assert set(NAMES) - gone <= {*names}


def test_a_page_of_deleted_documents_reads_no_more_than_its_limit(ground: Ground) -> None:
    """It has no items and a cursor."""
    documents = contracts(ground)
    for n in range(7):
        documents.write(("ann", f"{n}"), "x")
        if n:
            documents.delete(("ann", f"{n}"))
    meter = Meter(ground.client)
    listed = Documents(documents.place.table.name, meter, prefix=PREFIX)
    first = listed.list("ann", limit=6)
    assert (first.items, meter.requests) == ([], 6)
    second = listed.list("ann", limit=6, cursor=first.cursor)
    assert [name for name, _ in second.items] == ["0"]
    assert second.cursor is None


@pytest.mark.parametrize(
    "given",
    [{"limit": 0}, {"cursor": ""}, {"cursor": "lease"}, {"cursor": 7}, {"cursor": PREFIX + "x" * 1_016}],
)
def test_what_is_no_page_is_refused(ground: Ground, given: dict[str, Any]) -> None:
    """Before anything is sent."""
    with pytest.raises(Misconfigured, match=r"limit is 0|cursor: give that of the page before"):
        contracts(ground, "t").list("ann", **given)


def test_the_cleaner_knows_documents_by_their_keys(ground: Ground) -> None:
    """A written head of the prefix is cleaned; heads of others are passed by."""
    documents = contracts(ground)
    for text in ("old", "new"):
        documents.write(("ann", "7"), text)
    records = [
        {
            "eventSource": "aws:dynamodb",
            "eventName": "MODIFY",
            "dynamodb": {"Keys": {"pk": {"S": "ann"}, "sk": {"S": sort}}, "SequenceNumber": "1"},
        }
        for sort in ("CONTRACT#7#head", "head", "ORDER#7#head", "CONTRACT#7")
    ]
    assert cleaner(documents, grace=timedelta(0))({"Records": records}) == {"batchItemFailures": []}
    assert documents.clean(("ann", "7")) == 0


@pytest.mark.parametrize(
    "wrong", ["7", ("ann", ""), ("", "7"), ("ann", "7#8"), ("ann", "x" * 733), ("ann",), ("ann", "7", "8"), 7]
)
def test_an_id_is_a_partition_and_a_name(ground: Ground, wrong: Any) -> None:
    """A name with the separator could be another document's part."""
    with pytest.raises(Misconfigured, match=r"\(partition, name\)"):
        contracts(ground, "t").read(wrong)


def test_without_a_prefix_an_id_is_text(ground: Ground) -> None:
    """And there is nothing to list: each document has a partition of its own."""
    documents = contracts(ground, "t", prefix="")
    with pytest.raises(Misconfigured, match="the id of a document is text"):
        documents.read(("ann", "7"))
    with pytest.raises(Misconfigured, match="list needs prefix="):
        documents.list("ann")


def costs(ground: Ground) -> tuple[float, float]:
    """Return the read units of a small document beside 300 orders, and of a list of ten documents."""
    table = ground.table("pk", "sk")
    fill(ground, table)
    meter = Meter(ground.client)
    documents = Documents(table, meter, prefix=PREFIX, clock=FakeClock())
    for n in range(10):
        documents.write(("ann", f"{n:02}"), bytes(100_000) if n else b"small")
    _, _, one = meter.of(lambda: documents.read(("ann", "00")))
    _, _, listed = meter.of(lambda: documents.list("ann"))
    return one, listed


@pytest.mark.engine
def test_a_read_costs_what_the_document_costs(engine: Ground) -> None:
    """Half a unit beside 300 items of 4 KB; a list half a unit for each document and other item."""
    one, listed = costs(engine)
    assert one == 0.5
    assert listed <= 10 * 0.5 + 4 * 0.5 + 0.5


@pytest.mark.engine
def test_a_range_over_the_partition_costs_all_of_it(engine: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: from the lowest part up, whatever lies between."""
    query = requests.query

    def wide(*args: Any, **options: Any) -> Any:
        request = query(*args, **options)
        request["ExpressionAttributeValues"][":lowest"] = {"S": "0"}
        return request

    monkeypatch.setattr(requests, "query", wide)
    assert costs(engine)[0] > 50
