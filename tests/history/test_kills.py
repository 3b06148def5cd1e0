"""
Every order of two deaths: either version is killed at any request, then the other or the same at any of its.

What is in progress lapses between the deliveries, or does not. At last both versions get the order, and live.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError

from lambda_once import NOT_DONE, Done, Held, InProgress, Lapsed
from lambda_once.engine.history import Vacant
from lambda_once.integrations import powertools_history
from lambda_once.integrations.powertools_history import PowertoolsRecord
from lambda_once.testing import lambda_context
from tests.kit import powertools, tables
from tests.kit.kills import Killed, Machine, two_deaths
from tests.kit.powertools import Shop
from tests.kit.strict.mounted import mounted

Version = Literal["old", "new"]
VERSIONS: tuple[Version, ...] = ("old", "new")
REFUSED = (Killed, InProgress, Held, IdempotencyAlreadyInProgressError)


class ChargedTwice(AssertionError):
    """An order was charged that had been charged before."""


class Order:
    """One order, in a shop without any other; what was charged for it, under which downstream key."""

    def __init__(self, shop: Shop, on_lapse: Callable[[Order], Any]) -> None:
        self.shop = shop
        self.charged: list[str | None] = []
        self._on_lapse = on_lapse
        self._lapsed = False
        """Whether the time of what is in progress has been let pass since the last charge."""

    def deliver(self, version: Version, machine: Machine) -> Any:
        """Deliver the order to *version* on *machine*; return the answer, or None where there is none."""
        was_done = self._is_completed()
        before = len(self.charged)
        try:
            return self._old(machine) if version == "old" else self._new(machine)
        except REFUSED as refused:
            return refused
        finally:
            if was_done and len(self.charged) > before:
                raise ChargedTwice(f"by the {version} version, after it was completed")

    def _old(self, machine: Machine) -> Any:
        def work(_: Any) -> Any:
            return machine.step(self._charge, None, may_repeat=self._lapsed)

        return self.shop.through(machine.client(self.shop.client)).old(work)({"id": "o-1"})

    def _new(self, machine: Machine) -> Any:
        on_lapse = self._on_lapse(self)
        once = self.shop.through(machine.client(self.shop.client)).once(on_lapse=on_lapse)

        @once.event(key="id", name="charge")
        def handler(_: Any) -> Any:
            key = once.current().downstream_key()
            return machine.step(self._charge, key, may_repeat=on_lapse == "take_over" and self._lapsed)

        return handler({"id": "o-1"}, lambda_context("shop"))

    def _charge(self, key: str | None, *, may_repeat: bool) -> str:
        if self.charged and not may_repeat:
            raise ChargedTwice(f"under {key}, and before under {self.charged}")
        self.charged.append(key)
        self._lapsed = False
        return "charged"

    def _is_completed(self) -> bool:
        """Whether a record or a token shows that the work was done: neither version may charge then."""
        records, tokens = self.shop.items(self.shop.records), self.shop.items(self.shop.tokens)
        recorded = any(record["status"] == {"S": "COMPLETED"} for record in records)
        return recorded or any("actualCompletion" in token and "status" not in token for token in tokens)

    def lapse(self) -> None:
        """Let a day pass for all that is in progress, in both tables."""
        self._lapsed = True
        self.shop.lapse_all()

    def forget(self) -> None:
        """Leave both tables empty."""
        for table, key in ((self.shop.records, "id"), (self.shop.tokens, "lockToken")):
            for item in self.shop.items(table):
                self.shop.client.delete_item(TableName=table, Key={key: item[key]})


@pytest.fixture
def shop() -> Iterator[Shop]:
    """Two new tables of the strict engine, without boto3 above it: there are thousands of requests."""
    with mounted() as engine, powertools.shop(tables.shared()) as found:
        yield found.through(engine)


# ---------------------------------------------------------------- what decides about lapsed work


def by_arguments(order: Order) -> Any:
    """Return a probe that looks at all that was charged for the order."""
    return lambda _lapsed, _event: Done("charged") if order.charged else NOT_DONE


def by_downstream_key(order: Order) -> Any:
    """Return a probe that asks the provider for the charge under the lapsed attempt's own key."""

    def find(lapsed: Lapsed, _event: Any) -> Any:
        return Done("charged") if lapsed.downstream_key() in order.charged else NOT_DONE

    return find


def hold(_: Order) -> Any:
    """Return the policy that leaves it to an operator."""
    return "hold"


def take_over(_: Order) -> Any:
    """Return the policy that does it again."""
    return "take_over"


EVERY = [(*one, lapses) for one in itertools.product(VERSIONS, repeat=2) for lapses in (True, False)]
"""Who is killed first and second, and whether what is in progress lapses in between."""


def schedules(shop: Shop, on_lapse: Callable[[Order], Any], whom: Any = EVERY) -> Iterator[Order]:
    """Yield the order of each schedule, before its last deliveries; the tables are emptied after them."""
    for first, second, lapses in whom:
        for one, other in two_deaths():
            order = Order(shop, on_lapse)
            order.deliver(first, one)
            if lapses:
                order.lapse()
            order.deliver(second, other)
            yield order
            order.forget()


def ends(order: Order) -> list[Any]:
    """Let all time pass, and return what the new version answers, and the old one after it."""
    order.lapse()
    return [order.deliver("new", Machine()), order.deliver("old", Machine())]


@pytest.mark.parametrize("on_lapse", [by_arguments, take_over])
def test_what_is_done_is_replayed_by_both(shop: Shop, on_lapse: Callable[[Order], Any]) -> None:
    """Whichever dies, anywhere: the order is charged at last, and both versions return the same."""
    for order in schedules(shop, on_lapse):
        assert ends(order) == ["charged", "charged"]


@pytest.mark.parametrize("on_lapse", [by_downstream_key, hold])
def test_an_unknown_outcome_is_held(shop: Shop, on_lapse: Callable[[Order], Any]) -> None:
    """Under hold, and where the key that the probe looks for cannot find a charge of the old version."""
    for order in schedules(shop, on_lapse):
        answer, _ = ends(order)
        assert answer == "charged" or isinstance(answer, Held)


def test_an_operator_decides_once(shop: Shop) -> None:
    """What is held runs once it was found not done, and never once it was found done."""
    held = set()
    for order in schedules(shop, hold):
        order.lapse()
        charged = len(order.charged)
        if isinstance(order.deliver("new", Machine()), Held):
            held.add(charged)
            shop.resolve(done=charged > 0)
            assert order.deliver("new", Machine()) == (None if charged else "charged")
        assert len(order.charged) == max(charged, 1)
    assert {0, 1} <= held


def test_own_work_is_found_by_its_own_key(shop: Shop) -> None:
    """Where no old version ran, a probe by downstream key decides alone."""
    for order in schedules(shop, by_downstream_key, [("new", "new", True)]):
        assert ends(order) == ["charged", "charged"]


@pytest.mark.engine
def test_on_a_real_engine(engine_endpoint: str) -> None:
    """The conditions are DynamoDB's: what a killed old version has begun is charged once, or held."""
    with powertools.shop(tables.client(engine_endpoint)) as shop:
        answers = [ends(order)[0] for order in schedules(shop, by_downstream_key, [("old", "new", True)])]
    assert {type(answer) for answer in answers} == {str, Held}


# ---------------------------------------------------------------- negative twins


def is_charged_twice(shop: Shop, on_lapse: Callable[[Order], Any]) -> bool:
    """Return whether an order is, in any schedule."""
    try:
        for order in schedules(shop, on_lapse):
            ends(order)
    except ChargedTwice:
        return True
    return False


def test_twin_whose_every_record_is_ours(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """What lapsed under Powertools is forgotten with the attempt that overwrote its record and was killed."""
    marking = powertools_history._marking

    def hiding(layer: Any, mark: Any, **_: Any) -> Any:
        return marking(layer, mark, hides=False)

    monkeypatch.setattr(powertools_history, "_marking", hiding)
    assert is_charged_twice(shop, by_downstream_key)


def test_twin_that_takes_what_has_lapsed_for_its_own(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The probe is asked about the token's attempt alone, which never worked."""
    answer_of = powertools_history._answer_of

    def forgetful(record: Any, *args: Any) -> Any:
        found = answer_of(record, *args)
        return Vacant() if isinstance(found, Vacant) else found

    monkeypatch.setattr(powertools_history, "_answer_of", forgetful)
    assert is_charged_twice(shop, by_downstream_key)


def test_twin_that_does_not_record_what_a_probe_finds(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The old version takes the lapsed record over, and does again what the new one has replayed."""
    succeed = PowertoolsRecord.succeed

    def of_its_own(record: PowertoolsRecord, text: str) -> None:
        if record._data is not None:  # it has begun
            succeed(record, text)

    monkeypatch.setattr(PowertoolsRecord, "succeed", of_its_own)
    assert is_charged_twice(shop, by_arguments)


def test_twin_without_the_mark(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where Powertools has changed: own work might be the old version's, and is held despite a probe."""
    monkeypatch.setattr(powertools_history, "with_put_record", lambda layer, _: layer)
    held = [ends(order) for order in schedules(shop, by_downstream_key, [("new", "new", True)])]
    assert any(isinstance(answer, Held) for answer, _ in held)
