"""Parts of the user's trace, by the Tracer that the user has made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from aws_lambda_powertools import Tracer


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
