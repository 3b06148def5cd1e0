"""``lambda-once show`` and ``find``: one token and its story, by token, key or a part of its key."""

from __future__ import annotations

import sys
from datetime import datetime, timedelta
from itertools import islice
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never

import click
from click.core import ParameterSource

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Corrupt, Sealed, Unavailable
from lambda_once.errors import Misconfigured
from lambda_once.operations.decisions import LONGEST_RETENTION_DAYS, is_forgotten
from lambda_once.operations.listing import readable
from lambda_once.operations.story import next_steps, short_memory, undoing
from lambda_once.operations.table import was_denied
from lambda_once.operations.tokens import STUCK, parts_of, token_status
from lambda_once_tools.cli.ledgers import LedgerOptions, show_ledger
from lambda_once_tools.cli.options import TENANT, Access, NotFound, with_table
from lambda_once_tools.cli.render import record_json, story_json, story_lines, tokens_at
from lambda_once_tools.cli.scans import announce_scan, describe_size, report_scan
from lambda_once_tools.search import (
    SEGMENTS,
    Lookup,
    Pattern,
    Scanned,
    by_known_names,
    by_parts,
    by_token,
    containing,
    delivered_as,
    exactly,
    names_from,
    parts_are_missing,
    parts_present,
    result_text,
    scan,
    table_size,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PAGES_OF_SHOW: Final = 1_024
"""Pages that `show` reads without --scan: 1 GB, 131,072 read units."""
PAGES_OF_FIND: Final = 2_000
"""About 2 GB, and 256,000 read units."""
MOST_SHOWN: Final = 5
"""Names of functions that a warning has."""
_OF_TOKENS: Final = ("service", "name", "names", "scope", "tenant", "scan", "result")
"""Options of `show` that a ledger has not."""
IN_PART: Final = "not read to its end"
OMITTED: Final = "result and error were not read: dynamodb:GetItem is allowed only for other attributes"
PARTS_MISSING: Final = "WARNING: parts of its result are missing: a duplicate gets ResultUnavailable"


# -- show


class ShowOptions(NamedTuple):
    """The arguments as they were typed."""

    token: str
    service: str | None
    name: str | None
    scope: str | None
    tenant: str | None
    names: str
    scan: bool
    result: bool
    retention: int
    log_group: str | None


@click.command("show")
@click.argument("token")
@click.argument("sort", required=False)
@click.option(
    "--service", metavar="NAME", envvar="POWERTOOLS_SERVICE_NAME", help="With --name: the service of the key."
)
@click.option("--name", metavar="NAME", help="The protected function whose key TOKEN is.")
@click.option("--scope", metavar="TEXT", help="With --name: the scope of the key.")
@TENANT
@click.option(
    "--names",
    metavar="LIST",
    default="",
    envvar="LAMBDA_ONCE_NAMES",
    show_envvar=True,
    help="service/name of your functions, comma-separated: a key is looked up under these first.",
)
@click.option("--scan", is_flag=True, help="Look for a key in the whole table, even if it exceeds 1 GB.")
@click.option("--result", is_flag=True, help="Print only the stored result, as JSON.")
@click.option(
    "--retention",
    type=click.IntRange(0),
    default=LONGEST_RETENTION_DAYS,
    show_default=True,
    metavar="DAYS",
    help="How long your queues keep messages; warns of outcomes that are kept for less. 0: no warning.",
)
@click.option(
    "--log-group",
    metavar="NAME",
    envvar="LAMBDA_ONCE_LOG_GROUP",
    show_envvar=True,
    help="The log group of your functions, printed with the queries.",
)
@click.option(
    "--ledger", metavar="TABLE", help="Show the item of this ledger whose key is TOKEN, or TOKEN and SORT."
)
@click.option("--id", metavar="ID", help="With --ledger: whether and when this id was added.")
@click.option(
    "--ledger-key",
    metavar="NAMES",
    help="Key attributes, comma-separated, which are text.  [default: those of DescribeTable]",
)
@with_table
def show_command(
    access: Access,
    *,
    sort: str | None,
    ledger: str | None,
    id: str | None,  # noqa: A002  (as the option is called)
    ledger_key: str | None,
    **options: Any,
) -> None:
    """
    Show one token: who acquired it, its outcome, what a duplicate gets, and queries for its log.

    TOKEN is a token, from the log or from lambda-once list; with --service and --name, a key of that
    function; otherwise a key of any function. A key is looked up under the known names (--names, and those of
    unfinished tokens). Unless --names has it, the whole table is read, too, and the cost is printed; a table
    of more than 1 GB requires --scan. A warning names what was left out. If several functions have the key,
    all are listed.

    With --ledger: the values of a ledger's item and, with --id, whether and when the id was added.

    Exit code: 0 success; 1 the token is overdue or held, its result is missing, or there is no such token,
    item or id; 2 several tokens have the key, the table was not read to its end, bad input or no table.
    """
    given = ShowOptions(**options)
    if given.token == "":
        raise click.UsageError("TOKEN is empty: pass a lock token or a key")
    if ledger is not None:
        for option in _OF_TOKENS:
            if click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE:
                raise click.UsageError(f"--{option} is for tokens: omit it with --ledger")
        key = (given.token,) if sort is None else (given.token, sort)
        show_ledger(access, LedgerOptions(key, id, ledger_key))
        return
    if sort is not None or id is not None:
        raise click.UsageError("SORT and --id are for a ledger: pass --ledger TABLE")
    if given.name is not None and given.service is None:
        raise click.UsageError("--name requires --service or POWERTOOLS_SERVICE_NAME")
    if given.name is None and given.scope is not None:
        raise click.UsageError("--scope requires --service and --name")
    access.table.may_omit_outcome = not given.result
    record = (
        _of_function(access, given)
        or by_token(access.table, given.token, given.tenant)
        or _by_key(access, given)
    )
    if given.result:
        _print_result(access, record)
    else:
        _print_story(access, record, given)


def _of_function(access: Access, given: ShowOptions) -> Record | None:
    """Return the row of a key of the named function; None if no function was named. Raises `NotFound`."""
    if given.name is None or given.service is None:
        return None
    record = by_parts(access.table, given.service, given.name, given.scope, given.token, given.tenant)
    if record is None:
        where = f"{given.service}/{given.name}"
        where += "".join(
            f" {word} {part}"
            for word, part in (("of tenant", given.tenant), ("in scope", given.scope))
            if part is not None
        )
        raise NotFound(
            f"{where} has no key {given.token} in the table {access.table.name}: "
            f"lambda-once find {quote(given.token)} searches all names and scopes"
        )
    return record


def _by_key(access: Access, given: ShowOptions) -> Record:
    """Return the only row of a key; if there are several, list them and exit."""
    table, key = access.table, given.token
    names = names_from(given.names)
    known = by_known_names(table, key, names, table.now(), given.tenant)
    malformed = {error.token: error for error in known.malformed}
    found = {record.token: record for record in known.records}
    if found and names and not given.scan:
        _say_where(access, known)
    else:
        found |= {record.token: record for record in _in_the_whole_table(access, given, known, malformed)}
    if malformed and not found:
        raise next(iter(malformed.values()))
    if not found:
        raise NotFound(_not_found(access, given, known))
    records = tuple(found.values())
    if len(records) > 1 or malformed:
        _print_candidates(access, records, given, tuple(malformed.values()))
    return records[0]


def _not_found(access: Access, given: ShowOptions, known: Lookup) -> str:
    similar = f"; unfinished and similar: {', '.join(known.similar)}" if known.similar else ""
    key, name = given.token, parts_of(given.token)
    whose = "" if given.tenant is None else f" of tenant {given.tenant}"
    return (
        f"no token and no key {key}{whose} in the table {access.table.name}{similar}. It never arrived, it "
        "has expired (keep=), or its key is another one: a hash of the payload, or the key of an API's "
        "client. Under history=, the old version may have done it: once.outcome asks its records, too. "
        f"To search for part of it: lambda-once find {quote(key if name is None else name.key)}"
    )


def _say_where(access: Access, known: Lookup, why: str = "") -> None:
    """Print that functions were left out, which may have the key, too."""
    more = len(known.names) - MOST_SHOWN
    names = ", ".join(known.names[:MOST_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
    access.output.say(f"WARNING: only looked under {names}{why}; --scan searches all functions")


def _in_the_whole_table(
    access: Access, given: ShowOptions, known: Lookup, malformed: dict[str | None, Misconfigured]
) -> tuple[Record, ...]:
    """
    Return all rows of a key; none, with a warning, if it is known and the rest costs too much.

    *malformed* gets those that cannot be read, by their tokens.
    """
    table, size = access.table, table_size(access.table)
    if size is not None and size.pages > PAGES_OF_SHOW and not given.scan:
        if known.records:
            _say_where(access, known, f": the table has {describe_size(size)}")
            return ()
        raise click.UsageError(
            f"no known name has the key {given.token}, and the table has {describe_size(size)}: pass "
            "--service and --name, LAMBDA_ONCE_NAMES, or --scan to read all of it"
        )
    most = sys.maxsize if given.scan else PAGES_OF_SHOW
    announce_scan(access, size, most)
    try:
        scanned = list(scan(table, exactly(given.token)._replace(tenant=given.tenant), most))
    except Misconfigured as error:
        if not (known.records and was_denied(error)):
            raise
        _say_where(access, known, ": dynamodb:Scan is denied")
        return ()
    report_scan(access, sum(each.pages for each in scanned), sum(each.units for each in scanned))
    if not scanned[-1].complete:
        if not known.records and not any(each.records for each in scanned):
            raise click.UsageError(
                f"no key {given.token} was found, but the table was {IN_PART}: pass --scan"
            )
        access.output.say(f"the table was {IN_PART}: pass --scan")
    unread = [error for each in scanned for error in each.malformed]
    tokens = [record.token for each in scanned for record in each.records]
    rows = table.rows(tokens)
    found = [readable(rows[token], unread, table.record) for token in tokens if token in rows]
    malformed |= {error.token: error for error in unread}
    return tuple(record for record in found if record is not None)


def _print_candidates(
    access: Access, records: Sequence[Record], given: ShowOptions, malformed: Sequence[Misconfigured]
) -> Never:
    if given.result:
        tokens = ", ".join(record.token for record in records)
        raise click.UsageError(
            f"{len(records)} tokens have the key {given.token}, pass one of them: {tokens}"
        )
    now = access.table.now()
    access.output.rows((record_json(record, now) for record in records), tokens_at(now))
    count = len(records) + len(malformed)
    access.output.say(f"{count} tokens have the key {given.token}; next: lambda-once show TOKEN")
    access.output.say_malformed(malformed)
    raise click.exceptions.Exit(2)


def _print_story(access: Access, record: Record, given: ShowOptions) -> None:
    now, output = access.table.now(), access.output
    present = parts_present(access.table, record)
    rendered = story_lines(record, now, present, given.log_group) if output.is_table else ""
    output.one(story_json(record, now, present, given.log_group), rendered)
    if record.omits_outcome:
        output.say(OMITTED)
    warning = short_memory(record, timedelta(days=given.retention))
    if warning is not None:
        output.say(f"WARNING: {warning}")
    missing = parts_are_missing(record, present)
    if missing:
        output.say(PARTS_MISSING)
    for step in next_steps(record, now):
        output.say(f"next: {step}")
    back = undoing(record)
    if back is not None:
        output.say(f"to undo the last decision: {back}")
    if missing or token_status(record, now) in STUCK or isinstance(record.stored, Unavailable):
        raise click.exceptions.Exit(1)


def _print_result(access: Access, record: Record) -> None:
    status = token_status(record, access.table.now())
    if record.state is not State.COMPLETE:
        _no_result(access, f"it is {status.words}")
    if record.error is not None:
        _no_result(access, "an error is stored")
    if isinstance(record.stored, Unavailable):
        _no_result(access, f"it {_why_unavailable(record)}")
    try:
        text = result_text(access.table, record)
    except Sealed:
        _no_result(access, "it is sealed: only a function with its seal= can open it")
    except Corrupt as corrupt:
        _no_result(access, str(corrupt))
    if text is None:
        _no_result(access, "parts of it are missing")
    access.output.stored(text)


def _why_unavailable(record: Record) -> str:
    if record.stored is Unavailable.WITHHELD:
        return "was not stored: it sets a cookie or says no-store, and no user is named"
    return "was forgotten" if is_forgotten(record) else "could not be stored when the work was done"


def _no_result(access: Access, why: str) -> Never:
    access.output.say(f"no result: {why}")
    raise click.exceptions.Exit(1)


# -- find


class Search:
    """One search: the rows read so far, and their cost."""

    def __init__(self, pattern: Pattern, limit: int, malformed: list[Misconfigured]) -> None:
        """*malformed* gets rows with a matching key that cannot be read."""
        self.malformed = malformed
        self.pattern = pattern
        self.limit = limit
        self.pages = 0
        self.units = 0.0
        self.shown = 0
        self.by_digest = 0
        self.complete = False

    def through(self, scanned: Iterator[Scanned]) -> Iterator[Record]:
        """Yield the matching rows as they arrive, at most `limit`."""
        for each in scanned:
            self.pages += each.pages
            self.units += each.units
            self.malformed += each.malformed
            self.complete = each.complete
            for record in islice(each.records, self.limit - self.shown):
                self.shown += 1
                self.by_digest += record.token.rpartition("/")[2] in self.pattern.digests
                yield record
            if self.shown == self.limit:
                return


@click.command("find")
@click.argument("text", required=False)
@click.option("--delivery", metavar="ID", help="Instead of TEXT: the id of a message, an event or a request.")
@TENANT
@click.option("--ignore-case", is_flag=True, help="Ignore case.")
@click.option(
    "--limit",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    metavar="NUMBER",
    help="Stop after this many tokens.",
)
@click.option(
    "--segments",
    type=click.IntRange(1, 64),
    default=SEGMENTS,
    show_default=True,
    metavar="NUMBER",
    help="Segments of the scan, of which at most ten are read concurrently.",
)
@click.option(
    "--max-pages",
    type=click.IntRange(1),
    default=PAGES_OF_FIND,
    show_default=True,
    metavar="NUMBER",
    help="Stop after this many pages of 1 MB.",
)
@with_table
def find_command(
    access: Access,
    text: str | None,
    *,
    delivery: str | None,
    tenant: str | None,
    ignore_case: bool,
    limit: int,
    segments: int,
    max_pages: int,
) -> None:
    """
    Find tokens whose key or scope contains TEXT, finished ones too; or the token of a delivery.

    Reads the whole table, page by page, and prints the cost before and after. A key that is not a short
    text is stored as its SHA-256: pass the whole key, as text, number or JSON value.

    --delivery takes the whole id, such as the messageId of a message in a dead-letter queue, or the requestId
    of an asynchronous invocation that failed. A token stores delivery and request of its last acquisition.

    Exit code: 0 found; 1 not found; 2 a matching row cannot be read, nothing was found and the table was
    not read to its end, bad input or no table.
    """
    pattern = _pattern(text, delivery, ignore_case=ignore_case)._replace(tenant=tenant)
    table, output = access.table, access.output
    announce_scan(access, table_size(access.table), max_pages, segments=segments)
    now = table.now()
    with output.naming_malformed() as malformed:
        search = Search(pattern, limit, malformed)
        found = search.through(scan(table, search.pattern, max_pages, segments))
        output.rows((_scanned_json(record, now) for record in found), tokens_at(now))
        _summarise(access, search)
        if search.shown == 0:
            raise click.exceptions.Exit(1 if search.complete else 2)


def _pattern(text: str | None, delivery: str | None, *, ignore_case: bool) -> Pattern:
    if (text is None) == (delivery is None):
        raise click.UsageError("pass either TEXT or --delivery ID")
    if text == "":
        raise click.UsageError("TEXT is empty, so every token would match: use lambda-once list")
    if text is not None:
        return containing(text, ignore_case=ignore_case)
    if not delivery:
        raise click.UsageError("--delivery is empty: pass the id of a message, an event or a request")
    if ignore_case:
        raise click.UsageError("--ignore-case cannot be combined with --delivery: an id must match exactly")
    return delivered_as(delivery)


def _scanned_json(record: Record, now: datetime) -> dict[str, Any]:
    """Return a row of a scan, which leaves results out, so that there may be one."""
    row = record_json(record, now)
    del row["result"]
    return row


def _summarise(access: Access, search: Search) -> None:
    say = access.output.say
    whose = "" if search.pattern.tenant is None else f" of tenant {search.pattern.tenant}"
    report_scan(access, search.pages, search.units)
    if search.by_digest:
        say(f"{search.by_digest:,} found by SHA-256: the key is stored hashed")
    if search.shown == search.limit:
        say(f"stopped at {search.limit:,}: there may be more, see --limit")
    elif not search.complete:
        say(f"stopped after {search.pages:,} pages: the table was {IN_PART}, see --max-pages")
    if search.shown != 0:
        say("next: lambda-once show TOKEN")
    elif search.pattern.delivery is not None:
        say(
            f"no token{whose} was last acquired for the delivery {search.pattern.delivery!r}. A duplicate "
            "acquires none: search the log for its id, or find the token by part of its key: "
            "lambda-once find TEXT"
        )
    else:
        say(
            f"no key or scope{whose} contains {search.pattern.text!r} or is its SHA-256. A key that is a "
            "hash of the whole payload cannot be found by a part of it: lambda-once explain prints the token "
            "of an event"
        )
