"""The sample's functions behind real queues lose nothing, and repeat nothing where that is promised."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit import elasticmq
from tests.queues.checks import Lane, check, counts
from tests.queues.load import Load, Queues, run

SEED = 20261122

pytestmark = [pytest.mark.engine, pytest.mark.timed]


@pytest.fixture(scope="module")
def sqs() -> Iterator[Any]:
    """A client of an ElasticMQ of this module's own."""
    with elasticmq.running() as endpoint:
        yield elasticmq.client(endpoint)


def test_a_killed_function_loses_no_message(sqs: Any, engine_endpoint: str, tmp_path: Path) -> None:
    """Each message is acknowledged or a dead letter with its reason, and effects are as often as promised."""
    evidence = run(Load(SEED), Queues(sqs, "kept"), engine_endpoint, tmp_path)
    assert check(evidence) == [], str(counts(evidence))
    found = counts(evidence)
    assert evidence.interrupted, "processes were killed"
    assert found["dead"] > 0
    assert all(found[lane.effect] > 0 for lane in Lane)


def test_twin_without_the_layer_payments_are_charged_twice(
    sqs: Any, engine_endpoint: str, tmp_path: Path
) -> None:
    """The load notices what it is there to notice: twins, redeliveries and kills charge again."""
    load = Load(SEED, messages=12, seconds=3, drain=20, disabled=True)
    found = check(run(load, Queues(sqs, "disabled"), engine_endpoint, tmp_path))
    assert [sentence for sentence in found if sentence.startswith("twice: pay_")], found
