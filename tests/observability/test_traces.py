from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self, cast

import pytest
from aws_lambda_powertools import Tracer
from aws_xray_sdk import global_sdk_config
from aws_xray_sdk.core import xray_recorder
from aws_xray_sdk.core.context import Context
from aws_xray_sdk.core.recorder import AWSXRayRecorder

from lambda_once.observability.reporter import Reporter

LOGGER = logging.getLogger("traced")


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[AWSXRayRecorder]:
    """Give X-Ray's own recorder with an open trace that is sent nowhere; the SDK's switch is put back."""
    before = global_sdk_config.sdk_enabled()
    global_sdk_config.set_sdk_enabled(True)
    monkeypatch.setattr(Tracer, "_config", dict(Tracer._default_config))
    recorder = AWSXRayRecorder()
    for opened in (recorder, xray_recorder):  # each opens a socket for good when it is made
        opened.emitter._socket.close()
    recorder.configure(service="shop", sampling=False, context=Context(), streaming_threshold=1000)
    recorder.begin_segment("invocation")
    yield recorder
    recorder.clear_trace_entities()
    global_sdk_config.set_sdk_enabled(before)


def traced(recorder: AWSXRayRecorder) -> Reporter:
    """Return a reporter with a tracer that writes to *recorder*."""
    return Reporter(logger=LOGGER, tracer=Tracer(disabled=False, auto_patch=False, provider=recorder))


def subsegments(recorder: AWSXRayRecorder) -> list[dict[str, Any]]:
    """Return the parts of the open trace as they would be sent."""
    return [segment.to_dict() for segment in recorder.current_segment().subsegments]


@dataclass
class FakeTracer:
    """A tracer that fails at one step: entering, annotating or leaving."""

    failing: str
    disabled: bool = False

    @property
    def provider(self) -> FakeTracer:
        return self

    def in_subsegment(self, _: str) -> FakeTracer:
        return self

    def _step(self, step: str) -> None:
        if step == self.failing:
            message = "private"
            raise OSError(message)

    def __enter__(self) -> Self:
        self._step("enter")
        return self

    def __exit__(self, *_: object) -> None:
        self._step("exit")

    def put_annotation(self, *_: str) -> None:
        self._step("annotate")


def test_a_subsegment_with_its_outcome(recorder: AWSXRayRecorder) -> None:
    """A segment is a closed subsegment of the user's trace, annotated, and with no exception in it."""
    with traced(recorder).segment("once.acquire") as segment:
        assert segment is not None
        segment.annotate("outcome", "Run")
    (subsegment,) = subsegments(recorder)
    assert (subsegment["name"], subsegment["annotations"]) == ("once.acquire", {"outcome": "Run"})
    assert "end_time" in subsegment


def test_what_is_raised_inside_passes_and_is_not_recorded(recorder: AWSXRayRecorder) -> None:
    """An exception passes as it is; its message, which may quote data, stays out of the trace."""
    with pytest.raises(ValueError, match="private"), traced(recorder).segment("once.complete"):
        int("private")
    (subsegment,) = subsegments(recorder)
    assert "end_time" in subsegment
    assert "private" not in str(subsegment)


def test_segments_nest(recorder: AWSXRayRecorder) -> None:
    """A segment entered within another is its part."""
    reporter = traced(recorder)
    with reporter.segment("once.acquire"), reporter.segment("once.complete"):
        pass
    (outer,) = subsegments(recorder)
    (inner,) = outer["subsegments"]
    assert (outer["name"], inner["name"]) == ("once.acquire", "once.complete")


def test_outside_a_trace(recorder: AWSXRayRecorder, caplog: pytest.LogCaptureFixture) -> None:
    """Where X-Ray has no trace open, the segment is entered, annotated and left: no effect, no complaint."""
    recorder.clear_trace_entities()
    recorder.configure(context_missing="IGNORE_ERROR")
    with traced(recorder).segment("once.acquire") as segment:
        assert segment is not None
        segment.annotate("outcome", "Run")
    assert recorder.current_subsegment() is None
    assert "once.report_failed" not in caplog.messages


@pytest.mark.parametrize("tracer", [None, FakeTracer("enter", disabled=True)], ids=["none", "disabled"])
def test_nothing_is_traced(tracer: FakeTracer | None, caplog: pytest.LogCaptureFixture) -> None:
    """Without a tracer, or with one switched off, there is nothing to annotate."""
    reporter = Reporter(logger=LOGGER, tracer=cast("Tracer | None", tracer))
    with reporter.segment("once.acquire") as segment:
        assert segment is None
    assert caplog.records == []


def test_no_tracer_is_made() -> None:
    """A Reporter without a tracer leaves the options that all Tracers share as they were."""
    before = dict(Tracer._config)
    with Reporter(logger=LOGGER).segment("once.acquire"):
        pass
    assert Tracer._config == before


@pytest.mark.parametrize("step", ["enter", "annotate", "exit"])
def test_a_tracer_that_raises(step: str, caplog: pytest.LogCaptureFixture) -> None:
    """A tracer that fails at any step stops nothing, and is logged once."""
    worked = []
    reporter = Reporter(logger=LOGGER, tracer=cast("Tracer", FakeTracer(step)))
    for number in range(2):
        with reporter.segment("once.acquire") as segment:
            assert segment is not None
            segment.annotate("outcome", "Run")
            worked.append(number)
    assert worked == [0, 1]
    (record,) = caplog.records
    assert record.getMessage() == "once.report_failed"
    assert vars(record).items() >= {"once_name": "tracer", "error": "OSError"}.items()
    assert "private" not in str(vars(record))
