"""``lambda-once show``: one token as a story in time."""

from __future__ import annotations

import sys
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.find_command import described, say_the_cost, say_the_price
from lambda_once.cli.row_shown import Seen, drawn, told
from lambda_once.cli.tokens_shown import drawn_at
from lambda_once.core.record import State
from lambda_once.core.results import Corrupt, Parts, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.operations.entries import STUCK, Status, read, status_of
from lambda_once.operations.lookup import (
    by_known_names,
    by_parts,
    by_reading_all,
    by_token,
    names_from,
    parts_there,
    result_text,
)
from lambda_once.operations.names import parts_of
from lambda_once.operations.searching import size_of
from lambda_once.operations.story import memory_is_short, next_steps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lambda_once.core.record import Record

LONGEST_RETENTION: Final = 14
"""Days that SQS keeps a message at most (SQS developer guide, MessageRetentionPeriod)."""


UNASKED: Final = 1_024
"""Pages that are read without --scan: 1 GB, 131,072 read units."""


class Asked(NamedTuple):
    """What was asked for, as it was typed."""

    token: str
    service: str | None
    name: str | None
    scope: str | None
    names: str
    scan: bool
    result: bool
    retention: int
    log_group: str | None


@click.command("show")
@click.argument("token")
@click.option(
    "--service", metavar="NAME", envvar="POWERTOOLS_SERVICE_NAME", help="With --name: TOKEN is a key."
)
@click.option("--name", metavar="NAME", help="The protected function: TOKEN is a key of it.")
@click.option("--scope", metavar="TEXT", help="With --name: the scope of the key.")
@click.option(
    "--names",
    metavar="LIST",
    default="",
    envvar="LAMBDA_ONCE_NAMES",
    show_envvar=True,
    help="service/name of your functions, with commas: a key is asked for under these first.",
)
@click.option("--scan", is_flag=True, help="Look for a key in the whole table, also beyond 1 GB.")
@click.option("--result", is_flag=True, help="Print the stored result, as JSON, and nothing else.")
@click.option(
    "--retention",
    type=click.IntRange(0),
    default=LONGEST_RETENTION,
    show_default=True,
    metavar="DAYS",
    help="How long your queues keep messages: warn of outcomes that are kept for less. 0: do not.",
)
@click.option(
    "--log-group",
    metavar="NAME",
    envvar="LAMBDA_ONCE_LOG_GROUP",
    show_envvar=True,
    help="Where your functions log, to be named with the queries.",
)
@with_table
def command(access: Access, **options: Any) -> None:
    """
    Show one token: who had it, what came of it, what a duplicate gets, and what to ask the logs.

    TOKEN is a lock token; with --service and --name, a key of that function; else a key. A key is asked for
    under the names that are known (--names, and those of what is unfinished), then looked for in the whole
    table, which says what it costs, and needs --scan beyond 1 GB. Where several functions have it, they are
    listed.

    Exit code: 0 all is well, 1 it is overdue, held, or its result is not to be had, 2 no such token, several,
    bad input or no table.
    """
    asked = Asked(**options)
    if asked.token == "":
        raise click.UsageError("TOKEN is empty: give a lock token or a key")
    if asked.name is not None and asked.service is None:
        raise click.UsageError("--name needs --service, or POWERTOOLS_SERVICE_NAME")
    if asked.name is None and asked.scope is not None:
        raise click.UsageError("--scope goes with --service and --name")
    record = _of_function(access, asked) or by_token(access.table, asked.token) or _by_key(access, asked)
    if asked.result:
        _print_result(access, record)
    else:
        _show(access, record, asked)


def _of_function(access: Access, asked: Asked) -> Record | None:
    """Return the row of a key of the function that was named; None: none was. Raises where it has no such."""
    if asked.name is None or asked.service is None:
        return None
    record = by_parts(access.table, asked.service, asked.name, asked.scope, asked.token)
    if record is None:
        where = f"{asked.service}/{asked.name}" + ("" if asked.scope is None else f" in scope {asked.scope}")
        raise Misconfigured(
            f"{where} has no key {asked.token} in the table {access.table.name}: "
            f"lambda-once find {quote(asked.token)} looks under all names and scopes"
        )
    return record


def _by_key(access: Access, asked: Asked) -> Record:
    """Return the one row of a key; where there are several, list them, and end."""
    table, key = access.table, asked.token
    known = by_known_names(table, key, names_from(asked.names), table.now())
    records = known.records or _in_the_whole_table(access, key, scan=asked.scan)
    if not records:
        alike = f"; unfinished and alike: {', '.join(entry.token for entry in known.alike)}"
        raise Misconfigured(
            f"there is no token and no key {key} in the table {table.name}{alike if known.alike else ''}. "
            f"Parts of a key: lambda-once find {quote(_text_of(key))}"
        )
    if len(records) > 1:
        _list(access, records, asked)
    if known.records:
        access.output.say("found under the names that are known here; lambda-once find looks under all")
    return records[0]


def _text_of(key: str) -> str:
    """Return what to look for where *key* is not there: the key in it, if it was meant as a token."""
    name = parts_of(key)
    return key if name is None else name.key


def _in_the_whole_table(access: Access, key: str, *, scan: bool) -> tuple[Record, ...]:
    table, size = access.table, size_of(access.table)
    if size is not None and size.pages > UNASKED and not scan:
        raise click.UsageError(
            f"no name that is known here has the key {key}, and the table has {described(size)}: give "
            "--service and --name, LAMBDA_ONCE_NAMES, or --scan to read all of it"
        )
    most = sys.maxsize if scan else UNASKED
    say_the_price(access, size, most)
    rounds = list(by_reading_all(table, key, most))
    say_the_cost(access, sum(one.pages for one in rounds), sum(one.units for one in rounds))
    if not rounds[-1].whole:
        access.output.say("not all was read: give --scan")
    found = (table.read(record.token) for one in rounds for record in one.records)
    return tuple(record for record in found if record is not None)


def _list(access: Access, records: Sequence[Record], asked: Asked) -> Never:
    tokens = ", ".join(record.token for record in records)
    if asked.result:
        raise click.UsageError(
            f"{len(records)} tokens have the key {asked.token}, give one of them: {tokens}"
        )
    now = access.table.now()
    access.output.rows((read(record, now).row(now) for record in records), drawn_at(now))
    access.output.say(f"{len(records)} tokens have the key {asked.token}; next: lambda-once show TOKEN")
    raise click.exceptions.Exit(2)


def _show(access: Access, record: Record, asked: Asked) -> None:
    now, output = access.table.now(), access.output
    there = parts_there(access.table, record)
    seen = Seen(record, now, there, asked.log_group)
    output.one(told(seen), drawn(seen) if output.is_table else "")
    short = memory_is_short(record, timedelta(days=asked.retention))
    if short is not None:
        output.say(f"WARNING: {short}")
    missing = isinstance(record.stored, Parts) and there != record.stored.count
    if missing:
        output.say("WARNING: parts of its result are missing: a duplicate gets ResultUnavailable")
    for step in next_steps(record, now):
        output.say(f"next: {step}")
    if missing or status_of(record, now) in STUCK or isinstance(record.stored, Unavailable):
        raise click.exceptions.Exit(1)


def _print_result(access: Access, record: Record) -> None:
    status = status_of(record, access.table.now())
    if record.state is not State.COMPLETE:
        _no_result(access, f"it is {'in progress' if status is Status.IN_PROGRESS else status.value}")
    if record.error is not None:
        _no_result(access, "its error was stored, not a result")
    if isinstance(record.stored, Unavailable):
        _no_result(access, "it could not be kept when the work was done")
    try:
        text = result_text(access.table, record)
    except Corrupt as corrupt:
        _no_result(access, str(corrupt))
    if text is None:
        _no_result(access, "parts of it are missing")
    click.echo(text)


def _no_result(access: Access, why: str) -> Never:
    access.output.say(f"there is no result: {why}")
    raise click.exceptions.Exit(1)
