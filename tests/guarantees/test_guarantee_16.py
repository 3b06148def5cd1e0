"""Guarantee 16: all that a source says about which work this is, counts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import GiveUp, MemoryStore, Once
from lambda_once.core import identity
from lambda_once.core.identity import ATTRIBUTES, NOTHING, ORIGIN, Standing, standing
from lambda_once.core.unit import Unit
from lambda_once.decorators import identify
from lambda_once.testing import eventbridge_event, lambda_context, sns_event, sqs_event

Json = dict[str, Any]
ORDER = {"orderId": 5}


def _typed(kind: str) -> Json:
    event = sqs_event(ORDER)
    event["Records"][0]["messageAttributes"] = {"type": {"dataType": "String", "stringValue": kind}}
    return event


def _from_topic(topic: str) -> Json:
    event = sns_event(ORDER)
    event["Records"][0]["Sns"]["TopicArn"] = f"arn:aws:sns:eu-central-1:123456789012:{topic}"
    return event


def _appsync(user: str) -> Json:
    info = {"fieldName": "pay", "parentTypeName": "Mutation"}
    return {"arguments": ORDER, "identity": {"sub": user, "issuer": "i"}, "info": info}


PAIRS: dict[str, tuple[str, Callable[[str], Json], str | None]] = {
    "queue": ("sqs", lambda name: sqs_event(ORDER, queue=name), ORIGIN),
    "topic": ("sns", _from_topic, ORIGIN),
    "type": ("sqs", _typed, ATTRIBUTES),
    "detail-type": ("event", lambda name: eventbridge_event(ORDER, name), None),
    "caller": ("event", _appsync, None),
}
"""What tells two events of one payload apart: their decorator, the event by it, and the compared part."""
KEYS = {"sqs": "orderId", "sns": "orderId", "event": lambda event: event.get("detail", ORDER)["orderId"]}


class Work:
    """A handler, and how often it ran."""

    def __init__(self, decorator: str, *, keyed: bool) -> None:
        once = Once(store=MemoryStore(), service="shop")
        self.ran = 0
        options: Json = {"key": KEYS[decorator]} if keyed else {}

        def handler(_: Any) -> None:
            self.ran += 1

        self.handler = getattr(once, decorator)(name="pay", **options)(handler)

    def lost(self, event: Json, after: int) -> bool:
        """Whether *event* was taken for done: it didn't run, and nobody was told."""
        try:
            answer = self.handler(copy.deepcopy(event), lambda_context())
        except GiveUp:
            return False
        except Exception:  # noqa: BLE001  (a batch of which all failed)
            return False
        is_returned = isinstance(answer, dict) and bool(answer.get("batchItemFailures"))
        return self.ran == after and not is_returned


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("of", PAIRS)
def test_what_a_source_says_counts(of: str, *, keyed: bool) -> None:
    """The second event runs, or is refused aloud; the first one again is a duplicate."""
    decorator, event, _ = PAIRS[of]
    keyed = keyed or of == "caller"  # AppSync's events need key=
    work = Work(decorator, keyed=keyed)
    assert not work.lost(event("first"), after=0)
    assert not work.lost(event("second"), after=1)
    before = work.ran
    assert work.lost(event("first"), after=before)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("of", [name for name, row in PAIRS.items() if row[2] is not None])
def test_twin_that_leaves_it_out(monkeypatch: pytest.MonkeyPatch, of: str, *, keyed: bool) -> None:
    """Without the part the second event is lost."""
    decorator, event, part = PAIRS[of]

    def careless(name: str, *known: Any) -> Standing:
        return Standing.LEFT_OUT if name == part else standing(name, *known)

    monkeypatch.setattr(identity, "standing", careless)
    work = Work(decorator, keyed=keyed)
    assert not work.lost(event("first"), after=0)
    assert work.lost(event("second"), after=1)


@pytest.mark.parametrize("of", ["detail-type", "caller"])
def test_twin_without_the_scope(monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    """Who asks, and for what, is in the scope that the source adds: without it the second one is lost."""
    decorator, event, _ = PAIRS[of]
    found = identify.Identifier.identify

    def careless(self: Any, unit: Unit, *known: Any) -> Any:
        content = unit.what.content._replace(counted=lambda _: ORDER)
        what = unit.what._replace(who=NOTHING, operation=NOTHING, content=content)
        return found(self, unit._replace(what=what), *known)

    monkeypatch.setattr(identify.Identifier, "identify", careless)
    work = Work(decorator, keyed=True)
    assert not work.lost(event("first"), after=0)
    assert work.lost(event("second"), after=1)
