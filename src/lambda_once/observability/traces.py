"""
Segments of the user's trace, by the Powertools Tracer they gave.

Without one nothing is traced. An own Tracer would not be safe: its options (patching, disabled, provider)
stand on the class, so making ours would change the user's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from aws_lambda_powertools import Tracer


class Segment(Protocol):
    """
    A part of the trace while it is entered. Never raises, never keeps an exception from passing.

    X-Ray keeps its open segments by thread: enter and leave on the same one, with no `await` between.
    """

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

    def annotate(self, key: str, value: str) -> None:
        """Make the segment findable by *key*: letters, digits and underscores only."""
        ...


class _NoSegment:
    """Where nothing is traced."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def annotate(self, key: str, value: str) -> None:
        pass


NO_SEGMENT: Final = _NoSegment()


class _TracedSegment:
    __slots__ = ("_complain", "_name", "_open", "_subsegment", "_tracer")

    def __init__(self, tracer: Tracer, name: str, complain: Callable[[str, Exception], object]) -> None:
        self._tracer = tracer
        self._name = name
        self._complain = complain

    def __enter__(self) -> Self:
        self._open = self._subsegment = None
        try:
            opened = self._tracer.provider.in_subsegment(self._name)
            self._subsegment = opened.__enter__()
            self._open = opened
        except Exception as error:  # noqa: BLE001 - a trace must not decide an outcome
            self._complain("tracer", error)
        return self

    def __exit__(self, *_: object) -> None:
        """Close the segment. The exception is kept from it: its message may quote data."""
        if self._open is None:
            return
        try:
            self._open.__exit__(None, None, None)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain("tracer", error)

    def annotate(self, key: str, value: str) -> None:
        if self._subsegment is None:  # X-Ray answers None outside a trace
            return
        try:
            self._subsegment.put_annotation(key, value)
        except Exception as error:  # noqa: BLE001 - as above
            self._complain("tracer", error)


def segment(tracer: Tracer | None, name: str, complain: Callable[[str, Exception], object]) -> Segment:
    """Return a segment called *name*, to be entered; what *tracer* raises goes to *complain* alone."""
    try:
        if tracer is None or tracer.disabled:
            return NO_SEGMENT
    except Exception as error:  # noqa: BLE001 - as above
        complain("tracer", error)
        return NO_SEGMENT
    return _TracedSegment(tracer, name, complain)
