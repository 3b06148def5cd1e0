"""
The sides, each as its own documentation sets it up.

Each library has the client that it makes by itself. Beside them, lambda-once has crt's where awscrt is
installed, and Powertools has the client that lambda-once makes by itself. Handlers cost nothing to work.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)

from benchmarks import events
from benchmarks.world import leave_out_of_collections, reaching
from lambda_once import Once
from lambda_once.dynamodb.client import crt_client, own_client
from lambda_once.testing import create_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    Handler = Callable[[dict[str, Any], Any], Any]


@dataclass(frozen=True)
class LambdaOnce:
    """The package, with its log lines and metrics, which Powertools' utility does not write, or *quiet*."""

    name: str
    client: Callable[[], Any]
    """Makes a client."""
    table: str = "tokens"
    quiet: bool = False

    def create_table(self, client: Any) -> None:
        create_table(client, self.table)

    def queue(self, client: Any) -> Handler:
        """Return a handler of SQS batches; a record's body is its key."""

        @self._once(client).sqs(name="charge")
        def charge(record: SQSRecord) -> None:
            pass

        return charge

    def api(self, client: Any) -> Handler:
        """Return a handler of requests, whose key is a header."""

        @self._once(client).api_gateway
        def create(event: dict[str, Any], context: Any) -> dict[str, Any]:
            return events.answer()

        return create

    def function(self, client: Any) -> Handler:
        """Return a handler that calls a function of an order, whose `result` is how many bytes it returns."""
        once = self._once(client)

        @once.function(name="work", key="order.orderId")
        def work(order: dict[str, Any]) -> str:
            return events.result(order["result"])

        def handler(order: dict[str, Any], context: Any) -> str:
            with once.invocation(context):
                return work(order)

        return handler

    def _once(self, client: Any) -> Once:
        level = "ERROR" if self.quiet else "INFO"
        if self.quiet:
            os.environ["POWERTOOLS_METRICS_DISABLED"] = "true"
        return Once(
            table=self.table,
            client=client,
            service="orders",
            logger=Logger(service=f"orders-{level}", level=level),  # one a name: the first sets its level
            metrics=Metrics(namespace="shop", service="orders"),
        )


@dataclass(frozen=True)
class Powertools:
    """Powertools for AWS Lambda: its batch and idempotency utilities, without log lines or metrics."""

    name: str
    client: Callable[[], Any]
    """Makes a client."""
    table: str = "idempotency"

    def create_table(self, client: Any) -> None:
        client.create_table(
            TableName=self.table,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )
        client.get_waiter("table_exists").wait(TableName=self.table)

    def queue(self, client: Any) -> Handler:
        processor = BatchProcessor(event_type=EventType.SQS)
        config = IdempotencyConfig()

        @idempotent_function(  # type: ignore[untyped-decorator]
            data_keyword_argument="order", persistence_store=self.layer(client), config=config
        )
        def charge(order: Any) -> None:
            pass

        def charge_record(record: SQSRecord) -> None:
            charge(order=record.json_body)

        def handler(event: dict[str, Any], context: Any) -> Any:
            config.register_lambda_context(context)
            return process_partial_response(
                event=event, record_handler=charge_record, processor=processor, context=context
            )

        return handler

    def api(self, client: Any) -> Handler:
        config = IdempotencyConfig(event_key_jmespath='headers."idempotency-key"')

        @idempotent(persistence_store=self.layer(client), config=config)
        def create(event: dict[str, Any], context: Any) -> dict[str, Any]:
            return events.answer()

        return create

    def function(self, client: Any) -> Handler:
        config = IdempotencyConfig(event_key_jmespath="orderId")

        @idempotent_function(  # type: ignore[untyped-decorator]
            data_keyword_argument="order", persistence_store=self.layer(client), config=config
        )
        def work(order: dict[str, Any]) -> str:
            return events.result(order["result"])

        def handler(order: dict[str, Any], context: Any) -> Any:
            config.register_lambda_context(context)
            return work(order=order)

        return handler

    def layer(self, client: Any) -> DynamoDBPersistenceLayer:
        return DynamoDBPersistenceLayer(table_name=self.table, boto3_client=client)


Side = LambdaOnce | Powertools
"""A library and a kind of client."""
LIBRARY: Final = "lambda-once"
"""What each of its clients costs alike."""
OURS: Final = LambdaOnce("boto3", own_client)
CRT: Final = LambdaOnce("crt", crt_client)
BOTH: Final = (OURS, CRT) if find_spec("awscrt") else (OURS,)
"""lambda-once, with each of its clients."""
QUIET: Final = LambdaOnce("boto3, no log lines or metrics", own_client, quiet=True)
"""Counted in a process of its own, for metrics are disabled there."""
THEIRS: Final = Powertools("Powertools", partial(boto3.client, "dynamodb"))
SAME: Final = Powertools("Powertools, our client", own_client)
SIDES: Final[tuple[Side, Side]] = (OURS, THEIRS)
"""Each with the client that it makes by itself."""
TIMED: Final[tuple[Side, ...]] = (*BOTH, THEIRS)


@contextmanager
def connected(sides: Sequence[Side], endpoint: str) -> Iterator[dict[str, Any]]:
    """Make a client of each of *sides*, by its name, which are closed at the end of the block."""
    with ExitStack() as stack, reaching(endpoint):
        clients = {side.name: stack.enter_context(closing(side.client())) for side in sides}
        leave_out_of_collections()
        yield clients
