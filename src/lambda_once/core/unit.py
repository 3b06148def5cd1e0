"""
A unit of work: which work it is, and what the function gets of this delivery of it.

Every source makes one value of one type, so that `decorators.identify` and the engine know no source. What
tells two pieces of work apart is its `Identity`, which has no defaults: a source that says nothing of a part
writes `NOTHING`, so mypy asks the author of the next source for each. `core/identity.py` decides what becomes
of the parts. A record that can't be read is a unit, too (`Refused`): its id, its group and its turn count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.errors import KeyMissing

if TYPE_CHECKING:
    from lambda_once.core.lifecycle import Presented
    from lambda_once.errors import Misconfigured


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


class Who(NamedTuple):
    """Who asks for the work."""

    joins: tuple[str, ...]
    """What of it is stable and verified: a part of the scope."""
    presented: Presented | None
    """The credential, which a duplicate must present, too; None: nothing is compared."""


class Given(NamedTuple):
    """In the place of a position: the key that a client or a block gives."""

    key: object


class Among(NamedTuple):
    """The positions of records among the arguments of a function, whose call is keyed by its hash."""

    positions: object


class Refused(NamedTuple):
    """Work that can't be identified, not by ``key=`` either: a record that can't be processed, for one."""

    error: KeyMissing | Misconfigured


class Flaw(NamedTuple):
    """What is wrong with a payload that ``key=`` may identify all the same."""

    error: KeyMissing | Misconfigured | None = None
    """Why it makes no key by itself; None: it makes one."""
    unread: str | None = None
    """What the error begins with if an expression selects nothing from it."""


class Content(NamedTuple):
    """What the work is about, and how it is read."""

    payload: object
    """The payload for key, fingerprint and ignore: parsed, with envelopes opened."""
    counted: Callable[[object], object] = itself
    """From a payload without ignored fields to what is hashed if there is no key."""
    parsed: bool = True
    """Whether payload and envelope are parsed JSON; if not, expressions see their plain form."""
    view: object = NOTHING
    """What expressions see in place of the payload: a record or event as the function gets it."""
    data: object = NOTHING
    """What *payload* was decoded from by a schema (`identity.BYTES`)."""
    flaw: Refused | Flaw | None = None


class Identity(NamedTuple):
    """Which work it is: all that a source says of it, equal in all its deliveries. `NOTHING`: not said."""

    who: Who | Nothing
    operation: tuple[object, ...] | Nothing
    """Which kind of work is asked for, a part of the scope; of a block its ``scope=``."""
    origin: object
    """Where it was published: account and name of its queue, topic, stream or table."""
    position: object
    """Where it stands there, such as an offset or an event id: the default key. Or `Given`, or `Among`."""
    attributes: Any
    """What counts of what the sender wrote beside the payload: by name, or Kafka's pairs in their order."""
    content: Content

    @property
    def scope(self) -> tuple[object, ...]:
        """The part of the scope that the source adds."""
        operation = () if self.operation is NOTHING else self.operation
        return operation if self.who is NOTHING else (*operation, *self.who.joins)

    @property
    def presented(self) -> Presented | None:
        """The credential of the request; None: nothing is compared."""
        return None if self.who is NOTHING else self.who.presented

    def seen_as(self, view: object) -> Identity:
        """Return it with *view*, as the function gets it, which expressions see in place of the payload."""
        return self._replace(content=self.content._replace(view=view))


class Delivered(NamedTuple):
    """What the function gets, and what differs between two deliveries: none of it enters a default key."""

    argument: object
    """The argument of the function and of a callable key."""
    envelope: Mapping[str, object] = MappingProxyType({})
    """The raw record or event, for scope."""
    delivery: str | None = None
    """The id of the delivery; None if the source gave none."""
    redelivered: bool = False
    """Whether the source reports that it delivered this before: a row is likely."""
    id: RecordId = None
    """Of a record: the id to return to its source if it failed; None if it has none, and for SNS and MQ."""
    group: str | None = None
    """
    Of a record: where order counts. Records of one group run one after the other, bad ones, too.

    A message group, a partition key, the key of an item.
    """


class Unit(NamedTuple):
    """One piece of work, as its source delivered it."""

    what: Identity
    record: Delivered


class BadRecord(KeyMissing):
    """The record cannot be processed. The rest of its batch can."""


class BadRequest(KeyMissing):
    """The request has no valid key. The message is for the client and repeats nothing of the request."""


class MalformedRequest(BadRequest):
    """The request is malformed beside its key: its body cannot be decoded, or it names two callers."""
