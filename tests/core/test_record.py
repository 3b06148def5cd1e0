"""What a row says of itself."""

from __future__ import annotations

from datetime import timedelta

import pytest

from lambda_once.core.lifecycle import MESSAGE_LIMIT, Failure, State
from tests.kit.rows import ALIVE, LAPSED, NOW, SECONDS, row


@pytest.mark.parametrize("state", [State.COMPLETE, State.RELEASED])
def test_a_finished_row_expires_in_the_second_of_its_ttl(state: State) -> None:
    """And without one never."""
    assert row(state, ttl=SECONDS).expired(NOW)
    assert not row(state, ttl=SECONDS + 1).expired(NOW + timedelta(milliseconds=999))
    assert not row(state).expired(NOW)


@pytest.mark.parametrize("state", [State.IN_PROGRESS, State.HELD])
def test_an_unfinished_row_never_expires(state: State) -> None:
    """Whatever its ttl says."""
    assert not row(state, ttl=0).expired(NOW)


def test_a_lease_ends_after_its_last_millisecond() -> None:
    """Then the attempt has lapsed; a finished one never has."""
    assert row(State.IN_PROGRESS, expected_completion=LAPSED).lapsed(NOW)
    assert not row(State.IN_PROGRESS, expected_completion=NOW).lapsed(NOW)
    assert not row(State.IN_PROGRESS, expected_completion=ALIVE).lapsed(NOW)
    assert not row(State.COMPLETE, expected_completion=LAPSED).lapsed(NOW)


@pytest.mark.parametrize(
    ("stored", "asked", "clashes"),
    [("f", "g", True), ("f", "f", False), (None, "f", False), ("f", None, False), (None, None, False)],
)
def test_two_known_payloads_clash(stored: str | None, asked: str | None, clashes: bool) -> None:
    """An unknown one does not."""
    assert row(State.COMPLETE, fingerprint=stored).clashes(asked) is clashes


def test_a_failure_is_kept_short() -> None:
    """The name of its class, and the beginning of its message."""
    assert Failure.of(KeyError("x" * 5000)) == Failure("KeyError", ("'" + "x" * 5000)[:MESSAGE_LIMIT])
    assert Failure.of(ValueError("no")) == Failure("ValueError", "no")


def test_a_message_that_cannot_be_encoded_is_escaped() -> None:
    """A row is UTF-8: a lone surrogate, which JSON can send, becomes its escape, within the limit."""
    assert Failure.of(ValueError("no \ud800")) == Failure("ValueError", "no \\ud800")
    assert len(Failure.of(ValueError("\ud800" * MESSAGE_LIMIT)).message) == MESSAGE_LIMIT
