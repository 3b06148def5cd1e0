"""A token table with a watchdog at it: what it says, what it asks, and what happens meanwhile."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from lambda_once.core.clock import Deadline, stamp
from lambda_once.core.lifecycle import Failure, Record, State
from lambda_once.core.results import Inline
from lambda_once.core.writes import Acquire, Complete, Hold, Holder, Unclaimed, Write, new_write_id
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.contract import Won, Written
from lambda_once.stores.row import listed
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock

LEASE = timedelta(seconds=30)
CHARGE = "orders/charge/{}"


class Lines(logging.Logger):
    """A logger that keeps its lines, message and fields, and prints none."""

    def __init__(self) -> None:
        super().__init__("watchdog", logging.DEBUG)
        self.lines: list[dict[str, Any]] = []

    def handle(self, record: logging.LogRecord) -> None:
        usual = logging.LogRecord("", 0, "", 0, "", (), None).__dict__
        fields = {name: value for name, value in record.__dict__.items() if name not in usual}
        self.lines.append({"message": record.getMessage(), "level": record.levelname, **fields})

    def of(self, event: str) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["message"] == event]


class Post:
    """One table, one clock, and the watchdogs that look at it; `sent` counts their requests."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.name = name
        self.clock = FakeClock()
        self.log = Lines()
        self.store = DynamoDBStore(name, client)
        self.sent: Counter[str] = Counter()
        client.meta.events.register("before-call.dynamodb", self._count)

    @property
    def deadline(self) -> Deadline:
        return Deadline(self.clock, self.clock.now() + timedelta(seconds=30))

    def watchdog(self, **options: Any) -> Callable[[Any, Any], dict[str, Any]]:
        chosen: dict[str, Any] = {"sweep": False, "logger": self.log} | options
        return watchdog(self.name, self.client, self.clock, **chosen)

    def run(self, context: Any = None, **options: Any) -> dict[str, Any]:
        """One run of a new watchdog."""
        return self.watchdog(**options)({}, context)

    def acquire(self, token: str, attempt: str = "a1", *, ttl: int | None = None) -> None:
        now = self.clock.now()
        acquisition = Acquire(
            token, attempt, "orders/r1", now, now + LEASE, Unclaimed(take_over=True), ttl=ttl
        )
        (answer,) = self.store.acquire([acquisition], self.deadline)
        assert isinstance(answer, Won), answer

    def lapse(self, *keys: object, token: str = CHARGE, after: float = 3600.0) -> None:
        """Let an attempt at each of *keys* begin, a second after another, and never come back."""
        for key in keys:
            self.acquire(token.format(key))
            self.clock.advance(1)
        self.clock.advance(after)

    def finish(self, token: str, change: Complete | Hold, attempt: str = "a1") -> None:
        write = Write(token, Holder(attempt), change, self.clock.now(), None, new_write_id(change))
        assert self.store.write([write], self.deadline) == [Written.WRITTEN]

    def complete(self, token: str, attempt: str = "a1") -> None:
        self.finish(token, Complete(Inline('"late"')), attempt)

    def hold(self, token: str) -> None:
        self.acquire(token)
        self.finish(token, Hold(Failure("Timeout", "no answer")))

    def put_released(self, key: object) -> None:
        """Write a row that was released by a decision now."""
        now = stamp(self.clock.now())
        token = CHARGE.format(key)
        texts = {"lockToken": token, "status": "released", "listed": listed(State.RELEASED, token)}
        texts |= {"expectedCompletion": now, "created": now, "lockedBy": "orders/r1", "attempt": "decided"}
        item = {name: {"S": text} for name, text in texts.items()} | {"fence": {"N": "2"}}
        self.client.put_item(TableName=self.name, Item=item)

    def row(self, key: object, token: str = CHARGE) -> Record:
        record = self.store.read(token.format(key), self.deadline)
        assert record is not None
        return record

    def states(self, *keys: object) -> list[State]:
        return [self.row(key).state for key in keys]

    def examined(self) -> list[str]:
        """The keys of all `once.overdue` lines, in their order."""
        return [line["token"].rpartition("/")[2] for line in self.log.of("once.overdue")]

    @contextmanager
    def meanwhile(self, operation: str, happens: Callable[[], object]) -> Iterator[None]:
        """Let *happens* happen once, just before the next request of *operation* goes out."""
        left = [happens]

        def now(**_: Any) -> None:
            if left:
                left.pop()()

        self.client.meta.events.register_first(f"before-call.dynamodb.{operation}", now)
        yield
        self.client.meta.events.unregister(f"before-call.dynamodb.{operation}", now)

    @contextmanager
    def failing(self, operation: str, error: Exception, after: int = 0) -> Iterator[None]:
        """Let requests of *operation* fail with *error*, but for the first *after*."""
        seen = Counter[str]()

        def fail(**_: Any) -> None:
            seen["requests"] += 1
            if seen["requests"] > after:
                raise error

        self.client.meta.events.register(f"before-call.dynamodb.{operation}", fail)
        yield
        self.client.meta.events.unregister(f"before-call.dynamodb.{operation}", fail)

    def page_by(self, limit: int) -> None:
        """Let pages of a count end after *limit* tokens, as they do after 1 MB."""
        self.client.meta.events.register(
            "provide-client-params.dynamodb.Query",
            lambda params, **_: {"Limit": limit} | params if params.get("Select") == "COUNT" else params,
        )

    def _count(self, model: Any, **_: Any) -> None:
        self.sent[model.name] += 1


def measured(out: str) -> list[dict[str, Any]]:
    """Read the EMF documents of what was written to standard output: metric and value, summed."""
    documents = [json.loads(line) for line in out.splitlines()]
    return [
        {
            metric["Name"]: sum(document[metric["Name"]])
            for metric in document["_aws"]["CloudWatchMetrics"][0]["Metrics"]
        }
        for document in documents
    ]


def at(post: Post, seconds: float) -> datetime:
    """The time *seconds* before now."""
    return post.clock.now() - timedelta(seconds=seconds)
