"""examples/patterns/order_feed.py: a queue that delivers again, two consumers, lost requests and answers."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from itertools import count
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from botocore.exceptions import ReadTimeoutError

from lambda_once.dynamodb.items import plain_item
from lambda_once.dynamodb.retry import TRIES
from lambda_once.patterns import unique
from lambda_once.patterns.fifo import Publisher
from lambda_once.patterns.unique import Unique
from lambda_once.testing import FakeClock, dynamodb_stream_event, sqs_event
from tests.kit import elasticmq
from tests.kit.faulty import FaultyClient, by_seed
from tests.patterns.applications.rig import Figure, defined_in, measured
from tests.patterns.conftest import Ground
from tests.patterns.meter import Meter

MOST_RECEIVES = 5
ORDERS, EVENTS = 4, 8
Event = dict[str, Any]
_names = count()


@pytest.fixture(scope="module")
def sqs() -> Iterator[Any]:
    """A client of an ElasticMQ of this module's own."""
    with elasticmq.running() as endpoint:
        yield elasticmq.client(endpoint)


def order_event(order: int, sequence: int, **more: object) -> Event:
    """Return an event with numbers as a stream has them; its text says that it is the first of its number."""
    amount = Decimal(f"{sequence}.50")
    return {"orderId": Decimal(order), "sequence": Decimal(sequence), "amount": amount, "text": "a", **more}


def feed(client: Any, table: str, sqs: Any = None, queue: str = "http://sqs/q.fifo", **given: Any) -> Any:
    """Return its functions with its own options, on *queue* and *table*."""
    clock = FakeClock()
    return defined_in(
        "examples/patterns/order_feed.py",
        *("order_events", "feed", "publish_changes", "store_event", "store_events"),
        Unique=lambda _, **options: Unique(table, client, clock=clock, **options),
        Publisher=lambda _, **options: Publisher(queue, sqs or object(), clock=clock, **options),
        os=SimpleNamespace(environ={"ORDER_EVENTS_QUEUE_URL": queue}),
        **given,
    )


# -- a queue


class Queues(NamedTuple):
    """A FIFO queue and its dead letters."""

    sqs: Any
    main: str
    dead: str

    @classmethod
    def new(cls, sqs: Any) -> Queues:
        """Create both."""
        name, fifo = f"feed{next(_names)}", {"FifoQueue": "true"}
        dead = sqs.create_queue(QueueName=f"{name}-dead.fifo", Attributes=fifo)["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        redrive = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": MOST_RECEIVES})
        attributes = {**fifo, "RedrivePolicy": redrive, "VisibilityTimeout": "120"}
        return cls(sqs, sqs.create_queue(QueueName=f"{name}.fifo", Attributes=attributes)["QueueUrl"], dead)

    def receive(self, url: str) -> list[dict[str, Any]]:
        found = self.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["All"])
        messages: list[dict[str, Any]] = found.get("Messages", [])
        return messages

    def is_empty(self) -> bool:
        """Whether no message is in the main queue, in flight or not."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.main, AttributeNames=names)["Attributes"]
        return all(int(found[name]) == 0 for name in names)

    def consume(self, handler: Callable[[Event, object], Mapping[str, Any]], seed: int) -> None:
        """
        Process messages as Lambda does until there are none; some that were acknowledged come again.

        Only at their first receive, or bad luck would make dead letters of them.
        """
        dice = random.Random(seed)
        while not self.is_empty():
            messages = self.receive(self.main)
            if not messages:
                continue
            try:
                response = handler(_event_of(messages), None)
                failed = {each["itemIdentifier"] for each in response["batchItemFailures"]}
            except Exception:  # noqa: BLE001  (Lambda deletes nothing)
                failed = {each["MessageId"] for each in messages}
            again = [
                each
                for each in messages
                if each["MessageId"] in failed
                or (each["Attributes"]["ApproximateReceiveCount"] == "1" and dice.random() < 0.2)
            ]
            for each in messages:
                where = {"QueueUrl": self.main, "ReceiptHandle": each["ReceiptHandle"]}
                if each in again:
                    self.sqs.change_message_visibility(**where, VisibilityTimeout=0)
                else:
                    self.sqs.delete_message(**where)

    def dead_letters(self) -> list[Event]:
        """Return the bodies of the dead letters, in their order."""
        found: list[Event] = []
        while messages := self.receive(self.dead):
            found += [json.loads(each["Body"], parse_float=Decimal) for each in messages]
            for each in messages:
                self.sqs.delete_message(QueueUrl=self.dead, ReceiptHandle=each["ReceiptHandle"])
        return found


def _event_of(messages: list[dict[str, Any]]) -> Event:
    event: Event = sqs_event(
        *(each["Body"] for each in messages),
        fifo_groups=[each["Attributes"]["MessageGroupId"] for each in messages],
        message_ids=[each["MessageId"] for each in messages],
    )
    return event


# -- a table


class Watched:
    """Hands puts to *client*, keeps the order in which they took effect, and is down for some events."""

    def __init__(self, client: Any, down: set[tuple[int, int]]) -> None:
        self.written: list[tuple[int, int]] = []
        self._client = client
        self._outages = dict.fromkeys(down, TRIES)

    def put_item(self, **request: Any) -> Any:
        item = plain_item(request["Item"])
        place = (item["orderId"], item["sequence"])
        if self._outages.get(place, 0) > 0:
            self._outages[place] -= 1
            raise ReadTimeoutError(endpoint_url="http://table")
        answer = self._client.put_item(**request)
        self.written.append(place)
        return answer


class End(NamedTuple):
    """What a run leaves."""

    stored: dict[tuple[int, int], str]
    """The text of each event by order and number."""
    written: list[tuple[int, int]]
    """The order in which they were written."""
    dead: list[tuple[int, int, str]]


AMENDED = order_event(1, 3, text="amended")
DOWN = {(2, 2), (3, 5)}
"""Events that the table does not take at their first delivery."""


def run(ground: Ground, sqs: Any, seed: int, **given: Any) -> End:
    """Publish all events, some twice, and let two consumers store them; all lose requests and answers."""
    queues, table = Queues.new(sqs), ground.table("pk", "sk")
    watched = Watched(ground.client, DOWN)
    lines = [FaultyClient(watched, by_seed(3 * seed + n, sound=0.8)) for n in range(2)]
    sender = FaultyClient(sqs, by_seed(3 * seed + 2))
    publish = feed(None, table, sender, queues.main).publish_changes
    events = [order_event(order, n, sentAt=n) for n in range(EVENTS) for order in range(ORDERS)]
    for n in range(0, len(events), 10):
        for _ in range(2):  # the stream's batch comes twice
            publish(
                dynamodb_stream_event(*((None, each) for each in events[n : n + 10]), key="orderId"), None
            )
    publish(dynamodb_stream_event((None, AMENDED), key="orderId"), None)
    sender.deliver()
    with ThreadPoolExecutor(2) as pool:
        handlers = [feed(line, table, **given).store_events for line in lines]
        list(pool.map(queues.consume, handlers, (seed, seed + 1)))
    for line in lines:
        line.deliver()
    rows = map(plain_item, ground.client.scan(TableName=table, ConsistentRead=True)["Items"])
    stored = {(row["orderId"], row["sequence"]): row["text"] for row in rows}
    dead = [(each["orderId"], each["sequence"], each["text"]) for each in queues.dead_letters()]
    return End(stored, watched.written, dead)


def check(end: End) -> None:
    """Check that each event is stored once, in the sequence of its order, and the amended one is not."""
    assert end.stored == {(order, n): "a" for order in range(ORDERS) for n in range(EVENTS)}
    assert Counter(end.written) == Counter(end.stored.keys())
    for order in range(ORDERS):
        assert [n for of, n in end.written if of == order] == [*range(EVENTS)]
    assert end.dead == [(1, 3, "amended")]


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(4))
def test_each_event_is_stored_once_and_in_order(engine: Ground, sqs: Any, seed: int) -> None:
    """Published twice, delivered again, requests and answers lost, copies late: one exact end."""
    check(run(engine, sqs, seed))


@pytest.mark.engine
def test_without_the_condition_events_are_written_again(
    engine: Ground, sqs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Negative twin: also the amended one, which is no dead letter."""
    monkeypatch.setattr(unique, "ABSENT", "attribute_not_exists(#key) OR attribute_exists(#key)")
    end = run(engine, sqs, 0)
    assert max(Counter(end.written).values()) > 1
    assert end.dead == []


@pytest.mark.engine
def test_record_by_record_an_event_overtakes_one_that_failed(engine: Ground, sqs: Any) -> None:
    """Negative twin: what waits behind a failure is processed all the same."""

    def each_alone(event: Event, work: Callable[[Event], object]) -> Event:
        failures = []
        for record in event["Records"]:
            try:
                work(record)
            except Exception:  # noqa: BLE001  (any fails its record)
                failures.append({"itemIdentifier": record["messageId"]})
        return {"batchItemFailures": failures}

    end = run(engine, sqs, 0, work_in_order=each_alone)
    assert [n for of, n in end.written if of == 2] != [*range(EVENTS)]


def test_a_deletion_is_no_event() -> None:
    """It has no new image, and does not hold back the rest of the stream; nothing is sent for it."""
    functions = feed(None, "order-events")
    functions.publish_changes(dynamodb_stream_event((order_event(1, 3), None), key="orderId"), None)


@pytest.mark.engine
def test_what_waits_behind_an_amended_event_is_a_dead_letter_with_it(engine: Ground, sqs: Any) -> None:
    """It was received as often; sent again after it, it is stored."""
    queues, table = Queues.new(sqs), engine.table("pk", "sk")
    functions = feed(engine.client, table, sqs, queues.main)
    events = [order_event(1, 3), AMENDED, order_event(1, 4)]
    functions.publish_changes(dynamodb_stream_event(*((None, each) for each in events), key="orderId"), None)
    queues.consume(functions.store_events, 0)
    dead = queues.dead_letters()
    assert [(each["sequence"], each["text"]) for each in dead] == [(3, "amended"), (4, "a")]
    body = json.dumps(dead[1], default=float)
    assert functions.store_events(sqs_event(body, fifo_groups="1"), None) == {"batchItemFailures": []}
    assert engine.client.scan(TableName=table)["Count"] == 2


# -- what it costs


def figures(ground: Ground) -> list[Figure]:
    """Return the figures of fixed runs; before, a consumer had to make an int of each number of a key."""
    meter = Meter(ground.client)
    old, new = (feed(meter, ground.table("pk", "sk")) for _ in range(2))
    events = [order_event(5, n) for n in range(10)]
    batch = sqs_event(*(json.dumps(each, default=float) for each in events), fifo_groups="5")

    def converted() -> None:
        for each in events:
            numbers = {name: int(each[name]) for name in ("orderId", "sequence")}
            old.order_events.put({**each, **numbers})

    def stored() -> None:
        new.store_events(batch, None)

    return [
        measured(meter, "10 events of an order from its stream", converted, stored),
        measured(meter, "the same 10 delivered again", converted, stored),
    ]
