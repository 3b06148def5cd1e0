"""How a decorator identifies a unit of work, and makes a protected call of it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.canonical import readable, written
from lambda_once.core.codec import Codec, codec_by, codec_for
from lambda_once.core.fields import Printed, not_compared, printed, selected, without
from lambda_once.core.identity import (
    NOTHING,
    Content,
    Flaw,
    KeyFrom,
    Parts,
    Presented,
    Refused,
    differing,
    in_content,
    itself,
    parts_of,
)
from lambda_once.core.keys import PAYLOAD, key_of_payload, labels_of, select, select_from, token
from lambda_once.core.lifecycle import new_attempt_id
from lambda_once.core.signatures import resolved, return_type
from lambda_once.core.tenant import TENANCY
from lambda_once.core.unit import Unit
from lambda_once.core.written import HandlerCodec
from lambda_once.decorators.names import token_name
from lambda_once.decorators.suspensions import SDK, Suspensions
from lambda_once.decorators.validation import check_history_of_tenant
from lambda_once.engine.invocation import (
    Call,
    Compared,
    FromSource,
    Invocation,
    Output,
    Receiver,
    Redelivery,
    Tokenless,
    unchanged,
)
from lambda_once.engine.replay import refusal
from lambda_once.errors import KeyMissing, Misconfigured, OnceError
from lambda_once.observability.events import Event
from lambda_once.settings import FOR_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable
    from inspect import BoundArguments

    from lambda_once.core.objects import Noted
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.history import Guard
    from lambda_once.settings import Settings


MOST_NOT_COMPARED: Final = 10
"""Most paths of a function that ``once.not_compared`` names: the names in a payload may be data."""


class Identification(NamedTuple):
    """
    What identifies a unit of work: a call has what the engine needs of it, and `explain` prints the rest.

    If a step failed, *error* has its exception, and the members of later steps are empty.
    """

    parts: Parts = Parts(KeyFrom.HASH, NOTHING, (), {}, {})
    payload: object = None
    """The payload without ignored fields."""
    key: object = None
    scope: object = None
    token: str = ""
    hashed: Printed | None = None
    """The canonical text that the fingerprint hashes; None: there is no fingerprint."""
    fingerprint: str | None = None
    presented: Presented | None = None
    """The credential of the request, compared with that of a duplicate; None: nothing is compared."""
    error: Exception | None = None
    not_compared: tuple[tuple[str, str], ...] = ()
    """`fields.not_compared` of what the fingerprint hashes, or the key where it is the payload's hash."""

    @property
    def key_from(self) -> KeyFrom:
        return self.parts.key_from

    def clashes(self, other: Identification) -> bool:
        """Whether *other*, a later unit with the same token, has another payload (`KeyReused`)."""
        first, second = self.fingerprint, other.fingerprint
        return first is not None and second is not None and bool(differing(first, second))

    def is_of_other_caller(self, other: Identification) -> bool:
        """Whether *other*, a later unit with the same token, has other credentials (`OtherCaller`)."""
        first, second = (each.presented or Presented(None) for each in (self, other))
        if not (first.proof and second.proof):
            return True
        return first.credential not in (None, second.credential)


class Identifier(NamedTuple):
    """Identifies the units of one decorated function, and makes their calls."""

    runtime: Runtime
    settings: Settings
    codec: Codec
    default_name: str
    """``module.qualname``; nothing for a block, which has a ``name=``."""
    output: Output = Output()

    @property
    def name(self) -> str:
        """The name in the token. Two functions of one name in two Lambdas share no tokens by accident."""
        return self._named(os.environ.get("AWS_LAMBDA_FUNCTION_NAME"))

    def _named(self, function: str | None) -> str:
        name = self.settings.name
        if name is None:
            return f"{function}.{self.default_name}" if function else self.default_name
        return name if isinstance(name, str) else token_name(name)

    @property
    def token(self) -> None:
        """A line about the function names no token, and no `delivery`."""

    @property
    def delivery(self) -> None: ...

    def tokenless(self, invocation: Invocation, delivery: str | None) -> Tokenless:
        """Return a unit of the function that has no token."""
        return Tokenless(self.name, self.settings, invocation, delivery)

    def call(
        self,
        unit: Unit,
        invocation: Invocation,
        bound: BoundArguments | None = None,
        *,
        arguments: tuple[object, ...] = (),
        redelivery: Redelivery = Redelivery.ANY,
        for_history: object = NOTHING,
        separate: bool = True,
        stored_of: Callable[[Any], Any] = unchanged,
    ) -> Call | None:
        """
        Return the call of *unit*; *bound*: the arguments, if the unit is a call of a function.

        None: its key selects nothing, and ``without_key="run"`` lets it run without a token.

        *for_history* is what a history is asked about, by default the unit's argument. *separate* is for
        `Compared`, *stored_of* for `Output`.

        Raises `KeyMissing` if key or scope selects nothing, and `Misconfigured`; has reported both, unless
        the unit is a record.
        """
        environment = self.runtime.environment()
        if environment.disabled:
            invocation.tally.count("disabled")
        name = self._named(environment.function)
        record = unit.record
        identified = self.identify(unit, bound, environment.service, name, None, invocation.context)
        has_scope = bool(identified.parts.scope) or self.settings.scope is not None
        self.runtime.worked(name, unit.what.who, has_scope=has_scope)
        if isinstance(identified.error, OnceError) and environment.disabled:
            # Everything runs, each with a token of its own, as downstream keys are derived from it.
            identified = Identification(token=f"disabled/{new_attempt_id()}")
        elif identified.error is not None:
            return self._without_token(identified.error, record.delivery, invocation)
        guard: Guard | None = Suspensions() if SDK in sys.modules else None
        history = self.settings.history
        if history is not None and not environment.disabled:
            subject = record.argument if for_history is NOTHING else for_history
            try:
                guard = history.of(subject, self.default_name, is_call=bound is not None)
            except OnceError as error:
                self.refused(error, invocation, record.delivery)
                raise
        call = Call(
            name,
            identified.token,
            self.settings,
            self.codec,
            invocation,
            Compared(identified.fingerprint, identified.hashed, identified.presented, separate),
            record.delivery,
            FromSource(arguments, record.redelivered, redelivery),
            self.output if stored_of is unchanged else self.output._replace(stored_of=stored_of),
            guard,
            self.settings.keep or FOR_QUEUES,
        )
        if identified.not_compared and not environment.disabled:
            self._not_compared(identified.not_compared, call)
        return call

    def _without_token(self, error: Exception, delivery: str | None, invocation: Invocation) -> None:
        """Let a unit, which has no token because of *error*, run all the same, or raise the error."""
        if self.runs_without(error):
            reporter = self.runtime.reporter
            reporter.count(Event.UNPROTECTED, invocation.tally)
            reason = f'it ran unprotected (without_key="run"), and so will its duplicates: {error}'
            reporter.warn_once(Event.UNPROTECTED, reason, self, of=self.name)
            return
        if isinstance(error, OnceError):
            self.refused(error, invocation, delivery)
        raise error

    def runs_without(self, error: Exception) -> bool:
        """Whether a unit that has no token because of *error* runs all the same, by ``without_key="run"``."""
        return self.settings.without_key == "run" and isinstance(error, KeyMissing) and error.whole

    def _not_compared(self, parts: tuple[tuple[str, str], ...], call: Call) -> None:
        """Report each of *parts*, which are not compared, once; of a function `MOST_NOT_COMPARED` at most."""
        among = (Event.NOT_COMPARED, call.name)
        for path, why in parts:
            if self.runtime.reporter.is_first((*among, path), among, MOST_NOT_COMPARED):
                reason = (
                    f"{path or 'the payload'}: {why}, and payloads that differ only there are the same: "
                    "leave it out with ignore=, or select what counts with key= and fingerprint="
                )
                call.report(Event.NOT_COMPARED, reason=reason)

    def refused(self, error: OnceError, invocation: Invocation, delivery: str | None) -> None:
        """Report that a unit has no token because of *error*. For a record, `Records` reports it."""
        if self.output.receiver is not Receiver.NOBODY:
            self.report(refusal(error), error, invocation, delivery)

    def report(self, event: Event, error: Exception, invocation: Invocation, delivery: str | None) -> None:
        """Report *event* with *error*; log the class of a developer's mistake."""
        cause = error.__cause__ if isinstance(error, Misconfigured) and error.__cause__ else error
        reason = str(error) if isinstance(error, OnceError) else "model, key or scope raised"
        unit = self.tokenless(invocation, delivery)
        unit.report(event, error=type(cause).__name__, reason=reason)

    def identify(
        self,
        unit: Unit,
        bound: BoundArguments | None = None,
        service: str | None = None,
        name: str | None = None,
        tenant: str | None = None,
        context: object = None,
    ) -> Identification:
        """
        Identify *unit*; *bound*: the arguments, if the unit is a call of a function.

        *service*, *name* and *tenant* are the first parts of its token, by default those of now. *context*:
        Lambda's, for a callable key or scope.
        Raises no Exception: it is in the result, with what was found before it.
        """
        identity, content, settings = unit.what, unit.what.content, self.settings
        arguments = (unit.record.argument if bound is None else bound, context)
        service = self.runtime.environment().service if service is None else service
        name = self.name if name is None else name
        tenant = TENANCY.tenant if tenant is None else tenant
        payload = self._counted(content.payload)
        presented = None if identity.who is NOTHING else identity.who.presented
        parts = parts_of(
            identity,
            tuple(settings.ignore),
            has_option=settings.key is not None,
            narrows=isinstance(settings.fingerprint, str),
        )
        key: object = None
        scope: object = None
        fingerprint = None
        lock_token = ""
        uncompared: tuple[tuple[str, str], ...] = ()
        try:
            key = self._key(content, parts, payload, arguments) if parts.key is NOTHING else parts.key
            selector, added = settings.scope, parts.scope
            scope = added or None if selector is None else self._scope(selector, unit, added, arguments)
            if settings.history is not None and not self.runtime.disabled:
                check_history_of_tenant(settings.history, tenant)
            noted: Noted = []
            lock_token = token(service, name, scope, key, tenant, noted)
            is_hash = parts.key_from is KeyFrom.HASH
            hashed = None if is_hash else self._text_to_hash(content, parts, payload)
            if hashed is not None:
                fingerprint, uncompared = hashed.fingerprint, hashed.not_compared
            elif is_hash and noted:
                uncompared = not_compared(noted, PAYLOAD)
        except Exception as error:  # noqa: BLE001  (a key or scope of the user's may raise anything)
            flaw = content.flaw
            if isinstance(flaw, Flaw) and flaw.unread is not None and isinstance(error, KeyMissing):
                error = KeyMissing(f"{flaw.unread} {error}")
            return Identification(parts, payload, key, scope, lock_token, presented=presented, error=error)
        return Identification(
            parts, payload, key, scope, lock_token, hashed, fingerprint, presented, not_compared=uncompared
        )

    def _key(
        self, content: Content, parts: Parts, payload: object, arguments: tuple[object, object]
    ) -> object:
        """Return the key that ``key=`` selects, or *payload* with its *parts*, to be hashed as the key."""
        selector, flaw = self.settings.key, content.flaw
        if isinstance(flaw, Refused):
            raise flaw.error
        if isinstance(selector, str):
            return select(selector, self._viewed(content, payload))
        if selector is not None:
            return select_from(selector, arguments, {})
        if flaw is not None and flaw.error is not None:
            raise flaw.error
        counted = content.counted
        return key_of_payload(payload if counted is itself else counted(payload), parts.in_token)

    def _viewed(self, content: Content, payload: object) -> object:
        """Return what an expression of ``key=`` or ``fingerprint=`` sees of *content*."""
        view = content.view
        return seen(content, payload if view is NOTHING else self._counted(view))

    def _counted(self, payload: object) -> object:
        """Return *payload* without ignored fields."""
        ignore = self.settings.ignore
        return without(payload, in_content(ignore)) if ignore else payload

    def _scope(
        self,
        selector: str | Callable[..., object],
        unit: Unit,
        added: tuple[object, ...],
        arguments: tuple[object, object],
    ) -> object:
        """Return the scope by *selector* and, behind it, what the source has *added*."""
        if isinstance(selector, str):
            selected_scope = select(selector, seen(unit.what.content, unit.record.envelope), "scope")
        else:
            selected_scope = select_from(selector, arguments, {}, "scope")
        return (selected_scope, *added) if added else selected_scope

    def _text_to_hash(self, content: Content, parts: Parts, payload: object) -> Printed | None:
        """Return the text that the fingerprint hashes; None if there is no fingerprint."""
        narrowed = self.settings.fingerprint
        if narrowed is False:
            return None
        if narrowed is not None:
            chosen = select(narrowed, self._viewed(content, payload), "fingerprint", may_be_null=True)
            hashed = selected(chosen, labels_of(narrowed) or (narrowed,))
        else:
            hashed = self.content(content, payload, parts.key_from)
        if not parts.compared:
            return hashed
        return hashed._replace(beside=tuple((name, written(part)) for name, part in parts.compared.items()))

    def content(self, content: Content, payload: object, key_from: KeyFrom) -> Printed:
        """Return the text to hash for *payload*, that of *content* without ignored fields."""
        if key_from is KeyFrom.SOURCE and content.data is not NOTHING:
            return printed(content.data)  # a later schema may read the same bytes differently
        is_built = content.counted is not itself or not content.parsed
        return printed(content.counted(payload), payload, parts=is_built)


def seen(content: Content, value: object) -> object:
    """Return *value*, of a unit with *content*, as expressions see it."""
    return value if content.parsed else readable(value)


def handler_codec(function: Callable[..., Any], settings: Settings) -> Codec:
    """Return the codec of what a handler answers to Lambda: ``codec=``, that of ``returns=``, or Lambda's."""
    if settings.codec is None and settings.returns is None:
        return HandlerCodec()
    return codec_of(function, settings)


def codec_of(function: Callable[..., Any], settings: Settings) -> Codec:
    """
    Return the codec of results: ``codec=``, or that of ``returns=`` or of *function*'s return annotation.

    Raises `Misconfigured` if that type cannot be resolved.
    """
    if settings.codec is not None:
        return codec_by(*settings.codec)
    if settings.returns is None:
        return codec_for(return_type(function))
    return codec_for(resolved(settings.returns, function, "returns="), converts=True)
