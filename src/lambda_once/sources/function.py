"""
`once.function` and `once.run`: what happens to a call of a function.

The arguments by name are the payload, without a Lambda context and the object of a method. A record or an
event among them counts as under the decorator of its source, and an event as under `once.event`, whether the
function gets it as a dict, as Powertools' data class or as a model of its parser: receipt handle, receive
count, timestamps and signatures belong to one delivery. Anything else is itself; where a parameter is a union
of classes, with its class.

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

from lambda_once.core.identity import NOTHING, Among, Content, Flaw, Identity, Refused
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
from lambda_once.sources.event import identity_of, whole
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
    from collections.abc import Callable, Iterator, Mapping

    from lambda_once.decorators.runtime import Runtime
    from lambda_once.settings import Settings

# ------------------------------------------------------------------ reading

_PLAIN: Final = frozenset({str, int, float, bool, NoneType})


def argument_of(value: object) -> Identity | None:
    """Return which work *value* is, an argument; None if it is neither a record nor an event."""
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
        what: Identity = source.unit(sent).what
        flaw = what.content.flaw
        if isinstance(flaw, Refused):
            no_key = KeyMissing("the key is missing: pass key= with what the function gets")
            return whole(Content(sent, flaw=Flaw(None if source.repeats else no_key, str(flaw.error))))
        return what if is_data_class else what.seen_as(value)
    if isinstance(sent, Parsed) and source_of(sent) is Source.DIRECT and service_of(sent) is None:
        return None  # a model of the user's own, one of whose fields has the name of one of an event's
    view = NOTHING if is_data_class or sent is value else value
    if "s3" in sent and named_source(sent) is Source.S3:
        return whole(Content(s3_record_content(sent), view=sent if view is NOTHING else view))
    try:
        what = identity_of(sent, "once.function")
    except Misconfigured as error:
        refused = Misconfigured(f"{error} Or pass once.function key= and fingerprint=.")
        return whole(Content(sent, view=view, flaw=Refused(refused)))
    return what if view is NOTHING else what.seen_as(view)


def _batch(value: Any) -> Identity | None:
    """Return the error for *value* if it is a list of records, as a loop over a batch would group them."""
    first = as_sent(next(iter(value), None))
    if first is None or source_of_record(first) is None:
        return None
    refused = Misconfigured(
        "once.function received a list of records, which the next delivery groups in another way. "
        "Nothing ran. Call it with one record at a time, or pass key= and fingerprint=."
    )
    return whole(Content(value, flaw=Refused(refused)))


def _unit_of(
    named: dict[str, object],
    arguments: object,
    declared: Callable[[dict[str, object]], Any],
    *,
    guarded: bool,
) -> Unit:
    """
    Return the unit of a call with all *arguments*; *named* are those that count, as they are *declared*.

    *guarded*: nothing says what identifies a batch or a request, so it is refused.
    """
    special = {name: found for name, each in named.items() if (found := argument_of(each)) is not None}
    if not special:
        payload: Any = declared(named)
        return Unit(whole(Content(payload, parsed=False)), Delivered(arguments, payload))
    contents = {name: what.content for name, what in special.items()}
    payload = {name: contents[name].payload if name in contents else each for name, each in named.items()}
    seen = {
        name: each if name not in contents or contents[name].view is NOTHING else contents[name].view
        for name, each in payload.items()
    }
    seen = declared(seen)
    positions = _each(special, "position")
    what = Identity(
        who=NOTHING,
        operation=NOTHING,
        origin=_each(special, "origin"),
        position=NOTHING if positions is NOTHING else Among(positions),
        attributes=_each(special, "attributes"),
        content=Content(
            declared(payload),
            functools.partial(_counted, contents),
            parsed=False,
            view=seen,
            flaw=_flaw([each.flaw for each in contents.values()], guarded=guarded),
        ),
    )
    return Unit(what, Delivered(arguments, seen))


def _flaw(flaws: list[Refused | Flaw | None], *, guarded: bool) -> Refused | Flaw | None:
    """Return what is wrong with a call whose arguments have *flaws*. One not *guarded* is not refused."""
    refused = next((each for each in flaws if isinstance(each, Refused)), None)
    if refused is not None and guarded:
        return refused
    # An event that has no id is an argument like another: its content counts.
    of_records = [
        each for each in flaws if isinstance(each, Flaw) and not isinstance(each.error, Misconfigured)
    ]
    error = next((each.error for each in of_records if each.error is not None), None)
    unread = next((each.unread for each in of_records if each.unread is not None), None)
    return Flaw(error, unread) if of_records else None


def _each(special: Mapping[str, Identity], part: str) -> object:
    """Return *part* of each of *special*, by name, alone if there's one; `NOTHING` if none has it."""
    parts = {name: getattr(each, part) for name, each in special.items()}
    parts = {name: each for name, each in parts.items() if each is not NOTHING}
    return NOTHING if not parts else next(iter(parts.values())) if len(special) == 1 else parts


def _counted(contents: Mapping[str, Content], payload: Any) -> object:
    """Return what counts of *payload*, arguments without ignored fields, of which some have *contents*."""
    named = payload.held if isinstance(payload, Fields) else payload
    counted = {
        name: contents[name].counted(each) if name in contents else each for name, each in named.items()
    }
    return payload.holding(counted, ()) if isinstance(payload, Fields) else counted


class Declared:
    """What the annotations of a function say of its arguments. They may name what is defined later."""

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
        return {each.name: each for each in parameters if each.classes}


# ------------------------------------------------------------------ the function


class FunctionIdentifier(NamedTuple):
    """Identifies calls of a function by their arguments."""

    identifier: Identifier
    signature: inspect.Signature
    declared: Declared
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
        contexts = {name: each for name, each in named.items() if is_lambda_context(name, each)}
        for context in (*contexts.values(), *self._contexts_in_rest(named)):
            self.runtime.serve(context)
        counting = {name: each for name, each in named.items() if name not in contexts}
        settings = self.identifier.settings
        guarded = settings.key is None or settings.fingerprint is None
        return _unit_of(counting, named, self.declared, guarded=guarded), bound

    def _contexts_in_rest(self, named: Mapping[str, Any]) -> Iterator[object]:
        """Yield the Lambda contexts among the arguments of ``*args``, which count in the payload as it is."""
        for each in self.signature.parameters.values():
            if each.kind is each.VAR_POSITIONAL:
                yield from (value for value in named[each.name] if is_lambda_context("", value))


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
        log = functools.partial(runtime.reporter.warn, Event.SHARED_NAME, work=identifier)
        receivers = Receivers(title(function), log)
    found = FunctionIdentifier(
        identifier, signature_of(function), Declared(function), is_method(function), receivers
    )

    if is_async(function):

        @functools.wraps(function)
        async def protected_async(*args: Any, **kwargs: Any) -> Any:
            with runtime.invocation() as invocation:
                unit, bound = found.unit(args, kwargs)
                call = identifier.call(unit, invocation, bound, arguments=bound.args)
                if call is None:
                    return await function(*args, **kwargs)
                outcome = await runtime.engine.execute_async(call, lambda: function(*args, **kwargs))
                return apply_on_replay(settings, outcome)

        return marked(protected_async, found)

    @functools.wraps(function)
    def protected(*args: Any, **kwargs: Any) -> Any:
        with runtime.invocation() as invocation:
            unit, bound = found.unit(args, kwargs)
            call = identifier.call(unit, invocation, bound, arguments=bound.args)
            if call is None:
                return function(*args, **kwargs)
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
