"""
A switch under load: both versions are deployed at once, and a rollback follows.

Each delivery is a thread of its own; the order of all their requests depends on the seed alone. An order may
be declined: that attempt has no effect, and either version may try it again.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
)

from lambda_once import InProgress, RetryLater
from lambda_once.engine.history import Vacant
from lambda_once.integrations.powertools_history import PowertoolsRecord
from lambda_once.testing import lambda_context
from tests.kit.powertools import PREFIX, Shop
from tests.kit.turns import Turns
from tests.sources.samples import batch, sqs_record

ORDERS = ("o-1", "o-2")
DELIVERIES = 6
BY_BODY = "powertools_json(body).id"
AGAIN = (IdempotencyAlreadyInProgressError, IdempotencyInconsistentStateError, RetryLater)
"""What makes the source deliver again."""
Version = Callable[[Shop, Callable[[Any], Any]], Callable[[Any], Any]]


class Declined(Exception):
    """The payment was declined: nothing was charged."""


class Till:
    """Charges orders; the first try of each is declined where *declines* is set."""

    def __init__(self, *, declines: bool) -> None:
        self.charged: Counter[str] = Counter()
        self._declines = set(ORDERS) if declines else set()

    def charge(self, event: Any) -> dict[str, Any]:
        if event["id"] in self._declines:
            self._declines.remove(event["id"])
            raise Declined
        self.charged[event["id"]] += 1
        return {"charged": event["id"]}


def old(shop: Shop, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the version with Powertools."""
    return shop.old(work)


def new(shop: Shop, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the version with this package and the history."""
    return shop.new(work)


def without_history(shop: Shop, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the version with this package alone."""
    return shop.new(work, history=None)


def with_another_key(shop: Shop, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the version with a history that derives another key."""
    return shop.new(work, history=shop.history(key_prefix=f"{PREFIX}-2"))


def phase(shop: Shop, till: Till, versions: tuple[Version, ...], seed: int) -> list[object]:
    """Deliver orders to *versions*, all at once; return what each delivery got."""
    dice = random.Random(seed)

    def delivery() -> Callable[[Any], object]:
        version, order = dice.choice(versions), dice.choice(ORDERS)
        return lambda client: version(shop.through(client), till.charge)({"id": order})

    return Turns(shop.client, seed).run([delivery() for _ in range(DELIVERIES)])


def switch(shop: Shop, till: Till, version: Version, seed: int) -> list[object]:
    """Deploy *version* beside the old one, roll back, and deploy it again, alone."""
    answers = []
    for versions in ((old,), (old, version), (old,), (version, old), (version,)):
        answers += phase(shop, till, versions, seed)
    return answers


@pytest.mark.parametrize("declines", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_charged_twice(shop: Shop, seed: int, declines: bool) -> None:
    """Whatever the order of their requests, the versions exclude each other; all get the one result."""
    till = Till(declines=declines)
    answers = switch(shop, till, new, seed)
    for order in ORDERS:
        answers.append(new(shop, till.charge)({"id": order}))
        answers.append(old(shop, till.charge)({"id": order}))
    assert till.charged == dict.fromkeys(ORDERS, 1)
    for answer in answers:
        assert answer in [{"charged": order} for order in ORDERS] or isinstance(answer, (*AGAIN, Declined))


@pytest.mark.parametrize("seed", range(8))
def test_a_first_deployment_under_load(shop: Shop, seed: int) -> None:
    """Nothing was done before: both versions race for every order."""
    till = Till(declines=False)
    phase(shop, till, (old, new), seed)
    phase(shop, till, (old,), seed)
    assert set(till.charged.values()) == {1}


class Killed(BaseException):
    """The environment is gone."""


class Mortal:
    """A client that sends nothing once its environment is *dead*."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.dead = False

    def __getattr__(self, operation: str) -> Any:
        if self.dead:
            raise Killed
        return getattr(self._client, operation)


def killing(shop: Shop, till: Till, versions: tuple[Version, ...], seed: int) -> None:
    """Deliver orders to *versions*; of each order one attempt is killed before it charges."""
    dice, spared = random.Random(seed), set(ORDERS)

    def delivery() -> Callable[[Any], object]:
        version, order = dice.choice(versions), dice.choice(ORDERS)

        def deliver(client: Any) -> object:
            mortal = Mortal(client)

            def work(event: Any) -> Any:
                if event["id"] not in spared:
                    return till.charge(event)
                spared.discard(event["id"])
                mortal.dead = True
                raise Killed

            try:
                return version(shop.through(mortal), work)({"id": order})
            except Killed:
                return None

        return deliver

    Turns(shop.client, seed).run([delivery() for _ in range(DELIVERIES)])


@pytest.mark.parametrize("seed", range(8))
def test_killed_attempts_are_taken_over_once(shop: Shop, seed: int) -> None:
    """What either version left in progress is worked by one attempt of either version, once it lapses."""
    till = Till(declines=False)
    killing(shop, till, (old, new), seed)
    shop.lapse_all()
    for versions in ((new, old), (old,), (new,)):
        phase(shop, till, versions, seed)
    assert set(till.charged.values()) == {1}


def old_record(shop: Shop, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the version with Powertools, of SQS records."""
    handle = shop.old_records(lambda record: work(record.json_body), event_key_jmespath=BY_BODY)
    return lambda event: handle(SQSRecord(sqs_record(event)))


def new_record(shop: Shop, work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the version with this package, of SQS records."""
    once = shop.once(history=shop.history(key=BY_BODY))

    @once.sqs(key="id", name="charge", raise_on_entire_batch_failure=False)
    def handler(record: SQSRecord) -> None:
        work(record.json_body)

    return lambda event: handler(batch(sqs_record(event)), lambda_context("shop"))


@pytest.mark.parametrize("seed", range(8))
def test_records_are_not_worked_twice(shop: Shop, seed: int) -> None:
    """The same for records of a queue."""
    till = Till(declines=True)
    for versions in ((old_record,), (old_record, new_record), (old_record,), (new_record,)):
        phase(shop, till, versions, seed)
    for order in ORDERS:
        assert new_record(shop, till.charge)({"id": order}) == {"batchItemFailures": []}
    assert till.charged == dict.fromkeys(ORDERS, 1)


@pytest.mark.parametrize("version", [without_history, with_another_key])
def test_twin_without_the_same_record(shop: Shop, version: Version) -> None:
    """Negative twin: without the history, or with another key, orders are charged twice."""
    till = Till(declines=False)
    switch(shop, till, version, seed=0)
    assert max(till.charged.values()) > 1


def test_twin_that_asks_no_first(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin: a record that is written whether or not there is one refuses nobody."""

    def begin(record: PowertoolsRecord, *_: object, **__: object) -> Vacant:
        record._data = record._seen
        return Vacant()

    monkeypatch.setattr(PowertoolsRecord, "begin", begin)
    till = Till(declines=False)
    switch(shop, till, new, seed=0)
    assert max(till.charged.values()) > 1


def test_in_progress_is_seen(shop: Shop) -> None:
    """The schedules do interleave: some deliveries of either version find the other one at work."""
    refused: set[type[object]] = set()
    for seed in range(8):
        till = Till(declines=False)
        refused |= {type(answer) for answer in phase(shop, till, (old, new), seed)}
        for table, key in ((shop.records, "id"), (shop.tokens, "lockToken")):
            for item in shop.client.scan(TableName=table)["Items"]:
                shop.client.delete_item(TableName=table, Key={key: item[key]})
    assert {InProgress, IdempotencyAlreadyInProgressError} <= refused
