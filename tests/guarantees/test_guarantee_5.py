"""Guarantee 5: work that was done is never done again because of its result."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from lambda_once import Once, OnceError, ResultUnavailable
from lambda_once.core import results
from lambda_once.core.results import NotSerialisable
from lambda_once.stores.requests import part_key
from lambda_once.testing import lambda_context, using
from tests.guarantees.machines import LEASE, Cluster, tried
from tests.kit import iam, tables

LARGE = random.Random(5).randbytes(2_500_000).hex()


def test_a_result_of_five_megabytes_is_replayed(machines: Cluster) -> None:
    """A result of 5 MB; a redelivery comes after the lease is over."""
    first = tried(machines.machine("first", lambda: LARGE))
    machines.lapse()
    assert first == tried(machines.machine("second")) == LARGE
    assert machines.ran == ["first"]


SMALLER = random.Random(5).randbytes(100_000).hex()


@pytest.mark.parametrize("machines", [tables.BOTO3], indirect=True)
def test_a_missing_permission_for_parts_repeats_no_work(machines: Cluster) -> None:
    """A result that needs parts, of a role that may not write them."""
    denied = iam.limit(machines.client, [{"Action": ["dynamodb:GetItem", "dynamodb:UpdateItem"]}])
    first = tried(machines.machine("first", lambda: SMALLER))
    machines.lapse()
    assert first == tried(machines.machine("second")) == SMALLER
    assert machines.ran == ["first"]
    assert denied == ["dynamodb:BatchWriteItem"]


def test_a_result_that_cannot_be_serialised_completes_its_token(machines: Cluster) -> None:
    """A result that JSON cannot say; a redelivery comes after the lease is over."""
    result = object()
    with suppress(NotSerialisable):
        assert tried(machines.machine("first", lambda: result)) is result
    machines.lapse()
    with suppress(NotSerialisable):
        answer = tried(machines.machine("second", lambda: result))
        assert isinstance(answer, ResultUnavailable), answer
    assert machines.ran == ["first"]


def test_a_result_beyond_all_parts_completes_its_token(
    machines: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is as unavailable as one that cannot be written."""
    monkeypatch.setattr(results, "PARTS_LIMIT", 2)
    assert tried(machines.machine("first", lambda: LARGE)) == LARGE
    machines.lapse()
    assert isinstance(tried(machines.machine("second")), ResultUnavailable)
    assert machines.ran == ["first"]


def test_a_lost_part_is_no_reason_to_run_again(machines: Cluster) -> None:
    """Somebody deleted it: the work is done all the same."""
    tried(machines.machine("first", lambda: LARGE))
    row = machines.row()
    key = {"lockToken": {"S": part_key(row.token, row.attempt_id, row.write_id, 3)}}
    machines.client.delete_item(TableName="tokens", Key=key)
    answer = tried(machines.machine("second"))
    assert isinstance(answer, ResultUnavailable)
    assert isinstance(answer, OnceError)
    assert machines.ran == ["first"]


class Failing:
    """Whatever is asked of it, it raises."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class FailingLogger(logging.Logger):
    """A logger that not even knows its level."""

    def getEffectiveLevel(self) -> int:  # noqa: N802  (logging's own)
        raise RuntimeError


class FailingHandler(logging.Handler):
    """A sink that is full."""

    def emit(self, record: logging.LogRecord) -> None:
        raise OSError(28, record.msg)


def _full() -> logging.Logger:
    logger = logging.Logger("full", logging.DEBUG)  # noqa: LOG001  (one that no other logger shares)
    logger.addHandler(FailingHandler())
    return logger


def _raises(*_: object) -> None:
    raise RuntimeError


def observed(**observers: Any) -> Callable[[Cluster], None]:
    """Work that is watched by *observers*; a redelivery comes after the lease is over."""

    def scenario(machines: Cluster) -> None:
        once = Once(service="shop", **observers)
        machines.stack.enter_context(using(once, machines.store, machines.clock))

        @once.event(key="order", name="charge", lease=LEASE)
        def handler(event: dict[str, Any]) -> str:
            machines.ran.append(event["order"])
            return "done"

        def ask() -> object:
            try:
                return handler({"order": "5"}, lambda_context())
            except RuntimeError as error:
                return error

        first = ask()
        machines.lapse()
        assert [first, ask()] == ["done", "done"]
        assert machines.ran == ["5"]

    return scenario


@pytest.mark.parametrize(
    "observers",
    [
        {"hooks": [_raises]},
        {"logger": FailingLogger("failing")},
        {"logger": _full()},
        {"metrics": Failing()},
        {"tracer": Failing()},
        {"hooks": [_raises], "logger": _full(), "metrics": Failing(), "tracer": Failing()},
    ],
    ids=["hook", "logger", "handler", "metrics", "tracer", "all"],
)
def test_an_observer_that_fails_repeats_no_work(machines: Cluster, observers: dict[str, Any]) -> None:
    """What hooks, loggers, metrics and tracers raise reaches no caller and changes no outcome."""
    observed(**observers)(machines)
