"""
Lists lost work that nobody has listed, and keeps the checkpoint of how far that has come.

A row decides, never a record of the stream: it is read consistently, and listed on condition that its attempt
is still the one that was read, and open. So all of it may be done twice.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from lambda_once.core.lifecycle import State
from lambda_once.dynamodb.errors import CONDITION, Caught, code_of
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.operations.checkpoint import (
    Checkpoint,
    Fate,
    Malformed,
    Scan,
    fate_of,
    version_of,
)
from lambda_once.operations.list_state import CHECKPOINT_ROW
from lambda_once.operations.tokens import is_auxiliary
from lambda_once.stores.contract import Unanswered
from lambda_once.stores.requests import list_open
from lambda_once.stores.row import ALWAYS, TOKEN, Item, record_of
from lambda_once.stores.transport import projection

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lambda_once.core.clock import Deadline
    from lambda_once.core.lifecycle import Record
    from lambda_once.operations.table import TokenTable

SCANNED: Final = 1_000
"""Rows of one page of a scan: to list them all takes a second."""
SETTLED: Final = timedelta(hours=1)
"""How long after the last reading no function is in stream mode any more: old environments have ended."""
_READ: Final = (TOKEN, *ALWAYS, "actualCompletion", "status", "listed")
"""What decides about a row."""
_OPTIONAL: Final = ("scan", "began", "covered")
"""Attributes of the checkpoint's row that may be absent."""
_CONTENT: Final = ("stream", "read", "upTo", "shards", "kept", *_OPTIONAL)
"""What its row has beside the version, while the stream is read."""
_BAD_VALUE: Final = "ValidationException"


class Overtaken(Exception):
    """Another watchdog was faster: it has written the checkpoint since it was read."""


class Settled(NamedTuple):
    """What became of some tokens."""

    alive: frozenset[str]
    """Open, and not listed, since their leases end soon."""
    unanswered: frozenset[str]
    """To be listed; whether they are is unknown."""


class Lister:
    """Lists rows of *table*. *malformed* is called with each row that can't be read; then it is passed."""

    def __init__(self, table: TokenTable, malformed: Callable[[Misconfigured], object]) -> None:
        self._table = table
        self._malformed = malformed
        self.listed = 0
        self.failed: StoreUnavailable | None = None
        """Why something is unanswered."""

    def settle(self, tokens: Collection[str], deadline: Deadline) -> Settled:
        """Read the rows of *tokens*, and list what has lapsed, or has a long lease. Raises as `asked`."""
        if not tokens:
            return Settled(frozenset(), frozenset())
        keys = [{TOKEN: {"S": token}} for token in tokens]
        rows = self._table.transport.items(keys, deadline, None, _READ)
        now = self._table.clock.now()
        fates = [
            (record, fate_of(record, now, is_listed="listed" in row))
            for row in rows.values()
            if (record := self._record(row)) is not None
        ]
        unanswered = self._list([record for record, fate in fates if fate is Fate.LIST], deadline)
        return Settled(
            frozenset(record.token for record, fate in fates if fate is Fate.KEEP), frozenset(unanswered)
        )

    def scan(self, scan: Scan, deadline: Deadline) -> Scan | None:
        """
        List every open token of the next page of *scan*, whatever its lease; return what is left of it.

        Raises as `asked`, and `StoreUnavailable` where a row may not be listed: the page is read again.
        """
        request = {
            "TableName": self._table.name,
            "ConsistentRead": True,
            "Limit": SCANNED,
            "FilterExpression": "begins_with(#status, :in_progress) AND attribute_not_exists(#listed)",
            "ExpressionAttributeValues": {":in_progress": {"S": State.IN_PROGRESS.value}},
            **projection(_READ),
        }
        if scan.cursor:
            request["ExclusiveStartKey"] = {TOKEN: {"S": scan.cursor}}
        page = self._table.transport.asked("scan", request, deadline, None)
        records = [
            record
            for row in page["Items"]
            if not is_auxiliary(row[TOKEN]["S"]) and (record := self._record(row)) is not None
        ]
        if self._list(records, deadline) and self.failed is not None:
            raise self.failed
        last = page.get("LastEvaluatedKey")
        return None if last is None else replace(scan, cursor=last[TOKEN]["S"])

    def _record(self, row: Item) -> Record | None:
        try:
            return record_of(row)
        except Misconfigured as unreadable:
            self._malformed(unreadable)
            return None

    def _list(self, records: list[Record], deadline: Deadline) -> list[str]:
        """List the tokens of *records*; return those of which it is unknown. Raises `Misconfigured`."""

        def send(record: Record) -> Unanswered | Misconfigured | bool:
            try:
                self._table.transport.call("update_item", list_open(self._table.name, record), deadline)
            except Caught as error:
                if code_of(error) == CONDITION:
                    return False
                failed = self._table.transport.failed(error, "UpdateItem", record.token)
                if isinstance(failed, Misconfigured) and code_of(error) == _BAD_VALUE:
                    self._malformed(failed)  # this row's, or every request of ours would be refused
                    return False
                return failed
            return True

        unanswered = []
        wrong: Misconfigured | None = None
        for record, answer in zip(records, self._table.transport.each(records, send), strict=True):
            if isinstance(answer, Misconfigured):
                wrong = answer
            elif isinstance(answer, Unanswered):
                unanswered.append(record.token)
                message = f"whether {record.token} is listed is unknown; a later run reads it again"
                self.failed = StoreUnavailable(message, token=record.token, reason=answer.reason)
            else:
                self.listed += answer
        if wrong is not None:
            raise wrong
        return unanswered


class CheckpointRow:
    """The row of the checkpoint: read once, and written on condition that nobody else wrote it since."""

    def __init__(self, table: TokenTable) -> None:
        self._table = table
        self._exists = False
        self._version: int | None = None
        self.was_written = False
        self.is_unreadable = False
        """Whether there is a checkpoint that is none of this package's."""

    def load(self, deadline: Deadline) -> Checkpoint | None:
        """Return the checkpoint; None if there is none that can be read. Raises as `asked`."""
        request = {"TableName": self._table.name, "Key": self._key, "ConsistentRead": True}
        item = self._table.transport.asked("get_item", request, deadline, None).get("Item")
        if item is None:
            return None
        self._exists, self._version = True, version_of(item)
        try:
            return Checkpoint.from_item(item)
        except Malformed:
            self.is_unreadable = not {*item} <= {TOKEN, "version"}  # these are left of one that has ended
            return None

    def save(self, checkpoint: Checkpoint, deadline: Deadline) -> Checkpoint:
        """Return *checkpoint* as it is written now. Raises `Overtaken`, and as `asked`."""
        version = (self._version or 0) + 1
        written = replace(checkpoint, version=version, read=self._table.clock.now())
        item = written.to_item(CHECKPOINT_ROW)
        del item[TOKEN]
        self._update(item, [name for name in _OPTIONAL if name not in item], deadline)
        self._exists, self._version, self.was_written = True, version, True
        return written

    def end(self, deadline: Deadline) -> None:
        """Leave nothing but the version, which needs no right to delete rows. Raises as `save`."""
        self._update({"version": {"N": str((self._version or 0) + 1)}}, _CONTENT, deadline)

    @property
    def _key(self) -> Item:
        return {TOKEN: {"S": CHECKPOINT_ROW}}

    def _condition(self) -> tuple[str, Item]:
        if not self._exists:
            return f"attribute_not_exists({TOKEN})", {}
        if self._version is None:
            return "NOT attribute_type(#version, :number)", {":number": {"S": "N"}}
        return "#version = :seen", {":seen": {"N": str(self._version)}}

    def _update(self, item: Item, removed: Sequence[str], deadline: Deadline) -> None:
        """Set the attributes that *item* has, and remove those that are *removed*. Raises as `save`."""
        update = "SET " + ", ".join(f"#{name} = :{name}" for name in item)
        update += " REMOVE " + ", ".join(f"#{name}" for name in removed) if removed else ""
        condition, seen = self._condition()
        request = {
            "TableName": self._table.name,
            "Key": self._key,
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeNames": {f"#{name}": name for name in [*item, *removed]},
            "ExpressionAttributeValues": {f":{name}": value for name, value in item.items()} | seen,
        }
        try:
            self._table.transport.call("update_item", request, deadline)
        except Caught as error:
            if code_of(error) == CONDITION:
                raise Overtaken from None
            failed = self._table.transport.failed(error, "update_item", None)
            if isinstance(failed, Misconfigured):
                raise failed from error
            message = (
                f"the watchdog's checkpoint may not be written; a later run reads again: {failed.reason}"
            )
            raise StoreUnavailable(message, reason=failed.reason) from error
