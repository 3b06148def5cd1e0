"""
Whether the list of unfinished tokens has what was lost.

Where acquisitions list their work at once, it has. In stream mode the list is as good as the watchdog's last
reading of the table's stream, so whoever asks for the list learns when nobody has read it: an empty list that
nobody wrote is no answer.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.variables import Listing
from lambda_once.errors import Misconfigured
from lambda_once.operations.table import was_denied
from lambda_once.operations.times import time_text
from lambda_once.stores.row import TOKEN, Item, parse_stamp
from lambda_once.stores.transport import projection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lambda_once.operations.table import TokenTable

STALE: Final = timedelta(minutes=15)
"""Three runs of the watchdog."""
BEHIND: Final = timedelta(hours=1)
"""As the alarm WatchdogLagging has it. A position waits for a lease of 15 minutes, where many are kept."""
NEVER: Final = datetime.min.replace(tzinfo=UTC)
VARIABLE: Final = "LAMBDA_ONCE_LISTING"
CHECKPOINT_ROW: Final = "watchdog#stream"
READ: Final = (TOKEN, "stream", "read", "upTo", "scan")
"""What of a checkpoint says how good the list is: TokenListing in tokens.yaml allows no more."""
_SCAN: Final = "--scan reads the table"
_LEFT: Final = (
    f"the table was in stream mode, and the watchdog has not scanned it since for lost work: {_SCAN}"
)
_OR: Final = f"{_SCAN}; if your functions list at once, set {VARIABLE}=at_once"


class ListState(NamedTuple):
    """How work comes onto the list, and what is wrong with that."""

    by_stream: bool
    doubt: str | None = None
    """Why lost work may be missing, and what to do; None: it is not."""


class LastReading(NamedTuple):
    """The watchdog's last reading of a stream."""

    stream: str
    """Its ARN."""
    at: datetime
    up_to: datetime
    """The time up to which all of the stream is read."""
    in_gap: bool
    """Whether records are missing, and the table is being scanned for them."""


def list_state(table: TokenTable) -> ListState:
    """
    Return the state of *table*'s list, by DescribeTable and the watchdog's checkpoint.

    Under LAMBDA_ONCE_LISTING=at_once the stream is another program's, and a checkpoint is one that the
    watchdog has not ended yet. Raises `StoreUnavailable` and `Misconfigured`.
    """
    reading = _reading(table)
    if table.listing is Listing.AT_ONCE:
        return ListState(by_stream=False, doubt=None if reading is None else _LEFT)
    now = table.now()
    try:
        described = table.transport.asked("describe_table", {"TableName": table.name}, table.deadline(), None)
    except Misconfigured as error:
        if not was_denied(error):
            raise
        return ListState(
            by_stream=True,
            doubt=f"dynamodb:DescribeTable is denied, so whether a watchdog reads the stream of "
            f"{table.name} is unknown: {_OR}",
        )
    return judged(stream_of(described["Table"]), reading, now, told=table.listing is Listing.STREAM)


def judged(stream: str | None, reading: LastReading | None, now: datetime, *, told: bool) -> ListState:
    """
    Return the state of a list, of a table with the stream *stream*, None: it has none.

    *told*: LAMBDA_ONCE_LISTING is stream. Pure.
    """
    if stream is None and reading is None and not told:
        return ListState(by_stream=False)
    if stream is None:
        doubt = f"the table's stream is off, so no watchdog reads it: {_SCAN}"
    elif reading is None:
        doubt = f"no watchdog has read this table's stream: {_OR}"
    elif reading.stream != stream:
        doubt = f"the watchdog read another stream, and not this table's: {_SCAN}"
    elif reading.in_gap:
        doubt = f"the watchdog has missed a part of this table's stream, and scans the table for it: {_SCAN}"
    elif now - reading.at > STALE:
        doubt = f"no watchdog has read this table's stream since {time_text(reading.at, now)}: {_SCAN}"
    elif now - reading.up_to > BEHIND:
        doubt = (
            f"the watchdog has read this table's stream up to {time_text(reading.up_to, now)} only: {_SCAN}"
        )
    else:
        return ListState(by_stream=True)
    return ListState(by_stream=True, doubt=doubt)


def stream_of(description: Mapping[str, Any]) -> str | None:
    """Return the ARN of the stream of DescribeTable's *description*; None if it has none that is written."""
    if not description.get("StreamSpecification", {}).get("StreamEnabled"):
        return None
    arn: str | None = description.get("LatestStreamArn")
    return arn


def _reading(table: TokenTable) -> LastReading | None:
    key = {TOKEN: {"S": CHECKPOINT_ROW}}
    request = {"TableName": table.name, "Key": key, "ConsistentRead": True, **projection(READ)}
    row: Item | None = table.transport.asked("get_item", request, table.deadline(), None).get("Item")
    return None if row is None else reading_of(row)


def reading_of(row: Item) -> LastReading | None:
    """Return what a checkpoint row says of the last reading; None if nothing is left in it."""
    if not {*row} & {*READ[1:]}:
        return None
    try:
        at, up_to = parse_stamp(row["read"]["S"]), parse_stamp(row["upTo"]["S"])
        return LastReading(row["stream"]["S"], at, up_to, in_gap="scan" in row)
    except (KeyError, TypeError, ValueError):
        return LastReading("", NEVER, NEVER, in_gap=True)
