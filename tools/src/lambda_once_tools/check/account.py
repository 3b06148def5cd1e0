"""
Reads a deployment from an AWS account, by read-only requests.

What a denied or failed request would have answered is `UNKNOWN`, and the request is listed in
`Deployment.not_checked`. docs/check.md has the permissions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal

from botocore.exceptions import ClientError

from lambda_once.core.clock import Clock
from lambda_once.dynamodb.errors import (
    DENIED,
    EXPIRED,
    NOT_ACCEPTED,
    THROTTLED,
    Caught,
    code_of,
    is_transient,
)
from lambda_once.errors import Misconfigured
from lambda_once_tools.check import faults
from lambda_once_tools.check.deployment import (
    IN_CODE,
    NO_FUNCTION,
    UNKNOWN,
    CannotCheck,
    Deployment,
    EventSource,
    Function,
    Idle,
    Index,
    NotChecked,
    Queue,
    Statement,
    Table,
    Unknown,
)
from lambda_once_tools.check.policies import UNSEEN, statements

TABLE: Final = "LAMBDA_ONCE_TABLE"
"""The variable of a function that names its token table."""
LAYERS: Final = NotChecked("code and layers", "what is deployed is not opened")

Kind = Literal["sqs", "kinesis", "dynamodb", "kafka", "mq", "other"]
Answer = Mapping[str, Any]
Heard = Callable[[Any, datetime], object]

_KINDS: Final[Mapping[str, Kind]] = {
    "sqs": "sqs",
    "kinesis": "kinesis",
    "dynamodb": "dynamodb",
    "kafka": "kafka",
    "mq": "mq",
}
_SLOWED: Final = THROTTLED | {"RequestThrottled", "Throttling", "TooManyRequestsException"}
_ABSENT: Final = frozenset(
    {"NoSuchEntity", "NonExistentQueue", "QueueDoesNotExist", "ResourceNotFoundException"}
)
_NO_POLICY: Final = frozenset({"PolicyNotFoundException"})
_URL: Final = "QueueUrl"
_QUEUE_ATTRIBUTES: Final = ("QueueArn", "VisibilityTimeout", "MessageRetentionPeriod", "RedrivePolicy")


def read_account(
    client: Callable[[str], Any],
    functions: Sequence[str],
    tables: Sequence[str],
    clock: Clock,
    heard: Heard | None = None,
) -> Deployment:
    """
    Return the deployment of *functions* and *tables*, names or ARNs, with queues, mappings and policies.

    Of a function's alias, ``payments:live``, the mappings are those of the alias.
    Tables that the functions' LAMBDA_ONCE_TABLE names are read, too. *client* returns the boto3 client of a
    service. *heard* gets each response of DynamoDB, and when, by *clock*, it was asked for.

    Raises `CannotCheck` if one of *functions* or *tables* does not exist, or none of them could be read, and
    `Misconfigured` if AWS does not accept the credentials.
    """
    asking = _Asking(client, clock, heard)
    found = tuple(_functions(asking, functions))
    mapped = [(each, _mappings(asking, each)) for each in found]
    mappings = [(each, mapping) for each, its in mapped for mapping in its or ()]
    found = tuple(replace(each, callers=_callers(its)) for each, its in mapped)
    queues = _queues(asking, [mapping.get("EventSourceArn") for _, mapping in mappings])
    read_tables, missing = _tables(asking, found, tables)
    if not found and not read_tables and asking.errors:
        raise CannotCheck(f"nothing could be read: {asking.errors[0]}")
    deployment = Deployment(
        tables=read_tables,
        functions=found,
        sources=tuple(_source(function, mapping, queues) for function, mapping in mappings),
        queues=tuple(queues.values()),
        missing_tables=missing,
        deployed=True,
    )
    always = (UNSEEN, IN_CODE, LAYERS) if found else (NO_FUNCTION,)
    seen = (*asking.not_checked, *faults.undecided(deployment), *always)
    return replace(deployment, not_checked=seen)


# -- requests


class _Asking:
    """Sends requests, and notes those without an answer."""

    def __init__(self, client: Callable[[str], Any], clock: Clock, heard: Heard | None) -> None:
        self._client = client
        self._clients: dict[str, Any] = {}
        self._silent: dict[str, Exception] = {}
        """Services that did not respond; further requests would take as long."""
        self._clock = clock
        self._heard = heard
        self.not_checked: dict[NotChecked, None] = {}
        self.errors: list[Exception] = []

    def note(self, missing: NotChecked) -> None:
        self.not_checked[missing] = None

    def one(
        self,
        resource: str,
        service: str,
        operation: str,
        *,
        absent: frozenset[str] = frozenset(),
        **arguments: Any,
    ) -> Answer | None:
        """
        Return the answer to a request about *resource*; None, and a note, if there is none.

        Raises botocore's error if its code is one of *absent*, and `Misconfigured` if AWS does not accept the
        credentials.
        """
        try:
            return self._sent(service, operation, arguments)
        except Caught as error:
            if code_of(error) in absent:
                raise
            self._failed(resource, service, operation, error)
            return None

    def pages(
        self, resource: str, service: str, operation: str, items: str, **arguments: Any
    ) -> list[Any] | None:
        """Return *items* of all pages; None, and a note, if one of them is missing."""
        found: list[Any] = []
        try:
            for page in self._of(service).get_paginator(operation).paginate(**arguments):
                found += page[items]
        except Caught as error:
            self._failed(resource, service, operation, error)
            return None
        return found

    def _of(self, service: str) -> Any:
        if service in self._silent:
            raise self._silent[service]
        if service not in self._clients:
            self._clients[service] = self._client(service)
        return self._clients[service]

    def _sent(self, service: str, operation: str, arguments: Mapping[str, Any]) -> Answer:
        sent = self._clock.now()
        answer: Answer = getattr(self._of(service), operation)(**arguments)
        if service == "dynamodb" and self._heard is not None:
            self._heard(answer, sent)
        return answer

    def _failed(self, resource: str, service: str, operation: str, error: Exception) -> None:
        refused = code_of(error) in EXPIRED | NOT_ACCEPTED
        if refused or not (isinstance(error, ClientError) or is_transient(error)):
            raise Misconfigured(str(error)) from error  # of the credentials, or of their configuration
        if not isinstance(error, ClientError):
            self._silent[service] = error
        action = f"{service}:{self._clients[service].meta.method_to_api_mapping[operation]}"
        self.errors.append(error)
        self.note(NotChecked(resource, f"{action} {_reason(error)}"))


def _reason(error: Exception) -> str:
    code = code_of(error)
    if not isinstance(error, ClientError):
        return f"got no response ({code})"
    if code in DENIED:
        return "is denied"
    if code in _SLOWED:
        return "is throttled: retry"
    return f"found nothing ({code})" if code in _ABSENT else f"failed ({code})"


# -- functions


def _functions(asking: _Asking, names: Sequence[str]) -> Iterator[Function]:
    """Yield those that could be read. Raises `CannotCheck` for a name that no function has."""
    roles: dict[str, tuple[Statement, ...] | Unknown] = {}
    for name in dict.fromkeys(each.rpartition("function:")[2] for each in names):
        found = _named(asking, f"function {name}", "lambda", "get_function_configuration", FunctionName=name)
        if found is None:
            continue
        role = found["Role"].rpartition("/")[2]
        if role not in roles:
            roles[role] = _statements(asking, name, role)
        variables = _environment(found)
        if isinstance(variables, Unknown):
            asking.note(NotChecked(name, "its environment cannot be decrypted"))
        yield Function(
            resource=name,
            name=found["FunctionName"],
            timeout=found["Timeout"],
            environment=variables,
            statements=roles[role],
            layers=tuple(each["Arn"] for each in found.get("Layers", ())),
            handler=found.get("Handler", UNKNOWN),  # an image has none
            idle=_idle(asking, name, found) if found.get("Handler") == faults.WATCHDOG else None,
        )


def _idle(asking: _Asking, name: str, found: Answer) -> Idle | Unknown | None:
    """Return why a watchdog never runs; None if a rule or schedule invokes it."""
    reserved = asking.one(name, "lambda", "get_function_concurrency", FunctionName=found["FunctionName"])
    if reserved is not None and reserved.get("ReservedConcurrentExecutions") == 0:
        return Idle.RESERVED
    states = set[str | None]()
    for state in _states(asking, name, found["FunctionArn"]):
        if state == "ENABLED":
            return None
        states.add(state)
    if None in states:
        return UNKNOWN
    return Idle.DISABLED if states else Idle.UNSCHEDULED


def _states(asking: _Asking, name: str, arn: str) -> Iterator[str | None]:
    """Yield the states of the rules and schedules that invoke a function; None: one is not known."""
    rules = asking.pages(name, "events", "list_rule_names_by_target", "RuleNames", TargetArn=arn)
    if rules is None:
        yield None
    for rule in rules or ():
        described = asking.one(name, "events", "describe_rule", Name=rule)
        yield None if described is None else described["State"].partition("_")[0]
    schedules = asking.pages(name, "scheduler", "list_schedules", "Schedules")
    if schedules is None:
        yield None
    yield from (each.get("State") for each in schedules or () if each["Target"]["Arn"] == arn)


def _named(asking: _Asking, what: str, service: str, operation: str, **arguments: Any) -> Answer | None:
    """Return the answer about what the caller has named. Raises `CannotCheck` if it does not exist."""
    try:
        return asking.one(what.partition(" ")[2], service, operation, absent=_ABSENT, **arguments)
    except Caught as error:
        raise CannotCheck(f"there is no {what}: check the name, --region and --profile") from error


def _environment(configuration: Answer) -> Mapping[str, str | Unknown] | Unknown:
    """Return the variables; Lambda answers with an error in their place if its key may not be used."""
    environment = configuration.get("Environment", {})
    if "Error" in environment:
        return UNKNOWN
    variables: Mapping[str, str | Unknown] = environment.get("Variables", {})
    return variables


# -- policies


def _statements(asking: _Asking, function: str, role: str) -> tuple[Statement, ...] | Unknown:
    """Return the statements of all policies of *role*; `UNKNOWN` if one could not be read."""
    documents = [*_inline(asking, function, role), *_managed(asking, function, role)]
    found: list[Statement] = []
    for document in documents:
        if document is None:
            return UNKNOWN
        found += statements(document)
    return tuple(found)


def _inline(asking: _Asking, function: str, role: str) -> Iterator[Answer | None]:
    names = asking.pages(function, "iam", "list_role_policies", "PolicyNames", RoleName=role)
    if names is None:
        yield None
    for name in names or ():
        answer = asking.one(function, "iam", "get_role_policy", RoleName=role, PolicyName=name)
        yield None if answer is None else _document(asking, function, name, answer["PolicyDocument"])


def _managed(asking: _Asking, function: str, role: str) -> Iterator[Answer | None]:
    attached = asking.pages(function, "iam", "list_attached_role_policies", "AttachedPolicies", RoleName=role)
    if attached is None:
        yield None
    for each in attached or ():
        arn = each["PolicyArn"]
        policy = asking.one(function, "iam", "get_policy", PolicyArn=arn)
        version = policy and asking.one(
            function,
            "iam",
            "get_policy_version",
            PolicyArn=arn,
            VersionId=policy["Policy"]["DefaultVersionId"],
        )
        document = None if version is None else version["PolicyVersion"]["Document"]
        yield None if version is None else _document(asking, function, each["PolicyName"], document)


def _document(asking: _Asking, function: str, policy: str, given: Any) -> Answer | None:
    """Return a policy document, which boto3 has parsed; None, and a note, if it could not."""
    if isinstance(given, Mapping):
        return given
    asking.note(NotChecked(function, f"its policy {policy} is not JSON"))
    return None


# -- mappings


def _mappings(asking: _Asking, function: Function) -> list[Answer] | None:
    name = function.resource
    return asking.pages(
        name, "lambda", "list_event_source_mappings", "EventSourceMappings", FunctionName=name
    )


def _callers(mappings: Sequence[Answer] | None) -> tuple[str, ...] | Unknown:
    """Return what invokes a function: without a mapping something does so directly."""
    if mappings is None:
        return UNKNOWN
    return () if mappings else ("direct invocations",)


def _source(function: Function, mapping: Answer, queues: Mapping[str, Queue]) -> EventSource:
    arn = mapping.get("EventSourceArn")
    retries, age = (mapping.get(f"Maximum{each}", -1) for each in ("RetryAttempts", "RecordAgeInSeconds"))
    destination = mapping.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    known = queues.get(arn or "")
    source = known.resource if known is not None else arn
    return EventSource(
        resource=f"{function.resource}/{mapping['UUID'] if arn is None else _name(arn)}",
        function=function.resource,
        kind=_kind(mapping),
        source=UNKNOWN if source is None else source,
        batch_size=mapping.get("BatchSize", UNKNOWN),
        window=mapping.get("MaximumBatchingWindowInSeconds", 0),
        reports_failures="ReportBatchItemFailures" in mapping.get("FunctionResponseTypes", ()),
        bisects=bool(mapping.get("BisectBatchOnFunctionError", False)),
        retries=None if retries < 0 else retries,
        record_age=None if age < 0 else age,
        on_failure=destination,
    )


def _kind(mapping: Answer) -> Kind:
    if "SelfManagedEventSource" in mapping:
        return "kafka"
    return _KINDS.get(_service(mapping.get("EventSourceArn", "")), "other")


def _name(arn: str) -> str:
    """Return the name in the ARN of a queue, stream, table's stream, cluster or broker."""
    kind, *rest = re.split("[:/]", arn.split(":", 5)[-1])
    return rest[0] if rest else kind


def _service(arn: str) -> str:
    return [*arn.split(":"), "", "", ""][2]


# -- queues


def _queues(asking: _Asking, sources: Sequence[str | None]) -> dict[str, Queue]:
    """Return the queues of *sources*, and their dead-letter queues, by ARN: those that could be read."""
    found: dict[str, Mapping[str, str]] = {}
    waiting = [arn for arn in sources if arn is not None]
    seen = set[str]()
    while waiting:
        arn = waiting.pop(0)
        if arn in seen or _service(arn) != "sqs":
            continue
        seen.add(arn)
        attributes = _attributes(asking, arn)
        if attributes is not None:
            found[arn] = attributes
            waiting += filter(None, [_redrive(attributes).get("deadLetterTargetArn")])
    return {arn: _queue(asking, arn, attributes, found) for arn, attributes in found.items()}


def _attributes(asking: _Asking, arn: str) -> Mapping[str, str] | None:
    account, name = arn.split(":")[4:6]
    answer = asking.one(name, "sqs", "get_queue_url", QueueName=name, QueueOwnerAWSAccountId=account)
    if answer is None:
        return None
    url, wanted = answer["QueueUrl"], list(_QUEUE_ATTRIBUTES)
    answer = asking.one(name, "sqs", "get_queue_attributes", QueueUrl=url, AttributeNames=wanted)
    return None if answer is None else {**answer["Attributes"], _URL: url}


def _redrive(attributes: Mapping[str, str]) -> Mapping[str, Any]:
    policy: Mapping[str, Any] = json.loads(attributes.get("RedrivePolicy", "{}"))
    return policy


def _queue(
    asking: _Asking, arn: str, attributes: Mapping[str, str], found: Mapping[str, Mapping[str, str]]
) -> Queue:
    name = arn.rpartition(":")[2]
    redrive = _redrive(attributes)
    target: str | None = redrive.get("deadLetterTargetArn")
    return Queue(
        resource=name,
        name=name,
        arn=arn,
        visibility=_number(attributes, "VisibilityTimeout"),
        retention=_number(attributes, "MessageRetentionPeriod"),
        fifo=name.endswith(".fifo"),
        dead_letter=target.rpartition(":")[2] if target is not None and target in found else target,
        receives=None if target is None else int(redrive["maxReceiveCount"]),
        is_dead_letter=_is_dead_letter(asking, arn, attributes, found),
    )


def _is_dead_letter(
    asking: _Asking, arn: str, attributes: Mapping[str, str], found: Mapping[str, Mapping[str, str]]
) -> bool | Unknown:
    """Whether another queue moves messages to *arn*; only one without a dead-letter queue is asked for."""
    if any(_redrive(each).get("deadLetterTargetArn") == arn for each in found.values()):
        return True
    if _redrive(attributes):
        return False
    name, url = arn.rpartition(":")[2], attributes[_URL]
    sources = asking.pages(name, "sqs", "list_dead_letter_source_queues", "queueUrls", QueueUrl=url)
    return UNKNOWN if sources is None else bool(sources)


def _number(attributes: Mapping[str, str], name: str) -> int | Unknown:
    return int(attributes[name]) if name in attributes else UNKNOWN


# -- tables


def _tables(
    asking: _Asking, functions: Sequence[Function], names: Sequence[str]
) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """
    Return the tables that could be read, and what functions name although there is no such table.

    Raises `CannotCheck` if there is no table of one of *names*.
    """
    found = dict[str, Table]()
    for name in dict.fromkeys(names):
        answer = _named(asking, f"table {name}", "dynamodb", "describe_table", TableName=name)
        if answer is not None:
            table = _table(asking, name, answer["Table"], is_used=bool(functions))
            found |= {name: table, table.resource: table}
    missing: list[str] = []
    for name in _named_by(asking, functions):
        if name in found or name in names:
            continue
        try:
            answer = asking.one(name, "dynamodb", "describe_table", absent=_ABSENT, TableName=name)
        except Caught:
            missing.append(name)
            continue
        if answer is not None:
            found[name] = _table(asking, name, answer["Table"], is_used=True)
    return tuple({table.arn: table for table in found.values()}.values()), tuple(missing)


def _named_by(asking: _Asking, functions: Sequence[Function]) -> Iterator[str]:
    """Yield the tables that the variables of *functions* name."""
    for function in functions:
        if isinstance(function.environment, Unknown):
            continue
        name = function.environment.get(TABLE)
        if isinstance(name, str) and name:
            yield name
        else:
            asking.note(NotChecked(function.resource, f"its table: it has no {TABLE}; pass --table"))


def _table(asking: _Asking, asked: str, found: Answer, *, is_used: bool) -> Table:
    """
    Return the table of an answer to DescribeTable; its policy is read if it *is_used* by a function.

    *asked* is its ARN where it is another account's: by its name this account's would answer.
    """
    name, arn = found["TableName"], found["TableArn"]
    types = {each["AttributeName"]: each["AttributeType"] for each in found["AttributeDefinitions"]}
    ttl = asking.one(name, "dynamodb", "describe_time_to_live", TableName=asked)
    backups = asking.one(name, "dynamodb", "describe_continuous_backups", TableName=asked)
    return Table(
        resource=name,
        name=name,
        arn=arn,
        keys=tuple((attribute, types[attribute]) for attribute in _keys(found)),
        indexes=tuple(_index(each) for each in found.get("GlobalSecondaryIndexes", ())),
        ttl=UNKNOWN if ttl is None else _ttl(ttl["TimeToLiveDescription"]),
        recovery=UNKNOWN if backups is None else _recovers(backups["ContinuousBackupsDescription"]),
        deletion_protection=found.get("DeletionProtectionEnabled", False),
        resource_policy=_has_policy(asking, name, arn) if is_used else UNKNOWN,
    )


def _keys(schema: Answer) -> tuple[str, ...]:
    """Return the partition key, then the sort key."""
    by_type = {each["KeyType"]: each["AttributeName"] for each in schema["KeySchema"]}
    return tuple(by_type[kind] for kind in ("HASH", "RANGE") if kind in by_type)


def _index(found: Answer) -> Index:
    projection = found["Projection"]
    included = tuple(projection.get("NonKeyAttributes", ()))
    return Index(found["IndexName"], _keys(found), projection["ProjectionType"], included)


def _ttl(description: Answer) -> str | None:
    is_on = description["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
    return description["AttributeName"] if is_on else None


def _recovers(description: Answer) -> bool:
    recovery = description.get("PointInTimeRecoveryDescription", {})
    return bool(recovery.get("PointInTimeRecoveryStatus") == "ENABLED")


def _has_policy(asking: _Asking, name: str, arn: str) -> bool | Unknown:
    try:
        policy = asking.one(name, "dynamodb", "get_resource_policy", absent=_NO_POLICY, ResourceArn=arn)
    except Caught:
        return False
    return UNKNOWN if policy is None else True
