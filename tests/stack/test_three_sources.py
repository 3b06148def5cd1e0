"""
What docs/deploying.md deploys: functions behind a queue, an HTTP API and a rule, alike in every form.

SAM's template is translated, the CDK's app synthesised, packaged.json is what `osls package` wrote, and
Terraform's files are parsed.
"""

from __future__ import annotations

import copy
import importlib.util
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest

from lambda_once.testing import api_event, eventbridge_event, lambda_context, sqs_event
from lambda_once.testing.plugin import once_store  # noqa: F401  (a fixture)
from lambda_once_tools.check.rules import findings
from lambda_once_tools.check.templates import read
from tests.kit.judge import listed

from .conftest import Template, deploy, translate
from .named import of_type
from .nested import decided, flat, parsed, replaced
from .test_template import complaints
from .test_without_sam import FOLDER, LAYER, MODULE, PACKAGED, SIGNED, TOKENS, blocks, copied, synthesised

HANDLERS = {"payments.charge", "orders.create", "shipments.ship"}
VARIABLES = {
    "LAMBDA_ONCE_LISTING": "stream",
    "POWERTOOLS_SERVICE_NAME": "shop",
    "POWERTOOLS_METRICS_NAMESPACE": "Shop",
}
GIVEN = {"Issuer": SIGNED["ISSUER"], "Audience": SIGNED["AUDIENCE"]}
FOURTEEN_DAYS = 14 * 24 * 3600


def given(template: Template) -> Template:
    """Return *template* with the page's issuer and audience in place of its parameters."""
    own = {name: each for name, each in template["Parameters"].items() if name not in GIVEN}
    resources: dict[str, Any] = replaced(template["Resources"], GIVEN)
    return template | {"Parameters": own, "Resources": resources}


FORMS: dict[str, Callable[[Path], Template]] = {
    "sam": lambda _: given(translate(flat(FOLDER / "template.yaml"))),
    "cloudformation": lambda _: given(parsed(FOLDER / "functions.yaml")),
    "serverless": lambda _: dict(json.loads(PACKAGED.read_text(encoding="utf-8"))),
    "cdk": lambda folder: synthesised(folder)[0],
}
MARKED = [pytest.param(form, marks=pytest.mark.engine if form == "cdk" else ()) for form in FORMS]


@pytest.fixture(scope="module", params=MARKED)
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Template:
    """What CloudFormation gets to see in a form, its parameters as on the page."""
    return FORMS[request.param](tmp_path_factory.mktemp(request.param))


def named(reference: Any) -> str:
    """Return the logical id that a Ref or a GetAtt names."""
    (found,) = reference.values()
    return str(found if isinstance(found, str) else found[0])


def function_of(template: Template, handler: str) -> str:
    """Return the logical id of the function with *handler*, of the service `shop`."""
    (name,) = (
        name
        for name, each in of_type(template, "AWS::Lambda::Function").items()
        if each["Handler"].removeprefix("function/") == handler
        and each["Environment"]["Variables"]["POWERTOOLS_SERVICE_NAME"] == "shop"
    )
    return name


def lines(template: Template, kind: str, **wanted: str) -> list[dict[str, Any]]:
    """Return the properties of the resources of *kind* that refer to these logical ids."""
    return [
        each
        for each in of_type(template, kind).values()
        if all(named(each[key]) == name for key, name in wanted.items())
    ]


# -- every form


@pytest.mark.parametrize("handler", sorted(HANDLERS))
def test_a_function_knows_table_service_and_list(template: Template, handler: str) -> None:
    """It has the layer, and Python and architecture of the page's first commands by default."""
    function = template["Resources"][function_of(template, handler)]["Properties"]
    variables = function["Environment"]["Variables"]
    assert variables["LAMBDA_ONCE_TABLE"]
    assert {key: variables[key] for key in VARIABLES} == VARIABLES
    assert len(function["Layers"]) == 1
    parameters = template.get("Parameters", {})
    defaults = {name: each["Default"] for name, each in parameters.items() if "Default" in each}
    assert replaced([function["Runtime"], function["Architectures"]], defaults) == ["python3.14", ["arm64"]]


def test_the_queue_reports_single_failures(template: Template) -> None:
    """Its messages stay hidden for six timeouts, and after five deliveries are kept for 14 days."""
    payments = function_of(template, "payments.charge")
    (mapping,) = lines(template, "AWS::Lambda::EventSourceMapping", FunctionName=payments)
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    queues = of_type(template, "AWS::SQS::Queue")
    queue = queues[named(mapping["EventSourceArn"])]
    timeout = template["Resources"][payments]["Properties"]["Timeout"]
    assert queue["VisibilityTimeout"] >= 6 * timeout
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 5
    kept = queues[named(queue["RedrivePolicy"]["deadLetterTargetArn"])]
    assert kept["MessageRetentionPeriod"] == FOURTEEN_DAYS


def test_the_api_asks_for_a_jwt(template: Template) -> None:
    """On its only route; requests are throttled, and the function ends before the API gives up."""
    (api,) = of_type(template, "AWS::ApiGatewayV2::Api").values()
    if "Body" in api:  # SAM's
        (methods,) = (api["Body"]["paths"][path] for path in ["/orders"])
        assert methods.keys() == {"post"}
        (scheme,) = (name for each in methods["post"]["security"] for name in each)
        jwt = api["Body"]["components"]["securitySchemes"][scheme]["x-amazon-apigateway-authorizer"]
        signed = jwt["jwtConfiguration"]
    else:
        (route,) = of_type(template, "AWS::ApiGatewayV2::Route").values()
        assert (route["RouteKey"], route["AuthorizationType"]) == ("POST /orders", "JWT")
        authorizer = of_type(template, "AWS::ApiGatewayV2::Authorizer")[named(route["AuthorizerId"])]
        signed = {key.lower(): each for key, each in authorizer["JwtConfiguration"].items()}
    assert signed == {"issuer": SIGNED["ISSUER"], "audience": [SIGNED["AUDIENCE"]]}
    (stage,) = of_type(template, "AWS::ApiGatewayV2::Stage").values()
    throttle = {"ThrottlingBurstLimit": 100, "ThrottlingRateLimit": 50}
    assert throttle.items() <= stage["DefaultRouteSettings"].items()
    assert template["Resources"][function_of(template, "orders.create")]["Properties"]["Timeout"] < 30


def test_no_event_of_the_rule_is_lost(template: Template) -> None:
    """What the function fails on, and what the rule can't deliver, is in one queue; only it may send."""
    shipments = function_of(template, "shipments.ship")
    (invocations,) = lines(template, "AWS::Lambda::EventInvokeConfig", FunctionName=shipments)
    destination = named(invocations["DestinationConfig"]["OnFailure"]["Destination"])
    rules = of_type(template, "AWS::Events::Rule")
    ((name, rule),) = ((name, each) for name, each in rules.items() if "EventPattern" in each)
    assert rule["EventPattern"] == {"source": ["shop.orders"], "detail-type": ["OrderPaid"]}
    (target,) = rule["Targets"]
    assert named(target["Arn"]) == shipments
    assert named(target["DeadLetterConfig"]["Arn"]) == destination
    assert of_type(template, "AWS::SQS::Queue")[destination]["MessageRetentionPeriod"] == FOURTEEN_DAYS
    (policy,) = lines(template, "AWS::Lambda::Permission", FunctionName=shipments)
    assert policy["Principal"] == "events.amazonaws.com"
    (sending,) = (
        statement
        for each in of_type(template, "AWS::SQS::QueuePolicy").values()
        if [named(queue) for queue in each["Queues"]] == [destination]
        for statement in each["PolicyDocument"]["Statement"]
    )
    assert (sending["Action"], named(sending["Resource"])) == ("sqs:SendMessage", destination)
    assert sending["Principal"] == {"Service": "events.amazonaws.com"}
    source = sending["Condition"]["ArnEquals"]["aws:SourceArn"]
    assert rule["Name"] in source["Fn::Sub"] if "Fn::Sub" in source else named(source) == name


@pytest.mark.parametrize("handler", sorted(HANDLERS))
def test_a_function_may_do_no_more(template: Template, handler: str) -> None:
    """Its tokens, its logs, and its own queue; under osls, whose functions share a role, the two queues."""
    function = template["Resources"][function_of(template, handler)]["Properties"]
    role = named(function["Role"])
    properties = template["Resources"][role]["Properties"]
    documents = [each["PolicyDocument"] for each in properties.get("Policies", [])]
    documents += [
        each["PolicyDocument"]
        for each in of_type(template, "AWS::IAM::Policy").values()
        if {"Ref": role} in each["Roles"]
    ]
    actions = {action for each in documents for one in each["Statement"] for action in listed(one["Action"])}
    assert not [each for each in actions if "*" in each]
    managed = json.dumps(properties.get("ManagedPolicyArns", []))
    shared = role == "IamRoleLambdaExecution"
    assert shared or "TokenAccess" in managed
    assert (handler == "payments.charge" or shared) == (
        "sqs:ReceiveMessage" in actions or "AWSLambdaSQSQueueExecutionRole" in managed
    )
    assert (handler == "shipments.ship" or shared) == ("sqs:SendMessage" in actions)
    services = {"sqs", "dynamodb", "logs"} if shared else {"sqs"}
    assert {each.partition(":")[0] for each in actions} <= services


def test_cfn_lint_finds_nothing(template: Template) -> None:
    """But DependsOn that the tools write beside a reference (W3005)."""
    assert [each for each in complaints(json.dumps(template)) if not each.startswith("[W3005")] == []


@pytest.mark.parametrize("name", ["template.yaml", "functions.yaml"])
def test_check_finds_nothing_and_advises_nothing(tmp_path: Path, name: str) -> None:
    """In the folder that the page's first commands make, whether its parameters are known or not."""
    shop = copied(tmp_path)
    for parameters in ({}, GIVEN | ({"LayerArn": LAYER} if name == "functions.yaml" else {})):
        seen = read(shop / name, parameters)
        assert len(seen.functions) == 3 + (name == "template.yaml")
        assert findings(seen) == ()


@pytest.mark.parametrize(
    ("written", "instead", "code"),
    [
        ("            FunctionResponseTypes: [ReportBatchItemFailures]\n", "", "Q1"),
        ("        DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt FailedShipments.Arn}}\n",
         "        MaximumRetryAttempts: 2\n", "A1"),
        ("        LAMBDA_ONCE_LISTING: stream\n", "", "V"),
    ],
)  # fmt: skip
def test_twin_check_finds_what_is_missing(tmp_path: Path, written: str, instead: str, code: str) -> None:
    """With one line of it changed."""
    path = copied(tmp_path) / "template.yaml"
    text = path.read_text(encoding="utf-8")
    assert text.count(written) == 1
    path.write_text(text.replace(written, instead), encoding="utf-8")
    assert [each for each in findings(read(path, {})) if each.code.startswith(code)]


# -- created in moto


def test_sams_stack_can_be_created(aws: boto3.Session) -> None:
    """All that moto's CloudFormation knows of it."""
    deployed = deploy(aws, translate(flat(FOLDER / "template.yaml")), GIVEN)
    functions = [name for name, kind in deployed.resources.items() if kind == "AWS::Lambda::Function"]
    assert sorted(functions) == [
        "OrdersFunction",
        "PaymentsFunction",
        "ShipmentsFunction",
        "WatchdogFunction",
    ]


def test_the_functions_import_from_the_stack_of_the_table(aws: boto3.Session) -> None:
    """CloudFormation's two stacks, one after the other: the functions get the table's name and its policy."""
    tokens = decided(parsed(TOKENS), Service="shop", MetricsNamespace="Shop", NoticesTopicArn="", LayerArn="")
    tokens = tokens | {"Parameters": {}}
    tokens["Outputs"] = {
        name: each
        for name, each in tokens["Outputs"].items()
        if name.startswith("Token") and "Condition" not in each
    }
    tokens.pop("Transform")
    exported = deploy(aws, tokens, {}, "tokens").outputs
    functions = copy.deepcopy(parsed(FOLDER / "functions.yaml"))
    for each in of_type(functions, "AWS::Lambda::Function").values():
        each["Code"] = {"S3Bucket": "code", "S3Key": "stack.zip"}  # aws cloudformation package
        each["Layers"] = []
    functions["Parameters"].pop("LayerArn")
    for name, each in [*functions["Resources"].items()]:
        if each["Type"].startswith("AWS::ApiGatewayV2::"):
            del functions["Resources"][name]
    created = deploy(aws, functions, GIVEN, "shop")
    client = created.client("lambda")
    variables = [each["Environment"]["Variables"] for each in client.list_functions()["Functions"]]
    assert [each["LAMBDA_ONCE_TABLE"] for each in variables] == [exported["TokenTableName"]] * 3


# -- Terraform


def test_terraforms_example_has_the_three() -> None:
    """Under the same settings; the functions differ in their handler and in what their role adds."""
    example = blocks(MODULE / "example" / "main.tf")
    handlers = example["locals"]["handlers"]
    assert {*handlers.values()} == HANDLERS
    resources = example["resource"]
    function = resources["aws_lambda_function"]["shop"]
    assert (function["for_each"], function["handler"]) == ("${local.handlers}", "${each.value}")
    (environment,) = function["environment"]
    assert environment["variables"] == VARIABLES | {"LAMBDA_ONCE_TABLE": "${module.tokens.table}"}
    assert 6 * function["timeout"] <= resources["aws_sqs_queue"]["payments"]["visibility_timeout_seconds"]
    assert resources["aws_iam_role_policy"]["tokens"]["policy"] == '${module.tokens.access["shop"]}'
    assert resources["aws_iam_role_policy"].keys() == {"tokens", "payments", "shipments"}
    assert [each["retention_in_days"] for each in resources["aws_cloudwatch_log_group"].values()] == [30]
    route, stage = (resources[f"aws_apigatewayv2_{kind}"]["orders"] for kind in ("route", "stage"))
    assert (route["route_key"], route["authorization_type"]) == ("POST /orders", "JWT")
    assert stage["default_route_settings"] == [{"throttling_burst_limit": 100, "throttling_rate_limit": 50}]
    jwt = resources["aws_apigatewayv2_authorizer"]["jwt"]
    assert jwt["jwt_configuration"] == [{"issuer": "${var.issuer}", "audience": ["${var.audience}"]}]
    arn = "${aws_sqs_queue.failed_shipments.arn}"
    (destinations,) = resources["aws_lambda_function_event_invoke_config"]["shipments"]["destination_config"]
    assert destinations == {"on_failure": [{"destination": arn}]}
    target = resources["aws_cloudwatch_event_target"]["shipments"]
    assert target["dead_letter_config"] == [{"arn": arn}]
    assert resources["aws_sqs_queue"]["failed_shipments"]["message_retention_seconds"] == FOURTEEN_DAYS


def test_terraform_asks_for_a_provider_that_knows_the_default_runtime() -> None:
    """python3.14 needs 6.20 (hashicorp/terraform-provider-aws, issue 44984). No ARN names a partition."""
    for file in (MODULE / "main.tf", MODULE / "example" / "main.tf"):
        text = file.read_text(encoding="utf-8")
        assert re.findall(r'"hashicorp/aws", version = "(.+?)"', text) == [">= 6.20"]
        assert "arn:aws:" not in text
        assert text.count('resource "aws_cloudwatch_log_group"') == 1


# -- the functions


def handler_of(folder: Path, name: str) -> Any:
    """Return a handler, its module imported anew from the folder that the page's commands make."""
    module, function = name.split(".")
    spec = importlib.util.spec_from_file_location(f"shop_{module}", folder / "function" / f"{module}.py")
    assert spec is not None
    assert spec.loader is not None
    imported = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(imported)
    return getattr(imported, function)


def order(user: str, key: str | None = "k-1") -> dict[str, Any]:
    """Return a request of *user*, as an HTTP API with a JWT authorizer sends it."""
    event = api_event("POST", "/orders", {"items": ["tea"]}, {"Idempotency-Key": key} if key else {})
    claims = {"iss": SIGNED["ISSUER"], "sub": user, "aud": SIGNED["AUDIENCE"]}
    event["requestContext"]["authorizer"] = {"jwt": {"claims": claims, "scopes": None}}
    return event


@pytest.mark.usefixtures("once_store")
def test_a_retry_gets_the_order_of_the_first_request_and_another_user_his_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The caller is the authorizer's; a request without a key is refused."""
    create = handler_of(copied(tmp_path), "orders.create")
    first, retry, other = (create(order(user), lambda_context()) for user in ("alice", "alice", "bob"))
    assert first["statusCode"] == 201
    assert retry["body"] == first["body"] != other["body"]
    assert capsys.readouterr().out.count("alice ordered ['tea']") == 1
    assert create(order("alice", key=None), lambda_context())["statusCode"] == 400


@pytest.mark.usefixtures("once_store")
@pytest.mark.parametrize(
    ("handler", "event", "done"),
    [
        ("payments.charge", sqs_event({"orderId": "o-1", "cents": 5}), "took 5 cents"),
        ("shipments.ship", eventbridge_event({"orderId": "o-1"}, "OrderPaid"), "handed over"),
    ],
)
def test_a_redelivery_does_nothing(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    handler: str,
    event: dict[str, Any],
    done: str,
) -> None:
    """The work runs once."""
    protected = handler_of(copied(tmp_path), handler)
    for _ in range(2):
        protected(event, lambda_context())
    assert capsys.readouterr().out.count(f"order o-1: {done}") == 1
