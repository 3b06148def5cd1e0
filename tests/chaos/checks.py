"""What a run has shown: what was counted, and what was promised and not kept."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lambda_once.core.lifecycle import Record, State
from lambda_once.observability.events import Event
from tests.chaos.deliveries import Lane, Message
from tests.chaos.fleet import Interrupted
from tests.chaos.journal import Entry

ALIVE = 0
"""No process that was ever killed."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known once a run is over."""

    messages: Sequence[Message]
    journal: Sequence[Entry]
    rows: Mapping[str, Record]
    """The token table, by the key of the work."""
    transacted: Mapping[str, int]
    """How often the transactions of each key took effect."""
    troubled: Mapping[str, Sequence[str]]
    """For each attempt id, what happened to its requests."""
    senders: Mapping[str, int | None]
    """For each attempt id, the process that sent its requests; None: one that was killed meanwhile."""
    interrupted: Interrupted

    def was_interrupted(self, attempt: str) -> bool:
        """Tell whether *attempt* was cut off, killed or paused: by the proxy's word, not by its own."""
        if attempt in self.troubled:
            return True
        pid = self.senders.get(attempt, ALIVE)
        return pid is None or pid in self.interrupted

    def effects(self) -> dict[str, list[Entry]]:
        """Return the effects of each key, in the order in which their attempts got the token."""
        found: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self.journal:
            if entry["kind"] == "effect":
                found[entry["key"]].append(entry)
        return {key: sorted(those, key=lambda one: one["created"]) for key, those in found.items()}

    def events(self, event: Event) -> list[Entry]:
        return [e for e in self.journal if e["kind"] == "event" and e["event"] == event.value]


@dataclass(frozen=True, slots=True)
class Result:
    """The counts of a run, and its violations, each in a sentence that a person can read."""

    counts: Mapping[str, int]
    violations: Sequence[str]


def check(evidence: Evidence) -> Result:
    """Hold *evidence* against the guarantees."""
    effects = evidence.effects()
    rules = (_lost, _stuck, _repeated, _out_of_order, _held, _overwritten, _diverging)
    violations = [sentence for rule in rules for sentence in rule(evidence, effects)]
    return Result(_counts(evidence, effects), violations)


Effects = Mapping[str, Sequence[Entry]]


def _times(message: Message, evidence: Evidence, effects: Effects) -> int:
    if message.lane is Lane.TRANSACT:
        return evidence.transacted.get(message.key, 0)
    return len(effects.get(message.key, ()))


def _lost(evidence: Evidence, effects: Effects) -> Iterator[str]:
    for message in evidence.messages:
        if message.acknowledged and not _times(message, evidence, effects):
            yield f"lost: {message.key} was acknowledged and never took effect"


def _stuck(evidence: Evidence, _effects: Effects) -> Iterator[str]:
    for message in evidence.messages:
        if not message.gone:
            yield f"stuck: {message.key} was not finished in {message.receives} deliveries"
        if message.dead and message.lane is not Lane.HOLD:
            yield f"held: {message.key} needs review where nothing is ever held"


def _repeated(evidence: Evidence, effects: Effects) -> Iterator[str]:
    for key, times in evidence.transacted.items():
        if times != 1:
            yield f"twice: the transaction of {key} took effect {times} times"
    lanes = {message.key: message.lane for message in evidence.messages}
    completed = {event["attempt"] for event in evidence.events(Event.COMPLETED)}
    for key, several in effects.items():
        for one, next_one in pairwise(several):
            why = _unexplained(one, next_one, lanes[key], completed, evidence)
            if why is not None:
                yield f"twice: {key} took effect under {one['attempt']} and {next_one['attempt']}, {why}"


def _unexplained(
    one: Entry, next_one: Entry, lane: Lane, completed: set[str], evidence: Evidence
) -> str | None:
    """Return why *next_one* must not have followed *one*; None where a crash or a lapse explains it."""
    if lane is Lane.HOLD:
        return "and its lane holds"
    if one["attempt"] in completed:
        return "and the first of them was complete"
    if next_one["created"] <= one["lease"]:
        return f"and the first of them held the token until {one['lease']}"
    if not evidence.was_interrupted(one["attempt"]) and not _lapsed_while_it_ran(one, evidence):
        return "and nothing interrupted the first of them"
    return None


def _lapsed_while_it_ran(effect: Entry, evidence: Evidence) -> bool:
    """Tell whether the attempt of *effect* itself said that it was late: a busy machine can be that slow."""
    return any(
        event["pid"] == effect["pid"] and event["at"] > effect["lease"]
        for event in evidence.events(Event.FENCED)
    )


def _out_of_order(evidence: Evidence, _effects: Effects) -> Iterator[str]:
    """Work of one message group takes effect in the order of sending; a repeat may come later."""
    keys = dict.fromkeys(entry["key"] for entry in evidence.journal if entry["kind"] == "effect")
    order = {key: place for place, key in enumerate(keys)}
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for message in evidence.messages:
        if message.group is not None and message.key in order:
            groups[message.group].append(message.key)
    for group, sent in groups.items():
        for one, next_one in pairwise(sent):
            if order[next_one] < order[one]:
                yield f"out of order: {next_one} of {group} took effect before {one}"


def _held(evidence: Evidence, _effects: Effects) -> Iterator[str]:
    """No operator is called for nothing: an attempt that waits for a person was killed, paused or cut off."""
    for key in {message.key for message in evidence.messages if message.dead}:
        row = evidence.rows.get(key)
        if row is None:
            yield f"held: {key} has no row"
        elif not evidence.was_interrupted(row.attempt_id):
            yield f"held: {key} needs review, and nothing interrupted attempt {row.attempt_id}"


def _overwritten(evidence: Evidence, _effects: Effects) -> Iterator[str]:
    """What is finished is final: the row is as the attempt that completed it said."""
    for event in evidence.events(Event.COMPLETED):
        key = event["token"].rpartition("/")[2]
        row = evidence.rows.get(key)
        if row is None or row.state is not State.COMPLETE or row.attempt_id != event["attempt"]:
            found = "no row" if row is None else f"{row.state.value} by {row.attempt_id}"
            yield f"overwritten: {key} was complete by {event['attempt']}, and there is {found}"


def _diverging(evidence: Evidence, _effects: Effects) -> Iterator[str]:
    """Every caller gets the stored outcome, but for those whose completion could not be written."""
    unwritten = {event["attempt"] for event in evidence.events(Event.COMPLETION_FAILED)}
    for answer in evidence.journal:
        if answer["kind"] != "answer":
            continue
        if not answer["whole"]:
            yield f"diverging: {answer['key']} was answered with a part of a result"
        if answer["attempt"] not in unwritten:
            row = evidence.rows.get(answer["key"])
            if row is None or row.attempt_id != answer["attempt"]:
                yield f"diverging: {answer['key']} was answered with the result of {answer['attempt']}"


def _counts(evidence: Evidence, effects: Effects) -> dict[str, int]:
    happened: Counter[Any] = Counter(e["event"] for e in evidence.journal if e["kind"] == "event")
    repeats = sum(len(several) - 1 for several in effects.values())
    return {
        "messages": len(evidence.messages),
        "deliveries": sum(message.receives for message in evidence.messages),
        "executions": sum(map(len, effects.values())) + sum(evidence.transacted.values()),
        "repeats": repeats + sum(times - 1 for times in evidence.transacted.values()),
        "lost": _number(_lost(evidence, effects)),
        "held": len({message.key for message in evidence.messages if message.dead}),
        "replayed": happened[Event.REPLAYED],
        "in progress": happened[Event.IN_PROGRESS],
        "taken over": happened[Event.TAKEN_OVER],
        "fenced": happened[Event.FENCED],
        "completion failed": happened[Event.COMPLETION_FAILED],
        "store unavailable": happened[Event.STORE_UNAVAILABLE],
        "workers killed": len(evidence.interrupted.killed),
        "workers timed out": len(evidence.interrupted.timed_out),
        "workers paused": len(evidence.interrupted.paused),
    }


def _number(found: Iterable[object]) -> int:
    return sum(1 for _ in found)
