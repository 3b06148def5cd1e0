"""People who list and do not decide: under TokenListing the commands work, and nothing returns an outcome."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from lambda_once.core.lifecycle import Failure, State
from lambda_once.core.results import Chunks
from lambda_once.core.writes import Complete, Hold
from lambda_once.operations.list_state import READ
from lambda_once.stores.row import LISTED, listed
from lambda_once_tools.cli import options
from tests.cli.shop import Shop, lines, open_shop
from tests.kit import iam
from tests.kit.judge import Statement

from .test_tenancy import policy

__all__ = ["open_shop"]

SECRET = "DE02100100109307118603"
TOKENS = ("orders/charge/paid", "orders/charge/large", "orders/charge/failed", "orders/charge/held")


@pytest.fixture
def limited(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[Statement]], list[str]]:
    """Put a secret into each kind of outcome; then let commands do what *statements* allow."""
    shop.complete(TOKENS[0], f'{{"iban": "{SECRET}"}}')
    shop.begin(TOKENS[1])
    shop.end(TOKENS[1], Complete(Chunks((SECRET.encode(), b"2"))))
    shop.begin(TOKENS[2])
    shop.end(TOKENS[2], Complete(None, Failure("Declined", SECRET)))
    shop.begin(TOKENS[3])
    shop.end(TOKENS[3], Hold(Failure("Timeout", SECRET)))
    shop.begin("orders/charge/late")
    shop.clock.advance(3_600)
    made = options.client_for
    denied: list[str] = []

    def use(statements: Sequence[Statement]) -> list[str]:
        def client_for(*args: Any, **given: Any) -> Any:
            client = made(*args, **given)
            iam.limit(client, statements, denied)
            return client

        monkeypatch.setattr(options, "client_for", client_for)
        return denied

    return use


def listing() -> list[Statement]:
    """Return the statements of TokenListing."""
    return policy("TokenListing", "orders")


def test_the_policy_lists_what_the_commands_read() -> None:
    """Every attribute that operators see, and none besides: a new one must be in the template, too."""
    (attributes,) = [
        each["Condition"]["ForAllValues:StringEquals"][iam.ATTRIBUTES]
        for each in listing()
        if "Condition" in each
    ]
    assert attributes == [*LISTED, *READ[1:]]
    assert not {"result", "error", "data", "parts", "fields", "caller"} & {*LISTED}


COMMANDS = [
    (["list"], 1),
    (["list", "--held"], 1),
    (["list", "--released"], 0),
    (["list", "--consistent"], 1),
    (["list", "--by-function"], 1),
    (["watch", "--count", "1"], 1),
    *((["show", token], 1 if token == TOKENS[3] else 0) for token in TOKENS),
    (["show", "late"], 1),
    (["show", "--service", "orders", "--name", "charge", "paid"], 0),
]


@pytest.mark.parametrize("output", ["table", "json"])
@pytest.mark.parametrize(("command", "code"), COMMANDS, ids=str)
def test_a_command_works_and_prints_no_outcome(
    shop: Shop, limited: Any, command: list[str], code: int, output: str
) -> None:
    """It exits as under all permissions, and says that it has left out what it may not read."""
    if command == ["show", "late"]:
        command = [*command, "--names", "orders/charge"]
    limited(listing())
    ran = shop.run(*command, "--output", output)
    assert ran.exit_code == code, ran.stderr
    assert SECRET not in ran.stdout + ran.stderr
    if command[0] == "show":
        assert "result and error were not read" in ran.stderr
        assert "null" not in ran.stdout or output == "json"


def test_show_says_what_it_knows(shop: Shop, limited: Any) -> None:
    """State and times; of the outcome neither kind nor size, and no command that depends on it."""
    limited(listing())
    text = shop.run("show", TOKENS[2]).stdout
    assert "done, or failed for good" in text
    assert "its result or error was not read" in text
    (row,) = [shop.run("show", TOKENS[2], "--output", "jsonl").stdout]
    assert '"result"' not in row
    assert '"error"' not in row
    held = shop.run("show", TOKENS[3]).stdout
    assert "held for manual review; its error was not read" in held
    assert lines(shop.run("list", "--held", "--output", "jsonl"))[0].keys().isdisjoint({"error", "result"})


@pytest.mark.parametrize(
    "command",
    [
        ["show", TOKENS[0], "--result"],
        ["show", TOKENS[1], "--result"],
        ["list", "--error", "Timeout"],
        ["find", "paid"],
        ["resolve", TOKENS[3], "--done", "--because", "x", "--by", "ann", "--yes"],
        ["redrive", "--because", "x", "--by", "ann", "--yes"],
        ["forget", TOKENS[0], "--because", "x", "--by", "ann", "--yes"],
    ],
    ids=" ".join,
)
def test_what_needs_an_outcome_or_writes_is_refused(shop: Shop, limited: Any, command: list[str]) -> None:
    """Exit code 2, and the table is as it was."""
    before = shop.client.scan(TableName=shop.name)["Items"]
    denied = limited(listing())
    ran = shop.run(*command)
    assert ran.exit_code == 2, ran.stdout
    assert "is not allowed" in ran.stderr
    assert denied
    assert SECRET not in ran.stdout + ran.stderr
    assert shop.client.scan(TableName=shop.name)["Items"] == before


def test_twin_under_all_permissions_they_print_it(shop: Shop) -> None:
    """What is left out above is there."""
    shop.complete("orders/charge/1", f'"{SECRET}"')
    shop.begin("orders/charge/2")
    shop.end("orders/charge/2", Hold(Failure("Timeout", SECRET)))
    assert SECRET in shop.run("show", "orders/charge/1", "--result").stdout
    assert SECRET in shop.run("show", "orders/charge/2").stdout
    assert SECRET in shop.run("list", "--held").stdout


def test_a_role_that_decides_reads_nothing_in_part(shop: Shop, limited: Any) -> None:
    """With every write allowed, but results unread, `resolve` does not decide about what it has not seen."""
    writes = [{"Effect": "Allow", "Action": "dynamodb:UpdateItem", "Resource": "*"}]
    limited([*listing(), *writes])
    ran = shop.run("resolve", TOKENS[3], "--not-done", "--because", "x", "--by", "ann", "--yes")
    assert ran.exit_code == 2
    assert "GetItem" in ran.stderr


def names(*shown: str) -> dict[str, Any]:
    """Return the projection of these attributes."""
    aliases = {f"#n{n}": name for n, name in enumerate(shown)}
    return {"ProjectionExpression": ", ".join(aliases), "ExpressionAttributeNames": aliases}


def attacks(shop: Shop) -> dict[str, Callable[[Any], object]]:
    """Return requests for an outcome by a client of one's own."""
    table = shop.name
    row = shop.store.read(TOKENS[1], shop._deadline())
    assert row is not None
    key, part = {"lockToken": {"S": TOKENS[0]}}, {"lockToken": {"S": f"{TOKENS[1]}#{row.attempt_id}#0"}}
    held = {"lockToken": {"S": TOKENS[3]}}
    held_rows = {
        "KeyConditionExpression": "#s = :s",
        "ExpressionAttributeNames": {"#s": "status"},
        "ExpressionAttributeValues": {":s": {"S": "error"}},
    }
    return {
        "all attributes": lambda client: client.get_item(TableName=table, Key=key),
        "the result": lambda client: client.get_item(TableName=table, Key=key, **names("result")),
        "the result among others": lambda client: client.get_item(
            TableName=table, Key=key, **names("lockToken", "result")
        ),
        "an element of the error": lambda client: client.get_item(
            TableName=table, Key=held, ProjectionExpression="lockToken, error.message"
        ),
        "by AttributesToGet": lambda client: client.get_item(
            TableName=table, Key=key, AttributesToGet=["lockToken", "result"]
        ),
        "a part": lambda client: client.get_item(TableName=table, Key=part),
        "the data of a part": lambda client: client.get_item(TableName=table, Key=part, **names("data")),
        "all of several rows": lambda client: client.batch_get_item(
            RequestItems={table: {"Keys": [key, part]}}
        ),
        "results of several rows": lambda client: client.batch_get_item(
            RequestItems={table: {"Keys": [key], **names("lockToken", "result")}}
        ),
        "in a transaction": lambda client: client.transact_get_items(
            TransactItems=[{"Get": {"TableName": table, "Key": key}}]
        ),
        "in a transaction, the result": lambda client: client.transact_get_items(
            TransactItems=[{"Get": {"TableName": table, "Key": key, **names("result")}}]
        ),
        "a query of the table": lambda client: client.query(
            TableName=table,
            KeyConditionExpression="lockToken = :t",
            ExpressionAttributeValues={":t": key["lockToken"]},
        ),
        "a query of the table, names alone": lambda client: client.query(
            TableName=table,
            KeyConditionExpression="lockToken = :t",
            ExpressionAttributeValues={":t": key["lockToken"]},
            ProjectionExpression="lockToken",
        ),
        "another index": lambda client: client.query(TableName=table, IndexName="all", **held_rows),
        "a scan": lambda client: client.scan(TableName=table),
        "a scan, names alone": lambda client: client.scan(TableName=table, **names("lockToken")),
        "what an update returns": lambda client: client.update_item(
            TableName=table, Key=key, ReturnValues="ALL_NEW"
        ),
        "what a deletion returns": lambda client: client.delete_item(
            TableName=table, Key=key, ReturnValues="ALL_OLD"
        ),
        "PartiQL": lambda client: client.execute_statement(
            Statement=f'SELECT * FROM "{table}" WHERE "lockToken" = ?', Parameters=[key["lockToken"]]
        ),
    }


def test_no_request_reads_an_outcome(shop: Shop, limited: Any) -> None:
    """Each is denied; the one that a client may send returns none, from the index either."""
    denied = limited(listing())
    client = options.client_for(options.session_for(None, "eu-central-1"), "dynamodb", shop._endpoint)
    wanted = attacks(shop)
    for name, attack in wanted.items():
        with pytest.raises(ClientError, match="AccessDenied"):
            attack(client)
        assert len(denied) == 1, name
        denied.clear()
    for token in TOKENS:
        item = client.get_item(TableName=shop.name, Key={"lockToken": {"S": token}}, **names(*LISTED))["Item"]
        assert item["lockToken"] == {"S": token}
        assert SECRET not in str(item)
    found = client.query(
        TableName=shop.name,
        IndexName="byStatus",
        KeyConditionExpression="listed = :held",
        ExpressionAttributeValues={":held": {"S": listed(State.HELD, TOKENS[3])}},
    )["Items"]
    assert len(found) == 1
    assert SECRET not in str(found)


@pytest.mark.parametrize("left_out", ["StringEquals", "ForAllValues:StringEquals"])
def test_twin_each_condition_is_needed(shop: Shop, limited: Any, left_out: str) -> None:
    """Without Select a read of everything passes, for it names no attribute; without the list any does."""
    weaker = [
        {**each, "Condition": {name: test for name, test in each["Condition"].items() if name != left_out}}
        if "Condition" in each
        else each
        for each in listing()
    ]
    limited(weaker)
    client = options.client_for(options.session_for(None, "eu-central-1"), "dynamodb", shop._endpoint)
    key = {"lockToken": {"S": TOKENS[0]}}
    shown = {} if left_out == "StringEquals" else names("lockToken", "result")
    assert "result" in client.get_item(TableName=shop.name, Key=key, **shown)["Item"]
