"""
Classifies errors: retry, do not retry, the condition was refused, or the response is not DynamoDB's.

DynamoDB grants a new token by an empty response, and botocore reads an empty response out of any page: behind
a wrong endpoint the work would run unprotected. So every response is checked (`only_dynamodb`). Sources:
DynamoDB developer guide, "Error handling with DynamoDB" and "DynamoDB low-level API"; botocore.exceptions.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004  (botocore's own)
    HTTPClientError,
    ResponseStreamingError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CONDITION = "ConditionalCheckFailedException"
CONFLICT = "TransactionConflictException"
CANCELED = "TransactionCanceledException"
_REDIRECT = 300
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
THROTTLED = frozenset(
    {"ProvisionedThroughputExceededException", "RequestLimitExceeded", "ThrottlingException"}
)
EXPIRED = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "LoginRefreshRequired",
        "LoginTokenLoadError",
        "RequestExpired",
        "SSOTokenLoadError",
        "TokenRetrievalError",
        "UnauthorizedSSOTokenError",
    }
)
"""Expired credentials: codes of AWS' services, and exceptions of botocore."""
NOT_ACCEPTED = frozenset(
    {
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
"""Credentials, or a clock, that AWS does not accept; with temporary credentials they may have expired."""
DENIED = frozenset({"AccessDenied", "AccessDeniedException", "AuthorizationError"})
_AGAIN_IN_TRANSACTION = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
_NEVER = frozenset({"AccessDeniedException", "UnknownOperationException"})

Caught = (BotoCoreError, ClientError)

NOT_DYNAMODB = (
    "was answered by something that is not DynamoDB: "
    "check AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, and the endpoint_url of client="
)
"""Part of a message where `is_foreign`. The foreign response is not quoted."""


def code_of(error: Exception) -> str:
    """Return AWS' name for *error*; for a network error, its class."""
    code = error.response.get("Error", {}).get("Code") if isinstance(error, ClientError) else None
    return type(error).__name__ if code is None else str(code).rpartition(".")[2]  # SQS puts its name before


def message_of(error: Exception) -> str:
    """Return AWS' message, or the error's text if it has none."""
    message = error.response.get("Error", {}).get("Message") if isinstance(error, ClientError) else None
    return str(error) if message is None else str(message)


def is_transient(error: Exception, codes: frozenset[str] = AGAIN) -> bool:
    """Return whether the same request may succeed later: no response, a server error, or one of *codes*."""
    if isinstance(error, ConnectionError | HTTPClientError | ResponseStreamingError):
        return True
    if not isinstance(error, ClientError):
        return False
    code = code_of(error)
    if code == CANCELED:
        reasons = {reason.get("Code") for reason in reasons_of(error)} - {"None"}
        return bool(reasons) and reasons <= _AGAIN_IN_TRANSACTION
    return code in codes or _status_of(error) >= _SERVER_ERROR


def is_refusal(error: Exception) -> bool:
    """Return whether DynamoDB answered that nothing was written, such as when it throttles."""
    return isinstance(error, ClientError) and _CLIENT_ERROR <= _status_of(error) < _SERVER_ERROR


def is_denied(error: Exception) -> bool:
    """Return whether the operation is never available here: not permitted, or unknown to the engine."""
    return code_of(error) in _NEVER


def is_wrong_clock(error: Exception) -> bool:
    """Return whether the clock here is further from AWS' than the five minutes that it allows."""
    return message_of(error).startswith(("Signature expired", "Signature not yet current"))


def is_foreign(error: Exception) -> bool:
    """Return whether the response came from something that is not DynamoDB."""
    # botocore takes the HTTP status as the code of an error without a name.
    return isinstance(error, NotDynamoDB) or code_of(error).isdigit()


def reasons_of(error: ClientError) -> list[Mapping[str, Any]]:
    """Return why a transaction was cancelled: one reason an item, in their order."""
    reasons: list[Mapping[str, Any]] = error.response.get("CancellationReasons", [])
    return reasons


def _status_of(error: ClientError) -> int:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status


# -- the origin of a response

_JSON = "application/x-amz-json-"
_REQUEST_ID = "x-amzn-requestid"


class NotDynamoDB(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """The response is not DynamoDB's. A retry does not help."""

    fmt = "a response with HTTP status {status} is not from DynamoDB"


class CrossedResponse(HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """The response belongs to another request, so it counts as none. A retry may help."""

    fmt = "the response is that of another request"


def only_dynamodb(client: Any) -> Any:
    """
    Return *client*, which from now on raises `NotDynamoDB` for a response that is not DynamoDB's.

    A response that did not come by HTTP (a test double, botocore's Stubber, DAX) is accepted. Errors of
    status 500 and above are left to botocore: a proxy's are as transient as DynamoDB's own.
    """
    events = getattr(getattr(client, "meta", None), "events", None)
    if events is not None:
        # Before parsing, which fails on JSON that is no object; botocore 1.34 lacks that event.
        events.register("before-parse.dynamodb", _before_parse, unique_id="lambda-once-unparsed")
        events.register("after-call.dynamodb", _after_call, unique_id="lambda-once-parsed")
    return client


def _before_parse(response_dict: Mapping[str, Any], **_: object) -> None:
    status, headers, body = (response_dict[name] for name in ("status_code", "headers", "body"))
    if status < _REDIRECT:
        _check(status, headers)
    elif status < _SERVER_ERROR and not (_is_own_refusal(headers, body) or _is_object(body)):
        raise NotDynamoDB(status=status)


def _after_call(parsed: Mapping[str, Any], **_: object) -> None:
    metadata = parsed.get("ResponseMetadata", {})
    if "HTTPHeaders" in metadata and metadata.get("HTTPStatusCode", 0) < _REDIRECT:
        _check(metadata.get("HTTPStatusCode"), metadata["HTTPHeaders"])


def _check(status: object, headers: Mapping[str, str]) -> None:
    if not is_from_dynamodb(headers):
        raise NotDynamoDB(status=status)


def is_from_dynamodb(headers: Mapping[str, str]) -> bool:
    """Return whether a successful response has what DynamoDB's have. Names of *headers* are in lower case."""
    return headers.get("content-type", "").startswith(_JSON) or _REQUEST_ID in headers


def _is_own_refusal(headers: Mapping[str, str], body: bytes) -> bool:
    """Return whether a refusal looks like DynamoDB's, so that it need not be parsed here as well."""
    return is_from_dynamodb(headers) and body.startswith(b"{")


def _is_object(body: bytes) -> bool:
    try:
        return isinstance(json.loads(body), dict)
    except ValueError:
        return False
