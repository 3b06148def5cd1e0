"""
Incidents at night: what an operator types, and the next step that the output names.

`test_incidents` plays each on a table of its own. As a program, `python -m tests.operations.incidents`, this
plays them on one table of 3,000 rows on dynoxide, and prints the seconds of each: those that passed,
and those of the processor, which do not depend on what else the machine does.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, redirect_stdout
from datetime import timedelta
from io import StringIO
from resource import RUSAGE_CHILDREN, getrusage
from typing import NamedTuple

from lambda_once.core.clock import SystemClock
from lambda_once.core.lifecycle import Failure, State
from lambda_once.core.writes import Complete
from lambda_once.operations.watchdog import watchdog
from lambda_once.stores.row import listed
from lambda_once.testing import FakeClock
from tests.cli.shop import Shop
from tests.kit import strangers, tables
from tests.kit.dynoxide import running

MESSAGE = "059f36b4-87a3-44ab-83d2-661975830a7d"
WHO = "--by ann --yes"
RESULT = '{"receipt":"ch_1","amount":100}'
SENTENCE = "User: arn:aws:sts::1:assumed-role/dev/ann is not authorized to perform: dynamodb:Query"
COMPLETE, OVERDUE, HELD = 2_489, 500, 11
"""Rows of the program's table."""


class Incident(NamedTuple):
    """One incident."""

    what: str
    typed: tuple[str, ...]
    """Command lines, one after the other, without ``lambda-once``."""
    step: str
    """What the output of the last one names."""
    code: int
    """Its exit code."""
    prepare: Callable[[Shop], object] = lambda shop: shop
    refusal: tuple[str, str] | None = None
    """What an endpoint in place of DynamoDB answers: an error, and its message."""


def _in_two_functions(shop: Shop) -> None:
    shop.complete("orders/charge/12345")
    shop.complete("orders/ship/12345")
    shop.begin("orders/ship/other")  # so that one of both functions is known


def _declined(shop: Shop) -> None:
    shop.begin("orders/charge/20003")
    shop.end("orders/charge/20003", Complete(None, Failure("CardDeclined", "no funds")))


def _released_by_the_watchdog(shop: Shop) -> None:
    for n in range(3):
        shop.begin(f"orders/invoice/{n}", lease=30)
    shop.clock.advance(120)
    run = watchdog(shop.name, shop.client, shop.clock, actions={"invoice": "release"})
    assert run({}, None)["released"] == 3


def _two_watchdogs(shop: Shop) -> None:
    """Release each token once, whoever comes first."""
    for n in range(20):
        shop.begin(f"orders/parcel/{n}", lease=30)
    shop.clock.advance(120)

    def run(_: int) -> int:
        released: int = watchdog(shop.name, shop.client, shop.clock, actions={"parcel": "release"})({}, None)[
            "released"
        ]
        return released

    with ThreadPoolExecutor() as pool:
        assert sum(pool.map(run, range(2))) == 20


def _held(name: str, count: int) -> Callable[[Shop], object]:
    return lambda shop: [shop.hold(f"orders/{name}/{n}") for n in range(count)]


def _charged(key: int) -> Callable[[Shop], object]:
    return lambda shop: shop.complete(f"orders/charge/{key}", RESULT)


def _without_index(shop: Shop) -> None:
    shop.client.create_table(
        TableName=f"{shop.name}-bare",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "lockToken", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "lockToken", "KeyType": "HASH"}],
    )


def _renamed_service(shop: Shop) -> None:
    for service in ("orders", "order"):
        shop.complete(f"{service}/charge/40001")


def _malformed(shop: Shop) -> None:
    at = {"S": "2026-11-20T10:12:00.000Z"}
    shop.put(
        {
            "lockToken": {"S": "their/old/row"},
            "status": {"S": "error"},
            "listed": {"S": listed(State.HELD, "their/old/row")},
            "expectedCompletion": at,
        }
    )


def _lost(shop: Shop) -> None:
    shop.begin("orders/ship/lost", lease=30)


INCIDENTS = (
    Incident(
        "12345, finished in two functions",
        ("show 12345",),
        "2 tokens have the key 12345; next: lambda-once show TOKEN",
        2,
        _in_two_functions,
    ),
    Incident(
        "held",
        ("show 20001",),
        "next: lambda-once resolve orders/charge/20001 --attempt a1 --not-done --because",
        1,
        lambda shop: shop.hold("orders/charge/20001"),
    ),
    Incident(
        "its function died",
        ("show 20002",),
        "next: lambda-once resolve orders/charge/20002 --attempt a1 --done --because",
        1,
        lambda shop: shop.begin("orders/charge/20002", lease=30),
    ),
    Incident("declined", ("show 20003",), "failed for good: a duplicate gets the stored error", 0, _declined),
    Incident(
        "given back",
        ("show 20004",),
        "the next delivery runs",
        0,
        lambda shop: shop.release("orders/charge/20004"),
    ),
    Incident(
        "still running",
        ("show 20005",),
        "left of its lease",
        0,
        lambda shop: shop.begin("orders/charge/20005", lease=100_000),
    ),
    Incident("never seen", ("show 99999999",), "To search for part of it: lambda-once find 99999999", 1),
    Incident(
        "under the client's own key",
        ("find order-20006",),
        "lambda-once explain prints the token of an event",
        1,
        lambda shop: shop.complete("orders/api/POST:%2Forders/5f2b6a3e"),
    ),
    Incident(
        "a message in a dead-letter queue",
        (f"find --delivery {MESSAGE}",),
        "next: lambda-once show TOKEN",
        0,
        lambda shop: shop.hold("orders/mail/20007", delivery=MESSAGE),
    ),
    Incident(
        "500 overdue",
        ("list --overdue",),
        "next: lambda-once show TOKEN",
        1,
        lambda shop: [shop.begin(f"orders/ship/late-{n}", lease=30) for n in range(5)],
    ),
    Incident("the counts", ("watch --count 1",), "overdue, the oldest by", 1, _lost),
    Incident(
        "released by the watchdog, never run",
        ("list --released --name invoice",),
        "next: lambda-once show TOKEN",
        1,
        _released_by_the_watchdog,
    ),
    Incident(
        "two watchdogs at once",
        ("list --released --name parcel",),
        "20 released",
        1,
        _two_watchdogs,
    ),
    Incident(
        "an outage, and one that a colleague holds",
        (
            f"resolve orders/refund/2 --hold --force --because 'WAS charged, receipt on Monday' {WHO}",
            f"redrive --service orders --name refund --because 'the gateway was down' {WHO}",
        ),
        "redrive: ",
        0,
        _held("refund", 5),
    ),
    Incident(
        "two operators, one payment",
        (
            f"resolve orders/twice/0 --done --attempt a1 --because 'the bank has it' {WHO}",
            f"resolve orders/twice/0 --not-done --attempt a1 --because 'the bank has it not' {WHO}",
        ),
        "refused, nothing was written: the row no longer has attempt a1",
        1,
        _held("twice", 1),
    ),
    Incident(
        "a wrong --not-done",
        (
            f"resolve orders/wrong/0 --not-done --because 'mistyped' {WHO}",
            "show orders/wrong/0",
        ),
        "lambda-once resolve orders/wrong/0",
        0,
        _held("wrong", 1),
    ),
    Incident(
        "a wrong --not-done on finished work",
        (f"resolve orders/charge/20010 --not-done --force --because 'mistyped' {WHO}",),
        "Save it: lambda-once show orders/charge/20010 --result > backup.json",
        1,
        _charged(20010),
    ),
    Incident(
        "kept too short",
        (
            f"resolve orders/charge/20011 --keep 28d --because 'redriven next week' {WHO}",
            "show orders/charge/20011 --result",
        ),
        RESULT,
        0,
        _charged(20011),
    ),
    Incident(
        "the table is renamed",
        ("list --table other-table",),
        "deploy the template, or set LAMBDA_ONCE_TABLE, or the region",
        2,
    ),
    Incident(
        "the index is missing",
        ("list --table {table}-bare",),
        "its index byStatus must have the keys listed (S)",
        2,
        _without_index,
    ),
    Incident(
        "a wrong profile",
        ("list",),
        f"check --profile, or grant your role the permission. {SENTENCE}",
        2,
        refusal=("AccessDeniedException", SENTENCE),
    ),
    Incident(
        "expired credentials",
        ("show orders/charge/12345",),
        "credentials have expired: log in again",
        2,
        refusal=("ExpiredTokenException", "The security token included in the request is expired"),
    ),
    Incident(
        "erasure, asked for twice",
        (
            f"forget orders/charge/20012 --because 'request 4711' {WHO}",
            f"forget orders/charge/20012 --because 'request 4711' {WHO}",
        ),
        "refused, nothing was written: ",
        1,
        _charged(20012),
    ),
    Incident(
        "erasure of running work",
        (f"forget orders/charge/20013 --because 'request 4711' {WHO}",),
        "in progress",
        1,
        lambda shop: shop.begin("orders/charge/20013", lease=100_000),
    ),
    Incident(
        "charged twice after a deployment",
        ("show 40001",),
        "2 tokens have the key 40001; next: lambda-once show TOKEN",
        2,
        _renamed_service,
    ),
    Incident("another program's row in the index", ("list --held",), "not readable: ", 2, _malformed),
)


@contextmanager
def refusing(incident: Incident) -> Iterator[list[str]]:
    """Yield the options that lead to the endpoint of *incident*."""
    if incident.refusal is None:
        yield []
        return
    code, message = incident.refusal
    body = f'{{"__type":"com.amazonaws.dynamodb.v20120810#{code}","message":"{message}"}}'
    with strangers.page(400, "application/x-amz-json-1.0", body.encode()) as address:
        yield ["--endpoint-url", address]


def words(typed: str, shop: Shop) -> list[str]:
    """Return the arguments of a command line."""
    return shlex.split(typed.replace("{table}", shop.name))


# -- the program


def _filled(shop: Shop) -> None:
    for n in range(OVERDUE):
        shop.begin(f"orders/ship/order_{n:06}", lease=30)
    for n in range(HELD):
        shop.hold(f"orders/refund/order_{n:06}")
    for n in range(COMPLETE):
        shop.complete(f"orders/charge/order_{n:06}", RESULT)


class Played(NamedTuple):
    """What one incident took."""

    seconds: float
    processor: float
    line: str
    """The one that names the next step; empty: none does."""


def _played(incident: Incident, shop: Shop, environment: Mapping[str, str]) -> Played:
    clock, output = SystemClock(), ""
    began, used = clock.now(), _processor()
    with refusing(incident) as options:
        for typed in incident.typed:
            command = [sys.executable, "-m", "lambda_once_tools.cli", *options, *words(typed, shop)]
            ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            output = ran.stdout + ran.stderr
    line = next((line for line in output.splitlines() if incident.step in line), "")
    return Played((clock.now() - began).total_seconds(), _processor() - used, line)


def _processor() -> float:
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a table of all incidents."""
    write = sys.stdout.write
    with running() as endpoint, nullcontext(tables.client(endpoint)) as client, tables.fresh(client) as name:
        shop = Shop(client, name, endpoint)
        shop.clock = FakeClock(SystemClock().now() - timedelta(hours=3))
        _filled(shop)
        environment = os.environ | {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_REGION": "eu-central-1",
            "AWS_ENDPOINT_URL_DYNAMODB": endpoint,
            "LAMBDA_ONCE_TABLE": name,
        }
        write(f"{COMPLETE + OVERDUE + HELD:,} rows\n| incident | typed | s | CPU s | next step |\n")
        write("|---|---|---|---|---|\n")
        for incident in INCIDENTS:
            with redirect_stdout(StringIO()):  # the watchdog logs
                incident.prepare(shop)
            played = _played(incident, shop, environment)
            shown = "; ".join(f"`{each.split(' --because')[0]}`" for each in incident.typed)
            step = played.line.replace(name, "tokens").strip()[:140] or "NONE"
            times = f"{played.seconds:.1f} | {played.processor:.1f}"
            write(f"| {incident.what} | {shown} | {times} | {step} |\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
