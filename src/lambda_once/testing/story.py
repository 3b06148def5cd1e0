"""What a failed assertion says of a token: its row, told in the order of time."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from lambda_once.core.clock import stamp
from lambda_once.core.record import State
from lambda_once.operations.story import describe_result

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from lambda_once.core.record import Record
    from lambda_once.testing.recording import Chapter


def story_of(record: Record, chapters: Iterable[Chapter] = ()) -> str:
    """
    Return how *record* came to be what it is, a line for each step.

    *chapters* are what a `RecordingStore` remembers; without them the story is what the row itself tells.
    The stored result is measured, never shown.
    """
    known = [(chapter.at, chapter.text) for chapter in chapters]
    steps = known or sorted(_steps(record), key=lambda step: step[0])
    lines = [f"token {record.token} is {_state(record)}", *(f"  {stamp(at)}  {text}" for at, text in steps)]
    return "\n".join([*lines, *(f"  {note}" for note in _notes(record))])


def _state(record: Record) -> str:
    match record.state:
        case State.IN_PROGRESS:
            return f"in progress, with a lease until {stamp(record.expected_completion)}"
        case State.COMPLETE:
            return "complete" if record.error is None else "complete, with a stored error"
        case State.HELD:
            return "held for manual review"
        case State.RELEASED:
            return "released: the next delivery may try again"
        case _ as unreachable:
            assert_never(unreachable)


def _steps(record: Record) -> list[tuple[datetime, str]]:
    steps = [
        (record.created, f"acquired by {record.locked_by} (attempt {record.attempt}, fence {record.fence})"),
        (record.expected_completion, "the lease ends"),
    ]
    if record.actual_completion is not None:
        end = "held" if record.state is State.HELD else "completed"
        steps.append((record.actual_completion, end))
    return steps


def _notes(record: Record) -> list[str]:
    notes = []
    if record.error is not None:
        notes.append(f"error: {record.error.kind}: {record.error.message}")
    if record.state is State.COMPLETE and record.error is None:
        notes.append(describe_result(record.stored))
    if record.resolution is not None:
        note = record.resolution
        notes.append(f"resolved by {note.by} at {stamp(note.at)}: {note.because}")
    return notes
