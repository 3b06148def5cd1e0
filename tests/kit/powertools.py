"""A shop on two tables: its old version is protected by Powertools, its new one by this package."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Context, Decimal
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyKeyError,
    IdempotencyValidationError,
)

from lambda_once import InProgress, KeyMissing, KeyReused, Once, PowertoolsHistory
from lambda_once.core.clock import Deadline, SystemClock, stamp
from lambda_once.core.lifecycle import Resolve
from lambda_once.observability.reporter import Details
from lambda_once.operations.decisions import Author, decided
from lambda_once.stores.contract import Written
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import lambda_context
from tests.kit import tables

PREFIX = "shop#charge"
"""The ``key_prefix`` of the old version: the functions of a test have names of their own."""
ALIKE: dict[type[BaseException], str] = {
    IdempotencyAlreadyInProgressError: "in progress",
    InProgress: "in progress",
    IdempotencyValidationError: "another payload",
    KeyReused: "another payload",
    IdempotencyKeyError: "no key",
    KeyMissing: "no key",
}
"""What both libraries refuse, by their exceptions."""
ALL_DIGITS = Context(prec=38)
"""DynamoDB's. By 28, the default, the marks in the fraction sometimes become another token's."""


class Hurried(SystemClock):
    """The machine's clock, by which a sleep takes no time and advances it."""

    def __init__(self) -> None:
        self._slept = timedelta()

    def now(self) -> datetime:
        return super().now() + self._slept

    def sleep(self, seconds: float) -> None:
        self._slept += timedelta(milliseconds=math.ceil(seconds * 1000))


@dataclass(frozen=True)
class Shop:
    """Both versions reach the same two tables."""

    client: Any
    tokens: str
    records: str
    reported: list[Details] = field(default_factory=list)

    def through(self, client: Any) -> Shop:
        """Return the same shop, all of whose requests go through *client*."""
        return replace(self, client=client)

    def layer(self) -> DynamoDBPersistenceLayer:
        """Return a layer that has not been configured."""
        return DynamoDBPersistenceLayer(table_name=self.records, boto3_client=self.client)

    def history(self, key: str = "id", **options: Any) -> PowertoolsHistory:
        """Return the history of the old version, whose ``event_key_jmespath`` was *key*."""
        given: dict[str, Any] = {"config": _config({"event_key_jmespath": key}), "key_prefix": PREFIX}
        given |= options
        return PowertoolsHistory(self.layer(), **given)

    def once(self, **options: Any) -> Once:
        """Return the `Once` of the new version, with the old one's history unless ``history=None``."""
        given = {"history": self.history()} | options
        store = DynamoDBStore(self.tokens, self.client)
        once = Once(store=store, service="shop", hooks=[self.reported.append], **given)
        once._runtime.clock = Hurried()
        return once

    def old(self, work: Callable[[Any], Any], **config: Any) -> Callable[[Any], Any]:
        """Return the old version of a handler that does *work*."""

        @idempotent(persistence_store=self.layer(), config=_config(config), key_prefix=PREFIX)
        def handler(event: Any, context: Any) -> Any:
            return work(event)

        return lambda event: handler(event, lambda_context("shop"))

    def old_records(self, work: Callable[[Any], Any], **config: Any) -> Callable[[Any], Any]:
        """Return the old version of a function of one SQS record."""
        settings = _config(config)
        settings.register_lambda_context(lambda_context("shop"))

        @idempotent_function(  # type: ignore[untyped-decorator]
            data_keyword_argument="record",
            persistence_store=self.layer(),
            config=settings,
            key_prefix=PREFIX,
        )
        def handle(record: Any) -> Any:
            return work(record)

        return lambda record: handle(record=record)

    def new(self, work: Callable[[Any], Any], **options: Any) -> Callable[[Any], Any]:
        """Return the new version of the handler."""

        @self.once(**options).event(key="id", name="charge")
        def handler(event: Any) -> Any:
            return work(event)

        return lambda event: handler(event, lambda_context("shop"))

    def old_result(self, event: Any) -> Any:
        """Return what the old version replays for *event*; it does not run."""

        def work(_: Any) -> None:
            raise AssertionError("it ran")

        return self.old(work)(event)

    def record(self) -> dict[str, Any] | None:
        """Return the only record of Powertools; None where there is none."""
        items = self.items(self.records)
        assert len(items) <= 1
        return items[0] if items else None

    def change(self, **attributes: dict[str, str]) -> None:
        """Set *attributes* of the only record, as another machine or the passing of time would."""
        record = self.record()
        assert record is not None
        self.client.put_item(TableName=self.records, Item=record | attributes)

    def lapse(self) -> None:
        """End the time of the attempt that the record shows in progress."""
        self.change(in_progress_expiration={"N": "1000"})

    def lapse_all(self) -> None:
        """Let a day pass for all that is in progress, in both tables."""
        for record in self.items(self.records):
            if "in_progress_expiration" in record:
                until = ALL_DIGITS.subtract(
                    Decimal(record["in_progress_expiration"]["N"]), Decimal(86_400_000)
                )
                past = {"in_progress_expiration": {"N": str(until)}}
                self.client.put_item(TableName=self.records, Item=record | past)
        for token in self.items(self.tokens):
            if "status" in token:
                lease = datetime.fromisoformat(token["expectedCompletion"]["S"]) - timedelta(days=1)
                past = {"expectedCompletion": {"S": stamp(lease)}}
                self.client.put_item(TableName=self.tokens, Item=token | past)

    def resolve(self, *, done: bool) -> None:
        """Decide, as an operator, whether the work of the only token, which is held or lapsed, was *done*."""
        self.decide(Resolve.DONE if done else Resolve.NOT_DONE)

    def decide(self, how: Resolve) -> None:
        """Decide *how* about the only token, as an operator."""
        (row,) = self.items(self.tokens)
        author, now = Author("operator", "asked the payment provider"), SystemClock().now()
        write = decided(record_of(row), how, author, now)
        deadline = Deadline(SystemClock(), now + timedelta(days=1))
        assert DynamoDBStore(self.tokens, self.client).write([write], deadline) == [Written.WRITTEN]

    def items(self, table: str) -> list[dict[str, Any]]:
        """Return all of *table*, as it is."""
        items: list[dict[str, Any]] = self.client.scan(TableName=table, ConsistentRead=True)["Items"]
        return items

    def begun(self, event: dict[str, Any], **config: Any) -> None:
        """Leave the record of an old version that was killed while it ran."""

        def killed(_: Any) -> None:
            raise SystemExit

        with suppress(SystemExit):
            self.old(killed, **config)(event)

    def events(self) -> list[str]:
        """Return what the new version has reported."""
        return [details.event.value for details in self.reported]


def _config(options: dict[str, Any]) -> IdempotencyConfig:
    return IdempotencyConfig(**{"event_key_jmespath": "id"} | options)


@contextmanager
def shop(client: Any) -> Iterator[Shop]:
    """Give a shop with two new tables."""
    records = f"powertools-{uuid.uuid4()}"
    with tables.fresh(client) as tokens:
        client.create_table(
            TableName=records,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        yield Shop(client, tokens, records)
        client.delete_table(TableName=records)
