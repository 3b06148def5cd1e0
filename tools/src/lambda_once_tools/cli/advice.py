"""Error messages for operators; those of the errors themselves are for the author of a function."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from lambda_once.dynamodb.errors import (
    DENIED,
    EXPIRED,
    NOT_ACCEPTED,
    THROTTLED,
    Caught,
    code_of,
    is_wrong_clock,
    message_of,
)
from lambda_once.dynamodb.retry import Unprocessed
from lambda_once.errors import StoreUnavailable

if TYPE_CHECKING:
    from lambda_once.errors import OnceError

_NONE: Final = frozenset({"NoCredentialsError", "PartialCredentialsError"})


def for_operator(error: OnceError, session: Any = None) -> str:
    """Return the message of *error*; *session* is the boto3 session of the command."""
    cause = error.__cause__
    if isinstance(error, StoreUnavailable):
        return _no_response(cause)
    if not isinstance(cause, Caught):
        return str(error)
    code = code_of(cause)
    if is_wrong_clock(cause):
        return str(error)
    if code in _NONE:
        return "no AWS credentials: pass --profile, or configure them as for the AWS CLI"
    if code in EXPIRED or (code in NOT_ACCEPTED and _is_temporary(session)):
        return f"credentials have expired: log in again ({code}: {message_of(cause)})"
    if code in NOT_ACCEPTED:
        return f"AWS does not accept these credentials: check --profile ({code}: {message_of(cause)})"
    if code in DENIED:
        # AWS' own sentence names the principal and the resource: a wrong profile shows there.
        what, advice = str(error).partition(":")[0], "check --profile, or grant your role the permission"
        return f"{what}: {advice}. {message_of(cause)}"
    return str(error)


def _no_response(cause: BaseException | None) -> str:
    reason = code_of(cause) if isinstance(cause, Caught) else "no response"
    if isinstance(cause, Unprocessed):
        reason = "UnprocessedKeys"
    elif reason not in THROTTLED:
        return f"the table did not respond ({reason}): check --endpoint-url and --region, or retry"
    return f"the table is throttled ({reason}): retry"


def _is_temporary(session: Any) -> bool:
    """Whether the credentials of *session* have a session token, with which they expire."""
    with suppress(*Caught):
        return session is not None and bool(getattr(session.get_credentials(), "token", None))
    return False
