"""A replica gets parts and heads in any order; its readers see the old document or the new one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress, count, permutations, product
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once.patterns.documents import Documents
from lambda_once.patterns.documents.documents import ABANDONED
from lambda_once.patterns.documents.parts import Head, StoredVersion
from lambda_once.patterns.results import Unreadable
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground
from tests.patterns.documents.shelf import ID, Item, Shelf, shelf, text

OLD, NEW = text("o"), text("n")


@pytest.fixture(name="home")
def _home(ground: Ground) -> Shelf:
    return shelf(ground)


@pytest.fixture(name="replica")
def _replica(ground: Ground) -> Shelf:
    return shelf(ground)


def seen(replica: Shelf, entity_id: str) -> object:
    """Return what is read of one document there."""
    found = replica.documents.read(entity_id)
    return None if found is None else found.value


def replicated(home: Shelf, old: bytes | None = OLD) -> tuple[list[Item], list[Item]]:
    """Write *old*, then NEW, and return the items of before and those that the second write made."""
    if old is not None:
        home.documents.write(ID, old)
    before = home.items()
    home.documents.write(ID, NEW)
    after = home.items()
    return list(before.values()), [item for sort, item in after.items() if before.get(sort) != item]


class Held:
    """A replica of one document that is some items; of two with one key it has the later."""

    def __init__(self, items: list[Item]) -> None:
        self.items = {str(item["sk"]["S"]): item for item in items}

    def query(self, **request: Any) -> Any:
        del request
        return {"Items": [self.items[sort] for sort in sorted(self.items, reverse=True)]}

    def read(self) -> object:
        try:
            found = Documents("replica", self).read(ID)
        except Unreadable:
            return Unreadable
        return None if found is None else found.value


def prefixes(before: list[Item], after: list[Item]) -> Iterator[list[object]]:
    """Deliver *after* in every order, and yield what was read before the first item and after each."""
    for order in permutations(after):
        yield [Held([*before, *order[:length]]).read() for length in range(len(order) + 1)]


def test_every_order_of_four_parts_is_old_or_new(strict: Ground) -> None:
    """All 120 orders of four parts and the head, after each item: old until the last one, then new."""
    read = list(prefixes(*replicated(shelf(strict))))
    assert len(read) == 120
    assert all(values == [OLD] * 5 + [NEW] for values in read)


def test_every_order_of_a_first_version_is_nothing_or_new(strict: Ground) -> None:
    """Where there was no document, nothing half is read: none, or not readable yet, then the new one."""
    read = list(prefixes(*replicated(shelf(strict), None)))
    assert len(read) == 120
    assert {values[-1] for values in read} == {NEW}
    assert {value for values in read for value in values[:-1]} == {None, Unreadable}


def test_every_part_of_it_is_old_or_new(home: Shelf, replica: Shelf) -> None:
    """The same by an engine's queries: a prefix of an order is a set of items, and of those there are 32."""
    before, after = replicated(home)
    for number, taken in enumerate(product([False, True], repeat=len(after))):
        entity_id = f"replica {number}"
        replica.put([*before, *compress(after, taken)], entity_id)
        assert seen(replica, entity_id) == (NEW if all(taken) else OLD)


def test_a_reader_sees_that_it_fell_back(home: Shelf, replica: Shelf) -> None:
    """The head is there before the parts: the older version is returned, and says so."""
    before, after = replicated(home)
    replica.put(before)
    head = next(item for item in after if item["sk"]["S"] == "head")
    replica.put([head])
    found = replica.documents.read(ID)
    assert found is not None
    assert (found.value, found.fell_back) == (OLD, True)
    assert found.version != head["version"]["S"]
    replica.put(after)
    found = replica.documents.read(ID)
    assert found is not None
    assert (found.value, found.fell_back) == (NEW, False)


def test_what_was_deleted_does_not_come_back(home: Shelf, replica: Shelf) -> None:
    """Of a document that was deleted and written again the head comes first: the old one stays away."""
    home.documents.write(ID, OLD)
    replica.put(home.items().values())
    home.documents.delete(ID)
    home.documents.write(ID, NEW)
    replica.put([home.items()["head"]])
    with pytest.raises(Unreadable, match="read it again later"):
        replica.documents.read(ID)
    replica.put(home.items().values())
    assert seen(replica, ID) == NEW


def test_without_the_count_a_torn_document_is_read(strict: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: took a reader every version for whole, some orders would show a piece of one."""
    before, after = replicated(shelf(strict))
    monkeypatch.setattr(StoredVersion, "whole", property(lambda _: True))
    values = {value for read in prefixes(before, after) for value in read}
    assert values - {OLD, NEW}


def test_without_the_head_a_write_that_never_was_is_read(
    strict: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The twin: parts that no head ever named are a whole version of no document."""
    before, after = replicated(shelf(strict))
    headless = Held([*before, *[item for item in after if item["sk"]["S"] != "head"]])
    assert headless.read() == OLD
    monkeypatch.setattr(Head, "stood", lambda *_: True)
    assert headless.read() == NEW


@pytest.mark.parametrize("offset", [-60, 60])
@pytest.mark.parametrize("winner", ["here", "there"])
def test_of_two_regions_that_write_at_once_one_wins_whole(
    home: Shelf, replica: Shelf, winner: str, offset: float
) -> None:
    """
    Each region writes and cleans before it hears of the other's head; one head then wins everywhere.

    Its parts are there, in both regions, whichever version is the greater: a cleaner takes nothing that may
    be another's write in progress.
    """
    home.documents.write(ID, OLD)
    before = home.items()
    replica.put(before.values())
    clock = FakeClock(home.clock.now())
    clock.advance(offset)
    home.other(clock=clock).write(ID, text("h"))
    here = {sort: item for sort, item in home.items().items() if before.get(sort) != item}
    replica.put(item for sort, item in here.items() if sort != "head")
    replica.documents.write(ID, text("t"))
    there = {sort: item for sort, item in replica.items().items() if before.get(sort) != item}
    home.put(item for sort, item in there.items() if sort != "head")
    assert replica.documents.clean(ID) == home.documents.clean(ID) == 4
    for region in (home, replica):
        region.put([(here if winner == "here" else there)["head"]])
        for _ in range(2):
            assert seen(region, ID) == text("h" if winner == "here" else "t")
            region.clock.advance(ABANDONED.total_seconds() + 61)
            region.documents.clean(ID)


# -- by property, with what cleaning removes

_numbers = count()

Contents = st.one_of(
    st.integers(1, 12).map(lambda parts: text("x", parts)),
    st.lists(st.integers(0, 99), max_size=200),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(), min_size=1),
)


class Change(NamedTuple):
    """What replication brings: an item, or that it is gone (None)."""

    number: int
    sort: str
    item: Item | None


class History:
    """What happens to one document at home, and the changes that replicas hear of."""

    def __init__(self, home: Shelf) -> None:
        self.home = home
        self.id = f"history {next(_numbers)}"
        self.changes: list[Change] = []
        self.values: list[object] = [None]

    def step(self, happening: Callable[[], object]) -> None:
        before = self.home.items(self.id)
        happening()
        after = self.home.items(self.id)
        for sort in sorted(before.keys() | after.keys()):
            if before.get(sort) != after.get(sort):
                self.changes.append(Change(len(self.changes), sort, after.get(sort)))

    def write(self, content: Any) -> None:
        options = {"sections": content} if isinstance(content, dict) else {"document": content}
        self.step(lambda: self.home.documents.write(self.id, **options))
        self.values.append(content)

    def clean(self) -> None:
        self.step(lambda: self.home.documents.clean(self.id))

    def delete(self) -> None:
        self.step(lambda: self.home.documents.delete(self.id))
        self.values.append(None)


class Replica:
    """Takes changes in any order; of two to one item the later one wins, as in a global table."""

    def __init__(self, shelf: Shelf, entity_id: str) -> None:
        self.shelf = shelf
        self.id = entity_id
        self._latest: dict[str, int] = {}

    def take(self, change: Change) -> None:
        if change.number < self._latest.get(change.sort, -1):
            return
        self._latest[change.sort] = change.number
        if change.item is None:
            self.shelf.remove([change.sort], self.id)
        else:
            self.shelf.put([change.item], self.id)

    def read(self) -> object:
        try:
            return seen(self.shelf, self.id)
        except Unreadable:
            return Unreadable


@given(data=st.data(), contents=st.lists(Contents, min_size=1, max_size=4))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_order_of_any_history_is_one_version(
    home: Shelf, replica: Shelf, data: st.DataObject, contents: list[Any]
) -> None:
    """
    Writes, cleanings and deletions reach a replica in any order, and a cleaner runs there too.

    A reader gets what one of the writes wrote, or no document, or an error to retry. Cleaning never changes
    what can be read. When all is there, it is the last.
    """
    history = History(home)
    for content in contents:
        history.write(content)
        for happening in data.draw(st.lists(st.sampled_from([history.clean, history.delete]), max_size=1)):
            happening()
    copy = Replica(replica, history.id)
    for change in data.draw(st.permutations(history.changes)):
        copy.take(change)
        found = copy.read()
        assert found is Unreadable or found in history.values
        if data.draw(st.booleans()):
            replica.documents.clean(history.id)
            assert copy.read() == found
    assert copy.read() == history.values[-1]
