"""All scenes and patterns, run once on one DynamoDB."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from lambda_once.core.clock import SystemClock
from lambda_once.core.lifecycle import Record
from lambda_once.dynamodb.client import new_client
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock

from . import patterns, table
from .driver import Driver, Step
from .patterns import Comparison
from .scenes import FUNCTIONS, SCENES, Scene
from .template import TABLE, Template


@dataclass(frozen=True, slots=True)
class Result:
    """A scene, its deliveries, and how they differ from its promise."""

    scene: Scene
    steps: list[Step]
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that the demo reports."""

    results: list[Result]
    records: list[Record]
    """The rows in the table before it is deleted."""
    counted: Mapping[str, Counter[str]]
    """The metrics, by function."""
    ended: datetime
    """By the demo's clock, which the scenes advance."""
    comparisons: list[Comparison]
    """What plain writes and what the patterns left."""

    @property
    def broken(self) -> int:
        """The number of scenes and patterns that broke their promise."""
        return sum(1 for result in self.results if result.broken) + sum(
            each.broken for each in self.comparisons
        )


def run(endpoint: str | None) -> Run:
    """
    Play all scenes on the DynamoDB at *endpoint*; without one, on moto in this process.

    Creates the token table and deletes it afterwards. Restores the environment.
    """
    name = table.fresh_name()
    template = Template({TABLE: name, "DynamoDBEndpoint": endpoint or ""})
    clock = FakeClock(SystemClock().now())
    driver = Driver(template, FUNCTIONS, clock)
    with (
        _environment({**table.account(endpoint), **driver.environment()}),
        table.engine(endpoint),
        table.token_table(template, name, endpoint) as client,
        driver.open(DynamoDBStore(name, new_client())),
    ):
        results = [_result(scene, driver) for scene in SCENES]
        records = [record_of(item) for item in table.rows(client, name)]
        with patterns.patterns_table(client, clock) as on:
            found = patterns.compare(on)
        return Run(results, records, driver.metrics(), clock.now(), found)


def _result(scene: Scene, driver: Driver) -> Result:
    steps = scene.play(driver)
    return Result(scene, steps, scene.broken(steps))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set *variables* for the block, and restore the whole environment after it."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
