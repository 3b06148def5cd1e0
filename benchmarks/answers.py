"""
The answers of a table to the handlers of `sides`, from rows that a real engine stored.

An acquisition of a key that has a row is refused with that row, and every other write succeeds. Conditions
are not evaluated: no lease lapses here and no attempt is fenced.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row = dict[str, Any]

KEYS = ("lockToken", "id")
_KEY = re.compile(rb'"(?:lockToken|id)": ?{"S": ?"([^"]*)"')
_SET = re.compile(r"([#\w]+) = (:\w+)(?=,|$)")
"""What an update expression sets to a value, and the value's placeholder."""
_REQUESTS = itertools.count()
"""An id is never sent twice: crt's client takes a second answer of one id for a lost one."""
REFUSED = "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"


class Answers:
    """Answers requests in DynamoDB's JSON protocol, given the *rows* that the table has."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self._rows = {key_of(row): row for row in rows}
        self._refusals = {key.encode(): _refusal(row) for key, row in self._rows.items()}

    def to(self, operation: str, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer to *operation*."""
        match operation:
            case "PutItem" | "UpdateItem":
                key = _KEY.search(body) if b"attribute_not_exists" in body else None
                refusal = None if key is None else self._refusals.get(key[1])
                return (200, _granted(body)) if refusal is None else (400, refusal)
            case "BatchExecuteStatement":
                statements = json.loads(body)["Statements"]
                return 200, encoded({"Responses": [self._executed(one) for one in statements]})
            case "BatchGetItem":
                wanted = json.loads(body)["RequestItems"].items()
                found = {table: self._found(keys["Keys"]) for table, keys in wanted}
                return 200, encoded({"Responses": found, "UnprocessedKeys": {}})
            case _:
                return 200, b"{}"

    def _executed(self, statement: Mapping[str, Any]) -> Mapping[str, Any]:
        taken = (
            statement["Statement"].startswith("INSERT") and statement["Parameters"][0]["S"] not in self._rows
        )
        if taken or not statement["Statement"].startswith("INSERT"):
            return {}
        return {"Error": {"Code": "DuplicateItem", "Message": "Duplicate primary key exists in table"}}

    def _found(self, keys: Iterable[Row]) -> list[Row]:
        return [self._rows[key_of(key)] for key in keys if key_of(key) in self._rows]


def _granted(body: bytes) -> bytes:
    """Return the answer to a write: with ALL_NEW the row."""
    if b"ALL_NEW" not in body:
        return b"{}"
    request = json.loads(body)
    names, values = request["ExpressionAttributeNames"], request["ExpressionAttributeValues"]
    update = request["UpdateExpression"].partition(" REMOVE ")[0].removeprefix("SET ")
    found = {names.get(name, name): values[place] for name, place in _SET.findall(update)}
    made = {"fence": values.get(":epoch_ms"), "generation": values[":attempt"]}  # where they are computed
    return encoded({"Attributes": {**request["Key"], **made, **found}})


def headers_of(body: bytes) -> dict[str, str]:
    """Return the headers of DynamoDB's answer *body* that clients look at; names in lower case."""
    return {
        "content-type": "application/x-amz-json-1.0",
        "content-length": str(len(body)),
        "x-amzn-requestid": f"{next(_REQUESTS):052}",
        "x-amz-crc32": str(crc32(body)),
    }


def key_of(row: Row) -> str:
    """Return the key of *row*, in the table of either side."""
    key: str = next(row[name]["S"] for name in KEYS if name in row)
    return key


def _refusal(row: Row) -> bytes:
    return encoded({"__type": REFUSED, "message": "The conditional request failed", "Item": row})


def encoded(answer: object) -> bytes:
    """Return *answer* as JSON; bytes, as botocore gives them, in base64, as they came."""
    return json.dumps(answer, separators=(",", ":"), default=_in_base64).encode()


def _in_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
