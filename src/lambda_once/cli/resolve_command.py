"""``lambda-once resolve``: say what became of one token."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Never

import click

from lambda_once.cli.access import Access, with_table
from lambda_once.cli.drawing import fields_of, show, side_by_side
from lambda_once.cli.durations import DURATION
from lambda_once.cli.result_file import STDIN, Result, looks_like_a_response, read_result
from lambda_once.cli.verdict import (
    agreed,
    because_option,
    by_option,
    dry_run_option,
    found,
    operator,
    reason,
    settled,
    yes_option,
)
from lambda_once.core.clock import stamp
from lambda_once.core.writes import after_finish
from lambda_once.operations.settling import KEEP, Verdict, settlement
from lambda_once.operations.verdicts import is_request, is_short, next_delivery, objection, redrive_advice

if TYPE_CHECKING:
    from lambda_once.core.record import Record
    from lambda_once.core.writes import Finish

LONGEST_KEEP = timedelta(days=3_650)


class Given(NamedTuple):
    """The options as they were typed."""

    done: bool
    not_done: bool
    failed: bool
    hold: bool
    result: str | None
    because: str
    by: str | None
    keep: timedelta | None
    attempt: str | None
    force: bool
    yes: bool
    dry_run: bool

    @property
    def verdict(self) -> Verdict:
        """Raises `click.UsageError` for none or several, and for options that another one is for."""
        said = {
            Verdict.DONE: self.done,
            Verdict.NOT_DONE: self.not_done,
            Verdict.FAILED: self.failed,
            Verdict.HOLD: self.hold,
        }
        if sum(said.values()) != 1:
            raise click.UsageError("say what became of it: one of --done, --not-done, --failed, --hold")
        if self.result is not None and not self.done:
            raise click.UsageError("--result is what duplicates of done work get: it goes with --done")
        if self.keep is not None and self.hold:
            raise click.UsageError("--keep does not go with --hold: what is held never expires")
        if self.keep is not None and not timedelta(0) < self.keep <= LONGEST_KEEP:
            raise click.UsageError("--keep must be longer than no time, and at most ten years")
        return next(verdict for verdict, given in said.items() if given)


_REPLAYED = frozenset({Verdict.DONE, Verdict.FAILED})
"""Verdicts whose outcome duplicates get until it expires."""


class Plan(NamedTuple):
    """What is about to be written, and over which row."""

    verdict: Verdict
    result: Result | None
    keep: timedelta
    before: Record
    write: Finish


@click.command("resolve")
@click.argument("token")
@click.option("--done", is_flag=True, help="It happened: duplicates get --result.")
@click.option("--not-done", is_flag=True, help="It did not happen: the next delivery runs.")
@click.option("--failed", is_flag=True, help="It failed for good: duplicates get an error with the reason.")
@click.option("--hold", is_flag=True, help="Unknown: nothing runs until somebody says more.")
@click.option(
    "--result", metavar="FILE", help="JSON that duplicates get; - is standard input.  [default: null]"
)
@because_option
@by_option
@click.option("--keep", type=DURATION, metavar="DURATION", help="How long it is replayed.  [default: 28d]")
@click.option("--attempt", metavar="ID", help="Refuse unless the row still is this attempt's, as shown.")
@click.option("--force", is_flag=True, help="Also a token that is finished, or at work right now.")
@yes_option
@dry_run_option
@with_table
def command(access: Access, token: str, **options: Any) -> None:
    """
    Say what became of TOKEN: it was done, was not done, failed for good, or is unknown.

    Shows the row, asks, and writes, if the row still is as it was shown; who said so, and why, stays on it. A
    token that is in progress and has time left is somebody's work, and one that is finished has an outcome:
    both only with --force.

    --result is what every duplicate gets in place of what the work would have returned: it must fit a
    handler's declared return type, and for a function of an API it is the whole response object,
    {"statusCode": 200, "body": "..."}.

    --failed stores an error of kind Failed whose message is --because: duplicates raise it as StoredError.

    Exit code: 0 written, 1 refused (the row has changed, it needs --force, or you said no), 2 bad input
    or no table.
    """
    given = Given(**options)
    verdict, because, by = given.verdict, reason(given.because), operator(given.by)
    if given.result == STDIN and not (given.yes or given.dry_run):
        raise click.UsageError("--result - takes the standard input, and none is left to ask on: give --yes")
    result = None if given.result is None else read_result(given.result)
    before = found(access.table, token)
    keep = KEEP if given.keep is None else given.keep
    now = access.table.now()
    text = None if result is None else result.text
    write = settlement(before, verdict, by=by, because=because, now=now, result=text, keep=keep)
    _resolve(access, given, Plan(verdict, result, keep, before, write))


def _resolve(access: Access, given: Given, plan: Plan) -> None:
    show(access.output, side_by_side({"": plan.before}, plan.write.now))
    why = _objection(given, plan)
    if why is not None:
        _refused(access, plan, why, plan.before)
    _announce(access, plan)
    if given.dry_run:
        access.output.say(f"next delivery: {_next_delivery(plan)}")
        access.output.say(f"redrive: {redrive_advice(plan.verdict)}")
        access.output.say("dry run: nothing was written")
        _report(access, plan, plan.before, written=False)
    elif not (given.yes or agreed("Write it?")):
        _refused(access, plan, "you said no", plan.before)
    elif settled(access, plan.write):
        _conclude(access, plan)
    else:
        current = access.table.read(plan.before.token)
        show(access.output, side_by_side({"as shown": plan.before, "as it is now": current}, plan.write.now))
        _refused(access, plan, "the row has changed since it was shown", current)


def _objection(given: Given, plan: Plan) -> str | None:
    """Return why nothing should be written; None where it may."""
    if given.attempt not in (None, plan.before.attempt):
        return f"attempt {given.attempt} was looked at, and by now the row is that of {plan.before.attempt}"
    why = None if given.force else objection(plan.before, plan.write.now)
    return None if why is None else f"{why}. Give --force if you know better"


def _announce(access: Access, plan: Plan) -> None:
    """Say what will be written, and what is odd about it."""
    say, write = access.output.say, plan.write
    assert write.note is not None  # noqa: S101  (every settlement has one)
    say(f"{plan.before.token}: {plan.verdict.value}, says {write.note.by}: {write.note.because}")
    if plan.verdict is Verdict.DONE:
        what = "null" if plan.result is None else plan.result.described()
        say(f"duplicates get: {what}, until {stamp(write.now + plan.keep)}")
    if plan.verdict in _REPLAYED and is_short(plan.keep):
        say("WARNING: a message can wait in SQS for 14 days, longer than --keep: one that does runs again")
    response = plan.result is not None and looks_like_a_response(plan.result.value)
    if plan.verdict is Verdict.DONE and is_request(plan.before.token) and not response:
        say('WARNING: it is a request of an API, and the result no response: {"statusCode": ...} is missing')


def _conclude(access: Access, plan: Plan) -> None:
    """Tell what stands now, and what follows."""
    now = after_finish(plan.before, plan.write)
    show(access.output, side_by_side({"before": plan.before, "now": now}, plan.write.now))
    access.output.say(f"next delivery: {_next_delivery(plan)}")
    access.output.say(f"redrive: {redrive_advice(plan.verdict)}")
    access.output.say("cache: functions with cache= may give the old outcome for up to five minutes")
    _report(access, plan, now, written=True)


def _refused(access: Access, plan: Plan, why: str, now: Record | None) -> Never:
    access.output.say(f"refused, and nothing was written: {why}")
    _report(access, plan, now, written=False)
    raise click.exceptions.Exit(1)


def _next_delivery(plan: Plan) -> str:
    return next_delivery(plan.verdict, plan.write.now + plan.keep, with_result=plan.result is not None)


def _report(access: Access, plan: Plan, now: Record | None, *, written: bool) -> None:
    """Print the outcome as data; where that is a table, it has been shown."""
    if access.output.is_table:
        return
    at = plan.write.now
    outcome = {
        "lockToken": plan.before.token,
        "verdict": plan.verdict.value.replace(" ", "-"),
        "written": written,
        "shown": fields_of(plan.before, at),
        "now": None if now is None else fields_of(now, at),
        "nextDelivery": _next_delivery(plan) if written else None,
        "redrive": redrive_advice(plan.verdict) if written else None,
    }
    access.output.one(outcome, "")
