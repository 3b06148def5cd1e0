"""What each write makes of a row; who may write is in the contract suite of the stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from itertools import product

import pytest

from lambda_once.core.lifecycle import (
    Course,
    Decider,
    Decision,
    OnLapse,
    Record,
    Resolve,
    State,
    decide,
)
from lambda_once.core.results import Chunks, Inline, Parts, Unavailable
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    End,
    Extend,
    Hold,
    Holder,
    Pin,
    Release,
    Resolver,
    Unclaimed,
    Write,
    after_acquire,
    after_write,
    made_by,
    new_write_id,
    stored_form,
)
from tests.kit.rows import ALIVE, BROKEN, LAPSED, NOW, SECONDS, row

LATER = ALIVE + timedelta(seconds=30)
CHANGES: list[Change] = [
    Complete(None),
    Complete(None, BROKEN),
    Hold(BROKEN),
    Release(),
    Release(BROKEN),
    Extend(LATER),
    Pin.PIN,
]


def _acquisition(take: Unclaimed | AsSeen, attempt: str = "a2", fingerprint: str | None = None) -> Acquire:
    return Acquire("t", attempt, "orders/r2", NOW, ALIVE, take, SECONDS + 100, fingerprint, "m-2")


def _write(change: Change, by: Holder | Resolver | None = None) -> Write:
    return Write("t", by or Holder("a1"), change, NOW, SECONDS + 100, new_write_id(change))


def _seen(attempt: str, state: State) -> Resolver:
    """Somebody who saw the row of `row` in *state*."""
    return Resolver.of(row(state), attempt)


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
def test_the_condition_says_what_the_decision_says(attempt: str, fingerprint: str | None) -> None:
    """Under take_over a row is taken exactly where the table says RUN, our own attempt's left aside."""
    acquisition = _acquisition(Unclaimed(take_over=True), attempt, fingerprint)
    for record in ROWS:
        own = record is not None and record.state is State.IN_PROGRESS and record.attempt_id == attempt
        runs = decide(record, NOW, attempt, fingerprint, OnLapse.TAKE_OVER) is Course.RUN and not own
        assert (after_acquire(record, acquisition) is not None) is runs, record


@pytest.mark.parametrize("rule", [OnLapse.HOLD, OnLapse.PROBE])
def test_the_condition_under_hold_is_narrower(rule: OnLapse) -> None:
    """It takes nothing that the table does not say RUN for, and no row that is not expired."""
    for record in ROWS:
        if after_acquire(record, _acquisition(Unclaimed(take_over=False))) is not None:
            assert decide(record, NOW, "a2", None, rule) is Course.RUN
            assert record is None or record.expired(NOW)


def test_an_acquisition_makes_a_row() -> None:
    """The fence starts at the clock's milliseconds."""
    assert after_acquire(None, _acquisition(Unclaimed(take_over=True), fingerprint="f")) == Record(
        token="t",
        state=State.IN_PROGRESS,
        attempt_id="a2",
        fence=SECONDS * 1000 + 1,
        locked_by="orders/r2",
        created=NOW,
        expected_completion=ALIVE,
        delivery="m-2",
        fingerprint="f",
        ttl=SECONDS + 100,
        generation="a2",
    )


def test_the_fence_goes_on() -> None:
    """One above that of the row before."""
    taken = after_acquire(row(State.RELEASED), _acquisition(Unclaimed(take_over=True)))
    assert taken is not None
    assert taken.fence == 8


SEEN = [
    (row(State.RELEASED), AsSeen("a1", None), True),
    (row(State.RELEASED), AsSeen("a0", None), False),
    (row(State.IN_PROGRESS), AsSeen("a1", None), False),
    (row(State.COMPLETE), AsSeen("a1", None), False),
    (row(State.IN_PROGRESS, expected_completion=LAPSED), AsSeen("a1", LAPSED), True),
    (row(State.IN_PROGRESS, expected_completion=LAPSED), AsSeen("a0", LAPSED), False),
    (row(State.IN_PROGRESS), AsSeen("a1", LAPSED), False),
    (row(State.HELD, expected_completion=LAPSED), AsSeen("a1", LAPSED), False),
    (None, AsSeen("a1", None), False),
]


@pytest.mark.parametrize(("record", "seen", "taken"), SEEN)
def test_what_was_seen_is_what_is_taken(record: Record | None, seen: AsSeen, taken: bool) -> None:
    """Attempt, state and lease, all three."""
    assert (after_acquire(record, _acquisition(seen)) is not None) is taken


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("state", [State.COMPLETE, State.HELD, State.RELEASED])
def test_what_is_not_in_progress_is_not_written(change: Change, state: State) -> None:
    """Not by the holder, and not by anybody else."""
    assert after_write(row(state), _write(change)) is None
    assert after_write(row(state), _write(change, Resolver("a1", ALIVE, "probe"))) is None
    assert after_write(None, _write(change)) is None


@pytest.mark.parametrize("change", CHANGES)
def test_another_attempt_writes_nothing(change: Change) -> None:
    """The row names one attempt."""
    assert after_write(row(State.IN_PROGRESS), _write(change, Holder("a2"))) is None


@pytest.mark.parametrize("change", CHANGES)
def test_an_onlooker_writes_to_what_it_saw(change: Change) -> None:
    """With its own id, and the fence above."""
    before = row(State.IN_PROGRESS)
    after = after_write(before, _write(change, Resolver("a1", ALIVE, "probe")))
    assert after is not None
    assert (after.attempt_id, after.fence) == ("probe", before.fence + 1)
    assert after_write(before, _write(change, Resolver("a0", ALIVE, "probe"))) is None
    assert after_write(before, _write(change, Resolver("a1", LAPSED, "probe"))) is None


DECISIONS: list[Change] = [Complete(Inline("1")), Hold(BROKEN), Release(), Release(BROKEN)]
DECISION = Decision(NOW, Decider.PERSON, "ann", "seen at the provider", State.HELD, Resolve.NOT_DONE, "ann")


@pytest.mark.parametrize("change", DECISIONS)
@pytest.mark.parametrize("state", State)
def test_an_onlooker_writes_to_any_state_that_it_saw(change: Change, state: State) -> None:
    """What an earlier outcome left is gone; in another state than was seen it writes nothing."""
    before = row(state, stored=Inline("0"), error=BROKEN, actual_completion=LAPSED)
    for seen in State:
        after = after_write(before, _write(change, _seen("ann", seen)))
        assert (after is not None) is (seen is state)
    after = after_write(before, _write(change, _seen("ann", state)))
    assert after is not None
    assert (after.attempt_id, after.fence) == ("ann", before.fence + 1)
    if state is not State.IN_PROGRESS:
        assert after.stored == (Inline("1") if isinstance(change, Complete) else None)
        assert after.error == getattr(change, "error", None)
        assert (after.actual_completion is None) is isinstance(change, Release)


@pytest.mark.parametrize("change", DECISIONS)
@pytest.mark.parametrize("state", State)
def test_a_decision_recognises_its_own_write(change: Change, state: State) -> None:
    """After a lost answer; the attempt that was seen does not take it for a write of its own."""
    decision = _write(change, _seen("ann", state))
    made = after_write(row(state), decision)
    assert made_by(made, decision)
    assert not made_by(made, _write(change))


def test_decisions_stay() -> None:
    """Over writes of attempts, and over their acquisitions."""
    decided = after_write(
        row(State.HELD), replace(_write(Release(), _seen("ann", State.HELD)), decisions=(DECISION,))
    )
    assert decided is not None
    assert decided.decisions == (DECISION,)
    again = after_acquire(decided, _acquisition(Unclaimed(take_over=True)))
    assert again is not None
    assert again.decisions == (DECISION,)
    done = after_write(again, _write(Complete(None), Holder("a2")))
    assert done is not None
    assert done.decisions == (DECISION,)
    later = DECISION._replace(by="bob")
    by_another = replace(_write(Hold(BROKEN), Resolver.of(done, "bob")), decisions=(DECISION, later))
    finished = after_write(done, by_another)
    assert finished is not None
    assert finished.decisions == (DECISION, later)


@pytest.mark.parametrize("lease", [ALIVE, LAPSED])
def test_a_lease_is_not_shortened(lease: object) -> None:
    """Nor written again as it is."""
    shorter = Extend(lease)  # type: ignore[arg-type]  # parametrised
    assert after_write(row(State.IN_PROGRESS), _write(shorter)) is None


AFTER: list[tuple[Change, Record]] = [
    (Complete(Inline("1")), row(State.COMPLETE, stored=Inline("1"))),
    (Complete(None, BROKEN), row(State.COMPLETE, error=BROKEN)),
    (Hold(BROKEN), row(State.HELD, error=BROKEN)),
    (Release(), row(State.RELEASED)),
    (Release(BROKEN), row(State.RELEASED, error=BROKEN)),
    (Extend(LATER), row(State.IN_PROGRESS, expected_completion=LATER)),
    (Pin.PIN, row(State.IN_PROGRESS)),
]


@pytest.mark.parametrize(("change", "after"), AFTER)
def test_the_holder_writes(change: Change, after: Record) -> None:
    """The row is as the change says, with the ttl that the write brings."""
    write = _write(change)
    expected = after._replace(ttl=SECONDS + 100, write_id=write.id)
    assert after_write(row(State.IN_PROGRESS), write) == expected


@pytest.mark.parametrize("change", CHANGES)
def test_what_a_write_made_is_its_own(change: Change) -> None:
    """Found again after a lost response; by another attempt it is not, nor where there is no row."""
    write = replace(_write(change), ttl=None)
    made = after_write(row(State.IN_PROGRESS), write)
    assert made is not None
    assert made_by(made, write)
    if not isinstance(change, End):
        assert not made_by(made._replace(attempt_id="a2"), write)
    assert not made_by(None, write)


ENDS = [change for change in CHANGES if isinstance(change, End)]


@pytest.mark.parametrize(("mine", "other"), list(product(CHANGES, ENDS)))
def test_another_write_of_the_same_attempt_is_not_our_write(mine: Change, other: Change) -> None:
    """Not even an equal one of the same millisecond: it remains."""
    found = after_write(row(State.IN_PROGRESS, ttl=1), _write(other))
    assert found is not None
    assert not made_by(found, _write(mine))


@pytest.mark.parametrize("mine", CHANGES)
@pytest.mark.parametrize("state", [State.COMPLETE, State.HELD, State.RELEASED])
def test_a_row_without_a_write_id_matches_no_write(mine: Change, state: State) -> None:
    """It was written before there were any."""
    assert not made_by(row(state, ttl=None), _write(mine))


def test_an_end_bears_an_id_and_nothing_else_does() -> None:
    """A value without it could not be recognised."""
    for change in CHANGES:
        with pytest.raises(ValueError, match="with the write id"):
            Write("t", Holder("a1"), change, NOW, 1, None if isinstance(change, End) else "w1")


def test_write_ids_differ() -> None:
    """Those of one attempt, at one time, for one change."""
    made = {new_write_id(Complete(None)) for _ in range(100)}
    assert len(made) == 100
    assert all(isinstance(each, str) and len(each) == 16 for each in made)


def test_a_lease_beyond_ours_is_our_extension() -> None:
    """A later renewal has overtaken it; an earlier lease says that it was not written."""
    longer = row(State.IN_PROGRESS, expected_completion=LATER)
    assert made_by(longer, _write(Extend(LATER)))
    assert made_by(longer, _write(Extend(ALIVE + timedelta(seconds=1))))
    assert not made_by(longer, _write(Extend(LATER + timedelta(seconds=1))))


def test_a_stored_ttl_is_no_pin() -> None:
    """It was not taken away."""
    assert not made_by(row(State.IN_PROGRESS, ttl=1), _write(Pin.PIN))


def test_chunks_are_counted_on_the_row() -> None:
    """Every other form is in it as it is."""
    assert stored_form(Chunks((b"1", b"2"))) == Parts(2)
    for form in (None, Inline("0"), Unavailable.UNAVAILABLE):
        assert stored_form(form) == form
