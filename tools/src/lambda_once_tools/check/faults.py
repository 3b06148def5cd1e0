"""
The conditions of `rules`, one function each.

Pure. UNKNOWN values are not judged; `undecided` returns the permissions concerned.

What we are not happy with: a rule's words are in `rules`, so its reader has two files open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from lambda_once.core.fields import closest
from lambda_once.core.keys import token as token_of
from lambda_once.core.variables import OF_FUNCTIONS, OF_OTHERS, OF_WATCHDOG, TRUE, boolean
from lambda_once.errors import Misconfigured
from lambda_once.stores.row import INDEX, INDEXED, TOKEN
from lambda_once_tools.check.callers import DESTINATION, EVERY, LATEST
from lambda_once_tools.check.deployment import (
    NOTHING_KNOWN,
    UNKNOWN,
    Caller,
    Deployment,
    EventSource,
    Function,
    Idle,
    Index,
    NotChecked,
    Package,
    Queue,
    Statement,
    Table,
    Unknown,
)
from lambda_once_tools.check.intrinsics import is_known, mark_of
from lambda_once_tools.check.policies import LEADING_KEYS, leading_keys, permits

WATCHDOG: Final = "lambda_once.operations.watchdog.handler"
LISTING: Final = "LAMBDA_ONCE_LISTING"
STATUS_KEYS: Final = ("listed", "expectedCompletion")
PROJECTED: Final = tuple(name for name in INDEXED if name not in (TOKEN, *STATUS_KEYS))

TOKENS: Final = ("GetItem", "UpdateItem")
BATCHES: Final = ("PartiQLInsert", "PartiQLUpdate", "BatchGetItem")
PARTS: Final = ("BatchWriteItem",)
READING_PARTS: Final = ("BatchGetItem",)
WATCHING: Final = ("GetItem", "BatchGetItem", "UpdateItem")
SWEEPING: Final = ("Scan", "DeleteItem")
READING: Final = ("DescribeTable", "Scan")
STREAMING: Final = ("DescribeStream", "GetShardIterator", "GetRecords")
"""
The actions on the table that each needs, as docs/deploying.md has them; the watchdog queries the index.

`STREAMING` is on the table's stream.
"""

BATCHED: Final = ("sqs", "kinesis", "dynamodb", "kafka", "mq")
_OF_BROKERS: Final = ("kafka", "mq")
"""Kinds whose records have eventSourceArn, the event's own, and no eventSourceARN."""
RECEIVES: Final = 5
"""Lambda developer guide, SQS: a smaller maxReceiveCount sends messages away that were only throttled."""
VISIBILITY: Final = 6
"""Timeouts that a message stays invisible, with the batching window (Lambda developer guide, SQS)."""
LONGEST_RETENTION: Final = 1_209_600
"""Seconds: 14 days, the most that SQS takes."""
MOST_UNBATCHED: Final = 10
"""Records of a batch of SQS without a batching window."""


class Fault(NamedTuple):
    """A finding but for what its rule has: the resource, what is wrong with it, and the line to write."""

    resource: str
    what: str
    fix: str


# -- what belongs together


def is_watchdog(function: Function) -> bool:
    return function.handler == WATCHDOG


def variable(function: Function, name: str) -> str | Unknown | None:
    """Return an environment variable of *function*; None if it has none, or an empty one."""
    if isinstance(function.environment, Unknown):
        return UNKNOWN
    given = function.environment.get(name)
    return (given.strip() if isinstance(given, str) else given) or None


def lists_by_stream(function: Function) -> bool | Unknown:
    """Whether *function* leaves new work to the watchdog, which lists it by the table's stream."""
    given = variable(function, LISTING)
    return UNKNOWN if isinstance(given, Unknown) else given == "stream"


def _table_of(function: Function, deployment: Deployment) -> Table | None:
    """Return the table that *function* names; without a name the only one there is."""
    named = variable(function, "LAMBDA_ONCE_TABLE")
    if named is None:
        return deployment.tables[0] if len(deployment.tables) == 1 else None
    found = (each for each in deployment.tables if named in (each.name, each.arn))
    return None if isinstance(named, Unknown) else next(found, None)


def _is_own(table: Table) -> bool:
    """Whether it has no `other_key`: a table with one may be another program's and stays as it is."""
    return isinstance(table.keys, Unknown) or table.keys == _KEY


def _pairs(deployment: Deployment) -> Iterator[tuple[Function, Table]]:
    for function in deployment.functions:
        table = _table_of(function, deployment)
        if table is not None and _is_own(table):
            yield function, table


def _naming(table: Table, deployment: Deployment) -> tuple[Function, ...]:
    """Return the functions that have the name of *table* from their environment."""
    return tuple(
        function
        for function, its in _pairs(deployment)
        if its is table and variable(function, "LAMBDA_ONCE_TABLE") is not None
    )


def _sources(deployment: Deployment, *kinds: str) -> Iterator[tuple[EventSource, Function]]:
    functions = {each.resource: each for each in deployment.functions}
    for source in deployment.sources:
        if source.kind in kinds and source.function in functions:
            yield source, functions[source.function]


def _fed(deployment: Deployment) -> Iterator[tuple[EventSource, Function, Queue]]:
    queues = {each.resource: each for each in deployment.queues}
    for source, function in _sources(deployment, "sqs"):
        if isinstance(source.source, str) and source.source in queues:
            yield source, function, queues[source.source]


def _feeding(deployment: Deployment) -> tuple[Queue, ...]:
    """Return the queues of mappings, but those that SAM makes: `no_report` has the line for them."""
    return tuple(dict.fromkeys(queue for _, _, queue in _fed(deployment) if not queue.is_generated))


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(texts)}]"


# -- tables


_KEY: Final = ((TOKEN, "S"),)
_POWERTOOLS: Final = ("id", "expiration")
"""The partition key and the time to live of Powertools' idempotency tables (its documentation)."""
_SCHEMA: Final = _list(
    f"{{AttributeName: {name}, KeyType: {kind}}}"
    for name, kind in zip(STATUS_KEYS, ("HASH", "RANGE"), strict=True)
)
_PROJECTION: Final = f"{{ProjectionType: INCLUDE, NonKeyAttributes: {_list(PROJECTED)}}}"
_DEFINED: Final = _list(f"{{AttributeName: {name}, AttributeType: S}}" for name in (TOKEN, *STATUS_KEYS))


def other_key(deployment: Deployment) -> Iterator[Fault]:
    for table in deployment.tables:
        if isinstance(table.keys, Unknown) or _is_own(table):
            continue
        shown = ", ".join(f"{name} ({kind})" for name, kind in table.keys)
        what = f"its key is {shown}, not {TOKEN} (S)"
        if (table.keys[0][0], table.ttl) == _POWERTOOLS:
            what = f"this is Powertools' table ({' and '.join(_POWERTOOLS)}): make another"
        yield Fault(table.resource, what, "LAMBDA_ONCE_TABLE: !Ref Tokens")


def _own_tables(deployment: Deployment) -> Iterator[Table]:
    return filter(_is_own, deployment.tables)


def _indexes(deployment: Deployment) -> Iterator[tuple[Table, Index | None]]:
    """Yield each table with its index of unfinished tokens; None if it has none."""
    for table in _own_tables(deployment):
        if not isinstance(table.indexes, Unknown):
            own = (each for each in table.indexes if (each.name, each.keys) == (INDEX, STATUS_KEYS))
            yield table, next(own, None)


_INDEX_LINES: Final = (
    f"GlobalSecondaryIndexes: [{{IndexName: {INDEX}, KeySchema: {_SCHEMA}, "
    f"Projection: {_PROJECTION}}}]\nAttributeDefinitions: {_DEFINED}"
)


def no_index(deployment: Deployment) -> Iterator[Fault]:
    for table, index in _indexes(deployment):
        if index is None:
            yield Fault(
                table.resource, f"no index {INDEX} with the keys {' and '.join(STATUS_KEYS)}", _INDEX_LINES
            )


def small_projection(deployment: Deployment) -> Iterator[Fault]:
    for table, index in _indexes(deployment):
        if index is not None and index.projection != "ALL" and (lacks := {*PROJECTED} - {*index.included}):
            missing = ", ".join(each for each in PROJECTED if each in lacks)
            yield Fault(
                table.resource, f"index {INDEX} does not project {missing}", f"Projection: {_PROJECTION}"
            )


def no_expiry(deployment: Deployment) -> Iterator[Fault]:
    for table in _own_tables(deployment):
        if isinstance(table.ttl, Unknown) or table.ttl == "ttl":
            continue
        if not any(_sweeps(each, table) for each in _naming(table, deployment)):
            found = "off" if table.ttl is None else f"on {table.ttl}"
            yield Fault(
                table.resource,
                f"time to live is {found}, and no watchdog sweeps",
                "TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}",
            )


def _sweeps(function: Function, table: Table) -> bool:
    """Whether it is a watchdog that sweeps, or may do so: by default where the table has no TTL."""
    if not is_watchdog(function) or isinstance(function.idle, Idle):
        return False
    asked = _told(function, "LAMBDA_ONCE_WATCHDOG_SWEEP")
    if asked is None and table.ttl is None:
        return all(answer is not False for _, answer in _answers(Need(function, table, SWEEPING)))
    return asked is True or asked is UNKNOWN


def _told(function: Function, name: str) -> bool | Unknown | None:
    """Return what a variable says; None if it is not set, or malformed."""
    given = variable(function, name)
    try:
        return boolean(name, given) if isinstance(given, str) else given
    except Misconfigured:
        return None


def no_recovery(deployment: Deployment) -> Iterator[Fault]:
    for table in _own_tables(deployment):
        if table.recovery is False:
            yield Fault(
                table.resource,
                "point-in-time recovery is off",
                "PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}",
            )


def no_protection(deployment: Deployment) -> Iterator[Fault]:
    for table in _own_tables(deployment):
        if table.deletion_protection is False:
            yield Fault(table.resource, "deletion protection is off", "DeletionProtectionEnabled: true")


# -- queues

_REPORT: Final = "FunctionResponseTypes: [ReportBatchItemFailures]"
_DEAD_LETTERS: Final = (
    f"RedrivePolicy: {{deadLetterTargetArn: !GetAtt DeadLetters.Arn, maxReceiveCount: {RECEIVES}}}"
)


def no_report(deployment: Deployment) -> Iterator[Fault]:
    for source, function in _sources(deployment, "sqs"):
        if source.reports_failures is False:
            what = f"its mapping {source.resource} lacks ReportBatchItemFailures"
            if source.subscription is None:
                yield Fault(function.resource, what, _REPORT)
            else:
                yield Fault(
                    function.resource,
                    f"{what}: SAM takes none with SqsSubscription; subscribe the queue yourself, "
                    "with the same FilterPolicy and BatchSize",
                    _subscribed(source, function, {each.resource: each for each in deployment.queues}),
                )


def _subscribed(source: EventSource, function: Function, queues: Mapping[object, Queue]) -> str:
    """
    Return what stands in place of an event with SqsSubscription, and the resources beside it.

    sam-translator 1.115 passes neither FunctionResponseTypes nor ScalingConfig on for such an event, and the
    queue that it makes for ``true`` stands in no file.
    """
    event, queue = source.subscription, queues.get(source.source)
    own = f"{function.resource.rpartition('.')[2]}{event}"
    is_elsewhere = queue is None and isinstance(source.source, str) and is_known(source.source)
    name = f"{own}Queue" if queue is None or queue.is_generated else queue.resource
    arn = source.source if is_elsewhere else f"!GetAtt {name}.Arn"
    endpoint = f"Protocol: sqs, TopicArn: !Ref Topic, Endpoint: {arn}"
    lines = [
        f"{event}: {{Type: SQS, Properties: {{Queue: {arn}, {_REPORT}}}}}",
        f"{own}Subscription: {{Type: AWS::SNS::Subscription, Properties: {{{endpoint}}}}}",
    ]
    if not is_elsewhere:
        allowed = (
            "Effect: Allow, Principal: {Service: sns.amazonaws.com}, Action: 'sqs:SendMessage', "
            f"Resource: {arn}, Condition: {{ArnEquals: {{'aws:SourceArn': !Ref Topic}}}}"
        )
        policy = f"Queues: [!Ref {name}], PolicyDocument: {{Statement: [{{{allowed}}}]}}"
        lines.append(f"{own}Policy: {{Type: AWS::SQS::QueuePolicy, Properties: {{{policy}}}}}")
    if queue is not None and queue.is_generated:
        seconds = 30 if isinstance(function.timeout, Unknown) else function.timeout
        properties = f"VisibilityTimeout: {VISIBILITY * seconds}, {_DEAD_LETTERS}"
        lines.append(f"{name}: {{Type: AWS::SQS::Queue, Properties: {{{properties}}}}}")
    return "\n".join(lines)


def no_dead_letters(deployment: Deployment) -> Iterator[Fault]:
    for queue in _feeding(deployment):
        if queue.dead_letter is None and not queue.is_dead_letter:
            yield Fault(queue.resource, "no dead-letter queue", _DEAD_LETTERS)


def _visible(deployment: Deployment) -> Iterator[tuple[Queue, Fault, bool]]:
    """
    Yield queues with less than the visibility that AWS recommends, and whether Lambda refuses their mapping.

    It does where that is less than the timeout; of a pipe it refuses nothing.
    """
    mapped = {queue.resource for source, _, queue in _fed(deployment) if not source.is_piped}
    for queue in _feeding(deployment):
        times = [
            (function.timeout, source.window) for source, function, its in _fed(deployment) if its is queue
        ]
        known = [(t, w) for t, w in times if not isinstance(t, Unknown) and not isinstance(w, Unknown)]
        visibility = queue.visibility
        if isinstance(visibility, Unknown) or not known:
            continue
        longest = max(timeout for timeout, _ in known)
        wanted = max(VISIBILITY * timeout + window for timeout, window in known)
        if visibility < wanted:
            what = f"messages are visible again after {visibility} s, the function's timeout is {longest} s"
            fault = Fault(queue.resource, what, f"VisibilityTimeout: {wanted}")
            yield queue, fault, visibility < longest and queue.resource in mapped


def visible_at_work(deployment: Deployment) -> Iterator[Fault]:
    return (fault for _, fault, is_refused in _visible(deployment) if is_refused)


def visible_soon(deployment: Deployment) -> Iterator[Fault]:
    return (
        fault
        for queue, fault, is_refused in _visible(deployment)
        if not is_refused and not queue.is_dead_letter
    )


def few_receives(deployment: Deployment) -> Iterator[Fault]:
    for queue in _feeding(deployment):
        if isinstance(queue.receives, int) and queue.receives < RECEIVES:
            yield Fault(
                queue.resource,
                f"a message is received {queue.receives} times at most",
                f"maxReceiveCount: {RECEIVES}",
            )


def _dead_letters(deployment: Deployment) -> Iterator[tuple[Queue, Queue]]:
    queues = {each.resource: each for each in deployment.queues}
    for queue in _feeding(deployment):
        if isinstance(queue.dead_letter, str) and queue.dead_letter in queues:
            yield queue, queues[queue.dead_letter]


def short_retention(deployment: Deployment) -> Iterator[Fault]:
    for queue, dead in _dead_letters(deployment):
        if (
            queue.fifo is not False
            or isinstance(queue.retention, Unknown)
            or isinstance(dead.retention, Unknown)
        ):
            continue
        if dead.retention <= queue.retention and dead.retention < LONGEST_RETENTION:
            yield Fault(
                dead.resource,
                f"keeps messages for {dead.retention} s, {queue.resource} for {queue.retention} s",
                f"MessageRetentionPeriod: {LONGEST_RETENTION}",
            )


def other_kind(deployment: Deployment) -> Iterator[Fault]:
    for queue, dead in _dead_letters(deployment):
        if {queue.fifo, dead.fifo} == {True, False}:
            kinds = {True: "FIFO", False: "standard"}
            yield Fault(
                dead.resource,
                f"the dead-letter queue of {queue.resource}, which is {kinds[queue.fifo is True]}, "
                f"is {kinds[dead.fifo is True]}",
                f"FifoQueue: {'true' if queue.fifo else '!Ref AWS::NoValue'}",
            )


def fan_in(deployment: Deployment) -> Iterator[Fault]:
    dead = {queue.resource for queue in deployment.queues if queue.is_dead_letter}
    topics = {queue.resource: queue.topics for queue in deployment.queues}
    read: dict[tuple[str, str, str], dict[str, None]] = {}
    for source, function in _sources(deployment, *BATCHED):
        for kind, origin, scope in _origins(source):
            if origin not in dead:
                read.setdefault((function.resource, kind, scope), {})[origin] = None
            by_envelope = (function.resource, f"sns, by {origin}", "powertools_json(body).TopicArn")
            read[by_envelope] = dict.fromkeys(topics.get(origin, ()))
    for function in deployment.functions:
        read[function.resource, "sns", "Sns.TopicArn"] = dict.fromkeys(function.topics)
    for (resource, kind, scope), origins in read.items():
        if len(origins) > 1:
            yield Fault(
                resource,
                f"reads {_list(origins)} ({kind})",
                f'if it passes key=: ignore=("@origin",) if they carry the same work, else scope="{scope}"',
            )


def _origins(source: EventSource) -> Iterator[tuple[str, str, str]]:
    """Yield kind and name of what *source* reads, and what of a record selects it."""
    kind = str(source.kind)
    if kind == "kafka" and source.names:  # the same topic of two clusters is one origin
        yield from ((kind, name, "topic") for name in source.names)
    elif isinstance(source.source, str):
        yield kind, source.source, f"eventSource{'Arn' if kind in _OF_BROKERS else 'ARN'}"
        if kind == "mq":
            yield from (
                (f"mq, {source.source}", name, "eventSourceKey || destination.physicalName")
                for name in source.names
            )


def fifo_dead_letters(deployment: Deployment) -> Iterator[Fault]:
    standard = {queue.resource for queue in deployment.queues if queue.fifo is False}  # SQS refuses these
    for queue in _feeding(deployment):
        if queue.fifo is True and queue.dead_letter is not None and queue.dead_letter not in standard:
            yield Fault(
                queue.resource,
                "FIFO, with a dead-letter queue",
                'if it passes no key=: @once.sqs(key="…")',
            )


def no_window(deployment: Deployment) -> Iterator[Fault]:
    for source, function, queue in _fed(deployment):
        if source.is_piped or isinstance(source.batch_size, Unknown) or source.batch_size <= MOST_UNBATCHED:
            continue
        what = f"its mapping {source.resource} takes batches of {source.batch_size}"
        if queue.fifo is True:
            yield Fault(function.resource, f"{what} from a FIFO queue", f"BatchSize: {MOST_UNBATCHED}")
        elif queue.fifo is False and source.window == 0:
            yield Fault(function.resource, f"{what} without a window", "MaximumBatchingWindowInSeconds: 1")


# -- streams


def _limited(source: EventSource) -> bool | Unknown:
    """Whether Lambda gives up a record of a stream before it expires."""
    limits = (source.retries, source.record_age)
    if any(isinstance(each, int) for each in limits):
        return True
    return UNKNOWN if UNKNOWN in limits else False


def _streams(deployment: Deployment) -> Iterator[tuple[EventSource, str, str]]:
    for source, function in _sources(deployment, "kinesis", "dynamodb"):
        yield source, function.resource, f"its mapping {source.resource}"


def endless(deployment: Deployment) -> Iterator[Fault]:
    for source, function, mapping in _streams(deployment):
        if _limited(source) is False:
            yield Fault(function, f"{mapping} retries without a limit", "MaximumRetryAttempts: 10")


def given_up(deployment: Deployment) -> Iterator[Fault]:
    for source, function, mapping in _streams(deployment):
        if _limited(source) is True and source.on_failure is None:
            yield Fault(
                function,
                f"{mapping} has no destination for what Lambda gives up",
                "DestinationConfig: {OnFailure: {Destination: !GetAtt FailedRecords.Arn}}",
            )


def taken_along(deployment: Deployment) -> Iterator[Fault]:
    for source, function, mapping in _streams(deployment):
        if _limited(source) is True and source.bisects is False and source.batch_size != 1:
            yield Fault(function, f"{mapping} does not bisect batches", "BisectBatchOnFunctionError: true")


def windowed(deployment: Deployment) -> Iterator[Fault]:
    for source, function, mapping in _streams(deployment):
        if isinstance(source.tumbling, int) and source.tumbling > 0:
            yield Fault(
                function,
                f"{mapping} has a tumbling window of {source.tumbling} s",
                "TumblingWindowInSeconds: !Ref AWS::NoValue",
            )


def whole_batches(deployment: Deployment) -> Iterator[Fault]:
    for source, function, mapping in _streams(deployment):
        if source.reports_failures is False and source.batch_size != 1:
            yield Fault(
                function,
                f"{mapping} lacks ReportBatchItemFailures",
                f"{_REPORT}  # and report_failures=True",
            )


# -- pipes, asynchronous events


def transformed(deployment: Deployment) -> Iterator[Fault]:
    for pipe in deployment.pipes:
        if pipe.transforms is True:
            yield Fault(
                pipe.function,
                f"its pipe {pipe.resource} passes what an InputTemplate makes of the records",
                f"InputTemplate: !Ref AWS::NoValue  # of {pipe.resource}",
            )


def dropped(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        asynchronous = [each for each in function.callers if is_asynchronous(each.by)]
        lost = [each for each in asynchronous if not _is_kept(function, each)]
        by = list(dict.fromkeys(each.by for each in lost))
        if by and not _may_be_watchdog(function, by, deployment):
            yield Fault(
                function.resource,
                f"is invoked asynchronously ({', '.join(by)}), and nothing keeps what fails on all tries",
                _keeping(function, lost[0].qualifier),
            )


def _is_kept(function: Function, caller: Caller) -> bool:
    """Whether a failed event of *caller* goes anywhere, or may."""
    is_known_one = not isinstance(caller.qualifier, Unknown)
    return not is_known_one or bool({EVERY, UNKNOWN, caller.qualifier} & function.kept_on)


def _keeping(function: Function, qualifier: str | Unknown) -> str:
    """
    Return what keeps the failed events of *function*.

    For a durable one AWS advises a dead-letter queue (Lambda developer guide, durable best practices).
    """
    queue = "!GetAtt FailedEvents.Arn"
    if function.is_durable:
        return (
            f"DeadLetterQueue: {{Type: SQS, TargetArn: {queue}}}"
            if function.is_serverless
            else f"DeadLetterConfig: {{TargetArn: {queue}}}"
        )
    if function.is_serverless and qualifier == (function.alias or LATEST):
        return f"EventInvokeConfig: {{DestinationConfig: {{OnFailure: {{Type: SQS, Destination: {queue}}}}}}}"
    name = function.resource.rpartition(".")[2]
    kept = f"DestinationConfig: {{OnFailure: {{Destination: {queue}}}}}"
    return (
        f"{name}Failures: {{Type: AWS::Lambda::EventInvokeConfig, Properties: "
        f'{{FunctionName: !Ref {name}, Qualifier: "{qualifier}", {kept}}}}}'
    )


def _may_be_watchdog(function: Function, by: Iterable[str], deployment: Deployment) -> bool:
    """Whether its next run makes up for one that failed: a watchdog, or what is scheduled and lists."""
    if is_watchdog(function):
        return True
    table = _table_of(function, deployment)
    lists = table is not None and all(
        answer is True for _, answer in _answers(Need(function, table, ("Query",), on=On.INDEX))
    )
    return lists and {*by} <= _SCHEDULES


_SCHEDULES: Final = {"Schedule", "ScheduleV2", "scheduler.amazonaws.com"}
_ASYNCHRONOUS: Final = {
    *("cloudformation", "codecommit", "codepipeline", "config", "events", "iot", "lambda.alarms.cloudwatch"),
    *("logs", "pipes", "s3", "scheduler", "ses", "sns", DESTINATION),
}
"""
The services that do not wait for a function (Lambda developer guide, "Invoking Lambda with events from other
AWS services"), and the destinations of other functions; of pipes those with FIRE_AND_FORGET.
"""
_ASYNCHRONOUS_EVENTS: Final = {
    *("CloudWatchEvent", "CloudWatchLogs", "EventBridgeRule", "IoTRule", "S3", "Schedule", "ScheduleV2")
}
"""SAM's events that stand for one of them."""


def is_asynchronous(caller: str) -> bool:
    """Whether *caller*, a service's principal or an event of SAM's, does not wait for a function."""
    service = caller.partition(".amazonaws.com")[0]
    return service in _ASYNCHRONOUS or service.startswith("logs.") or caller in _ASYNCHRONOUS_EVENTS


# -- tenants


def no_tenant(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        mappings = [each.resource for each in deployment.sources if each.function == function.resource]
        if function.is_isolated is True:
            for each in (*(f"its mapping {name}" for name in mappings), *function.nameless):
                yield Fault(
                    function.resource,
                    f"has tenant isolation, and {each} names no tenant",
                    "TenancyConfig: !Ref AWS::NoValue",
                )


# -- permissions


class On(Enum):
    """What of a table actions are on: what the ARN has behind the table's, and how it is called."""

    TABLE = ("", "")
    INDEX = (f"/index/{INDEX}", "the index of ")
    STREAM = ("/stream/2026-01-01T00:00:00.000", "the stream of ")
    """Any label of a stream stands for all."""


class Need(NamedTuple):
    """Actions that a function needs on a table."""

    function: Function
    table: Table
    verbs: tuple[str, ...]
    on: On = On.TABLE


def _answers(need: Need) -> Iterator[tuple[str, bool | Unknown]]:
    """Yield whether each action is allowed. A table's own policy may allow more than a role's."""
    function, table = need.function, need.table
    for verb in need.verbs:
        if isinstance(function.statements, Unknown) or isinstance(table.arn, Unknown):
            yield verb, UNKNOWN
            continue
        resource = f"{table.arn}{need.on.value[0]}"
        answer = _permitted(need, function.statements, f"dynamodb:{verb}", resource)
        yield verb, answer if answer is not False or not table.resource_policy else UNKNOWN


def _permitted(need: Need, statements: tuple[Statement, ...], action: str, resource: str) -> bool | Unknown:
    """Return whether *action* is allowed for the keys of the function's own service, whatever its names."""
    own = _own_keys(need)
    if own is None:
        return permits(statements, action, resource)
    answer = permits(statements, action, resource, {LEADING_KEYS: _token(own)})
    if answer is not False:
        return answer
    service = own.partition("*")[0]
    limited = (each for each in leading_keys(statements, action) if each.startswith(service))
    keys = (each.translate(_ANYTHING) for each in limited)  # of some names of the service
    some = {permits(statements, action, resource, {LEADING_KEYS: key}) for key in keys}
    return UNKNOWN if some - {False} else False


_ANYTHING: Final = str.maketrans("*?", "aa")
_OF_PARTS: Final = "*#*#*"


def _own_keys(need: Need) -> str | None:
    """Return the pattern of keys that the function needs, those of its service; None: it is not known."""
    own = None if need.on is On.INDEX or is_watchdog(need.function) else _own_tokens(need.function)
    return own if own is None or need.verbs != PARTS else own.replace("*", _OF_PARTS)


def _own_tokens(function: Function) -> str | None:
    """Return the pattern of the tokens of *function*'s service; None if its environment does not have it."""
    service = variable(function, "POWERTOOLS_SERVICE_NAME")
    return (
        f"{token_of(service, 'name', None, 'key').partition('/')[0]}/*" if isinstance(service, str) else None
    )


def lacking(needs: Iterable[Need]) -> Iterator[Fault]:
    for need in needs:
        lacks = [f"dynamodb:{verb}" for verb, answer in _answers(need) if answer is False]
        if lacks:
            where = f"{need.on.value[1]}{need.table.resource}"
            own = _own_keys(need)
            keys = own or (_OF_PARTS if need.verbs == PARTS else None)
            yield Fault(
                need.function.resource,
                f"may not {', '.join(lacks)} on {where}" + (f" for {own}" if own else ""),
                f"Action: {_list(lacks)}" + (f"\nCondition: {_limited_to(keys)}" if keys else ""),
            )


def _limited_to(keys: str) -> str:
    """Return the condition of docs/deploying.md for partition keys of the pattern *keys*."""
    return (
        f'{{ForAllValues:StringLike: {{dynamodb:LeadingKeys: ["{keys}"]}}, '
        '"Null": {dynamodb:LeadingKeys: "false"}}'
    )


def needs_tokens(deployment: Deployment) -> Iterator[Need]:
    for function, table in _pairs(deployment):
        if not is_watchdog(function):
            yield Need(function, table, TOKENS)


def _batched(deployment: Deployment) -> set[str]:
    """Return the functions that get batches of records."""
    return {
        function.resource for source, function in _sources(deployment, *BATCHED) if source.batch_size != 1
    }


def needs_batches(deployment: Deployment) -> Iterator[Need]:
    batched = _batched(deployment)
    for function, table in _pairs(deployment):
        if function.resource in batched and not is_watchdog(function):
            yield Need(function, table, BATCHES)


def needs_parts(deployment: Deployment) -> Iterator[Need]:
    """Yield what large results need; what reads them is among `BATCHES`, too, and reported once."""
    batched = _batched(deployment)
    for need in needs_tokens(deployment):
        if _may_list(need):
            continue  # a watchdog of its own: the store of a protected function queries no index
        yield need._replace(verbs=PARTS)
        if need.function.resource not in batched:
            yield need._replace(verbs=READING_PARTS)


def _may_list(need: Need) -> bool:
    return any(answer is not False for _, answer in _answers(need._replace(verbs=("Query",), on=On.INDEX)))


def needs_watching(deployment: Deployment) -> Iterator[Need]:
    for function, table in _pairs(deployment):
        if is_watchdog(function):
            yield Need(function, table, ("Query",), on=On.INDEX)
            more = SWEEPING if _told(function, "LAMBDA_ONCE_WATCHDOG_SWEEP") is True else ()
            if lists_by_stream(function):
                more = tuple(dict.fromkeys((*READING, *more)))
                yield Need(function, table, STREAMING, on=On.STREAM)
            yield Need(function, table, WATCHING + more)


_NEEDS: Final = (needs_tokens, needs_batches, needs_parts, needs_watching)


def may_delete(deployment: Deployment) -> Iterator[Fault]:
    for function, table in _pairs(deployment):
        if (
            is_watchdog(function)
            or isinstance(function.statements, Unknown)
            or isinstance(table.arn, Unknown)
        ):
            continue
        if isinstance(function.handler, Unknown) and _may_list(Need(function, table, ())):
            continue
        token = {LEADING_KEYS: _token(_own_tokens(function) or "service/*")}
        verbs = [
            f"dynamodb:{verb}"
            for verb in ("DeleteItem", "PutItem", "BatchWriteItem")
            if permits(function.statements, f"dynamodb:{verb}", table.arn, token) is True
        ]
        if verbs:
            yield Fault(
                function.resource,
                f"may {', '.join(verbs)} on the tokens of {table.resource}",
                "Policies: [the statements of docs/deploying.md, or TokenAccess of tokens.yaml]",
            )


def other_services(deployment: Deployment) -> Iterator[Fault]:
    protected = [
        (function, table, own)
        for function, table in _pairs(deployment)
        if not is_watchdog(function) and (own := _own_tokens(function)) is not None
    ]
    for function, table, own in protected:
        if isinstance(function.statements, Unknown) or isinstance(table.arn, Unknown):
            continue
        others = sorted({each for _, its, each in protected if its is table and each != own})
        written = [
            each
            for each in others
            if permits(function.statements, "dynamodb:UpdateItem", table.arn, {LEADING_KEYS: _token(each)})
            is True
        ]
        if written:
            yield Fault(
                function.resource,
                f"may dynamodb:UpdateItem on {table.resource} for {', '.join(written)}",
                f"Condition: {_limited_to(own)}",
            )


def _token(keys: str) -> str:
    """Return one token of the pattern *keys*."""
    return keys.replace("*", "any/key")


def undecided(deployment: Deployment) -> tuple[NotChecked, ...]:
    """Return the permissions of which it is not known whether functions have them."""
    found: dict[str, list[str]] = {}
    part = {LEADING_KEYS: "service/function/key#attempt#0"}
    for needs in _NEEDS:
        for need in needs(deployment):
            statements = need.function.statements
            if isinstance(statements, Unknown):
                continue  # its role is elsewhere, which is listed
            unknown = [verb for verb, answer in _answers(need) if isinstance(answer, Unknown)]
            if (
                "BatchWriteItem" in unknown
                and permits(statements, "dynamodb:BatchWriteItem", need.table.arn, part) is True
            ):
                unknown.remove("BatchWriteItem")
            found.setdefault(need.function.resource, []).extend(unknown)
    return tuple(
        NotChecked(resource, f"whether it may {', '.join(dict.fromkeys(verbs))} on the token table")
        for resource, verbs in found.items()
        if verbs
    )


# -- variables

_PREFIX: Final = "LAMBDA_ONCE_"


def no_service(deployment: Deployment) -> Iterator[Fault]:
    given = {variable(each, "POWERTOOLS_SERVICE_NAME") for each in deployment.functions} - {None, UNKNOWN}
    service = given.pop() if len(given) == 1 else "orders"
    for function in deployment.functions:
        if variable(function, "POWERTOOLS_SERVICE_NAME") is None and not is_watchdog(function):
            yield Fault(
                function.resource, "POWERTOOLS_SERVICE_NAME is not set", f"POWERTOOLS_SERVICE_NAME: {service}"
            )


def _without_table(deployment: Deployment) -> Iterator[tuple[Function, Fault]]:
    for function in deployment.functions:
        if variable(function, "LAMBDA_ONCE_TABLE") is None and not is_watchdog(function):
            fault = Fault(function.resource, "LAMBDA_ONCE_TABLE is not set", _table_line(deployment))
            yield function, fault


def no_table(deployment: Deployment) -> Iterator[Fault]:
    return (fault for each, fault in _without_table(deployment) if _may_know_table(each, deployment))


def forgotten_table(deployment: Deployment) -> Iterator[Fault]:
    return (fault for each, fault in _without_table(deployment) if not _may_know_table(each, deployment))


def _may_know_table(function: Function, deployment: Deployment) -> bool:
    """Whether its code may have a table's name: as a constant, or from a variable of its own."""
    values = {} if isinstance(function.environment, Unknown) else function.environment
    others = {value for name, value in values.items() if not name.startswith(_PREFIX)}
    names = {name for each in deployment.tables for name in (each.name, each.arn)}
    generated = [each.name == mark_of(each.resource) for each in deployment.tables]
    return not generated or not all(generated) or bool(others & {*names, UNKNOWN})


def watchdog_without_table(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        if variable(function, "LAMBDA_ONCE_TABLE") is None and is_watchdog(function):
            yield Fault(function.resource, "LAMBDA_ONCE_TABLE is not set", _table_line(deployment))


def _table_line(deployment: Deployment) -> str:
    names = [each.resource for each in deployment.tables]
    return f"LAMBDA_ONCE_TABLE: !Ref {names[0] if len(names) == 1 else 'TokenTable'}"


def disabled(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        if _told(function, "LAMBDA_ONCE_DISABLED") is True:
            given = variable(function, "LAMBDA_ONCE_DISABLED")
            yield Fault(
                function.resource, f"LAMBDA_ONCE_DISABLED is {given}", 'LAMBDA_ONCE_DISABLED: "false"'
            )


def impossible(deployment: Deployment) -> Iterator[Fault]:
    """Yield the variables that a function refuses, with its own message."""
    fixes = {"LAMBDA_ONCE_DISABLED": '"false"'}
    for function in deployment.functions:
        for name, parse in {**OF_FUNCTIONS, **(OF_WATCHDOG if is_watchdog(function) else {})}.items():
            given = variable(function, name)
            try:
                if isinstance(given, str):
                    parse(name, given)
            except Misconfigured as error:
                fix = fixes.get(name, "!Ref AWS::NoValue")
                yield Fault(function.resource, str(error), f"{name}: {fix}")


def unread(deployment: Deployment) -> Iterator[Fault]:
    known = {name.removeprefix(_PREFIX): name for name in (*OF_FUNCTIONS, *OF_WATCHDOG, *OF_OTHERS)}
    for function in deployment.functions:
        values = {} if isinstance(function.environment, Unknown) else function.environment
        for name, value in values.items():
            if not name.startswith(_PREFIX) or name in known.values():
                continue
            meant = known.get(closest(name.removeprefix(_PREFIX), known) or "")
            if meant is None:
                yield Fault(function.resource, f"nothing reads {name}", f"{name}: !Ref AWS::NoValue")
                continue
            line = f'{meant}: "{value if isinstance(value, str) else f"the value of {name}"}"'
            if meant == "LAMBDA_ONCE_TABLE":
                line = _table_line(deployment)
            yield Fault(function.resource, f"nothing reads {name}: did you mean {meant}?", line)


def without_effect(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        given = variable(function, "POWERTOOLS_IDEMPOTENCY_DISABLED")
        if isinstance(given, str) and given.lower() in TRUE:
            yield Fault(
                function.resource,
                "POWERTOOLS_IDEMPOTENCY_DISABLED has no effect on lambda-once",
                'POWERTOOLS_IDEMPOTENCY_DISABLED: "false"',
            )


# -- the list


def without_stream(deployment: Deployment) -> Iterator[Fault]:
    """Yield what lists by a stream that the table does not have, or that each region has for itself."""
    for function, table in _pairs(deployment):
        if lists_by_stream(function) is not True:
            continue
        if table.is_replicated is True:
            what = f"{LISTING} is stream, and {table.resource} is replicated asynchronously"
            yield Fault(function.resource, what, f"{LISTING}: at_once")
        elif table.stream is None:
            what = f"{LISTING} is stream, and {table.resource} has no StreamSpecification"
            yield Fault(function.resource, what, "StreamSpecification: {StreamViewType: KEYS_ONLY}")


def unlisted(deployment: Deployment) -> Iterator[Fault]:
    """Yield functions that list by the stream, which the watchdog of their table does not read."""
    for table in _own_tables(deployment):
        using = _naming(table, deployment)
        blind = [each for each in using if is_watchdog(each) and lists_by_stream(each) is False]
        for function in using:
            if blind and not is_watchdog(function) and lists_by_stream(function) is True:
                what = f"{LISTING} is stream, and {blind[0].resource} has another"
                yield Fault(function.resource, what, f"{LISTING}: stream  # of {blind[0].resource}")


def listed_twice(deployment: Deployment) -> Iterator[Fault]:
    """Yield functions that list at once, although the watchdog of their table reads its stream."""
    for table in _own_tables(deployment):
        using = _naming(table, deployment)
        if any(is_watchdog(each) and lists_by_stream(each) is True for each in using):
            for function in using:
                if not is_watchdog(function) and variable(function, LISTING) is None:
                    yield Fault(function.resource, f"{LISTING} is not set", f"{LISTING}: stream")


# -- watchdogs

_WAKING: Final = {
    Idle.UNSCHEDULED: "Events: {EveryFiveMinutes: {Type: Schedule, Properties: {Schedule: rate(5 minutes)}}}",
    Idle.DISABLED: "State: ENABLED  # or SAM's Enabled: true",
    Idle.RESERVED: "ReservedConcurrentExecutions: 1",
}


def never_runs(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        if is_watchdog(function) and isinstance(function.idle, Idle):
            yield Fault(function.resource, function.idle.value, _WAKING[function.idle])


def no_watchdog(deployment: Deployment) -> Iterator[Fault]:
    """Yield tables without a watchdog, if a function that nothing invokes again uses them."""
    for table, index in _indexes(deployment):
        using = [each for each, its in _pairs(deployment) if its is table]
        watched = any(is_watchdog(each) or _may_list(Need(each, table, ())) for each in using)
        alone = [each.resource for each in using if each.callers]
        if index is not None and alone and not watched:
            yield Fault(
                table.resource,
                f"no watchdog lists its overdue tokens, such as those of {alone[0]}",
                f"Handler: {WATCHDOG}",
            )


# -- layers, templates


def loops(deployment: Deployment) -> Iterator[Fault]:
    for each in deployment.loops:
        if each.parameters:
            names = ", ".join(each.parameters)
            given = " ".join(f"--parameter {name}=VALUE" for name in each.parameters)
            yield Fault(
                each.resource,
                f"needs {names}, which has no default and was not given",
                f"lambda-once check --template TEMPLATE {given}",
            )
        else:
            yield Fault(
                each.resource,
                "goes over what only CloudFormation knows: check the template that it made of it",
                "aws cloudformation get-template --stack-name STACK --template-stage Processed --output json "
                "> deployed.json",
            )


def no_package(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        if all(each.has_once is False for each in _packages(function, deployment)):
            yield Fault(
                function.resource,
                f"cannot import lambda_once: it is not in {_places(function)}",
                "Layers: [a layer with python/lambda_once]",
            )


def no_pydantic(deployment: Deployment) -> Iterator[Fault]:
    for function in deployment.functions:
        if function.package.models and all(
            each.has_pydantic is False for each in _packages(function, deployment)
        ):
            yield Fault(
                function.resource,
                f"{function.package.models[0]} has model=, and pydantic is not in {_places(function)}",
                "lambda-once[pydantic]  # in requirements.txt",
            )


def _packages(function: Function, deployment: Deployment) -> Iterator[Package]:
    """Yield what the code of *function* and each of its layers brings."""
    layers = {each.resource: each.package for each in deployment.layers}
    yield function.package
    for each in function.layers:
        yield NOTHING_KNOWN if isinstance(each, Unknown) else layers.get(each, NOTHING_KNOWN)


def _places(function: Function) -> str:
    return " or ".join(["its code", *(str(each) for each in function.layers)])
