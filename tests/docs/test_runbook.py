"""Every command of docs/operations.md, literally, on dynoxide: what the page promises is there."""

from __future__ import annotations

import getpass
import io
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3
import pytest
from aws_lambda_powertools import Logger
from click.testing import CliRunner, Result

from examples import failed_event
from lambda_once import HOLD, RELEASE, Done, Held, KeyReused, Misconfigured, Once, ResultUnavailable
from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.results import Parts
from lambda_once.core.writes import Write
from lambda_once.operations.table import TokenTable
from lambda_once.operations.watchdog import watchdog
from lambda_once.patterns.ledger import Ledger
from lambda_once.stores.contract import WriteAnswer
from lambda_once.stores.row import listed
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import FakeClock, create_table, lambda_context, using
from lambda_once_tools.cli import options
from lambda_once_tools.cli.app import app
from tests.docs.pages import ROOT
from tests.docs.test_operations_page import OURS, PAGE
from tests.kit import tables

pytestmark = pytest.mark.engine

TOKEN = "orders/charge/12345"
RECEIPT = {"receipt": "ch_10002", "amount": 100}
LARGE = [f"{n * n * 2_654_435_761 % 2**32:x}" for n in range(90_000)]
_SECTION = re.compile(r"^## (?P<title>[^\n]+)\n(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_LINE = re.compile(r"^ *(lambda-once [^\n]+?)(?: &&)?$", re.MULTILINE)
SECTIONS = {found["title"]: _LINE.findall(found["text"]) for found in _SECTION.finditer(PAGE)}


class GatewayTimeout(Exception):
    """The provider did not answer."""


class AmountMismatch(Exception):
    """Another error that is held."""


class Killed(BaseException):
    """The sandbox is gone."""


class Losing(DynamoDBStore):
    """A table that refuses every write once a token is acquired, as after a change of permissions."""

    def write(self, writes: Sequence[Write], deadline: Deadline) -> list[WriteAnswer]:
        del deadline
        return [Misconfigured("no permission") for _ in writes]


@dataclass
class Night:
    """One table of dynoxide, a function that charges orders, and the operator on call."""

    client: Any
    table: str
    folder: Path
    clock: FakeClock = field(default_factory=FakeClock)
    charged: list[str] = field(default_factory=list)
    log: io.StringIO = field(default_factory=io.StringIO)
    """What the functions log, a JSON line each."""
    provider: Callable[[str], Any] = lambda _: RECEIPT

    def __post_init__(self) -> None:
        self.logger = Logger(service=f"orders.{uuid4().hex}", stream=self.log)

    def deliver(
        self, order: str = "12345", *, table: str | None = None, delivery: str | None = None, **given: Any
    ) -> Any:
        """
        Deliver *order* as *delivery*; return the answer, or what was raised.

        *payload*: what the message has besides. *loses_completions*: no write after the acquisition arrives.
        """
        payload, loses = given.pop("payload", {}), given.pop("loses_completions", False)
        once = Once(service="orders", logger=self.logger)

        @once.event(key="orderId", name="charge", lease=timedelta(seconds=30), **given)
        def charge(event: dict[str, Any]) -> Any:
            self.charged.append(event["orderId"])
            return self.provider(event["orderId"])

        store = (Losing if loses else DynamoDBStore)(table or self.table, self.client)
        with using(once, store, self.clock):
            try:
                return charge({"orderId": order} | payload, lambda_context(request_id=delivery))
            except (Exception, Killed) as error:  # noqa: BLE001  (what the caller gets)
                return error

    def fails(self, order: str, error: BaseException, **given: Any) -> None:
        """Deliver *order* while the provider raises *error*."""

        def raises(_order: str) -> Any:
            raise error

        before, self.provider = self.provider, raises
        self.deliver(order, **{"on_error": HOLD} | given)
        self.provider = before

    def lapses(self, order: str = "12345", **given: Any) -> None:
        """Let the function die with *order*."""
        self.fails(order, Killed(), **given)
        self.row(order, given.get("table"))
        self._unfinish(order, given.get("table"))
        self.clock.advance(60)

    def _unfinish(self, order: str, table: str | None) -> None:
        """Take back what the end of the invocation wrote: a killed sandbox writes nothing."""
        self.client.update_item(
            TableName=table or self.table,
            Key={"lockToken": {"S": f"orders/charge/{order}"}},
            UpdateExpression="SET #status = :status, listed = :of REMOVE actualCompletion, #error, #write",
            ExpressionAttributeNames={"#status": "status", "#error": "error", "#write": "write"},
            ExpressionAttributeValues={
                ":status": {"S": "inProgress"},
                ":of": {"S": listed(State.IN_PROGRESS, f"orders/charge/{order}")},
            },
        )

    def logged(self, order: str = "12345") -> list[str]:
        """Return the messages of the log about *order*, in order."""
        lines = map(json.loads, self.log.getvalue().splitlines())
        return [line["message"] for line in lines if line.get("token") == f"orders/charge/{order}"]

    def watches(self) -> None:
        """Let the watchdog run, which only reports."""
        watchdog(self.table, self.client, self.clock, logger=self.logger, grace=timedelta(0), sweep=False)(
            {}, None
        )

    def row(self, order: str = "12345", table: str | None = None) -> Record:
        record = TokenTable(table or self.table, self.client, self.clock).read(f"orders/charge/{order}")
        assert record is not None
        return record

    def types(self, line: str, code: int = 0) -> Result:
        """Run *line* as it is on the page, and say yes."""
        assert line in OURS
        return self.types_by_hand(line.removeprefix("lambda-once "), code)

    def declines(self, line: str) -> Result:
        """Run *line* as it is on the page, and say no."""
        return self.types_by_hand(line.removeprefix("lambda-once "), 1, "n\n")

    def types_by_hand(self, line: str, code: int = 0, answer: str = "y\n") -> Result:
        """Run what the page says in a sentence or a table."""
        command, _, file = f"lambda-once {line}".partition(" > ")
        arguments = shlex.split(command, comments=True)[1:]
        ran = CliRunner().invoke(app, arguments, input=answer, prog_name="lambda-once")
        assert ran.exit_code == code, (line, ran.output)
        if file:
            (self.folder / file.strip()).write_text(ran.stdout, encoding="utf-8")
        return ran


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch, engine_endpoint: str, tmp_path: Path) -> Iterator[Night]:
    """A table, the variables of the page, and the files that its commands name."""
    client = tables.client(engine_endpoint)
    with ExitStack() as stack:
        name = stack.enter_context(tables.fresh(client))
        found = Night(client, name, tmp_path)
        for variable, value in {
            "LAMBDA_ONCE_TABLE": name,
            "AWS_ENDPOINT_URL_DYNAMODB": engine_endpoint,
            "AWS_LAMBDA_FUNCTION_NAME": "payments",
        }.items():
            monkeypatch.setenv(variable, value)
        monkeypatch.setattr(options, "clock", lambda: found.clock)
        monkeypatch.setattr(options, "is_terminal", lambda: True)
        monkeypatch.setattr(getpass, "getuser", lambda: "anna")
        (tmp_path / "result.json").write_text(json.dumps(RECEIPT), encoding="utf-8")
        for file, event in (("first", "sqs-payment"), ("second", "sqs-payment-amended")):
            text = (ROOT / "events" / f"{event}.json").read_text(encoding="utf-8")
            (tmp_path / f"{file}.json").write_text(text, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        monkeypatch.syspath_prepend(str(ROOT / "examples"))
        yield found


def test_did_an_order_go_through(night: Night) -> None:
    """All ways find it; the result is what the caller got."""
    night.deliver(delivery="059f36b4-87a3-44ab-83d2-661975830a7d")
    for line in SECTIONS["Did order 12345 go through"]:
        assert TOKEN in night.types(line).output
    assert night.charged == ["12345"]


def test_where_to_look(night: Night) -> None:
    """What is deployed is checked: the sample, as CloudFormation prints it, and without its TTL."""
    (line,) = SECTIONS["Where to look"]
    body = (ROOT / "template.yaml").read_text(encoding="utf-8")
    ttl = "      TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}\n"
    assert ttl in body
    for text, code in ((body.replace(ttl, ""), 1), (body, 0)):
        deployed = json.dumps({"TemplateBody": text, "StagesAvailable": ["Original", "Processed"]})
        (night.folder / "deployed.json").write_text(deployed, encoding="utf-8")
        night.types(line, code)


def test_overdue_tasks(night: Night) -> None:
    """Done: replayed with the result. Not done: runs. Held: nothing runs. Then the list is empty."""
    listed, shown, done, not_done = SECTIONS["Stuck or unfinished work"]
    night.lapses()
    assert TOKEN in night.types(listed, 1).output
    assert "once.returned" not in night.types(shown, 1).output
    night.types(done)
    assert (night.deliver(), night.charged) == (RECEIPT, ["12345"])
    night.types(listed)
    _again(night)
    night.types(not_done)
    night.types(listed)
    assert (night.deliver(), night.charged) == (RECEIPT, ["12345", "12345"])
    _again(night)
    night.types_by_hand("resolve orders/charge/12345 --hold --because 'provider is down'")
    night.types(listed)
    assert isinstance(night.deliver(), Held)
    assert night.charged == ["12345"]


def _again(night: Night) -> None:
    """Let the order be overdue once more."""
    night.client.delete_item(TableName=night.table, Key={"lockToken": {"S": TOKEN}})
    night.charged.clear()
    night.lapses()


def test_held_tokens(night: Night) -> None:
    """One outage is released, which runs; what was held before, and what a person decided, is not."""
    listed, shown, release = SECTIONS["Tokens are held"]
    night.fails("1", AmountMismatch("100, not 10"))
    night.fails("5", GatewayTimeout("last week"))
    night.clock.advance(9 * 86_400)
    for order in ("2", "3", "12345"):
        night.fails(order, GatewayTimeout("no answer"))
    night.types_by_hand("resolve orders/charge/2 --hold --because 'it WAS charged' --yes")
    before = {order: night.row(order) for order in ("1", "2", "5")}
    assert "it WAS charged" in night.types(listed, 1).output
    night.types(shown, 1)
    assert "2 held" in night.types_by_hand(f"{release.removeprefix('lambda-once ')} --dry-run").output
    assert {night.row(order).state for order in ("1", "2", "3", "5", "12345")} == {State.HELD}
    ran = night.types(release).output
    assert "2 released, 1 skipped" in ran
    assert "it WAS charged" in ran
    assert {order: night.row(order) for order in before} == before
    night.charged.clear()
    assert [night.deliver(order) for order in ("3", "12345")] == [RECEIPT, RECEIPT]
    assert isinstance(night.deliver("2"), Held)
    assert night.charged == ["3", "12345"]
    night.types(listed, 1)


def test_a_burst_of_key_reused(night: Night) -> None:
    """The comparison names what differs. Once it is ignored, only messages from before are still refused."""
    (line,) = SECTIONS["A burst of KeyReused"]
    assert "amount" in night.types(line, 1).output
    night.deliver("old", payload={"sentAt": 1})
    assert isinstance(night.deliver("old", payload={"sentAt": 2}), KeyReused)
    ignoring: dict[str, Any] = {"ignore": ["sentAt"]}
    night.deliver("new", payload={"sentAt": 1}, **ignoring)
    assert night.deliver("new", payload={"sentAt": 2}, **ignoring) == RECEIPT
    assert isinstance(night.deliver("old", payload={"sentAt": 2}, **ignoring), KeyReused)
    assert night.row("old").state is State.COMPLETE
    assert night.charged == ["old", "new"]


def test_deliveries_of_the_same_content(night: Night) -> None:
    """The comparison, and the row. With an id in the key the second order runs, when it is sent again."""
    (compared,), (shown,) = SECTIONS["A burst of KeyReused"], SECTIONS["Work may have run twice"]
    night.types(compared, 1)
    night.deliver(delivery="first")
    assert night.deliver(delivery="second") == RECEIPT
    assert "once.same_content" in night.logged()
    assert "done: a duplicate gets the stored result" in night.types(shown).output
    night.deliver("12345/second", delivery="second")
    assert night.charged == ["12345", "12345/second"]


def test_work_fails(night: Night) -> None:
    """Exit code 0 where nothing is held, 1 where something is."""
    (line,) = SECTIONS["Work fails"]
    night.types(line)
    night.fails("12345", GatewayTimeout("no answer"))
    night.types(line, 1)


def test_attempts_that_are_fenced(night: Night) -> None:
    """Both ran, the late one is fenced, and the row is that of the attempt that took over."""
    (line,) = SECTIONS["Work may have run twice"]
    receipts = iter([RECEIPT | {"receipt": "second"}, RECEIPT | {"receipt": "first"}])

    def outlasts(_: str) -> Any:
        night.clock.advance(60)
        night.provider = lambda _: next(receipts)
        night.deliver(delivery="again")
        return next(receipts)

    night.provider = outlasts
    night.deliver()
    assert night.charged == ["12345", "12345"]
    assert "once.fenced" in night.logged()
    assert "for delivery again" in night.types(line).output
    assert night.deliver() == RECEIPT | {"receipt": "second"}


def test_completions_that_fail(night: Night) -> None:
    """While its lease is alive, --force is needed, and nothing runs afterwards; without it, it runs again."""
    shown, done = SECTIONS["Completions fail"]
    for order in ("12345", "2"):
        night.deliver(order, loses_completions=True)
        assert night.logged(order)[-2:] == ["once.returned", "once.completion_failed"]
    assert "in progress" in night.types(shown).output
    night.types(done)
    night.clock.advance(60)
    assert (night.deliver(), night.row().state) == (None, State.COMPLETE)
    night.deliver("2")
    assert night.charged == ["12345", "2", "2"]


def test_failures_whose_hold_is_lost(night: Night) -> None:
    """What on_error holds is held by hand, before the lease ends; what it releases needs nothing."""
    night.fails("held", GatewayTimeout(), loses_completions=True)
    night.fails("released", GatewayTimeout(), loses_completions=True, on_error=RELEASE)
    assert night.logged("held")[-2:] == ["once.failed", "once.completion_failed"]
    (hold,) = re.findall(r"\* `once.failed`: `(resolve --hold --force)`", PAGE)
    night.types_by_hand(f"{hold} orders/charge/held --because 'once.failed is in the log'")
    night.clock.advance(60)
    assert isinstance(night.deliver("held"), Held)
    assert night.deliver("released") == RECEIPT
    assert night.charged == ["held", "released", "released"]


def test_the_counts(night: Night) -> None:
    """Three rounds; and by hand what the watchdog does, and what is open."""
    night.lapses()
    (three,) = SECTIONS["The store is unavailable"]
    by_hand, found = SECTIONS["The watchdog does not run"]
    assert night.types(three, 1).stdout.count("1 overdue") == 3
    night.types(by_hand, 1)
    assert "orders/charge/12345" in night.types(found, 1).stdout


def test_work_is_taken_over(night: Night) -> None:
    """The row is that of the redelivery; under hold it does not run twice."""
    (line,) = SECTIONS["Work may have run twice"]
    night.lapses()
    night.deliver()
    assert "once.taken_over" in night.logged()
    assert "complete" in night.types(line).output
    night.lapses("2", on_lapse="hold")
    assert isinstance(night.deliver("2", on_lapse="hold"), Held)
    assert night.charged == ["12345", "12345", "2"]


def test_released_work_does_not_run(night: Night) -> None:
    """It is listed until a delivery runs, or until it is resolved for good."""
    listed, shown = SECTIONS["Released work does not run"]
    night.lapses()
    night.types_by_hand("resolve orders/charge/12345 --not-done --because checked")
    assert TOKEN in night.types(listed, 1).output
    assert "released" in night.types(shown).output
    night.deliver()
    night.types(listed)
    night.lapses("2")
    night.types_by_hand("resolve orders/charge/2 --not-done --because checked")
    night.types_by_hand("list --released", 1)
    night.types_by_hand("resolve orders/charge/2 --failed --force --because cancelled")
    night.types(listed)


REQUEST = "6f7f7961-7e3c-4b0e-9a4f-0a8c1d1f2b3c"
PAID = {
    "version": "0",
    "id": "53dc4d37-cffa-4f76-80c9-8b7d4a4d2eaa",
    "detail-type": "OrderPaid",
    "source": "shop.orders",
    "account": "123456789012",
    "time": "2026-11-20T02:00:00Z",
    "region": "eu-central-1",
    "resources": [],
    "detail": {"orderId": "order_7", "amount": 100},
}


@dataclass
class Invoices:
    """The shop's asynchronous function, in the environment of one tenant, and its on-failure queue."""

    night: Night
    broken: bool = True
    request: str = REQUEST
    queue: list[dict[str, Any]] = field(default_factory=list)

    def deliver(self, event: dict[str, Any]) -> None:
        """Let Lambda try *event* three times, one request, and put its record into the queue if all fail."""
        module = import_module("orders.invoices")
        context = lambda_context("shop-invoices", self.request, tenant_id="blue")
        store = DynamoDBStore(self.night.table, self.night.client)
        with using(module.once, store, self.night.clock):
            for wait in (60, 120, 0):
                try:
                    module.issue(event, context)
                except ConnectionError:
                    self.night.clock.advance(wait)
                else:
                    return
        record = {
            "version": "1.0",
            "requestContext": {
                "requestId": self.request,
                "functionArn": "arn:aws:lambda:eu-central-1:123456789012:function:shop-invoices",
                "condition": "RetriesExhausted",
                "approximateInvokeCount": 3,
            },
            "requestPayload": event,
            "responsePayload": {"errorMessage": "the printer is down", "errorType": "ConnectionError"},
        }
        self.queue.append({"MessageId": str(uuid4()), "ReceiptHandle": "r-1", "Body": json.dumps(record)})


@pytest.fixture
def invoices(night: Night, monkeypatch: pytest.MonkeyPatch) -> Iterator[Invoices]:
    """Its invoices cannot be written until it's mended."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "orders")
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop-invoices")
    modules = {*sys.modules}
    found = Invoices(night)
    module = import_module("orders.invoices")

    def add(kind: str, subject: str) -> None:
        if found.broken:
            raise ConnectionError("the printer is down")
        night.charged.append(f"{kind} {subject}")

    monkeypatch.setattr(module, "EFFECTS", SimpleNamespace(add=add))
    yield found
    for name in {*sys.modules} - modules:
        if name.split(".")[0] == "orders":
            del sys.modules[name]


def test_work_failed_on_all_its_retries(
    night: Night, invoices: Invoices, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    From the alarm on the on-failure queue to its end: no list has the work, but its message leads to it.

    By the request alone, or by what the handler makes of the event, each with its tenant; mended and sent
    again, it's done once.
    """
    found, explained, shown, scanned = SECTIONS["Work failed on all its retries"]
    invoices.deliver(PAID)
    (message,) = invoices.queue
    over = "list --overdue --held --released"
    assert over in PAGE
    night.types_by_hand(over)  # exit code 0: the list alone is no end of an incident
    (night.folder / "failed.json").write_text(json.dumps({"Messages": [message]}), encoding="utf-8")
    assert json.loads(message["Body"])["requestContext"]["requestId"] in found
    token = shown.split()[-1]
    assert token in night.types(found).stdout
    (night.folder / "context.json").write_text(json.dumps({"tenant_id": "blue"}), encoding="utf-8")
    assert failed_event.main("failed.json") == 0
    ran = night.types(explained)
    assert token in ran.stdout
    ran = night.types(shown)
    assert "ConnectionError: the printer is down" in ran.stdout
    assert "released by its function: the next delivery runs, if there is one" in ran.stdout
    ran = night.types(scanned, 1)
    assert token in ran.stdout
    assert "ConnectionError: the printer is down" in ran.stdout
    assert "1 released" in ran.stderr
    invoices.broken, invoices.request = False, "another"
    invoices.queue.clear()
    invoices.deliver(json.loads((night.folder / "event.json").read_text(encoding="utf-8")))
    assert "done: a duplicate gets the stored result" in night.types(shown).stdout
    night.types(scanned)
    invoices.deliver(PAID)
    assert (night.charged, invoices.queue) == (["invoiced order_7"], [])


def test_dead_letter_queues(night: Night) -> None:
    """A message's id leads to its token: held, it's resolved first, and the redriven message is replayed."""
    found, shown = SECTIONS["Dead-letter queues (DLQ)"]
    message = found.split()[-1]
    night.fails("12345", GatewayTimeout("no answer"), delivery=message)
    for _ in range(3):  # up to maxReceiveCount
        assert isinstance(night.deliver(delivery=message), Held)
    ran = night.types(found)
    assert TOKEN in ran.stdout
    assert "GatewayTimeout: no answer" in ran.stdout
    assert "next: lambda-once resolve orders/charge/12345 " in night.types(shown, 1).stderr
    night.types_by_hand(f"resolve {TOKEN} --done --result result.json --because 'provider has ch_1'")
    night.types(shown)
    assert (night.deliver(delivery=message), night.charged) == (RECEIPT, ["12345"])
    night.types_by_hand("list --overdue --held --released")


def test_a_request_crashes(night: Night) -> None:
    """
    From the alarm of the watchdog to the end: asked, declined, resolved; its duplicates get the result.

    What another crash left, and nobody delivers again, is released, and is unfinished until it's sent again.
    """
    listed, shown, done, _ = SECTIONS["Stuck or unfinished work"]
    night.lapses(on_error=RELEASE)
    night.lapses("2", on_error=RELEASE)
    night.watches()
    assert "once.overdue" in night.logged() + night.logged("2")
    assert "2 overdue" in night.types_by_hand("watchdog", 1).stdout
    assert "2 overdue" in night.types(listed, 1).stderr
    ran = night.types(shown, 1)
    assert "whether the work was done is unknown: the next delivery runs, if there is one" in ran.stdout
    before = night.row()
    ran = night.declines(done)
    assert f"{TOKEN}: would be resolved as done (it is overdue): provider has ch_1" in ran.stderr
    assert ran.stderr.splitlines()[-1].endswith("refused, nothing was written: you declined")
    assert night.row() == before
    ran = night.types(done)
    assert f"{TOKEN}: anna (identity unverified) resolved it as done" in ran.stderr
    assert (night.deliver(), night.charged) == (RECEIPT, ["12345", "2"])
    ran = night.types_by_hand("redrive --overdue --because 'the provider has none'")
    assert "Its next delivery runs. Are you sure that it was not done?" in ran.stderr
    ran = night.types_by_hand("list --overdue --held --released", 1)
    assert "0 overdue, 0 held, 1 released by a decision" in ran.stderr
    assert (night.deliver("2"), night.charged) == (RECEIPT, ["12345", "2", "2"])
    night.types_by_hand("list --overdue --held --released")


def test_functions_fail_or_are_throttled(night: Night) -> None:
    """What they left is overdue."""
    (line,) = SECTIONS["Functions fail or are throttled"]
    night.types(line)
    night.lapses()
    assert TOKEN in night.types(line, 1).output


def test_deliveries_wait(night: Night) -> None:
    """Nothing is stuck: three rounds that count nothing."""
    (line,) = SECTIONS["Deliveries wait"]
    assert night.types(line).stdout.count("0 overdue") == 3


def test_records_are_refused(night: Night) -> None:
    """The token of a record that is sound."""
    (line,) = SECTIONS["Records are refused"]
    assert "order_12345" in night.types(line).output


def test_a_probe_or_policy_fails(night: Night) -> None:
    """What the probe left is overdue, what the policy left is held; neither runs until it is resolved."""
    overdue, held = SECTIONS["Stuck or unfinished work"][0], SECTIONS["Tokens are held"][0]

    def raises(*_: Any) -> Any:
        raise ConnectionError

    night.lapses()
    night.deliver(on_lapse=raises)
    night.fails("2", GatewayTimeout("no answer"), on_error=raises)
    assert "once.probe_failed" in night.logged()
    assert "once.policy_failed" in night.logged("2")
    assert TOKEN in night.types(overdue, 1).output
    assert "orders/charge/2" in night.types(held, 1).output
    assert isinstance(night.deliver("2", on_error=raises), Held)
    assert night.charged == ["12345", "2"]
    assert night.deliver(on_lapse=lambda *_: Done(RECEIPT)) == RECEIPT  # the next delivery asks again
    assert night.charged == ["12345", "2"]


def test_results_are_not_stored(night: Night) -> None:
    """Its row is complete, and nothing runs again. Duplicates get what the operator gives them."""
    (line,) = SECTIONS["Results are not stored"]
    night.provider = lambda _: object()
    night.deliver()
    assert "once.result_unavailable" in night.logged()
    assert isinstance(night.deliver(), ResultUnavailable)
    assert "complete" in night.types(line, 1).output
    (give,) = re.findall(r"To give duplicates a result: `(resolve [^`]+) FILE`", PAGE)
    night.types_by_hand(f"{give} result.json {TOKEN} --because 'from the provider'")
    assert (night.deliver(), night.charged) == (RECEIPT, ["12345"])


def test_the_table_is_throttled(night: Night) -> None:
    """The list of what is in progress."""
    (line,) = SECTIONS["The table is throttled"]
    night.lapses()
    night.clock.advance(-50)
    assert TOKEN in night.types(line).output


def test_more_is_in_progress_than_usual(night: Night) -> None:
    """The list has what is alive, the earliest lease first; the totals say how many, in three rounds."""
    (listed,) = SECTIONS["More is in progress than usual"]
    (three,) = SECTIONS["The store is unavailable"]
    for order in ("12345", "12346"):
        night.lapses(order)
    night.clock.advance(-100)
    found = night.types(listed).stdout
    assert found.index(TOKEN) < found.index("orders/charge/12346")
    assert night.types(three).stdout.count("2 in progress") == 3


def test_a_pattern_needs_attention(night: Night) -> None:
    """The ledger's item, and whether one id was added."""
    (shown,) = SECTIONS["A pattern needs attention"]
    night.client.create_table(
        TableName="points",
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
    )
    try:
        ledger = Ledger("points", night.client, window=timedelta(days=14), clock=night.clock)
        ledger.add("cust_77", {"balance": 30}, id="order-5")
        assert "1 id remembered" in night.types(shown).output
        (line,) = re.findall(r"`lambda-once (show --ledger [^`]+)`", PAGE)
        assert "added" in night.types_by_hand(line).output
    finally:
        night.client.delete_table(TableName="points")


def test_a_restored_table(night: Night) -> None:
    """By its name. What is written into it: tests/docs/test_restored_table.py."""
    (listed,) = SECTIONS["The table was restored"]
    *_, done, not_done = (
        f"{line.removeprefix('lambda-once ')} --table tokens-restored"
        for line in SECTIONS["Stuck or unfinished work"]
    )
    create_table(night.client, "tokens-restored")
    try:
        night.lapses(table="tokens-restored")
        assert TOKEN in night.types(listed, 1).output
        night.types_by_hand(done)
        night.types(listed)
        night.lapses("2", table="tokens-restored")
        night.types_by_hand(not_done.replace("/12345", "/2"))
        night.types(listed, 1)
        assert night.row("2", table="tokens-restored").state is State.RELEASED
    finally:
        night.client.delete_table(TableName="tokens-restored")


def test_a_region_fails_over(night: Night, engine_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the failed region left is overdue in the other one."""
    (line,) = SECTIONS["A region fails over"]
    # A table of its own stands for the other region's: dynoxide 3.2.0 knows no regions.
    night.table += "-eu-west-1"
    night.client = boto3.client("dynamodb", region_name="eu-west-1", endpoint_url=engine_endpoint)
    create_table(night.client, night.table)
    monkeypatch.setenv("LAMBDA_ONCE_TABLE", night.table)
    night.lapses()
    assert TOKEN in night.types(line, 1).output
    night.client.delete_table(TableName=night.table)


@pytest.mark.parametrize("result", [RECEIPT, LARGE], ids=["in the row", "in parts"])
def test_a_keep_that_is_wrong(night: Night, result: Any) -> None:
    """It is kept with its result, which can be saved; a number that is used again runs, and only then."""
    (keep,) = SECTIONS["Retention"]
    (drop,) = re.findall(r"`(resolve [^`]+ --drop-result)`", PAGE)
    night.provider = lambda _: result
    night.deliver()
    night.clock.advance(60)
    before = night.row()
    assert isinstance(before.stored, Parts) is (result is LARGE)
    night.types(keep)
    row = night.row()
    assert (row.attempt_id, row.write_id, row.stored) == (before.attempt_id, before.write_id, before.stored)
    assert row.ttl == int((night.clock.now() + timedelta(days=28)).timestamp())
    night.clock.advance(20 * 86_400)
    assert (night.deliver(), night.charged) == (result, ["12345"])
    drop = f"{drop} {TOKEN} --because 'number reused'"
    (save,) = re.findall(r"Save it: lambda-once (.+)", night.types_by_hand(drop, 1, "n\n").output)
    night.types_by_hand(save)
    assert json.loads((night.folder / "backup.json").read_text(encoding="utf-8")) == result
    night.types_by_hand(drop)
    night.provider = lambda _: "the other order 12345"
    assert (night.deliver(), night.charged) == ("the other order 12345", ["12345", "12345"])


def test_a_person_asks_for_erasure(night: Night) -> None:
    """The token is found and forgotten; a duplicate gets ResultUnavailable. A key goes with its row alone."""
    found, forget, delete = SECTIONS["A person asks for erasure"]
    once = Once(service="orders")
    scored: list[str] = []

    @once.event(key="customer", name="score")
    def score(event: dict[str, Any]) -> dict[str, Any]:
        scored.append(event["customer"])
        return {"name": "Ann", "score": 700}

    with using(once, DynamoDBStore(night.table, night.client), night.clock):
        score({"customer": "cust_77"}, lambda_context())
        assert "orders/score/cust_77" in night.types(found).output
        night.types(forget)
        with pytest.raises(ResultUnavailable):
            score({"customer": "cust_77"}, lambda_context())
        score({"customer": "ann@example.com"}, lambda_context())
        night.types(delete)
        assert scored == ["cust_77", "ann@example.com"]
        for item in night.client.scan(TableName=night.table)["Items"]:
            assert not re.search("Ann|ann%40", str(item))
        score({"customer": "ann@example.com"}, lambda_context())
    assert scored == ["cust_77", "ann@example.com", "ann@example.com"]


def test_every_section_is_played() -> None:
    """None that has a command is left out; a test takes as many commands as its section has."""
    played = re.findall(r'SECTIONS\["([^"]+)"\]', Path(__file__).read_text(encoding="utf-8"))
    assert {title for title, lines in SECTIONS.items() if lines} == {*played}
    assert sorted(line for lines in SECTIONS.values() for line in lines) == sorted(OURS)
