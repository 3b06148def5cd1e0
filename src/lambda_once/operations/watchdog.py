"""
The watchdog: a scheduled function that says what is overdue, and settles what it may.

    handler = watchdog("tokens", actions={"orders.ship.*": "release", "orders.charge": was_it_charged})

A run is idempotent, and two at once do no harm: every verdict is one write, conditional on the row as it
was read. `handler` in this module is ready made, and takes its options from the environment.
"""

from __future__ import annotations

import os
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from lambda_once.core.clock import SystemClock
from lambda_once.errors import Misconfigured
from lambda_once.observability.events import Event
from lambda_once.observability.reporter import Details, Reporter
from lambda_once.operations.acting import Action, Actions
from lambda_once.operations.clock import CorrectedClock
from lambda_once.operations.rounds import Bounds, Rounds
from lambda_once.operations.table import TokenTable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lambda_once.core.clock import Clock
    from lambda_once.observability.sinks import AnyLogger, Namespaced

    Handler = Callable[[Any, Any], dict[str, Any]]

GRACE: Final = timedelta(seconds=10)
"""
How long after its lease a token counts as overdue.

The lease has 2 s for late kills and clocks already; the index may be a little behind the table, and what
was completed at the last moment should not wake anybody.
"""
TIMES: Final = 3
"""How often one token is released before a person is called."""
ROWS: Final = 1_000
"""Overdue tokens that one run looks at: on DynamoDB Local one second, three where each is released."""

_ANSWERS: Final = {"": None, "true": True, "false": False}


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
    Return a Lambda handler; each call is one run. Nothing is connected before the first.

    *actions*: what is done about overdue tokens, by patterns (`fnmatch`) of ``service/name`` or name; the
    first match counts. ``"release"`` gives them back. A probe gets a `Lapsed`, and no arguments, and answers
    ``Done(result)``, NOT_DONE or UNKNOWN (plain or awaited): completed, given back, held. What it raises
    leaves the token as it is. What the watchdog gave back *times* times is held instead. A token of
    no pattern is only reported. *rows*: how many a run looks at; the next run goes on behind them.
    *sweep*: delete what is past its ttl; None asks whether the table has TTL, once an environment.

    A run returns ``{"overdue", "oldestSeconds", "held", "checked", "released", "completed", "newlyHeld",
    "refused", "swept", "truncated"}``: numbers of tokens, seconds, and whether overdue tokens were left
    unchecked. It raises
    `StoreUnavailable` and `Misconfigured`, so that Lambda's Errors metric rings; the next run goes on.
    Raises `Misconfigured` for unsound options.
    """
    allowed = Actions(actions or {}, times)
    if rows < 1:
        raise Misconfigured(f"rows is {rows}: give how many overdue tokens a run looks at, 1 or more")
    reporter = Reporter(service, metrics=metrics, logger=logger)
    judging = CorrectedClock(SystemClock()) if clock is None else clock
    if isinstance(judging, CorrectedClock):
        judging.told = lambda reason: reporter.log(Details(Event.CLOCK_SKEW, reason=reason))

    @cache
    def rounds() -> Rounds:
        return Rounds(
            TokenTable(table, client, judging), allowed, reporter, Bounds(rows, grace), sweeps=sweep
        )

    def handler(event: Any, context: Any = None) -> dict[str, Any]:
        del event
        return rounds().run(context)

    return handler


def handler(event: Any, context: Any = None) -> dict[str, Any]:
    """
    Make one run by the environment; `watchdog` says what it does. Unsound settings raise `Misconfigured`.

    LAMBDA_ONCE_TABLE and LAMBDA_ONCE_STATUS_SHARDS: as the functions have them.
    LAMBDA_ONCE_WATCHDOG_RELEASE: patterns of functions whose overdue tokens are given back, with commas.
    LAMBDA_ONCE_WATCHDOG_TIMES, LAMBDA_ONCE_WATCHDOG_ROWS: whole numbers.
    LAMBDA_ONCE_WATCHDOG_SWEEP: true or false; unset, the table is asked whether it has TTL.
    """
    return _by_environment()(event, context)


@cache
def _by_environment() -> Handler:
    patterns = os.environ.get("LAMBDA_ONCE_WATCHDOG_RELEASE", "").split(",")
    release: dict[str, Action] = {pattern.strip(): "release" for pattern in patterns if pattern.strip()}
    return watchdog(
        actions=release,
        times=_number("LAMBDA_ONCE_WATCHDOG_TIMES", TIMES),
        rows=_number("LAMBDA_ONCE_WATCHDOG_ROWS", ROWS),
        sweep=_answer("LAMBDA_ONCE_WATCHDOG_SWEEP"),
    )


def _number(name: str, otherwise: int) -> int:
    given = os.environ.get(name) or str(otherwise)
    if not (given.isascii() and given.isdigit()):
        raise Misconfigured(f"{name} is {given!r}: give a whole number")
    return int(given)


def _answer(name: str) -> bool | None:
    given = os.environ.get(name, "")
    if given not in _ANSWERS:
        raise Misconfigured(f"{name} is {given!r}: give true or false, or leave it unset")
    return _ANSWERS[given]
