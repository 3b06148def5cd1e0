"""Hundreds of schedules, each from its seed, in none of which a promise is broken."""

from __future__ import annotations

import re
from collections import Counter

from tests.simulation.play import play
from tests.simulation.scenario import scenario

SCHEDULES = 500
"""The first ones; `make simulate` plays more."""

WANTED = (
    "is lost",
    "the answer is lost",
    "is under way",
    "a ghost: done",
    "a ghost: refused",
    "throttled",
    "conflict",
    "crashes",
    "pauses for",
    "its time is up",
    "INSERT INTO",
    "DuplicateItem",
    "ConditionalCheckFailed",
    'UPDATE "tokens"',
    "TRANSACT",
    "PUT k",
    "is complete",
    "is released",
    "is error",
    "ttl            deletes",
    "is inProgress, and was done",
    "is inProgress, and was not done",
    "is error, and was done",
    "is error, and was not done",
    "ThrottlingError",
    "raises Held",
    "raises KeyReused",
    "raises InProgress",
    "raises StoreUnavailable",
    "raises Fenced",
    "raises BatchProcessingError",
    "the old version (",
    "the record of k0 is INPROGRESS",
    "the record of k0 is COMPLETED",
    "the record of k0 is gone",
    "put_item of a record -> refused (ConditionalCheckFailed",
    "raises IdempotencyAlreadyInProgressError",
)
"""What stories tell of: every misfortune, every way of writing, every end of an attempt."""


def test_a_seed_tells_one_story() -> None:
    """A schedule follows from its seed: played again, it is the same to the last step."""
    for seed in (3, 14, 159):
        assert play(seed).text() == play(seed).text()


def test_no_schedule_breaks_a_promise() -> None:
    """
    Whatever is lost, late, killed, paused or skewed: the guarantees hold at every step.

    And among these schedules is everything that they are to try.
    """
    counted: Counter[str] = Counter()
    for seed in range(SCHEDULES):
        text = play(seed).text()
        counted.update(word for word in WANTED if word in text)
    assert {word for word in WANTED if counted[word] < 2} == set(), counted


def test_scenarios_differ() -> None:
    """All decorators and policies come up, alone and beside each other."""
    found = [scenario(seed) for seed in range(500)]
    assert {one.face for one in found} == {"event", "sqs", "fifo"}
    assert {rule for one in found for rule in one.on_lapse} == {"take_over", "hold", "probe"}
    assert {one.on_error for one in found} == {"release", "store", "hold"}
    assert any(len(set(one.on_lapse)) > 1 for one in found)
    assert {one.expires for one in found} == {0, 120, 3_600}
    assert {one.lanes for one in found} == {0, 1, 2, 4}


def test_a_story_can_be_read() -> None:
    """Each step of a story has its number, its time, who did it, and what."""
    lines = play(3).text().splitlines()
    assert lines
    assert all(re.match(r" *\d+ +\d+\.\d{3} s  ", line) for line in lines)
