"""
The watchdog: a scheduled function that reports overdue tokens, and resolves those it may.

    handler = watchdog("tokens", actions={"orders.ship.*": "release", "orders.charge": was_it_charged})

A run is idempotent, and concurrent runs are safe: each token is resolved by one write, conditional on the
row as it was read. `handler` in this module is ready-made, and reads its options from the environment.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.errors import Misconfigured
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter
from lambda_once.operations.clock import CorrectedClock
from lambda_once.operations.table import TokenTable
from lambda_once.operations.watchdog_actions import Action, Actions
from lambda_once.operations.watchdog_run import Bounds, Watchdog

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lambda_once.observability.reporter import AnyLogger, Namespaced

    Handler = Callable[[Any, Any], dict[str, Any]]

GRACE: Final = timedelta(seconds=10)
"""
How long after its lease a token counts as overdue.

The lease has a margin of 2 s for late kills and clocks already; the index may be slightly behind the table,
and a token that completed at the last moment should not raise an alarm.
"""
TIMES: Final = 3
"""How often one token is released before it is held for manual review."""
ROWS: Final = 1_000
"""Overdue tokens that one run checks: on DynamoDB Local one second, three if each is released."""

_BOOLEANS: Final = {"": None, "true": True, "false": False}


def watchdog(  # noqa: PLR0913  (one keyword an option: the signature is the documentation)
    table: str | None = None,
    client: Any = None,
    clock: Clock | None = None,
    *,
    actions: Mapping[str, Action] | None = None,
    times: int = TIMES,
    rows: int = ROWS,
    metrics: Namespaced | None = None,
    logger: AnyLogger | None = None,
    service: str | None = None,
    grace: timedelta = GRACE,
    sweep: bool | None = None,
) -> Handler:
    """
    Return a Lambda handler; each call is one run. Connects on the first.

    *actions*: what to do about overdue tokens, by patterns (`fnmatch`) of ``service/name`` or name; the
    first match counts. ``"release"`` releases them. A probe gets a `Lapsed`, without the work's arguments,
    and returns ``Done(result)``, NOT_DONE or UNKNOWN (plain or awaitable): the token is completed, released
    or held. If it raises, the token stays unchanged. After *times* releases by the watchdog the token is
    held. A token that matches no pattern is only reported. *rows*: how many a run checks; the next run
    continues after them. *sweep*: delete rows past their ttl; None: if the table has no TTL, which is queried
    once per environment.

    A run returns ``{"overdue", "oldestSeconds", "held", "checked", "released", "completed", "newlyHeld",
    "refused", "swept", "truncated"}``: numbers of tokens, seconds, and whether overdue tokens were left
    unchecked. It raises `StoreUnavailable` and `Misconfigured`, which Lambda's Errors metric counts; the next
    run continues. Raises `Misconfigured` for invalid options.
    """
    allowed = Actions(actions or {}, times)
    if rows < 1:
        raise Misconfigured(f"rows is {rows}: a run must check 1 or more overdue tokens")
    reporter = Reporter(service, metrics=metrics, logger=logger)
    judging = CorrectedClock(SystemClock()) if clock is None else clock
    if isinstance(judging, CorrectedClock):
        judging.warn = lambda reason: reporter.log(Details(Event.CLOCK_SKEW, reason=reason))

    @cache
    def connected() -> Watchdog:
        bounds = Bounds(rows, grace)
        return Watchdog(TokenTable(table, client, judging), allowed, reporter, bounds, sweeps=sweep)

    def handler(event: Any, context: Any = None) -> dict[str, Any]:
        del event
        return connected().run(context)

    return handler


def handler(event: Any, context: Any = None) -> dict[str, Any]:
    """
    Make one run, configured by the environment. Raises as `watchdog`; invalid settings: `Misconfigured`.

    LAMBDA_ONCE_TABLE and LAMBDA_ONCE_STATUS_SHARDS: as for the functions.
    LAMBDA_ONCE_WATCHDOG_RELEASE: comma-separated patterns of functions whose overdue tokens are released.
    LAMBDA_ONCE_WATCHDOG_TIMES, LAMBDA_ONCE_WATCHDOG_ROWS: whole numbers.
    LAMBDA_ONCE_WATCHDOG_SWEEP: true or false; unset: true if the table has no TTL.
    """
    return _from_environment()(event, context)


@cache
def _from_environment() -> Handler:
    patterns = os.environ.get("LAMBDA_ONCE_WATCHDOG_RELEASE", "").split(",")
    release: dict[str, Action] = {pattern.strip(): "release" for pattern in patterns if pattern.strip()}
    return watchdog(
        actions=release,
        times=_number("LAMBDA_ONCE_WATCHDOG_TIMES", TIMES),
        rows=_number("LAMBDA_ONCE_WATCHDOG_ROWS", ROWS),
        sweep=_boolean("LAMBDA_ONCE_WATCHDOG_SWEEP"),
    )


def _number(name: str, default: int) -> int:
    given = os.environ.get(name) or str(default)
    if not (given.isascii() and given.isdigit()):
        raise Misconfigured(f"{name} is {given!r}: set it to a whole number")
    return int(given)


def _boolean(name: str) -> bool | None:
    given = os.environ.get(name, "")
    if given not in _BOOLEANS:
        raise Misconfigured(f"{name} is {given!r}: set it to true or false, or leave it unset")
    return _BOOLEANS[given]
