"""The load of `benchmarks.scale`: its limiter, its queue, and its arithmetic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from benchmarks import scale
from benchmarks.limits import ENTRY_UNITS, ROW_UNITS, THROTTLED, LimitedClient, Limiter, Partition
from benchmarks.meter import STATEMENT_INDEX_UNITS, STATEMENT_UNITS
from benchmarks.scale import Load, Played, play
from lambda_once.testing import FakeClock, create_table
from tests.kit import tables
from tests.kit.strict.mounted import mounted

INDEX, OTHER, ROW = Partition("index", "inProgress"), Partition("index", "x"), Partition("table", "0")


# ------------------------------------------------------------------ the limiter


def test_a_partition_has_so_many_units_a_second() -> None:
    """What does not fit is refused; another partition and the next second have units of their own."""
    limiter = Limiter(2)
    assert [limiter.admits(0, {INDEX: 1}) for _ in range(3)] == [True, True, False]
    assert limiter.admits(0, {OTHER: 2})
    assert limiter.admits(1, {INDEX: 2})
    assert (limiter.taken["index"], limiter.throttled["index"]) == (6, 1)


def test_a_write_takes_all_its_units_or_none() -> None:
    """A table refuses a write that its index has no units for."""
    limiter = Limiter(1)
    assert limiter.admits(0, {INDEX: 1})
    assert not limiter.admits(0, {INDEX: 1, ROW: 1})
    assert limiter.taken["table"] == 0
    assert limiter.admits(0, {OTHER: 1, ROW: 1})
    assert limiter.throttled == {"index": 1}


def test_what_a_condition_refuses_leaves_the_index_alone() -> None:
    """Its row is charged all the same."""
    limiter = Limiter(1)
    assert limiter.admits(0, {INDEX: 1, ROW: 1})
    limiter.give_back(0, INDEX, 1)
    assert limiter.admits(0, {INDEX: 1})
    assert (limiter.taken["index"], limiter.taken["table"]) == (1, 1)


def test_a_write_has_the_units_that_are_measured() -> None:
    """Of its row and of its entry."""
    assert (STATEMENT_INDEX_UNITS, STATEMENT_UNITS) == (ENTRY_UNITS, ROW_UNITS + ENTRY_UNITS)


# ------------------------------------------------------------------ the client


class Answering:
    """A client that writes nothing: each request is noted."""

    def __init__(self, *codes: str | None) -> None:
        self.codes = codes
        self.sent: list[Any] = []

    def update_item(self, **arguments: Any) -> Any:
        self.sent.append(arguments)
        return {}

    def batch_execute_statement(self, Statements: Any) -> Any:  # noqa: N803  (boto3's name)
        self.sent.append(Statements)
        codes = self.codes or (None,) * len(Statements)
        return {"Responses": [{} if code is None else {"Error": {"Code": code}} for code in codes]}


def limited(client: Any, limit: float, shards: int = 1) -> tuple[LimitedClient, Limiter, FakeClock]:
    """Put *client* behind a limit."""
    limiter, clock = Limiter(limit), FakeClock()
    return LimitedClient(client, limiter, clock, shards=shards, service="s", latency=0.25), limiter, clock


def statement(order: int) -> Any:
    """A statement of the token of *order*."""
    return {"Statement": "…", "Parameters": [{"N": "1"}, {"S": f"s/charge/{order}"}, {"S": "inProgress"}]}


def test_statements_are_throttled_one_by_one() -> None:
    """Those that are admitted are sent, and each answer is in its place."""
    client = Answering()
    through, limiter, clock = limited(client, 2)
    before = clock.now()
    answer = through.batch_execute_statement([statement(n) for n in range(3)])
    assert [each.get("Error", {}).get("Code") for each in answer["Responses"]] == [
        None,
        None,
        "ThrottlingError",
    ]
    assert client.sent == [[statement(0), statement(1)]]
    assert limiter.taken == {"index": 2, "table": 2}
    assert (clock.now() - before).total_seconds() == 0.25


def test_shards_share_the_load() -> None:
    """Each has a partition of the index, and with it units of its own."""
    through, limiter, _ = limited(Answering(), 2, shards=100)
    through.batch_execute_statement([statement(n) for n in range(4)])
    assert limiter.throttled["index"] == 0


def test_a_refused_statement_takes_the_rows_unit_alone() -> None:
    """A duplicate puts nothing into the index."""
    through, limiter, _ = limited(Answering("DuplicateItem"), 10)
    through.batch_execute_statement([statement(1)])
    assert limiter.taken == {"index": 0, "table": 1}


def test_a_single_write_is_throttled_by_an_error() -> None:
    """And then it is not sent."""
    client = Answering()
    through, _, _ = limited(client, 1)
    key = {"Key": {"lockToken": {"S": "s/charge/1"}}}
    through.update_item(**key)
    with pytest.raises(ClientError, match=THROTTLED):
        through.update_item(**key)
    assert client.sent == [key]


# ------------------------------------------------------------------ the load


@pytest.fixture
def client() -> Iterator[Any]:
    """A table of the strict engine."""
    with mounted():
        found = tables.client()
        create_table(found, "tokens")
        yield found


def test_enough_shards_throttle_nothing(client: Any) -> None:
    """Half of the units of each partition are used: each event is done by its first invocation."""
    load = Load(rate=20, limit=25, seconds=5, workers=10)
    played = play(load, 8, client, "tokens")
    assert (sum(played.throttled.values()), played.returned, played.left) == (0, 0, 0)
    assert (played.doubled, played.lost, len(played.done)) == (0, 0, 100)
    twice = 100 // scale.TWICE
    assert played.units == {"index": 2 * 100, "table": 2 * 100 + twice}


def test_too_few_shards_cost_time_and_no_event(client: Any) -> None:
    """Throttled messages return to the queue, and run later; none twice, and none never."""
    load = Load(rate=20, limit=10, seconds=5, workers=10)
    played = play(load, 1, client, "tokens")
    assert played.throttled["index"] > 100
    assert played.returned > 0
    assert played.ended > scale.VISIBILITY
    assert (played.doubled, played.lost, played.left, played.parked) == (0, 0, 0, 0)
    assert sorted(played.effects) == list(range(100))
    assert len(played.done) == 100


def test_what_goes_wrong_would_be_counted() -> None:
    """Work that ran twice, and a message that was deleted without it."""
    played = Played(1, Load(rate=1, seconds=3), effects=Counter({0: 2, 1: 1}), done={0: 1.0, 1: 1.0, 2: 1.0})
    assert (played.doubled, played.lost) == (1, 1)


# ------------------------------------------------------------------ the arithmetic


def test_a_load_is_divided_as_a_whole() -> None:
    """Rate, limit and workers: a smaller table under a smaller load."""
    assert Load().divided(10) == Load(rate=100, limit=100, seconds=600, workers=100)
    assert Load().divided(10).events == 60_000


def test_one_message_of_fifty_comes_twice() -> None:
    """Two seconds apart, the earliest first."""
    messages = Load(rate=10, seconds=10).messages()
    assert len(messages) == 102
    assert messages == sorted(messages)
    assert [each.at for each in messages if each.event == 50] == [5.0, 7.0]


def test_the_units_are_those_of_the_costs_page() -> None:
    """Twice Powertools': the index."""
    assert scale.units_an_event() == (4.0, 2.0)
    assert (scale.price(600_000, 4.0), scale.price(600_000, 2.0)) == ("$1.50", "$0.750")
