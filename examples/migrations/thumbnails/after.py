"""A thumbnail for each object that is written to a bucket, by EventBridge."""

import os
from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call
from lambda_once import Once

once = Once(table=os.environ["TOKEN_TABLE"], service="shop")


@once.event(name="thumbnail", key="detail.[bucket.name, object.key, object.etag]", fingerprint=False)
def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Make one thumbnail."""
    written = event["detail"]["object"]
    call(f"thumbnail of {written['key']} {written['etag']}")
    return {"thumbnail": f"thumbnails/{written['key']}"}
