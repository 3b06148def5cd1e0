"""Decisions about a token by a third party: an operator, the watchdog or a probe."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lambda_once.core.lifecycle import Decider, OnLapse, Record, Resolve, State
from lambda_once.core.results import Inline, Parts, Unavailable
from lambda_once.core.writes import AsSeen, Resolver, Write, after_write
from lambda_once.operations.decisions import Author, decided
from lambda_once.stores.contract import Refused, Won, Written

from .world import (
    FAILED,
    HELD,
    LEASE,
    PAID,
    RELEASED,
    UNSTARTED,
    World,
)

ROWS = {
    "in progress": None,
    "held": HELD,
    "complete": PAID,
    "stored error": FAILED,
    "released": RELEASED,
    "unstarted": UNSTARTED,
}
LARGE = f'"{random.Random("large").randbytes(40_000).hex()}"'

DECISIONS = tuple(how for how in Resolve if how not in (Resolve.KEEP, Resolve.FORGET))
KEPT = {"complete": (Resolve.KEEP, Resolve.DONE), "stored error": (Resolve.KEEP,)}
"""The rows whose outcome is kept by these decisions."""

ANN = Author("ann", "seen at the provider", caller="arn:aws:sts::123456789012:assumed-role/on-call/ann")

by_row = pytest.mark.parametrize("row", ROWS)
by_decision = pytest.mark.parametrize("decision", DECISIONS)
by_keeping = pytest.mark.parametrize(
    ("row", "how"), [(row, how) for row, hows in KEPT.items() for how in hows]
)


def row_of(world: World, row: str) -> Record:
    """Return a row in the state that *row* names, its lease expired."""
    world.won(fingerprint="f", delivery="m-1")
    change = ROWS[row]
    if change is not None:
        assert world.finish(change) == Written.WRITTEN
    world.clock.advance(LEASE.total_seconds() + 1)
    return world.row()


def decision_on(world: World, before: Record, decision: Resolve, result: str | None = None) -> Write:
    """Return the write of an operator who decides about *before*."""
    return decided(before, decision, ANN, world.clock.now(), result=result)


def lapse(world: World, attempt: str) -> None:
    """Acquire the token again, and let its lease expire."""
    world.won(attempt, fingerprint="f")
    world.clock.advance(LEASE.total_seconds() + 1)


OTHERS: dict[str, Callable[[Resolver], Resolver]] = {
    "another attempt": lambda by: by._replace(seen="somebody"),
    "another lease": lambda by: by._replace(lease=by.lease + timedelta(seconds=1)),
}


def kept_for(world: World, before: Record, days: int, how: Resolve = Resolve.KEEP, by: str = "ann") -> Write:
    """Return the write that keeps the outcome of *before* for *days*."""
    author = Author(by, "redriven next week")
    return decided(before, how, author, world.clock.now(), keep=timedelta(days=days))


class Resolving:
    """`Store.write` by a third party, whatever the state of the token."""

    @by_row
    @by_decision
    def test_a_decision_is_written_to_the_row_as_it_was_seen(
        self, world: World, row: str, decision: Resolve
    ) -> None:
        """The row has a new attempt id, a larger fence, who decided and why; its outcome is removed."""
        before = row_of(world, row)
        write = decision_on(world, before, decision, "5" if decision is Resolve.DONE else None)
        assert world.send(write) == Written.WRITTEN
        after = world.row()
        assert after == after_write(before, write)
        assert (after.attempt_id, after.fence) == (write.attempt_id, before.fence + 1)
        assert after.attempt_id != before.attempt_id
        assert after.stored == (Inline("5") if decision is Resolve.DONE else None)
        assert (after.ttl is None) is (decision in (Resolve.HOLD, Resolve.NOT_DONE))
        assert after.awaits_delivery is (decision is Resolve.NOT_DONE)
        assert after.decisions == write.decisions
        assert after.standing == write.decisions[-1]
        assert (after.fingerprint, after.delivery) == ("f", "m-1")

    @by_row
    @by_decision
    def test_a_decision_sent_again_is_written(self, world: World, row: str, decision: Resolve) -> None:
        """If the response was lost, the refusal of the second copy is recognised as our own first write."""
        write = decision_on(world, row_of(world, row), decision)
        world.send(write)
        before = world.row()
        assert world.send(write) == Written.WRITTEN
        assert world.row() == before

    @by_row
    @by_decision
    @pytest.mark.parametrize("other", OTHERS)
    def test_a_row_that_is_not_as_it_was_seen_refuses(
        self, world: World, row: str, decision: Resolve, other: str
    ) -> None:
        """With another attempt or another lease nothing is written."""
        before = row_of(world, row)
        write = decision_on(world, before, decision, "5" if decision is Resolve.DONE else None)
        assert isinstance(write.by, Resolver)
        item = world.item()
        assert world.send(replace(write, by=OTHERS[other](write.by))) == Refused(before)
        assert world.item() == item

    @by_row
    @pytest.mark.parametrize("seen", State)
    def test_another_state_than_was_seen_refuses(self, world: World, row: str, seen: State) -> None:
        """That applies even if attempt and lease are those that were read."""
        before = row_of(world, row)
        write = decision_on(world, before, Resolve.NOT_DONE)
        assert isinstance(write.by, Resolver)
        answer = world.send(replace(write, by=write.by._replace(state=seen)))
        assert answer == (Written.WRITTEN if seen is before.state else Refused(before))

    def test_there_is_no_decision_without_a_row(self, world: World) -> None:
        """A decision does not create a row."""
        before = row_of(world, "held")
        world.rows.forget(world.token)
        assert world.send(decision_on(world, before, Resolve.DONE)) == Refused(None)
        assert world.read() is None

    @by_row
    def test_the_reason_outlives_the_next_attempt(self, world: World, row: str) -> None:
        """The row still shows who released this work, and why."""
        before = row_of(world, row)
        write = decision_on(world, before, Resolve.NOT_DONE)
        world.send(write)
        again = world.won("a2", fingerprint="f")
        assert again.fence == before.fence + 2
        assert world.row().decisions == write.decisions
        world.finish(PAID, "a2")
        assert world.row().decisions == write.decisions

    def test_every_decision_is_kept(self, world: World) -> None:
        """Oldest first, each has who decided, the earlier state, the decision, and its attempt id."""
        row_of(world, "held")
        hows = (Resolve.HOLD, Resolve.NOT_DONE, Resolve.DONE, Resolve.KEEP)
        for by, how in zip(("ann", "bob", "ann", "eve"), hows, strict=True):
            world.send(decided(world.row(), how, Author(by, f"because {by}"), world.clock.now()))
        found = world.row().decisions
        assert [(each.by, each.how, each.before) for each in found] == [
            ("ann", Resolve.HOLD, State.HELD),
            ("bob", Resolve.NOT_DONE, State.HELD),
            ("ann", Resolve.DONE, State.RELEASED),
            ("eve", Resolve.KEEP, State.COMPLETE),
        ]
        assert [each.attempt_id for each in found[2:]] == [world.row().attempt_id] * 2

    def test_repeated_releases_of_the_watchdog_are_one_entry(self, world: World) -> None:
        """The entry has their number, so that they do not displace a person's decision."""
        world.send(decision_on(world, row_of(world, "held"), Resolve.NOT_DONE))
        lapse(world, "a2")
        watchdog = Author("watchdog", "may release", Decider.WATCHDOG)
        for _ in range(12):
            world.send(decided(world.row(), Resolve.NOT_DONE, watchdog, world.clock.now()))
            lapse(world, f"a{world.row().fence}")
        found = world.row().decisions
        assert [(each.by, each.times) for each in found] == [("ann", 1), ("watchdog", 12)]

    def test_a_large_result_of_a_decision_is_read_back(self, world: World) -> None:
        """Its parts have the ids of the decision."""
        write = decision_on(world, row_of(world, "held"), Resolve.DONE, LARGE)
        assert world.send(write) == Written.WRITTEN
        row = world.row()
        assert isinstance(row.stored, Parts)
        chunks = world.store.chunks(row, world.deadline)
        assert chunks is not None
        assert len(chunks) == row.stored.count

    def test_of_two_decisions_on_one_row_the_first_is_written(self, world: World) -> None:
        """The second is refused, and gets the row of the first."""
        before = row_of(world, "held")
        first = decision_on(world, before, Resolve.NOT_DONE)
        second = decision_on(world, before, Resolve.DONE, "5")
        assert world.send(first) == Written.WRITTEN
        assert world.send(second) == Refused(after_write(before, first))

    def test_a_decision_stands_until_an_attempt_runs(self, world: World) -> None:
        """The row has the decision's attempt id; the next acquisition keeps the decision, but not the id."""
        write = decision_on(world, row_of(world, "held"), Resolve.NOT_DONE)
        world.send(write)
        assert world.row().standing == write.decisions[-1]
        world.won("a2", fingerprint="f")
        assert (world.row().standing, world.row().decisions) == (None, write.decisions)


class Keeping:
    """`Store.write` of a `Keep`: the outcome is unchanged, but is replayed for a longer or shorter time."""

    @by_keeping
    def test_an_outcome_that_is_kept_is_as_it_was(self, world: World, row: str, how: Resolve) -> None:
        """Attempt, write, result and error are unchanged; the ttl, and who decided, are new."""
        before = row_of(world, row)
        write = kept_for(world, before, 28, how)
        assert world.send(write) == Written.WRITTEN
        after = world.row()
        assert after.decisions == write.decisions
        assert after.standing == write.decisions[-1]
        assert after.ttl == int((world.clock.now() + timedelta(days=28)).timestamp())
        expected = before._replace(ttl=after.ttl, decisions=after.decisions, fence=before.fence + 1)
        assert after == expected == after_write(before, write)

    @by_keeping
    def test_a_keep_sent_again_is_written(self, world: World, row: str, how: Resolve) -> None:
        """If the response was lost, the row has the decision and its ttl."""
        write = kept_for(world, row_of(world, row), 28, how)
        world.send(write)
        before = world.row()
        assert world.send(write) == Written.WRITTEN
        assert world.row() == before

    @pytest.mark.parametrize("days", [28, 1])
    def test_of_two_keeps_of_one_row_the_first_is_written(self, world: World, days: int) -> None:
        """That applies even with the same time: the row has changed since it was read."""
        before = row_of(world, "complete")
        assert world.send(kept_for(world, before, 28)) == Written.WRITTEN
        kept = world.row()
        assert world.send(kept_for(world, before, days, by="bob")) == Refused(kept)
        assert world.send(decision_on(world, before, Resolve.NOT_DONE)) == Refused(kept)
        assert world.row() == kept

    @pytest.mark.parametrize("row", [row for row in ROWS if row not in KEPT])
    def test_only_a_complete_token_has_an_outcome_to_keep(self, world: World, row: str) -> None:
        """For any other token nothing is written."""
        before = row_of(world, row)
        with pytest.raises(ValueError, match="it has no outcome"):
            kept_for(world, before, 28)
        complete = before._replace(state=State.COMPLETE)
        assert world.send(kept_for(world, complete, 28)) == Refused(before)
        assert world.row() == before

    def test_without_a_time_it_is_never_shortened(self, world: World) -> None:
        """The default of 28 days only lengthens."""
        world.won()
        forever = replace(world.write(PAID), ttl=4_000_000_000)
        assert world.send(forever) == Written.WRITTEN
        assert world.send(decision_on(world, world.row(), Resolve.DONE)) == Written.WRITTEN
        assert world.row().ttl == forever.ttl
        assert world.row().decisions

    def test_a_large_result_is_kept(self, world: World) -> None:
        """Its parts are found, because their ids are unchanged."""
        write = decision_on(world, row_of(world, "held"), Resolve.DONE, LARGE)
        world.send(write)
        parts = world.chunks(world.row())
        world.send(kept_for(world, world.row(), 90))
        assert parts
        assert world.chunks(world.row()) == parts

    def test_a_result_that_was_forgotten_stays_forgotten(self, world: World) -> None:
        """It is distinguished from a result that could not be stored."""
        before = row_of(world, "complete")
        world.send(decided(before, Resolve.FORGET, Author("bob", "request 77"), world.clock.now()))
        world.send(kept_for(world, world.row(), 90))
        assert world.row().stored is Unavailable.FORGOTTEN


def released_by(world: World, row: str = "held") -> Record:
    """Return a row that an operator released."""
    world.send(decision_on(world, row_of(world, row), Resolve.NOT_DONE))
    return world.row()


class Releasing:
    """Tokens that a decision released: free as any released token, and listed until an attempt runs."""

    def test_it_is_listed_from_the_time_of_the_decision(self, world: World) -> None:
        """It has no ttl: there may be no further delivery."""
        before = released_by(world)
        assert before.awaits_delivery
        assert (before.ttl, before.expected_completion) == (None, world.clock.now())
        (listed,) = world.store.unfinished(State.RELEASED, world.deadline)
        assert (listed.token, listed.expected_completion) == (world.token, before.expected_completion)

    def test_what_an_attempt_released_is_not_listed(self, world: World) -> None:
        """It is delivered again, and its row expires."""
        assert not row_of(world, "released").awaits_delivery
        assert list(world.store.unfinished(State.RELEASED, world.deadline)) == []

    @pytest.mark.parametrize("row", ["held", "in progress", "complete", "released"])
    def test_the_next_delivery_runs_and_takes_nothing_over(self, world: World, row: str) -> None:
        """Whatever its earlier state, it is then in progress, and no longer listed as released."""
        before = released_by(world, row)
        won = world.won("a2", fingerprint="f")
        assert (won.took_over, won.fence) == (False, before.fence + 1)
        assert world.row().state is State.IN_PROGRESS
        assert list(world.store.unfinished(State.RELEASED, world.deadline)) == []

    def test_under_hold_it_is_acquired_as_it_was_seen(self, world: World) -> None:
        """An acquisition is granted only if it has read the released row."""
        before = released_by(world)
        blind = world.acquisition("a2", rule=OnLapse.HOLD, fingerprint="f")
        assert world.acquire(blind) == Refused(before)
        seen = world.acquisition(
            "a2", rule=OnLapse.HOLD, seen=AsSeen(before.attempt_id, None), fingerprint="f"
        )
        answer = world.acquire(seen)
        assert isinstance(answer, Won)
        assert not answer.took_over

    @pytest.mark.parametrize("rule", [OnLapse.TAKE_OVER, OnLapse.HOLD])
    def test_a_copy_of_an_older_sight_is_refused(self, world: World, rule: OnLapse) -> None:
        """It expects another attempt id, or brings that of the row itself."""
        before = released_by(world)
        seen = None if rule is OnLapse.TAKE_OVER else AsSeen("somebody", None)
        attempt = before.attempt_id if seen is None else "a2"
        assert world.acquire(world.acquisition(attempt, rule=rule, seen=seen)) == Refused(before)
        assert world.row() == before

    def test_it_never_expires(self, world: World) -> None:
        """It is listed until it runs."""
        before = released_by(world)
        world.clock.advance(timedelta(days=400).total_seconds())
        assert not before.expired(world.clock.now())
        assert list(world.store.unfinished(State.RELEASED, world.deadline)) != []

    @pytest.mark.parametrize("how", [Resolve.DONE, Resolve.HOLD, Resolve.FAILED])
    def test_another_decision_ends_that(self, world: World, how: Resolve) -> None:
        """For example, a cancelled order is resolved as done."""
        before = released_by(world)
        assert world.send(decision_on(world, before, how)) == Written.WRITTEN
        assert list(world.store.unfinished(State.RELEASED, world.deadline)) == []

    @pytest.mark.parametrize(("row", "listed"), [("held", True), ("released", False)])
    def test_forgetting_changes_neither_list_nor_time(self, world: World, row: str, listed: bool) -> None:
        """A row that an attempt released keeps its ttl."""
        before = released_by(world) if listed else row_of(world, row)
        world.clock.advance(60)
        world.send(decision_on(world, before, Resolve.FORGET))
        after = world.row()
        assert (after.ttl, after.expected_completion) == (before.ttl, before.expected_completion)
        assert after.awaits_delivery is listed
        assert len(list(world.store.unfinished(State.RELEASED, world.deadline))) == int(listed)
