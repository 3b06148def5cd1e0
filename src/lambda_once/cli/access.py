"""The options that all commands share: which table, whose credentials, what form of output."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from lambda_once.cli.output import FORMATS, Output
from lambda_once.core.clock import SystemClock
from lambda_once.errors import Misconfigured
from lambda_once.operations.clock import CorrectedClock
from lambda_once.operations.table import TokenTable
from lambda_once.stores.rows import MOST_SHARDS

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.core.clock import Clock


class Access(NamedTuple):
    """What a command works with."""

    table: TokenTable
    output: Output
    shards_told: bool = False
    """Whether somebody said how many shards the functions write; else it is not known here."""


def with_output(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--output``; the command gets an `Output` as its first argument."""

    @click.option(
        "--output",
        "form",
        type=click.Choice(FORMATS),
        default="table",
        show_default=True,
        envvar="LAMBDA_ONCE_OUTPUT",
        help="Form of the data on standard output.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, form: str, **options: Any) -> Any:
        return command(Output(form), *args, **options)

    return wrapped


_OF_A_TABLE: Final = (
    click.option(
        "--table",
        "table_name",  # --name is that of a protected function
        metavar="NAME",
        envvar="LAMBDA_ONCE_TABLE",
        show_envvar=True,
        help="The token table.",
    ),
    click.option(
        "--endpoint-url",
        metavar="URL",
        envvar="AWS_ENDPOINT_URL_DYNAMODB",
        show_envvar=True,
        help="Another DynamoDB, such as DynamoDB Local.",
    ),
    click.option(
        "--profile",
        metavar="NAME",
        envvar="AWS_PROFILE",
        show_envvar=True,
        help="Profile of the AWS configuration.",
    ),
    click.option("--region", metavar="NAME", envvar="AWS_REGION", show_envvar=True, help="Its region."),
    click.option(
        "--shards",
        type=click.IntRange(1, MOST_SHARDS),
        metavar="NUMBER",
        envvar="LAMBDA_ONCE_STATUS_SHARDS",
        show_envvar=True,
        help="Shards of the index that the functions write. All are read, whatever it says.",
    ),
)


def with_table(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a table; the command gets an `Access` as its first argument."""

    @with_output
    @functools.wraps(command)
    def wrapped(
        output: Output,
        *args: Any,
        table_name: str | None,
        endpoint_url: str | None,
        profile: str | None,
        region: str | None,
        shards: int | None,
        **options: Any,
    ) -> Any:
        if not table_name:
            raise Misconfigured("no token table: give --table NAME, or set LAMBDA_ONCE_TABLE")
        client = new_client(endpoint_url or None, profile or None, region or None)
        judging = clock()
        if isinstance(judging, CorrectedClock):
            judging.told = output.say
        table = TokenTable(table_name, client, judging, shards or 1)
        return command(Access(table, output, shards is not None), *args, **options)

    for option in reversed(_OF_A_TABLE):  # click shows the last one that was applied first
        wrapped = option(wrapped)
    return wrapped


def new_client(endpoint_url: str | None, profile: str | None, region: str | None) -> Any:
    """Make the client of a command. Raises `Misconfigured` for a profile or a region that there is not."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    settings = Config(
        connect_timeout=3, read_timeout=20, retries={"total_max_attempts": 1}, max_pool_connections=16
    )
    try:
        session = boto3.Session(profile_name=profile, region_name=region)
        return session.client("dynamodb", endpoint_url=endpoint_url, config=settings)
    except (BotoCoreError, ValueError) as error:
        said = str(error).rstrip(".")
        raise Misconfigured(f"{said}: give --region, --profile or --endpoint-url that there is") from error


def clock() -> Clock:
    """Return the clock of a command; tests put another in its place."""
    return CorrectedClock(SystemClock())
