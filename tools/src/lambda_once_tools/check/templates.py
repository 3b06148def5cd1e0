"""
Reads SAM and CloudFormation templates: from a file to a `Deployment`, without AWS.

Nested stacks are followed where their templates are files, and resources have their names before them:
``Tokens.TokenTable``. Which functions use lambda-once is not in a template. Taken for one is: the watchdog; a
function with a variable of lambda-once's among its own; one that has LAMBDA_ONCE_TABLE from Globals, if its
role may write to the table or no function's may; and one whose policies name the table and may let it write.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Literal, cast

from lambda_once.core.variables import OF_OTHERS
from lambda_once.stores.row import TOKEN
from lambda_once_tools.check import faults, intrinsics, policies
from lambda_once_tools.check.callers import (
    PIPE,
    Subscription,
    Targets,
    alias_of,
    callers_of,
    kept_on,
    nameless_callers,
    pipes_into,
    subscriptions_in,
)
from lambda_once_tools.check.deployment import (
    IN_CODE,
    NO_FUNCTION,
    UNKNOWN,
    Deployment,
    EventSource,
    Function,
    Index,
    NotChecked,
    NothingToCheck,
    Queue,
    Table,
    Unknown,
)
from lambda_once_tools.check.intrinsics import NO_VALUE, known, mapping, unmarked
from lambda_once_tools.check.packages import layer_of, package_of
from lambda_once_tools.check.roles import Role, granted
from lambda_once_tools.check.schedules import idle
from lambda_once_tools.check.stacks import (
    Opening,
    Resource,
    Stack,
    existing,
    inside,
    items_of,
    opened,
    truth,
    whole,
)


def read(path: Path, parameters: Mapping[str, str]) -> Deployment:
    """
    Return the deployment that the template at *path* describes.

    *parameters* are values of its parameters, beside their defaults, and of pseudo parameters such as
    AWS::Region. Raises `CannotCheck` for a file that cannot be read or translated, for a parameter that the
    template does not have, and for a template in which nothing uses lambda-once.
    """
    notes: list[NotChecked] = []
    stacks: list[Stack] = []
    opened(Opening(path, dict(parameters), "", ()), stacks, notes)
    found = _deployment(stacks, notes)
    if not (found.tables or found.functions or found.loops):
        raise NothingToCheck(
            f"{path}: nothing here uses lambda-once: no function has LAMBDA_ONCE_TABLE, and no table has "
            f"the key {TOKEN}; give the template of the functions or of the table"
        )
    return found


# -- the deployment


def _deployment(stacks: Sequence[Stack], notes: list[NotChecked]) -> Deployment:
    everything = [each for stack in stacks for each in existing(stack)]
    tables = [_table(each) for each in everything if each.kind in _TABLES]
    functions = [each for each in everything if each.kind == "AWS::Lambda::Function"]
    variables = {each.name: _environment(each, tables) for each in functions}
    named = {_table_of(each) for each in variables.values()}
    tokens = [
        each
        for each in tables
        if each.name in named or (not isinstance(each.keys, Unknown) and each.keys[0][0] == TOKEN)
    ]
    layers = [layer_of(each) for each in everything if each.kind == "AWS::Lambda::LayerVersion"]
    roles = granted(everything, tokens)
    callers, nameless = callers_of(everything, functions), nameless_callers(everything, functions)
    kept = kept_on(everything, functions)
    subscriptions, targets = [*subscriptions_in(everything)], Targets(everything, functions)
    ends = [(each.topic, targets.of(each.endpoint)) for each in subscriptions]
    made = [
        replace(
            _function(each, variables[each.name], roles),
            callers=callers.get(each.name, ()),
            topics=tuple(dict.fromkeys(topic for topic, end in ends if end and end.function == each.name)),
            nameless=nameless.get(each.name, ()),
            kept_on=kept[each.name],
            idle=idle(each, everything) if each.properties.get("Handler") == faults.WATCHDOG else None,
        )
        for each in functions
    ]
    users = _users(made, functions, tokens, notes)
    sources = list(_sources(everything, users, functions, notes))
    queues = _queues(everything, sources, subscriptions)
    names = {each.resource for each in users}
    notes += [
        NotChecked(each.name, f"{policy}, which is not in this template")
        for each in functions
        if each.name in names and (role := _role(each, roles)) is not None
        for policy in role.unread
    ]
    notes += _elsewhere(users, tokens, sources, queues)
    used = {layer for each in users for layer in each.layers}
    found = Deployment(
        tables=tuple(tokens),
        functions=tuple(users),
        sources=tuple(sources),
        queues=tuple(queues),
        layers=tuple(each for each in layers if each.resource in used),
        pipes=tuple(pipe for pipe in pipes_into(everything, functions) if pipe.function in names),
        loops=tuple(loop for stack in stacks for loop in stack.loops),
    )
    none = () if users else (NO_FUNCTION,)
    seen = (*dict.fromkeys(notes), *none, *faults.undecided(found), policies.UNSEEN, IN_CODE)
    return replace(found, not_checked=seen)


def _elsewhere(
    users: Iterable[Function],
    tokens: Iterable[Table],
    sources: Iterable[EventSource],
    queues: Iterable[Queue],
) -> Iterator[NotChecked]:
    """Yield what functions use and the templates do not have."""
    tables = {each.name for each in tokens}
    for function in users:
        named = _table_of(function.environment)
        if named is not None and named not in tables:
            shown = "" if isinstance(named, Unknown) else f" {named}"
            yield NotChecked(function.resource, f"its token table{shown}, which is not in this template")
        if isinstance(function.statements, Unknown):
            yield NotChecked(function.resource, "its role, which is not in this template")
    here = {each.resource for each in queues}
    for queue in queues:
        if queue.dead_letter is not None and queue.dead_letter not in here:
            yield NotChecked(queue.resource, "its dead-letter queue, which is not in this template")
    for source in sources:
        if source.kind == "sqs" and source.source not in here:
            yield NotChecked(source.resource, "its queue, which is not in this template")
        if isinstance(source.kind, Unknown):
            yield NotChecked(source.resource, "its source is not known")


def _users(
    made: Sequence[Function], given: Sequence[Resource], tokens: Sequence[Table], notes: list[NotChecked]
) -> list[Function]:
    """Return the functions that use lambda-once, as the module says."""
    names = {each.name for each in tokens}
    users: list[Function] = []
    shared: list[Function] = []
    for function, resource in zip(made, given, strict=True):
        named = _table_of(function.environment)
        own = any(not _is_from_globals(resource, each) for each in _variables(function))
        if function.handler == faults.WATCHDOG or own or (named is None and _names_table(function, tokens)):
            users.append(function)
        elif named is not None:
            arns = [each.arn for each in tokens] if named in names else [UNKNOWN]
            (users if _may_write(function, arns) else shared).append(function)
    if shared and all(each.handler == faults.WATCHDOG for each in users):
        return [each for each in made if each in users or each in shared]
    if shared:
        left = ", ".join(each.resource for each in shared)
        notes.append(
            NotChecked(left, "LAMBDA_ONCE_TABLE is from Globals, and no policy allows a write to the table")
        )
    return users


def _variables(function: Function) -> Iterator[str]:
    """Yield the variables that a function has for lambda-once, misspelt ones, too."""
    values = {} if isinstance(function.environment, Unknown) else function.environment
    for name, value in values.items():
        if name.startswith("LAMBDA_ONCE_") and name not in OF_OTHERS and value:
            yield name


def _is_from_globals(resource: Resource, name: str) -> bool:
    own = mapping(resource.written.get("Environment")).get("Variables")
    return resource.is_serverless and (own is None or (isinstance(own, Mapping) and name not in own))


_WRITES: Final = ("dynamodb:UpdateItem", "dynamodb:PartiQLUpdate", "dynamodb:PartiQLInsert")


def _may_write(function: Function, arns: Iterable[str | Unknown]) -> bool:
    """Whether a policy allows *function* a write to a table, or may do so."""
    if isinstance(function.statements, Unknown):
        return True
    given = function.statements
    return any(policies.permits(given, action, arn) is not False for arn in arns for action in _WRITES)


def _names_table(function: Function, tokens: Iterable[Table]) -> bool:
    """Whether a policy for single tables allows *function* a write to one of *tokens*, or to keys of it."""
    if isinstance(function.statements, Unknown):
        return False
    single = [each for each in function.statements if not {"*", UNKNOWN} & {*each.resources}]
    answers = (policies.permits(single, action, each.arn) for each in tokens for action in _WRITES)
    return any(answer is not False for answer in answers)


def _table_of(environment: Mapping[str, str | Unknown] | Unknown) -> str | Unknown | None:
    """Return the table that the variable names; None if it is not there, or empty."""
    return None if isinstance(environment, Unknown) else environment.get("LAMBDA_ONCE_TABLE") or None


# -- tables

_TABLES: Final = ("AWS::DynamoDB::Table", "AWS::DynamoDB::GlobalTable")


def _table(resource: Resource) -> Table:
    properties = resource.properties
    replicas = [mapping(each) for each in items_of(properties.get("Replicas"))] or [properties]
    recovery = [
        truth(inside(each, "PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled"), default=False)
        for each in replicas
    ]
    protection = [truth(each.get("DeletionProtectionEnabled"), default=False) for each in replicas]
    stream = properties.get("StreamSpecification")
    return Table(
        resource=resource.name,
        name=resource.physical,
        arn=resource.arn,
        keys=_keys(properties),
        indexes=_indexes(properties.get("GlobalSecondaryIndexes")),
        ttl=_ttl(properties.get("TimeToLiveSpecification")),
        recovery=recovery[0] if len(set(recovery)) == 1 else UNKNOWN,
        deletion_protection=protection[0] if len(set(protection)) == 1 else UNKNOWN,
        resource_policy=any("ResourcePolicy" in each for each in replicas),
        stream=None if stream is None else known(mapping(stream).get("StreamViewType")),
        is_replicated=_is_replicated(properties),
    )


def _is_replicated(properties: Mapping[str, Any]) -> bool | Unknown:
    """Whether replicas follow asynchronously: MultiRegionConsistency is EVENTUAL unless it is STRONG."""
    replicas = properties.get("Replicas", [])
    if not isinstance(replicas, list):
        return UNKNOWN
    consistency = properties.get("MultiRegionConsistency", "EVENTUAL")
    if len(replicas) < 2 or consistency == "STRONG":  # noqa: PLR2004  (one replica is the table itself)
        return False
    return True if consistency == "EVENTUAL" else UNKNOWN


def _keys(properties: Mapping[str, Any]) -> tuple[tuple[str, str], ...] | Unknown:
    schema = _schema(properties.get("KeySchema"))
    types = {
        each.get("AttributeName"): each.get("AttributeType")
        for each in map(mapping, items_of(properties.get("AttributeDefinitions")))
        if isinstance(each.get("AttributeName"), str)
    }
    if isinstance(schema, Unknown) or not all(isinstance(types.get(each), str) for each in schema):
        return UNKNOWN
    return tuple((each, str(types[each])) for each in schema)


def _schema(given: object) -> tuple[str, ...] | Unknown:
    """Return the attributes of a key, the partition key first."""
    keys = [mapping(each) for each in items_of(given)]
    ordered = sorted(keys, key=lambda each: each.get("KeyType") != "HASH")
    names = tuple(known(each.get("AttributeName")) for each in ordered)
    return cast("tuple[str, ...]", names) if names and UNKNOWN not in names else UNKNOWN


def _indexes(given: object) -> tuple[Index, ...] | Unknown:
    if given is None:
        return ()
    found = [_index(each) for each in items_of(given)]
    if not isinstance(given, list) or None in found:
        return UNKNOWN
    return tuple(each for each in found if each is not None)


def _index(given: object) -> Index | None:
    name, keys = mapping(given).get("IndexName"), _schema(mapping(given).get("KeySchema"))
    projection = mapping(mapping(given).get("Projection"))
    kind, included = projection.get("ProjectionType"), projection.get("NonKeyAttributes", [])
    is_known = isinstance(included, list) and all(isinstance(each, str) for each in included)
    if not isinstance(name, str) or isinstance(keys, Unknown) or not is_known:
        return None
    if kind not in ("ALL", "KEYS_ONLY", "INCLUDE"):
        return None
    return Index(name, keys, cast("Literal['ALL', 'KEYS_ONLY', 'INCLUDE']", kind), tuple(included))


def _ttl(given: object) -> str | Unknown | None:
    if given is None:
        return None
    enabled = truth(mapping(given).get("Enabled"), default=True)
    if enabled is False:
        return None
    return known(mapping(given).get("AttributeName")) if enabled is True else UNKNOWN


# -- functions


def _function(
    resource: Resource, environment: Mapping[str, str | Unknown] | Unknown, roles: Mapping[str, Role]
) -> Function:
    properties = resource.properties
    layers = properties.get("Layers", [])
    role = _role(resource, roles)
    return Function(
        resource=resource.name,
        name=resource.physical,
        timeout=whole(properties.get("Timeout"), 3),
        environment=environment,
        statements=UNKNOWN if role is None else role.statements,
        layers=tuple(
            unmarked(each) if isinstance(each, str) and intrinsics.OPEN not in each else UNKNOWN
            for each in (layers if isinstance(layers, list) else [UNKNOWN])
        ),
        package=package_of(resource),
        handler=known(properties.get("Handler")),
        is_isolated=_is_isolated(resource),
        alias=alias_of(resource),
        is_durable="DurableConfig" in properties,
        is_serverless=resource.is_serverless,
    )


def _is_isolated(function: Resource) -> bool | Unknown:
    """Whether Lambda isolates its tenants; read as written, for SAM expands no function that may not."""
    shared = function.shared if function.is_serverless else {}
    given = function.written.get("TenancyConfig", shared.get("TenancyConfig"))
    found = intrinsics.computed(given, function.stack.scope)
    return found if isinstance(found, Unknown) else "TenantIsolationMode" in mapping(found)


def _role(function: Resource, roles: Mapping[str, Role]) -> Role | None:
    """Return the role of *function*; None if it is not in the templates."""
    arn = function.properties.get("Role")
    return roles.get(arn) if isinstance(arn, str) else None


def _environment(resource: Resource, tables: Iterable[Table]) -> Mapping[str, str | Unknown] | Unknown:
    """Return the variables; a table's name or ARN is its `Table.name`."""
    given = resource.properties.get("Environment", {})
    variables = given.get("Variables", {}) if isinstance(given, Mapping) else UNKNOWN
    if not isinstance(variables, Mapping):
        return UNKNOWN
    names: dict[str | Unknown, str | Unknown] = {
        text: each.name for each in tables for text in (each.name, each.arn)
    }
    found: dict[str, str | Unknown] = {}
    for name, value in variables.items():
        text = str(value).lower() if isinstance(value, bool) else value
        text = str(text) if isinstance(text, int | float) else text
        if not isinstance(text, str):
            found[name] = UNKNOWN
        else:
            is_ours = name.startswith(("LAMBDA_ONCE_", "POWERTOOLS_"))
            is_known = intrinsics.is_known(text) or not (is_ours or _may_name(text, tables))
            found[name] = names.get(text.strip(), text if is_known else UNKNOWN)
    return found


def _may_name(text: str, tables: Iterable[Table]) -> bool:
    """Whether *text*, which has marks, may have the name of one of *tables*; that of a bucket has none."""
    return intrinsics.OPEN in text or any(intrinsics.mark_of(each.resource) in text for each in tables)


# -- sources and queues


def _subscriptions(function: Resource) -> Iterator[str]:
    """Yield SAM's events of type SNS that put a queue between, of which it makes a mapping."""
    for name, event in mapping(function.written.get("Events")).items():
        given = intrinsics.computed(
            mapping(mapping(event).get("Properties")).get("SqsSubscription"), function.stack.scope
        )
        if mapping(event).get("Type") == "SNS" and given:
            yield name


def _sources(
    everything: Sequence[Resource],
    users: Iterable[Function],
    functions: Iterable[Resource],
    notes: list[NotChecked],
) -> Iterator[EventSource]:
    names = {each.resource for each in users}
    targets = Targets(everything, [each for each in functions if each.name in names])
    queues = {each.arn: each.name for each in everything if each.kind == "AWS::SQS::Queue"}
    made = {
        f"{each.name}{name}EventSourceMapping": name for each in functions for name in _subscriptions(each)
    }
    for each in everything:
        if each.kind == PIPE:
            piped = targets.of(each.properties.get("Target"))
            if piped is not None:
                yield _piped(each, piped.function, queues)
        if each.kind != "AWS::Lambda::EventSourceMapping":
            continue
        given = each.properties.get("FunctionName")
        if not isinstance(given, str):
            notes.append(NotChecked(each.name, "which function it calls is not known"))
            continue
        target = targets.of(given)
        if target is not None:
            yield replace(_source(each, target.function, queues), subscription=made.get(each.name))


def _source(resource: Resource, function: str, queues: Mapping[str, str]) -> EventSource:
    properties = resource.properties
    kind = _kind(properties)
    arn = properties.get("EventSourceArn")
    types = properties.get("FunctionResponseTypes", [])
    destination = properties.get("DestinationConfig", {})
    on_failure = mapping(mapping(destination).get("OnFailure")).get("Destination")
    return EventSource(
        resource=resource.name,
        function=function,
        kind=kind,
        source=queues.get(arn, arn) if isinstance(arn, str) else UNKNOWN,
        batch_size=whole(properties.get("BatchSize"), 10 if kind == "sqs" else 100),
        window=whole(properties.get("MaximumBatchingWindowInSeconds"), 0),
        reports_failures=_reports(types),
        bisects=truth(properties.get("BisectBatchOnFunctionError"), default=False),
        retries=_limit(properties.get("MaximumRetryAttempts")),
        record_age=_limit(properties.get("MaximumRecordAgeInSeconds")),
        on_failure=UNKNOWN if isinstance(destination, Unknown) else on_failure,
        tumbling=whole(properties.get("TumblingWindowInSeconds"), 0),
        names=_names_in(properties.get("Topics", properties.get("Queues"))),
    )


def _piped(pipe: Resource, function: str, queues: Mapping[str, str]) -> EventSource:
    """Return what a pipe feeds *function* from; what it does with batches that fail is not judged."""
    arn = pipe.properties.get("Source")
    given = mapping(pipe.properties.get("SourceParameters")).values()
    parameters = next((mapping(each) for each in given if "BatchSize" in mapping(each)), {})
    kind = _kind({"EventSourceArn": arn, "StartingPosition": None})
    return EventSource(
        resource=pipe.name,
        function=function,
        kind=kind,
        source=queues.get(arn, arn) if isinstance(arn, str) else UNKNOWN,
        batch_size=whole(parameters.get("BatchSize"), 10 if kind == "sqs" else 100),
        window=whole(parameters.get("MaximumBatchingWindowInSeconds"), 0),
        reports_failures=UNKNOWN,
        retries=UNKNOWN,
        is_piped=True,
        names=_names_in([parameters[name] for name in ("TopicName", "QueueName") if name in parameters]),
    )


def _names_in(given: object) -> tuple[str, ...]:
    return tuple(each for each in items_of(given) if isinstance(each, str))


def _reports(types: object) -> bool | Unknown:
    if not isinstance(types, list):
        return UNKNOWN
    if "ReportBatchItemFailures" in types:
        return True
    return UNKNOWN if UNKNOWN in map(known, types) else False


def _limit(value: object) -> int | Unknown | None:
    """Return a limit of a stream; -1, the default, is none."""
    found = whole(value, -1)
    return None if found == -1 else found


Kind = Literal["sqs", "kinesis", "dynamodb", "kafka", "mq", "other"] | Unknown


def _kind(properties: Mapping[str, Any]) -> Kind:
    """Return what feeds a mapping. Only queues have none of the settings of the others."""
    arn = properties.get("EventSourceArn")
    if "SelfManagedEventSource" in properties or "Topics" in properties:
        return "kafka"
    if "Queues" in properties:
        return "mq"
    if isinstance(arn, str) and arn.startswith("arn:"):
        service = arn.split(":")[2]
        return cast("Kind", service) if service in faults.BATCHED else "other"
    return UNKNOWN if "StartingPosition" in properties else "sqs"


def _queues(
    everything: Sequence[Resource], sources: Iterable[EventSource], subscriptions: Iterable[Subscription]
) -> list[Queue]:
    """Return the queues that feed functions, and their dead-letter queues."""
    all_queues = {each.name: each for each in everything if each.kind == "AWS::SQS::Queue"}
    arns = {each.arn: name for name, each in all_queues.items()}
    wanted = dict.fromkeys(each.source for each in sources if each.source in all_queues)
    named: dict[object, dict[str, None]] = {}
    for each in subscriptions:
        if each.is_raw is False and isinstance(each.endpoint, str):
            named.setdefault(each.endpoint, {})[each.topic] = None
    made = {
        name: replace(_queue(each, arns), topics=tuple(named.get(each.arn, ())))
        for name, each in all_queues.items()
    }
    targets = {each.dead_letter for each in made.values()}
    found = [replace(made[str(each)], is_dead_letter=each in targets) for each in wanted]
    more = dict.fromkeys(each.dead_letter for each in found if each.dead_letter in all_queues)
    return found + [replace(made[str(each)], is_dead_letter=True) for each in more if each not in wanted]


def _queue(resource: Resource, arns: Mapping[str, str]) -> Queue:
    properties = resource.properties
    redrive = _redrive(properties.get("RedrivePolicy"))
    dead_letter: str | Unknown | None = UNKNOWN
    receives: int | Unknown | None = UNKNOWN
    if redrive is None:
        dead_letter = receives = None
    elif not isinstance(redrive, Unknown):
        target = redrive.get("deadLetterTargetArn")
        dead_letter = arns.get(target, target) if isinstance(target, str) else UNKNOWN
        receives = whole(redrive.get("maxReceiveCount"), 10)
    return Queue(
        resource=resource.name,
        name=resource.physical,
        arn=resource.arn,
        visibility=whole(properties.get("VisibilityTimeout"), 30),
        retention=whole(properties.get("MessageRetentionPeriod"), 345_600),
        fifo=truth(properties.get("FifoQueue"), default=False),
        dead_letter=dead_letter,
        receives=receives,
        is_generated=not resource.raw,
    )


def _redrive(given: object) -> Mapping[str, Any] | Unknown | None:
    """Return a RedrivePolicy, which may be written as JSON."""
    if given is None or given is NO_VALUE:
        return None
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return UNKNOWN
    return given if isinstance(given, Mapping) else UNKNOWN
