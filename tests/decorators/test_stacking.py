"""The decorators among Powertools' own, and how they look from outside."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.parser import event_parser
from pydantic import BaseModel

from tests.decorators.rig import Rig, in_memory
from tests.sources.samples import batch, eventbridge, http, rest, sns_event, sqs_record

pytestmark = in_memory


class Order(BaseModel):
    id: int


def of(subject: Any, context: Any) -> Any:
    """Docs of the function."""
    return {"statusCode": 200, "body": "{}"}


CASES: list[tuple[str, dict[str, Any]]] = [
    ("sqs", batch(sqs_record("x"))),
    ("sns", sns_event("x")),
    ("event", eventbridge({"order": 5})),
    ("api_gateway", http()),
    ("api_gateway", rest()),
]


@pytest.mark.parametrize(("face", "event"), CASES)
@pytest.mark.parametrize("options", [None, {"name": "shared"}], ids=["bare", "with options"])
def test_a_handler_keeps_name_and_docs(rig: Rig, face: str, event: Any, options: Any) -> None:
    """Names, docs and __wrapped__ are the function's, the signature is that of a Lambda handler."""
    decorator = getattr(rig.once, face)
    handler = decorator(of) if options is None else decorator(**options)(of)
    assert (handler.__name__, handler.__doc__, handler.__wrapped__) == ("of", "Docs of the function.", of)
    assert list(inspect.signature(handler).parameters) == ["event", "context"]
    assert inspect.isfunction(handler)
    assert handler(event, rig.context()) == handler(event=event, context=rig.context("request-2")) or (
        face == "api_gateway"
    )


@pytest.mark.parametrize(("face", "event"), CASES)
@pytest.mark.filterwarnings("ignore:No application metrics to publish")  # a replay has none
@pytest.mark.parametrize("outside", [True, False], ids=["Powertools outside", "Powertools inside"])
def test_stacked_with_powertools(
    rig: Rig, face: str, event: Any, outside: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Logger, Tracer and Metrics may stand outside or inside; the work still takes effect once."""
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    logger, tracer = Logger(service="stacked"), Tracer(service="stacked", disabled=True)
    metrics = Metrics(namespace="Stacked", service="stacked")
    runs: list[Any] = []

    def work(subject: Any, context: Any) -> Any:
        runs.append(subject)
        metrics.add_metric("runs", unit="Count", value=1)
        logger.info("worked")
        return {"statusCode": 200}

    def powertools(handler: Any) -> Any:
        traced = tracer.capture_lambda_handler(handler)
        counted = metrics.log_metrics(traced, raise_on_empty_metrics=False)
        return logger.inject_lambda_context(counted)

    once = getattr(rig.once, face)
    handler = powertools(once(work)) if outside else once(powertools(work))
    handler(event, rig.context())
    handler(event, rig.context("request-2"))
    assert len(runs) == 1
    assert '"runs":[1.0]' in capsys.readouterr().out.replace(" ", "")


def test_event_parser_inside(rig: Rig) -> None:
    """event_parser may stand between the decorator and the function."""
    seen: list[Order] = []

    @rig.once.event
    @event_parser(model=Order)
    def handler(order: Order, context: Any) -> int:
        seen.append(order)
        return order.id

    assert handler({"id": 5}, rig.context()) == handler({"id": 5}, rig.context("request-2")) == 5
    assert seen == [Order(id=5)]


def test_event_parser_outside(rig: Rig) -> None:
    """event_parser may stand around it, with key=: the model is the event then, and counts by its fields."""
    seen: list[Order] = []

    @event_parser(model=Order)
    @rig.once.event(key="id")
    def handler(order: Order, context: Any) -> int:
        seen.append(order)
        return order.id

    plain: Any = handler
    assert plain({"id": 5}, rig.context()) == plain({"id": 5}, rig.context("request-2")) == 5
    assert plain({"id": 6}, rig.context("request-3")) == 6
    assert len(seen) == 2


def test_the_users_objects_are_used(rig: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    """Log lines and metrics go through the user's Powertools objects, in the user's namespace."""
    logger = Logger(service="mine")
    metrics = Metrics(namespace="Mine", service="mine")
    once = rig.new(logger=logger, metrics=metrics)

    @once.sqs
    def handler(record: SQSRecord) -> None: ...

    handler(batch(sqs_record("x")), rig.context())
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    documents = [line for line in lines if "_aws" in line]
    assert {line["_aws"]["CloudWatchMetrics"][0]["Namespace"] for line in documents} == {"Mine"}
    assert {line["service"] for line in lines if line.get("message") == "once.returned"} == {"mine"}
