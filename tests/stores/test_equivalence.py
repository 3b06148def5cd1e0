"""All stores answer every sequence of acquisitions and writes alike."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Decider, Decision, OnLapse, Record, Resolve, State, with_decision
from lambda_once.core.results import Chunks, Inline, Unavailable
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    End,
    Extend,
    Holder,
    Pin,
    Resolver,
    Write,
)
from tests.stores.suite.world import (
    FAILED,
    HELD,
    KEEP,
    LEASE,
    PAID,
    RELEASED,
    UNSTARTED,
    World,
)

ATTEMPTS = ("a1", "a2", "a3")
ONLOOKER = "operator"
examples = itertools.count()


@dataclass(frozen=True)
class Pass:
    """Time goes by, over the edges of leases and ttls."""

    seconds: float


@dataclass(frozen=True)
class Want:
    """An acquisition; *seen* makes it one for the row as it is."""

    attempt: str
    rule: OnLapse
    seen: bool
    fingerprint: str | None
    presented: Presented | None = None


@dataclass(frozen=True)
class Ending:
    """
    A finish, by the holder or a resolver; *lease* makes it an extension by so much.

    *seen* is the state that a resolver saw, None: the one that there is; *because* its reason.
    """

    attempt: str
    change: Change | None
    lease: timedelta
    resolver: bool
    seen: State | None = None
    because: str | None = None
    write: str = "w1"
    """The id of a write that ends an attempt; the same one twice is a retry."""


Step = Pass | Want | Ending
Round = Pass | tuple[Want, ...] | tuple[Ending, ...]
"""What is asked of several tokens in one call, one step each."""

attempts = st.sampled_from(ATTEMPTS)
changes = st.sampled_from(
    [
        PAID,
        FAILED,
        HELD,
        RELEASED,
        UNSTARTED,
        Pin.PIN,
        Complete(Inline(b"\x00")),
        Complete(Unavailable.UNAVAILABLE),
        Complete(Chunks((b"one", b"two"))),
        None,
    ]
)
lengths = st.sampled_from([timedelta(seconds=1), LEASE, 3 * LEASE, KEEP])
lapses = [LEASE.total_seconds(), LEASE.total_seconds() + 0.001]
pauses = st.sampled_from([0.001, 1.0, *lapses, KEEP.total_seconds(), KEEP.total_seconds() + 31])
passes = st.builds(Pass, pauses)
wants = st.builds(
    Want,
    attempts,
    st.sampled_from(OnLapse),
    st.booleans(),
    st.sampled_from([None, None, "f", "g"]),
    st.sampled_from([None, None, Presented("alice"), Presented("bob"), Presented(None)]),
)
seen = st.sampled_from([None, None, None, *State])
reasons = st.sampled_from([None, "seen at the provider", "by phone"])
ids = st.sampled_from(["w1", "w2", "w3"])
writes = st.builds(
    Ending, attempts, changes, lengths, st.sampled_from([False, False, True]), seen, reasons, ids
)
steps: st.SearchStrategy[Step] = st.one_of(passes, wants, writes)
sequences = st.lists(steps, min_size=2, max_size=12)
rounds: st.SearchStrategy[list[Round]] = st.lists(
    st.one_of(passes, st.tuples(wants, wants, wants), st.tuples(writes, writes, writes)),
    min_size=2,
    max_size=10,
)
relaxed = settings(
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _seen(row: Record | None) -> AsSeen | None:
    if row is None:
        return None
    lapsed = row.actual_completion is None and row.expected_completion
    return AsSeen(row.attempt_id, lapsed if lapsed and row.state.value == "inProgress" else None)


def _take(world: World, step: Step, row: Record | None) -> object:
    match step:
        case Pass(seconds):
            world.clock.advance(seconds)
            return None
        case Want():
            return world.acquire(_acquisition(world, step, row, world.token))
        case Ending():
            return world.store.write([_write(world, step, row, world.token)], world.deadline)


def _acquisition(world: World, want: Want, row: Record | None, token: str) -> Acquire:
    acquisition = world.acquisition(
        want.attempt, token=token, rule=want.rule, fingerprint=want.fingerprint, presented=want.presented
    )
    as_seen = _seen(row) if want.seen else None
    return acquisition if as_seen is None else acquisition._replace(take=as_seen)


def _write(world: World, write: Ending, row: Record | None, token: str) -> Write:
    then = Extend(world.ends(write.lease)) if write.change is None else write.change
    by: Holder | Resolver = Holder(write.attempt)
    if write.resolver and row is not None and not isinstance(then, Extend | Pin):
        state = row.state if write.seen is None else write.seen
        by = Resolver.of(row, ONLOOKER)._replace(state=state)
    made = world.write(then, by, token, write.write if isinstance(then, End) else None)
    if write.because is None:
        return made
    state = State.HELD if row is None else row.state
    decision = Decision(
        world.clock.now(), Decider.PERSON, "ann", write.because, state, Resolve.HOLD, made.attempt_id
    )
    return replace(made, decisions=() if row is None else with_decision(row.decisions, decision))


def _play(left: World, right: World, sequence: list[Step]) -> None:
    left.token = right.token = f"orders/charge/example-{next(examples)}"
    right.clock.advance((left.clock.now() - right.clock.now()).total_seconds())
    for step in sequence:
        before = left.read()
        answers = _take(left, step, before), _take(right, step, before)
        assert answers[0] == answers[1]
        assert left.read() == right.read()


@given(sequence=sequences)
@settings(relaxed, max_examples=60)
def test_memory_and_the_strict_engine_agree(memory: World, strict: World, sequence: list[Step]) -> None:
    """Answer by answer, row by row."""
    _play(memory, strict, sequence)


@pytest.mark.engine
@given(sequence=sequences)
@settings(relaxed, max_examples=60)
def test_memory_and_the_engine_agree(memory: World, engine: World, sequence: list[Step]) -> None:
    """Answer by answer, row by row."""
    _play(memory, engine, sequence)


def _take_all(world: World, round_: Round, rows: dict[str, Record | None]) -> list[Any]:
    """Let one call ask for what *round_* says, step by step of the tokens of *rows*."""
    if isinstance(round_, Pass):
        world.clock.advance(round_.seconds)
        return []
    acquisitions = [
        _acquisition(world, s, row, token)
        for s, (token, row) in zip(round_, rows.items(), strict=True)
        if isinstance(s, Want)
    ]
    finishes = [
        _write(world, s, row, token)
        for s, (token, row) in zip(round_, rows.items(), strict=True)
        if isinstance(s, Ending)
    ]
    return [*world.store.acquire(acquisitions, world.deadline), *world.store.write(finishes, world.deadline)]


@pytest.mark.engine
@given(sequence=rounds)
@settings(relaxed, max_examples=40)
def test_memory_and_batches_agree(memory: World, batches: World, sequence: list[Round]) -> None:
    """Many tokens in a call: answer by answer, row by row."""
    tokens = [f"orders/charge/example-{next(examples)}" for _ in range(3)]
    batches.clock.advance((memory.clock.now() - batches.clock.now()).total_seconds())
    for round_ in sequence:
        rows = {token: memory.read(token) for token in tokens}
        assert _take_all(memory, round_, rows) == _take_all(batches, round_, rows)
        assert [memory.read(token) for token in tokens] == [batches.read(token) for token in tokens]
