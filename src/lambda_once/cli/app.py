"""The command and its subcommands, each imported when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.errors import OnceError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = ("list", "find", "show", "explain", "resolve", "redrive", "watch")
"""Each is the object ``command`` of the module ``lambda_once.cli.<name>_command``."""


class Commands(click.Group):
    """Loads what is called, and turns what the package says is wrong into one line and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"lambda_once.cli.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        try:
            return super().main(args, *rest, **options)
        except OnceError as error:
            click.echo(f"lambda-once: {error}", err=True)
            sys.exit(2)


@click.command(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(package_name="lambda-once")
def app() -> None:
    """
    Know what is stuck, and settle it.

    The table is --table or LAMBDA_ONCE_TABLE; credentials and region are those of the AWS CLI.
    Exit code: 0 all is well, 1 not so, 2 bad input or no table.
    """
