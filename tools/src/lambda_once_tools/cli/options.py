"""The options that commands share: table, credentials, form of output, filters, reason and confirmation."""

from __future__ import annotations

import functools
import getpass
import os
import re
import sys
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.core.results import utf8
from lambda_once.errors import Misconfigured
from lambda_once.operations.decisions import LONGEST_NAME, LONGEST_REASON, WATCHDOG
from lambda_once.operations.table import TokenTable
from lambda_once.operations.times import CorrectedClock
from lambda_once.operations.tokens import Filter
from lambda_once_tools.cli.caller import caller_arn, why_unverified
from lambda_once_tools.cli.render import FORMATS, Output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    AnyCommand = Callable[..., Any]
    _DurationType = click.ParamType[timedelta]
else:
    _DurationType = click.ParamType  # generic since click 8.4 only


# -- durations

_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SPAN: Final = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)([smhdw])", re.ASCII)


class Duration(_DurationType):
    """Converts ``90s``, ``15m``, ``2h``, ``14d`` or ``1w`` to a `timedelta`."""

    name = "duration"

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        if isinstance(value, timedelta):
            return value
        found = _SPAN.fullmatch(value.strip())
        if found is None:
            self.fail(f"{value!r} is not a duration: use 90s, 15m, 2h, 14d or 1w", param, ctx)
        return timedelta(**{_UNITS[found[2]]: float(found[1])})


DURATION: Final = Duration()


# -- output and table

SESSION: Final = "lambda_once.session"
"""Where a command keeps its boto3 session for an error message (`click.Context.meta`)."""


class NotFound(click.ClickException):
    """There is none, for certain. Whatever else stops a command leaves it open: exit code 2."""

    exit_code = 1


class Access(NamedTuple):
    """The table, client and clock of a command."""

    table: TokenTable
    output: Output
    caller: Callable[[], str | None] = lambda: None
    """Asks STS for the ARN of the operator; None: unverified, because of *why_unverified*."""
    why_unverified: str = ""
    client: Any = None


def _with(options: Sequence[Callable[[AnyCommand], AnyCommand]], command: AnyCommand) -> AnyCommand:
    for option in reversed(options):  # click shows the last one that was applied first
        command = option(command)
    return command


_SHARED: Final[dict[str, tuple[str, str, str, dict[str, Any]]]] = {
    "--output": (
        "form",
        "LAMBDA_ONCE_OUTPUT",
        "Format of the data on standard output.",
        {"type": click.Choice(FORMATS)},
    ),
    # --name is that of a protected function
    "--table": ("table_name", "LAMBDA_ONCE_TABLE", "The token table.", {"metavar": "NAME"}),
    "--endpoint-url": (
        "endpoint_url",
        "AWS_ENDPOINT_URL_DYNAMODB",
        "Another DynamoDB endpoint, such as a local engine.",
        {"metavar": "URL"},
    ),
    "--profile": ("profile", "AWS_PROFILE", "Profile of the AWS configuration.", {"metavar": "NAME"}),
    "--region": ("region", "AWS_REGION", "AWS region.", {"metavar": "NAME"}),
}
"""Options that stand before a command or after it: parameter, variable, help, and the rest of the option."""


def before_commands(group: AnyCommand) -> AnyCommand:
    """Add the shared options to the group, which reads their variables, too: see `shared_defaults`."""
    options = [
        click.option(flag, name, envvar=variable, show_envvar=True, help=text, **rest)
        for flag, (name, variable, text, rest) in _SHARED.items()
    ]
    return _with(options, group)


def shared_defaults(commands: Iterable[str], given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the defaults that *given* makes for options after the command (`click.Context.default_map`)."""
    defaults = {name: each for name, each in given.items() if each is not None}
    return {command: defaults for command in commands}  # noqa: C420  (they are only read)


def _after_command(flag: str) -> Callable[[AnyCommand], AnyCommand]:
    name, variable, text, rest = _SHARED[flag]
    return click.option(flag, name, help=f"{text}  [env var: {variable}]", **rest)


def with_output(command: AnyCommand) -> AnyCommand:
    """Add ``--output``; the command gets an `Output` as its first argument."""

    @_after_command("--output")
    @functools.wraps(command)
    def wrapped(*args: Any, form: str | None, **options: Any) -> Any:
        return command(Output(form or FORMATS[0]), *args, **options)

    return wrapped


_OF_TABLE: Final = ("--table", "--endpoint-url", "--profile", "--region")


def with_table(command: AnyCommand) -> AnyCommand:
    """
    Add the options that select a table; the command gets an `Access` as its first argument.

    Its option ``--ledger``, if it has one and that is given, names a table in place of the token table.
    """

    @with_output
    @functools.wraps(command)
    def wrapped(
        output: Output,
        *args: Any,
        table_name: str | None,
        endpoint_url: str | None,
        profile: str | None,
        region: str | None,
        **options: Any,
    ) -> Any:
        name = options.get("ledger") or table_name
        if not name:
            raise Misconfigured("no token table: pass --table NAME, or set LAMBDA_ONCE_TABLE")
        session = session_for(profile or None, region or None)
        click.get_current_context().meta[SESSION] = session
        client = client_for(session, "dynamodb", endpoint_url or None)
        caller = functools.partial(caller_arn, profile, region, endpoint_url or None, session)
        judging = clock()
        if isinstance(judging, CorrectedClock):
            judging.warn = output.say
        table = TokenTable(name, client, judging)
        why = why_unverified(endpoint_url or None)
        found = Access(table, output, caller, why, client)
        return command(found, *args, **options)

    return _with([_after_command(flag) for flag in _OF_TABLE], wrapped)


def session_for(profile: str | None, region: str | None) -> Any:
    """Return the boto3 session of a command. Raises `Misconfigured` for an unknown profile."""
    import boto3

    with _configured():
        return boto3.Session(profile_name=profile, region_name=region)


def client_for(session: Any, service: str, endpoint_url: str | None = None) -> Any:
    """Return a client that sends each request once. Raises `Misconfigured` for an unknown region."""
    from botocore.config import Config

    settings = Config(
        connect_timeout=3, read_timeout=20, retries={"total_max_attempts": 1}, max_pool_connections=16
    )
    with _configured():
        return session.client(service, endpoint_url=endpoint_url, config=settings)


@contextmanager
def _configured() -> Iterator[None]:
    from botocore.exceptions import BotoCoreError

    try:
        yield
    except (BotoCoreError, ValueError) as error:
        message = str(error).rstrip(".")
        raise Misconfigured(f"{message}: check --region, --profile and --endpoint-url") from error


@contextmanager
def environment(given: Mapping[str, str | None]) -> Iterator[None]:
    """Set the variables of *given* that have a value, and put back what was there before."""
    before = {name: os.environ.get(name) for name in given}
    os.environ.update({name: each for name, each in given.items() if each is not None})
    try:
        yield
    finally:
        for name, each in before.items():
            if each is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = each


def clock() -> Clock:
    """Return the clock of a command; tests replace this function."""
    return CorrectedClock(SystemClock())


# -- filters

TENANT: Final = click.option(
    "--tenant", metavar="TEXT", help="Only tokens of this isolated tenant, or of a scope of that text."
)
"""Of commands for one token, or one key."""

_FILTERS: Final = (
    click.option("--service", metavar="NAME", help="Only tokens of this service; wildcards: * and ?."),
    click.option(
        "--name", metavar="NAME", help="Only tokens of this protected function; wildcards: * and ?."
    ),
    click.option(
        "--scope", metavar="TEXT", help="Only tokens of this scope, such as a tenant; wildcards: * and ?."
    ),
    click.option(
        "--tenant",
        metavar="TEXT",
        help="Only tokens of this isolated tenant, or of a scope of that text; wildcards: * and ?.",
    ),
    click.option("--error", metavar="KIND", help="Only tokens held after this error, such as Timeout."),
    click.option(
        "--older-than",
        type=DURATION,
        metavar="DURATION",
        help="Only tokens acquired longer ago than this: 15m, 2h, 3d.",
    ),
    click.option(
        "--newer-than",
        type=DURATION,
        metavar="DURATION",
        help="Only tokens acquired within this time: 15m, 2h, 3d.",
    ),
)


def with_filter(command: AnyCommand) -> AnyCommand:
    """Add the options that select tokens; the command gets a `Filter` as ``wanted``."""

    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        wanted = Filter(**{field: options.pop(field) for field in Filter._fields})
        return command(*args, wanted=wanted, **options)

    return _with(_FILTERS, wrapped)


# -- writes


class Consent(NamedTuple):
    """Who writes, why, and whether they have to be asked."""

    because: str
    by: str
    yes: bool
    dry_run: bool

    def given(self, question: str) -> bool:
        """Ask on the terminal, unless ``--yes`` was given. Raises `click.UsageError` without a terminal."""
        return agreed(question, yes=self.yes, instead=", or check first with --dry-run")


def agreed(question: str, *, yes: bool, instead: str = "") -> bool:
    """Ask on the terminal, unless *yes*. Raises `click.UsageError` without a terminal."""
    if yes:
        return True
    if not is_terminal():
        raise click.UsageError(f"no terminal to ask for confirmation: pass --yes{instead}")
    return click.confirm(question, err=True)


_CONSENT: Final = (
    click.option("--because", metavar="TEXT", required=True, help="The reason; stored in the row."),
    click.option(
        "--by",
        metavar="NAME",
        help="Who decides; stored in the row.  [default: your user name on this machine]",
    ),
    click.option("--yes", is_flag=True, help="Do not ask for confirmation."),
    click.option("--dry-run", is_flag=True, help="Show what would be written; write nothing."),
)


def with_consent(command: AnyCommand) -> AnyCommand:
    """Add the options of commands that write; the command gets a `Consent` as ``consent``."""

    @functools.wraps(command)
    def wrapped(*args: Any, because: str, by: str | None, yes: bool, dry_run: bool, **options: Any) -> Any:
        consent = Consent(_bounded(because, "--because", LONGEST_REASON), _operator(by), yes, dry_run)
        return command(*args, consent=consent, **options)

    return _with(_CONSENT, wrapped)


def is_terminal() -> bool:
    """Whether standard input is a terminal; tests replace this function."""
    return sys.stdin.isatty()


def _operator(by: str | None) -> str:
    name = _bounded(_user() if by is None else by, "--by", LONGEST_NAME)
    if name == WATCHDOG:
        raise click.UsageError(f"--by {WATCHDOG!r} is reserved for the watchdog: pass the name of a person")
    return name


def _bounded(text: str, option: str, limit: int) -> str:
    stripped = text.strip()
    if not stripped:
        raise click.UsageError(f"{option} is empty: whoever looks at the row later needs it")
    size = len(utf8(stripped))
    if size > limit:
        raise click.UsageError(f"{option} has {size:,} bytes: at most {limit:,} are kept")
    return stripped


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        raise click.UsageError("this machine has no user name: pass --by NAME") from None
