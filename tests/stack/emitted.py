"""The metrics that the stack's code emits, by running it in the environment that the template gives it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Reporter, Tally
from tests.kit.recorded import load

from .conftest import Template
from .named import target


class Emitted(NamedTuple):
    """One metric as CloudWatch stores it."""

    space: str
    metric: str
    dimensions: tuple[tuple[str, str], ...]
    """Names with their values, sorted."""


def as_function(monkeypatch: pytest.MonkeyPatch, template: Template, name: str) -> None:
    """
    Set what Lambda would: the template's variables as far as they are literal, and the function's name.

    The namespace of metrics is a parameter; its name is used for it, here and where `named` reads one.
    """
    variables = template["Globals"]["Function"]["Environment"]["Variables"]
    own = template["Resources"][name]["Properties"].get("Environment", {}).get("Variables", {})
    space = "POWERTOOLS_METRICS_NAMESPACE"
    for variable, value in (variables | own).items():
        if isinstance(value, str) or variable == space:
            monkeypatch.setenv(variable, target(value))
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", name)


def read(output: str) -> set[Emitted]:
    """Return the metrics of all embedded metric documents in *output*."""
    documents = [json.loads(line) for line in output.splitlines() if '"_aws"' in line]
    return {found for document in documents for found in _of_document(document)}


def everything(function_metrics: set[Emitted], capsys: pytest.CaptureFixture[str]) -> set[Emitted]:
    """
    Add, to what one function emitted, all else that it may: every metric of an event.

    Written by the same reporter in the same environment: nothing of namespace or dimensions is assumed.
    """
    reporter, tally = Reporter(), Tally()
    for event in Event:
        if event.metric is not None:
            tally.count(event.metric)
    reporter.flush(tally)
    return function_metrics | read(capsys.readouterr().out)


def send(handler: Callable[..., Any], event: str, context: object) -> None:
    """Hand one file of events/ to *handler*."""
    handler(load(event), context)


def _of_document(document: dict[str, Any]) -> set[Emitted]:
    return {
        Emitted(
            directive["Namespace"],
            metric["Name"],
            tuple(sorted((name, document[name]) for name in names)),
        )
        for directive in document["_aws"]["CloudWatchMetrics"]
        for names in directive["Dimensions"]
        for metric in directive["Metrics"]
    }
