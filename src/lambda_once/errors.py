"""
What can go wrong, named by what the caller must do next.

    OnceError
    ├── RetryLater            nothing is settled: deliver it again later
    │   ├── InProgress        another attempt is at work
    │   ├── Fenced            this attempt lost its token, and its successor is still at work
    │   └── StoreUnavailable  the token table did not answer: nothing was run
    └── GiveUp                delivering it again changes nothing
        ├── KeyMissing        the payload has no key, or only a part of one
        ├── KeyReused         this key was used for another payload
        ├── Held              the token waits for a person
        ├── ResultUnavailable the work is done, its result cannot be had
        ├── StoredError       the work failed for good; this is the stored error
        └── Misconfigured     the decorator, its options or the table are wrong
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime


class OnceError(Exception):
    """
    The root of all errors of this package.

    Each carries the lock token, and where it is known what the token's row said: ``state`` (str),
    ``locked_by`` (str, ``function/request id``), ``created`` and ``expected_completion`` (aware
    datetimes) and ``retry_after`` (seconds from now, float).
    """

    def __init__(
        self,
        message: str,
        *,
        token: str | None = None,
        state: str | None = None,
        locked_by: str | None = None,
        created: datetime | None = None,
        expected_completion: datetime | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.token = token
        self.state = state
        self.locked_by = locked_by
        self.created = created
        self.expected_completion = expected_completion
        self.retry_after = retry_after

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by message and attributes: the keyword-only arguments are among the latter."""
        return type(self), self.args, self.__dict__


class RetryLater(OnceError):
    """Nothing is settled yet: let the source deliver it again."""


class InProgress(RetryLater):
    """Another attempt holds the token and its lease is alive."""


class Fenced(RetryLater):
    """The attempt lost its token to a later one, which is still at work."""


class StoreUnavailable(RetryLater):
    """The token table gave no answer in the time there was. Nothing ran."""


class GiveUp(OnceError):
    """Delivering it again changes nothing: correct the message, the code or the token."""


class KeyMissing(GiveUp):
    """The payload has no key, or only a part of one. Nothing ran."""


class KeyReused(GiveUp):
    """
    The key was used before, for another payload. Nothing ran.

    ``fields``: the names of up to 5 fields that differ from the first payload or are new, as this payload
    writes them, each cut to 64 characters. Empty where nothing tells them.
    """

    def __init__(self, message: str, *, fields: tuple[str, ...] = (), **known: Any) -> None:
        super().__init__(message, **known)
        self.fields = fields


class Held(GiveUp):
    """The token waits for a person: what its attempt did is not known, or not good."""


class ResultUnavailable(GiveUp):
    """The work is done and will not be done again, but its result cannot be had."""


class StoredError(GiveUp):
    """
    The work failed for good, and its error was stored.

    Raised as a subclass named after the stored kind, so that Step Functions' ``ErrorEquals`` sees
    the name that the first caller saw.
    """

    kind: str = "StoredError"


class Misconfigured(GiveUp):
    """A decorator, an option, the table or a permission is wrong. Nothing ran."""


@lru_cache(maxsize=256)
def stored_error_type(kind: str) -> type[StoredError]:
    """Return the subclass of `StoredError` that bears the name *kind*."""
    return type(kind, (StoredError,), {"kind": kind, "__module__": __name__, "__reduce__": _reduce_stored})


def _reduce_stored(error: StoredError) -> tuple[Any, ...]:
    return _stored_error, (error.kind, str(error)), error.__dict__


def _stored_error(kind: str, message: str) -> StoredError:
    return stored_error_type(kind)(message)
