"""The words for what a handler answers."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

ACKNOWLEDGED = "acknowledged"
BACK = "back to queue"
SILENT = "none yet"
DEAD = "none: crashed"


def answer_of(event: dict[str, Any], answer: Any) -> str:
    """Return the answer to the sender of *event*: *answer* is what its handler returned or raised."""
    if isinstance(answer, BatchProcessingError):
        return BACK
    if "statusCode" in answer:
        return _http(answer)
    failed = len(answer["batchItemFailures"])
    if failed == 0:
        return ACKNOWLEDGED
    return BACK if failed == len(event["Records"]) else f"{failed} of {len(event['Records'])} {BACK}"


def _http(response: dict[str, Any]) -> str:
    headers = {name.lower(): value for name, value in response.get("headers", {}).items()}
    said = [str(response["statusCode"])]
    if headers.get("idempotent-replayed") == "true":
        said.append("replayed")
    if "retry-after" in headers:
        said.append("try later")
    return ", ".join(said)
