"""Reading many: pages are full and batches complete, whatever was deleted or left unread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.patterns.ratchet import Ratchet
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground
from tests.patterns.meter import Meter
from tests.patterns.ratchet.conftest import MS

ROWS = 40


@pytest.fixture
def ratchet(ground: Ground) -> Ratchet:
    """A ratchet on an empty table of two key attributes."""
    return Ratchet(ground.table("pk", "sk"), ground.client, key=("pk", "sk"), clock=FakeClock())


def fill(ratchet: Ratchet, live: list[bool]) -> list[dict[str, Any]]:
    """Put one item for each of *live* into partition p, delete those that are not, return what is left."""
    for n, lives in enumerate(live):
        key = {"pk": "p", "sk": f"{n:04}"}
        if lives:
            ratchet.put({**key, "n": n}, MS)
        else:
            ratchet.delete(key, MS)
    return [{"pk": "p", "sk": f"{n:04}", "n": n, "ts": MS} for n, lives in enumerate(live) if lives]


def pages(ratchet: Ratchet, limit: int, **how: Any) -> Iterator[list[dict[str, Any]]]:
    """Turn the pages of partition p to the end."""
    cursor = None
    while True:
        page = ratchet.query("p", limit=limit, cursor=cursor, **how)
        yield page.items
        cursor = page.cursor
        if cursor is None:
            return


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 39, 40, 41, 1_000])
@pytest.mark.parametrize(
    "lives",
    [
        lambda _: True,
        lambda _: False,
        lambda n: n % 2 == 0,
        lambda n: n % 2 == 1,
        lambda n: n > 30,
        lambda n: n < 9,
        lambda n: n % 10 == 0,
    ],
    ids=["all", "none", "even", "odd", "the last", "the first", "every tenth"],
)
def test_every_page_but_the_last_is_full(strict: Ground, limit: int, lives: Callable[[int], bool]) -> None:
    """Whatever lies between, each item comes once, in its order."""
    ratchet = Ratchet(strict.table("pk", "sk"), strict.client, key=("pk", "sk"), clock=FakeClock())
    left = fill(ratchet, [lives(n) for n in range(ROWS)])
    seen = list(pages(ratchet, limit))
    assert [item for page in seen for item in page] == left
    assert {len(page) for page in seen[:-1]} <= {limit}
    assert len(seen) <= len(left) // limit + 1


def test_a_page_is_full_on_both_engines(ratchet: Ratchet) -> None:
    """Forwards, backwards and under a prefix."""
    left = fill(ratchet, [n % 3 == 0 for n in range(ROWS)])
    assert list(pages(ratchet, 4)) == [left[:4], left[4:8], left[8:12], left[12:]]
    backwards = list(pages(ratchet, 5, descending=True, consistent=False))
    assert backwards == [left[:-6:-1], left[-6:-11:-1], left[-11::-1]]
    assert ratchet.query("p", begins_with="003").items == [item for item in left if item["n"] >= 30]
    assert ratchet.query("q").items == []


def test_a_cursor_holds_while_others_write(ratchet: Ratchet) -> None:
    """The item of the cursor may be deleted meanwhile; nothing is skipped and nothing comes twice."""
    left = fill(ratchet, [True] * 6)
    first = ratchet.query("p", limit=3)
    ratchet.delete(first.cursor or {}, MS + 1)
    assert ratchet.query("p", limit=3, cursor=first.cursor).items == left[3:]


def test_the_cursor_is_the_last_items_where_more_was_read(ratchet: Ratchet) -> None:
    """One tombstone makes the page ask again, and what comes is more than it has room for."""
    left = fill(ratchet, [False, *[True] * 9])
    page = ratchet.query("p", limit=4)
    assert page.items == left[:4]
    assert page.cursor == {"pk": "p", "sk": left[3]["sk"]}


@pytest.mark.parametrize(
    "bad", [{"limit": 0}, {"cursor": {"pk": "p"}}, {"cursor": {"pk": "p", "sk": "a", "n": 1}}]
)
def test_bad_questions_are_refused(ratchet: Ratchet, bad: dict[str, Any]) -> None:
    """No room for an item; a cursor that is no key."""
    with pytest.raises(Misconfigured):
        ratchet.query("p", **bad)


def test_a_table_without_a_sort_key_has_no_pages(ground: Ground) -> None:
    """There is one item a partition: get has it."""
    with pytest.raises(Misconfigured, match="sort key"):
        Ratchet(ground.table(), ground.client).query("p")


# -- batches


def test_a_batch_of_any_size_comes_in_its_order(ratchet: Ratchet) -> None:
    """250 keys, some deleted, some never there, some asked for twice."""
    left = fill(ratchet, [n % 5 != 0 for n in range(230)])
    keys = [{"pk": "p", "sk": f"{n:04}"} for n in range(249, -1, -1)]
    expected = [{item["sk"]: item for item in left}.get(key["sk"]) for key in keys]
    assert ratchet.batch_get(keys) == expected
    assert ratchet.batch_get([*keys[:3], *keys[:3]], consistent=False) == expected[:3] * 2
    assert ratchet.batch_get([]) == []


def test_a_table_of_one_key_attribute_has_batches_too(ground: Ground) -> None:
    """Under any name of that attribute."""
    ratchet = Ratchet(ground.table("name"), ground.client, key="name", clock=FakeClock())
    ratchet.put({"name": "a"}, MS)
    assert ratchet.batch_get([{"name": "a"}, {"name": "b"}]) == [{"name": "a", "ts": MS}, None]


class Grudging:
    """A client that reads *at_most* keys of a batch, and none at all in the first *fruitless* calls."""

    def __init__(self, client: Any, at_most: int, fruitless: int = 0) -> None:
        self._client = client
        self._at_most = at_most
        self._fruitless = fruitless

    def __getattr__(self, operation: str) -> Any:
        return getattr(self._client, operation)

    def batch_get_item(self, **request: Any) -> Any:
        ((table, asked),) = request["RequestItems"].items()
        room = 0 if self._fruitless > 0 else self._at_most
        self._fruitless -= 1
        now, later = asked["Keys"][:room], asked["Keys"][room:]
        responses: dict[str, list[Any]] = {table: []}
        if now:
            some = {"RequestItems": {table: {**asked, "Keys": now}}}
            responses = self._client.batch_get_item(**some)["Responses"]
        return {"Responses": responses, "UnprocessedKeys": {table: {**asked, "Keys": later}} if later else {}}


def test_what_was_left_unread_is_read_again(ground: Ground) -> None:
    """Seven of a hundred a call, and five calls in a row none: all items come, with a pause between calls."""
    clock = FakeClock()
    table = ground.table("pk", "sk")
    left = fill(Ratchet(table, ground.client, key=("pk", "sk"), clock=clock), [True] * 120)
    grudging = Ratchet(table, Grudging(ground.client, 7, fruitless=5), key=("pk", "sk"), clock=clock)
    assert grudging.batch_get([{"pk": "p", "sk": item["sk"]} for item in left]) == left
    assert len(clock.slept) == 5 + 17


def test_a_table_that_reads_nothing_is_unavailable(ground: Ground) -> None:
    """Six calls in a row without an item are the end: no None for what was never read."""
    table, clock = ground.table(), FakeClock()
    with pytest.raises(StoreUnavailable):
        Ratchet(table, Grudging(ground.client, 1, fruitless=6), clock=clock).batch_get([{"pk": "a"}])
    assert Ratchet(table, Grudging(ground.client, 1, fruitless=5), clock=clock).batch_get([{"pk": "a"}]) == [
        None
    ]


@pytest.mark.parametrize("number", [10**38, Decimal("1E39"), -(10**125)])
def test_numbers_of_every_size_are_read(ratchet: Ratchet, number: Any) -> None:
    """One large number does not make its partition unreadable."""
    item = {"pk": "p", "sk": "1", "v": number}
    ratchet.put(item, MS)
    ratchet.put({"pk": "p", "sk": "2", "v": 1}, MS)
    shown = {**item, "ts": MS}
    assert ratchet.get({"pk": "p", "sk": "1"}) == shown
    assert ratchet.batch_get([{"pk": "p", "sk": "1"}]) == [shown]
    assert ratchet.query("p", limit=5).items == [shown, {"pk": "p", "sk": "2", "v": 1, "ts": MS}]


@pytest.mark.engine
@pytest.mark.parametrize("consistent", [True, False])
def test_a_consistent_read_costs_twice_as_much(engine: Ground, *, consistent: bool) -> None:
    """Each read is as consistent as it is asked to be, and by default it is."""
    meter = Meter(engine.client)
    ratchet = Ratchet(engine.table("pk", "sk"), meter, key=("pk", "sk"), clock=FakeClock())
    key = {"pk": "p", "sk": "1"}
    ratchet.put(key, MS)
    how: dict[str, Any] = {} if consistent else {"consistent": False}
    reads = (
        lambda: ratchet.get(key, **how),
        lambda: ratchet.batch_get([key], **how),
        lambda: ratchet.query("p", **how),
    )
    assert [meter.of(read)[2] for read in reads] == [1.0 if consistent else 0.5] * 3
