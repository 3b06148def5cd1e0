"""
A deployment as `rules` see it, made by `templates`.

Plain values. What a reader could not learn is `UNKNOWN`, never a default: a rule skips it, and the reader
lists it in `Deployment.not_checked`. Names are those of the resources in a template.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple


class Unknown(Enum):
    """The type of `UNKNOWN`."""

    UNKNOWN = "unknown"


UNKNOWN: Final = Unknown.UNKNOWN
"""A value that the reader could not learn: an import, another stack's output."""
Answer = bool | Unknown


def any_of(answers: Iterable[Answer]) -> Answer:
    found = set(answers)
    return True if True in found else UNKNOWN if UNKNOWN in found else False


def all_of(answers: Iterable[Answer]) -> Answer:
    found = set(answers)
    return False if False in found else UNKNOWN if UNKNOWN in found else True


def negated(answer: Answer) -> Answer:
    return answer if isinstance(answer, Unknown) else not answer


class Index(NamedTuple):
    """A global secondary index of a table."""

    name: str
    keys: tuple[str, ...]
    """The partition key, then the sort key if there is one."""
    projection: Literal["ALL", "KEYS_ONLY", "INCLUDE"]
    included: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Table:
    """A DynamoDB table that functions use as token table."""

    resource: str
    name: str | Unknown
    arn: str | Unknown
    keys: tuple[tuple[str, str], ...] | Unknown
    """Attribute and type (``S``) of the partition key, then of the sort key if there is one."""
    indexes: tuple[Index, ...] | Unknown
    ttl: str | Unknown | None
    """The attribute of its time to live; None: it is off."""
    recovery: bool | Unknown
    """Point-in-time recovery."""
    deletion_protection: bool | Unknown
    resource_policy: bool = False
    """It has a policy of its own, which may allow what the roles of functions do not."""
    stream: str | Unknown | None = None
    """The view type of its stream; None: it has none."""
    is_replicated: bool | Unknown = False
    """It has replicas that follow asynchronously (MREC)."""


class Package(NamedTuple):
    """What the code of a function or a layer brings, as far as it is on this machine."""

    has_once: bool | Unknown = UNKNOWN
    """``lambda_once``."""
    has_pydantic: bool | Unknown = UNKNOWN
    models: tuple[str, ...] = ()
    """The files in which a decorator is given ``model=``."""


NOTHING_KNOWN: Final = Package()


class Caller(NamedTuple):
    """What invokes a function, and which of its aliases or versions."""

    by: str
    """A service's principal, or the type of an event of SAM's."""
    qualifier: str | Unknown


class Statement(NamedTuple):
    """One statement of an IAM policy; a value that could not be resolved is `UNKNOWN`."""

    allows: bool
    actions: tuple[str, ...]
    not_actions: tuple[str, ...]
    resources: tuple[str | Unknown, ...]
    not_resources: tuple[str | Unknown, ...]
    conditions: Mapping[str, Mapping[str, object]]


class Idle(Enum):
    """Why a scheduled function never runs."""

    UNSCHEDULED = "no rule or schedule invokes it"
    DISABLED = "its schedule is disabled"
    RESERVED = "its reserved concurrency is 0"


@dataclass(frozen=True, slots=True)
class Function:
    """A Lambda function that uses lambda-once."""

    resource: str
    name: str | Unknown
    timeout: int | Unknown
    """Seconds."""
    environment: Mapping[str, str | Unknown] | Unknown
    statements: tuple[Statement, ...] | Unknown
    """Of its role: inline and managed policies. UNKNOWN if the role is not in the template."""
    layers: tuple[str | Unknown, ...] = ()
    """Resources of the template, or ARNs."""
    package: Package = NOTHING_KNOWN
    """What its own code brings."""
    handler: str | Unknown = UNKNOWN
    callers: tuple[Caller, ...] = ()
    """What invokes it without a mapping: services of HTTP and of asynchronous events."""
    is_isolated: bool | Unknown = False
    """Whether Lambda isolates its tenants (TenancyConfig)."""
    kept_on: frozenset[str | Unknown] = frozenset()
    """The qualifiers for which an asynchronous event that failed on all its tries goes anywhere."""
    alias: str | Unknown | None = None
    """SAM's AutoPublishAlias, which its events and its EventInvokeConfig are for."""
    is_durable: bool = False
    is_serverless: bool = False
    """Whether it is SAM's resource, with SAM's properties."""
    topics: tuple[str, ...] = ()
    """The topics of SNS that invoke it."""
    nameless: tuple[str, ...] = ()
    """The Function URLs and HTTP APIs that invoke it, which can name no tenant."""
    idle: Idle | Unknown | None = None
    """Why it never runs; None: it does, or that was not looked at."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """An event source mapping of a function, or a queue's subscription that a template spells as an event."""

    resource: str
    function: str
    """`Function.resource`."""
    kind: Literal["sqs", "kinesis", "dynamodb", "kafka", "mq", "other"] | Unknown
    source: str | Unknown
    """`Queue.resource`, or the ARN of what is not in the deployment."""
    batch_size: int | Unknown
    window: int | Unknown
    """Seconds (MaximumBatchingWindowInSeconds)."""
    reports_failures: bool | Unknown
    """FunctionResponseTypes has ReportBatchItemFailures."""
    bisects: bool | Unknown = UNKNOWN
    """BisectBatchOnFunctionError, of a stream."""
    retries: int | Unknown | None = None
    """MaximumRetryAttempts of a stream; None: until the record expires."""
    record_age: int | Unknown | None = None
    """MaximumRecordAgeInSeconds of a stream; None: until the record expires."""
    on_failure: str | Unknown | None = None
    """The destination of records that a stream gives up."""
    tumbling: int | Unknown = 0
    """Seconds of a stream's tumbling window; 0: it has none."""
    is_piped: bool = False
    """Whether a pipe of EventBridge's reads it, not a mapping of Lambda's."""
    subscription: str | None = None
    """The event of type SNS whose SqsSubscription SAM made it of."""
    names: tuple[str, ...] = ()
    """The topics of a cluster, or the queues of a broker."""


@dataclass(frozen=True, slots=True)
class Pipe:
    """An EventBridge pipe whose target is a function."""

    resource: str
    function: str
    """`Function.resource`."""
    transforms: bool | Unknown
    """Whether its InputTemplate makes something else of the records."""


@dataclass(frozen=True, slots=True)
class Queue:
    """An SQS queue that is the source of a mapping, or the dead-letter queue of one."""

    resource: str
    name: str | Unknown
    arn: str | Unknown
    visibility: int | Unknown
    """Seconds."""
    retention: int | Unknown
    """Seconds."""
    fifo: bool | Unknown
    dead_letter: str | Unknown | None
    """`Queue.resource` or an ARN; None: it has no dead-letter queue."""
    receives: int | Unknown | None
    """maxReceiveCount; None without a dead-letter queue."""
    is_dead_letter: bool = False
    """Whether another queue moves messages here."""
    is_generated: bool = False
    """Whether SAM makes it, for an SqsSubscription: it stands in no file, and nothing of it can be set."""
    topics: tuple[str, ...] = ()
    """The topics of SNS that send it envelopes, which name them."""


class Layer(NamedTuple):
    """A layer of a template, by its folder."""

    resource: str
    package: Package
    """What functions can import from it."""


class Loop(NamedTuple):
    """An ``Fn::ForEach``."""

    resource: str
    """Its key."""
    parameters: tuple[str, ...] = ()
    """The parameters that it goes over and that have no value."""


class NotChecked(NamedTuple):
    """Something that a reader could not see."""

    resource: str
    why: str


NO_FUNCTION: Final = NotChecked("functions", "none here uses the table: check theirs, too")
IN_CODE: Final = NotChecked("keep=, name=, on_error= and the other options", "they are in code")


@dataclass(frozen=True, slots=True)
class Deployment:
    """A deployment to check."""

    tables: tuple[Table, ...] = ()
    functions: tuple[Function, ...] = ()
    sources: tuple[EventSource, ...] = ()
    queues: tuple[Queue, ...] = ()
    layers: tuple[Layer, ...] = ()
    pipes: tuple[Pipe, ...] = ()
    loops: tuple[Loop, ...] = ()
    """Those of which it is not known what they go over."""
    not_checked: tuple[NotChecked, ...] = ()


class CannotCheck(Exception):
    """There is no deployment to check. The message says what, where, and what to do."""


class NothingToCheck(CannotCheck):
    """A template that can be read has neither a function nor a table of lambda-once."""


# -- findings


class Severity(Enum):
    """How bad a finding is. Advice alone leaves the exit code 0."""

    ERROR = "error"
    """Work is lost or done twice, or nothing works."""
    WARNING = "warning"
    ADVICE = "advice"


class Finding(NamedTuple):
    """What is wrong, why it matters, and the line to write."""

    severity: Severity
    code: str
    """Stable, such as ``Q1``: a letter for its kind (docs/check.md), and a number."""
    resource: str
    what: str
    why: str
    fix: str
    """The line of the template, or the command."""
