"""``lambda-once forget``: erase what one token stores of its work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

import click

from lambda_once.cli.options import Access, Consent, with_consent, with_table
from lambda_once.cli.render import row_json, side_by_side
from lambda_once.cli.resolve_command import CACHES, is_written, shown_row
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.writes import after_write
from lambda_once.operations.forgetting import forget_objection, forgetting

if TYPE_CHECKING:
    from datetime import datetime


_DUPLICATES = {
    State.COMPLETE: "get ResultUnavailable; nothing runs again",
    State.HELD: "are refused (Held) as before",
    State.RELEASED: "run, as before: it was released",
}
"""What they get afterwards."""


@click.command("forget")
@click.argument("token")
@with_consent
@click.option("--attempt", metavar="ID", help="Refuse unless the row still has this attempt id.")
@with_table
def command(access: Access, token: str, consent: Consent, *, attempt: str | None) -> None:
    """
    Erase the stored result of TOKEN, or the message of its error; the token stays.

    Shows the row, asks, and writes if the row has not changed since; who had it forgotten, and why, is kept
    on the row. Duplicates of completed work get ResultUnavailable. A token in progress is refused.

    Not erased: the token itself, which contains the key, and copies elsewhere: backups, streams, logs.

    Exit code: 0 erased, 1 refused (the row has changed, it stores nothing, it is in progress, or you
    declined), 2 bad input or no table.
    """
    before, now = shown_row(access.table, token), access.table.now()
    access.output.show(side_by_side({"": before}, now))
    why = forget_objection(before)
    if attempt not in (None, before.attempt_id):
        why = f"the row no longer has attempt {attempt}; it has {before.attempt_id}"
    if why is not None:
        _refuse(access, before, why, before, now)
    write = forgetting(before, by=consent.by, because=consent.because, now=now)
    access.output.say(f"{token}: forget what it stores, by {consent.by}, because: {consent.because}")
    access.output.say(f"duplicates {_DUPLICATES[before.state]}")
    if consent.dry_run:
        access.output.say("dry run: nothing was written")
        _report(access, before, before, now, erased=False)
        return
    if not consent.given("Erase it?"):
        _refuse(access, before, "you declined", before, now)
    access.table.erase_parts(before)
    if not is_written(access, write):
        current = access.table.read(before.token)
        access.output.show(side_by_side({"as shown": before, "now": current}, now))
        _refuse(access, before, "the row has changed since it was shown", current, now)
    after = after_write(before, write)
    access.output.show(side_by_side({"before": before, "now": after}, now))
    access.output.say(CACHES)
    _report(access, before, after, now, erased=True)


def _refuse(access: Access, before: Record, why: str, current: Record | None, now: datetime) -> Never:
    access.output.say(f"refused, nothing was written: {why}")
    _report(access, before, current, now, erased=False)
    raise click.exceptions.Exit(1)


def _report(access: Access, before: Record, current: Record | None, now: datetime, *, erased: bool) -> None:
    """Print the outcome as data; as a table it has been shown already."""
    if access.output.is_table:
        return
    outcome = {
        "lockToken": before.token,
        "written": erased,
        "shown": row_json(before, now),
        "now": None if current is None else row_json(current, now),
    }
    access.output.one(outcome, "")
