"""What the rows may never do, checked at every write: guarantees 1 to 4 and 6 as the table shows them."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from lambda_once.core import results
from lambda_once.core.identity import differing
from lambda_once.stores import requests
from lambda_once.testing.clock import START
from tests.kit.strict.tables import Table
from tests.kit.strict.trees import Item
from tests.simulation.network import Network
from tests.simulation.scheduler import Sandbox, Scheduler
from tests.simulation.story import Story

MARGIN_MS = 2_000
"""By how much clocks may differ, and a lease outlast the work under it: docs/guarantees.md, 1."""
SKEW_MS = 1_000
"""By how much the clock of one machine may differ from true time: two differ by the margin at most."""
START_S = int(START.timestamp())


@dataclass
class Tenure:
    """One attempt's hold on a token."""

    attempt: str
    token: str
    sandbox: Sandbox
    alive_until: int
    """Until when it may rely on the token, by its own clock."""
    from_progress: bool = False
    """Whether its acquisition found the token in progress."""
    lost: bool = False
    """Its row was taken, finished by somebody else, or deleted."""
    finished: bool = False
    """Its row says what became of it."""
    states: set[str] = field(default_factory=set)
    """The final states that its row was brought into under its id."""


class Ledger:
    """Sees every change of the token table, and knows what may not happen."""

    def __init__(self, scheduler: Scheduler, network: Network, story: Story, lease_ms: int | None) -> None:
        self.scheduler = scheduler
        self.network = network
        self.story = story
        self.rows: dict[str, Item] = {}
        self.tenures: dict[str, Tenure] = {}
        self.outcomes: dict[str, list[str]] = defaultdict(list)
        """The results that were ever stored for a token, as JSON."""
        self.unavailable: set[str] = set()
        """Tokens of which a result was ever marked unavailable, or has expired."""
        self.excused: set[str] = set()
        """Attempts whose work may be done again: lapsed and taken over, released, expired, or resolved so."""
        self.resolved: set[str] = set()
        """Attempts about which an operator or a probe has said that they did nothing."""
        self.seen_by_operators: dict[Sandbox, Item] = {}
        """The row that each operator decides about."""
        self._fences: dict[str, int] = {}
        self.explicit = lease_ms is not None
        """Whether the lease is an option; else it is the remaining time and the margin."""
        self.completed: Callable[[str, Item], None] = lambda _token, _row: None
        """Called with each row that becomes complete."""

    # ---------------------------------------------------------------- who holds what

    def own_now(self, sandbox: Sandbox) -> int:
        return self.scheduler.now + sandbox.skew

    def alive(self, tenure: Tenure) -> bool:
        """Return whether the attempt may be running, and believe itself the holder."""
        sandbox = tenure.sandbox
        gone = sandbox.dead or sandbox.over or tenure.finished
        return not gone and self.own_now(sandbox) <= tenure.alive_until

    def holds(self, attempt: str) -> bool:
        """Tell whether the row names *attempt*, in progress."""
        row = self.rows.get(self.tenures[attempt].token)
        return row is not None and _attempt(row) == attempt and state(row) == "inProgress"

    # ---------------------------------------------------------------- changes

    def watch(self, _table: Table, key: str, before: Item | None, after: Item | None) -> None:
        """Judge one change; it has been made."""
        if "#" in key:
            self._part(key, before, after)
            return
        if after is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = after
        self.story.row(key, after)
        writer = self.network.writer
        if after is None:
            self._deleted(before or {})
        elif state(after) == "inProgress" and (before is None or _acquires(before, after)):
            self._acquired(key, before, after, writer)
        elif before is not None:
            if writer is not None and writer in self.seen_by_operators:
                self._decided(key, before, after, self.seen_by_operators[writer])
            self._changed(key, before, after, writer)
        if after is not None:
            self._check_ttl(after, writer)

    def _acquired(self, key: str, before: Item | None, after: Item, writer: Sandbox | None) -> None:
        attempt = _attempt(after)
        assert writer is not None, "operators acquire nothing"
        if before is not None:
            self._may_acquire(before, after, writer)
            self._loses(before)
        fence = int(after["fence"]["N"])
        if fence <= self._fences.get(key, 0):
            self.story.breaks("a fence did not grow")
        self._fences[key] = fence
        lease = milliseconds(after["expectedCompletion"]["S"])
        believed = lease - MARGIN_MS if self.explicit else writer.deadline
        from_progress = before is not None and state(before) == "inProgress"
        self.tenures[attempt] = Tenure(attempt, key, writer, believed, from_progress)

    def _may_acquire(self, before: Item, after: Item, writer: Sandbox) -> None:
        found, holder = state(before), _attempt(before)
        ttl = int(before["ttl"]["N"]) if "ttl" in before else None
        expired = ttl is not None and START_S + (self.scheduler.now + SKEW_MS) / 1000 >= ttl
        match found:
            case "complete" if expired:
                self._forgets(before)
            case "error":
                self.story.breaks("a held token was acquired")
            case "complete":
                self.story.breaks("a stored outcome was overwritten by an acquisition")
            case "released" if holder == _attempt(after):
                self.story.breaks("a delayed copy of an acquisition re-opened what it had released")
            case "inProgress":
                self._may_take_over(before, after, writer)
            case _:
                pass
        self.excused.add(holder)

    def _may_take_over(self, before: Item, after: Item, writer: Sandbox) -> None:
        holder = _attempt(before)
        if holder == _attempt(after):
            self.story.breaks("an attempt acquired its own token again")
        if self.alive(self.tenures[holder]):
            self.story.breaks("two hold one token: it was taken from an attempt whose lease is alive")
        first = before.get("fingerprint")
        later = after.get("fingerprint", first)
        if first is not None and later is not None and differing(first["S"], later["S"]):
            self.story.breaks("another payload took the token over")
        if writer.on_lapse == "hold" or (writer.on_lapse == "probe" and holder not in self.resolved):
            self.story.breaks("lapsed work was taken over without a decision that it was not done")

    def _changed(self, key: str, before: Item, after: Item, writer: Sandbox | None) -> None:
        found, now, holder = state(before), state(after), _attempt(before)
        tenure = self.tenures.get(holder)
        own = tenure is not None and writer is tenure.sandbox and _attempt(after) == holder
        if found != "inProgress":
            if writer is not None and writer not in self.seen_by_operators:
                self.story.breaks(f"a token that is {found} was changed by a late write")
            return
        if now == "inProgress":
            self._prolonged(before, after, tenure)
        elif not own and tenure is not None:
            if _attempt(after) == holder:
                self.story.breaks("an attempt's token was written by somebody else under its id")
            if self.alive(tenure):
                self.story.breaks("two hold one token: it was finished over an attempt whose lease is alive")
            self._loses(before)
        if tenure is not None and own and now != "inProgress":
            tenure.finished = True
            tenure.states.add(now)
            if now == "released":
                self.excused.add(holder)
        if now == "complete":
            self._stored(key, after)
            self.completed(key, after)

    def _decided(self, key: str, before: Item, after: Item, seen_by_operators: Item) -> None:
        """Judge what an operator wrote: to the row that they read, and under an id of its own."""
        if (state(before), _attempt(before)) != (state(seen_by_operators), _attempt(seen_by_operators)):
            self.story.breaks("a decision was written on what had changed since it was read")
        if _attempt(after) == _attempt(before) or int(after["fence"]["N"]) != int(before["fence"]["N"]) + 1:
            self.story.breaks("a decision was written under the id or the fence that was found")
        if state(before) != "inProgress" and state(after) == "complete":
            self._stored(key, after)
        if state(after) == "released" and ("status" not in after or "ttl" in after):
            self.story.breaks("what a decision released is not listed, or will expire")

    def _prolonged(self, before: Item, after: Item, tenure: Tenure | None) -> None:
        was, lease = (milliseconds(row["expectedCompletion"]["S"]) for row in (before, after))
        if lease < was:
            self.story.breaks("a lease was shortened")
        if tenure is not None:
            tenure.alive_until = (
                max(tenure.alive_until, lease - MARGIN_MS) if lease > was else tenure.alive_until
            )

    def _stored(self, key: str, after: Item) -> None:
        if "resultUnavailable" in after:
            self.unavailable.add(key)
        elif "error" not in after:
            text = self._text(key, after)
            if text is None:
                self.story.breaks("a row says that its result is in parts, and they are not there")
            else:
                self.outcomes[key].append(text)

    def _text(self, key: str, row: Item) -> str | None:
        """Return the JSON of the result, canonical; None where parts are missing."""
        if "result" in row:
            ((_, data),) = row["result"].items()
            return canonical(json.loads(results.unpack(data)))
        keys = _parts_of(key, row)
        if not keys:
            return "null"
        items = self.network.engine.tables["tokens"].items
        if any(part not in items for part in keys):
            return None
        return canonical(json.loads(results.unpack_chunks(items[part]["data"]["B"] for part in keys)))

    def _loses(self, before: Item) -> None:
        tenure = self.tenures.get(_attempt(before))
        if tenure is not None:
            tenure.lost = True

    # ---------------------------------------------------------------- what expires

    def _deleted(self, before: Item) -> None:
        holder = _attempt(before)
        tenure = self.tenures.get(holder)
        if state(before) == "inProgress" and tenure is not None and self.alive(tenure):
            self.story.breaks("the row of an attempt in progress expired")
        if state(before) == "complete":
            self.unavailable.add(before["lockToken"]["S"])
        self._loses(before)
        self._forgets(before)

    def _forgets(self, before: Item) -> None:
        """Take it that all that was done under the token is forgotten: its time is over."""
        token = before["lockToken"]["S"]
        self.excused |= {tenure.attempt for tenure in self.tenures.values() if tenure.token == token}

    def _check_ttl(self, after: Item, writer: Sandbox | None) -> None:
        found, ttl = state(after), after.get("ttl")
        if found == "error" and ttl is not None:
            self.story.breaks("a held token would expire")
        if found == "inProgress" and ttl is not None:
            if writer is not None and writer.on_lapse != "take_over":
                self.story.breaks("a token that may have to wait for a person would expire")
            if int(ttl["N"]) < START_S + milliseconds(after["expectedCompletion"]["S"]) // 1000:
                self.story.breaks("a row would expire before its lease")

    def _part(self, key: str, before: Item | None, after: Item | None) -> None:
        token = key.partition("#")[0]
        self.story.row(key, after)
        row = self.rows.get(token)
        if before is None or row is None or key not in _parts_of(token, row) or self._expired_for_all(row):
            return
        if after is None:
            self.story.breaks("a part is gone before the row that names it")
        elif after["data"] != before["data"]:
            self.story.breaks("a part of a stored result was overwritten")

    def _expired_for_all(self, row: Item) -> bool:
        return START_S + (self.scheduler.now - SKEW_MS) / 1000 >= int(row["ttl"]["N"])


def _acquires(before: Item, after: Item) -> bool:
    """Tell an acquisition from the other writes to an unfinished row: it grants a fence."""
    return state(before) != "inProgress" or before["fence"] != after["fence"]


def _parts_of(token: str, row: Item) -> list[str]:
    """Return the keys of the parts that *row* names, as the package names them."""
    if state(row) != "complete" or "parts" not in row:
        return []
    write = row["write"]["S"]
    return [vars(requests)["part_key"](token, _attempt(row), write, n) for n in range(int(row["parts"]["N"]))]


def _attempt(row: Item) -> str:
    return str(row["attempt"]["S"])


def state(row: Item) -> str:
    """Return the state of *row* by its name, without its shard."""
    if "status" in row:
        return str(row["status"]["S"]).partition("_")[0]
    return "complete" if "actualCompletion" in row else "released"


def milliseconds(stamp: str) -> int:
    """Return a row's time as milliseconds since the beginning."""
    return round((datetime.fromisoformat(stamp) - START).total_seconds() * 1000)


def canonical(value: Any) -> str:
    """Return JSON in which 0 and false, and equal objects of another order, are distinguished, or equal."""
    return json.dumps(value, sort_keys=True)
