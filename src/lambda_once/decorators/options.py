"""The options of `Once` and of its decorators, checked when they are given."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from lambda_once.core.keys import Selector, compile_expression
from lambda_once.core.signatures import accepts, is_async
from lambda_once.engine.acquire import MARGIN
from lambda_once.engine.invocation import Plan, never_an_error
from lambda_once.errors import Misconfigured
from lambda_once.policies import RELEASE, OnError, OnLapseOption, Policy, lapse_rule

if TYPE_CHECKING:
    from lambda_once.core.codec import Codec
    from lambda_once.engine.history import HistorySource

FOR_QUEUES = timedelta(days=14)
"""How long an outcome is kept by default: the longest retention of SQS (SQS developer guide, quotas)."""
FOR_API = timedelta(days=1)
"""How long an API response is kept by default: clients give up before that."""
FOR_HASHED_API = timedelta(minutes=5)
"""How long the response to a request without a key is kept: the same request later may be intended."""

POLICIES = frozenset(
    {
        *("keep", "lease", "on_error", "on_lapse", "on_in_progress", "wait_for"),
        *("cache", "history", "seal"),
    }
)
"""The options that `Once` takes for all its decorators."""
PARTS = frozenset(
    {"table", "client", "store", "service", "metrics", "logger", "tracer", "hooks", "require_key"}
)
"""The other options of `Once`."""
KEYING = frozenset({"name", "key", "scope", "fingerprint", "ignore"})
RECORDS = POLICIES | KEYING | {"model"}
QUEUE = RECORDS | {"concurrency", "raise_on_entire_batch_failure"}
STREAM = RECORDS | {"concurrency", "report_failures", "on_give_up"}
EVENT = POLICIES | KEYING | {"returns", "codec", "on_replay"}
EXECUTION = KEYING - {"key", "scope"} | {"keep", "lease", "on_error", "on_lapse", "returns", "codec"}
API = POLICIES | KEYING | {"methods", "without_key", "store_status", "problem", "on_replay", "caller"}


class Settings(NamedTuple):
    """All options, with defaults. `settings_of` makes and checks it."""

    name: str | None = None
    key: Selector = None
    scope: Selector = None
    fingerprint: str | Literal[False] | None = None
    ignore: Sequence[str] = ()
    keep: timedelta | None = None
    lease: timedelta | None = None
    on_error: OnError = RELEASE
    on_lapse: OnLapseOption = None
    on_in_progress: Literal["conflict", "wait"] = "conflict"
    wait_for: timedelta = timedelta(seconds=30)
    cache: int = 0
    history: HistorySource | None = None
    seal: tuple[Callable[[bytes, str], bytes], Callable[[bytes, str], bytes]] | None = None
    returns: Any = None
    codec: tuple[Callable[[Any], object], Callable[[Any], object]] | None = None
    on_replay: Callable[[Any, Any], Any] | None = None
    model: Any = None
    concurrency: int = 10
    raise_on_entire_batch_failure: bool = True
    report_failures: bool = False
    on_give_up: Callable[[Any, Any], object] | None = None
    methods: frozenset[str] | None = None
    without_key: Literal["hash", "reject", "run"] = "hash"
    store_status: frozenset[int] = frozenset()
    problem: Callable[[Any], Any] | None = None
    caller: Selector | Literal[False] = None

    def plan(
        self,
        codec: Codec,
        keep: timedelta = FOR_QUEUES,
        error_in: Callable[[Any], BaseException | None] = never_an_error,
    ) -> Plan:
        """Resolve the policies; *keep* is the default of ``keep=``."""
        on_lapse, probe = lapse_rule(self.on_lapse, self.on_error)
        return Plan(
            keep=self.keep or keep,
            lease=self.lease,
            on_error=self.on_error,
            on_lapse=on_lapse,
            probe=probe,
            waits=self.on_in_progress == "wait",
            wait_for=self.wait_for,
            cache=self.cache,
            codec=codec,
            seal=self.seal,
            error_in=error_in,
        )


def settings_of(
    defaults: Settings,
    options: Mapping[str, Any],
    allowed: frozenset[str],
    *,
    besides: frozenset[str] = frozenset(),
) -> Settings:
    """
    Return *defaults* overridden by the *options* of a decorator.

    Raises `Misconfigured` for an option that is not *allowed*, and for an invalid value. *besides*: other
    known options, for the message.
    """
    unknown = sorted(options.keys() - allowed)
    if unknown:
        raise Misconfigured(_unknown(unknown, sorted(allowed | besides)))
    settings = defaults._replace(**_frozen(options))
    for name, problem in _problems(settings):
        raise Misconfigured(f"{name}={getattr(settings, name)!r}: {problem}")
    lapse_rule(settings.on_lapse, settings.on_error)
    for selector, what in (
        (settings.key, "key"),
        (settings.scope, "scope"),
        (settings.fingerprint, "fingerprint"),
        (settings.caller, "caller"),
    ):
        if isinstance(selector, str):
            compile_expression(selector, what)
    return settings


def _unknown(names: list[str], options: list[str]) -> str:
    import difflib

    likely = difflib.get_close_matches(names[0], options, n=1)
    hint = f" (did you mean {likely[0]}?)" if likely else ""
    if "model" in names:
        hint = (
            " (it is for decorators of records, such as once.sqs: above this decorator put Powertools' "
            "@event_parser(model=…))"
        )
    return f"unknown option {', '.join(names)}{hint}; the options are {', '.join(options)}"


def _frozen(options: Mapping[str, Any]) -> dict[str, Any]:
    """Copy values that the caller could change later."""
    copies: dict[str, Callable[[Any], Any]] = {
        "methods": lambda value: (
            frozenset(str(method).upper() for method in value) if _is_several(value) else value
        ),
        "store_status": lambda value: frozenset(value) if _is_several(value) else value,
        "ignore": lambda value: value if isinstance(value, str) else tuple(value),
        "codec": lambda value: tuple(value) if _is_several(value) else value,
        "seal": lambda value: tuple(value) if _is_several(value) else value,
        "on_error": lambda value: dict(value) if isinstance(value, Mapping) else value,
    }
    return {
        name: copies[name](value) if name in copies and value is not None else value
        for name, value in options.items()
    }


_CHOICES: dict[str, tuple[str, ...]] = {
    "on_in_progress": ("conflict", "wait"),
    "without_key": ("hash", "reject", "run"),
}
_PATHS = 'give a list of dotted paths, such as ("sentDate", "meta.retryCount")'


def _problems(settings: Settings) -> Iterable[tuple[str, str]]:
    """Yield the name of each option with an invalid value, and what to give instead."""
    for name in ("keep", "lease", "wait_for"):
        value = getattr(settings, name)
        absent = value is None and name != "wait_for"
        if not absent and not (isinstance(value, timedelta) and value > timedelta(0)):
            yield name, "give a positive timedelta, such as timedelta(hours=1)"
    if isinstance(settings.lease, timedelta) and timedelta(0) < settings.lease <= MARGIN:
        yield "lease", f"give more than {MARGIN.seconds} s: clocks differ, and functions are killed late"
    for name, allowed in _CHOICES.items():
        if getattr(settings, name) not in allowed:
            yield name, f"give one of {', '.join(allowed)}"
    for name, least in (("cache", 0), ("concurrency", 1)):
        value = getattr(settings, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            yield name, f"give a whole number, {least} or more"
    for name in ("raise_on_entire_batch_failure", "report_failures"):
        if not isinstance(getattr(settings, name), bool):
            yield name, "give True or False"
    yield from _storing_problems(settings)
    yield from _keying_problems(settings)
    yield from _answering_problems(settings)


def _storing_problems(settings: Settings) -> Iterable[tuple[str, str]]:
    if settings.history is not None and not _is_history(settings.history):
        yield "history", "give an instance, PowertoolsHistory(persistence)"
    yield from _pair_problems("codec", settings.codec, "(to_json, from_json)", 1)
    yield from _pair_problems("seal", settings.seal, "(encrypt, decrypt), of bytes and the token", 2)
    if settings.codec is not None and settings.returns is not None:
        yield "codec", "it replaces returns=: give one of them"


def _pair_problems(name: str, pair: object, what: str, arguments: int) -> Iterable[tuple[str, str]]:
    if pair is None:
        return
    if not (isinstance(pair, tuple) and len(pair) == 2 and all(map(callable, pair))):  # noqa: PLR2004  (a pair)
        yield name, f"give a pair of functions, {what}"
    elif any(map(is_async, pair)):
        yield name, "give two plain defs: async ones would not be awaited"
    elif not all(accepts(each, *[object()] * arguments) for each in pair):
        yield name, f"both functions must accept {'one argument' if arguments == 1 else 'two arguments'}"


def _answering_problems(settings: Settings) -> Iterable[tuple[str, str]]:
    for name in ("methods", "store_status"):
        value = getattr(settings, name)
        if not (value is None or isinstance(value, frozenset)):
            yield name, "give a set or a list"
    for name, what, arguments in (
        ("on_replay", "two arguments, the result and a Replayed", 2),
        ("problem", "one argument, the Problem", 1),
        ("on_give_up", "two arguments, the record and the error", 2),
    ):
        value = getattr(settings, name)
        if value is None:
            continue
        if not callable(value):
            yield name, "give a callable"
        elif is_async(value):
            yield name, "give a plain def: an async one would not be awaited"
        elif not accepts(value, *[object()] * arguments):
            yield name, f"it must accept {what}"
    if not _is_on_error(settings.on_error):
        yield "on_error", "give RELEASE, STORE, HOLD, {ExceptionType: one of them}, or a plain callable"
    elif callable(settings.on_error) and not accepts(settings.on_error, object()):
        yield "on_error", "it must accept one argument, the exception"


def _is_history(value: object) -> bool:
    is_instance = not isinstance(value, type)
    return is_instance and all(callable(getattr(value, name, None)) for name in ("of", "check"))


def _is_several(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes)


def _is_on_error(value: object) -> bool:
    if isinstance(value, Mapping):
        return all(_is_exception(kind) and isinstance(policy, Policy) for kind, policy in value.items())
    plain_callable = callable(value) and not isinstance(value, type) and not is_async(value)
    return isinstance(value, Policy) or plain_callable


def _is_exception(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseException)


def _keying_problems(settings: Settings) -> Iterable[tuple[str, str]]:
    if isinstance(settings.ignore, str) or not all(isinstance(path, str) for path in settings.ignore):
        yield "ignore", _PATHS
    if settings.name is not None and not (isinstance(settings.name, str) and settings.name):  # type: ignore[redundant-expr]
        yield "name", "give a non-empty string"
    if not (
        settings.fingerprint is None or settings.fingerprint is False or isinstance(settings.fingerprint, str)
    ):
        yield "fingerprint", "give a JMESPath expression, or False for none"
    for name in ("key", "scope"):
        value = getattr(settings, name)
        if not (value is None or isinstance(value, str) or callable(value)):
            yield name, "give a JMESPath expression or a callable"
    caller = settings.caller
    if not (caller is None or caller is False or isinstance(caller, str) or callable(caller)):
        yield "caller", "give a JMESPath expression or a callable, or False for none"
