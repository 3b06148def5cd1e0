"""What is wrong with a call, in one line for a person at a terminal."""

from __future__ import annotations

from click import ClickException, UsageError

from lambda_once.errors import OnceError, StoreUnavailable

_DENIED = "AccessDeniedException"


def one_line(error: OnceError | ClickException) -> str:
    """Say what is wrong and what to do, without a line break; the help where nothing was called."""
    if isinstance(error, OnceError):
        return f"lambda-once: {' '.join(_of_ours(error).split())}"
    said = error.format_message()
    if "\n" in said and isinstance(error, UsageError):
        return said  # the help of a group: click raises it where no command is named
    context = error.ctx if isinstance(error, UsageError) else None
    advice = "" if context is None else f" (see {context.command_path} --help)"
    return f"lambda-once: {' '.join(said.split())}{advice}"


def _of_ours(error: OnceError) -> str:
    """Say it for who sits at a terminal, where the error speaks to the author of a function."""
    from botocore.exceptions import NoCredentialsError, PartialCredentialsError

    from lambda_once.dynamodb.errors import Caught, code_of

    cause = error.__cause__
    if isinstance(error, StoreUnavailable):
        reason = code_of(cause) if isinstance(cause, Caught) else "no answer"
        return f"the token table did not answer ({reason}): see --endpoint-url and --region, or try again"
    if isinstance(cause, NoCredentialsError | PartialCredentialsError):
        return "there are no AWS credentials: give --profile, or configure them as for the AWS CLI"
    if isinstance(cause, Caught) and code_of(cause) == _DENIED:
        return f"{str(error).partition(':')[0]}: give the role that you act in the permission"
    return str(error)
