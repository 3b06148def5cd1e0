"""Guarantee 6: a token that waits for a person, or may have to, never expires."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lambda_once import HOLD, UNKNOWN, Held
from lambda_once.core import writes
from lambda_once.engine import acquire as acquiring
from lambda_once.engine import finish as finishing
from lambda_once.engine import ownership
from lambda_once.stores import requests
from tests.guarantees.machines import Cluster, breaks, deliver, holds, tried

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


def _held(machines: Cluster) -> None:
    """The work raised, and a person has to look; the token had a ttl while it was in progress."""
    options: dict[str, Any] = {"on_error": lambda _: HOLD, "on_lapse": "take_over", "keep": KEEP}
    with pytest.raises(TimeoutError):
        deliver(machines.machine("first", _fails, **options))
    _waits(machines)


def _crashed_under_hold(machines: Cluster) -> None:
    """The machine is gone in the middle of it."""
    machines.crash(on_lapse="hold", keep=KEEP)
    _waits(machines, on_lapse="hold")


def _crashed_at_the_second_acquisition(machines: Cluster) -> None:
    """An outcome has expired and is not yet deleted; its token is acquired again, and the machine is gone."""
    deliver(machines.machine("first", keep=KEEP))
    machines.clock.advance(KEEP.total_seconds() + 1)
    machines.crash(on_lapse="hold", keep=KEEP)
    _waits(machines, on_lapse="hold")


def _crashed_before_the_deploy(machines: Cluster) -> None:
    """Acquired under take_over; a deploy says hold, and a redelivery is told Held before the ttl is over."""
    machines.crash(keep=KEEP)
    machines.lapse()
    assert isinstance(tried(machines.machine("deployed", on_lapse="hold")), Held)
    _waits(machines, on_lapse="hold")


def _nobody_knows(machines: Cluster) -> None:
    """The same, with a probe that cannot tell."""
    machines.crash(keep=KEEP)
    machines.lapse()
    assert isinstance(tried(machines.machine("deployed", on_lapse=lambda *_: UNKNOWN)), Held)
    _waits(machines, on_lapse="hold")


@pytest.mark.parametrize(
    "scenario",
    [
        _held,
        _crashed_under_hold,
        _crashed_at_the_second_acquisition,
        _crashed_before_the_deploy,
        _nobody_knows,
    ],
)
def test_what_waits_for_a_person_never_expires(scenario: Any) -> None:
    """A year later it is still held, and nothing has run again."""
    holds(scenario)


def _a_day_later(machines_clock: Any) -> int:
    return int(machines_clock.timestamp()) + 86_400


def test_twin_with_a_ttl_on_a_held_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is deleted with its question, and the work runs again."""
    monkeypatch.setattr(ownership, "ttl_after", lambda _change, _call, now: _a_day_later(now))
    breaks(_held)


def test_twin_with_a_ttl_under_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """What crashed is deleted, and the work runs again."""
    acquire = writes.Acquire

    def mortal(**acquisition: Any) -> writes.Acquire:
        return acquire(**{**acquisition, "ttl": _a_day_later(acquisition["now"])})

    monkeypatch.setattr(acquiring, "Acquire", mortal)
    breaks(_crashed_under_hold)


def test_twin_that_leaves_the_old_ttl_at_an_acquisition(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that was acquired again is deleted by the ttl of its last outcome."""
    acquire = requests.acquire

    def leaves_ttl(table: str, acquisition: writes.Acquire, shards: int) -> dict[str, Any]:
        arguments = acquire(table, acquisition, shards)
        sets, removed = arguments["UpdateExpression"].split(" REMOVE ")
        if acquisition.ttl is None:
            arguments["UpdateExpression"] = f"{sets} REMOVE {removed.replace(', #ttl', '')}"
        return arguments

    monkeypatch.setattr(requests, "acquire", leaves_ttl)
    breaks(_crashed_at_the_second_acquisition)


@pytest.mark.parametrize("scenario", [_crashed_before_the_deploy, _nobody_knows])
def test_twin_that_does_not_pin_what_it_calls_held(monkeypatch: pytest.MonkeyPatch, scenario: Any) -> None:
    """The policy was changed, the row's ttl was not: it is deleted while a person looks for it."""
    monkeypatch.setattr(finishing.Finisher, "pin", lambda *_: None)
    breaks(scenario)


def _retried_with_the_same_request_id(machines: Cluster) -> None:
    """Lambda retries an asynchronous event under the request id of the attempt that crashed."""
    machines.crash(on_lapse="hold")
    machines.lapse()
    assert isinstance(tried(machines.machine("retry", on_lapse="hold"), request_id="request-1"), Held)


def test_a_retry_under_hold_is_another_attempt() -> None:
    """Its attempt id is fresh: what the first did is unknown to it."""
    holds(_retried_with_the_same_request_id)


def test_twin_with_the_request_id_for_an_attempt_id(monkeypatch: pytest.MonkeyPatch) -> None:
    """The retry takes the row for its own, and runs again what a person should look at."""
    monkeypatch.setattr(acquiring, "new_attempt_id", lambda: "request-1")
    breaks(_retried_with_the_same_request_id)
