"""Kafka and EventBridge Pipes, delivered again by their rules until all is done: each record once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lambda_once.sources import streams
from lambda_once.sources.records import pipe_response
from lambda_once.testing import kafka_event, kinesis_event, pipes_event, sqs_event
from tests.decorators.rig import Rig

Failures = list[tuple[int, int, bool]]
"""Of each record its partition, how often it fails before it succeeds, and whether by a kill."""
Next = Callable[[Any, Any], Any]
"""From a delivery and the answer (None: it raised) to the next delivery; None: all is done."""

whatever = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
records = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=70)


def _done(
    decorate: Any, text_of: Callable[[Any], str], found: Failures, first: Any, following: Next
) -> list[int]:
    """Return the records in the order in which they succeeded, delivered until nothing is left."""
    left = {n: fails for n, (_, fails, _) in enumerate(found)}
    done: list[int] = []

    def work(record: Any) -> None:
        n = int(text_of(record))
        if left[n]:
            left[n] -= 1
            raise SystemExit if found[n][2] else ValueError
        done.append(n)

    rig = Rig()
    handler, pending = decorate(rig, work), first
    for delivery in range(sum(left.values()) + 1):
        try:
            answer = handler(pending, rig.context(f"request-{delivery}", seconds=60))
        except (ValueError, SystemExit):
            answer = None
        pending = following(pending, answer)
        if not pending:
            break
    return done


def _as_mapped(event: Any, answer: Any) -> Any:
    """What a mapping with ReportBatchItemFailures delivers next: each partition from its first failure."""
    if answer is None:
        return event
    failed = {one["partition"]: one["offset"] for one in _named(answer)}
    rest = {
        name: [record for record in of_one if record["offset"] >= failed[name]]
        for name, of_one in event["records"].items()
        if name in failed
    }
    return {**event, "records": rest} if rest else None


def _as_piped(field: str) -> Next:
    """What a pipe delivers next: what is named by *field*, and no more."""

    def following(event: Any, answer: Any) -> Any:
        if answer is None:
            return event
        named = set(_named(answer))
        return [record for record in event if record[field] in named]

    return following


def _named(answer: Any) -> list[Any]:
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]


def _in_order(done: list[int], found: Failures) -> bool:
    """Whether every record is done once, and those of each partition in their order."""
    orders = [[n for n in done if found[n][0] == partition] for partition in range(3)]
    return sorted(done) == [*range(len(found))] and all(order == sorted(order) for order in orders)


def _kafka_text(record: Any) -> str:
    return record.decoded_value.decode()  # type: ignore[no-any-return]


@whatever
@given(records, st.booleans(), st.booleans())
def test_kafka_keeps_each_partition(found: Failures, reports: bool, is_async: bool) -> None:
    """By its failures or as a whole, plain or async: each record succeeds once, in its partition's order."""

    def decorate(rig: Rig, work: Any) -> Any:
        async def awaited(record: Any) -> None:
            await asyncio.to_thread(int)
            work(record)

        return rig.once.kafka(report_failures=reports)(awaited if is_async else work)

    event = kafka_event(*map(str, range(len(found))), partitions=[partition for partition, _, _ in found])
    following: Next = _as_mapped if reports else lambda event, _: event
    assert _in_order(_done(decorate, _kafka_text, found, event, following), found)


def _through_a_pipe(found: Failures) -> bool:
    event = pipes_event(kinesis_event(*map(str, range(len(found)))))
    found = [(0, fails, kill) for _, fails, kill in found]
    done = _done(
        lambda rig, work: rig.once.kinesis(work),
        lambda record: record.kinesis.data_as_text(),
        found,
        event,
        _as_piped("eventID"),
    )
    return _in_order(done, found)


@whatever
@given(records)
def test_a_pipe_of_a_stream_loses_nothing(found: Failures) -> None:
    """A pipe forgets what is not named: each record succeeds once all the same, and in order."""
    assert _through_a_pipe(found)


@pytest.mark.parametrize("size", [3, 60])
def test_twin_that_names_the_first_failure_alone(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a mapping: what was behind it is lost."""
    found: Failures = [(0, int(n == 1), False) for n in range(size)]
    assert _through_a_pipe(found)
    monkeypatch.setattr(streams, "pipe_response", lambda remaining: pipe_response(remaining[:1]))
    assert not _through_a_pipe(found)


@whatever
@given(records, st.booleans())
def test_a_pipe_of_a_queue_loses_nothing(found: Failures, is_fifo: bool) -> None:
    """Each message succeeds once, on a FIFO queue in the order of its group."""
    groups = [str(partition) for partition, _, _ in found]
    done = _done(
        lambda rig, work: rig.once.sqs(work),
        lambda record: str(record.json_body["n"]),
        found,
        pipes_event(
            sqs_event(*[{"n": n} for n in range(len(found))], fifo_groups=groups if is_fifo else None)
        ),
        _as_piped("messageId"),
    )
    assert sorted(done) == [*range(len(found))]
    assert not is_fifo or _in_order(done, found)
