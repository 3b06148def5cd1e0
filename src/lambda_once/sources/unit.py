"""What every source is turned into: units of work, and records that cannot be one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from lambda_once.core.record import Presented


class Nothing(Enum):
    """The type of `NOTHING`, so that type checkers can narrow by `is`."""

    NOTHING = "NOTHING"


NOTHING: Final = Nothing.NOTHING
"""Nothing there: distinct from every payload and key, `None` included. Compare it by `is`."""


class Unit(NamedTuple):
    """
    One piece of work, as its source delivered it.

    Nothing in it depends on how often or when the work was delivered, but
    *delivery*, *envelope* and *subject*; these never enter a default key.
    """

    payload: object
    """What key, fingerprint and ignore see: parsed, its envelopes opened."""
    envelope: Mapping[str, object]
    """What scope sees: the raw record or event."""
    argument: object
    """What the function and a callable key receive."""
    delivery: str | None
    """The delivery as its source identifies it; None where the source gave no id."""
    content: Callable[[object], object]
    """From a payload, ignored fields removed, to what is hashed when there is no key."""
    key: object = NOTHING
    """The source's own default key; `NOTHING`: hash the content."""
    parsed: bool = True
    """Whether payload and envelope are JSON as parsed; else expressions see their plain form."""
    needs_key: str | None = None
    """Why it cannot be keyed by itself: what is raised without ``key=``."""
    scope: tuple[object, ...] = ()
    """What stands in the token before the user's scope."""
    redelivered: bool = False
    """Whether the source reports that it delivered this before: a row is likely. It enters no key."""
    presented: Presented | None = None
    """The credential that came with it, which a duplicate must present, too; None: nothing is compared."""


class Malformed(NamedTuple):
    """A record that cannot be worked. The rest of its batch can."""

    message: str
    """What is wrong, with which record, and what to do; never its content."""
    id: str | None
    """The record's own id, where it has one."""


def itself(payload: object) -> object:
    """Return *payload*: the content of a source that adds nothing of its own."""
    return payload
