"""The watchdog's actions for overdue tokens, as configured for each function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from lambda_once.core.codec import Codec
from lambda_once.core.lifecycle import Decider, Resolve
from lambda_once.core.results import NotSerialisable, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.operations.decisions import WATCHDOG, Author, decided
from lambda_once.operations.tokens import parts_of
from lambda_once.policies import NOT_DONE, UNKNOWN, Done, Lapsed, ask

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.lifecycle import Record
    from lambda_once.core.writes import Write

OverdueProbe = Callable[[Lapsed], object]
Action = Literal["release"] | OverdueProbe

MAY_RELEASE = "the watchdog is configured to release it"
PROBED_DONE = "the probe returned Done"
PROBED_NOT_DONE = "the probe returned NOT_DONE"
PROBED_UNKNOWN = "the probe returned UNKNOWN"


class ProbeFailed(Exception):
    """The probe raised or returned an invalid value. The message is the class of the exception or value."""


class Actions:
    """
    What to do about overdue tokens, by patterns of their names.

    A pattern (`fnmatch`, case-sensitive) is compared with ``service/name`` and with the name; the first match
    in the order of *actions* counts. A token is released *times* times at most, then held. Raises
    `Misconfigured` for invalid actions.
    """

    def __init__(self, actions: Mapping[str, Action], times: int) -> None:
        for pattern, action in actions.items():
            if action != "release" and not callable(action):
                raise Misconfigured(f'actions[{pattern!r}] is {action!r}: pass "release" or a probe')
        if times < 0:
            raise Misconfigured(f"times is {times}: it must be 0 or more releases of one token")
        self._actions = dict(actions)
        self._times = times
        self._codec = Codec(Any)

    def of(self, token: str) -> Action | None:
        """Return the action for *token*; None: it is only reported."""
        name = parts_of(token)
        if name is None:
            return None
        names = (f"{name.service}/{name.name}", name.name)
        return next(
            (
                action
                for pattern, action in self._actions.items()
                if any(fnmatchcase(each, pattern) for each in names)
            ),
            None,
        )

    def decide(self, action: Action, record: Record, now: datetime) -> Write:
        """Return the write that resolves *record*, which has lapsed. Raises `ProbeFailed`."""
        if not callable(action):
            return self._released(record, Decider.WATCHDOG, MAY_RELEASE, now)
        try:
            answer = ask(action, Lapsed.of(record))
        except Exception as broken:
            # Only the class is logged: the message of a user's exception may quote data.
            raise ProbeFailed(type(broken).__name__) from broken
        if isinstance(answer, Done):
            return self._done(record, answer.result, now)
        if answer is NOT_DONE:
            return self._released(record, Decider.PROBE, PROBED_NOT_DONE, now)
        if answer is UNKNOWN:
            return _resolved(record, Resolve.HOLD, Decider.PROBE, PROBED_UNKNOWN, now)
        raise ProbeFailed(type(answer).__name__)

    def _released(self, record: Record, kind: Decider, because: str, now: datetime) -> Write:
        """Release; hold after *times* releases: work that dies each time must not be retried for ever."""
        last = record.decisions[-1] if record.decisions else None
        again = last is not None and last.kind is not Decider.PERSON and last.how is Resolve.NOT_DONE
        before = last.times if last is not None and again else 0
        if before < self._times:
            return _resolved(record, Resolve.NOT_DONE, kind, because, now)
        exhausted = f"the watchdog has released it {before} times, and its lease has expired again"
        return _resolved(record, Resolve.HOLD, Decider.WATCHDOG, exhausted, now)

    def _done(self, record: Record, result: object, now: datetime) -> Write:
        """Complete: work is not repeated because its result is not serialisable (guarantee 5)."""
        try:
            text = self._codec.dump(result)
            return _resolved(record, Resolve.DONE, Decider.PROBE, PROBED_DONE, now, text)
        except NotSerialisable:  # or too large
            because = f"{PROBED_DONE}, but its result cannot be stored"
            return _resolved(record, Resolve.DONE, Decider.PROBE, because, now, Unavailable.UNAVAILABLE)


def _resolved(
    record: Record,
    how: Resolve,
    kind: Decider,
    because: str,
    now: datetime,
    result: str | Unavailable | None = None,
) -> Write:
    return decided(record, how, Author(WATCHDOG, because, kind), now, result=result)
