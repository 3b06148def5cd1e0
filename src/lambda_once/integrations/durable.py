"""
One token for a whole durable execution (`Once.execution`), and the retry strategy of its steps.

Theory of operation. AWS runs a durable handler again from its start after every suspension and crash, and a
step that has returned returns the same from its checkpoint. So every decision about the token is a step:
the id of the attempt, the acquisition, the finish. The id is checkpointed before anything is acquired: an
acquisition that runs again, after a crash between its write and its checkpoint, recognises its own row, and
two branches of one execution are two attempts. A finish runs only after its start was checkpointed, which an
invocation that AWS has given up (a zombie) cannot do.

A refusal is a checkpointed answer, too, and is raised outside the step. Only if the table does not respond
does the step run again; the execution is suspended meanwhile.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from random import SystemRandom
from typing import TYPE_CHECKING, Any, Final, NoReturn

from aws_durable_execution_sdk_python import DurableContext
from aws_durable_execution_sdk_python.config import Duration, StepConfig, StepSemantics
from aws_durable_execution_sdk_python.exceptions import (
    DurableOperationError,
    InvocationError,
    StepInterruptedError,
)
from aws_durable_execution_sdk_python.retries import RetryDecision, RetryPresets

from lambda_once import errors
from lambda_once.core.clock import through
from lambda_once.core.codec import Codec, with_numbers
from lambda_once.core.lifecycle import Course, OnLapse, Record, State, new_attempt_id
from lambda_once.core.results import NotSerialisable
from lambda_once.core.writes import Unclaimed
from lambda_once.decorators.suspensions import Suspensions
from lambda_once.engine.attempt import Attempt, working
from lambda_once.engine.engine import acquire_by
from lambda_once.engine.finish import PreparedFinish, stored_result
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.replay import Replayed
from lambda_once.errors import (
    Fenced,
    GiveUp,
    InProgress,
    Misconfigured,
    OnceError,
    ResultUnavailable,
    RetryLater,
    StoredError,
    StoreUnavailable,
    stored_error,
)
from lambda_once.observability.events import Event
from lambda_once.policies import RELEASE, OnError, OnLapseOption
from lambda_once.sources.block import block_identifier, unit_of_key
from lambda_once.stores.contract import Refused, Unanswered, Won, WriteAnswer

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from aws_durable_execution_sdk_python import types

    from lambda_once.core.unit import Unit
    from lambda_once.decorators.identify import Identifier
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.engine import Engine
    from lambda_once.engine.invocation import Call, Invocation
    from lambda_once.settings import Settings

LONGEST_PAUSE: Final = 60
"""Most seconds between two runs of a step, unless the error's ``retry_after`` is longer."""
CHECKPOINTED: Final = 96 * 1024
"""Characters of a replayed result that a checkpoint takes; a checkpoint is limited to 256 KB (SDK)."""

Answer = dict[str, Any]
"""The result of a step about the token, in values that the SDK serialises; replays get the same."""

_otherwise = RetryPresets.default()
_random = SystemRandom()


# ------------------------------------------------------------------ retries


def retry_strategy(error: Exception, attempts_made: int) -> RetryDecision:
    """
    Decide whether a step that raised *error* runs again: the ``retry_strategy`` of a ``StepConfig``.

    `GiveUp` is final. `RetryLater` is retried for as long as the execution lasts, not before its
    ``retry_after``, after pauses that grow to a minute. For all other errors the SDK's default decides.
    """
    if isinstance(error, GiveUp):
        return RetryDecision.no_retry()
    if isinstance(error, RetryLater):
        pause = _random.uniform(0, min(LONGEST_PAUSE, 2 ** min(attempts_made, 10)))
        return RetryDecision.retry(Duration.from_seconds(math.ceil(max(error.retry_after or 0, 1) + pause)))
    return _otherwise(error, attempts_made)


def _retry_finish(error: Exception, attempts_made: int) -> RetryDecision:
    if isinstance(error, StepInterruptedError):  # if it was written, the next run recognises it
        return RetryDecision.retry(Duration.from_seconds(1))
    return retry_strategy(error, attempts_made)


_ACQUIRE: Final = StepConfig(retry_strategy=retry_strategy)
_FINISH: Final = StepConfig(retry_strategy=_retry_finish, step_semantics=StepSemantics.AT_MOST_ONCE_PER_RETRY)
"""Its start is checkpointed before it runs: a zombie cannot do that."""


def ends_invocation(error: BaseException) -> bool:
    """Return whether *error* ends this invocation alone: a suspension, an error that the SDK retries."""
    if isinstance(error, Exception):
        return isinstance(error, InvocationError) and error.is_retryable()
    return True


# ------------------------------------------------------------------ results


class _Written(Codec):
    """
    The codec of results without a type: JSON's form, and no Decimals.

    The SDK writes what a handler returns by ``json.dumps``. A Decimal there would fail an execution that is
    done, and each duplicate.
    """

    def dump(self, value: object) -> str:
        return with_numbers(super().dump(value))

    def load(self, text: str) -> Any:
        return super().load(with_numbers(text))


_WRITTEN: Final = _Written(Any, converts=True)


def _completed_with(call: Call, result: Any) -> Any:
    """Return what the execution gets that has completed *call* with *result*."""
    if call.codec is _WRITTEN:
        with suppress(NotSerialisable):
            return _WRITTEN.round_trip(result)  # also of what is too large to be stored
    return stored_result(call, result).loaded


# ------------------------------------------------------------------ the block


class Execution:
    """
    A context manager for a durable execution, or a part of it, with one key.

    It enters with an `ExecutionAttempt` or, if the work was done before, its `Replayed` outcome. A block that
    ends without ``complete`` completes the token with None; for an exception ``on_error`` decides.
    """

    def __init__(self, runtime: Runtime, identifier: Identifier, unit: Unit, context: DurableContext) -> None:
        self._runtime = runtime
        self._identifier = identifier
        self._unit = unit
        self._context = context
        self._stack = ExitStack()
        self._attempt: ExecutionAttempt | None = None

    def __enter__(self) -> ExecutionAttempt | Replayed:
        with ExitStack() as stack:
            call = self._call(stack.enter_context(self._runtime.invocation(self._context.lambda_context)))
            entered = self._entered(call)
            if isinstance(entered, ExecutionAttempt):
                stack.enter_context(working(entered, nests=False))
                self._attempt = entered
            self._stack = stack.pop_all()
            return entered

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._attempt is None or self._attempt.over:
                return
            if error is None:
                self._attempt.complete()
            elif isinstance(error, Exception) and not ends_invocation(error):
                self._attempt.fail(error)

    def _call(self, invocation: Invocation) -> Call:
        function, arn = invocation.locked_by.partition("/")[0], self._context.execution_context
        owner = f"{function}/{arn.durable_execution_arn}"
        call = self._identifier.call(self._unit, invocation._replace(locked_by=owner))
        assert call is not None, "an execution has no without_key="  # noqa: S101  (`Where.EXECUTION`)
        settings = call.settings
        return call._replace(codec=_WRITTEN) if settings.returns is settings.codec is None else call

    def _entered(self, call: Call) -> ExecutionAttempt | Replayed:
        engine, step = self._runtime.engine, self._context.step
        attempt = step(lambda _: new_attempt_id(), name="once.attempt")
        call = call._replace(guard=Suspensions(attempt))
        answer = step(lambda _: _acquired(engine, call), name="once.acquire", config=_ACQUIRE)
        call = call._replace(token=answer["token"] or call.token)  # a deploy may have changed its parts
        if "fence" not in answer:
            return outcome_of(engine, call, answer)
        created, lease = answer["created"], answer["lease"]
        acquire = acquire_by(call, attempt, Unclaimed(take_over=False), created, lease=lease)
        won = Won(answer["fence"], took_over=False, generation=answer["generation"])
        ownership = Ownership(call, acquire, won)
        return ExecutionAttempt(ownership, engine, self._context)


def execution(
    runtime: Runtime,
    settings: Settings,
    caller: FrameType | None,
    context: types.DurableContext,
    key: object,
    scope: object,
    payload: object,
) -> Execution:
    """
    Return the context manager of `Once.execution`, called in the frame *caller*.

    Options that would wait inside a step, or cache in one environment, are off.
    """
    if not isinstance(context, DurableContext):
        kind = type(context).__name__
        raise Misconfigured(
            f"once.execution takes the DurableContext of a durable handler or child context, not a {kind}; "
            "elsewhere use once.begin"
        )
    settings = replace(settings, on_in_progress="conflict", cache=0)
    identifier = block_identifier(runtime, settings, caller)
    return Execution(runtime, identifier, unit_of_key(key, scope, payload), context)


class ExecutionAttempt(Attempt):
    """
    The attempt of a durable execution: its finish is a step.

    It outlives its invocations; its lease is that of ``lease=``. `extend` and `transact` are `Misconfigured`.
    """

    def __init__(self, ownership: Ownership, engine: Engine, context: DurableContext) -> None:
        super().__init__(ownership, engine.finisher)
        self._engine = engine
        self._context = context
        self.over = False
        """Whether its finish was answered."""

    def complete(self, result: Any = None) -> Any:
        """
        Complete the token with *result* in a step, and return it as every duplicate will get it.

        Without ``returns=`` or ``codec=`` that is JSON's form, as ``json.dumps`` writes it: a Decimal is a
        number of its value, else text. Raises as `Attempt.complete`. While the table does not respond the
        execution is suspended. Call it where the block was entered, not in a branch or a step.
        """
        self._check_running()
        ownership = self._ownership
        if ownership.completed is None:
            answer = self._step("once.complete", lambda: _completed(self._engine, ownership, result))
            if answer is None:
                value = _completed_with(ownership.call, result)
            else:
                value = outcome_of(self._engine, ownership.call, answer).result
            ownership.completed = (value,)
        return ownership.completed[0]

    def fail(self, error: Exception) -> None:
        """Write the token in a step by the policy for *error*."""
        self._step("once.fail", lambda: _failed(self._engine, self._ownership, error))

    def _step(self, name: str, work: Callable[[], Answer | None]) -> Answer | None:
        answer = self._context.step(lambda _: work(), name=name, config=_FINISH)
        self.over = True
        return answer

    def extend(self, seconds: float) -> NoReturn:
        """Raise `Misconfigured`."""
        del seconds
        raise self._unsupported("extend: give once.execution a longer lease=")

    async def aextend(self, seconds: float) -> NoReturn:
        """Raise `Misconfigured`."""
        self.extend(seconds)

    def transact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> NoReturn:
        """Raise `Misconfigured`."""
        del items, result
        raise self._unsupported("transact: call it in a function that a step runs by once.function")

    async def atransact(self, items: Sequence[Mapping[str, Any]], result: Any = None) -> NoReturn:
        """Raise `Misconfigured`."""
        self.transact(items, result)

    async def acomplete(self, result: Any = None) -> NoReturn:
        """Raise `Misconfigured`."""
        del result
        raise self._unsupported("acomplete: call complete")

    def _unsupported(self, what: str) -> Misconfigured:
        return Misconfigured(f"the attempt of a durable execution has no {what}", token=self.token)


# ------------------------------------------------------------------ inside the steps


def _acquired(engine: Engine, call: Call) -> Answer:
    """Acquire the token of *call*. Raises `RetryLater` only if the step is to run again."""
    try:
        acquired = engine.start(call, may_wait=False)
    except OnceError as error:
        if _runs_again(error):
            raise
        return answer_of_error(error)
    if isinstance(acquired, Replayed):
        return answer_of_replay(call, acquired)
    return {
        "token": call.token,
        "fence": acquired.fence,
        "created": acquired.created,
        "lease": acquired.lease,
        "generation": acquired.generation,
    }


def _completed(engine: Engine, ownership: Ownership, result: Any) -> Answer | None:
    """
    Complete the token. Return None, or the answer that replaces *result*.

    Raises `RetryLater` only if the step is to run again.
    """
    prepared = engine.finisher.prepare_return(ownership, result)
    answer = _sent(engine, prepared)
    try:
        value = engine.finisher.conclude(prepared, answer)
    except ResultUnavailable as error:
        return None if ownership.finished is not None else answer_of_error(error)  # our own has *result* here
    except OnceError as error:
        if _runs_again(error):
            raise
        return answer_of_error(error)
    if isinstance(answer, Refused) and answer.record is not None:
        return answer_of_replay(ownership.call, Replayed(value, answer.record))
    return None


def _failed(engine: Engine, attempt: Ownership, error: Exception) -> None:
    settings = attempt.call.settings
    on_lapse: OnLapseOption = settings.probe or ("hold" if settings.rule is OnLapse.HOLD else "take_over")
    on_error = _policies(error, settings.on_error)
    attempt.call = attempt.call._replace(settings=replace(settings, on_error=on_error, on_lapse=on_lapse))
    prepared = engine.finisher.prepare_error(attempt, error)
    engine.finisher.conclude(prepared, _sent(engine, prepared))


def _sent(engine: Engine, finish: PreparedFinish) -> WriteAnswer:
    """Write *finish*. Raises `StoreUnavailable` without an answer: the step runs again."""
    answer = through(engine.finisher.send(finish), engine.clock)
    call = finish.ownership.call
    call.invocation.tally.raise_interruption()
    if isinstance(answer, Unanswered):
        call.report(Event.STORE_UNAVAILABLE, reason=answer.reason)
        message = f"token {call.token} is finished later: {answer.reason}"
        raise StoreUnavailable(message, token=call.token, reason=answer.reason)
    return answer


def _runs_again(error: OnceError) -> bool:
    """Whether the step runs again, because the table, or the function that opens a seal, did not respond."""
    return isinstance(error, RetryLater) and not isinstance(error, InProgress | Fenced)


def _policies(error: Exception, on_error: OnError) -> OnError:
    """
    Return *on_error* for *error*; if the SDK raised it for a step, as it applies to what the step raised.

    The SDK keeps no more of that than the name of its class.
    """
    if not isinstance(error, DurableOperationError):
        return on_error
    named = on_error if isinstance(on_error, Mapping) else {}
    for kind in _subclasses(RetryLater, *named):
        name = (
            kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
        )
        if name == error.error_type:
            if issubclass(kind, RetryLater):
                return RELEASE
            return next(named[each] for each in kind.__mro__ if each in named)
    return on_error


def _subclasses(*kinds: type[BaseException]) -> Iterator[type[BaseException]]:
    for kind in kinds:
        yield kind
        yield from _subclasses(*kind.__subclasses__())


# ------------------------------------------------------------------ checkpointed answers


def answer_of_error(error: OnceError) -> Answer:
    """Return *error*; one of the developer's own (`Seal.open`) as the class of ours that it extends."""
    ours = next(each for each in type(error).__mro__ if each.__module__ == errors.__name__)
    attributes = vars(error)
    return {
        "token": error.token,
        "error": error.kind if isinstance(error, StoredError) else ours.__name__,
        "stored": isinstance(error, StoredError),
        "message": str(error),
        "known": {
            name: attributes[name] for name in (*errors.KNOWN, "fields", "lapsed") if name in attributes
        },
    }


_NOT_CHECKPOINTED: Final = ("stored", "error", "decisions", "omits_outcome")


def answer_of_replay(call: Call, replayed: Replayed) -> Answer:
    """
    Return *replayed* without its result if that is sealed, too large or not to be written again.

    It is read from the table then.
    """
    text = None
    if call.seal is None:
        with suppress(NotSerialisable):  # a codec may return what it does not take
            text = call.codec.dump(replayed.result)
    fits = text is not None and len(json.dumps(text)) <= CHECKPOINTED
    record = replayed.record
    fields = {name: value for name, value in record._asdict().items() if name not in _NOT_CHECKPOINTED}
    return {
        "token": call.token,
        "record": fields | {"state": record.state.value},
        "text": text if fits else None,
    }


_GONE: Final = "is no longer in the table: it was forgotten or resolved, or has expired"


def outcome_of(engine: Engine, call: Call, answer: Answer) -> Replayed:
    """Return the outcome in *answer*, or raise its error."""
    if "error" in answer:
        raise _error(answer, call.settings.on_error)
    record = Record(**{**answer["record"], "state": State(answer["record"]["state"])})
    if answer["text"] is not None:
        return Replayed(call.codec.load(answer["text"]), record)
    try:
        newest = engine.store.read(call.token, call.invocation.deadline)
        if newest is None or newest.write_id != record.write_id or newest.attempt_id != record.attempt_id:
            raise engine.replayer.error(call, record, Course.RESULT_UNAVAILABLE, _GONE)
        return engine.replayer.replay_or_raise(call, newest, Course.REPLAY)
    except RetryLater as error:  # outside a step it is the invocation that is retried
        raise InvocationError(str(error)) from error


def _error(answer: Answer, on_error: OnError) -> OnceError:
    if answer["stored"]:
        named = on_error if isinstance(on_error, Mapping) else ()
        error: OnceError = stored_error(answer["error"], answer["message"], named=named)
    else:
        error = getattr(errors, answer["error"])(answer["message"])
    vars(error).update(answer["known"])
    return error
