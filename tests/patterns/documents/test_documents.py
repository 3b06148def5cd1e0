"""What a document's writers and readers get, on the strict engine and on a real one."""

from __future__ import annotations

import os
import random
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.documents import ABSENT, Documents
from lambda_once.patterns.documents import documents as module
from lambda_once.patterns.results import Conflict, VersionAhead
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground
from tests.patterns.documents.shelf import ID, PART_BYTES, Shelf, shelf, text


@pytest.fixture(name="shelf")
def _shelf(ground: Ground) -> Shelf:
    return shelf(ground)


@pytest.mark.parametrize(
    "document",
    [b"x", bytes(range(256)) * 9, "text", "", {}, [], None, 0, False, {"a": [1, 2.5, None, "ü\ud800"]}],
    ids=repr,
)
def test_a_document_comes_back_as_it_was(shelf: Shelf, document: object) -> None:
    """Bytes are bytes and JSON is JSON, the falsy ones included, cut into as many parts as it takes."""
    version = shelf.documents.write(ID, document)
    found = shelf.documents.read(ID, consistent=True)
    assert found is not None
    assert (found.value, found.version, found.fell_back) == (document, version, False)
    assert type(found.value) is type(document)
    assert found.entity_id == ID


@pytest.mark.parametrize(
    "number",
    ["249.10", "249.1", "0.1", "5", "-0", "0.00", "1E+3", "1E+1000000", "-1E-1000000", "0." + "12345678" * 9],
)
def test_a_decimal_comes_back_as_it_was(shelf: Shelf, number: str) -> None:
    """With its zeros and all digits, never written out; beside it a float is a float, an int an int."""
    document = {"clauses": [Decimal(number)], "rate": 0.1, "large": 1e22, "days": 5, "text": "\0"}
    sizes = []
    for value in (document, {"sections": document}):
        shelf.documents.write(ID, **value if "sections" in value else {"document": value})
        found = shelf.documents.read(ID, consistent=True)
        assert found is not None
        assert {name: repr(each) for name, each in found.value.items()} == {
            name: repr(each) for name, each in document.items()
        }
        sizes.append(sum(len(item["body"]["B"]) for item in shelf.items().values() if "body" in item))
    assert max(sizes) < 600


def test_without_its_exponent_a_decimal_is_read_as_a_float(
    strict: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: JSON has one kind of number."""
    monkeypatch.setattr("lambda_once.patterns.documents.parts._number", str)
    documents = shelf(strict).documents
    documents.write(ID, [Decimal("249.10")])
    found = documents.read(ID)
    assert found is not None
    assert repr(found.value) == "[249.1]"


def test_what_is_read_can_be_written_again(shelf: Shelf) -> None:
    """Twenty changes of an amount, each of what was read: nothing is rounded."""
    version: Any = shelf.documents.write(ID, {"total": Decimal("0.00")}, expected_version=ABSENT)
    for _ in range(20):
        found = shelf.documents.read(ID, consistent=True)
        assert found is not None
        total = found.value["total"] + Decimal("249.10")
        version = shelf.documents.write(ID, {"total": total}, expected_version=version)
    found = shelf.documents.read(ID, consistent=True)
    assert found is not None
    assert repr(found.value["total"]) == "Decimal('4982.00')"


def test_sections_come_back_by_name(shelf: Shelf) -> None:
    """Each section is a part of its own; names of any script, and sections of no bytes, are fine."""
    sections: dict[str, Any] = {
        "terms": {"days": 30},
        "scan": os.urandom(PART_BYTES),
        "0001": [],
        "Anhänge": b"",
        "~": None,
    }
    shelf.documents.write(ID, sections=sections)
    found = shelf.documents.read(ID)
    assert found is not None
    assert found.value == sections
    assert len(shelf.items()) == len(sections) + 1


def test_ids_are_not_joined_to_anything(shelf: Shelf) -> None:
    """An id may hold the separator, or be another's beginning: documents never mix."""
    ids = ["a", "a#", "a#b", "a#b#0001", "head", "#", "a~"]
    for each in ids:
        shelf.documents.write(each, each)
    shelf.documents.delete("a#b")
    values = {each: shelf.documents.read(each) for each in ids}
    assert {each: found and found.value for each, found in values.items()} == {
        each: None if each == "a#b" else each for each in ids
    }


def test_five_megabytes(ground: Ground) -> None:
    """A document of 5 MB is read over several pages, in parts of the default size and of the largest."""
    table = ground.table("pk", "sk")
    noise = random.Random(1).randbytes(5_000_000)
    for part_bytes in (module.PART_BYTES, 400_000):
        documents = Documents(table, ground.client, part_bytes=part_bytes)
        documents.write("i" * 2_048, noise)
        documents.write("i" * 2_048, noise[::-1])
        found = documents.read("i" * 2_048, consistent=True)
        assert found is not None
        assert found.value == noise[::-1]
    large = Documents(table, ground.client, part_bytes=400_000)
    large.write(ID, sections={"n" * 255: noise[:400_000], "other": noise[:399_999]})
    found = large.read(ID)
    assert found is not None
    assert found.value["n" * 255] == noise[:400_000]


def test_other_names_of_the_keys(ground: Ground) -> None:
    """The key attributes may have any names but those of a part, reserved words included."""
    table = ground.table("id", "status")
    documents = Documents(table, ground.client, key="id", sort="status", part_bytes=PART_BYTES)
    documents.write(ID, text("a"))
    documents.write(ID, text("b"))
    assert documents.clean(ID) == 4
    found = documents.read(ID)
    assert found is not None
    assert found.value == text("b")
    documents.delete(ID)
    assert documents.read(ID) is None


def test_what_else_is_in_the_table_is_left_alone(shelf: Shelf) -> None:
    """Items of the user's under the same id are neither read as parts nor deleted."""
    foreign: list[dict[str, Any]] = [
        {"sk": {"S": sort}, "note": {"S": "mine"}}
        for sort in ("0", "ORDER#1", "01JD3VAAAAAAAAAAAAAAAAAAAA#x", "zebra", "head#1")
    ]
    shelf.put(foreign)
    assert shelf.documents.read(ID) is None
    shelf.documents.write(ID, text("a"))
    shelf.documents.write(ID, text("b"))
    found = shelf.documents.read(ID)
    assert found is not None
    assert found.value == text("b")
    shelf.documents.clean(ID)
    shelf.documents.delete(ID)
    left = shelf.items()
    assert left.keys() == {item["sk"]["S"] for item in foreign} | {"head"}


# -- versions


def test_a_version_is_greater_than_all_before_it(shelf: Shelf) -> None:
    """Whatever the clock does, and in one millisecond too: versions of a document grow."""
    made = []
    for seconds in (0, 0, 0, 5, -60, -200, 0, 0.001, 30):
        shelf.clock.advance(seconds)
        made.append(shelf.documents.write(ID, text("a")))
    assert made == sorted(set(made))


def test_a_writer_whose_clock_is_behind_is_not_hidden(shelf: Shelf) -> None:
    """Two writers whose clocks differ by minutes: the last write is the one that is read."""
    behind = shelf.other(clock=FakeClock(shelf.clock.now() - timedelta(minutes=4)))
    for turn in range(3):
        shelf.documents.write(ID, ["ahead", turn])
        behind.write(ID, ["behind", turn])
        found = shelf.documents.read(ID, consistent=True)
        assert found is not None
        assert found.value == ["behind", turn]


def test_a_version_too_far_ahead_is_refused(shelf: Shelf) -> None:
    """Over the bound nothing is written, by writes and deletes, and the message has both times."""
    shelf.documents.write(ID, "now")
    stood = shelf.items()
    late = FakeClock(shelf.clock.now() - timedelta(minutes=5, seconds=1))
    behind = shelf.other(clock=late)
    for attempt in (lambda: behind.write(ID, "late"), lambda: behind.delete(ID)):
        with pytest.raises(VersionAhead, match=r"10:12:00.*10:06:59.*0:05:00"):
            attempt()
    assert shelf.items() == stood
    late.advance(1)
    behind.write(ID, "in time")
    anyhow = Documents(shelf.table, shelf.client, ahead=None, clock=FakeClock(late.now() - timedelta(days=1)))
    anyhow.write(ID, "anyhow")
    found = shelf.documents.read(ID)
    assert found is not None
    assert found.value == "anyhow"


def test_the_expected_version_decides(shelf: Shelf) -> None:
    """A write expects no document or one version; another one is current: nothing of it is left."""
    documents = shelf.documents
    first = documents.write(ID, text("a"), expected_version=ABSENT)
    second = documents.write(ID, text("b"), expected_version=first)
    stood = shelf.items()
    for expected in (first, ABSENT):
        with pytest.raises(Conflict, match="read it, and decide again") as raised:
            documents.write(ID, text("c"), expected_version=expected)
        assert raised.value.values == {"version": second}
    with pytest.raises(Conflict):
        documents.delete(ID, expected_version=first)
    assert shelf.items() == stood
    documents.delete(ID, expected_version=second)
    with pytest.raises(Conflict, match="it has no version") as raised:
        documents.write(ID, text("c"), expected_version=second)
    assert raised.value.values == {}
    documents.write(ID, text("c"), expected_version=ABSENT)
    found = documents.read(ID, consistent=True)
    assert found is not None
    assert found.value == text("c")


def test_a_conflict_after_the_parts_leaves_none_of_them(shelf: Shelf) -> None:
    """Another write is decided while the parts are put: they are taken back, and nothing is lost."""
    first = shelf.documents.write(ID, text("a"))
    interrupted = shelf.other(
        client=Between(shelf.client, "put_item", lambda: shelf.documents.write(ID, text("b")))
    )
    with pytest.raises(Conflict) as raised:
        interrupted.write(ID, text("c"), expected_version=first)
    assert shelf.parts() == {first, raised.value.values["version"]}
    found = shelf.documents.read(ID)
    assert found is not None
    assert found.value == text("b")


# -- torn writes and deletes


def test_a_write_with_a_part_missing_is_invisible(shelf: Shelf) -> None:
    """A writer that dies anywhere before its last request changes nothing that can be read."""
    shelf.documents.write(ID, text("a"))
    torn = shelf.other(client=Between(shelf.client, "put_item", die))
    with pytest.raises(Died):
        torn.write(ID, text("b"))
    assert len(shelf.parts()) == 2
    found = shelf.documents.read(ID, consistent=True)
    assert found is not None
    assert (found.value, found.fell_back) == (text("a"), False)
    with pytest.raises(Died):
        torn.write("new", text("b"))
    assert shelf.documents.read("new") is None


def test_what_a_dead_writer_left_goes_after_a_day(shelf: Shelf) -> None:
    """Its parts stay while a writer may still be running, and go at the first cleaning a day later."""
    shelf.documents.write(ID, text("a"))
    with pytest.raises(Died):
        shelf.other(client=Between(shelf.client, "put_item", die)).write(ID, text("b"))
    shelf.clock.advance(60)
    shelf.documents.write(ID, text("c"))
    assert shelf.documents.clean(ID) == 4
    assert len(shelf.parts()) == 2
    shelf.clock.advance(module.ABANDONED.total_seconds())
    assert shelf.documents.clean(ID) == 4
    found = shelf.documents.read(ID)
    assert found is not None
    assert shelf.parts() == {found.version}


def test_delete_removes_all(shelf: Shelf) -> None:
    """Every version goes, superseded and torn ones too; a small head remembers it, with a ttl."""
    shelf.documents.write(ID, text("a"))
    shelf.documents.write(ID, text("b"))
    with pytest.raises(Died):
        shelf.other(client=Between(shelf.client, "put_item", die)).write(ID, text("c"))
    shelf.clock.advance(1)
    shelf.documents.delete(ID)
    assert shelf.documents.read(ID) is None
    (head,) = shelf.items().values()
    assert int(head["ttl"]["N"]) == int((shelf.clock.now() + module.KEEP_DELETED).timestamp())
    shelf.documents.delete(ID)
    assert shelf.items().keys() == {"head"}
    shelf.documents.write(ID, text("d"))
    assert "ttl" not in shelf.items()["head"]


def test_a_delete_that_dies_has_deleted(shelf: Shelf) -> None:
    """From its first write on the document is not read; the next delete, or a cleaning, does the rest."""
    shelf.documents.write(ID, text("a"))
    with pytest.raises(Died):
        shelf.other(client=Between(shelf.client, "query", die)).delete(ID)
    assert shelf.documents.read(ID) is None
    assert len(shelf.items()) == 5
    assert shelf.documents.clean(ID) == 4
    assert shelf.items().keys() == {"head"}


def test_a_reader_who_is_overtaken_looks_again(shelf: Shelf) -> None:
    """The version that it reads is superseded and cleaned away between two pages: it gets the new one."""
    shelf.documents.write(ID, text("a"))
    old = shelf.items()

    def overtake() -> None:
        shelf.documents.write(ID, text("b"))
        shelf.documents.clean(ID)

    class Halved:
        """Gives the first page of a query cut in two, and something happens between the halves."""

        def __init__(self) -> None:
            self.cut = False

        def query(self, **request: Any) -> Any:
            if self.cut:
                return shelf.client.query(**request)
            self.cut = True
            overtake()
            last = sorted(old)[3]
            return {
                "Items": [old[sort] for sort in ("head", *sorted(old)[2:4][::-1])],
                "LastEvaluatedKey": {"pk": {"S": ID}, "sk": {"S": last}},
            }

    found = shelf.other(client=Halved()).read(ID)
    assert found is not None
    assert (found.value, found.fell_back) == (text("b"), False)


def test_a_table_without_room_is_asked_again(shelf: Shelf) -> None:
    """Parts that the table did not take are put again, for as long as it takes any."""

    class Narrow:
        """Takes one item of a batch."""

        def __init__(self, takes: int) -> None:
            self.takes = takes

        def __getattr__(self, operation: str) -> Any:
            return getattr(shelf.client, operation)

        def batch_write_item(self, **request: Any) -> Any:
            writes = request["RequestItems"][shelf.table]
            if self.takes:
                shelf.client.batch_write_item(RequestItems={shelf.table: writes[: self.takes]})
            left = writes[self.takes :]
            return {"UnprocessedItems": {shelf.table: left} if left else {}}

    shelf.other(client=Narrow(1)).write(ID, text("a", parts=12))
    found = shelf.documents.read(ID)
    assert found is not None
    assert found.value == text("a", parts=12)
    with pytest.raises(StoreUnavailable, match="took nothing in 6 tries"):
        shelf.other(client=Narrow(0)).write(ID, text("b"))
    assert shelf.documents.read(ID) == found


class Died(Exception):
    """What a writer does not survive."""


def die() -> None:
    """Do not survive."""
    raise Died


class Between:
    """Lets something happen before the first request of one operation."""

    def __init__(self, client: Any, operation: str, happening: Any) -> None:
        self._client = client
        self._operation = operation
        self._happening = happening

    def __getattr__(self, operation: str) -> Any:
        if operation == self._operation:
            happening, self._happening = self._happening, lambda: None
            if happening is die:
                self._happening = die
            happening()
        return getattr(self._client, operation)


@pytest.mark.parametrize(
    "item",
    [
        {"note": {"S": "x"}},
        {"version": {"N": "3"}, "before": {"L": []}, "at": {"N": "1"}},
        {"version": {"S": "v3"}, "before": {"L": []}, "at": {"N": "1"}},
        {"version": {"S": "01M7W722C07CK0ND2N2ETRQ4D3"}, "at": {"N": "1"}},
    ],
)
def test_another_item_under_the_heads_key_is_named(shelf: Shelf, item: dict[str, Any]) -> None:
    """Every verb says what is in the way, and leaves it."""
    shelf.put([{"sk": {"S": "head"}, **item}])
    before = shelf.items()
    for call in (
        lambda: shelf.documents.read(ID),
        lambda: shelf.documents.write(ID, "x"),
        lambda: shelf.documents.delete(ID),
        lambda: shelf.documents.clean(ID),
    ):
        with pytest.raises(Misconfigured, match="'head' is not a document's"):
            call()
    assert shelf.items() == before


def test_two_names_that_are_one_in_json_are_refused(ground: Ground) -> None:
    """Nothing is written, whole or by sections; a document of other names that are no text is."""
    shelf = Documents(ground.table("pk", "sk"), ground.client)
    for written in ({"document": {1: "a", "1": "b"}}, {"sections": {"s": [{None: 1, "null": 2}]}}):
        with pytest.raises(Misconfigured, match="2 names of one object are"):
            shelf.write("d", **written)
    assert shelf.read("d", consistent=True) is None
    shelf.write("d", {1: "a", "one": "b"})
    found = shelf.read("d", consistent=True)
    assert found is not None
    assert found.value == {"1": "a", "one": "b"}
