"""A store on the simulator's strict engine: what is sent is counted, and meets what a test has in mind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from lambda_once.core.lifecycle import Record
from lambda_once.stores.contract import Store
from lambda_once.stores.rows import record_of
from lambda_once.stores.store import DynamoDBStore
from tests.kit.strict.engine import StrictEngine, client_error
from tests.kit.strict.schemas import token_table
from tests.stores.world import Item

TABLE = "tokens"
BATCH, READ, SINGLE = "batch_execute_statement", "batch_get_item", "update_item"
PARTS = "batch_write_item"

Forward = Callable[[dict[str, Any]], Any]
Fate = Callable[[dict[str, Any], Forward], Any]
"""What happens to one request on its way."""


def failing(*codes: str | None) -> Fate:
    """Of the statements of a batch those with a code here fail with it, nothing written."""

    def fate(arguments: dict[str, Any], forward: Forward) -> Any:
        batch = arguments["Statements"]
        planned = [*codes, *[None] * len(batch)][: len(batch)]
        sound = [one for one, code in zip(batch, planned, strict=True) if code is None]
        answers = iter(forward({"Statements": sound})["Responses"] if sound else ())
        return {"Responses": [next(answers) if code is None else _failed(code) for code in planned]}

    return fate


def muddled(code: str) -> Fate:
    """Every statement of a batch is done, and for each the answer is that it failed with *code*."""

    def fate(arguments: dict[str, Any], forward: Forward) -> Any:
        return {"Responses": [_failed(code) for _ in forward(arguments)["Responses"]]}

    return fate


def throttled(_arguments: dict[str, Any], _forward: Forward) -> Any:
    """Nothing is done."""
    raise client_error("ProvisionedThroughputExceededException", "as the test wants it", "any")


def before(happening: Callable[[], object]) -> Fate:
    """Something happens just before the request arrives."""

    def fate(arguments: dict[str, Any], forward: Forward) -> Any:
        happening()
        return forward(arguments)

    return fate


def after(happening: Callable[[], object]) -> Fate:
    """Something happens just after the request was answered."""

    def fate(arguments: dict[str, Any], forward: Forward) -> Any:
        answer = forward(arguments)
        happening()
        return answer

    return fate


def _failed(code: str) -> dict[str, Any]:
    return {"Error": {"Code": code, "Message": "as the test wants it"}}


class Client:
    """A client of an engine of its own: its requests meet their fates, in order; those beyond arrive."""

    def __init__(self) -> None:
        self.engine = StrictEngine(token_table(TABLE))
        self.sent: list[str] = []
        self.fates: dict[str, list[Fate]] = {}
        """By operation."""
        self._one_at_a_time = threading.Lock()

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        execute = getattr(self.engine, operation)

        def forward(arguments: dict[str, Any]) -> Any:
            with self._one_at_a_time:
                return execute(**arguments)

        def send(**arguments: Any) -> Any:
            self.sent.append(operation)
            fates = self.fates.get(operation)
            return fates.pop(0)(arguments, forward) if fates else forward(arguments)

        return send


class Ground:
    """An empty table of the strict engine, under a store; its rows are looked at past the client."""

    def __init__(self) -> None:
        self.client = Client()
        self.store: Store = DynamoDBStore(TABLE, self.client)

    @property
    def items(self) -> Any:
        """The raw rows, by lock token."""
        return self.client.engine.tables[TABLE].items

    @property
    def records(self) -> list[Record]:
        return [record_of(item) for item in self.items.values() if "attempt" in item]

    @property
    def booking(self) -> dict[str, Any]:
        """An item for `transact`: it books once."""
        return {"Put": {"TableName": TABLE, "Item": {"lockToken": {"S": "a booking"}}}}

    @property
    def bookings(self) -> int:
        return int("a booking" in self.items)

    # ---------------------------------------------------------------- what a `World` asks of its rows

    def item(self, token: str) -> Item | None:
        """Return the raw row, or None."""
        item: Item | None = self.items.get(token)
        return item

    def forget(self, token: str) -> None:
        """Delete the row, as a person or DynamoDB's TTL does."""
        self.client.engine.delete(TABLE, token)
