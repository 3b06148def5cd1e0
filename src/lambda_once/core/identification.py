"""
What identifies a unit of work, as a value.

`decorators.identify` makes it. A call runs from it, `explain` prints it, and `KeyReused` compares it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.fields import Difference, Fields, Printed, difference

if TYPE_CHECKING:
    from lambda_once.core.lifecycle import Presented, Record


class KeyFrom(Enum):
    """Where the key of a unit comes from."""

    OPTION = "key="
    SOURCE = "what the source itself identifies it by"
    HASH = "the hash of its payload"


class Identification(NamedTuple):
    """
    How a unit of work differs from every other one, as far as that could be found.

    If something went wrong it is in *error*, and the members after the one that failed are empty.
    """

    key_from: KeyFrom = KeyFrom.HASH
    payload: object = None
    """The payload without ignored fields."""
    key: object = None
    scope: object = None
    token: str = ""
    hashed: Printed | None = None
    """The text that the fingerprint is the hash of; None: there is no fingerprint."""
    fingerprint: str | None = None
    fields: Fields | None = None
    """Its fields, of which the row keeps checksums."""
    presented: Presented | None = None
    """The credential of the request, which a duplicate must present, too; None: nothing is compared."""
    error: Exception | None = None

    def difference(self, record: Record) -> Difference:
        """Return how the payload differs from the one of *record*, a row with another fingerprint."""
        return difference(record.fields, self.fields)

    def clashes(self, other: Identification) -> bool:
        """Whether *other*, a later unit with the same token, has another payload: `KeyReused`."""
        both = None not in (self.fingerprint, other.fingerprint)
        return both and self.fingerprint != other.fingerprint

    def is_of_other_caller(self, other: Identification) -> bool:
        """Whether *other*, a later unit with the same token, presents other credentials: `OtherCaller`."""
        if self.presented is None or other.presented is None:
            return False
        if not (self.presented.proof and other.presented.proof):
            return True
        return self.presented.credential not in (None, other.presented.credential)
