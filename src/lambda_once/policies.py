"""
Policies for errors of the work, and for lapsed tokens.

These are values: the engine applies them. The defaults are those under which no work is lost; to hold what
may have been done is a choice, for it needs a person.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from inspect import isawaitable
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from lambda_once.core.keys import downstream
from lambda_once.core.lifecycle import OnLapse, Record
from lambda_once.core.threads import run_apart
from lambda_once.errors import Misconfigured, RetryLater

T = TypeVar("T")


class Policy(Enum):
    """What happens to the token when the work raises an exception."""

    RELEASE = "release"
    STORE = "store"
    HOLD = "hold"


RELEASE = Policy.RELEASE
"""Not done, safe to retry: the token is released and the exception propagates."""
STORE = Policy.STORE
"""Failed for good: the error is stored, and duplicates get it."""
HOLD = Policy.HOLD
"""Needs manual review: the token is held (``status`` is ``error``) until it is resolved."""


class Done(NamedTuple, Generic[T]):
    """A probe's answer: the lapsed attempt did its work, with this *result*."""

    result: T


class Answer(Enum):
    """A probe's other answers."""

    NOT_DONE = "not done"
    UNKNOWN = "unknown"


NOT_DONE = Answer.NOT_DONE
"""The work was not done: it may run now."""
UNKNOWN = Answer.UNKNOWN
"""The outcome is unknown: the token is held for manual review."""


class Lapsed(NamedTuple):
    """
    The lapsed attempt that a probe is asked about.

    ``locked_by`` is ``function/request id``; ``created`` and ``expected_completion`` are aware datetimes.
    """

    token: str
    attempt_id: str
    fence: int
    locked_by: str
    created: datetime
    expected_completion: datetime
    generation: str | None = None
    """Input of the downstream keys, with the token: the same for all attempts at this work."""

    @classmethod
    def of(cls, record: Record) -> Lapsed:
        """Return the attempt of *record*, which has lapsed."""
        return cls(
            record.token,
            record.attempt_id,
            record.fence,
            record.locked_by,
            record.created,
            record.expected_completion,
            record.generation,
        )

    def downstream_key(self, label: str = "") -> str:
        """Return the `Attempt.downstream_key` of the lapsed attempt, 64 hex digits."""
        return downstream(self.token, self.generation, label)


Probe = Callable[..., object]


def ask(probe: Probe, lapsed: Lapsed, *arguments: Any) -> object:
    """
    Call *probe* and return its answer. Raises what it raises.

    An awaitable runs on a new event loop, in another thread if this one already runs a loop; the thread's own
    loop stays as it is.
    """
    answer = probe(lapsed, *arguments)
    if not isawaitable(answer):
        return answer

    async def awaited() -> object:
        return await answer

    return run_apart(awaited())


OnError = Policy | Mapping[type[BaseException], Policy] | Callable[[BaseException], Policy]
OnLapseOption = Literal["take_over", "hold"] | Probe | None


class ErrorResponse(Exception):
    """
    A handler returned a response with status 400 or above; ``on_error`` decides from 500 on.

    ``status`` is the HTTP status, ``response`` the return value of the handler.
    """

    SERVER_ERROR = 500

    def __init__(self, status: int, response: Any) -> None:
        super().__init__(f"the handler answered with status {status}")
        self.status = status
        self.response = response


def policy_for(error: BaseException, on_error: OnError, on_lapse: OnLapse) -> Policy:
    """
    Return the policy for *error*, which the work raised.

    `RetryLater` and 4xx responses always release. In a mapping, the first class in the error's MRO applies.
    After any other BaseException (SystemExit, KeyboardInterrupt, a cancellation) it is unknown whether the
    work was done: RELEASE if lapsed work is taken over, else HOLD.
    """
    if isinstance(error, RetryLater) or (
        isinstance(error, ErrorResponse) and error.status < error.SERVER_ERROR
    ):
        return RELEASE
    if isinstance(on_error, Mapping):
        named = next((on_error[cls] for cls in type(error).__mro__ if cls in on_error), None)
        if named is not None:
            return named
    if not isinstance(error, Exception):
        return RELEASE if on_lapse is OnLapse.TAKE_OVER else HOLD
    if isinstance(on_error, Policy):
        return on_error
    if isinstance(on_error, Mapping):
        return RELEASE
    return on_error(error)


def can_hold(on_error: OnError) -> bool:
    """Return whether *on_error* can be HOLD; True for any callable."""
    if isinstance(on_error, Policy):
        return on_error is HOLD
    if isinstance(on_error, Mapping):
        return HOLD in on_error.values()
    return True


def lapse_rule(on_lapse: OnLapseOption, on_error: OnError) -> tuple[OnLapse, Probe | None]:
    """
    Return the rule for the option ``on_lapse``, and the probe if there is one.

    Raises `Misconfigured` if ``on_error`` has HOLD but ``on_lapse`` is ``take_over``: after a crash the work
    would run again without review.
    """
    if on_lapse is None:
        return (OnLapse.HOLD if can_hold(on_error) else OnLapse.TAKE_OVER), None
    if callable(on_lapse):
        return OnLapse.PROBE, on_lapse
    if on_lapse == "hold":
        return OnLapse.HOLD, None
    if on_lapse != "take_over":
        raise Misconfigured(
            f'on_lapse={on_lapse!r}: give "take_over", "hold", or a probe that checks what was done'
        )
    if can_hold(on_error) and not (callable(on_error) and not isinstance(on_error, Mapping)):
        raise Misconfigured(
            'on_error has HOLD, but on_lapse is "take_over": after a crash the work would run again without '
            'review; omit on_lapse, or set it to "hold" or a probe'
        )
    return OnLapse.TAKE_OVER, None
