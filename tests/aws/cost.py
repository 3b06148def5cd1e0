"""
What a run costs at list prices: at most, which is asked for before anything is made, and what was used.

Prices in dollars, us-east-1, without free tiers, looked up on 2026-11-20: https://aws.amazon.com/lambda/pricing/,
…/dynamodb/pricing/on-demand/, …/cloudwatch/pricing/, …/sqs/pricing/, …/sns/pricing/, …/api-gateway/pricing/,
…/s3/pricing/. Other regions ask up to twice as much, which is why the budget is twice the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from benchmarks.units import LIST, MILLION

MONTH_HOURS: Final = 730
GIGABYTES: Final = 0.5
"""Memory of a function."""


class Price(NamedTuple):
    """What one of something costs, and how many a whole run uses at most."""

    dollars: float
    most: float
    """About twice what a run uses whose every assertion takes as long as it may."""


PRICES: Final[Mapping[str, Price]] = {
    "invocations": Price(0.20 / MILLION, 2_000),
    "milliseconds": Price(0.0000166667 * GIGABYTES / 1000, 1_000_000),  # x86_64; arm64 is cheaper
    "write units": Price(LIST.write / MILLION, 20_000),
    "read units": Price(LIST.read / MILLION, 20_000),
    "stream reads": Price(0.02 / 100_000, 10_000),
    "requests": Price(1.00 / MILLION, 100),
    "messages": Price(0.50 / MILLION, 20_000),
    "MB of logs": Price(LIST.logs / 1000, 20),
    "objects": Price(0.005 / 1000, 20),
    "metrics for an hour": Price(LIST.metric / MONTH_HOURS, 80),
    "alarms for an hour": Price(LIST.alarm / MONTH_HOURS, 30),
}
FOR_THE_STACK: Final = {
    "objects": 5.0,
    "metrics for an hour": 40.0,
    "alarms for an hour": 15.0,
    "MB of logs": 2.0,
}
"""What a run uses whatever it plays; an estimate."""
BUDGET: Final = round(2 * sum(price.dollars * price.most for price in PRICES.values()), 2)
"""Dollars that a run costs at most."""


def cost(spent: Mapping[str, float]) -> float:
    """Return the dollars of what was used, at list prices."""
    return sum(PRICES[what].dollars * amount for what, amount in (FOR_THE_STACK | dict(spent)).items())
