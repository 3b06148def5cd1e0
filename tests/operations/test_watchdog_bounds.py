"""However many tokens are stuck, a run ends within its bounds: time, rows, requests, memory."""

from __future__ import annotations

import json
import logging
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import State
from lambda_once.operations.table import WATCHDOG_ROW
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.row import PARTITIONS, listed
from lambda_once.testing import FakeClock, lambda_context
from tests.kit import tables
from tests.operations import big_table as loaded
from tests.operations.big_table import OVERDUE, BigTable, overdue_token
from tests.operations.watch import Lines, Post

STUCK = 100_000
IN_ONE_PARTITION = STUCK // PARTITIONS
ANSWER_SECONDS = 0.02
"""How long each request takes by the stand-in's clock; the real one was seen to take 4 to 20 ms."""
ASKED_OF_ALL = 3 * PARTITIONS
"""Counts of a run: each partition that there may be, in three states."""


def _token(n: int, partition: str) -> str:
    """Return a token of that number in *partition*, whose own number is first in its key."""
    salted = (f"orders/charge/{partition[-1]}.{salt}-{n}" for salt in count())
    return next(token for token in salted if listed(State.IN_PROGRESS, token) == partition)


class StuckTable:
    """A stand-in for a table whose index lists *stuck* overdue tokens; it makes rows as it is asked."""

    def __init__(self, clock: FakeClock, stuck: int = STUCK) -> None:
        self.clock = clock
        self.in_one_partition = stuck // PARTITIONS
        self.sent: Counter[str] = Counter()
        self.start = clock.now() - timedelta(days=2)
        self.place: str | None = None

    def query(self, **request: Any) -> dict[str, Any]:
        self._answering("query")
        partition = request["ExpressionAttributeValues"][":listed"]["S"]
        state, _, number = partition.partition("_")
        is_new = ":since" in request["ExpressionAttributeValues"]
        mine = self.in_one_partition if state == "inProgress" else 0
        mine = 0 if is_new else mine
        if request.get("Select") == "COUNT":
            return self._counted(mine, request)
        begin = self._number(request["ExclusiveStartKey"]) + 1 if "ExclusiveStartKey" in request else 0
        end = min(begin + request["Limit"], mine)
        rows = [self._row(n, number) for n in range(begin, end)]
        more = {"LastEvaluatedKey": rows[-1]} if end < mine else {}
        return {"Items": rows, **more}

    def batch_get_item(self, **request: Any) -> dict[str, Any]:
        self._answering("batch_get_item")
        keys = request["RequestItems"]["tokens"]["Keys"]
        assert len(keys) <= 100
        rows = [self._row(self._number(key), key["lockToken"]["S"].split("/")[2][0]) for key in keys]
        return {"Responses": {"tokens": rows}}

    def get_item(self, **request: Any) -> dict[str, Any]:
        self._answering("get_item")
        is_cursor = request["Key"]["lockToken"]["S"] == WATCHDOG_ROW
        there = is_cursor and self.place is not None
        return {"Item": {**request["Key"], "place": {"S": self.place}}} if there else {}

    def update_item(self, **request: Any) -> dict[str, Any]:
        self._answering("update_item")
        assert request["Key"]["lockToken"]["S"] == WATCHDOG_ROW
        self.place = request.get("ExpressionAttributeValues", {}).get(":place", {}).get("S")
        return {}

    def _counted(self, mine: int, request: dict[str, Any]) -> dict[str, Any]:
        begin = request.get("ExclusiveStartKey", {"n": 0})["n"]
        end = min(begin + request.get("Limit", 4_000), mine)  # about 1 MB of entries
        return {"Count": end - begin, **({"LastEvaluatedKey": {"n": end}} if end < mine else {})}

    def _answering(self, operation: str) -> None:
        self.sent[operation] += 1
        self.clock.advance(ANSWER_SECONDS)

    def _number(self, key: dict[str, Any]) -> int:
        return int(key["lockToken"]["S"].rpartition("-")[2])

    def _row(self, n: int, number: str) -> dict[str, Any]:
        lease = self.start + timedelta(seconds=n)
        return {
            "lockToken": {"S": _token(n, f"inProgress_{number}")},
            "status": {"S": "inProgress"},
            "listed": {"S": f"inProgress_{number}"},
            "expectedCompletion": {"S": stamp(lease)},
            "created": {"S": stamp(lease)},
            "lockedBy": {"S": "orders/r1"},
            "attempt": {"S": "a1"},
            "fence": {"N": "1"},
        }


def test_a_hundred_thousand_stuck_tokens_do_not_stop_a_run() -> None:
    """A run counts them all, looks at its thousand, and is over long before its time."""
    clock = FakeClock()
    table, log = StuckTable(clock), Lines()
    handler = watchdog("tokens", table, clock, logger=log, sweep=False)
    began = clock.now()
    found = handler({}, lambda_context(remaining_ms=60_000))
    assert (found["overdue"], found["checked"], found["truncated"]) == (STUCK, 1_000, True)
    assert len(log.of("once.overdue")) == 1_000
    assert (clock.now() - began).total_seconds() < 10
    assert table.sent["batch_get_item"] == 10
    # Counted in pages of 1 MB; then what is new, alive and oldest in each, and some hundred entries.
    assert table.sent["query"] <= ASKED_OF_ALL + PARTITIONS * (IN_ONE_PARTITION // 4_000 + 1) + PARTITIONS * 5


def test_time_is_a_bound_too() -> None:
    """With rows without end the run stops five seconds before its own end, one chunk later at most."""
    clock = FakeClock()
    table, log = StuckTable(clock), Lines()
    handler = watchdog("tokens", table, clock, logger=log, rows=10**9, sweep=False)
    began = clock.now()
    found = handler({}, lambda_context(remaining_ms=13_000))
    assert 7.5 < (clock.now() - began).total_seconds() < 10
    assert 1_000 < found["checked"] < STUCK
    assert found["truncated"]


def test_several_runs_examine_all() -> None:
    """Each once, in the order of their leases, by runs that know nothing but the cursor's row."""
    clock, stuck = FakeClock(), 5_000
    table = StuckTable(clock, stuck)
    log = Lines()
    runs = 0
    more = True
    while more:
        more = watchdog("tokens", table, clock, logger=log, rows=1_000, sweep=False)({}, None)["truncated"]
        runs += 1
    assert runs == 5
    assert table.place is None
    tokens = [line["token"] for line in log.of("once.overdue")]
    assert len(tokens) == len(set(tokens)) == stuck
    leases = [line["expected_completion"] for line in log.of("once.overdue")]
    assert leases == sorted(leases)


def peak(rows: int) -> int:
    """Return the most bytes that a run over *rows* tokens has in use."""
    clock = FakeClock()
    logger = logging.getLogger("silent")
    logger.setLevel(logging.CRITICAL)
    handler = watchdog("tokens", StuckTable(clock), clock, logger=logger, rows=rows, sweep=False)
    tracemalloc.start()
    try:
        assert handler({}, lambda_context(remaining_ms=3_600_000))["checked"] == rows
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_what_is_stuck() -> None:
    """Entries are streamed: a page of each partition and a chunk of rows are all that is there at a time."""
    peak(1_000)  # what is imported and cached at first use
    assert peak(4_000) < 1.5 * peak(1_000)


# ------------------------------------------------------------------ on a real engine


@pytest.fixture
def post(big_table: BigTable, monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """The table as the watchdog reads it; its cursor is gone afterwards."""
    client = tables.client(big_table.endpoint)
    yield Post(client, big_table.name)
    client.delete_item(TableName=big_table.name, Key={"lockToken": {"S": WATCHDOG_ROW}})
    client.close()


@pytest.mark.engine
def test_a_big_table_is_counted_exactly_and_within_bounds(post: Post) -> None:
    """Of 20,000 tokens 5,000 are overdue and 500 held; a run reads the index and no other row."""
    found = post.run(lambda_context(remaining_ms=60_000))
    assert {
        name: found[name]
        for name in ("overdue", "oldestSeconds", "held", "inProgress", "checked", "truncated")
    } == {
        "overdue": OVERDUE,
        "oldestSeconds": (loaded.NOW - loaded.OLDEST).total_seconds(),
        "held": loaded.HELD,
        "inProgress": loaded.IN_PROGRESS,
        "checked": 1_000,
        "truncated": True,
    }
    assert [line["token"] for line in post.log.of("once.overdue")] == [overdue_token(n) for n in range(1_000)]
    assert post.sent.keys() == {"Query", "GetItem", "BatchGetItem", "UpdateItem"}
    assert (post.sent["BatchGetItem"], post.sent["GetItem"], post.sent["UpdateItem"]) == (10, 2, 1)
    assert post.sent["Query"] <= ASKED_OF_ALL + 4 * PARTITIONS + 1_000 / 100 + PARTITIONS


@pytest.mark.engine
def test_several_runs_examine_a_big_table(post: Post) -> None:
    """Five thousand, a thousand a run, the oldest first; the sixth run begins anew."""
    runs = [post.run() for _ in range(5)]
    seen = [(found["checked"], found["truncated"]) for found in runs]
    assert seen == [(1_000, True)] * 4 + [(1_000, False)]
    tokens = [line["token"] for line in post.log.of("once.overdue")]
    assert tokens == [overdue_token(n) for n in range(OVERDUE)]
    post.run(rows=1)
    assert post.examined()[-1] == overdue_token(0).rpartition("/")[2]
    row = post.client.get_item(TableName=post.name, Key={"lockToken": {"S": WATCHDOG_ROW}})["Item"]
    assert len(json.loads(row["place"]["S"])) == 1
