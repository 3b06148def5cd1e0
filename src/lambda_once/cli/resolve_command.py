"""``lambda-once resolve``: decide what one token's work came to."""

from __future__ import annotations

import json
import re
import sys
from datetime import UTC, datetime, timedelta
from math import isinf
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Never, assert_never

import click

from lambda_once.cli.options import DURATION, Access, Consent, with_consent, with_table
from lambda_once.cli.render import row_json, side_by_side
from lambda_once.core.clock import stamp
from lambda_once.core.codec import Codec
from lambda_once.core.lifecycle import State
from lambda_once.core.results import TEXT_LIMIT, Inline, NotSerialisable, Parts, is_sealed, pack
from lambda_once.core.writes import Keep, Write, after_write
from lambda_once.errors import Misconfigured
from lambda_once.operations.resolution import (
    LONGEST_RETENTION_DAYS,
    Resolve,
    drops_result,
    next_delivery,
    objection,
    redrive_advice,
    resolution,
)
from lambda_once.operations.search import by_token, parts_present
from lambda_once.operations.story import describe_outcome
from lambda_once.operations.tokens import is_request, token_status
from lambda_once.stores.contract import Refused, Unanswered, Written

if TYPE_CHECKING:
    from lambda_once.core.lifecycle import Record
    from lambda_once.operations.table import TokenTable

LONGEST_KEEP = timedelta(days=3_650)
STDIN = "-"
CACHES: Final = "cache: functions with cache= may return the old outcome for up to five minutes"


class ResolveRequest(NamedTuple):
    """What is about to be written, and over which row."""

    how: Resolve
    result: ResolveResult | None
    before: Record
    write: Write

    @property
    def kept(self) -> bool:
        """Whether the outcome of a complete token stays."""
        return isinstance(self.write.change, Keep)

    @property
    def until(self) -> datetime:
        """Until when the outcome is replayed."""
        ttl = self.write.ttl
        return self.write.now if ttl is None else datetime.fromtimestamp(ttl, UTC)

    @property
    def next_delivery(self) -> str:
        return next_delivery(self.how, self.until, with_result=self.result is not None, kept=self.kept)


@click.command("resolve")
@click.argument("token")
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
    help="How long to replay it; alone: of a complete token.  [default: 28d]",
)
@click.option("--attempt", metavar="ID", help="Refuse unless the row still has this attempt id.")
@click.option("--force", is_flag=True, help="Also a token that is finished, or whose lease has not expired.")
@click.option("--drop-result", is_flag=True, help="With --force: also where a stored result is lost.")
@with_table
def command(
    access: Access,
    token: str,
    consent: Consent,
    *,
    result: str | None,
    keep: timedelta | None,
    attempt: str | None,
    force: bool,
    drop_result: bool,
    **flags: bool,
) -> None:
    """
    Resolve TOKEN: record that its work was done, was not done, failed for good, or is unknown.

    Shows the row, asks, and writes if the row has not changed since; who decided, and why, is kept on it. A
    token in progress whose lease has not expired may be running, and a finished one has an outcome: both
    require --force.

    --done on a complete token, and --keep alone, keep its result, and change until when it is replayed. What
    would lose a stored result also requires --drop-result, and prints first how to save it.

    --result is what every duplicate gets in place of the work's result: it must match a handler's declared
    return type, and for a function of an API it is the whole response object,
    {"statusCode": 200, "body": "..."}.

    --failed stores an error of kind Failed whose message is --because: duplicates raise it as StoredError.

    Exit code: 0 written, 1 refused (the row has changed, it requires --force, or you declined), 2 bad input
    or no table.
    """
    how = _chosen(flags, keep)
    if result is not None and how is not Resolve.DONE:
        raise click.UsageError("--result requires --done: it is the result of done work")
    if keep is not None and how is Resolve.HOLD:
        raise click.UsageError("--keep cannot be combined with --hold: a held token never expires")
    if keep is not None and not timedelta(0) < keep <= LONGEST_KEEP:
        raise click.UsageError("--keep must be longer than 0 and at most ten years")
    if result == STDIN and not (consent.yes or consent.dry_run):
        raise click.UsageError("--result - reads standard input, so there is none to confirm on: pass --yes")
    given = None if result is None else read_result(result)
    before = shown_row(access.table, token)
    text = None if given is None else given.text
    now = access.table.now()
    if how is Resolve.KEEP and before.state is not State.COMPLETE:
        status = token_status(before, now).value
        raise click.UsageError(f"--keep alone is for a complete token, but {token} is {status}: pass --done")
    write = resolution(before, how, by=consent.by, because=consent.because, now=now, result=text, keep=keep)
    request = ResolveRequest(how, given, before, write)
    access.output.show(side_by_side({"": before}, write.now))
    why = _objection(request, attempt, force=force, drop_result=drop_result)
    if why is not None:
        _refuse(access, request, why, before)
    _announce(access, request)
    _write(access, request, consent)


def _chosen(flags: dict[str, bool], keep: timedelta | None) -> Resolve:
    chosen = [how for how in Resolve if flags.get(how.name.lower())]
    if not chosen and keep is not None:
        return Resolve.KEEP
    if len(chosen) != 1:
        raise click.UsageError("pass exactly one of --done, --not-done, --failed, --hold, or --keep alone")
    return chosen[0]


def shown_row(table: TokenTable, token: str) -> Record:
    """Return the row of *token*. Raises `Misconfigured` if there is none."""
    if token == "":
        raise click.UsageError("TOKEN is empty: pass a lock token")
    record = by_token(table, token)
    if record is None:
        raise Misconfigured(
            f"no token {token} in the table {table.name}: "
            f"lambda-once show {quote(token)} finds the token of a key"
        )
    return record


def _objection(request: ResolveRequest, attempt: str | None, *, force: bool, drop_result: bool) -> str | None:
    """Return why nothing may be written; None if it may."""
    before = request.before
    if attempt not in (None, before.attempt_id):
        return f"the row no longer has attempt {attempt}; it has {before.attempt_id}"
    forced = force or request.how is Resolve.KEEP
    why = None if forced else objection(before, request.write.now)
    if why is not None:
        return f"{why}. Pass --force to resolve it anyway"
    if drops_result(before, request.write.change) and not drop_result:
        return f"its stored result would be lost. {_how_to_save(before)}, then pass --drop-result"
    return None


def _how_to_save(record: Record) -> str:
    if isinstance(record.stored, Inline) and is_sealed(record.stored.data):
        return "It is sealed, and cannot be printed here: read it by a function with its seal="
    return f"Save it: lambda-once show {quote(record.token)} --result > backup.json"


def _announce(access: Access, request: ResolveRequest) -> None:
    """Print what will be written, and warnings about it."""
    say, write, how = access.output.say, request.write, request.how
    assert write.note is not None  # noqa: S101  (every resolution has one)
    say(f"{request.before.token}: {how.value}, by {write.note.by}, because: {write.note.because}")
    if request.kept:
        say(f"duplicates get: {describe_outcome(request.before)}, until {stamp(request.until)}")
    elif how is Resolve.DONE:
        what = "null" if request.result is None else request.result.described()
        say(f"duplicates get: {what}, until {stamp(request.until)}")
        if is_request(request.before.token) and not _is_response(request.result):
            say('WARNING: this is an API request, but the result has no {"statusCode": ...}')
    if drops_result(request.before, write.change):
        say(f"WARNING: its stored result will be lost. {_how_to_save(request.before)}")
    short = request.until - write.now < timedelta(days=LONGEST_RETENTION_DAYS)
    if how in (Resolve.DONE, Resolve.FAILED, Resolve.KEEP) and short:
        say("WARNING: SQS keeps messages for up to 14 days, longer than --keep: a later delivery runs again")
    present = parts_present(access.table, request.before) if request.kept else None
    if isinstance(request.before.stored, Parts) and present not in (None, request.before.stored.count):
        say("WARNING: parts of its result are missing: a duplicate gets ResultUnavailable")


def _is_response(result: ResolveResult | None) -> bool:
    return result is not None and isinstance(result.value, dict) and "statusCode" in result.value


def _write(access: Access, request: ResolveRequest, consent: Consent) -> None:
    say, before, now = access.output.say, request.before, request.write.now
    if consent.dry_run:
        _say_what_follows(access, request)
        say("dry run: nothing was written")
        _report(access, request, before, written=False)
    elif not consent.given("Write it?"):
        _refuse(access, request, "you declined", before)
    elif is_written(access, request.write):
        after = after_write(before, request.write)
        access.output.show(side_by_side({"before": before, "now": after}, now))
        _say_what_follows(access, request)
        say(CACHES)
        _report(access, request, after, written=True)
    else:
        current = access.table.read(before.token)
        access.output.show(side_by_side({"as shown": before, "now": current}, now))
        _refuse(access, request, "the row has changed since it was shown", current)


def is_written(access: Access, write: Write) -> bool:
    """
    Send *write*; False: refused, because the row has changed.

    Without a response, exit code 2: the outcome is unknown. Raises `Misconfigured` if the table rejects the
    write for good.
    """
    answer = access.table.finish(write)
    match answer:
        case Unanswered(why):
            access.output.say(
                f"lambda-once: the token table did not respond ({why}); it is unknown whether this was "
                f"written. It was if lambda-once show {write.token} prints attempt {write.attempt_id}; "
                "otherwise retry"
            )
            raise click.exceptions.Exit(2)
        case Misconfigured() as error:
            raise error
        case Refused():
            return False
        case Written():
            return True
        case _ as unreachable:
            assert_never(unreachable)


def _refuse(access: Access, request: ResolveRequest, why: str, now: Record | None) -> Never:
    access.output.say(f"refused, nothing was written: {why}")
    _report(access, request, now, written=False)
    raise click.exceptions.Exit(1)


def _say_what_follows(access: Access, request: ResolveRequest) -> None:
    access.output.say(f"next delivery: {request.next_delivery}")
    access.output.say(f"redrive: {redrive_advice(request.how)}")


def _report(access: Access, request: ResolveRequest, now: Record | None, *, written: bool) -> None:
    """Print the outcome as data; as a table it has been shown already."""
    if access.output.is_table:
        return
    at = request.write.now
    outcome = {
        "lockToken": request.before.token,
        "decision": request.how.value.replace(" ", "-"),
        "written": written,
        "shown": row_json(request.before, at),
        "now": None if now is None else row_json(now, at),
        "nextDelivery": request.next_delivery if written else None,
        "redrive": redrive_advice(request.how) if written else None,
    }
    access.output.one(outcome, "")


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


class ResolveResult(NamedTuple):
    """A result, and the JSON text that is stored."""

    value: Any
    text: str

    def described(self) -> str:
        """Return its kind and size, not its content."""
        return f"JSON {_KINDS[type(self.value)]}, {len(self.text):,} characters"


def read_result(path: str) -> ResolveResult:
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
    return ResolveResult(value, text)


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
