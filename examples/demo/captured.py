"""What the handlers print: the log lines and metrics documents that CloudWatch would get."""

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
class Output:
    """The lines of one step."""

    lines: tuple[str, ...]

    def refusals(self) -> tuple[str, ...]:
        """Return the errors that duplicates got, from the log lines."""
        logged = filter(None, map(_object, self.lines))
        return tuple(line["error"] for line in logged if line.get("message") == Event.REFUSED)

    def counts(self) -> Counter[str]:
        """Return the sum of each metric of the metrics documents among the lines."""
        counted: Counter[str] = Counter()
        for document in filter(None, map(_object, self.lines)):
            if "_aws" not in document:
                continue
            for metric in document["_aws"]["CloudWatchMetrics"][0]["Metrics"]:
                counted[metric["Name"]] += round(sum(_numbers(document[metric["Name"]])))
        return counted


class Capture:
    """Collects what is printed, by any thread."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        self._read = 0

    def new_output(self) -> Output:
        """Return what was printed since the last call."""
        text = self._text.getvalue()
        new, self._read = text[self._read :], len(text)
        return Output(tuple(new.splitlines()))

    @contextmanager
    def of_process(self, modules: Sequence[ModuleType]) -> Iterator[None]:
        """Capture what this process prints in the block, the loggers of *modules* included."""
        names = {module.logger.name for module in modules}
        with ExitStack() as stack:
            stack.enter_context(redirect_stdout(self._text))
            stack.enter_context(redirect_stderr(self._text))
            for name in sorted(names):
                for handler in logging.getLogger(name).handlers:
                    if isinstance(handler, logging.StreamHandler):
                        stack.enter_context(self._redirected(handler))
            yield

    @contextmanager
    def _redirected(self, handler: logging.StreamHandler[Any]) -> Iterator[None]:
        """Redirect *handler*, which writes to the standard output of the time when it was made."""
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
