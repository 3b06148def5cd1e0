"""
Checks when a decorator is made or applied, before the first event.

Each mistake is `Misconfigured`; its message names the function or option, and what to do.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.lazy import check_type
from lambda_once.core.signatures import (
    accepts,
    is_async,
    is_generator,
    model_of,
    return_type,
    signature_of,
    title,
)
from lambda_once.decorators.suspensions import check_function
from lambda_once.errors import Misconfigured
from lambda_once.settings import Where

if TYPE_CHECKING:
    from collections.abc import Callable

    from lambda_once.settings import Settings

CONTEXT_NAMES: Final = ("context", "lambda_context")
"""Names of a parameter that gets the context even if it has a default; the second is Powertools'."""
_TABLE: Final = re.compile(r"[A-Za-z0-9_.-]*|arn:[A-Za-z0-9_.:/-]+")
"""Names, the empty one counts as none; and ARNs (API reference, TableName)."""
_WHOLE_EVENT: Final = ("event", "events")
_EXAMPLE: Final = 'key="orderId"'
_STORE_METHODS: Final = ("acquire", "write", "read", "chunks", "transact")


# -- arguments of Once


def check_parts(*, table: object, client: object, store: object, service: object, **reported: object) -> None:
    """Check the arguments of `Once`; *reported* are metrics, logger and tracer. Raises `Misconfigured`."""
    for name, text in (("table", table), ("service", service)):
        if text is not None and not isinstance(text, str):
            raise Misconfigured(f"{name}= must be a name, a str, not a {type(text).__name__}")
    if isinstance(table, str):
        checked_table(table, "table=")
    for name, part in {"client": client, "store": store, **reported}.items():
        if isinstance(part, type):
            raise Misconfigured(f"{name}={part.__name__} is a class: pass an instance, {part.__name__}(...)")
    _check_tracer(reported.get("tracer"))
    if isinstance(client, str):
        from lambda_once.dynamodb.client import client_named

        client_named(client, {})
    elif client is not None:
        from lambda_once.dynamodb.client import low_level  # no cold start without client= needs it

        low_level(client)
    if not (client is None or isinstance(client, str) or callable(getattr(client, "update_item", None))):
        raise Misconfigured(
            f'client= is a {type(client).__name__}, not a DynamoDB client: pass boto3.client("dynamodb")'
        )
    lacking = [name for name in _STORE_METHODS if not callable(getattr(store, name, None))]
    if store is not None and lacking:
        raise Misconfigured(
            f"store= is a {type(store).__name__} without {', '.join(lacking)}: "
            "pass MemoryStore(), or what has the methods of lambda_once.stores.contract.Store"
        )


def checked_table(table: str, where: str) -> str:
    """Return *table*, a name or ARN out of *where*. Raises `Misconfigured` for what can be neither."""
    if not _TABLE.fullmatch(table):
        raise Misconfigured(
            f"{where}{table!r} is not a table name: DynamoDB's have letters, digits, and the characters _ . -"
        )
    return table


def _check_tracer(tracer: object) -> None:
    """Check that *tracer* is Powertools' or OpenTelemetry's. Raises `Misconfigured`."""
    if tracer is None:
        return
    try:
        known = any(hasattr(tracer, name) for name in ("provider", "start_as_current_span"))
    except Exception:  # noqa: BLE001  (what a tracer raises decides nothing; it is reported when it is used)
        return
    if not known:
        raise Misconfigured(
            f"tracer= is a {type(tracer).__name__}, not a tracer: pass Powertools' Tracer(), or "
            "OpenTelemetry's trace.get_tracer(__name__)"
        )


def sound_hooks(hooks: object) -> tuple[Callable[[Any], object], ...]:
    """Return *hooks* as a tuple. Raises `Misconfigured` unless they are functions of one Details."""
    if not isinstance(hooks, list | tuple):
        named = getattr(hooks, "__name__", "…")
        raise Misconfigured(f"hooks= must be a list of functions: hooks=[{named}]")
    for hook in hooks:
        if not callable(hook):
            raise Misconfigured(f"hooks= contains {hook!r}, which is not a function of one Details")
        if is_async(hook):
            raise Misconfigured(f"hook {title(hook)} is async, and would not be awaited: pass a plain def")
        if not accepts(hook, object()):
            raise Misconfigured(f"hook {title(hook)} must accept one argument, the Details")
    return tuple(hooks)


# -- functions


def check_decorated(decorator: str, function: object) -> None:
    """Check that *decorator* can be applied to *function*. Raises `Misconfigured`."""
    if isinstance(function, staticmethod | classmethod):
        outer = f"@{type(function).__name__}"
        raise Misconfigured(f"put {outer} above @{decorator}, not below: {title(function.__func__)}")
    if not callable(function):
        example = (
            f"{decorator}(key={function!r})" if isinstance(function, str) else f"{decorator}({_EXAMPLE})"
        )
        raise Misconfigured(f"{decorator} takes its options by name, such as {example}; got {function!r}")
    if isinstance(function, type):
        raise Misconfigured(f"{decorator} decorates functions, and {title(function)} is a class")
    if hasattr(function, "__once__"):
        raise Misconfigured(
            f"{title(function)} is already protected: remove one of its decorators. "
            "The inner one would find the token in progress, and nothing would ever run"
        )
    check_function(title(function), function)


def check_concurrency(function: Callable[..., Any], given: object) -> None:
    """Check that ``concurrency=``, if it is *given*, has an effect on *function*. Raises `Misconfigured`."""
    if given not in (None, 1) and not is_async(function):
        raise Misconfigured(
            f"concurrency={given} is for async functions, and {title(function)} is a plain def: its records "
            "run one after the other. Decorate an async def that calls it in a thread instead: "
            "async def handle(record): await asyncio.to_thread(work, record)"
        )


def check_key(decorator: str, function: str, settings: Settings, where: Where) -> None:
    """
    Check that *decorator*, of kind *where*, takes no payload's hash for its key.

    Raises `Misconfigured` without ``key=``; over HTTP the header ``Idempotency-Key`` will do, if a request
    without it is not hashed.
    """
    over_http = where is Where.API
    if settings.key is not None or (over_http and settings.without_key in ("reject", "run")):
        return
    way = ', or without_key="reject"' if over_http else ""
    raise Misconfigured(
        f"{function}: {decorator} has no key=, and Once has require_key=True. "
        f"Pass key= with what identifies the work{way}"
    )


def check_takes_record(decorator: str, handler: Callable[..., Any], model: object) -> None:
    """
    Check that *handler*, under *decorator*, expects one record, or what *model* makes of it.

    Raises `Misconfigured` where its first parameter is called as a whole event, or annotated with a model of
    pydantic without ``model=``.
    """
    if model is not None:
        return
    first = next(iter(signature_of(handler).parameters.values()), None)
    if first is None:
        return
    if first.name in _WHOLE_EVENT:
        raise Misconfigured(
            f"{title(handler)} has a parameter {first.name}, but {decorator} calls it with one record at a "
            "time: call the parameter record, without a loop over Records. once.event passes a whole event"
        )
    # What a wrapper passes on is its own: the annotation of the inner function says nothing of it.
    found = None if hasattr(handler, "__wrapped__") else model_of(handler, first)
    if found is not None:
        raise Misconfigured(
            f"{title(handler)}: the parameter {first.name} is annotated with the model {found}, but "
            f"{decorator} passes the record: give model={found}"
        )


def check_not_generator(function: Callable[..., Any]) -> None:
    """Check that *function* returns no generator or iterator, by what it is and what it is annotated with."""
    if is_generator(function):
        raise Misconfigured(
            f"{title(function)} is a generator function; its values cannot be replayed. "
            "Return a list, or protect the work on each value"
        )
    try:
        annotation = return_type(function)
    except Misconfigured:  # a name that cannot be resolved, which matters only without returns= and codec=
        return
    check_type(annotation, f"the return annotation of {title(function)}")


def is_self(name: str | None) -> bool:
    return name in ("self", "cls")


# -- callables among the options


def check_no_history(settings: Settings, what: str) -> None:
    """Check that *what* has no history, for Powertools has nothing like it. Raises `Misconfigured`."""
    if settings.history is not None:
        raise Misconfigured(
            f"{what} cannot have a history, for Powertools has no counterpart: use a Once without history=, "
            "or pass history= to the decorators that replace Powertools'"
        )


def check_history_of_tenant(history: object, tenant: str | None) -> None:
    """Check that no *history* is asked for a *tenant*: its records name none. Raises `Misconfigured`."""
    if history is not None and tenant is not None:
        raise Misconfigured(
            "history= cannot be asked for a tenant: Powertools' records name none, so another tenant's "
            "result could be replayed. Leave history= out of a function with tenant isolation"
        )


def check_of_one(settings: Settings, what: str, *, of_requests: bool = False) -> None:
    """Check history and probe of a decorator that passes *what*, such as "the event", alone."""
    if settings.history is not None:
        settings.history.check(None, of_requests=of_requests)
    _check_probe(settings, (object(),), what)


def check_of_call(settings: Settings, function: Callable[..., Any]) -> None:
    """Check expressions and probe of a decorator that gives them the arguments of *function*."""
    parameters = [*signature_of(function).parameters.values()]
    places = sum(each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD) for each in parameters)
    _check_probe(settings, (object(),) * places, f"the arguments of {title(function)}")
    if parameters and is_self(parameters[0].name):
        del parameters[0]
    _check_names(settings, parameters, title(function))


def _check_probe(settings: Settings, arguments: tuple[object, ...], what: str) -> None:
    probe = settings.on_lapse
    if callable(probe) and not accepts(probe, object(), *arguments):
        raise Misconfigured(f"the probe on_lapse={title(probe)} must accept a Lapsed, then {what}")


def _check_names(settings: Settings, parameters: list[inspect.Parameter], function: str) -> None:
    """Check that the expressions of *settings* name arguments that exist; ``**kwargs`` may be of any name."""
    from lambda_once.core.expressions import (
        belonging_to,
        corrected,
        unknown_names,
    )  # jmespath costs a cold start

    if any(each.kind is each.VAR_KEYWORD for each in parameters):
        return
    names = [each.name for each in parameters]
    for option in ("key", "scope", "fingerprint"):
        expression = getattr(settings, option)
        unknown = unknown_names(expression, names) if isinstance(expression, str) else []
        if unknown:
            others = [name for name in names if name not in CONTEXT_NAMES]
            likely = corrected(expression, unknown, others)
            if likely is None and len(others) == 1:
                likely = belonging_to(others[0], expression)
            likely = "" if likely is None else f"; did you mean {option}={likely!r}?"
            raise Misconfigured(
                f"{option}={expression!r}: {function} has no argument {', '.join(unknown)}; "
                f"its arguments are {', '.join(names) or 'none'}{likely}"
            )
