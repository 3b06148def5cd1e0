"""`once.sqs`: records that cannot be processed, models, and work that failed for good."""

from __future__ import annotations

from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from pydantic import BaseModel, Field

from lambda_once import HOLD, STORE
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig
from tests.decorators.test_sqs import ALL_WELL, Declined, failed
from tests.sources.samples import batch, notification, sqs_record


class Order(BaseModel):
    id: int = Field(alias="orderId")
    lines: tuple[str, ...] = ()


@pytest.mark.parametrize(
    "bad",
    [
        sqs_record({"n": 1}, id_="bad"),  # no key
        sqs_record("not json", id_="bad"),
        sqs_record({"id": None}, id_="bad"),
        sqs_record({"id": ""}, id_="bad"),
        sqs_record("[" * 100_000, id_="bad"),
        {**sqs_record({}, id_="bad"), "body": None},
    ],
    ids=["key missing", "no JSON", "null key", "empty key", "too deep", "no body"],
)
def test_a_bad_record_fails_alone(rig: Rig, bad: dict[str, Any]) -> None:
    """One record without a key is returned, with a log line; the others are processed."""
    seen: list[str] = []

    @rig.once.sqs(key="id")
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)

    event = batch(sqs_record({"id": 1}, id_="a"), bad, sqs_record({"id": 2}, id_="c"))
    assert handler(event, rig.context()) == failed("bad")
    assert seen == ["a", "c"]
    (logged,) = [details for details in rig.reported if details.event == "once.bad_record"]
    assert logged.delivery == "bad"
    assert logged.reason


def test_a_record_without_an_id_fails_the_batch(rig: Rig) -> None:
    """A record without messageId has no id to return: the good one runs, and the whole batch is returned."""
    seen: list[str] = []

    @rig.once.sqs
    def handler(record: SQSRecord) -> None:
        seen.append(record.message_id)

    nameless = {name: value for name, value in sqs_record("x").items() if name != "messageId"}
    assert handler(batch(nameless, sqs_record("y", id_="b")), rig.context()) == failed("")
    assert seen == ["b"]
    assert handler(batch(sqs_record("y", id_="b")), rig.context("request-2")) == ALL_WELL
    assert seen == ["b"]


def test_a_key_that_breaks_fails_its_record_alone(rig: Rig) -> None:
    """Whatever a callable key raises fails that record, and no other."""
    seen: list[str] = []

    def key(record: SQSRecord) -> object:
        if record.body == "x":
            raise ZeroDivisionError
        return record.body

    @rig.once.sqs(key=key)
    def handler(record: SQSRecord) -> None:
        seen.append(record.body)

    event = batch(sqs_record("x", id_="a"), sqs_record("y", id_="b"))
    assert handler(event, rig.context()) == failed("a")
    assert seen == ["y"]


@pytest.mark.parametrize(
    ("options", "result", "answer", "state"),
    [
        ({"on_error": {Declined: HOLD}}, Declined(), failed("a"), State.HELD),
        ({"on_error": STORE}, Declined(), ALL_WELL, State.COMPLETE),
        ({}, object(), ALL_WELL, State.COMPLETE),
    ],
    ids=["HOLD", "STORE", "a result that is not JSON"],
)
def test_a_redelivery_is_answered_as_the_first(
    rig: Rig, options: Any, result: Any, answer: Any, state: State
) -> None:
    """HOLD is a failure: the message reaches the dead-letter queue. Everything stored is success."""
    seen: list[str] = []

    @rig.once.sqs(raise_on_entire_batch_failure=False, **options)
    def handler(record: SQSRecord) -> Any:
        seen.append(record.body)
        if isinstance(result, Exception):
            raise result
        return result

    event = batch(sqs_record("x", id_="a"))
    assert handler(event, rig.context()) == answer
    assert handler(event, rig.context("request-2")) == answer
    assert seen == ["x"]
    assert rig.row().state is state
    assert ("once.result_unavailable" in rig.events()) is (not isinstance(result, Exception))


def test_a_model_sees_through_envelopes(rig: Rig) -> None:
    """What SNS put around the order is opened before the model is made."""
    seen: list[int] = []

    @rig.once.sqs(model=Order)
    def handler(order: Order) -> None:
        seen.append(order.id)

    enclosed = notification('{"orderId": 5}')
    resent = notification('{"orderId": 5}', id_="another")
    handler(batch(sqs_record(enclosed, id_="a")), rig.context())
    assert handler(batch(sqs_record(resent, id_="b")), rig.context("request-2")) == ALL_WELL
    assert seen == [5]
