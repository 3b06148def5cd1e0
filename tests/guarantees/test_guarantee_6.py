"""Guarantee 6: a token that waits for a person, or may have to, never expires."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lambda_once import HOLD, UNKNOWN, Held
from tests.guarantees.machines import Cluster, deliver, tried

A_YEAR = timedelta(days=365)
KEEP = timedelta(days=1)


def _waits(machines: Cluster, **options: Any) -> None:
    """A year goes by, DynamoDB deletes what has expired, and a redelivery comes."""
    machines.clock.advance(A_YEAR.total_seconds())
    machines.sweep()
    ran = list(machines.ran)
    answer = tried(machines.machine("later", keep=KEEP, **options))
    assert isinstance(answer, Held), answer
    assert machines.ran == ran


def _fails() -> None:
    raise TimeoutError("the bank did not answer")


def held(machines: Cluster) -> None:
    """The work raised, and a person has to look; the token had a ttl while it was in progress."""
    options: dict[str, Any] = {"on_error": lambda _: HOLD, "on_lapse": "take_over", "keep": KEEP}
    with pytest.raises(TimeoutError):
        deliver(machines.machine("first", _fails, **options))
    _waits(machines)


def crashed_under_hold(machines: Cluster) -> None:
    """The machine is gone in the middle of it."""
    machines.crash(on_lapse="hold", keep=KEEP)
    _waits(machines, on_lapse="hold")


def crashed_at_the_second_acquisition(machines: Cluster) -> None:
    """An outcome has expired and is not yet deleted; its token is acquired again, and the machine is gone."""
    deliver(machines.machine("first", keep=KEEP))
    machines.clock.advance(KEEP.total_seconds() + 1)
    machines.crash(on_lapse="hold", keep=KEEP)
    _waits(machines, on_lapse="hold")


def crashed_before_the_deploy(machines: Cluster) -> None:
    """Acquired under take_over; a deploy says hold, and a redelivery gets Held before the ttl is over."""
    machines.crash(keep=KEEP)
    machines.lapse()
    assert isinstance(tried(machines.machine("deployed", on_lapse="hold")), Held)
    _waits(machines, on_lapse="hold")


def a_probe_cannot_tell(machines: Cluster) -> None:
    """The same, with a probe that cannot tell."""
    machines.crash(keep=KEEP)
    machines.lapse()
    assert isinstance(tried(machines.machine("deployed", on_lapse=lambda *_: UNKNOWN)), Held)
    _waits(machines, on_lapse="hold")


@pytest.mark.parametrize(
    "scenario",
    [
        held,
        crashed_under_hold,
        crashed_at_the_second_acquisition,
        crashed_before_the_deploy,
        a_probe_cannot_tell,
    ],
)
def test_a_held_token_never_expires(scenario: Any, machines: Cluster) -> None:
    """A year later it is still held, and nothing has run again."""
    scenario(machines)


def test_a_retry_under_hold_is_another_attempt(machines: Cluster) -> None:
    """Lambda retries an asynchronous event under the request id of the attempt that crashed."""
    machines.crash(on_lapse="hold")
    machines.lapse()
    assert isinstance(tried(machines.machine("retry", on_lapse="hold"), request_id="request-1"), Held)
