"""Guarantee 5: work that was done is never done again because of its result."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import Any

import pytest

from lambda_once import OnceError, ResultUnavailable
from lambda_once.core import results
from lambda_once.core.results import Inline, NotSerialisable
from lambda_once.runner import keeping, settlement
from lambda_once.stores.rows import part_key
from tests.guarantees.machines import Cluster, breaks, holds, tried

LARGE = random.Random(5).randbytes(2_500_000).hex()


def _large(machines: Cluster) -> None:
    """A result of 5 MB; a redelivery comes after the lease is over."""
    first = tried(machines.machine("first", lambda: LARGE))
    machines.lapse()
    assert first == tried(machines.machine("second")) == LARGE
    assert machines.ran == ["first"]


def test_a_result_of_five_megabytes_is_replayed() -> None:
    """In parts beside the row."""
    holds(_large)


def test_twin_that_keeps_large_results_in_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """DynamoDB refuses the row, the token lapses, and the work is done again."""
    monkeypatch.setattr(keeping, "pack", Inline)
    breaks(_large)


def _unwritable(machines: Cluster) -> None:
    """A result that JSON cannot say; a redelivery comes after the lease is over."""
    result = object()
    with suppress(NotSerialisable):
        assert tried(machines.machine("first", lambda: result)) is result
    machines.lapse()
    with suppress(NotSerialisable):
        answer = tried(machines.machine("second", lambda: result))
        assert isinstance(answer, ResultUnavailable), answer
    assert machines.ran == ["first"]


def test_a_result_that_cannot_be_serialised_completes_its_token() -> None:
    """The first caller gets it; a duplicate is told that it is done and cannot be had."""
    holds(_unwritable)


def test_twin_that_lets_the_serialiser_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The token is left behind in progress, and the work is done again."""

    def fails(*_: Any) -> None:
        raise NotSerialisable("a result of type object cannot be written")

    monkeypatch.setattr(settlement, "kept", fails)
    breaks(_unwritable)


def test_a_result_beyond_all_parts_completes_its_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as unavailable as one that cannot be written."""
    monkeypatch.setattr(results, "PARTS_LIMIT", 2)

    def scenario(machines: Cluster) -> None:
        assert tried(machines.machine("first", lambda: LARGE)) == LARGE
        machines.lapse()
        assert isinstance(tried(machines.machine("second")), ResultUnavailable)
        assert machines.ran == ["first"]

    holds(scenario)


def test_a_lost_part_is_no_reason_to_run_again() -> None:
    """Somebody deleted it: the work is done all the same."""

    def scenario(machines: Cluster) -> None:
        tried(machines.machine("first", lambda: LARGE))
        row = machines.row()
        key = {"lockToken": {"S": part_key(row.token, row.attempt, row.write, 3)}}
        machines.client.delete_item(TableName="tokens", Key=key)
        answer = tried(machines.machine("second"))
        assert isinstance(answer, ResultUnavailable)
        assert isinstance(answer, OnceError)
        assert machines.ran == ["first"]

    holds(scenario)
