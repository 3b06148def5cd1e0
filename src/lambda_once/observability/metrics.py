"""The metrics of one invocation, counted in memory and written as CloudWatch's embedded metric format."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

OWN_NAMESPACE: Final = "LambdaOnce"
OUTSIDE_LAMBDA: Final = "local"


class Namespaced(Protocol):
    """What is read of the user's Metrics: nothing else of it is touched."""

    @property
    def namespace(self) -> str | None: ...


def write(counts: Mapping[str, int], metrics: Namespaced | None, service: str) -> None:
    """
    Write *counts*, of which there is at least one, as one document on standard output.

    The namespace is that of the user's *metrics*, else POWERTOOLS_METRICS_NAMESPACE, else LambdaOnce;
    the dimensions are ``service`` and ``function``. What the user's Metrics has pending stays pending.
    Nothing is written where Powertools' metrics are disabled.
    """
    from aws_lambda_powertools.metrics import EphemeralMetrics
    from aws_lambda_powertools.metrics.functions import is_metrics_disabled

    if is_metrics_disabled():
        return
    own = EphemeralMetrics(namespace=_namespace(metrics), service=service)
    own.set_default_dimensions(service=service, function=_function())
    for name, count in counts.items():
        own.add_metric(name=name, unit="Count", value=count)
    document = json.dumps(own.serialize_metric_set(), separators=(",", ":"))
    # One write: `print`, as in flush_metrics, lets another thread's line in before the line break.
    sys.stdout.write(document + "\n")
    sys.stdout.flush()


def _namespace(metrics: Namespaced | None) -> str:
    theirs = metrics.namespace if metrics is not None else None
    return theirs or os.environ.get("POWERTOOLS_METRICS_NAMESPACE") or OWN_NAMESPACE


def _function() -> str:
    return os.environ.get("AWS_LAMBDA_FUNCTION_NAME") or OUTSIDE_LAMBDA
