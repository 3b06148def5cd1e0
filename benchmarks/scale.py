"""
`python -m benchmarks.scale`: a queue of 1,000 events a second for ten minutes, by the number of shards.

Time is virtual: a simulated second takes as long as it takes. Rate and limit are divided by --divided-by
(10), and the figures of the page say so. --docs writes the table into benchmarks/README.md.

Invocations are played one after another, in the order of their starts, each on its own clock. So what an
earlier one sends late goes before what a later one sends at the same time; and what two threads of one
invocation do at once takes the sum of their times.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import io
import logging
import os
import time
from collections import Counter
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import quantiles
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from benchmarks import costs
from benchmarks.limits import LimitedClient, Limiter
from benchmarks.report import README, lined, write
from benchmarks.sides import LIBRARY, THEIRS
from benchmarks.units import LIST, MILLION, dollars
from benchmarks.world import engine
from lambda_once import Once
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table, lambda_context, sqs_event
from lambda_once.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MARK: Final = "scale"

RATE, LIMIT, SECONDS = 1_000, 1_000, 600
"""Events a second, write units a second and partition, and for how long."""
SHARDS: Final = (1, 2, 3, 4, 8)
BATCH, WORKERS = 10, 1_000
"""Records of an invocation; concurrent invocations, the quota of an account (Lambda developer guide)."""
TIMEOUT, VISIBILITY, RECEIVES = 30, 180, 5
"""Of the function and its queue, as in template.yaml: seconds, and receives before a message is parked."""
LATENCY, WORK = 0.005, 0.010
"""Seconds of a request to the table, and of one record's work."""
SERVICE: Final = "orders"
PRICED: Final = "10 records, new"
"""The case of `benchmarks.costs` whose write units the events are charged."""
TWICE, LATER = 50, 2.0
"""Every so many messages one is delivered twice, so many seconds apart."""


class Load(NamedTuple):
    """How many events come, and what the table takes."""

    rate: float = RATE
    limit: float = LIMIT
    seconds: int = SECONDS
    workers: int = WORKERS

    def divided(self, by: int) -> Load:
        """Return the same load on a table that is as many times smaller."""
        return self._replace(rate=self.rate / by, limit=self.limit / by, workers=max(1, self.workers // by))

    @property
    def events(self) -> int:
        return round(self.rate * self.seconds)

    def arrival(self, event: int) -> float:
        """Return when *event* comes, in seconds from the start: as many at once as one invocation gets."""
        return event // BATCH * BATCH / self.rate

    def messages(self) -> list[Message]:
        """Return a message for each event, and a second one for one of `TWICE`."""
        once = [Message(self.arrival(event), event) for event in range(self.events)]
        return sorted(once + [each._replace(at=each.at + LATER) for each in once[::TWICE]])


@dataclass
class Played:
    """What a load did to a queue and a table of *shards*."""

    shards: int
    load: Load
    effects: Counter[int] = field(default_factory=Counter)
    """How often the work of each event ran."""
    done: dict[int, float] = field(default_factory=dict)
    """Seconds from the arrival of each event until its message was deleted."""
    durations: list[float] = field(default_factory=list)
    """Of the invocations, in seconds."""
    returned: int = 0
    """Messages that an invocation gave back to the queue."""
    parked: int = 0
    """Messages in the dead-letter queue."""
    ended: float = 0.0
    """When the last invocation ended, in seconds from the start."""
    left: int = 0
    """Tokens that are in progress at the end."""
    throttled: Counter[str] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)

    @property
    def doubled(self) -> int:
        return sum(1 for times in self.effects.values() if times > 1)

    @property
    def lost(self) -> int:
        """Events whose message is gone, and whose work never ran."""
        return sum(1 for event in self.done if not self.effects[event])

    @property
    def throttled_an_event(self) -> float:
        return sum(self.throttled.values()) / self.load.events


class Message(NamedTuple):
    """A message that is visible from *at* on, in seconds from the start."""

    at: float
    event: int
    receives: int = 0


def play(load: Load, shards: int, client: Any, table: str) -> Played:
    """Send *load* to a queue in front of a handler, on *table*, and let the queue run empty."""
    played, clock, limiter = Played(shards, load), FakeClock(), Limiter(load.limit)
    limited = LimitedClient(client, limiter, clock, shards=shards, service=SERVICE, latency=LATENCY)
    handler = _handler(played, DynamoDBStore(table, limited, shards), clock)
    queue = load.messages()
    workers = [0.0] * load.workers
    while queue:
        free = heapq.heappop(workers)
        began = max(free, queue[0].at)
        batch = list(_received(queue, began))
        clock.advance(began - (clock.now() - START).total_seconds())
        failed = handler(batch)
        ended = (clock.now() - START).total_seconds()
        heapq.heappush(workers, ended)
        played.durations.append(ended - began)
        played.ended = max(played.ended, ended)
        _acknowledge(played, queue, batch, failed, began, ended)
    clock.advance(load.seconds)  # later than every invocation
    played.throttled, played.units = limiter.throttled, limiter.taken
    reader = DynamoDBStore(table, client, shards)
    deadline = Deadline(clock, clock.now() + timedelta(hours=1))
    played.left = sum(1 for _ in reader.unfinished(State.IN_PROGRESS, deadline))
    return played


def _received(queue: list[Message], now: float) -> Iterator[Message]:
    for _ in range(BATCH):
        if queue and queue[0].at <= now:
            yield heapq.heappop(queue)


def _acknowledge(
    played: Played,
    queue: list[Message],
    batch: Sequence[Message],
    failed: set[int],
    began: float,
    ended: float,
) -> None:
    """Delete the messages that did not fail, and give the others back, or park them."""
    for message in batch:
        if message.event not in failed:
            played.done.setdefault(message.event, ended - played.load.arrival(message.event))
            continue
        played.returned += 1
        if message.receives + 1 >= RECEIVES:
            played.parked += 1
        else:
            heapq.heappush(queue, Message(began + VISIBILITY, message.event, message.receives + 1))


def _handler(played: Played, store: DynamoDBStore, clock: FakeClock) -> Any:
    """Return a function of messages, which returns the events that failed."""
    logger = logging.getLogger("benchmarks.scale")
    logger.setLevel(logging.CRITICAL + 1)
    once = Once(store=store, service=SERVICE, logger=logger)

    @once.sqs(name="charge", key="order", raise_on_entire_batch_failure=False)
    def charge(record: Any) -> None:
        clock.advance(WORK)
        played.effects[record.json_body["event"]] += 1

    def handled(batch: Sequence[Message]) -> set[int]:
        bodies = ({"order": _key(each.event), "event": each.event} for each in batch)
        event = sqs_event(*bodies, message_ids=[str(each.event) for each in batch])
        for record, message in zip(event["Records"], batch, strict=True):
            record["attributes"]["ApproximateReceiveCount"] = str(message.receives + 1)
        with once._using(None, clock), redirect_stdout(io.StringIO()):  # noqa: SLF001  (metrics are not read)
            answer = charge(event, lambda_context(remaining_ms=TIMEOUT * 1000))
        return {int(str(each["itemIdentifier"])) for each in answer["batchItemFailures"]}

    return handled


def _key(event: int) -> str:
    """Return a key that looks random: CRC-32 spreads consecutive numbers better than real keys."""
    return hashlib.sha256(str(event).encode()).hexdigest()[:16]


# ------------------------------------------------------------------ the table of the page

HEAD: Final = (
    *("shards", "throttled writes an event", "messages returned", "in the dead-letter queue"),
    *("event until done: median", "99 %", "queue empty after", "invocation: median", "99 %"),
    *("left in progress", "doubled", "lost"),
)


def line(played: Played) -> tuple[str, ...]:
    """Return the line of the table of one number of shards."""
    done, lasted = _shares(list(played.done.values())), _shares(played.durations)
    return (
        f"{played.shards}",
        f"{played.throttled_an_event:.2f}",
        f"{played.returned:,}",
        f"{played.parked:,}",
        *map(_seconds, (*done, played.ended, *lasted)),
        *(f"{number:,}" for number in (played.left, played.doubled, played.lost)),
    )


def units_an_event() -> tuple[float, float]:
    """Return the write units of a new event, of both libraries, as they were measured."""
    libraries = costs.load()[PRICED]
    return libraries[LIBRARY].write_units / BATCH, libraries[THEIRS.name].write_units / BATCH


def price(events: int, units: float) -> str:
    """Return the dollars of *events* of so many write units each."""
    return dollars(events * units * LIST.write / MILLION)


def markdown(runs: Sequence[Played], by: int) -> str:
    """Return what benchmarks/README.md has between its marks."""
    whole = round(runs[0].load.events * by)
    ours, theirs = units_an_event()
    cost = [
        ("write units a new event", f"{ours:g}", f"{theirs:g}"),
        ("write units a second", f"{ours * RATE:,.0f}", f"{theirs * RATE:,.0f}"),
        (f"{whole:,} events", price(whole, ours), price(whole, theirs)),
    ]
    played = lined(HEAD, [line(each) for each in runs])
    return f"{played}\n\n{lined(('the same load', LIBRARY, THEIRS.name), cost)}"


def _shares(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile."""
    shares = quantiles(values, n=100)
    return shares[49], shares[98]


def _seconds(value: float) -> str:
    if value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:.1f} s" if value < 100 else f"{value:,.0f} s"  # noqa: PLR2004  (no tenths of minutes)


def measured(load: Load, shards: Sequence[int], endpoint: str) -> Iterator[Played]:
    """Play *load* for each number of *shards*, each on a table of its own."""
    from tests.kit import tables

    for number in shards:
        client = tables.boto3s(endpoint)
        table = f"scale-{number}-{os.getpid()}"
        create_table(tables.client(endpoint), table)
        began = time.monotonic()
        played = play(load, number, client, table)
        print(f"{number} shards: {time.monotonic() - began:.0f} s,", *line(played))
        tables.client(endpoint).delete_table(TableName=table)
        yield played


def main(given: Sequence[str] | None = None) -> None:
    """Print the table, or bring benchmarks/README.md up to date."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.scale", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--docs", action="store_true", help="write the table")
    parser.add_argument("--divided-by", type=int, default=10, metavar="N", help="of rate and limit")
    parser.add_argument("--seconds", type=int, default=SECONDS, help="simulated")
    parser.add_argument("--shards", type=int, nargs="+", default=SHARDS)
    arguments = parser.parse_args(given)
    load = Load(seconds=arguments.seconds).divided(arguments.divided_by)
    with engine() as endpoint:
        runs = list(measured(load, arguments.shards, endpoint))
    tables = markdown(runs, arguments.divided_by)
    print(tables)
    if arguments.docs:
        write(README, MARK, tables)


if __name__ == "__main__":
    main()
