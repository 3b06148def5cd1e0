"""Drives the handlers of the stack as Lambda would, and writes down what came of every delivery."""

from __future__ import annotations

import importlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError

from examples.orders.effects import EFFECTS
from lambda_once.stores.contract import Store
from lambda_once.testing import FakeClock, lambda_context, using

from .answers import DEAD, SILENT, answer_of, delivery_of
from .listening import Heard, Listener
from .outside import new_world
from .sandbox import Killed, Sandbox
from .template import ROOT, Function, Template

MARGIN_SECONDS = 3.0
"""How far beyond its time limit an invocation is out of the way: the lease has two seconds more."""


@dataclass(frozen=True, slots=True)
class Step:
    """One delivery and what came of it."""

    delivered: str
    ran: tuple[str, ...]
    """The effects outside, ``charged pay_12345``."""
    counted: Counter[str]
    """What the metrics say of it."""
    refused: tuple[str, ...]
    """The errors that duplicates got in place of a result."""
    got: str
    """What whoever sent it was answered."""
    lines: tuple[str, ...]
    """What the handler printed."""

    def then(self, later: Step) -> Step:
        """Return this step and *later* as one; it ends as *later* does."""
        return Step(
            self.delivered,
            self.ran + later.ran,
            self.counted + later.counted,
            self.refused + later.refused,
            later.got,
            self.lines + later.lines,
        )


@dataclass(frozen=True, slots=True)
class Begun:
    """A delivery whose invocation stands still half-way."""

    function: Function
    delivered: str
    sandbox: Sandbox[str]


class Stage:
    """The stack in this process. Its clock stands still until a scene turns it."""

    def __init__(self, template: Template, functions: Sequence[str], clock: FakeClock) -> None:
        self._template = template
        self._functions = {name: template.function(name) for name in functions}
        self._clock = clock
        self._listener = Listener()
        self._effects = 0
        self._begun: list[Begun] = []
        self._counted = {function.name: Counter[str]() for function in self._functions.values()}

    @contextmanager
    def open(self, store: Store) -> Iterator[None]:
        """Let the handlers work with *store* in the block, in a world where nothing has happened yet."""
        modules = [importlib.import_module(function.module) for function in self._functions.values()]
        with ExitStack() as stack:
            stack.enter_context(new_world(modules))
            for module in modules:
                stack.enter_context(using(module.once, store, self._clock))
            stack.enter_context(self._listener.listening(modules))
            try:
                yield
            finally:
                for begun in self._begun:
                    begun.sandbox.kill()

    def environment(self) -> dict[str, str]:
        """Return what the functions find in their environment, as far as it is the same for all of them."""
        return next(iter(self._functions.values())).environment

    def metrics(self) -> Mapping[str, Counter[str]]:
        """Return what was counted so far, by function and metric."""
        return self._counted

    def deliver(self, function: str, file: str, *, receives: int | None = None) -> Step:
        """Hand the event in *file* to *function*; *receives* is how often it came by now."""
        started = self._functions[function]
        delivered, invoke = self._invocation(started, file, receives)
        got = invoke()
        return self._step(started, delivered, got, *self._happened())

    def begin(self, function: str, file: str, place: str) -> tuple[Begun, Step]:
        """Hand over the event in *file*, and let the invocation stand still where it comes to *place*."""
        started = self._functions[function]
        delivered, invoke = self._invocation(started, file, None)
        begun = Begun(started, delivered, Sandbox(place, invoke))
        self._begun.append(begun)
        begun.sandbox.run_to_the_place()
        got = begun.sandbox.go_on() if begun.sandbox.over else SILENT
        return begun, self._step(started, delivered, got, *self._happened())

    def go_on(self, begun: Begun) -> Step:
        """Let *begun* come to its end."""
        self._begun.remove(begun)
        got = begun.sandbox.go_on()
        return self._step(begun.function, begun.delivered, got, *self._happened())

    def deliveries(self, queue: str) -> int:
        """Return how often *queue* delivers a message before it goes to its dead letters."""
        return self._template.deliveries(queue)

    def let_leases_lapse(self, function: str) -> None:
        """Turn the clock until everything that *function* has begun is past its time limit and its lease."""
        self._clock.advance(self._functions[function].timeout.total_seconds() + MARGIN_SECONDS)

    def _invocation(
        self, function: Function, file: str, receives: int | None
    ) -> tuple[str, Callable[[], str]]:
        """Return what is delivered, in words, and the invocation that works it."""
        os.environ.update(function.environment)
        event = _event(file, receives)
        handler = getattr(importlib.import_module(function.module), function.handler)
        context = lambda_context(function.name, remaining_ms=round(function.timeout.total_seconds() * 1000))

        def invoke() -> str:
            try:
                return answer_of(event, handler(event, context))
            except BatchProcessingError as error:
                return answer_of(event, error)
            except Killed:
                return DEAD

        return delivery_of(event), invoke

    def _happened(self) -> tuple[tuple[str, ...], Heard]:
        """Return the effects and the lines since the last step."""
        new = EFFECTS.all()[self._effects :]
        self._effects += len(new)
        return tuple(f"{effect.kind} {effect.subject}" for effect in new), self._listener.heard()

    def _step(
        self, function: Function, delivered: str, got: str, effects: Sequence[str], heard: Heard
    ) -> Step:
        counts = heard.counts()
        self._counted[function.name].update(counts)
        return Step(delivered, tuple(effects), counts, heard.refusals(), got, heard.lines)


def _event(file: str, receives: int | None) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((ROOT / "events" / f"{file}.json").read_text(encoding="utf-8"))
    if receives is not None:
        for record in event["Records"]:
            record["attributes"]["ApproximateReceiveCount"] = str(receives)
    return event
