"""The same function with Powertools' idempotency utility, for the cold starts beside ours."""

from __future__ import annotations

import os
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)

layer = DynamoDBPersistenceLayer(table_name=os.environ["FACTS_TABLE"])


@idempotent(persistence_store=layer, config=IdempotencyConfig(event_key_jmespath="id"))
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Return what no other run returns."""
    return {"run": os.urandom(16).hex()}
