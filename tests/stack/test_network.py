"""docs/network.md: endpoints that reach the tables alone, and a table in another account."""

from __future__ import annotations

import json
import textwrap
from typing import Any

import pytest

from lambda_once import Once
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table, lambda_context, sqs_event
from tests.docs.pages import ROOT
from tests.kit import iam, tables
from tests.kit.judge import allows
from tests.kit.strict.mounted import mounted
from tests.stores.accounts import in_another_account

from .conftest import Template
from .named import of_type
from .nested import chosen, parsed
from .test_encryption import STORE, Use, refused
from .test_template import complaints

PAGE = ROOT / "docs" / "network.md"
POLICY = ROOT / "examples" / "infrastructure" / "another-account.json"
TABLE = "arn:aws:dynamodb:eu-central-1:111122223333:table/tokens"
OTHERS = "arn:aws:dynamodb:eu-central-1:111122223333:table/salaries"
ROLES = "arn:aws:iam::444455556666:role"
GATEWAY, INTERFACE, STREAMS, FOREIGN = "vpce-1", "vpce-2", "vpce-3", "vpce-9"
READ = "dynamodb:GetItem"


def shown(language: str) -> Any:
    """Return the policy of the table, `json`, or the one block of *language* on the page."""
    if language == "json":
        return json.loads(POLICY.read_text(encoding="utf-8"))
    _, _, rest = PAGE.read_text(encoding="utf-8").partition(f"```{language}\n")
    text = textwrap.dedent(rest.partition("```")[0].replace("\n   ", "\n").removeprefix("   "))
    from samtranslator.yaml_helper import yaml_parse  # as in `nested`

    return yaml_parse(text)


def network(*, interface: bool) -> Template:
    """Return network.yaml as it is deployed for the table, with an interface endpoint or without."""
    template = parsed(ROOT / "examples" / "infrastructure" / "network.yaml")
    resources = chosen(template["Resources"], {"HasInterface": interface})
    return {**template, "Resources": _filled(resources)}


def _filled(value: Any) -> Any:
    names = {"TableArns": [TABLE, f"{TABLE}/stream/*"], "Gateway": GATEWAY, "Interface": INTERFACE} | {
        "Streams": STREAMS
    }
    match value:
        case {"Ref": name} if name in names:
            return names[name]
        case dict():
            return {key: _filled(each) for key, each in value.items()}
        case list():
            return [_filled(each) for each in value if each != {"Ref": "AWS::NoValue"}]
        case _:
            return value


def calls(statements: list[dict[str, Any]]) -> tuple[list[str], set[str]]:
    """Return what *statements* deny of a batch and its redelivery, on that table, and what is asked for."""
    with mounted():
        create_table(tables.client(), "tokens")
        client = in_another_account(tables.client(), TABLE, answers_by_name=True)
        denied = iam.limit(client, statements)
        operations: set[str] = set()
        client.meta.events.register("before-call.dynamodb", lambda model, **_: operations.add(model.name))
        once = Once(store=DynamoDBStore(TABLE, client), service="payments")

        @once.sqs(key="orderId")
        def charge(record: Any) -> str:
            return "".join(map(str, range(record.json_body["digits"])))

        event = sqs_event({"orderId": 1, "digits": 1}, {"orderId": 2, "digits": 20_000})
        for _ in range(2):
            assert charge(event, lambda_context()) == {"batchItemFailures": []}
        assert len(once.outcome(2, name=f"{__name__}.calls.<locals>.charge").result) > 80_000
    return denied, operations


# -- in a VPC


@pytest.mark.parametrize("kind", ["Gateway", "Interface"])
def test_an_endpoint_reaches_its_tables_alone(kind: str) -> None:
    """Whatever a role may do."""
    endpoint = of_type(network(interface=True), "AWS::EC2::VPCEndpoint")[kind]
    assert endpoint["VpcEndpointType"] == kind
    policy = endpoint["PolicyDocument"]["Statement"]
    assert allows(policy, READ, TABLE)
    assert not allows(policy, READ, OTHERS)


def test_the_streams_endpoint_reaches_the_tables_stream_alone() -> None:
    """It's of another service, and an interface alone."""
    endpoint = of_type(network(interface=True), "AWS::EC2::VPCEndpoint")["Streams"]
    assert endpoint["ServiceName"] == {"Fn::Sub": "com.amazonaws.${AWS::Region}.dynamodb-streams"}
    policy = endpoint["PolicyDocument"]["Statement"]
    label = "stream/2026-11-20T10:12:00.000"
    assert allows(policy, "dynamodb:GetRecords", f"{TABLE}/{label}")
    assert not allows(policy, "dynamodb:GetRecords", f"{OTHERS}/{label}")


@pytest.mark.parametrize(
    ("interface", "through", "answer"),
    [
        (True, STREAMS, True),
        (True, GATEWAY, True),
        (True, INTERFACE, True),
        (True, FOREIGN, False),
        (True, None, False),
        (False, GATEWAY, True),
        (False, INTERFACE, False),
        (False, None, False),
    ],
)
def test_a_role_is_of_no_use_outside_of_the_network(
    interface: bool, through: str | None, answer: bool
) -> None:
    """None is the internet."""
    (policy,) = of_type(network(interface=interface), "AWS::IAM::ManagedPolicy").values()
    allowing = {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*"}
    role = [allowing, *policy["PolicyDocument"]["Statement"]]
    assert allows(role, READ, TABLE, {"aws:SourceVpce": through}) is answer
    assert allows(role, READ, OTHERS, {"aws:SourceVpce": through})


# -- a table in another account


def test_the_policies_of_the_page_are_clean_under_cfn_lint() -> None:
    """That of the table, and that of the key with the statement for the other account."""
    key = parsed(ROOT / "examples" / "infrastructure" / "key.yaml")
    key["Resources"]["Key"]["Properties"]["KeyPolicy"]["Statement"] += shown("yaml")
    table = parsed(ROOT / "examples" / "minimal" / "template.yaml")["Resources"]["TokenTable"]
    table["Properties"]["ResourcePolicy"] = {"PolicyDocument": shown("json")}
    for resources in (key["Resources"], {"TokenTable": table}):
        assert complaints(json.dumps({"Resources": resources})) == []


def test_the_tables_policy_suffices_for_a_function() -> None:
    """A batch of two, one result in parts, new and again: nothing is denied."""
    own = [{**each, "Resource": iam.ARN} for each in _of("payments")]
    denied, operations = calls(own)
    assert denied == []
    assert operations == {"GetItem", "UpdateItem", "BatchGetItem", "BatchWriteItem"}


@pytest.mark.parametrize(
    ("action", "key", "answer"),
    [
        (READ, "payments/charge/1", True),
        (READ, "refunds/refund/1", False),
        ("dynamodb:BatchWriteItem", "payments/charge/1#a#0", True),
        ("dynamodb:BatchWriteItem", "payments/charge/1", False),
        ("dynamodb:BatchWriteItem", "refunds/refund/1#a#0", False),
        ("dynamodb:DeleteItem", "payments/charge/1", False),
        ("dynamodb:Scan", "payments/charge/1", False),
    ],
)
def test_a_function_has_its_own_services_tokens(action: str, key: str, answer: bool) -> None:
    """And deletes none."""
    assert allows(_of("payments"), action, TABLE, {"dynamodb:LeadingKeys": [key]}) is answer


def test_operators_query_the_index() -> None:
    """By the index' ARN; they do not scan or delete."""
    policy = _of("on-call")
    assert allows(policy, "dynamodb:Query", f"{TABLE}/index/byStatus")
    assert allows(policy, "dynamodb:UpdateItem", TABLE)
    for action in ("dynamodb:Scan", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"):
        assert not allows(policy, action, TABLE)


def _of(role: str) -> list[dict[str, Any]]:
    return [each for each in shown("json")["Statement"] if each["Principal"]["AWS"] == f"{ROLES}/{role}"]


@pytest.mark.parametrize(
    ("service", "answer"),
    [
        ("dynamodb.eu-central-1.amazonaws.com", True),
        ("sqs.eu-central-1.amazonaws.com", False),
        (None, False),
    ],
)
def test_the_key_is_used_through_dynamodb_alone(service: str | None, answer: bool) -> None:
    """By roles of the other account."""
    context = {"kms:CallerAccount": "444455556666"} | ({"kms:ViaService": service} if service else {})
    use = Use({"AWS": f"{ROLES}/payments"}, STORE, context)
    assert (refused(shown("yaml"), use) == []) is answer
