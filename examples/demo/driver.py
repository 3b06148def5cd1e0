"""Invokes the handlers of the stack as Lambda would, and records what each delivery caused."""

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

from .answers import DEAD, SILENT, answer_of
from .captured import Capture, Output
from .sandbox import Killed, Sandbox
from .template import ROOT, SHOP, Function, Template
from .world import new_world

MARGIN_SECONDS = 3.0
"""After a function's timeout: the lease ends two seconds after it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One delivery and what it caused."""

    ran: tuple[str, ...]
    """The effects on other systems, ``charged pay_12345``."""
    counted: Counter[str]
    """The metrics, by name."""
    refused: tuple[str, ...]
    """The errors that duplicates got."""
    got: str
    """The answer to the sender."""
    lines: tuple[str, ...]
    """The lines that the handler printed."""
    delivered: str = ""
    """Which delivery it is, where that is not its position in the scene."""

    def then(self, later: Step) -> Step:
        """Return this step and *later* as one, with the answer of *later*."""
        return Step(
            self.ran + later.ran,
            self.counted + later.counted,
            self.refused + later.refused,
            later.got,
            self.lines + later.lines,
        )


@dataclass(frozen=True, slots=True)
class Paused:
    """A delivery whose invocation is paused."""

    function: Function
    sandbox: Sandbox[str]


class Driver:
    """The stack in this process. Its clock advances only when a scene advances it."""

    def __init__(self, template: Template, functions: Sequence[str], clock: FakeClock) -> None:
        self._template = template
        self._functions = {name: template.function(name) for name in functions}
        self._clock = clock
        self._capture = Capture()
        self._effects = 0
        self._paused: list[Paused] = []
        self._counted = {function.name: Counter[str]() for function in self._functions.values()}

    @contextmanager
    def open(self, store: Store) -> Iterator[None]:
        """Let the handlers use *store* in the block, with a new gateway and warehouse."""
        modules = [importlib.import_module(function.module) for function in self._functions.values()]
        with ExitStack() as stack:
            stack.enter_context(new_world(modules))
            for module in modules:
                stack.enter_context(using(module.once, store, self._clock))
            stack.enter_context(self._capture.of_process(modules))
            try:
                yield
            finally:
                for paused in self._paused:
                    paused.sandbox.kill()

    def environment(self) -> dict[str, str]:
        """Return the environment of the first function, to set before clients are made."""
        return next(iter(self._functions.values())).environment

    def metrics(self) -> Mapping[str, Counter[str]]:
        """Return the metrics so far, by function and name."""
        return self._counted

    def deliver(self, function: str, file: str, *, receives: int | None = None) -> Step:
        """Invoke *function* with the event in *file*; *receives* replaces its receive count."""
        started = self._functions[function]
        invoke = self._invocation(started, file, receives)
        got = invoke()
        return self._step(started, got, *self._news())

    def pause(self, function: str, file: str, place: str) -> tuple[Paused, Step]:
        """Invoke *function* with the event in *file*, and pause the invocation at *place*."""
        started = self._functions[function]
        invoke = self._invocation(started, file, None)
        paused = Paused(started, Sandbox(place, invoke))
        self._paused.append(paused)
        paused.sandbox.run_until_paused()
        got = paused.sandbox.resume() if paused.sandbox.over else SILENT
        return paused, self._step(started, got, *self._news())

    def resume(self, paused: Paused) -> Step:
        """Let *paused* run to its end."""
        self._paused.remove(paused)
        got = paused.sandbox.resume()
        return self._step(paused.function, got, *self._news())

    def deliveries(self, queue: str) -> int:
        """Return how often *queue* delivers a message before its dead-letter queue gets it."""
        return self._template.deliveries(queue)

    def let_leases_lapse(self, function: str) -> None:
        """Advance the clock until every lease of *function* has expired."""
        self._clock.advance(self._functions[function].timeout.total_seconds() + MARGIN_SECONDS)

    def _invocation(self, function: Function, file: str, receives: int | None) -> Callable[[], str]:
        """Return the invocation of *function* with the event in *file*."""
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

        return invoke

    def _news(self) -> tuple[tuple[str, ...], Output]:
        """Return the effects and the output since the last step."""
        new = EFFECTS.all()[self._effects :]
        self._effects += len(new)
        return tuple(f"{effect.kind} {effect.subject}" for effect in new), self._capture.new_output()

    def _step(self, function: Function, got: str, effects: Sequence[str], output: Output) -> Step:
        counts = output.counts()
        self._counted[function.name].update(counts)
        return Step(tuple(effects), counts, output.refusals(), got, output.lines)


def _event(file: str, receives: int | None) -> dict[str, Any]:
    (path,) = (found for folder in (ROOT, SHOP) for found in (folder / "events").glob(f"{file}.json"))
    event: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if receives is not None:
        for record in event["Records"]:
            record["attributes"]["ApproximateReceiveCount"] = str(receives)
    return event
