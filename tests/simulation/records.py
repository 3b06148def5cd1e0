"""What two versions may not do beside each other, as Powertools' records and the work show it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.kit.strict.trees import Item
from tests.simulation.ledger import START_S, Ledger, canonical, state
from tests.simulation.old_version import OLD
from tests.simulation.outcomes import Outcomes
from tests.simulation.scenario import Scenario
from tests.simulation.scheduler import Sandbox, running


class Records:
    """Sees every change of Powertools' table, the work of both versions, and what the old one answers."""

    def __init__(self, found: Scenario, ledger: Ledger, outcomes: Outcomes) -> None:
        self._scenario = found
        self._ledger = ledger
        self._outcomes = outcomes
        self._breaks = ledger.story.breaks
        self._items: dict[str, Item] = {}
        self._writers: dict[str, Sandbox] = {}
        """Who wrote the record of a token last."""
        self._done_until: dict[str, int] = {}
        """Until when neither version may do the work of a token again, in milliseconds."""
        self._working: dict[str, dict[Sandbox, Callable[[], bool]]] = {}
        self._tokens = {
            hashlib.md5(json.dumps(f"k{n}").encode(), usedforsecurity=False).hexdigest(): f"shop/charge/k{n}"
            for n in range(found.tokens)
        }

    # ---------------------------------------------------------------- records

    def watch(self, key: str, before: Item | None, after: Item | None) -> None:
        """Judge one change of a record; it has been made."""
        token, writer = self._tokens[key.rpartition("#")[2]], self._ledger.network.writer
        assert writer is not None, "nothing deletes what has expired"
        self._ledger.story.record(token, after)
        if after is None:
            self._items.pop(token, None)
            return
        self._items[token], self._writers[token] = after, writer
        if after["status"]["S"] == "COMPLETED":
            self._ledger.outcomes[token].append(canonical(json.loads(after["data"]["S"])))
            self._done_until[token] = 1000 * (int(after["expiration"]["N"]) - START_S)
        else:
            self._begins(token, before, writer)

    def _begins(self, token: str, before: Item | None, writer: Sandbox) -> None:
        if before is not None and before["status"]["S"] == "COMPLETED":
            self._done_until.pop(token, None)  # it has expired: the condition of the write says so
            self._ledger.excused |= set(self._outcomes.effects[token])
        elif writer.on_lapse == OLD or (before is not None and writer.on_lapse == "take_over"):
            self._ledger.excused |= set(self._outcomes.effects[token])

    def completed(self, token: str, after: Item) -> None:
        """Judge that the token of the new version is complete now."""
        writer, record = self._ledger.network.writer, self._items.get(token)
        if writer is None or writer in self._ledger.seen_by_operators or "error" in after:
            return
        is_recorded = record is not None and record["status"]["S"] == "COMPLETED"
        if record is not None and is_recorded and self._writers[token] is not writer:
            if int(after["ttl"]["N"]) > int(record["expiration"]["N"]):
                self._breaks("a copied outcome outlives its record")
        elif not self._outcomes.is_unwritten(writer, token):
            until = self._ledger.scheduler.now + 1000 * min(self._scenario.expires, self._scenario.keep)
            self._done_until.setdefault(token, until)

    # ---------------------------------------------------------------- work

    @contextmanager
    def working(self, token: str, is_alive: Callable[[], bool]) -> Iterator[None]:
        """Let the running sandbox work in the block; *is_alive*: whether it may believe that it may."""
        sandbox = running().sandbox
        now = self._ledger.own_now(sandbox)
        if self._done_until.get(token, -1) > now + 1_000:
            self._breaks("work began again whose record was complete")
        beside = self._working.setdefault(token, {})
        if any(alive() for other, alive in beside.items() if not (other.dead or other.over)):
            self._breaks("two versions are running on one key")
        beside[sandbox] = is_alive
        try:
            yield
        finally:
            del beside[sandbox]

    # ---------------------------------------------------------------- what callers get

    def in_progress(self, sandbox: Sandbox, token: str) -> None:
        """Judge that a caller of the new version was refused for a record in progress."""
        record, row = self._items.get(token), self._ledger.rows.get(token)
        is_own = record is not None and self._writers[token] is sandbox
        if is_own and row is not None and state(row) == "released":
            self._breaks("an attempt was refused by its own record")
