"""What the token table says of one key."""

from __future__ import annotations

import hmac
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.clock import epoch_seconds

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.results import Stored


class State(Enum):
    """Where a token stands."""

    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    HELD = "error"
    """Waiting for a person."""
    RELEASED = "released"
    """Given back: the next delivery may try again."""


class Presented(NamedTuple):
    """
    The credential that a request presents, to be compared with the first one's. Its repr shows nothing of it.

    None: the request could have had one, and has none.
    """

    credential: str | None

    def __repr__(self) -> str:
        return "Presented(…)"

    def mark(self, salt: str) -> str | None:
        """
        Return what a row keeps of it: *salt*, an attempt id, and the HMAC under it. None where there is none.

        The salt stays with the mark, for a person's decision gives the row another attempt id. No two rows
        have one mark, so nobody can tell by them which callers are the same.
        """
        if self.credential is None:
            return None
        text = self.credential.encode("utf-8", "surrogatepass")
        return f"{salt}.{hmac.digest(salt.encode(), text, 'sha256').hex()}"


MESSAGE_LIMIT = 1024
"""Characters of an error's message that are kept: a row stays small."""


class Failure(NamedTuple):
    """An exception as a row keeps it: the name of its class, and its message."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        try:
            message = str(error)
        except Exception:  # noqa: BLE001  (the user's __str__ failed: the error itself must still be settled)
            message = "message unavailable: __str__ raised"
        return cls(type(error).__name__, message[:MESSAGE_LIMIT])


class Resolution(NamedTuple):
    """What somebody other than its attempts decided about a token, and why. It outlives later attempts."""

    by: str
    """The name of a person, or `WATCHDOG`."""
    because: str
    at: datetime
    times: int = 1
    """How often in a row the same writer has decided: the watchdog releases a token so often only."""


class Record(NamedTuple):
    """One row: the token, its latest attempt, and what came of it."""

    token: str
    state: State
    attempt: str
    fence: int
    locked_by: str
    created: datetime
    expected_completion: datetime
    actual_completion: datetime | None = None
    delivery: str | None = None
    fingerprint: str | None = None
    ttl: int | None = None
    stored: Stored = None
    error: Failure | None = None
    resolution: Resolution | None = None
    fields: bytes | None = None
    """Checksums of the payload's fields (`core.fields`): they name what differs, and decide nothing."""
    write: str | None = None
    """The id of the write that ended it; None in progress, and where such ids were not yet written."""
    caller: str | None = None
    """The mark of what the request presented (`Presented.mark`); None: there was none, or none counts."""

    def expired(self, now: datetime) -> bool:
        """
        Tell whether the row counts as absent: it is finished, and past its ttl.

        DynamoDB may delete such a row up to two days late (developer guide, time to live). An
        unfinished or held row never expires here, whatever its ttl says.
        """
        finished = self.state in (State.COMPLETE, State.RELEASED)
        return finished and self.ttl is not None and self.ttl <= epoch_seconds(now)

    def lapsed(self, now: datetime) -> bool:
        """Tell whether it is in progress and its lease is over: whether the work happened is unknown."""
        return self.state is State.IN_PROGRESS and self.expected_completion < now

    def clashes(self, fingerprint: str | None) -> bool:
        """Tell whether the token stands for another payload than *fingerprint*'s; both must have one."""
        return fingerprint is not None and self.fingerprint is not None and fingerprint != self.fingerprint

    def is_of_another(self, presented: Presented | None) -> bool:
        """Tell whether *presented* is another credential than the row's; a row without one is anybody's."""
        if presented is None or self.caller is None:
            return False
        mark = presented.mark(self.caller.partition(".")[0])
        return mark is None or not hmac.compare_digest(self.caller.encode(), mark.encode())
