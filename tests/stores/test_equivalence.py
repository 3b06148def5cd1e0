"""All stores answer every sequence of wishes and writes alike."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once.core.lifecycle import OnLapse
from lambda_once.core.record import Record
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.writes import AsSeen, Change, Complete, Extend, Holder, Onlooker, Pin
from tests.stores.world import FAILED, GIVEN_BACK, HELD, KEEP, LEASE, PAID, UNSTARTED, World

ATTEMPTS = ("a1", "a2", "a3")
ONLOOKER = "operator"
examples = itertools.count()


@dataclass(frozen=True)
class Pass:
    """Time goes by, over the edges of leases and ttls."""

    seconds: float


@dataclass(frozen=True)
class Want:
    """A wish; *seen* makes it one for the row as it is."""

    attempt: str
    rule: OnLapse
    seen: bool
    fingerprint: str | None


@dataclass(frozen=True)
class Write:
    """A finish, by the holder or an onlooker; *lease* makes it an extension by so much."""

    attempt: str
    change: Change | None
    lease: timedelta
    onlooker: bool


Step = Pass | Want | Write

attempts = st.sampled_from(ATTEMPTS)
changes = st.sampled_from(
    [
        PAID,
        FAILED,
        HELD,
        GIVEN_BACK,
        UNSTARTED,
        Pin(),
        Complete(Inline(b"\x00")),
        Complete(Unavailable()),
        Complete(Chunks((b"one", b"two"))),
        None,
    ]
)
lengths = st.sampled_from([timedelta(seconds=1), LEASE, 3 * LEASE, KEEP])
lapses = [LEASE.total_seconds(), LEASE.total_seconds() + 0.001]
pauses = st.sampled_from([0.001, 1.0, *lapses, KEEP.total_seconds(), KEEP.total_seconds() + 31])
steps: st.SearchStrategy[Step] = st.one_of(
    st.builds(Pass, pauses),
    st.builds(
        Want, attempts, st.sampled_from(OnLapse), st.booleans(), st.sampled_from([None, None, "f", "g"])
    ),
    st.builds(Write, attempts, changes, lengths, st.sampled_from([False, False, True])),
)
sequences = st.lists(steps, min_size=2, max_size=12)
relaxed = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _seen(row: Record | None) -> AsSeen | None:
    if row is None:
        return None
    lapsed = row.actual_completion is None and row.expected_completion
    return AsSeen(row.attempt, lapsed if lapsed and row.state.value == "inProgress" else None)


def _take(world: World, step: Step, row: Record | None) -> object:
    match step:
        case Pass(seconds):
            world.clock.advance(seconds)
            return None
        case Want(attempt, rule, seen, fingerprint):
            wish = world.wish(attempt, rule=rule, fingerprint=fingerprint)
            as_seen = _seen(row) if seen else None
            return world.acquire(wish if as_seen is None else replace(wish, take=as_seen))
        case Write(attempt, change, lease, is_onlooker):
            then = Extend(world.ends(lease)) if change is None else change
            by: Holder | Onlooker = Holder(attempt)
            if is_onlooker and row is not None and not isinstance(then, Extend | Pin):
                by = Onlooker(row.attempt, row.expected_completion, ONLOOKER)
            return world.finish(then, by)


def _play(left: World, right: World, sequence: list[Step]) -> None:
    left.token = right.token = f"orders/charge/example-{next(examples)}"
    right.clock.advance((left.clock.now() - right.clock.now()).total_seconds())
    for step in sequence:
        before = left.read()
        answers = _take(left, step, before), _take(right, step, before)
        assert answers[0] == answers[1]
        assert left.read() == right.read()


@given(sequence=sequences)
@settings(relaxed, max_examples=120)
def test_memory_and_moto_agree(memory: World, moto: World, sequence: list[Step]) -> None:
    """Answer by answer, row by row."""
    _play(memory, moto, sequence)


@pytest.mark.engine
@given(sequence=sequences)
@settings(relaxed, max_examples=60)
def test_memory_and_the_engine_agree(memory: World, engine: World, sequence: list[Step]) -> None:
    """Answer by answer, row by row."""
    _play(memory, engine, sequence)
