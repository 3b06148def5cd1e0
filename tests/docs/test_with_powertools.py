"""The orders of decorators in docs/with-powertools.md: each is run, with a duplicate."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools import Logger, Metrics, Tracer
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from aws_lambda_powertools.utilities.parser import event_parser
from aws_lambda_powertools.utilities.parser.envelopes import EventBridgeEnvelope
from aws_lambda_powertools.utilities.parser.models import SqsModel
from pydantic import BaseModel

from lambda_once import MemoryStore, Misconfigured, Once
from lambda_once.testing import api_event, eventbridge_event, lambda_context, sqs_event
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "with-powertools.md").read_text(encoding="utf-8")
_ROW = re.compile(
    r"^\| (?:`?([\w ]+?)`? )?\| `once\.(\w+)` \| (?:`?([\w ]+?)`? )?\| (yes|with|no)\b", re.MULTILINE
)
ROWS = _ROW.findall(PAGE)
Decorator = Callable[[Any], Any]


class Order(BaseModel):
    orderId: str  # noqa: N815  (as in the message)


@pytest.fixture
def powertools(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Decorator]]:
    """Return the decorators by the names of the table, the outermost first."""
    monkeypatch.setenv("POWERTOOLS_TRACE_DISABLED", "true")
    logger, tracer = Logger(service="stacked"), Tracer(service="stacked", disabled=True)
    metrics = Metrics(namespace="Shop", service="shop")
    found: dict[str, Decorator] = {
        "inject_lambda_context": logger.inject_lambda_context,
        "capture_lambda_handler": tracer.capture_lambda_handler,
        "log_metrics": metrics.log_metrics,
    }
    return {
        "": [],
        "all three": [*found.values()],
        "capture_method": [tracer.capture_method],
        **{name: [each] for name, each in found.items()},
    }


def stacked(function: Any, decorators: list[Decorator]) -> Any:
    """Return *function* under *decorators*, the outermost first."""
    for each in reversed(decorators):
        function = each(function)
    return function


EVENTS: dict[str, Any] = {
    "sqs": sqs_event({"orderId": "o-1"}),
    "event": {"orderId": "o-1"},
    "api_gateway": api_event("POST", "/orders", {"orderId": "o-1"}, {"Idempotency-Key": "k"}),
}


def delivered_twice(
    powertools: dict[str, list[Decorator]], above: str, source: str, below: str, *, context: bool
) -> int:
    """Return how often the work ran, for a delivery and its duplicate."""
    powertools = powertools | {
        "event_parser": [event_parser(model=SqsModel if above and source == "sqs" else Order)]
    }
    once, ran = Once(store=MemoryStore(), service="shop"), []

    def work(*_: Any) -> dict[str, int]:
        ran.append(1)
        return {"statusCode": 200}

    def with_context(subject: Any, context: Any) -> dict[str, int]:
        return work(subject, context)

    def alone(subject: Any) -> dict[str, int]:
        return work(subject)

    key = {} if source == "api_gateway" else {"key": "subject" if source == "function" else "orderId"}
    inner = stacked(with_context if context else alone, powertools[below])
    outer: Any = stacked(getattr(once, source)(**key)(inner), powertools[above])
    for _ in range(2):
        if source == "function":
            outer("o-1")
        else:
            outer(EVENTS[source], lambda_context())
    return len(ran)


@pytest.mark.filterwarnings("ignore:No application metrics to publish")
@pytest.mark.parametrize(("above", "source", "below", "works"), ROWS)
def test_an_order_does_what_the_page_says(
    powertools: dict[str, list[Decorator]], above: str, source: str, below: str, works: str
) -> None:
    """It runs once; or only with a second parameter; or nothing runs, and the error names the way out."""
    handler = source in {"event", "api_gateway"}
    if works == "yes":
        assert delivered_twice(powertools, above, source, below, context=handler) == 1
        return
    if works == "with":
        assert delivered_twice(powertools, above, source, below, context=True) == 1
    with pytest.raises((BatchProcessingError, Misconfigured)) as refused:
        delivered_twice(powertools, above, source, below, context=False)
    if above:
        assert "Remove event_parser: decorators of records take model=" in str(refused.value)


def test_the_page_has_sixteen_orders() -> None:
    """None is lost because a row is written in another way."""
    assert len(ROWS) == len({*ROWS}) == 16


def test_an_envelope_above_drops_the_operation() -> None:
    """Two detail-types with one key are one work then; below the decorator they are two."""
    ran: list[str] = []
    placed, paid = (eventbridge_event({"orderId": "o-1"}, each) for each in ("Placed", "Paid"))
    once = Once(store=MemoryStore(), service="shop")
    parse = event_parser(model=Order, envelope=EventBridgeEnvelope)

    def work(_: Any) -> None:
        ran.append("ran")

    above: Any = parse(once.event(name="above", key="orderId")(work))
    below: Any = once.event(name="below", key="detail.orderId")(work)
    for handler, works in ((above, 1), (below, 2)):
        ran.clear()
        for event in (placed, paid):
            handler(event, lambda_context())
        assert len(ran) == works
