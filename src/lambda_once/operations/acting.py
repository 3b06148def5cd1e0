"""What the watchdog may do about an overdue token: what its user said for the function, and no more."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lambda_once.core.codec import Codec
from lambda_once.core.results import NotSerialisable, Unavailable
from lambda_once.core.writes import Complete, new_write_id
from lambda_once.errors import Misconfigured
from lambda_once.operations.names import parts_of
from lambda_once.operations.settling import WATCHDOG, Verdict, settlement
from lambda_once.policies import NOT_DONE, UNKNOWN, Done, Lapsed

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from datetime import datetime

    from lambda_once.core.record import Record
    from lambda_once.core.writes import Finish

OverdueProbe = Callable[[Lapsed], object]
Action = Literal["release"] | OverdueProbe

RELEASED = "the watchdog may release it"
DONE = "the probe found it done"
WAS_NOT_DONE = "the probe says that it was not done"
NOBODY_KNOWS = "the probe does not know whether it was done"


class ProbeFailed(Exception):
    """A probe raised, or answered what is no answer. The message is the class of the exception or answer."""


class Decided(NamedTuple):
    """A verdict on an overdue token, and the write that makes it so."""

    record: Record
    verdict: Verdict
    because: str
    write: Finish


class Actions:
    """
    What to do about overdue tokens, by patterns of their names.

    A pattern (`fnmatch`, case counts) is compared with ``service/name`` and with the name; the first that
    matches, in the order of *actions*, says what is done. Raises `Misconfigured` for what is no action.
    """

    def __init__(self, actions: Mapping[str, Action], times: int) -> None:
        for pattern, action in actions.items():
            if action != "release" and not callable(action):
                raise Misconfigured(
                    f'actions[{pattern!r}] is {action!r}: give "release", or a probe that tells what was done'
                )
        if times < 0:
            raise Misconfigured(f"times is {times}: give 0 or more releases of one token")
        self._actions = dict(actions)
        self._times = times
        self._codec = Codec(Any)

    def of(self, token: str) -> Action | None:
        """Return what is to be done about *token*; None: nothing but to say that it is overdue."""
        name = parts_of(token)
        if name is None:
            return None
        called = (f"{name.service}/{name.name}", name.name)
        return next(
            (
                action
                for pattern, action in self._actions.items()
                if any(fnmatchcase(own, pattern) for own in called)
            ),
            None,
        )

    def decide(self, action: Action, record: Record, now: datetime) -> Decided:
        """Return what becomes of *record*, which lapsed. Raises `ProbeFailed`; nothing is known then."""
        if not callable(action):
            return self._given_back(record, RELEASED, now)
        answer = _answer(action, record)
        if isinstance(answer, Done):
            return self._done(record, answer.result, now)
        if answer is NOT_DONE:
            return self._given_back(record, WAS_NOT_DONE, now)
        if answer is UNKNOWN:
            return _decided(record, Verdict.HOLD, NOBODY_KNOWS, now)
        raise ProbeFailed(type(answer).__name__)

    def _given_back(self, record: Record, because: str, now: datetime) -> Decided:
        """Release, so often: work that dies at each try must not be tried for ever, unseen."""
        note = record.resolution
        before = note.times if note is not None and note.by == WATCHDOG else 0
        if before < self._times:
            return _decided(record, Verdict.NOT_DONE, because, now)
        tired = f"the watchdog has released it {before} times, and its lease is over again"
        return _decided(record, Verdict.HOLD, tired, now)

    def _done(self, record: Record, result: object, now: datetime) -> Decided:
        """Complete: done work is never done again because its result cannot be kept (guarantee 5)."""
        try:
            return _decided(record, Verdict.DONE, DONE, now, self._codec.dump(result))
        except NotSerialisable:
            decided = _decided(record, Verdict.DONE, DONE, now)
            change = Complete(Unavailable())
            write = replace(decided.write, change=change, write=new_write_id(change))
            return decided._replace(write=write, because=f"{DONE}, but its result cannot be kept")


def _decided(
    record: Record, verdict: Verdict, because: str, now: datetime, result: str | None = None
) -> Decided:
    write = settlement(record, verdict, by=WATCHDOG, because=because, now=now, result=result)
    return Decided(record, verdict, because, write)


def _answer(probe: OverdueProbe, record: Record) -> object:
    import asyncio

    try:
        answer = probe(Lapsed.of(record))
        return asyncio.run(_awaited(answer)) if inspect.isawaitable(answer) else answer
    except Exception as broken:
        # Not chained to what is logged: the message of a user's exception may quote data.
        raise ProbeFailed(type(broken).__name__) from broken


async def _awaited(answer: Awaitable[object]) -> object:
    return await answer
