"""``lambda-once show``: one token as a story in time."""

from __future__ import annotations

from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Final, Never
from urllib.parse import unquote

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.row_shown import Seen, drawn, told
from lambda_once.core.record import State
from lambda_once.core.results import Corrupt, Parts, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.operations.entries import STUCK, Status, status_of
from lambda_once.operations.lookup import by_parts, by_token, nearby, parts_there, result_text
from lambda_once.operations.story import memory_is_short, next_steps

if TYPE_CHECKING:
    from lambda_once.core.record import Record
    from lambda_once.operations.lookup import Nearby

LONGEST_RETENTION: Final = 14
"""Days that SQS keeps a message at most (SQS developer guide, MessageRetentionPeriod)."""


@click.command("show")
@click.argument("token")
@click.option(
    "--service", metavar="NAME", envvar="POWERTOOLS_SERVICE_NAME", help="With --name: TOKEN is a key."
)
@click.option("--name", metavar="NAME", help="The protected function: TOKEN is a key of it.")
@click.option("--scope", metavar="TEXT", help="With --name: the scope of the key.")
@click.option("--result", is_flag=True, help="Print the stored result, as JSON, and nothing else.")
@click.option(
    "--retention",
    type=click.IntRange(0),
    default=LONGEST_RETENTION,
    show_default=True,
    metavar="DAYS",
    help="How long your queues keep messages: warn of outcomes that are kept for less. 0: do not.",
)
@with_table
def command(
    access: Access,
    token: str,
    service: str | None,
    name: str | None,
    scope: str | None,
    *,
    result: bool,
    retention: int,
) -> None:
    """
    Show one token: who had it, what came of it, what a duplicate gets, and what to ask the logs.

    TOKEN is a lock token; with --service and --name, a key of that function; else a key that is looked for
    among what is unfinished.

    Exit code: 0 all is well, 1 it is overdue, held, or its result is not to be had, 2 no such token, bad
    input or no table.
    """
    if name is not None and service is None:
        raise click.UsageError("--name needs --service, or POWERTOOLS_SERVICE_NAME")
    if name is None and scope is not None:
        raise click.UsageError("--scope goes with --service and --name")
    if name is not None and service is not None:
        record = by_parts(access.table, service, name, scope, token)
        if record is None:
            where = f"{service}/{name}" + ("" if scope is None else f" in the scope {scope}")
            near = nearby(access.table, token, access.table.clock.now())
            _unknown(access, token, f"{where} has no key {token}", near)
    else:
        record = by_token(access.table, token) or _by_key(access, token)
    if result:
        _print_result(access, record)
    else:
        _show(access, record, timedelta(days=retention))


def _by_key(access: Access, key: str) -> Record:
    """Return the one unfinished token of *key*; where there are none or several, say so and end."""
    found = nearby(access.table, key, access.table.clock.now())
    if len(found.exact) > 1:
        tokens = ", ".join(entry.token for entry in found.exact)
        raise click.UsageError(f"{len(found.exact)} tokens have the key {key}, give one of them: {tokens}")
    record = by_token(access.table, found.exact[0].token) if found.exact else None
    if record is None:
        _unknown(access, key, f"there is no token {key}, and nothing unfinished has that key", found)
    return record


def _unknown(access: Access, key: str, why: str, found: Nearby) -> Never:
    near = [entry.token for entry in (*found.exact, *found.alike)]
    said = f"; unfinished and alike: {', '.join(near)}" if near else ""
    text = unquote(key.rpartition("/")[2])
    message = f"{why} in the table {access.table.name}{said}. Finished ones: lambda-once find {quote(text)}"
    raise Misconfigured(message)


def _show(access: Access, record: Record, retention: timedelta) -> None:
    now, output = access.table.clock.now(), access.output
    there = parts_there(access.table, record)
    seen = Seen(record, now, there)
    output.one(told(seen), drawn(seen) if output.is_table else "")
    short = memory_is_short(record, retention)
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
    status = status_of(record, access.table.clock.now())
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
