"""Approvals: one execution an order, and one charge, by the SDK's local runner."""

from __future__ import annotations

import json
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import boto3
import pytest
from aws_durable_execution_sdk_python_testing import DurableFunctionTestRunner
from botocore.validate import validate_parameters

from lambda_once.testing import (
    InvocationContext,
    RecordingStore,
    assert_completed,
    sqs_event,
)

from .. import approvals
from ..effects import EFFECTS
from ..gateway import PaymentGateway

CHECKED: dict[str, object] = {"batchItemFailures": []}
PATIENCE = 60


def order(card: str = "tok_visa", order_id: str = "order_5") -> dict[str, object]:
    """The body of a message."""
    return {"orderId": order_id, "card": card, "amount": 4200, "sentAt": "another one each time"}


class Functions:
    """Lambda, as far as it starts durable executions: by name, and with the rules of its API."""

    def __init__(self, runner: DurableFunctionTestRunner) -> None:
        self._client: Any = boto3.client("lambda", region_name="eu-central-1")
        self._runner = runner
        self.exceptions = self._client.exceptions
        self.started: dict[str, tuple[str, str]] = {}
        """The payload and the ARN of each execution, by its name."""
        self.unanswered = 0
        """How many responses are still lost."""

    def invoke(self, **request: Any) -> None:
        """Start an execution, unless there is one of that name."""
        validate_parameters(request, self._client.meta.service_model.operation_model("Invoke").input_shape)
        name, payload = request["DurableExecutionName"], request["Payload"]
        if name in self.started and self.started[name][0] != payload:
            answer = {"Error": {"Code": "DurableExecutionAlreadyStartedException"}}
            raise self.exceptions.DurableExecutionAlreadyStartedException(answer, "Invoke")
        if name not in self.started:
            arn = self._runner.run_async(payload, execution_name=name, execution_timeout=PATIENCE)
            self.started[name] = payload, arn
        if self.unanswered:
            self.unanswered -= 1
            raise ConnectionError("no response")


class Desk:
    """The person who approves, and the executions."""

    def __init__(self, runner: DurableFunctionTestRunner) -> None:
        self._runner = runner
        self.asked: SimpleQueue[str] = SimpleQueue()

    def answer(self, answer: str) -> None:
        """Answer the next question."""
        self._runner.send_callback_success(self.asked.get(timeout=PATIENCE), answer.encode())

    def outcome(self, arn: str) -> tuple[Any, str | None]:
        """Return the result of an execution, or the class of its error."""
        ended = self._runner.wait_for_result(arn, PATIENCE)
        result = None if ended.result is None else json.loads(ended.result)
        return result, None if ended.error is None else ended.error.type

    def start(self, name: str) -> str:
        """Start an execution by hand."""
        payload = {"orderId": "order_5", "card": "tok_visa", "amount": 4200}
        return self._runner.run_async(json.dumps(payload), execution_name=name, execution_timeout=PATIENCE)


@pytest.fixture
def runner() -> Iterator[DurableFunctionTestRunner]:
    """Executions, whose waits are skipped."""
    runner = DurableFunctionTestRunner(approvals.approve, poll_interval=0.01)
    yield runner
    runner.close()  # type: ignore[no-untyped-call]
    runner._scheduler._loop.close()  # which it leaves open


@pytest.fixture
def desk(runner: DurableFunctionTestRunner, monkeypatch: pytest.MonkeyPatch) -> Desk:
    """Questions go to the desk."""
    desk = Desk(runner)
    ask = approvals.ask

    def asked(order_id: str, callback: str) -> None:
        ask(order_id, callback)
        desk.asked.put(callback)

    monkeypatch.setattr(approvals, "ask", asked)
    monkeypatch.setattr(approvals, "GATEWAY", PaymentGateway(slow_seconds=0))
    return desk


@pytest.fixture
def functions(runner: DurableFunctionTestRunner, monkeypatch: pytest.MonkeyPatch) -> Functions:
    """Requests go to the runner."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("APPROVALS_FUNCTION", "approvals:live")
    functions = Functions(runner)
    monkeypatch.setattr(approvals, "function_client", lambda: functions)
    return functions


def test_a_redelivered_order_is_approved_once(
    functions: Functions, desk: Desk, lambda_context: InvocationContext
) -> None:
    """Two deliveries start one execution; it asks once and charges once."""
    for _ in range(2):
        assert approvals.request(sqs_event(order()), lambda_context()) == CHECKED
    ((_, arn),) = functions.started.values()
    desk.answer("yes")
    result, error = desk.outcome(arn)
    assert (result["approved"], error) == (True, None)
    assert (EFFECTS.count("asked", "order_5"), EFFECTS.count("charged", "order_5")) == (1, 1)


def test_a_start_whose_response_was_lost(
    functions: Functions, desk: Desk, lambda_context: InvocationContext
) -> None:
    """The next attempt starts the same execution again, which is none: name and payload are equal."""
    functions.unanswered = 1
    with pytest.raises(Exception, match="all 1 records"):
        approvals.request(sqs_event(order()), lambda_context())
    assert approvals.request(sqs_event(order() | {"sentAt": "later"}), lambda_context()) == CHECKED
    assert len(functions.started) == 1
    desk.answer("no")


def test_a_start_with_another_payload_counts_as_started(
    functions: Functions, desk: Desk, lambda_context: InvocationContext
) -> None:
    """An execution of that name is there: the message is acknowledged."""
    functions.unanswered = 1
    with pytest.raises(Exception, match="all 1 records"):
        approvals.request(sqs_event(order()), lambda_context())
    assert approvals.request(sqs_event(order() | {"amount": 9900}), lambda_context()) == CHECKED
    assert len(functions.started) == 1
    desk.answer("no")


def test_another_execution_of_the_order(desk: Desk, once_store: RecordingStore) -> None:
    """Started by hand, it is refused while the first one waits, and gets its result afterwards."""
    first = desk.start("first")
    callback = desk.asked.get(timeout=PATIENCE)
    _, error = desk.outcome(desk.start("second"))
    assert error == "lambda_once.errors.InProgress"
    desk.asked.put(callback)
    desk.answer("yes")
    result, _ = desk.outcome(first)
    assert desk.outcome(desk.start("third")) == (result, None)
    assert EFFECTS.count("charged", "order_5") == 1
    assert_completed(once_store, "service_undefined/approve/order_5", result=result)


def test_a_charge_in_doubt(functions: Functions, desk: Desk, lambda_context: InvocationContext) -> None:
    """A timeout holds the token of the charge: the step is not retried, and the execution fails."""
    assert approvals.request(sqs_event(order("tok_timeout")), lambda_context()) == CHECKED
    ((_, arn),) = functions.started.values()
    desk.answer("yes")
    _, error = desk.outcome(arn)
    assert error == "aws_durable_execution_sdk_python.exceptions.StepError"
    assert EFFECTS.count("charged", "order_5") == 1
