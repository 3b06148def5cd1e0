"""Guarantee 12: two functions never share a token by an accident that one process can see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lambda_once import MemoryStore, Misconfigured, Once
from lambda_once.decorators import names
from lambda_once.decorators.names import Names, Receivers
from lambda_once.observability.events import Event
from lambda_once.testing import lambda_context, sqs_event

Handlers = Callable[[Once, list[str]], list[Callable[..., Any]]]


def _of_one_name(once: Once, done: list[str]) -> list[Callable[..., Any]]:
    """Two functions of one module, whose name was copied."""

    @once.sqs(key="orderId", name="orders")
    def ship(record: Any) -> None:
        done.append("shipped")

    @once.sqs(key="orderId", name="orders")
    def bill(record: Any) -> None:
        done.append("billed")

    return [ship, bill]


def _of_a_factory(once: Once, done: list[str]) -> list[Callable[..., Any]]:
    """Two functions that one factory makes."""

    def subscriber(target: str) -> Callable[..., Any]:
        @once.sqs(key="orderId")
        def deliver(record: Any) -> None:
            done.append(target)

        return deliver

    return [subscriber("mail"), subscriber("erp")]


def _done(handlers: Handlers) -> list[str]:
    """Return what *handlers* have done for one message, which both take for done."""
    once, done = Once(store=MemoryStore(), service="shop"), list[str]()
    for each in handlers(once, done):
        assert each(sqs_event({"orderId": "o-1"}), lambda_context()) == {"batchItemFailures": []}
    return done


@pytest.mark.parametrize("handlers", [_of_one_name, _of_a_factory])
def test_a_second_function_of_one_name_is_refused(handlers: Handlers) -> None:
    """When it is decorated: no message is delivered to either."""
    with pytest.raises(Misconfigured, match="have one name"):
        _done(handlers)


@pytest.mark.parametrize(("handlers", "first"), [(_of_one_name, "shipped"), (_of_a_factory, "mail")])
def test_twin_that_knows_no_names(monkeypatch: pytest.MonkeyPatch, handlers: Handlers, first: str) -> None:
    """The second one does nothing, and says that it succeeded."""
    monkeypatch.setattr(Names, "add", lambda *_: None)
    assert _done(handlers) == [first]


def test_twin_that_takes_one_def_for_one_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a factory makes is equal code, and other work."""

    def code(function: Any) -> object:
        found = names._def_of(function)
        return None if found is None else found.__code__

    monkeypatch.setattr(names, "_is_same_work", lambda one, other: code(one) == code(other))
    assert _done(_of_a_factory) == ["mail"]


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
