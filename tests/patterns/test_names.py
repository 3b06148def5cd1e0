"""Patterns on a table that exists: other names for the attributes that they write, reserved words, too."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.documents import ABSENT, Documents
from lambda_once.patterns.documents import documents as documents_module
from lambda_once.patterns.documents.requests import DocumentPlace, document_place
from lambda_once.patterns.documents.stream import cleaner
from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger import layout as ledger_layout
from lambda_once.patterns.ledger import requests as requests_module
from lambda_once.patterns.ledger.requests import _Terms
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Refused
from lambda_once.testing import FakeClock

if TYPE_CHECKING:
    from tests.patterns.conftest import Ground

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LEDGER_NAMES = {"b": "set", "bt": "timestamp", "bl": "list", "bv": "count", "ttl": "expires"}
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

# -- ledger


def points_of(ground: Ground, table: str, clock: FakeClock, **options: Any) -> Ledger:
    """Return a ledger whose own attributes have other names."""
    given = {"names": LEDGER_NAMES, "window": HOUR, "buckets": 4, "clock": clock, **options}
    return Ledger(table, ground.client, **given)


def stored(ground: Ground, table: str, key: str = "c") -> dict[str, Any]:
    """Return the item at *key*."""
    found = ground.client.get_item(TableName=table, Key={"pk": {"S": key}}, ConsistentRead=True)
    item: dict[str, Any] = found["Item"]
    return item


def test_a_ledger_has_the_names_of_its_table(ground: Ground) -> None:
    """Additions, floors, changes and reads; attributes with a ledger's usual names are the caller's."""
    table, clock = ground.table(), FakeClock()
    ground.client.put_item(
        TableName=table, Item={"pk": {"S": "c"}, "bt": {"S": "mine"}, "b1": {"N": "7"}, "bv": {"N": "1"}}
    )
    points = points_of(ground, table, clock)
    assert isinstance(points.add("c", {"b1": 10}, id="m1", set={"bl": "wide"}), Applied)
    assert isinstance(points.add("c", {"b1": 10}, id="m1"), Duplicate)
    assert points.get("c") == {"bt": "mine", "b1": 17, "bv": 1, "bl": "wide"}
    own = stored(ground, table).keys() - {"pk", "bt", "b1", "bv", "bl"}
    assert own - {"timestamp", "list", "count"} == {f"set{points_bucket(clock)}"}
    refused = points.add("c", {"b1": -20}, id="m2", floor={"b1": 0})
    assert isinstance(refused, Refused)
    assert refused.values["b1"] == 17
    changed = points.change("c", lambda item: {"bl": item["b1"] + 1})
    assert changed.values["bl"] == 18
    assert isinstance(points.update("c", {"bv": 2}, expected={"bv": 1}), Applied)
    with pytest.raises(Conflict) as lost:
        points.update("c", {"bv": 2}, expected={"bv": 1})
    assert lost.value.values["bv"] == 2


def points_bucket(clock: FakeClock) -> int:
    """Return the name's number of the bucket at this time."""
    return ledger_layout.layout_for(HOUR, 4).number(clock.now()) % ledger_layout.NAMES


def test_buckets_of_another_name_are_forgotten_and_rearranged(ground: Ground) -> None:
    """By windows, by a longer window, by `relayout`, and in a transaction."""
    table, clock = ground.table(), FakeClock()
    points = points_of(ground, table, clock)
    for n in range(60):  # more than one round of names
        clock.advance(1_300)
        assert isinstance(points.add("c", {"n": 1}, id=f"m{n}"), Applied)
        assert isinstance(points.add("c", {"n": 1}, id=f"m{n}"), Duplicate)
    assert sum(name.startswith("set") for name in stored(ground, table)) <= 4
    longer = points_of(ground, table, clock, window=DAY)
    assert isinstance(longer.add("c", {"n": 1}, id="m59"), Duplicate)
    assert isinstance(longer.add("c", {"n": 1}, id="m60"), Applied)
    points.relayout("c")
    entry = points.transact_item("c", {"n": 1}, id="m61")
    ground.client.transact_write_items(TransactItems=[entry])
    assert points.add("c", {"n": 1}, id="m60") == points.add("c", {"n": 1}, id="m61") == Duplicate({"n": 62})
    assert points.get("c") == {"n": 62}


def test_a_change_between_is_seen_by_the_tables_name(ground: Ground) -> None:
    """`change` decides anew if a ledger wrote since it read."""
    table, clock = ground.table(), FakeClock()
    points = points_of(ground, table, clock)
    calls: list[int] = []

    def counted(item: dict[str, Any]) -> dict[str, object]:
        calls.append(1)
        if len(calls) == 1:
            points.add("c", {"n": 5}, id="between")
        return {"n": item.get("n", 0) + 1}

    assert points.change("c", counted).values == {"n": 6}
    assert len(calls) == 2


THEIRS: dict[str, dict[str, Any]] = {
    "timestamp": {"S": "2026-11-20"},
    "list": {"N": "1795255200"},
    "count": {"N": "7"},
}


def _calls(points: Ledger) -> dict[str, Callable[[], object]]:
    return {
        "add": lambda: points.add("c", {"n": 1}, id="m1"),
        "update": lambda: points.update("c", {"x": 1}, expected={"y": None}),
        "change": lambda: points.change("c", lambda _: {"x": 1}),
        "relayout": lambda: points.relayout("c"),
        "transact_item": lambda: points.transact_item("c", {"n": 1}, id="m1"),
        "get": lambda: points.get("c"),
    }


@pytest.mark.parametrize("theirs", [*THEIRS, "timestamp as a number", "time as a fraction", "set5"])
def test_an_attribute_of_others_is_never_overwritten(ground: Ground, theirs: str) -> None:
    """A name that the items have already: each operation names the attribute, and writes nothing."""
    item = {
        "timestamp as a number": {"timestamp": {"N": "1795255200"}},
        "time as a fraction": {"timestamp": {"N": "1.5"}, "list": {"N": "1"}},
        "set5": {"set5": {"S": "cup"}, "timestamp": {"N": "1"}, "list": {"N": "1"}},
    }.get(theirs) or {theirs: THEIRS[theirs]}
    table = ground.table()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "c"}, **item})
    for call in _calls(points_of(ground, table, FakeClock())).values():
        with pytest.raises(Misconfigured, match=f"'{next(iter(item))}' of item .* was not written by ledger"):
            call()
    assert stored(ground, table) == {"pk": {"S": "c"}, **item}


@pytest.mark.parametrize("theirs", THEIRS)
def test_without_the_condition_a_stamp_of_others_is_overwritten(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, theirs: str
) -> None:
    """Negative twin: that there is no time is taken for an item that no one wrote; only the time is safe."""
    monkeypatch.setattr(requests_module, "STAMPS", ("bt",))
    table = ground.table()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "c"}, theirs: THEIRS[theirs]})
    points = points_of(ground, table, FakeClock())
    if theirs == "timestamp":
        with pytest.raises(Misconfigured, match="not written by ledger"):
            points.add("c", {"n": 1}, id="m1")
    else:
        assert isinstance(points.add("c", {"n": 1}, id="m1"), Applied)
        assert stored(ground, table)[theirs] != THEIRS[theirs]


def test_by_the_usual_names_a_ledger_takes_the_callers_attributes(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: the names are not used, and the table's own ``b1`` and ``bt`` are in the way."""
    monkeypatch.setattr(_Terms, "own", lambda _, usual: usual)
    table = ground.table()
    ground.client.put_item(TableName=table, Item={"pk": {"S": "c"}, "bt": {"S": "mine"}})
    with pytest.raises(StoreUnavailable, match="contended"):
        points_of(ground, table, FakeClock()).add("c", {"n": 1}, id="m1")


def test_without_placeholders_a_reserved_word_is_refused(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: ``timestamp`` in the expression itself."""
    monkeypatch.setattr(_Terms, "own", lambda terms, usual: terms._own[usual])
    with pytest.raises(Misconfigured, match=r"(?i)reserved"):
        points_of(ground, ground.table(), FakeClock()).add("c", {"n": 1}, id="m1")


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

PATTERNS: dict[str, tuple[Callable[..., object], str, str]] = {
    "Ledger": (
        lambda **options: Ledger("t", object(), window=HOUR, **options),
        "bt",
        "b, bt, bl, bv, ttl",
    ),
    "Ratchet": (lambda **options: Ratchet("t", object(), **options), "ttl", "deleted, ttl, _rank, _write"),
    "Documents": (
        lambda **options: Documents("t", object(), **options),
        "ttl",
        "body, form, section, total, above, version, before, floor, at, ttl",
    ),
}


@pytest.mark.parametrize(("made", "own", "legal"), PATTERNS.values(), ids=PATTERNS.keys())
def test_wrong_names_are_refused_with_the_legal_ones(
    made: Callable[..., object], own: str, legal: str
) -> None:
    """An attribute that the pattern does not write, a name used twice, a key's, and no name."""
    other = next(each for each in legal.split(", ") if each not in (own, "b"))
    wrong: list[Any] = [{"removed": "x"}, {own: other}, {own: "x", other: "x"}, {own: "pk"}, {own: ""}]
    wrong += [{own: None}, {own: 5}, [own], own]
    for names in wrong:
        with pytest.raises(Misconfigured, match=legal):
            made(names=names)
    with pytest.raises(Misconfigured, match=legal):
        made(key=own) if own == "bt" else made(key=(own, "sk") if made is PATTERNS["Ratchet"][0] else own)
    made(names={own: "x"})
    made(names={own: other, other: own})
    made(names=None)


@pytest.mark.parametrize("names", [{"bt": "b7"}, {"b": "x", "bt": "x63"}, {"b": "p", "bl": "p0"}])
def test_a_ledgers_names_differ_from_its_buckets(names: dict[str, str]) -> None:
    """A prefix makes 64 names."""
    with pytest.raises(Misconfigured, match="differ"):
        Ledger("t", object(), window=HOUR, names=names)
    with pytest.raises(Misconfigured, match="differ"):
        Ledger("t", object(), window=HOUR, names={"b": "id"}, key="id5")
