"""``lambda-once list`` and ``watch``: unfinished tokens, overdue and held ones first."""

from __future__ import annotations

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from lambda_once.core.clock import stamp
from lambda_once.dynamodb.retry import MOST_KEYS
from lambda_once.errors import StoreUnavailable
from lambda_once.operations.decisions import HELD
from lambda_once.operations.listing import Counts, confirmed, count_unfinished, unfinished
from lambda_once.operations.times import duration_text, time_text
from lambda_once.operations.tokens import STUCK, UNFINISHED, Filter, Status, parts_of, token_status
from lambda_once_tools.cli.options import Access, with_filter, with_table
from lambda_once_tools.cli.render import console, entry_json, labelled, line, tokens_at
from lambda_once_tools.cli.scans import SCAN, UNLISTED, YES, current_list, rescan, searching

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from rich.console import RenderableType

    from lambda_once.errors import Misconfigured
    from lambda_once.stores.row import Entry

_RELEASED: Final = "for work that was released and has not run since: lambda-once list --released --scan"
ROWS_OF_A_TABLE: Final = 100
"""Default limit of rows in a table; JSON has all rows."""
COUNTED: Final = (Status.IN_PROGRESS, Status.OVERDUE, Status.HELD, Status.RELEASED)
"""What `watch` counts."""
FLAGS: Final = {
    "overdue": Status.OVERDUE,
    "held": Status.HELD,
    "in_progress": Status.IN_PROGRESS,
    "released": Status.RELEASED,
}
_TO_DO: Final = STUCK | {Status.RELEASED}
"""Statuses that end a list with exit code 1."""
_READ: Final = frozenset({Status.HELD, Status.RELEASED})
"""Whose rows are read, too: they have the reason, and the last decision."""


class Listed:
    """Counts the entries that pass through it, and stops at a limit."""

    def __init__(self, limit: int | None, now: datetime) -> None:
        self.counts: Counter[Status] = Counter()
        self.cut = False
        self._limit = limit
        self._now = now

    def through(self, entries: Iterable[Entry]) -> Iterator[Entry]:
        for entry in entries:
            if self.counts.total() == self._limit:
                self.cut = True
                return
            self.counts[token_status(entry.record, self._now)] += 1
            yield entry


class Chosen(NamedTuple):
    """Which tokens to list, and how."""

    wanted: Filter
    statuses: frozenset[Status]
    reads: frozenset[Status]
    """Tokens whose rows are read, too."""
    limit: int | None
    by_function: bool
    wide: bool
    scan: bool

    def words(self) -> dict[Status, str]:
        """Return what was asked for, as a person reads it."""
        return {
            status: words_of(status, scan=self.scan) for status in FLAGS.values() if status in self.statuses
        }


@click.command("list")
@click.option("--overdue", is_flag=True, help="Tokens whose lease has expired without an outcome.")
@click.option("--held", is_flag=True, help="Tokens held for manual review, and why.")
@click.option("--in-progress", is_flag=True, help="Tokens with a lease that has not expired.")
@click.option(
    "--released",
    is_flag=True,
    help="Tokens released by a decision, and not run since; with --scan, by whatever released them.",
)
@with_filter
@click.option(
    "--limit",
    type=click.IntRange(1),
    metavar="NUMBER",
    help=f"List at most this many.  [default: {ROWS_OF_A_TABLE} in a table, all as JSON]",
)
@click.option("--by-function", is_flag=True, help="Count tokens by function instead of listing them.")
@click.option("--wide", is_flag=True, help="Also who acquired each token, and until when its lease runs.")
@click.option("--consistent", is_flag=True, help="Read each row, and omit tokens that have changed since.")
@SCAN
@YES
@with_table
def list_command(
    access: Access,
    wanted: Filter,
    limit: int | None,
    *,
    by_function: bool,
    wide: bool,
    consistent: bool,
    scan: bool,
    yes: bool,
    **flags: bool,
) -> None:
    """
    List unfinished tokens: overdue, then held, then in progress.

    --overdue, --held, --in-progress and --released may be combined; without any of them, the first three
    are listed. The list comes from the index, which follows the table within about a second; --consistent
    also reads each row. The rows of held and released tokens are always read: they have the reason and the
    last decision. --error lists held tokens, unless you ask for others. For what a decision released,
    --older-than and --newer-than refer to the release.

    The list has what a decision released. Work that its own function released, after an exception, is on no
    list: --released --scan has it, with its last error and until when its row is kept.

    Rows that cannot be read are named last, on standard error.

    Where the watchdog lists by the table's stream, the list is as good as its last run: if none has read the
    stream for 15 minutes, nothing is listed, and --scan reads the table.

    Exit code: 0 no listed token is overdue, held or released; 1 one is (with --scan, also one that its
    function released: whether a delivery is left is unknown); 2 the list is not current, a row cannot be
    read, bad input or no table.
    """
    access.table.may_omit_outcome = wanted.error is None
    asked = frozenset(status for flag, status in FLAGS.items() if flags[flag])
    statuses = asked or (UNFINISHED if wanted.error is None else HELD)
    reads = statuses if consistent or wanted.error is not None else statuses & _READ
    if by_function and not consistent and wanted.error is None:
        reads = frozenset()
    bound = limit or (ROWS_OF_A_TABLE if access.output.is_table else None)
    chosen = Chosen(wanted, statuses, reads, None if by_function else bound, by_function, wide, scan)
    running, released = Status.IN_PROGRESS in statuses, Status.RELEASED in statuses
    with (
        searching(access, scan=scan, yes=yes, running=running, released=released),
        access.output.naming_malformed() as malformed,
    ):
        _list(access, chosen, malformed)


def _list(access: Access, chosen: Chosen, malformed: list[Misconfigured]) -> None:
    output, now = access.output, access.table.now()
    listed = Listed(chosen.limit, now)
    entries = listed.through(_entries(access, chosen, now, malformed))
    if chosen.by_function:
        output.rows(_functions(entries, chosen, now), partial(_functions_table, chosen))
    else:
        output.rows((entry_json(entry, now) for entry in entries), tokens_at(now, wide=chosen.wide))
    _summarise(access, chosen, listed, now)
    if any(listed.counts[status] for status in _TO_DO):
        raise click.exceptions.Exit(1)


def _entries(
    access: Access, chosen: Chosen, now: datetime, malformed: list[Misconfigured]
) -> Iterator[Entry]:
    entries = unfinished(access.table, chosen.statuses, now, malformed)
    matching = (entry for entry in entries if chosen.wanted.matches(entry.record, now))
    if not chosen.reads:
        return matching
    page = min(MOST_KEYS, chosen.limit or MOST_KEYS)
    rows = confirmed(access.table, matching, now, malformed, chosen.reads, page)
    return (entry for entry in rows if chosen.wanted.matches(entry.record, now))


def _summarise(access: Access, chosen: Chosen, listed: Listed, now: datetime) -> None:
    say, shown = access.output.say, listed.counts.total()
    filtered = chosen.wanted != Filter()
    if listed.cut:
        counts = count_unfinished(access.table, now, chosen.statuses)
        whole = _counts_text({status: counts.of(status) for status in FLAGS.values()}, chosen)
        say(f"first {shown:,} shown; {whole} in the whole table{', unfiltered' if filtered else ''}")
    elif shown == 0:
        is_all = chosen.statuses == UNFINISHED and not filtered
        say(f"nothing is overdue, held or in progress; {_RELEASED}" if is_all else "no matching token")
    else:
        say(_counts_text(listed.counts, chosen))
    if Status.RELEASED in chosen.statuses and not chosen.scan:
        say(UNLISTED)
    if shown and not chosen.by_function:
        say("next: lambda-once show TOKEN")


def _counts_text(counts: Mapping[Status, int], chosen: Chosen) -> str:
    return ", ".join(f"{counts[status]:,} {word}" for status, word in chosen.words().items())


def _functions(entries: Iterable[Entry], chosen: Chosen, now: datetime) -> list[dict[str, Any]]:
    """
    Count *entries* by service and name, those with most to do first.

    null: a count that was not asked for, and the function of a row that is no token.
    """
    counts: dict[tuple[str | None, str | None], Counter[Status]] = {}
    for entry in entries:
        name = parts_of(entry.record.token)
        function = (None, None) if name is None else (name.service, name.name)
        counts.setdefault(function, Counter())[token_status(entry.record, now)] += 1
    fields = {status: field_of(status, scan=chosen.scan) for status in FLAGS.values()}
    rows: list[dict[str, Any]] = [
        {"service": service, "name": name}
        | {field: found[status] if status in chosen.statuses else None for status, field in fields.items()}
        for (service, name), found in counts.items()
    ]
    return sorted(rows, key=lambda row: [-(row[field] or 0) for field in fields.values()])


def words_of(status: Status, *, scan: bool) -> str:
    """Return what a count is of: of released work the list has only what a decision released."""
    return "released by a decision" if status is Status.RELEASED and not scan else status.words


def field_of(status: Status, *, scan: bool) -> str:
    """Return its name in JSON."""
    return "releasedByDecision" if status is Status.RELEASED and not scan else status.value


def _functions_table(chosen: Chosen, rows: Sequence[Mapping[str, Any]], width: int) -> RenderableType:
    """Render *rows* as lines, the names last: whatever their length, the terminal wraps nothing else."""
    from rich.console import Group

    del width
    heads = {field_of(status, scan=chosen.scan): word for status, word in chosen.words().items()}
    lines = [line(*((f"{head:>7}  ", "bold") for head in heads.values()), ("function", "bold"))]
    for row in rows:
        counts = (f"{row[status]:>{max(len(head), 7)},}  " for status, head in heads.items())
        lines.append(line(*counts, f"{row['service']}/{row['name']}" if row["name"] else "no token"))
    return Group(*lines)


# -- watch


@click.command("watch")
@click.option(
    "--interval",
    type=click.FloatRange(1),
    default=5,
    show_default=True,
    metavar="SECONDS",
    help="Pause between rounds.",
)
@click.option("--count", type=click.IntRange(1), metavar="NUMBER", help="Stop after this many rounds.")
@SCAN
@YES
@with_table
def watch_command(access: Access, interval: float, count: int | None, *, scan: bool, yes: bool) -> None:
    """
    Count tokens in progress, overdue, held, and released but not run since, until Ctrl-C.

    Live on a terminal; elsewhere, and as JSON, one line per round. A change since the last round stands
    beside the count: 5 (+3). A round without a response is reported, and the next one follows. One round
    sends some 24 queries to the index, most of half a read unit; with --scan each reads the whole table.

    The list has what a decision released (releasedByDecision as JSON); --scan counts all that is released,
    also by its function, after an exception.

    Exit code: 0 stopped by Ctrl-C, or nothing was overdue, held or released in the last round; 1 something
    was; 2 the list is not current (lambda-once list --help), bad input or no table.
    """
    table, output = access.table, access.output
    last: Counts | None = None
    before: Counts | None = None
    rounds = 0
    try:
        again = " in each round"
        searched = searching(access, scan=scan, yes=yes, again=again, running=True, released=True)
        with searched, _screen(access) as screen:
            if not scan:
                output.say(UNLISTED)
            while True:
                now = table.now()
                try:
                    if rounds:
                        rescan(access, released=True) if scan else current_list(access)
                    before, last = last, count_unfinished(table, now)
                    _print_counts(access, Round(last, before, now, scan=scan), screen)
                except StoreUnavailable as silent:
                    if rounds == 0:
                        raise
                    output.say(f"{stamp(now)}  no response: {silent.__cause__ or silent}")
                rounds += 1
                if rounds == count:
                    break
                table.clock.sleep(interval)
    except KeyboardInterrupt:
        return
    if last is not None and any(last.of(status) for status in _TO_DO):
        raise click.exceptions.Exit(1)


def _screen(access: Access) -> AbstractContextManager[Any]:
    """Return what shows the rounds in one place; without a terminal a context of None: rounds are lines."""
    from rich.live import Live

    screen = console()
    live = access.output.is_table and screen.is_terminal
    return Live(console=screen, auto_refresh=False) if live else nullcontext()


class Round(NamedTuple):
    """The counts of one round, and those of the round before; None: it is the first."""

    counts: Counts
    before: Counts | None
    now: datetime
    scan: bool

    def trends(self) -> dict[Status, str]:
        """Return the numbers of `COUNTED`, each with its change since the last round, if there was one."""
        counts, before = self.counts, self.before
        changes = {
            status: 0 if before is None else counts.of(status) - before.of(status) for status in COUNTED
        }
        return {
            status: f"{counts.of(status):,} ({change:+,})" if change else f"{counts.of(status):,}"
            for status, change in changes.items()
        }


def _print_counts(access: Access, shown: Round, screen: Any) -> None:
    if screen is not None:
        screen.update(_counts_table(shown), refresh=True)
    elif access.output.is_table:
        click.echo(_counts_line(shown))
    else:
        row = counts_json(shown)
        access.output.rows([row]) if access.output.form == "jsonl" else access.output.one(row, "")


def _counts_line(shown: Round) -> str:
    numbers = {
        status: f"{number} {words_of(status, scan=shown.scan)}" for status, number in shown.trends().items()
    }
    if shown.counts.oldest is not None:
        numbers[Status.OVERDUE] += f", the oldest by {duration_text(shown.now - shown.counts.oldest)}"
    return f"{stamp(shown.now)}  {', '.join(numbers.values())}"


def counts_json(shown: Round) -> dict[str, Any]:
    """Return the counts of *shown* as JSON values."""
    oldest = shown.counts.oldest
    return {
        "at": stamp(shown.now),
        **{field_of(status, scan=shown.scan): shown.counts.of(status) for status in COUNTED},
        "oldestOverdueSeconds": None if oldest is None else int((shown.now - oldest).total_seconds()),
    }


_ALARMING: Final = {Status.OVERDUE: "bold red", Status.HELD: "yellow"}


def _counts_table(shown: Round) -> RenderableType:
    rows = [("at (UTC)", time_text(shown.now, shown.now), "")]
    for status, number in shown.trends().items():
        style = _ALARMING.get(status, "") if shown.counts.of(status) else ""
        rows.append((words_of(status, scan=shown.scan), number, style))
    if shown.counts.oldest is not None:
        rows.append(("oldest overdue", duration_text(shown.now - shown.counts.oldest), ""))
    return labelled(rows)
