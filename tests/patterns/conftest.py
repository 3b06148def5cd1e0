"""The engines that patterns are judged by: the strict one, and a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.kit import tables
from tests.kit.strict.mounted import mounted

ENGINES = ["strict", pytest.param("engine", marks=pytest.mark.engine)]


@dataclass
class Ground:
    """An engine to make tables on; they are gone with the test."""

    client: Any
    _stack: ExitStack

    def table(
        self, key: str = "pk", sort: str | None = None, *, stream: bool = False, sort_type: str = "S"
    ) -> str:
        """Create a table of this key and return its name; the partition key is text."""
        types = {key: "S"} if sort is None else {key: "S", sort: sort_type}

        def create(client: Any, name: str) -> None:
            client.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[
                    {"AttributeName": each, "AttributeType": kind} for each, kind in types.items()
                ],
                KeySchema=[
                    {"AttributeName": each, "KeyType": kind}
                    for each, kind in zip(types, ("HASH", "RANGE"), strict=False)
                ],
                **(
                    {"StreamSpecification": {"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}}
                    if stream
                    else {}
                ),
            )
            client.get_waiter("table_exists").wait(TableName=name)

        return self._stack.enter_context(tables.fresh(self.client, create))

    def tokens(self) -> str:
        """Create a table of tokens and return its name."""
        return self._stack.enter_context(tables.fresh(self.client))


@pytest.fixture
def strict() -> Iterator[Ground]:
    """Tables of the strict engine."""
    with mounted(), ExitStack() as stack:
        yield Ground(tables.shared(), stack)


@pytest.fixture
def engine(engine_endpoint: str) -> Iterator[Ground]:
    """Tables of a real engine."""
    client = tables.boto3s(engine_endpoint, patience=60)
    with ExitStack() as stack:
        yield Ground(client, stack)
    client.close()


@pytest.fixture(params=ENGINES)
def ground(request: pytest.FixtureRequest) -> Ground:
    """Both in turn: the real one where tests of the marker ``engine`` are run."""
    found: Callable[[str], Ground] = request.getfixturevalue
    return found(request.param)
