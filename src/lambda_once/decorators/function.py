"""`once.function`, `once.begin` and `once.run`: protected functions, blocks and calls."""

from __future__ import annotations

import functools
import inspect
import sys
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.clock import through
from lambda_once.core.codec import Codec, codec_by, codec_for
from lambda_once.core.keys import is_nothing, is_whole
from lambda_once.core.signatures import evaluated, is_async, signature_of, title
from lambda_once.decorators.handlers import apply_on_replay, marked
from lambda_once.decorators.identify import Identifier, codec_of
from lambda_once.decorators.names import Receivers, name_of
from lambda_once.decorators.runtime import Runtime
from lambda_once.decorators.selectors import arguments_by_name, selector_of_call
from lambda_once.decorators.validation import (
    CONTEXT_NAMES,
    check_no_history,
    check_not_generator,
    check_of_call,
    is_self,
)
from lambda_once.engine.attempt import Attempt
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.replay import Replayed
from lambda_once.engine.waiting import uncancelled
from lambda_once.errors import KeyMissing, Misconfigured
from lambda_once.integrations.suspensions import SDK, check_arguments, check_function
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details
from lambda_once.sources.arguments import Argument, Arguments, argument_of
from lambda_once.sources.unit import Unit

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType

    from lambda_once.engine.invocation import Call
    from lambda_once.settings import Settings


class FunctionIdentifier(NamedTuple):
    """Identifies calls of a function by their arguments."""

    identifier: Identifier
    signature: inspect.Signature
    is_method: bool
    """Whether the first argument is the object, which is not part of the key."""
    receivers: Receivers | None = None
    """What notes the objects of a method's calls, if its name may be shared by accident."""

    @property
    def runtime(self) -> Runtime:
        return self.identifier.runtime

    @property
    def name(self) -> str:
        return self.identifier.name

    def unit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Unit, inspect.BoundArguments]:
        """Return the unit of a call, and its bound arguments. A Lambda context is not part of the payload."""
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = arguments_by_name(bound)
        if SDK in sys.modules:
            check_arguments(self.identifier.default_name, named)
        if self.is_method:
            receiver = named.pop(next(iter(named)))
            if self.receivers is not None:
                self.receivers.called_on(receiver)
        counting = {name: each for name, each in named.items() if not is_lambda_context(name, each)}
        special = {name: found for name, each in counting.items() if (found := argument_of(each)) is not None}
        settings = self.identifier.settings
        guarded = settings.key is None or settings.fingerprint is None
        return Arguments(counting, special).unit(named, guarded=guarded), bound


def is_lambda_context(name: str, value: object) -> bool:
    """
    Return whether *value*, the argument *name*, is a Lambda context, or None in the place of one.

    Only attributes of its own count: an object that answers any name is none.
    """
    marks = {each for each in _MARKS if inspect.getattr_static(value, each, None) is not None}
    if name in CONTEXT_NAMES:
        return value is None or _REQUEST_ID in marks
    return len(marks) == len(_MARKS)


_REQUEST_ID: Final = "aws_request_id"
_MARKS: Final = (_REQUEST_ID, "get_remaining_time_in_millis")


def protected_function(
    runtime: Runtime, function: Callable[..., Any], settings: Settings
) -> Callable[..., Any]:
    """Return *function*, plain or async, as one that takes effect once per key of its arguments."""
    _check(function, settings)
    settings = replace(
        settings,
        key=selector_of_call(settings.key, function, "key"),
        scope=selector_of_call(settings.scope, function, "scope"),
    )
    codec = codec_of(function, settings)
    identifier = Identifier(runtime, settings, codec, name_of(function))
    receivers = None
    if is_method(function) and settings.name is None and not callable(settings.scope):
        receivers = Receivers(
            title(function),
            lambda reason: runtime.reporter.log(
                Details(Event.SHARED_NAME, name=identifier.name, reason=reason)
            ),
        )
    found = FunctionIdentifier(identifier, signature_of(function), is_method(function), receivers)

    if is_async(function):

        @functools.wraps(function)
        async def protected_async(*args: Any, **kwargs: Any) -> Any:
            with runtime.invocation() as invocation:
                unit, bound = found.unit(args, kwargs)
                call = identifier.call(unit, invocation, bound, arguments=bound.args)
                outcome = await runtime.engine.execute_async(call, lambda: function(*args, **kwargs))
                return apply_on_replay(settings, outcome)

        return marked(protected_async, found)

    @functools.wraps(function)
    def protected(*args: Any, **kwargs: Any) -> Any:
        with runtime.invocation() as invocation:
            unit, bound = found.unit(args, kwargs)
            call = identifier.call(unit, invocation, bound, arguments=bound.args)
            return apply_on_replay(settings, runtime.engine.execute(call, lambda: function(*args, **kwargs)))

    return marked(protected, found)


def is_method(function: Callable[..., Any]) -> bool:
    """Whether *function* looks like a method: its first parameter is self or cls."""
    return is_self(next(iter(signature_of(function).parameters), None))


def _check(function: Callable[..., Any], settings: Settings) -> None:
    check_function(title(function), function)
    check_not_generator(function)
    check_of_call(settings, function)
    if settings.history is not None:
        settings.history.check([name for name in signature_of(function).parameters if not is_self(name)])
    if is_method(function) and settings.key is None and settings.scope is None:
        raise Misconfigured(
            f"{title(function)} is a method, and self is not part of the key: "
            "objects of two tenants would share tokens. Pass key= or scope="
        )


_OF_ATTEMPT: Final = frozenset(
    {
        *("acomplete", "aextend", "atransact", "complete", "created", "downstream_key", "extend"),
        *("fence", "id", "lease", "replayed", "result", "token", "transact"),
    }
)
"""Members of an attempt or replayed outcome that the context manager does not have."""


class Begun:
    """
    A context manager, plain or async, for a block of work with one key.

    It enters with an `Attempt` or, if the work was done before, its `Replayed` outcome. A block that ends
    without ``complete`` completes the token with None; for an exception ``on_error`` decides.
    """

    def __init__(self, runtime: Runtime, identifier: Identifier, unit: Unit) -> None:
        self._runtime = runtime
        self._identifier = identifier
        self._unit = unit
        self._stack = ExitStack()
        self._ownership: Ownership | None = None

    def __enter__(self) -> Attempt | Replayed:
        with ExitStack() as stack:
            return self._enter(self._runtime.engine.start(self._call(stack)), stack)

    async def __aenter__(self) -> Attempt | Replayed:
        with ExitStack() as stack:
            return self._enter(await self._runtime.engine.start_async(self._call(stack)), stack)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._ownership is not None:
                engine = self._runtime.engine
                through(engine.left(self._ownership, error), engine.clock)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._ownership is not None:
                engine, ownership = self._runtime.engine, self._ownership
                await uncancelled(engine.finisher.off_loop(ownership, engine.left(ownership, error)))

    if not TYPE_CHECKING:  # type checkers know what there is

        def __getattr__(self, name: str) -> Any:
            if name in _OF_ATTEMPT:
                raise Misconfigured(
                    f"once.begin(...).{name}: use the attempt that `with once.begin(...) as attempt:` returns"
                )
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self
            )

    def _call(self, stack: ExitStack) -> Call:
        return self._identifier.call(self._unit, stack.enter_context(self._runtime.invocation()))

    def _enter(self, entered: Ownership | Replayed, stack: ExitStack) -> Attempt | Replayed:
        inside: Attempt | Replayed
        if isinstance(entered, Ownership):
            inside = stack.enter_context(self._runtime.engine.as_current(entered))
            self._ownership = entered
        else:
            inside, self._ownership = entered, None
        self._stack = stack.pop_all()
        return inside


def begun(
    runtime: Runtime, settings: Settings, caller: FrameType, key: object, scope: object, payload: object
) -> Begun:
    """Return the context manager of `Once.begin`, called in the frame *caller*."""
    return Begun(runtime, block_identifier(runtime, settings, caller), unit_of_key(key, scope, payload))


def block_identifier(runtime: Runtime, settings: Settings, caller: FrameType) -> Identifier:
    """Return what identifies a block of the frame *caller*."""
    if settings.name is None:
        raise Misconfigured('a block needs a name: pass name=, as in once.begin(key, name="charge")')
    check_no_history(settings, "a block")
    return Identifier(runtime, settings, block_codec(settings, caller), "")


def block_codec(settings: Settings, caller: FrameType) -> Codec:
    """Return the codec of ``codec=`` or ``returns=``, whose text is evaluated in the frame *caller*."""
    returns: object = Any
    if settings.returns is not None:
        returns = evaluated(settings.returns, caller.f_globals, caller.f_locals, "returns=")
    return codec_for(returns, converts=True) if settings.codec is None else codec_by(*settings.codec)


def unit_of_key(key: object, scope: object, payload: object) -> Unit:
    """Return the unit of `Once.begin`, whose key and scope are values. Raises `KeyMissing`."""
    for what, value in (("key", key), ("scope", scope)):
        if not (is_nothing(value) or is_whole(value)):
            raise KeyMissing(f"a part of the {what} is missing: give {what}= values that are always present")
    found = argument_of(payload) or Argument(payload)
    return Unit(
        found.payload,
        {},
        payload,
        None,
        found.content,
        key=key,
        parsed=False,
        scope=() if scope is None else (scope,),
        attributes=found.attributes,
        view=found.view,
        is_keyed=True,
    )
