"""From a unit of work to the call that protects it: name, token, fingerprint, policies."""

from __future__ import annotations

import os
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from lambda_once.core.canonical import NotCanonical, plain, without
from lambda_once.core.fields import fields_of, printed, selected
from lambda_once.core.keys import is_nothing, labels_of, select, select_from, token
from lambda_once.core.signatures import resolved, return_type
from lambda_once.core.writes import new_attempt_id
from lambda_once.engine.acquire import refusal
from lambda_once.engine.call import Call
from lambda_once.errors import KeyMissing, Misconfigured, OnceError
from lambda_once.observability.reporter import Details
from lambda_once.sources.unit import NOTHING, itself

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lambda_once.core.fields import Fields, Printed
    from lambda_once.decorators.options import Settings
    from lambda_once.decorators.runtime import Runtime
    from lambda_once.engine.call import Plan
    from lambda_once.engine.invocation import Invocation
    from lambda_once.sources.unit import Unit


class Arguments(NamedTuple):
    """The arguments that a callable key or scope gets."""

    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


class KeyFrom(Enum):
    """Where the key of a unit comes from."""

    OPTION = "key="
    SOURCE = "what the source itself identifies it by"
    HASH = "the hash of its payload"


class Identification(NamedTuple):
    """
    What tells a unit of work from every other one, as far as that could be found.

    Where something went wrong it is in *error*, and what comes after it is empty.
    """

    key_from: KeyFrom
    payload: object
    """What counts of the payload: without what is ignored."""
    key: object = None
    scope: object = None
    token: str = ""
    hashed: Printed | None = None
    """What the fingerprint is the hash of; None: there is no fingerprint."""
    error: Exception | None = None

    @property
    def fingerprint(self) -> str | None:
        return None if self.hashed is None else self.hashed.fingerprint

    @property
    def fields(self) -> Fields | None:
        return None if self.hashed is None else fields_of(self.hashed, self.token)


class Identifier(NamedTuple):
    """One decorator on one function: makes the `Call` of every unit. Reads the environment at each call."""

    runtime: Runtime
    settings: Settings
    plan: Plan
    default_name: str
    """``module.qualname``, or nothing; the Lambda function's name comes before it."""

    @property
    def name(self) -> str:
        return self.settings.name or named(self.default_name)

    def call(
        self,
        unit: Unit,
        invocation: Invocation,
        given: Arguments | None = None,
        *,
        arguments: tuple[object, ...] = (),
        redelivered: bool = False,
        waits_for_own: bool = False,
    ) -> Call:
        """
        Return the call of *unit*. *given* is what callables get, *unit*'s subject where left out.

        Raises `KeyMissing` where key or scope selects nothing, and `Misconfigured`; has reported both.
        """
        if self.runtime.disabled:
            invocation.tally.count("disabled")
        found = self._checked(self.identify(unit, given), invocation, unit.delivery)
        return Call(
            name=self.name,
            token=found.token,
            plan=self.plan,
            invocation=invocation,
            fingerprint=found.fingerprint,
            fields=found.fields,
            presented=unit.presented,
            delivery=unit.delivery,
            arguments=arguments,
            redelivered=redelivered,
            waits_for_own=waits_for_own,
        )

    def _checked(self, found: Identification, invocation: Invocation, delivery: str | None) -> Identification:
        """Return *found*, or report and raise what went wrong."""
        if found.error is None:
            return found
        if isinstance(found.error, OnceError):
            if self.runtime.disabled:
                # Everything runs; and no two pieces of work may share a key for the next system.
                return found._replace(token=f"disabled/{new_attempt_id()}", hashed=None)
            self.refused(found.error, invocation, delivery)
        raise found.error

    def refused(self, error: OnceError, invocation: Invocation, delivery: str | None) -> None:
        """Report that a unit has no token because of *error*; of the developer's own, the class is logged."""
        cause = error.__cause__ if isinstance(error, Misconfigured) and error.__cause__ else error
        details = Details(
            refusal(error), name=self.name, delivery=delivery, error=type(cause).__name__, reason=str(error)
        )
        self.runtime.reporter.report(details, invocation.tally)

    def identify(self, unit: Unit, given: Arguments | None = None) -> Identification:
        """
        Return what *unit* is identified by. *given* is what callables get, *unit*'s subject where left out.

        Raises no Exception: one is kept with what was found before it, for whoever raises or explains it.
        """
        given = Arguments((unit.argument,), {}) if given is None else given
        found = Identification(self._key_from(unit), without(unit.payload, self.settings.ignore))
        try:
            found = found._replace(key=self._key(unit, found, given))
            found = found._replace(scope=self._scope(unit, given))
            found = found._replace(token=token(self.runtime.service, self.name, found.scope, found.key))
            if found.key_from is not KeyFrom.HASH:
                found = found._replace(hashed=self._counted(unit, found.payload))
        except Exception as error:  # noqa: BLE001  (a key or scope of the user's may raise anything)
            return found._replace(error=error)
        return found

    def _key_from(self, unit: Unit) -> KeyFrom:
        if self.settings.key is not None:
            return KeyFrom.OPTION
        return KeyFrom.HASH if unit.key is NOTHING else KeyFrom.SOURCE

    def _key(self, unit: Unit, found: Identification, given: Arguments) -> object:
        selector = self.settings.key
        if isinstance(selector, str):
            return select(selector, seen(unit, found.payload))
        if selector is not None:
            return select_from(selector, given.args, given.kwargs)
        if found.key_from is KeyFrom.SOURCE:
            return unit.key
        if unit.needs_key is not None:
            raise Misconfigured(unit.needs_key)
        content = unit.content(found.payload)
        if is_nothing(content):
            raise KeyMissing(
                "an empty payload is not a key: every empty payload would be a duplicate of the first; "
                "pass key=, or send a payload that identifies the work"
            )
        # Tagged, so that it is digested even where the whole payload is a readable text.
        return {"payload": content}

    def _scope(self, unit: Unit, given: Arguments) -> object:
        selector = self.settings.scope
        if selector is None:
            return unit.scope or None
        if isinstance(selector, str):
            scope = select(selector, seen(unit, unit.envelope), "scope")
        else:
            scope = select_from(selector, given.args, given.kwargs, "scope")
        return (scope, *unit.scope) if unit.scope else scope

    def _counted(self, unit: Unit, payload: object) -> Printed | None:
        """Return what the fingerprint of *unit* is made from; None where there is to be none."""
        narrowed = self.settings.fingerprint
        if narrowed is False:
            return None
        try:
            if narrowed is not None:
                chosen = select(narrowed, seen(unit, payload), "fingerprint", may_have_nulls=True)
                return selected(chosen, labels_of(narrowed))
            return self.content(unit, payload)
        except NotCanonical:
            return None  # an argument with no canonical form leaves no fingerprint; its key is explicit

    def content(self, unit: Unit, payload: object) -> Printed:
        """Return what is hashed of *payload*, which is *unit*'s without what is ignored."""
        assembled = unit.content is not itself or not unit.parsed
        return printed(unit.content(payload), payload, assembled=assembled)


def seen(unit: Unit, value: object) -> object:
    """Return what an expression sees of *value*, which is of *unit*. Raises `KeyMissing` for a cycle."""
    if unit.parsed:
        return value
    try:
        return plain(value)
    except NotCanonical as error:
        raise KeyMissing(f"an expression cannot read the arguments: {error}; use a callable") from None


def named(qualified: str) -> str:
    """Return the default name: two functions of one name in two Lambdas never share tokens by accident."""
    function = os.environ.get("AWS_LAMBDA_FUNCTION_NAME")
    return f"{function}.{qualified}" if function else qualified


def name_of(function: Callable[..., Any]) -> str:
    """Return ``module.qualname``; what has no name, such as a partial, has ``name=`` instead."""
    return f"{function.__module__}.{getattr(function, '__qualname__', '')}"


def result_type(function: Callable[..., Any], settings: Settings) -> object:
    """
    Return what duplicates of *function* get back: ``returns=``, or its return annotation, or Any.

    Raises `Misconfigured` where that cannot be resolved.
    """
    if settings.returns is None:
        return return_type(function)
    return resolved(settings.returns, function, "returns=")
