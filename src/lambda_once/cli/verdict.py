"""What the commands that write share: who says it, whether they are sure, and what the table answers."""

from __future__ import annotations

import getpass
import sys
from shlex import quote
from typing import TYPE_CHECKING, assert_never

import click

from lambda_once.errors import Misconfigured
from lambda_once.operations.lookup import by_token
from lambda_once.operations.settling import LONGEST_NAME, LONGEST_REASON, WATCHDOG
from lambda_once.stores.contract import Refused, Rejected, Unanswered, Written

if TYPE_CHECKING:
    from lambda_once.cli.access import Access
    from lambda_once.core.record import Record
    from lambda_once.core.writes import Finish
    from lambda_once.operations.table import TokenTable

because_option = click.option(
    "--because", metavar="TEXT", required=True, help="Why; kept on the row, and shown to whoever looks later."
)
by_option = click.option(
    "--by", metavar="NAME", help="Who says so; kept on the row.  [default: your name on this machine]"
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Say what would be written; write nothing.")


def reason(because: str) -> str:
    """Return *because* as it is kept. Raises `click.UsageError` for one that says nothing or too much."""
    return _bounded(because, "--because", LONGEST_REASON)


def operator(by: str | None) -> str:
    """Return who decides. Raises `click.UsageError` where that cannot be told, or is the watchdog's name."""
    name = _bounded(_user() if by is None else by, "--by", LONGEST_NAME)
    if name == WATCHDOG:
        raise click.UsageError(f"--by {WATCHDOG!r} is what the watchdog writes: give the name of a person")
    return name


def _bounded(text: str, option: str, limit: int) -> str:
    stripped = text.strip()
    if not stripped:
        raise click.UsageError(f"{option} is empty: it is what others will read on the row")
    if len(stripped) > limit:
        raise click.UsageError(f"{option} has {len(stripped):,} characters: at most {limit:,} are kept")
    return stripped


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        raise click.UsageError("this machine does not know your name: give --by NAME") from None


def is_terminal() -> bool:
    """Tell whether a person sits at standard input."""
    return sys.stdin.isatty()


def agreed(question: str) -> bool:
    """Ask on the terminal. Raises `click.UsageError` where there is none to ask on."""
    if not is_terminal():
        raise click.UsageError("there is no terminal to ask on: give --yes, or look first with --dry-run")
    return click.confirm(question, err=True)


def settled(access: Access, write: Finish) -> bool:
    """
    Write *write*; tell whether it stands. False: the row is not any more as it was seen.

    Exit code 2 where no answer came, and so it is unknown. Raises `Misconfigured` where the table will never
    take it.
    """
    answer = access.table.settle(write)
    match answer:
        case Unanswered(why):
            access.output.say(
                f"lambda-once: the token table did not answer ({why}): whether it was written is unknown. "
                f"It was, if lambda-once show {write.token} names attempt {write.attempt}; else do it again"
            )
            raise click.exceptions.Exit(2)
        case Rejected(error):
            raise error
        case Refused():
            return False
        case Written():
            return True
        case _ as unreachable:
            assert_never(unreachable)


def found(table: TokenTable, token: str) -> Record:
    """Return the row of *token*. Raises `Misconfigured` where there is none, `click.UsageError` for ""."""
    if token == "":
        raise click.UsageError("TOKEN is empty: give a lock token")
    record = by_token(table, token)
    if record is None:
        raise Misconfigured(
            f"there is no token {token} in the table {table.name}: "
            f"lambda-once show {quote(token)} finds the token of a key"
        )
    return record
