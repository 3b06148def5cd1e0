"""An operator at a table: a function that charges cards on a queue, and the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from lambda_once import HOLD, STORE, Once
from lambda_once.core.lifecycle import Record
from lambda_once.operations.table import TokenTable
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table, lambda_context, sqs_event, using
from lambda_once_tools.cli import options
from lambda_once_tools.cli.app import app
from tests.kit import tables
from tests.kit.strict.mounted import mounted

LEASE = 30
"""Seconds."""


class Timeout(Exception):
    """The provider did not answer: whether money moved is unknown."""


class Declined(Exception):
    """An answer, and final."""


@dataclass
class Payments:
    """One table, a function that uses it, and its operator."""

    client: Any
    table: str
    endpoint: str | None
    clock: FakeClock = field(default_factory=FakeClock)
    asked: list[str] = field(default_factory=list)
    """The payments that the provider was asked for, in order."""
    provider: Callable[[str], Any] = str

    def open(self, stack: ExitStack) -> None:
        """Set the function up."""
        self._once = Once(service="shop")
        stack.enter_context(using(self._once, DynamoDBStore(self.table, self.client), self.clock))

        settings: dict[str, Any] = {
            "key": "paymentId",
            "lease": timedelta(seconds=LEASE),
            "on_error": {Timeout: HOLD, Declined: STORE},
        }

        def charge(payment: str) -> Any:
            self.asked.append(payment)
            return self.provider(payment)

        @self._once.event(name="charge", **settings)
        def charged_at_once(event: dict[str, Any]) -> Any:
            return charge(event["paymentId"])

        @self._once.sqs(name=charged_at_once, **settings)
        def charged_by_message(record: Any) -> Any:
            return charge(json.loads(record.body)["paymentId"])

        self._directly, self._by_queue = charged_at_once, charged_by_message

    def ask(self, payment: str) -> Any:
        """Ask for *payment*, as Step Functions does; return the answer, or the error that it raised."""
        try:
            return self._directly({"paymentId": payment}, lambda_context())
        except Exception as error:  # noqa: BLE001  (whatever it is, it is what the caller gets)
            return error

    def deliver(self, payment: str) -> bool:
        """Deliver the message of *payment*; tell whether its queue may delete it."""
        event = sqs_event({"paymentId": payment}, message_ids=[f"m-{payment}"])
        try:
            answer = self._by_queue(event, lambda_context())
        except Exception:  # noqa: BLE001  (every record of the batch failed: its only one)
            return False
        return bool(answer == {"batchItemFailures": []})

    def hold(self, payment: str) -> str:
        """Let the provider not answer for *payment*; return its token, which is held then."""
        before, self.provider = self.provider, times_out
        self.deliver(payment)
        self.provider = before
        assert self.row(payment).error is not None
        return self.token(payment)

    def token(self, payment: str) -> str:
        return f"shop/charge/{payment}"

    @property
    def operations(self) -> TokenTable:
        return TokenTable(self.table, self.client, self.clock)

    def row(self, payment: str) -> Record:
        record = self.operations.read(self.token(payment))
        assert record is not None
        return record

    def run(self, *arguments: str, stdin: str | bytes | None = None) -> Result:
        """Call ``lambda-once`` with *arguments* on the table."""
        reach = ["--table", self.table]
        if self.endpoint is not None:
            reach += ["--endpoint-url", self.endpoint]
        return CliRunner().invoke(app, [*arguments, *reach], input=stdin, prog_name="lambda-once")


def times_out(_payment: str) -> Any:
    """Be the provider on a bad day."""
    raise Timeout("no answer in 10 s")


@contextmanager
def payments_at(monkeypatch: pytest.MonkeyPatch, endpoint: str | None) -> Iterator[Payments]:
    """Set up payments on a table of the strict engine, or of the one at *endpoint*."""
    with ExitStack() as stack:
        if endpoint is None:
            stack.enter_context(mounted())
        client = tables.client(endpoint)
        if endpoint is None:
            create_table(client, "tokens")
            name = "tokens"
        else:
            name = stack.enter_context(tables.fresh(client))
        found = Payments(client, name, endpoint)
        monkeypatch.setattr(options, "clock", lambda: found.clock)
        found.open(stack)
        yield found


@pytest.fixture(name="payments")
def open_payments(monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    """Payments on a table of the strict engine."""
    with payments_at(monkeypatch, None) as found:
        yield found


@pytest.fixture(name="each", params=["strict", pytest.param("engine", marks=pytest.mark.engine)])
def open_each(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Payments]:
    """Payments on a table of the strict engine, and of dynoxide."""
    endpoint = request.getfixturevalue("engine_endpoint") if request.param == "engine" else None
    with payments_at(monkeypatch, endpoint) as found:
        yield found


def output_of(result: Result) -> str:
    """What the command said and printed, with line breaks of a narrow terminal taken for spaces."""
    return " ".join(click.unstyle(result.output).split())
