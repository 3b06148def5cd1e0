"""The sinks of reports: loggers, the embedded metric format, the user's trace."""

from __future__ import annotations

import json
import logging
import os
import sys
from threading import Lock
from typing import TYPE_CHECKING, Final, Protocol, Self, TypeAlias

from lambda_once.core.clock import SystemClock, epoch_milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from types import TracebackType

    from aws_lambda_powertools import Logger as PowertoolsLogger
    from aws_lambda_powertools import Tracer

    AnyLogger: TypeAlias = logging.Logger | PowertoolsLogger

# ---------------------------------------------------------------- logs

_configuring: Final = Lock()


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
    ours = logging.getLogger(f"lambda_once/{service.replace('.', '/')}")
    if getattr(theirs, LOGGER_ATTRIBUTE_PRECONFIGURED, False):
        return theirs
    if not getattr(ours, LOGGER_ATTRIBUTE_PRECONFIGURED, False):
        Logger(service=ours.name, logger_handler=_StandardOutput()).append_keys(service=service)
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
UNITS: Final = {"oldestOverdueSeconds": "Seconds"}
"""Units by metric; of all others it is Count."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` makes one a document


class Namespaced(Protocol):
    """What is read of the user's Metrics."""

    @property
    def namespace(self) -> str | None: ...


def write_metrics(counts: Mapping[str, float], metrics: Namespaced | None, service: str) -> None:
    """
    Write *counts*, of which there is at least one, as one document on standard output.

    The namespace is that of the user's *metrics*, else POWERTOOLS_METRICS_NAMESPACE, else LambdaOnce; the
    dimensions are ``service`` and ``function``. The user's Metrics keeps what it has pending. Nothing is
    written where Powertools' metrics are disabled.
    """
    from aws_lambda_powertools.metrics.functions import is_metrics_disabled

    if is_metrics_disabled():
        return
    theirs = metrics.namespace if metrics is not None else None
    namespace = theirs or os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or OWN_NAMESPACE
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or OUTSIDE_LAMBDA
    document = embedded(counts, namespace, service, function, SystemClock().now())
    # One write: `print` lets another thread's line in before the line break.
    sys.stdout.write(_ENCODER.encode(document) + "\n")
    sys.stdout.flush()


def embedded(
    counts: Mapping[str, float], namespace: str, service: str, function: str, now: datetime
) -> dict[str, object]:
    """
    Return *counts* in CloudWatch's embedded metric format, as Powertools' EphemeralMetrics would.

    Built here, for it has one fixed shape: to have it built costs half as much as a request to DynamoDB.
    (CloudWatch user guide, "Specification: Embedded metric format".) CloudWatch goes by the machine's time.
    """
    return {
        "_aws": {
            "Timestamp": epoch_milliseconds(now),
            "CloudWatchMetrics": [
                {
                    "Namespace": namespace,
                    "Dimensions": [["service", "function"]],
                    "Metrics": [{"Name": name, "Unit": UNITS.get(name, "Count")} for name in counts],
                }
            ],
        },
        "service": service,
        "function": function,
        **{name: [float(count)] for name, count in counts.items()},
    }


# ---------------------------------------------------------------- traces


class Segment(Protocol):
    """
    A part of the trace while it is entered. Never raises, and suppresses no exception.

    X-Ray keeps its open segments by thread: enter and leave on the same one, with no `await` between.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def annotate(self, key: str, value: str) -> None:
        """Make the segment findable by *key*: letters, digits and underscores only."""
        ...


class _TracedSegment:
    __slots__ = ("_failed", "_name", "_open", "_subsegment", "_tracer")

    def __init__(self, tracer: Tracer, name: str, failed: Callable[[str, Exception], object]) -> None:
        self._tracer = tracer
        self._name = name
        self._failed = failed

    def __enter__(self) -> Self:
        self._open = self._subsegment = None
        try:
            opened = self._tracer.provider.in_subsegment(self._name)
            self._subsegment = opened.__enter__()
            self._open = opened
        except Exception as error:  # noqa: BLE001 - a trace must not decide an outcome
            self._failed("tracer", error)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the segment. The exception is kept from it: its message may quote data."""
        if self._open is None:
            return
        try:
            self._open.__exit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed("tracer", error)

    def annotate(self, key: str, value: str) -> None:
        if self._subsegment is None:  # X-Ray returns None outside a trace
            return
        try:
            self._subsegment.put_annotation(key, value)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed("tracer", error)


def segment(tracer: Tracer, name: str, failed: Callable[[str, Exception], object]) -> Segment | None:
    """
    Return a segment called *name*, or None if tracing is off; what *tracer* raises goes to *failed* alone.

    There is no Tracer of our own: its options (patching, disabled, provider) are kept on the class, so that
    making one would change the user's.
    """
    try:
        if tracer.disabled:
            return None
    except Exception as error:  # noqa: BLE001 - as above
        failed("tracer", error)
        return None
    return _TracedSegment(tracer, name, failed)
