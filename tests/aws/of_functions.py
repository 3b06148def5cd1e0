"""Assertions about Lambda and what invokes it: environments, queues, the API, permissions, latency."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from secrets import token_hex
from statistics import median, quantiles
from typing import Any, Final

from lambda_once.operations import watchdog
from tests.aws.play import Answer, Assertion, Later, Run, judged, noticed
from tests.aws.stacks import StackFailed

ROUNDS: Final = 20
"""Warm invocations of each function whose latency is taken."""
STARTS: Final = 3
"""Cold starts of each."""
LARGE: Final = 600_000
"""Bytes of a result that no item can hold, even compressed: it is random."""
LISTED_AFTER: Final = watchdog.GRACE + timedelta(seconds=1)
"""How long after its lease a token is awaited in the list."""
AT_ONCE: Final = 8
"""Invocations of one key at the same time. A new account may have ten (Lambda quotas)."""
REDELIVERED: Final = 240
"""Seconds in which a message comes back that failed: the sample's queue hides it for 180 of them."""
LISTED: Final = 900
"""Seconds in which ListMetrics knows a new metric (CloudWatch API reference)."""
SIDES: Final = {"boto3": "Probe", "crt": "ProbeCrt", "Powertools": "Theirs"}
"""The functions that are timed, each with a client of its own."""


def _id() -> str:
    return token_hex(8)


def _token(order_id: str) -> str:
    return f"probes/work/{order_id}"


def wait_for_functions(run: Run) -> None:
    """
    Wait until a function runs and may use the table: a new role is known everywhere only seconds later.

    Raises StackFailed with its error if it doesn't within two minutes: then each assertion would fail.
    """
    answers: list[Any] = []

    def runs() -> bool:
        answers.append(run.invoke("Probe", {"id": _id()}).payload)
        return "run" in answers[-1]

    if not run.until(runs, 120):
        raise StackFailed(f"the functions don't run: {answers[-1]}")


# ------------------------------------------------------------------ once


def replay(run: Run) -> Answer:
    """A second invocation gets the first one's result."""
    order = {"id": _id()}
    first, second = (run.invoke("Probe", order) for _ in range(2))
    holds = first.error is None and first.payload == second.payload and "run" in first.payload
    return judged(holds, "the same" if holds else f"{first.error}, {second.error}: another result")


def race(run: Run) -> Answer:
    """Of invocations with one key at the same time one runs; the others get its result, or InProgress."""
    order = {"id": _id(), "seconds": 1}
    with ThreadPoolExecutor(AT_ONCE) as callers:
        payloads = [
            each.payload for each in callers.map(lambda _: run.invoke("Probe", order), range(AT_ONCE))
        ]
    runs = {payload["run"] for payload in payloads if "run" in payload}
    refused = sum(payload.get("refused") == "InProgress" for payload in payloads)
    answered = sum("run" in payload for payload in payloads)
    return judged(len(runs) == 1 and answered + refused == AT_ONCE, f"{len(runs)} ran; InProgress {refused}")


def large_result(run: Run) -> Answer:
    """A result beyond an item's 400 KB is stored in several rows, and replayed."""
    # The text is hexadecimal, of which compression takes half.
    order: dict[str, Any] = {"id": _id(), "bytes": LARGE * 2}
    first, second = (run.invoke("Probe", order) for _ in range(2))
    run.count("write units", LARGE / 1_000)
    parts = len(run.rows(f"{_token(order['id'])}#"))
    return judged(
        first.error is None and first.payload == second.payload and parts > 1,
        f"{parts} rows beside the token's",
    )


def tenants(run: Run) -> Answer:
    """Two tenants of a function with tenant isolation don't share a token."""
    order = {"id": _id()}
    blue, green, again = (
        run.invoke("ProbeTenants", order, TenantId=who) for who in ("blue", "green", "blue")
    )
    holds = blue.payload == again.payload != green.payload and blue.error is green.error is None
    return judged(holds, "each has its own" if holds else f"{blue.error}, {green.error}, {again.error}")


# ------------------------------------------------------------------ crashes


def crash_is_found(run: Run) -> Later:
    """A process that dies leaves its token in progress; the watchdog finds it; the next one takes over."""
    order = {"id": _id(), "ends": "crash"}
    died = run.invoke("Probe", order)
    early = run.invoke("Probe", {"id": order["id"]})

    def look() -> Answer:
        ends = datetime.fromisoformat(run.row(_token(order["id"]))["expectedCompletion"]["S"])
        seconds = max(0.0, (ends + LISTED_AFTER - run.aws.clock.now()).total_seconds())
        run.aws.clock.sleep(seconds)
        found = run.until(lambda: _watched(run, order["id"]), 120)
        after = run.until(lambda: _ran(run, order["id"]), 60)
        holds = bool(died.error) and "refused" in early.payload and found and after
        seen = f"{died.error}; then {early.payload.get('refused', 'it ran')}; "
        return judged(
            holds,
            f"{seen}{'found' if found else 'not found'}; then {'it ran' if after else 'refused'}",
        )

    return look


def _ran(run: Run, order_id: str) -> bool:
    return "run" in run.invoke("Probe", {"id": order_id}).payload


def _watched(run: Run, order_id: str) -> bool:
    """Let the watchdog run, and return whether the token is in the index."""
    run.invoke("Watchdog", {})
    return "listed" in run.row(_token(order_id))


def killed_late(run: Run) -> Answer:
    """Lambda stops a function at most two seconds after its timeout: what a lease has to spare."""
    order = {"id": _id(), "ends": "timeout"}
    invocation = run.invoke("Probe", order)
    run.count("write units", 1_000)
    row = run.row(f"probes/beats#{order['id']}")
    beat = datetime.fromisoformat(row["beat"]["S"]).timestamp()
    late = beat - float(row["expires"]["S"])
    return judged(bool(invocation.error) and late < 2, f"its last write began {late:+.2f} s from the timeout")


def asynchronous_failure(run: Run) -> Later:
    """An asynchronous invocation that fails is tried again with its request id, which its record has."""
    order = {"id": _id(), "ends": "exception"}
    request_id = run.invoke_async("Probe", order)

    def look() -> Answer:
        records = run.until(lambda: _received(run, "FailedEvents", order["id"]), 180)
        ids = [record["requestContext"]["requestId"] for record in records]
        holder = run.row(_token(order["id"]))["lockedBy"]["S"]
        holds = set(ids) == {request_id} and holder.endswith(f"/{request_id}")
        tried = records[0]["requestContext"]["approximateInvokeCount"] if records else 0
        return judged(
            holds,
            f"{len(records)} record, after {tried} attempts, {'the same id' if holds else 'another id'}",
        )

    return look


def _received(run: Run, queue: str, word: str) -> list[dict[str, Any]]:
    """Take messages from *queue*, and return the bodies of those that contain *word*."""
    url = run.outputs[queue]
    answer = run.client("sqs").receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=5)
    messages = answer.get("Messages", [])
    for message in messages:
        if word in message["Body"]:
            run.client("sqs").delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return [json.loads(message["Body"]) for message in messages if word in message["Body"]]


# ------------------------------------------------------------------ queues, topics, the API


def message_sent_twice(run: Run) -> Answer:
    """Two messages with one payment charge once (the sample's queue)."""
    payment: dict[str, Any] = {"paymentId": _id(), "card": "tok_visa", "amount": 1999}
    words = ("charged", payment["paymentId"], "charge_id")
    run.send("PaymentsQueueUrl", payment)
    # Both at once could be one batch, where they share one outcome, or meet in progress.
    run.until(lambda: run.logged("LogGroupName", *words), REDELIVERED, every=5)
    run.send("PaymentsQueueUrl", payment)
    replayed = run.until(
        lambda: run.logged("LogGroupName", "once.replayed", payment["paymentId"]), REDELIVERED, every=5
    )
    charged = len(run.logged("LogGroupName", *words))
    return judged(
        charged == 1 and len(replayed) == 1, f"charged {charged} times, replayed {len(replayed)} times"
    )


def notice_published_twice(run: Run) -> Answer:
    """A notice that is published twice is mailed once (the sample's topic)."""
    subject = _id()

    def published(*words: str) -> list[str]:
        run.client("sns").publish(TopicArn=run.outputs["OrderNoticesArn"], Subject=subject, Message=subject)
        lines: list[str] = run.until(lambda: run.logged("LogGroupName", *words), REDELIVERED, every=5)
        return lines

    published("mailed", subject)
    replayed = published("once.replayed", ".notify/")
    mailed = run.logged("LogGroupName", "mailed", subject)
    return judged(
        len(mailed) == len(replayed) == 1, f"mailed {len(mailed)} times, replayed {len(replayed)} times"
    )


def partial_batch(run: Run) -> Later:
    """Of a batch only the message that failed comes back, and goes to the dead-letter queue."""
    poison, good = _id(), _id()
    entries = [
        {"Id": name, "MessageBody": json.dumps({"id": name, "poison": name == poison})}
        for name in (poison, good)
    ]
    run.client("sqs").send_message_batch(QueueUrl=run.outputs["Queue"], Entries=entries)

    def look() -> Answer:
        dead = run.until(lambda: _received(run, "DeadLetters", poison), 120)
        row = run.row(f"probes/charge/{good}")
        return judged(
            [each["id"] for each in dead] == [poison] and "status" not in row and bool(row),
            f"{len(dead)} in the dead-letter queue; the other is {'done' if row else 'not done'}",
        )

    return look


def redrive(run: Run) -> Answer:
    """What is redriven from a dead-letter queue is the same work: it is replayed."""
    order = {"id": _id()}
    run.send("Queue", order)
    run.until(lambda: run.row(f"probes/charge/{order['id']}"), 60)
    run.send("DeadLetters", order)
    run.client("sqs").start_message_move_task(
        SourceArn=run.outputs["DeadLettersArn"], DestinationArn=run.outputs["QueueArn"]
    )
    replayed = run.until(lambda: run.logged("Logs", "once.replayed", order["id"]), 120)
    return judged(len(replayed) == 1, f"replayed {len(replayed)} times")


def moved_queue(run: Run) -> Answer:
    """The same key on another queue is KeyReused: neither dropped nor run."""
    order = {"id": _id()}
    run.send("Queue", order)
    run.until(lambda: run.row(f"probes/charge/{order['id']}"), 60)
    run.send("OtherQueue", order)
    refused = run.until(lambda: run.logged("Logs", "once.key_reused", order["id"]), 120)
    return judged(bool(refused), "refused" if refused else "not refused in two minutes")


def request_sent_twice(run: Run) -> Answer:
    """A request sent again gets the first response, another body under its key a 422 (the sample's API)."""
    key = {"idempotency-key": _id(), "content-type": "application/json"}
    order = {"orderId": _id(), "customer": "cust_1", "items": ["tea"]}
    address = f"{run.outputs['OrdersApiUrl']}/orders"
    first, second = (run.post(address, key, json.dumps(order).encode()) for _ in range(2))
    other = run.post(address, key, json.dumps(order | {"items": ["coffee"]}).encode())
    run.count("requests", 3)
    holds = (first.status, second.status, other.status) == (201, 201, 422) and first.body == second.body
    replayed = "idempotent-replayed" in second.headers
    return judged(
        holds and replayed, f"{first.status}, {second.status}{' replayed' * replayed}, {other.status}"
    )


# ------------------------------------------------------------------ what a role may do


def permissions(run: Run) -> Answer:
    """A role may use its own service's tokens and parts, and no others: LeadingKeys holds for each action."""
    answers = run.invoke("Probe", {"ask": "permissions"}).payload
    expected = {name: name in ("GetItem own", "BatchWriteItem own part") for name in answers}
    wrong = {
        name: code
        for name, code in answers.items()
        if (code == "allowed") != expected[name] or not (expected[name] or code.startswith("AccessDenied"))
    }
    return judged(not wrong, wrong or f"{len(answers)} requests as expected")


def metrics(run: Run) -> Later:
    """CloudWatch has the metrics that functions and watchdog write."""

    def look() -> Answer:
        wanted = {"started", "completed", "replayed", "newlyOverdue", "streamLagSeconds"}
        found = run.until(lambda: wanted <= _metrics(run) and wanted, LISTED, every=15) or _metrics(run)
        return judged(wanted <= found, f"{len(wanted & found)} of {len(wanted)}")

    return look


def _metrics(run: Run) -> set[str]:
    listed: set[str] = set()
    for namespace in (run.outputs["Namespace"], run.outputs["TokenTableName"]):
        pages = run.client("cloudwatch").get_paginator("list_metrics").paginate(Namespace=namespace)
        listed |= {metric["MetricName"] for page in pages for metric in page["Metrics"]}
    return listed


# ------------------------------------------------------------------ latency


def versions(run: Run) -> Answer:
    """What Lambda's environment brings."""
    answers = run.invoke("Probe", {"ask": "versions"}).payload
    return noticed(", ".join(f"{name} {value}" for name, value in answers.items()))


def cold_starts(run: Run) -> Answer:
    """A cold start with each client, and with Powertools: INIT and the first invocation."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in SIDES}
    for turn in range(STARTS):
        for name, function in SIDES.items():
            _renew(run, function, turn)
            invocation = run.invoke(function, {"id": _id()})
            taken[name].append(
                (invocation.milliseconds("Init Duration"), invocation.milliseconds("Duration"))
            )
    return noticed(
        "; ".join(
            f"{name} {median(init for init, _ in starts):.0f} + {median(first for _, first in starts):.0f} ms"
            for name, starts in taken.items()
        )
    )


def _renew(run: Run, function: str, turn: int) -> None:
    """Let the next invocation of *function* be in a new environment."""
    client, name = run.client("lambda"), run.outputs[function]
    variables = client.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
    changed = {"Variables": variables | {"TURN": str(turn)}}
    client.update_function_configuration(FunctionName=name, Environment=changed)
    run.until(
        lambda: client.get_function_configuration(FunctionName=name)["LastUpdateStatus"] == "Successful", 60
    )


def warm(run: Run) -> Answer:
    """A warm invocation with new work, and with a duplicate, beside Powertools."""
    seen: list[str] = []
    for name, function in SIDES.items():
        orders = [{"id": _id()} for _ in range(ROUNDS)]
        new, duplicate = (
            median(run.invoke(function, order).milliseconds("Duration") for order in orders) for _ in range(2)
        )
        seen.append(f"{name} {new:.1f} and {duplicate:.1f} ms")
    return noticed("; ".join(seen))


def nagle(run: Run) -> Answer:
    """A write by our client, which sets TCP_NODELAY, beside boto3's as it comes."""
    taken = run.invoke("Probe", {"ask": "writes", "times": 100}).payload
    run.count("write units", 200)
    seen = (
        f"{name} {median(each):.1f} ms, p95 {quantiles(each, n=20)[-1]:.1f} ms"
        for name, each in taken.items()
    )
    return noticed("; ".join(seen))


ASSERTIONS: Final[tuple[Assertion, ...]] = (
    asynchronous_failure,
    crash_is_found,
    partial_batch,
    versions,
    replay,
    race,
    large_result,
    tenants,
    permissions,
    request_sent_twice,
    message_sent_twice,
    notice_published_twice,
    redrive,
    moved_queue,
    killed_late,
    cold_starts,
    warm,
    nagle,
    metrics,
)
