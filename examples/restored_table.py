r"""
Write into a restored token table what happened since the time of its backup, as the log has it.

    DONE='($.message = "once.returned") || ($.message = "once.completed") || ($.message = "once.stored")'
    UNKNOWN='($.message = "once.held") || ($.message = "once.overdue")'
    aws logs filter-log-events --log-group-name "$LogGroupName" --start-time 1795169520000 \
        --filter-pattern "{ $DONE || $UNKNOWN }" --query "events[].message" --output json > since.json &&
    python restored_table.py tokens-restored since.json

Run it for the log group of each function and of the watchdog. The start is the time of the backup in
milliseconds, less the longest timeout of a function. *since.json* is a list of log lines, as text. The row of
work that was done (`once.returned`, or `once.completed` by `attempt.transact`) or failed for good
(`once.stored`) becomes complete. That of work that may have been done (`once.held`, `once.overdue`) becomes
held, so that a person decides.

Fences alone decide which is later, the line or its row, because each acquisition of a token has a higher one.
A row with a higher fence than a line of work that was done is left, and the exit code is 1.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3

from lambda_once.core.clock import SystemClock, stamp
from lambda_once.core.lifecycle import Record, State
from lambda_once.operations.table import TokenTable
from lambda_once.stores.row import OPTIONAL, OUTCOME

KEEP = timedelta(days=28)
"""How long complete rows are kept: at least the longest time in which a delivery can come again."""
DONE = ("once.returned", "once.completed")
ENDED = (*DONE, "once.stored")


def verdict(row: Record | None, fence: int, state: State) -> str:
    """Return what becomes of *row*, given a line with *fence* whose row is to have *state*."""
    if row is None or fence > row.fence:
        return state.name.lower()
    now = row.state.name.lower().replace("_", " ")
    if fence < row.fence:
        # What may have been done was decided, or done again, before the backup. What was done is news.
        return f"{'' if state is State.HELD else 'left: '}{now}, with the later fence {row.fence}"
    return f"{now} already" if row.state in (State.COMPLETE, state) else state.name.lower()


def remember(client: Any, table: str, line: dict[str, Any], keep: timedelta = KEEP) -> str:
    """Write the row of one line, if `verdict` says so; return what became of it."""
    state = State.COMPLETE if line["message"] in ENDED else State.HELD
    row = TokenTable(table, client, SystemClock()).read(line["token"])
    found = verdict(row, line["fence"], state)
    if found != state.name.lower():
        return found
    now = SystemClock().now()
    sets: dict[str, Any] = {
        "attempt": {"S": line["attempt"]},
        "fence": {"N": str(line["fence"])},
        "lockedBy": {"S": line["locked_by"]},
        "created": {"S": line["acquired"]},
        "expectedCompletion": {"S": line["expected_completion"]},
        "actualCompletion": {"S": stamp(now)},
    }
    if state is State.COMPLETE:
        sets["ttl"] = {"N": str(int((now + keep).timestamp()))}
    else:
        sets["status"] = {"S": state.value}
    if line["message"] not in DONE:
        kind, what = line.get("error", "Restored"), f"{line['message']} in the log"
        sets["error"] = {"M": {"kind": {"S": kind}, "message": {"S": what}}}
    earlier = row is not None and row.fence < line["fence"]  # then payload and caller are of another attempt
    removed = {"status", "ttl", *OUTCOME, *(OPTIONAL if earlier else ())} - sets.keys()
    if state is State.COMPLETE:
        removed.add("generation")
    condition, seen = "attribute_not_exists(lockToken)", {}
    if row is not None:
        condition = "#attempt = :seen AND #fence = :below"
        seen = {":seen": {"S": row.attempt_id}, ":below": {"N": str(row.fence)}}
    try:
        client.update_item(
            TableName=table,
            Key={"lockToken": {"S": line["token"]}},
            UpdateExpression=f"SET {', '.join(f'#{name} = :{name}' for name in sets)} "
            f"REMOVE {', '.join(f'#{name}' for name in sorted(removed))}",
            ConditionExpression=condition,
            ExpressionAttributeNames={f"#{name}": name for name in sets.keys() | removed},
            ExpressionAttributeValues={f":{name}": value for name, value in sets.items()} | seen,
        )
    except client.exceptions.ConditionalCheckFailedException:
        return "left: it has just changed; stop the sources first"
    return found


def main(client: Any, table: str, file: str) -> bool:
    """Write the rows of *file*; print what became of each, left ones last; return whether none was left."""
    lines = [json.loads(text) for text in json.loads(Path(file).read_text(encoding="utf-8"))]
    lines.sort(key=lambda line: (line["fence"], line["message"] in ENDED))
    latest = {line["token"]: line for line in lines}
    found = {token: remember(client, table, line) for token, line in latest.items()}
    for token, what in sorted(found.items(), key=lambda each: each[1].startswith("left")):
        print(token, what)
    return not any(what.startswith("left") for what in found.values())


if __name__ == "__main__":
    sys.exit(0 if main(boto3.client("dynamodb"), *sys.argv[1:]) else 1)
