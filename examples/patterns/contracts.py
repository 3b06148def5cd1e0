"""A contract store: documents whose amendments come from a queue, some twice, with amounts as Decimals."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lambda_once.patterns.documents import ABSENT, Documents

contracts = Documents("contracts", prefix="CONTRACT#")


def sign(customer: str, name: str, clauses: dict[str, str]) -> None:
    """Create a contract; raise `Conflict` if there is one."""
    amounts = {clause: Decimal(amount) for clause, amount in clauses.items()}
    contracts.write((customer, name), {"clauses": amounts, "amendments": []}, expected_version=ABSENT)


def amend(customer: str, name: str, amendment: dict[str, Any]) -> None:
    """
    Add an amount to a clause, once, whatever else is amended meanwhile.

    An error is a `RetryLater`: deliver the message again. An amendment of a contract that is not there is
    dropped, so send none before `sign` has returned.
    """
    found = contracts.read((customer, name), consistent=True)
    if found is None or amendment["id"] in found.value["amendments"]:
        return  # cancelled, or delivered again
    found.value["clauses"][amendment["clause"]] += Decimal(amendment["amount"])
    found.value["amendments"].append(amendment["id"])
    # Amended meanwhile: Conflict, a RetryLater. The message comes again, and is added to what is there then.
    contracts.write((customer, name), found.value, expected_version=found.version)


def totals(customer: str) -> Iterator[tuple[str, Decimal]]:
    """Yield name and total of each contract."""
    cursor = None
    while True:
        page = contracts.list(customer, limit=20, cursor=cursor)
        for name, _ in page.items:
            if found := contracts.read((customer, name)):
                yield name, sum(found.value["clauses"].values())
        if (cursor := page.cursor) is None:
            return


def cancel(customer: str, name: str) -> None:
    """
    Delete a contract, whoever amends it meanwhile: that is a `Conflict`, a RetryLater.

    Without ``expected_version`` an amendment of a clock that is ahead would win, and the contract remain.
    """
    if found := contracts.read((customer, name), consistent=True):
        contracts.delete((customer, name), expected_version=found.version)
