"""The table of what a request may do, row by row."""

from __future__ import annotations

from datetime import timedelta
from itertools import product
from typing import Any

import pytest

from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Course, OnLapse, Record, State, decide
from lambda_once.core.results import Inline, Parts, Unavailable
from lambda_once.core.writes import (
    Acquire,
    Change,
    Complete,
    Extend,
    Holder,
    Pin,
    Release,
    Unclaimed,
    Write,
    after_acquire,
    made_by,
    new_write_id,
)
from tests.kit.rows import ALIVE, BROKEN, LAPSED, NOW, SECONDS, row

RULES = list(OnLapse)


def _decision(
    record: Record | None,
    attempt: str = "a2",
    fingerprint: str | None = "f",
    rule: OnLapse = OnLapse.TAKE_OVER,
    presented: Presented | None = None,
) -> Course:
    return decide(record, NOW, attempt, fingerprint, rule, presented)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_stored_runs(rule: OnLapse) -> None:
    """A new token is free."""
    assert _decision(None, rule=rule) is Course.RUN


@pytest.mark.parametrize(("state", "rule"), list(product([State.COMPLETE, State.RELEASED], RULES)))
@pytest.mark.parametrize("attempt", ["a1", "a2"])
def test_finished_and_past_its_ttl_runs(state: State, rule: OnLapse, attempt: str) -> None:
    """In the second of its ttl and after, for any caller and any payload."""
    assert _decision(row(state, ttl=SECONDS, fingerprint="g"), attempt, rule=rule) is Course.RUN


@pytest.mark.parametrize("rule", RULES)
def test_released_by_another_runs(rule: OnLapse) -> None:
    """Whatever payload it was for: what was released blocks nothing."""
    released = row(State.RELEASED, ttl=SECONDS + 1, fingerprint="g")
    assert _decision(released, rule=rule) is Course.RUN


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lease", [ALIVE, LAPSED])
def test_our_own_attempt_runs(rule: OnLapse, lease: Any) -> None:
    """Only the response was lost."""
    own = row(State.IN_PROGRESS, expected_completion=lease, fingerprint="g")
    assert _decision(own, "a1", rule=rule) is Course.RUN


@pytest.mark.parametrize(
    ("state", "rule"), list(product([State.IN_PROGRESS, State.COMPLETE, State.HELD], RULES))
)
@pytest.mark.parametrize("lease", [ALIVE, LAPSED])
def test_another_payload_is_key_reused(state: State, rule: OnLapse, lease: Any) -> None:
    """Whatever became of the first one."""
    other = row(state, fingerprint="g", expected_completion=lease, error=BROKEN)
    assert _decision(other, rule=rule) is Course.KEY_REUSED


ALICE, BOB = Presented("Bearer alice"), Presented("Bearer bob")
UNPROVEN = Presented(None, proof=False, advice="…")


@pytest.mark.parametrize(
    ("state", "rule"), list(product([State.IN_PROGRESS, State.COMPLETE, State.HELD], RULES))
)
@pytest.mark.parametrize("lease", [ALIVE, LAPSED])
@pytest.mark.parametrize("presented", [BOB, Presented(None), None])
@pytest.mark.parametrize("fingerprint", ["f", "g", None])
def test_other_credentials_are_refused(
    state: State, rule: OnLapse, lease: Any, presented: Presented | None, fingerprint: str | None
) -> None:
    """Whatever became of the first one, before the payload is compared, and whether or not it is."""
    others = row(state, fingerprint="f", expected_completion=lease, error=BROKEN, caller=ALICE.mark("a1"))
    found = _decision(others, fingerprint=fingerprint, rule=rule, presented=presented)
    assert found is Course.OTHER_CALLER


@pytest.mark.parametrize(
    ("caller", "presented"),
    [
        (ALICE.mark("a1"), ALICE),
        (ALICE.mark("a0"), ALICE),
        (None, BOB),
        (None, None),
    ],
)
def test_the_same_credential_is_replayed(caller: str | None, presented: Presented | None) -> None:
    """Also where a person has resolved it since. A row that was made for no credential is anybody's."""
    assert _decision(row(State.COMPLETE, caller=caller), presented=presented) is Course.REPLAY


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("caller", [None, UNPROVEN.mark("a1"), UNPROVEN.mark("a0")])
@pytest.mark.parametrize("outcome", [{}, {"error": BROKEN}, {"stored": Unavailable.UNAVAILABLE}])
@pytest.mark.parametrize("fingerprint", ["f", "g", None])
def test_no_outcome_is_returned_without_proof(
    rule: OnLapse, caller: str | None, outcome: Any, fingerprint: str | None
) -> None:
    """Of which kind it is, and whether the payload is another, is not revealed, either."""
    complete = row(State.COMPLETE, caller=caller, **outcome)
    found = _decision(complete, fingerprint=fingerprint, rule=rule, presented=UNPROVEN)
    assert found is Course.OTHER_CALLER


def test_the_attempt_itself_gets_its_outcome_without_proof() -> None:
    """It may learn from the row that its own write succeeded."""
    complete = row(State.COMPLETE, caller=UNPROVEN.mark("a1"))
    assert _decision(complete, "a1", presented=UNPROVEN) is Course.REPLAY


@pytest.mark.parametrize(
    ("state", "lease", "decision"),
    [
        (State.IN_PROGRESS, ALIVE, Course.IN_PROGRESS),
        (State.IN_PROGRESS, LAPSED, Course.RUN),
        (State.HELD, ALIVE, Course.HELD),
        (State.RELEASED, ALIVE, Course.RUN),
    ],
)
def test_what_is_no_outcome_needs_no_proof(state: State, lease: Any, decision: Course) -> None:
    """A retry after a crash runs: there the handler checks the caller."""
    found = row(state, expected_completion=lease, error=None, caller=UNPROVEN.mark("a1"))
    assert _decision(found, presented=UNPROVEN) is decision


@pytest.mark.parametrize("presented", [ALICE, Presented(None), Presented("unverified")])
def test_an_unproven_callers_row_belongs_to_no_other_caller(presented: Presented) -> None:
    """A credential in place of what was not known makes another caller."""
    assert (
        _decision(row(State.COMPLETE, caller=UNPROVEN.mark("a1")), presented=presented) is Course.OTHER_CALLER
    )
    assert _decision(row(State.COMPLETE, caller=ALICE.mark("a1")), presented=UNPROVEN) is Course.OTHER_CALLER


@pytest.mark.parametrize("rule", RULES)
def test_a_row_that_blocks_nothing_is_free_to_all_callers(rule: OnLapse) -> None:
    """What was released or is past its ttl hands out nothing; the handler checks for itself."""
    mark = ALICE.mark("a1")
    released = row(State.RELEASED, ttl=SECONDS + 1, caller=mark)
    assert _decision(released, rule=rule, presented=BOB) is Course.RUN
    expired = row(State.COMPLETE, ttl=SECONDS, caller=mark)
    assert _decision(expired, rule=rule, presented=BOB) is Course.RUN
    own = row(State.IN_PROGRESS, caller=mark)
    assert _decision(own, "a1", rule=rule, presented=ALICE) is Course.RUN


@pytest.mark.parametrize(("stored", "asked"), [("f", "f"), (None, "f"), ("f", None), (None, None)])
def test_payloads_differ_only_where_both_are_known(stored: str | None, asked: str | None) -> None:
    """An unknown one is no other one."""
    complete = row(State.COMPLETE, fingerprint=stored)
    assert _decision(complete, fingerprint=asked) is Course.REPLAY


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("stored", [None, Inline("0"), Inline(""), Inline(b""), Parts(3)])
@pytest.mark.parametrize("attempt", ["a1", "a2"])
def test_complete_is_replayed(rule: OnLapse, stored: Any, attempt: str) -> None:
    """None and every falsy result included; our own earlier completion, too."""
    complete = row(State.COMPLETE, stored=stored, ttl=SECONDS + 1)
    assert _decision(complete, attempt, rule=rule) is Course.REPLAY


@pytest.mark.parametrize("rule", RULES)
def test_complete_without_its_result(rule: OnLapse) -> None:
    """The work is done, and cannot be replayed."""
    assert (
        _decision(row(State.COMPLETE, stored=Unavailable.UNAVAILABLE), rule=rule) is Course.RESULT_UNAVAILABLE
    )


@pytest.mark.parametrize("rule", RULES)
def test_complete_with_an_error(rule: OnLapse) -> None:
    """Duplicates get the error."""
    assert _decision(row(State.COMPLETE, error=BROKEN), rule=rule) is Course.STORED_ERROR


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("attempt", ["a1", "a2"])
@pytest.mark.parametrize("ttl", [None, SECONDS - 1])
def test_held(rule: OnLapse, attempt: str, ttl: int | None) -> None:
    """It waits for a person, for ever: a ttl does not count."""
    assert _decision(row(State.HELD, error=BROKEN, ttl=ttl), attempt, rule=rule) is Course.HELD


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("lease", [ALIVE, NOW])
def test_alive(rule: OnLapse, lease: Any) -> None:
    """To the last millisecond of its lease; a ttl that is over does not count."""
    alive = row(State.IN_PROGRESS, expected_completion=lease, ttl=SECONDS - 1)
    assert _decision(alive, rule=rule) is Course.IN_PROGRESS


LAPSE = {OnLapse.TAKE_OVER: Course.RUN, OnLapse.HOLD: Course.HELD, OnLapse.PROBE: Course.ASK}


@pytest.mark.parametrize(("rule", "decision"), LAPSE.items())
def test_lapsed(rule: OnLapse, decision: Course) -> None:
    """Whether the work happened is unknown: the rule says what happens then."""
    assert _decision(row(State.IN_PROGRESS, expected_completion=LAPSED), rule=rule) is decision


@pytest.mark.parametrize("rule", RULES)
def test_released_by_ourselves(rule: OnLapse) -> None:
    """We gave it up: retry later, for a copy of our acquisition must not open it again."""
    assert _decision(row(State.RELEASED, ttl=SECONDS + 1), "a1", rule=rule) is Course.IN_PROGRESS


# ------------------------------------------------------------------ what is written for it


def _taken(record: Record | None, attempt: str, fingerprint: str | None, *, take_over: bool) -> Record | None:
    take = Unclaimed(take_over)
    return after_acquire(
        record, Acquire("t", attempt, "orders/r2", NOW, ALIVE, take, SECONDS + 100, fingerprint)
    )


ROWS: list[Record | None] = [
    None,
    *(
        row(state, expected_completion=lease, ttl=ttl, fingerprint=fingerprint)
        for state, lease, ttl, fingerprint in product(
            State, [ALIVE, NOW, LAPSED], [None, SECONDS - 1, SECONDS, SECONDS + 1], [None, "f"]
        )
    ),
]


@pytest.mark.parametrize("attempt", ["a1", "a2"])
@pytest.mark.parametrize("fingerprint", [None, "f", "g"])
def test_a_write_condition_takes_what_the_table_says(attempt: str, fingerprint: str | None) -> None:
    """Under take_over what is to RUN, our own attempt's aside; else only what is absent or expired."""
    for record in ROWS:
        own = record is not None and record.state is State.IN_PROGRESS and record.attempt_id == attempt
        runs = _decision(record, attempt, fingerprint) is Course.RUN and not own
        assert (_taken(record, attempt, fingerprint, take_over=True) is not None) is runs, record
        free = record is None or record.expired(NOW)
        assert (_taken(record, attempt, fingerprint, take_over=False) is not None) is free, record


def test_a_first_fence_is_the_clocks_milliseconds() -> None:
    """And one: so it grows beyond a row that was deleted."""
    taken = _taken(None, "a2", None, take_over=True)
    assert taken is not None
    assert taken.fence == SECONDS * 1000 + 1


def test_an_end_bears_an_id_and_nothing_else_does() -> None:
    """64 random bits, by which a write is recognised among others of its attempt."""
    ids = {new_write_id(Release()) for _ in range(100)}
    assert len(ids) == 100
    assert {len(str(each)) for each in ids} == {16}
    for change, write_id in ((Complete(None), None), (Extend(ALIVE), "w1"), (Pin.PIN, "w1")):
        with pytest.raises(ValueError, match="with the write id"):
            Write("t", Holder("a1"), change, NOW, 1, write_id)


LATER = ALIVE + timedelta(seconds=30)


@pytest.mark.parametrize(
    ("found", "change", "made"),
    [
        ({"expected_completion": LATER}, Extend(LATER), True),
        ({"expected_completion": LATER}, Extend(ALIVE), True),  # a later renewal has overtaken it
        ({"expected_completion": ALIVE}, Extend(LATER), False),
        ({"expected_completion": LATER, "attempt_id": "a2"}, Extend(LATER), False),
        ({"ttl": None}, Pin.PIN, True),
        ({"ttl": 1}, Pin.PIN, False),
        ({"ttl": None, "attempt_id": "a2"}, Pin.PIN, False),
    ],
)
def test_what_ends_no_attempt_is_recognised_by_its_effect(found: Any, change: Change, made: bool) -> None:
    """After a lost response."""
    write = Write("t", Holder("a1"), change, NOW, SECONDS + 100, None)
    assert made_by(row(State.IN_PROGRESS, **found), write) is made
