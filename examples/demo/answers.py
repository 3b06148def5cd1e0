"""What was delivered and what was answered, in words."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

ACKNOWLEDGED = "acknowledged"
BACK = "back to queue"
SILENT = "nothing yet"
DEAD = "nothing: dead"
"""The machine died; nobody is told anything."""


def delivery_of(event: dict[str, Any]) -> str:
    """Say what *event* brings: ``POST /orders``, or the messages of a batch and how often they came."""
    if "rawPath" in event:
        return f"{event['requestContext']['http']['method']} {event['rawPath']}"
    records = event["Records"]
    if len(records) > 1:
        return f"{len(records)} messages"
    receives = int(records[0]["attributes"]["ApproximateReceiveCount"])
    return "message" if receives == 1 else f"message, {_ordinal(receives)} time"


def answer_of(event: dict[str, Any], answer: Any) -> str:
    """Say what the sender of *event* learns from what its handler returned, or raised over a whole batch."""
    if isinstance(answer, BatchProcessingError):
        return BACK
    if "statusCode" in answer:
        return _http(answer)
    failed = len(answer["batchItemFailures"])
    if failed == 0:
        return ACKNOWLEDGED if len(event["Records"]) == 1 else f"{len(event['Records'])} {ACKNOWLEDGED}"
    return BACK if failed == len(event["Records"]) else f"{failed} of {len(event['Records'])} {BACK}"


def _http(response: dict[str, Any]) -> str:
    headers = {name.lower(): value for name, value in response.get("headers", {}).items()}
    said = [str(response["statusCode"])]
    if headers.get("idempotent-replayed") == "true":
        said.append("replayed")
    if "retry-after" in headers:
        said.append("try later")
    return ", ".join(said)


def _ordinal(number: int) -> str:
    return f"{number}{({2: 'nd', 3: 'rd'}).get(number, 'th')}"
