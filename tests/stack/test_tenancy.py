"""Two services on one table: a role limited to one of them reads, plants and changes nothing of the other."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from aws_lambda_powertools.utilities.batch.exceptions import BatchProcessingError
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st

from lambda_once import Once
from lambda_once.core.keys import token as token_of
from lambda_once.errors import Misconfigured
from lambda_once.testing import create_table
from tests.kit import iam, tables
from tests.kit.judge import Statement
from tests.kit.strict.mounted import mounted

from .conftest import ROOT
from .named import of_type
from .nested import decided, parsed
from .test_published_policies import DECORATORS, SIZES, Shop

A, B = "team-a", "team-b"
RESULT = {"iban": "DE02"}
FOLDER = ROOT / "examples" / "infrastructure"
TEMPLATE = parsed(FOLDER / "tokens.yaml")
PATTERN = TEMPLATE["Parameters"]["Service"]["AllowedPattern"].replace("$", r"\Z")
CONSTRUCT = re.compile(
    *re.findall(r'fullmatch\(r"(.*?)"', (FOLDER / "token_table.py").read_text(encoding="utf-8"))
)
DIGEST = re.compile("[0-9a-f]{64}")


def policy(name: str, service: str) -> list[Statement]:
    """Return the statements of a managed policy of tokens.yaml, in a stack of *service*."""
    template = decided(TEMPLATE, Service=service)
    document = of_type(template, "AWS::IAM::ManagedPolicy")[name]["PolicyDocument"]
    statements: list[Statement] = iam.filled(document, {"TokenTable.Arn": iam.ARN})["Statement"]
    return statements


@dataclass
class Teams:
    """Team B, whose work *pay* has run for the key 7, and a client of team A."""

    b: Once
    owner: Any
    """A client that may do everything."""
    a: Any
    denied: list[str]
    ran: list[str]

    def pay(self, key: str) -> Any:
        return self.b.run("pay", key, self.work, key)

    def work(self, key: str) -> dict[str, str]:
        self.ran.append(key)
        return RESULT

    def as_b(self) -> Once:
        """Team A's function, which says that it is of team B."""
        return Once(table="tokens", client=self.a, service=B)


@pytest.fixture
def teams() -> Iterator[Callable[[Sequence[Statement]], Teams]]:
    """Make the two teams; A may do what *statements* allow."""

    def make(statements: Sequence[Statement]) -> Teams:
        owner, a = tables.client(), tables.client()
        create_table(owner, "tokens")
        made = Teams(Once(table="tokens", client=owner, service=B), owner, a, iam.limit(a, statements), [])
        assert made.pay("7") == RESULT
        return made

    with mounted():
        yield make


def evil(key: str) -> str:
    """What team A would have B's callers believe."""
    return f"EVIL {key}"


def test_team_a_neither_reads_plants_nor_changes_what_is_team_bs(teams: Any) -> None:
    """By the package under the other service's name: nothing runs, and B's work runs once."""
    both = teams(policy("TokenAccess", A))
    once = both.as_b()
    with pytest.raises(Misconfigured, match="GetItem"):
        once.outcome("7", name="pay")
    for key in ("7", "8"):
        with pytest.raises(Misconfigured, match="UpdateItem"):
            once.run("pay", key, evil, key)
    assert both.pay("7") == both.pay("8") == RESULT
    assert both.ran == ["7", "8"]


def test_twin_without_the_condition_it_does(teams: Any) -> None:
    """It reads B's result, and B's callers get what it has planted: their work never ran."""
    both = teams(iam.unconditional(policy("TokenAccess", A)))
    once = both.as_b()
    assert once.outcome("7", name="pay").result == RESULT
    assert once.run("pay", "8", evil, "8") == both.pay("8") == "EVIL 8"
    rewrite(both.a)
    assert both.pay("7") == "EVIL"
    assert both.ran == ["7"]


def rewrite(client: Any) -> None:
    """Put another result into B's row."""
    client.update_item(
        TableName="tokens",
        Key={"lockToken": {"S": f"{B}/pay/7"}},
        UpdateExpression="SET #result = :result",
        ExpressionAttributeNames={"#result": "result"},
        ExpressionAttributeValues={":result": {"S": '"EVIL"'}},
    )


KEY = {"lockToken": {"S": f"{B}/pay/7"}}
OWN = {"lockToken": {"S": f"{A}/pay/7"}}
PART = {"lockToken": {"S": f"{B}/pay/7#a1#0"}}
ROW = KEY | {"result": {"S": '"EVIL"'}}
ATTACKS: dict[str, Callable[[Any], object]] = {
    "GetItem": lambda client: client.get_item(TableName="tokens", Key=KEY),
    "GetItem of a part": lambda client: client.get_item(TableName="tokens", Key=PART),
    "BatchGetItem": lambda client: client.batch_get_item(RequestItems={"tokens": {"Keys": [OWN, KEY]}}),
    "UpdateItem": rewrite,
    "PutItem": lambda client: client.put_item(TableName="tokens", Item=ROW),
    "DeleteItem": lambda client: client.delete_item(TableName="tokens", Key=KEY),
    "BatchWriteItem, a part": lambda client: client.batch_write_item(
        RequestItems={"tokens": [{"PutRequest": {"Item": PART | {"data": {"B": b"EVIL"}}}}]}
    ),
    "BatchWriteItem, a part among its own": lambda client: client.batch_write_item(
        RequestItems={
            "tokens": [
                {"PutRequest": {"Item": {"lockToken": {"S": f"{A}/pay/7#a1#0"}}}},
                {"DeleteRequest": {"Key": PART}},
            ]
        }
    ),
    "BatchWriteItem, a token of its own": lambda client: client.batch_write_item(
        RequestItems={"tokens": [{"DeleteRequest": {"Key": OWN}}]}
    ),
    "TransactWriteItems, put": lambda client: client.transact_write_items(
        TransactItems=[{"Put": {"TableName": "tokens", "Item": ROW}}]
    ),
    "TransactWriteItems, update": lambda client: client.transact_write_items(
        TransactItems=[
            {
                "Update": {
                    "TableName": "tokens",
                    "Key": KEY,
                    "UpdateExpression": "REMOVE #result",
                    "ExpressionAttributeNames": {"#result": "result"},
                }
            }
        ]
    ),
    "TransactGetItems": lambda client: client.transact_get_items(
        TransactItems=[{"Get": {"TableName": "tokens", "Key": KEY}}]
    ),
    "PartiQL, insert": lambda client: client.batch_execute_statement(
        Statements=[
            {
                "Statement": "INSERT INTO \"tokens\" VALUE {'lockToken': ?}",
                "Parameters": [{"S": f"{B}/pay/8"}],
            }
        ]
    ),
    "PartiQL, update": lambda client: client.batch_execute_statement(
        Statements=[
            {
                "Statement": 'UPDATE "tokens" SET "result" = ? WHERE "lockToken" = ?',
                "Parameters": [{"S": '"EVIL"'}, KEY["lockToken"]],
            }
        ]
    ),
    "PartiQL, without a key": lambda client: client.execute_statement(
        Statement='UPDATE "tokens" SET "result" = ? WHERE "status" = ?', Parameters=[{"S": "x"}, {"S": "x"}]
    ),
    "PartiQL, select": lambda client: client.execute_statement(Statement='SELECT * FROM "tokens"'),
    "Query": lambda client: client.query(
        TableName="tokens",
        KeyConditionExpression="lockToken = :token",
        ExpressionAttributeValues={":token": KEY["lockToken"]},
    ),
    "Query of the index": lambda client: client.query(
        TableName="tokens",
        IndexName="byStatus",
        KeyConditionExpression="expectedCompletion = :lease",
        ExpressionAttributeValues={":lease": {"S": "inProgress"}},
    ),
    "Scan": lambda client: client.scan(TableName="tokens"),
}
"""Requests of a client of its own, by what IAM calls them."""


@pytest.mark.parametrize("attack", ATTACKS)
def test_team_as_own_requests_are_refused_on_what_is_team_bs(teams: Any, attack: str) -> None:
    """Whatever the request, and whatever else it names; the table is as it was."""
    both = teams(policy("TokenAccess", A))
    before = both.owner.scan(TableName="tokens")["Items"]
    with pytest.raises(ClientError, match="AccessDenied"):
        ATTACKS[attack](both.a)
    assert len(both.denied) == 1
    assert both.owner.scan(TableName="tokens")["Items"] == before


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("decorator", DECORATORS)
def test_every_decorator_may_do_its_work_for_its_own_service_alone(decorator: str, size: str) -> None:
    """Of its own nothing is denied; under another's name no request is answered, and no work runs."""
    delivery, runs = DECORATORS[decorator]
    with mounted():
        owner, client = tables.client(), tables.client()
        create_table(owner, "tokens")
        denied = iam.limit(client, policy("TokenAccess", A))
        shop = Shop(Once(table="tokens", client=client, service=A), SIZES[size])
        delivery(shop)()
        assert (len(shop.done), denied) == (runs, [])
        before = owner.scan(TableName="tokens")["Items"]
        stranger = Shop(Once(table="tokens", client=client, service=B), SIZES[size])
        with pytest.raises(
            (Misconfigured, BatchProcessingError),
            match=f"UpdateItem on the keys {B}/\\*, or set POWERTOOLS_SERVICE_NAME",
        ):
            delivery(stranger)()
        assert stranger.done == []
        assert denied
        assert owner.scan(TableName="tokens")["Items"] == before


@pytest.mark.parametrize("decorator", DECORATORS)
def test_twin_without_the_condition_every_decorator_works_under_the_others_name(decorator: str) -> None:
    """Its work runs as the other service's, and that service's callers get its outcome."""
    delivery, runs = DECORATORS[decorator]
    with mounted():
        owner, client = tables.client(), tables.client()
        create_table(owner, "tokens")
        iam.limit(client, iam.unconditional(policy("TokenAccess", A)))
        stranger, rightful = (
            Shop(Once(table="tokens", client=each, service=B), SIZES["small"]) for each in (client, owner)
        )
        delivery(stranger)()
        delivery(rightful)()
        assert (len(stranger.done), rightful.done) == (runs, [])


# -- names of services

TEXT = st.text(min_size=1, max_size=300)
HOSTILE = st.sampled_from(
    ["*", "a*", "?", "a/b", "a", "a,b", "${aws:username}", "${*}", "a%2Fb", "#", "a#b#c", "Ä"]
)
SERVICES = TEXT | HOSTILE


def beginning(service: str) -> str:
    """Return what the tokens of *service* begin with."""
    return token_of(service, "name", None, "key").partition("/")[0]


@given(SERVICES, SERVICES, SERVICES)
def test_the_policy_of_a_service_is_for_its_tokens_and_parts_alone(mine: str, other: str, key: str) -> None:
    """Whatever their names are: encoded they have no wildcard, no variable and no slash."""
    own = policy("TokenAccess", beginning(mine))
    token, foreign = (token_of(service, "name", None, key) for service in (mine, other))
    same = beginning(mine) == beginning(other)
    for action in ("GetItem", "BatchGetItem", "UpdateItem", "PartiQLInsert", "PartiQLUpdate"):
        assert iam.permits(own, f"dynamodb:{action}", [token])
        assert iam.permits(own, f"dynamodb:{action}", [token, foreign]) is same
        assert not iam.permits(own, f"dynamodb:{action}", [])
    put = "dynamodb:BatchWriteItem"
    assert iam.permits(own, put, [f"{token}#a1#w1#0"])
    assert iam.permits(own, put, [f"{token}#a1#w1#0", f"{foreign}#a1#w1#0"]) is same
    for keys in ([token], []):
        assert not iam.permits(own, put, keys)


@given(st.from_regex(PATTERN, fullmatch=True))
def test_a_service_that_the_template_takes_is_as_its_tokens_have_it(service: str) -> None:
    """But for one that looks like a SHA-256, which tokens digest: its policy allows nothing."""
    assert beginning(service) == service or DIGEST.fullmatch(service)


@pytest.mark.parametrize(
    "service", ["*", "a*", "a?", "a,b", "a/b", "${aws:username}", "", "a b", "a\n", "a" * 65]
)
def test_the_template_and_the_construct_take_no_other(service: str) -> None:
    """No wildcard, no list, no variable."""
    assert not re.search(PATTERN, service)
    assert not CONSTRUCT.fullmatch(service)
