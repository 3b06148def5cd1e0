"""
What an error of botocore means: try again, never, or the condition was refused.

Sources: DynamoDB developer guide, "Error handling with DynamoDB"; botocore.exceptions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004  (botocore's own)
    HTTPClientError,
    ResponseStreamingError,
)

from lambda_once.dynamodb.origin import NotDynamoDB

if TYPE_CHECKING:
    from collections.abc import Mapping

CONDITION = "ConditionalCheckFailedException"
CONFLICT = "TransactionConflictException"
CANCELED = "TransactionCanceledException"
_CLIENT_ERROR = 400
_SERVER_ERROR = 500

AGAIN = frozenset(
    {
        "InternalServerError",
        "ProvisionedThroughputExceededException",
        "ReplicatedWriteConflictException",
        "RequestLimitExceeded",
        "ServiceUnavailable",
        "ThrottlingException",
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
_AGAIN_IN_TRANSACTION = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
_NEVER = frozenset({"AccessDeniedException", "UnknownOperationException"})

Caught = (BotoCoreError, ClientError)


NOT_DYNAMODB = (
    "was answered by something that is not DynamoDB: "
    "check AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, and the endpoint_url of client="
)
"""What a message says where `is_foreign`: the page that answered is not quoted."""


def code_of(error: Exception) -> str:
    """Return AWS' name for *error*; for an error of the wire, its class."""
    code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None
    return type(error).__name__ if code is None else str(code).rpartition(".")[2]  # SQS puts its name before


def is_transient(error: Exception, codes: frozenset[str] = AGAIN) -> bool:
    """Tell whether the same request may succeed later: no answer, a fault of the server's, one of *codes*."""
    if isinstance(error, ConnectionError | HTTPClientError | ResponseStreamingError):
        return True
    if not isinstance(error, ClientError):
        return False
    if code_of(error) == CANCELED:
        reasons = {reason.get("Code") for reason in reasons_of(error)} - {"None"}
        return bool(reasons) and reasons <= _AGAIN_IN_TRANSACTION
    return code_of(error) in codes or _status_of(error) >= _SERVER_ERROR


def is_refusal(error: Exception) -> bool:
    """Tell whether DynamoDB answered that it did nothing, such as when it throttles."""
    return isinstance(error, ClientError) and _CLIENT_ERROR <= _status_of(error) < _SERVER_ERROR


def is_denied(error: Exception) -> bool:
    """Tell whether this operation can never be had here: the role may not, or the engine does not know it."""
    return code_of(error) in _NEVER


def is_foreign(error: Exception) -> bool:
    """Tell whether something answered that is not DynamoDB."""
    # botocore takes the HTTP status for the code of an error without a name.
    return isinstance(error, NotDynamoDB) or code_of(error).isdigit()


def reasons_of(error: ClientError) -> list[Mapping[str, Any]]:
    """Return why a transaction was canceled, one reason an item, in the items' order."""
    reasons: list[Mapping[str, Any]] = error.response.get("CancellationReasons", [])
    return reasons


def _status_of(error: ClientError) -> int:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status
