"""
`once.begin`: what happens to a block of work with one key.

Key, scope and payload are values that the caller gives, so nothing is read but the payload, which may be a
record or an event (`function.argument_of`). `once.outcome` and `once.execution` identify their work as a
block does, and use the functions at the end.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import through
from lambda_once.core.codec import Codec, codec_by, codec_for
from lambda_once.core.identity import NOTHING, Content, Given, Identity
from lambda_once.core.keys import is_nothing, is_whole
from lambda_once.core.signatures import evaluated
from lambda_once.core.unit import Delivered, Unit
from lambda_once.decorators.identify import Identifier
from lambda_once.decorators.validation import check_no_history
from lambda_once.engine.ownership import Ownership
from lambda_once.engine.waiting import uncancelled
from lambda_once.errors import KeyMissing, Misconfigured
from lambda_once.sources.function import argument_of

if TYPE_CHECKING:
    from types import FrameType, TracebackType

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.attempt import Attempt
    from lambda_once.engine.invocation import Call
    from lambda_once.engine.replay import Replayed
    from lambda_once.settings import Settings

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
        self._working = ExitStack()
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
                self._working.close()
                through(engine.left(self._ownership, error), engine.clock)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._stack:
            if self._ownership is not None:
                engine, ownership = self._runtime.engine, self._ownership
                self._working.close()
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
        call = self._identifier.call(self._unit, stack.enter_context(self._runtime.invocation()))
        assert call is not None, "a block has no without_key="  # noqa: S101  (`Where.BLOCK`)
        return call

    def _enter(self, entered: Ownership | Replayed, stack: ExitStack) -> Attempt | Replayed:
        inside: Attempt | Replayed
        if isinstance(entered, Ownership):
            inside = self._working.enter_context(self._runtime.engine.as_current(entered, nests=False))
            self._ownership = entered
        else:
            inside, self._ownership = entered, None
        self._stack = stack.pop_all()
        return inside


def begun(
    runtime: Runtime,
    settings: Settings,
    caller: FrameType | None,
    key: object,
    scope: object,
    payload: object,
) -> Begun:
    """Return the context manager of `Once.begin`, called in the frame *caller*."""
    return Begun(runtime, block_identifier(runtime, settings, caller), unit_of_key(key, scope, payload))


def block_identifier(runtime: Runtime, settings: Settings, caller: FrameType | None) -> Identifier:
    """Return what identifies a block of the frame *caller*."""
    if settings.name is None:
        raise Misconfigured('a block needs a name: pass name=, as in once.begin(key, name="charge")')
    check_no_history(settings, "a block")
    return Identifier(runtime, settings, block_codec(settings, caller), "")


def block_codec(settings: Settings, caller: FrameType | None) -> Codec:
    """Return the codec of ``codec=`` or ``returns=``, whose text is evaluated in the frame *caller*."""
    returns: object = Any
    if settings.returns is not None:
        names = ({}, {}) if caller is None else (caller.f_globals, caller.f_locals)
        returns = evaluated(settings.returns, *names, "returns=")
    return codec_for(returns, converts=True) if settings.codec is None else codec_by(*settings.codec)


def unit_of_key(key: object, scope: object, payload: object) -> Unit:
    """Return the unit of `Once.begin`, whose key and scope are values. Raises `KeyMissing`."""
    for part, value in (("key", key), ("scope", scope)):
        if not (is_nothing(value) or is_whole(value)):
            raise KeyMissing(f"a part of the {part} is missing: give {part}= values that are always present")
    found = argument_of(payload)
    content = Content(payload) if found is None else found.content
    what = Identity(
        who=NOTHING,
        operation=NOTHING if scope is None else (scope,),
        origin=NOTHING if found is None else found.origin,
        position=Given(key),
        attributes=NOTHING if found is None else found.attributes,
        content=Content(content.payload, content.counted, parsed=False, view=content.view),
    )
    return Unit(what, Delivered(payload))
