"""Two layers side by side on the strict engine: ours and Powertools' own utility, each on its table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from lambda_once import Once
from lambda_once.testing import FakeClock, create_table, lambda_context


@dataclass
class Layers:
    """A `Once` and a Powertools layer, both on one client."""

    client: Any
    clock: FakeClock = field(default_factory=FakeClock)

    def once(self, **options: Any) -> Once:
        """Ours, on a clock that is set by hand."""
        once = Once(table="tokens", client=self.client, service="shop", **options)
        once._runtime.clock = self.clock
        return once

    def context(self, request_id: str = "request-1", seconds: float = 30) -> LambdaContext:
        """An invocation by our clock."""
        return lambda_context("orders", request_id, int(seconds * 1000))

    def layer(self) -> DynamoDBPersistenceLayer:
        """Theirs."""
        return DynamoDBPersistenceLayer(table_name="powertools", boto3_client=self.client)

    def theirs(self, handler: Callable[..., Any], layer: Any = None, **config: Any) -> Callable[..., Any]:
        """*handler* under Powertools' decorator."""
        decorate: Any = idempotent
        decorated: Callable[..., Any] = decorate(
            handler, config=IdempotencyConfig(**config), persistence_store=layer or self.layer()
        )
        return decorated

    def tokens(self) -> list[dict[str, Any]]:
        """Our rows."""
        items: list[dict[str, Any]] = self.client.scan(TableName="tokens")["Items"]
        return [item for item in items if "attempt" in item]

    def statuses(self) -> list[str | None]:
        """The status of each of our rows; None once it is finished."""
        return [row["status"]["S"] if "status" in row else None for row in self.tokens()]


def made(client: Any) -> Layers:
    """Make both tables through *client*."""
    create_table(client, "tokens")
    client.create_table(
        TableName="powertools",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
    )
    return Layers(client)
