"""
Whether a response answers its request, whatever client or network brought it. Pure.

A response that goes astray (a connection that a forked process shares, a proxy that mixes up two requests)
would grant one attempt what another one acquired, and the work would run twice. So a response has to bear
what was asked for: an acquisition's the attempt id, a refusal's row and a row that is read their key.
DynamoDB returns neither for a statement of PartiQL: there the number of responses is all that can be checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GRANT = "ALL_NEW"
"""ReturnValues of an acquisition: the row comes back, with its token and the attempt id."""


def is_answer(request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Whether *response*, a refusal too, bears what *request* asked for, as far as any does."""
    if "Error" not in response and not _is_granted(request, response):
        return False
    if "Key" in request and not _bears(response.get("Item"), request["Key"]):
        return False
    reasons = response.get("CancellationReasons")
    if reasons is not None and "TransactItems" in request:
        return _are_reasons(request["TransactItems"], reasons)
    return True


def _is_granted(request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Whether *response* is that of a request which succeeded."""
    found = response.get("Responses")
    if "Statements" in request:
        return isinstance(found, list) and len(found) == len(request["Statements"])
    if "RequestItems" in request and all("Keys" in batch for batch in request["RequestItems"].values()):
        return isinstance(found, dict) and _are_rows(request["RequestItems"], found)
    if request.get("ReturnValues") == GRANT:
        asked = {**request["Key"], "attempt": request["ExpressionAttributeValues"][":attempt_"]}
        return _bears(response.get("Attributes", {}), asked)
    return True


def _are_rows(asked: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether each row of a BatchGetItem that was found is one of those *asked* for."""
    return all(
        any(_bears(row, key) for key in asked.get(table, {"Keys": ()})["Keys"])
        for table, rows in found.items()
        for row in rows
    )


def _are_reasons(items: Iterable[Mapping[str, Any]], reasons: list[Mapping[str, Any]]) -> bool:
    """Whether *reasons* are those of a transaction of *items*: one each, and each row under its key."""
    writes = [write for item in items for write in item.values()]
    return len(writes) == len(reasons) and all(
        _bears(reason.get("Item"), write.get("Key", {}))
        for write, reason in zip(writes, reasons, strict=True)
    )


def _bears(row: Mapping[str, Any] | None, key: Mapping[str, Any]) -> bool:
    return row is None or all(row.get(name) == value for name, value in key.items())
