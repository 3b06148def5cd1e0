"""
Classifies errors: retry, do not retry, the condition was refused, or the response is not DynamoDB's.

DynamoDB grants a new token by an empty response, and botocore reads an empty response out of any page, and
out of a response that was cut: behind a wrong endpoint, or a proxy that fails, the work would run
unprotected. So every response is checked (`only_dynamodb`), and a broken one is a lost one. Sources:
DynamoDB developer guide, "Error handling with DynamoDB" and "DynamoDB low-level API"; botocore.exceptions.
"""

from __future__ import annotations

import json
import re
import ssl
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004  (botocore's own)
    HTTPClientError,
    ResponseStreamingError,
    SSLError,
)

from lambda_once.dynamodb.bodies import OPERATIONS, fast, handed_on, object_in

if TYPE_CHECKING:
    from collections.abc import Mapping

CONDITION = "ConditionalCheckFailedException"
CONFLICT = "TransactionConflictException"
CANCELED = "TransactionCanceledException"
"""Code of the error of a transaction that was not written; `reasons_of` has the reasons."""
REDIRECT = 300
_CLIENT_ERROR = 400
_SERVER_ERROR = 500
_NOT_IMPLEMENTED = 501

AGAIN = frozenset(
    {
        "InternalServerError",
        "LimitExceededException",
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
    {
        "LimitExceededException",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ThrottlingException",
    }
)
"""LimitExceededException is GetRecords' (API reference, DynamoDB Streams)."""
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
"""What a request of botocore's raises: no whole response, or a response that is an error."""

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
    if is_without_certificates(error):
        return False
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
    """Return whether the response came from something that is not DynamoDB, or does not know the request."""
    if isinstance(error, ClientError):
        # botocore takes the HTTP status as the code of an error without a name.
        code = code_of(error)
        return code == "" or code.isdigit() or _status_of(error) == _NOT_IMPLEMENTED
    return isinstance(error, NotDynamoDB | NotJson | CrossedResponse)


def is_without_certificates(error: Exception) -> bool:
    """Return whether the bundle of certificates is missing, or none can be read from it: nothing was sent."""
    if not isinstance(error, SSLError):
        return isinstance(error, UnreadableCertificates)
    reason = error.kwargs.get("error")  # urllib3's SSLError, of what `ssl` raised
    while isinstance(reason, Exception) and reason.args and isinstance(reason.args[0], Exception):
        reason = reason.args[0]
    if isinstance(reason, ssl.SSLError):  # a handshake fails in the library SSL
        return reason.library in ("PEM", "X509")
    return isinstance(reason, FileNotFoundError | IsADirectoryError | NotADirectoryError | PermissionError)


def reasons_of(error: ClientError) -> list[Mapping[str, Any]]:
    """Return why a transaction was cancelled: one reason an item, in their order."""
    reasons: list[Mapping[str, Any]] = error.response.get("CancellationReasons", [])
    return reasons


# -- an outage, for a person


class _Outage(NamedTuple):
    codes: frozenset[str]
    happened: str
    cure: str


_OUTAGES = (
    _Outage(
        THROTTLED
        | {"ProvisionedThroughputExceeded", "ThrottlingError", "UnprocessedItems", "UnprocessedKeys"},
        "was throttled",
        "raise the table's capacity, or retry later",
    ),
    _Outage(
        frozenset({CONFLICT, "TransactionConflict", "TransactionInProgressException"}),
        "met another write",
        "retry",
    ),
    _Outage(
        frozenset({"EndpointConnectionError"}),
        "found nobody there",
        "check AWS_ENDPOINT_URL_DYNAMODB and the region, and that something listens there",
    ),
    _Outage(
        frozenset({"ConnectTimeoutError"}),
        "could not connect in time",
        "in a VPC, add a gateway endpoint for DynamoDB to the subnet's route table",
    ),
    _Outage(
        frozenset({"SSLError"}),
        "could not connect by TLS",
        "check AWS_CA_BUNDLE, the endpoint's certificate, and the clock",
    ),
    _Outage(
        frozenset({"ProxyConnectionError"}),
        "could not connect to its proxy",
        "check HTTPS_PROXY and NO_PROXY",
    ),
    _Outage(
        frozenset({"ReadTimeoutError"}),
        "got no response in time",
        "retry; if it lasts, check the network and AWS Health",
    ),
)
"""What a code means for a person; the first that has it."""


def outage(failure: Exception | str, operation: str, table: str, host: str | None) -> str:
    """
    Return what happened to a request that may succeed later, and the likely cure; nothing that it carried.

    *failure* is an error, or the code of a part of a batch; *host* is None if no client could be made.
    """
    code = failure if isinstance(failure, str) else code_of(failure)
    if code == CANCELED and isinstance(failure, ClientError):
        code = next(reason["Code"] for reason in reasons_of(failure) if reason.get("Code") != "None")
    happened, cure = "got no whole response", "retry; if it lasts, check AWS Health"
    if isinstance(failure, ClientError) or failure == "InternalServerError":
        happened = "failed at DynamoDB"
    for known in _OUTAGES:
        if code in known.codes:
            _, happened, cure = known
    at = "" if host is None else f" at {host}"
    return f"{named_operation(operation)} on table {table!r}{at} {happened} ({code}): {cure}"


def named_operation(operation: str) -> str:
    """Return *operation*, such as ``update_item``, as a role names it: ``UpdateItem``."""
    return "".join(word[0].upper() + word[1:] for word in operation.split("_"))


def _status_of(error: ClientError) -> int:
    status: int = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return status


# -- the origin of a response

_JSON = "application/x-amz-json-"
_SESSION_TOKEN = re.compile(rb"(x-amz-security-token:)(?:[^\\\"]|\\/)+")
REQUEST_ID = "x-amzn-requestid"


class NotDynamoDB(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """The response is not DynamoDB's. A retry does not help."""

    fmt = "a response with HTTP status {status} is not from DynamoDB"


class NotJson(ResponseStreamingError):  # type: ignore[misc]  # botocore has no types
    """The body is not a JSON object, or empty. A retry may help: it may have been cut on its way."""


class UnreadableCertificates(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """The bundle of certificates cannot be read. A retry does not help."""

    fmt = "the certificates in {bundle} cannot be read: {error}"


class NoClient(BotoCoreError):  # type: ignore[misc]  # botocore has no types
    """No client can be made from the settings. A retry does not help; the reason is for a person."""

    fmt = "{reason}"


class CrossedResponse(HTTPClientError):  # type: ignore[misc]  # botocore has no types
    """The response belongs to another request, so it counts as none. A retry may help."""

    fmt = "the response is that of another request"


def only_dynamodb(client: Any, *, is_own: bool = False) -> Any:
    """
    Return *client*, which from now on accepts a response only if it is DynamoDB's, and whole.

    It raises `NotDynamoDB` for somebody else's, and ResponseStreamingError, which is transient, for a broken
    one. A response that did not come by HTTP (a test double, botocore's Stubber, DAX) is accepted.

    Neither event is documented. `before-parse` comes before a parser that fails on JSON that is no object, or
    reads a refusal out of half a head; botocore has it from 1.35.20 on. Without it `after-call` would still
    check whatever may grant. One that *is_own*, botocore's and made here, is `fast` besides.
    """
    events = getattr(getattr(client, "meta", None), "events", None)
    if events is not None:
        if is_own:
            fast(client)
        before = _parsed_at_once if is_own else _before_parse
        events.register("before-parse.dynamodb", before, unique_id="lambda-once-unparsed")
        events.register("after-call.dynamodb", _after_call, unique_id="lambda-once-parsed")
    return client


def _before_parse(response_dict: dict[str, Any], **_: object) -> None:
    status, headers, body = (response_dict[name] for name in ("status_code", "headers", "body"))
    is_object = _is_object(body)
    check(status, headers, body, is_object=is_object)
    # botocore takes the status for the error's code where there is no body.
    is_page = status >= _SERVER_ERROR and not is_object
    response_dict["body"] = b"" if is_page else without_session_token(status, body)


def _parsed_at_once(
    response_dict: dict[str, Any],
    customized_response_dict: dict[str, Any],
    operation_model: Any,
    **_: object,
) -> None:
    """Read the answer in place of botocore's parser, which gets an error to read, or nothing."""
    status, headers, body = (response_dict[name] for name in ("status_code", "headers", "body"))
    content = object_in(body) if operation_model.name in OPERATIONS else None
    shown = body if content is None else without_session_token(status, body)
    if content is None or shown is not body or not isinstance(content.get("__type", ""), str):
        _before_parse(response_dict)
        return
    check(status, headers, body, is_object=True)
    try:
        handed_on(content, body, response_dict, customized_response_dict)
    except RecursionError:  # DynamoDB nests 32 levels
        raise ResponseStreamingError(error="the body is nested too deeply") from None
    customized_response_dict[_CHECKED] = True


_CHECKED = "lambda_once_checked"


def _after_call(http_response: Any, parsed: Any = None, **_: object) -> None:
    if isinstance(parsed, dict):
        # botocore would add "(reached max retries: 0)" to every error of a client that tries once by design.
        metadata = parsed.get("ResponseMetadata", {})
        if metadata.get("RetryAttempts") == 0:
            metadata.pop("MaxAttemptsReached", None)
        if parsed.pop(_CHECKED, False):
            return
    came = getattr(http_response, "raw", None) is not None  # a double's has no body to read
    if came and http_response.status_code < REDIRECT:
        check(http_response.status_code, http_response.headers, http_response.content, is_object=True)


def without_session_token(status: int, body: bytes) -> bytes:
    """Return *body* to be shown: AWS quotes the request whose signature is wrong, and errors are logged."""
    if status < _CLIENT_ERROR or b"x-amz-security-token" not in body:
        return body
    return _SESSION_TOKEN.sub(rb"\1***", body)


def check(status: int, headers: Mapping[str, Any], body: bytes, *, is_object: bool) -> None:
    """
    Raise if a response is broken (ResponseStreamingError), or not DynamoDB's (`NotDynamoDB`).

    http.client takes the end of a connection for the end of the head, and botocore reads a result out of an
    empty body: a response that is cut anywhere would be a grant, or a refusal without a name. One without a
    Content-Length is accepted: moto sends none, nor does a server that sends in chunks. Errors of status 500
    and above are left to botocore if they came whole: a proxy's are as transient as DynamoDB's own.
    """
    broken = _damage(headers, body)
    if broken is not None:
        raise ResponseStreamingError(error=broken)
    if not body and (status < REDIRECT or ("content-length" not in headers and status < _SERVER_ERROR)):
        raise NotJson(error="the body is empty")
    if status < _SERVER_ERROR:
        is_ours = is_from_dynamodb(headers)
        if not (is_ours or (is_object and status >= REDIRECT)):
            raise NotDynamoDB(status=status)
        if not is_object:
            raise NotJson(error="the body is not a JSON object")


def _damage(headers: Mapping[str, Any], body: bytes) -> str | None:
    """Return what shows that a response is not as it was sent; None: nothing does."""
    length, checksum = headers.get("content-length"), headers.get("x-amz-crc32")
    if length is not None and str(length) != str(len(body)):
        return f"{len(body)} bytes came of a body whose length is {str(length)[:20]!r}"
    if checksum is not None and str(checksum) != str(crc32(body)):
        return "the checksum of the body is wrong"
    return None


def is_from_dynamodb(headers: Mapping[str, str]) -> bool:
    """Return whether a successful response has what DynamoDB's have. Names of *headers* are in lower case."""
    return headers.get("content-type", "").startswith(_JSON) or REQUEST_ID in headers


def _is_object(body: bytes) -> bool:
    """Return whether *body* is what botocore's parser can read: an object, and the name of an error a str."""
    try:
        content = json.loads(body.decode())
    except (ValueError, RecursionError):
        return False
    return isinstance(content, dict) and isinstance(content.get("__type", ""), str)
