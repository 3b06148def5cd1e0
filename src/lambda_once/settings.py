"""
The options of `Once` and its decorators.

Each field of `Settings` has the type of an option, its default, the check of its values, and where it is
accepted. Signatures, `help` and error messages derive from these fields, and tests compare docs/reference.md
with them. `make surface` writes them into `_signatures.py` and `_once.py` as parameters, for editors and type
checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from enum import Flag, auto
from functools import cache, cached_property
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Final, Literal, NewType, TypeVar, get_args, get_origin

from lambda_once.core.fields import closest
from lambda_once.core.keys import Selector, compile_expression
from lambda_once.core.signatures import accepts, is_async
from lambda_once.errors import Misconfigured
from lambda_once.policies import RELEASE, OnError, OnLapseOption, Policy, Probe, lapse_rule

if TYPE_CHECKING:
    from lambda_once.core.lifecycle import OnLapse
    from lambda_once.engine.history import HistorySource

FOR_QUEUES: Final = timedelta(days=14)
"""How long an outcome is kept by default: the longest retention of SQS (SQS developer guide, quotas)."""
FOR_API: Final = timedelta(days=1)
"""How long an API response is kept by default: clients stop retrying before that."""
FOR_HASHED_API: Final = timedelta(minutes=5)
"""How long the response to a request without a key is kept: a later equal request may be meant as new."""
LEASE_MARGIN: Final = timedelta(seconds=2)
"""
How long a lease lasts beyond the end of the invocation.

An attempt must have ended before another one takes its token over: clocks of hosts differ by less than a
second, and Lambda kills up to 0.7 s late.
"""

WAIT: Final = timedelta(seconds=30)
"""How long ``on_in_progress="wait"`` waits for the other attempt's outcome."""

T = TypeVar("T")
Seal = tuple[Callable[[bytes, str], bytes], Callable[[bytes, str], bytes]]
"""Encrypts and decrypts results and error messages, given bytes and a context."""
Pair = tuple[Callable[[Any], Any], Callable[[Any], Any]]
"""To JSON, and from JSON."""


class _AsOnce:
    def __repr__(self) -> str:
        return "<as Once>"


AS_ONCE: Any = _AsOnce()
"""The default of a decorator's policy: what `Once` was given."""
Check = Callable[[Any], str | None]
"""Returns None for a valid value, else a hint such as "give True or False"."""


class Where(Flag):
    """Where an option is accepted: on `Once` and on each kind of decorator."""

    ONCE = auto()
    MESSAGES = auto()
    """`Once.sns` and `Once.mq`."""
    QUEUE = auto()
    """`Once.sqs`."""
    STREAM = auto()
    """`Once.kinesis`, `Once.dynamodb_stream` and `Once.kafka`."""
    API = auto()
    """`Once.api_gateway` and `Once.route`."""
    EVENT = auto()
    """`Once.event`."""
    CALL = auto()
    """`Once.function` and `Once.run`."""
    BLOCK = auto()
    """`Once.begin`, whose key and scope are values."""
    EXECUTION = auto()
    """`Once.execution`, whose key and scope are values."""
    OUTCOME = auto()
    """`Once.outcome` and `Once.aoutcome`, which run nothing."""

    RECORDS = MESSAGES | QUEUE | STREAM
    KEYED = RECORDS | API | EVENT | CALL
    NAMED = KEYED | BLOCK | EXECUTION
    RESULT = EVENT | CALL | BLOCK | EXECUTION | OUTCOME
    POLICY = ONCE | KEYED | BLOCK
    EVERY = ONCE | NAMED


def option(default: T, check: Check, where: Where, copy: Callable[[Any], Any] | None = None) -> T:
    """Return a field of `Settings`. A given value is passed through *copy*, then checked by *check*."""
    return field(default=default, metadata={"check": check, "where": where, "copy": copy})


# -- checks


def anything(_value: object) -> None:
    """Accept any value: it is checked where it is used."""


def name_or_function(value: object) -> str | None:
    good = value if isinstance(value, str) else callable(value)
    return None if good else "give a non-empty text, or the decorated function whose name to share"


def positive(value: object) -> str | None:
    good = isinstance(value, timedelta) and value > timedelta(0)
    return None if good else "give a positive timedelta, such as timedelta(hours=1)"


def beyond_margin(value: Any) -> str | None:
    if (problem := positive(value)) is not None or value > LEASE_MARGIN:
        return problem
    return f"give more than {LEASE_MARGIN.seconds} s: clocks differ, and functions are killed late"


def one_of(*choices: str) -> Check:
    return lambda value: None if value in choices else f"give one of {', '.join(choices)}"


def conflict_or_wait(value: object) -> str | None:
    good = value in ("conflict", "wait") if isinstance(value, str) else positive(value) is None
    return None if good else "give conflict, wait or a positive timedelta, such as timedelta(seconds=10)"


def least(number: int) -> Check:
    def check(value: object) -> str | None:
        good = isinstance(value, int) and not isinstance(value, bool) and value >= number
        return None if good else f"give a whole number, {number} or more"

    return check


def flag(value: object) -> str | None:
    return None if isinstance(value, bool) else "give True or False"


def several(value: object) -> str | None:
    return None if isinstance(value, frozenset) else "give a set or a list"


def paths(value: object) -> str | None:
    good = isinstance(value, tuple) and all(isinstance(path, str) for path in value)
    return None if good else 'give a list of dotted paths, such as ("sentDate", "meta.retryCount")'


def expression(what: str, instead: str, *, callables: bool = True, or_false: bool = False) -> Check:
    """Return a check that raises `Misconfigured` for an expression that cannot be parsed."""

    def check(value: object) -> str | None:
        if isinstance(value, str):
            compile_expression(value, what)
            return None
        good = (or_false and value is False) or (callables and callable(value))
        return None if good else f"give a JMESPath expression{instead}"

    return check


def plain_def(arguments: int, what: str) -> Check:
    def check(value: Any) -> str | None:
        if not callable(value):
            return "give a callable"
        if is_async(value):
            return "give a plain def: an async one would not be awaited"
        return None if accepts(value, *[object()] * arguments) else f"it must accept {what}"

    return check


def pair_of(arguments: int, what: str) -> Check:
    def check(value: Any) -> str | None:
        if not (isinstance(value, tuple) and len(value) == 2 and all(map(callable, value))):  # noqa: PLR2004  (a pair)
            return f"give a pair of functions, {what}"
        if any(map(is_async, value)):
            return "give two plain defs: async ones would not be awaited"
        if all(accepts(each, *[object()] * arguments) for each in value):
            return None
        return f"both functions must accept {'one argument' if arguments == 1 else 'two arguments'}"

    return check


def error_policy(value: Any) -> str | None:
    if isinstance(value, Policy):
        return None
    if isinstance(value, Mapping):
        good = all(_is_exception(kind) and isinstance(policy, Policy) for kind, policy in value.items())
    else:
        good = callable(value) and not isinstance(value, type) and not is_async(value)
    if not good:
        return "give RELEASE, STORE, HOLD, {ExceptionType: one of them}, or a plain callable"
    takes_error = isinstance(value, Mapping) or accepts(value, object())
    return None if takes_error else "it must accept one argument, the exception"


def history_source(value: object) -> str | None:
    is_instance = not isinstance(value, type)
    good = is_instance and all(callable(getattr(value, name, None)) for name in ("of", "find", "check"))
    return None if good else "give an instance, PowertoolsHistory(persistence)"


_ADAPTER: Final = "pydantic.type_adapter.TypeAdapter"
_OF_POWERTOOLS: Final = "aws_lambda_powertools.utilities.parser.models."
_IN_A_BODY: Final = ("s3", "ses", "cloudformation_custom_resource")
"""Powertools' modules for events that SQS and SNS deliver as the body."""


def model_type(value: object) -> str | None:
    """
    Check that *value* is a type, by its kind alone: the types that it names may be defined later.

    A record or event model of Powertools isn't accepted: it has the fields around the body.
    """
    annotation = _inner_type(value)
    if not (
        isinstance(annotation, type | NewType)
        or get_origin(annotation) is not None
        or _is_alias(annotation)
        or _is_adapter(annotation)
    ):
        return "give a type, such as a class, a union or list[Order], or pydantic's TypeAdapter"
    model = _powertools_model(annotation)
    if model is None:
        return None
    return (
        f"{model} is Powertools' model of what is around the body, and model= is for the body: give its type"
    )


def _inner_type(value: Any) -> object:
    """Return the type of a `TypeAdapter`; *value* itself if it is none, or its type can't be read."""
    if not _is_adapter(value):
        return value
    from lambda_once.integrations.private import adapted_type

    return adapted_type(value)


def _is_adapter(value: object) -> bool:
    return any(f"{kind.__module__}.{kind.__qualname__}" == _ADAPTER for kind in type(value).__mro__)


def _is_alias(value: object) -> bool:
    return type(value).__name__ == "TypeAliasType"


def _powertools_model(annotation: Any, aliases: tuple[object, ...] = ()) -> str | None:
    """Return the first class in *annotation* that is or extends a Powertools model, by name; None if none."""
    if isinstance(annotation, type):
        modules = [kind.__module__ for kind in annotation.__mro__]
        paths = [name.removeprefix(_OF_POWERTOOLS) for name in modules if name.startswith(_OF_POWERTOOLS)]
        is_around = any(not path.startswith(_IN_A_BODY) for path in paths)
        return annotation.__name__ if is_around else None
    parts: Iterable[object] = get_args(annotation)
    if isinstance(annotation, NewType):
        parts = (annotation.__supertype__,)
    elif _is_alias(annotation) and annotation not in aliases:  # one may contain itself
        with suppress(Exception):  # it may name a type that is defined later
            parts = (annotation.__value__,)
    models = (_powertools_model(part, (*aliases, annotation)) for part in parts)
    return next((name for name in models if name is not None), None)


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


# -- copies: later changes by the caller must not affect a decorator


def each_in(kind: Callable[[Iterable[Any]], Any]) -> Callable[[Any], Any]:
    """Return a function that copies an iterable into *kind*, and returns text and other values unchanged."""

    def copy(value: Any) -> Any:
        is_several = isinstance(value, Iterable) and not isinstance(value, str | bytes)
        return kind(value) if is_several else value

    return copy


def upper_case(values: Iterable[object]) -> frozenset[str]:
    return frozenset(str(value).upper() for value in values)


def copied_mapping(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else value


# -- the table


@dataclass(frozen=True, eq=False)
class Settings:
    """All options, each with its default, its check, and where it is accepted. Made by `settings_of`."""

    name: str | Callable[..., Any] | None = option(None, name_or_function, Where.NAMED | Where.OUTCOME)
    key: Selector = option(None, expression("key", " or a callable"), Where.KEYED)
    scope: Selector = option(None, expression("scope", " or a callable"), Where.KEYED)
    fingerprint: str | Literal[False] | None = option(
        None, expression("fingerprint", ", or False for none", callables=False, or_false=True), Where.NAMED
    )
    ignore: Sequence[str] = option((), paths, Where.NAMED, each_in(tuple))
    keep: timedelta | None = option(None, positive, Where.EVERY)
    lease: timedelta | None = option(None, beyond_margin, Where.EVERY)
    on_error: OnError = option(RELEASE, error_policy, Where.EVERY, copied_mapping)
    on_lapse: OnLapseOption = option(None, anything, Where.EVERY)
    on_in_progress: Literal["conflict", "wait"] | timedelta = option(
        "conflict", conflict_or_wait, Where.POLICY
    )
    cache: int = option(0, least(0), Where.POLICY)
    history: HistorySource | None = option(None, history_source, Where.POLICY | Where.OUTCOME)
    seal: Seal | None = option(
        None,
        pair_of(2, "(encrypt, decrypt), of bytes and a context"),
        Where.POLICY | Where.OUTCOME,
        each_in(tuple),
    )
    seal_required: bool = option(False, flag, Where.POLICY | Where.OUTCOME)
    returns: Any = option(None, anything, Where.RESULT)
    codec: Pair | None = option(None, pair_of(1, "(to_json, from_json)"), Where.RESULT, each_in(tuple))
    on_replay: Callable[[Any, Any], Any] | None = option(
        None, plain_def(2, "two arguments, the result and a Replayed"), Where.EVENT | Where.CALL | Where.API
    )
    model: Any = option(None, model_type, Where.RECORDS)
    concurrency: int = option(10, least(1), Where.QUEUE | Where.STREAM)
    raise_on_entire_batch_failure: bool = option(True, flag, Where.QUEUE)
    report_failures: bool = option(False, flag, Where.STREAM)
    on_give_up: Callable[[Any, Any], object] | None = option(
        None, plain_def(2, "two arguments, the record and the error"), Where.STREAM
    )
    methods: Collection[str] | None = option(None, several, Where.API, each_in(upper_case))
    without_key: Literal["hash", "reject", "run"] | None = option(
        None,
        one_of("hash", "reject", "run"),
        Where.API | Where.EVENT | Where.CALL | Where.QUEUE | Where.MESSAGES,
    )
    unscoped: Literal["warn", "refuse"] = option(
        "warn", one_of("warn", "refuse"), Where.ONCE | Where.API | Where.EVENT
    )
    store_status: Collection[int] = option(frozenset(), several, Where.API, each_in(frozenset))
    problem: Callable[[Any], Any] | None = option(None, plain_def(1, "one argument, the Problem"), Where.API)
    caller: Selector | Literal[False] = option(
        None,
        expression("caller", " or a callable, or False for none", or_false=True),
        Where.API | Where.EVENT,
    )

    @cached_property
    def rule(self) -> OnLapse:
        """What happens to a lapsed token. Raises `Misconfigured` if ``on_error`` contradicts it."""
        return lapse_rule(self.on_lapse, self.on_error)[0]

    @property
    def probe(self) -> Probe | None:
        return self.on_lapse if callable(self.on_lapse) else None

    @property
    def longest_wait(self) -> timedelta | None:
        """How long a duplicate polls for the outcome of the attempt in progress; None: not at all."""
        match self.on_in_progress:
            case "conflict":
                return None
            case "wait":
                return WAIT
            case longest:
                return longest


_ROWS: Final = {row.name: row for row in fields(Settings)}


def options_of(where: Where) -> frozenset[str]:
    """Return the names of the options that are accepted anywhere in *where*."""
    return frozenset(name for name, row in _ROWS.items() if where & row.metadata["where"])


@cache
def _parameters(where: Where) -> dict[str, Any]:
    """Return the options that are accepted at *where*, with their defaults as parameters."""
    return {
        row.name: AS_ONCE if Where.ONCE in row.metadata["where"] and where is not Where.ONCE else row.default
        for row in _ROWS.values()
        if where in row.metadata["where"]
    }


def given_in(arguments: Mapping[str, Any], where: Where) -> dict[str, Any]:
    """Return the options that *arguments*, those of a method of `Once`, set; with its unknown ones."""
    defaults = _parameters(where).items()
    options = {
        name: arguments[name] for name, default in defaults if arguments.get(name, default) is not default
    }
    return {**options, **arguments["unknown"]}


@cache
def signature_of_options(where: Where, *others: str) -> Signature:
    """Return the signature of a decorator that is accepted at *where*, with the options *others*."""
    options = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=_ROWS[name].type)
        for name, default in _parameters(where).items()
    ]
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in others]
    return Signature([Parameter("f", Parameter.POSITIONAL_ONLY, default=None), *more, *options])


def settings_of(
    defaults: Settings, options: Mapping[str, Any], where: Where, *, besides: Iterable[str] = ()
) -> Settings:
    """
    Return *defaults* overridden by the *options* given at *where*.

    Raises `Misconfigured` for an option not accepted there, for an invalid value, and for options that
    contradict each other. *besides*: further known options, for the message.
    """
    options = {name: value for name, value in options.items() if value is not AS_ONCE}
    unknown = [name for name in options if name not in _ROWS or where not in _ROWS[name].metadata["where"]]
    if unknown:
        raise Misconfigured(_unknown(sorted(unknown), sorted({*options_of(where), *besides})))
    settings = replace(defaults, **{name: _checked(name, value) for name, value in options.items()})
    if settings.codec is not None and settings.returns is not None:
        raise Misconfigured(f"codec={settings.codec!r}: it replaces returns=: give one of them")
    if where is Where.API:
        _check_of_requests(settings)
    elif settings.without_key is not None:
        _check_without_key(settings)
    if settings.seal_required and settings.seal is None and where is not Where.ONCE:
        raise Misconfigured(
            "seal_required=True without seal=: give seal=(encrypt, decrypt), or seal_required=False"
        )
    _ = settings.rule
    return settings


def _check_of_requests(settings: Settings) -> None:
    """
    Check that key and fingerprint of HTTP requests are not written for the whole event.

    They would select nothing: each request would get 400, or none would be compared. Raises `Misconfigured`.
    """
    for name in ("key", "fingerprint"):
        selector = getattr(settings, name)
        if not isinstance(selector, str):
            continue
        from lambda_once.core.expressions import of_a_body  # jmespath costs a cold start

        instead = of_a_body(selector, name)
        if instead is not None:
            raise Misconfigured(
                f"{name}={selector!r} is for the whole event, and over HTTP {name}= selects from the parsed "
                f"body: {instead}"
            )


def _check_without_key(settings: Settings) -> None:
    """Check ``without_key=`` of work that isn't an HTTP request. Raises `Misconfigured`."""
    argument = f"without_key={settings.without_key!r}"
    if settings.without_key != "run":
        raise Misconfigured(
            f'{argument}: give "run", or leave it out, and work for which key= selects nothing is KeyMissing'
        )
    if settings.key is None:
        raise Misconfigured(
            f"{argument} without key=: there always is a key then, the source's own or the hash of the "
            "payload. Pass key=, or leave it out"
        )


def _checked(name: str, value: Any) -> Any:
    row = _ROWS[name]
    copy = row.metadata["copy"]
    value = value if copy is None else copy(value)
    if value is row.default:
        return value
    problem = row.metadata["check"](value)
    if problem is not None:
        raise Misconfigured(f"{name}={value!r}: {problem}")
    return value


def _unknown(names: list[str], options: list[str]) -> str:
    likely = closest(names[0], options)
    hint = "" if likely is None else f" (did you mean {likely}?)"
    if "model" in names:
        hint = (
            " (it is for decorators of records, such as once.sqs: above this decorator put Powertools' "
            "@event_parser(model=…))"
        )
    return f"unknown option {', '.join(names)}{hint}; the options are {', '.join(options)}"
