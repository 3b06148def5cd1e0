"""
A unit of work: which work it is, and what the function gets of this delivery of it.

Every source makes one value of one type, so that `decorators.identify` and the engine know no source. An
`Identity` has no defaults: a source that says nothing of a part writes `NOTHING`, so mypy asks the author of
the next source for each. A record that can't be read is a unit, too (`identity.Refused`): its id, its group
and its turn count like any other's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from lambda_once.core.identity import Identity
from lambda_once.errors import KeyMissing

RecordId = str | Mapping[str, object] | None
"""What a partial batch response names a record by; None if it has none."""


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
