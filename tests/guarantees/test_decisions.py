"""Guarantees 2 and 3 for what a person decides: no late write undoes it, or takes it for its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import HOLD, Fenced, Held, OnceError
from lambda_once.core.lifecycle import Record, Resolve
from lambda_once.operations.decisions import Author, decided
from lambda_once.stores.contract import Refused, WriteAnswer, Written
from tests.guarantees.machines import Cluster, Scenario, deliver, tried


class Unsafe(Exception):
    """A person must look."""


def _unsafe() -> None:
    raise Unsafe


def _decided(machines: Cluster, seen: Record, decision: Resolve, result: str | None = None) -> WriteAnswer:
    """Let an operator who read *seen* decide it."""
    now = machines.clock.now()
    write = decided(seen, decision, Author("ann", "seen"), now, result=result)
    (answer,) = machines.store.write([write], machines.deadline)
    return answer


def _held(machines: Cluster, who: str) -> Record:
    """Let *who* be held, and return the row as an operator sees it."""
    with pytest.raises(Unsafe):
        deliver(machines.machine(who, _unsafe, on_error={Unsafe: HOLD}))
    return machines.row()


def done_while_paused(machines: Cluster) -> None:
    """An operator says that it was done, of an attempt that is only slow; then the attempt resumes."""

    def outlives_its_lease() -> str:
        machines.lapse()
        assert _decided(machines, machines.row(), Resolve.DONE, '"what ann found"') == Written.WRITTEN
        return "what the sleeper has"

    woken = tried(machines.machine("first", outlives_its_lease, on_lapse="hold"))
    assert woken == tried(machines.machine("second")) == "what ann found"


def not_done_while_paused(machines: Cluster) -> None:
    """An operator says that it was not done; the attempt resumes before the next delivery comes."""

    def outlives_its_lease() -> str:
        machines.lapse()
        assert _decided(machines, machines.row(), Resolve.NOT_DONE) == Written.WRITTEN
        return "what the sleeper has"

    woken = tried(machines.machine("first", outlives_its_lease, on_lapse="hold"))
    assert isinstance(woken, OnceError), woken
    assert tried(machines.machine("second")) == "second"


def held_while_paused(machines: Cluster) -> None:
    """An operator wants it to wait; the attempt that resumes changes nothing about that."""

    def outlives_its_lease() -> str:
        machines.lapse()
        assert _decided(machines, machines.row(), Resolve.HOLD) == Written.WRITTEN
        return "what the sleeper has"

    woken = tried(machines.machine("first", outlives_its_lease, on_lapse="hold"))
    assert isinstance(woken, OnceError), woken
    assert isinstance(tried(machines.machine("second")), Held)


def successor_in_progress(machines: Cluster) -> None:
    """An operator says that it was not done, the next delivery is in progress, and the attempt resumes."""

    def while_it_runs() -> str:
        assert isinstance(resume(), Fenced)
        return "second"

    resumed: list[Callable[[], Any]] = []

    def resume() -> Any:
        return resumed[0]()

    def outlives_its_lease() -> str:
        machines.lapse()
        first = machines.attempt("first")
        resumed.append(lambda: _raised(lambda: first.extend(3_600)))
        assert _decided(machines, machines.row(), Resolve.NOT_DONE) == Written.WRITTEN
        assert tried(machines.machine("second", while_it_runs)) == "second"
        return "first"

    assert tried(machines.machine("first", outlives_its_lease, on_lapse="hold")) == "second"
    assert tried(machines.machine("third")) == "second"


def _raised(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except OnceError as refusal:
        return refusal


PAUSED = (done_while_paused, not_done_while_paused, held_while_paused, successor_in_progress)


@pytest.mark.parametrize("scenario", PAUSED)
def test_a_resumed_attempt_changes_no_decision(scenario: Scenario, machines: Cluster) -> None:
    """It is answered what every duplicate is answered, and the decision is unchanged."""
    scenario(machines)


def test_a_lost_decision_is_ours(machines: Cluster) -> None:
    """The decision is written, and its answer is lost."""
    seen = _held(machines, "first")
    machines.lose_answers()
    assert _decided(machines, seen, Resolve.DONE, '"what ann found"') == Written.WRITTEN
    assert tried(machines.machine("second")) == "what ann found"


def two_on_a_held_token(machines: Cluster) -> None:
    """Two look at a held token. One says not done, and the next delivery is held; then the other says it."""
    seen = _held(machines, "first")
    assert _decided(machines, seen, Resolve.NOT_DONE) == Written.WRITTEN
    again = _held(machines, "second")
    assert _decided(machines, seen, Resolve.NOT_DONE) == Refused(again)
    assert isinstance(tried(machines.machine("third")), Held)


def two_on_a_finished_token(machines: Cluster) -> None:
    """The same of a complete one: the next delivery has done it by the time that the other says not done."""
    deliver(machines.machine("first"))
    seen = machines.row()
    assert _decided(machines, seen, Resolve.NOT_DONE) == Written.WRITTEN
    assert tried(machines.machine("second")) == "second"
    assert _decided(machines, seen, Resolve.NOT_DONE) == Refused(machines.row())
    assert tried(machines.machine("third")) == "second"


def two_on_a_released_token(machines: Cluster) -> None:
    """The same of a released one: the next delivery was released, too; the other speaks of the one before."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("first", fails))
    seen = machines.row()
    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("second", fails))
    assert _decided(machines, seen, Resolve.DONE, '"of the first"') == Refused(machines.row())
    assert tried(machines.machine("third")) == "third"


@pytest.mark.parametrize("scenario", [two_on_a_held_token, two_on_a_finished_token, two_on_a_released_token])
def test_a_decision_is_on_the_attempt_that_was_read(scenario: Scenario, machines: Cluster) -> None:
    """Not on a later one, whose outcome is unknown."""
    scenario(machines)


def finished_meanwhile(machines: Cluster) -> None:
    """An operator looks at a lapsed token; the attempt resumes and completes it before they say not done."""
    rows_read: list[Record] = []

    def outlives_its_lease() -> str:
        machines.lapse()
        rows_read.append(machines.row())
        return "first"

    deliver(machines.machine("first", outlives_its_lease, on_lapse="hold"))
    assert _decided(machines, rows_read[0], Resolve.NOT_DONE) == Refused(machines.row())
    assert tried(machines.machine("second")) == "first"


def renewed_meanwhile(machines: Cluster) -> None:
    """An operator looks at a lapsed token; the attempt renews its lease before they say not done."""

    def outlives_its_lease() -> str:
        machines.lapse()
        seen = machines.row()
        machines.attempt("first").extend(3_600)
        assert _decided(machines, seen, Resolve.NOT_DONE) == Refused(machines.row())
        assert isinstance(tried(machines.machine("second")), OnceError)
        return "first"

    assert tried(machines.machine("first", outlives_its_lease, on_lapse="hold")) == "first"
    assert machines.ran == ["first"]


@pytest.mark.parametrize("scenario", [finished_meanwhile, renewed_meanwhile])
def test_an_attempt_that_resumes_first_keeps_its_outcome(scenario: Scenario, machines: Cluster) -> None:
    """The operator has seen something that is not so any more: they are refused."""
    scenario(machines)
