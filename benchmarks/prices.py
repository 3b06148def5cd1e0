"""What DynamoDB and CloudWatch charge for, at list prices: the arithmetic of docs/costs.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from lambda_once.core.lifecycle import State
from lambda_once.observability.events import Event
from lambda_once.stores.index import partitions

if TYPE_CHECKING:
    from benchmarks.bill import Charged

CHECKED: Final = "2026-11-20"
REGION: Final = "us-east-1"
SOURCES: Final = {
    "DynamoDB, on demand, Standard table class": "https://aws.amazon.com/dynamodb/pricing/on-demand/",
    "CloudWatch": "https://aws.amazon.com/cloudwatch/pricing/",
}
GIGABYTE = 1e9
MONTH_DAYS = 30.4
KEPT_DAYS = 14
USUAL_METRICS: Final = ("started", "completed", "replayed")
WATCHDOG_METRICS: Final = (
    *("missingTasks", "newlyOverdue", "oldestOverdueSeconds", "heldTokens", "tokensInProgress"),
    *("newlyReleased", "releasedTokens", "watchdogTruncated"),
)
WATCHDOG_MINUTES = 5
WATCHDOG_QUERIES: Final = 3 * len(partitions(State.IN_PROGRESS)) + 1
"""Of a run that finds nothing: each partition of a state in the index; and a read for the time."""
EMPTY_QUERY_UNITS = 0.5
"""
Read units of a query, eventually consistent, that finds nothing.

DynamoDB developer guide, "Capacity unit consumption for read operations"; dynoxide says 0.
"""


class Alarms(NamedTuple):
    """What the alarms of a template are charged for."""

    listed: int
    """Metrics that they list."""
    queries: int = 0
    """Alarms by query, each charged for the metrics that it finds: one for each function that wrote it."""


ALARMS: Final = {
    "the six of tokens.yaml": Alarms(3, 3),
    "the seventh, TasksInProgress": Alarms(1),
    "alarms.yaml": Alarms(11, 11),
    "operations.yaml": Alarms(0, 5),
    "the shop's alarms.yaml": Alarms(31),
}


class Prices(NamedTuple):
    """
    List prices in dollars, `REGION`, looked up on the day `CHECKED`; free tiers are left out.

    Prices change: who budgets with them reads `SOURCES` first, and gives what stands there.
    """

    write: float = 0.625
    """A million write request units; since 2024-11-01."""
    read: float = 0.125
    """A million read request units; since 2024-11-01."""
    storage: float = 0.25
    """A GB and month."""
    backup: float = 0.20
    """A GB and month, point-in-time recovery."""
    logs: float = 0.50
    """A GB taken in, the first tier of the Standard class."""
    metric: float = 0.30
    """A custom metric and month, the first 10,000."""
    alarm: float = 0.10
    """A metric of an alarm and month; of a Metrics Insights query, each that it analyses."""


LIST = Prices()


def requests(charged: Charged, prices: Prices = LIST) -> float:
    """Return the dollars of the requests of a million invocations."""
    return charged.write_units * prices.write + charged.read_units * prices.read


def unindexed(charged: Charged) -> Charged:
    """Return what a table without the index of unfinished tokens is charged for the same."""
    return charged._replace(write_units=charged.write_units - charged.index_units, index_units=0)


def storage(charged: Charged, prices: Prices = LIST, days: float = KEPT_DAYS) -> float:
    """Return the dollars of keeping what a million invocations left for *days*, with recovery."""
    gigabytes = charged.stored_bytes * 1_000_000 / GIGABYTE
    return gigabytes * (prices.storage + prices.backup) * days / MONTH_DAYS


def output(charged: Charged, prices: Prices = LIST) -> float:
    """Return the dollars of taking in the log lines and metric documents of a million invocations."""
    return charged.output_bytes * 1_000_000 / GIGABYTE * prices.logs


def metrics(names: int, prices: Prices = LIST) -> float:
    """Return the dollars a month of *names* metrics of one function, however often it is invoked."""
    return names * prices.metric


def watchdog(prices: Prices = LIST) -> float:
    """Return the dollars a month of the watchdog's queries, where nothing is stuck."""
    runs = MONTH_DAYS * 24 * 60 / WATCHDOG_MINUTES
    return runs * WATCHDOG_QUERIES * EMPTY_QUERY_UNITS * prices.read / 1_000_000


def every_metric() -> set[str]:
    """Return the metrics that a function may write."""
    return {event.metric for event in Event if event.metric is not None}
