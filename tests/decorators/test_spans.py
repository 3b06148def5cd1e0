"""Spans of OpenTelemetry: two an execution, in the trace of the invocation, and a duplicate linked to it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import Tracer

from lambda_once import Once
from lambda_once.errors import InProgress
from lambda_once.observability import traces
from lambda_once.testing import sqs_event
from tests.decorators.rig import Rig, elsewhere, in_memory


class Traced:
    """A tracer of the real SDK, and the spans that it has exported."""

    def __init__(self, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False, **options)
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer: Tracer = provider.get_tracer("shop")

    def invoke(self, handler: Callable[..., Any], event: Any, context: Any) -> Any:
        """Call *handler* in a trace of its own, in another environment."""
        return elsewhere(self._invoke, handler, event, context)

    def _invoke(self, handler: Callable[..., Any], event: Any, context: Any) -> Any:
        with self.tracer.start_as_current_span("invocation", set_status_on_exception=False):
            return handler(event, context)

    def spans(self, name: str) -> list[ReadableSpan]:
        """The exported spans called *name*, the first ended first."""
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


def facts(span: ReadableSpan) -> tuple[str, dict[str, Any]]:
    """Return the name and the attributes of *span*."""
    return span.name, dict(span.attributes or {})


def links(span: ReadableSpan) -> list[tuple[int, int, dict[str, Any]]]:
    """Return trace, span and attributes of each link of *span*."""
    return [(link.context.trace_id, link.context.span_id, dict(link.attributes or {})) for link in span.links]


def link_to(span: ReadableSpan, attempt: str) -> tuple[int, int, dict[str, Any]]:
    """Return the link that leads to *span*."""
    assert span.context is not None
    return span.context.trace_id, span.context.span_id, {"attempt": attempt}


def handler_of(once: Once, form: str, work: Callable[[], object] = lambda: None) -> Callable[..., Any]:
    """A handler that calls *work*, plain or async."""

    @once.event(key="order", name="charge")
    def plain(event: dict[str, Any]) -> str:
        work()
        return "paid"

    @once.event(key="order", name=plain)
    async def asynchronous(event: dict[str, Any]) -> str:
        await asyncio.to_thread(work)
        return "paid"

    return plain if form == "plain" else asynchronous


forms = pytest.mark.parametrize("form", ["plain", "async"])


@forms
def test_two_spans_and_a_linked_replay(rig: Rig, form: str) -> None:
    """Each is in the trace of its invocation; the duplicate's leads to the acquisition of the attempt."""
    traced = Traced()
    handler = handler_of(rig.new(tracer=traced.tracer), form)
    for request in ("r1", "r2"):
        assert traced.invoke(handler, {"order": "5"}, rig.context(request)) == "paid"
    first, second = traced.spans("invocation")
    acquired, refused = traced.spans("once.acquire")
    (completed,) = traced.spans("once.complete")
    assert facts(acquired) == ("once.acquire", {"outcome": "Won"})
    assert facts(completed) == ("once.complete", {"outcome": "Written"})
    assert facts(refused) == ("once.acquire", {"outcome": "Refused"})
    assert [span.parent for span in (acquired, completed, refused)] == [
        first.context,
        first.context,
        second.context,
    ]
    assert links(acquired) == links(completed) == []
    assert links(refused) == [link_to(acquired, rig.row().attempt_id)]


@forms
def test_an_attempt_that_failed_is_linked(rig: Rig, form: str) -> None:
    """A retry meets the row of the attempt before; nothing of its exception is in any span."""
    traced = Traced()
    messages = ["private"]

    def work() -> None:
        if messages:
            raise ValueError(messages.pop())

    handler = handler_of(rig.new(tracer=traced.tracer, on_lapse="hold"), form, work)
    with pytest.raises(ValueError, match="private"):
        traced.invoke(handler, {"order": "5"}, rig.context("r1"))
    attempt = rig.row().attempt_id
    assert traced.invoke(handler, {"order": "5"}, rig.context("r2")) == "paid"
    failed, retried = traced.spans("once.acquire")
    assert links(retried) == [link_to(failed, attempt)]
    assert rig.row().trace == traces._traceparent_of(retried.context)
    ours = [*traced.spans("once.acquire"), *traced.spans("once.complete")]
    assert "private" not in "".join(span.to_json() for span in ours)


def test_a_batch_has_one_span_with_a_link_for_each_duplicate(rig: Rig) -> None:
    """Records of one batch were acquired in one span; a redelivered batch links to it once for each."""
    traced = Traced()

    @rig.new(tracer=traced.tracer).sqs(key="order", name="charge")
    def handler(record: Any) -> None: ...

    event = sqs_event({"order": "5"}, {"order": "6"})
    for request in ("r1", "r2"):
        assert traced.invoke(handler, event, rig.context(request)) == {"batchItemFailures": []}
    acquired, refused = traced.spans("once.acquire")
    assert facts(refused) == ("once.acquire", {"outcome": "Refused"})
    assert links(refused) == [link_to(acquired, row.attempt_id) for row in rig.rows()]


def test_a_duplicate_of_work_in_progress_is_linked(rig: Rig) -> None:
    """So its InProgress leads to the attempt that runs."""
    traced = Traced()
    once = rig.new(tracer=traced.tracer)
    refusals: list[type[BaseException]] = []

    def work() -> None:
        with pytest.raises(InProgress) as refused:
            traced.invoke(handler, {"order": "5"}, rig.context("r2"))
        refusals.append(refused.type)

    handler = handler_of(once, "plain", work)
    traced.invoke(handler, {"order": "5"}, rig.context("r1"))
    acquired, refused = traced.spans("once.acquire")
    assert refusals == [InProgress]
    assert links(refused) == [link_to(acquired, rig.row().attempt_id)]


@pytest.mark.parametrize("options", [{"sampler": ALWAYS_OFF}, None], ids=["not sampled", "no tracer"])
def test_what_is_not_sampled_is_not_in_the_row(rig: Rig, options: dict[str, Any] | None) -> None:
    """No link can lead to it; a duplicate that is sampled has none, and is replayed."""
    first = rig.new(tracer=None if options is None else Traced(**options).tracer)
    assert handler_of(first, "plain")({"order": "5"}, rig.context("r1")) == "paid"
    assert rig.row().trace is None
    traced = Traced()
    duplicate = handler_of(rig.new(tracer=traced.tracer), "plain")
    assert traced.invoke(duplicate, {"order": "5"}, rig.context("r2")) == "paid"
    (refused,) = traced.spans("once.acquire")
    assert links(refused) == []


def test_an_acquisition_without_a_trace_clears_an_earlier_one(rig: Rig) -> None:
    """A link never leads to another attempt than the row's."""
    traced = Traced()
    failing = handler_of(rig.new(tracer=traced.tracer), "plain", lambda: int("no"))
    with pytest.raises(ValueError, match="no"):
        traced.invoke(failing, {"order": "5"}, rig.context("r1"))
    assert rig.row().trace is not None
    assert handler_of(rig.new(), "plain")({"order": "5"}, rig.context("r2")) == "paid"
    assert rig.row().trace is None


# -- a tracer that fails


class FailingSpan:
    """A span that fails at one step."""

    def __init__(self, step: str) -> None:
        self._step = step

    def _tried(self, step: str) -> None:
        if step == self._step:
            message = "private"
            raise OSError(message)

    def __enter__(self) -> Self:
        self._tried("enter")
        return self

    def __exit__(self, *_: object) -> None:
        self._tried("exit")

    def set_attribute(self, *_: object) -> None:
        self._tried("attribute")

    def get_span_context(self) -> Any:
        self._tried("context")
        return Traced().tracer.start_span("s").get_span_context()

    def add_link(self, *_: object) -> None:
        self._tried("link")


class FailingTracer:
    """A tracer whose spans fail at one step; "start" is its own."""

    def __init__(self, step: str) -> None:
        self._step = step

    def start_as_current_span(
        self,
        name: str,  # noqa: ARG002
        *,
        record_exception: bool,  # noqa: ARG002
        set_status_on_exception: bool,  # noqa: ARG002
    ) -> AbstractContextManager[Any]:
        span = FailingSpan(self._step)
        span._tried("start")
        return span


STEPS = ["start", "enter", "attribute", "context", "link", "exit"]


def _survives(rig: Rig, form: str, step: str) -> None:
    ran: list[int] = []
    handler = handler_of(rig.new(tracer=FailingTracer(step)), form, lambda: ran.append(1))
    found = [elsewhere(handler, {"order": "5"}, rig.context(request)) for request in ("r1", "r2")]
    assert (found, len(ran)) == (["paid", "paid"], 1)


@in_memory
@forms
@pytest.mark.parametrize("step", STEPS)
def test_a_tracer_that_raises_changes_no_outcome(
    rig: Rig, form: str, step: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever it fails at, the work runs once and is replayed; it is reported once, without its message."""
    _survives(rig, form, step)
    reported = [record for record in caplog.records if record.getMessage() == "once.report_failed"]
    assert [(vars(record)["once_name"], vars(record)["error"]) for record in reported] == [
        ("tracer", "OSError")
    ]
    assert "private" not in str([vars(record) for record in reported])


@in_memory
@pytest.mark.parametrize("step", STEPS)
def test_twin_without_the_guard(rig: Rig, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer that is called as it is decides the outcome."""

    def reported(self: object, part: str, error: Exception) -> None:
        raise error

    monkeypatch.setattr("lambda_once.observability.reporter.Reporter._failed", reported)
    with pytest.raises(OSError, match="private"):
        _survives(rig, "plain", step)


@in_memory
def test_a_row_with_a_malformed_trace_is_replayed(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    """There is no link to it, and that is reported."""
    traced = Traced()
    handler = handler_of(rig.new(tracer=traced.tracer), "plain")
    traced.invoke(handler, {"order": "5"}, rig.context("r1"))
    records = rig.ground.store.records  # type: ignore[attr-defined]
    records[rig.row().token] = rig.row()._replace(trace="00-zz")
    assert traced.invoke(handler, {"order": "5"}, rig.context("r2")) == "paid"
    assert links(traced.spans("once.acquire")[1]) == []
    assert "once.report_failed" in caplog.messages


@pytest.mark.parametrize(("tracer", "loaded"), [("None", False), ("trace.get_tracer('shop')", True)])
def test_opentelemetry_is_not_imported_unless_its_tracer_is_given(tracer: str, loaded: bool) -> None:
    """An extra costs no cold start of those without it."""
    imported = "from opentelemetry import trace\n" if loaded else ""
    program = (
        f"{imported}import sys\nfrom lambda_once import MemoryStore, Once\n"
        f"once = Once(store=MemoryStore(), service='s', tracer={tracer})\n"
        "for _ in '12': once.run('len', 'k', len, [1])\n"
        "sys.stderr.write(str('opentelemetry' in sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stderr == str(loaded)
