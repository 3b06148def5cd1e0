"""One run of the watchdog: count, say, look at what is overdue, settle what may be settled, sweep."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.record import Record, State
from lambda_once.errors import Misconfigured, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Tally
from lambda_once.operations.acting import Actions, Decided, ProbeFailed
from lambda_once.operations.cursors import WATCHDOG_ROW, Cursor
from lambda_once.operations.names import parts_of
from lambda_once.operations.overdue import PAGE, Census, advanced, census, place_from, place_text, walk
from lambda_once.operations.settling import Verdict
from lambda_once.operations.sweeping import has_ttl, sweep
from lambda_once.stores.contract import Refused, Rejected, Unanswered
from lambda_once.stores.rows import record_of, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime, timedelta

    from lambda_once.core.clock import Deadline
    from lambda_once.observability.reporter import Reporter
    from lambda_once.operations.table import TokenTable
    from lambda_once.stores.contract import FinishAnswer, Unfinished

RESERVE: Final = 5.0
"""Seconds before the end of the invocation from which nothing new is begun: a request may take three."""
WITHOUT_CONTEXT: Final = 60.0
"""Seconds that a run has where nobody says: the time limit of the sample stack's function."""

_OUTCOMES: Final = {
    Verdict.DONE: ("completed", Event.COMPLETED),
    Verdict.NOT_DONE: ("released", Event.RELEASED),
    Verdict.HOLD: ("newlyHeld", Event.HELD),
}


class Rounds:
    """What the runs of one environment share."""

    def __init__(
        self, table: TokenTable, actions: Actions, reporter: Reporter, bounds: Bounds, *, sweeps: bool | None
    ) -> None:
        """*sweeps* None: the table is asked, once."""
        self.table = table
        self.actions = actions
        self.reporter = reporter
        self.bounds = bounds
        self._sweeps = sweeps

    def run(self, context: Any) -> dict[str, Any]:
        """
        Make one run, and return what it found and did. *context* is Lambda's, None: one minute.

        What was found is measured before anything is done about it. Raises `StoreUnavailable` and
        `Misconfigured`, the latter for a row that cannot be read only when the others were looked at.
        """
        deadline = self.table.deadline(_remaining(context))
        now = self.table.now()
        before = now - self.bounds.grace
        found = census(self.table, before, deadline)
        oldest = 0.0 if found.oldest is None else (now - found.oldest).total_seconds()
        self._tell(found, oldest)
        look = _Look(self, before, deadline)
        try:
            more = look.at(found)
            swept = self._swept(deadline)
        finally:
            self.reporter.flush(look.tally)
        if look.unreadable is not None:
            raise look.unreadable
        return {
            "overdue": found.missing,
            "oldestSeconds": oldest,
            "held": found.waiting,
            **{
                name: look.counts[name]
                for name in ("checked", "released", "completed", "newlyHeld", "refused")
            },
            "swept": swept,
            "truncated": more,
        }

    def _tell(self, found: Census, oldest: float) -> None:
        """Measure *found*, zeros too: an alarm on a watchdog that does not run needs them."""
        counted = {"missingTasks": found.missing, "heldTokens": found.waiting}
        self.reporter.measure(counted | {"oldestOverdueSeconds": oldest})
        beyond, highest = found.beyond(self.table.shards)
        if beyond:
            reason = (
                f"{beyond} unfinished tokens are in shards up to {highest}, and LAMBDA_ONCE_STATUS_SHARDS is "
                f"{self.table.shards} here: give the watchdog the number that the functions have"
            )
            self.reporter.log(Details(Event.SHARD_OUT_OF_RANGE, reason=reason))

    def _swept(self, deadline: Deadline) -> int:
        until = deadline.earlier(RESERVE)
        if until.passed():
            return 0
        if self._sweeps is None:
            self._sweeps = not has_ttl(self.table, deadline)
        return sweep(self.table, until, deadline) if self._sweeps else 0


class Bounds(NamedTuple):
    """How much one run looks at, and from when on a token is overdue."""

    rows: int
    grace: timedelta


class _Look:
    """One run's look at what is overdue: page by page, so that memory does not grow with their number."""

    def __init__(self, rounds: Rounds, before: datetime, deadline: Deadline) -> None:
        self._table = rounds.table
        self._actions = rounds.actions
        self._reporter = rounds.reporter
        self._rows = rounds.bounds.rows
        self._before = before
        self._deadline = deadline
        self._until = deadline.earlier(RESERVE)
        self.counts: Counter[str] = Counter()
        self.tally = Tally()
        self.unreadable: Misconfigured | None = None

    def at(self, found: Census) -> bool:
        """
        Look at what *found* counted, from where the last run stopped; return whether there is more.

        Where there is none the next run begins anew. A run that fails has moved nothing but what it settled.
        """
        if not found.overdue:
            return False
        cursor = Cursor(self._table.transport, WATCHDOG_ROW)
        place = place_from(cursor.read(self._deadline))
        entries = walk(self._table, found.overdue, place, self._before, self._deadline)
        bounded = islice(entries, self._rows)
        more = True
        while not self._until.passed():
            chunk = tuple(islice(bounded, PAGE))
            looked = self._looked_at(chunk)
            place = advanced(place, chunk[:looked])
            if len(chunk) < PAGE or looked < len(chunk):
                more = looked < len(chunk) or next(entries, None) is not None
                break
        cursor.write(place_text(place) if more and place else None, self._deadline)
        return more

    def _looked_at(self, chunk: Sequence[Unfinished]) -> int:
        """Say and settle what of *chunk* is overdue indeed; return how many of it there was time for."""
        decided, looked = [], 0
        for record in self._read(chunk):
            if self._until.passed():
                break
            looked += 1
            if record is not None and record.state is State.IN_PROGRESS and record.lapsed(self._before):
                self._say(Event.OVERDUE, record)
                decided += self._decided(record)
        self.counts["checked"] += looked
        self._settle(decided)
        return looked

    def _read(self, chunk: Sequence[Unfinished]) -> Iterator[Record | None]:
        """Yield the rows of *chunk*, read consistently: the index may be behind, and lists nothing else."""
        keys = [{"lockToken": text(token)} for token in dict.fromkeys(entry.token for entry in chunk)]
        rows = self._table.transport.items(keys, self._deadline, None) if keys else {}
        for entry in chunk:
            try:
                row = rows.pop(entry.token, None)  # a token that moved meanwhile may be listed twice
                yield None if row is None else record_of(row)
            except Misconfigured as wrong:
                self.unreadable = self.unreadable or wrong
                yield None

    def _decided(self, record: Record) -> list[Decided]:
        action = self._actions.of(record.token)
        if action is None:
            return []
        try:
            return [self._actions.decide(action, record, self._table.now())]
        except ProbeFailed as failed:
            self._say(Event.PROBE_FAILED, record, error=str(failed))
            return []

    def _settle(self, decided: Sequence[Decided]) -> None:
        """Write what was *decided*, several at once; what somebody else changed meanwhile stays as it is."""

        def write(each: Decided) -> FinishAnswer:
            (answer,) = self._table.store.finish([each.write], self._deadline)
            return answer

        failed = [
            (each, answer)
            for each, answer in zip(decided, self._table.transport.each(decided, write), strict=True)
            if not self._settled(each, answer)
        ]
        for each, answer in failed:
            if isinstance(answer, Rejected):
                raise answer.error
            token = each.record.token
            message = f"nobody knows whether the verdict on {token} was written: the next run looks again"
            raise StoreUnavailable(message, token=token)

    def _settled(self, each: Decided, answer: FinishAnswer) -> bool:
        """Count and say that *each* was written, or that somebody was faster; neither: False."""
        if isinstance(answer, Unanswered | Rejected):
            return False
        if isinstance(answer, Refused):
            self.counts["refused"] += 1
            return True
        counted, event = _OUTCOMES[each.verdict]
        self.counts[counted] += 1
        self._say(event, each.record, reason=each.because)
        return True

    def _say(
        self, event: Event, record: Record, *, error: str | None = None, reason: str | None = None
    ) -> None:
        name = parts_of(record.token)
        late = None
        if event is Event.OVERDUE:
            late = (self._table.now() - record.expected_completion).total_seconds()
        details = Details.of_row(
            event,
            record,
            name=None if name is None else name.name,
            delivery=record.delivery,
            seconds=late,
            error=error,
            reason=reason,
        )
        self._reporter.report(details, self.tally)


def _remaining(context: Any) -> float:
    """Return the seconds that Lambda leaves the invocation."""
    tells = getattr(context, "get_remaining_time_in_millis", None)
    return WITHOUT_CONTEXT if tells is None else tells() / 1000
