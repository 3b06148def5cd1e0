"""
Writes of the patterns as entries of one TransactWriteItems: all of them, or none.

Make the entries shortly before they are sent, and send them in one request with one ClientRequestToken, as
`Attempt.transact` and boto3 do. Then a request whose response is lost is not written twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lambda_once.dynamodb import Item, plain_item
from lambda_once.errors import Misconfigured, OnceError, StoreUnavailable
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Full, Refused, Stale

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


Result = Applied | Duplicate | Stale | Refused | OnceError | None
"""The result of one entry of a cancelled transaction; None if the entry was not the reason."""

TOO_LARGE: Final = "Item size"
"""DynamoDB's words for an item beyond 400 KB, in a ValidationException without a specific code."""


class TransactItem(dict[str, Any]):
    """An entry of a TransactWriteItems, such as ``{"Put": {…}}``, that can interpret its refusal."""

    def __init__(
        self,
        operation: str,
        request: Mapping[str, Any],
        refusal: Callable[[Item], Applied | Duplicate | Stale | Refused],
        full: Full | None = None,
    ) -> None:
        """*refusal* returns or raises the meaning of a refused condition, given the current item."""
        super().__init__({operation: request})
        self.refusal = refusal
        self.full = full


def transaction_results(error: Exception, items: Sequence[Mapping[str, Any]]) -> tuple[Result, ...]:
    """
    Return why each of *items* cancelled the transaction, None for the others. Nothing was written.

    An error such as `Conflict` is returned in its place. `Applied` means that an earlier transaction with the
    same entry of `Unique` took effect. A refused condition of an entry that no pattern made is a `Conflict`,
    with the item if its ``ReturnValuesOnConditionCheckFailure`` is ALL_OLD. Raises *error* if it is not a
    TransactionCanceledException.
    """
    from lambda_once.dynamodb import CANCELED, code_of, reasons_of

    if code_of(error) != CANCELED:
        raise error
    return tuple(_result(item, reason) for item, reason in zip(items, reasons_of(error), strict=False))


def _result(item: Mapping[str, Any], reason: Mapping[str, Any]) -> Result:
    code, message = reason.get("Code", "None"), reason.get("Message")
    found: Item = reason.get("Item") or {}
    match code:
        case "None":
            return None
        case "ConditionalCheckFailed" if isinstance(item, TransactItem):
            try:
                return item.refusal(found)
            except OnceError as wrong:
                return wrong
        case "ConditionalCheckFailed":
            return Conflict(
                "the item is not as expected: read it, and decide again", values=plain_item(found)
            )
        case "TransactionConflict":
            return Conflict("another request was writing to the item: retry")
        case "ThrottlingError" | "ProvisionedThroughputExceeded":
            return StoreUnavailable(f"{code}: nothing was written; retry")
        case _:
            full = item.full if isinstance(item, TransactItem) and TOO_LARGE in str(message) else None
            return full or Misconfigured(f"{code}: {message}")
