"""The metrics of one invocation, counted in memory and written as CloudWatch's embedded metric format."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Final, Protocol

from lambda_once.core.clock import SystemClock, epoch_milliseconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

OWN_NAMESPACE: Final = "LambdaOnce"
OUTSIDE_LAMBDA: Final = "local"
UNITS: Final = {"oldestOverdueSeconds": "Seconds"}
"""Units by metric; of all others it is Count."""

_ENCODER: Final = json.JSONEncoder(separators=(",", ":"))  # `json.dumps` makes one a document


class Namespaced(Protocol):
    """What is read of the user's Metrics: nothing else of it is touched."""

    @property
    def namespace(self) -> str | None: ...


def write(counts: Mapping[str, float], metrics: Namespaced | None, service: str) -> None:
    """
    Write *counts*, of which there is at least one, as one document on standard output.

    The namespace is that of the user's *metrics*, else POWERTOOLS_METRICS_NAMESPACE, else LambdaOnce;
    the dimensions are ``service`` and ``function``. What the user's Metrics has pending stays pending.
    Nothing is written where Powertools' metrics are disabled.
    """
    from aws_lambda_powertools.metrics.functions import is_metrics_disabled

    if is_metrics_disabled():
        return
    document = embedded(counts, _namespace(metrics), service, _function(), SystemClock().now())
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


def _namespace(metrics: Namespaced | None) -> str:
    theirs = metrics.namespace if metrics is not None else None
    return theirs or os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or OWN_NAMESPACE


def _function() -> str:
    return os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or OUTSIDE_LAMBDA
