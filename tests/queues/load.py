"""A load on real queues: the sample's functions, in processes that are killed, between queues and tables."""

from __future__ import annotations

import itertools
import json
import random
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.stores.row import record_of
from lambda_once.testing import create_table
from tests.chaos.fleet import LATE_KILL, Interrupted, Worker
from tests.chaos.journal import entries
from tests.kit.event_source import EventSourceMapping
from tests.kit.tables import client as dynamodb_client
from tests.queues.checks import RECEIVES, WORKERS, Evidence, Lane, Sent
from tests.queues.worker import REMAINING_MS

VISIBILITY = 4
"""Seconds. Less than a lease (4 s and the margin of 2 s): a redelivery meets tokens of the dead first."""
BATCH = 5
LIMIT = timedelta(milliseconds=REMAINING_MS) + LATE_KILL
CARDS = ("tok_visa", "tok_visa", "tok_visa", "tok_declined", "tok_timeout")
WORKS = ("lamp", "lamp", "lamp", "lamp", "flaky-lamp")
ITEMS = (*WORKS, "jammed-door")
FORGOTTEN = 0.1
"""How many deletions are lost."""
TWINS = 0.2
"""How many messages are sent twice."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent and killed: *messages* a queue, kills for *seconds*, then *drain* seconds at most."""

    seed: int
    messages: int = 24
    seconds: float = 6.0
    drain: float = 90.0
    workers: int = WORKERS
    disabled: bool = False
    """For a negative twin: the functions run without the layer."""


class Queues:
    """The queues of one run, with their dead-letter queues."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self._name = name
        self.urls = {lane: self._created(lane) for lane in Lane}

    def _created(self, lane: Lane) -> str:
        fifo = {"FifoQueue": "true"} if lane.is_fifo else {}
        dead = self.client.create_queue(QueueName=f"{self._name}-dead-{lane.queue}", Attributes=fifo)[
            "QueueUrl"
        ]
        asked = self.client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
        redrive = {
            "deadLetterTargetArn": asked["Attributes"]["QueueArn"],
            "maxReceiveCount": RECEIVES,
        }
        attributes = {"VisibilityTimeout": str(VISIBILITY), "RedrivePolicy": json.dumps(redrive), **fifo}
        made = self.client.create_queue(QueueName=f"{self._name}-{lane.queue}", Attributes=attributes)
        return str(made["QueueUrl"])

    def send(self, lane: Lane, body: dict[str, Any], group: str) -> Sent:
        text = json.dumps(body)
        fifo = {"MessageGroupId": group, "MessageDeduplicationId": str(uuid.uuid4())} if lane.is_fifo else {}
        sent = self.client.send_message(QueueUrl=self.urls[lane], MessageBody=text, **fifo)
        return Sent(lane, sent["MessageId"], text, group if lane.is_fifo else None)

    def dead(self) -> set[str]:
        """Return the ids of all dead letters."""
        found: set[str] = set()
        for url in self.urls.values():
            folder, _, name = url.rpartition("/")
            dead = f"{folder}/{name.replace(self._name, f'{self._name}-dead', 1)}"
            while messages := self.client.receive_message(QueueUrl=dead, MaxNumberOfMessages=10).get(
                "Messages"
            ):
                for message in messages:
                    found.add(message["MessageId"])
                    self.client.delete_message(QueueUrl=dead, ReceiptHandle=message["ReceiptHandle"])
        return found


def bodies(load: Load) -> Iterator[tuple[Lane, dict[str, Any], str]]:
    """Yield lane, body and group of each message; the seed decides."""
    chance = random.Random(f"{load.seed}/messages")
    for number in range(load.messages):
        order, group = f"order_{number}", f"cust_{chance.randrange(4)}"
        of_lane: dict[Lane, dict[str, Any]] = {
            Lane.PAYMENTS: {"paymentId": f"pay_{number}", "card": chance.choice(CARDS), "amount": 4990},
            Lane.FULFILMENT: {"orderId": order, "customer": group, "items": [chance.choice(ITEMS)]},
            Lane.DELIVERIES: {
                "orderId": f"fifo_{order}",
                "customer": group,
                "items": [chance.choice(WORKS)],
            },
            Lane.RECEIPTS: {"orderId": order, "customer": group, "kind": "paid", "amount": 4990},
        }
        if number == 0:
            of_lane[Lane.FULFILMENT]["items"] = ["heavy-safe"]  # beyond the function's time limit, each time
        for lane, body in of_lane.items():
            for _ in range(1 + (chance.random() < TWINS)):
                yield lane, body, group
        if number % 10 == 9:
            amended = {**of_lane[Lane.RECEIPTS], "amount": 1, "amended": True}
            yield Lane.RECEIPTS, amended, group


def run(load: Load, queues: Queues, engine: str, folder: Path) -> Evidence:
    """Send all messages, let the workers run until nothing is left, and return what is known."""
    client, name = dynamodb_client(engine), f"queues-{uuid.uuid4()}"
    tables = {"LAMBDA_ONCE_TABLE": f"{name}-tokens", "RECEIPTS_TABLE": f"{name}-receipts"}
    create_table(client, tables["LAMBDA_ONCE_TABLE"])
    _create_receipts(client, tables["RECEIPTS_TABLE"])
    journal = folder / "journal"
    journal.touch()
    options = {
        "environment": {
            **tables,
            **({"LAMBDA_ONCE_DISABLED": "true"} if load.disabled else {}),
            "AWS_ENDPOINT_URL_DYNAMODB": engine,
            "POWERTOOLS_SERVICE_NAME": "orders",
            "POWERTOOLS_LOG_LEVEL": "CRITICAL",
            "POWERTOOLS_METRICS_NAMESPACE": "queues",
            "POWERTOOLS_TRACE_DISABLED": "true",
        },
        "functions": sorted({lane.function for lane in Lane}),
        "journal": str(journal),
    }
    try:
        sent = [queues.send(*each) for each in bodies(load)]
        crew = _Crew(load, queues, folder)
        with crew.working(options):
            crew.wait(sent)
        receipts = client.scan(TableName=tables["RECEIPTS_TABLE"])["Items"]
        filed = [{"effect": "filed", "subject": item["orderId"]["S"], "pid": 0} for item in receipts]
        rows = [record_of(item) for item in client.scan(TableName=tables["LAMBDA_ONCE_TABLE"])["Items"]]
    finally:
        for table in tables.values():
            client.delete_table(TableName=table)
    return Evidence(
        sent=sent,
        acknowledged=crew.acknowledged(),
        dead=crew.dead,
        died=crew.died(),
        effects=[*(entry for entry in entries(journal) if entry["kind"] == "effect"), *filed],
        rows={row.token.rpartition("/")[2]: row for row in rows},
        interrupted=crew.interrupted.killed | crew.interrupted.timed_out,
    )


def _create_receipts(client: Any, table: str) -> None:
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
    )
    client.get_waiter("table_exists").wait(TableName=table)


class _Crew:
    """Workers, each with a thread that polls all queues for it, and one that kills."""

    def __init__(self, load: Load, queues: Queues, folder: Path) -> None:
        self.interrupted = Interrupted()
        self.dead: set[str] = set()
        self._load = load
        self._queues = queues
        self._folder = folder
        self._clock = SystemClock()
        self._stopping = threading.Event()
        self._errors: list[Exception] = []
        self._workers = [
            Worker(folder / f"worker-{number}", self.interrupted, "tests.queues.worker", LIMIT)
            for number in range(load.workers)
        ]
        self._mappings: list[EventSourceMapping] = []
        parts = [*(partial(self._poll, number) for number in range(load.workers)), self._kill]
        self._threads = [
            threading.Thread(target=self._guarded, args=(part,), name="queues-crew") for part in parts
        ]

    def acknowledged(self) -> set[str]:
        # Each set is copied as a whole: the pollers add to them meanwhile.
        return set().union(*(mapping.deleted.copy() for mapping in tuple(self._mappings)))

    def died(self) -> Counter[str]:
        """Return how often an invocation died over each message. Call it once no poller runs."""
        return sum((mapping.died for mapping in self._mappings), Counter())

    @contextmanager
    def working(self, options: dict[str, Any]) -> Iterator[None]:
        """Poll in the block. After it no process is left."""
        try:
            for worker in self._workers:
                worker.start(options)
                worker.wait_until_ready()
            for thread in self._threads:
                thread.start()
            yield
        finally:
            self._stopping.set()
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()
            for worker in self._workers:
                worker.stop()

    def wait(self, sent: list[Sent]) -> None:
        """Return when each message is acknowledged or a dead letter, or at the end of the time."""
        limit = timedelta(seconds=self._load.seconds + self._load.drain)
        deadline, wanted = Deadline(self._clock, self._clock.now() + limit), {message.id for message in sent}
        while not deadline.passed() and not self._errors:
            self.dead |= self._queues.dead()
            if wanted <= self.acknowledged() | self.dead:
                return
            deadline.pause(0.3)
        for error in self._errors:
            raise error

    def _guarded(self, part: Callable[[], None]) -> None:
        try:
            part()
        except Exception as error:  # noqa: BLE001  (raised where it is awaited)
            self._errors.append(error)

    def _poll(self, number: int) -> None:
        worker, chance = self._workers[number], random.Random(f"{self._load.seed}/poller-{number}")
        orders = itertools.count(1)

        def invoked(function: str) -> Any:
            def invoke(event: dict[str, Any]) -> str | None:
                order = next(orders)
                # A file, for an order must fit into one write of a pipe; one of its own, for an order that is
                # given up may still be running.
                file = self._folder / f"event-{number}-{order}.json"
                file.write_text(json.dumps(event))
                answer = worker.invoke(order, {"function": function, "event": str(file)})
                return None if answer is None else answer["response"]

            return invoke

        mappings = [
            EventSourceMapping(
                self._queues.client,
                url,
                invoked(lane.function),
                batch_size=BATCH,
                forgets=lambda: chance.random() < FORGOTTEN,
            )
            for lane, url in self._queues.urls.items()
        ]
        self._mappings += mappings
        while not self._stopping.is_set():
            if not sum(mapping.poll() for mapping in mappings):
                self._stopping.wait(0.1)

    def _kill(self) -> None:
        chance = random.Random(f"{self._load.seed}/kills")
        deadline = Deadline(self._clock, self._clock.now() + timedelta(seconds=self._load.seconds))
        while not deadline.passed() and not self._stopping.wait(chance.uniform(0.05, 0.4)):
            worker = chance.choice(self._workers)
            worker.kill(worker.current())
