"""
A unit of work: what a source has read, and all that the rest of the package knows of an event.

Every source makes one value of one type, so that `decorators.identify` and the engine know no source. A
record that can't be read is a unit, too (`Unit.bad`): its id, its group and its turn count like any other's.
What we're not happy with: 23 fields, of which a source sets seven; some (`unread`, `is_malformed`, `refused`)
are for records among the arguments of a function alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.errors import KeyMissing

if TYPE_CHECKING:
    from lambda_once.core.lifecycle import Presented


class Nothing(Enum):
    """The type of `NOTHING`, so that type checkers can narrow by `is`."""

    NOTHING = "NOTHING"


NOTHING: Final = Nothing.NOTHING
"""Nothing there: distinct from every payload and key, `None` included. Compare it by `is`."""


RecordId = str | Mapping[str, object] | None
"""What a partial batch response names a record by; None if it has none."""


def itself(payload: object) -> object:
    """Return *payload*, the content of most sources."""
    return payload


class Unit(NamedTuple):
    """
    One piece of work, as its source delivered it.

    Only *delivery*, *envelope*, *argument*, *redelivered* and *id* differ between deliveries of the same
    work; they never enter a default key.
    """

    payload: object
    """The payload for key, fingerprint and ignore: parsed, with envelopes opened."""
    envelope: Mapping[str, object] = MappingProxyType({})
    """The raw record or event, for scope."""
    argument: object = None
    """The argument of the function and of a callable key."""
    delivery: str | None = None
    """The id of the delivery; None if the source gave none."""
    content: Callable[[object], object] = itself
    """From a payload without ignored fields to what is hashed if there is no key."""
    key: object = NOTHING
    """The developer's own key, that of a block; `NOTHING`: ``key=``, or the source's default."""
    origin: object = NOTHING
    """Where it was published: account and name of its queue, topic, stream or table."""
    position: object = NOTHING
    """Where it stands there, such as an offset or an event id: the default key; `NOTHING`: a hash is."""
    parsed: bool = True
    """Whether payload and envelope are parsed JSON; if not, expressions see their plain form."""
    needs_key: str | KeyMissing | None = None
    """Why it needs ``key=``: the error without it, `Misconfigured` for a message."""
    scope: tuple[object, ...] = ()
    """The part of the scope that the source adds."""
    redelivered: bool = False
    """Whether the source reports that it delivered this before: a row is likely. It enters no key."""
    unread: str | None = None
    """What is wrong with a record among the arguments of a function: why an expression selects nothing."""
    presented: Presented | None = None
    """The credential of the request, which a duplicate must present, too; None: nothing is compared."""
    attributes: Any = NOTHING
    """What counts of what the sender wrote beside the payload; `NOTHING`: there's no place for it."""
    view: object = NOTHING
    """What expressions see in place of the payload: a record or event as the function gets it."""
    data: object = NOTHING
    """What *payload* was decoded from by a schema (`identity.BYTES`)."""
    is_call: bool = False
    """Whether it's a call of a function: *position* is that of records among its arguments."""
    is_malformed: bool = False
    """Whether *unread* is why the payload makes no key: each delivery would have another one."""
    refused: str | None = None
    """Why it can't be identified at all: the message of the error."""
    id: RecordId = None
    """Of a record: the id to return to its source if it failed; None if it has none, and for SNS and MQ."""
    group: str | None = None
    """
    Of a record: where order counts. Records of one group run one after the other, bad ones, too.

    A message group, a partition key, the key of an item.
    """
    bad: str | None = None
    """Why it can't be processed, a record without payload and key. The rest of its batch can."""


class BadRecord(KeyMissing):
    """The record cannot be processed. The rest of its batch can."""


class BadRequest(KeyMissing):
    """The request has no valid key. The message is for the client and repeats nothing of the request."""


class MalformedRequest(BadRequest):
    """The request is malformed beside its key: its body cannot be decoded, or it names two callers."""
