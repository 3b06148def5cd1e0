"""One row as ``show`` tells it: a story for a person, the row's own names for a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.cli.tokens_shown import COLOURS, WORDS
from lambda_once.core.clock import stamp
from lambda_once.core.record import State
from lambda_once.core.results import Inline, Parts, Unavailable, utf8
from lambda_once.operations.entries import read
from lambda_once.operations.spans import moment
from lambda_once.operations.story import function_of, log_queries, next_steps, outlook, story

if TYPE_CHECKING:
    from datetime import datetime

    from rich.console import RenderableType

    from lambda_once.core.record import Record


class Seen(NamedTuple):
    """A row, when it was read, and how many parts of its result are there; None: it has none."""

    record: Record
    now: datetime
    parts_there: int | None
    log_group: str | None = None
    """Where its function logs, as the operator said; None: nobody did, and the row does not know."""


def told(seen: Seen) -> dict[str, Any]:
    """Return all that is known of a row, without its result."""
    record, now = seen.record, seen.now
    error, note = record.error, record.resolution
    return read(record, now).row(now) | {
        "fence": record.fence,
        "delivery": record.delivery,
        "fingerprint": record.fingerprint,
        "ttl": record.ttl,
        "error": None if error is None else {"kind": error.kind, "message": error.message},
        "result": _result(seen),
        "resolution": None
        if note is None
        else {"by": note.by, "because": note.because, "at": stamp(note.at), "times": note.times},
        "outlook": outlook(record, now),
        "story": [
            {"at": None if event.at is None else stamp(event.at), "what": event.what}
            for event in story(record, now)
        ],
        "logs": {
            name: {"function": function_of(record), "logGroup": seen.log_group, "query": query}
            for name, query in log_queries(record).items()
        },
        "next": list(next_steps(record, now)),
    }


def _result(seen: Seen) -> dict[str, Any] | None:
    record = seen.record
    match record.stored:
        case Inline(str(data)):
            return {"kind": "text", "bytes": len(utf8(data))}
        case Inline(data):
            return {"kind": "compressed", "bytes": len(data)}
        case Parts(count):
            return {"kind": "parts", "parts": count, "there": seen.parts_there}
        case Unavailable():
            return {"kind": "unavailable"}
        case _:
            return {"kind": "null"} if record.state is State.COMPLETE and record.error is None else None


def drawn(seen: Seen) -> RenderableType:
    """Draw the story, and the queries that tell the rest of it."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    record, now = seen.record, seen.now
    status = read(record, now).status.value
    head = Text.assemble(
        (WORDS.get(status, status), COLOURS.get(status, "bold")), "  ", (record.token, "bold")
    )
    events = Table(box=None, pad_edge=False, show_header=False)
    events.add_column(no_wrap=True, style="dim")
    events.add_column(overflow="fold")
    for event in story(record, now):
        later = event.at is not None and event.at > now
        events.add_row(
            "" if event.at is None else moment(event.at, now), Text(event.what, style="dim" if later else "")
        )
    if seen.parts_there is not None and isinstance(record.stored, Parts):
        events.add_row("", f"{seen.parts_there} of {record.stored.count} parts there")
    lines: list[RenderableType] = [head, Text(outlook(record, now)), "", events, ""]
    group = seen.log_group or f"the log group of {function_of(record)}"
    for about, query in log_queries(record).items():
        title = "the request that had it" if about == "request" else "all that was logged of this token"
        lines.append(Text(f"{title}: Logs Insights on {group}"))
        # Not broken by us: what is pasted must be whole.
        lines.append(Padding(Text(query, style="cyan", no_wrap=True, overflow="ignore"), (0, 0, 0, 2)))
    return Group(*lines)
