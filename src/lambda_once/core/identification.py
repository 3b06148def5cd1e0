"""
The identification of a unit of work, as a value.

`decorators.identify` creates it, calls use it, and `explain` prints it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.fields import Difference, Fields, Printed, difference
from lambda_once.core.lifecycle import Presented

if TYPE_CHECKING:
    from lambda_once.core.lifecycle import Record


class KeyFrom(Enum):
    """The source of a unit's key."""

    OPTION = "key="
    SOURCE = "what the source itself identifies it by"
    HASH = "the hash of its payload"


class Identification(NamedTuple):
    """
    What identifies a unit of work.

    If a step failed, *error* has its exception, and the members of later steps are empty.
    """

    key_from: KeyFrom = KeyFrom.HASH
    payload: object = None
    """The payload without ignored fields."""
    key: object = None
    scope: object = None
    token: str = ""
    hashed: Printed | None = None
    """The canonical text that the fingerprint hashes; None: there is no fingerprint."""
    fingerprint: str | None = None
    fields: Fields | None = None
    """The fields of the payload; the row keeps their checksums."""
    presented: Presented | None = None
    """The credential of the request, compared with that of a duplicate; None: nothing is compared."""
    error: Exception | None = None

    def difference(self, record: Record) -> Difference:
        """Return how the payload differs from that of *record*, a row with another fingerprint."""
        return difference(record.fields, self.fields)

    def clashes(self, other: Identification) -> bool:
        """Whether *other*, a later unit with the same token, has another payload (`KeyReused`)."""
        both = None not in (self.fingerprint, other.fingerprint)
        return both and self.fingerprint != other.fingerprint

    def is_of_other_caller(self, other: Identification) -> bool:
        """Whether *other*, a later unit with the same token, has other credentials (`OtherCaller`)."""
        first, second = (each.presented or Presented(None) for each in (self, other))
        if not (first.proof and second.proof):
            return True
        return first.credential not in (None, second.credential)
