"""A batch of messages by itself: each alone, and a FIFO group in its order."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from lambda_once.errors import Misconfigured
from lambda_once.patterns.fifo.in_order import Record, work_in_order
from lambda_once.testing import sns_event, sqs_event


class OutOfOrderError(Exception):
    """What the work raises; its words repeat what it was given."""


def worked(
    groups: str | None, *, bad: set[int], count: int = 6
) -> tuple[list[int], list[int] | OutOfOrderError]:
    """
    Return the numbers of the records that were worked, and of those returned or what was raised.

    *groups* has a letter for each record; None is a standard queue.
    """
    event = sqs_event(
        *({"number": n} for n in range(count)), fifo_groups=None if groups is None else [*groups]
    )
    numbers = {record["messageId"]: n for n, record in enumerate(event["Records"])}
    done: list[int] = []

    def work(record: Record) -> None:
        number = json.loads(record["body"])["number"]
        if number in bad:
            raise OutOfOrderError(f"the secret of {number}")
        done.append(number)

    try:
        answer = work_in_order(event, work)
    except OutOfOrderError as error:
        return done, error
    assert list(answer) == ["batchItemFailures"]
    return done, [numbers[each["itemIdentifier"]] for each in answer["batchItemFailures"]]


def test_what_is_worked_is_acknowledged() -> None:
    """Nothing is returned where nothing failed, of any queue."""
    assert worked("aabbaa", bad=set()) == ([0, 1, 2, 3, 4, 5], [])
    assert worked(None, bad=set()) == ([0, 1, 2, 3, 4, 5], [])


def test_a_failure_returns_the_rest_of_its_group() -> None:
    """Unworked, for nothing may overtake it; the other groups go on."""
    assert worked("aabbab", bad={1}) == ([0, 2, 3, 5], [1, 4])


def test_each_group_fails_by_itself() -> None:
    """Two groups with a failure each return their own rest."""
    assert worked("abcabc", bad={0, 4}) == ([1, 2, 5], [0, 3, 4])


def test_on_a_standard_queue_each_fails_alone() -> None:
    """There is no order to keep."""
    assert worked(None, bad={1}) == ([0, 2, 3, 4, 5], [1])


def test_groups_of_a_standard_queue_are_in_no_order() -> None:
    """They are there for fairness between tenants: the ARN tells the kind of queue, not the group."""
    event = sqs_event({"number": 0}, {"number": 1}, fifo_groups="a")
    for record in event["Records"]:
        record["eventSourceARN"] = record["eventSourceARN"].removesuffix(".fifo")
    done: list[str] = []

    def work(record: Record) -> None:
        if not done:
            done.append("failed")
            raise OutOfOrderError
        done.append(record["messageId"])

    assert len(work_in_order(event, work)["batchItemFailures"]) == 1
    assert len(done) == 2


@pytest.mark.parametrize("groups", ["aaaaaa", None])
def test_where_nothing_succeeds_the_first_error_is_raised(groups: str | None) -> None:
    """The function's errors ring, and a mapping that knows no partial responses deletes nothing."""
    done, raised = worked(groups, bad={0} if groups else {*range(6)})
    assert done == []
    assert isinstance(raised, OutOfOrderError)
    assert str(raised) == "the secret of 0"


def test_an_empty_batch_is_nothing() -> None:
    """No record, no failure."""
    assert work_in_order({"Records": []}, print) == {"batchItemFailures": []}


def test_a_failure_is_logged_without_what_it_says(caplog: pytest.LogCaptureFixture) -> None:
    """By message and type of the error: its words may repeat the payload. Lambda prints the text alone."""
    with caplog.at_level(logging.INFO):
        worked("ab", bad={1}, count=2)
    (line,) = caplog.records
    fields = line.__dict__
    assert line.message == f"message.failed {fields['delivery']} OutOfOrderError"
    assert fields["error"] == "OutOfOrderError"
    assert "secret" not in caplog.text


@pytest.mark.parametrize("event", [{}, {"Records": None}, sns_event({"a": 1}), [], None])
def test_an_event_of_another_source_works_nothing(event: Any) -> None:
    """It is refused before anything is worked."""
    with pytest.raises(Misconfigured, match="not of SQS"):
        work_in_order(event, lambda _: pytest.fail("worked"))
