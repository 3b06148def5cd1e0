"""Tokens by a text in their key or scope: a parallel Scan of the whole table, bounded, and its cost."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from lambda_once.core.canonical import NotCanonical, digest
from lambda_once.core.keys import is_nothing
from lambda_once.core.keys import token as token_of
from lambda_once.dynamodb.errors import Caught, is_denied
from lambda_once.errors import Misconfigured
from lambda_once.operations.names import parts_of
from lambda_once.stores.rows import Item, record_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lambda_once.core.record import Record
    from lambda_once.operations.names import TokenName
    from lambda_once.operations.table import TokenTable

SCANNED_BYTES_A_UNIT = 8_192
"""Half a read unit for 4 KB, eventually consistent (DynamoDB developer guide, capacity consumption)."""

PAGE_BYTES = 1_048_576
"""What one Scan request reads at most, before its filter (DynamoDB: 1 MB)."""

_SHOWN = (
    "lockToken, attempt, fence, lockedBy, created, expectedCompletion, actualCompletion, "
    "#status, #ttl, #error"
)
_NAMES = {"#status": "status", "#ttl": "ttl", "#error": "error"}
LONG = 3_600.0


class Sought(NamedTuple):
    """What to look for in keys."""

    text: str
    ignore_case: bool
    digests: frozenset[str]
    """What stands for a key that is exactly this text, or the JSON value it writes, where it was hashed."""
    keys: frozenset[str] | None = None
    """The keys that are wanted whole; None: every key and scope that contains the text."""

    def matches(self, name: TokenName) -> bool:
        if self.keys is not None:
            return name.key in self.keys
        if name.key in self.digests:
            return True
        places = (name.key, name.scope or "")
        if self.ignore_case:
            return any(self.text.casefold() in place.casefold() for place in places)
        return any(self.text in place for place in places)

    @property
    def encoded(self) -> tuple[str, ...]:
        """What the tokens that are wanted contain, as they stand: percent-encoded."""
        if self.keys is not None:
            return tuple(f"/{encoded(key)}" for key in sorted(self.keys))
        return (encoded(self.text), *sorted(self.digests))


class Size(NamedTuple):
    """A table as DescribeTable has it; DynamoDB brings it up to date about every six hours."""

    rows: int
    size: int

    @property
    def units(self) -> int:
        """Read units that a Scan of all of it costs."""
        return -(-self.size // SCANNED_BYTES_A_UNIT)

    @property
    def pages(self) -> int:
        return -(-self.size // PAGE_BYTES)


class Found(NamedTuple):
    """What one round of pages brought."""

    records: tuple[Record, ...]
    foreign: int
    """Rows with a fitting key that are none of this package's."""
    pages: int
    units: float
    whole: bool
    """Whether there is nothing left to read."""


def sought(typed: str, *, ignore_case: bool = False) -> Sought:
    return Sought(typed, ignore_case, digests_of(typed))


def exactly(typed: str) -> Sought:
    """Return what looks for the key *typed*, whatever it is: text, a number or JSON."""
    return Sought(typed, ignore_case=False, digests=frozenset(), keys=keys_of(typed))


def keys_of(typed: str) -> frozenset[str]:
    """
    Return the keys as which *typed* may stand in a token, decoded.

    As text, as the number or JSON that it writes, and as the SHA-256 of either: whole numbers were hashed
    before 0.2. Raises `KeyMissing` for one that can be no key.
    """
    parts = (token_of("service", "name", None, value).rpartition("/")[2] for value in _values(typed))
    return frozenset(map(unquote, parts)) | digests_of(typed)


def digests_of(typed: str) -> frozenset[str]:
    """Return how a key that is *typed*, or the number or JSON that it writes, stands where it was hashed."""
    return frozenset(map(digest, _values(typed)))


def _values(typed: str) -> list[object]:
    """Return *typed*, and the value that it writes where it is JSON that can be a key."""
    try:
        value = json.loads(typed, parse_float=Decimal)
        digest(value)
    except (ValueError, ArithmeticError, NotCanonical, RecursionError):
        return [typed]
    return [typed] if is_nothing(value) else [typed, value]


def encoded(part: str) -> str:
    """Return *part* as it stands in a token."""
    return quote(part, safe="", errors="surrogatepass")


def size_of(table: TokenTable) -> Size | None:
    """Ask how large the table is; None where that is not permitted. Raises as `TokenTransport.asked`."""
    try:
        described = table.transport.asked("describe_table", {"TableName": table.name}, table.deadline(), None)
    except Misconfigured as wrong:
        if isinstance(wrong.__cause__, Caught) and is_denied(wrong.__cause__):
            return None
        raise
    return Size(described["Table"]["ItemCount"], described["Table"]["TableSizeBytes"])


def scan(table: str, what: Sought, segment: int, segments: int, start: Item | None) -> dict[str, Any]:
    """Return the Scan of one page. Keys stand percent-encoded; without regard to case nothing is filtered."""
    request: dict[str, Any] = {
        "TableName": table,
        "Segment": segment,
        "TotalSegments": segments,
        "ProjectionExpression": _SHOWN,
        "ExpressionAttributeNames": _NAMES,
        "ReturnConsumedCapacity": "TOTAL",
    }
    if start is not None:
        request["ExclusiveStartKey"] = start
    if what.ignore_case:
        return request
    values = {f":wanted{number}": text(each) for number, each in enumerate(what.encoded)}
    return request | {
        "FilterExpression": " OR ".join(f"contains(lockToken, {name})" for name in values),
        "ExpressionAttributeValues": values,
    }


def rounds(table: TokenTable, what: Sought, segments: int, most_pages: int) -> Iterator[Found]:
    """
    Read one page of every segment at once, again and again, until all or *most_pages* are read.

    Raises `StoreUnavailable` and `Misconfigured`.
    """
    deadline = table.deadline(LONG)
    open_: dict[int, Item | None] = dict.fromkeys(range(segments))

    def page(segment: int) -> Any:
        request = scan(table.name, what, segment, segments, open_[segment])
        return table.transport.asked("scan", request, deadline, None)

    while open_ and most_pages > 0:
        asked = list(open_)[:most_pages]
        pages = table.transport.each(asked, page)
        most_pages -= len(pages)
        for segment, answer in zip(asked, pages, strict=True):
            del open_[segment]
            if "LastEvaluatedKey" in answer:
                open_[segment] = answer["LastEvaluatedKey"]
        yield _found(pages, what, whole=not open_)


def _found(pages: list[Any], what: Sought, *, whole: bool) -> Found:
    records, foreign = [], 0
    for item in (item for page in pages for item in page["Items"]):
        parts = parts_of(item["lockToken"]["S"]) if "lockToken" in item else None
        if parts is None or not what.matches(parts):
            continue
        try:
            records.append(record_of(item))
        except Misconfigured:
            foreign += 1
    units = sum(page.get("ConsumedCapacity", {}).get("CapacityUnits", 0.0) for page in pages)
    return Found(tuple(records), foreign, len(pages), units, whole)
