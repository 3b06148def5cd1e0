"""What operators see of a pattern: each outcome is counted and logged, by the user's Powertools objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

from lambda_once.errors import Misconfigured, OnceError
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter
from lambda_once.patterns.results import (
    Applied,
    Conflict,
    Duplicate,
    Full,
    Refused,
    Stale,
    TooFarAhead,
    VersionAhead,
)

if TYPE_CHECKING:
    from lambda_once.observability.reporter import AnyLogger, Namespaced

EVENTS: Final[Mapping[type, Event]] = {
    Applied: Event.APPLIED,
    Duplicate: Event.DUPLICATE,
    Stale: Event.STALE,
    Refused: Event.BELOW_FLOOR,
    Conflict: Event.CONFLICT,
    Full: Event.FULL,
    TooFarAhead: Event.TOO_FAR_AHEAD,
    VersionAhead: Event.TOO_FAR_AHEAD,
}


def event_of(outcome: object) -> Event | None:
    """Return the event of *outcome*, a result or an error; None where an operator need not know of it."""
    if isinstance(outcome, Duplicate) and not outcome.same:
        return Event.KEY_REUSED
    return EVENTS.get(type(outcome))


class Observer:
    """
    Reports for one pattern: counts with *metrics*, logs with *logger*, and is silent without them.

    What fails in a logger or in the metrics changes no outcome (`Reporter`). *resource* is the name of the
    table, topic or queue; *key* returns the key of what an operation is called with.
    """

    def __init__(
        self,
        pattern: object,
        resource: str,
        metrics: Namespaced | None,
        logger: AnyLogger | None,
        *,
        service: str | None = None,
        key: Callable[[Any], object] = lambda given: given,
    ) -> None:
        for name, part in (("metrics", metrics), ("logger", logger)):
            if isinstance(part, type):
                raise Misconfigured(f"{name}={part.__name__} is a class: pass an instance")
        self._pattern, self._resource = type(pattern).__name__, resource
        self._counts, self._logs = metrics is not None, logger is not None
        self._key = key
        self._reporter = Reporter(service, metrics=metrics, logger=logger)

    def report(self, event: Event, given: object = None, *, times: int = 1, **details: Any) -> None:
        """Count and log *event*; *given* is the first argument of the operation."""
        if self._counts and event.metric is not None:
            self._reporter.measure({event.metric: times})
        if self._logs:
            known: dict[str, Any] = {
                "pattern": self._pattern,
                "resource": self._resource,
                "key": self._key_text(given),
            }
            self._reporter.log(Details(event, **known, **details))

    def _key_text(self, given: object) -> str | None:
        try:
            key = self._key(given)
            parts = key.values() if isinstance(key, Mapping) else key if isinstance(key, tuple) else (key,)
            return None if given is None else "/".join(map(str, parts))
        except Exception:  # noqa: BLE001 - a key that has no text must not decide an outcome
            return None


class _Observed(Protocol):
    @property
    def _observer(self) -> Observer: ...


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=_Observed)


def observed(operation: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Report the result or error of *operation*, a method of a pattern whose first argument has the key."""
    first = operation.__code__.co_varnames[1]

    @wraps(operation)
    def reported(self: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        outcome: object = None
        try:
            result = operation(self, *args, **kwargs)
        except OnceError as error:
            outcome = error
            raise
        else:
            outcome = result
            return result
        finally:
            event = event_of(outcome)
            if event is not None:
                self._observer.report(event, args[0] if args else kwargs[first])

    return reported
