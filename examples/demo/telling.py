"""The story as tables: what happened, the rows it left, the metrics it wrote."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from io import TextIOWrapper
from itertools import zip_longest
from urllib.parse import unquote

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Inline, Parts

from .patterns import Contrast
from .performance import Played
from .stage import Step

NARROWEST, WIDEST = 100, 120
"""Columns of the tables; a pipe gets the middle, whatever the terminal is."""
PIPED = 110
NOTHING = "–"
LONGEST_KEY = 16
MOST_REASONS = 3
"""Of the ways in which a promise was broken, how many are told; what happened outside comes first."""

DOINGS = {
    "disabled": "switched off",
    "takenOver": "took over",
    "completed": "result stored",
    "stored": "error stored",
    "released": "released",
    "held": "held",
    "fenced": "fenced off",
    "replayed": "replayed",
    "inProgress": "refused: at work",
    "keyReused": "refused: changed",
}
"""What a metric says that the layer did, in the order in which one invocation can say it."""
REFUSALS = {
    "Held": "refused: held",
    "KeyMissing": "refused: no key",
    "ResultUnavailable": "refused: no result",
}
ERROR_REPLAYED = "error replayed"
"""A stored error is refused under the name that it had at first."""
MEANINGS = {
    "started": "attempts that began",
    "completed": "did their work, result stored",
    "replayed": "duplicates that got a stored result",
    "inProgress": "duplicates that met an attempt at work",
    "keyReused": "keys that came back with another body",
    "errors": "exceptions out of the work",
    "released": "given back, to be tried again",
    "stored": "errors that are final answers",
    "held": "waiting for a person",
    "takenOver": "taken from an attempt that lapsed",
    "fenced": "late writes that were refused",
    "disabled": "ran with the layer switched off",
}
FINISHED = ("completed", "released", "stored", "held")


def console() -> Console:
    """Return what to tell on: this terminal, or a pipe of fixed width without colours."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a pipe may be too poor for a tick, and the story goes on
    found = Console(highlight=False)
    if found.is_terminal:
        found.width = min(max(found.width, NARROWEST), WIDEST)
    else:
        found = Console(highlight=False, width=PIPED, no_color=True, force_terminal=False)
    return found


def story(played: Sequence[Played]) -> Table:
    """Return the table of the scenes, a row for each delivery; the verdict stands below the title."""
    table = _table("What was delivered, and what came of it")
    table.add_column("Scene, and verdict", ratio=1)
    table.add_column("Delivered", min_width=18, no_wrap=True)
    table.add_column("What ran", min_width=19, no_wrap=True)
    table.add_column("The layer", min_width=16, no_wrap=True)
    table.add_column("The caller got", min_width=14, no_wrap=True)
    for act in played:
        heads = [Text(act.scene.title, "bold"), _verdict(act)]
        rows = [(step.delivered, _ran(step), _did(step), step.got) for step in act.steps]
        for head, row in zip_longest(heads, rows):
            table.add_row(head, *(row or ()))
        table.add_section()
    return table


def tokens(records: Sequence[Record], now: datetime) -> Table:
    """Return the table of the token rows, as they stand at *now*."""
    table = _table("The tokens that are left in the table")
    table.add_column("Function", no_wrap=True, style="bold")
    table.add_column("Key", no_wrap=True)
    table.add_column("State", no_wrap=True)
    table.add_column("Attempt", no_wrap=True, style="dim")
    table.add_column("Fence", no_wrap=True, style="dim")
    table.add_column("Age", no_wrap=True, justify="right")
    table.add_column("Result or error", ratio=1, no_wrap=True, overflow="ellipsis")
    for record in sorted(records, key=lambda record: (record.token.split("/")[1], record.created)):
        _service, name, *key = map(unquote, record.token.split("/"))
        table.add_row(
            name.rpartition(".")[2],
            _key(key),
            _state(record, now),
            f"{record.attempt_id[:6]}…",
            f"…{record.fence % 10**6:06d}",
            f"{(now - record.created).total_seconds():.0f} s",
            _outcome(record, now),
        )
    return table


def metrics(counted: Mapping[str, Counter[str]]) -> Table:
    """Return the table of the metrics, a column for each function."""
    table = _table("The metrics that came out")
    table.add_column("Metric", style="bold", no_wrap=True)
    for function in counted:
        table.add_column(function.removeprefix("orders-").removesuffix("Function"), justify="right")
    table.add_column("All", justify="right")
    table.add_column("What it counts", ratio=1)
    everywhere = sum(counted.values(), Counter[str]())
    for metric in [*MEANINGS, *sorted(everywhere.keys() - MEANINGS.keys())]:
        if everywhere[metric]:
            each = [str(counts[metric] or NOTHING) for counts in counted.values()]
            table.add_row(metric, *each, str(everywhere[metric]), MEANINGS.get(metric, ""))
    return table


def contrasts(found: Sequence[Contrast]) -> Table:
    """Return the table of the patterns, which need no token: their data tells what was there before."""
    table = _table("The patterns, which need no token")
    table.add_column("Pattern", style="bold", no_wrap=True)
    table.add_column("What arrives", ratio=1)
    table.add_column("Plain writes leave", style="red", min_width=20)
    table.add_column("The pattern leaves", min_width=20)
    for each in found:
        kept = Text(f"✗ {each.kept}", "bold red") if each.broken else Text(f"✓ {each.kept}", "green")
        table.add_row(each.pattern, each.arrives, each.plain, kept)
    return table


def ending(counted: Mapping[str, Counter[str]]) -> str:
    """Say how many attempts began and did not finish: the number that an alarm watches."""
    everywhere = sum(counted.values(), Counter[str]())
    unfinished = everywhere["started"] - sum(everywhere[metric] for metric in FINISHED)
    died = unfinished - everywhere["fenced"]
    return (
        f"\n{unfinished} attempts began and did not finish ({died} died, {everywhere['fenced']} fenced): "
        "the number that an alarm watches."
    )


def _table(title: str) -> Table:
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.HORIZONTALS,
        padding=(0, 1, 0, 0),
        expand=True,
    )


def _ran(step: Step) -> Text:
    counted = Counter(step.ran)
    said = [effect if count == 1 else f"{effect} ({count}×)" for effect, count in counted.items()]
    return Text("\n".join(said), "cyan") if said else Text(NOTHING, "dim")


def _did(step: Step) -> str:
    said = [word for metric, word in DOINGS.items() if step.counted[metric]]
    said += [REFUSALS.get(error, ERROR_REPLAYED) for error in dict.fromkeys(step.refused)]
    if not said and step.counted["started"]:
        said = ["took the token"]
    return "\n".join(said) or NOTHING


def _verdict(act: Played) -> Text:
    if act.broken:
        return Text("\n".join(f"✗ {reason}" for reason in act.broken[:MOST_REASONS]), "bold red")
    return Text(f"✓ {act.scene.verdict}", "green")


def _key(parts: Sequence[str]) -> str:
    """Say the scope, if there is one, and the key; a random key is known by its beginning."""
    *scope, key = parts
    return " ".join([*scope, f"{key[:8]}…" if len(key) > LONGEST_KEY else key])


def _state(record: Record, now: datetime) -> Text:
    if record.lapsed(now):
        return Text("lapsed", "bold yellow")
    words = {
        State.IN_PROGRESS: Text("in progress", "yellow"),
        State.COMPLETE: Text("complete", "green"),
        State.HELD: Text("held", "bold red"),
        State.RELEASED: Text("released", "dim"),
    }
    return words[record.state]


def _outcome(record: Record, now: datetime) -> Text:
    """Say what the row keeps; of an attempt at work, how far off the end of its lease is."""
    if record.state is State.IN_PROGRESS:
        seconds = (record.expected_completion - now).total_seconds()
        return Text(f"lease over for {-seconds:.0f} s" if seconds < 0 else f"lease ends in {seconds:.0f} s")
    if record.error is not None:
        return Text(f"{record.error.kind}: {record.error.message}", "red")
    match record.stored:
        case Inline(data):
            return Text(data if isinstance(data, str) else f"{len(data)} bytes, compressed")
        case Parts(count):
            return Text(f"{count} parts")
        case _:
            return Text(NOTHING, "dim")
