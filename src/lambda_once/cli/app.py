"""The command and its subcommands, each imported when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.cli.complaints import one_line
from lambda_once.errors import OnceError

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = ("list", "find", "show", "explain", "resolve", "redrive", "watch", "plan")
"""Each is the object ``command`` of the module ``lambda_once.cli.<name>_command``."""

BAD_INPUT = 2
READER_GONE: Final = 141
"""128 + SIGPIPE, what a shell reports of a program whose reader went away: none of our verdicts."""


class Commands(click.Group):
    """Loads what is called, and turns whatever is wrong with the call into one line and exit code 2."""

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

    def main(  # type: ignore[override]  # prog_name and complete_var are given by name only
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **options: Any
    ) -> Any:
        """Run as a program; not *standalone_mode*: return the exit code, and raise what is wrong."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **options)
        try:
            code = super().main(args, standalone_mode=False, **options)
        except (OnceError, click.ClickException) as error:
            click.echo(one_line(error), err=True)
            sys.exit(BAD_INPUT)
        except click.Abort:
            click.echo("lambda-once: stopped", err=True)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; output that cannot be written is neither its verdict nor a traceback."""
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:  # who read our output has gone, as `head` does
            _print_nothing_more()
            ctx.exit(READER_GONE)
        except OSError as error:
            if error.filename is not None:
                raise
            _print_nothing_more()
            raise click.ClickException(f"the output cannot be written: {error.strerror}") from error
        return code


def _print_nothing_more() -> None:
    """Let what Python still flushes as it ends go nowhere."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # a test's, which is no file
        return
    os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


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
