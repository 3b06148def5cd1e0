"""
One table and its client: requests that are sent again where that can help.

A request may have been done although its answer was lost, so whatever is sent here must be safe to send
twice. That is what each pattern is for.
"""

from __future__ import annotations

import sys
import threading
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.dynamodb.transient import AGAIN, passes
from lambda_once.errors import Misconfigured, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

TRIES: Final = 6
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0

_CLIENT_ERROR: Final = 400
_SERVER_ERROR: Final = 500

_CONVERTS: Final = "dynamodb-attr-value-input"
"""The name under which boto3 has a resource's client convert attributes (boto3.dynamodb.transform)."""

REFUSED: Final = "ConditionalCheckFailedException"


class ConditionRefused(Exception):
    """
    The condition did not hold; *item* is what stands there, where it was asked for.

    *unanswered*: an earlier try of the same request got no answer, and may have been done.
    """

    def __init__(self, item: Mapping[str, Mapping[str, Any]] | None, *, unanswered: bool = False) -> None:
        super().__init__("the condition did not hold")
        self.item = item
        self.unanswered = unanswered


class Wire:
    """Sends requests for one pattern. Safe from several threads; connects at first use."""

    def __init__(self, client: Any = None, clock: Clock | None = None) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        self._client = None if client is None else _checked(client)
        self._lock = threading.Lock()

    def send(self, operation: str, request: Mapping[str, Any]) -> Any:
        """
        Send *request*, up to six times with full jitter between.

        Raises `ConditionRefused`; `StoreUnavailable` without an answer, when it may have been done or not;
        `Misconfigured` for what DynamoDB will never take.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        unanswered = False
        for tries in range(1, TRIES + 1):
            try:
                return getattr(self._connected(), operation)(**request)
            except (BotoCoreError, ClientError) as error:
                if code_of(error) == REFUSED:
                    raise ConditionRefused(_standing(error), unanswered=unanswered) from None
                if not is_transient(error):
                    raise Misconfigured(_refused(error, operation, request)) from error
                if tries == TRIES:
                    message = f"no answer to {operation} after {TRIES} tries ({code_of(error)}): try it again"
                    raise StoreUnavailable(message) from error
                unanswered = unanswered or not _is_refusal(error)
            back_off(self.clock, tries)
        raise AssertionError  # pragma: no cover  (the last try returns or raises)

    def _connected(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _checked(_new_client())
            return self._client


def back_off(clock: Clock, tries: int) -> None:
    """Wait before the next try, *tries* having failed, with full jitter (DynamoDB asks for it)."""
    clock.sleep(SystemRandom().uniform(0, min(LONGEST_PAUSE, FIRST_PAUSE * 2**tries)))


def code_of(error: Exception) -> str:
    """Return AWS' name for *error*; for an error of the wire, its class."""
    response = getattr(error, "response", None) or {}
    if "Code" not in response.get("Error", {}):  # of the wire, or read out of a page
        return type(error).__name__
    return str(response["Error"]["Code"]).rpartition(".")[2]  # SQS puts its own name before some


def _checked(client: Any) -> Any:
    """Return *client*, which now takes an answer for one only if it is DynamoDB's. Raises `Misconfigured`."""
    from lambda_once.dynamodb.origin import only_dynamodb

    return only_dynamodb(low_level(client))


def low_level(client: Any) -> Any:
    """Return *client*. Raises `Misconfigured` for a boto3 resource, a Table, and the client of either."""
    resources = sys.modules.get("boto3.resources.base")  # loaded by whoever made one
    if resources is not None and isinstance(client, resources.ServiceResource):
        raise Misconfigured(
            f"client= is a boto3 resource ({type(client).__name__}): give a low-level client, boto3.client(…)"
        )
    events = getattr(getattr(client, "meta", None), "events", None)
    handlers = getattr(getattr(events, "_emitter", None), "_unique_id_handlers", {})
    if _CONVERTS in handlers:  # it would take the attributes {"S": "x"} for maps
        raise Misconfigured(
            "client= is the client of a boto3 resource, which converts attributes itself: give a client of"
            " its own, boto3.client('dynamodb')"
        )
    return client


def _refused(error: Exception, operation: str, request: Mapping[str, Any]) -> str:
    from lambda_once.dynamodb.origin import NotDynamoDB

    table = request["TableName"] if "TableName" in request else next(iter(request["RequestItems"]))
    # botocore takes the HTTP status for the code of an error without a name: a page, which is not quoted.
    if isinstance(error, NotDynamoDB) or code_of(error).isdigit():
        return (
            f"{operation} on table {table!r} was answered by something that is not DynamoDB: "
            "see AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_DYNAMODB, and the endpoint_url of client="
        )
    return f"{operation} on table {table!r} was refused: {error}"


def _is_refusal(error: Exception) -> bool:
    """Tell whether DynamoDB said that it did nothing, such as when it throttles."""
    response = getattr(error, "response", None) or {}
    status: int = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return _CLIENT_ERROR <= status < _SERVER_ERROR


def _standing(error: Exception) -> Mapping[str, Mapping[str, Any]] | None:
    item: Mapping[str, Mapping[str, Any]] | None = getattr(error, "response", {}).get("Item")
    return item


def is_transient(error: Exception, codes: frozenset[str] = AGAIN) -> bool:
    """Tell whether the same request may succeed later: no answer, a fault of the server's, one of *codes*."""
    from botocore.exceptions import (
        ClientError,
        ConnectionError,  # noqa: A004  (botocore's own)
        HTTPClientError,
        ResponseStreamingError,
    )

    if isinstance(error, ConnectionError | HTTPClientError | ResponseStreamingError):
        return True
    if not isinstance(error, ClientError):
        return False
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return passes(code_of(error), status, codes)


def _new_client() -> Any:
    import boto3
    from botocore.config import Config

    settings = Config(
        connect_timeout=1, read_timeout=5, retries={"total_max_attempts": 1}, tcp_keepalive=True
    )
    return boto3.client("dynamodb", config=settings)
