"""
The sides, each as its own documentation sets it up.

Each library has the client that it makes by itself. Beside them, lambda-once has crt's where awscrt is
installed, and Powertools has the client that lambda-once makes by itself.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import boto3
from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
    idempotent_function,
)

from benchmarks import deliveries
from benchmarks.world import leave_out_of_collections, reaching
from lambda_once import Once
from lambda_once.dynamodb.client import crt_client, new_client
from lambda_once.testing import create_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    Handler = Callable[[dict[str, Any], Any], Any]


class Side(Protocol):
    """A library and a kind of client."""

    @property
    def name(self) -> str: ...

    @property
    def table(self) -> str: ...

    def client(self) -> Any:
        """Make a client."""
        ...

    def create_table(self, client: Any) -> None: ...

    def queue(self, client: Any) -> Handler:
        """Return a handler of SQS batches, whose records cost nothing to work; a record's body is its key."""
        ...

    def quiet_queue(self, client: Any) -> Handler:
        """Return the same, logging errors only."""
        ...

    def api(self, client: Any, *, cache: bool = False) -> Handler:
        """Return a handler of requests, whose key is a header. *cache*: it remembers outcomes in memory."""
        ...

    def function(self, client: Any, result: str) -> Callable[[dict[str, Any]], Any]:
        """Return a function of an order, which returns *result*."""
        ...


@dataclass(frozen=True)
class LambdaOnce:
    """The package, with its log lines and metrics, which Powertools' utility does not write, or *quiet*."""

    name: str
    make_client: Callable[[], Any]
    table: str = "tokens"
    quiet: bool = False

    def client(self) -> Any:
        return self.make_client()

    def create_table(self, client: Any) -> None:
        create_table(client, self.table)

    def queue(self, client: Any) -> Handler:
        return self._queue(self._once(client))

    def quiet_queue(self, client: Any) -> Handler:
        return self._queue(self._once(client, level="ERROR"))

    def api(self, client: Any, *, cache: bool = False) -> Handler:
        @self._once(client, cache=100 if cache else 0).api_gateway
        def create(event: dict[str, Any], context: Any) -> dict[str, Any]:
            return deliveries.answer()

        return create

    def function(self, client: Any, result: str) -> Callable[[dict[str, Any]], Any]:
        once = self._once(client)

        @once.function(name="work", key="order.orderId")
        def work(order: dict[str, Any]) -> str:
            return result

        def within(order: dict[str, Any]) -> str:
            with once.invocation(_Minute()):
                return work(order)

        return within

    def function_of_dict(self, client: Any) -> Handler:
        """Return a handler that calls a function, whose result is a dict."""
        once = self._once(client)

        @once.function(name="look_up", key="order.orderId")
        def look_up(order: dict[str, Any]) -> dict[str, Any]:
            return deliveries.receipt_as_dict()

        return _calling(once, look_up)

    def function_of_dataclass(self, client: Any) -> Handler:
        """Return the same with a dataclass of a declared type."""
        once = self._once(client)

        @once.function(name="pay", key="order.orderId")
        def pay(order: dict[str, Any]) -> deliveries.Receipt:
            return deliveries.receipt()

        return _calling(once, pay)

    def _queue(self, once: Once) -> Handler:
        @once.sqs(name="charge")
        def charge(record: SQSRecord) -> None:
            pass

        return charge

    def _once(self, client: Any, cache: int = 0, level: str = "INFO") -> Once:
        if self.quiet:
            level, os.environ["POWERTOOLS_METRICS_DISABLED"] = "ERROR", "true"
        return Once(
            table=self.table,
            client=client,
            service="orders",
            logger=Logger(service=f"orders-{level}", level=level),  # one a name: the first sets its level
            metrics=Metrics(namespace="shop", service="orders"),
            cache=cache,
        )


def _calling(once: Once, function: Callable[[dict[str, Any]], object]) -> Handler:
    def handler(event: dict[str, Any], context: Any) -> object:
        with once.invocation(context):
            return function(event)

    return handler


@dataclass(frozen=True)
class Powertools:
    """Powertools for AWS Lambda: its batch and idempotency utilities, without log lines or metrics."""

    name: str
    make_client: Callable[[], Any]
    table: str = "idempotency"

    def client(self) -> Any:
        return self.make_client()

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
            data_keyword_argument="order", persistence_store=self._layer(client), config=config
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

    def quiet_queue(self, client: Any) -> Handler:
        return self.queue(client)

    def api(self, client: Any, *, cache: bool = False) -> Handler:
        config = IdempotencyConfig(event_key_jmespath='headers."idempotency-key"', use_local_cache=cache)

        @idempotent(persistence_store=self._layer(client), config=config)
        def create(event: dict[str, Any], context: Any) -> dict[str, Any]:
            return deliveries.answer()

        return create

    def function(self, client: Any, result: str) -> Callable[[dict[str, Any]], Any]:
        config = IdempotencyConfig(event_key_jmespath="orderId")
        config.register_lambda_context(_Minute())  # type: ignore[arg-type]  # reads the remaining time only

        @idempotent_function(  # type: ignore[untyped-decorator]
            data_keyword_argument="order", persistence_store=self._layer(client), config=config
        )
        def work(order: dict[str, Any]) -> str:
            return result

        return lambda order: work(order=order)

    def _layer(self, client: Any) -> DynamoDBPersistenceLayer:
        return DynamoDBPersistenceLayer(table_name=self.table, boto3_client=client)


class _Minute:
    """A context in which a minute is left."""

    aws_request_id = "00000000-0000-0000-0000-000000000000"
    function_name = "orders"

    def get_remaining_time_in_millis(self) -> int:
        return 60_000


LIBRARY = "lambda-once"
"""What each of its clients costs alike."""
OURS = LambdaOnce("boto3", new_client)
QUIET = LambdaOnce("boto3, quiet", new_client, quiet=True)
"""Without log lines and metrics; counted in a process of its own, for metrics are disabled there."""
CRT = LambdaOnce("crt", crt_client)
BOTH = (OURS, CRT) if find_spec("awscrt") else (OURS,)
"""lambda-once, with each of its clients."""
THEIRS = Powertools("Powertools", partial(boto3.client, "dynamodb"))
SAME = Powertools("Powertools, our client", new_client)
SIDES: tuple[Side, Side] = (OURS, THEIRS)
"""Each with the client that it makes by itself."""
TIMED: tuple[Side, ...] = (*BOTH, THEIRS)


@contextmanager
def connected(sides: Sequence[Side], endpoint: str) -> Iterator[dict[str, Any]]:
    """Make a client of each of *sides*, by its name, which are closed at the end of the block."""
    with ExitStack() as stack, reaching(endpoint):
        clients = {side.name: stack.enter_context(closing(side.client())) for side in sides}
        leave_out_of_collections()
        yield clients
