"""The judge, on evidence that is made up: it sees each violation, and no crash is taken for one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from lambda_once.core.clock import stamp
from lambda_once.core.lifecycle import Record, State
from lambda_once.observability.events import Event
from tests.chaos.checks import Evidence, check
from tests.chaos.deliveries import Lane, Message
from tests.chaos.fleet import Interrupted
from tests.kit import rows

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIRST, SECOND = "a" * 32, "b" * 32
KEY = "order-1"


def at(seconds: float) -> str:
    """The time so many seconds after noon, as the journal has it."""
    return stamp(datetime.fromtimestamp(NOON.timestamp() + seconds, UTC))


def effect(attempt: str, created: float, pid: int = 1) -> dict[str, Any]:
    """An effect of *attempt*, which held its token for five seconds."""
    times = {"created": at(created), "lease": at(created + 5), "at": at(created + 1)}
    return {"kind": "effect", "key": KEY, "attempt": attempt, "pid": pid} | times


def event(name: Event, attempt: str, seconds: float = 1, pid: int = 1) -> dict[str, Any]:
    """What the package said of *attempt*."""
    token = {"token": f"chaos/take_over/{KEY}", "attempt": attempt, "error": None}
    return {"kind": "event", "event": name.value, "pid": pid, "at": at(seconds)} | token


def row(attempt: str, state: State = State.COMPLETE) -> Record:
    """The token's row at the end."""
    return rows.row(state, token=f"chaos/take_over/{KEY}", attempt_id=attempt)


def evidence(*journal: dict[str, Any], lane: Lane = Lane.TAKE_OVER, **changes: Any) -> Evidence:
    """One message that was acknowledged, and what is known of it."""
    message = Message("m", lane, KEY, flaky=False, visible=NOON, receives=2, acknowledged=True, gone=True)
    usual = Evidence([message], journal, {KEY: row(SECOND)}, {}, {}, {FIRST: 1, SECOND: 2}, Interrupted())
    return replace(usual, **changes)


def violations(found: Evidence) -> list[str]:
    """The kinds of what was violated."""
    return [sentence.partition(":")[0] for sentence in check(found).violations]


def test_one_effect_is_no_violation() -> None:
    """Work that ran once, and was acknowledged, is as promised."""
    assert violations(evidence(effect(SECOND, 0), event(Event.COMPLETED, SECOND))) == []


def test_an_acknowledged_message_without_effect_is_lost() -> None:
    """A message whose handler said that it is finished must have taken effect."""
    assert violations(evidence()) == ["lost"]
    assert violations(evidence(lane=Lane.TRANSACT)) == ["lost"]


@pytest.mark.parametrize(
    "was_interrupted",
    [
        {"interrupted": Interrupted(killed={1})},
        {"interrupted": Interrupted(paused={1})},
        {"interrupted": Interrupted(timed_out={1})},
        {"troubled": {FIRST: ["response dropped"]}},
    ],
    ids=lambda was_interrupted: next(iter(was_interrupted)),
)
def test_a_repeat_after_a_crash_and_a_lapse_is_explained(was_interrupted: dict[str, Any]) -> None:
    """Under take_over the work of an attempt that fell may be done again once its lease is over."""
    assert violations(evidence(effect(FIRST, 0), effect(SECOND, 6, pid=2), **was_interrupted)) == []


def test_a_repeat_within_the_lease_is_a_violation() -> None:
    """However badly the first attempt fared, the second one had to wait for the end of its lease."""
    journal = [effect(FIRST, 0), effect(SECOND, 5, pid=2)]
    assert violations(evidence(*journal, interrupted=Interrupted(killed={1}))) == ["twice"]


def test_a_repeat_after_nothing_is_a_violation() -> None:
    """An attempt whose process and requests fared well has no reason to be repeated."""
    assert violations(evidence(effect(FIRST, 0), effect(SECOND, 6, pid=2))) == ["twice"]


def test_an_attempt_that_was_slow_by_itself_is_explained() -> None:
    """A machine so busy that an attempt outlives its lease is reported by the attempt: it was fenced."""
    fenced = event(Event.FENCED, SECOND, seconds=7)
    assert violations(evidence(effect(FIRST, 0), fenced, effect(SECOND, 6, pid=2))) == []


def test_a_repeat_after_a_completion_is_a_violation() -> None:
    """Once an attempt was complete, a later crash explains nothing."""
    journal = [effect(FIRST, 0), event(Event.COMPLETED, FIRST), effect(SECOND, 6, pid=2)]
    assert violations(evidence(*journal, interrupted=Interrupted(killed={1}))) == ["twice", "overwritten"]


def test_a_repeat_where_the_lane_holds_is_a_violation() -> None:
    """No crash explains a second effect where the policy is hold."""
    journal = [effect(FIRST, 0), effect(SECOND, 6, pid=2)]
    assert violations(evidence(*journal, lane=Lane.HOLD, interrupted=Interrupted(killed={1}))) == ["twice"]


@pytest.mark.parametrize(("times", "expected"), [(1, []), (2, ["twice"])])
def test_a_transaction_counts_once(times: int, expected: list[str]) -> None:
    """What was written together with its completion is there once, whatever happened."""
    assert violations(evidence(lane=Lane.TRANSACT, transacted={KEY: times})) == expected


def test_a_message_that_is_never_finished_is_stuck() -> None:
    """Nothing may be left once the faults are over."""
    message = Message("m", Lane.TAKE_OVER, KEY, flaky=False, visible=NOON)
    assert violations(evidence(messages=[message])) == ["stuck"]


@pytest.mark.parametrize(
    ("lane", "troubled", "expected"),
    [
        (Lane.HOLD, {FIRST: ["killed after"]}, []),
        (Lane.HOLD, {}, ["held"]),
        (Lane.TAKE_OVER, {FIRST: ["killed after"]}, ["held"]),
    ],
)
def test_a_person_is_called_for_a_reason(
    lane: Lane, troubled: dict[str, list[str]], expected: list[str]
) -> None:
    """What is held was cut off, and belongs to a lane that holds."""
    message = Message("m", lane, KEY, flaky=False, visible=NOON, held=2, gone=True)
    lapsed = {KEY: row(FIRST, State.IN_PROGRESS)}
    assert violations(evidence(messages=[message], rows=lapsed, troubled=troubled)) == expected


@pytest.mark.parametrize(("order", "expected"), [((FIRST, SECOND), []), ((SECOND, FIRST), ["out of order"])])
def test_a_message_group_keeps_its_order(order: tuple[str, str], expected: list[str]) -> None:
    """Of two messages of one group the first sent takes effect first; after a crash it may come once more."""
    sent = [
        Message(key, Lane.FIFO, key, flaky=False, visible=NOON, group="group-1", acknowledged=True, gone=True)
        for key in (FIRST, SECOND)
    ]
    happened = zip((*order, order[0]), (0, 1, 6), strict=True)
    journal = [effect(key, seconds) | {"key": key} for key, seconds in happened]
    found = evidence(*journal, messages=sent, interrupted=Interrupted(killed={1, 2}))
    assert violations(found) == expected


def test_what_was_complete_stays_so() -> None:
    """The row at the end is that of the attempt that said it had completed it."""
    journal = [effect(SECOND, 0), event(Event.COMPLETED, SECOND)]
    assert violations(evidence(*journal, rows={KEY: row(FIRST)})) == ["overwritten"]
    assert violations(evidence(*journal, rows={KEY: row(SECOND, State.RELEASED)})) == ["overwritten"]
    assert violations(evidence(*journal, rows={})) == ["overwritten"]


def test_every_caller_gets_the_stored_outcome() -> None:
    """Another answer is a violation, unless its completion could not be written."""
    answer = {"kind": "answer", "key": KEY, "attempt": FIRST, "whole": True, "pid": 1, "at": at(2)}
    assert violations(evidence(effect(FIRST, 0), answer)) == ["diverging"]
    torn = answer | {"attempt": SECOND, "whole": False}
    assert violations(evidence(effect(SECOND, 0), torn)) == ["diverging"]
    failed = event(Event.COMPLETION_FAILED, FIRST)
    assert violations(evidence(effect(FIRST, 0), answer, failed)) == []
