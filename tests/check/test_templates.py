"""Templates as written, built, nested and synthesised are read; what cannot be seen in them is listed."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from moto import mock_aws

from lambda_once_tools.check.deployment import UNKNOWN, CannotCheck, Deployment, Severity
from lambda_once_tools.check.documents import LARGEST, MOST_NODES, document, expanded
from lambda_once_tools.check.packages import ONCE, PYDANTIC, has
from lambda_once_tools.check.rules import findings
from lambda_once_tools.check.templates import read

ROOT = Path(__file__).parents[2]
SHOP = Path(__file__).with_name("shop.yaml")
SAMPLE = ROOT / "template.yaml"
ORDERS = ROOT / "examples" / "orders" / "template.yaml"
"""The shop."""
MINIMAL = ROOT / "examples" / "minimal" / "template.yaml"
TOKENS = ROOT / "examples" / "infrastructure" / "tokens.yaml"
LAYER = "arn:aws:lambda:eu-central-1:123456789012:layer:lambda-once:1"


def written(folder: Path, text: str, name: str = "template.yaml") -> Path:
    """Write a template; return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def found(deployment: Deployment) -> set[tuple[str, str]]:
    """Return code and resource of what is found, but advice."""
    return {
        (each.code, each.resource) for each in findings(deployment) if each.severity is not Severity.ADVICE
    }


def advice(deployment: Deployment) -> set[str]:
    """Return the codes of advice."""
    return {each.code for each in findings(deployment) if each.severity is Severity.ADVICE}


def unseen(deployment: Deployment) -> dict[str, str]:
    """Return what was not checked, but what never is."""
    fixed = {"permissions", "keep=, name=, on_error= and the other options"}
    return {each.resource: each.why for each in deployment.not_checked if each.resource not in fixed}


# -- what is sound


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"WatchdogSweep": "true"},
        {"QueueRetentionSeconds": "1209600"},
        {"NoticesTopicArn": "arn:aws:sns:eu-central-1:123456789012:notices", "AWS::Region": "us-east-1"},
    ],
    ids=str,
)
def test_the_shop_is_clean(parameters: dict[str, str]) -> None:
    """Not even advice is left, whatever its parameters are."""
    assert findings(read(ORDERS, parameters)) == ()


def test_the_sample_is_clean() -> None:
    """Its three functions, its watchdog, its queue and its table are seen."""
    seen = read(SAMPLE, {})
    assert findings(seen) == ()
    assert [each.resource for each in seen.tables] == ["TokenTable"]
    assert {each.resource for each in seen.functions} == {
        *("PaymentsFunction", "NotificationsFunction", "OrdersApiFunction", "WatchdogFunction")
    }


def test_what_the_shop_has_is_seen() -> None:
    """Nested stacks, Globals and policies: a clean result is not that of an empty deployment."""
    seen = read(ORDERS, {"KeepDays": "40"})
    assert [each.resource for each in seen.tables] == ["Tokens.TokenTable"]
    assert {each.resource for each in seen.functions} == {
        *("OrdersApiFunction", "PaymentsFunction", "FulfilmentFunction", "NotificationsFunction"),
        *("InvoicesFunction", "PricesFunction", "ContractsAnnouncer", "Tokens.WatchdogFunction"),
    }
    own = [each for each in seen.functions if "." not in each.resource]
    assert all(each.environment["ORDERS_KEEP_DAYS"] == "40" for each in own)  # type: ignore[index]
    assert [(each.function, each.kind) for each in seen.sources] == [
        ("PaymentsFunction", "sqs"),
        ("FulfilmentFunction", "sqs"),
        ("ContractsAnnouncer", "dynamodb"),
    ]
    assert len(seen.queues) == 4
    assert [each.package.has_once for each in seen.layers] == [True]


def test_functions_without_tokens_are_named(tmp_path: Path) -> None:
    """Globals give LAMBDA_ONCE_TABLE to functions of the sample that may not write to the table."""
    (left,) = unseen(read(ORDERS, {}))
    assert "LoyaltyFunction" in left
    assert "PaymentsFunction" not in left


def test_the_shop_without_a_layer_has_no_watchdog() -> None:
    """The condition of the nested stack is decided by what it is given."""
    resources = {each.resource for each in read(TOKENS, {}).functions}
    with_layer = {each.resource for each in read(TOKENS, {"LayerArn": LAYER}).functions}
    assert (resources, with_layer) == (set(), {"WatchdogFunction"})


@pytest.mark.parametrize(
    "parameters", [{}, {"LayerArn": LAYER}, {"LayerArn": LAYER, "WatchdogSweep": "true"}]
)
def test_the_table_alone_is_clean(parameters: dict[str, str]) -> None:
    """tokens.yaml as a stack of its own."""
    assert findings(read(TOKENS, parameters)) == ()


def test_the_smallest_stack_is_clean() -> None:
    """And nothing is advised."""
    seen = read(MINIMAL, {})
    assert (found(seen), advice(seen)) == (set(), set())
    assert unseen(seen) == {}


@pytest.mark.engine
def test_what_the_cdk_makes_is_clean(tmp_path: Path) -> None:
    """The nested template is found beside the stack's, as the CDK's metadata say."""
    from tests.stack.test_without_sam import synthesised

    synthesised(tmp_path)
    seen = read(tmp_path / "shop" / "cdk.out" / "Shop.template.json", {})
    assert len(seen.tables) == 1
    assert {each.handler for each in seen.functions} >= {"lambda_once.operations.watchdog.handler"}
    assert len(seen.functions) == 5
    assert (found(seen), advice(seen)) == (set(), set())
    assert unseen(seen) == {}


# -- forms of a template


def folder_of(tmp_path: Path) -> Path:
    """Make the folders that the shop's template names, and return theirs."""
    package = tmp_path / "layer" / "python" / "lambda_once"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "function").mkdir()
    return tmp_path


def test_yaml_and_json_are_one_template(tmp_path: Path) -> None:
    """Short tags are the functions that JSON spells out."""
    folder = folder_of(tmp_path)
    as_yaml = read(written(folder, SHOP.read_text(encoding="utf-8")), {})
    as_json = read(written(folder, json.dumps(document(SHOP)), "template.json"), {})
    assert as_yaml == as_json
    assert findings(as_yaml) == ()


STAGES = ["Original", "Processed"]


def in_yaml(text: str) -> str:
    """The same template in YAML; *text* is JSON."""
    return str(yaml.safe_dump(json.loads(text), sort_keys=False))


PRINTED: dict[str, Callable[[str], str]] = {
    "of JSON": lambda text: json.dumps({"TemplateBody": json.loads(text), "StagesAvailable": STAGES}),
    "of YAML": lambda text: json.dumps({"TemplateBody": in_yaml(text)}),
    "--output yaml": lambda text: yaml.safe_dump({"StagesAvailable": STAGES, "TemplateBody": text}),
    "of JSON, --query TemplateBody": lambda text: json.dumps(json.loads(text)),
    "of YAML, --query TemplateBody": lambda text: json.dumps(in_yaml(text)),
}
"""What ``aws cloudformation get-template`` prints of a template, given in JSON (AWS CLI 1.46)."""


@pytest.mark.parametrize("printed", PRINTED.values(), ids=PRINTED)
def test_what_get_template_prints_is_the_template(tmp_path: Path, printed: Callable[[str], str]) -> None:
    """Its rules find the same: nothing, or the one mistake."""
    folder, sound = folder_of(tmp_path), json.dumps(document(SHOP))
    wrong = sound.replace('"FunctionResponseTypes": ["ReportBatchItemFailures"]', '"BatchSize": 10', 1)
    for text, wanted in ((sound, set()), (wrong, {("Q1", "PaymentsFunction")})):
        seen = read(written(folder, printed(text), "deployed.json"), {})
        assert seen == read(written(folder, text, "template.json"), {})
        assert found(seen) == wanted


@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_what_cloudformation_returns_is_read(tmp_path: Path, form: Callable[[Any], str]) -> None:
    """As botocore reads it, whose answer the AWS CLI prints: it decodes a template of JSON."""
    table = {
        "Type": "AWS::DynamoDB::Table",
        "Properties": {
            "BillingMode": "PAY_PER_REQUEST",
            "AttributeDefinitions": [{"AttributeName": "lockToken", "AttributeType": "S"}],
            "KeySchema": [{"AttributeName": "lockToken", "KeyType": "HASH"}],
        },
    }
    template = form({"Resources": {"Tokens": table}})
    with mock_aws():
        client = boto3.client("cloudformation", region_name="eu-central-1")
        client.create_stack(StackName="tokens", TemplateBody=template)
        answer = client.get_template(StackName="tokens")
    assert isinstance(answer["TemplateBody"], dict if form is json.dumps else str)
    deployed = written(tmp_path, json.dumps({**answer, "ResponseMetadata": None}), "deployed.json")
    assert read(deployed, {}) == read(written(tmp_path, template), {})


def test_a_processed_template_does_not_say_what_came_from_globals(tmp_path: Path) -> None:
    """So a function that has no more than that variable is taken for one that uses lambda-once."""
    original = document(SHOP)
    original["Globals"]["Function"]["Environment"] = {
        "Variables": {"POWERTOOLS_SERVICE_NAME": "shop", "LAMBDA_ONCE_TABLE": {"Ref": "TokenTable"}}
    }
    other = {"Handler": "app.handler", "InlineCode": "", "Layers": [LAYER]}
    original["Resources"]["Other"] = {"Type": "AWS::Serverless::Function", "Properties": other}
    path = written(folder_of(tmp_path), json.dumps(original))
    processed = expanded(original, {"AWS::Region": "eu-central-1"}, path)
    seen = read(written(tmp_path, json.dumps({"TemplateBody": processed}), "deployed.json"), {})
    assert "Other" not in {each.resource for each in read(path, {}).functions}
    assert ("P1", "Other") in found(seen)


def test_a_built_template_is_the_same(tmp_path: Path) -> None:
    """`sam build` leaves Globals and functions as they were, with folders of their own."""
    folder = folder_of(tmp_path)
    built = document(SHOP)
    del built["Globals"]["Function"]["CodeUri"]
    for name, each in built["Resources"].items():
        if each["Type"] == "AWS::Serverless::Function":
            each["Properties"]["CodeUri"] = name
            (folder / name).mkdir()
    before = read(written(folder, SHOP.read_text(encoding="utf-8")), {})
    assert read(written(folder, json.dumps(built), "built.yaml"), {}) == before


def test_a_template_needs_no_files_beside_it(tmp_path: Path) -> None:
    """Definitions of APIs and code are not read where they are not here."""
    text = (
        SHOP.read_text(encoding="utf-8")
        + """
  Api:
    Type: AWS::Serverless::HttpApi
    Properties: {DefinitionUri: nowhere.yaml}
  Machine:
    Type: AWS::Serverless::StateMachine
    Properties: {DefinitionUri: nowhere.json}
  Handler:
    Type: AWS::Serverless::Function
    Properties:
      Handler: a.b
      Environment: {Variables: {LAMBDA_ONCE_TABLE: !Ref TokenTable}}
      Events: {Get: {Type: HttpApi, Properties: {ApiId: !Ref Api, Method: GET, Path: /}}}
      Policies: [DynamoDBReadPolicy: {TableName: !Ref TokenTable}]
"""
    )
    seen = read(written(tmp_path, text), {})
    assert found(seen) == {("P1", "Handler")}


PLAIN = """
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: tokens
      AttributeDefinitions: [{AttributeName: lockToken, AttributeType: S}]
      KeySchema: [{AttributeName: lockToken, KeyType: HASH}]
      TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}
  Role:
    Type: AWS::IAM::Role
    Properties:
      ManagedPolicyArns: [MANAGED]
      Policies:
        - PolicyName: tokens
          PolicyDocument:
            Statement: [{Effect: Allow, Action: ACTION, Resource: RESOURCE}]
  Function:
    Type: AWS::Lambda::Function
    Properties:
      Handler: a.b
      Role: !GetAtt Role.Arn
      Environment: {Variables: {LAMBDA_ONCE_TABLE: VARIABLE}}
"""
BASIC = "arn:aws:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"
GRANT = {"MANAGED": BASIC, "ACTION": "dynamodb:*", "RESOURCE": "!GetAtt Table.Arn", "VARIABLE": "tokens"}


def plain(folder: Path, **changes: str) -> Deployment:
    """Read a template without SAM, in which some words are others."""
    text = PLAIN
    for name, value in (GRANT | changes).items():
        text = text.replace(name, value)
    return read(written(folder, text), {})


@pytest.mark.parametrize(
    ("changes", "lacks"),
    [
        ({}, False),
        ({"ACTION": "dynamodb:Query"}, True),
        ({"RESOURCE": '"*"'}, False),
        ({"RESOURCE": "arn:aws:dynamodb:*:*:table/tokens"}, False),
        ({"RESOURCE": "arn:aws:dynamodb:eu-west-1:123456789012:table/tok*"}, False),
        ({"RESOURCE": '!Sub "arn:aws:dynamodb:${AWS::Region}:${AWS::AccountId}:table/tokens"'}, False),
        ({"RESOURCE": "arn:aws:dynamodb:*:*:table/others"}, True),
        ({"RESOURCE": '!Sub "${Table.Arn}/index/*"'}, True),
        ({"RESOURCE": "arn:aws:s3:::bucket/*"}, True),
        ({"RESOURCE": '!Join ["", ["arn:aws:dynamodb:", !Ref AWS::Region, ":*:table/", !Ref Table]]'}, False),
        ({"RESOURCE": "!ImportValue table-arn"}, None),
        ({"RESOURCE": '!Sub "arn:aws:dynamodb:*:*:table/${AWS::StackName}-*"'}, True),
        ({"RESOURCE": '!Sub "arn:aws:dynamodb:*:*:table/${AWS::StackName}*"'}, None),
        ({"ACTION": "dynamodb:Query", "MANAGED": "arn:aws:iam::123456789012:policy/more"}, None),
        ({"ACTION": "dynamodb:Query", "MANAGED": "arn:aws:iam::aws:policy/AmazonDynamoDBFullAccess"}, False),
        (
            {"ACTION": "dynamodb:Query", "MANAGED": "arn:aws:iam::aws:policy/AmazonDynamoDBReadOnlyAccess"},
            True,
        ),
        ({"ACTION": "!If [Some, a, b]"}, None),
    ],
    ids=str,
)
def test_what_a_policy_names(tmp_path: Path, changes: dict[str, str], lacks: bool | None) -> None:
    """A permission lacks, does not, or depends on what is not here: then it is listed as not checked."""
    seen = plain(tmp_path, **changes)
    assert (("P1", "Function") in found(seen)) is (lacks is True)
    assert ("whether it may" in unseen(seen).get("Function", "")) is (lacks is None)


@pytest.mark.parametrize(
    "variable", ["tokens", "!Ref Table", "!GetAtt Table.Arn", '!Sub "${Table}"', "!Select [0, [!Ref Table]]"]
)
def test_how_a_function_names_its_table(tmp_path: Path, variable: str) -> None:
    """By a name, a reference, or an ARN."""
    seen = plain(tmp_path, VARIABLE=variable, ACTION="dynamodb:Query")
    assert ("P1", "Function") in found(seen)


def test_a_table_of_another_stack_is_not_checked(tmp_path: Path) -> None:
    """Nothing is said about a table that is not here."""
    seen = plain(tmp_path, VARIABLE="!ImportValue tokens", ACTION="dynamodb:Query")
    assert "P1" not in {code for code, _ in found(seen)}
    assert unseen(seen)["Function"] == "its token table, which is not in this template"


def test_an_auto_named_table_is_known_by_its_stack(tmp_path: Path) -> None:
    """CloudFormation names a table after the stack: a policy for its names is one for the table."""
    text = PLAIN.replace("      TableName: tokens\n", "")
    for name, value in (GRANT | {"VARIABLE": "!Ref Table"}).items():
        text = text.replace(name, value if name != "RESOURCE" else "RESOURCE")
    own, other = '"arn:aws:dynamodb:*:*:table/${AWS::StackName}-*"', "arn:aws:dynamodb:*:*:table/shop-*"
    seen = read(written(tmp_path, text.replace("RESOURCE", f"!Sub {own}")), {})
    assert ("P1", "Function") not in found(seen)
    assert "Function" not in unseen(seen)
    seen = read(written(tmp_path, text.replace("RESOURCE", other)), {})
    assert ("P1", "Function") not in found(seen)
    assert "whether it may" in unseen(seen)["Function"]


def test_a_table_with_a_policy_of_its_own_is_left_to_it(tmp_path: Path) -> None:
    """It may allow what the role does not."""
    text = PLAIN.replace("TableName: tokens", "TableName: tokens\n      ResourcePolicy: {PolicyDocument: {}}")
    for name, value in (GRANT | {"ACTION": "dynamodb:Query"}).items():
        text = text.replace(name, value)
    seen = read(written(tmp_path, text), {})
    assert ("P1", "Function") not in found(seen)
    assert "whether it may" in unseen(seen)["Function"]


def test_twin_globals_alone_make_no_user_while_others_may_write(tmp_path: Path) -> None:
    """Where nobody may write to the table, those with the variable are all reported."""
    text = """
Transform: AWS::Serverless-2016-10-31
Globals:
  Function: {Runtime: python3.14, Handler: a.b, Environment: {Variables: {LAMBDA_ONCE_TABLE: !Ref Table}}}
Resources:
  Table: {Type: AWS::Serverless::SimpleTable, Properties: {PrimaryKey: {Name: lockToken, Type: String}}}
  One: {Type: AWS::Serverless::Function, Properties: {POLICY}}
  Other: {Type: AWS::Serverless::Function, Properties: {}}
"""
    crud = "Policies: [{DynamoDBCrudPolicy: {TableName: !Ref Table}}]"
    lack = {
        resource
        for code, resource in found(read(written(tmp_path, text.replace("POLICY", "")), {}))
        if code == "P1"
    }
    assert lack == {"One", "Other"}
    seen = read(written(tmp_path, text.replace("POLICY", crud)), {})
    assert [each.resource for each in seen.functions] == ["One"]
    assert "Other" in unseen(seen)


def test_a_dead_letter_queue_of_another_stack_is_not_checked(tmp_path: Path) -> None:
    """It is listed under the queue that has it."""
    text = SHOP.read_text(encoding="utf-8")
    path = written(
        tmp_path, text.replace("!GetAtt PaymentsDeadLetters.Arn, max", "!ImportValue letters, max")
    )
    assert unseen(read(path, {}))["PaymentsQueue"] == "its dead-letter queue, which is not in this template"


# -- nested stacks

CHILD = """
Parameters: {Name: {Type: String}}
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: !Ref Name
      AttributeDefinitions: [{AttributeName: lockToken, AttributeType: S}]
      KeySchema: [{AttributeName: lockToken, KeyType: HASH}]
Outputs:
  Name: {Value: !Ref Table}
"""
PARENT = """
Resources:
  Tokens:
    Type: AWS::CloudFormation::Stack
    Properties: {TemplateURL: LOCATION, Parameters: {Name: !Sub "${AWS::StackName}-tokens"}}
  Function:
    Type: AWS::Lambda::Function
    Properties: {Handler: a.b, Environment: {Variables: {LAMBDA_ONCE_TABLE: !GetAtt Tokens.Outputs.Name}}}
"""


def test_a_nested_file_is_followed(tmp_path: Path) -> None:
    """With its parameters and outputs."""
    written(tmp_path, CHILD, "nested/tokens.yaml")
    seen = read(written(tmp_path, PARENT.replace("LOCATION", "nested/tokens.yaml")), {})
    (table,), (function,) = seen.tables, seen.functions
    assert table.resource == "Tokens.Table"
    assert function.environment == {"LAMBDA_ONCE_TABLE": table.name}


@pytest.mark.parametrize(
    "location", ["https://bucket.s3.amazonaws.com/tokens.yaml", "gone.yaml", "!ImportValue url"]
)
def test_a_nested_stack_elsewhere_is_not_checked(tmp_path: Path, location: str) -> None:
    """It is listed; what it would have said is unknown."""
    seen = read(written(tmp_path, PARENT.replace("LOCATION", location)), {})
    assert seen.tables == ()
    assert unseen(seen)["Tokens"] == "a nested stack whose template is not a file here"
    assert "Function" in unseen(seen)


def test_a_template_that_nests_itself_is_refused(tmp_path: Path) -> None:
    """Rather than read for ever."""
    path = written(tmp_path, PARENT.replace("LOCATION", "template.yaml").replace("Parameters: ", "Tags: "))
    with pytest.raises(CannotCheck, match="nests a template in itself"):
        read(path, {})


# -- layers


def test_a_layer_without_the_package_is_an_error(tmp_path: Path) -> None:
    """The folder is there, and empty: `sam build` would make an empty layer of it."""
    folder = folder_of(tmp_path)
    shutil.rmtree(folder / "layer" / "python" / "lambda_once")
    seen = read(written(folder, SHOP.read_text(encoding="utf-8")), {})
    assert found(seen) == {
        ("L1", each) for each in ("PaymentsFunction", "ChangesFunction", "WatchdogFunction")
    }
    assert "LambdaOnceLayer" in findings(seen)[0].what


@pytest.mark.parametrize(
    ("files", "built", "brought"),
    [
        (["python/lambda_once/__init__.py"], False, True),
        (["python/lib/python3.14/site-packages/lambda_once/__init__.py"], False, True),
        (["lambda_once/__init__.py"], True, True),
        (["lambda_once/__init__.py"], False, False),
        (["python/other/__init__.py"], True, False),
        (["requirements.txt=lambda-once==0.1.0"], True, True),
        (["requirements.txt=lambda-once==0.1.0"], False, False),
        (["requirements.txt=boto3"], True, False),
        (["requirements.txt=-r more.txt"], True, UNKNOWN),
        (["requirements.txt=./dist/some.whl"], True, UNKNOWN),
        (["Makefile"], True, UNKNOWN),
    ],
    ids=str,
)
def test_what_a_layer_has(tmp_path: Path, files: list[str], built: bool, brought: object) -> None:
    """A copy of the package where Lambda looks for it, or what `sam build` will put there."""
    for each in files:
        name, _, text = each.partition("=")
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert has(tmp_path, ONCE, layer=True, built=built) is brought


@pytest.mark.parametrize(
    ("name", "layer", "brought"),
    [
        ("python/lambda_once/__init__.py", True, True),
        ("lambda_once/__init__.py", True, False),
        ("lambda_once/__init__.py", False, True),
    ],
)
def test_what_an_archive_has(tmp_path: Path, name: str, layer: bool, brought: bool) -> None:
    """Lambda unpacks layers into /opt, and looks under python."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(name, "")
    assert has(tmp_path / "a.zip", ONCE, layer=layer, built=False) is brought


@pytest.mark.parametrize(
    ("requirements", "brought"),
    [
        ("lambda-once\nboto3>=1.40", False),
        ("lambda-once[pydantic]==0.1.0", True),
        ("lambda_once[aws, pydantic]", True),
        ("aws-lambda-powertools[parser]", True),
        ("lambda-once\npydantic-settings", True),
        ("lambda-once[aws]\nboto3-stubs", UNKNOWN),
        ("lambda-once\nfastapi", UNKNOWN),
        ("# pydantic\nlambda-once  # no pydantic", False),
        ("-r more.txt", UNKNOWN),
    ],
)
def test_what_brings_pydantic(tmp_path: Path, requirements: str, brought: object) -> None:
    """A requirement that may bring it along is not judged."""
    (tmp_path / "requirements.txt").write_text(requirements)
    assert has(tmp_path, PYDANTIC, layer=False, built=True) is brought


# -- what cannot be read

BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "\n".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no Resources"),
        ("[]", "no Resources"),
        ("Resources: []", "no Resources"),
        ("{", "is not JSON"),
        ("a: [", "is not YAML"),
        ("a: !!python/object/apply:os.getcwd []", "is not YAML"),
        (f"{BOMB}\nResources: {{}}", f"more than {MOST_NODES} values"),
        ("Resources: &r {a: *r}", "alias"),
        ("[" * 20_000, "nested too deeply"),
        ('{"a":' * 20_000, "nested too deeply"),
        ('{"TemplateBody": "text"}', "no Resources"),
        ('{"TemplateBody": []}', "no Resources"),
        ('{"TemplateBody": "a: ["}', "is not YAML"),
        ('{"TemplateBody": "{"}', "is not JSON"),
        ('{"TemplateBody": "' + "[" * 20_000 + '"}', "nested too deeply"),
        ("Resources: {}", "nothing here uses lambda-once"),
        ("Resources: {T: {Type: 'AWS::SNS::Topic'}}", "nothing here uses lambda-once"),
        (
            "Resources: {A: {Type: 'AWS::Serverless::Function', Properties: {Runtime: x}}}",
            "SAM cannot expand it",
        ),
    ],
    ids=lambda each: str(each)[:30],
)
def test_what_is_no_template_cannot_be_checked(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file, and what is wrong with it."""
    path = written(tmp_path, text)
    with pytest.raises(CannotCheck, match=message) as caught:
        read(path, {})
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "instead"),
    [
        ("terraform/main.tf", "is Terraform, which is not read"),
        ("serverless.yml", "check .serverless/cloudformation-template-update-stack.json"),
    ],
)
def test_the_source_of_another_tool_is_named(file: str, instead: str) -> None:
    """Terraform makes no template; the Serverless Framework packages one."""
    with pytest.raises(CannotCheck, match=instead):
        read(ROOT / "examples" / "infrastructure" / file, {})


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """There is none, it is a folder, too large, or no text."""
    large, binary = tmp_path / "large.yaml", tmp_path / "binary.yaml"
    large.write_bytes(b" " * (LARGEST + 1))
    binary.write_bytes(b"\xff\xfe")
    for path in (tmp_path / "none.yaml", tmp_path, large, binary):
        with pytest.raises(CannotCheck):
            read(path, {})


def test_a_parameter_that_is_not_there_is_refused() -> None:
    """A typing mistake must not check the defaults."""
    with pytest.raises(CannotCheck, match="has no parameter Shard; it has"):
        read(ORDERS, {"Shard": "8"})


def test_a_parameter_without_a_value_is_unknown(tmp_path: Path) -> None:
    """What it decides is not judged; equal references are equal all the same."""
    folder = folder_of(tmp_path)
    text = SHOP.read_text(encoding="utf-8").replace("{Type: Number, Default: 180}", "{Type: Number}")
    seen = read(written(folder, text), {})
    assert findings(seen) == ()
    assert {each.visibility for each in seen.queues if each.resource == "PaymentsQueue"} == {UNKNOWN}
    assert ("Q4", "PaymentsQueue") in found(read(written(folder, text), {"Seconds": "60"}))


def test_macros_and_loops_are_listed(tmp_path: Path) -> None:
    """What only CloudFormation knows, such as its zones, is not checked."""
    text = PLAIN.replace(
        "Resources:\n",
        "Transform: [AWS::LanguageExtensions, Ours]\nResources:\n  Fn::ForEach::Q: [a, !GetAZs '', {}]\n",
    )
    for name, value in GRANT.items():
        text = text.replace(name, value)
    path = written(tmp_path, text)
    seen = read(path, {})
    assert "what the macro Ours makes" in {each.why for each in seen.not_checked}
    assert ("F1", "Fn::ForEach::Q") in found(seen)


LOOP = """Transform: [AWS::LanguageExtensions, AWS::Serverless-2016-10-31]
Resources:
  Fn::ForEach::Topics: [Name, !GetAZs "", {"Topic&{Name}": {Type: AWS::SNS::Topic}}]
"""


def test_a_loop_beside_sam_hides_nothing_else(tmp_path: Path) -> None:
    """The rest of the template is checked; without the loop it is clean."""
    text = SHOP.read_text(encoding="utf-8").partition("\n")[2]
    looped = text.replace("Resources:\n", LOOP.partition("\n")[2], 1)
    seen = read(written(folder_of(tmp_path), f"{LOOP.partition(chr(10))[0]}\n{looped}"), {})
    assert found(seen) == {("F1", "Fn::ForEach::Topics")}
    assert len(seen.functions) == 3
    (finding,) = findings(seen)
    assert finding.fix.startswith("aws cloudformation get-template ")
    assert "--template-stage Processed" in finding.fix


def test_a_template_of_loops_alone_is_a_finding(tmp_path: Path) -> None:
    """What they make may use lambda-once; in a condition, too, but not in outputs."""
    assert found(read(written(tmp_path, LOOP), {})) == {("F1", "Fn::ForEach::Topics")}
    over = "[A, {'Fn::GetAZs': ''}, {}]"
    text = f"Conditions: {{'Fn::ForEach::C': {over}}}\nOutputs: {{'Fn::ForEach::O': {over}}}\n"
    assert found(read(written(tmp_path, f"{text}Resources: {{}}"), {})) == {("F1", "Fn::ForEach::C")}


def test_a_table_alone_says_that_it_has_no_functions() -> None:
    """In a line, and nothing is found."""
    seen = read(TOKENS, {})
    assert unseen(seen) == {"functions": "none here uses the table: check theirs, too"}
    assert findings(seen) == ()
    assert "functions" not in unseen(read(MINIMAL, {}))


@pytest.mark.parametrize("word", ["LAMBDA_ONCE_TABLE", None])
def test_the_sample_without_its_variable_is_not_clean(tmp_path: Path, word: str | None) -> None:
    """Its functions are known by their managed policy, with conditions on the keys; misspelt, or left out."""
    lines = SAMPLE.read_text(encoding="utf-8").splitlines()
    kept = [each.replace("LAMBDA_ONCE_TABLE:", "LAMBDA_ONCE_TABEL:") for each in lines]
    if word is not None:
        kept = [each for each in lines if word not in each]
    seen = read(written(tmp_path, "\n".join(kept)), {})
    assert {each.resource for each in seen.functions} >= {"PaymentsFunction", "WatchdogFunction"}
    assert {("V10", "PaymentsFunction"), ("V3", "WatchdogFunction")} <= found(seen)
    assert (("V8", "PaymentsFunction") in found(seen)) is (word is None)


def junk(template: Any, path: tuple[str | int, ...], value: object) -> Any:
    """Return *template* with *value* at *path*."""
    if not path:
        return value
    changed = dict(template) if isinstance(template, dict) else list(template)
    changed[path[0]] = junk(template[path[0]], path[1:], value)  # type: ignore[index]
    return changed


def places(value: Any, at: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """Return the path of each value in *value*."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, each in inner for path in places(each, (*at, key)))]


SHOP_DOCUMENT = document(SHOP)
JUNK: tuple[object, ...] = (
    *(None, True, 3, -1.5, "", "x", [], {}, [[]], "\u2039?\u203a"),
    *({"Ref": "x"}, {"Ref": []}, {"Fn::Sub": ["${x", {}]}, {"Fn::GetAtt": ["TokenTable"]}, {"Fn::If": ["x"]}),
    {"Fn::Join": ["", {"Ref": "Shards"}]},
)


@given(path=st.sampled_from(places(SHOP_DOCUMENT)), value=st.sampled_from(JUNK))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_malformed_template_is_checked_or_refused(
    tmp_path: Path, path: tuple[str | int, ...], value: object
) -> None:
    """Whatever stands in one place, there are findings or a `CannotCheck`, and no other error."""
    file = written(tmp_path, json.dumps(junk(SHOP_DOCUMENT, path, value)))
    with suppress(CannotCheck):
        findings(read(file, {}))
