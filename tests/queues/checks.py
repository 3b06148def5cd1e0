"""What a run on a real queue has shown, held against what the sample's policies promise."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from typing import Any

from lambda_once.core.lifecycle import Record, State

RECEIVES = 5
"""The sample's maxReceiveCount."""
WORKERS = 2
"""Processes at once. A flaky item is refused once in each of them, and in each that comes after a death."""


class Lane(Enum):
    """A queue, its function, and what its messages do: the effect outside, and the field that names it."""

    PAYMENTS = "payments", "orders.payments.charge", "charged", "paymentId"
    FULFILMENT = "fulfilment", "orders.fulfilment.ship", "shipped", "orderId"
    DELIVERIES = "deliveries.fifo", "orders.fulfilment.ship", "shipped", "orderId"
    RECEIPTS = "receipts.fifo", "orders.receipts.file", "filed", "orderId"

    def __init__(self, queue: str, function: str, effect: str, subject: str) -> None:
        self.queue = queue
        self.function = function
        self.effect = effect
        self.subject = subject

    @property
    def is_fifo(self) -> bool:
        return self.queue.endswith(".fifo")


@dataclass(frozen=True, slots=True)
class Sent:
    """One message, in the order of sending."""

    lane: Lane
    id: str
    """Its MessageId."""
    body: str
    group: str | None = None

    @property
    def subject(self) -> str:
        return str(json.loads(self.body)[self.lane.subject])


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known once a run is over."""

    sent: Sequence[Sent]
    acknowledged: Collection[str]
    """The ids of the messages that the mappings deleted."""
    dead: Collection[str]
    """The ids of those in the dead-letter queues."""
    effects: Sequence[Mapping[str, Any]]
    """As the functions' processes noted them, in their order: effect, subject, pid."""
    rows: Mapping[str, Record]
    """The token table, by the key of the work."""
    interrupted: Collection[int]
    """The pids of processes that were killed or timed out."""
    died: Mapping[str, int] = field(default_factory=dict)
    """How many invocations died over a message, by its id."""

    def processes(self, lane: Lane, subject: str) -> list[int]:
        """Return the processes in which the effect on *subject* happened, in their order."""
        wanted = lane.effect, subject
        return [each["pid"] for each in self.effects if (each["effect"], each["subject"]) == wanted]


def check(evidence: Evidence) -> list[str]:
    """Return what was promised and not kept, each in a sentence."""
    rules = (_lost, _unreasoned, _without_effect, _twice, _out_of_order)
    return [sentence for rule in rules for sentence in rule(evidence)]


def counts(evidence: Evidence) -> Counter[str]:
    """Return how many messages were sent, acknowledged and dead, and how often each effect happened."""
    found = Counter(each["effect"] for each in evidence.effects)
    found.update(sent=len(evidence.sent), dead=len(evidence.dead), acknowledged=len(evidence.acknowledged))
    return found


def _lost(evidence: Evidence) -> Iterator[str]:
    for message in evidence.sent:
        if message.id not in evidence.acknowledged and message.id not in evidence.dead:
            yield f"lost: {message.subject} is neither acknowledged nor a dead letter"


def _unreasoned(evidence: Evidence) -> Iterator[str]:
    """
    A dead letter has a reason that an operator finds.

    Its token is held, lapsed or released; its receipt was amended; invocations died over it until no receive
    was left; or on a FIFO queue it was received behind such a message of its group, failed with it each time,
    and so has its receive count.
    """
    poisoned: set[tuple[Lane, str]] = set()
    for message in evidence.sent:
        if message.id not in evidence.dead or message.id in evidence.acknowledged:
            continue
        if _fails_for_good(message, evidence) or _is_worn_out(message, evidence):
            poisoned.add((message.lane, message.group or ""))
        elif (message.lane, message.group) not in poisoned:
            yield f"dead without a reason: {message.subject} of {message.lane.queue}"


def _fails_for_good(message: Sent, evidence: Evidence) -> bool:
    body, row = json.loads(message.body), evidence.rows.get(message.subject)
    state = None if row is None else row.state
    match message.lane:
        case Lane.PAYMENTS:
            return state in (State.HELD, State.IN_PROGRESS)
        case Lane.RECEIPTS:
            return bool(body.get("amended"))
        case Lane.FULFILMENT | Lane.DELIVERIES:
            is_refused = bool({"jammed-door", "heavy-safe"} & {*body["items"]})
            return state is State.IN_PROGRESS or (state is State.RELEASED and is_refused)


def _is_worn_out(message: Sent, evidence: Evidence) -> bool:
    """Each death costs two receives: its own, and one that meets the token of the dead."""
    of_subject = [
        each for each in evidence.sent if (each.lane, each.subject) == (message.lane, message.subject)
    ]
    deaths = sum(evidence.died.get(each.id, 0) for each in of_subject)
    refusals = WORKERS + deaths if "flaky-lamp" in json.loads(message.body).get("items", ()) else 0
    return 2 * deaths + refusals >= RECEIVES


def _without_effect(evidence: Evidence) -> Iterator[str]:
    for message in evidence.sent:
        declined = json.loads(message.body).get("card") == "tok_declined"
        if (
            message.id in evidence.acknowledged
            and not declined
            and not evidence.processes(message.lane, message.subject)
        ):
            yield f"lost: {message.subject} was acknowledged and never {message.lane.effect}"
        if declined and evidence.processes(message.lane, message.subject):
            yield f"charged: {message.subject} was declined"


def _twice(evidence: Evidence) -> Iterator[str]:
    """A payment is held after a crash; an order ships again only after one."""
    for lane, subject in dict.fromkeys((message.lane, message.subject) for message in evidence.sent):
        for pid, _ in pairwise(evidence.processes(lane, subject)):
            if lane in (Lane.PAYMENTS, Lane.RECEIPTS) or pid not in evidence.interrupted:
                yield f"twice: {subject} was {lane.effect} again"


def _out_of_order(evidence: Evidence) -> Iterator[str]:
    """Orders of one group ship in the order of sending, those that never shipped left out."""
    first: dict[str, int] = {}
    for place, each in enumerate(evidence.effects):
        first.setdefault(each["subject"], place)
    groups: defaultdict[str | None, list[str]] = defaultdict(list)
    for message in evidence.sent:
        if message.lane is Lane.DELIVERIES and message.subject in first:
            groups[message.group].append(message.subject)
    for group, subjects in groups.items():
        for one, next_one in pairwise(dict.fromkeys(subjects)):
            if first[next_one] < first[one]:
                yield f"out of order: {next_one} of group {group} shipped before {one}"
