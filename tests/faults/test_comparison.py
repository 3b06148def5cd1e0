"""Rows of docs/compared.md that are no faults: what Powertools' utilities do, and what we do instead."""

from __future__ import annotations

from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    process_partial_response,
)

from lambda_once import HOLD, Held, KeyMissing
from lambda_once.testing import kinesis_event, lambda_context
from tests.faults.tables import Layers
from tests.sources.samples import batch, fifo_record

ALIVE = lambda_context()
EVENT = {"id": 1}


class Failing:
    """A record handler that notes the bodies that it got, and fails at ``bad``."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def __call__(self, body: str) -> None:
        self.seen.append(body)
        if body == "bad":
            raise ValueError(body)


def test_a_stream_stops_at_the_first_failure(layers: Layers) -> None:
    """The batch utility also runs the records behind it."""
    event = kinesis_event("first", "bad", "behind")
    theirs, ours = Failing(), Failing()
    processor = BatchProcessor(EventType.KinesisDataStreams)
    process_partial_response(event, lambda record: theirs(record.kinesis.data_as_text()), processor, ALIVE)
    layers.once().kinesis(name="stream", report_failures=True)(
        lambda record: ours(record.kinesis.data_as_text())
    )(event, ALIVE)
    assert theirs.seen == ["first", "bad", "behind"]
    assert ours.seen == ["first", "bad"]


@pytest.mark.parametrize(
    ("skip_group_on_error", "expected"), [(False, ["bad"]), (True, ["bad", "other"])], ids=["batch", "group"]
)
def test_a_failure_stops_its_group_only(
    layers: Layers, skip_group_on_error: bool, expected: list[str]
) -> None:
    """Powertools' FIFO processor stops the batch, unless it is told to skip the group."""
    event = batch(
        *(
            fifo_record(body, group=group, deduplication=body, id_=body)
            for body, group in (("bad", "a"), ("behind", "a"), ("other", "b"))
        )
    )
    theirs, ours = Failing(), Failing()
    processor = SqsFifoPartialProcessor(skip_group_on_error=skip_group_on_error)
    processor.raise_on_entire_batch_failure = False
    process_partial_response(event, lambda record: theirs(record.body), processor, ALIVE)
    layers.once().sqs(name="group")(lambda record: ours(record.body))(event, ALIVE)
    assert theirs.seen == expected
    assert ours.seen == ["bad", "other"]


def test_an_exception_is_released_or_held(layers: Layers) -> None:
    """Powertools deletes its record, and the next delivery runs; under HOLD ours does not run."""
    runs = {"theirs": 0, "released": 0, "held": 0}

    def failing(side: str) -> Any:
        def work(event: Any, context: Any) -> None:
            runs[side] += 1
            raise ValueError(side)

        return work

    once = layers.once()
    sides: list[Any] = [
        layers.theirs(failing("theirs")),
        once.event(name="released")(failing("released")),
        once.event(name="held", on_error=HOLD)(failing("held")),
    ]
    for errors in ([ValueError] * 3, [ValueError, ValueError, Held]):
        for side, error in zip(sides, errors, strict=True):
            with pytest.raises(error):
                side(EVENT, ALIVE)
    assert runs == {"theirs": 2, "released": 2, "held": 1}


def test_a_payload_without_a_key_does_not_run(layers: Layers) -> None:
    """Powertools warns, and runs it each time."""
    runs: list[str] = []
    theirs = layers.theirs(lambda _event, _context: runs.append("theirs"), event_key_jmespath="order")
    ours: Any = layers.once().event(key="order", name="ours")(lambda _event: runs.append("ours"))
    for _ in range(2):
        with pytest.warns(UserWarning, match="No idempotency key"):
            theirs(EVENT, ALIVE)
        with pytest.raises(KeyMissing):
            ours(EVENT, ALIVE)
    assert runs == ["theirs", "theirs"]
