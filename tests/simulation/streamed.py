"""
A table of stream mode, played: works that end in every way there is, or never; a watchdog that crashes.

All follows from the seed. The engine is strict, the stream is played, store and reader are the package's.
In the end all is quiet, the watchdog runs every five minutes, and what is lost must be what is listed.
`READER` below is all that this file knows of the reader.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pytest

from lambda_once.core.clock import Deadline, epoch_seconds
from lambda_once.core.lifecycle import Failure, Record, Resolve, State
from lambda_once.core.results import Inline
from lambda_once.core.variables import Listing
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    Extend,
    Hold,
    Holder,
    Pin,
    Release,
    Unclaimed,
    Write,
    new_write_id,
)
from lambda_once.dynamodb.transport import Transport
from lambda_once.operations.decisions import Author, decided
from lambda_once.operations.stream import StreamReader, leave_stream
from lambda_once.operations.table import TokenTable
from lambda_once.stores import batches
from lambda_once.stores.contract import Won, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock
from tests.kit.streams import PlayedStreams
from tests.kit.strict.engine import StrictEngine
from tests.kit.strict.schemas import token_table
from tests.kit.strict.tables import Key, Table
from tests.kit.strict.trees import Item
from tests.simulation.determined import determined

TABLE = "tokens"
MINUTE = timedelta(minutes=1)
EVERY = 5
"""Minutes between two runs of the watchdog."""
ALL_ENDED = 4 * 60
"""Minutes after which no lease of a schedule is alive any more."""
MOST_RUNS = 400
"""How many runs the watchdog has in the end."""
READING = 15.0
"""Seconds that a run may read: half of its time."""
KEPT = timedelta(minutes=40)
"""How long outcomes are kept: expired rows are met often."""
FOREVER = timedelta(days=28)
OLD_ENVIRONMENTS = timedelta(minutes=15)
"""How long functions of before a deployment may run: one invocation's longest."""


# ------------------------------------------------------------------ what is known of the package


def store_of(client: Any, listing: Listing) -> DynamoDBStore:
    """Return the store of a function that lists in this way."""
    return DynamoDBStore(TABLE, client, listing=listing)


def read_once(world: World) -> object:
    """Let a new environment of the watchdog read the stream."""
    table = TokenTable(TABLE, world.client, world.clock)
    return StreamReader(table, world.streams).read(table.deadline(READING))


def leave_once(world: World) -> object:
    """Let a new environment of a watchdog that reads no stream end what is left of stream mode."""
    table = TokenTable(TABLE, world.client, world.clock)
    return leave_stream(table, table.deadline(READING))


READER: Callable[[World], object] = read_once


# ------------------------------------------------------------------ a schedule


class Crash(BaseException):
    """The sandbox is killed: nothing of the package may catch it."""


class NeverListed(AssertionError):
    """Lost work is not in the list, or the list has what isn't lost."""


@dataclass(frozen=True)
class Scenario:
    """What may happen in a schedule; a probability is of 1,000 minutes, records or requests."""

    seed: int
    minutes: int = 150
    rate: tuple[int, ...] = (0, 1, 1, 2, 4)
    long: int = 30
    """Of leases, how many are of hours."""
    lost: int = 150
    shards: int = 2
    roll_over: int = 20
    split: int = 10
    empties: int = 30
    stretch: int = 5
    crash: int = 30
    """Of the watchdog's requests, at which it is killed."""
    second: int = 20
    """Of the watchdog's reads of the stream, at which another watchdog runs to its end."""
    skipped: int = 150
    asleep: int = 3
    """How often no watchdog runs for 25 hours."""
    off: int = 3
    """How often the stream is switched off, for some minutes."""
    throttled: int = 20
    at_once: int = 0
    """Of deliveries, which a function makes that lists at once."""
    width: int = 0
    """Characters of a token's key, at least."""
    back: int | None = None
    """The minute at which functions and watchdog go back to listing at once; old environments take longer."""


def scenario(seed: int) -> Scenario:
    """Return the scenario of *seed*: a quiet stream, a wild one, many keys alive, or an absent watchdog."""
    rng = random.Random(f"streamed {seed}")
    kinds: list[dict[str, Any]] = [
        {},
        {"roll_over": 150, "split": 80, "crash": 100},
        {"empties": 250, "stretch": 30},
        {"long": 400, "rate": (2, 3, 6)},
        {"asleep": 30, "off": 30, "minutes": 100},
        {"at_once": 500, "second": 200, "throttled": 200},
        {"back": 90},
    ]
    return Scenario(seed, shards=rng.choice((1, 2, 3)), **rng.choice(kinds))


@dataclass
class Work:
    """An attempt that runs: when it ends, and by which change; None: it never comes back."""

    token: str
    attempt: str
    lease: datetime
    ends: datetime
    how: str


@dataclass
class World:
    """One table, its stream, its functions and its watchdogs."""

    scenario: Scenario
    clock: FakeClock = field(default_factory=FakeClock)
    told: Counter[str] = field(default_factory=Counter)
    """How often each thing happened."""
    leaver: Callable[[World], object] = leave_once
    """What a watchdog does that reads no stream any more."""
    drops: Callable[[Item | None, Item], bool] = lambda _before, _after: False
    """A twin: whether a write leaves out `listed`."""

    def __post_init__(self) -> None:
        self.rng = random.Random(f"world {self.scenario.seed}")
        self.engine = StrictEngine(token_table(TABLE))
        self.engine.watches.append(self._unlisted)
        self.streams = PlayedStreams(self.engine, self.clock)
        self.client = Client(self)
        self.stores = {each: store_of(Client(self, kills=False), each) for each in Listing}
        self.works: list[Work] = []
        self.tokens = 0
        self.crashes = False
        self.on_at: datetime | None = None
        self.streams.switch_on(TABLE, with_table=True, shards=self.scenario.shards)
        self.streams.before = self._meanwhile
        self.streams.pages_before = lambda: self.rng.randrange(1, 30) if self._happens("empties") else 0
        self.running = 0
        self.back_at = None if self.scenario.back is None else self.clock.now() + MINUTE * self.scenario.back

    # ---------------------------------------------------------------- the run of it

    def play(self) -> None:
        """Play it to its end. Raises `NeverListed`."""
        self.crashes = True
        for minute in range(self.scenario.minutes):
            self._environment()
            for _ in range(self.rng.choice(self.scenario.rate)):
                self._delivery()
            self._endings()
            if minute % EVERY == 0 and not self._happens("skipped"):
                self.watch()
            self.clock.advance(60 - self.clock.now().second)
        self.settle()

    def settle(self) -> None:
        """Let all that runs end, and the watchdog run till the list is what is lost."""
        self.crashes = False
        if self.on_at is not None:
            self._switch_on()
        for minute in range(ALL_ENDED):
            self._endings()
            if minute % EVERY == 0:
                self.watch()
            self.clock.advance(60)
        for _ in range(MOST_RUNS):
            if self.lost() == self.listed():
                break
            self.watch()
            self.clock.advance(EVERY * 60)
        lost, listed = self.lost(), self.listed()
        if lost != listed:
            raise NeverListed(
                f"seed {self.scenario.seed}: never listed {sorted(lost - listed)[:5]} of {len(lost)}, "
                f"listed and not lost {sorted(listed - lost)[:5]}; {dict(self.told)}"
            )
        self.told["lost"] += len(lost)

    def watch(self) -> None:
        """One run of a watchdog, which may be killed at any request."""
        self.told["runs"] += 1
        self.running += 1
        try:
            READER(self) if self._since_back() is None else self.leaver(self)
        except Crash:
            self.told["crashes"] += 1
        finally:
            self.running -= 1

    # ---------------------------------------------------------------- what is lost, what is listed

    @property
    def table(self) -> Table:
        return self.engine.tables[TABLE]

    def lost(self) -> set[str]:
        """Tokens that are open; nobody is at work any more."""
        return {
            str(key) for key, item in self.table.items.items() if "status" in item and "#" not in str(key)
        }

    def listed(self) -> set[str]:
        """Tokens that the index has."""
        needed = {"listed", "expectedCompletion"}
        return {str(key) for key, item in self.table.items.items() if needed <= item.keys()}

    def _unlisted(self, table: Table, key: Key, before: Item | None, after: Item | None) -> None:
        del table
        if "#" not in str(key) and after is not None and self.drops(before, after):
            after.pop("listed", None)

    # ---------------------------------------------------------------- functions

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock, self.clock.now() + timedelta(seconds=30))

    def _delivery(self) -> None:
        """New work, alone or in a batch; or an old key once more."""
        kind = self.rng.random()
        if kind < 0.55 or not self.tokens:
            self._acquire([self._new()])
        elif kind < 0.7:
            self._acquire([self._new() for _ in range(self.rng.randint(2, 5))])
        else:
            self._again(self._named(self.rng.randrange(max(0, self.tokens - 60), self.tokens)))

    def _new(self) -> Acquire:
        self.tokens += 1
        return self._acquisition(self._named(self.tokens - 1), Unclaimed(take_over=self.rng.random() < 0.6))

    def _named(self, number: int) -> str:
        return f"orders/charge/{number}".ljust(self.scenario.width, "x")

    def _acquisition(self, token: str, take: Unclaimed | AsSeen) -> Acquire:
        now = self.clock.now()
        lease = now + MINUTE * self.rng.choice((1, 3, 5, 15))
        if self._happens("long"):
            lease = now + MINUTE * self.rng.randint(21, 180)
        mortal = isinstance(take, Unclaimed) and take.take_over
        ttl = epoch_seconds(now + FOREVER) if mortal else None
        return Acquire(token, f"{self.rng.getrandbits(64):x}", "orders/r1", now, lease, take, ttl)

    def _acquire(self, acquisitions: Sequence[Acquire]) -> None:
        listing = self._listing()
        answers = self.stores[listing].acquire(acquisitions, self.deadline)
        for acquisition, answer in zip(acquisitions, answers, strict=True):
            if isinstance(answer, Won):
                self.told["acquired"] += 1
                self._begin(acquisition)

    def _begin(self, acquisition: Acquire) -> None:
        now, lease = self.clock.now(), acquisition.lease
        how = self.rng.choices(
            ("complete", "store", "hold", "release", "extend", "late"), (60, 8, 4, 10, 10, 4)
        )[0]
        if self._happens("lost"):
            how = self.rng.choice(("lost", "lost", "extend and lost", "pinned"))
        within = (lease - now).total_seconds()
        ends = now + timedelta(seconds=self.rng.choice((0, 0, 0, within / 2, within - 2)))
        if how == "late":
            ends = lease + MINUTE * self.rng.randint(1, 8)
        self.works.append(Work(acquisition.token, acquisition.attempt_id, lease, ends, how))

    def _endings(self) -> None:
        """Let each attempt whose time has come do what it does."""
        due = [work for work in self.works if work.ends <= self.clock.now()]
        self.works = [work for work in self.works if work.ends > self.clock.now()]
        for work in due:
            self._end(work)

    def _end(self, work: Work) -> None:
        failure = Failure("ValueError", "no")
        soon = epoch_seconds(self.clock.now() + KEPT)
        changes: Mapping[str, tuple[Change, int | None]] = {
            "complete": (Complete(Inline('"done"')), soon),
            "late": (Complete(Inline('"late"')), soon),
            "store": (Complete(None, failure), soon),
            "hold": (Hold(failure), None),
            "release": (Release(failure), soon),
        }
        self.told[work.how] += 1
        if work.how == "pinned":
            self._write(work, Pin.PIN, None)
        elif work.how.startswith("extend"):
            lease = work.lease + MINUTE * self.rng.choice((2, 5, 30))
            goes_on = self._write(work, Extend(lease), epoch_seconds(lease + FOREVER))
            if goes_on and work.how == "extend":
                self.works.append(Work(work.token, work.attempt, lease, lease - MINUTE, "complete"))
        elif work.how != "lost":
            self._write(work, *changes[work.how])

    def _write(self, work: Work, change: Change, ttl: int | None) -> bool:
        write = Write(work.token, Holder(work.attempt), change, self.clock.now(), ttl, new_write_id(change))
        listing = self._listing()
        (answer,) = self.stores[listing].write([write], self.deadline)
        return answer is Written.WRITTEN

    def _again(self, token: str) -> None:
        """Deliver an old key once more, or let somebody decide about it."""
        row = self.stores[Listing.STREAM].read(token, self.deadline)
        now = self.clock.now()
        if row is None:
            self._acquire([self._acquisition(token, Unclaimed(take_over=True))])
        elif row.state is State.RELEASED and self.rng.random() < 0.5:
            self._acquire([self._acquisition(token, AsSeen(row.attempt_id, None))])
        elif row.state is State.HELD or (row.lapsed(now) and self.rng.random() < 0.4):
            self._decide(row)
        elif row.lapsed(now) and self.rng.random() < 0.5:
            self._acquire([self._acquisition(token, AsSeen(row.attempt_id, row.expected_completion))])
        else:
            expired = row.ttl is not None and row.ttl <= epoch_seconds(now)
            self.told["expired"] += expired and row.state is State.COMPLETE
            self._acquire([self._acquisition(token, Unclaimed(take_over=True))])

    def _decide(self, row: Record) -> None:
        how = self.rng.choice((Resolve.DONE, Resolve.NOT_DONE, Resolve.FAILED, Resolve.HOLD))
        self.told[f"resolved: {how.value}"] += 1
        write = decided(row, how, Author("anna", "looked"), self.clock.now(), keep=KEPT)
        self.stores[Listing.STREAM].write([write], self.deadline)

    # ---------------------------------------------------------------- the service, and what befalls it

    def _environment(self) -> None:
        open_shards = self.streams.latest[TABLE].open
        if open_shards and self._happens("roll_over"):
            self.streams.roll_over(self.rng.choice(open_shards))
        elif open_shards and self._happens("split") and len(open_shards) < 6:
            self.streams.split(self.rng.choice(open_shards))
        if self._happens("stretch"):
            self.streams.stretch(300)
        if self._happens("asleep"):
            self.told["asleep"] += 1
            self._pass(timedelta(hours=25))
        if self.on_at is None and self._happens("off"):
            self.told["off"] += 1
            self.streams.switch_off()
            self.on_at = self.clock.now() + MINUTE * self.rng.randint(1, 30)
        elif self.on_at is not None and self.clock.now() >= self.on_at:
            self._switch_on()
        for key, item in list(self.table.items.items()):  # DynamoDB's ttl, some time or never
            dead = "ttl" in item and int(item["ttl"]["N"]) <= epoch_seconds(self.clock.now())
            if dead and "status" not in item and self.rng.random() < 0.02:
                self.engine.delete(TABLE, key)

    def _pass(self, time: timedelta) -> None:
        """Let *time* pass in which no watchdog runs; works end, and a little is new."""
        until = self.clock.now() + time
        while self.clock.now() < until:
            self.clock.advance(30 * 60)
            self._endings()
            self._delivery()

    def _switch_on(self) -> None:
        self.streams.switch_on(TABLE, shards=self.scenario.shards)
        self.on_at = None

    def _since_back(self) -> timedelta | None:
        """How long ago everything went back to listing at once; None: it has not."""
        now = self.clock.now()
        return None if self.back_at is None or now < self.back_at else now - self.back_at

    def _listing(self) -> Listing:
        """How the function lists that makes the next request."""
        since = self._since_back()
        old = since is None or (since < OLD_ENVIRONMENTS and self.rng.random() < 0.3)
        return Listing.STREAM if old and not self._happens("at_once") else Listing.AT_ONCE

    def _happens(self, name: str) -> bool:
        probability: int = getattr(self.scenario, name)
        return self.rng.randrange(1_000) < probability

    def _meanwhile(self, operation: str, request: Mapping[str, Any]) -> None:
        """Before a request to the stream: time passes, a kill, a throttle, another watchdog."""
        del request
        self.clock.advance(0.05)
        self.killed()
        if self.crashes and self._happens("throttled"):
            self.told["throttled"] += 1
            codes = {"get_records": "LimitExceededException"}
            self.streams.fail(operation, codes.get(operation, "InternalServerError"))
        if self.crashes and self.running == 1 and self._happens("second"):
            self.told["second"] += 1
            self.watch()

    def killed(self) -> None:
        """Kill the watchdog, perhaps. Raises `Crash`."""
        if self.crashes and self.running and self._happens("crash"):
            raise Crash


class Client:
    """botocore's interface to DynamoDB, as the package uses it. At any request its sandbox may be killed."""

    def __init__(self, world: World, *, kills: bool = True) -> None:
        self._world = world
        self._kills = kills

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_") or operation == "meta":
            raise AttributeError(operation)
        execute: Callable[..., Any] = getattr(self._world.engine, operation)

        def send(**arguments: Any) -> Any:
            if not self._kills:
                return execute(**arguments)
            self._world.clock.advance(0.005)
            self._world.killed()
            answer = execute(**arguments)
            self._world.killed()  # the write is done, and nobody hears of it
            return answer

        return send


def play(found: Scenario, **more: Any) -> Counter[str]:
    """Play *found*; return what happened, by count. Raises `NeverListed`."""
    with determined(found.seed), pytest.MonkeyPatch.context() as patch:
        patch.setattr(Transport, "each", lambda _self, values, work: [work(value) for value in values])
        patch.setattr(batches, "partiql_is_reliable", lambda: True)
        world = World(found, **more)
        world.play()
    return world.told
