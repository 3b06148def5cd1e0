"""examples/patterns/contracts.py: redeliveries, two consumers, lost requests and answers."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest

from lambda_once.patterns.documents import Documents, requests
from lambda_once.patterns.results import Conflict
from lambda_once.testing import FakeClock
from tests.kit.faulty import FaultyClient, by_seed
from tests.patterns.applications.rig import Between, Figure, defined_in, delivered, measured
from tests.patterns.conftest import Ground
from tests.patterns.meter import Meter

ANN = "cust_77"
NAMES = ("lease", "phone", "power")
CLAUSES = {"rent": "900.00", "deposit": "1800.50"}
Message = dict[str, Any]


def contracts_on(client: Any, table: str, apart: float = 0) -> Documents:
    """Return documents in parts of 100 bytes, of a writer whose clock is *apart* seconds ahead."""
    clock = FakeClock()
    clock.advance(apart)
    return Documents(table, client, prefix="CONTRACT#", part_bytes=100, clock=clock)


def store(contracts: Documents) -> Any:
    """Return its functions."""
    names = ("sign", "amend", "totals", "cancel")
    return defined_in("examples/patterns/contracts.py", *names, contracts=contracts)


def signed(ground: Ground) -> tuple[str, Any]:
    """Return a table with three contracts, and the functions on it."""
    table = ground.table("pk", "sk")
    functions = store(contracts_on(ground.client, table))
    for name in NAMES:
        functions.sign(ANN, name, CLAUSES)
    return table, functions


MESSAGES: list[Message] = [
    {"name": name, "amendment": {"id": f"{name} {n}", "clause": clause, "amount": f"0.{n}0"}}
    for name in NAMES
    for n, clause in enumerate(("rent", "deposit", "rent", "rent"), 1)
] + [{"name": "power"}]  # cancelled
EXPECTED = {
    name: (
        {"rent": "900.80", "deposit": "1800.70"},
        sorted(message["amendment"]["id"] for message in MESSAGES[:-1] if message["name"] == name),
    )
    for name in ("phone", "lease")
}


def consumer(functions: Any) -> Callable[[Message], None]:
    """Return what processes a message: an amendment, or a cancellation."""

    def consume(message: Message) -> None:
        if "amendment" in message:
            functions.amend(ANN, message["name"], message["amendment"])
        else:
            functions.cancel(ANN, message["name"])

    return consume


def state(contracts: Documents) -> dict[str, tuple[dict[str, str], list[str]]]:
    """Return clauses and amendments of each contract that is listed."""
    read = {name: contracts.read((ANN, name), consistent=True) for name, _ in contracts.list(ANN).items}
    return {
        name: (
            {clause: str(amount) for clause, amount in found.value["clauses"].items()},
            sorted(found.value["amendments"]),
        )
        for name, found in read.items()
        if found is not None
    }


def run(ground: Ground, seed: int, messages: list[Message]) -> dict[str, tuple[dict[str, str], list[str]]]:
    """Deliver *messages* to two consumers on bad lines whose clocks differ, and return what there is."""
    table, functions = signed(ground)
    lines = [FaultyClient(ground.client, by_seed(2 * seed + n)) for n in range(2)]
    stores = [store(contracts_on(line, table, apart=n * 90)) for n, line in enumerate(lines)]
    delivered(messages, [consumer(each) for each in stores], seed)
    for line in lines:
        line.deliver()
    contracts = contracts_on(ground.client, table)
    found = state(contracts)
    totals = [(name, sum(map(Decimal, clauses.values()))) for name, (clauses, _) in found.items()]
    assert list(functions.totals(ANN)) == totals
    return found


@pytest.mark.engine
@pytest.mark.parametrize("seed", range(6))
def test_each_amendment_is_made_once(engine: Ground, seed: int) -> None:
    """A third delivered twice, two consumers, requests and answers lost, copies late: exact amounts."""
    assert run(engine, seed, MESSAGES) == EXPECTED


@pytest.mark.engine
def test_with_an_id_for_each_delivery_an_amendment_is_made_twice(engine: Ground) -> None:
    """Negative twin: the contract's own list of ids keeps redeliveries out."""
    again = [
        {**each, "amendment": {**each["amendment"], "id": "again"}}
        for each in MESSAGES
        if "amendment" in each
    ]
    assert run(engine, 0, [*MESSAGES, *again]) != EXPECTED


def two_at_once(ground: Ground) -> list[str]:
    """Let one amend after another has read the contract and put its parts; return what was amended."""
    table, other = signed(ground)
    first, second = MESSAGES[:2]
    mine = store(contracts_on(Between(ground.client, lambda: consumer(other)(first)), table))
    with suppress(Conflict):  # delivered again
        consumer(mine)(second)
        return state(contracts_on(ground.client, table))["lease"][1]
    consumer(mine)(second)
    return state(contracts_on(ground.client, table))["lease"][1]


def test_two_amendments_at_once_are_two(ground: Ground) -> None:
    """The second is refused, and is made of what the first wrote."""
    assert two_at_once(ground) == ["lease 1", "lease 2"]


def test_without_the_condition_an_amendment_is_lost(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Negative twin."""
    monkeypatch.setattr(requests, "AS_SEEN", "attribute_exists(#version) OR #version = :seen")
    assert two_at_once(ground) == ["lease 2"]


def test_a_cancelled_contract_stays_cancelled(ground: Ground) -> None:
    """Also if a consumer whose clock is ahead amends it meanwhile: the cancellation is delivered again."""
    table, _ = signed(ground)
    ahead = store(contracts_on(ground.client, table, apart=90))
    amended = Between(ground.client, lambda: consumer(ahead)(MESSAGES[0]))
    mine = store(contracts_on(amended, table))
    with pytest.raises(Conflict):
        mine.cancel(ANN, "lease")
    mine.cancel(ANN, "lease")
    mine.cancel(ANN, "lease")
    assert set(state(contracts_on(ground.client, table))) == {"phone", "power"}


def test_a_contract_is_signed_once(ground: Ground) -> None:
    """Signed again it is a conflict, and stays as it is."""
    table, functions = signed(ground)
    before = state(contracts_on(ground.client, table))
    with pytest.raises(Conflict):
        functions.sign(ANN, "lease", {"rent": "1"})
    assert state(contracts_on(ground.client, table)) == before


# -- what it costs


def figures(ground: Ground) -> list[Figure]:
    """Return the figures of fixed runs; before, amounts were text and `list` had no pages."""
    meter = Meter(ground.client)
    table, _ = signed(ground)
    contracts = contracts_on(meter, table)
    functions = store(contracts)
    for n in range(60):
        contracts.write(("many", f"{n:02}"), {"clauses": {}, "amendments": []})
        if n >= 40:
            contracts.delete(("many", f"{n:02}"))
    message = MESSAGES[0]

    def with_text() -> None:
        found = contracts.read((ANN, "phone"), consistent=True)
        assert found is not None
        clauses = found.value["clauses"]
        clauses["rent"] = str(Decimal(clauses["rent"]) + Decimal("0.10"))
        contracts.write((ANN, "phone"), found.value, expected_version=found.version)

    def from_the_start(first: int, last: int) -> list[Any]:
        """Go from head to head, as the generator did that `list` was."""

        def heads() -> Any:
            cursor = None
            while True:
                page = contracts.list("many", limit=1, cursor=cursor)
                yield from page.items
                if (cursor := page.cursor) is None:
                    return

        return list(islice(heads(), first, last))

    cursors = [None, *(contracts.list("many", limit=limit).cursor for limit in (20, 40))]

    def amend() -> None:
        consumer(functions)(message)

    return [
        measured(meter, "an amendment", with_text, amend),
        measured(meter, "the same message again", with_text, amend),
        measured(
            meter,
            "a first page of 20 contracts, behind 20 deleted ones",
            lambda: from_the_start(0, 20),
            lambda: [contracts.list("many", limit=20, cursor=each) for each in cursors[:2]],
        ),
        measured(
            meter,
            "the page behind it",
            lambda: from_the_start(20, 40),
            lambda: contracts.list("many", limit=20, cursor=cursors[2]),
        ),
    ]
