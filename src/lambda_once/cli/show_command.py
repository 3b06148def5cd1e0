"""``lambda-once show``: the story of one token."""

from __future__ import annotations

import sys
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never

import click

from lambda_once.cli.find_command import announce_scan, describe_size, report_scan
from lambda_once.cli.options import Access, with_table
from lambda_once.cli.render import ascii_json, story_json, story_lines, tokens_at
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Corrupt, Parts, Sealed, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.operations.forgetting import is_forgotten
from lambda_once.operations.resolution import LONGEST_RETENTION_DAYS
from lambda_once.operations.search import (
    by_known_names,
    by_parts,
    by_token,
    exactly,
    names_from,
    parts_present,
    result_text,
    scan,
    table_size,
)
from lambda_once.operations.story import next_steps, short_memory
from lambda_once.operations.tokens import STUCK, Entry, Status, parts_of, token_status

if TYPE_CHECKING:
    from collections.abc import Sequence


MOST_PAGES: Final = 1_024
"""Pages that are read without --scan: 1 GB, 131,072 read units."""


class ShowOptions(NamedTuple):
    """The arguments as they were typed."""

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
    help="service/name of your functions, comma-separated: a key is looked up under these first.",
)
@click.option("--scan", is_flag=True, help="Look for a key in the whole table, even beyond 1 GB.")
@click.option("--result", is_flag=True, help="Print the stored result, as JSON, and nothing else.")
@click.option(
    "--retention",
    type=click.IntRange(0),
    default=LONGEST_RETENTION_DAYS,
    show_default=True,
    metavar="DAYS",
    help="How long your queues keep messages; warns of outcomes that are kept for less. 0: no warning.",
)
@click.option(
    "--log-group",
    metavar="NAME",
    envvar="LAMBDA_ONCE_LOG_GROUP",
    show_envvar=True,
    help="The log group of your functions, printed with the queries.",
)
@with_table
def command(access: Access, **options: Any) -> None:
    """
    Show one token: who acquired it, its outcome, what a duplicate gets, and queries for its log.

    TOKEN is a lock token; with --service and --name, a key of that function; otherwise a key. A key is looked
    up under the known names (--names, and those of unfinished tokens), then in the whole table: the cost is
    printed, and beyond 1 GB --scan is required. If several functions have the key, they are listed.

    Exit code: 0 success; 1 the token is overdue, held, or its result is missing; 2 no such token, several,
    bad input or no table.
    """
    given = ShowOptions(**options)
    if given.token == "":
        raise click.UsageError("TOKEN is empty: pass a lock token or a key")
    if given.name is not None and given.service is None:
        raise click.UsageError("--name requires --service or POWERTOOLS_SERVICE_NAME")
    if given.name is None and given.scope is not None:
        raise click.UsageError("--scope requires --service and --name")
    record = _of_function(access, given) or by_token(access.table, given.token) or _by_key(access, given)
    if given.result:
        _print_result(access, record)
    else:
        _show(access, record, given)


def _of_function(access: Access, given: ShowOptions) -> Record | None:
    """Return the row of a key of the named function; None if no function was named. Raises if it has none."""
    if given.name is None or given.service is None:
        return None
    record = by_parts(access.table, given.service, given.name, given.scope, given.token)
    if record is None:
        where = f"{given.service}/{given.name}" + ("" if given.scope is None else f" in scope {given.scope}")
        raise Misconfigured(
            f"{where} has no key {given.token} in the table {access.table.name}: "
            f"lambda-once find {quote(given.token)} searches all names and scopes"
        )
    return record


def _by_key(access: Access, given: ShowOptions) -> Record:
    """Return the only row of a key; if there are several, list them and exit."""
    table, key = access.table, given.token
    known = by_known_names(table, key, names_from(given.names), table.now())
    records = known.records or _in_the_whole_table(access, key, force=given.scan)
    if not records:
        similar = f"; unfinished and similar: {', '.join(entry.token for entry in known.similar)}"
        name = parts_of(key)
        raise Misconfigured(
            f"no token and no key {key} in the table {table.name}{similar if known.similar else ''}. "
            f"To search by a part: lambda-once find {quote(key if name is None else name.key)}"
        )
    if len(records) > 1:
        _list(access, records, given)
    if known.records:
        access.output.say("found under the known names; lambda-once find searches all")
    return records[0]


def _in_the_whole_table(access: Access, key: str, *, force: bool) -> tuple[Record, ...]:
    table, size = access.table, table_size(access.table)
    if size is not None and size.pages > MOST_PAGES and not force:
        raise click.UsageError(
            f"no known name has the key {key}, and the table has {describe_size(size)}: pass "
            "--service and --name, LAMBDA_ONCE_NAMES, or --scan to read all of it"
        )
    most = sys.maxsize if force else MOST_PAGES
    announce_scan(access, size, most)
    scanned = list(scan(table, exactly(key), most))
    report_scan(access, sum(each.pages for each in scanned), sum(each.units for each in scanned))
    if not scanned[-1].complete:
        access.output.say("the table was not read to its end: pass --scan")
    found = (table.read(record.token) for each in scanned for record in each.records)
    return tuple(record for record in found if record is not None)


def _list(access: Access, records: Sequence[Record], given: ShowOptions) -> Never:
    if given.result:
        tokens = ", ".join(record.token for record in records)
        raise click.UsageError(
            f"{len(records)} tokens have the key {given.token}, pass one of them: {tokens}"
        )
    now = access.table.now()
    access.output.rows((Entry.of_row(record, now).row(now) for record in records), tokens_at(now))
    access.output.say(f"{len(records)} tokens have the key {given.token}; next: lambda-once show TOKEN")
    raise click.exceptions.Exit(2)


def _show(access: Access, record: Record, given: ShowOptions) -> None:
    now, output = access.table.now(), access.output
    present = parts_present(access.table, record)
    rendered = story_lines(record, now, present, given.log_group) if output.is_table else ""
    output.one(story_json(record, now, present, given.log_group), rendered)
    warning = short_memory(record, timedelta(days=given.retention))
    if warning is not None:
        output.say(f"WARNING: {warning}")
    missing = isinstance(record.stored, Parts) and present != record.stored.count
    if missing:
        output.say("WARNING: parts of its result are missing: a duplicate gets ResultUnavailable")
    for step in next_steps(record, now):
        output.say(f"next: {step}")
    if missing or token_status(record, now) in STUCK or isinstance(record.stored, Unavailable):
        raise click.exceptions.Exit(1)


def _print_result(access: Access, record: Record) -> None:
    status = token_status(record, access.table.now())
    if record.state is not State.COMPLETE:
        _no_result(access, f"it is {'in progress' if status is Status.IN_PROGRESS else status.value}")
    if record.error is not None:
        _no_result(access, "an error is stored")
    if isinstance(record.stored, Unavailable):
        why = "was forgotten" if is_forgotten(record) else "could not be stored when the work was done"
        _no_result(access, f"it {why}")
    try:
        text = result_text(access.table, record)
    except Sealed:
        _no_result(access, "it is sealed: only a function with its seal= can open it")
    except Corrupt as corrupt:
        _no_result(access, str(corrupt))
    if text is None:
        _no_result(access, "parts of it are missing")
    click.echo(ascii_json(text))


def _no_result(access: Access, why: str) -> Never:
    access.output.say(f"no result: {why}")
    raise click.exceptions.Exit(1)
