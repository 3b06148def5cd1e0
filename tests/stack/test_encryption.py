"""Encryption at rest, by a customer's key or AWS', and in transit: the policies, evaluated as IAM does."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import boto3
import pytest

from lambda_once_tools.check.rules import findings
from lambda_once_tools.check.templates import read
from tests.kit.iam import filled
from tests.kit.judge import allows, listed
from tests.kit.recorded import SHOP

from .conftest import REGION, ROOT, Template, deploy
from .named import ALARM, of_type, target
from .nested import chosen, parsed

ACCOUNT, STRANGER = "111122223333", "999988887777"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TOPIC = f"arn:aws:sns:{REGION}:{ACCOUNT}:receipts.fifo"
SEND = ("kms:GenerateDataKey", "kms:Decrypt")
STORE = ("kms:Encrypt", "kms:Decrypt", "kms:ReEncryptFrom", "kms:GenerateDataKey", "kms:DescribeKey")
PSEUDO = {"AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "AWS::Partition": "aws"}
KEYED = {
    "AWS::DynamoDB::Table": "KMSMasterKeyId",
    "AWS::Logs::LogGroup": "KmsKeyId",
    "AWS::SNS::Topic": "KmsMasterKeyId",
    "AWS::SQS::Queue": "KmsMasterKeyId",
}
"""What holds data, and the property that names its key."""
SERVICES = {
    "AWS::DynamoDB::Table": "dynamodb",
    "AWS::Logs::LogGroup": "logs",
    "AWS::SNS::Topic": "sns",
    "AWS::SQS::Queue": "sqs",
}
"""Those that ask for the key on behalf of the role that calls them."""


class Use(NamedTuple):
    """One use of the key: by whom, for what, and the condition keys of the request."""

    principal: dict[str, str]
    actions: tuple[str, ...]
    context: dict[str, str]


def as_deployed(template: Template, *, customer: bool) -> Template:
    """Return *template* with a customer's key, or without."""
    return {
        **template,
        "Resources": _given(chosen(template["Resources"], dict.fromkeys(_conditions(template), customer))),
    }


def _conditions(template: Template) -> list[str]:
    by_key = {"Fn::Not": [{"Fn::Equals": [{"Ref": "KmsKeyArn"}, ""]}]}
    return [name for name, condition in template["Conditions"].items() if condition == by_key]


def _given(value: Any) -> Any:
    """Return *value* without the properties that are AWS::NoValue."""
    if isinstance(value, dict):
        return {key: _given(each) for key, each in value.items() if each != {"Ref": "AWS::NoValue"}}
    return [_given(each) for each in value] if isinstance(value, list) else value


def keys(template: Template) -> dict[str, Any]:
    """Return by logical id the key that each resource with data names; None: it names none."""
    found: dict[str, Any] = {}
    for kind, name in KEYED.items():
        for logical, given in of_type(template, kind).items():
            found[logical] = given.get("SSESpecification", given).get(name)
    return found


def uses(template: Template) -> Iterator[Use]:
    """Yield each use of the key that *template* gives rise to."""
    for kind, service in SERVICES.items():
        if of_type(template, kind):
            actions = (*STORE, "kms:CreateGrant") if service == "dynamodb" else SEND
            through = {"kms:CallerAccount": ACCOUNT, "kms:ViaService": f"{service}.{REGION}.amazonaws.com"}
            yield Use({"AWS": f"arn:aws:iam::{ACCOUNT}:role/f"}, actions, through)
    if of_type(template, "AWS::Logs::LogGroup"):
        group = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:orders"
        context = {"kms:EncryptionContext:aws:logs:arn": group}
        yield Use({"Service": f"logs.{REGION}.amazonaws.com"}, STORE, context)
    for service in writers(template):
        context = {"aws:SourceArn": TOPIC, "aws:SourceAccount": ACCOUNT}
        yield Use({"Service": service}, SEND, context if service == "sns.amazonaws.com" else {})


def writers(template: Template) -> set[str]:
    """Return the services that write, under their own name, to a queue or a topic of *template*."""
    queues, topics = (of_type(template, kind).keys() for kind in ("AWS::SQS::Queue", "AWS::SNS::Topic"))
    found: set[str] = set()
    for subscription in of_type(template, "AWS::SNS::Subscription").values():
        ends = (subscription["Endpoint"], subscription.get("RedrivePolicy", {}).get("deadLetterTargetArn"))
        found |= {"sns.amazonaws.com" for end in ends if target(end) in queues}
    for rule in of_type(template, "AWS::Events::Rule").values():
        for each in rule["Targets"]:
            ends = (each["Arn"], each.get("DeadLetterConfig", {}).get("Arn"))
            found |= {"events.amazonaws.com" for end in ends if target(end) in {*queues, *topics}}
    if any(_notified(alarm) & topics for alarm in of_type(template, ALARM).values()):
        found.add("cloudwatch.amazonaws.com")
    return found


def _notified(alarm: dict[str, Any]) -> set[str]:
    """Return the logical ids of the topics that *alarm* notifies, whatever a condition decides."""
    actions = [*alarm.get("AlarmActions", []), *alarm.get("OKActions", [])]
    ends = [end for each in actions for end in (each["Fn::If"][1:] if "Fn::If" in each else [each])]
    return {str(target(end)) for end in ends}


def key_policy() -> list[dict[str, Any]]:
    """Return the statements of examples/infrastructure/key.yaml as they are in one region and account."""
    (key,) = of_type(parsed(ROOT / "examples" / "infrastructure" / "key.yaml"), "AWS::KMS::Key").values()
    resolved = filled(key["KeyPolicy"]["Statement"], PSEUDO)
    assert isinstance(resolved, list)
    return resolved


def refused(policy: list[dict[str, Any]], use: Use) -> list[str]:
    """Return the actions of *use* that the key *policy* does not allow."""
    own = [each for each in policy if _names(each["Principal"], use.principal)]
    absent = dict.fromkeys(
        ("kms:CallerAccount", "kms:ViaService", "kms:EncryptionContext:aws:logs:arn", "aws:SourceArn")
    )
    return [action for action in use.actions if not allows(own, action, KEY, {**absent, **use.context})]


def _names(principal: Any, caller: dict[str, str]) -> bool:
    """Whether *principal* of a statement is *caller*, or his account: IAM is taken to allow everything."""
    ((kind, name),) = caller.items()
    given = listed(principal.get(kind, [])) if isinstance(principal, dict) else [principal]
    root = name.partition(":role/")[0] + ":root"
    return bool({"*", name, root} & set(given))


@pytest.fixture(scope="module")
def customers(translated: Template) -> Template:
    """The stack with a customer's key."""
    return as_deployed(translated, customer=True)


# -- at rest


def test_with_a_customers_key_everything_is_encrypted_by_it(customers: Template) -> None:
    """Tables, log groups, queues and topics, dead-letter queues and the topic of alarms included."""
    found = keys(customers)
    assert {"TokenTable", "Logs", "OrdersApiLogs", "FailedEvents", "Notices", "ReceiptsTopic"} <= found.keys()
    assert {name for name, key in found.items() if key != {"Ref": "KmsKeyArn"}} == set()
    # Amazon SQS API reference: one of the two encryptions.
    assert {each["SqsManagedSseEnabled"] for each in of_type(customers, "AWS::SQS::Queue").values()} == {
        False
    }


def test_without_one_the_keys_are_those_of_aws(translated: Template) -> None:
    """The alarms' topic has none: alarms may not use aws/sns, and a notice has no data."""
    template = as_deployed(translated, customer=False)
    topics = of_type(template, "AWS::SNS::Topic").keys() - {"Notices"}
    assert {name: key for name, key in keys(template).items() if key} == dict.fromkeys(
        topics, "alias/aws/sns"
    )
    assert all(each["SqsManagedSseEnabled"] for each in of_type(template, "AWS::SQS::Queue").values())
    for table in of_type(template, "AWS::DynamoDB::Table").values():
        assert table["SSESpecification"] == {"SSEEnabled": True, "SSEType": "KMS"}
    assert translated["Parameters"]["KmsKeyArn"]["Default"] == ""


def test_the_key_lets_every_service_work_that_the_stack_needs(customers: Template) -> None:
    """On behalf of roles, and under their own names: logs, topics that feed a queue, alarms that notify."""
    found = list(uses(customers))
    assert {"sns.amazonaws.com", "cloudwatch.amazonaws.com"} == writers(customers)
    assert len(found) == 7
    assert [(use, refused(key_policy(), use)) for use in found if refused(key_policy(), use)] == []


def test_twin_each_statement_is_needed(customers: Template) -> None:
    """Without one of them some service is refused; that of administration serves none."""
    policy = key_policy()
    idle = [
        each["Sid"]
        for each in policy
        if not any(refused([other for other in policy if other is not each], use) for use in uses(customers))
    ]
    assert idle == ["Administration"]


def test_twin_a_rule_with_a_dead_letter_queue_is_refused(customers: Template) -> None:
    """A service that comes to write to an encrypted queue needs a statement of its own."""
    changed = copy.deepcopy(customers)
    rule = next(iter(of_type(changed, "AWS::Events::Rule").values()))
    rule["Targets"][0]["DeadLetterConfig"] = {"Arn": {"Fn::GetAtt": ["FailedEvents", "Arn"]}}
    lacking = [use for use in uses(changed) if refused(key_policy(), use)]
    assert [use.principal for use in lacking] == [{"Service": "events.amazonaws.com"}]


@pytest.mark.parametrize(
    ("caller", "context"),
    [
        pytest.param({"AWS": f"arn:aws:iam::{ACCOUNT}:role/f"}, {}, id="a role, not through a service"),
        pytest.param({"AWS": f"arn:aws:iam::{ACCOUNT}:root"}, {}, id="who looks after the key"),
        pytest.param(
            {"AWS": f"arn:aws:iam::{ACCOUNT}:role/f"},
            {"kms:CallerAccount": ACCOUNT, "kms:ViaService": f"s3.{REGION}.amazonaws.com"},
            id="through another service",
        ),
        pytest.param(
            {"AWS": f"arn:aws:iam::{STRANGER}:role/f"},
            {"kms:CallerAccount": STRANGER, "kms:ViaService": f"dynamodb.{REGION}.amazonaws.com"},
            id="another account",
        ),
        pytest.param(
            {"Service": f"logs.{REGION}.amazonaws.com"},
            {"kms:EncryptionContext:aws:logs:arn": f"arn:aws:logs:{REGION}:{STRANGER}:log-group:g"},
            id="logs of another account",
        ),
        pytest.param(
            {"Service": "sns.amazonaws.com"},
            {"aws:SourceArn": f"arn:aws:sns:{REGION}:{STRANGER}:t"},
            id="a topic of another account",
        ),
    ],
)
def test_nobody_else_decrypts(caller: dict[str, str], context: dict[str, str]) -> None:
    """The key's policy is the whole of it: it does not leave its use to policies of IAM."""
    use = Use(caller, ("kms:Decrypt", "kms:GenerateDataKey"), context)
    assert refused(key_policy(), use) == ["kms:Decrypt", "kms:GenerateDataKey"]


@pytest.mark.parametrize("parameters", [{}, {"KmsKeyArn": KEY}], ids=["without", "with"])
def test_the_check_finds_nothing_with_a_key_or_without(parameters: dict[str, str]) -> None:
    """`lambda-once check --template template.yaml --parameter KmsKeyArn=…`."""
    assert findings(read(SHOP / "template.yaml", parameters)) == ()


def test_the_stack_is_deployed_with_a_key(aws: boto3.Session, translated: Template) -> None:
    """A queue has it; moto 5.2.5 drops the encryption of CloudFormation's tables."""
    stack = deploy(aws, translated, {"KmsKeyArn": KEY})
    sqs = stack.client("sqs")
    queue = sqs.get_queue_attributes(QueueUrl=stack.outputs["PaymentsQueueUrl"], AttributeNames=["All"])
    assert queue["Attributes"]["KmsMasterKeyId"] == KEY


# -- in transit


def policies_of(template: Template, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return the statements of each queue or topic, by logical id. Raises AssertionError if one has two."""
    found: dict[str, list[dict[str, Any]]] = {}
    for policy in of_type(template, f"AWS::{kind}Policy").values():
        for each in policy["Queues" if kind == "SQS::Queue" else "Topics"]:
            assert target(each) not in found, "a queue, or a topic, has one policy"
            found[target(each)] = [
                {**one, "Resource": [target(to) for to in listed(one["Resource"])]}
                for one in policy["PolicyDocument"]["Statement"]
            ]
    return found


def open_to_plain_text(template: Template, kind: str) -> set[str]:
    """Return the queues or topics that a role with every permission may use without TLS."""
    policies, names = policies_of(template, kind), of_type(template, f"AWS::{kind}").keys()
    mine = [{"Effect": "Allow", "Action": "*", "Resource": "*"}]
    action = {"SQS::Queue": "sqs:ReceiveMessage", "SNS::Topic": "sns:Publish"}[kind]

    def allowed(name: str, tls: str) -> bool:
        both = [*mine, *policies.get(name, [])]
        context = {"aws:SecureTransport": tls, "aws:SourceArn": None, "aws:SourceAccount": None}
        return allows(both, action, name, context)

    assert all(allowed(name, "true") for name in names)
    return {name for name in names if allowed(name, "false")}


@pytest.mark.parametrize("kind", ["SQS::Queue", "SNS::Topic"])
def test_nothing_is_sent_or_received_without_tls(translated: Template, kind: str) -> None:
    """Each queue, dead-letter queues too, and each topic denies it to everybody."""
    assert open_to_plain_text(translated, kind) == set()


def test_twin_a_queue_without_the_policy_is_seen(translated: Template) -> None:
    """One that a policy leaves out."""
    changed = copy.deepcopy(translated)
    queues = of_type(changed, "AWS::SQS::QueuePolicy")["QueuesPolicy"]["Queues"]
    queues.remove({"Ref": "FailedEvents"})
    assert open_to_plain_text(changed, "SQS::Queue") == {"FailedEvents"}


def test_alarms_of_this_account_notify_the_topic(translated: Template) -> None:
    """The policy that a topic has from AWS is gone: without this statement no alarm would reach anybody."""
    (allowing, _) = filled(policies_of(translated, "SNS::Topic")["Notices"], PSEUDO)
    assert allowing["Principal"] == {"Service": "cloudwatch.amazonaws.com"}
    for account, answer in ((ACCOUNT, True), (STRANGER, False)):
        assert allows([allowing], "sns:Publish", "Notices", {"aws:SourceAccount": account}) is answer


def test_no_service_that_the_stack_uses_publishes_to_a_topic_but_alarms(translated: Template) -> None:
    """Every other publisher is a role, whose own policy allows it."""
    policies = policies_of(translated, "SNS::Topic")
    allowing = {name for name, own in policies.items() if "Allow" in json.dumps(own)}
    assert allowing == {"Notices"}
