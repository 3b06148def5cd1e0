"""What the sample and the shop promise, read from their templates and from what SAM makes of these."""

from __future__ import annotations

import ast
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit.recorded import SHOP

from . import nested
from .conftest import REGION, ROOT, Template, translate
from .named import of_type


def queue_mappings(translated: Template) -> list[dict[str, Any]]:
    """Return the mappings whose source is a queue of the stack."""
    queues = of_type(translated, "AWS::SQS::Queue")
    mappings = of_type(translated, "AWS::Lambda::EventSourceMapping").values()
    return [mapping for mapping in mappings if mapping["EventSourceArn"]["Fn::GetAtt"][0] in queues]


def complaints(text: str) -> list[str]:
    """
    Return what cfn-lint, which takes long to import, finds, warnings included.

    That a runtime is deprecated (E2531, E2533 and W2531, W1030 for a parameter) comes with a date, without
    a change of the template: it is left out.
    """
    from cfnlint.api import ManualArgs, lint  # type: ignore[import-untyped,unused-ignore]

    found = (str(match) for match in lint(text, regions=[REGION], config=ManualArgs(regions=[REGION])))
    return [match for match in found if "was deprecated on" not in match]


@pytest.fixture(scope="module", params=[ROOT, SHOP], ids=["sample", "shop"])
def folder(request: pytest.FixtureRequest) -> Path:
    """Where a template is: that of the sample, and that of the shop."""
    found: Path = request.param
    return found


@pytest.fixture(scope="module")
def template_text(folder: Path) -> str:
    """The template as it is written."""
    return (folder / "template.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def template(folder: Path) -> Template:
    """The template with what it nests, its short tags spelled out."""
    return nested.flat(folder / "template.yaml")


@pytest.fixture(scope="module")
def translated(template: Template) -> Template:
    """What CloudFormation gets to see once SAM has expanded the template."""
    return translate(template)


def test_the_template_is_clean_under_cfn_lint(template_text: str) -> None:
    """cfn-lint finds nothing in the template as it is written."""
    assert complaints(template_text) == []


def test_each_stack_of_its_own_can_be_sent_in_a_request() -> None:
    """
    CloudFormation quotas: 51,200 bytes; a larger one must be in S3 before it is validated or deployed.

    The shop nests others, which `sam deploy` puts into S3, and then itself, too.
    """
    for path in (ROOT / "template.yaml", *(ROOT / "examples" / "infrastructure").glob("*.yaml")):
        assert path.stat().st_size <= 51_200, path


def test_cfn_lint_sees_a_broken_template(template: Template) -> None:
    """A table whose key has no attribute definition is found: the check above can fail."""
    table = copy.deepcopy(template["Resources"]["TokenTable"])
    table["Properties"]["AttributeDefinitions"] = [{"AttributeName": "listed", "AttributeType": "S"}]
    kept = {name: template[name] for name in ("Parameters", "Conditions")}
    broken = kept | {"Resources": {"TokenTable": table}}
    assert any("AttributeDefinitions" in complaint for complaint in complaints(json.dumps(broken)))


def test_the_translated_template_is_clean_under_cfn_lint(translated: Template) -> None:
    """cfn-lint finds nothing in what SAM makes of the template."""
    assert complaints(json.dumps(translated)) == []


def test_language_extensions_run_before_sam(template: Template) -> None:
    """The transform that allows a Ref in DeletionPolicy is before SAM's own, as it must."""
    assert template["Transform"] == ["AWS::LanguageExtensions", "AWS::Serverless-2016-10-31"]


def test_every_parameter_is_typed_described_and_bounded(template: Template) -> None:
    """Each parameter has a type, a description, a default, and a limit on what it may be."""
    limits = {"AllowedValues", "AllowedPattern", "MinValue"}
    for name, parameter in template["Parameters"].items():
        assert {"Type", "Description", "Default"} <= parameter.keys(), name
        assert limits & parameter.keys(), name


def test_every_parameter_is_used(template: Template) -> None:
    """Each parameter is referred to somewhere."""
    body = json.dumps({key: template[key] for key in ("Conditions", "Globals", "Resources")})
    used = set(re.findall(r'{"Ref": "(\w+)"}|\${(\w+)}', body))
    assert template["Parameters"].keys() - {name for names in used for name in names} == set()


def test_every_output_is_described(template: Template) -> None:
    """Each output says what it is for."""
    assert [name for name, output in template["Outputs"].items() if not output.get("Description")] == []


def test_the_runtimes_are_those_that_the_package_supports(template: Template) -> None:
    """The template offers the Python versions that the package declares, and the newest is the default."""
    declared = re.findall(r"Python :: (3\.\d+)", (ROOT / "pyproject.toml").read_text())
    runtime = template["Parameters"]["Runtime"]
    assert runtime["AllowedValues"] == [f"python{version}" for version in declared]
    assert runtime["Default"] == runtime["AllowedValues"][-1]


def test_the_table_is_protected(translated: Template) -> None:
    """The table expires rows by ttl, can be restored to any second, and is paid by use."""
    table = of_type(translated, "AWS::DynamoDB::Table")["TokenTable"]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    for each in of_type(translated, "AWS::DynamoDB::Table").values():
        condition, *protected = each["DeletionProtectionEnabled"]["Fn::If"]
        assert protected == [True, False]
        retained = {"Fn::Equals": [{"Ref": "TableDeletionPolicy"}, "Retain"]}
        assert translated["Conditions"][condition] == retained
    assert table["BillingMode"] == "PAY_PER_REQUEST"


def test_the_table_outlives_the_stack_by_default(translated: Template) -> None:
    """What becomes of the table is a parameter, and its default keeps the table."""
    table = translated["Resources"]["TokenTable"]
    assert table["DeletionPolicy"] == {"Ref": "TableDeletionPolicy"}
    assert table["UpdateReplacePolicy"] == {"Ref": "TableDeletionPolicy"}
    assert translated["Parameters"]["TableDeletionPolicy"]["Default"] == "Retain"


def test_queues_hide_messages_for_six_timeouts(translated: Template) -> None:
    """A queue hides a message for six times its function's timeout and the time a batch may gather."""
    functions, queues = of_type(translated, "AWS::Lambda::Function"), of_type(translated, "AWS::SQS::Queue")
    mappings = queue_mappings(translated)
    assert mappings
    for mapping in mappings:
        timeout = functions[mapping["FunctionName"]["Ref"]]["Timeout"]
        queue = queues[mapping["EventSourceArn"]["Fn::GetAtt"][0]]
        assert queue["VisibilityTimeout"] >= 6 * timeout + mapping.get("MaximumBatchingWindowInSeconds", 0)


def test_queues_report_single_failures_and_have_dead_letters(translated: Template) -> None:
    """Each mapping reports single failed messages, and each queue gives up into a queue of its own."""
    queues = of_type(translated, "AWS::SQS::Queue")
    mappings = queue_mappings(translated)
    dead_letters: set[str] = set()
    for mapping in mappings:
        assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
        redrive = queues[mapping["EventSourceArn"]["Fn::GetAtt"][0]]["RedrivePolicy"]
        dead_letters.add(redrive["deadLetterTargetArn"]["Fn::GetAtt"][0])
        assert redrive["maxReceiveCount"] >= 5  # Lambda developer guide, SQS: at least five
    assert len(dead_letters) == len(mappings) > 0


def test_logs_stay_as_long_as_the_tokens_that_they_settle(translated: Template) -> None:
    """What becomes of the tables becomes of the functions' log."""
    logs = translated["Resources"]["Logs"]
    assert logs["DeletionPolicy"] == logs["UpdateReplacePolicy"] == {"Ref": "TableDeletionPolicy"}
    assert translated["Outputs"]["LogGroupName"]["Value"] == {"Ref": "Logs"}


def test_queues_are_worked_within_bounds(translated: Template) -> None:
    """A full queue takes no more functions at once than the template, or its parameter, allows."""
    most = {"Ref": "MaximumConcurrency"} if "MaximumConcurrency" in translated["Parameters"] else 10
    for mapping in queue_mappings(translated):
        assert mapping["ScalingConfig"] == {"MaximumConcurrency": most}


def test_the_shop_asks_how_much_it_may_take_at_once() -> None:
    """Within what Lambda allows (Lambda API, ScalingConfig)."""
    parameter = nested.parsed(SHOP / "template.yaml")["Parameters"]["MaximumConcurrency"]
    assert (parameter["MinValue"], parameter["MaxValue"]) == (2, 1_000)


def test_the_api_is_throttled(translated: Template) -> None:
    """A caller who sends key after key can't write rows without end."""
    (stage,) = of_type(translated, "AWS::ApiGatewayV2::Stage").values()
    assert stage["DefaultRouteSettings"]["ThrottlingRateLimit"] > 0
    assert stage["DefaultRouteSettings"]["ThrottlingBurstLimit"] > 0


def test_the_api_of_the_shop_is_logged() -> None:
    """Each request is one JSON line, without what the caller sent."""
    settings = nested.parsed(SHOP / "template.yaml")["Resources"]["OrdersApi"]["Properties"][
        "AccessLogSettings"
    ]
    assert settings["DestinationArn"] == {"Fn::GetAtt": ["OrdersApiLogs", "Arn"]}
    line = json.loads(settings["Format"])
    assert {"requestId", "sourceIp", "route", "status"} <= line.keys()
    assert not [value for value in line.values() if "header" in value or "body" in value]


def test_every_handler_exists(translated: Template) -> None:
    """Each function's handler is a function of the sample, or of the layer."""
    for name, function in of_type(translated, "AWS::Lambda::Function").items():
        *path, handler = function["Handler"].split(".")
        code = ROOT / ("src" if path[0] == "lambda_once" else "examples")
        module = ast.parse((code / "/".join(path)).with_suffix(".py").read_text())
        assert handler in {node.name for node in module.body if isinstance(node, ast.FunctionDef)}, name


def test_the_api_has_the_routes_of_its_handler(template: Template) -> None:
    """What the API lets through is what the handler routes; without an authorizer, but what needs it."""
    events = template["Resources"]["OrdersApiFunction"]["Properties"]["Events"].values()
    offered = {(event["Properties"]["Method"], event["Properties"]["Path"]) for event in events}
    source = (ROOT / "examples" / "orders" / "api.py").read_text()
    found = re.findall(r'@app\.(\w+)\(\s*"([^"]+)"', source)
    routes = {(method.upper(), path.replace("<order_id>", "{id}")) for method, path in found}
    authorized = {("POST", "/orders/{id}/cancel")}
    assert offered == (routes if "AuthorizerFunction" in template["Resources"] else routes - authorized)


def test_the_layer_installs_the_powertools_that_the_tests_use() -> None:
    """The layer pins the version of Powertools that the lock file pins, so what is tested is what runs."""
    pin = re.compile(r"^aws-lambda-powertools(?:\[[^]]*\])?==([\w.]+)", re.MULTILINE)
    layer = pin.findall((ROOT / "src" / "requirements.txt").read_text())
    assert layer == pin.findall((ROOT / "requirements" / "dev.txt").read_text())
    assert len(layer) == 1


def test_the_watchdog_runs_every_five_minutes_and_releases_nothing_by_itself(translated: Template) -> None:
    """It has a schedule, time enough, no retries, and releases the configured names, none by default."""
    watchdog = of_type(translated, "AWS::Lambda::Function")["WatchdogFunction"]
    assert watchdog["Timeout"] == 60
    assert watchdog["Environment"]["Variables"]["LAMBDA_ONCE_WATCHDOG_RELEASE"] == {"Ref": "WatchdogRelease"}
    assert translated["Parameters"]["WatchdogRelease"]["Default"] == ""
    rule = of_type(translated, "AWS::Events::Rule")["WatchdogFunctionEveryFiveMinutes"]
    assert rule["ScheduleExpression"] == "rate(5 minutes)"
    configs = of_type(translated, "AWS::Lambda::EventInvokeConfig").values()
    (config,) = [config for config in configs if config["FunctionName"]["Ref"] == "WatchdogFunction"]
    assert config["MaximumRetryAttempts"] == 0


@pytest.mark.parametrize(
    ("name", "sound", "unsound"),
    [
        (
            "DynamoDBEndpoint",
            ["", "http://host.docker.internal:8000", "https://10.0.0.1"],
            ["localhost:8000", "http://", "http://a b", "file:///etc/passwd"],
        ),
        (
            "NoticesTopicArn",
            ["", "arn:aws:sns:eu-central-1:123456789012:pager", "arn:aws-cn:sns:cn-north-1:123456789012:p"],
            ["pager", "arn:aws:sqs:eu-central-1:123456789012:pager", "arn:aws:sns:eu-central-1:12:pager"],
        ),
        ("NoticesEmail", ["", "on-call@example.com"], ["on-call", "a b@example.com", "@example.com"]),
    ],
)
def test_addresses_are_checked(name: str, sound: list[str], unsound: list[str]) -> None:
    """What is no address of its kind is refused before anything is deployed."""
    pattern = nested.parsed(SHOP / "template.yaml")["Parameters"][name]["AllowedPattern"]
    assert [each for each in sound if not re.search(pattern, each)] == []
    assert [each for each in unsound if re.search(pattern, each)] == []
