"""
A strict DynamoDB in memory, behind the client's interface: for the requests that the package sends.

It reads and evaluates the very texts that go out, and refuses what DynamoDB refuses, by the same error codes;
`tests/kit/test_strict_engine.py` holds the two together. What nobody sends is not here, and is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError

from tests.kit.strict import tables
from tests.kit.strict.partiql import Change, Insert, prepared, written
from tests.kit.strict.tables import Refusal, Table
from tests.kit.strict.trees import Invalid, Item

Answer = dict[str, Any]
Watch = Callable[[Table, str, Item | None, Item | None], None]
"""Sees every change: the table, the key, the item before and after."""

MOST_STATEMENTS = 25
MOST_PUTS = 25
MOST_KEYS = 100
MOST_ITEMS = 100


def client_error(code: str, message: str, operation: str, status: int = 400, **more: Any) -> ClientError:
    """Return what botocore raises for an answer of *code*."""
    response = {"Error": {"Code": code, "Message": message}} | more
    return ClientError(response | {"ResponseMetadata": {"HTTPStatusCode": status}}, operation)


class StrictEngine:
    """Tables in memory. Each method is one request, whole: nothing else happens meanwhile."""

    def __init__(self, *found: Table, watch: Watch | None = None) -> None:
        self.tables = {table.name: table for table in found}
        self._watch = watch
        self._done: dict[str, str] = {}
        """The transactions of the last ten minutes, by ClientRequestToken."""

    # ---------------------------------------------------------------- single items

    def update_item(self, **request: Any) -> Answer:
        with _answering("UpdateItem"):
            table, key = self._placed(request)
            update = tables.prepared_update(table, key, request)
            before = table.items.get(key)
            try:
                after = update(before)
            except Refusal:
                raise _refused("UpdateItem", before, request) from None
            self._put(table, key, after)
            told = request.get("ReturnValues") == "ALL_OLD" and before is not None
            return {"Attributes": _copy(before)} if told else {}

    def get_item(self, **request: Any) -> Answer:
        with _answering("GetItem"):
            table, key = self._placed(request)
            item = table.items.get(key)
            return {} if item is None else {"Item": _copy(item)}

    def query(self, **request: Any) -> Answer:
        with _answering("Query"):
            found = tables.queried(self._table(request["TableName"]), request)
            return {"Items": [dict(item) for item in found], "Count": len(found), "ScannedCount": len(found)}

    # ---------------------------------------------------------------- several items

    def batch_get_item(self, **request: Any) -> Answer:
        with _answering("BatchGetItem"):
            _sized([k for wish in request["RequestItems"].values() for k in wish["Keys"]], MOST_KEYS)
            responses = {}
            for name, wish in request["RequestItems"].items():
                table = self._table(name)
                keys = [table.key_of(key, whole=True) for key in wish["Keys"]]
                _distinct(keys)
                responses[name] = [_copy(table.items[key]) for key in keys if key in table.items]
            return {"Responses": responses, "UnprocessedKeys": {}}

    def batch_write_item(self, **request: Any) -> Answer:
        with _answering("BatchWriteItem"):
            _sized([w for writes in request["RequestItems"].values() for w in writes], MOST_PUTS)
            writes: list[tuple[Table, str, Item | None]] = []
            for name, wishes in request["RequestItems"].items():
                table = self._table(name)
                for wish in wishes:
                    if "PutRequest" in wish:
                        put = table.checked(dict(wish["PutRequest"]["Item"]))
                        writes.append((table, table.key_of(put), put))
                    else:
                        writes.append((table, table.key_of(wish["DeleteRequest"]["Key"], whole=True), None))
            _distinct([(table.name, key) for table, key, _ in writes])
            for table, key, item in writes:
                self._put(table, key, item)
            return {"UnprocessedItems": {}}

    def transact_write_items(self, **request: Any) -> Answer:
        with _answering("TransactWriteItems"):
            token, said = (
                request.get("ClientRequestToken"),
                json.dumps(request["TransactItems"], default=repr),
            )
            if token is not None and token in self._done:
                if self._done[token] != said:
                    raise _error("IdempotentParameterMismatchException", "TransactWriteItems")
                return {}
            self._transact(request["TransactItems"])
            if token is not None:
                self._done[token] = said
            return {}

    def batch_execute_statement(self, **request: Any) -> Answer:
        with _answering("BatchExecuteStatement"):
            _sized(request["Statements"], MOST_STATEMENTS)
            found = [_prepared(statement, self.tables) for statement in request["Statements"]]
            _distinct([(one.table.name, one.key) for one in found if not isinstance(one, Invalid)])
            return {"Responses": [self._executed(one) for one in found]}

    # ---------------------------------------------------------------- what is not a request

    def delete(self, table: str, key: str) -> None:
        """Take an item away, as a person or the TTL does."""
        self._put(self.tables[table], key, None)

    # ---------------------------------------------------------------- parts of these

    def _executed(self, statement: Insert | Change | Invalid) -> Answer:
        if isinstance(statement, Invalid):
            return {"Error": {"Code": "ValidationError", "Message": str(statement)}}
        before = statement.table.items.get(statement.key)
        try:
            self._put(statement.table, statement.key, written(statement, before))
        except Refusal:
            code = "DuplicateItem" if isinstance(statement, Insert) else "ConditionalCheckFailed"
            return {"Error": {"Code": code, "Message": "refused"}, "TableName": statement.table.name}
        except Invalid as invalid:
            return {"Error": {"Code": "ValidationError", "Message": str(invalid)}}
        return {"TableName": statement.table.name}

    def _transact(self, wishes: Sequence[Mapping[str, Mapping[str, Any]]]) -> None:
        _sized(wishes, MOST_ITEMS)
        writes = []
        for wish in wishes:
            ((kind, arguments),) = wish.items()
            table = self._table(arguments["TableName"])
            writes.append((table, *tables.prepared_write(table, kind, arguments), arguments))
        _distinct([(table.name, key) for table, key, _, _ in writes])
        reasons: list[Answer] = []
        results: list[tuple[Table, str, Item | None]] = []
        for table, key, write, arguments in writes:
            before = table.items.get(key)
            try:
                results.append((table, key, write(before)))
                reasons.append({"Code": "None"})
            except Refusal:
                reasons.append(
                    {"Code": "ConditionalCheckFailed", "Message": "refused"} | _old(before, arguments)
                )
            except Invalid as invalid:
                reasons.append({"Code": "ValidationError", "Message": str(invalid)})
        if len(results) < len(writes):
            raise client_error(
                "TransactionCanceledException", "canceled", "TransactWriteItems", CancellationReasons=reasons
            )
        for table, key, after in results:
            self._put(table, key, after)

    def _placed(self, request: Mapping[str, Any]) -> tuple[Table, str]:
        table = self._table(request["TableName"])
        return table, table.key_of(request["Key"], whole=True)

    def _table(self, name: str) -> Table:
        if name not in self.tables:
            raise _error("ResourceNotFoundException", "any")
        return self.tables[name]

    def _put(self, table: Table, key: str, item: Item | None) -> None:
        before = table.items.get(key)
        if item is None:
            table.items.pop(key, None)
        else:
            table.items[key] = item
        if self._watch is not None and before != item:
            self._watch(table, key, before, item)


def _prepared(statement: Mapping[str, Any], found: Mapping[str, Table]) -> Insert | Change | Invalid:
    """Read *statement*; one that is invalid fails by itself."""
    try:
        return prepared(statement, found)
    except Invalid as invalid:
        return invalid


def _copy(item: Item | None) -> Item:
    return dict(item or {})


def _old(before: Item | None, request: Mapping[str, Any]) -> Answer:
    wanted = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return {"Item": _copy(before)} if wanted and before is not None else {}


def _refused(operation: str, before: Item | None, request: Mapping[str, Any]) -> ClientError:
    more = _old(before, request)
    return client_error(
        "ConditionalCheckFailedException", "The conditional request failed", operation, **more
    )


def _error(code: str, operation: str) -> ClientError:
    return client_error(code, code, operation)


def _sized(values: Sequence[object], most: int) -> None:
    if not 1 <= len(values) <= most:
        raise Invalid(f"there must be 1 to {most} of them, and there are {len(values)}")


def _distinct(keys: Sequence[object]) -> None:
    if len(set(keys)) < len(keys):
        raise Invalid("the same item stands twice in one request")


@contextmanager
def _answering(operation: str) -> Iterator[None]:
    """Turn what is invalid into the error that DynamoDB answers with."""
    try:
        yield
    except Invalid as invalid:
        raise client_error("ValidationException", str(invalid), operation) from None
