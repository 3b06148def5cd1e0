"""Patterns on a table that exists: other names for the attributes that they write, reserved words, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.documents import ABSENT, Documents
from lambda_once.patterns.documents import documents as documents_module
from lambda_once.patterns.documents.requests import DocumentPlace, document_place
from lambda_once.patterns.documents.stream import cleaner
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Conflict
from lambda_once.testing import FakeClock

if TYPE_CHECKING:
    from tests.patterns.conftest import Ground

DOCUMENT_NAMES = {
    "body": "data",
    "form": "format",
    "section": "section",
    "total": "count",
    "above": "prior",
    "version": "timestamp",
    "before": "#list",
    "floor": "size",
    "at": "date",
    "ttl": "expires.at",
}

# -- documents


def contracts_of(ground: Ground, table: str, clock: FakeClock, **options: Any) -> Documents:
    """Return documents whose attributes have other names."""
    given = {"names": DOCUMENT_NAMES, "part_bytes": 100, "clock": clock, **options}
    return Documents(table, ground.client, **given)


@pytest.mark.parametrize("prefix", ["", "CONTRACT#"])
def test_documents_have_the_names_of_their_table(ground: Ground, prefix: str) -> None:
    """Writes, expectations, reads, clean-up and deletions; no attribute has its usual name."""
    table, clock = ground.table("pk", "sk"), FakeClock()
    contracts = contracts_of(ground, table, clock, prefix=prefix)
    where: Any = ("ann", "lease") if prefix else "lease"
    first = contracts.write(where, {"text": "x" * 300}, expected_version=ABSENT)
    clock.advance(1)
    second = contracts.write(where, sections={"terms": {"days": 30}, "scan": b"%PDF"}, expected_version=first)
    with pytest.raises(Conflict) as lost:
        contracts.write(where, "late", expected_version=first)
    assert lost.value.values == {"version": second}
    found = contracts.read(where, consistent=True)
    assert found is not None
    assert (found.value, found.version) == ({"terms": {"days": 30}, "scan": b"%PDF"}, second)
    sort = f"{prefix}lease#head" if prefix else "head"
    record = {
        "eventSource": "aws:dynamodb",
        "eventName": "MODIFY",
        "dynamodb": {"Keys": {"pk": {"S": where[0] if prefix else where}, "sk": {"S": sort}}},
    }
    record["dynamodb"]["SequenceNumber"] = "1"  # type: ignore[index]
    assert cleaner(contracts, grace=timedelta(0))({"Records": [record]}) == {"batchItemFailures": []}
    items = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    assert len(items) == 3  # the four parts of the first version are gone
    contracts.delete(where)
    assert contracts.read(where) is None
    items += ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    assert {name for item in items for name in item} == {"pk", "sk", *DOCUMENT_NAMES.values()}


def test_by_the_usual_names_a_deletion_never_expires_there(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: the names are not used, and the table's TTL attribute is missing."""

    def usual(table: str, key: str, sort: str, prefix: str, _names: Any) -> DocumentPlace:
        return document_place(table, key, sort, prefix)

    monkeypatch.setattr(documents_module, "document_place", usual)
    table = ground.table("pk", "sk")
    contracts = contracts_of(ground, table, FakeClock())
    contracts.write("lease", "x")
    contracts.delete("lease")
    (head,) = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    assert "expires.at" not in head


# -- wrong names

PATTERNS: dict[str, tuple[Callable[..., object], str]] = {
    "Ratchet": (lambda **options: Ratchet("t", object(), **options), "deleted, ttl, _rank, _write"),
    "Documents": (
        lambda **options: Documents("t", object(), **options),
        "body, form, section, total, above, version, before, floor, at, ttl",
    ),
}


@pytest.mark.parametrize(("made", "legal"), PATTERNS.values(), ids=PATTERNS.keys())
def test_wrong_names_are_refused_with_the_legal_ones(made: Callable[..., object], legal: str) -> None:
    """An attribute that the pattern does not write, a name used twice, a key's, and no name."""
    own, other = "ttl", legal.split(", ", maxsplit=1)[0]
    wrong: list[Any] = [{"removed": "x"}, {own: other}, {own: "x", other: "x"}, {own: "pk"}, {own: ""}]
    wrong += [{own: None}, {own: 5}, [own], own]
    for names in wrong:
        with pytest.raises(Misconfigured, match=legal):
            made(names=names)
    with pytest.raises(Misconfigured, match=legal):
        made(key=own)
    made(names={own: "x"})
    made(names={own: other, other: own})
    made(names=None)
