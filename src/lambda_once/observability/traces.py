"""
Parts of the user's trace: subsegments of a Powertools Tracer (X-Ray), or spans of an OpenTelemetry tracer.

Neither library is imported unless the user has given its tracer.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from aws_lambda_powertools import Tracer


@runtime_checkable
class SpanTracer(Protocol):
    """The methods of an OpenTelemetry tracer that are called (`opentelemetry.trace.Tracer`)."""

    def start_as_current_span(
        self, name: str, *, record_exception: bool, set_status_on_exception: bool
    ) -> AbstractContextManager[Any]: ...


AnyTracer: TypeAlias = "Tracer | SpanTracer"


class Segment(Protocol):
    """
    A part of the trace while it is entered. Never raises, and suppresses no exception.

    X-Ray keeps its open segments by thread, OpenTelemetry its current span by context: enter and leave on the
    same one, with no `await` between.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def annotate(self, key: str, value: str) -> None:
        """Make the segment findable by *key*: letters, digits and underscores only."""
        ...

    def trace(self) -> str | None:
        """Return its W3C ``traceparent``; None where no link can lead to it: X-Ray, or not sampled."""
        ...

    def link(self, trace: str, attempt: str) -> None:
        """Link it to the segment of another *attempt*, by its ``traceparent``. X-Ray has no links."""
        ...


class _Guarded:
    """A segment that *opened* makes when it is entered. What the tracer raises goes to *failed* alone."""

    __slots__ = ("_failed", "_inner", "_open", "_opened")

    def __init__(
        self,
        opened: Callable[[], AbstractContextManager[Any]],
        failed: Callable[[str, Exception], object],
    ) -> None:
        self._opened = opened
        self._failed = failed

    def __enter__(self) -> Self:
        self._open: AbstractContextManager[Any] | None = None
        self._inner: Any = None
        try:
            opened = self._opened()
            self._inner = opened.__enter__()
            self._open = opened
        except Exception as error:  # noqa: BLE001 - a trace must not decide an outcome
            self._failed("tracer", error)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the segment. The exception is kept from it: its message may quote data."""
        if self._open is not None:
            self._tried(lambda opened: opened.__exit__(None, None, None), self._open)

    def _tried(self, step: Callable[[Any], object], subject: Any) -> Any:
        """Return *step* of *subject*; None without a subject, as for X-Ray outside a trace."""
        if subject is None:
            return None
        try:
            return step(subject)
        except Exception as error:  # noqa: BLE001 - as above
            self._failed("tracer", error)
            return None


class _Subsegment(_Guarded):
    __slots__ = ()

    def annotate(self, key: str, value: str) -> None:
        self._tried(lambda subsegment: subsegment.put_annotation(key, value), self._inner)

    def trace(self) -> None:
        return None

    def link(self, trace: str, attempt: str) -> None:
        del trace, attempt


class _Span(_Guarded):
    __slots__ = ()

    def annotate(self, key: str, value: str) -> None:
        self._tried(lambda span: span.set_attribute(key, value), self._inner)

    def trace(self) -> str | None:
        text: str | None = self._tried(lambda span: _traceparent_of(span.get_span_context()), self._inner)
        return text

    def link(self, trace: str, attempt: str) -> None:
        self._tried(lambda span: span.add_link(_span_context(trace), {"attempt": attempt}), self._inner)


def segment(tracer: AnyTracer, name: str, failed: Callable[[str, Exception], object]) -> Segment | None:
    """
    Return a segment called *name*, or None if tracing is off; what *tracer* raises goes to *failed* alone.

    There is no Tracer of our own: its options (patching, disabled, provider) are kept on the class, so that
    making one would change the user's.
    """
    try:
        if isinstance(tracer, SpanTracer):
            start = tracer.start_as_current_span
            return _Span(lambda: start(name, record_exception=False, set_status_on_exception=False), failed)
        if tracer.disabled:
            return None
    except Exception as error:  # noqa: BLE001 - as above
        failed("tracer", error)
        return None
    return _Subsegment(lambda: tracer.provider.in_subsegment(name), failed)


def _traceparent_of(context: Any) -> str | None:
    """Return a span's *context* as W3C's trace context has it; None if it is not sampled."""
    if not (context.is_valid and context.trace_flags.sampled):
        return None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def _span_context(traceparent: str) -> Any:
    """Return the span context that *traceparent* names. Raises ValueError for anything else."""
    from opentelemetry.trace import SpanContext, TraceFlags  # there is a tracer of it

    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
