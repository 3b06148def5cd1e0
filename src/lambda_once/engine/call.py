"""One protected call as a value: what all steps of its execution need, made once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.identification import Identification
from lambda_once.core.lifecycle import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta

    from lambda_once.core.codec import Codec
    from lambda_once.core.lifecycle import OnLapse
    from lambda_once.engine.invocation import Invocation
    from lambda_once.policies import OnError, Probe


def never_an_error(_value: object) -> BaseException | None:
    return None


class Plan(NamedTuple):
    """The policies of one decorator, resolved."""

    keep: timedelta
    lease: timedelta | None
    """None: the invocation's remaining time, and a margin."""
    on_error: OnError
    on_lapse: OnLapse
    probe: Probe | None
    waits: bool
    """Poll for the other attempt's result (``on_in_progress="wait"``)."""
    wait_for: timedelta
    """How long it waits at most."""
    runs_in_outage: bool
    """Run unprotected where the table does not answer (``on_store_outage="run"``)."""
    cache: int
    codec: Codec
    error_in: Callable[[Any], BaseException | None] = never_an_error
    """What what the work returned stands for: an error response (API Gateway), or None."""


class Call(NamedTuple):
    """A unit of work with its token: everything about it but the work."""

    name: str
    token: str
    plan: Plan
    invocation: Invocation
    identity: Identification = Identification()
    """How the unit was identified, by which a row of the same token is compared with it."""
    delivery: str | None = None
    arguments: tuple[object, ...] = ()
    """What a probe gets after the lapsed attempt."""
    redelivered: bool = False
    """Whether the source says that it delivered this before: a row is likely."""
    waits_for_own: bool = False
    """
    An asynchronous source: a token held under this very request id is Lambda's own retry after a
    crash, and waits for the lease; after two retries the event is gone (Lambda developer guide,
    asynchronous invocation).
    """

    def request(self, attempt: str) -> Request:
        """Return what of this call, made by *attempt*, bears on what it may do."""
        return Request(attempt, self.identity.fingerprint, self.plan.on_lapse, self.identity.presented)

    def mark(self, attempt: str) -> str | None:
        """Return the ``caller`` of the row of *attempt*."""
        presented = self.identity.presented
        return None if presented is None else presented.mark(attempt)
