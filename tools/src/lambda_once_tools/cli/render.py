"""
Output of commands: data on standard output as a table, JSON or JSON lines; messages on standard error.

Keys, errors and names come from clients. So all text that reaches a terminal is escaped in this module: by
`styled` and `Paragraph`, from which all tables are drawn, by `Output.say`, or as JSON in ASCII.
"""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Decision, Record, State
from lambda_once.core.results import Inline, Parts, Unavailable, is_sealed, utf8
from lambda_once.operations.listing import MOST_NAMED
from lambda_once.operations.story import function_of, log_queries, next_steps, outlook, story, undoing
from lambda_once.operations.times import duration_text, time_of_ttl, time_text
from lambda_once.operations.tokens import STATUS, Status, TokenName, parts_of, token_status
from lambda_once.stores.row import Entry, parse_stamp, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

    from lambda_once.errors import Misconfigured

    Row = Mapping[str, Any]
    Cells = Mapping[str, tuple[str, str]]
    Part = str | tuple[str, str]

FORMATS: Final = ("table", "json", "jsonl")
UNBROKEN = 10_000
"""Columns without a terminal: a row is one line, for grep and awk."""
NARROWEST = 20
"""Columns that a paragraph has at least, beside its label."""
WIDEST_LABEL = 24
_NOT_JSON: Final = re.compile(r"[^\t\n\x20-\x7e]")
"""What JSON in ASCII does not have; a carriage return it may have, and a terminal goes back by it."""


class Output:
    """The output of one command in one of the `FORMATS`; JSON is ASCII."""

    def __init__(self, form: str) -> None:
        self.form = form

    @property
    def is_table(self) -> bool:
        return self.form == "table"

    def rows(
        self, rows: Iterable[Row], render: Callable[[Sequence[Row], int], RenderableType] | None = None
    ) -> None:
        """
        Print *rows* of JSON values.

        As jsonl each as it comes; at the end as one JSON list, or as *render* makes of them for so many
        columns.
        """
        if self.form == "jsonl":
            for row in rows:
                click.echo(json.dumps(row))  # ASCII by default
            return
        complete = list(rows)
        if self.form == "json":
            click.echo(json.dumps(complete, indent=2))
        elif complete and render is not None:
            self.draw(render(complete, console().width))

    def one(self, value: Row, rendered: RenderableType) -> None:
        """Print *value* as JSON, or *rendered* as a table."""
        if self.is_table:
            self.draw(rendered)
        else:
            click.echo(json.dumps(value, indent=2 if self.form == "json" else None))

    def stored(self, result: str) -> None:
        """Print the JSON text of a stored result."""
        click.echo(ascii_json(result))

    def draw(self, rendered: RenderableType, *, err: bool = False) -> None:
        """Print on the terminal; without one, as plain lines without trailing blanks."""
        screen = console(err=err)
        if screen.is_terminal:
            screen.print(rendered, crop=False)  # long tokens are wrapped by the terminal, not by rich
            return
        with screen.capture() as captured:
            screen.print(rendered, crop=False)
        click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()), err=err)

    def show(self, rendered: RenderableType) -> None:
        """Print text for the operator, on standard error if the data is JSON."""
        self.draw(rendered, err=not self.is_table)

    def say(self, message: str) -> None:
        """Print a message of one line on standard error."""
        click.echo(escaped(message), err=True)

    @contextmanager
    def naming_malformed(self) -> Iterator[list[Misconfigured]]:
        """
        Return a list for the errors of rows that cannot be read.

        They are named at the end, on standard error, and the exit code is 2: all others were printed.
        """
        malformed: list[Misconfigured] = []
        try:
            yield malformed
        except click.exceptions.Exit:
            if not malformed:
                raise
        if malformed:
            self.say_malformed(malformed)
            raise click.exceptions.Exit(2)

    def say_malformed(self, malformed: Sequence[Misconfigured]) -> None:
        """Name rows that cannot be read, on standard error."""
        for each in malformed[:MOST_NAMED]:
            self.say(f"not readable: {each}")
        if len(malformed) > MOST_NAMED:
            self.say(f"not readable: {len(malformed) - MOST_NAMED:,} more")


def discard_output() -> None:
    """Discard what Python still flushes at its exit."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a test's, which is not a file
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def console(*, err: bool = False) -> Console:
    """Return the console of an output: as wide as the terminal; plain, unbroken lines without one."""
    from rich.console import Console

    found = Console(stderr=err, highlight=False, emoji=False)
    return found if found.is_terminal else Console(stderr=err, highlight=False, emoji=False, width=UNBROKEN)


def ascii_json(text: str) -> str:
    """Return the JSON *text* in ASCII: other characters are in strings alone, where JSON has escapes."""
    return _NOT_JSON.sub(lambda found: json.dumps(found[0])[1:-1], text.replace("\r", "\n"))


def escaped(text: str) -> str:
    """Return *text* with escapes for characters that a terminal interprets, line breaks included."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def numbered(count: int, noun: str) -> str:
    """Return *count* and its noun: ``1 page``, ``2 pages``."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# -- what is drawn


def styled(*parts: Part) -> Text:
    """Return *parts*, each plain or with its style, escaped."""
    from rich.text import Text

    pairs = (part if isinstance(part, tuple) else (part, "") for part in parts)
    return Text.assemble(*((escaped(content), style) for content, style in pairs))


def line(*parts: Part) -> Text:
    """Return *parts* as one line, which the terminal wraps: it copies it as one."""
    found = styled(*parts)
    found.no_wrap, found.overflow = True, "ignore"
    return found


@dataclass(frozen=True, slots=True)
class Paragraph:
    """
    Text under a hanging indent with a label in it, wrapped between words.

    A word that has no room, such as a token, is left to the terminal, which copies it whole.
    """

    content: str
    style: str = ""
    label: str = ""
    indent: int = 0

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        del console
        label = styled((self.label, "dim"))
        beside = self.indent - label.cell_len
        if beside < 1 and self.label:
            yield line((self.label, "dim"))
            label, beside = styled(), self.indent
        room = max(options.max_width - self.indent, NARROWEST)
        lines = wrap(escaped(self.content), room, break_long_words=False, break_on_hyphens=False)
        for each in lines or [""]:
            yield line((label.plain, "dim"), " " * beside, (each, self.style))
            label, beside = styled(), self.indent


def labelled(rows: Iterable[tuple[str, str, str]], indent: int = 0) -> RenderableType:
    """Render a label, a text and its style each, one below the other, so many blanks from the left."""
    from rich.console import Group

    blanks = " " * indent
    shown = [(f"{blanks}{label}", content, style) for label, content, style in rows]
    widest = max((styled(label).cell_len for label, _, _ in shown), default=0)
    room = min(widest, WIDEST_LABEL) + BETWEEN
    return Group(*(Paragraph(content, style, label, room) for label, content, style in shown))


# -- a row as JSON


def entry_json(entry: Entry, now: datetime, parts_present: int | None = None) -> dict[str, Any]:
    """
    Return a row as JSON values: its own names, its token's parts, ages in seconds; of its result no content.

    ``until`` is its ttl as a time. null: the row has none. A missing name: unknown, because only the index
    was read, or without the outcome.
    """
    record = entry.record
    name, status = parts_of(record.token), token_status(record, now)
    late = now - record.expected_completion if status is Status.OVERDUE else None
    row = {
        "lockToken": record.token,
        "status": status.value,
        **(dict.fromkeys(TokenName._fields) if name is None else name._asdict()),
        "lockedBy": record.locked_by,
        "attempt": record.attempt_id,
        "created": stamp(record.created),
        "expectedCompletion": stamp(record.expected_completion),
        "ageSeconds": int((now - record.created).total_seconds()),
        "overdueSeconds": None if late is None else int(late.total_seconds()),
    }
    if not entry.is_whole:
        return row
    until = None if record.ttl is None else stamp(time_of_ttl(record.ttl))
    decisions = [_decision(each, record) for each in record.decisions]
    row |= {**shown(record), "until": until, "decisions": decisions}
    if record.omits_outcome:
        return row
    error = record.error
    return row | {
        "error": None if error is None else {"kind": error.kind, "message": error.message},
        "result": _result(record, parts_present),
    }


def record_json(record: Record, now: datetime, parts_present: int | None = None) -> dict[str, Any]:
    """Return *record*, a whole row, as `entry_json` does."""
    return entry_json(Entry(record), now, parts_present)


def _decision(decision: Decision, record: Record) -> dict[str, Any]:
    return {
        "at": stamp(decision.at),
        "kind": decision.kind.value,
        "by": decision.by,
        "caller": decision.caller,
        "because": decision.because,
        "before": STATUS[decision.before].value,
        "decision": decision.how.value,
        "attempt": decision.attempt_id,
        "times": decision.times,
        "stands": decision is record.standing,
    }


def _result(record: Record, parts_present: int | None) -> dict[str, Any] | None:
    match record.stored:
        case Inline(str(data)):
            return {"kind": "text", "bytes": len(utf8(data))}
        case Inline(data):
            return {"kind": "sealed" if is_sealed(data) else "compressed", "bytes": len(data)}
        case Parts(count):
            return {"kind": "parts", "parts": count, "there": parts_present}
        case Unavailable():
            return {"kind": record.stored.value}
        case _:
            return {"kind": "null"} if record.state is State.COMPLETE and record.error is None else None


# -- lists of tokens

HEADS: Final = ("state", "token", "since", "age", "locked by", "expected", "reason", "kept until", "decided")
WIDE: Final = frozenset({"locked by", "expected"})
"""Columns that are shown only if asked for."""
LEAST: Final = {"reason": 24, "decided": 24}
"""Columns that may be wrapped, and the width that they need; all others are never broken."""
BETWEEN: Final = 2
"""Blanks between two columns."""
COLOURS: Final = {"overdue": "bold red", "held": "yellow", "inProgress": "cyan", "complete": "green"}


def tokens_at(now: datetime, *, wide: bool = False) -> Callable[[Sequence[Row], int], RenderableType]:
    """
    Return what renders rows of `entry_json` for a number of columns, those of `WIDE` only if *wide*.

    A token is never broken: it is pasted into the next command. On a narrow terminal each row takes several
    lines.
    """

    def rendered(rows: Sequence[Row], width: int) -> RenderableType:
        cells = [_cells(row, now) for row in rows]
        heads = tuple(
            head for head in HEADS if (wide or head not in WIDE) and any(each[head][0] for each in cells)
        )
        return (_one_line_each if _width(heads, cells) <= width else _stacked)(heads, cells)

    return rendered


def token_list(records: Iterable[Record], now: datetime) -> RenderableType:
    """Render *records* as `list` does."""
    return tokens_at(now)([record_json(record, now) for record in records], console().width)


def _cells(row: Row, now: datetime) -> Cells:
    created, expected = parse_stamp(row["created"]), parse_stamp(row["expectedCompletion"])
    status: str = row["status"]
    # Until when a released row is kept: nothing is known of its work afterwards.
    until = row.get("until") if status == Status.RELEASED else None
    plain = {
        "token": row["lockToken"],
        "locked by": row["lockedBy"],
        "since": time_text(created, now),
        "expected": time_text(expected, now),
        "age": duration_text(now - created),
        "reason": _field_text("error", row.get("error")),
        "kept until": "" if until is None else time_text(parse_stamp(until), now),
        "decided": _field_text("decisions", row.get("decisions")),
    }
    state = (Status(status).words, COLOURS.get(status, ""))
    return {"state": state} | {head: (content, "") for head, content in plain.items()}


def _width(heads: Sequence[str], cells: Sequence[Cells]) -> int:
    columns = (max(len(head), *(styled(each[head]).cell_len for each in cells)) for head in heads)
    needed = (min(LEAST.get(head, width), width) for head, width in zip(heads, columns, strict=True))
    return sum(needed) + BETWEEN * (len(heads) - 1)


def _one_line_each(heads: Sequence[str], cells: Sequence[Cells]) -> RenderableType:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for head in heads:
        table.add_column(head, no_wrap=head not in LEAST, overflow="fold")
    for each in cells:
        table.add_row(*(styled(each[head]) for head in heads))
    return table


def _stacked(heads: Sequence[str], cells: Sequence[Cells]) -> RenderableType:
    from rich.console import Group

    lines: list[RenderableType] = []
    for each in cells:
        below = [head for head in heads if head not in ("state", "token") and each[head][0]]
        lines.append(line(each["state"], "  ", each["token"]))
        lines.append(labelled(((head, *each[head]) for head in below), BETWEEN))
    return Group(*lines)


# -- rows

FIELDS: Final = {
    "lockToken": "token",
    "status": "state",
    "lockedBy": "locked by",
    "attempt": "attempt",
    "created": "created",
    "expectedCompletion": "lease until",
    "actualCompletion": "ended",
    "error": "error",
    "result": "result",
    "decisions": "decided",
}
"""The attributes that an operator needs to resolve a row, and their labels."""


def side_by_side(rows: Mapping[str, Record | None], now: datetime) -> RenderableType:
    """Render *rows* under their headings, each field as ``one → other`` if they differ; None: no row."""
    values = [{} if row is None else record_json(row, now) for row in rows.values()]
    missing = ["no row" if row is None else "" for row in rows.values()]
    fields = {
        label: [_field_text(field, row.get(field)) for row in values] for field, label in FIELDS.items()
    }
    shown = {"": list(rows), **fields, " ": missing if any(missing) else []}
    return labelled(
        (label, cells[0] if len(set(cells)) == 1 else " → ".join(cell or "nothing" for cell in cells), "")
        for label, cells in shown.items()
        if any(cells)
    )


def _field_text(field: str, value: Any) -> str:
    match field, value:
        case _, None:
            return ""
        case "error", {"kind": kind, "message": message}:
            return f"{kind}: {message}"
        case "result", {"kind": kind, "bytes": size}:
            return f"{'JSON' if kind == 'text' else kind}, {numbered(size, 'byte')}"
        case "result", {"kind": "parts", "parts": count}:
            return f"in {numbered(count, 'part')} beside the row"
        case "result", {"kind": kind}:
            return str(kind)
        case "decisions", [*_, {"by": by, "decision": how, "because": because, "at": at, "stands": stands}]:
            earlier = "" if stands else " (an attempt has run since)"
            return f"{at} {how} by {by}: {because}{earlier}"
        case "decisions", _:
            return ""
        case _:
            return str(value)


# -- the story of one row


def story_json(record: Record, now: datetime, parts_present: int | None, log_group: str | None) -> Row:
    """Return all that ``show`` prints of a row. *log_group*: where its function logs, if known."""
    return record_json(record, now, parts_present) | {
        "outlook": outlook(record, now, parts_present),
        "story": [
            {"at": None if event.at is None else stamp(event.at), "what": event.what}
            for event in story(record, now)
        ],
        "logs": {
            name: {"function": function_of(record), "logGroup": log_group, "query": query}
            for name, query in log_queries(record).items()
        },
        "next": list(next_steps(record, now)),
        "undo": undoing(record),
    }


def story_lines(
    record: Record, now: datetime, parts_present: int | None, log_group: str | None
) -> RenderableType:
    """Render the story of a row, and the log queries."""
    from rich.console import Group

    status = token_status(record, now)
    lines: list[RenderableType] = [
        line((status.words, COLOURS.get(status, "bold")), "  ", (record.token, "bold")),
        Paragraph(outlook(record, now, parts_present)),
        "",
        labelled(_events(record, now, parts_present)),
        "",
    ]
    group = log_group or f"the log group of {function_of(record)}"
    for about, query in log_queries(record).items():
        title = "log of the request that acquired it" if about == "request" else "log of this token"
        lines += [Paragraph(f"{title}: Logs Insights on {group}"), line((f"  {query}", "cyan"))]
    return Group(*lines)


def _events(record: Record, now: datetime, parts_present: int | None) -> Iterator[tuple[str, str, str]]:
    """Yield the time, the text and the style of each event."""
    for event in story(record, now):
        time = "" if event.at is None else time_text(event.at, now)
        yield time, event.what, "dim" if event.at is not None and event.at > now else ""
    if parts_present is not None and isinstance(record.stored, Parts):
        yield "", f"{parts_present} of {record.stored.count} parts present", ""
