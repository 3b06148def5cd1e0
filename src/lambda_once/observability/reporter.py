"""
Each event is logged, counted, shown to the hooks, and traced: loggers, and the embedded metric format.

A report never decides an outcome: what a logger, a hook or the metrics raise is logged once, and the work
goes on. Counts go out in documents of our own, not in your Powertools `Metrics`: that keeps its state on the
class, and nobody may ever flush it.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from inspect import currentframe
from threading import RLock
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from lambda_once.core.clock import SystemClock, epoch_milliseconds, stamp
from lambda_once.core.keys import NO_SERVICE, SERVICE_VARIABLE
from lambda_once.observability.events import MUST_SURVIVE, SAMPLED, Event

if TYPE_CHECKING:
    from aws_lambda_powertools import Logger as PowertoolsLogger

    from lambda_once.core.lifecycle import Record
    from lambda_once.observability.traces import AnyTracer, Segment
    from lambda_once.settings import Settings

    AnyLogger: TypeAlias = logging.Logger | PowertoolsLogger

_last_resort: Final = logging.getLogger("lambda_once")


class Work(Protocol):
    """
    What a line about a protected function's work can name of it.

    A `Call`, a `Tokenless` unit, or an `Identifier` in a line about the function itself.
    """

    @property
    def name(self) -> str: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def token(self) -> str | None: ...
    @property
    def delivery(self) -> str | None: ...


OfAttempt: TypeAlias = tuple[str | None, int | None, str | None, datetime | None, datetime | None]
"""Its id, fence, host, acquisition and lease."""
NO_ATTEMPT: Final[OfAttempt] = (None, None, None, None, None)


class Details(NamedTuple):
    """
    One event with its details; None if unknown.

    There is no field for payloads and results: they are never logged, counted or shown to hooks. Of a
    payload there are at most the names of a few fields (`differing`).
    """

    event: Event
    token: str | None = None
    name: str | None = None
    """Name of the protected function; in ``once.report_failed``, of the hook or other part that raised."""
    attempt: str | None = None
    fence: int | None = None
    locked_by: str | None = None
    created: datetime | None = None
    """When the attempt acquired the token; ``acquired`` in the log."""
    expected_completion: datetime | None = None
    delivery: str | None = None
    other_delivery: str | None = None
    """The delivery of the stored outcome, if it is another one."""
    seconds: float | None = None
    """Duration of the work; for an overdue token, the time since its lease expired."""
    error: str | None = None
    """The kind of an exception, never its message, which may quote data."""
    reason: str | None = None
    """A text of this package. It may name a table, a host, an option or fields, but contains no data."""
    differing: str | None = None
    """The names of fields in which a payload differs from the first under its key, never their values."""
    pattern: str | None = None
    resource: str | None = None  # its table, topic or queue
    key: str | None = None  # of its item or document, the parts joined by "/"

    @classmethod
    def of_work(
        cls,
        event: Event,
        work: Work,
        attempt: OfAttempt = NO_ATTEMPT,
        other_delivery: str | None = None,
        seconds: float | None = None,
        error: str | None = None,
        reason: str | None = None,
        differing: str | None = None,
    ) -> Details:
        """Return the details of a line about *work*: the one place for a field that all such lines have."""
        whose = event, work.token, work.name, *attempt, work.delivery, other_delivery
        return cls(*whose, seconds, error, reason, differing)

    @classmethod
    def of_row(cls, event: Event, record: Record, **more: Any) -> Details:
        """Return the details of *record*'s attempt, and *more*."""
        return cls(
            event,
            record.token,
            attempt=record.attempt_id,
            fence=record.fence,
            locked_by=record.locked_by,
            created=record.created,
            expected_completion=record.expected_completion,
            **more,
        )

    def fields(self) -> dict[str, object]:
        """
        Return the fields of the log line: all that is not None.

        Times are text as in the rows, ``2026-11-20T10:12:00.000Z``; ``name`` is ``once_name`` and
        ``created`` is ``acquired``; all other names are the attributes'.
        """
        fields: dict[str, object] = {
            label: value for label, value in zip(_LABELS, self[1:], strict=True) if value is not None
        }
        for label, at in (("acquired", self.created), ("expected_completion", self.expected_completion)):
            if isinstance(at, datetime):
                fields[label] = stamp(at)
        return fields


_RENAMED: Final = {"name": "once_name", "created": "acquired"}  # logging refuses them in `extra` (KeyError)
_LABELS: Final = tuple(_RENAMED.get(attribute, attribute) for attribute in Details._fields[1:])
"""Of all fields but the first, which is the line's message."""

NOT_TRACED: Final = nullcontext()

Hook = Callable[[Details], object]
"""Called with each event, on its thread. What it returns is ignored: an `async def` would never run."""


class Tally:
    """The counts of one invocation. Safe to share between threads."""

    __slots__ = ("_counts", "_lock", "has_started", "interrupted", "over")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._lock = RLock()
        self.interrupted: BaseException | None = None
        """A SystemExit, KeyboardInterrupt or the like, raised once the tokens in progress are finished."""
        self.has_started = False
        """Whether any work has begun."""
        self.over = False
        """Whether it was flushed for the last time."""

    def interrupt(self, error: BaseException) -> None:
        """Keep *error* for `raise_interruption`; the first of several is kept."""
        self.interrupted = self.interrupted or error

    def raise_interruption(self) -> None:
        """Raise what was kept, once."""
        error, self.interrupted = self.interrupted, None
        if error is not None:
            raise error

    def count(self, metric: str) -> None:
        with self._lock:
            self._counts[metric] = self._counts.get(metric, 0) + 1
            self.has_started = self.has_started or metric == Event.ACQUIRED.metric

    def drain(self) -> dict[str, int]:
        """Return what was counted since the last time, each count once."""
        with self._lock:
            counts, self._counts = self._counts, {}
        return counts


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
        tracer: AnyTracer | None = None,
        hooks: Sequence[Hook] = (),
    ) -> None:
        """*service* None is POWERTOOLS_SERVICE_NAME, or ``service_undefined`` as in Powertools."""
        self._service = service
        self._metrics = metrics
        self._given_logger = logger
        self._logger: logging.Logger | None = None
        self._tracer = tracer
        self._target: Target | None = None
        """Where documents go, once the first is written."""
        self._hooks = tuple(hooks)
        self._known: set[Hashable] = set()
        self._firsts: Counter[Hashable] = Counter()
        self._seen: Counter[Event] = Counter()
        self._lock = RLock()

    def shows(self, event: Event, level: int | None = None) -> bool:
        """Whether a hook, or the log at *level* or the event's own, receives the details of *event*."""
        logger = self._ready_logger()
        try:
            return bool(self._hooks) or logger is None or _is_logged(logger, event, level)
        except Exception:  # noqa: BLE001 - as in `log`, which reports it
            return True

    def count(self, event: Event, tally: Tally) -> None:
        """Only count *event*."""
        if event.metric is not None:
            tally.count(event.metric)

    def report(
        self,
        details: Details,
        tally: Tally,
        exception: BaseException | None = None,
        level: int | None = None,
    ) -> None:
        """
        Count, log and show *details* to the hooks, in this order. `SAMPLED` events are not logged every time.

        *exception*: one that ends here, as a batch's do; its traceback is logged. *level*: in place of the
        event's. What a hook raises that is no Exception waits in *tally* until the tokens in progress are
        finished.
        """
        self.count(details.event, tally)
        try:
            if details.event not in SAMPLED or self._is_sample(details.event):
                self.log(details, exception, level)
            if self._hooks:
                self._run_hooks(details)
        except BaseException as interruption:  # noqa: BLE001 - raised by `Tally.raise_interruption`
            tally.interrupt(interruption)

    def log(self, details: Details, exception: BaseException | None = None, level: int | None = None) -> None:
        """Only log *details*: an event outside of invocations has no tally."""
        logger = self._ready_logger()
        if logger is None:
            return
        try:
            _write(logger, details, exception, level)
        except Exception as error:  # noqa: BLE001 - a log line must not decide an outcome
            self._logging_failed(error)

    def flush(self, tally: Tally) -> None:
        """Write one metrics document of what *tally* counted since the last flush, none of nothing."""
        counts = tally.drain()
        if counts:
            self.measure(counts)

    def end(self, tally: Tally) -> None:
        """Flush *tally* at the end of an invocation; if no work has begun in it, see `fill_metrics`."""
        tally.over = True
        self.flush(tally)
        if self._metrics is None or tally.has_started:
            return
        try:
            fill_metrics(self._metrics)
        except Exception as error:  # noqa: BLE001 - as below
            self._failed("metrics", error)

    def measure(self, values: Mapping[str, float]) -> None:
        """Write one metrics document of *values*, zeros too; units are those of `UNITS`."""
        try:
            if self._target is None:
                self._target = target_of(self._metrics, self._service_name())
            write_metrics(values, self._target)
        except Exception as error:  # noqa: BLE001 - a metric must not decide an outcome
            self._failed("metrics", error)

    def segment(self, name: str) -> AbstractContextManager[Segment | None]:
        """Return a part of the trace, to be entered: ``once.acquire`` or ``once.complete``; None: none."""
        if self._tracer is None:
            return NOT_TRACED
        from lambda_once.observability.traces import segment  # no cold start without a Tracer needs it

        return segment(self._tracer, name, self._failed) or NOT_TRACED

    def _run_hooks(self, details: Details) -> None:
        """Show *details* to every hook, in order. What is no Exception (SystemExit, cancellation) passes."""
        for hook in self._hooks:
            try:
                hook(details)
            except Exception as error:  # noqa: BLE001 - a hook must not decide an outcome
                named = hook if hasattr(hook, "__qualname__") else type(hook)
                self._failed(f"{named.__module__}.{named.__qualname__}", error)

    def _service_name(self) -> str:
        return self._service or os.environ.get(SERVICE_VARIABLE) or NO_SERVICE

    def _ready_logger(self) -> logging.Logger | None:
        if self._logger is None:
            try:
                self._logger = standard_logger(self._given_logger, self._service_name())
            except Exception as error:  # noqa: BLE001 - as above
                self._logging_failed(error)
        return self._logger

    def _failed(self, part: str, error: Exception) -> None:
        if self.is_first((Event.REPORT_FAILED, part)):
            self.log(_failure(part, error))

    def _logging_failed(self, error: Exception) -> None:
        if self.is_first((Event.REPORT_FAILED, "logger")):
            with suppress(Exception):
                _write(_last_resort, _failure("logger", error))

    def _is_sample(self, event: Event) -> bool:
        with self._lock:
            self._seen[event] += 1
            return self._seen[event].bit_count() == 1  # a power of two

    def warn(self, event: Event, reason: str, work: Work | None = None) -> None:
        """Log *event* with its *reason*; *work* None: it is about no function."""
        known = Details(event, reason=reason) if work is None else Details.of_work(event, work, reason=reason)
        self.log(known)

    def warn_once(self, event: Event, reason: str, work: Work | None = None, of: Hashable = None) -> None:
        """Do what `warn` does for the first *event* in this environment, or the first one *of* something."""
        if self.is_first((event, of)):
            self.warn(event, reason, work)

    def was_asked(self, what: Hashable) -> bool:
        """Return whether `is_first` was asked for *what* in this environment."""
        return what in self._known

    def is_first(self, what: Hashable, among: Hashable = None, most: int | None = None) -> bool:
        """
        Return whether *what* is asked for the first time in this environment: it is logged once.

        No more than *most* are the first *among* something: what comes of a payload has no end.
        """
        with self._lock:
            if what in self._known or (most is not None and self._firsts[among] >= most):
                return False
            self._known.add(what)
            self._firsts[among] += 1
        return True


OWN_LOGGERS: Final = "lambda_once/"
"""How the names of loggers begin that are made here. Their lines have no location."""
_NOT_THE_USERS: Final = frozenset(
    {"lambda_once", "aws_lambda_powertools", "aws_durable_execution_sdk_python"}
) | {
    *("awslambdaric", "bootstrap"),
    *sys.stdlib_module_names - {"__main__"},
}
"""
Packages and modules whose lines are no place in the user's code.

Lambda's runtime is ``awslambdaric``; its file that calls handlers is ``bootstrap``.
"""
_UNKNOWN: Final = ("(unknown file)", 0, "(unknown function)")
"""As logging names a caller that it doesn't find."""

_ARGUMENTS: Final = ({"by": "lambda_once"},)
"""Of a message: a mapping, of which it need not name anything."""


def level_of(event: Event, effective: int) -> int:
    """Return the level of *event* on a logger whose effective level is *effective*."""
    return max(event.level, min(effective, logging.WARNING)) if event in MUST_SURVIVE else event.level


def _is_logged(logger: logging.Logger, event: Event, level: int | None) -> bool:
    return logger.isEnabledFor(level_of(event, logger.getEffectiveLevel()) if level is None else level)


def _write(
    logger: logging.Logger,
    details: Details,
    exception: BaseException | None = None,
    level: int | None = None,
) -> None:
    level = level_of(details.event, logger.getEffectiveLevel()) if level is None else level
    if not logger.isEnabledFor(level):
        return
    exc_info = None if exception is None else (type(exception), exception, exception.__traceback__)
    file, line, function = _UNKNOWN if logger.name.startswith(OWN_LOGGERS) else _place()
    # With arguments, Powertools' formatter takes the message for text. It would try to read JSON otherwise.
    text = (details.event._value_, _ARGUMENTS)
    record = logger.makeRecord(logger.name, level, file, line, *text, exc_info, func=function)
    vars(record).update(details.fields())  # as `extra` does, which checks each name every time
    logger.handle(record)


def _place() -> tuple[str, int, str]:
    """Return file, line and function of the user's code that has called this package, as logging names it."""
    frame = currentframe()
    while frame is not None:
        if str(frame.f_globals.get("__name__")).partition(".")[0] not in _NOT_THE_USERS:
            return frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return _UNKNOWN


def _failure(part: str, error: Exception) -> Details:
    return Details(
        Event.REPORT_FAILED,
        name=part,
        error=type(error).__name__,
        reason="it raised; the outcome is unaffected, later failures of it are not logged",
    )


# ---------------------------------------------------------------- logs

_configuring: Final = RLock()


def load() -> None:
    """
    Import what lines and metrics need of Powertools.

    Its modules import each other in circles: threads that begin at several of them at once would deadlock.
    """
    for module in ("logging.constants", "metrics.functions"):
        import_module(f"aws_lambda_powertools.{module}")


def standard_logger(logger: AnyLogger | None, service: str) -> logging.Logger:
    """
    Return *logger*, else the Powertools Logger of *service*, else one of our own.

    Of a Powertools Logger it is the standard one, whose lines are not buffered: buffered lines are lost with
    a killed invocation.
    """
    if logger is not None:
        return logging.getLogger(logger.name) if not isinstance(logger, logging.Logger) else logger
    with _configuring:
        return _of_service(service)


def _of_service(service: str) -> logging.Logger:
    """
    Return the service's logger if Powertools has configured it, else one made like it.

    Our own has another name: Powertools configures a logger once, and would ignore the options of a Logger
    that the user makes of this service later. A dot would make it the child of another one.
    """
    from aws_lambda_powertools import Logger
    from aws_lambda_powertools.logging.constants import LOGGER_ATTRIBUTE_PRECONFIGURED

    theirs = logging.getLogger(service)
    ours = logging.getLogger(f"{OWN_LOGGERS}{service.replace('.', '/')}")
    if getattr(theirs, LOGGER_ATTRIBUTE_PRECONFIGURED, False):
        return theirs
    if not getattr(ours, LOGGER_ATTRIBUTE_PRECONFIGURED, False):
        made = Logger(service=ours.name, logger_handler=_StandardOutput(), location=None)
        made.append_keys(service=service)
    return ours


class _StandardOutput(logging.Handler):
    """Writes each line at once, to the sys.stdout of that moment: test runners exchange it."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stdout.write(self.format(record) + "\n")
        except Exception:  # noqa: BLE001 - as logging's own handlers do
            self.handleError(record)


# ---------------------------------------------------------------- metrics

OWN_NAMESPACE: Final = "LambdaOnce"
OUTSIDE_LAMBDA: Final = "local"
UNITS: Final = {"oldestOverdueSeconds": "Seconds", "streamLagSeconds": "Seconds"}
"""Units by metric; of all others it is Count."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` makes one a document


class Namespaced(Protocol):
    """The part of the user's Metrics that must be there; of Powertools' own, see also `fill_metrics`."""

    @property
    def namespace(self) -> str | None: ...


class Target(NamedTuple):
    """What all documents of an environment have in common."""

    disabled: bool
    """Whether Powertools' metrics are disabled: then none is written."""
    namespace: str
    service: str
    function: str


def target_of(metrics: Namespaced | None, service: str) -> Target:
    """
    Return where documents go, which the environment variables say: to read these is slow.

    The namespace is that of the user's *metrics*, else POWERTOOLS_METRICS_NAMESPACE, else LambdaOnce; the
    dimensions are ``service`` and ``function``.
    """
    from aws_lambda_powertools.metrics.functions import is_metrics_disabled

    theirs = getattr(metrics, "namespace", None)  # a provider of the user's may have none
    namespace = theirs or os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or OWN_NAMESPACE
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or OUTSIDE_LAMBDA
    return Target(is_metrics_disabled(), namespace, service, function)


def write_metrics(counts: Mapping[str, float], target: Target) -> None:
    """
    Write *counts*, of which there is at least one, as one document on standard output.

    The user's Metrics keeps what it has pending.
    """
    if target.disabled:
        return
    document = embedded(counts, *target[1:], epoch_milliseconds(SystemClock().now()))
    # One write: `print` lets another thread's line in before the line break.
    sys.stdout.write(document + "\n")
    sys.stdout.flush()


def fill_metrics(metrics: Namespaced) -> None:
    """
    Add ``started``, 0, to the user's *metrics* if it has no metric.

    Powertools' ``log_metrics`` warns of an empty set, or raises, and an invocation that only replays leaves
    one. Counts are never put there: alarms select them by the dimensions of our own documents, and nobody may
    ever flush the user's. A 0 changes no sum; a second is not added before the first is flushed.
    """
    provider: Any = getattr(metrics, "provider", metrics)  # Metrics has one; EphemeralMetrics is one
    pending = getattr(provider, "metric_set", None)
    # Without a namespace, a set that is not empty cannot be flushed: it raises.
    if pending is None or pending or not getattr(provider, "namespace", None):
        return
    unit = {"unit": "Count"} if isinstance(pending, dict) else {}  # Datadog has no units: it would be a tag
    provider.add_metric(name=Event.ACQUIRED.metric, value=0, **unit)


def embedded(counts: Mapping[str, float], namespace: str, service: str, function: str, timestamp: int) -> str:
    """
    Return *counts* in CloudWatch's embedded metric format, as JSON, as Powertools' EphemeralMetrics would.

    Built here, for it has one fixed shape: to have it built costs half as much as a request to DynamoDB.
    (CloudWatch user guide, "Specification: Embedded metric format".) *timestamp* is the machine's time.
    """
    frame = _frame(tuple(counts), namespace, service, function)
    values = "".join(f',"{name}":[{float(count)}]' for name, count in counts.items())
    return f'{{"_aws":{{"Timestamp":{timestamp},{frame}{values}}}'


@lru_cache(maxsize=64)  # few sets of metrics come again and again; what else is in it is asked each time
def _frame(names: tuple[str, ...], namespace: str, service: str, function: str) -> str:
    """Return what stands between the time and the values of a document, by all that it depends on."""
    metrics = [{"Name": name, "Unit": UNITS.get(name, "Count")} for name in names]
    directive = {"Namespace": namespace, "Dimensions": [["service", "function"]], "Metrics": metrics}
    directives = _ENCODER.encode({"CloudWatchMetrics": [directive]})
    dimensions = _ENCODER.encode({"service": service, "function": function})
    return f"{directives[1:]},{dimensions[1:-1]}"
