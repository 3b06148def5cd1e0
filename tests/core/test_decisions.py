"""The list of decisions of a row: how long it gets, and what is never driven out of it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once.core.lifecycle import (
    DECISIONS_LIMIT,
    MOST_DECISIONS,
    Decider,
    Decision,
    Resolve,
    State,
    with_decision,
)
from tests.kit.rows import NOW

BY_ANN = Decision(NOW, Decider.PERSON, "ann", "asked the bank", State.HELD, Resolve.HOLD, "d1")
RELEASED = Decision(
    NOW, Decider.WATCHDOG, "watchdog", "may release", State.IN_PROGRESS, Resolve.NOT_DONE, "d2"
)

texts = st.text(max_size=64)
decisions = st.builds(
    Decision,
    st.integers(0, 9).map(lambda hours: NOW + timedelta(hours=hours)),
    *(st.sampled_from(Decider), texts, texts, st.sampled_from(State), st.sampled_from(Resolve)),
    st.sampled_from(["d1", "d2", "d3"]),
    st.none() | texts,
)


def _after(made: list[Decision]) -> tuple[Decision, ...]:
    found: tuple[Decision, ...] = ()
    for decision in made:
        found = with_decision(found, decision)
    return found


@given(st.lists(decisions, max_size=30))
def test_the_list_is_bounded_and_ends_with_the_last_decision(made: list[Decision]) -> None:
    """At most ten, in the order in which they were made."""
    found = _after(made)
    assert len(found) <= MOST_DECISIONS
    assert [each._replace(times=1) for each in found[-1:]] == made[-1:]
    remaining = iter(made)
    assert all(any(kept._replace(times=1) == each for each in remaining) for kept in found)


def test_the_oldest_go_first() -> None:
    """The eleventh drives out the first."""
    made = [BY_ANN._replace(because=str(n)) for n in range(12)]
    assert [each.because for each in _after(made)] == [str(n) for n in range(2, 12)]


def test_long_texts_drive_out_older_ones() -> None:
    """Four kilobytes in all: each later write of the row pays for them. The last one always stays."""
    long = BY_ANN._replace(by="ü" * 64, because="ü" * 128, caller="arn" * 85)
    found = _after([long] * 12)
    assert 1 < len(found) < MOST_DECISIONS
    assert len(_after([long._replace(because="x" * DECISIONS_LIMIT)])) == 1


def test_the_same_again_by_a_program_is_counted_in_one_entry() -> None:
    """The latest time and attempt id stay."""
    again = RELEASED._replace(at=NOW + timedelta(hours=1), attempt_id="d3")
    assert _after([BY_ANN, RELEASED, again]) == (BY_ANN, again._replace(times=2))


def test_another_reason_is_an_entry_that_goes_on_counting() -> None:
    """The watchdog stops releasing at a limit, whatever the reason was each time."""
    probed = RELEASED._replace(kind=Decider.PROBE, because="the probe returned NOT_DONE")
    assert _after([RELEASED, probed]) == (RELEASED, probed._replace(times=2))


@pytest.mark.parametrize("between", [BY_ANN, RELEASED._replace(how=Resolve.HOLD)])
def test_another_decision_begins_the_count_anew(between: Decision) -> None:
    """A person's, or another of its own."""
    assert [each.times for each in _after([RELEASED, RELEASED, between, RELEASED])] == [2, 1, 1]


def test_what_a_person_repeats_is_an_entry_each() -> None:
    """Twice asked is twice decided."""
    assert _after([BY_ANN, BY_ANN]) == (BY_ANN, BY_ANN)


def test_no_watchdog_drives_out_a_person() -> None:
    """Thirty releases are one entry; an entry for each would leave ten of them, and nothing of Ann."""
    made = [BY_ANN, *[RELEASED] * 30]
    assert BY_ANN not in made[-MOST_DECISIONS:]
    assert _after(made) == (BY_ANN, RELEASED._replace(times=30))


def test_the_decision_that_gave_the_outcome_stays() -> None:
    """While the row has its attempt id, whatever is decided beside it; the others go, the oldest first."""
    given = BY_ANN._replace(how=Resolve.DONE, because="given")
    kept = [BY_ANN._replace(how=Resolve.KEEP, because=str(n)) for n in range(12)]
    assert [each.because for each in _after([given, *kept])] == ["given", *map(str, range(3, 12))]
    long = [each._replace(by="ü" * 64, because="ü" * 128, caller="arn" * 85) for each in kept]
    found = _after([given, *long])
    assert (found[0], found[-1]) == (given, long[-1])
    assert len(found) < MOST_DECISIONS


def test_a_decision_that_gave_an_earlier_outcome_goes() -> None:
    """Under another attempt id than the last decision has, it gave nothing that is there."""
    given = BY_ANN._replace(how=Resolve.DONE, attempt_id="d0")
    assert given not in _after([given, *[BY_ANN] * MOST_DECISIONS])
