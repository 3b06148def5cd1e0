"""
How assertions are played: one after the other, those that have to wait for AWS are asked again at the end.

An assertion is a function of a `Run`. It returns what it saw, and whether that is what this package relies
on; or, if AWS takes minutes, a function that is asked for this at the end.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from inspect import getdoc
from typing import Any, Final, NamedTuple

from tests.aws.stacks import Aws

POLL: Final = 2.0
"""Seconds between two looks at what is awaited."""
MINUTES: Final = 40
"""After which nothing more is begun, whatever is left: what is deployed costs by the hour."""
_REPORT: Final = re.compile(
    r"(?P<name>Init Duration|Duration|Billed Duration|Max Memory Used): (?P<value>[\d.]+)"
)


class Verdict(Enum):
    """What an answer means."""

    HOLDS = "holds"
    FAILS = "FAILS"
    """The package relies on something else: please report it."""
    SEEN = "seen"
    """Nothing relies on it."""
    ERROR = "error"
    """It could not be played to its end."""
    NOT_PLAYED = "not played"


class Answer(NamedTuple):
    """What an assertion found."""

    verdict: Verdict
    seen: str
    """In words, with figures; no ids, names or addresses of the account."""


def judged(holds: bool, seen: object) -> Answer:
    """Return the answer of an assertion that something relies on."""
    return Answer(Verdict.HOLDS if holds else Verdict.FAILS, str(seen))


def noticed(seen: object) -> Answer:
    """Return the answer of one that nothing relies on."""
    return Answer(Verdict.SEEN, str(seen))


class Invocation(NamedTuple):
    """One synchronous invocation."""

    payload: Any
    error: str | None
    """Lambda's FunctionError."""
    log: str
    """Its last 4 KB."""

    def milliseconds(self, name: str) -> float:
        """Return a figure of the log's REPORT line, such as "Duration"; 0 if it has none."""
        figures = {found["name"]: float(found["value"]) for found in _REPORT.finditer(self.log)}
        return figures.get(name, 0.0)


class Response(NamedTuple):
    """An answer of the API."""

    status: int
    headers: dict[str, str]
    """Names in lower case."""
    body: str


Http = Callable[[str, dict[str, str], bytes], Response]
"""Posts a body with headers to an address."""


@dataclass(frozen=True, slots=True)
class Run:
    """What an assertion may use."""

    aws: Aws
    outputs: dict[str, str]
    """Of both stacks."""
    post: Http
    begun: datetime
    spent: dict[str, float] = field(default_factory=dict)
    """How much of what was used, by its name in `cost.PRICES`."""

    def client(self, service: str) -> Any:
        """Return boto3's client of *service*."""
        return self.aws.client(service)

    def invoke(self, function: str, event: object, **more: str) -> Invocation:
        """Invoke the function that is the output *function*, and wait for it."""
        answer = self._send(function, event, LogType="Tail", **more)
        log = b64decode(answer.get("LogResult", "")).decode(errors="replace")
        invocation = Invocation(
            json.loads(answer["Payload"].read() or b"null"), answer.get("FunctionError"), log
        )
        self.count("invocations", 1)
        self.count("milliseconds", invocation.milliseconds("Billed Duration"))
        return invocation

    def invoke_async(self, function: str, event: object) -> str:
        """Invoke *function* asynchronously, and return the request id."""
        answer = self._send(function, event, InvocationType="Event")
        return str(answer["ResponseMetadata"]["RequestId"])

    def _send(self, function: str, event: object, **more: str) -> dict[str, Any]:
        """Invoke *function*; one that was throttled has not run, so it is sent again for a minute."""
        client, ends = self.client("lambda"), self.aws.clock.now() + timedelta(minutes=1)
        while True:
            try:
                return dict(
                    client.invoke(
                        FunctionName=self.outputs[function], Payload=json.dumps(event).encode(), **more
                    )
                )
            except client.exceptions.TooManyRequestsException:
                if self.aws.clock.now() > ends:
                    raise
                self.aws.clock.sleep(POLL)

    def send(self, queue: str, body: object) -> str:
        """Send a message to the queue that is the output *queue*, and return its id."""
        sent = self.client("sqs").send_message(QueueUrl=self.outputs[queue], MessageBody=json.dumps(body))
        return str(sent["MessageId"])

    def row(self, token: str) -> dict[str, Any]:
        """Read the row of *token*; empty if there is none."""
        read = self.client("dynamodb").get_item(
            TableName=self.outputs["TokenTableName"], Key={"lockToken": {"S": token}}, ConsistentRead=True
        )
        return dict(read.get("Item", {}))

    def rows(self, part: str) -> list[dict[str, Any]]:
        """Read all rows whose token contains *part*."""
        pages = (
            self.client("dynamodb")
            .get_paginator("scan")
            .paginate(
                TableName=self.outputs["TokenTableName"],
                ConsistentRead=True,
                FilterExpression="contains(lockToken, :part)",
                ExpressionAttributeValues={":part": {"S": part}},
            )
        )
        return [row for page in pages for row in page["Items"]]

    def logged(self, group: str, *words: str) -> list[str]:
        """Return the log lines of *group* that contain all *words*, as far as they have arrived."""
        pages = (
            self.client("logs")
            .get_paginator("filter_log_events")
            .paginate(
                logGroupName=self.outputs[group],
                filterPattern=" ".join(f'"{word}"' for word in words),
            )
        )
        return [event["message"] for page in pages for event in page["events"]]

    def until(self, look: Callable[[], Any], seconds: float, every: float = POLL) -> Any:
        """Return what *look* returns as soon as it is something, else its last answer after *seconds*."""
        ends = self.aws.clock.now() + timedelta(seconds=seconds)
        while not (found := look()) and self.aws.clock.now() < ends:
            self.aws.clock.sleep(every)
        return found

    def count(self, what: str, amount: float) -> None:
        """Add *amount* to what was used."""
        self.spent[what] = self.spent.get(what, 0.0) + amount

    @property
    def is_late(self) -> bool:
        """Whether nothing more is begun."""
        return self.aws.clock.now() - self.begun > timedelta(minutes=MINUTES)


Later = Callable[[], Answer]
"""What is asked when all other assertions are done."""
Assertion = Callable[[Run], Answer | Later]


def claim(assertion: Assertion) -> str:
    """Return what *assertion* says of AWS: its docstring's first paragraph."""
    return " ".join((getdoc(assertion) or "").partition("\n\n")[0].split())


def play(run: Run, assertions: Sequence[Assertion], answers: dict[str, Answer]) -> None:
    """Play *assertions*, and put the answer of each into *answers*, by its claim, as soon as it is there."""
    answers |= {claim(assertion): Answer(Verdict.NOT_PLAYED, "") for assertion in assertions}
    waiting: list[tuple[str, Later]] = []
    for assertion in assertions:
        if run.is_late:
            break
        answer = _played(partial(assertion, run))
        if callable(answer):
            waiting.append((claim(assertion), answer))
        else:
            _take(run, claim(assertion), answer, answers)
    for claimed, look in waiting:
        answer = _played(look)
        assert isinstance(answer, Answer)
        _take(run, claimed, answer, answers)


def _played(play: Callable[[], Answer | Later]) -> Answer | Later:
    try:
        return play()
    except Exception as error:  # noqa: BLE001  (the others are still played, and everything is deleted)
        return Answer(Verdict.ERROR, f"{type(error).__name__}: {error}")


def _take(run: Run, claimed: str, answer: Answer, answers: dict[str, Answer]) -> None:
    answers[claimed] = answer
    run.aws.say(f"{run.aws.clock.now():%H:%M:%S} {answer.verdict.value:>6}  {claimed} {answer.seen}")
