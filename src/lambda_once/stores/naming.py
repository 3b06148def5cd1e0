"""
A token table whose key attributes or index have other names.

The rest of the package reads and writes ``lockToken`` and ``byStatus``; requests and responses are translated
to and from the table's names when they are sent. In this table only our own items have exactly the key
``lockToken``, so a user's items in a transaction stay unchanged.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from lambda_once.stores.names import INDEX, SORT_VALUE, TOKEN, TableNames
from lambda_once.stores.transport import TokenTransport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from lambda_once.core.clock import Deadline

LONG = "#" * 1_024
"""
A token with this suffix is valid as a partition key (2,048 bytes) but not as a sort key (1,024; developer
guide, quotas). The token comes first, because a role may be limited to the tokens of one service.
"""


class NamedTransport(TokenTransport):
    """
    A `TokenTransport` to a table with other names.

    Before its first request to a table with a sort key, it reads a row that does not exist, to check that the
    token is the partition key: DynamoDB does not report which key attribute is which.
    """

    def __init__(
        self,
        names: TableNames,
        table: str,
        client: Any = None,
        heard: Callable[[Any, datetime], object] | None = None,
        declined: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(table, client, heard, declined)
        self.names = names
        self.shape = f"its partition key must be {names.key} (S), with no sort key"
        if names.sort is not None:
            self.shape = (
                f"its partition key must be {names.key} (S) and its sort key {names.sort} (S); "
                "a constant partition key would take 500 executions a second at most"
            )
        self.index = names.index
        self._checked = names.sort is None

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        deadline: Deadline,
        failed: Callable[[Exception], object] | None = None,
    ) -> Any:
        from botocore.exceptions import ClientError

        names = self.names
        if not self._checked:
            super().call("get_item", _probe(arguments, self.table, names), deadline)
            self._checked = True
        try:
            answer = super().call(operation, named(arguments, self.table, names), deadline, failed)
        except ClientError as error:
            _rename_refusal(error.response, arguments, self.table, names)
            raise
        return renamed(answer, self.table, names)


# ---------------------------------------------------------------- requests


def _probe(arguments: Mapping[str, Any], table: str, names: TableNames) -> dict[str, Any]:
    """Return a read of a row that does not exist, which asks only for its key."""
    key = own_key({TOKEN: {"S": _token_in(arguments, names)[:1_024] + LONG}}, names)
    shown = {f"#key{n}": name for n, name in enumerate(key)}
    return {
        "TableName": table,
        "Key": key,
        "ProjectionExpression": ", ".join(shown),
        "ExpressionAttributeNames": shown,
    }


def _token_in(value: Any, names: TableNames) -> str:
    """Return the first token in the arguments *value* of a request; "#" if there is none."""
    match value:
        case {"Statement": str(text), "Parameters": list(given)}:
            quoted = re.split(rf"""['"]{re.escape(names.key)}['"](?:: | = )\?""", text, maxsplit=1)
            return given[quoted[0].count("?")]["S"] if len(quoted) > 1 else "#"
        case {"lockToken": {"S": str(token)}}:
            return token
        case dict() | list():
            inner = value.values() if isinstance(value, dict) else value
            return next((found for each in inner if (found := _token_in(each, names)) != "#"), "#")
        case _:
            return "#"


def own_key(key: Mapping[str, Any], names: TableNames) -> dict[str, Any]:
    """Return *key*, or a whole item, with the table's names; one that has them already is unchanged."""
    if TOKEN not in key:
        return dict(key)
    found = {names.key: key[TOKEN]}
    if names.sort is not None:
        found[names.sort] = {"S": SORT_VALUE}
    return found | {name: value for name, value in key.items() if name != TOKEN}


def named(arguments: Mapping[str, Any], table: str, names: TableNames) -> dict[str, Any]:
    """Return the *arguments* of any of our requests with the table's names."""
    request = _named_flat(arguments, names)
    if "RequestItems" in request:
        request["RequestItems"] = {
            name: _named_batch(batch, names) if name == table else batch
            for name, batch in request["RequestItems"].items()
        }
    if "TransactItems" in request:
        request["TransactItems"] = [
            {"Update": _named_flat(item["Update"], names)} if _is_ours(item, table) else item
            for item in request["TransactItems"]
        ]
    return request


def _is_ours(item: Mapping[str, Any], table: str) -> bool:
    """Return whether *item* of a transaction finishes a token of *table*; all others are the user's."""
    update = item.get("Update", {})
    return update.get("TableName") == table and set(update.get("Key", ())) == {TOKEN}


def _named_flat(arguments: Mapping[str, Any], names: TableNames) -> dict[str, Any]:
    request = dict(arguments)
    for field in ("Key", "ExclusiveStartKey"):
        if field in request:
            request[field] = own_key(request[field], names)
    if request.get("IndexName") == INDEX:
        request["IndexName"] = names.index
    given = request.get("ExpressionAttributeNames", {})
    if f"#{TOKEN}" in given:
        request["ExpressionAttributeNames"] = {**given, f"#{TOKEN}": names.key}
    if names.sort is not None and "ProjectionExpression" in request:
        request["ProjectionExpression"] += ", #sortKey"
        request["ExpressionAttributeNames"] = {**request["ExpressionAttributeNames"], "#sortKey": names.sort}
    return request


def _named_batch(batch: Any, names: TableNames) -> Any:
    """Return the token table's part of a BatchGetItem or BatchWriteItem, renamed."""
    if isinstance(batch, list):
        return [_each_write(write, lambda item: own_key(item, names)) for write in batch]
    return _named_flat(batch, names) | {"Keys": [own_key(key, names) for key in batch["Keys"]]}


def _each_write(write: Mapping[str, Any], rename: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a PutRequest or DeleteRequest with its item or key renamed."""
    ((kind, request),) = write.items()
    return {kind: {field: rename(value) for field, value in request.items()}}


# ---------------------------------------------------------------- responses


def _own_names(item: Mapping[str, Any], names: TableNames) -> dict[str, Any]:
    """Return *item* with the package's names; the constant sort key is left out."""
    found = {TOKEN if name == names.key else name: value for name, value in item.items()}
    if names.sort is not None and found.get(names.sort) == {"S": SORT_VALUE}:
        del found[names.sort]
    return found


def _is_token(item: Mapping[str, Any], names: TableNames) -> bool:
    """Return whether *item* is one of our rows: one with another sort key is another program's."""
    return names.sort is None or bool(item.get(names.sort, {"S": SORT_VALUE}) == {"S": SORT_VALUE})


def renamed(answer: Any, table: str, names: TableNames) -> Any:
    """Return a response with the package's names."""
    found = dict(answer)
    for field in ("Item", "LastEvaluatedKey"):
        if field in found:
            found[field] = _own_names(found[field], names)
    if "Items" in found:
        found["Items"] = [_own_names(item, names) for item in found["Items"] if _is_token(item, names)]
    if isinstance(found.get("Responses"), dict):
        found["Responses"] = {
            name: [_own_names(item, names) for item in items] if name == table else items
            for name, items in found["Responses"].items()
        }
    for field, kind in (("UnprocessedKeys", "Keys"), ("UnprocessedItems", None)):
        left = found.get(field, {}).get(table)
        if left and kind:
            found[field] = {
                **found[field],
                table: {**left, kind: [_own_names(key, names) for key in left[kind]]},
            }
        elif left:
            writes = [_each_write(write, lambda item: _own_names(item, names)) for write in left]
            found[field] = {**found[field], table: writes}
    return found


def _rename_refusal(
    response: dict[str, Any], arguments: Mapping[str, Any], table: str, names: TableNames
) -> None:
    """Rename the row that refused a write, in place; in a transaction only our own row."""
    if response.get("Item"):
        response["Item"] = _own_names(response["Item"], names)
    reasons = zip(arguments.get("TransactItems", ()), response.get("CancellationReasons", ()), strict=False)
    for item, reason in reasons:
        if _is_ours(item, table) and reason.get("Item"):
            reason["Item"] = _own_names(reason["Item"], names)
