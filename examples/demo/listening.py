"""What the handlers print while they are driven: the log lines and metrics that CloudWatch would get."""

from __future__ import annotations

import io
import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from lambda_once.observability.events import Event


@dataclass(frozen=True, slots=True)
class Heard:
    """The lines of one step."""

    lines: tuple[str, ...]

    def refusals(self) -> tuple[str, ...]:
        """Return why duplicates got no result: the errors of the log lines that say so."""
        logged = filter(None, map(_object, self.lines))
        return tuple(line["error"] for line in logged if line.get("message") == Event.REFUSED)

    def counts(self) -> Counter[str]:
        """Return what the metrics documents among the lines count, by metric."""
        counted: Counter[str] = Counter()
        for document in filter(None, map(_object, self.lines)):
            if "_aws" not in document:
                continue
            for metric in document["_aws"]["CloudWatchMetrics"][0]["Metrics"]:
                counted[metric["Name"]] += round(sum(_numbers(document[metric["Name"]])))
        return counted


class Listener:
    """Collects what is printed. Safe to print to from several threads."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        self._told = 0

    def heard(self) -> Heard:
        """Return what was printed since the last call."""
        text = self._text.getvalue()
        new, self._told = text[self._told :], len(text)
        return Heard(tuple(new.splitlines()))

    @contextmanager
    def listening(self, modules: Sequence[ModuleType]) -> Iterator[None]:
        """Listen to all of this process in the block, the loggers of *modules* included."""
        names = {module.logger.name for module in modules}
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(self._text))
            stack.enter_context(redirect_stderr(self._text))
            for name in sorted(names):
                for handler in logging.getLogger(name).handlers:
                    if isinstance(handler, logging.StreamHandler):
                        stack.enter_context(self._written_here(handler))
            yield

    @contextmanager
    def _written_here(self, handler: logging.StreamHandler[Any]) -> Iterator[None]:
        """Move *handler* here: it keeps the standard output that there was when it was made."""
        before = handler.setStream(self._text)
        try:
            yield
        finally:
            if before is not None:
                handler.setStream(before)


def _object(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _numbers(value: float | list[float]) -> list[float]:
    return value if isinstance(value, list) else [value]
