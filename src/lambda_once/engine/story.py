"""Tells what happened to a call: one log line, one count, the hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details

if TYPE_CHECKING:
    from lambda_once.core.record import Record
    from lambda_once.engine.call import Call
    from lambda_once.engine.ownership import Ownership
    from lambda_once.observability.reporter import Reporter


class Story:
    """The reporter, spoken to in calls, attempts and records."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter
        self.segment = reporter.segment
        self.flush = reporter.flush

    def of_attempt(
        self,
        happening: Event,
        attempt: Ownership,
        *,
        seconds: float | None = None,
        error: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Tell what our own attempt did."""
        call = attempt.call
        if not self._reporter.shows(happening):
            self._reporter.count(happening, call.invocation.tally)
            return
        details = Details(
            event=happening,
            name=call.name,
            token=call.token,
            attempt=attempt.id,
            fence=attempt.fence,
            locked_by=call.invocation.locked_by,
            created=attempt.created,
            expected_completion=attempt.lease,
            delivery=call.delivery,
            seconds=seconds,
            error=error,
            reason=reason,
        )
        self._reporter.report(details, call.invocation.tally)

    def of_exception(self, attempt: Ownership, error: BaseException) -> None:
        """Log the traceback of an exception that ends with us: nobody else would ever show it."""
        details = Details(
            Event.RAISED,
            name=attempt.call.name,
            token=attempt.token,
            attempt=attempt.id,
            error=type(error).__name__,
        )
        self._reporter.report(details, attempt.call.invocation.tally, error)

    def of_call(
        self,
        happening: Event,
        call: Call,
        *,
        error: str | None = None,
        reason: str | None = None,
        differing: str | None = None,
    ) -> None:
        """Tell what became of a call that has no attempt."""
        details = Details(
            event=happening,
            name=call.name,
            token=call.token,
            delivery=call.delivery,
            error=error,
            reason=reason,
            differing=differing,
        )
        self._reporter.report(details, call.invocation.tally)

    def of_record(
        self,
        happening: Event,
        call: Call,
        record: Record,
        *,
        error: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Tell what a call met: the row of somebody else's attempt."""
        details = Details.of_row(
            happening,
            record,
            name=call.name,
            delivery=call.delivery,
            other_delivery=record.delivery,
            error=error,
            reason=reason,
        )
        self._reporter.report(details, call.invocation.tally)
