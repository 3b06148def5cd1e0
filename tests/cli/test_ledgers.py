from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError
from click.testing import Result

from lambda_once.patterns.ledger import Ledger
from lambda_once.patterns.ledger.layout import home, id_digest, key_item, ledger_table
from lambda_once.patterns.results import Applied, Duplicate
from lambda_once.stores.transport import TokenTransport
from tests.cli.shop import Shop, complaint, on_engine, open_shop
from tests.kit import tables

__all__ = ["open_shop"]

WINDOW = timedelta(minutes=5)
KEY = {"pk": "S"}


class Points:
    """A ledger's table, and the command line on it."""

    def __init__(self, shop: Shop, stack: ExitStack) -> None:
        self.shop = shop
        self._stack = stack

    def ledger(self, types: dict[str, str] | None = None, **options: Any) -> Ledger:
        """Open a ledger with five minutes of window on a new table with key attributes of *types*."""
        found = types or KEY

        def create(client: Any, name: str) -> None:
            client.create_table(
                TableName=name,
                BillingMode="PAY_PER_REQUEST",
                AttributeDefinitions=[
                    {"AttributeName": each, "AttributeType": kind} for each, kind in found.items()
                ],
                KeySchema=[
                    {"AttributeName": each, "KeyType": kind}
                    for each, kind in zip(found, ("HASH", "RANGE"), strict=False)
                ],
            )

        self.table = self._stack.enter_context(tables.fresh(self.shop.client, create))
        clock = self.shop.clock
        return Ledger(self.table, self.shop.client, window=WINDOW, key=tuple(found), clock=clock, **options)

    def show(self, *args: str, **environment: str) -> Result:
        return self.shop.run("show", "--ledger", self.table, *args, **environment)

    def shown(self, *args: str, code: int = 0) -> Any:
        ran = self.show("--output", "json", *args)
        assert ran.exit_code == code, ran.output
        return json.loads(ran.stdout)


@pytest.fixture
def points(shop: Shop) -> Iterator[Points]:
    with ExitStack() as stack:
        yield Points(shop, stack)


@pytest.fixture
def engine_points(monkeypatch: pytest.MonkeyPatch, engine_endpoint: str) -> Iterator[Points]:
    """On dynoxide alone: the strict engine has keys of text only."""
    with on_engine(monkeypatch, engine_endpoint) as shop, ExitStack() as stack:
        yield Points(shop, stack)


# -- an id


def test_an_id_that_was_added(points: Points) -> None:
    """When, to a bucket of its layout; until when it is remembered; and the values."""
    ledger, began = points.ledger(), points.shop.clock.now()
    ledger.add("cust_77", {"balance": 10}, id="order-5")
    points.shop.clock.advance(60)
    found = points.shown("cust_77", "--id", "order-5")
    assert found["table"] == points.table
    assert found.keys() == {"table", "id", "values", "items"}
    assert found["values"] == {"balance": 10}
    answer = found["id"]
    assert (answer["id"], answer["state"]) == ("order-5", "remembered")
    text = began.strftime("%Y-%m-%dT%H:%M:%S")
    assert answer["addedFrom"] <= text <= answer["addedTo"] < answer["rememberedUntil"]


@pytest.mark.parametrize("after", [0.0, 0.4])
def test_it_is_remembered_exactly_until_the_time_that_is_shown(points: Points, after: float) -> None:
    """A millisecond before, the id is a duplicate; then it would be added again, as the warning says."""
    ledger, clock = points.ledger(), points.shop.clock
    clock.advance(after)
    ledger.add("cust_77", {"balance": 10}, id="order-5")
    trace = points.shown("cust_77", "--id", "order-5")["id"]
    clock.advance((_at(trace["rememberedUntil"]) - clock.now()).total_seconds() - 0.001)
    assert points.shown("cust_77", "--id", "order-5")["id"] == trace
    assert isinstance(ledger.add("cust_77", {"balance": 10}, id="order-5"), Duplicate)
    clock.advance(0.001)
    ran = points.show("cust_77", "--id", "order-5")
    assert ran.exit_code == 0
    assert ran.stderr == "WARNING: the id was added, and is forgotten: it would be added again\n"
    assert points.shown("cust_77", "--id", "order-5")["id"] == trace | {"state": "forgotten"}
    assert isinstance(ledger.add("cust_77", {"balance": 10}, id="order-5"), Applied)


def test_an_id_that_was_not_added(points: Points) -> None:
    """Exit code 1, with the values; so of one that was refused."""
    ledger = points.ledger()
    ledger.add("cust_77", {"balance": 10}, id="order-5")
    ledger.add("cust_77", {"balance": -20}, id="order-6", floor={"balance": 0})
    for missing in ("order-6", "order-7"):
        ran = points.show("cust_77", "--id", missing)
        assert ran.exit_code == 1
        assert ran.stdout.splitlines()[0].split() == ["id", missing, "not", "found"]
        assert ran.stderr == "WARNING: the id was never added, or is forgotten: it would be added\n"
    assert points.shown("cust_77", "--id", "order-6", code=1)["id"] == {"id": "order-6", "state": "notFound"}


def test_what_is_printed_for_people(points: Points) -> None:
    """A line for the id, each value and each item."""
    ledger = points.ledger()
    ledger.add("cust_77", {"balance": Decimal("19.9")}, id="order-5", set={"name": "Ann"})
    points.shop.clock.advance(60)
    ran = points.show("cust_77", "--id", "order-5")
    assert [" ".join(each.split()) for each in ran.stdout.splitlines()] == [
        "id order-5 added 10:11:54 to 10:12:03, remembered until 10:17:05",
        "balance 19.9",
        'name "Ann"',
        "item cust_77 1 id remembered, each for 5 min 2 s; newest bucket 10:11:54 to 10:12:03",
    ]
    assert (ran.exit_code, ran.stderr) == (0, "")


def test_text_of_clients_is_escaped(points: Points) -> None:
    """Names, values and ids, on a terminal."""
    points.ledger().add("cust\x1b[2J", {"balance": 1}, id="a\x1b[2J", set={"n\x1b": "v\x9b2J"})
    ran = points.show("cust\x1b[2J", "--id", "a\x1b[2J")
    assert ran.exit_code == 0
    assert "\x1b" not in ran.output
    assert "\x9b" not in ran.output


# -- an item


def test_without_an_id_the_item_is_shown(points: Points) -> None:
    """Its values, how many ids it remembers and for how long, and the newest bucket."""
    ledger = points.ledger()
    for number in range(3):
        ledger.add("cust_77", {"balance": 10}, id=f"order-{number}")
    found = points.shown("cust_77")
    assert (found["values"], found["id"]) == ({"balance": 30}, None)
    (item,) = found["items"]
    assert (item["key"], item["ids"], item["expires"]) == ({"pk": "cust_77"}, 3, None)
    assert WINDOW <= timedelta(seconds=item["windowSeconds"]) < WINDOW + timedelta(seconds=3)
    assert item["newestFrom"] < item["newestTo"]
    points.shop.clock.advance(400)
    assert points.shown("cust_77")["items"][0]["ids"] == 0


def test_an_item_that_expires(points: Points) -> None:
    """When, by the table's TTL attribute, which is none of the values."""
    expires = points.shop.clock.now() + timedelta(days=30)
    points.ledger().add("cust_77", {"balance": 1}, id="1", expires=expires)
    found = points.shown("cust_77")
    assert found["values"] == {"balance": 1}
    assert _at(found["items"][0]["expires"]) == expires.replace(microsecond=0)
    assert "; expires 2026-12-" in points.show("cust_77").stdout


@pytest.mark.parametrize("ttl", [{"S": "never"}, {"N": "-1"}, {"N": "1.5"}, {"N": "9" * 20}])
def test_an_expiry_that_is_none(points: Points, ttl: dict[str, str]) -> None:
    """Others may have written that attribute."""
    points.ledger().add("cust_77", {"balance": 1}, id="1")
    points.shop.client.update_item(
        TableName=points.table,
        Key={"pk": {"S": "cust_77"}},
        UpdateExpression="SET #t = :t",
        ExpressionAttributeNames={"#t": "ttl"},
        ExpressionAttributeValues={":t": ttl},
    )
    assert points.shown("cust_77")["items"][0]["expires"] is None


def test_values_are_json(points: Points) -> None:
    """Numbers are numbers where a float has them, and text where it would change them."""
    given = {
        "a": Decimal("0.1"),
        "b": Decimal("1.00000000000000000001"),
        "c": {b"x"},
        "d": [None, {"e": "f"}],
    }
    points.ledger().add("cust_77", {"n": 10**30}, id="1", set=given)
    assert points.shown("cust_77")["values"] == {
        "n": 10**30,
        "a": 0.1,
        "b": "1.00000000000000000001",
        "c": ["eA=="],
        "d": [None, {"e": "f"}],
    }


def test_a_key_of_two_parts(points: Points) -> None:
    """As two arguments: a slash may be in a part."""
    points.ledger({"pk": "S", "sk": "S"}).add(("a/b", "c"), {"balance": 1}, id="order-5")
    assert points.shown("a/b", "c", "--id", "order-5")["values"] == {"balance": 1}


@pytest.mark.engine
@pytest.mark.parametrize(
    ("types", "key", "typed"),
    [
        ({"customer": "N"}, (77,), ("77",)),
        ({"customer": "N", "day": "N"}, (-7, Decimal("1.5")), ("--", "-7", "1.5")),
        ({"customer": "N", "day": "N"}, (10**30, Decimal("1E-9")), ("1e30", "0.0000000010")),
        ({"pk": "B"}, (b"\x00\x01",), ("AAE=",)),
    ],
)
def test_keys_that_are_not_text(
    engine_points: Points, types: dict[str, str], key: tuple[Any, ...], typed: tuple[str, ...]
) -> None:
    """DescribeTable has the names and types."""
    engine_points.ledger(types).add(key, {"balance": 1}, id="order-5")
    assert engine_points.shown("--id", "order-5", *typed)["values"] == {"balance": 1}


def test_without_describe_table(points: Points, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names may be given; then keys are text."""
    points.ledger({"pk": "S", "sk": "S"}).add(("a", "b"), {"balance": 1}, id="1")
    _denying(monkeypatch, "describe_table")
    assert points.shown("a", "b", "--ledger-key", "pk, sk")["values"] == {"balance": 1}
    message = complaint(points.show("a", "b"))
    assert "DescribeTable on table" in message
    assert message.endswith("not authorized")


# -- shards


def test_of_shards_the_one_with_the_id_is_read(points: Points, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first, which has their number; the values are its own."""
    ledger = points.ledger(shards=7)
    asked = _asked(monkeypatch)
    table = ledger_table(points.table, "pk")
    for number in range(20):
        ledger.add("cust_77", {"balance": 1}, id=f"order-{number}")
        found = points.shown("cust_77", "--id", f"order-{number}")
        assert found["id"]["state"] == "remembered"
        first, own = key_item(table, "cust_77", 0), home(table, "cust_77", id_digest(f"order-{number}"), 7)
        read = [each["Key"] for each in asked if "Key" in each]
        assert read == ([first] if own == first else [first, own])
        asked.clear()


def test_all_shards_are_summed(points: Points) -> None:
    """Without an id: counters, and an entry for each item that exists."""
    ledger = points.ledger(shards=5)
    for number in range(30):
        ledger.add("cust_77", {"balance": 2}, id=f"order-{number}")
    found = points.shown("cust_77")
    assert (found["values"], sum(each["ids"] for each in found["items"])) == ({"balance": 60}, 30)
    shown = [each["key"]["pk"] for each in found["items"]]
    assert shown == ["cust_77", *(f"cust_77#{shard}" for shard in range(1, 5))]


def test_any_item_of_a_key_may_be_typed(points: Points) -> None:
    """As it is shown; a key of one item may have a "#" of its own."""
    ledger = points.ledger(shards=3)
    for number in range(9):
        ledger.add("cust_77", {"balance": 2}, id=f"order-{number}")
    assert points.shown("cust_77#1")["values"] == points.shown("cust_77")["values"] == {"balance": 18}
    assert points.shown("cust_77#2", "--id", "order-1")["id"]["state"] == "remembered"
    Ledger(points.table, points.shop.client, window=timedelta(days=1)).add("a#b", {"balance": 5}, id="1")
    assert points.shown("a#b")["values"] == {"balance": 5}


def test_an_id_whose_shard_has_no_item_was_never_added(points: Points) -> None:
    """The first item says how many shards there are; nothing is summed in part."""
    points.ledger(shards=50).add("cust_77", {"balance": 2}, id="order-1")
    states = {complaint_of(points, f"order-{number}") for number in range(2, 9)}
    assert states == {(1, "notFound")}


def complaint_of(points: Points, name: str) -> tuple[int, str]:
    """Return exit code and state for the id *name*."""
    ran = points.show("cust_77", "--id", name, "--output", "json")
    return ran.exit_code, json.loads(ran.stdout)["id"]["state"]


# -- what cannot be shown


def test_a_key_without_an_item(points: Points) -> None:
    """One line, and exit code 1."""
    points.ledger()
    assert complaint(points.show("cust_78", "--id", "1"), 1) == (
        f"lambda-once: table {points.table} has no item cust_78: nothing was added to it, or it has expired"
    )


@pytest.mark.parametrize(
    "item",
    [
        {"name": {"S": "Ann"}},
        {"bt": {"S": "x"}},
        {"bt": {"N": "1"}, "bl": {"N": "32"}, "bv": {"N": "1"}},
        {"bt": {"N": "9" * 30}, "bl": {"N": "100032"}, "bv": {"N": "1"}},
    ],
)
def test_an_item_that_no_ledger_wrote(points: Points, item: dict[str, Any]) -> None:
    """It is named, and nothing is shown of it."""
    points.ledger()
    points.shop.client.put_item(TableName=points.table, Item={"pk": {"S": "cust_77"}, **item})
    message = complaint(points.show("cust_77"))
    assert "of item {'pk': 'cust_77'}" in message or "item {'pk': 'cust_77'} of table" in message
    assert "was not written by" in message


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (("a", "b"), "the key of table {table} is pk: give 1 of them"),
        (("a", "--id", ""), "an id has 1 to 1,024 bytes, not 0"),
        (("a", "--result"), "--result is for tokens: omit it with --ledger"),
        (("a", "--names", "orders/charge"), "--names is for tokens: omit it with --ledger"),
        (("a", "--ledger-key", "id"), "has another key: check KEY, SORT and --ledger-key"),
    ],
)
def test_bad_input(points: Points, args: tuple[str, ...], why: str) -> None:
    """Is named in one line."""
    points.ledger()
    assert why.format(table=points.table) in complaint(points.show(*args))


@pytest.mark.engine
@pytest.mark.parametrize(("kind", "wanted"), [("N", "a number"), ("B", "binary, given in base64")])
def test_a_key_of_another_type(engine_points: Points, kind: str, wanted: str) -> None:
    """The type of the key is named."""
    engine_points.ledger({"pk": kind})
    assert (
        complaint(engine_points.show("x!")) == f"lambda-once: 'x!' is not a key of this table: it is {wanted}"
    )


def test_a_table_that_is_missing(points: Points) -> None:
    """Its name and region, and what to check; the token table is not needed."""
    points.table = "no-such-table"
    ran = points.show("a", "--region", "eu-central-1", LAMBDA_ONCE_TABLE="")
    assert "table 'no-such-table' does not exist in region eu-central-1" in complaint(ran)


def test_options_of_a_ledger_alone(shop: Shop) -> None:
    """They are not of a token."""
    assert "pass --ledger TABLE" in complaint(shop.run("show", "a", "b"))
    assert "pass --ledger TABLE" in complaint(shop.run("show", "a", "--id", "b"))


def test_variables_of_the_token_table_change_nothing(points: Points) -> None:
    """Its functions have names, and its index is written by a watchdog."""
    points.ledger().add("cust_77", {"balance": 1}, id="1")
    named = {"LAMBDA_ONCE_NAMES": "orders/charge", "LAMBDA_ONCE_LISTING": "stream"}
    ran = points.show("cust_77", "--id", "1", POWERTOOLS_SERVICE_NAME="orders", **named)
    assert (ran.exit_code, ran.stderr) == (0, "")


@pytest.mark.parametrize("operation", ["describe_table", "get_item"])
def test_a_denial_has_the_sentence_of_aws(
    points: Points, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the operation that is missing."""
    points.ledger().add("cust_77", {"balance": 1}, id="1")
    _denying(monkeypatch, operation)
    message = complaint(points.show("cust_77"))
    assert operation.replace("_", "") in message.lower()
    assert "is not allowed (AccessDeniedException): check --profile" in message
    assert message.endswith("not authorized")


def test_only_what_the_page_grants_is_sent(points: Points, monkeypatch: pytest.MonkeyPatch) -> None:
    """DescribeTable and GetItem, on this table."""
    ledger = points.ledger(shards=3)
    ledger.add("cust_77", {"balance": 1}, id="1")
    operations = set()
    call = TokenTransport.call

    def noted(self: TokenTransport, operation: str, request: Any, *rest: Any) -> Any:
        operations.add((operation, request["TableName"]))
        return call(self, operation, request, *rest)

    monkeypatch.setattr(TokenTransport, "call", noted)
    points.shown("cust_77")
    assert operations == {("describe_table", points.table), ("get_item", points.table)}


def test_throttling(points: Points, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is named as such."""
    points.ledger().add("cust_77", {"balance": 1}, id="1")
    _denying(monkeypatch, "get_item", "ProvisionedThroughputExceededException")
    assert "the table is throttled (ProvisionedThroughputExceededException): retry" in complaint(
        points.show("cust_77")
    )


def _at(text: str) -> Any:
    from lambda_once.stores.row import parse_stamp

    return parse_stamp(text)


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of requests that commands send from now on."""
    requests: list[Any] = []
    call = TokenTransport.call

    def noted(self: TokenTransport, operation: str, request: Any, *rest: Any) -> Any:
        requests.append(request)
        return call(self, operation, request, *rest)

    monkeypatch.setattr(TokenTransport, "call", noted)
    return requests


def _denying(monkeypatch: pytest.MonkeyPatch, of: str, code: str = "AccessDeniedException") -> None:
    """Refuse requests of the operation *of*."""
    call = TokenTransport.call

    def refused(self: TokenTransport, operation: str, *rest: Any) -> Any:
        if operation == of:
            raise ClientError({"Error": {"Code": code, "Message": "not authorized"}}, operation)
        return call(self, operation, *rest)

    monkeypatch.setattr(TokenTransport, "call", refused)
