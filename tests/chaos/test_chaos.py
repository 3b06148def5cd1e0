"""The load under faults on a real engine, and the same with a guard off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.chaos.deliveries import Lane
from tests.chaos.load import Load, run
from tests.chaos.plan import Fate
from tests.kit import elasticmq, tables

pytestmark = pytest.mark.timed

SEED = 20261120
WITHOUT_THE_LEASE = Load(
    SEED,
    seconds=5,
    lanes=(Lane.TAKE_OVER, Lane.FUNCTION),
    weights={Fate.KILLED_BEFORE: 150},
    without="lease",
)
WITHOUT_HOLDING = Load(
    SEED, seconds=8, lanes=(Lane.HOLD,), weights={Fate.KILLED_BEFORE: 150}, hold_takes_over=True
)
WITHOUT_THE_HOLDER = Load(
    SEED,
    seconds=8,
    workers=4,
    lanes=(Lane.TRANSACT,),
    weights={Fate.PAUSED_BEFORE: 100},
    pause=1.5,
    only="TransactWriteItems",
    without="holder",
)
ON_REAL_QUEUES = Load(
    SEED,
    messages=150,
    seconds=8,
    lanes=(Lane.TAKE_OVER, Lane.HOLD, Lane.FIFO),
    weights={Fate.KILLED_BEFORE: 40, Fate.KILLED_AFTER: 40},
)


@pytest.fixture(scope="module")
def queues() -> Iterator[str]:
    """The endpoint of an ElasticMQ of this module's own."""
    with elasticmq.running() as endpoint:
        yield endpoint


def assert_notices(kind: str, load: Load, endpoint: str, folder: Path) -> None:
    """Assert that *load*, by one seed of three, finds a violation of *kind*."""
    for attempt in range(3):  # which process is where when it falls is up to the scheduler
        of_attempt = folder / str(attempt)
        of_attempt.mkdir()
        report = run(replace(load, seed=load.seed + attempt, drain=0), endpoint, of_attempt)
        if any(sentence.startswith(f"{kind}: ") for sentence in report.result.violations):
            return
    pytest.fail(f"nothing was {kind}")


@pytest.mark.engine
@pytest.mark.parametrize("client", tables.CLIENTS)
def test_nothing_is_lost_and_nothing_twice_where_that_is_promised(
    engine_endpoint: str,
    tmp_path: Path,
    client: str,
) -> None:
    """Processes that are killed, paused and cut off lose no message, and repeat only what lapsed."""
    report = run(Load(SEED, client=client), engine_endpoint, tmp_path)
    assert report.result.violations == [], str(report)
    assert report.result.counts["executions"] > 0
    assert report.result.counts["replayed"] > 0
    assert report.result.counts["workers killed"] > 0
    assert sum(report.faults.values()) > report.faults[Fate.ARRIVES.value], "there were faults"
    assert report.faults[Fate.PARTLY_THROTTLED.value] > 0, "the proxy sees which requests are batches"


@pytest.mark.engine
@pytest.mark.parametrize(
    "load",
    [
        pytest.param(WITHOUT_THE_LEASE, id="lease"),
        pytest.param(WITHOUT_HOLDING, id="hold"),
        pytest.param(WITHOUT_THE_HOLDER, id="holder"),
    ],
)
def test_twin_with_a_guard_off_something_happens_twice(
    load: Load, engine_endpoint: str, tmp_path: Path
) -> None:
    """
    The load notices what it is there to notice.

    Without the lease a living attempt is taken over; without holding, what was killed after its effect
    runs again; without the holder's condition a transaction that wakes up late is written a second time.
    """
    assert_notices("twice", load, engine_endpoint, tmp_path)


@pytest.mark.engine
def test_a_killed_function_loses_no_message_of_a_real_queue(
    queues: str, engine_endpoint: str, tmp_path: Path
) -> None:
    """Behind ElasticMQ, too: groups keep their order, and a dead letter is held, by what fell over it."""
    report = run(replace(ON_REAL_QUEUES, queues=queues), engine_endpoint, tmp_path)
    assert report.result.violations == [], str(report)
    assert report.result.counts["executions"] > 0
    assert report.result.counts["workers killed"] > 0
    assert report.result.counts["held"] > 0, "the redrive policy had dead letters"


@pytest.mark.engine
@pytest.mark.parametrize(("without", "kind"), [("protection", "twice"), ("order", "out of order")])
def test_twin_a_real_queue_repeats_and_a_batch_overtakes(
    without: str, kind: str, queues: str, engine_endpoint: str, tmp_path: Path
) -> None:
    """Without protection what comes again runs again; without order a group goes on behind a failure."""
    load = replace(ON_REAL_QUEUES, lanes=(Lane.FIFO,), seconds=5, queues=queues, without=without)
    assert_notices(kind, load, engine_endpoint, tmp_path)
