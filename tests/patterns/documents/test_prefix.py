"""Documents beside other items of a partition: each is read by itself, and all are listed."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import ABSENT, Documents, requests
from lambda_once.patterns.documents.stream import cleaner
from lambda_once.testing import FakeClock
from tests.patterns.meter import Meter

if TYPE_CHECKING:
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
    assert list(documents.list("ann")) == [(name, written[name]) for name in ("ü", "70", "7")]
    assert list(documents.list("bob")) == []


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
    """And there is nothing to list."""
    documents = contracts(ground, "t", prefix="")
    for call in (lambda: documents.read(("ann", "7")), lambda: documents.list("ann")):
        with pytest.raises(Misconfigured, match="the id of a document is text"):
            call()


def costs(ground: Ground) -> tuple[float, float]:
    """Return the read units of a small document beside 300 orders, and of a list of ten documents."""
    table = ground.table("pk", "sk")
    fill(ground, table)
    meter = Meter(ground.client)
    documents = Documents(table, meter, prefix=PREFIX, clock=FakeClock())
    for n in range(10):
        documents.write(("ann", f"{n:02}"), bytes(100_000) if n else b"small")
    _, _, one = meter.of(lambda: documents.read(("ann", "00")))
    _, _, listed = meter.of(lambda: list(documents.list("ann")))
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
