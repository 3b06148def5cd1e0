"""A thumbnail for each object that is written to a bucket, by EventBridge."""

import os
from typing import Any

from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent,
)
from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call

layer = DynamoDBPersistenceLayer(table_name=os.environ["IDEMPOTENCY_TABLE"])
config = IdempotencyConfig(
    event_key_jmespath="detail.[bucket.name, object.key, object.etag]", expires_after_seconds=24 * 60 * 60
)


@idempotent(config=config, persistence_store=layer)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Make one thumbnail."""
    written = event["detail"]["object"]
    call(f"thumbnail of {written['key']} {written['etag']}")
    return {"thumbnail": f"thumbnails/{written['key']}"}
