"""
A strict DynamoDB in memory, behind the client's interface: for what the package and its tests send.

It reads and evaluates the very texts that go out, and refuses what DynamoDB refuses, by the same error codes;
`tests/kit/test_strict_engine.py` holds the two together. Requests that the library does not send are refused.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError

from tests.kit.strict import reads, tables
from tests.kit.strict.items import copied, size_of
from tests.kit.strict.partiql import Change, Insert, prepared, written
from tests.kit.strict.schemas import described, table_of
from tests.kit.strict.tables import Key, Refusal, Table, Written
from tests.kit.strict.trees import Invalid, Item

Answer = dict[str, Any]
Watch = Callable[[Table, Any, Item | None, Item | None], None]
"""Sees every change: the table, the key (as the table has them), the item before and after."""

MOST_STATEMENTS = 25
MOST_PUTS = 25
MOST_KEYS = 100
MOST_ITEMS = 100
MOST_ANSWERED = 16_777_216
"""Bytes of one BatchGetItem's answer, and of one BatchWriteItem."""


def client_error(code: str, message: str, operation: str, status: int = 400, **more: Any) -> ClientError:
    """Return what botocore raises for an answer of *code*."""
    response = {"Error": {"Code": code, "Message": message}} | more
    return ClientError(response | {"ResponseMetadata": {"HTTPStatusCode": status}}, operation)


class StrictEngine:
    """Tables in memory. Each method is one request, whole: nothing else happens meanwhile."""

    def __init__(self, *found: Table, watch: Watch | None = None) -> None:
        self.tables = {table.name: table for table in found}
        self.watches = [] if watch is None else [watch]
        self.described_also: Callable[[Table], Answer] = lambda _table: {}
        """What DescribeTable says of a table besides: of its stream, where one is played."""
        self._ttl: dict[str, str] = {}
        """The attribute that is a table's ttl, where one is; nothing is ever deleted for it."""
        self._done: dict[str, str] = {}
        """The transactions of the last ten minutes, by ClientRequestToken."""
        self._one_at_a_time = threading.RLock()

    # ---------------------------------------------------------------- tables

    def create_table(self, **request: Any) -> Answer:
        with self._answering("CreateTable"):
            made = table_of(request)
            if made.name in self.tables:
                raise _error("ResourceInUseException", "CreateTable")
            self.tables[made.name] = made
            return {"TableDescription": described(made)}

    def describe_table(self, **request: Any) -> Answer:
        with self._answering("DescribeTable"):
            table = self._table(request["TableName"])
            besides = self.described_also(table)
            return {"Table": described(table) | besides}

    def delete_table(self, **request: Any) -> Answer:
        with self._answering("DeleteTable"):
            name = self._table(request["TableName"]).name
            self._ttl.pop(name, None)
            return {"TableDescription": described(self.tables.pop(name)) | {"TableStatus": "DELETING"}}

    def list_tables(self, **_: Any) -> Answer:
        with self._answering("ListTables"):
            return {"TableNames": sorted(self.tables)}

    def update_time_to_live(self, **request: Any) -> Answer:
        with self._answering("UpdateTimeToLive"):
            name, wished = self._table(request["TableName"]).name, request["TimeToLiveSpecification"]
            if wished["Enabled"] is (name in self._ttl):
                raise Invalid("TimeToLive is already as it is specified")
            if wished["Enabled"]:
                self._ttl[name] = wished["AttributeName"]
            else:
                del self._ttl[name]
            return {"TimeToLiveSpecification": wished}

    def describe_time_to_live(self, **request: Any) -> Answer:
        with self._answering("DescribeTimeToLive"):
            name = self._table(request["TableName"]).name
            if name not in self._ttl:
                return {"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}}
            found = {"TimeToLiveStatus": "ENABLED", "AttributeName": self._ttl[name]}
            return {"TimeToLiveDescription": found}

    # ---------------------------------------------------------------- single items

    def update_item(self, **request: Any) -> Answer:
        with self._answering("UpdateItem"):
            table, key = self._placed(request)
            return self._wrote("UpdateItem", table, key, tables.prepared_update(table, key, request), request)

    def put_item(self, **request: Any) -> Answer:
        with self._answering("PutItem"):
            table = self._table(request["TableName"])
            key, put = tables.prepared_put(table, request)
            return self._wrote("PutItem", table, key, put, request)

    def delete_item(self, **request: Any) -> Answer:
        with self._answering("DeleteItem"):
            table = self._table(request["TableName"])
            key, delete = tables.prepared_delete(table, request)
            return self._wrote("DeleteItem", table, key, delete, request)

    def get_item(self, **request: Any) -> Answer:
        with self._answering("GetItem"):
            table, key = self._placed(request)
            shown = reads.projection_of(request)
            bound = tables.bound_of(request, [shown])
            item = table.items.get(key)
            return {} if item is None else {"Item": reads.shown_of(item, shown, bound)}

    def query(self, **request: Any) -> Answer:
        with self._answering("Query"):
            return reads.queried(self._table(request["TableName"]), request)

    def scan(self, **request: Any) -> Answer:
        with self._answering("Scan"):
            return reads.scanned(self._table(request["TableName"]), request)

    # ---------------------------------------------------------------- several items

    def batch_get_item(self, **request: Any) -> Answer:
        with self._answering("BatchGetItem"):
            _sized([key for each in request["RequestItems"].values() for key in each["Keys"]], MOST_KEYS)
            responses: dict[str, list[Item]] = {}
            left: dict[str, Any] = {}
            answered = 0
            for name, acquisition in request["RequestItems"].items():
                table = self._table(name)
                keys = [table.key_of(key, whole=True) for key in acquisition["Keys"]]
                _distinct(keys)
                shown = reads.projection_of(acquisition)
                bound = tables.bound_of(acquisition, [shown])
                responses[name] = []
                for key, wanted in zip(keys, acquisition["Keys"], strict=True):
                    item = table.items.get(key, {})
                    answered += size_of(item)
                    if answered > MOST_ANSWERED:
                        left.setdefault(name, {**acquisition, "Keys": []})["Keys"].append(wanted)
                    elif item:
                        responses[name].append(reads.shown_of(item, shown, bound))
            return {"Responses": responses, "UnprocessedKeys": left}

    def batch_write_item(self, **request: Any) -> Answer:
        with self._answering("BatchWriteItem"):
            _sized([w for writes in request["RequestItems"].values() for w in writes], MOST_PUTS)
            writes: list[tuple[Table, Key, Item | None]] = []
            for name, acquisitions in request["RequestItems"].items():
                table = self._table(name)
                for acquisition in acquisitions:
                    if "PutRequest" in acquisition:
                        put = table.checked(acquisition["PutRequest"]["Item"])
                        writes.append((table, table.key_of(put), put))
                    else:
                        writes.append(
                            (table, table.key_of(acquisition["DeleteRequest"]["Key"], whole=True), None)
                        )
            _distinct([(table.name, key) for table, key, _ in writes])
            if sum(size_of(item) for _, _, item in writes if item is not None) > MOST_ANSWERED:
                raise Invalid("the request is larger than 16 MB")
            for table, key, item in writes:
                self._put(table, key, item)
            return {"UnprocessedItems": {}}

    def transact_write_items(self, **request: Any) -> Answer:
        with self._answering("TransactWriteItems"):
            token = request.get("ClientRequestToken")
            said = json.dumps(request["TransactItems"], default=repr)
            if token is not None and token in self._done:
                if self._done[token] != said:
                    raise _error("IdempotentParameterMismatchException", "TransactWriteItems")
                return {}
            self._transact(request["TransactItems"])
            if token is not None:
                self._done[token] = said
            return {}

    def batch_execute_statement(self, **request: Any) -> Answer:
        with self._answering("BatchExecuteStatement"):
            _sized(request["Statements"], MOST_STATEMENTS)
            found = [_prepared(statement, self.tables) for statement in request["Statements"]]
            _distinct([(one.table.name, one.key) for one in found if not isinstance(one, Invalid)])
            return {"Responses": [self._executed(one) for one in found]}

    # ---------------------------------------------------------------- what is not a request

    def delete(self, table: str, key: Key) -> None:
        """Take an item away, as a person or the TTL does."""
        self._put(self.tables[table], key, None)

    def forget_transactions(self) -> None:
        """Let ten minutes pass since every transaction: a copy of one that comes now is done again."""
        self._done.clear()

    @contextmanager
    def index_behind(self) -> Iterator[None]:
        """Let every index show what there is now, and nothing that is written in the block."""
        for table in self.tables.values():
            table.indexed = dict(table.items)
        try:
            yield
        finally:
            for table in self.tables.values():
                table.indexed = None

    # ---------------------------------------------------------------- parts of these

    @contextmanager
    def _answering(self, operation: str) -> Iterator[None]:
        """Turn what is invalid into the error that DynamoDB answers with."""
        with self._one_at_a_time:
            try:
                yield
            except Invalid as invalid:
                raise client_error("ValidationException", str(invalid), operation) from None

    def _wrote(
        self, operation: str, table: Table, key: Key, write: Written, request: Mapping[str, Any]
    ) -> Answer:
        before = table.items.get(key)
        try:
            after = write(before)
        except Refusal:
            code, message = "ConditionalCheckFailedException", "The conditional request failed"
            raise client_error(code, message, operation, **_old(before, request)) from None
        wanted = request.get("ReturnValues", "NONE")
        if wanted not in ("NONE", "ALL_OLD", "ALL_NEW", "UPDATED_NEW"):
            raise Invalid(f"ReturnValues {wanted} is not here")
        if wanted.endswith("NEW") and operation != "UpdateItem":
            raise Invalid(f"ReturnValues {wanted} of {operation}")
        self._put(table, key, after)
        new = tables.written_by(request, after) if wanted == "UPDATED_NEW" else after
        returned = {"ALL_OLD": before, "ALL_NEW": new, "UPDATED_NEW": new}.get(wanted)
        return {} if returned is None else {"Attributes": copied(returned)}

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

    def _transact(self, acquisitions: Sequence[Mapping[str, Mapping[str, Any]]]) -> None:
        _sized(acquisitions, MOST_ITEMS)
        writes = []
        for acquisition in acquisitions:
            ((kind, arguments),) = acquisition.items()
            table = self._table(arguments["TableName"])
            writes.append((table, *tables.prepared_write(table, kind, arguments), arguments))
        _distinct([(table.name, key) for table, key, _, _ in writes])
        reasons: list[Answer] = []
        results: list[tuple[Table, Key, Item | None]] = []
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

    def _placed(self, request: Mapping[str, Any]) -> tuple[Table, Key]:
        table = self._table(request["TableName"])
        return table, table.key_of(request["Key"], whole=True)

    def _table(self, named: str) -> Table:
        """Return the table of a name, or of an ARN (API reference, TableName: "name or ARN")."""
        name = named.rpartition(":table/")[2]
        if name not in self.tables:
            raise _error("ResourceNotFoundException", "any")
        return self.tables[name]

    def _put(self, table: Table, key: Key, item: Item | None) -> None:
        before = table.items.get(key)
        if item is None:
            table.items.pop(key, None)
        else:
            table.items[key] = item
        if before != item:
            for watch in self.watches:
                watch(table, key, before, item)


def _prepared(statement: Mapping[str, Any], found: Mapping[str, Table]) -> Insert | Change | Invalid:
    """Read *statement*; one that is invalid fails by itself."""
    try:
        return prepared(statement, found)
    except Invalid as invalid:
        return invalid


def _old(before: Item | None, request: Mapping[str, Any]) -> Answer:
    wanted = request.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD"
    return {"Item": copied(before)} if wanted and before is not None else {}


def _error(code: str, operation: str) -> ClientError:
    return client_error(code, code, operation)


def _sized(values: Sequence[object], most: int) -> None:
    if not 1 <= len(values) <= most:
        raise Invalid(f"there must be 1 to {most} of them, and there are {len(values)}")


def _distinct(keys: Sequence[object]) -> None:
    if len(set(keys)) < len(keys):
        raise Invalid("the same item is twice in one request")
