"""A token table with rows that tests write, and the command line on it, under a fake clock."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from lambda_once.core.clock import Deadline, epoch_seconds
from lambda_once.core.lifecycle import Decider, Decision, Failure, Resolve, with_decision
from lambda_once.core.results import pack
from lambda_once.core.writes import (
    Acquire,
    Change,
    Complete,
    Hold,
    Holder,
    Release,
    Resolver,
    Unclaimed,
    Write,
    new_write_id,
)
from lambda_once.stores.contract import Won, Written
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table
from lambda_once_tools.cli import options
from lambda_once_tools.cli.app import app
from tests.kit import tables
from tests.kit.strict.mounted import mounted

KEEP = timedelta(days=14)
TIMED_OUT = Failure("PaymentTimeout", "the bank did not answer")
REQUEST = "5f2b6a3e-7d0c-4c1d-9a51-0e8d7c6b5a49"


class Shop:
    """One table, one clock, and what was written to it."""

    def __init__(self, client: Any, name: str, endpoint: str | None = None) -> None:
        self.client = client
        self.name = name
        self.clock = FakeClock()
        self.store = DynamoDBStore(name, client)
        self._endpoint = endpoint

    def run(self, *args: str, **environment: str) -> Result:
        """Call the command line."""
        given = {"LAMBDA_ONCE_TABLE": self.name} | environment
        if self._endpoint is not None:
            given["AWS_ENDPOINT_URL_DYNAMODB"] = self._endpoint
        return CliRunner(env=given).invoke(app, list(args), catch_exceptions=False)

    def begin(
        self,
        token: str,
        attempt: str = "a1",
        *,
        lease: float = 30,
        mortal: bool = True,
        locked_by: str = f"payments/{REQUEST}",
        delivery: str | None = None,
    ) -> str:
        """Acquire *token* for *lease* seconds, as take_over does, or (not *mortal*) as hold does."""
        now = self.clock.now()
        ends = now + timedelta(seconds=lease)
        acquisition = Acquire(
            token=token,
            attempt_id=attempt,
            locked_by=locked_by,
            now=now,
            lease=ends,
            take=Unclaimed(take_over=mortal),
            ttl=epoch_seconds(ends + KEEP) if mortal else None,
            delivery=delivery,
        )
        (answer,) = self.store.acquire([acquisition], self._deadline())
        assert isinstance(answer, Won), answer
        return token

    def end(self, token: str, change: Change, attempt: str = "a1", keep: timedelta = KEEP) -> str:
        """Let *attempt* end in *change*."""
        now = self.clock.now()
        ttl = None if isinstance(change, Hold) else epoch_seconds(now + keep)
        return self._write(Write(token, Holder(attempt), change, now, ttl, new_write_id(change)))

    def decide(self, token: str, change: Change, by: str = "ann", because: str = "seen at the bank") -> str:
        """Let a person decide, under the attempt id ``decided``."""
        row = self.store.read(token, self._deadline())
        assert row is not None
        now = self.clock.now()
        writer = Resolver.of(row, "decided")
        how = {Complete: Resolve.DONE, Hold: Resolve.HOLD, Release: Resolve.NOT_DONE}[type(change)]
        decision = Decision(now, Decider.PERSON, by, because, row.state, how, writer.attempt_id)
        ttl = epoch_seconds(now + KEEP) if isinstance(change, Complete) else None
        decisions = with_decision(row.decisions, decision)
        return self._write(Write(token, writer, change, now, ttl, new_write_id(change), decisions))

    def complete(self, token: str, result: str = "null", keep: timedelta = KEEP, **options: Any) -> str:
        """Acquire and complete it, 1.2 seconds later, with the JSON *result*."""
        self.begin(token, **options)
        self.clock.advance(1.2)
        return self.end(token, Complete(pack(result)), options.get("attempt", "a1"), keep)

    def hold(self, token: str, **options: Any) -> str:
        """Acquire it, and let it wait for a person, a second later."""
        self.begin(token, mortal=False, **options)
        self.clock.advance(1)
        return self.end(token, Hold(TIMED_OUT), options.get("attempt", "a1"))

    def release(self, token: str) -> str:
        """Acquire it, and give it back."""
        self.begin(token)
        return self.end(token, Release(Failure("ValueError", "no such order")))

    def put(self, item: dict[str, Any]) -> None:
        """Write any item, such as one that this package would not write."""
        self.client.put_item(TableName=self.name, Item=item)

    def _write(self, write: Write) -> str:
        (answer,) = self.store.write([write], self._deadline())
        assert isinstance(answer, Written), answer
        return write.token

    def _deadline(self) -> Deadline:
        return Deadline(self.clock, self.clock.now() + timedelta(seconds=20))


def lines(ran: Result) -> list[dict[str, Any]]:
    """Return what a command printed as jsonl."""
    return [json.loads(line) for line in ran.stdout.splitlines()]


def complaint(ran: Result, code: int = 2) -> str:
    """Return the one line that a command said about bad input: the exit code, no data, no traceback."""
    assert (ran.exit_code, ran.stdout) == (code, ""), ran.output
    (line,) = ran.stderr.splitlines()
    assert line.startswith("lambda-once: ")
    return str(line)


@contextmanager
def on_strict(monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """Open a shop on the strict engine; commands read its clock."""
    with mounted():
        client = tables.shared()
        create_table(client, "tokens")
        shop = Shop(client, "tokens")
        monkeypatch.setattr(options, "clock", lambda: shop.clock)
        yield shop


@contextmanager
def on_engine(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> Iterator[Shop]:
    """Open a shop on a real engine."""
    client = tables.client(endpoint)
    with tables.fresh(client) as name:
        shop = Shop(client, name, endpoint)
        monkeypatch.setattr(options, "clock", lambda: shop.clock)
        yield shop
    client.close()


@pytest.fixture(name="shop", params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def open_shop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """A shop on each engine in turn."""
    if request.param == "strict":
        with on_strict(monkeypatch) as shop:
            yield shop
    else:
        with on_engine(monkeypatch, request.getfixturevalue("engine_endpoint")) as shop:
            yield shop
