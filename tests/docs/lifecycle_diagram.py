"""
Draws the lifecycle of a token from the code, as Markdown: `python -m tests.docs.lifecycle_diagram`.

Every kind of row meets every request and every write; what comes out is the table and the diagram of
docs/lifecycle.md.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from lambda_once.core.clock import epoch_seconds
from lambda_once.core.identity import Presented
from lambda_once.core.lifecycle import Failure, OnLapse, Record, Resolve, State, decide
from lambda_once.core.results import Inline, Unavailable
from lambda_once.core.writes import (
    Acquire,
    AsSeen,
    Change,
    Complete,
    Extend,
    Hold,
    Holder,
    Release,
    Resolver,
    Unclaimed,
    Write,
    after_acquire,
    after_write,
    new_write_id,
)
from lambda_once.operations.decisions import Author, decided, objection
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "lifecycle.md"
BEGIN, END = "<!-- drawn from the code: begin -->\n", "<!-- drawn from the code: end -->"

NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LATER = NOW + timedelta(days=365)
OURS, THEIRS = "ours", "theirs"
PRESENTED = Presented("a")
UNPROVEN = Presented(None, proof=False)
FAILURE = Failure("Declined", "no money")

_IN_PROGRESS = Record(
    token="t",
    state=State.IN_PROGRESS,
    attempt_id=THEIRS,
    fence=1,
    locked_by="orders/1",
    created=NOW - MINUTE,
    expected_completion=NOW + MINUTE,
    fingerprint="f",
)
_LAPSED = _IN_PROGRESS._replace(expected_completion=NOW - MINUTE)
_KEPT = epoch_seconds(NOW + MINUTE)
_COMPLETE = _IN_PROGRESS._replace(state=State.COMPLETE, stored=Inline("1"), ttl=_KEPT)
_RELEASED = _IN_PROGRESS._replace(state=State.RELEASED, ttl=_KEPT)

ROWS: dict[str, Record | None] = {
    "nothing": None,
    "complete or released, past its ttl": _COMPLETE._replace(ttl=epoch_seconds(NOW - MINUTE)),
    "released by another attempt": _RELEASED,
    "in progress, by our own attempt": _IN_PROGRESS._replace(attempt_id=OURS),
    "anything else, of a caller with other credentials": _COMPLETE._replace(caller=Presented("b").mark("x")),
    "complete, and nothing proves the request's caller": _COMPLETE._replace(caller=UNPROVEN.mark("x")),
    "anything else, with another fingerprint": _COMPLETE._replace(fingerprint="g"),
    "complete, with a result": _COMPLETE,
    "complete, its result unavailable": _COMPLETE._replace(stored=Unavailable.UNAVAILABLE),
    "complete, with an error": _COMPLETE._replace(error=FAILURE),
    "held": _IN_PROGRESS._replace(state=State.HELD, error=FAILURE),
    "in progress, lease alive": _IN_PROGRESS,
    "in progress, lapsed": _LAPSED,
    "released by our own attempt": _RELEASED._replace(attempt_id=OURS),
}

NODES: dict[str, Record | None] = {
    "Absent": None,
    "InProgress": _IN_PROGRESS,
    "Lapsed": _LAPSED,
    "Complete": _COMPLETE,
    "Failed": _COMPLETE._replace(error=FAILURE),
    "Held": ROWS["held"],
    "Released": _RELEASED,
}
"""Past its ttl a finished row counts as absent: the store may delete it at any time."""

ACQUISITIONS: dict[str, Unclaimed | AsSeen] = {
    "acquire": Unclaimed(take_over=False),
    "take over": Unclaimed(take_over=True),
    "acquire as seen": AsSeen(THEIRS, None),
    "probe says NOT_DONE": AsSeen(THEIRS, _LAPSED.expected_completion),
}
ENDINGS: dict[str, Change] = {
    "return": Complete(Inline("1")),
    "exception, STORE": Complete(None, FAILURE),
    "exception, HOLD": Hold(FAILURE),
    "exception, RELEASE": Release(FAILURE),
    "extend": Extend(NOW + 2 * MINUTE),
}
NOTES = {
    "InProgress": "InProgress: in progress",
    "Failed": "Failed: complete, with an error",
}


def table() -> str:
    """Return what each stored row gives to a request, a column for each rule for lapsed work."""
    lines = [
        "| stored | `take_over` | `hold` | a probe |",
        "|---|---|---|---|",
        *(f"| {label} | {' | '.join(_decisions(row))} |" for label, row in ROWS.items()),
    ]
    return "\n".join(lines) + "\n"


def _decisions(row: Record | None) -> list[str]:
    unproven = row is not None and row.caller == UNPROVEN.mark("x")
    asking = UNPROVEN if unproven else PRESENTED
    return [decide(row, NOW, OURS, "f", rule, asking).value for rule in OnLapse]


def diagram() -> str:
    """Return the states of a token and the writes and times that lead from one to the next, in mermaid."""
    lines = ["```mermaid", "stateDiagram-v2", "    direction TB"]
    lines += [f"    {note}" for note in NOTES.values()]
    lines.append("    [*] --> Absent")
    for (before, after), labels in edges().items():
        lines.append(f"    {before} --> {after}: {', '.join(labels)}")
    return "\n".join([*lines, "```"]) + "\n"


def edges() -> dict[tuple[str, str], list[str]]:
    """Return, for each two states, what leads from the first to the second."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, row in NODES.items():
        for label, after in _steps(row):
            labels = found.setdefault((name, _node(after, NOW)), [])
            # A plain acquisition is what the one that may take over does there, too.
            if not (label == "take over" and "acquire" in labels):
                labels.append(label)
        later = _node(row, LATER)
        if later != name:
            found.setdefault((name, later), []).append("lease expires" if later == "Lapsed" else "ttl")
    return found


def _steps(row: Record | None) -> list[tuple[str, Record]]:
    """Return every write that *row* admits, with the row after it."""
    lease = NOW + MINUTE
    steps = [
        (
            label,
            after_acquire(row, Acquire("t", OURS, "orders/2", NOW, lease, take, ttl=None, fingerprint="f")),
        )
        for label, take in ACQUISITIONS.items()
    ]
    by_holder = Holder(THEIRS)
    steps += [
        (label, after_write(row, Write("t", by_holder, change, NOW, _ttl(change), new_write_id(change))))
        for label, change in ENDINGS.items()
    ]
    resolver = Resolver(THEIRS, _LAPSED.expected_completion, OURS)
    answer = Complete(Inline("1"))
    steps.append(
        (
            "probe says Done",
            after_write(row, Write("t", resolver, answer, NOW, _KEPT, new_write_id(answer))),
        )
    )
    steps += _resolutions(row)
    return [(label, after) for label, after in steps if after is not None]


def _resolutions(row: Record | None) -> list[tuple[str, Record | None]]:
    """Return what a person may make of *row* without insisting on it, what changes its state only."""
    if row is None or objection(row, NOW) is not None:
        return []
    made = [
        (
            f"resolved as {v.value.replace('-', ' ')}",
            after_write(row, decided(row, v, Author("ann", "seen"), NOW)),
        )
        for v in Resolve
        if v not in (Resolve.KEEP, Resolve.FORGET)
    ]
    return [(label, after) for label, after in made if after is not None and after.state is not row.state]


def _ttl(change: Change) -> int | None:
    return _KEPT if isinstance(change, Complete | Release) else None


def _node(row: Record | None, now: datetime) -> str:
    if row is None or row.expired(now):
        return "Absent"
    match row.state:
        case State.IN_PROGRESS:
            return "Lapsed" if row.lapsed(now) else "InProgress"
        case State.COMPLETE:
            return "Complete" if row.error is None else "Failed"
        case State.HELD:
            return "Held"
        case State.RELEASED:
            return "Released"


def drawn() -> str:
    """Return all that docs/lifecycle.md takes from the code."""
    return f"{diagram()}\n{table()}"


def redrawn(page: str) -> str:
    """Return *page* with the part between its two marks as the code has it."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{drawn()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(redrawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
