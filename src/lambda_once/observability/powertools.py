"""One place to report to: the log line, the count, the hooks and the trace of all that happens."""

from __future__ import annotations

import logging
import os
from collections import Counter
from contextlib import suppress
from threading import Lock
from typing import TYPE_CHECKING, Final

from lambda_once.core.keys import NO_SERVICE, service_of
from lambda_once.observability import hooks as listeners
from lambda_once.observability import logs, metrics, traces
from lambda_once.observability.details import MANNERS, SAMPLED, Details, Happening, Tally

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aws_lambda_powertools import Tracer

    from lambda_once.observability.hooks import Hook
    from lambda_once.observability.logs import AnyLogger
    from lambda_once.observability.metrics import Namespaced
    from lambda_once.observability.traces import Segment

_last_resort: Final = logging.getLogger("lambda_once")


class Reporter:
    """
    Reports for one Once. Makes and imports nothing before its first use; safe to share between threads.

    No method raises an Exception: what goes wrong in a logger, a hook, a tracer or the metrics is logged
    as ``once.report_failed``, once for each of them, and changes no outcome.
    """

    def __init__(
        self,
        service: str | None = None,
        *,
        metrics: Namespaced | None = None,
        logger: AnyLogger | None = None,
        tracer: Tracer | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        """*service* None is POWERTOOLS_SERVICE_NAME, or ``service_undefined`` as in Powertools."""
        self._service = service
        self._metrics = metrics
        self._given_logger = logger
        self._logger: logging.Logger | None = None
        self._tracer = tracer
        self._hooks = tuple(hooks)
        self._complained: set[str] = set()
        self._seen: Counter[Happening] = Counter()
        self._complaining = Lock()

    @property
    def service(self) -> str:
        return service_of(self._service, os.environ) or NO_SERVICE

    def tells(self, happening: Happening) -> bool:
        """Tell whether anybody would see its details: a hook, or a reader of the log at its level."""
        logger = self._ready_logger()
        try:
            return bool(self._hooks) or logger is None or logs.shows(logger, happening)
        except Exception:  # noqa: BLE001 - as in `log`, which complains of it
            return True

    def count(self, happening: Happening, tally: Tally) -> None:
        """Count *happening*, whose details nobody would see."""
        metric = MANNERS[happening].metric
        if metric is not None:
            tally.count(metric)

    def report(self, details: Details, tally: Tally, exception: BaseException | None = None) -> None:
        """
        Count, log and show *details* to the hooks, in this order. What is `SAMPLED` is not logged every time.

        *exception* is for one that ends here, as a batch's do: its traceback is logged, or nobody sees it.
        What a hook raises that is no Exception waits in *tally* until the tokens at work are settled.
        """
        self.count(details.happening, tally)
        try:
            if details.happening not in SAMPLED or self._is_sample(details.happening):
                self.log(details, exception)
            listeners.run(self._hooks, details, self._complain)
        except BaseException as interruption:  # noqa: BLE001 - raised by `Tally.raise_interruption`
            tally.interrupt(interruption)

    def log(self, details: Details, exception: BaseException | None = None) -> None:
        """Log *details* and no more: what happens outside every invocation has no tally to count in."""
        logger = self._ready_logger()
        if logger is None:
            return
        try:
            logs.write(logger, details, exception)
        except Exception as error:  # noqa: BLE001 - a log line must not decide an outcome
            self._complain_of_the_log(error)

    def flush(self, tally: Tally) -> None:
        """Write one metrics document of what *tally* counted since the last flush, none of nothing."""
        counts = tally.drain()
        if counts:
            self.measure(counts)

    def measure(self, values: Mapping[str, float]) -> None:
        """Write one metrics document of *values*, zeros too; units are those of `metrics.UNITS`."""
        try:
            metrics.write(values, self._metrics, self.service)
        except Exception as error:  # noqa: BLE001 - a metric must not decide an outcome
            self._complain("metrics", error)

    def segment(self, name: str) -> Segment:
        """Return a part of the trace, to be entered: ``once.acquire`` or ``once.complete``."""
        return traces.segment(self._tracer, name, self._complain)

    def _ready_logger(self) -> logging.Logger | None:
        try:
            if self._logger is None:
                self._logger = logs.standard_logger(self._given_logger, self.service)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain_of_the_log(error)
        return self._logger

    def _complain(self, part: str, error: Exception) -> None:
        if self._first_of(part):
            self.log(_failure(part, error))

    def _complain_of_the_log(self, error: Exception) -> None:
        if self._first_of("logger"):
            with suppress(Exception):
                logs.write(_last_resort, _failure("logger", error))

    def _is_sample(self, happening: Happening) -> bool:
        with self._complaining:
            self._seen[happening] += 1
            return self._seen[happening].bit_count() == 1  # a power of two

    def _first_of(self, part: str) -> bool:
        with self._complaining:
            first = part not in self._complained
            self._complained.add(part)
        return first


def _failure(part: str, error: Exception) -> Details:
    return Details(
        Happening.REPORT_FAILED,
        name=part,
        error=type(error).__name__,
        reason="it raised; the outcome is unaffected, later failures of it are not logged",
    )
