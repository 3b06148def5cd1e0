"""The index grows on a live table: tokens of any number of shards are found and resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from lambda_once import HOLD, Held, Misconfigured, Once
from lambda_once.core.clock import epoch_seconds
from lambda_once.core.lifecycle import Failure, Record, Resolve, State
from lambda_once.core.results import Inline
from lambda_once.core.variables import MOST_SHARDS
from lambda_once.core.writes import Acquire, Complete, Hold, Holder, Unclaimed, Write, new_write_id
from lambda_once.operations.decisions import Author, decided
from lambda_once.operations.listing import count_unfinished
from lambda_once.operations.table import TokenTable
from lambda_once.stores import index
from lambda_once.stores.contract import AcquireAnswer, Refused, Won, Written
from lambda_once.stores.memory import MemoryStore
from lambda_once.stores.row import Entry
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table, lambda_context, using
from tests.kit import tables
from tests.kit.strict.mounted import mounted

GROWTH = (1, 10, MOST_SHARDS)
TOKENS = 12
"""A writer's; enough that under 10 and 100 shards several are used, some of them beyond 10."""

LEASE = timedelta(seconds=30)
KEEP = timedelta(days=14)
BROKEN = Failure("GatewayTimeout", "no answer")


@dataclass
class Live:
    """A table, and the writers of three deployments that share it."""

    client: Any
    name: str
    clock: FakeClock = field(default_factory=FakeClock)

    def seen_with(self, shards: int) -> TokenTable:
        """Return the table as an operator or the watchdog with *shards* sees it."""
        return TokenTable(self.name, self.client, self.clock, shards)

    def acquire(self, token: str, shards: int, attempt: str = "a1") -> AcquireAnswer:
        """Acquire under take_over, as a function with *shards* does."""
        (answer,) = self.acquired([token], shards, attempt)
        return answer

    def acquired(self, tokens: list[str], shards: int, attempt: str) -> list[AcquireAnswer]:
        """Acquire *tokens* in one batch."""
        now = self.clock.now()
        lease = now + LEASE
        ttl = epoch_seconds(lease + KEEP)
        take = Unclaimed(take_over=True)
        table = self.seen_with(shards)
        acquisitions = [Acquire(token, attempt, f"f/{attempt}", now, lease, take, ttl) for token in tokens]
        return table.store.acquire(acquisitions, table.deadline())

    def finish(self, tokens: Iterable[str], change: Complete | Hold, shards: int) -> None:
        """End the first attempts in one batch, as a function with *shards* does, and insist on it."""
        now = self.clock.now()
        ttl = None if isinstance(change, Hold) else epoch_seconds(now + KEEP)
        writes = [Write(token, Holder("a1"), change, now, ttl, new_write_id(change)) for token in tokens]
        table = self.seen_with(shards)
        assert set(table.store.write(writes, table.deadline())) == {Written.WRITTEN}

    def grown(self) -> dict[str, int]:
        """Let each deployment acquire a batch, and return all tokens with the shards of their writers."""
        tokens: dict[str, int] = {}
        for shards in GROWTH:
            batch = [f"orders/f/{shards}-{n}" for n in range(TOKENS)]
            assert {type(answer) for answer in self.acquired(batch, shards, "a1")} == {Won}
            tokens |= dict.fromkeys(batch, shards)
        return tokens

    def status(self, token: str) -> str | None:
        """Return the raw status of the row."""
        key = {"lockToken": {"S": token}}
        item = self.client.get_item(TableName=self.name, Key=key, ConsistentRead=True)["Item"]
        return item["status"]["S"] if "status" in item else None

    def listed(self, state: State, shards: int) -> list[Entry]:
        """Return what a reader with *shards* finds in the index."""
        table = self.seen_with(shards)
        return list(table.index.unfinished(state, table.deadline(), None, []))

    def counted(self, state: State, shards: int) -> int:
        table = self.seen_with(shards)
        return sum(table.index.count(index.partitions(state), table.deadline()).values())


@pytest.fixture
def strict() -> Iterator[Live]:
    """A table of the strict engine."""
    with mounted():
        client = tables.client()
        create_table(client, "tokens")
        yield Live(client, "tokens")


@pytest.fixture
def engine(engine_endpoint: str, partiql: None) -> Iterator[Live]:
    """A table of a real engine, on which batches are sent."""
    client = tables.client(engine_endpoint)
    with tables.fresh(client) as name:
        yield Live(client, name)
    client.close()


@pytest.fixture(params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def live(request: pytest.FixtureRequest) -> Live:
    """Each kind of table in turn."""
    found: Live = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("reader", GROWTH)
def test_tokens_of_all_shards_are_listed_and_counted(live: Live, reader: int) -> None:
    """Rows of the bare value, of ten and of a hundred shards, by readers of any of these."""
    tokens = live.grown()
    assert {live.status(token) for token in tokens} > {"inProgress"}, "several shards are used"
    assert sorted(entry.record.token for entry in live.listed(State.IN_PROGRESS, reader)) == sorted(tokens)
    assert live.counted(State.IN_PROGRESS, reader) == len(tokens)


def test_a_reader_of_its_own_shards_alone_would_lose_some(
    strict: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for fewer suffixes than there may be passes rows over: the test above can fail."""
    tokens = strict.grown()
    monkeypatch.setattr(index, "MOST_SHARDS", 10)
    assert 0 < strict.counted(State.IN_PROGRESS, 10) < len(tokens)


def test_what_is_overdue_is_found_in_every_shard(live: Live) -> None:
    """The range query is asked of each partition; what is still within its lease is in none."""
    tokens = live.grown()
    live.clock.advance(LEASE.total_seconds() + 1)
    fresh = live.acquire("orders/f/fresh", 10)
    assert isinstance(fresh, Won)
    table = live.seen_with(10)
    found = table.store.unfinished(State.IN_PROGRESS, table.deadline(), live.clock.now())
    assert {entry.token for entry in found} == set(tokens)


@pytest.mark.parametrize("shards", GROWTH)
def test_one_attempt_holds_a_token_under_any_number_of_shards(live: Live, shards: int) -> None:
    """A writer with another number is refused, and a late one of the old number too."""
    answers = live.acquired(list(live.grown()), shards, "a2")
    assert {type(answer) for answer in answers} == {Refused}
    assert live.counted(State.IN_PROGRESS, shards) == len(GROWTH) * TOKENS


@pytest.mark.parametrize("shards", GROWTH)
def test_tokens_of_all_shards_can_be_completed(live: Live, shards: int) -> None:
    """By a function of any number; nothing of it stays in the index."""
    tokens = live.grown()
    live.finish(tokens, Complete(Inline('"done"')), shards)
    assert {live.status(token) for token in tokens} == {None}
    assert live.listed(State.IN_PROGRESS, 1) == []


@pytest.mark.parametrize("shards", GROWTH)
def test_tokens_of_all_shards_can_be_held_and_resolved(live: Live, shards: int) -> None:
    """Held by a function of one number, listed by one of another, resolved by an operator of a third."""
    tokens = live.grown()
    live.finish(tokens, Hold(BROKEN), shards)
    reader = GROWTH[GROWTH.index(shards) - 1]
    assert live.listed(State.IN_PROGRESS, reader) == []
    held = live.listed(State.HELD, reader)
    assert sorted(entry.record.token for entry in held) == sorted(tokens)
    table = live.seen_with(GROWTH[GROWTH.index(shards) - 2])
    for entry in held:
        record = table.read(entry.record.token)
        assert record is not None
        write = decided(record, Resolve.DONE, Author("ann", "it was paid"), live.clock.now())
        assert table.write(write) == Written.WRITTEN
    assert live.listed(State.HELD, reader) == []


@pytest.mark.parametrize("shards", GROWTH)
def test_what_is_held_again_moves_to_the_writers_shard(live: Live, shards: int) -> None:
    """One row has one place: an operator with another number leaves no second entry behind."""
    token = "orders/f/moved"
    assert isinstance(live.acquire(token, 10), Won)
    table = live.seen_with(shards)
    record = table.read(token)
    assert record is not None
    hold = decided(record, Resolve.HOLD, Author("ann", "look at it"), live.clock.now())
    assert table.write(hold) == Written.WRITTEN
    (entry,) = live.listed(State.HELD, 1)
    assert (entry.record.token, entry.shard is None) == (token, shards == 1)
    assert live.listed(State.IN_PROGRESS, 1) == []


@pytest.mark.parametrize("shards", GROWTH)
def test_a_lapsed_token_is_taken_over_into_the_new_shards(live: Live, shards: int) -> None:
    """The next attempt writes its own number; the lapsed one's late completion is refused as ever."""
    token = "orders/f/lapsed"
    first = live.acquire(token, 10)
    assert isinstance(first, Won)
    live.clock.advance(LEASE.total_seconds() + 1)
    second = live.acquire(token, shards, "a2")
    assert isinstance(second, Won)
    assert second.took_over
    assert second.fence > first.fence
    (entry,) = live.listed(State.IN_PROGRESS, 1)
    assert (entry.record.attempt_id, entry.shard is None) == ("a2", shards == 1)
    late = Write(token, Holder("a1"), Complete(None), live.clock.now(), None, "late")
    table = live.seen_with(10)
    (refused,) = table.store.write([late], table.deadline())
    assert isinstance(refused, Refused)


def test_rows_beyond_the_configured_shards_are_noticed(live: Live) -> None:
    """If the number was reduced, or differs between functions: found all the same, and reported."""
    tokens = live.grown()
    entries = live.listed(State.IN_PROGRESS, 10)
    beyond = {entry.record.token for entry in entries if entry.shard is not None and entry.shard >= 10}
    expected = {token for token in tokens if int((live.status(token) or "").partition("_")[2] or 0) >= 10}
    assert beyond == expected
    assert beyond, "a hundred shards put some there"
    assert {tokens[token] for token in beyond} == {MOST_SHARDS}
    counts = count_unfinished(live.seen_with(10), live.clock.now())
    shards = [entry.shard or 0 for entry in entries]
    assert counts.beyond(10) == (len(beyond), max(shards))
    assert counts.beyond(MOST_SHARDS)[0] == 0
    assert counts.beyond(1)[0] == sum(shard >= 1 for shard in shards)


def test_the_store_in_memory_has_no_shards() -> None:
    """It has no index to spread: it lists its rows."""
    store, clock = MemoryStore(), FakeClock()
    once = Once(store=store)
    seen: list[Record] = []
    with using(once, store, clock), once.begin("k", name="f") as attempt:
        deadline = TokenTable("tokens", object(), clock).deadline()
        seen += store.unfinished(State.IN_PROGRESS, deadline)
        attempt.complete()
    assert [row.state for row in seen] == [State.IN_PROGRESS]


def test_growing_between_deployments(strict: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """Held under one shard, refused under ten, resolved, and replayed under a hundred."""
    runs: list[str] = []

    def deployed(shards: int) -> Any:
        monkeypatch.setenv("LAMBDA_ONCE_STATUS_SHARDS", str(shards))
        once = Once(table=strict.name, client=strict.client, service="orders", on_error=HOLD)

        @once.event(key="id", name="charge")
        def charge(event: dict[str, str]) -> str:
            runs.append(event["id"])
            raise TimeoutError

        return charge

    with pytest.raises(TimeoutError):
        deployed(1)({"id": "5"}, lambda_context())
    with pytest.raises(Held):
        deployed(10)({"id": "5"}, lambda_context())
    table = TokenTable(strict.name, strict.client)
    (entry,) = table.store.unfinished(State.HELD, table.deadline())
    record = table.read(entry.token)
    assert record is not None
    paid = decided(record, Resolve.DONE, Author("ann", "paid"), table.clock.now(), result='"receipt 5"')
    assert table.write(paid) == Written.WRITTEN
    assert deployed(MOST_SHARDS)({"id": "5"}, lambda_context()) == "receipt 5"
    assert runs == ["5"]


@pytest.mark.parametrize("shards", [0, -1, 101])
def test_numbers_of_shards_out_of_range_are_refused(shards: int) -> None:
    """By the store and by the operators' table, with the number and the bounds."""
    message = f"LAMBDA_ONCE_STATUS_SHARDS is {shards}: give a whole number, 1 to 100"
    with pytest.raises(Misconfigured, match=message):
        DynamoDBStore("tokens", object(), shards)
    with pytest.raises(Misconfigured, match=message):
        TokenTable("tokens", object(), shards=shards)


@pytest.mark.parametrize("given", ["0", "101", "x", "1.5", "2 3", "٣", "9" * 5_000])
def test_settings_of_shards_that_are_malformed_are_refused(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    """Operators and the watchdog read the same variable as the functions, and refuse the same."""
    monkeypatch.setenv("LAMBDA_ONCE_STATUS_SHARDS", given)
    with pytest.raises(
        Misconfigured, match=r"LAMBDA_ONCE_STATUS_SHARDS is .*: give a whole number, 1 to 100"
    ):
        TokenTable("tokens", object())
