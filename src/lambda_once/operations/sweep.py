"""
Delete rows that are past their ttl, on tables where DynamoDB does not.

A table of multi-region strong consistency has no TTL (developer guide, global tables). Unfinished and held
rows are never deleted, whatever their ttl; neither are rows without one, such as a cursor or another
program's row.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from lambda_once.core.clock import Deadline, epoch_seconds
from lambda_once.dynamodb.errors import CONDITION, Caught, code_of
from lambda_once.errors import Misconfigured, OnceError, StoreUnavailable
from lambda_once.operations.table import SWEEP_ROW, Cursor, TokenTable
from lambda_once.stores.requests import ENDED, OF_ENDED
from lambda_once.stores.row import TOKEN, Item

PAGES = 50
"""Scan pages of one run: about 10 MB, 1,280 read units; every five minutes that is 7 million rows a day."""
ROWS = 500
"""Rows of one page: deleting them takes about a second, after which the deadline is checked."""
MARGIN = timedelta(hours=1)
"""How long after its ttl a row is deleted, so that a clock that is behind does not still read it."""

OVER = f"#ttl < :over AND {ENDED}"
AS_SEEN = f"#ttl = :seen AND {ENDED}"
_NAMES = {"#ttl": "ttl", "#status": "status"}


def has_ttl(table: TokenTable, deadline: Deadline) -> bool:
    """Whether DynamoDB itself deletes expired rows (dynamodb:DescribeTimeToLive)."""
    answer = table.transport.asked("describe_time_to_live", {"TableName": table.name}, deadline, None)
    return answer["TimeToLiveDescription"].get("TimeToLiveStatus") in ("ENABLED", "ENABLING")


def sweep_expired(table: TokenTable, until: Deadline, deadline: Deadline, pages: int = PAGES) -> int:
    """
    Delete rows, part rows too, that expired at least `MARGIN` ago; return how many.

    At most *pages* pages, none begun after *until*; the next sweep continues after the last of them. Raises
    as `TokenTransport.asked`; what was deleted before stays deleted (dynamodb:Scan and dynamodb:DeleteItem).
    """
    cursor = Cursor(table.transport, SWEEP_ROW)
    last = cursor.read(deadline)
    start = None if last is None else {TOKEN: {"S": last}}
    swept = 0
    for _ in range(pages):
        if until.passed():
            break
        page = table.transport.asked("scan", _scan(table, start), deadline, None)
        answers = table.transport.each(page["Items"], lambda row: _deleted(table, row, deadline))
        for answer in answers:  # all have arrived: no thread deletes anything after the raise
            if isinstance(answer, OnceError):
                raise answer
            swept += answer
        start = page.get("LastEvaluatedKey")
        if start is None:
            break
    cursor.write(None if start is None else start[TOKEN]["S"], deadline)
    return swept


def _scan(table: TokenTable, start: Item | None) -> dict[str, Any]:
    over = epoch_seconds(table.clock.now() - MARGIN)
    request = {
        "TableName": table.name,
        "Limit": ROWS,
        "FilterExpression": OVER,
        "ProjectionExpression": f"{TOKEN}, #ttl",
        "ExpressionAttributeNames": _NAMES,
        "ExpressionAttributeValues": {":over": {"N": str(over)}} | OF_ENDED,
    }
    return request if start is None else request | {"ExclusiveStartKey": start}


def _deleted(table: TokenTable, row: Item, deadline: Deadline) -> bool | OnceError:
    """Delete *row* unless its ttl has changed, because it was acquired again."""
    request = {
        "TableName": table.name,
        "Key": {TOKEN: row[TOKEN]},
        "ConditionExpression": AS_SEEN,
        "ExpressionAttributeNames": _NAMES,
        "ExpressionAttributeValues": {":seen": row["ttl"]} | OF_ENDED,
    }
    try:
        table.transport.call("delete_item", request, deadline)
    except Caught as error:
        if code_of(error) == CONDITION:
            return False
        token = row[TOKEN]["S"]
        failed = table.transport.failed(error, "DeleteItem", token)
        if isinstance(failed, Misconfigured):
            return failed
        message = f"token {token} may not be deleted; the next sweep continues: {failed.reason}"
        return StoreUnavailable(message, token=token, reason=failed.reason)
    return True
