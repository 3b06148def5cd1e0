"""Which callables of ``key=``, ``scope=`` and ``caller=`` get Lambda's context beside the event or record."""

# ruff: noqa: ARG002, ARG005, D103  (signatures are what is tested here)

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver

from lambda_once import Misconfigured
from lambda_once.testing import lambda_context, sqs_event
from tests.decorators.rig import Rig, in_memory
from tests.decorators.sources_table import SOURCES, Row
from tests.sources.samples import http

pytestmark = in_memory

CONTEXT = lambda_context(client_context={"run": "7"})


def run_of(context: Any) -> str:
    return str(context.client_context.custom["run"])


def of_context(_event: Any, context: Any) -> str:
    """A selector of two."""
    return run_of(context)


def handle(found: Any) -> None: ...


def answer(event: Any) -> dict[str, int]:
    return {"statusCode": 200}


class Selector:
    def __call__(self, event: Any, context: Any) -> str:
        return run_of(context)

    def select(self, event: Any, context: Any, *, prefix: str = "") -> str:
        return prefix + run_of(context)


TAKES_IT: list[Callable[..., Any]] = [
    of_context,
    lambda event, context, /: run_of(context),
    lambda event, anything: run_of(anything),
    lambda event, context, more="": run_of(context),
    lambda event, context, *more, **others: run_of(context),
    Selector(),
    Selector().select,
    partial(lambda prefix, event, context: run_of(context), ""),
]
TAKES_IT_NOT: list[Callable[..., Any]] = [
    lambda event: "7",
    lambda event, context="7": context,
    lambda *events: str(7 * len(events)),
    lambda event, *more: str(7 + len(more)),
    lambda event, *, context="7": context,
    partial(lambda event, context: context, context="7"),
    operator.itemgetter("run"),
]


@pytest.mark.parametrize("selector", [*TAKES_IT, *TAKES_IT_NOT])
def test_a_second_required_parameter_gets_the_context(rig: Rig, selector: Callable[..., Any]) -> None:
    """A key and a scope: no other parameter does, and whatever has one alone keeps working."""
    handler = rig.once.event(name="job", key=selector, scope=selector)(handle)
    handler({"run": "7"}, CONTEXT)
    assert rig.row().token == "shop/job/7/7"


@pytest.mark.parametrize("row", SOURCES, ids=lambda row: row.name)
def test_each_record_of_a_batch_comes_with_the_context(rig: Rig, row: Row) -> None:
    """The record as the function gets it, or its model."""
    ran: list[Any] = []
    seen: list[Any] = []

    def key(record: Any, context: Any) -> Any:
        seen.append(record)
        return run_of(context), len(seen)

    for options in ({"name": "record"}, {"name": "model", "model": row.model}):
        ran.clear()
        seen.clear()
        handler = getattr(rig.once, row.decorator)(key=key, **options)(ran.append)
        handler(row.build({"orderId": 1}, {"orderId": 2}), CONTEXT)
        assert seen == ran
        assert len(seen) == 2


@pytest.mark.parametrize("selected", ["key", "scope", "caller"])
def test_a_request_comes_with_the_context(rig: Rig, selected: str) -> None:
    """Of a handler, and of a route, whose context is that of ``app.resolve``."""
    seen: list[Any] = []

    def select(event: Any, context: Any) -> str:
        seen.append((event["requestContext"]["http"]["path"], run_of(context)))
        return "7"

    options: Any = {"key": "orderId", selected: select}
    rig.once.api_gateway(name="a", **options)(answer)(http(), CONTEXT)
    app = APIGatewayHttpResolver()

    @app.post("/orders/5/pay", middlewares=[rig.once.route(name="b", **options)])
    def pay() -> dict[str, int]:
        return {"order": 5}

    assert app.resolve(http(), CONTEXT)["statusCode"] == 200
    assert seen == [("/orders/5/pay", "7")] * 2


def test_the_caller_of_an_event_comes_with_the_context(rig: Rig) -> None:
    """``caller=`` of `once.event`, too."""
    handler = rig.once.event(name="job", key="id", caller=of_context)(handle)
    handler({"id": 5}, CONTEXT)
    handler({"id": 5}, lambda_context(client_context={"run": "8"}))
    assert len(rig.rows()) == 2


def test_the_context_is_none_where_there_is_none(rig: Rig) -> None:
    """As the handler has it: what a test calls without a context."""
    handler: Any = rig.once.event(name="job", key=lambda event, context: str(context))(handle)
    handler({"id": 5})
    assert rig.row().token == "shop/job/None"


def test_a_function_passes_no_context(rig: Rig) -> None:
    """A second parameter names an argument under `once.function`, also inside of an invocation."""
    with rig.once.invocation(CONTEXT):
        work = rig.once.function(name="charge", key=lambda order, cents: (order, cents))
        work(lambda order, cents: 1)(5, 6)
        with pytest.raises(Misconfigured, match="must accept the arguments"):
            rig.once.function(key=lambda order, context: order)(lambda order: 1)
    assert len(rig.rows()) == 1


@pytest.mark.parametrize("option", ["key", "scope", "caller"])
@pytest.mark.parametrize(
    "selector",
    [
        lambda: "7",
        lambda event, context, more: "7",
        lambda event, *, context: "7",
        lambda event, context, *, more: "7",
        lambda **events: "7",
    ],
)
def test_what_neither_fits_is_refused(rig: Rig, option: str, selector: Callable[..., Any]) -> None:
    """When it is decorated."""
    options: Any = {option: selector}
    with pytest.raises(Misconfigured, match=f"{option}=.* must accept the event, or the event and Lambda's"):
        rig.once.event(**options)(handle)


def test_arity_is_decided_once(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it is decorated: no record pays for an inspection."""
    handler = rig.once.sqs(name="job", key=lambda record, context: record.message_id)(handle)
    monkeypatch.setattr("inspect.signature", None)
    handler(sqs_event("a", "b"), CONTEXT)
    assert len(rig.rows()) == 2
