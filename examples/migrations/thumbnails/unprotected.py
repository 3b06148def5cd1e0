"""A thumbnail for each object that is written to a bucket, by EventBridge."""

from typing import Any

from aws_lambda_powertools.utilities.typing import LambdaContext

from examples.migrations.outside import call


def handler(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Make one thumbnail."""
    written = event["detail"]["object"]
    call(f"thumbnail of {written['key']} {written['etag']}")
    return {"thumbnail": f"thumbnails/{written['key']}"}
