"""The command group: subcommands are imported when called, errors become one line and exit code 2."""

from __future__ import annotations

import importlib
import io
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from lambda_once.errors import OnceError
from lambda_once_tools.cli.advice import for_operator
from lambda_once_tools.cli.options import SESSION, NotFound, before_commands, shared_defaults
from lambda_once_tools.cli.render import discard_output, escaped

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS: Final = {
    "list": "lists",
    "find": "search",
    "show": "search",
    "explain": "explain",
    "check": "check",
    "resolve": "decisions",
    "redrive": "decisions",
    "forget": "decisions",
    "watch": "lists",
    "watchdog": "watchdog",
}
"""The module of each; there it is ``<name>_command``."""

BAD_INPUT = 2
BROKEN_PIPE: Final = 141
"""128 + SIGPIPE, what a shell reports for a program whose reader has exited."""


class Commands(click.Group):
    """Imports a command when it is called, and prints errors in one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"lambda_once_tools.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def main(  # type: ignore[override]  # prog_name and complete_var are given by name only
        self, args: Sequence[str] | None = None, *, standalone_mode: bool = True, **options: Any
    ) -> Any:
        """Run as a program; with *standalone_mode* False, return the exit code and raise errors."""
        if not standalone_mode:
            return super().main(args, standalone_mode=False, **options)
        try:
            code = super().main(args, standalone_mode=False, **options)
        except click.ClickException as error:
            click.echo(one_line(error), err=True)
            sys.exit(NotFound.exit_code if isinstance(error, NotFound) else BAD_INPUT)
        except click.Abort:
            click.echo("lambda-once: aborted", err=True)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a failure to write its output is one line, and not its exit code."""
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(
                errors="backslashreplace"
            )  # as standard error: rows have any client's text
        try:
            code = super().invoke(ctx)
            sys.stdout.flush()
        except OnceError as error:
            raise click.ClickException(for_operator(error, ctx.meta.get(SESSION))) from error
        except BrokenPipeError:  # the reader has exited, as `head` does
            discard_output()
            ctx.exit(BROKEN_PIPE)
        except OSError as error:
            if error.filename is not None:
                raise
            discard_output()
            raise click.ClickException(f"cannot write the output: {error.strerror}") from error
        return code


def one_line(error: click.ClickException) -> str:
    """Return the message of *error* in one line, escaped; the whole help if no command was named."""
    message = error.format_message()
    if "\n" in message and isinstance(error, click.UsageError):
        return "\n".join(map(escaped, message.splitlines()))  # click raises the help of a group
    context = error.ctx if isinstance(error, click.UsageError) else None
    advice = "" if context is None else f" (see {context.command_path} --help)"
    return f"lambda-once: {escaped(' '.join(message.split()))}{advice}"


@click.command(
    cls=Commands,
    # Only their names are used: click suggests from them.
    commands=dict.fromkeys(COMMANDS, click.Command("imported when it is called")),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@before_commands
@click.version_option(package_name="lambda-once-tools")
@click.pass_context
def app(ctx: click.Context, /, **shared: Any) -> None:
    """
    Find overdue and held tokens, and resolve them.

    These options may also follow the command. Credentials and region are those of the AWS CLI.
    Exit code: 0 success; 1 a token is overdue or held, none was found, a write was refused, two events
    differ, or a response goes to somebody else; 2 bad input, no table, or the answer is unknown.
    """
    ctx.default_map = shared_defaults(COMMANDS, shared)
