"""
The decorators' parameters and types, for editors and type checkers; nothing here is imported at run time.

The options themselves are in `settings`; a test compares names, defaults and types. Each decorator lists its
options once; its forms with ``model=``, which only tell what the function gets, take them as a `TypedDict`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from datetime import timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from lambda_once.engine.replay import Replayed
from lambda_once.errors import GiveUp
from lambda_once.policies import OnError, OnLapseOption
from lambda_once.settings import AS_ONCE, Pair, Seal
from lambda_once.sources.problems import Problem

if TYPE_CHECKING:
    from types import UnionType

    from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
    from aws_lambda_powertools.utilities.data_classes.kafka_event import KafkaEventRecord
    from aws_lambda_powertools.utilities.kafka.consumer_records import ConsumerRecordRecords
    from aws_lambda_powertools.utilities.kafka.schema_config import SchemaConfig
    from aws_lambda_powertools.utilities.typing import LambdaContext
    from pydantic import TypeAdapter

    from lambda_once.engine.history import HistorySource
    from lambda_once.integrations.private import SpecialForm

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
OfEvent: TypeAlias = Callable[[Any], object] | Callable[[Any, Any], object]
"""Selects from an event, or from event and context."""
TypeForm: TypeAlias = "UnionType | SpecialForm | TypeAdapter[Any]"
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


class OfEvents(Protocol):
    """`Once.event` and `Once.api_gateway` after their options are given."""

    @overload
    def __call__(self, f: Callable[[E, C], Coro[R]], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E, C], R], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E], Coro[R]], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def __call__(self, f: Callable[[E], R], /) -> Handler[E, LambdaContext, R]: ...


class OfFunctions(Protocol):
    """`Once.function` after its options are given."""

    def __call__(self, f: Callable[P, R], /) -> Callable[P, R]: ...


class MessageDecorator(Protocol[M_co]):
    """`Once.sns` and `Once.mq`; messages are *M_co*."""

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
        name: str | Callable[..., Any] | None = None,
        key: str | Callable[[M_co], object] | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        model: None = None,
        without_key: Literal["run"] | None = None,
    ) -> OfRecords[M_co, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        key: str | Callable[[Any], object] | None = None,
        **options: Unpack[MessageOptions],
    ) -> OfRecords[Any, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        key: str | Callable[[M], object] | None = None,
        **options: Unpack[MessageOptions],
    ) -> OfRecords[M, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: str | Callable[[M], object] | None = None,
        **options: Unpack[MessageOptions],
    ) -> OfRecords[Any, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: Callable[[M_co, Any], object],
        **options: Unpack[MessageOptions],
    ) -> OfRecords[M_co, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M],
        key: Callable[[M, Any], object],
        **options: Unpack[MessageOptions],
    ) -> OfRecords[M, None]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: Callable[[Any, Any], object],
        **options: Unpack[MessageOptions],
    ) -> OfRecords[Any, None]: ...


class QueueDecorator(Protocol[M_co]):
    """`Once.sqs`; messages are *M_co*."""

    @overload
    def __call__(
        self, f: Callable[[M_co, C], object], /
    ) -> Handler[Event, C, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self, f: Callable[[M_co], object], /
    ) -> Handler[Event, LambdaContext, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        name: str | Callable[..., Any] | None = None,
        key: str | Callable[[M_co], object] | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        model: None = None,
        concurrency: int = 10,
        raise_on_entire_batch_failure: bool = True,
        without_key: Literal["run"] | None = None,
    ) -> OfRecords[M_co, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        key: str | Callable[[Any], object] | None = None,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[Any, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        key: str | Callable[[M], object] | None = None,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[M, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: str | Callable[[M], object] | None = None,
        **options: Unpack[QueueOptions],
    ) -> OfRecords[Any, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: Callable[[M_co, Any], object],
        **options: Unpack[QueueOptions],
    ) -> OfRecords[M_co, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M],
        key: Callable[[M, Any], object],
        **options: Unpack[QueueOptions],
    ) -> OfRecords[M, PartialItemFailureResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: Callable[[Any, Any], object],
        **options: Unpack[QueueOptions],
    ) -> OfRecords[Any, PartialItemFailureResponse]: ...


class StreamDecorator(Protocol[M_co]):
    """`Once.kinesis` and `Once.dynamodb_stream`; records are *M_co*."""

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
        name: str | Callable[..., Any] | None = None,
        key: str | Callable[[M_co], object] | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        model: None = None,
        concurrency: int = 10,
        report_failures: bool = False,
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
    ) -> OfRecords[M_co, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        key: str | Callable[[Any], object] | None = None,
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        key: str | Callable[[M], object] | None = None,
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: str | Callable[[M], object] | None = None,
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: Callable[[M_co, Any], object],
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M_co, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M],
        key: Callable[[M, Any], object],
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        key: Callable[[Any, Any], object],
        on_give_up: Callable[[M_co, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...


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
        schema: None = None,
        name: str | Callable[..., Any] | None = None,
        key: str | Callable[[KafkaEventRecord], object] | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        model: None = None,
        concurrency: int = 10,
        report_failures: bool = False,
        on_give_up: Callable[[KafkaEventRecord, GiveUp], object] | None = None,
    ) -> OfRecords[KafkaEventRecord, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        schema: SchemaConfig,
        key: str | Callable[[ConsumerRecordRecords], object] | None = None,
        on_give_up: Callable[[ConsumerRecordRecords, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[ConsumerRecordRecords, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: TypeForm,
        schema: SchemaConfig | None = None,
        key: str | Callable[[Any], object] | None = None,
        on_give_up: Callable[[Any, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M] | UnionType,
        schema: SchemaConfig | None = None,
        key: str | Callable[[M], object] | None = None,
        on_give_up: Callable[[Any, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        schema: SchemaConfig | None = None,
        key: str | Callable[[M], object] | None = None,
        on_give_up: Callable[[Any, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        key: Callable[[KafkaEventRecord, Any], object],
        on_give_up: Callable[[KafkaEventRecord, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[KafkaEventRecord, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        schema: SchemaConfig,
        key: Callable[[ConsumerRecordRecords, Any], object],
        on_give_up: Callable[[ConsumerRecordRecords, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[ConsumerRecordRecords, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: type[M],
        schema: SchemaConfig | None = None,
        key: Callable[[M, Any], object],
        on_give_up: Callable[[Any, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[M, StreamResponse]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        model: object,
        schema: SchemaConfig | None = None,
        key: Callable[[Any, Any], object],
        on_give_up: Callable[[Any, GiveUp], object] | None = None,
        **options: Unpack[StreamOptions],
    ) -> OfRecords[Any, StreamResponse]: ...


class EventDecorator(Protocol):
    """`Once.event`."""

    @overload
    def __call__(self, f: Callable[[E, C], Coro[R]], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E, C], R], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E], Coro[R]], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def __call__(self, f: Callable[[E], R], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        name: str | Callable[..., Any] | None = None,
        key: str | Callable[..., object] | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        on_replay: Callable[[Any, Replayed], Any] | None = None,
        without_key: Literal["run"] | None = None,
        unscoped: Literal["warn", "refuse"] = AS_ONCE,
        caller: str | OfEvent | Literal[False] | None = None,
    ) -> OfEvents: ...


class ApiDecorator(Protocol):
    """`Once.api_gateway`."""

    @overload
    def __call__(self, f: Callable[[E, C], Coro[R]], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E, C], R], /) -> Handler[E, C, R]: ...
    @overload
    def __call__(self, f: Callable[[E], Coro[R]], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def __call__(self, f: Callable[[E], R], /) -> Handler[E, LambdaContext, R]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        name: str | Callable[..., Any] | None = None,
        key: str | OfEvent | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        on_replay: Callable[[Any, Replayed], Any] | None = None,
        methods: Collection[str] | None = None,
        without_key: Literal["hash", "reject", "run"] | None = None,
        unscoped: Literal["warn", "refuse"] = AS_ONCE,
        store_status: Collection[int] = frozenset(),
        problem: Callable[[Problem], Problem] | None = None,
        caller: str | OfEvent | Literal[False] | None = None,
    ) -> OfEvents: ...


class FunctionDecorator(Protocol):
    """`Once.function`."""

    @overload
    def __call__(self, f: Callable[P, R], /) -> Callable[P, R]: ...
    @overload
    def __call__(
        self,
        f: None = None,
        /,
        *,
        name: str | Callable[..., Any] | None = None,
        key: str | Callable[..., object] | None = None,
        scope: str | Callable[..., object] | None = None,
        fingerprint: str | Literal[False] | None = None,
        ignore: Sequence[str] = (),
        keep: timedelta | None = AS_ONCE,
        lease: timedelta | None = AS_ONCE,
        on_error: OnError = AS_ONCE,
        on_lapse: OnLapseOption = AS_ONCE,
        on_in_progress: Literal["conflict", "wait"] | timedelta = AS_ONCE,
        cache: int = AS_ONCE,
        history: HistorySource | None = AS_ONCE,
        seal: Seal | None = AS_ONCE,
        seal_required: bool = AS_ONCE,
        returns: Any = None,
        codec: Pair | None = None,
        on_replay: Callable[[Any, Replayed], Any] | None = None,
        without_key: Literal["run"] | None = None,
    ) -> OfFunctions: ...


class RecordOptions(TypedDict, total=False):
    """Options of every decorator of records, except key and model; `MessageDecorator` has the defaults."""

    name: str | Callable[..., Any] | None
    scope: str | Callable[..., object] | None
    fingerprint: str | Literal[False] | None
    ignore: Sequence[str]
    keep: timedelta | None
    lease: timedelta | None
    on_error: OnError
    on_lapse: OnLapseOption
    on_in_progress: Literal["conflict", "wait"] | timedelta
    cache: int
    history: HistorySource | None
    seal: Seal | None
    seal_required: bool


class MessageOptions(RecordOptions, total=False):
    """Those of `Once.sns` and `Once.mq`."""

    without_key: Literal["run"] | None


class QueueOptions(MessageOptions, total=False):
    """Those of `Once.sqs`."""

    concurrency: int
    raise_on_entire_batch_failure: bool


class StreamOptions(RecordOptions, total=False):
    """Those of `Once.kinesis`, `Once.dynamodb_stream` and `Once.kafka`, except ``on_give_up``."""

    concurrency: int
    report_failures: bool
