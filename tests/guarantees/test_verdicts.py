"""Guarantees 2 and 3 for what a person decides: nobody who is late undoes it, or takes it for their own."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from lambda_once import HOLD, Fenced, Held, OnceError
from lambda_once.core.lifecycle import Record
from lambda_once.core.writes import Resolver
from lambda_once.operations import resolution as resolutions
from lambda_once.operations.resolution import Resolve, resolution
from lambda_once.stores import requests, store
from lambda_once.stores.contract import Refused, WriteAnswer, Written
from tests.guarantees.machines import Cluster, Scenario, breaks, by_id_and_state, deliver, holds, tried


class Unsafe(Exception):
    """A person must look."""


def _unsafe() -> None:
    raise Unsafe


def _settle(machines: Cluster, seen: Record, verdict: Resolve, result: str | None = None) -> WriteAnswer:
    """Let an operator who looked at *seen* say what became of it."""
    now = machines.clock.now()
    write = resolution(seen, verdict, by="ann", because="seen", now=now, result=result)
    (answer,) = machines.store.write([write], machines.deadline)
    return answer


def _held(machines: Cluster, who: str) -> Record:
    """Let *who* be held, and return the row as an operator sees it."""
    with pytest.raises(Unsafe):
        deliver(machines.machine(who, _unsafe, on_error={Unsafe: HOLD}))
    return machines.row()


def _done_while_asleep(machines: Cluster) -> None:
    """An operator says that it was done, of an attempt that is only slow; then the attempt wakes up."""

    def overslept() -> str:
        machines.lapse()
        assert _settle(machines, machines.row(), Resolve.DONE, '"what ann found"') == Written.WRITTEN
        return "what the sleeper has"

    woken = tried(machines.machine("first", overslept, on_lapse="hold"))
    assert woken == tried(machines.machine("second")) == "what ann found"


def _not_done_while_asleep(machines: Cluster) -> None:
    """An operator says that it was not done; the attempt wakes up before the next delivery comes."""

    def overslept() -> str:
        machines.lapse()
        assert _settle(machines, machines.row(), Resolve.NOT_DONE) == Written.WRITTEN
        return "what the sleeper has"

    woken = tried(machines.machine("first", overslept, on_lapse="hold"))
    assert isinstance(woken, OnceError), woken
    assert tried(machines.machine("second")) == "second"


def _held_while_asleep(machines: Cluster) -> None:
    """An operator wants it to wait; the attempt that wakes up changes nothing about that."""

    def overslept() -> str:
        machines.lapse()
        assert _settle(machines, machines.row(), Resolve.HOLD) == Written.WRITTEN
        return "what the sleeper has"

    woken = tried(machines.machine("first", overslept, on_lapse="hold"))
    assert isinstance(woken, OnceError), woken
    assert isinstance(tried(machines.machine("second")), Held)


def _successor_at_work(machines: Cluster) -> None:
    """An operator says that it was not done, the next delivery is at work, and the attempt wakes up."""

    def at_work() -> str:
        assert isinstance(resume(), Fenced)
        return "second"

    resumed: list[Callable[[], Any]] = []

    def resume() -> Any:
        return resumed[0]()

    def overslept() -> str:
        machines.lapse()
        first = machines.attempt("first")
        resumed.append(lambda: _raised(lambda: first.extend(3_600)))
        assert _settle(machines, machines.row(), Resolve.NOT_DONE) == Written.WRITTEN
        assert tried(machines.machine("second", at_work)) == "second"
        return "first"

    assert tried(machines.machine("first", overslept, on_lapse="hold")) == "second"
    assert tried(machines.machine("third")) == "second"


def _raised(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except OnceError as refusal:
        return refusal


@pytest.mark.parametrize(
    "scenario", [_done_while_asleep, _not_done_while_asleep, _held_while_asleep, _successor_at_work]
)
def test_a_woken_attempt_changes_no_verdict(scenario: Scenario) -> None:
    """It is answered what every duplicate is answered, and what a person decided stands."""
    holds(scenario)


def test_twin_with_the_sleepers_id_and_state_at_the_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recognised by id and state, the woken attempt takes the verdict for its own write."""
    seen = SimpleNamespace(of=lambda record, _: Resolver.of(record, record.attempt_id))
    monkeypatch.setattr(resolutions, "Resolver", seen)
    for module in (store,):
        monkeypatch.setattr(module, "made_by", by_id_and_state)
    breaks(_done_while_asleep)


ANY_STATE = "begins_with(#status, :in_progress)", "(attribute_exists(lockToken) OR #status = :in_progress)"
ANY_ATTEMPT = "attempt = :a", "(attempt = :a OR attempt <> :a)"


@pytest.mark.parametrize(
    "scenario", [_done_while_asleep, _not_done_while_asleep, _held_while_asleep, _successor_at_work]
)
def test_twin_without_what_is_ours_a_woken_attempt_overwrites_a_verdict(
    monkeypatch: pytest.MonkeyPatch, scenario: Scenario
) -> None:
    """Its write is taken, whoever has the token by now and whatever was decided."""
    # Either part refuses it: a verdict changes the id, and where it settles, the state too.
    ours = requests.OURS.replace(*ANY_ATTEMPT).replace(*ANY_STATE)
    monkeypatch.setattr(requests, "OURS", ours)
    breaks(scenario)


def _answer_lost(machines: Cluster) -> None:
    """The verdict is written, and its answer is lost."""
    seen = _held(machines, "first")
    machines.lose_answers()
    assert _settle(machines, seen, Resolve.DONE, '"what ann found"') == Written.WRITTEN
    assert tried(machines.machine("second")) == "what ann found"


def test_a_lost_verdict_is_its_own() -> None:
    """The second try finds the id of its write in the row."""
    holds(_answer_lost)


def test_twin_without_recognition_a_verdict_is_refused_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator would be told that somebody else had been there."""
    for module in (store,):
        monkeypatch.setattr(module, "made_by", lambda *_: False)
    breaks(_answer_lost)


def _two_on_a_held_token(machines: Cluster) -> None:
    """Two look at a held token. One says not done, and the next delivery is held; then the other says it."""
    seen = _held(machines, "first")
    assert _settle(machines, seen, Resolve.NOT_DONE) == Written.WRITTEN
    again = _held(machines, "second")
    assert _settle(machines, seen, Resolve.NOT_DONE) == Refused(again)
    assert isinstance(tried(machines.machine("third")), Held)


def _two_on_a_finished_token(machines: Cluster) -> None:
    """The same of a complete one: the next delivery has done it by the time that the other says not done."""
    deliver(machines.machine("first"))
    seen = machines.row()
    assert _settle(machines, seen, Resolve.NOT_DONE) == Written.WRITTEN
    assert tried(machines.machine("second")) == "second"
    assert _settle(machines, seen, Resolve.NOT_DONE) == Refused(machines.row())
    assert tried(machines.machine("third")) == "second"


def _two_on_a_released_token(machines: Cluster) -> None:
    """The same of a released one: the next delivery was released, too; the other speaks of the one before."""

    def fails() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("first", fails))
    seen = machines.row()
    with pytest.raises(ZeroDivisionError):
        deliver(machines.machine("second", fails))
    assert _settle(machines, seen, Resolve.DONE, '"of the first"') == Refused(machines.row())
    assert tried(machines.machine("third")) == "third"


TWO = {
    "HELD_AS_SEEN": _two_on_a_held_token,
    "FINISHED_AS_SEEN": _two_on_a_finished_token,
    "RELEASED_WITH_LEASE": _two_on_a_released_token,
}


@pytest.mark.parametrize("scenario", TWO.values(), ids=TWO.keys())
def test_a_verdict_is_on_the_attempt_that_was_looked_at(scenario: Scenario) -> None:
    """Not on a later one, of which nobody has found out anything."""
    holds(scenario)


@pytest.mark.parametrize("condition", TWO)
def test_twin_without_the_attempt_a_verdict_hits_the_next_one(
    monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    """Both have the same lease: the id tells them apart; of a complete row the fence, too."""
    anybody = getattr(requests, condition)
    for part in ("attempt = :seen", "fence = :fence"):
        anybody = anybody.replace(part, f"({part} OR attribute_exists(lockToken))")
    monkeypatch.setattr(requests, condition, anybody)
    breaks(TWO[condition])


def _finished_meanwhile(machines: Cluster) -> None:
    """An operator looks at a lapsed token; the attempt wakes up and completes it before they say not done."""
    looked: list[Record] = []

    def overslept() -> str:
        machines.lapse()
        looked.append(machines.row())
        return "first"

    deliver(machines.machine("first", overslept, on_lapse="hold"))
    assert _settle(machines, looked[0], Resolve.NOT_DONE) == Refused(machines.row())
    assert tried(machines.machine("second")) == "first"


def _renewed_meanwhile(machines: Cluster) -> None:
    """An operator looks at a lapsed token; the attempt renews its lease before they say not done."""

    def overslept() -> str:
        machines.lapse()
        seen = machines.row()
        machines.attempt("first").extend(3_600)
        assert _settle(machines, seen, Resolve.NOT_DONE) == Refused(machines.row())
        assert isinstance(tried(machines.machine("second")), OnceError)
        return "first"

    assert tried(machines.machine("first", overslept, on_lapse="hold")) == "first"
    assert machines.ran == ["first"]


MEANWHILE = {
    "begins_with(#status, :in_progress)": _finished_meanwhile,
    "expectedCompletion = :lease": _renewed_meanwhile,
}


@pytest.mark.parametrize("scenario", MEANWHILE.values())
def test_an_attempt_that_wakes_up_first_keeps_what_it_made(scenario: Scenario) -> None:
    """The operator has seen something that is not so any more: they are refused."""
    holds(scenario)


@pytest.mark.parametrize("part", MEANWHILE)
def test_twin_without_state_or_lease_a_verdict_undoes_what_was_done(
    monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    """Finished work would run again, or a second one beside the first."""
    condition = requests.LAPSED_AS_SEEN
    assert part in condition
    anything = condition.replace(part, f"({part} OR attribute_exists(lockToken))")
    monkeypatch.setattr(requests, "LAPSED_AS_SEEN", anything)
    breaks(MEANWHILE[part])
