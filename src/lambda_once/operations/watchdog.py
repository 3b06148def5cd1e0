"""
The watchdog: a scheduled function that reports overdue tokens, and resolves those that you allow.

    handler = watchdog("tokens", actions={"orders/ship*": "release", "orders/charge": was_it_charged})

A run counts, reports, checks what is overdue, resolves what it may, and sweeps. It is idempotent, and
concurrent runs are safe: each token is resolved by one write, conditional on the row as it was read.
`handler` in this module is ready-made, and reads its options from the environment.
"""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import cache, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.core.lifecycle import Record
from lambda_once.core.variables import OF_WATCHDOG, Listing, given, sound_listing
from lambda_once.core.writes import Complete, Hold, Release, Write
from lambda_once.errors import Misconfigured, OnceError, StoreUnavailable
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter, Tally
from lambda_once.operations.listing import (
    MOST_NAMED,
    PAGE,
    Counts,
    Place,
    Recent,
    advanced,
    count_recent,
    count_stuck,
    place_from,
    place_text,
    readable,
    walk,
)
from lambda_once.operations.stream import NO_READING, Reading, StreamReader, leave_stream
from lambda_once.operations.sweep import has_ttl, sweep_expired
from lambda_once.operations.table import WATCHDOG_ROW, Cursor, TokenTable
from lambda_once.operations.times import CorrectedClock
from lambda_once.operations.tokens import Status, parts_of
from lambda_once.operations.watchdog_actions import Action, Actions, OverdueProbe, ProbeFailed
from lambda_once.stores.contract import Refused, Unanswered, WriteAnswer
from lambda_once.stores.row import Entry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lambda_once.core.clock import Deadline
    from lambda_once.observability.reporter import AnyLogger, Namespaced

    Handler = Callable[[Any, Any], dict[str, Any]]

GRACE: Final = timedelta(seconds=10)
"""
How long after its lease a token counts as overdue.

The lease has a margin of 2 s for late kills and clocks already; the index may be slightly behind the table,
and a token that completed at the last moment should not raise an alarm.
"""
TIMES: Final = 3
"""How often one token is released before it is held for manual review."""
ROWS: Final = 1_000
"""Overdue tokens that one run checks: one to three seconds on dynoxide 3.2.0, on two busy cores."""
LAST_SECONDS: Final = 5.0
"""Seconds before the end of the invocation from which nothing new is begun: a request may take three."""
SECONDS_WITHOUT_CONTEXT: Final = 60.0
"""Seconds of a run without a Lambda context: the timeout of the sample stack's function."""

_OUTCOMES: Final = {
    Complete: ("completed", Event.COMPLETED),
    Release: ("released", Event.RELEASED),
    Hold: ("newlyHeld", Event.HELD),
}
_RETURNED: Final = {
    "missingTasks": "overdue",
    "oldestOverdueSeconds": "oldestSeconds",
    "heldTokens": "held",
    "tokensInProgress": "inProgress",
}
"""What a run returns in place of the metrics' names."""
_COUNTED: Final = ("checked", "released", "completed", "newlyHeld", "refused")


def watchdog(  # noqa: PLR0913  (one keyword an option: the signature is the documentation)
    table: str | None = None,
    client: Any = None,
    clock: Clock | None = None,
    *,
    actions: Mapping[str, Action] | None = None,
    times: int = TIMES,
    rows: int = ROWS,
    metrics: Namespaced | None = None,
    logger: AnyLogger | None = None,
    service: str | None = None,
    grace: timedelta = GRACE,
    sweep: bool | None = None,
    listing: Literal["stream", "at_once"] | None = None,
) -> Handler:
    """
    Return a Lambda handler; each call is one run. Connects on the first.

    *actions*: what to do about overdue tokens, by patterns (`fnmatch`) of ``service/name`` or name; the
    first match counts. ``"release"`` releases them. A probe gets a `Lapsed`, without the work's arguments,
    and returns ``Done(result)``, NOT_DONE or UNKNOWN (plain or awaitable): the token is completed, released
    or held. If it raises, the token stays unchanged. After *times* releases by the watchdog the token is
    held. A token that matches no pattern is only reported. *rows*: how many a run checks; the next run
    continues after them. *sweep*: delete rows past their ttl; None: if the table has no TTL, which is queried
    once per environment. *listing*: "stream" if functions leave lost work to be listed by the watchdog, which
    then reads the table's stream first, in half of its time; by default LAMBDA_ONCE_LISTING, else "at_once".
    Then a checkpoint that a watchdog of the other mode has left ends in one scan, from an hour after it on.

    A run returns ``{"overdue", "newlyOverdue", "oldestSeconds", "held", "inProgress", "newlyReleased",
    "releasedTokens", "checked", "released", "completed", "newlyHeld", "refused", "swept", "truncated"}``:
    numbers of tokens, seconds, and whether overdue tokens were left unchecked. Of released tokens it counts
    those that a decision released, which have not run since. If it reads a stream, also
    ``{"listed", "streamRecords", "streamLagSeconds", "streamGap"}``: tokens that it listed, records that it
    read, how far it is behind, and whether the list has a gap. What it lists, it counts and acts on as soon
    as the index has it, at the latest one run later. It raises `StoreUnavailable` and `Misconfigured`, which
    Lambda's Errors metric counts, those of the stream when all else is done; the next run continues. Raises
    `Misconfigured` for invalid options.
    """
    allowed = Actions(actions or {}, times)
    if rows < 1:
        raise Misconfigured(f"rows is {rows}: a run must check 1 or more overdue tokens")
    reporter = Reporter(service, metrics=metrics, logger=logger)
    judging = CorrectedClock(SystemClock()) if clock is None else clock
    if isinstance(judging, CorrectedClock):
        judging.warn = partial(reporter.warn, Event.CLOCK_SKEW)

    mode = None if listing is None else sound_listing("listing", listing)

    @cache
    def connected() -> Watchdog:
        bounds = Bounds(rows, grace)
        return Watchdog(TokenTable(table, client, judging, mode), allowed, reporter, bounds, sweeps=sweep)

    def handler(event: Any, context: Any = None) -> dict[str, Any]:
        del event
        return connected().run(context)

    return handler


def handler(event: Any, context: Any = None) -> dict[str, Any]:
    """
    Make one run, configured by the environment. Raises as `watchdog`; invalid settings: `Misconfigured`.

    LAMBDA_ONCE_TABLE and LAMBDA_ONCE_LISTING: as for the functions.
    LAMBDA_ONCE_WATCHDOG_RELEASE: comma-separated patterns of functions whose overdue tokens are released.
    LAMBDA_ONCE_WATCHDOG_TIMES, LAMBDA_ONCE_WATCHDOG_ROWS: whole numbers.
    LAMBDA_ONCE_WATCHDOG_SWEEP: true or false; unset: true if the table has no TTL.
    """
    return _from_environment()(event, context)


@cache
def _from_environment() -> Handler:
    values: dict[str, Any] = {name: parse(name, given(name)) for name, parse in OF_WATCHDOG.items()}
    patterns = values["LAMBDA_ONCE_WATCHDOG_RELEASE"].split(",")
    release: dict[str, Action] = {pattern.strip(): "release" for pattern in patterns if pattern.strip()}
    times, rows = values["LAMBDA_ONCE_WATCHDOG_TIMES"], values["LAMBDA_ONCE_WATCHDOG_ROWS"]
    return watchdog(
        actions=release,
        times=TIMES if times is None else times,
        rows=ROWS if rows is None else rows,
        sweep=values["LAMBDA_ONCE_WATCHDOG_SWEEP"],
    )


# -- one run


class Bounds(NamedTuple):
    """How many tokens one run checks, and how long after its lease a token is overdue."""

    rows: int
    grace: timedelta


class Watchdog:
    """The shared state of the runs of one environment."""

    def __init__(
        self, table: TokenTable, actions: Actions, reporter: Reporter, bounds: Bounds, *, sweeps: bool | None
    ) -> None:
        """*sweeps* None: decided by whether the table has TTL, which is queried once."""
        self.table = table
        self.actions = actions
        self.reporter = reporter
        self.bounds = bounds
        self._sweeps = sweeps
        self._gap = partial(reporter.warn, Event.STREAM_GAP)
        self._reader = StreamReader(table, gap=self._gap, malformed=self.log_malformed)
        self._has_left = False
        """Whether nobody reads the stream, and no checkpoint is left."""

    def run(self, context: Any) -> dict[str, Any]:
        """
        Make one run; return what it found and did. Without a *context* of Lambda it has one minute.

        The stream comes first, in half of the time; what fails there is raised when all else is done.
        Metrics are written before anything is resolved. Raises `StoreUnavailable` and `Misconfigured`; for
        rows that cannot be read, only after the others have been checked, and each has been logged.
        """
        remaining = getattr(context, "get_remaining_time_in_millis", None)
        deadline = self.table.deadline(SECONDS_WITHOUT_CONTEXT if remaining is None else remaining() / 1000)
        reading = self._read_stream(deadline.within(deadline.remaining() / 2))
        now = self.table.now()
        before = now - self.bounds.grace
        found = count_stuck(self.table, now, before, deadline, reading.kept)
        gauges = _gauges(found, count_recent(self.table, found, now, before, deadline), now)
        gauges["tokensInProgress"] += len(reading.kept)
        if reading.lag_seconds is not None and reading.failed is None:
            gauges["streamLagSeconds"] = reading.lag_seconds
        self.reporter.measure(gauges)  # zeros too: an alarm on a watchdog that does not run needs them
        if found.in_progress_beyond:
            reason = f"{found.of(Status.IN_PROGRESS)} tokens or more are in progress: no more are counted"
            self.reporter.warn(Event.COUNT_TRUNCATED, reason)
        check = _Check(self, before, deadline)
        try:
            truncated = check.overdue(found)
            self.reporter.measure({"watchdogTruncated": float(truncated), **check.tally.drain()})
            swept = self._swept(deadline)
        finally:
            self.reporter.flush(check.tally)
        try:
            check.raise_malformed()
        finally:
            if reading.failed is not None:
                raise reading.failed
        return {
            **{_RETURNED.get(name, name): value for name, value in gauges.items()},
            **({} if reading is NO_READING else reading.counts),
            **{name: check.counts[name] for name in _COUNTED},
            "swept": swept,
            "truncated": truncated,
        }

    def _read_stream(self, deadline: Deadline) -> Reading:
        """Read the stream, in stream mode; else end what another mode has left, if it has."""
        if self.table.listing is Listing.STREAM:
            return self._reader.read(deadline)
        if self._has_left:
            return NO_READING
        reading = leave_stream(self.table, deadline, self._gap, self.log_malformed)
        self._has_left = reading is None
        return NO_READING if reading is None else reading

    def log_malformed(self, row: Misconfigured) -> None:
        self.reporter.log(Details(Event.MALFORMED_ROW, row.token, reason=str(row)))

    def _swept(self, deadline: Deadline) -> int:
        until = deadline.earlier(LAST_SECONDS)
        if until.passed():
            return 0
        if self._sweeps is None:
            self._sweeps = not has_ttl(self.table, deadline)
        return sweep_expired(self.table, until, deadline) if self._sweeps else 0


def _gauges(found: Counts, recent: Recent, now: datetime) -> dict[str, float]:
    """Return the metrics of one run."""
    return {
        "missingTasks": found.of(Status.OVERDUE),
        "newlyOverdue": recent.newly_overdue,
        "oldestOverdueSeconds": 0.0 if found.oldest is None else (now - found.oldest).total_seconds(),
        "heldTokens": found.of(Status.HELD),
        "tokensInProgress": found.of(Status.IN_PROGRESS),
        "newlyReleased": recent.newly_released,
        "releasedTokens": recent.left_over,
    }


class _Check:
    """The check of one run, page by page, so that memory does not grow with the number of tokens."""

    def __init__(self, watchdog: Watchdog, before: datetime, deadline: Deadline) -> None:
        self._table = watchdog.table
        self._actions = watchdog.actions
        self._reporter = watchdog.reporter
        self._rows = watchdog.bounds.rows
        self._before = before
        self._deadline = deadline
        self._until = deadline.earlier(LAST_SECONDS)
        self.counts: Counter[str] = Counter()
        self.tally = Tally()
        self._malformed: list[Misconfigured] = []
        self._log_malformed = watchdog.log_malformed
        self._cursor = Cursor(self._table.transport, WATCHDOG_ROW)
        self._place: Place = {}

    def overdue(self, found: Counts) -> bool:
        """
        Check the overdue tokens from where the last run stopped; return whether some are left.

        If none are left, the next run starts anew. A run that fails has changed only what it resolved; one
        that a probe ended is continued behind that probe's token.
        """
        if not found.overdue:
            return False
        self._place = place_from(self._cursor.read(self._deadline))
        entries = walk(self._table, found.overdue, self._place, self._before, self._deadline, self._malformed)
        bounded = islice(entries, self._rows)
        more = True
        while not self._until.passed():
            chunk = tuple(islice(bounded, PAGE))
            checked = self._checked(chunk)
            self._place = advanced(self._place, chunk[:checked])
            if len(chunk) < PAGE or checked < len(chunk):
                more = checked < len(chunk) or next(entries, None) is not None
                break
        self._save_place(more=more)
        return more

    def _save_place(self, *, more: bool) -> None:
        self._cursor.write(place_text(self._place) if more and self._place else None, self._deadline)

    def _checked(self, chunk: Sequence[Entry]) -> int:
        """
        Report and resolve what of *chunk* is still overdue; return how many there was time to check.

        What needs no probe comes first, in concurrent writes. A probe may never return: before it is asked,
        what was decided is written, and the place is saved behind its token.
        """
        probes: list[tuple[int, Record, OverdueProbe]] = []
        decided: list[tuple[Record, Write]] = []
        for number, record in enumerate(self._read(chunk), 1):
            # In progress alone, which is all of guarantee 13 here: a decision of a person stands while the
            # row has the attempt id that it wrote, and a row in progress has that of an acquisition.
            if record is None or not record.lapsed(self._before):
                continue
            action = self._actions.of(record.token)
            if callable(action):
                probes.append((number, record, action))
                continue
            self._report(Event.OVERDUE, record)
            if action is not None:
                decided.append((record, self._actions.decide(action, record, self._table.now())))
        self.counts["checked"] += len(chunk) - len(probes)
        self._resolve(decided)
        start = self._place
        for number, record, probe in probes:
            if self._until.passed():
                return number - 1
            self._place = advanced(start, chunk[:number])
            self._save_place(more=True)
            self.counts["checked"] += 1
            self._report(Event.OVERDUE, record)
            try:
                write = self._actions.decide(probe, record, self._table.now())
            except ProbeFailed as failed:
                self._report(Event.PROBE_FAILED, record, error=str(failed))
            else:
                self._resolve([(record, write)])
        return len(chunk)

    def _read(self, chunk: Sequence[Entry]) -> Iterator[Record | None]:
        """Yield the rows of *chunk*, read consistently: the index may be stale."""
        rows = self._table.rows((entry.record.token for entry in chunk), self._deadline)
        for entry in chunk:
            # A token whose lease was extended while the index was read may be listed twice.
            row = rows.pop(entry.record.token, None)
            yield None if row is None else readable(row, self._malformed)

    def raise_malformed(self) -> None:
        """Log what could not be read, `MOST_NAMED` rows at most, and raise `Misconfigured` for all."""
        if not self._malformed:
            return
        for each in self._malformed[:MOST_NAMED]:
            self._log_malformed(each)
        first, count = self._malformed[0], len(self._malformed)
        others = "" if count == 1 else f"; and {count - 1} more: see the log events {Event.MALFORMED_ROW}"
        raise Misconfigured(f"{first}{others}", token=first.token)

    def _resolve(self, decided: Sequence[tuple[Record, Write]]) -> None:
        """Send the writes concurrently. Rows that have changed since they were read stay unchanged."""

        def send(each: tuple[Record, Write]) -> WriteAnswer:
            return self._table.write(each[1], self._deadline)

        failed: OnceError | None = None  # raised once all have been counted
        for (record, write), answer in zip(decided, self._table.transport.each(decided, send), strict=True):
            if isinstance(answer, Misconfigured):
                failed = failed or answer
            elif isinstance(answer, Unanswered):
                message = f"outcome of the update to {record.token} is unknown; a later run re-checks it"
                failed = failed or StoreUnavailable(message, token=record.token)
            elif isinstance(answer, Refused):
                self.counts["refused"] += 1
            else:
                counted, event = _OUTCOMES[type(write.change)]
                self.counts[counted] += 1
                self._report(event, record, reason=write.decisions[-1].because)
        if failed is not None:
            raise failed

    def _report(
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
