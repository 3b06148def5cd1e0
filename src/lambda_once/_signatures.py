"""The types of decorators and options, for type checkers. The options themselves are in `settings`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    Required,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from lambda_once.engine.replay import Replayed
from lambda_once.errors import GiveUp
from lambda_once.policies import OnError, OnLapseOption
from lambda_once.sources.problems import Problem

if TYPE_CHECKING:
    from types import UnionType
    from typing import _SpecialForm

    from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord
    from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecordRecords
    from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from pydantic import TypeAdapter

    from lambda_once.engine.history import HistorySource

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E")
C = TypeVar("C")
M = TypeVar("M")
E_contra = TypeVar("E_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)
M_co = TypeVar("M_co", covariant=True)
Event = Mapping[str, Any] | Sequence[Mapping[str, Any]]
"""An event as Lambda or EventBridge Pipes sends it."""
StreamResponse = Mapping[str, Any] | None
"""None; with ``report_failures``, ``batchItemFailures``."""
Coro = Coroutine[Any, Any, R]
TypeForm: TypeAlias = "UnionType | _SpecialForm | TypeAdapter[Any]"
"""``A | B``, ``Annotated[…]`` and adapters, as mypy sees them; pyright takes the overload of any object."""


class Handler(Protocol[E_contra, C_contra, R_co]):
    """A decorated Lambda handler: a plain function, even if the undecorated one is async."""

    def __call__(self, event: E_contra, context: C_contra, /) -> R_co: ...

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        """The undecorated function."""
        ...


class OfRecords(Protocol[M_co, R_co]):
    """
    A record decorator after its options are given; it takes a function of one record or model *M_co*.

    The handler returns *R_co*.
    """

    @overload
    def __call__(self, f: Callable[[M_co, C], object], /) -> Handler[Event, C, R_co]: ...
    @overload
    def __call__(self, f: Callable[[M_co], object], /) -> Handler[Event, LambdaContext, R_co]: ...


class MessageDecorator(Protocol[M_co]):
    """`Once.sns` and `Once.mq`, with or without options; messages are *M_co*."""

    @overload
    def __call__(self, f: Callable[[M_co, C], object], /) -> Handler[Event, C, None]: ...
    @overload
    def __call__(self, f: Callable[[M_co], object], /) -> Handler[Event, LambdaContext, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        key: str | Callable[[Any], object] = ...,
        **options: Unpack[RecordOptions],
    ) -> OfRecords[Any, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        key: str | Callable[[M], object] = ...,
        **options: Unpack[RecordOptions],
    ) -> OfRecords[M, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: str | Callable[[M], object] = ...,
        **options: Unpack[RecordOptions],
    ) -> OfRecords[Any, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[[M_co], object] = ...,
        **options: Unpack[RecordOptions],
    ) -> OfRecords[M_co, None]: ...


class StreamDecorator(Protocol[M_co]):
    """`Once.kinesis` and the other streams, with or without options; records are *M_co*."""

    @overload
    def __call__(self, f: Callable[[M_co, C], object], /) -> Handler[Event, C, StreamResponse]: ...
    @overload
    def __call__(self, f: Callable[[M_co], object], /) -> Handler[Event, LambdaContext, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        key: str | Callable[[Any], object] = ...,
        on_give_up: Callable[[M_co, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        key: str | Callable[[M], object] = ...,
        on_give_up: Callable[[M_co, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: str | Callable[[M], object] = ...,
        on_give_up: Callable[[M_co, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[[M_co], object] = ...,
        on_give_up: Callable[[M_co, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M_co, StreamResponse]: ...


class KafkaDecorator(Protocol):
    """`Once.kafka`: a `StreamDecorator` that passes decoded values if it has a ``schema``."""

    @overload
    def __call__(
        self, f: Callable[[KafkaEventRecord, C], object], /
    ) -> Handler[Event, C, StreamResponse]: ...
    @overload
    def __call__(
        self, f: Callable[[KafkaEventRecord], object], /
    ) -> Handler[Event, LambdaContext, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        schema: SchemaConfig = ...,
        key: str | Callable[[Any], object] = ...,
        on_give_up: Callable[[Any, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        schema: SchemaConfig = ...,
        key: str | Callable[[M], object] = ...,
        on_give_up: Callable[[Any, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        schema: SchemaConfig = ...,
        key: str | Callable[[M], object] = ...,
        on_give_up: Callable[[Any, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        schema: SchemaConfig,
        key: str | Callable[[ConsumerRecordRecords], object] = ...,
        on_give_up: Callable[[ConsumerRecordRecords, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[ConsumerRecordRecords, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: str | Callable[[KafkaEventRecord], object] = ...,
        on_give_up: Callable[[KafkaEventRecord, GiveUp], object] = ...,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[KafkaEventRecord, StreamResponse]: ...


class OfEvents(Protocol):
    """`Once.event` and `Once.api_gateway` with options."""

    @overload
    def __call__(self, f: Callable[[E, C], Coro[R]], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E, C], R], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E], Coro[R]], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def __call__(self, f: Callable[[E], R], /) -> Handler[E, LambdaContext, R]: ...


class OfFunctions(Protocol):
    """`Once.function` with options."""

    def __call__(self, f: Callable[P, R], /) -> Callable[P, R]: ...


class Policies(TypedDict, total=False):
    """The policies, for `Once` and for each decorator."""

    keep: timedelta | None
    """How long an outcome is replayed. Default: 14 days; for APIs 1 day, 5 minutes without a key."""
    lease: timedelta | None
    """How long an attempt is assumed to be alive. Default: the remaining time plus 2 s."""
    on_error: OnError
    """RELEASE, STORE or HOLD, a mapping from exception classes to these, or a callable."""
    on_lapse: OnLapseOption
    """``take_over``, ``hold`` or a probe. Default: take over, or hold if ``on_error`` can be HOLD."""
    on_in_progress: Literal["conflict", "wait"] | timedelta
    """``wait`` waits up to 30 s for the other attempt's outcome; a `timedelta` at most that long."""
    cache: int
    """How many outcomes an execution environment keeps in memory, for at most five minutes."""
    history: HistorySource | None
    seal: tuple[Callable[[bytes, str], bytes], Callable[[bytes, str], bytes]] | None
    """Functions that encrypt and decrypt results and error messages, given bytes and a context string."""
    seal_required: bool
    """Whether to refuse a stored outcome that is not sealed; duplicates get `ResultUnavailable`."""


class OnceOptions(Policies, total=False):
    """For `Once`; they apply to each of its decorators that accepts them."""

    unscoped: Literal["warn", "refuse"]
    """Whether an HTTP request whose caller is unknown is logged or gets 400."""


class Options(Policies, total=False):
    """Options of every decorator, except the key."""

    name: str | Callable[..., Any]
    ignore: Sequence[str]
    fingerprint: str | Literal[False]


class RecordOptions(Options, total=False):
    """For `Once.sns` and `Once.mq`; `Once.sqs` and the streams add more."""

    scope: str | Callable[..., object]


class QueueOptions(RecordOptions, total=False):
    """For `Once.sqs`."""

    concurrency: int
    raise_on_entire_batch_failure: bool


class StreamOptions(RecordOptions, total=False):
    """For `Once.kinesis` and the other streams."""

    concurrency: int
    report_failures: bool


class ReplayOptions(Options, total=False):
    """For decorators that return the stored result to duplicates."""

    scope: str | Callable[..., object]
    on_replay: Callable[[Any, Replayed], Any]


class ResultOptions(ReplayOptions, total=False):
    """For `Once.event` and `Once.function`."""

    returns: Any
    codec: tuple[Callable[[Any], Any], Callable[[Any], Any]]


class BlockOptions(Policies, total=False):
    """For `Once.begin`, whose key and scope are values."""

    name: Required[str | Callable[..., Any]]
    ignore: Sequence[str]
    fingerprint: str | Literal[False]
    returns: Any
    codec: tuple[Callable[[Any], Any], Callable[[Any], Any]]


class ExecutionOptions(TypedDict, total=False):
    """For `Once.execution`."""

    name: Required[str | Callable[..., Any]]
    keep: timedelta | None
    on_error: OnError
    on_lapse: OnLapseOption
    ignore: Sequence[str]
    fingerprint: str | Literal[False]
    returns: Any
    codec: tuple[Callable[[Any], Any], Callable[[Any], Any]]


class OutcomeOptions(TypedDict, total=False):
    """For `Once.outcome`: the same values as for the work."""

    codec: tuple[Callable[[Any], Any], Callable[[Any], Any]]
    history: HistorySource | None
    seal: tuple[Callable[[bytes, str], bytes], Callable[[bytes, str], bytes]] | None
    seal_required: bool


class ApiOptions(ReplayOptions, total=False):
    """For `Once.api_gateway` and `Once.route`."""

    methods: Collection[str]
    without_key: Literal["hash", "reject", "run"]
    unscoped: Literal["warn", "refuse"]
    store_status: Collection[int]
    problem: Callable[[Problem], Problem]
    caller: str | Callable[[Any], object] | Literal[False]
