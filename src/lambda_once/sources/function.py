"""
`once.function` and `once.run`: what happens to a call of a function.

The arguments by name are the payload, without a Lambda context and the object of a method. A record among
them counts as under the decorator of its source, and an event as under `once.event`, whether the function
gets it as a dict, as Powertools' data class or as a model of its parser: receipt handle, receive count,
timestamps and signatures belong to one delivery. Any other argument counts as it is; if its parameter is a
union of classes, together with its class.

What we're not happy with: an argument is a record by its looks. A dict of your own with ``eventSource`` and
``receiptHandle`` is taken for a message.
"""

from __future__ import annotations

import functools
import inspect
import sys
from dataclasses import replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lambda_once.core.identity import NOTHING, Among, Content, Flaw, Identity, OfEach, Refused, whole
from lambda_once.core.objects import UNDECLARED, Field, Fields, arguments_of, parameter_of
from lambda_once.core.signatures import is_async, parameter_types, signature_of, title
from lambda_once.core.unit import Delivered, Unit
from lambda_once.decorators.handlers import apply_on_replay, marked
from lambda_once.decorators.identify import Identifier, codec_of
from lambda_once.decorators.names import Receivers, name_of
from lambda_once.decorators.selectors import arguments_by_name, selector_of_call, variadic
from lambda_once.decorators.suspensions import SDK, check_arguments, check_function
from lambda_once.decorators.validation import CONTEXT_NAMES, check_not_generator, check_of_call, is_self
from lambda_once.errors import KeyMissing, Misconfigured
from lambda_once.observability.events import Event
from lambda_once.sources.envelopes import Parsed, s3_record_content
from lambda_once.sources.event import identity_of
from lambda_once.sources.services import service_of
from lambda_once.sources.source import (
    Source,
    as_sent,
    named_source,
    record_source,
    source_of,
    source_of_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

# ------------------------------------------------------------------ reading

_REST: Final = inspect.Parameter.VAR_POSITIONAL
_PLAIN: Final = frozenset({str, int, float, bool, NoneType})


def argument_of(value: object) -> Identity | None:
    """Return the identity of *value*, an argument; None if it is neither a record nor an event."""
    if type(value) in _PLAIN:
        return None
    if isinstance(value, list | tuple):
        return _batch(value)
    sent = as_sent(value)
    if sent is None:
        return None
    is_data_class = not isinstance(value, dict) and sent is getattr(value, "raw_event", None)
    of_records = source_of_record(sent, is_data_class=is_data_class)
    if of_records is not None:
        source = record_source(of_records)
        identity: Identity = source.unit(sent).what
        flaw = identity.content.flaw
        if isinstance(flaw, Refused):
            no_key = KeyMissing("the key is missing: pass key= with what the function gets")
            return whole(Content(sent, flaw=Flaw(None if source.repeats else no_key, str(flaw.error))))
        return identity if is_data_class else identity.seen_as(value)
    if isinstance(sent, Parsed) and source_of(sent) is Source.DIRECT and service_of(sent) is None:
        return None  # a model of the user's own, which has a field with the name of an event's
    view = NOTHING if is_data_class or sent is value else value
    if "s3" in sent and named_source(sent) is Source.S3:
        return whole(Content(s3_record_content(sent), view=sent if view is NOTHING else view))
    try:
        identity = identity_of(sent, "once.function")
    except Misconfigured as error:
        refused = Misconfigured(f"{error} Or pass once.function key= and fingerprint=.")
        return whole(Content(sent, view=view, flaw=Refused(refused)))
    return identity if view is NOTHING else identity.seen_as(view)


def _batch(value: Any) -> Identity | None:
    """Return the error for *value* if it is a list of records, as a loop over a batch would group them."""
    first = as_sent(next(iter(value), None))
    if first is None or source_of_record(first) is None:
        return None
    refused = Misconfigured(
        "once.function received a list of records, which the next delivery groups in another way. "
        "Nothing ran. Call it with one record at a time, or pass once.function key= and fingerprint=."
    )
    return whole(Content(value, flaw=Refused(refused)))


def _rest_of(values: tuple[object, ...]) -> Identity | None:
    """Return the identity of *values*, those of ``*args``; None if none of them is a record or an event."""
    identities = [argument_of(value) for value in values]
    present = {str(index): identity for index, identity in enumerate(identities) if identity is not None}
    if not present:
        return None
    contents = [
        Content(value) if identity is None else identity.content
        for value, identity in zip(values, identities, strict=True)
    ]

    def counted(payload: Any) -> object:
        return [content.counted(value) for content, value in zip(contents, payload, strict=True)]

    return Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=_part_of_each(present, "origin"),
        position=_part_of_each(present, "position"),
        attributes=_part_of_each(present, "attributes"),
        content=Content(
            [content.payload for content in contents],
            counted,
            view=[content.payload if content.view is NOTHING else content.view for content in contents],
            flaw=_flaw([content.flaw for content in contents], guarded=True),
        ),
    )


def _unit_of(
    named: dict[str, object],
    arguments: object,
    declared: Callable[[dict[str, object]], Any],
    *,
    rest: str | None = None,
    guarded: bool,
) -> Unit:
    """
    Return the unit of a call with all *arguments*; *named* are those that count, as they are *declared*.

    *rest*: the name of ``*args``, whose values are arguments, too. *guarded*: no key= and fingerprint=
    identify a batch or a request among them, so it is refused.
    """
    identities = {
        name: identity
        for name, value in named.items()
        if (identity := _rest_of(value) if name == rest else argument_of(value)) is not None  # type: ignore[arg-type]  # a tuple
    }
    if not identities:
        payload: Any = declared(named)
        return Unit(whole(Content(payload, parsed=False)), Delivered(arguments, payload))
    contents = {name: identity.content for name, identity in identities.items()}
    payload = {name: contents[name].payload if name in contents else value for name, value in named.items()}
    view = declared(
        {
            name: value if name not in contents or contents[name].view is NOTHING else contents[name].view
            for name, value in payload.items()
        }
    )
    positions = _part_of_each(identities, "position")
    identity = Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=_part_of_each(identities, "origin"),
        position=NOTHING if positions is NOTHING else Among(positions),
        attributes=_part_of_each(identities, "attributes"),
        content=Content(
            declared(payload),
            functools.partial(_counted, contents),
            parsed=False,
            view=view,
            flaw=_flaw([content.flaw for content in contents.values()], guarded=guarded),
        ),
    )
    return Unit(identity, Delivered(arguments, view))


def _flaw(flaws: list[Refused | Flaw | None], *, guarded: bool) -> Refused | Flaw | None:
    """Return what is wrong with a call whose arguments have *flaws*. One not *guarded* is not refused."""
    refused = next((flaw for flaw in flaws if isinstance(flaw, Refused)), None)
    if refused is not None and guarded:
        return refused
    # An event that has no id is an argument like another: its content counts.
    of_records = [
        flaw for flaw in flaws if isinstance(flaw, Flaw) and not isinstance(flaw.error, Misconfigured)
    ]
    error = next((flaw.error for flaw in of_records if flaw.error is not None), None)
    unread = next((flaw.unread for flaw in of_records if flaw.unread is not None), None)
    return Flaw(error, unread) if of_records else None


def _part_of_each(identities: Mapping[str, Identity], part: str) -> object:
    """Return *part* of each of *identities*, by name; alone if there's one; `NOTHING` if none has it."""
    values = {name: getattr(identity, part) for name, identity in identities.items()}
    values = {name: value for name, value in values.items() if value is not NOTHING}
    return NOTHING if not values else next(iter(values.values())) if len(identities) == 1 else OfEach(values)


def _counted(contents: Mapping[str, Content], payload: Any) -> object:
    """Return what counts of *payload*, arguments without ignored fields, of which some have *contents*."""
    arguments = payload.held if isinstance(payload, Fields) else payload
    counted = {
        name: contents[name].counted(value) if name in contents else value
        for name, value in arguments.items()
    }
    return payload.holding(counted, ()) if isinstance(payload, Fields) else counted


class Declared:
    """What a function's annotations declare of its arguments. Read late: they may name later definitions."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __call__(self, named: dict[str, Any]) -> Any:
        """Return the arguments *named*, as fields if a parameter is a union whose classes count."""
        if _PLAIN.issuperset(map(type, named.values())) or not self._unions:
            return named
        rest = variadic(signature_of(self._function))
        return arguments_of(named, self._unions, self._unions.get(rest or "", UNDECLARED))

    @functools.cached_property
    def _unions(self) -> dict[str, Field]:
        types = parameter_types(self._function)
        parameters = (parameter_of(name, hint) for name, hint in types.items())
        return {parameter.name: parameter for parameter in parameters if parameter.classes}


# ------------------------------------------------------------------ the function


class FunctionIdentifier(NamedTuple):
    """Identifies calls of a function by their arguments."""

    identifier: Identifier
    signature: inspect.Signature
    declared: Declared
    is_method: bool
    """Whether the first argument is the object, which is not part of the key."""
    receivers: Receivers | None = None
    """Notes the objects of a method's calls, if several classes may share its name by accident."""

    @property
    def runtime(self) -> Runtime:
        return self.identifier.runtime

    @property
    def name(self) -> str:
        return self.identifier.name

    def unit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Unit, inspect.BoundArguments]:
        """
        Return the unit of a call, and its bound arguments.

        A Lambda context is not part of the payload, but names the tenant. Raises as `Runtime.serve` does.
        """
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        named = arguments_by_name(bound)
        if SDK in sys.modules:
            check_arguments(self.identifier.default_name, named)
        if self.is_method:
            receiver = named.pop(next(iter(named)))
            if self.receivers is not None:
                self.receivers.called_on(receiver)
        contexts = {name: value for name, value in named.items() if is_lambda_context(name, value)}
        rest = next((each.name for each in self.signature.parameters.values() if each.kind is _REST), None)
        # The payload has all of *args, contexts included.
        in_rest = () if rest is None else (value for value in named[rest] if is_lambda_context("", value))
        for context in (*contexts.values(), *in_rest):
            self.runtime.serve(context)
        counted = {name: value for name, value in named.items() if name not in contexts}
        settings = self.identifier.settings
        guarded = settings.key is None or settings.fingerprint is None
        return _unit_of(counted, named, self.declared, rest=rest, guarded=guarded), bound


def is_lambda_context(name: str, value: object) -> bool:
    """
    Return whether *value*, the argument *name*, is a Lambda context, or None in the place of one.

    Only its own attributes count: an object that has an attribute of any name, such as a mock, isn't one.
    """
    attributes = {mark for mark in _MARKS if inspect.getattr_static(value, mark, None) is not None}
    if name in CONTEXT_NAMES:
        return value is None or _REQUEST_ID in attributes
    return len(attributes) == len(_MARKS)


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
        log = functools.partial(runtime.reporter.warn, Event.SHARED_NAME, work=identifier)
        receivers = Receivers(title(function), log)
    calls = FunctionIdentifier(
        identifier, signature_of(function), Declared(function), is_method(function), receivers
    )

    if is_async(function):

        @functools.wraps(function)
        async def protected_async(*args: Any, **kwargs: Any) -> Any:
            with runtime.invocation() as invocation:
                unit, bound = calls.unit(args, kwargs)
                call = identifier.call(unit, invocation, bound, arguments=bound.args)
                if call is None:
                    return await function(*args, **kwargs)
                outcome = await runtime.engine.execute_async(call, lambda: function(*args, **kwargs))
                return apply_on_replay(settings, outcome)

        return marked(protected_async, calls)

    @functools.wraps(function)
    def protected(*args: Any, **kwargs: Any) -> Any:
        with runtime.invocation() as invocation:
            unit, bound = calls.unit(args, kwargs)
            call = identifier.call(unit, invocation, bound, arguments=bound.args)
            if call is None:
                return function(*args, **kwargs)
            return apply_on_replay(settings, runtime.engine.execute(call, lambda: function(*args, **kwargs)))

    return marked(protected, calls)


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
