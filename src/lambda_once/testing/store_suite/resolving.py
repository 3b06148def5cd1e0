"""Decisions of a third party about a token: an operator, the watchdog, a probe."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Inline, Parts, Unavailable
from lambda_once.core.writes import Resolver, Write, after_write
from lambda_once.operations.resolution import Resolve, forgetting, resolution
from lambda_once.stores.contract import Refused, Written
from lambda_once.testing.store_suite.world import (
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

DECISIONS = tuple(how for how in Resolve if how is not Resolve.KEEP)
KEPT = {"complete": (Resolve.KEEP, Resolve.DONE), "stored error": (Resolve.KEEP,)}
"""The rows whose outcome stays under these decisions."""

by_row = pytest.mark.parametrize("row", ROWS)
by_decision = pytest.mark.parametrize("decision", DECISIONS)
by_keeping = pytest.mark.parametrize(
    ("row", "how"), [(row, how) for row, hows in KEPT.items() for how in hows]
)


def row_of(world: World, row: str) -> Record:
    world.won(fingerprint="f", delivery="m-1")
    change = ROWS[row]
    if change is not None:
        assert world.finish(change) == Written.WRITTEN
    world.clock.advance(LEASE.total_seconds() + 1)
    return world.row()


def decided(world: World, before: Record, decision: Resolve, result: str | None = None) -> Write:
    because = "seen at the provider"
    return resolution(before, decision, by="ann", because=because, now=world.clock.now(), result=result)


OTHERS: dict[str, Callable[[Resolver], Resolver]] = {
    "another attempt": lambda by: by._replace(seen="somebody"),
    "another lease": lambda by: by._replace(lease=by.lease + timedelta(seconds=1)),
}


def kept_for(world: World, before: Record, days: int, how: Resolve = Resolve.KEEP, by: str = "ann") -> Write:
    keep, now = timedelta(days=days), world.clock.now()
    return resolution(before, how, by=by, because="redriven next week", now=now, keep=keep)


class Resolving:
    """`Store.finish` by a third party, whatever the state of the token."""

    @by_row
    @by_decision
    def test_a_decision_is_written_to_the_row_as_it_was_seen(
        self, world: World, row: str, decision: Resolve
    ) -> None:
        """With a fresh attempt id, a larger fence, and who decided and why; nothing else is left."""
        before = row_of(world, row)
        write = decided(world, before, decision, "5" if decision is Resolve.DONE else None)
        assert world.send(write) == Written.WRITTEN
        after = world.row()
        assert after == after_write(before, write)
        assert (after.attempt_id, after.fence) == (write.attempt_id, before.fence + 1)
        assert after.attempt_id != before.attempt_id
        assert after.stored == (Inline("5") if decision is Resolve.DONE else None)
        assert (after.ttl is None) is (decision is Resolve.HOLD)
        assert after.resolution == write.note
        assert (after.fingerprint, after.delivery) == ("f", "m-1")

    @by_row
    @by_decision
    def test_a_decision_sent_again_is_written(self, world: World, row: str, decision: Resolve) -> None:
        """Its answer was lost: the refusal of the second copy is our own first one."""
        write = decided(world, row_of(world, row), decision)
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
        """Another attempt, or another lease: nothing is written."""
        before = row_of(world, row)
        write = decided(world, before, decision, "5" if decision is Resolve.DONE else None)
        assert isinstance(write.by, Resolver)
        item = world.item()
        assert world.send(replace(write, by=OTHERS[other](write.by))) == Refused(before)
        assert world.item() == item

    @by_row
    @pytest.mark.parametrize("seen", State)
    def test_another_state_than_was_seen_refuses(self, world: World, row: str, seen: State) -> None:
        """Even if attempt and lease are those that were read."""
        before = row_of(world, row)
        write = decided(world, before, Resolve.NOT_DONE)
        assert isinstance(write.by, Resolver)
        answer = world.send(replace(write, by=write.by._replace(state=seen)))
        assert answer == (Written.WRITTEN if seen is before.state else Refused(before))

    def test_there_is_no_decision_without_a_row(self, world: World) -> None:
        """A decision writes no new row."""
        before = row_of(world, "held")
        world.rows.forget(world.token)
        assert world.send(decided(world, before, Resolve.DONE)) == Refused(None)
        assert world.read() is None

    @by_row
    def test_the_reason_outlives_the_next_attempt(self, world: World, row: str) -> None:
        """The row shows that this work was released once, by whom and why."""
        before = row_of(world, row)
        write = decided(world, before, Resolve.NOT_DONE)
        world.send(write)
        again = world.won("a2", fingerprint="f")
        assert again.fence == before.fence + 2
        assert world.row().resolution == write.note
        world.finish(PAID, "a2")
        assert world.row().resolution == write.note

    def test_decisions_of_one_writer_are_counted(self, world: World) -> None:
        """Until another writer decides."""
        times: list[int] = []
        for by in ("ann", "ann", "ann", "bob", "ann"):
            write = resolution(
                row_of(world, "held") if not times else world.row(),
                Resolve.HOLD,
                by=by,
                because="wait",
                now=world.clock.now(),
            )
            world.send(write)
            note = world.row().resolution
            assert note is not None
            times.append(note.times)
        assert times == [1, 2, 3, 1, 1]

    def test_a_large_result_of_a_decision_is_read_back(self, world: World) -> None:
        """Its parts have the ids of the decision."""
        write = decided(world, row_of(world, "held"), Resolve.DONE, LARGE)
        assert world.send(write) == Written.WRITTEN
        row = world.row()
        assert isinstance(row.stored, Parts)
        chunks = world.store.chunks(row, world.deadline)
        assert chunks is not None
        assert len(chunks) == row.stored.count

    def test_of_two_decisions_on_one_row_the_first_is_written(self, world: World) -> None:
        """The second is refused, with the row of the first."""
        before = row_of(world, "held")
        first = decided(world, before, Resolve.NOT_DONE)
        second = decided(world, before, Resolve.DONE, "5")
        assert world.send(first) == Written.WRITTEN
        assert world.send(second) == Refused(after_write(before, first))

    def test_a_decision_stands_until_an_attempt_runs(self, world: World) -> None:
        """It has the attempt id that it left in the row; an acquisition keeps the decision, not the id."""
        write = decided(world, row_of(world, "held"), Resolve.NOT_DONE)
        world.send(write)
        assert world.row().standing == write.note
        world.won("a2", fingerprint="f")
        assert (world.row().standing, world.row().resolution) == (None, write.note)


class Keeping:
    """`Store.finish` of a `Keep`: an outcome is replayed for longer, or for less long, as it is."""

    @by_keeping
    def test_an_outcome_that_is_kept_is_as_it_was(self, world: World, row: str, how: Resolve) -> None:
        """The same attempt and write, result and error; another ttl, and who decided."""
        before = row_of(world, row)
        write = kept_for(world, before, 28, how)
        assert world.send(write) == Written.WRITTEN
        after = world.row()
        assert after.resolution == write.note == after.standing
        assert after.ttl == int((world.clock.now() + timedelta(days=28)).timestamp())
        expected = before._replace(ttl=after.ttl, resolution=after.resolution, fence=before.fence + 1)
        assert after == expected == after_write(before, write)

    @by_keeping
    def test_a_keep_sent_again_is_written(self, world: World, row: str, how: Resolve) -> None:
        """Its answer was lost: the row has its note and its ttl."""
        write = kept_for(world, row_of(world, row), 28, how)
        world.send(write)
        before = world.row()
        assert world.send(write) == Written.WRITTEN
        assert world.row() == before

    @pytest.mark.parametrize("days", [28, 1])
    def test_of_two_keeps_of_one_row_the_first_is_written(self, world: World, days: int) -> None:
        """Even if the other one's time is the same: the row has changed since it was read."""
        before = row_of(world, "complete")
        assert world.send(kept_for(world, before, 28)) == Written.WRITTEN
        kept = world.row()
        assert world.send(kept_for(world, before, days, by="bob")) == Refused(kept)
        assert world.send(decided(world, before, Resolve.NOT_DONE)) == Refused(kept)
        assert world.row() == kept

    @pytest.mark.parametrize("row", [row for row in ROWS if row not in KEPT])
    def test_only_a_complete_token_has_an_outcome_to_keep(self, world: World, row: str) -> None:
        """Of another one nothing is written."""
        before = row_of(world, row)
        with pytest.raises(ValueError, match="it has no outcome"):
            kept_for(world, before, 28)
        complete = before._replace(state=State.COMPLETE)
        assert world.send(kept_for(world, complete, 28)) == Refused(before)
        assert world.row() == before

    def test_without_a_time_it_is_never_shortened(self, world: World) -> None:
        """The default of 28 days is for what is kept for less."""
        world.won()
        forever = replace(world.write(PAID), ttl=4_000_000_000)
        assert world.send(forever) == Written.WRITTEN
        assert world.send(decided(world, world.row(), Resolve.DONE)) == Written.WRITTEN
        assert world.row().ttl == forever.ttl
        assert world.row().resolution is not None

    def test_a_large_result_is_kept(self, world: World) -> None:
        """Its parts are found by the ids that stay."""
        write = decided(world, row_of(world, "held"), Resolve.DONE, LARGE)
        world.send(write)
        parts = world.chunks(world.row())
        world.send(kept_for(world, world.row(), 90))
        assert parts
        assert world.chunks(world.row()) == parts

    def test_a_result_that_was_forgotten_stays_forgotten(self, world: World) -> None:
        """It is distinguished from one that could not be stored."""
        before = row_of(world, "complete")
        world.send(forgetting(before, by="bob", because="request 77", now=world.clock.now()))
        world.send(kept_for(world, world.row(), 90))
        assert world.row().stored is Unavailable.FORGOTTEN
