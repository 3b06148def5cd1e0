"""
Checks that a response belongs to its request, whatever client or network delivered it. Pure.

A misdirected response (a connection shared by a forked process, a proxy that mixes up two requests) would
grant one attempt a token that another one acquired, and the work would run twice. So a response must contain
what the request asked for: for an acquisition the attempt id, for a refusal or a read the row's key. For
PartiQL statements DynamoDB returns neither, so only the number of responses is checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

GRANT = "ALL_NEW"
"""ReturnValues of an acquisition: the response is the row, with its token and the attempt id."""
ATTEMPT = ":attempt"
"""The placeholder of the attempt's id in it."""


def is_answer(request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Return whether *response*, which may be a refusal, contains what *request* asked for, if checkable."""
    if "Error" not in response and not _is_success(request, response):
        return False
    if "Key" in request and not _has(response.get("Item"), request["Key"]):
        return False
    reasons = response.get("CancellationReasons")
    if reasons is not None and "TransactItems" in request:
        return _are_reasons(request["TransactItems"], reasons)
    return True


def _is_success(request: Mapping[str, Any], response: Mapping[str, Any]) -> bool:
    """Return whether *response* can be the successful response to *request*."""
    responses = response.get("Responses")
    if "Statements" in request:
        return isinstance(responses, list) and len(responses) == len(request["Statements"])
    if "RequestItems" in request and all("Keys" in batch for batch in request["RequestItems"].values()):
        return isinstance(responses, dict) and _are_rows(request["RequestItems"], responses)
    if request.get("ReturnValues") == GRANT:
        identity = {**request["Key"], "attempt": request["ExpressionAttributeValues"][ATTEMPT]}
        return _has(response.get("Attributes", {}), identity)
    return True


def _are_rows(requested: Mapping[str, Any], responses: Mapping[str, Any]) -> bool:
    """Return whether each row in the *responses* of a BatchGetItem was *requested*."""
    for table, rows in responses.items():
        keys = requested.get(table, {"Keys": ()})["Keys"]
        names = tuple(keys[0]) if keys else ()
        requested_keys = {_key(key, names) for key in keys}
        if any(_key(row, names) not in requested_keys for row in rows):
            return False
    return True


def _key(row: Mapping[str, Any], names: tuple[str, ...]) -> tuple[object, ...]:
    """Return the key of *row*, the attributes *names*, as a value that a set can hold."""
    return tuple([(*row.get(name, {}).items(),) for name in names])


def _are_reasons(items: Iterable[Mapping[str, Any]], reasons: list[Mapping[str, Any]]) -> bool:
    """Return whether *reasons* fit a transaction of *items*: one for each, and each row has its key."""
    writes = [write for item in items for write in item.values()]
    return len(writes) == len(reasons) and all(
        _has(reason.get("Item"), write.get("Key", {})) for write, reason in zip(writes, reasons, strict=True)
    )


def _has(row: Mapping[str, Any] | None, attributes: Mapping[str, Any]) -> bool:
    return row is None or all(row.get(name) == value for name, value in attributes.items())
