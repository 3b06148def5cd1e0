"""
What DynamoDB and CloudWatch charge for: units by the size of an item, and dollars at list prices.

Sources: DynamoDB developer guide, "DynamoDB item sizes and formats" and "DynamoDB read and write operations";
https://aws.amazon.com/dynamodb/pricing/on-demand/ and https://aws.amazon.com/cloudwatch/pricing/.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from lambda_once.core.lifecycle import State
from lambda_once.stores.index import partitions

# ------------------------------------------------------------------ units

Item = Mapping[str, Mapping[str, Any]]
"""An item as the low-level client takes and gives it."""

WRITE_BYTES, READ_BYTES = 1024, 4096


def write_units(size: int) -> int:
    """Return the units of writing an item of *size* bytes: one for each KB begun."""
    return max(1, math.ceil(size / WRITE_BYTES))


def read_units(size: int) -> int:
    """Return the units of reading an item of *size* bytes consistently: one for every 4 KB begun."""
    return max(1, math.ceil(size / READ_BYTES))


def refused_units(stored: Item | None) -> int:
    """Return the units of a conditional write that is refused: those of the item that is there."""
    return write_units(0 if stored is None else size_of(stored))


def size_of(item: Item) -> int:
    """Return the bytes of *item*, names and values."""
    return sum(len(name.encode()) + _value_size(value) for name, value in item.items())


def _value_size(value: Mapping[str, Any]) -> int:
    ((kind, held),) = value.items()
    match kind:
        case "S":
            return len(held.encode())
        case "B":
            return len(held)
        case "N":
            return math.ceil(len(held.strip("-").replace(".", "").strip("0")) / 2) + 1
        case "M":
            return 3 + sum(1 + len(name.encode()) + _value_size(each) for name, each in held.items())
        case "L":
            return 3 + sum(1 + _value_size(each) for each in held)
        case "SS" | "BS" | "NS":
            return sum(_value_size({kind[0]: each}) for each in held)
        case _:
            return 1  # BOOL, NULL


# ------------------------------------------------------------------ dollars


class Prices(NamedTuple):
    """List prices in dollars, of us-east-1, looked up on 2026-11-20; free tiers are left out."""

    write: float = 0.625
    """A million write request units; since 2024-11-01."""
    read: float = 0.125
    """A million read request units; since 2024-11-01."""
    logs: float = 0.50
    """A GB taken in, the first tier of the Standard class."""
    metric: float = 0.30
    """A custom metric and month, the first 10,000."""
    alarm: float = 0.10
    """A metric of an alarm and month; of a Metrics Insights query, each that it analyses."""


LIST: Final = Prices()
MILLION: Final = 1_000_000
GIGABYTE: Final = 1e9
MONTH_DAYS: Final = 30.4


class Charged(NamedTuple):
    """What one invocation was charged for."""

    write_units: float
    """Those of the index and of refused writes included."""
    index_units: float
    read_units: float
    output_bytes: int
    """Of log lines and metrics on standard output."""

    def requests(self, prices: Prices = LIST) -> float:
        """Return the dollars of the requests of a million invocations."""
        return self.write_units * prices.write + self.read_units * prices.read

    def output(self, prices: Prices = LIST) -> float:
        """Return the dollars of taking in the log lines and metric documents of a million invocations."""
        return self.output_bytes * MILLION / GIGABYTE * prices.logs

    def by_stream(self) -> Charged:
        """Return what the same is charged by the stream: work that ends has no entry in the index."""
        return self._replace(write_units=self.write_units - self.index_units, index_units=0)


USUAL_METRICS: Final = ("started", "completed", "replayed")
"""Of a function without errors."""
WATCHDOG_METRICS: Final = (
    *("missingTasks", "newlyOverdue", "oldestOverdueSeconds", "heldTokens", "tokensInProgress"),
    *("newlyReleased", "releasedTokens", "watchdogTruncated", "streamLagSeconds"),
)
WATCHDOG_MINUTES: Final = 5
WATCHDOG_QUERIES: Final = 3 * len(partitions(State.IN_PROGRESS)) + 1
"""Of a run that finds nothing: each partition of a state in the index; and a read for the time."""
EMPTY_QUERY_UNITS: Final = 0.5
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
    "the six of `tokens.yaml`": Alarms(3, 3),
    "the seventh, `TasksInProgress`": Alarms(1),
    "`alarms.yaml`": Alarms(12, 11),
    "`operations.yaml`": Alarms(0, 5),
}


def watchdog(prices: Prices = LIST) -> float:
    """Return the dollars a month of the watchdog's queries, where nothing is stuck."""
    runs = MONTH_DAYS * 24 * 60 / WATCHDOG_MINUTES
    return runs * WATCHDOG_QUERIES * EMPTY_QUERY_UNITS * prices.read / MILLION


def dollars(amount: float) -> str:
    """Return *amount* as it is written in a table: to a tenth of a cent, or to a cent."""
    return f"${amount:.3f}" if amount < 1 else f"${amount:,.2f}"
