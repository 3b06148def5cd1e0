"""No line, metric, hook or problem document quotes a payload or a result."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

import pytest

from lambda_once import HOLD, RELEASE, STORE
from lambda_once.observability.events import Event
from lambda_once.policies import Policy
from lambda_once.testing import api_event, eventbridge_event
from tests.decorators.rig import Rig, elsewhere
from tests.decorators.sources_table import SOURCES

PAYLOAD, RESULT, RAISED = "payl0ad", "re5ult", "ra1sed"
Work = Callable[..., Any]
Deliveries = Callable[[Work], Iterator[tuple[Work, Any]]]
"""Yields the handler of the work, each time with an event: new work, a duplicate, one that is refused."""


def _body(order: int = 1) -> dict[str, Any]:
    return {"orderId": order, "note": PAYLOAD, "nested": {PAYLOAD: [PAYLOAD]}}


def _of_records(rig: Rig, name: str, options: Any) -> Deliveries:
    row = next(each for each in SOURCES if each.name == name)

    def deliveries(work: Work) -> Iterator[tuple[Work, Any]]:
        handler = getattr(rig.once, row.decorator)(name="work", **options)(work)
        broken = row.build(_body(), _body(2))
        row.spoil(broken, 0)
        for event in (row.build(_body(), _body(2)), row.build(_body()), broken):
            yield handler, event

    return deliveries


def _of_requests(rig: Rig, options: Any) -> Deliveries:
    def deliveries(work: Work) -> Iterator[tuple[Work, Any]]:
        handler: Work = rig.once.api_gateway(name="work", **options)(
            lambda event, _context: {"statusCode": 200, "body": work(event)}
        )
        for body in (_body(), _body(), _body(2)):
            yield handler, api_event(body=body, headers={"Idempotency-Key": "k-1"})

    return deliveries


def _of_events(rig: Rig, options: Any) -> Deliveries:
    def deliveries(work: Work) -> Iterator[tuple[Work, Any]]:
        handler: Work = rig.once.event(key="detail.orderId", name="work", **options)(
            lambda event, _context: work(event)
        )
        for order, note in ((1, PAYLOAD), (1, PAYLOAD), (1, f"{PAYLOAD}2")):
            yield handler, eventbridge_event({**_body(order), "note": note})

    return deliveries


def _ways(rig: Rig, name: str, options: Any) -> Deliveries:
    match name:
        case "api_gateway":
            return _of_requests(rig, options)
        case "event":
            return _of_events(rig, options)
        case _:
            return _of_records(rig, name, options)


def _returns(*_: Any) -> str:
    return RESULT


def _raises(*_: Any) -> str:
    raise ValueError(RAISED)


def _problem(answer: object) -> str:
    """Return *answer* if it is a problem document or a list of failures, which must quote nothing."""
    is_success = not isinstance(answer, dict) or answer.get("statusCode") == HTTPStatus.OK
    return "" if is_success else str(answer)


def _answers(rig: Rig, deliveries: Deliveries, work: Work) -> Iterator[str]:
    for handler, event in deliveries(work):
        try:
            yield _problem(elsewhere(handler, event, rig.context()))
        except Exception as error:  # noqa: BLE001  (what Lambda logs: ours, the work's own, or of a whole batch)
            yield str(error)


@pytest.fixture(name="quoting")
def lines_that_quote(
    caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> Callable[..., list[str]]:
    """Deliver to a source with a policy; return what was written and quotes something that it must not."""

    def quoting(name: str, policy: Policy | None, work: Work) -> list[str]:
        rig = Rig()
        deliveries = _ways(rig, name, {} if policy is None else {"on_error": policy})
        with caplog.at_level(logging.DEBUG):
            answers = [*_answers(rig, deliveries, work)]
        out = capsys.readouterr()
        logged = [str(record.__dict__) for record in caplog.records]
        lines = [*out.out.splitlines(), *out.err.splitlines(), *logged, *map(str, rig.reported)]
        events = {each.event for each in rig.reported}
        assert policy is RELEASE or events & {Event.KEY_REUSED, Event.BAD_RECORD}
        raised = [line for line in lines if RAISED in line and "once.raised" not in line]
        return raised + [line for line in (*answers, *lines) if PAYLOAD in line or RESULT in line]

    return quoting


@pytest.mark.parametrize("policy", [None, RELEASE, STORE, HOLD], ids=str)
@pytest.mark.parametrize("name", [*(row.name for row in SOURCES), "api_gateway", "event"])
def test_nothing_that_is_written_quotes_a_payload_or_a_result(
    quoting: Callable[..., list[str]], name: str, policy: Policy | None
) -> None:
    """Whatever becomes of the work. `once.raised` alone has the function's own exception, its traceback."""
    assert quoting(name, policy, _returns if policy is None else _raises) == []


@pytest.mark.parametrize("text", [PAYLOAD, RESULT, RAISED])
def test_twin_that_writes_what_it_gets(quoting: Callable[..., list[str]], text: str) -> None:
    """A line that has any of them is found."""
    assert quoting("sqs", None, lambda _: print(text)) == [text] * 2  # noqa: T201  (what a function must not do)
