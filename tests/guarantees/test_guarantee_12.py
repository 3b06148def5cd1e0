"""Guarantee 12: two functions never share a token by an accident that one process can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import MemoryStore, Misconfigured, Once, _once
from lambda_once.decorators import validation
from lambda_once.decorators.names import Receivers
from lambda_once.observability.events import Event
from lambda_once.testing import lambda_context, sqs_event


class Gateway:
    """One of several that send something."""

    def __init__(self, kind: str, done: list[str]) -> None:
        self.kind = kind
        self.done = done

    def send(self, order: str) -> str:
        self.done.append(f"{self.kind} {order}")
        return self.kind


def _two_effects() -> list[str]:
    """Return what a handler of two effects of one name has done when its message is gone."""
    once, done = Once(store=MemoryStore(), service="shop"), list[str]()
    mail, text = Gateway("mail", done), Gateway("text", done)

    @once.sqs(key="orderId", raise_on_entire_batch_failure=False)
    def notify(record: Any) -> None:
        for each in (mail, text):
            once.run("send", record.json_body["orderId"], each.send, record.json_body["orderId"])

    gone = notify(sqs_event({"orderId": "o-1"}), lambda_context()) == {"batchItemFailures": []}
    return done if gone else ["the message is still there"]


def test_effects_of_one_name_are_refused() -> None:
    """Before anything is done: the message fails, until the effects have names."""
    assert _two_effects() == ["the message is still there"]


def test_twin_without_the_check_the_second_effect_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is deleted, and the text was never sent."""
    monkeypatch.setattr(_once, "check_own_name", lambda _: None)
    assert _two_effects() == ["mail o-1"]


def _two_subscribers() -> list[str]:
    """Return what two handlers that one factory made have done for one message."""
    once, done = Once(store=MemoryStore(), service="shop"), list[str]()

    def subscriber(target: str) -> Callable[..., Any]:
        @once.sqs(key="orderId")
        def deliver(record: Any) -> None:
            done.append(target)

        return deliver

    mail, erp = subscriber("mail"), subscriber("erp")
    for each in (mail, erp):
        assert each(sqs_event({"orderId": "o-1"}), lambda_context()) == {"batchItemFailures": []}
    return done


def test_functions_of_a_factory_are_refused() -> None:
    """When they are decorated: no message is delivered to either."""
    with pytest.raises(Misconfigured, match="Pass name="):
        _two_subscribers()


def test_twin_without_the_check_the_second_function_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """And says that it succeeded."""
    monkeypatch.setattr(validation, "check_not_by_value", lambda _: None)
    assert _two_subscribers() == ["mail"]


def _two_classes(caplog: pytest.LogCaptureFixture) -> bool:
    """Return whether a method that lost the effect of a second class logged it."""
    once = Once(store=MemoryStore(), service="shop")

    class Base:
        @once.function(key="order")
        def notify(self, order: str) -> str:
            return f"{type(self).__name__} {order}"

    class Mail(Base): ...

    class Text(Base): ...

    assert [Mail().notify("o-1"), Text().notify("o-1")] == ["Mail o-1", "Mail o-1"]
    return Event.SHARED_NAME in caplog.messages


def test_objects_of_two_classes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    """They share a name, perhaps on purpose: it is an ERROR, and no error."""
    assert _two_classes(caplog)


def test_twin_that_does_not_look_at_the_object(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing shows the lost effect."""
    monkeypatch.setattr(Receivers, "called_on", lambda *_: None)
    assert not _two_classes(caplog)
