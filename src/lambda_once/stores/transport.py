"""Requests to the token table, and the meaning of their errors for a token."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import NoCredentialsError, NoRegionError, PartialCredentialsError

from lambda_once.dynamodb.errors import (
    DENIED,
    EXPIRED,
    NOT_ACCEPTED,
    NOT_DYNAMODB,
    Caught,
    NoClient,
    code_of,
    is_foreign,
    is_transient,
    is_without_certificates,
    is_wrong_clock,
    message_of,
    named_operation,
    outage,
)
from lambda_once.dynamodb.retry import Unprocessed, batch_get
from lambda_once.dynamodb.transport import Transport
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.stores.contract import Unanswered
from lambda_once.stores.proof import is_answer
from lambda_once.stores.row import INDEX, TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline


class TokenTransport(Transport):
    """Sends requests to one token table."""

    unreadable = (AttributeError, LookupError, RecursionError, TypeError, ValueError)

    def __init__(
        self,
        table: str,
        client: Any = None,
        heard: Callable[[Any, datetime], object] | None = None,
        declined: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(client, heard, declined)
        self.table = table

    def is_answer(self, request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
        return is_answer(request, response)

    def asked(
        self, operation: str, arguments: Mapping[str, Any], deadline: Deadline, token: str | None
    ) -> Any:
        """Return the response. Raises `StoreUnavailable` without one, `Misconfigured` for an error."""
        try:
            return self.call(operation, arguments, deadline)
        except Caught as error:
            failed = self.failed(error, operation, token)
            if isinstance(failed, Misconfigured):
                raise failed from error
            raise unavailable(token, failed.reason) from error

    def items(
        self, keys: Sequence[Any], deadline: Deadline, token: str | None, only: Sequence[str] = ()
    ) -> dict[str, Any]:
        """
        Return the rows of *keys* by lock token, read consistently. Raises as `asked` does.

        *only* are the attributes to return, including the key; by default all.
        """
        ask = partial(self.asked, deadline=deadline, token=token)
        try:
            rows = batch_get(ask, self.table, keys, deadline, ConsistentRead=True, **projection(only))
        except Unprocessed as throttled:
            raise unavailable(token, self.outage("UnprocessedKeys", "BatchGetItem")) from throttled
        return {row[TOKEN]["S"]: row for row in rows}

    def failed(self, error: Exception, operation: str, token: str | None) -> Unanswered | Misconfigured:
        """Return what *error* means for one token."""
        if is_transient(error):
            return Unanswered(self.outage(error, operation))
        problem = misconfigured(error, self.table, operation, token, self.place)
        problem.__cause__ = error  # it may be raised elsewhere
        return problem

    def outage(self, failure: Exception | str, operation: str) -> str:
        """Return what happened to a request, or to a part of a batch, for `Unanswered`."""
        return outage(failure, operation, self.table, self.host)


def projection(only: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that select the attributes *only*; none for all attributes."""
    names = {f"#{name}": name for name in only}
    return {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names} if names else {}


def unavailable(token: str | None, reason: str) -> StoreUnavailable:
    return StoreUnavailable(f"nothing was run, retry later: {reason}", token=token, reason=reason)


def misconfigured(
    error: Exception, table: str, operation: str, token: str | None, place: str
) -> Misconfigured:
    """Return an error that names what is wrong with the table, the permissions or the clock."""
    code, message = code_of(error), message_of(error)
    operation = named_operation(operation)
    lacks = _lacks(error)
    if lacks is not None:
        advice = lacks
    elif code == "ResourceNotFoundException" and "index" not in message:  # moto raises it for an index, too
        advice = (
            f"table {table!r} does not exist in {place}: deploy the template, or set LAMBDA_ONCE_TABLE, or "
            "the region"
        )
    elif is_wrong_clock(error):
        advice = (
            f"the clock of this machine is wrong, so DynamoDB refused {operation} ({message}): set the clock"
        )
    elif code in EXPIRED | NOT_ACCEPTED:
        advice = (
            f"{operation} on table {table!r} was refused ({code}): the credentials have expired, or are wrong"
        )
    elif code in DENIED:
        advice = f"{operation} on table {table!r} is not allowed ({code}): {_permission(operation, token)}"
    elif is_foreign(error):
        advice = f"{operation} on table {table!r} {NOT_DYNAMODB}"
    elif code in ("ResourceNotFoundException", "ValidationException"):
        advice = f"table {table!r} rejects {operation} ({message}): {_requirement(operation, message)}"
    else:
        advice = f"{operation} on table {table!r} failed permanently: {code}: {message}"
    return Misconfigured(advice, token=token)


def _lacks(error: Exception) -> str | None:
    """Return what this environment lacks, so that no request can be sent from it; None: nothing."""
    if isinstance(error, NoCredentialsError | PartialCredentialsError):
        return "there are no AWS credentials: configure them, or pass store=MemoryStore() for a first try"
    if isinstance(error, NoClient):
        return str(error)
    if isinstance(error, NoRegionError):
        return "no AWS region is set: set AWS_DEFAULT_REGION (Lambda does), or pass client="
    if is_without_certificates(error):
        bundle = os.environ.get("AWS_CA_BUNDLE") or os.environ.get("REQUESTS_CA_BUNDLE") or "the bundle"
        return (
            f"no certificates can be read from {bundle}; set AWS_CA_BUNDLE (or verify= of your client) to a"
            " readable PEM file, or unset it"
        )
    return None


def _requirement(operation: str, message: str) -> str:
    """Return what the table must have."""
    if operation != "Query" and "Index" not in message:
        return f"its partition key must be {TOKEN} (S), with no sort key; give lambda-once a table of its own"
    return (
        f"its index {INDEX} must have the keys listed (S) and expectedCompletion (S); add it, or give "
        "lambda-once a table of its own"
    )


def _permission(operation: str, token: str | None) -> str:
    """Return what to allow, with the keys: the role may have the action for another service's keys."""
    if token is None:
        return "give the function's role the permission"
    service = token.partition("/")[0]
    keys = f"{service}/*#*#*" if operation == "BatchWriteItem" else f"{service}/*"
    return (
        f"give the function's role the permission dynamodb:{operation} on the keys {keys}, or set "
        "POWERTOOLS_SERVICE_NAME to the service whose keys it has"
    )
