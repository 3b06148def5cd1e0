"""
The table of rules for a `Deployment`.

A rule must be right about every deployment that works as its author meant it: options in code, such as
``Once(service=…)``, can make up for what a template lacks, and what they can make up for is advice. Two are
errors all the same, Q1 and S5: with the decorator of the source, the first failure or event loses work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from lambda_once_tools.check import faults
from lambda_once_tools.check.deployment import Deployment, Finding, Severity
from lambda_once_tools.check.faults import Fault

Look = Callable[[Deployment], Iterator[Fault]]


class Rule(NamedTuple):
    """A condition to look for, and why it matters."""

    code: str
    severity: Severity
    title: str
    why: str
    look: Look


def findings(deployment: Deployment) -> tuple[Finding, ...]:
    """Return the findings for *deployment*: errors first, then by resource and code."""
    found = (
        Finding(rule.severity, rule.code, fault.resource, fault.what, rule.why, fault.fix)
        for rule in RULES
        for fault in rule.look(deployment)
    )
    return tuple(sorted(found, key=lambda each: (_ORDER[each.severity], each.resource, each.code)))


_ORDER: Final = {severity: place for place, severity in enumerate(Severity)}


# -- the table

_ERROR, _WARNING, _ADVICE = Severity.ERROR, Severity.WARNING, Severity.ADVICE

RULES: Final = (
    Rule(
        "T1",
        _ERROR,
        "the key of the token table is not `lockToken`",
        "Every request is refused, and nothing runs. Leave another program's table as it is, and give "
        "lambda-once a table of its own.",
        faults.other_key,
    ),
    Rule(
        "T2",
        _WARNING,
        "the token table has no index of unfinished tokens",
        "Work is protected, but each run of the watchdog fails, and overdue and held tokens raise no alarm.",
        faults.no_index,
    ),
    Rule(
        "T3",
        _WARNING,
        "the index projects less than is listed",
        "Overdue and held tokens cannot be listed. The projection of an index cannot be changed: delete the "
        "index in one deployment, and add it in the next.",
        faults.small_projection,
    ),
    Rule(
        "T4",
        _WARNING,
        "finished tokens are never deleted: no TTL on ttl, and no watchdog that sweeps",
        "Outcomes expire on time, but the table grows forever.",
        faults.no_expiry,
    ),
    Rule(
        "T5",
        _ADVICE,
        "point-in-time recovery of the token table is off",
        "Without its tokens every duplicate runs again.",
        faults.no_recovery,
    ),
    Rule(
        "T6",
        _ADVICE,
        "deletion protection of the token table is off",
        "Without its tokens every duplicate runs again.",
        faults.no_protection,
    ),
    Rule(
        "Q1",
        _ERROR,
        "a queue's mapping lacks `ReportBatchItemFailures`",
        "With @once.sqs Lambda takes the response for success, and deletes the failed messages with the "
        "others. A handler that raises, around @once.function, gets the whole batch again.",
        faults.no_report,
    ),
    Rule(
        "Q2",
        _WARNING,
        "a queue has no dead-letter queue",
        "A message that always fails is redelivered until its retention ends, and is then lost.",
        faults.no_dead_letters,
    ),
    Rule(
        "Q3",
        _ERROR,
        "a queue's visibility timeout is shorter than the function's timeout",
        "Lambda refuses the mapping.",
        faults.visible_at_work,
    ),
    Rule(
        "Q4",
        _WARNING,
        "a queue's visibility timeout is shorter than six timeouts and the batching window",
        "Messages are redelivered while they are being processed or throttled, and each time counts as a "
        "receive (Lambda developer guide, SQS).",
        faults.visible_soon,
    ),
    Rule(
        "Q5",
        _WARNING,
        "`maxReceiveCount` is less than 5",
        "Messages that were only throttled or in progress end in the dead-letter queue "
        "(Lambda developer guide, SQS).",
        faults.few_receives,
    ),
    Rule(
        "Q6",
        _WARNING,
        "a dead-letter queue keeps messages no longer than its queue",
        "A moved message keeps its age, so one that arrives late is deleted at once (SQS developer guide).",
        faults.short_retention,
    ),
    Rule(
        "Q7",
        _ERROR,
        "a queue and its dead-letter queue are not both FIFO",
        "SQS refuses the redrive policy.",
        faults.other_kind,
    ),
    Rule(
        "Q8",
        _ERROR,
        "batches of more than 10 messages from a FIFO queue, or without a batching window",
        "Lambda refuses the mapping.",
        faults.no_window,
    ),
    Rule(
        "Q9",
        _WARNING,
        "a function reads several queues, streams or topics",
        "Under one key= another origin is KeyReused: neither a silent drop nor a silent second run.",
        faults.fan_in,
    ),
    Rule(
        "Q10",
        _WARNING,
        "a FIFO queue has a dead-letter queue",
        "SQS gives a dead letter its message id as deduplication id, so under the default key done and held "
        "work runs again after a redrive.",
        faults.fifo_dead_letters,
    ),
    Rule(
        "S1",
        _WARNING,
        "a stream's mapping retries without a limit",
        "A record that always fails stops its shard until the stream's retention ends.",
        faults.endless,
    ),
    Rule(
        "S2",
        _WARNING,
        "a stream's mapping has limits and no on-failure destination",
        "What Lambda gives up is lost.",
        faults.given_up,
    ),
    Rule(
        "S3",
        _WARNING,
        "a stream's mapping has limits and does not bisect",
        "The records behind one that Lambda gives up are given up with it.",
        faults.taken_along,
    ),
    Rule(
        "S4",
        _ADVICE,
        "a stream's mapping lacks `ReportBatchItemFailures`",
        "The whole batch is delivered again; under report_failures=True failed records are lost.",
        faults.whole_batches,
    ),
    Rule(
        "S5",
        _ERROR,
        "a stream's mapping has a tumbling window",
        "The response of a window is its state, which may not be replayed: under a decorator of records "
        "each event is Misconfigured, and its shard stands still.",
        faults.windowed,
    ),
    Rule(
        "A1",
        _WARNING,
        "an asynchronous function has neither an on-failure destination nor a dead-letter queue",
        "After the last retry Lambda drops the event. A dead-letter queue of the rule, schedule or "
        "subscription only gets what was never delivered.",
        faults.dropped,
    ),
    Rule(
        "A2",
        _WARNING,
        "a pipe passes what an `InputTemplate` makes",
        "A decorator of records finds none, and refuses every event. The pipe must pass them unchanged; "
        "@once.event takes what it makes.",
        faults.transformed,
    ),
    Rule(
        "P1",
        _ERROR,
        "a function may not read or write tokens",
        "Every acquisition is denied, and nothing runs.",
        lambda deployment: faults.lacking(faults.needs_tokens(deployment)),
    ),
    Rule(
        "P2",
        _WARNING,
        "a function with batches may not write several tokens at once",
        "Batches are written one by one. DynamoDBCrudPolicy has no PartiQL.",
        lambda deployment: faults.lacking(faults.needs_batches(deployment)),
    ),
    Rule(
        "P3",
        _WARNING,
        "a function may not write or read the parts of results over 4 KB",
        "A result is stored in the row up to 380 KB; duplicates of larger ones get ResultUnavailable.",
        lambda deployment: faults.lacking(faults.needs_parts(deployment)),
    ),
    Rule(
        "P4",
        _ERROR,
        "the watchdog may not list, read, resolve or sweep tokens",
        "Overdue and held tokens raise no alarm.",
        lambda deployment: faults.lacking(faults.needs_watching(deployment)),
    ),
    Rule(
        "P5",
        _ADVICE,
        "a function may delete or replace tokens",
        "Whoever controls it can make finished work run again; the store needs neither.",
        faults.may_delete,
    ),
    Rule(
        "P6",
        _ADVICE,
        "a function may read and write the tokens of another service that uses its table",
        "Whoever controls it can read results of the other, and make its work appear done.",
        faults.other_services,
    ),
    Rule(
        "V1",
        _ADVICE,
        "`POWERTOOLS_SERVICE_NAME` is not set",
        "Unless Once has service=, it is service_undefined, and setting it later renames all tokens.",
        faults.no_service,
    ),
    Rule(
        "V2",
        _ADVICE,
        "a function that may write tokens has no `LAMBDA_ONCE_TABLE`",
        "Unless Once has table= or store=, nothing runs.",
        faults.no_table,
    ),
    Rule(
        "V10",
        _ERROR,
        "a function that may write tokens has no `LAMBDA_ONCE_TABLE`, nor another variable with the table",
        "Nothing runs: CloudFormation names the table, so code can't have its name.",
        faults.forgotten_table,
    ),
    Rule(
        "V3",
        _ERROR,
        "the watchdog has no `LAMBDA_ONCE_TABLE`",
        "Its handler takes the table from there.",
        faults.watchdog_without_table,
    ),
    Rule(
        "V5",
        _ERROR,
        "a `LAMBDA_ONCE_*` variable has a value that is refused",
        "Every invocation is Misconfigured, and nothing runs.",
        faults.impossible,
    ),
    Rule(
        "V6",
        _ERROR,
        "`LAMBDA_ONCE_DISABLED` is set",
        "Everything runs, duplicates too.",
        faults.disabled,
    ),
    Rule(
        "V7",
        _ADVICE,
        "`POWERTOOLS_IDEMPOTENCY_DISABLED` is set",
        "It has no effect here; the switch is LAMBDA_ONCE_DISABLED.",
        faults.without_effect,
    ),
    Rule(
        "V8",
        _WARNING,
        "a `LAMBDA_ONCE_*` variable that nothing reads",
        "It has no effect.",
        faults.unread,
    ),
    Rule(
        "T10",
        _ERROR,
        "`LAMBDA_ONCE_LISTING` is `stream`, and the table has no stream that one watchdog can read",
        "The watchdog lists lost work by the table's stream: without one, nothing lists it, and each of its "
        "runs fails.",
        faults.without_stream,
    ),
    Rule(
        "V11",
        _ERROR,
        "functions list by the stream, and the watchdog does not read it",
        "What a crash leaves behind is never listed, and raises no alarm.",
        faults.unlisted,
    ),
    Rule(
        "V12",
        _ADVICE,
        "the watchdog reads the table's stream, and a function has no `LAMBDA_ONCE_LISTING`",
        "Unless Once has listing=, its new work takes four write units in place of two.",
        faults.listed_twice,
    ),
    Rule(
        "W1",
        _WARNING,
        "the watchdog never runs",
        "Overdue and held tokens raise no alarm, and nothing is swept.",
        faults.never_runs,
    ),
    Rule(
        "W2",
        _ADVICE,
        "no watchdog, although the table has the index that one searches",
        "What a crash leaves behind outside of queues and streams raises no alarm.",
        faults.no_watchdog,
    ),
    Rule(
        "I1",
        _ERROR,
        "a function with tenant isolation has an event source mapping, a Function URL or an HTTP API",
        "Lambda refuses each invocation without a tenant. Use a REST API that sets X-Amz-Tenant-Id, or "
        "invoke it by another function, with TenantId (Lambda developer guide, tenant isolation).",
        faults.no_tenant,
    ),
    Rule(
        "L1",
        _ERROR,
        "neither a function's code nor its layers have `lambda_once`",
        "Its import fails. `sam build` makes an empty layer of a wrong folder.",
        faults.no_package,
    ),
    Rule(
        "L2",
        _ERROR,
        "a decorator has `model=`, and neither a function's code nor its layers have `pydantic`",
        "Its import is Misconfigured.",
        faults.no_pydantic,
    ),
    Rule(
        "F1",
        _WARNING,
        "an `Fn::ForEach` goes over what is not known",
        "What it makes was not looked at.",
        faults.loops,
    ),
)
"""Every rule. docs/check.md has their kinds."""
