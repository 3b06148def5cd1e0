"""The row of one token, as a value."""

from __future__ import annotations

import hmac
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from lambda_once.core.clock import epoch_seconds

if TYPE_CHECKING:
    from datetime import datetime

    from lambda_once.core.results import Stored


class State(Enum):
    """The state of a token."""

    IN_PROGRESS = "inProgress"
    COMPLETE = "complete"
    HELD = "error"
    """Needs manual review."""
    RELEASED = "released"
    """Released: the next delivery may retry."""


class Presented(NamedTuple):
    """
    The credential that a request presents, compared with the first request's. Its repr does not contain it.

    None: the request could have had one, and has none.
    """

    credential: str | None

    def __repr__(self) -> str:
        return "Presented(…)"

    def mark(self, salt: str) -> str | None:
        """
        Return the mark that a row stores: *salt*, an attempt id, and the HMAC under it. None without one.

        The mark contains the salt, because resolving a token changes its attempt id. Two rows never have the
        same mark, so marks do not reveal which callers are the same.
        """
        if self.credential is None:
            return None
        text = self.credential.encode("utf-8", "surrogatepass")
        return f"{salt}.{hmac.digest(salt.encode(), text, 'sha256').hex()}"


MESSAGE_LIMIT = 1024
"""Characters of an error's message that are stored: a row stays small."""


class Failure(NamedTuple):
    """An exception as a row stores it: the name of its class, and its message."""

    kind: str
    message: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        try:
            message = str(error)
        except Exception:  # noqa: BLE001  (the user's __str__ failed: the attempt must still be finished)
            message = "message unavailable: __str__ raised"
        return cls(type(error).__name__, message[:MESSAGE_LIMIT])


class Resolution(NamedTuple):
    """What a third party decided about a token, and why. Later attempts leave it."""

    by: str
    """The name of an operator, or `WATCHDOG`."""
    because: str
    at: datetime
    times: int = 1
    """How often in a row the same writer has decided: the watchdog stops releasing a token at a limit."""


class Record(NamedTuple):
    """One row: the token, its latest attempt, and its outcome."""

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
    """Checksums of the payload's fields (`core.fields`), for messages only."""
    write: str | None = None
    """The id of the write that ended it; None in progress, and in older rows."""
    caller: str | None = None
    """The mark of the credential (`Presented.mark`); None: there was none, or none counts."""

    def expired(self, now: datetime) -> bool:
        """
        Return whether the row counts as absent: complete or released, and past its ttl.

        DynamoDB may delete such a row up to two days late (developer guide, time to live). A row in progress
        or held never expires here, whatever its ttl.
        """
        ended = self.state in (State.COMPLETE, State.RELEASED)
        return ended and self.ttl is not None and self.ttl <= epoch_seconds(now)

    def lapsed(self, now: datetime) -> bool:
        """Return whether it is in progress and its lease is over: whether the work happened is unknown."""
        return self.state is State.IN_PROGRESS and self.expected_completion < now

    def clashes(self, fingerprint: str | None) -> bool:
        """Return whether the row has another fingerprint than *fingerprint*; False without either."""
        return fingerprint is not None and self.fingerprint is not None and fingerprint != self.fingerprint

    def is_of_another(self, presented: Presented | None) -> bool:
        """Return whether *presented* is another credential than the row's; False without either."""
        if presented is None or self.caller is None:
            return False
        mark = presented.mark(self.caller.partition(".")[0])
        return mark is None or not hmac.compare_digest(self.caller.encode(), mark.encode())
