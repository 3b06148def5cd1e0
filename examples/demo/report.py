"""What the demo prints: the scenes, the tokens that they left, and the patterns."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from io import TextIOWrapper
from itertools import zip_longest

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lambda_once.core.lifecycle import Record, State

from .driver import Step
from .patterns import Comparison
from .run import Result

COLUMNS = 80
"""Of everything that is printed, whatever the terminal or pipe."""
NOTHING = "–"
NEXT = 'Next: pip install ".[aws,pydantic]" and follow docs/tutorial.md.'
"""The last line of a demo that ended as promised."""
MOST_REASONS = 3
"""Reasons printed for a broken promise; effects come first."""

OUTCOMES = {
    "disabled": "disabled",
    "takenOver": "taken over",
    "completed": "completed",
    "stored": "error stored",
    "released": "released",
    "held": "held for\nmanual review",
    "fenced": "fenced",
    "replayed": "replayed",
    "inProgress": "in progress",
    "keyReused": "key reused",
}
"""What happened to the token, by metric, in the order in which one invocation can count them."""
REFUSALS = {
    "Held": "refused (Held)",
    "KeyMissing": "no key",
    "ResultUnavailable": "no result",
}
ERROR_REPLAYED = "error replayed"
"""A stored error is logged under its own name."""
FINISHED = ("completed", "released", "stored", "held")
STATES = {
    State.COMPLETE: "complete",
    State.HELD: "held for manual review",
    State.IN_PROGRESS: "in progress",
    State.RELEASED: "released",
}


def console() -> Console:
    """Return a console on standard output, without colours and control codes where that is a pipe."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # the encoding of a pipe may lack the tick
    found = Console(highlight=False, width=COLUMNS)
    return (
        found
        if found.is_terminal
        else Console(highlight=False, width=COLUMNS, no_color=True, force_terminal=False)
    )


def scenes(results: Sequence[Result]) -> Table:
    """Return the table of the scenes, a row for each; the verdict is below the scene's title."""
    table = _table()
    table.add_column("What goes wrong", width=21)
    table.add_column("Delivery", width=8, no_wrap=True)
    table.add_column("What ran", width=19, no_wrap=True)
    table.add_column("The token", width=14, no_wrap=True)
    table.add_column("Answer", width=14, no_wrap=True)
    for result in results:
        title = Text.assemble((result.scene.title, "bold"), "\n", _verdict(result))
        lines = [line for number, step in enumerate(result.steps, 1) for line in _lines(number, step)]
        table.add_row(title, *(Text("\n").join(cells) for cells in zip(*lines, strict=True)))
    return table


def tokens(records: Sequence[Record], now: datetime) -> str:
    """Say how many tokens are left at *now* in each state, and which of them an operator must look at."""
    keys: dict[str, list[str]] = {}
    for record in sorted(records, key=lambda record: (record.created, record.token)):
        state = "lapsed" if record.lapsed(now) else STATES[record.state]
        keys.setdefault(state, []).append(record.token.rpartition("/")[2])
    parts = [
        f"{len(found)} {state}" + ("" if state == "complete" else f" ({', '.join(found)})")
        for state, found in keys.items()
    ]
    return f"Tokens: {', '.join(parts)}"


def attempts(counted: Mapping[str, Counter[str]]) -> str:
    """Say how many attempts were acquired and how they ended; an alarm watches those that died."""
    everywhere = sum(counted.values(), Counter[str]())
    finished = sum(everywhere[metric] for metric in FINISHED)
    died = everywhere["started"] - finished - everywhere["fenced"]
    return (
        f"Attempts: {everywhere['started']} acquired, {finished} finished, "
        f"{died} died, {everywhere['fenced']} fenced"
    )


def patterns(compared: Sequence[Comparison]) -> Table:
    """Return the table of the patterns: what plain writes and what each pattern leave in the table."""
    table = _table()
    table.add_column("Pattern", style="bold", width=9, no_wrap=True)
    table.add_column("What arrives", width=31)
    table.add_column("Plain writes leave", style="red", width=18)
    table.add_column("It leaves", width=18)
    for each in compared:
        left = Text(f"✗ {each.kept}", "bold red") if each.broken else Text(f"✓ {each.kept}", "green")
        table.add_row(each.pattern, each.arrives, each.plain, left)
    return table


def ordinal(number: int) -> str:
    """Return ``1st``, ``2nd``, ``3rd``, ``4th`` …, up to ``20th``."""
    return f"{number}{({1: 'st', 2: 'nd', 3: 'rd'}).get(number, 'th')}"


def _table() -> Table:
    return Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, pad_edge=False, width=COLUMNS)


def _lines(number: int, step: Step) -> Iterator[tuple[Text, ...]]:
    """Yield the lines of delivery *number*: the delivery, what ran, the token, the answer."""
    columns = [step.delivered or ordinal(number)], _ran(step), _outcome(step), [step.got]
    for delivered, ran, outcome, answer in zip_longest(*columns, fillvalue=""):
        yield Text(delivered), Text(ran, "cyan"), Text(outcome), Text(answer)


def _ran(step: Step) -> list[str]:
    counted = Counter(step.ran)
    return [effect if count == 1 else f"{effect} ({count}×)" for effect, count in counted.items()] or [
        NOTHING
    ]


def _outcome(step: Step) -> list[str]:
    outcomes = [outcome for metric, outcome in OUTCOMES.items() if step.counted[metric]]
    outcomes += [REFUSALS.get(error, ERROR_REPLAYED) for error in dict.fromkeys(step.refused)]
    if not outcomes and step.counted["started"]:
        outcomes = ["acquired"]
    return "\n".join(outcomes or [NOTHING]).splitlines()


def _verdict(result: Result) -> Text:
    if result.broken:
        return Text("\n".join(f"✗ {reason}" for reason in result.broken[:MOST_REASONS]), "bold red")
    return Text(f"✓ {result.scene.verdict}", "green")
