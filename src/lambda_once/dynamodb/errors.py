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
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ResponseStreamingError,
)

from lambda_once.dynamodb.origin import NotDynamoDB
from lambda_once.dynamodb.transient import passes
from lambda_once.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Mapping

CONDITION = "ConditionalCheckFailedException"
CONFLICT = "TransactionConflictException"
CANCELED = "TransactionCanceledException"

_AGAIN_IN_TRANSACTION = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
_NOT_ALLOWED = frozenset(
    {
        "AccessDeniedException",
        "ExpiredTokenException",
        "IncompleteSignatureException",
        "InvalidSignatureException",
        "MissingAuthenticationTokenException",
        "UnrecognizedClientException",
    }
)
_NEVER = frozenset({"AccessDeniedException", "UnknownOperationException"})
_WRONG_CLOCK = ("Signature expired", "Signature not yet current")
"""How the messages of InvalidSignatureException begin, beyond the five minutes that AWS allows a clock."""
_KEY = "its partition key must be lockToken (S), with no sort key"
_INDEX = "its index byStatus must have the keys status (S) and expectedCompletion (S)"

Caught = (BotoCoreError, ClientError)


def code_of(error: Exception) -> str:
    """Return DynamoDB's name for *error*; for an error of the wire, its class."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def is_transient(error: Exception) -> bool:
    """Tell whether the same request may succeed later: throttled, conflicting, or no answer from the wire."""
    if isinstance(error, ConnectionError | HTTPClientError | ResponseStreamingError):
        return True
    if not isinstance(error, ClientError):
        return False
    if code_of(error) == CANCELED:
        codes = {reason.get("Code") for reason in reasons_of(error)} - {"None"}
        return bool(codes) and codes <= _AGAIN_IN_TRANSACTION
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return passes(code_of(error), status)


def is_denied(error: Exception) -> bool:
    """Tell whether this operation can never be had here: the role may not, or the engine does not know it."""
    return code_of(error) in _NEVER


def reasons_of(error: ClientError) -> list[Mapping[str, Any]]:
    """Return why a transaction was canceled, one reason an item, in the items' order."""
    reasons: list[Mapping[str, Any]] = error.response.get("CancellationReasons", [])
    return reasons


def misconfigured(error: Exception, table: str, operation: str, token: str | None) -> Misconfigured:
    """Say what is wrong with the table, the permissions or the clock, and what to do."""
    code, said = code_of(error), _said(error)
    operation = "".join(word[0].upper() + word[1:] for word in operation.split("_"))  # as a role names it
    if code == "ResourceNotFoundException" and "index" not in said:  # moto says it of an index, too
        advice = f"there is no table {table!r} in this region: deploy the template, or set LAMBDA_ONCE_TABLE"
    elif said.startswith(_WRONG_CLOCK):
        advice = f"the clock of this machine is wrong, so {operation} was refused ({said}): set the clock"
    elif code in _NOT_ALLOWED:
        advice = (
            f"{operation} on table {table!r} is not allowed ({code}): give the function's role the permission"
        )
    elif isinstance(error, NoCredentialsError | PartialCredentialsError):
        advice = "there are no AWS credentials: configure them, or pass store=MemoryStore() for a first try"
    elif isinstance(error, NoRegionError):
        advice = "no AWS region is set: set AWS_DEFAULT_REGION (Lambda does), or pass client="
    elif isinstance(error, NotDynamoDB) or code.isdigit():
        # botocore takes the HTTP status for the code of an error without a name: a page, which is not quoted.
        advice = (
            f"{operation} on table {table!r} was answered by something that is not DynamoDB: "
            "see AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, and the endpoint_url of client="
        )
    elif code in ("ResourceNotFoundException", "ValidationException"):
        shape = _INDEX if operation == "Query" or "Index" in said else _KEY
        advice = f"table {table!r} does not take {operation} ({said}): {shape}"
    else:
        advice = f"{operation} on table {table!r} failed for good: {code}: {said}"
    return Misconfigured(advice, token=token)


def _said(error: Exception) -> str:
    """Return DynamoDB's own words; of an error of botocore's, all of it."""
    said = error.response["Error"].get("Message") if isinstance(error, ClientError) else None
    return str(error) if said is None else str(said)
