"""
``lambda-once resolve``, ``redrive`` and ``forget``: decisions of a person, as writes to tokens.

A person sees the row, what the next delivery will do, and what would be lost, before anything is written; the
write requires the row as it was shown.
"""

from __future__ import annotations

import functools
import json
import re
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import chain
from math import isinf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never, TypedDict, Unpack, assert_never

import click

from lambda_once.core.clock import stamp
from lambda_once.core.codec import Codec
from lambda_once.core.lifecycle import Resolve, State
from lambda_once.core.results import TEXT_LIMIT, Inline, NotSerialisable, is_sealed, pack
from lambda_once.core.writes import Keep, Write, after_write
from lambda_once.errors import Misconfigured, OnceError
from lambda_once.operations.decisions import (
    LONGEST_RETENTION_DAYS,
    REDRIVE,
    Author,
    RedriveOutcome,
    decided,
    decided_by_person,
    delete_objection,
    drops_result,
    forget_objection,
    next_delivery,
    objection,
    release,
    to_release,
)
from lambda_once.operations.story import describe_decision, describe_outcome, describe_plan
from lambda_once.operations.tokens import STATUS, Status, is_request, parts_of, token_status
from lambda_once.stores.contract import Refused, Unanswered, Written
from lambda_once_tools.cli.advice import for_operator
from lambda_once_tools.cli.lists import ROWS_OF_A_TABLE
from lambda_once_tools.cli.options import (
    DURATION,
    SESSION,
    TENANT,
    Access,
    Consent,
    NotFound,
    with_consent,
    with_filter,
    with_table,
)
from lambda_once_tools.cli.render import discard_output, record_json, side_by_side, token_list
from lambda_once_tools.cli.scans import SCAN, searching
from lambda_once_tools.cli.search import PARTS_MISSING
from lambda_once_tools.search import by_token, parts_are_missing, parts_present

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lambda_once.core.lifecycle import Record
    from lambda_once.operations.tokens import Filter
    from lambda_once_tools.cli.options import AnyCommand

LONGEST_KEEP: Final = timedelta(days=3_650)
OVERDUE: Final = (
    ": it is unknown whether the work was done, and a release records that it was not. Ask the other system"
)
STDIN: Final = "-"
CACHES: Final = "cache: functions with cache= may return the old outcome for up to five minutes"


def _author(access: Access, consent: Consent) -> Author:
    caller = access.caller()
    if caller is None:
        access.output.say(f"your identity is unverified: {access.why_unverified}")
    return Author(consent.by, consent.because, caller=caller)


# -- one token: show its row, ask, write, report


class Deletion(NamedTuple):
    """The row is deleted, and the key with it."""

    record: Record


class Proposal(NamedTuple):
    """A write to a row, which the operator sees and confirms first."""

    before: Record
    now: datetime
    write: Write | Deletion | None
    """None: nothing may be written, because of *objection*."""
    objection: str
    about: Iterable[str]
    """What is printed before the question."""
    question: str
    erases_parts: bool = False
    decision: Mapping[str, str] = {}
    """What the JSON output has of the decision."""
    consequences: Mapping[str, str] = {}
    """What follows from it, by its name in the JSON output; a dry run prints it, too."""


_LABELS: Final = {"nextDelivery": "next delivery"}


def carry_out(access: Access, proposal: Proposal, consent: Consent) -> None:
    """Show the row, ask, write, and report. Exits with 1 if refused, with 2 without a response."""
    output, before, now, write = access.output, proposal.before, proposal.now, proposal.write
    output.show(side_by_side({"": before}, now))
    if write is None:
        _refuse(access, proposal, proposal.objection, before)
    for line in proposal.about:
        output.say(line)
    if consent.dry_run:
        _print_consequences(access, proposal, ", if it were written")
        output.say("dry run: nothing was written")
        _report(access, proposal, before, written=False)
        return
    if not consent.given(proposal.question):
        _refuse(access, proposal, "you declined", before)
    erased = access.table.erase_parts(before) if proposal.erases_parts else 0
    if erased:
        output.say(f"erased parts of its result: {erased}")  # whatever becomes of the row
    if not is_written(access, write):
        current = access.table.read(before.token)
        output.show(side_by_side({"as shown": before, "now": current}, now))
        _refuse(access, proposal, "the row has changed since it was shown", current, erased)
    after = None if isinstance(write, Deletion) else after_write(before, write)
    if after is None:
        output.say(f"{before.token}: deleted")
    else:
        output.show(side_by_side({"before": before, "now": after}, now))
        output.say(f"{before.token}: {describe_decision(after.decisions[-1])}")
    _print_consequences(access, proposal)
    output.say(CACHES)
    _report(access, proposal, after, written=True, erased=erased)


class OneToken(NamedTuple):
    """The token that a command is about, and what its row must have."""

    token: str
    tenant: str | None
    attempt: str | None


def with_token(command: AnyCommand) -> AnyCommand:
    """Add TOKEN, and what its row must have; the command gets a `OneToken` as ``one``."""

    @click.argument("token")
    @TENANT
    @click.option("--attempt", metavar="ID", help="Refuse unless the row still has this attempt id.")
    @functools.wraps(command)
    def wrapped(*args: Any, token: str, tenant: str | None, attempt: str | None, **options: Any) -> Any:
        return command(*args, one=OneToken(token, tenant, attempt), **options)

    return wrapped


def _row(access: Access, one: OneToken) -> Record:
    """Return the row of *one*. Raises `NotFound` if there is none, or if it isn't its tenant's."""
    token, tenant = one.token, one.tenant
    if token == "":
        raise click.UsageError("TOKEN is empty: pass a lock token")
    name = parts_of(token)
    if name is not None and tenant is not None and not name.is_of_tenant(tenant):
        raise NotFound(f"{token} is no token of tenant {tenant}, which would be its third part")
    record = by_token(access.table, token)
    if record is None:
        key = token if name is None else name.key
        raise NotFound(
            f"no token {token} in the table {access.table.name}: "
            f"lambda-once show {quote(key)} finds the token of a key"
        )
    return record


def _other_attempt(record: Record, attempt_id: str | None) -> str | None:
    """Return why *record* is not the row that was shown with *attempt_id*, if that is given."""
    if attempt_id in (None, record.attempt_id):
        return None
    return f"the row no longer has attempt {attempt_id}; it has {record.attempt_id}"


def is_written(access: Access, write: Write | Deletion) -> bool:
    """
    Send *write*; False: refused, because the row has changed.

    Without a response, exit code 2: the outcome is unknown. Raises `Misconfigured` if the table rejects the
    write for good.
    """
    if isinstance(write, Deletion):
        token, sign = write.record.token, "finds no token"
        answer = access.table.delete(write.record)
    else:
        token, sign = write.token, f"prints attempt {write.attempt_id}"
        answer = access.table.write(write)
    match answer:
        case Unanswered(why):
            access.output.say(
                f"lambda-once: it is unknown whether this was written: {why}. "
                f"It was if lambda-once show {token} {sign}; otherwise retry"
            )
            raise click.exceptions.Exit(2)
        case Misconfigured():
            raise answer
        case Refused():
            return False
        case Written():
            return True
        case _ as unreachable:
            assert_never(unreachable)


def _refuse(access: Access, proposal: Proposal, why: str, current: Record | None, erased: int = 0) -> Never:
    if erased:
        access.output.say(
            f"refused: {why}. Parts of its result that were erased before: {erased}. Run this command again "
            "to erase the rest"
        )
    else:
        access.output.say(f"refused, nothing was written: {why}")
    _report(access, proposal, current, written=False, erased=erased)
    raise click.exceptions.Exit(1)


def _print_consequences(access: Access, proposal: Proposal, condition: str = "") -> None:
    for name, text in proposal.consequences.items():
        access.output.say(f"{_LABELS.get(name, name)}{condition}: {text}")


def _report(
    access: Access, proposal: Proposal, current: Record | None, *, written: bool, erased: int = 0
) -> None:
    """Print the outcome as data; as a table it has been shown already."""
    if access.output.is_table:
        return
    before, now = proposal.before, proposal.now
    outcome = {
        "lockToken": before.token,
        **proposal.decision,
        "written": written,
        **({"erasedParts": erased} if proposal.erases_parts else {}),
        "shown": record_json(before, now),
        "now": None if current is None else record_json(current, now),
    }
    follows = {name: text if written else None for name, text in proposal.consequences.items()}
    access.output.one(outcome | follows, "")


# -- resolve


@click.command("resolve")
@with_token
@click.option("--done", is_flag=True, help="The work was done: duplicates get --result.")
@click.option("--not-done", is_flag=True, help="The work was not done: the next delivery runs.")
@click.option("--failed", is_flag=True, help="It failed for good: duplicates get an error with the reason.")
@click.option("--hold", is_flag=True, help="Unknown: nothing runs until the token is resolved.")
@click.option(
    "--result", metavar="FILE", help="JSON that duplicates get; - is standard input.  [default: null]"
)
@with_consent
@click.option(
    "--keep",
    type=DURATION,
    metavar="DURATION",
    help="How long the outcome is replayed; alone, for a complete token.  [default: 28d]",
)
@click.option("--force", is_flag=True, help="Even if the token is finished, or its lease has not expired.")
@click.option("--drop-result", is_flag=True, help="With --force: even if a stored result is lost.")
@with_table
def resolve_command(
    access: Access,
    one: OneToken,
    consent: Consent,
    *,
    result: str | None,
    keep: timedelta | None,
    force: bool,
    drop_result: bool,
    **flags: bool,
) -> None:
    """
    Resolve TOKEN: record that its work was done, was not done, failed for good, or is unknown.

    Shows the row, asks, and writes only if the row has not changed since. The row stores who decided, and
    why. A token in progress whose lease has not expired may be running, and a finished one has an
    outcome: both require --force.

    --done on a complete token, and --keep alone, change only how long its result is replayed. Whatever
    would lose a stored result also requires --drop-result, and first prints how to save it.

    --result is what every duplicate gets instead of the work's result. It must match the handler's
    declared return type; for an API it is the whole response object, {"statusCode": 200, "body": "..."}.
    It is stored in plain text, and seal_required=True accepts it. It also accepts the result of a
    complete token after --done: read that result first (show --result).

    --failed stores an error of kind Failed whose message is --because: duplicates raise it as
    StoredError.

    Exit code: 0 written; 1 not found, or refused (the row has changed, it requires --force, or you
    declined); 2 bad input, no table, or it is unknown whether it was written.
    """
    how = _chosen(flags, keep)
    _check_options(how, result, keep, consent)
    given = None if result is None else read_result(result)
    before, now = _row(access, one), access.table.now()
    if how is Resolve.KEEP and before.state is not State.COMPLETE:
        status = token_status(before, now).value
        raise click.UsageError(
            f"--keep alone is for a complete token, but {before.token} is {status}: pass --done"
        )
    text = None if given is None else given.text
    write = decided(before, how, _author(access, consent), now, result=text, keep=keep)
    why = _other_attempt(before, one.attempt) or _objection(
        before, how, write, force=force, drop_result=drop_result
    )
    follows = next_delivery(
        how,
        _until(write),
        with_result=given is not None,
        kept=before if isinstance(write.change, Keep) else None,
    )
    proposal = Proposal(
        before,
        now,
        write if why is None else None,
        why or "",
        _about(access, before, how, write, given),
        "Write it?",
        decision={"decision": how.value},
        consequences={"nextDelivery": follows, "redrive": REDRIVE[how]},
    )
    carry_out(access, proposal, consent)


def _chosen(flags: dict[str, bool], keep: timedelta | None) -> Resolve:
    chosen = [how for how in Resolve if flags.get(how.name.lower())]
    if not chosen and keep is not None:
        return Resolve.KEEP
    if len(chosen) != 1:
        raise click.UsageError("pass exactly one of --done, --not-done, --failed, --hold, or --keep alone")
    return chosen[0]


def _check_options(how: Resolve, result: str | None, keep: timedelta | None, consent: Consent) -> None:
    if result is not None and how is not Resolve.DONE:
        raise click.UsageError("--result requires --done: only work that was done has a result")
    if keep is not None and how is Resolve.HOLD:
        raise click.UsageError("--keep cannot be combined with --hold: a held token never expires")
    if keep is not None and not timedelta(0) < keep <= LONGEST_KEEP:
        raise click.UsageError("--keep must be longer than 0 and at most ten years")
    if result == STDIN and not (consent.yes or consent.dry_run):
        raise click.UsageError(
            "--result - reads standard input, so it cannot ask for confirmation: pass --yes"
        )


def _objection(before: Record, how: Resolve, write: Write, *, force: bool, drop_result: bool) -> str | None:
    """Return why nothing may be written without further options; None if it may."""
    why = None if force or how is Resolve.KEEP else objection(before, write.now)
    if why is not None:
        return f"{why}. Pass --force to resolve it anyway"
    if drops_result(before, write.change) and not drop_result:
        return f"its stored result would be lost. {_how_to_save(before)}, then pass --drop-result"
    return None


def _how_to_save(record: Record) -> str:
    if isinstance(record.stored, Inline) and is_sealed(record.stored.data):
        return "It is sealed, and cannot be printed here: read it by a function with its seal="
    return f"Save it: lambda-once show {quote(record.token)} --result > backup.json"


def _about(
    access: Access, before: Record, how: Resolve, write: Write, result: GivenResult | None
) -> Iterator[str]:
    """Yield what would be written, and warnings about it."""
    kept, until = isinstance(write.change, Keep), _until(write)
    yield f"{before.token}: {describe_plan(before, write.decisions[-1], write.now)}"
    if kept:
        yield f"duplicates would get: {describe_outcome(before)}, until {stamp(until)}"
    elif how is Resolve.DONE:
        what = "null" if result is None else result.described()
        yield f"duplicates would get: {what}, until {stamp(until)}"
        is_response = result is not None and isinstance(result.value, dict) and "statusCode" in result.value
        if is_request(before.token) and not is_response:
            yield 'WARNING: this is an API request, but the result has no {"statusCode": ...}'
    if drops_result(before, write.change):
        yield f"WARNING: its stored result would be lost. {_how_to_save(before)}"
    short = until - write.now < timedelta(days=LONGEST_RETENTION_DAYS)
    if how in (Resolve.DONE, Resolve.FAILED, Resolve.KEEP) and short:
        yield "WARNING: SQS keeps messages for up to 14 days, longer than --keep: a later delivery runs again"
    if kept and parts_are_missing(before, parts_present(access.table, before)):
        yield PARTS_MISSING


def _until(write: Write) -> datetime:
    """Return until when the outcome is replayed."""
    return write.now if write.ttl is None else datetime.fromtimestamp(write.ttl, UTC)


# -- the file of --result

_BLANKS: Final = re.compile(r'("(?:[^"\\]|\\.)*+")|[ \t\n\r]+')
"""A string, which is kept, or blanks between tokens (RFC 8259, whitespace)."""
_KINDS: Final = {
    dict: "object",
    list: "list",
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}


class GivenResult(NamedTuple):
    """A result, and the JSON text that is stored."""

    value: Any
    text: str

    def described(self) -> str:
        """Return its kind and size, not its content."""
        return f"JSON {_KINDS[type(self.value)]}, {len(self.text):,} characters"


def read_result(path: str) -> GivenResult:
    """
    Read the JSON of *path*, as it is written but for blanks between tokens: every digit is kept.

    ``-`` is standard input. Raises `Misconfigured` if it cannot be read, is not JSON, or is over the limits.
    """
    where = "standard input" if path == STDIN else path
    data = _bytes_of(path)
    if len(data) > TEXT_LIMIT:
        raise Misconfigured(f"{where} exceeds the limit of {TEXT_LIMIT:,} bytes for a result")
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, parse_constant=_not_json, parse_float=_finite)
        Codec(Any).dump(value)
        text = _BLANKS.sub(r"\1", text)
        pack(text)
    except UnicodeDecodeError as error:
        raise Misconfigured(f"{where} is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        message = f"{where} is not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
        raise Misconfigured(message) from None
    except RecursionError:
        raise Misconfigured(f"{where} is nested too deeply to be a result") from None
    except (ValueError, NotSerialisable) as error:
        raise Misconfigured(f"{where} cannot be a result: {error}") from None
    return GivenResult(value, text)


def _bytes_of(path: str) -> bytes:
    try:
        if path == STDIN:
            return sys.stdin.buffer.read(TEXT_LIMIT + 1)
        with Path(path).open("rb") as file:
            return file.read(TEXT_LIMIT + 1)
    except OSError as error:
        raise Misconfigured(f"{path} cannot be read: {error.strerror}") from None


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise ValueError("a number is outside the range of a float")
    return number


def _not_json(constant: str) -> Never:
    raise ValueError(f"{constant} is not JSON")


# -- forget


_AFTER_FORGETTING: Final = {
    State.COMPLETE: "get ResultUnavailable; nothing runs again",
    State.HELD: "be refused (Held) as before",
    State.RELEASED: "run, as before: it is released",
}
"""What duplicates would get, of a complete token without an error."""
_DELETED: Final = "RUN AGAIN, if any can still be delivered: by a queue, a redrive or a client"


def _after_forgetting(record: Record) -> str | None:
    if record.state is State.COMPLETE and record.error is not None:
        return f"get StoredError ({record.error.kind}) without its message; nothing runs again"
    return _AFTER_FORGETTING.get(record.state)


@click.command("forget")
@with_token
@click.option(
    "--row",
    is_flag=True,
    help="Delete the whole row, if its key is personal data: a later delivery runs again.",
)
@with_consent
@with_table
def forget_command(access: Access, one: OneToken, consent: Consent, *, row: bool) -> None:
    """
    Erase what TOKEN stores: result, error message, checksums of fields, reasons of decisions.

    The token stays, so nothing runs again: duplicates of completed work get ResultUnavailable, those of
    work that failed for good its error without the message. Shows the row, asks, and writes only if the row
    has not changed since. The row stores who erased it, and why. A token in progress is refused.

    --row deletes the row itself, with its key, if its work is done. A later delivery RUNS AGAIN: wait
    until its queues, their dead-letter queues and its clients can no longer send one. No decision is
    stored.

    Copies in backups, streams and logs are not erased.

    Exit code: 0 erased; 1 not found, or refused (the row has changed, it stores nothing, it is in
    progress, or you declined); 2 bad input, no table, or it is unknown whether it was erased.
    """
    before, now = _row(access, one), access.table.now()
    why = _other_attempt(before, one.attempt) or (delete_objection if row else forget_objection)(before)
    if why is not None:
        write: Write | Deletion | None = None
    else:
        write = Deletion(before) if row else decided(before, Resolve.FORGET, _author(access, consent), now)
    if isinstance(write, Write):
        plan = describe_plan(before, write.decisions[-1], now)
    else:
        plan = (
            f"its row would be deleted, with the key (it is {STATUS[before.state].words}): {consent.because}"
        )
    proposal = Proposal(
        before,
        now,
        write,
        why or "",
        (
            f"{before.token}: {plan}",
            f"duplicates would {_DELETED if row else _after_forgetting(before)}",
        ),
        "Erase it?",
        erases_parts=True,
    )
    carry_out(access, proposal, consent)


# -- redrive


@click.command("redrive")
@with_filter
@click.option(
    "--limit", type=click.IntRange(1), metavar="NUMBER", help="Release at most this many.  [default: all]"
)
@click.option("--overdue", is_flag=True, help="Overdue tokens in place of held ones, if none was done.")
@click.option("--also-decided", is_flag=True, help="Also tokens on which a person's decision stands.")
@SCAN
@with_consent
@with_table
def redrive_command(
    access: Access, consent: Consent, *, wanted: Filter, scan: bool, **options: Unpack[RedriveOptions]
) -> None:
    """
    Release held tokens, so that their next deliveries run.

    Shows the matching tokens, asks, and releases them one by one, each only if its row has not changed
    since: what is held again meanwhile stays held. Use it for work that was not done, or that may be done
    twice; if it was done, use lambda-once resolve --done. It sends no messages: redrive the dead-letter
    queue afterwards. At its end, and if it is interrupted, it prints how many were released and how many
    remain.

    --overdue releases overdue tokens in place of held ones. Whether their work was done is unknown: ask the
    other system first.

    A token that a person decided to hold is skipped and listed with the reason, because that person knew
    more than its error says. --also-decided releases it, too.

    Exit code: 0 all but skipped tokens were released, or none matches; 1 some were not, or you declined;
    2 a row cannot be read, which is named last; bad input or no table.
    """
    searched = searching(access, scan=scan, yes=consent.yes)
    with searched, access.output.naming_malformed() as malformed:
        _redrive(access, wanted, consent, malformed, **options)


class RedriveOptions(TypedDict):
    """Options of `redrive` beside filters."""

    limit: int | None
    overdue: bool
    also_decided: bool


def _redrive(
    access: Access,
    wanted: Filter,
    consent: Consent,
    malformed: list[Misconfigured],
    *,
    limit: int | None,
    overdue: bool,
    also_decided: bool,
) -> None:
    status, output, now = Status.OVERDUE if overdue else Status.HELD, access.output, access.table.now()
    skipped: list[Record] = []
    found: list[Record] = []
    for record in to_release(access.table, wanted, status, now, malformed):
        (skipped if decided_by_person(record) and not also_decided else found).append(record)
    if skipped:
        output.say(f"skipped, held by the decision of a person (--also-decided): {len(skipped)}")
        output.show(token_list(skipped, access.table.now()))
    left_out = [(record, RedriveOutcome.SKIPPED) for record in skipped]
    if not found:
        _print(access, left_out, [])
        output.say(f"no {'other ' if skipped else ''}matching token is {status.words}")
        return
    chosen, shown = found[:limit], found[: min(limit or ROWS_OF_A_TABLE, ROWS_OF_A_TABLE)]
    output.show(token_list(shown, now))
    first = "" if shown == found else f", the first {len(shown)} shown"
    output.say(f"{len(found):,} {status.words}{first}{OVERDUE if overdue else ''}")
    if len(chosen) == 1:
        runs, undone = "its next delivery runs", "it was not done"
    else:
        runs, undone = "their next deliveries run", f"none of these {len(chosen):,} was done"
    question = f"Release {len(chosen):,}, so that {runs}?"
    if overdue:
        question = f"{runs.capitalize()}. Are you sure that {undone}?"
    if consent.dry_run:
        _print(access, [*left_out, *((record, None) for record in chosen)], [])
        output.say(f"dry run: nothing was written; {len(chosen):,} would be released")
    elif consent.given(question):
        stopped: list[BaseException] = []
        released = release(access.table, chosen, _author(access, consent), stopped)
        printed = _print(access, chain(left_out, released), stopped)
        _summarise(access, printed, stopped, len(found) + len(skipped))
    else:
        output.say("nothing was written")
        raise click.exceptions.Exit(1)


def _print(
    access: Access, outcomes: Iterable[tuple[Record, RedriveOutcome | None]], stopped: list[BaseException]
) -> Sequence[tuple[Record, RedriveOutcome | None]]:
    """
    Print each row with its outcome as data, unless the output is a table; return those that have one.

    *stopped* gets a Ctrl-C, and the error of an output that cannot be written.
    """
    printed: list[tuple[Record, RedriveOutcome | None]] = []

    def rows() -> Iterator[dict[str, Any]]:
        now = access.table.now()
        for record, outcome in outcomes:
            printed.append((record, outcome))
            yield record_json(record, now) | {"outcome": None if outcome is None else outcome.value}

    try:
        access.output.rows(rows())
    except KeyboardInterrupt as interrupt:
        stopped.append(interrupt)
    except OSError as error:
        discard_output()
        stopped.append(error)
    return printed


def _summarise(
    access: Access,
    released: Sequence[tuple[Record, RedriveOutcome | None]],
    stopped: Sequence[BaseException],
    matching: int,
) -> None:
    """Print how many were released, which were not, and what to do next; exit 1 if some were not."""
    count, say = Counter(outcome for _, outcome in released), access.output.say
    for why in stopped:
        say(_why_stopped(why))
    count[RedriveOutcome.LEFT] += matching - len(released)
    say(", ".join(f"{count[outcome]:,} {outcome.value}" for outcome in RedriveOutcome if count[outcome]))
    for record, outcome in released:
        if outcome is RedriveOutcome.REFUSED:
            say(f"refused, the row has changed since it was shown: {record.token}")
        elif outcome is RedriveOutcome.UNANSWERED:
            say(f"no response, its state is unknown: lambda-once show {record.token}")
    remain = count[RedriveOutcome.LEFT] + count[RedriveOutcome.UNANSWERED]
    if remain:
        say(f"{remain:,} remain: run this command again before you redrive the queue")
    elif count[RedriveOutcome.RELEASED]:
        say(f"redrive: {REDRIVE[Resolve.NOT_DONE]}")
    if remain or count[RedriveOutcome.REFUSED]:
        raise click.exceptions.Exit(1)


def _why_stopped(why: BaseException) -> str:
    match why:
        case OnceError():
            return f"lambda-once: {for_operator(why, click.get_current_context().meta.get(SESSION))}"
        case OSError():
            return f"lambda-once: cannot write the output: {why.strerror or type(why).__name__}"
        case _:
            return "interrupted"
