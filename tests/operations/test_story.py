from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.lifecycle import Decider, Decision, Failure, Resolve, State
from lambda_once.core.results import Inline, Parts, Stored, Unavailable
from lambda_once.operations.story import (
    describe_result,
    function_of,
    log_queries,
    next_steps,
    outlook,
    short_memory,
    story,
    undoing,
)
from lambda_once.operations.times import duration_text, time_text
from tests.kit.rows import NOW, row

ROW = row(
    State.IN_PROGRESS,
    token="orders/charge/12345",
    locked_by="payments/r-1",
    created=NOW - timedelta(hours=1),
    expected_completion=NOW - timedelta(minutes=59),
)
DECISION = Decision(
    NOW - timedelta(minutes=30),
    *(Decider.PERSON, "ann", "seen at the bank", State.HELD, Resolve.DONE),
    attempt_id=ROW.attempt_id,
)
ENDS: dict[State, dict[str, Any]] = {
    State.IN_PROGRESS: {},
    State.COMPLETE: {"actual_completion": NOW - timedelta(minutes=59, seconds=30)},
    State.HELD: {"actual_completion": NOW - timedelta(minutes=59), "error": Failure("Timeout", "no answer")},
    State.RELEASED: {"error": Failure("Timeout", "no answer")},
}


@given(
    st.sampled_from(list(State)),
    st.sampled_from(
        [(), (DECISION,), (DECISION._replace(at=NOW - timedelta(hours=2), attempt_id="a0"), DECISION)]
    ),
    st.sampled_from([None, 0, 1_800_000_000]),
    st.sampled_from([None, "message-1"]),
    st.sampled_from([NOW, NOW - timedelta(hours=2), NOW + timedelta(days=400)]),
)
def test_every_row_has_a_story_in_the_order_of_time(
    state: State, decisions: tuple[Decision, ...], ttl: int | None, delivery: str | None, now: datetime
) -> None:
    """It names who had the token, and who decided; what has no time ends what has happened."""
    row = ROW._replace(
        state=state,
        decisions=decisions,
        ttl=ttl,
        delivery=delivery,
        **ENDS[state],
    )
    shown = story(row, now)
    dated = [event.at for event in shown if event.at is not None]
    assert dated == sorted(dated)
    undated = [number for number, event in enumerate(shown) if event.at is None]
    happened = sum(event.at is not None and event.at <= now for event in shown)
    assert undated == [*range(happened, happened + len(undated))]
    whole = "\n".join(event.what for event in shown)
    assert "acquired by payments/r-1" in whole
    assert ("ann (identity unverified) resolved it as done" in whole) is bool(decisions)
    assert ("message-1" in whole) is (delivery is not None)
    assert outlook(row, now)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (None, "its result is null"),
        (Inline('"ä"'), "its result is JSON of 4 bytes in the row"),
        (Inline(b"x" * 1_500), "its result is compressed to 1,500 bytes in the row"),
        (Parts(1), "its result is in 1 part beside the row"),
        (Parts(3), "its result is in 3 parts beside the row"),
        (Unavailable.UNAVAILABLE, "its result could not be stored"),
        (
            Unavailable.WITHHELD,
            "its response is not stored: it sets a cookie or says no-store, and no user is named",
        ),
    ],
)
def test_a_result_is_described_by_kind_and_size(stored: Stored, message: str) -> None:
    """Never by what it is."""
    assert describe_result(stored) == message
    row = ROW._replace(state=State.COMPLETE, stored=stored, **ENDS[State.COMPLETE])
    assert any(message in event.what for event in story(row, NOW))


def test_a_decision_hides_whose_attempt_id_it_is_not() -> None:
    """The id and the fence on the row are the decision's; how long the work took is not known by it."""
    decision = DECISION._replace(at=DONE_AT)
    row = ROW._replace(state=State.COMPLETE, decisions=(decision,), **ENDS[State.COMPLETE])
    whole = "\n".join(event.what for event in story(row, NOW))
    assert "attempt a1" not in whole
    assert "complete after" not in whole
    assert "attempt a1, fence 7" in "\n".join(event.what for event in story(row._replace(decisions=()), NOW))


DONE_AT: datetime = ENDS[State.COMPLETE]["actual_completion"]


EARLIER, AFTERWARDS = ROW.created - timedelta(minutes=1), DONE_AT + timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("changes", "stored", "message", "shown"),
    [
        (
            {"at": EARLIER, "attempt_id": "a0", "how": Resolve.NOT_DONE},
            "unavailable",
            "released it",
            "could not",
        ),
        ({"at": DONE_AT}, "unavailable", "resolved it as done (it was held)", "could not be stored"),
        ({"at": AFTERWARDS, "how": Resolve.FORGET}, "forgotten", "had it forgotten", "was forgotten"),
        (
            {"at": AFTERWARDS, "how": Resolve.KEEP},
            "unavailable",
            "until when its outcome",
            "could not be stored",
        ),
    ],
    ids=["before the work", "the probe's answer", "forgotten", "kept"],
)
def test_what_a_decision_did_to_a_result(
    changes: dict[str, Any], stored: str, message: str, shown: str
) -> None:
    """A forgotten result differs from one that could not be stored, whatever was decided since."""
    decisions = (DECISION._replace(**changes),)
    row = ROW._replace(
        state=State.COMPLETE, stored=Unavailable(stored), decisions=decisions, **ENDS[State.COMPLETE]
    )
    whole = "\n".join(event.what for event in story(row, NOW))
    assert f"its result {shown}" in whole
    assert message in whole


def test_a_complete_row_past_its_ttl_is_no_memory() -> None:
    """The next delivery runs again."""
    row = ROW._replace(state=State.COMPLETE, ttl=int(NOW.timestamp()) - 1, **ENDS[State.COMPLETE])
    assert "the next delivery runs again" in outlook(row, NOW)
    assert story(row, NOW)[-1].what == "no longer replayed"


@pytest.mark.parametrize(
    ("state", "steps"), [(State.HELD, 2), (State.IN_PROGRESS, 2), (State.COMPLETE, 0), (State.RELEASED, 0)]
)
def test_only_what_is_stuck_has_a_next_step(state: State, steps: int) -> None:
    """Pinned to the attempt that was shown, and quoted for a shell."""
    row = ROW._replace(state=state, token="orders/charge/it's", **ENDS[state])
    shown = next_steps(row, NOW)
    assert len(shown) == steps
    assert all("'orders/charge/it'\"'\"'s' --attempt a1 " in step for step in shown)
    assert next_steps(ROW, ROW.created) == ()


def test_a_holder_outside_of_lambda_has_a_query_too() -> None:
    """What held the token need not be a function with a request."""
    row = ROW._replace(locked_by="script")
    assert function_of(row) == "script"
    assert '"script"' in log_queries(row)["request"]


def test_a_durable_execution_is_found_by_its_arn() -> None:
    """Its rows have function and ARN, which has slashes of its own."""
    arn = "arn:aws:lambda:eu-central-1:123456789012:function:pay:7/durable-execution/order-5/c63f0a"
    row = ROW._replace(locked_by=f"pay/{arn}")
    assert function_of(row) == "pay"
    assert f'"{arn}"' in log_queries(row)["request"]


@pytest.mark.parametrize("locked_by", ["local/-", "orders/"])
def test_a_holder_without_a_request_is_not_asked_for_by_it(locked_by: str) -> None:
    """A query for every line with a hyphen finds everything."""
    assert log_queries(ROW._replace(locked_by=locked_by)).keys() == {"token"}


def test_the_memory_is_measured_from_the_completion() -> None:
    """A ttl is in whole seconds: one of 14 days is not short by the fraction that it lacks."""
    done = NOW + timedelta(milliseconds=999)
    row = ROW._replace(state=State.COMPLETE, actual_completion=done)
    whole = row._replace(ttl=int((done + timedelta(days=14)).timestamp()))
    assert short_memory(whole, timedelta(days=14)) is None
    assert short_memory(whole, timedelta(days=14, seconds=2)) is not None
    assert short_memory(whole._replace(state=State.RELEASED), timedelta(days=99)) is None
    assert short_memory(row, timedelta(days=14)) is None


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0, "0 s"),
        (0.4, "0.4 s"),
        (1.2, "1 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3_600, "1 h"),
        (7_980, "2 h 13 min"),
        (86_400 * 3 + 4 * 3_600, "3 d 4 h"),
        (86_400 * 14, "14 d"),
        (-90, "1 min 30 s"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float, message: str) -> None:
    """As one would say them; never 60 s."""
    assert duration_text(timedelta(seconds=seconds)) == message


def test_a_moment_of_today_has_no_date() -> None:
    """Another day's has, in UTC both."""
    assert time_text(NOW - timedelta(hours=1), NOW) == "09:12:00"
    assert time_text(NOW - timedelta(days=1), NOW) == "2026-11-19 10:12:00"


def test_decisions_in_a_row_are_counted() -> None:
    """The watchdog's second release of a token says that it is the second."""
    again = DECISION._replace(by="watchdog", kind=Decider.WATCHDOG, how=Resolve.NOT_DONE, times=2)
    row = ROW._replace(state=State.RELEASED, decisions=(again,))
    assert any("2 times in a row" in event.what for event in story(row, NOW))
    once = row._replace(decisions=(again._replace(times=1),))
    assert not any("in a row" in event.what for event in story(once, NOW))


@pytest.mark.parametrize(
    ("state", "before", "how", "back"),
    [
        (State.RELEASED, State.HELD, Resolve.NOT_DONE, "--hold --force"),
        (State.RELEASED, State.IN_PROGRESS, Resolve.NOT_DONE, "--hold --force"),
        (State.RELEASED, State.COMPLETE, Resolve.NOT_DONE, "--done --result backup.json --force"),
        (State.COMPLETE, State.HELD, Resolve.DONE, "--hold --force"),
        (State.COMPLETE, State.RELEASED, Resolve.FAILED, "--not-done --force"),
        (State.COMPLETE, State.COMPLETE, Resolve.KEEP, "--keep DURATION"),
        (State.HELD, State.RELEASED, Resolve.HOLD, "--not-done"),
        (State.HELD, State.HELD, Resolve.HOLD, None),
        (State.COMPLETE, State.COMPLETE, Resolve.FORGET, None),
    ],
)
def test_the_command_that_undoes_a_decision(
    state: State, before: State, how: Resolve, back: str | None
) -> None:
    """It decides again, about the row as it is; none where nothing would change, or nothing comes back."""
    ends = ENDS[state] | ({"error": None} if state is State.RELEASED else {})
    decided = ROW._replace(state=state, decisions=(DECISION._replace(before=before, how=how),), **ends)
    command = undoing(decided)
    assert (command is None) is (back is None)
    if back is not None:
        assert command == (
            f"lambda-once resolve orders/charge/12345 --attempt {ROW.attempt_id} {back} --because '…'"
        )
    assert undoing(decided._replace(attempt_id="a9")) is None


def test_a_release_of_work_that_had_failed_is_undone_as_failed() -> None:
    """There is no result to give: the row still has the error."""
    decision = DECISION._replace(before=State.COMPLETE, how=Resolve.NOT_DONE)
    released = ROW._replace(state=State.RELEASED, decisions=(decision,), error=Failure("Declined", "no"))
    assert "--failed --force" in str(undoing(released))
    assert "--done --result backup.json --force" in str(undoing(released._replace(error=None)))


def test_what_would_lose_a_result_says_so() -> None:
    """The command refuses it without; it prints how to save it first."""
    decided = ROW._replace(
        state=State.COMPLETE, decisions=(DECISION,), stored=Inline("5"), **ENDS[State.COMPLETE]
    )
    assert "--force --drop-result" in str(undoing(decided))
