"""
Write into a restored token table what was done since the time of its backup, as the log has it.

    python restored_table.py tokens-restored done.json

*done.json* is a list of `once.returned` lines, as text; docs/operations.md has the command that makes it.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3

from lambda_once.core.clock import SystemClock, stamp

KEEP = timedelta(days=28)
"""How long the rows are kept: at least the longest time in which a delivery can come again."""


def remember(client: Any, table: str, line: dict[str, Any], keep: timedelta = KEEP) -> bool:
    """Complete the row of one record; return False if it is complete already, or another attempt's."""
    now = SystemClock().now()
    texts = {
        ":attempt": line["attempt"],
        ":by": line["locked_by"],
        ":created": line["acquired"],
        ":lease": line["expected_completion"],
        ":now": stamp(now),
        ":work": "inProgress",
    }
    numbers = {":fence": line["fence"], ":ttl": int((now + keep).timestamp())}
    try:
        client.update_item(
            TableName=table,
            Key={"lockToken": {"S": line["token"]}},
            UpdateExpression="SET attempt = :attempt, fence = :fence, lockedBy = :by, created = :created, "
            "expectedCompletion = :lease, actualCompletion = :now, #ttl = :ttl REMOVE #status",
            ConditionExpression="attribute_not_exists(lockToken) OR "
            "(attempt = :attempt AND begins_with(#status, :work))",
            ExpressionAttributeNames={"#status": "status", "#ttl": "ttl"},
            ExpressionAttributeValues={name: {"S": text} for name, text in texts.items()}
            | {name: {"N": str(number)} for name, number in numbers.items()},
        )
    except client.exceptions.ConditionalCheckFailedException:
        return False
    return True


def main(client: Any, table: str, file: str) -> None:
    """Complete the rows of all lines of *file*, and print which were left as they are."""
    for text in json.loads(Path(file).read_text(encoding="utf-8")):
        line = json.loads(text)
        written = remember(client, table, line)
        print(line["token"], "completed" if written else "left: complete, or another attempt's")


if __name__ == "__main__":
    main(boto3.client("dynamodb"), *sys.argv[1:])
