"""
Sends requests to DynamoDB until they are answered or the invocation ends, and raises this package's errors.

A request may have taken effect although its response was lost, so every request must be safe to send twice.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import Clock, Deadline, SystemClock
from lambda_once.core.context import invocation_end
from lambda_once.dynamodb.client import low_level
from lambda_once.dynamodb.transport import Transport
from lambda_once.errors import Misconfigured, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

_NEVER: Final = datetime.max.replace(tzinfo=UTC)
KEPT_BACK: Final = timedelta(seconds=1)
"""Time reserved at the end of an invocation for the cleanup after a lost response, such as a release."""


class ConditionFailed(Exception):
    """
    The condition did not hold. *item* is the current item, if the request asked for it.

    *unanswered*: an earlier try of the same request got no response, and may have taken effect.
    """

    def __init__(self, item: Mapping[str, Mapping[str, Any]] | None, *, unanswered: bool = False) -> None:
        super().__init__("the condition did not hold")
        self.item = item
        self.unanswered = unanswered


def retry_deadline(clock: Clock) -> Deadline:
    """Return the time after which nothing is retried: in an invocation, `KEPT_BACK` before its end."""
    end = invocation_end()
    return Deadline(clock, _NEVER if end is None else end - KEPT_BACK)


class Sender:
    """
    Sends requests by one client. Safe from several threads; connects at first use.

    *client* is a low-level client of boto3's; one is made if it's None. Raises `Misconfigured` for a boto3
    resource. *patient*: throttled requests are retried for 30 seconds, however often.
    """

    def __init__(self, client: Any = None, clock: Clock | None = None, *, patient: bool = False) -> None:
        self.clock: Clock = SystemClock() if clock is None else clock
        self._transport = Transport(low_level(client))
        self._transport.is_patient = patient

    @property
    def deadline(self) -> Deadline:
        """The time after which nothing is retried."""
        return retry_deadline(self.clock)

    def send(self, operation: str, request: Mapping[str, Any]) -> Any:
        """
        Send *request*, up to six times until the deadline, with full jitter.

        Raises `ConditionFailed`; `StoreUnavailable` without a response (it may have taken effect);
        `Misconfigured` for a request that DynamoDB will never accept.
        """
        from lambda_once.dynamodb.errors import (
            CONDITION,
            Caught,
            NoClient,
            code_of,
            is_refusal,
            is_transient,
            outage,
        )

        earlier: list[Exception] = []
        try:
            return self._transport.call(operation, request, self.deadline, earlier.append)
        except Caught as error:
            if code_of(error) == CONDITION:
                unanswered = not all(map(is_refusal, earlier))
                raise ConditionFailed(error.response.get("Item"), unanswered=unanswered) from None
            if isinstance(error, NoClient):
                raise Misconfigured(str(error)) from error
            if not is_transient(error):
                raise Misconfigured(_refused(error, operation, request)) from error
            reason = outage(error, operation, _table_of(request), self._transport.host)
            message = f"{reason}; tried {len(earlier) + 1} times"
            raise StoreUnavailable(message, reason=reason) from error

    def existing(self, table: str, key: Mapping[str, Any]) -> Any:
        """
        Return the item at *key*, read consistently; None if there is none.

        For a refusal without an item whose condition a missing item refuses, too: it's no proof that there is
        none, as some engines ignore ReturnValuesOnConditionCheckFailure. AWS doesn't, so nothing is read at
        its endpoints, and a role that may not read is AWS', too. Raises as `send`.
        """
        from lambda_once.dynamodb.errors import DENIED, code_of

        if self._transport.client is not None and not self._transport.is_given:
            return None
        try:
            answer = self.send("get_item", {"TableName": table, "Key": key, "ConsistentRead": True})
        except Misconfigured as error:
            if isinstance(error.__cause__, Exception) and code_of(error.__cause__) in DENIED:
                return None
            raise
        return answer.get("Item")


def without_item(table: str) -> Misconfigured:
    """Return the error for a refusal that came without the item that must have caused it."""
    return Misconfigured(
        f"table {table!r} refused a write and did not return the existing item: use an endpoint that "
        "supports ReturnValuesOnConditionCheckFailure"
    )


def _refused(error: Exception, operation: str, request: Mapping[str, Any]) -> str:
    from lambda_once.dynamodb.errors import NOT_DYNAMODB, code_of, is_foreign, message_of

    # Not str(error): botocore adds "(reached max retries: 4)" where a client retries by itself.
    reason = NOT_DYNAMODB if is_foreign(error) else f"was refused: {code_of(error)}: {message_of(error)}"
    return f"{operation} on table {_table_of(request)!r} {reason}"


def _table_of(request: Mapping[str, Any]) -> str:
    table: str = request["TableName"] if "TableName" in request else next(iter(request["RequestItems"]))
    return table
