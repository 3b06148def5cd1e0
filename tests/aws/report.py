"""The report of a run: what to send, as Markdown, without anything that names the account."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple

from tests.aws.play import Answer, Verdict

_SECRET: Final = (
    (re.compile(r"arn:[\w-]+:[^\s'\"|;)]+"), "ARN"),  # to its end: names of sessions are mail addresses
    (re.compile(r"(?<!\d)\d{12}(?!\d)"), "ACCOUNT"),
    (re.compile(r"https?://[^\s;,)]+"), "ADDRESS"),
    (re.compile(r"(?<![\w.])/(?:[^\s'\"|;)/]+/)+[^\s'\"|;)]*"), "PATH"),
)


class Circumstances(NamedTuple):
    """What a run was made with."""

    commit: str
    region: str
    settings: Mapping[str, str]
    versions: Mapping[str, str]
    minutes: float
    dollars: float
    ended: str
    """How it ended, in words."""


def report(made: Circumstances, answers: Mapping[str, Answer]) -> str:
    """Return the report as Markdown."""
    counts = Counter(answer.verdict for answer in answers.values())
    heading = ", ".join(f"{counts[verdict]} {verdict.value}" for verdict in Verdict if counts[verdict])
    facts = {
        "region": made.region,
        **made.settings,
        **made.versions,
        "minutes": f"{made.minutes:.0f}",
        "cost": f"about ${made.dollars:.2f}, at list prices",
        "ended": made.ended,
        "commit": made.commit,
    }
    lines = [
        "# lambda-once on AWS",
        "",
        f"{len(answers)} assertions: {heading or 'none was played'}.",
        "",
        *(f"* {name}: {value}" for name, value in facts.items()),
        "",
        "| | assertion | seen |",
        "|---|---|---|",
        *(
            f"| {answer.verdict.value} | {_cell(claimed)} | {_cell(answer.seen)} |"
            for claimed, answer in answers.items()
        ),
    ]
    text = "\n".join(lines) + "\n"
    for pattern, word in _SECRET:
        text = pattern.sub(word, text)
    return text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
