"""Metrics and logs of a pattern's outcomes, by the user's Powertools objects."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar

from lambda_once.errors import Misconfigured, OnceError
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter
from lambda_once.patterns import results

if TYPE_CHECKING:
    from lambda_once.observability.reporter import AnyLogger, Namespaced

P = ParamSpec("P")
R = TypeVar("R")

EVENTS: Final[Mapping[type, Event]] = {
    results.Applied: Event.APPLIED,
    results.Duplicate: Event.DUPLICATE,
    results.Stale: Event.STALE,
    results.Refused: Event.BELOW_FLOOR,
    results.Conflict: Event.CONFLICT,
    results.Full: Event.FULL,
    results.TooFarAhead: Event.TOO_FAR_AHEAD,
    results.VersionAhead: Event.TOO_FAR_AHEAD,
}
"""Events by outcome; other outcomes have none. A duplicate with other content is `Event.KEY_REUSED`."""


class Observer:
    """
    Reports for one pattern: counts with *metrics*, logs with *logger*. Without them only mistakes are logged.

    An error in a logger or in the metrics changes no outcome (`Reporter`). *resource* is the name of the
    table, topic or queue; *key* returns the key from the first argument of an operation.
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
        self._known: dict[str, Any] = {"pattern": type(pattern).__name__, "resource": resource}
        self._counts, self._logs = metrics is not None, logger is not None
        self._key = key
        self._warned: set[Event] = set()
        self._reporter = Reporter(service, metrics=metrics, logger=logger)

    def report(self, event: Event, given: object = None, *, times: int = 1, **details: Any) -> None:
        """Count and log *event*; *given* is the first argument of the operation."""
        if self._counts and event.metric is not None:
            self._reporter.measure({event.metric: times})
        if self._logs:
            self._log(event, given, details)

    def warn_once(self, event: Event, given: object, reason: str) -> None:
        """Log the first *event* of this pattern, a mistake in code, even without ``logger=``."""
        if event not in self._warned:
            self._warned.add(event)
            self._log(event, given, {"reason": reason})

    def _log(self, event: Event, given: object, details: dict[str, Any]) -> None:
        with suppress(Exception):  # a key that has no text
            details["key"] = None if given is None else _text(self._key(given))
        self._reporter.log(Details(event, **self._known, **details))


def _text(key: object) -> str:
    parts = key.values() if isinstance(key, Mapping) else key if isinstance(key, tuple) else (key,)
    return "/".join(map(str, parts))


def observed(operation: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Report the result or error of *operation*, a method whose first argument contains the key."""
    first = operation.__code__.co_varnames[1]

    @wraps(operation)
    def reported(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        outcome: object = None
        try:
            result = outcome = operation(self, *args, **kwargs)
        except OnceError as error:
            outcome = error
            raise
        finally:
            event = EVENTS.get(type(outcome))
            if event is not None:
                other = isinstance(outcome, results.Duplicate) and not outcome.same
                event = Event.KEY_REUSED if other else event
                self._observer.report(event, args[0] if args else kwargs[first])
        return result

    return reported
