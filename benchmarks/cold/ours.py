"""An API function with lambda-once, Logger and Metrics."""

from typing import Any

from aws_lambda_powertools import Logger, Metrics

from lambda_once import Once

logger = Logger()
metrics = Metrics()
once = Once(logger=logger, metrics=metrics)


@logger.inject_lambda_context
@once.api_gateway
def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return {"statusCode": 201, "body": "{}"}
