"""The whole story played once, on one engine."""

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
from .patterns import Contrast
from .scenes import FUNCTIONS, SCENES, Scene
from .stage import Stage, Step
from .template import TABLE, Template


@dataclass(frozen=True, slots=True)
class Played:
    """A scene, what came of it, and where that is not as promised."""

    scene: Scene
    steps: list[Step]
    broken: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Performance:
    """Everything there is to tell."""

    played: list[Played]
    records: list[Record]
    """The rows that are left, before the table is deleted."""
    counted: Mapping[str, Counter[str]]
    """The metrics, by function."""
    ended: datetime
    """By the clock of the story, which the scenes turn."""
    contrasts: list[Contrast]
    """What the patterns left, beside what plain writes leave."""

    @property
    def broken(self) -> int:
        """In how many scenes and patterns the promise was not kept."""
        return sum(1 for act in self.played if act.broken) + sum(each.broken for each in self.contrasts)


def perform(endpoint: str | None) -> Performance:
    """
    Play all scenes on the DynamoDB at *endpoint*, or on moto in this process where there is none.

    The token table is made for it, and deleted afterwards; the environment is put back.
    """
    name = table.fresh_name()
    template = Template({TABLE: name, "DynamoDBEndpoint": endpoint or ""})
    clock = FakeClock(SystemClock().now())
    stage = Stage(template, FUNCTIONS, clock)
    with (
        _environment({**table.account(endpoint), **stage.environment()}),
        table.engine(endpoint),
        table.token_table(template, name, endpoint) as client,
        stage.open(DynamoDBStore(name, new_client())),
    ):
        played = [_play(scene, stage) for scene in SCENES]
        records = [record_of(item) for item in table.rows(client, name)]
        with patterns.ground(client, clock) as ground:
            found = patterns.contrasts(ground)
        return Performance(played, records, stage.metrics(), clock.now(), found)


def _play(scene: Scene, stage: Stage) -> Played:
    steps = scene.play(stage)
    return Played(scene, steps, scene.broken(steps))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set *variables* for the block, and put the whole environment back after it."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
