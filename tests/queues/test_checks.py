"""The outcome of a run on real queues: each broken promise has a sentence of its own."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lambda_once.core.lifecycle import Record, State
from lambda_once.testing import FakeClock
from tests.queues.checks import Evidence, Lane, Sent, check

NOW = FakeClock().now()


def sent(lane: Lane, id_: str, group: str | None = None, **body: Any) -> Sent:
    """Return a message whose subject is its id."""
    return Sent(lane, id_, json.dumps({lane.subject: id_, "items": ["lamp"], **body}), group)


def effect(subject: str, kind: str = "charged", pid: int = 1) -> dict[str, Any]:
    """Return what a process noted."""
    return {"effect": kind, "subject": subject, "pid": pid}


def row(state: State) -> Record:
    """Return a token in *state*."""
    return Record("t", state, "a", 1, "f/r", NOW, NOW)


PAID = Evidence([sent(Lane.PAYMENTS, "p")], {"p"}, set(), [effect("p")], {}, {7})
SHIPPED = Evidence(
    [sent(Lane.DELIVERIES, "a", "g"), sent(Lane.DELIVERIES, "b", "g")],
    {"a", "b"},
    set(),
    [effect("a", "shipped"), effect("b", "shipped")],
    {},
    {7},
)


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(PAID, id="charged once"),
        pytest.param(SHIPPED, id="shipped in order"),
        pytest.param(
            replace(SHIPPED, effects=[effect("a", "shipped", 7), *SHIPPED.effects]), id="again after a kill"
        ),
        pytest.param(
            replace(PAID, acknowledged=set(), dead={"p"}, rows={"p": row(State.HELD)}), id="held for review"
        ),
        pytest.param(
            replace(PAID, sent=[sent(Lane.PAYMENTS, "p", card="tok_declined")], effects=[]), id="declined"
        ),
        pytest.param(
            replace(
                SHIPPED, acknowledged=set(), dead={"a", "b"}, effects=[], rows={"a": row(State.IN_PROGRESS)}
            ),
            id="dead behind a poison message",
        ),
        pytest.param(
            replace(PAID, acknowledged=set(), dead={"p"}, rows={"p": row(State.COMPLETE)}, died={"p": 3}),
            id="dead because invocations died over it",
        ),
    ],
)
def test_what_the_policies_promise_is_no_violation(evidence: Evidence) -> None:
    """Effects once, in order, again only after a kill; dead letters with a reason."""
    assert check(evidence) == []


@pytest.mark.parametrize(
    ("evidence", "sentence"),
    [
        (replace(PAID, acknowledged=set()), "lost: p is neither acknowledged nor a dead letter"),
        (replace(PAID, effects=[]), "lost: p was acknowledged and never charged"),
        (replace(PAID, effects=[effect("p", pid=7), effect("p")]), "twice: p was charged again"),
        (
            replace(SHIPPED, effects=[*SHIPPED.effects, effect("a", "shipped")]),
            "twice: a was shipped again",
        ),
        (
            replace(SHIPPED, effects=SHIPPED.effects[::-1]),
            "out of order: b of group g shipped before a",
        ),
        (
            replace(PAID, acknowledged=set(), dead={"p"}, rows={"p": row(State.COMPLETE)}),
            "dead without a reason: p of payments",
        ),
        (
            replace(PAID, acknowledged=set(), dead={"p"}, rows={"p": row(State.COMPLETE)}, died={"p": 2}),
            "dead without a reason: p of payments",
        ),
        (
            replace(PAID, sent=[sent(Lane.PAYMENTS, "p", card="tok_declined")]),
            "charged: p was declined",
        ),
    ],
)
def test_a_broken_promise_is_a_violation(evidence: Evidence, sentence: str) -> None:
    """What is lost, doubled, out of order or dead without a reason is named."""
    assert check(evidence) == [sentence]
