"""What a durable execution would break is refused when first seen, by a message that names the three ways."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from aws_durable_execution_sdk_python import DurableContext, durable_execution
from aws_lambda_powertools.event_handler import APIGatewayRestResolver

from lambda_once import HOLD, Misconfigured
from lambda_once.core.lifecycle import State
from tests.decorators.rig import Rig, in_memory
from tests.kit.executions import executions
from tests.sources.samples import batch, sqs_record

HANDLERS = ("sqs", "sns", "kinesis", "dynamodb_stream", "event", "api_gateway")
WAYS = ("DurableExecutionName=attempt.downstream_key()", "once.function", "once.execution")

pytestmark = in_memory


def unprotected(given: Any, context: DurableContext) -> Any:
    """The handler that is decorated."""
    raise AssertionError


def names_the_ways(error: str | None) -> bool:
    """Whether a message names the three ways."""
    return error is not None and all(way in error for way in WAYS)


@pytest.mark.parametrize("name", [*HANDLERS, "function"])
def test_a_decorator_around_a_durable_handler(rig: Rig, name: str) -> None:
    """It is refused when decorated, under other decorators as well."""
    handler = durable_execution(unprotected)

    @functools.wraps(handler)
    def logged(event: Any, context: Any) -> Any:
        return handler(event, context)

    for decorated in (handler, logged):
        with pytest.raises(Misconfigured) as refused:
            getattr(rig.once, name)(decorated)
        assert names_the_ways(str(refused.value))
    getattr(rig.once, name)(unprotected)  # the function itself is one like any other


@pytest.mark.parametrize("name", HANDLERS)
@pytest.mark.parametrize(
    "event", [{"DurableExecutionArn": "arn", "CheckpointToken": "t", "InitialExecutionState": {}}]
)
def test_the_invocation_of_a_durable_execution(rig: Rig, name: str, event: Any) -> None:
    """A durable handler that no decorator shows is known by its event."""
    handler = getattr(rig.once, name)(print)
    with pytest.raises(Misconfigured) as refused:
        handler(event, rig.context())
    assert names_the_ways(str(refused.value))
    assert rig.rows() == []


INSIDE: dict[str, Callable[[Any, Any, DurableContext], Any]] = {
    "sqs": lambda once, _, context: once.sqs(print, name="n")(batch(sqs_record({"order": 5})), context),
    "event": lambda once, event, context: once.event(print, name="n")(event, context),
    "invocation": lambda once, _, context: once.invocation(context).__enter__(),
    "function": lambda once, event, context: once.function(_works, key="event.order")(event, context),
    "function by keyword": lambda once, event, context: once.function(_works, key="event.order")(
        event=event, context=context
    ),
    "run": lambda once, event, context: once.run("works", 5, _works, event, context),
    "route": lambda once, _, context: _route(once).resolve(
        {"httpMethod": "POST", "path": "/pay", "headers": {}, "requestContext": {}, "body": "{}"}, context
    ),
}


def _works(event: Any, context: Any) -> None: ...


def _route(once: Any) -> Any:
    app = APIGatewayRestResolver()
    app.post("/pay", middlewares=[once.route()])(dict)
    return app


@pytest.mark.parametrize("way", INSIDE)
def test_a_durable_context(rig: Rig, way: str) -> None:
    """Whatever is given the context of a durable execution is refused, and nothing is acquired."""
    with executions(lambda event, context: INSIDE[way](rig.once, event, context)) as of:
        outcome = of.run("first", {"order": 5})
    assert outcome.error == "lambda_once.errors.Misconfigured"
    assert names_the_ways(outcome.message)
    assert (rig.rows(), rig.store.acquisitions) == ([], 0)


def test_a_context_of_that_name_is_another_ones(rig: Rig) -> None:
    """Only the SDK's own class counts."""

    class DurableContext: ...

    once: Any = rig.once
    assert once.event(print, name="n")({"order": 5}, DurableContext()) is None


@pytest.mark.parametrize(("on_error", "state"), [(None, State.RELEASED), (HOLD, State.HELD)])
def test_protected_work_that_suspends(rig: Rig, on_error: Any, state: State) -> None:
    """Where nothing shows the context beforehand, the first suspension fails the execution."""

    def handler(event: Any, context: DurableContext) -> Any:
        with rig.once.begin(event["order"], name="n", **({"on_error": on_error} if on_error else {})):
            of.suspend(context)

    with executions(handler) as of:
        outcome = of.run("first", {"order": 5})
    assert outcome.error == "lambda_once.errors.Misconfigured"
    assert names_the_ways(outcome.message)
    assert rig.row().state is state


def test_a_function_that_suspends(rig: Rig) -> None:
    """The same for a function that closes over the context."""

    def handler(event: Any, context: DurableContext) -> Any:
        return rig.once.run("book", event["order"], lambda: of.suspend(context))

    with executions(handler) as of:
        assert names_the_ways(of.run("first", {"order": 5}).message)


@pytest.mark.parametrize("given", [None, object()])
def test_execution_needs_a_durable_context(rig: Rig, given: Any) -> None:
    """Elsewhere it is `begin` that protects a block."""
    with pytest.raises(Misconfigured, match=r"takes the DurableContext .* once\.begin"):
        rig.once.execution(given, key=5, name="work", lease=timedelta(hours=1))


def test_execution_needs_a_lease(rig: Rig) -> None:
    """That of `Once` is for invocations."""
    with pytest.raises(TypeError, match="lease"):
        rig.once.execution(None, key=5, name="work")  # type: ignore[call-arg, arg-type]


@pytest.mark.parametrize("option", ["on_in_progress", "cache", "model"])
def test_options_that_execution_does_not_have(rig: Rig, option: str) -> None:
    """It does not wait inside an invocation, and no environment outlives it."""
    with pytest.raises(Misconfigured, match=option):
        rig.once.execution(None, key=5, name="work", lease=timedelta(hours=1), **{option: 1})  # type: ignore[arg-type]
