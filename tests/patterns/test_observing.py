"""Seen by operators: each outcome is counted and logged once, without data, or not at all."""

from __future__ import annotations

import io
import json
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from aws_lambda_powertools import Logger, Metrics

from lambda_once.errors import KeyMissing, Misconfigured
from lambda_once.observability.events import Event
from lambda_once.patterns import Documents, Ledger, Publisher, Ratchet, Unique, results
from lambda_once.patterns.observing import EVENTS
from lambda_once.patterns.results import Applied, Conflict, Duplicate, Page, Unreadable
from lambda_once.testing import FakeClock
from tests.patterns.conftest import Ground
from tests.patterns.fifo.queues import TOPIC, Fate, Fifo

SECRET = "s3cret"
DATA = {"amount": 4_711, "note": SECRET}


class Seen:
    """The user's Powertools objects, and what came of them."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._stream = io.StringIO()
        self._capsys = capsys
        logger = Logger(service=f"shop.{uuid4().hex}", stream=self._stream, level="DEBUG")
        self.objects: dict[str, Any] = {
            "metrics": Metrics(namespace="Shop", service="shop"),
            "logger": logger,
        }

    def lines(self) -> list[dict[str, Any]]:
        """Return the log lines since the last time."""
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        assert SECRET not in text
        return [json.loads(line) for line in text.splitlines()]

    def counts(self) -> list[tuple[str, dict[str, list[float]]]]:
        """Return namespace and counts of the metrics documents since the last time."""
        found = []
        for line in self._capsys.readouterr().out.splitlines():
            document = json.loads(line)
            (directive,) = document["_aws"]["CloudWatchMetrics"]
            assert directive["Dimensions"] == [["service", "function"]]
            metrics = {metric["Name"]: document[metric["Name"]] for metric in directive["Metrics"]}
            found.append((directive["Namespace"], metrics))
        return found

    def once(self, event: Event, **fields: object) -> None:
        """Check that *event* was logged once with *fields* and no other of a pattern, and counted once."""
        assert self.counts() == [("Shop", {event.metric: [1.0]})]
        (line,) = self.lines()
        assert (line["message"], line["level"]) == (event.value, _level(event))
        known = {name: line[name] for name in line.keys() & {"pattern", "resource", "key", "error", "reason"}}
        assert known == fields

    def nothing(self) -> None:
        assert (self.counts(), self.lines()) == ([], [])


def _level(event: Event) -> str:
    return {10: "DEBUG", 30: "WARNING", 40: "ERROR"}[event.level]


@pytest.fixture
def seen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Powertools objects of a service of this test's own."""
    for name in ("POWERTOOLS_LOG_LEVEL", "LOG_LEVEL", "AWS_LAMBDA_LOG_LEVEL", "POWERTOOLS_METRICS_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    return Seen(capsys)


def test_a_ledger(ground: Ground, seen: Seen) -> None:
    """Applied, duplicate, below the floor, conflict and full; the key is logged, ids and values are not."""
    table = ground.table()
    points = Ledger(table, ground.client, window=timedelta(days=1), **seen.objects)
    known = {"pattern": "Ledger", "resource": table, "key": "cust_7"}
    points.add("cust_7", {"balance": 10}, id=SECRET, set={"note": SECRET})
    seen.once(Event.APPLIED, **known)
    points.add(key="cust_7", amounts={"balance": 10}, id=SECRET)
    seen.once(Event.DUPLICATE, **known)
    points.add("cust_7", {"balance": -99}, id="m2", floor={"balance": 0})
    seen.once(Event.BELOW_FLOOR, **known)
    with pytest.raises(Conflict):
        points.update("cust_7", {"note": SECRET}, expected={"balance": 99})
    seen.once(Event.CONFLICT, **known)
    with pytest.raises(results.Full):
        points.add("cust_7", {"balance": 1}, id="m3", set={"filling": SECRET * 70_000})
    seen.once(Event.FULL, **known)
    points.get("cust_7")
    seen.nothing()


def test_a_change_reports_its_end(ground: Ground, seen: Seen) -> None:
    """Ten lost races are one conflict; a change that succeeds is applied."""
    table, clock = ground.table(), FakeClock()
    options: dict[str, Any] = {"window": timedelta(days=1), "clock": clock}
    others = Ledger(table, ground.client, **options)
    points = Ledger(table, ground.client, **options, **seen.objects)
    known = {"pattern": "Ledger", "resource": table, "key": "c"}

    def overtaken(values: dict[str, Any]) -> dict[str, Any]:
        others.add("c", {"races": 1}, id=uuid4().hex)
        return {"tier": "gold"}

    with pytest.raises(Conflict):
        points.change("c", overtaken)
    seen.once(Event.CONFLICT, **known)
    points.change("c", lambda _: {"tier": "gold"})
    seen.once(Event.APPLIED, **known)


def test_a_ratchet(ground: Ground, seen: Seen) -> None:
    """Applied, stale, conflict and too far ahead, of puts, deletes and revisions; the key has two parts."""
    table, clock = ground.table("pk", "sk"), FakeClock()
    prices = Ratchet(table, ground.client, key=("pk", "sk"), clock=clock, **seen.objects)
    now = clock.now()
    item = {"pk": "shop", "sk": "cup", **DATA}
    known = {"pattern": "Ratchet", "resource": table, "key": "shop/cup"}
    prices.put(item, now)
    seen.once(Event.APPLIED, **known)
    prices.delete({"pk": "shop", "sk": "cup"}, ts=now - timedelta(seconds=1))
    seen.once(Event.STALE, **known)
    with pytest.raises(Conflict):
        prices.put(item, now + timedelta(seconds=1), expected=None)
    seen.once(Event.CONFLICT, **known)
    with pytest.raises(results.TooFarAhead):
        prices.put(item=item, ts=now + timedelta(hours=1))
    seen.once(Event.TOO_FAR_AHEAD, **known)
    with prices.revision() as revision:
        revision.put(item)
    seen.once(Event.APPLIED, **known)
    prices.get({"pk": "shop", "sk": "cup"})
    seen.nothing()


def test_a_unique(ground: Ground, seen: Seen) -> None:
    """Applied and duplicate; another content under one key is reported as the decorators report it."""
    table = ground.table("pk", "sk")
    key = {"pk": "customer", "sk": ["order", "kind"]}
    receipts = Unique(table, ground.client, key=key, **seen.objects)
    receipt = {"customer": "c7", "order": 5, "kind": "paid", **DATA}
    known = {"pattern": "Unique", "resource": table, "key": "c7/=5#paid"}
    receipts.put(receipt)
    seen.once(Event.APPLIED, **known)
    receipts.put(receipt)
    seen.once(Event.DUPLICATE, **known)
    receipts.put(receipt | {"amount": 5})
    seen.once(Event.KEY_REUSED, **known)
    receipts.put_all([receipt, receipt])
    assert [counts for _, counts in seen.counts()] == [{"duplicate": [1.0]}] * 2
    seen.lines()
    with pytest.raises(KeyMissing):
        receipts.put({"customer": "c7"})
    seen.nothing()


def test_documents(ground: Ground, seen: Seen) -> None:
    """Applied, conflict and too far ahead; a read is reported where it fell back."""
    table, clock = ground.table("pk", "sk"), FakeClock()
    options: dict[str, Any] = {"clock": clock, **seen.objects}
    documents = Documents(table, ground.client, **options)
    known = {"pattern": "Documents", "resource": table, "key": "contract_7"}
    version = documents.write("contract_7", DATA)
    seen.once(Event.APPLIED, **known)
    newest = documents.write(entity_id="contract_7", document=DATA, expected_version=version)
    seen.once(Event.APPLIED, **known)
    with pytest.raises(Conflict):
        documents.write("contract_7", DATA, expected_version=version)
    seen.once(Event.CONFLICT, **known)
    documents.read("contract_7")
    seen.nothing()
    items = ground.client.scan(TableName=table, ConsistentRead=True)["Items"]
    for item in (each for each in items if each["sk"]["S"].startswith(newest)):
        ground.client.delete_item(TableName=table, Key={name: item[name] for name in ("pk", "sk")})
    found = documents.read("contract_7")
    assert found is not None
    assert (found.version, found.fell_back) == (version, True)
    seen.once(Event.FELL_BACK, **known)
    late = Documents(table, ground.client, **options | {"clock": FakeClock(clock.now() - timedelta(days=1))})
    with pytest.raises(results.VersionAhead):
        late.delete("contract_7")
    seen.once(Event.TOO_FAR_AHEAD, **known)
    documents.delete("contract_7")
    seen.once(Event.APPLIED, **known)


def test_a_publisher(seen: Seen) -> None:
    """All messages of a call that were not sent are one event; what was sent is none."""
    clock = FakeClock()
    fifo = Fifo(clock, lambda entry: Fate.NEVER if '"id":1,' in entry.body else Fate.TAKEN)
    receipts = Publisher(TOPIC, fifo, key="id", group="group", service="shop", clock=clock, **seen.objects)
    known = {"pattern": "Publisher", "resource": "receipts.fifo"}
    messages = [{"id": number, "group": group, **DATA} for number, group in enumerate("abbc")]
    assert len(receipts.publish_all(messages)) == 4
    (line,) = seen.lines()
    assert {name: line[name] for name in known} == known
    assert line["level"] == "ERROR"
    assert line["reason"] == "2 of 4 messages not sent"
    assert line["error"] == "InvalidMessageContents"
    assert seen.counts() == [("Shop", {"unsent": [2.0]})]
    with pytest.raises(KeyMissing):
        receipts.publish({"group": "a", **DATA})
    seen.once(Event.UNSENT, **known, error="KeyMissing", reason="1 of 1 messages not sent")
    receipts.publish(messages[0])
    seen.nothing()


def test_entries_of_a_transaction_are_not_counted(ground: Ground, seen: Seen) -> None:
    """Whether they take effect is known to the sender."""
    receipts = Unique(ground.table(), ground.client, key="pk", **seen.objects)
    ground.client.transact_write_items(TransactItems=[receipts.transact_item({"pk": "5"})])
    seen.nothing()


@pytest.mark.parametrize("given", [{}, {"metrics"}, {"logger"}])
def test_what_is_not_given_is_silent(ground: Ground, seen: Seen, given: set[str]) -> None:
    """Each of the two by itself, and neither."""
    objects = {name: seen.objects[name] for name in given}
    receipts = Unique(ground.table(), ground.client, key="pk", **objects)
    receipts.put({"pk": "5"})
    receipts.put({"pk": "5", **DATA})
    assert (bool(seen.counts()), bool(seen.lines())) == ("metrics" in given, "logger" in given)


class Broken:
    """A Metrics and a Logger that raise."""

    name = "broken"

    @property
    def namespace(self) -> str:
        raise RuntimeError(SECRET)


class BrokenKey(str):
    """A key that DynamoDB takes and that has no text."""

    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def test_what_fails_in_reporting_changes_no_outcome(
    strict: Ground, seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Results and errors are those of a silent pattern; that a part failed is logged once."""
    table = strict.table()
    broken: Any = Broken()
    receipts = Unique(table, strict.client, key="pk", metrics=broken, logger=seen.objects["logger"])
    assert isinstance(receipts.put({"pk": "5"}), Applied)
    assert isinstance(receipts.put({"pk": "5"}), Duplicate)
    assert [line["message"] for line in seen.lines()] == [
        *("once.report_failed", "once.applied", "once.duplicate")
    ]

    def failing(*_: object, **__: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr("lambda_once.observability.reporter.standard_logger", failing)
    points = Ledger(table, strict.client, window=timedelta(days=1), **seen.objects)
    assert isinstance(points.add("c", {"balance": 1}, id="m1"), Applied)
    with pytest.raises(Conflict):
        points.update("c", {"tier": 1}, expected={"balance": 99})


def test_a_key_without_text_is_left_out(strict: Ground, seen: Seen) -> None:
    """The line is written all the same."""
    table = strict.table()
    points = Ledger(table, strict.client, window=timedelta(days=1), **seen.objects)
    assert isinstance(points.add(BrokenKey("c"), {"balance": 1}, id="m1"), Applied)
    seen.once(Event.APPLIED, pattern="Ledger", resource=table)


def test_a_class_is_no_object() -> None:
    """`metrics=Metrics` is a mistake that is found when the pattern is made."""
    wrong: Any = Metrics
    with pytest.raises(Misconfigured, match="metrics=Metrics is a class: pass an instance"):
        Unique("t", key="pk", metrics=wrong)


def test_every_result_and_error_has_its_event_or_a_reason() -> None:
    """The vocabulary of the patterns, whole: a new one is decided on here."""
    vocabulary = {
        each
        for each in vars(results).values()
        if isinstance(each, type) and each.__module__ == results.__name__
    }
    # A page is an answer to a question, and of what cannot be read the caller reads again
    assert vocabulary - EVENTS.keys() == {Page, Unreadable}
