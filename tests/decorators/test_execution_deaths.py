"""
`once.execution` on machines that are killed between any two requests, to the table and for checkpoints.

The real SDK runs a killed invocation again. A second execution of the same key starts when the first is over;
a machine of it is killed at the same request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aws_durable_execution_sdk_python import DurableContext

from lambda_once import HOLD, STORE, Once
from lambda_once.core.lifecycle import State, new_attempt_id
from lambda_once.stores.row import record_of
from lambda_once.stores.store import DynamoDBStore
from tests.decorators.durable_shop import HOUR
from tests.kit import tables
from tests.kit.executions import Executions, Outcome, executions
from tests.kit.kills import Machine, each_death
from tests.kit.strict.mounted import mounted

pytestmark = pytest.mark.slow


class Declined(Exception):
    """The card is declined."""


class Shop:
    """Executions that charge orders; each order is charged by the executions that entered its block."""

    def __init__(self, client: Any, table: str, *, declines: bool = False, **options: Any) -> None:
        self.client = client
        self.table = table
        self.of: Executions
        self.entered: dict[str, set[str]] = {}
        """By order, the executions that were not replayed or refused."""
        self._options = options
        self._declines = declines

    def handle(self, event: Any, context: DurableContext) -> Any:
        machine = self.of.machine
        once = Once(store=DynamoDBStore(self.table, machine.client(self.client)), service="shop")
        order, execution = event["order"], context.execution_context.durable_execution_arn
        with once.execution(context, key=order, name="pay", lease=HOUR, **self._options) as attempt:
            if attempt.replayed:
                return {"replayed": attempt.result}
            self.entered.setdefault(order, set()).add(execution)
            context.step(lambda _: machine.step(str, order), name="charge")
            if self._declines:
                raise Declined
            return attempt.complete({"charged": order})

    def run(self, name: str, order: str, machine: Machine) -> Outcome:
        """Run an execution whose first invocation is on *machine*; those after it live."""
        self.of.machine = machine
        arn = self.of.start(name, {"order": order})
        return self.of.outcome(arn)

    def row(self, order: str) -> Any:
        """Return the row of *order*."""
        found = self.client.get_item(TableName=self.table, Key={"lockToken": {"S": f"shop/pay/{order}"}})
        return record_of(found["Item"])


@pytest.fixture
def make() -> Iterator[Callable[..., Shop]]:
    """Make shops on one table of the strict engine."""
    with mounted() as engine, tables.fresh(tables.shared()) as table:
        yield lambda **options: Shop(engine, table, **options)


def schedules(shop: Shop) -> Iterator[tuple[str, list[Outcome]]]:
    """Yield an order for each death, with the outcomes of two executions of it, killed there both."""
    with executions(shop.handle) as shop.of:
        for number, one in enumerate(each_death()):
            order = f"o-{number}"
            other = Machine(number)
            yield order, [shop.run(f"1-{order}", order, one), shop.run(f"2-{order}", order, other)]


def test_one_execution_enters_and_all_get_its_result(make: Callable[..., Shop]) -> None:
    """Wherever its invocation is killed, the first one goes on with its token, and completes it."""
    shop = make()
    for order, (first, second) in schedules(shop):
        assert first.value == {"charged": order}
        assert second.value == {"replayed": first.value}
        assert len(shop.entered[order]) == 1
        assert shop.row(order).state is State.COMPLETE
    assert len(shop.entered) > 8  # three steps of two checkpoints each, the charge, and requests to the table


@pytest.mark.parametrize(
    ("policy", "state", "error"), [(STORE, State.COMPLETE, "Declined"), (HOLD, State.HELD, "Held")]
)
def test_one_execution_enters_and_fails(
    make: Callable[..., Shop], policy: Any, state: State, error: str
) -> None:
    """Wherever its invocation is killed, its policy is applied once, and no other execution enters."""
    shop = make(declines=True, on_error=policy)
    for order, (first, second) in schedules(shop):
        assert (first.error or "").endswith("Declined")
        assert (second.error or "").endswith(error)
        assert len(shop.entered[order]) == 1
        assert shop.row(order).state is state


def test_a_released_order_is_entered_again(make: Callable[..., Shop]) -> None:
    """By default the next execution may try; each ends, and none loses its token on the way."""
    shop = make(declines=True)
    for order, outcomes in schedules(shop):
        assert all((each.error or "").endswith("Declined") for each in outcomes)
        assert len(shop.entered[order]) == 2
        assert shop.row(order).state is State.RELEASED


# ---------------------------------------------------------------- negative twin


def test_twin_whose_attempt_is_new_in_every_invocation(
    make: Callable[..., Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An id that is no checkpoint does not recognise its own row: the killed execution is refused."""
    step = DurableContext.step

    def unchecked(context: DurableContext, work: Any, name: str | None = None, config: Any = None) -> Any:
        return new_attempt_id() if name == "once.attempt" else step(context, work, name, config)

    monkeypatch.setattr(DurableContext, "step", unchecked)
    errors = {first.error for _, (first, _) in schedules(make())}
    assert "lambda_once.errors.InProgress" in errors
