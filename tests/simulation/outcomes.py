"""What may be done and answered, as work and callers see it: guarantees 3 to 5 and 7, and no work lost."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from lambda_once.engine.attempt import Attempt
from lambda_once.errors import Fenced, Held, InProgress, ResultUnavailable
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from tests.kit.strict.trees import Item
from tests.simulation.ledger import MARGIN_MS, Ledger, Tenure, canonical, milliseconds, state
from tests.simulation.scheduler import Sandbox, running

_STATES = {
    Event.COMPLETED: "complete",
    Event.STORED: "complete",
    Event.HELD: "error",
    Event.RELEASED: "released",
}


class Outcomes:
    """Knows what was done under which attempt, and what callers got."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._breaks = ledger.story.breaks
        self.effects: dict[str, list[str]] = defaultdict(list)
        """The attempts that had their effect, by token, in order."""
        self.done: dict[str, set[str]] = defaultdict(set)
        """The payloads that were worked to their end, by token."""
        self.values: dict[str, str] = {}
        """What the work of each attempt returned, as JSON."""
        self._unwritten: set[tuple[Sandbox, str]] = set()

    # ---------------------------------------------------------------- work

    def starts(self, attempt: Attempt) -> None:
        """Judge that the work of *attempt* starts in the running sandbox."""
        sandbox = running().sandbox
        self._ledger.story.tell(sandbox.name, f"starts the work of {attempt.token}")
        tenure = self._ledger.tenures.get(attempt.id)
        if tenure is None or tenure.token != attempt.token:
            self._breaks("work started without a token")
            return
        believed, row = milliseconds(attempt.lease.isoformat()), self._ledger.rows.get(attempt.token)
        if self._ledger.explicit and self._ledger.own_now(sandbox) + MARGIN_MS > believed:
            self._breaks("work started under a lease that is all but over")
        held = row if self._ledger.holds(attempt.id) else None
        if held is not None and believed > milliseconds(held["expectedCompletion"]["S"]):
            self._breaks("an attempt believes in a longer lease than its row says")
        self._holds(attempt)

    def works(self, attempt: Attempt) -> None:
        """Judge that the work of *attempt* goes on."""
        running().check()
        self._holds(attempt)

    def _holds(self, attempt: Attempt) -> None:
        tenure = self._ledger.tenures.get(attempt.id)
        if tenure is not None and self._ledger.alive(tenure) and not self._ledger.holds(attempt.id):
            self._breaks("an attempt whose lease is alive has lost its token")

    def effect(self, token: str, attempt: str) -> None:
        """Judge an effect in the world outside."""
        ledger = self._ledger
        ledger.story.tell("", f"        the effect of {token} happens")
        others = [other for other in self.effects[token] if other not in ledger.excused]
        if others and attempt not in ledger.excused:
            self._breaks("work was done twice, and the first time it neither lapsed nor was released")
        if attempt in self.effects[token]:
            self._breaks("one attempt had its effect twice")
        self.effects[token].append(attempt)

    def ends(self, attempt: Attempt, payload: str, value: Any) -> None:
        """Note that the work was done, and what it returned."""
        self.done[attempt.token].add(payload)
        self.values[attempt.id] = canonical(value)

    def reports(self, attempt: Attempt) -> None:
        """Judge that a transaction of *attempt* says that it was written (guarantee 8)."""
        if attempt.id not in self.effects[attempt.token]:
            self._breaks("a transaction reported success, and its items were not written")

    # ---------------------------------------------------------------- what callers and listeners get

    def hook(self, details: Details) -> None:
        """Judge what is reported of an attempt."""
        sandbox = running().sandbox
        if sandbox.dead or details.token is None:
            return
        happening, attempt = details.event, details.attempt
        tenure = self._ledger.tenures.get(attempt or "")
        if happening is Event.COMPLETION_FAILED:
            self._unwritten.add((sandbox, details.token))
        if happening is Event.FENCED and tenure is not None and self._fenced_by_itself(tenure, sandbox):
            self._breaks("an attempt was fenced by its own write")
        if happening is Event.TAKEN_OVER and tenure is not None and not tenure.from_progress:
            self._breaks("a take-over was reported of a token that was not in progress")
        wanted = _STATES.get(happening)
        if wanted is None or attempt is None or details.reason is not None:
            return
        if tenure is None or wanted not in tenure.states:
            self._breaks(f"{happening} was reported for an attempt whose token never had it")

    def _fenced_by_itself(self, tenure: Tenure, sandbox: Sandbox) -> bool:
        return tenure.sandbox is sandbox and not tenure.lost

    def is_unwritten(self, sandbox: Sandbox, token: str) -> bool:
        """Return whether *sandbox* reported that an outcome of *token* could not be written."""
        return (sandbox, token) in self._unwritten

    def answered(self, sandbox: Sandbox, token: str, value: Any) -> None:
        """Judge what a caller got as the outcome."""
        text = canonical(value)
        if text in self._ledger.outcomes[token]:
            return
        if (sandbox, token) not in self._unwritten:
            self._breaks(f"a caller got {text}, which is not what was stored")

    def refused(self, sandbox: Sandbox, token: str, error: BaseException) -> None:
        """Judge a refusal that a caller got."""
        row = self._ledger.rows.get(token)
        tenure = None if row is None else self._ledger.tenures.get(str(row["attempt"]["S"]))
        match error:
            case InProgress() | Fenced() if row is not None and tenure is not None:
                own = tenure.sandbox is sandbox and state(row) == "inProgress"
                if own and error.state == "inProgress":
                    self._breaks("an attempt is refused by itself")
            case ResultUnavailable() if token not in self._ledger.unavailable:
                self._breaks("a stored result cannot be had")
            case Held() if sandbox not in self._ledger.network.troubled and _would_expire(row):
                self._breaks("a caller learned that a person must look, and the row will expire")
            case _:
                return

    def fenced(self, attempt: Attempt) -> None:
        """Judge that work learned that it lost its token."""
        tenure = self._ledger.tenures.get(attempt.id)
        if tenure is not None and not tenure.lost and not tenure.finished:
            self._breaks("an attempt was reported as fenced, and it is not")

    def acknowledged(self, token: str, payload: str) -> None:
        """Judge that a message will not come again."""
        if payload not in self.done[token]:
            self._breaks("a message was acknowledged, and its work was never done")


def _would_expire(row: Item | None) -> bool:
    return row is not None and "ttl" in row and state(row) == "inProgress"
