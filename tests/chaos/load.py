"""A load on real processes, with a fault proxy between them and the engine, and its report."""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.stores.row import record_of
from lambda_once.testing import create_table
from tests.chaos.checks import Evidence, Result, check
from tests.chaos.deliveries import Lane, Queue
from tests.chaos.fleet import Interrupted, Poller, Worker
from tests.chaos.handlers import CLIENT_TIMEOUT, LEASE, Place
from tests.chaos.journal import entries
from tests.chaos.plan import USUAL, Fate, Plan, Weights
from tests.chaos.proxy import Delays, Proxy
from tests.chaos.real_queue import RealQueue
from tests.kit import elasticmq, tables
from tests.kit.dynoxide import running


@dataclass(frozen=True, slots=True)
class Load:
    """What is run until *messages* are finished or *seconds* are over; the rest is worked without faults."""

    seed: int
    messages: int = 300
    seconds: float = 15.0
    drain: float = 30.0
    """How many seconds the rest may take: a few leases."""
    workers: int = 3
    lanes: Sequence[Lane] = tuple(lane for lane in Lane if lane is not Lane.FIFO)
    pause: float = 1.3
    """How long workers stand still, in leases."""
    weights: Weights = field(default_factory=lambda: USUAL)
    throttled: float = 0.0
    """For how many seconds, in the middle, the table takes nothing."""
    only: str | None = None
    """The operation whose requests meet faults; None: all."""
    without: str | None = None
    """A guard of `sabotage` that the workers do without."""
    hold_takes_over: bool = False
    client: str = tables.BOTO3
    """Which of `tables.CLIENTS` sends the workers' requests."""
    queues: str | None = None
    """The endpoint of real queues, ElasticMQ's; None: a queue of our own."""

    def queue(self) -> Queue:
        """Return the queue, still empty, that gives the workers their messages."""
        if self.queues is None:
            return Queue(self.lanes, self.seed, self.messages)
        return RealQueue(self.lanes, self.seed, self.messages, client=elasticmq.client(self.queues))


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a load."""

    load: Load
    result: Result
    faults: Counter[str]
    seconds: float

    def __str__(self) -> str:
        rows = [*self.result.counts.items(), ("", ""), *sorted(self.faults.items())]
        table = "\n".join(f"  {name:<22}{number:>7}" for name, number in rows)
        promised = "nothing lost, nothing twice where that is promised"
        found = "\n".join(["VIOLATED:", *self.result.violations]) if self.result.violations else promised
        return f"seed {self.load.seed}, {self.seconds:.0f} s\n{table}\n\n{found}"


def run(load: Load, endpoint: str, folder: Path) -> Report:
    """
    Run *load* on the engine at *endpoint*; what the processes note is kept in *folder*.

    Raises WorkerFailed where a worker ends by itself.
    """
    clock = SystemClock()
    began = clock.now()
    place = Place(endpoint, f"tokens-{uuid.uuid4()}", f"effects-{uuid.uuid4()}", str(folder / "journal"))
    client = tables.client(endpoint, patience=30)
    _create_tables(client, place)
    try:
        crew = Crew(load, place, folder)
        with crew.working():
            crew.wait(Deadline(clock, clock.now() + timedelta(seconds=load.seconds / 2)))
            crew.throttle(Deadline(clock, clock.now() + timedelta(seconds=load.throttled)))
            crew.wait(Deadline(clock, clock.now() + timedelta(seconds=load.seconds / 2 - load.throttled)))
            crew.calm()
            crew.wait(Deadline(clock, clock.now() + timedelta(seconds=load.drain)))
        result = check(_evidence(crew, client, place))
    finally:
        for table in (place.tokens, place.effects):
            client.delete_table(TableName=table)
        client.close()
    return Report(load, result, crew.faults(), (clock.now() - began).total_seconds())


class Crew:
    """Workers with a proxy and a poller each, at one queue."""

    def __init__(self, load: Load, place: Place, folder: Path) -> None:
        self.queue = load.queue()
        self.interrupted = Interrupted()
        self._options = asdict(replace(place, hold_takes_over=load.hold_takes_over, client=load.client))
        if load.without is not None:
            self._options["without"] = load.without
        upstream = urlsplit(place.endpoint)
        delays = Delays(CLIENT_TIMEOUT, load.pause * LEASE.total_seconds())
        self._plans = [Plan(load.seed, number, load.weights, load.only) for number in range(load.workers)]
        self._workers = [
            Worker(folder / f"worker-{number}", self.interrupted) for number in range(load.workers)
        ]
        self._pollers = [Poller(worker, self.queue) for worker in self._workers]
        self._proxies = [
            Proxy((upstream.hostname or "", upstream.port or 80), plan, worker, delays)
            for plan, worker in zip(self._plans, self._workers, strict=True)
        ]

    @contextmanager
    def working(self) -> Iterator[None]:
        """Work the queue in the block. After it no process is left and no request is under way."""
        try:
            for worker, proxy, poller in zip(self._workers, self._proxies, self._pollers, strict=True):
                worker.start(self._options | {"endpoint": proxy.endpoint})
                poller.start()
            for poller in self._pollers:
                poller.ready.wait()
            yield
        finally:
            for poller in self._pollers:
                poller.stopping.set()
            for poller in self._pollers:
                if poller.ident is not None:
                    poller.join()
            for worker in self._workers:
                worker.stop()
            for proxy in self._proxies:
                proxy.close()

    def wait(self, deadline: Deadline) -> None:
        """Return when all is finished, or at the deadline."""
        while not self.queue.finished and not deadline.passed():
            for poller in self._pollers:
                if poller.error is not None:
                    raise poller.error
            deadline.pause(0.05)

    def throttle(self, until: Deadline) -> None:
        """Let the table take no request of anybody's for a while."""
        for plan in self._plans:
            plan.throttling.set()
        self.wait(until)
        for plan in self._plans:
            plan.throttling.clear()

    def calm(self) -> None:
        """Let nothing be sent and no fault happen from now on."""
        self.queue.stop_sending()
        for plan in self._plans:
            plan.calm.set()

    def troubled(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for proxy in self._proxies:
            for attempt, troubles in proxy.troubled.items():
                found.setdefault(attempt, []).extend(troubles)
        return found

    def senders(self) -> dict[str, int | None]:
        return {attempt: pid for proxy in self._proxies for attempt, pid in proxy.senders.items()}

    def faults(self) -> Counter[str]:
        return Counter({fate.value: sum(plan.count[fate] for plan in self._plans) for fate in Fate})


def _evidence(crew: Crew, client: Any, place: Place) -> Evidence:
    rows = [record_of(item) for item in _scan(client, place.tokens) if "data" not in item]  # parts have data
    return Evidence(
        messages=crew.queue.messages,
        journal=list(entries(Path(place.journal))),
        rows={row.token.rpartition("/")[2]: row for row in rows},
        transacted={item["id"]["S"]: int(item["effects"]["N"]) for item in _scan(client, place.effects)},
        troubled=crew.troubled(),
        senders=crew.senders(),
        interrupted=crew.interrupted,
    )


def _scan(client: Any, table: str) -> Iterator[dict[str, Any]]:
    for page in client.get_paginator("scan").paginate(TableName=table, ConsistentRead=True):
        yield from page["Items"]


def _create_tables(client: Any, place: Place) -> None:
    create_table(client, place.tokens)
    client.create_table(
        TableName=place.effects,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    client.get_waiter("table_exists").wait(TableName=place.effects)


def main() -> int:
    """Run the load that the arguments ask for; return 1 where something promised was not kept."""
    parser = argparse.ArgumentParser(prog="chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=75.0)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, printed")
    parser.add_argument(
        "--client", choices=list(tables.CLIENTS), default=tables.BOTO3, help="what sends the requests"
    )
    parser.add_argument("--endpoint", default=None, help="default: dynoxide is started")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    throttled = min(4.0, given.seconds / 5)
    load = Load(seed, given.messages, given.seconds, workers=4, throttled=throttled, client=given.client)
    sys.stdout.write(f"seed {seed}, about {given.seconds:.0f} s\n")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        endpoint = given.endpoint or stack.enter_context(running())
        report = run(load, endpoint, Path(folder))
    sys.stdout.write(f"{report}\n")
    return 1 if report.result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
