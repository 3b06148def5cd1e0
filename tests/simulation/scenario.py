"""What one seed means: who delivers what, under which policies, in which weather."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from tests.simulation.network import CHANGEABLE, DEAF, FAIR, FOUL, Weather

WEATHERS = (
    FAIR,
    CHANGEABLE,
    CHANGEABLE,
    FOUL,
    FOUL,
    DEAF,
    replace(FAIR, pause=40),
    replace(FOUL, crash=90),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One seed's circumstances. Durations in milliseconds, but *keep* in seconds."""

    seed: int
    face: str
    """``event``, ``sqs`` or ``fifo``."""
    on_lapse: tuple[str, ...]
    """Of each machine: they differ while a deploy is under way."""
    on_error: str
    lease: int | None
    keep: int
    remaining: int
    waits: bool
    cache: int
    machines: int
    tokens: int
    deliveries: int
    """How many messages there are: some of them stand for one token."""
    weather: Weather
    amended: bool
    """Some messages bring another payload under a token."""
    large: bool
    """Results are large: they go in parts."""
    transacts: bool
    hurries: bool
    """Work may go on while its transaction is on its way: complete, return or raise."""
    extends: bool
    outage: bool
    """For a while no request arrives at all."""
    expires: int = 0
    """For how many seconds the records of an old version, deployed beside it, live; 0: there is none."""
    watched: bool = False
    """What has lapsed is resolved under ``take_over``, too, as a watchdog does."""
    lanes: int = 0
    """The work is ``async def``, so many records of a batch at once; 0: it is plain."""


def scenario(seed: int) -> Scenario:
    """Return the scenario of *seed*."""
    if random.Random(f"history {seed}").random() < 0.12:
        return with_history(without_history(seed))
    rng = random.Random(f"async def {seed}")
    found = without_history(seed)
    return with_lanes(found, rng.choice((1, 2, 4))) if rng.random() < 0.15 else found


def with_lanes(found: Scenario, lanes: int) -> Scenario:
    """Return *found* with ``async def`` work, *lanes* records of a batch at once."""
    return replace(found, lanes=lanes, transacts=False, extends=False)


def with_history(found: Scenario) -> Scenario:
    """
    Return *found* while its function moves from Powertools: an old version is deployed, too.

    What Powertools cannot do stays out: its records have no owner, so none wakes up late; it compares no
    payloads, and knows no renewed lease and no transaction.
    """
    return replace(
        found,
        face="event",
        expires=120 if found.seed % 2 else 3_600,
        remaining=max(found.remaining, 8_000),
        weather=replace(found.weather, pause=0),
        watched=False,
        amended=False,
        transacts=False,
        extends=False,
    )


def without_history(seed: int) -> Scenario:
    """Return the scenario of *seed*, the new version alone."""
    rng = random.Random(seed)
    face = rng.choice(("event", "event", "sqs", "sqs", "fifo"))
    rule = rng.choice(("take_over", "take_over", "take_over", "hold", "probe"))
    machines = rng.randint(2, 3)
    rules = [rule] * machines
    if rng.random() < 0.12:
        rules = [rng.choice(("take_over", "hold")) for _ in range(machines)]
    on_error = rng.choice(("release", "release", "store", "hold"))
    if on_error == "hold" and "take_over" in rules:
        on_error = "store"
    # A deploy that changes the policy: rows of the old one may expire under the new one.
    fast = len(set(rules)) > 1 and rng.random() < 0.5
    keep = 20 if fast else rng.choice((120, 1_000, 1_000))
    weather = replace(FAIR, crash=60) if fast else rng.choice(WEATHERS)
    tokens = rng.randint(1, 3) if face == "event" else rng.randint(2, 6)
    return Scenario(
        seed=seed,
        face=face,
        on_lapse=tuple(rules),
        on_error=on_error,
        lease=rng.choice((None, None, None, 5_000, 10_000)),
        keep=keep,
        remaining=rng.choice((4_000, 8_000, 15_000)),
        waits=rng.random() < 0.25,
        cache=rng.choice((0, 0, 5)),
        machines=machines,
        tokens=tokens,
        deliveries=tokens + rng.randint(1, 3),
        weather=weather,
        amended=rng.random() < 0.25,
        large=rng.random() < 0.25,
        transacts=rng.random() < 0.3,
        extends=rng.random() < 0.35,
        outage=rng.random() < 0.15,
        hurries=rng.random() < 0.6,
        watched=seed % 7 == 5,
    )
