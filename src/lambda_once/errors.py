"""
Errors, named by what the caller must do next.

    OnceError
    ├── RetryLater            no outcome yet: retry later
    │   ├── InProgress        another attempt is in progress
    │   ├── Fenced            this attempt lost its token, and its successor is still in progress
    │   └── StoreUnavailable  the table did not respond, or throttled
    └── GiveUp                a retry changes nothing
        ├── KeyMissing        the payload has no key, or only a part of one
        ├── CallerMissing     the request names no caller, and one is required
        ├── KeyReused         this key was used for another payload
        ├── OtherCaller       this key was used with other credentials
        ├── Held              the token is held for manual review, or has lapsed
        ├── ResultUnavailable the work is complete, but its result is unavailable
        ├── StoredError       the work failed for good; this is the stored error
        └── Misconfigured     the decorator, its options or the table are wrong
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime


class OnceError(Exception):
    """
    Base class of all errors in this package.

    Attributes, None if unknown: ``token`` (str, the lock token), ``state`` (str), ``locked_by`` (str,
    ``function/request id``, or ``function/ARN`` of a durable execution), ``created`` and
    ``expected_completion`` (aware datetimes) and ``retry_after`` (float, seconds from now).
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
        """Pickle the message and the attributes."""
        return type(self), self.args, self.__dict__


class RetryLater(OnceError):
    """There is no outcome yet. Retry later, or let the source redeliver."""


class InProgress(RetryLater):
    """Another attempt holds the token, and its lease has not expired."""


class Fenced(RetryLater):
    """Another attempt has taken the token over and is still in progress."""


class StoreUnavailable(RetryLater):
    """
    The table did not respond in time, or throttled.

    From a decorator or block: nothing ran. From `Attempt.extend`, `Attempt.transact` and the patterns: it is
    unknown whether the write took effect.

    ``reason`` is what happened to which request, and the likely cure: operation, table, host, and class of
    the error, and no data; None if unknown.
    """

    def __init__(self, message: str, *, reason: str | None = None, **known: Any) -> None:
        super().__init__(message, **known)
        self.reason = reason


class GiveUp(OnceError):
    """A retry does not help. Fix the message or the code, or resolve the token."""


class KeyMissing(GiveUp):
    """
    The payload has no key, or only a part of one. Nothing ran.

    ``whole``: ``key=`` selects nothing at all, and ``without_key="run"`` would run such work unprotected.
    ``header``: the name of the header whose value is the key, if a request lacks it.
    """

    whole = False
    header: str | None = None


class CallerMissing(GiveUp):
    """The request's caller is unknown, and ``caller=`` or ``unscoped="refuse"`` requires it. Nothing ran."""


class KeyReused(GiveUp):
    """
    The key was used before, for another payload. Nothing ran.

    ``fields``: the names of up to 5 fields that differ from the first payload or are new, each cut to 64
    characters; empty if unknown. ``hidden``: log the fields but do not return them, because HTTP callers
    with the same key are not distinguished and one could guess another's values, field by field.
    """

    def __init__(
        self, message: str, *, fields: tuple[str, ...] = (), hidden: bool = False, **known: Any
    ) -> None:
        super().__init__(message, **known)
        self.fields = fields
        self.hidden = hidden


class OtherCaller(GiveUp):
    """
    The key was used before with other credentials. Nothing ran, and nothing was replayed.

    A refreshed access token counts as another credential, and some requests carry no proof of their caller:
    identify callers with an authorizer or ``caller=``.
    """


class Held(GiveUp):
    """
    The token needs manual review: it is held, or its attempt lapsed under ``on_lapse="hold"`` or a probe.

    ``lapsed``: the attempt's lease has expired, and its outcome is unknown; otherwise the token is held.
    """

    def __init__(self, message: str, *, lapsed: bool = False, **known: Any) -> None:
        super().__init__(message, **known)
        self.lapsed = lapsed


class ResultUnavailable(GiveUp):
    """The work is complete and will not run again, but its result is unavailable."""


class StoredError(GiveUp):
    """
    The work failed for good, and its error was stored.

    Raised as a subclass with the class name of the original error (``kind``), so that Step Functions'
    ``ErrorEquals`` matches it. If the original class can be found (docs/error-policies.md), it is also an
    instance of that class.
    """

    kind: str = "StoredError"
    original: type[Exception] | None = None
    """The class of the original error, if this is an instance of it."""


class Misconfigured(GiveUp):
    """A decorator, an option, a call, the table or a permission is wrong."""


_CONSTRUCTION: Final = frozenset(
    {"__init__", "__new__", "__str__", "__reduce__", "__reduce_ex__", "__init_subclass__", "__setattr__"}
)
"""An error class that overrides one of these is not constructed from a message alone."""
KNOWN: Final = ("token", "state", "locked_by", "created", "expected_completion", "retry_after")
"""Attributes of every `OnceError`."""
_NEVER: Final = (
    OnceError,
    StopIteration,  # a generator turns it into a RuntimeError
    StopAsyncIteration,
    BaseExceptionGroup,
    UnicodeDecodeError,  # these three take five arguments
    UnicodeEncodeError,
    UnicodeTranslateError,
)


def stored_error(
    kind: str, message: str, named: Iterable[type[BaseException]] = (), **known: Any
) -> StoredError:
    """
    Return the stored error of class name *kind* and *message*; *known* are attributes of `OnceError`.

    It is also an instance of the original class if exactly one class among *named* and their loaded
    subclasses has the name *kind* (or is the base of all that have it) and needs only a message.
    """
    original = _original(kind, named)
    if original is not None:
        try:
            return _stored_error_type_of(original)(message, **known)  # type: ignore[arg-type]  # it is hashable
        except TypeError:  # its metaclass or layout conflicts with ours
            pass
    return stored_error_type(kind)(message, **known)


def _original(kind: str, named: Iterable[type[BaseException]]) -> type[Exception] | None:
    found: set[type[BaseException]] = set()
    seen: set[type[BaseException]] = set()
    pending = [*named]
    while pending:
        each = pending.pop()
        if each in seen or issubclass(each, OnceError):
            continue
        seen.add(each)
        if each.__name__ == kind:
            found.add(each)
        pending.extend(each.__subclasses__())
    # numpy has a subclass of MemoryError with the same name: the error was an instance of the base anyway.
    base = [each for each in found if all(issubclass(other, each) for other in found)]
    if len(base) != 1:
        return None
    (only,) = base
    return only if issubclass(only, Exception) and _takes_a_message(only) else None


def _takes_a_message(kind: type[BaseException]) -> bool:
    own = (each for each in kind.__mro__ if each.__module__ != "builtins")
    return not issubclass(kind, _NEVER) and not any(_CONSTRUCTION & vars(each).keys() for each in own)


@lru_cache(maxsize=256)
def stored_error_type(kind: str) -> type[StoredError]:
    """Return the subclass of `StoredError` named *kind*."""
    return type(kind, (StoredError,), {"kind": kind, "__module__": __name__, "__reduce__": _reduce_stored})


@lru_cache(maxsize=256)
def _stored_error_type_of(original: type[Exception]) -> type[StoredError]:
    """Return a subclass of `StoredError` and *original* that has the name of *original*."""
    attributes = dict.fromkeys(KNOWN)
    return type(
        original.__name__,
        (StoredError, original),
        {
            **attributes,  # a property of the same name would refuse what `OnceError` sets
            "kind": original.__name__,
            "original": original,
            "__module__": __name__,
            "__reduce__": _reduce_stored,
            "__str__": _message_of,  # KeyError's would quote it once more
        },
    )


def _message_of(error: StoredError) -> str:
    return str(error.args[0])


def _reduce_stored(error: StoredError) -> tuple[Any, ...]:
    return _stored_error, (error.kind, str(error)), error.__dict__


def _stored_error(kind: str, message: str) -> StoredError:
    return stored_error_type(kind)(message)
