"""Each rule finds its mistake in a template that is sound otherwise, and the line that it gives cures it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple, get_args, get_type_hints

import pytest
import yaml

from lambda_once.errors import Misconfigured
from lambda_once.operations import watchdog
from lambda_once_tools.check import faults
from lambda_once_tools.check.deployment import NOTHING_KNOWN, UNKNOWN, Deployment, Package, Severity, Unknown
from lambda_once_tools.check.documents import document, loader
from lambda_once_tools.check.rules import RULES, findings
from lambda_once_tools.check.templates import read

SHOP = Path(__file__).with_name("shop.yaml")
TABLE = "TokenTable"
PAYMENTS, CHANGES, WATCHDOG = "PaymentsFunction", "ChangesFunction", "WatchdogFunction"
MAPPING = f"{PAYMENTS}.Events.Payments.Properties"
STREAM = f"{CHANGES}.Events.Changes.Properties"
VARIABLES = f"{PAYMENTS}.Environment.Variables"
OF_WATCHDOG = f"{WATCHDOG}.Environment.Variables"
INDEX = f"{TABLE}.GlobalSecondaryIndexes.0"


class Mistake(NamedTuple):
    """One place of the shop's template, what is written there instead, and what is found."""

    code: str
    at: str
    """Resource and property, with dots."""
    written: Any
    """None: the property is left out."""
    resource: str
    line: str
    into: str | None = None
    """Where the line belongs, as `at`; "policy", "index", "stream": a statement; None: a person decides."""
    also: tuple[str, ...] = ()
    """Codes that the mistake brings with it."""


def action(*verbs: str) -> str:
    """Return the line that allows *verbs* of DynamoDB."""
    return f"Action: [{', '.join(f'dynamodb:{verb}' for verb in verbs)}]"


PROJECTION = "Projection: {ProjectionType: INCLUDE, NonKeyAttributes: [lockedBy, created, attempt]}"
SCHEMA = "[{AttributeName: listed, KeyType: HASH}, {AttributeName: expectedCompletion, KeyType: RANGE}]"
DEFINED = (
    "AttributeDefinitions: [{AttributeName: lockToken, AttributeType: S}, "
    "{AttributeName: listed, AttributeType: S}, {AttributeName: expectedCompletion, AttributeType: S}]"
)
OWN_TABLE = "LAMBDA_ONCE_TABLE: !Ref Tokens"
OFTEN = f"{WATCHDOG}.Events.Often.Properties"
EVERY_FIVE_MINUTES = "Events: {EveryFiveMinutes: {Type: Schedule, Properties: {Schedule: rate(5 minutes)}}}"
SWITCHED_ON = 'LAMBDA_ONCE_DISABLED: "false"'
ISOLATED, NOT_ISOLATED = {"TenantIsolationMode": "PER_TENANT"}, "TenancyConfig: !Ref AWS::NoValue"
REPORT = "FunctionResponseTypes: [ReportBatchItemFailures]"
ON_TABLE = {"Fn::GetAtt": [TABLE, "Arn"]}
ON_INDEX = {"Fn::Sub": f"${{{TABLE}.Arn}}/index/byStatus"}
ON_STREAM = {"Fn::Sub": f"${{{TABLE}.Arn}}/stream/*"}
STREAM_LINE = "StreamSpecification: {StreamViewType: KEYS_ONLY}"
LISTED = "LAMBDA_ONCE_LISTING: stream  # of WatchdogFunction"
CRUD = [{"DynamoDBCrudPolicy": {"TableName": {"Ref": TABLE}}}]


def limited(keys: str) -> str:
    """Return the condition of docs/deploying.md for these partition keys."""
    return (
        f'{{ForAllValues:StringLike: {{dynamodb:LeadingKeys: ["{keys}"]}}, '
        '"Null": {dynamodb:LeadingKeys: "false"}}'
    )


def allowing(*verbs: str, on: Any = ON_TABLE) -> list[Any]:
    """Return policies of a function with these actions of DynamoDB."""
    actions = [f"dynamodb:{verb}" for verb in verbs]
    return [{"Statement": [{"Effect": "Allow", "Action": actions, "Resource": on}]}]


QUERYING = allowing("Query", on=ON_INDEX)
STREAMING = allowing("DescribeStream", "GetShardIterator", "GetRecords", on=ON_STREAM)
MISTAKES = [
    Mistake("T1", f"{TABLE}.KeySchema.0.AttributeName", "listed", TABLE, OWN_TABLE),
    Mistake(
        "T1",
        f"{TABLE}.KeySchema",
        [
            {"AttributeName": "lockToken", "KeyType": "HASH"},
            {"AttributeName": "listed", "KeyType": "RANGE"},
        ],
        TABLE,
        OWN_TABLE,
    ),
    Mistake("T1", f"{TABLE}.AttributeDefinitions.0.AttributeType", "N", TABLE, OWN_TABLE),
    Mistake(
        "T2",
        f"{INDEX}.IndexName",
        "byState",
        TABLE,
        f"GlobalSecondaryIndexes: [{{IndexName: byStatus, KeySchema: {SCHEMA}, {PROJECTION}}}]\n{DEFINED}",
        TABLE,
    ),
    Mistake("T3", f"{INDEX}.Projection.NonKeyAttributes", ["lockedBy"], TABLE, PROJECTION, INDEX),
    Mistake("T3", f"{INDEX}.Projection", {"ProjectionType": "KEYS_ONLY"}, TABLE, PROJECTION, INDEX),
    *(
        Mistake(
            "T4",
            f"{TABLE}.TimeToLiveSpecification",
            written,
            TABLE,
            "TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}",
            TABLE,
        )
        for written in (
            None,
            {"AttributeName": "expires", "Enabled": True},
            {"AttributeName": "ttl", "Enabled": False},
        )
    ),
    Mistake(
        "T5",
        f"{TABLE}.PointInTimeRecoverySpecification",
        None,
        TABLE,
        "PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}",
        TABLE,
    ),
    Mistake(
        "T6", f"{TABLE}.DeletionProtectionEnabled", False, TABLE, "DeletionProtectionEnabled: true", TABLE
    ),
    Mistake(
        "S5",
        f"{STREAM}.TumblingWindowInSeconds",
        60,
        CHANGES,
        "TumblingWindowInSeconds: !Ref AWS::NoValue",
        STREAM,
    ),
    Mistake("Q1", f"{MAPPING}.FunctionResponseTypes", None, PAYMENTS, REPORT, MAPPING),
    Mistake(
        "Q2",
        "PaymentsQueue.RedrivePolicy",
        None,
        "PaymentsQueue",
        "RedrivePolicy: {deadLetterTargetArn: !GetAtt DeadLetters.Arn, maxReceiveCount: 5}",
        "PaymentsQueue",
    ),
    Mistake(
        "Q3",
        "PaymentsQueue.VisibilityTimeout",
        20,
        "PaymentsQueue",
        "VisibilityTimeout: 180",
        "PaymentsQueue",
    ),
    Mistake(
        "Q4",
        "PaymentsQueue.VisibilityTimeout",
        60,
        "PaymentsQueue",
        "VisibilityTimeout: 180",
        "PaymentsQueue",
    ),
    Mistake(
        "Q4",
        f"{MAPPING}.MaximumBatchingWindowInSeconds",
        5,
        "PaymentsQueue",
        "VisibilityTimeout: 185",
        "PaymentsQueue",
    ),
    Mistake(
        "Q5",
        "PaymentsQueue.RedrivePolicy.maxReceiveCount",
        3,
        "PaymentsQueue",
        "maxReceiveCount: 5",
        "PaymentsQueue.RedrivePolicy",
    ),
    Mistake(
        "Q6",
        "PaymentsDeadLetters.MessageRetentionPeriod",
        None,
        "PaymentsDeadLetters",
        "MessageRetentionPeriod: 1209600",
        "PaymentsDeadLetters",
    ),
    Mistake(
        "Q7",
        "PaymentsQueue.FifoQueue",
        True,
        "PaymentsDeadLetters",
        "FifoQueue: true",
        "PaymentsDeadLetters",
        ("Q10",),
    ),
    Mistake(
        "Q7",
        "PaymentsDeadLetters.FifoQueue",
        True,
        "PaymentsDeadLetters",
        "FifoQueue: !Ref AWS::NoValue",
        "PaymentsDeadLetters",
    ),
    Mistake(
        "Q8", f"{MAPPING}.BatchSize", 100, PAYMENTS, "MaximumBatchingWindowInSeconds: 1", MAPPING, ("Q4",)
    ),
    Mistake("S1", f"{STREAM}.MaximumRetryAttempts", None, CHANGES, "MaximumRetryAttempts: 10", STREAM),
    Mistake(
        "S2",
        f"{STREAM}.DestinationConfig",
        None,
        CHANGES,
        "DestinationConfig: {OnFailure: {Destination: !GetAtt FailedRecords.Arn}}",
    ),
    Mistake(
        "S3",
        f"{STREAM}.BisectBatchOnFunctionError",
        False,
        CHANGES,
        "BisectBatchOnFunctionError: true",
        STREAM,
    ),
    Mistake(
        "S4",
        f"{STREAM}.FunctionResponseTypes",
        None,
        CHANGES,
        f"{REPORT}  # and report_failures=True",
        STREAM,
    ),
    Mistake(
        "P1",
        f"{PAYMENTS}.Policies",
        allowing("GetItem", "BatchGetItem", "PartiQLInsert", "PartiQLUpdate", "BatchWriteItem"),
        PAYMENTS,
        f"{action('UpdateItem')}\nCondition: {limited('shop/*')}",
        "policy",
        also=("P5",),
    ),
    Mistake(
        "P2",
        f"{PAYMENTS}.Policies",
        CRUD,
        PAYMENTS,
        f"{action('PartiQLInsert', 'PartiQLUpdate')}\nCondition: {limited('shop/*')}",
        "policy",
        also=("P5",),
    ),
    Mistake(
        "P3",
        f"{PAYMENTS}.Policies",
        allowing("GetItem", "UpdateItem", "BatchGetItem", "PartiQLInsert", "PartiQLUpdate"),
        PAYMENTS,
        f"{action('BatchWriteItem')}\nCondition: {limited('shop/*#*#*')}",
        "policy",
    ),
    Mistake(
        "P4",
        f"{WATCHDOG}.Policies",
        [*allowing("GetItem", "BatchGetItem", "UpdateItem", "DescribeTable", "Scan"), *STREAMING],
        WATCHDOG,
        action("Query"),
        "index",
    ),
    Mistake(
        "P4",
        f"{WATCHDOG}.Policies",
        [*allowing("GetItem", "BatchGetItem", "UpdateItem"), *QUERYING, *STREAMING],
        WATCHDOG,
        action("DescribeTable", "Scan"),
        "policy",
    ),
    Mistake(
        "P4",
        f"{WATCHDOG}.Policies",
        [*allowing("GetItem", "BatchGetItem", "UpdateItem", "DescribeTable", "Scan"), *QUERYING],
        WATCHDOG,
        action("DescribeStream", "GetShardIterator", "GetRecords"),
        "stream",
    ),
    Mistake("T10", f"{TABLE}.StreamSpecification", None, PAYMENTS, STREAM_LINE, TABLE, also=("T10",)),
    Mistake(
        "V11", f"{OF_WATCHDOG}.LAMBDA_ONCE_LISTING", "at_once", PAYMENTS, LISTED, OF_WATCHDOG, also=("V11",)
    ),
    Mistake(
        "V12", f"{VARIABLES}.LAMBDA_ONCE_LISTING", "", PAYMENTS, "LAMBDA_ONCE_LISTING: stream", VARIABLES
    ),
    Mistake(
        "V5",
        f"{VARIABLES}.LAMBDA_ONCE_LISTING",
        "later",
        PAYMENTS,
        "LAMBDA_ONCE_LISTING: !Ref AWS::NoValue",
    ),
    Mistake(
        "P4",
        f"{OF_WATCHDOG}.LAMBDA_ONCE_WATCHDOG_SWEEP",
        "true",
        WATCHDOG,
        action("DeleteItem"),
        "policy",
    ),
    Mistake(
        "P5",
        f"{PAYMENTS}.Policies",
        allowing("*"),
        PAYMENTS,
        "Policies: [the statements of docs/deploying.md, or TokenAccess of tokens.yaml]",
    ),
    Mistake(
        "V1",
        f"{VARIABLES}.POWERTOOLS_SERVICE_NAME",
        "",
        PAYMENTS,
        "POWERTOOLS_SERVICE_NAME: shop",
        VARIABLES,
    ),
    Mistake(
        "V10",
        f"{VARIABLES}.LAMBDA_ONCE_TABLE",
        None,
        PAYMENTS,
        f"LAMBDA_ONCE_TABLE: !Ref {TABLE}",
        VARIABLES,
    ),
    Mistake(
        "V3",
        f"{OF_WATCHDOG}.LAMBDA_ONCE_TABLE",
        None,
        WATCHDOG,
        f"LAMBDA_ONCE_TABLE: !Ref {TABLE}",
        OF_WATCHDOG,
    ),
    *(
        Mistake(
            "V5",
            f"{OF_WATCHDOG}.LAMBDA_ONCE_{name}",
            value,
            WATCHDOG,
            f"LAMBDA_ONCE_{name}: !Ref AWS::NoValue",
            OF_WATCHDOG,
        )
        for name, value in (
            ("WATCHDOG_ROWS", "0"),
            ("WATCHDOG_TIMES", "-1"),
            ("WATCHDOG_SWEEP", "maybe"),
        )
    ),
    Mistake(
        "V5",
        f"{VARIABLES}.LAMBDA_ONCE_CLIENT",
        "carrot",
        PAYMENTS,
        "LAMBDA_ONCE_CLIENT: !Ref AWS::NoValue",
        VARIABLES,
    ),
    *(
        Mistake("V6", f"{VARIABLES}.LAMBDA_ONCE_DISABLED", word, PAYMENTS, SWITCHED_ON, VARIABLES)
        for word in ("Yes", "true ", "On", True, 1)
    ),
    Mistake(
        "V7",
        f"{VARIABLES}.POWERTOOLS_IDEMPOTENCY_DISABLED",
        "true",
        PAYMENTS,
        'POWERTOOLS_IDEMPOTENCY_DISABLED: "false"',
        VARIABLES,
    ),
    Mistake("V5", f"{VARIABLES}.LAMBDA_ONCE_DISABLED", "perhaps", PAYMENTS, SWITCHED_ON, VARIABLES),
    Mistake(
        "V8",
        f"{VARIABLES}.LAMBDA_ONCE_LISTNG",
        "at_once",
        PAYMENTS,
        'LAMBDA_ONCE_LISTING: "at_once"',
    ),
    Mistake(
        "V8",
        f"{VARIABLES}.LAMBDA_ONCE_QUX_7",
        "x",
        PAYMENTS,
        "LAMBDA_ONCE_QUX_7: !Ref AWS::NoValue",
        VARIABLES,
    ),
    *(
        Mistake("I1", f"{name}.TenancyConfig", ISOLATED, name, NOT_ISOLATED, name)
        for name in (PAYMENTS, CHANGES)
    ),
    Mistake("W1", f"{WATCHDOG}.Events", None, WATCHDOG, EVERY_FIVE_MINUTES, WATCHDOG),
    *(
        Mistake("W1", f"{OFTEN}.{name}", value, WATCHDOG, "State: ENABLED  # or SAM's Enabled: true")
        for name, value in (("Enabled", False), ("State", "DISABLED"))
    ),
    Mistake(
        "W1",
        f"{WATCHDOG}.ReservedConcurrentExecutions",
        0,
        WATCHDOG,
        "ReservedConcurrentExecutions: 1",
        WATCHDOG,
    ),
]


def step(value: Any, part: str) -> Any:
    """Return the part of *value*, made where it is not there."""
    return value[int(part)] if isinstance(value, list) else value.setdefault(part, {})


def place(template: Mapping[str, Any], path: str) -> Any:
    """Return what stands at *path*: a resource and its property, with dots."""
    name, *parts = path.split(".")
    found = template["Resources"][name]["Properties"]
    for part in parts:
        found = step(found, part)
    return found


def written(template: Any, path: str, value: Any) -> Any:
    """Return *template* with *value* at *path*; None: it is left out."""
    changed = copy.deepcopy(template)
    above, _, last = path.rpartition(".")
    around = place(changed, above)
    if value is None:
        around.pop(last)
    else:
        around[last] = value
    return changed


@pytest.fixture(scope="session")
def shop() -> dict[str, Any]:
    """The sound template, parsed."""
    return document(SHOP)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where templates are written, beside the code and the layer."""
    package = tmp_path / "layer" / "python" / "lambda_once"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (tmp_path / "function").mkdir()
    return tmp_path


def deployment(template: Any, folder: Path) -> Deployment:
    """Read *template* out of a file in *folder*."""
    path = folder / "template.json"
    path.write_text(json.dumps(template), encoding="utf-8")
    return read(path, {})


def codes(template: Any, folder: Path) -> set[tuple[str, str, str]]:
    """Return code, resource and line of what is found."""
    return {(each.code, each.resource, each.fix) for each in findings(deployment(template, folder))}


def test_the_sound_template_is_clean(shop: dict[str, Any], folder: Path) -> None:
    """Nothing is found, not even advice."""
    assert findings(deployment(shop, folder)) == ()


by_mistake = pytest.mark.parametrize(
    "mistake", MISTAKES, ids=lambda each: f"{each.code} {each.at} {each.written}"[:60]
)


@by_mistake
def test_a_mistake_is_found_with_the_line_to_write(
    mistake: Mistake, shop: dict[str, Any], folder: Path
) -> None:
    """That finding, for that resource, with that line, and no other."""
    broken = written(shop, mistake.at, mistake.written)
    its = (mistake.code, mistake.resource)
    found = {each for each in codes(broken, folder) if each[0] not in mistake.also or each[:2] == its}
    assert found == {(mistake.code, mistake.resource, mistake.line)}


@pytest.mark.parametrize(
    "mistake", [each for each in MISTAKES if each.into], ids=lambda each: f"{each.code} {each.at}"
)
def test_the_line_cures_the_mistake(mistake: Mistake, shop: dict[str, Any], folder: Path) -> None:
    """With the line in its place nothing is found, but what the mistake brought with it."""
    broken = written(shop, mistake.at, mistake.written)
    cured = with_line(broken, mistake)
    assert {each[0] for each in codes(cured, folder)} <= set(mistake.also) - {mistake.code}


def with_line(template: Any, mistake: Mistake) -> Any:
    """Return *template* with the line of the finding written where it belongs."""
    cured = copy.deepcopy(template)
    line = parsed(mistake.line)
    if mistake.into in ("policy", "index", "stream"):
        on = {"policy": ON_TABLE, "index": ON_INDEX, "stream": ON_STREAM}[mistake.into]
        statement = {"Effect": "Allow", "Resource": on, **line}
        place(cured, f"{mistake.resource}.Policies").append({"Statement": [statement]})
    else:
        place(cured, str(mistake.into)).update(line)
    if "!GetAtt DeadLetters" in mistake.line:
        days = {"MessageRetentionPeriod": 1_209_600}
        cured["Resources"]["DeadLetters"] = {"Type": "AWS::SQS::Queue", "Properties": days}
    return cured


def parsed(line: str) -> dict[str, Any]:
    """Return the properties of a finding's line."""
    template = yaml.load(f"Resources:\n{indent(line, '  ')}", Loader=loader())
    properties: dict[str, Any] = template["Resources"]
    return properties


def test_a_table_of_another_program_is_left_as_it_is(shop: dict[str, Any], folder: Path) -> None:
    """Its key is the only finding, and the line, with a table and permissions for it, cures it."""

    def using(table: str) -> dict[str, Any]:
        resources = copy.deepcopy(shop["Resources"])
        resources[PAYMENTS] = json.loads(json.dumps(resources[PAYMENTS]).replace(TABLE, table))
        resources["Idempotency"] = {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "TimeToLiveSpecification": {"AttributeName": "expiration", "Enabled": True},
            },
        }
        resources["Tokens"] = copy.deepcopy(shop["Resources"][TABLE])
        return {**shop, "Resources": resources}

    (found,) = findings(deployment(using("Idempotency"), folder))
    assert (found.code, found.resource, found.fix) == ("T1", "Idempotency", OWN_TABLE)
    assert found.what == "this is Powertools' table (id and expiration): make another"
    cured = using("Tokens")
    assert place(cured, VARIABLES) == parsed(OWN_TABLE)
    assert codes(cured, folder) == set()


def test_every_rule_has_a_mistake() -> None:
    """Others are found below, or in test_templates.py."""
    assert {each.code for each in RULES} - {each.code for each in MISTAKES} == {
        *("A1", "A2", "F1", "L1", "L2", "P6", "Q10", "Q9", "V2", "W2")
    }


TWO_QUEUES = """
Transform: AWS::Serverless-2016-10-31
Resources:
  Failed: {{Type: AWS::SQS::Queue, Properties: {{MessageRetentionPeriod: 1209600{fifo}}}}}
  Orders: &queue
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 180
      RedrivePolicy: {{deadLetterTargetArn: !GetAtt Failed.Arn, maxReceiveCount: 5}}{fifo_line}
  Refunds: *queue
  Function:
    Type: AWS::Serverless::Function
    Properties:
      Handler: app.handler
      Runtime: python3.13
      Timeout: 30
      CodeUri: .
      Environment: {{Variables: {{LAMBDA_ONCE_TABLE: tokens}}}}
      Events:
        Orders:
          Type: SQS
          Properties: {{Queue: !GetAtt Orders.Arn, FunctionResponseTypes: [ReportBatchItemFailures]}}
{second}"""
SECOND = """
        Refunds:
          Type: SQS
          Properties: {Queue: !GetAtt Refunds.Arn, FunctionResponseTypes: [ReportBatchItemFailures]}
"""


@pytest.mark.parametrize(
    ("second", "fifo", "codes"),
    [("", False, set()), (SECOND, False, {"Q9"}), ("", True, {"Q10"}), (SECOND, True, {"Q9", "Q10"})],
    ids=["one queue", "two queues", "FIFO", "two of FIFO"],
)
def test_what_a_key_must_know_of_queues_is_told(
    tmp_path: Path, second: str, fifo: bool, codes: set[str]
) -> None:
    """Two queues of one function are two origins; a FIFO dead letter has another default key."""
    template = TWO_QUEUES.format(
        second=second,
        fifo=", FifoQueue: true" if fifo else "",
        fifo_line="\n      FifoQueue: true" if fifo else "",
    )
    (tmp_path / "template.yaml").write_text(template)
    found = findings(read(tmp_path / "template.yaml", {}))
    assert {each.code for each in found if each.code in ("Q9", "Q10")} == codes
    assert {each.severity for each in found if each.code in ("Q9", "Q10")} <= {Severity.WARNING}


_LOGIN = {"Type": "BASIC_AUTH", "URI": "arn:aws:secretsmanager:eu-central-1:1:secret:broker"}


_STREAM, _CLUSTER, _BROKER = ("arn:aws:kinesis:e:1:stream/", "arn:aws:kafka:e:1:x/", "arn:aws:mq:e:1:")


def _of_stream(name: str) -> dict[str, Any]:
    return {"Type": "Kinesis", "Properties": {"StartingPosition": "LATEST", "Stream": _STREAM + name}}


def _of_cluster(cluster: str, topic: str) -> dict[str, Any]:
    source = {"StartingPosition": "LATEST", "Stream": _CLUSTER + cluster, "Topics": [topic]}
    return {"Type": "MSK", "Properties": source}


def _of_broker(broker: str, queue: str) -> dict[str, Any]:
    source = {"Broker": _BROKER + broker, "Queues": [queue], "SourceAccessConfigurations": [_LOGIN]}
    return {"Type": "MQ", "Properties": source}


def _told(template: dict[str, Any], folder: Path) -> list[str]:
    """Return the lines for the origins of one function."""
    found = findings(deployment(template, folder))
    return [each.fix for each in found if (each.code, each.resource) == ("Q9", PAYMENTS)]


@pytest.mark.parametrize(
    ("blue", "green", "scope"),
    [
        (_of_stream("blue"), _of_stream("green"), "eventSourceARN"),
        (_of_cluster("a", "blue"), _of_cluster("a", "green"), "topic"),
        (_of_cluster("a", "blue"), _of_cluster("b", "blue"), None),
        (_of_broker("a", "blue"), _of_broker("b", "blue"), "eventSourceArn"),
        (_of_broker("a", "blue"), _of_broker("a", "green"), "eventSourceKey || destination.physicalName"),
    ],
    ids=["streams", "topics of a cluster", "a topic of two clusters", "brokers", "queues of a broker"],
)
def test_two_origins_are_told_with_the_scope_that_separates_them(
    shop: dict[str, Any], folder: Path, blue: dict[str, Any], green: dict[str, Any], scope: str | None
) -> None:
    """What selects the origin of a record; a topic is one origin, whatever its cluster."""
    template = written(shop, f"{PAYMENTS}.Events.Blue", blue)
    assert _told(template, folder) == []
    told = _told(written(template, f"{PAYMENTS}.Events.Green", green), folder)
    assert [each.partition(" else ")[2] for each in told] == ([] if scope is None else [f'scope="{scope}"'])


TOPIC, QUEUE = {"Type": "AWS::SNS::Topic"}, {"Type": "AWS::SQS::Queue"}


def _with(template: dict[str, Any], **resources: dict[str, Any]) -> dict[str, Any]:
    return template | {"Resources": template["Resources"] | resources}


def _subscription(topic: str, protocol: str, endpoint: str, *, raw: bool = False) -> dict[str, Any]:
    ends = {"TopicArn": {"Ref": topic}, "Protocol": protocol, "Endpoint": {"Fn::GetAtt": [endpoint, "Arn"]}}
    properties = {**ends, **({"RawMessageDelivery": True} if raw else {})}
    return {"Type": "AWS::SNS::Subscription", "Properties": properties}


_OF_TOPICS: dict[str, tuple[Any, str | None]] = {
    "to the function": (lambda topic: _subscription(topic, "lambda", PAYMENTS), "Sns.TopicArn"),
    "to its queue": (lambda topic: _subscription(topic, "sqs", "Orders"), "powertools_json(body).TopicArn"),
    "to its queue, raw": (lambda topic: _subscription(topic, "sqs", "Orders", raw=True), None),
    "to another's queue": (lambda topic: _subscription(topic, "sqs", "Others"), None),
    "to another function": (lambda topic: _subscription(topic, "lambda", CHANGES), None),
}


@pytest.mark.parametrize(("subscription", "scope"), _OF_TOPICS.values(), ids=_OF_TOPICS)
def test_two_topics_of_one_function_are_told(
    shop: dict[str, Any], folder: Path, subscription: Any, scope: str | None
) -> None:
    """An envelope names its topic, which raw delivery doesn't."""
    template = _with(shop, Orders=QUEUE, Others=QUEUE)
    orders = {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": ["Orders", "Arn"]}}}
    template = written(template, f"{PAYMENTS}.Events", {"Orders": orders})
    for topic in ("Blue", "Green"):
        assert _told(template, folder) == []
        template = _with(template, **{topic: TOPIC, f"{topic}End": subscription(topic)})
    told = _told(template, folder)
    assert [each.partition(" else ")[2] for each in told] == ([] if scope is None else [f'scope="{scope}"'])


@pytest.mark.parametrize("is_of_topic", [False, True])
def test_topics_are_told_as_sam_and_topics_spell_them(
    shop: dict[str, Any],
    folder: Path,
    is_of_topic: bool,
) -> None:
    """Events of type SNS, which SAM expands, and a topic's own list."""
    template = shop
    for topic in ("Blue", "Green"):
        end = {"Protocol": "lambda", "Endpoint": {"Fn::GetAtt": [PAYMENTS, "Arn"]}}
        own = {"Properties": {"Subscription": [end]}} if is_of_topic else {}
        template = _with(template, **{topic: TOPIC | own})
        if not is_of_topic:
            event = {"Type": "SNS", "Properties": {"Topic": {"Ref": topic}}}
            template = written(template, f"{PAYMENTS}.Events.{topic}", event)
    (told,) = _told(template, folder)
    assert told.endswith('else scope="Sns.TopicArn"')


# -- services


def of_service(service: str, *, parts: bool = True) -> list[Any]:
    """Return the policy of docs/deploying.md for *service*; without *parts*, with the parts of all."""
    verbs = [[f"dynamodb:{verb}" for verb in (*faults.TOKENS, *faults.BATCHES)], ["dynamodb:BatchWriteItem"]]
    keys = (f"{service}/*", f"{service}/*#*#*" if parts else "*#*#*")
    return [
        {
            "Statement": [
                {
                    "Effect": "Allow",
                    "Action": actions,
                    "Resource": ON_TABLE,
                    "Condition": yaml.safe_load(limited(pattern)),
                }
                for actions, pattern in zip(verbs, keys, strict=True)
            ]
        }
    ]


@pytest.mark.parametrize("keys", [{"parts": True}, {"parts": False}])
def test_a_role_limited_to_its_own_service_is_clean(
    keys: dict[str, bool], shop: dict[str, Any], folder: Path
) -> None:
    """And nothing of it is left unchecked."""
    sound = deployment(written(shop, f"{PAYMENTS}.Policies", of_service("shop", **keys)), folder)
    assert findings(sound) == ()
    assert not [each for each in faults.undecided(sound) if each.resource == PAYMENTS]


@pytest.mark.parametrize("service", ["billing", "sho", "shop2", "shop/charge"])
def test_a_role_limited_to_another_service_is_an_error(
    service: str, shop: dict[str, Any], folder: Path
) -> None:
    """It names the keys that the function needs, and the line cures it; a role for one name is not judged."""
    broken = written(shop, f"{PAYMENTS}.Policies", of_service(service))
    found = {each[0]: each for each in codes(broken, folder)}
    if service == "shop/charge":
        assert found == {}
        (left,) = (each for each in faults.undecided(deployment(broken, folder)) if each.resource == PAYMENTS)
        assert "UpdateItem" in left.why
        return
    assert found["P1"] == (
        "P1",
        PAYMENTS,
        f"{action('GetItem', 'UpdateItem')}\nCondition: {limited('shop/*')}",
    )
    assert found.keys() == {"P1", "P2", "P3"}
    for code, _, line in found.values():
        broken = with_line(broken, Mistake(code, "", None, PAYMENTS, line, "policy"))
    assert codes(broken, folder) == set()


def test_a_service_in_code_is_not_judged(shop: dict[str, Any], folder: Path) -> None:
    """Without the variable it may be any: what its role may do is listed as not checked."""
    unnamed = written(shop, f"{VARIABLES}.POWERTOOLS_SERVICE_NAME", "")
    seen = deployment(written(unnamed, f"{PAYMENTS}.Policies", of_service("billing")), folder)
    assert {each.code for each in findings(seen)} == {"V1"}
    (left,) = (each for each in faults.undecided(seen) if each.resource == PAYMENTS)
    assert "GetItem, UpdateItem" in left.why


def test_two_services_that_may_write_each_others_tokens_are_advised(
    shop: dict[str, Any], folder: Path
) -> None:
    """Each function that may, with the line for its own; not the watchdog, and not one that is limited."""
    two = written(shop, f"{VARIABLES}.POWERTOOLS_SERVICE_NAME", "billing")
    two = written(two, f"{CHANGES}.Policies", place(shop, f"{PAYMENTS}.Policies"))
    assert codes(two, folder) == {
        ("P6", PAYMENTS, f"Condition: {limited('billing/*')}"),
        ("P6", CHANGES, f"Condition: {limited('shop/*')}"),
    }
    one = written(two, f"{PAYMENTS}.Policies", of_service("billing"))
    assert codes(one, folder) == {("P6", CHANGES, f"Condition: {limited('shop/*')}")}
    assert codes(written(one, f"{CHANGES}.Policies", of_service("shop")), folder) == set()


def test_codes_are_unique_and_texts_are_sentences() -> None:
    """A code stands for one rule; its reason ends as a sentence does, and its title does not."""
    assert len({each.code for each in RULES}) == len(RULES)
    for rule in RULES:
        assert rule.why.endswith("."), rule.code
        assert not rule.title.endswith("."), rule.code
        assert rule.code[0] in "ATQSPVWLFI", rule.code


def test_the_page_has_every_kind_of_rule() -> None:
    """docs/check.md names the letter of each code, and no other; the command prints the rest."""
    page = (SHOP.parents[2] / "docs" / "check.md").read_text(encoding="utf-8")
    assert {*re.findall(r"\*\*\w+\*\* \(([A-Z])\)", page)} == {rule.code[0] for rule in RULES}


def test_permissions_are_those_of_the_page() -> None:
    """docs/deploying.md lists for each what its rule looks for."""
    page = (SHOP.parents[2] / "docs" / "deploying.md").read_text(encoding="utf-8")
    rows = {
        row.split("|")[1].strip(): set(re.findall(r"`([A-Z]\w+)`", row.split("|")[2]))
        for row in page.splitlines()
        if row.count("|") == 3
    }
    assert rows["every function"] == {*faults.TOKENS}
    assert rows["SQS batches"] == {*faults.BATCHES}
    assert rows["results of more than 4 KB, compressed"] == {*faults.PARTS, *faults.READING_PARTS}
    listing = {*faults.READING, *faults.STREAMING}
    assert rows["the watchdog"] == {"Query", *faults.WATCHING, *listing, *faults.SWEEPING}


def test_what_the_index_projects_is_what_is_needed() -> None:
    """The table of tokens.yaml projects that and no more."""
    tokens = document(SHOP.parents[2] / "examples" / "infrastructure" / "tokens.yaml")
    (index,) = tokens["Resources"]["TokenTable"]["Properties"]["GlobalSecondaryIndexes"]
    assert set(index["Projection"]["NonKeyAttributes"]) == {*faults.PROJECTED}
    assert tuple(each["AttributeName"] for each in index["KeySchema"]) == faults.STATUS_KEYS


# -- tenants


def isolated(shop: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return the sound template with tenant isolation of the payments, no mapping of theirs, and *more*."""
    template = written(written(shop, f"{PAYMENTS}.Events", None), f"{PAYMENTS}.TenancyConfig", ISOLATED)
    return {**template, "Resources": template["Resources"] | more}


def of_tenants(template: Any, folder: Path) -> list[str]:
    """Return what is found of the tenants of the payments."""
    found = [each for each in findings(deployment(template, folder)) if each.code == "I1"]
    assert {each.severity for each in found} <= {Severity.ERROR}
    assert {each.resource for each in found} <= {PAYMENTS}
    return [each.what.removeprefix("has tenant isolation, and ") for each in found]


INTEGRATED = "arn:aws:apigateway:${AWS::Region}:lambda:path/2015-03-31/functions/%s/invocations"
HTTP_API = {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "shop", "ProtocolType": "HTTP"}}
WEBSOCKET = {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"Name": "chat", "ProtocolType": "WEBSOCKET"}}


def integration(uri: Any) -> dict[str, Any]:
    """Return what passes the requests of an API to *uri*."""
    return {
        "Type": "AWS::ApiGatewayV2::Integration",
        "Properties": {"ApiId": {"Ref": "Api"}, "IntegrationType": "AWS_PROXY", "IntegrationUri": uri},
    }


def url(target: Any) -> dict[str, Any]:
    """Return a Function URL of *target*."""
    return {
        "Url": {"Type": "AWS::Lambda::Url", "Properties": {"TargetFunctionArn": target, "AuthType": "NONE"}}
    }


ARN = {"Fn::GetAtt": [PAYMENTS, "Arn"]}
OF_API = "the HTTP API Api names no tenant"
OF_URL = "its Function URL Url names no tenant"
IN_FRONT: dict[str, tuple[dict[str, Any], list[str]]] = {
    "nothing": ({}, []),
    "a URL": (url(ARN), [OF_URL]),
    "a URL, by name": (url({"Ref": PAYMENTS}), [OF_URL]),
    "a URL of an alias": (url({"Fn::Sub": f"${{{PAYMENTS}.Arn}}:live"}), [OF_URL]),
    "another's URL": (url({"Fn::GetAtt": [CHANGES, "Arn"]}), []),
    "a HTTP API": ({"Api": HTTP_API, "Integration": integration(ARN)}, [OF_API]),
    "a HTTP API, by address": (
        {"Api": HTTP_API, "Integration": integration({"Fn::Sub": INTEGRATED % f"${{{PAYMENTS}.Arn}}"})},
        [OF_API],
    ),
    "a HTTP API alone": (
        {"Api": {"Type": "AWS::ApiGatewayV2::Api", "Properties": {"ProtocolType": "HTTP", "Target": ARN}}},
        [OF_API],
    ),
    "another's HTTP API": ({"Api": HTTP_API, "Integration": integration("https://example.com/a/")}, []),
    "a WebSocket API": ({"Api": WEBSOCKET, "Integration": integration(ARN)}, []),
    "an API elsewhere": ({"Integration": integration(ARN)}, []),
}


@pytest.mark.parametrize(("more", "wanted"), IN_FRONT.values(), ids=IN_FRONT)
def test_what_names_no_tenant_is_an_error(
    more: dict[str, Any], wanted: list[str], shop: dict[str, Any], folder: Path
) -> None:
    """In front of a function with tenant isolation; without it nothing is found."""
    assert of_tenants(isolated(shop, **more), folder) == wanted
    assert of_tenants(written(isolated(shop, **more), f"{PAYMENTS}.TenancyConfig", None), folder) == []


@pytest.mark.parametrize("globally", [False, True])
def test_sam_expands_a_function_whose_tenants_are_isolated(
    globally: bool, shop: dict[str, Any], folder: Path
) -> None:
    """Its transform refuses some of this; here every finding is listed, and what Globals has counts."""
    template = isolated(shop)
    if globally:
        template = written(template, f"{PAYMENTS}.TenancyConfig", None)
        template["Globals"]["Function"]["TenancyConfig"] = ISOLATED
    template = written(template, f"{PAYMENTS}.FunctionUrlConfig", {"AuthType": "AWS_IAM"})
    template = written(template, f"{PAYMENTS}.Events", {"Rest": {"Type": "Api"}, "Pay": {"Type": "HttpApi"}})
    found = [each.what for each in findings(deployment(template, folder)) if each.code == "I1"]
    assert {each.removeprefix("has tenant isolation, and ") for each in found} >= {
        "the HTTP API of its event Pay names no tenant",
        f"its Function URL {PAYMENTS}Url names no tenant",
    }
    assert not any("Rest" in each for each in found)


def test_isolation_that_a_parameter_decides_is_not_judged(shop: dict[str, Any], folder: Path) -> None:
    """The condition has no value."""
    template = isolated(shop, **url(ARN))
    template["Parameters"]["Isolated"] = {"Type": "String"}
    template["Conditions"] = {"IsIsolated": {"Fn::Equals": [{"Ref": "Isolated"}, "yes"]}}
    decided = {"Fn::If": ["IsIsolated", ISOLATED, {"Ref": "AWS::NoValue"}]}
    undecided = written(template, f"{PAYMENTS}.TenancyConfig", decided)
    assert of_tenants(undecided, folder) == []
    for value, wanted in (("yes", [OF_URL]), ("no", [])):
        undecided["Parameters"]["Isolated"]["Default"] = value
        assert of_tenants(undecided, folder) == wanted


# -- functions that name no table


@pytest.fixture
def nameless(shop: dict[str, Any]) -> dict[str, Any]:
    """The sound template without the payments' table, which it may use as our pages recommend it."""
    bare: dict[str, Any] = written(shop, f"{PAYMENTS}.Environment", None)
    return dict(written(bare, f"{PAYMENTS}.Policies", of_service("shop")))


def test_a_forgotten_table_is_an_error(nameless: dict[str, Any], folder: Path) -> None:
    """A policy with conditions on keys shows that the function uses the table."""
    (found,) = findings(deployment(nameless, folder))
    assert (found.code, found.severity, found.resource) == ("V10", Severity.ERROR, PAYMENTS)


def test_a_misspelt_table_is_an_error_and_names_the_right_one(nameless: dict[str, Any], folder: Path) -> None:
    """Both findings have the line that cures."""
    misspelt = written(nameless, f"{VARIABLES}.LAMBDA_ONCE_TABEL", {"Ref": TABLE})
    line = f"LAMBDA_ONCE_TABLE: !Ref {TABLE}"
    assert codes(misspelt, folder) == {("V10", PAYMENTS, line), ("V8", PAYMENTS, line)}
    (_, found) = findings(deployment(misspelt, folder))
    assert found.what == "nothing reads LAMBDA_ONCE_TABEL: did you mean LAMBDA_ONCE_TABLE?"


def test_a_misspelt_table_is_found_without_a_policy(nameless: dict[str, Any], folder: Path) -> None:
    """The role may be another stack's."""
    alone = written(nameless, f"{PAYMENTS}.Role", "arn:aws:iam::123456789012:role/shop")
    alone = written(alone, f"{PAYMENTS}.Policies", None)
    misspelt = written(alone, f"{VARIABLES}.LAMBDA_ONCE_TABEL", {"Fn::ImportValue": "tokens"})
    assert {each[0] for each in codes(misspelt, folder)} == {"V10", "V8"}
    assert codes(alone, folder) == set()


@pytest.mark.parametrize(
    "given",
    [
        {"Ref": TABLE},
        {"Fn::GetAtt": [TABLE, "Arn"]},
        {"Fn::ImportValue": "x"},
        {"Fn::Sub": f"t=${{{TABLE}}}"},
    ],
)
def test_a_table_of_another_variable_is_advice(
    nameless: dict[str, Any], folder: Path, given: dict[str, Any]
) -> None:
    """``Once(table=os.environ["TOKENS"])`` reads it."""
    named = written(nameless, f"{VARIABLES}.TOKENS", given)
    (found,) = findings(deployment(named, folder))
    assert (found.code, found.severity) == ("V2", Severity.ADVICE)


@pytest.mark.parametrize("given", [{"Ref": "PaymentsQueue"}, {"Fn::Sub": "${AWS::StackName}-x"}, "tokens"])
def test_variables_of_others_name_no_table(
    nameless: dict[str, Any], folder: Path, given: dict[str, Any] | str
) -> None:
    """The error stays: a queue is no table."""
    (found,) = findings(deployment(written(nameless, f"{VARIABLES}.QUEUE", given), folder))
    assert (found.code, found.severity) == ("V10", Severity.ERROR)


def test_a_table_whose_name_is_in_the_template_is_advice(nameless: dict[str, Any], folder: Path) -> None:
    """Code may have it: ``Once(table="tokens")``."""
    named = written(nameless, f"{TABLE}.TableName", "tokens")
    (found,) = findings(deployment(named, folder))
    assert (found.code, found.severity) == ("V2", Severity.ADVICE)


def test_variables_of_the_patterns_make_no_user_of_tokens(nameless: dict[str, Any], folder: Path) -> None:
    """A cleaner of documents has no token table, and its variables are read."""
    cleaner = written(nameless, f"{PAYMENTS}.Policies", None)
    cleaner = written(cleaner, f"{VARIABLES}.LAMBDA_ONCE_DOCUMENTS_TABLE", "documents")
    assert codes(cleaner, folder) == set()
    used = written(nameless, f"{VARIABLES}.LAMBDA_ONCE_DOCUMENTS_GRACE", "60")
    assert "V8" not in {each[0] for each in codes(used, folder)}


# -- values


def test_the_message_of_a_refused_value_is_the_watchdogs(
    shop: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What its first run would raise."""
    name = "LAMBDA_ONCE_WATCHDOG_ROWS"
    (found,) = findings(deployment(written(shop, f"{OF_WATCHDOG}.{name}", " 0"), folder))
    monkeypatch.setenv(name, " 0")
    watchdog._from_environment.cache_clear()
    with pytest.raises(Misconfigured) as raised:
        watchdog.handler({}, None)
    assert found.what == str(raised.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAMBDA_ONCE_WATCHDOG_SWEEP", " No\n"),
        ("LAMBDA_ONCE_WATCHDOG_ROWS", " 7 "),
        ("LAMBDA_ONCE_WATCHDOG_TIMES", "0"),
        ("LAMBDA_ONCE_LISTING", " stream "),
        ("LAMBDA_ONCE_DISABLED", "off "),
        ("LAMBDA_ONCE_CLIENT", ""),
    ],
)
def test_values_that_the_watchdog_takes_are_clean(
    shop: dict[str, Any], folder: Path, name: str, value: str
) -> None:
    """Blanks and capitals mean nothing."""
    assert codes(written(shop, f"{OF_WATCHDOG}.{name}", value), folder) == set()


def test_a_watchdogs_variable_is_no_function_s(shop: dict[str, Any], folder: Path) -> None:
    """A protected function doesn't read it, so it may be from Globals, whatever it is."""
    assert codes(written(shop, f"{VARIABLES}.LAMBDA_ONCE_WATCHDOG_ROWS", "0"), folder) == set()


# -- dead-letter queues


def dead_handler(shop: dict[str, Any]) -> dict[str, Any]:
    """Add a function that is fed by the dead-letter queue."""
    template = copy.deepcopy(shop)
    resource = copy.deepcopy(template["Resources"][PAYMENTS])
    event = resource["Properties"]["Events"]["Payments"]["Properties"]
    event["Queue"] = {"Fn::GetAtt": ["PaymentsDeadLetters", "Arn"]}
    template["Resources"]["DeadFunction"] = resource
    return template


def test_a_dead_letter_queue_is_no_source_queue(shop: dict[str, Any], folder: Path) -> None:
    """It needs no dead-letter queue, and may show its messages soon, whoever feeds it."""
    assert codes(dead_handler(shop), folder) == set()
    elsewhere = dead_handler(shop)
    del elsewhere["Resources"][PAYMENTS]  # what sends messages there has no function of ours
    assert codes(elsewhere, folder) == set()
    del elsewhere["Resources"]["PaymentsQueue"]
    assert {each[0] for each in codes(elsewhere, folder)} == {"Q2", "Q4"}


def test_lambda_refuses_a_dead_letter_queue_all_the_same(shop: dict[str, Any], folder: Path) -> None:
    """A visibility timeout below the function's timeout is an error of any queue."""
    short = written(dead_handler(shop), "PaymentsDeadLetters.VisibilityTimeout", 10)
    assert {each[0] for each in codes(short, folder)} == {"Q3"}


# -- watchdogs


def rule(kind: str, target: Any, **more: Any) -> dict[str, Any]:
    """Return a rule, or a schedule, that invokes *target*."""
    if kind == "AWS::Events::Rule":
        more["Targets"] = [{"Id": "dog", "Arn": target}]
    else:
        more["Target"] = {"Arn": target}
    return {"Type": kind, "Properties": more}


DOG = {"Fn::GetAtt": [WATCHDOG, "Arn"]}
ALLOWED = {
    "Type": "AWS::Lambda::Permission",
    "Properties": {"FunctionName": {"Ref": WATCHDOG}, "Principal": "events.amazonaws.com"},
}
ALIAS = {"Type": "AWS::Lambda::Alias", "Properties": {"FunctionName": {"Ref": WATCHDOG}, "Name": "live"}}


@pytest.mark.parametrize("kind", ["AWS::Events::Rule", "AWS::Scheduler::Schedule"])
@pytest.mark.parametrize(
    ("target", "more", "found"),
    [
        (DOG, {}, set()),
        ({"Ref": "Alias"}, {}, set()),
        (DOG, {"State": "ENABLED"}, set()),
        (DOG, {"State": "DISABLED"}, {"W1"}),
        (DOG, {"State": {"Ref": "Stage"}}, set()),
        ({"Fn::GetAtt": [PAYMENTS, "Arn"]}, {}, {"W1"}),
        ({"Fn::ImportValue": "dog"}, {}, set()),
    ],
    ids=str,
)
def test_what_invokes_the_watchdog(
    shop: dict[str, Any], folder: Path, kind: str, target: Any, more: dict[str, Any], found: set[str]
) -> None:
    """A rule, or a schedule, that is on; what is unknown is not judged."""
    template = written(shop, f"{WATCHDOG}.Events", None)
    template["Parameters"]["Stage"] = {"Type": "String"}
    template["Resources"] |= {"Rule": rule(kind, target, **more), "Alias": ALIAS}
    also = {"A1"} if found and target != DOG else set()
    assert {each[0] for each in codes(template, folder)} == found | also
    assert (faults.is_watchdog(deployment(template, folder).functions[-1])) is True


def test_a_permission_alone_may_be_a_rules_of_another_stack(shop: dict[str, Any], folder: Path) -> None:
    """It is not judged; beside a rule that is off it changes nothing."""
    template = written(shop, f"{WATCHDOG}.Events", None)
    template["Resources"]["Permission"] = ALLOWED
    assert codes(template, folder) == set()
    template["Resources"]["Rule"] = rule("AWS::Events::Rule", DOG, State="DISABLED")
    assert {each[0] for each in codes(template, folder)} == {"W1"}


def test_a_watchdog_that_never_runs_sweeps_nothing(shop: dict[str, Any], folder: Path) -> None:
    """A table without TTL then grows, though the watchdog is told to sweep it, and may."""
    told = written(shop, f"{TABLE}.TimeToLiveSpecification", None)
    told = written(told, f"{OF_WATCHDOG}.LAMBDA_ONCE_WATCHDOG_SWEEP", "yes")
    place(told, f"{WATCHDOG}.Policies").extend(allowing(*faults.SWEEPING))
    assert codes(told, folder) == set()
    assert {each[0] for each in codes(written(told, f"{OFTEN}.Enabled", value=False), folder)} == {"W1", "T4"}


def test_time_to_live_that_is_off_makes_no_sweeper(shop: dict[str, Any], folder: Path) -> None:
    """Of a watchdog that was not asked to be one, and may not; one that may sweeps by itself."""
    off = written(shop, f"{TABLE}.TimeToLiveSpecification.Enabled", value=False)
    off = written(off, f"{OF_WATCHDOG}.LAMBDA_ONCE_WATCHDOG_SWEEP", None)
    assert {each[0] for each in codes(off, folder)} == {"T4"}
    place(off, f"{WATCHDOG}.Policies").extend(allowing(*faults.SWEEPING))
    assert codes(off, folder) == set()


def test_no_watchdog_is_advice_where_nothing_delivers_again(shop: dict[str, Any], folder: Path) -> None:
    """Of a queue and a stream what a crash leaves is delivered again."""
    unwatched = copy.deepcopy(shop)
    del unwatched["Resources"][WATCHDOG]
    assert codes(unwatched, folder) == set()
    directly = written(unwatched, f"{PAYMENTS}.Events.Directly", {"Type": "HttpApi"})
    (found,) = findings(deployment(directly, folder))
    assert (found.code, found.severity, found.resource) == ("W2", Severity.ADVICE, TABLE)
    bare = written(directly, f"{TABLE}.GlobalSecondaryIndexes", None)
    assert "W2" not in {each[0] for each in codes(bare, folder)}, "there is nothing to search"
    own = written(directly, f"{CHANGES}.Policies", [*place(shop, f"{WATCHDOG}.Policies")])
    assert "W2" not in {each[0] for each in codes(own, folder)}, "it may query the index"


def unknown_fields(value: Any) -> list[str]:
    """Return the fields of a table, function, source, queue or package that may be `UNKNOWN`."""
    hints = get_type_hints(type(value))
    return [name for name, hint in hints.items() if Unknown in get_args(hint)]


@pytest.mark.parametrize("kind", ["tables", "functions", "sources", "queues"])
def test_what_is_unknown_is_not_judged(kind: str, shop: dict[str, Any], folder: Path) -> None:
    """With any one thing unknown the sound template is still clean."""
    sound = deployment(shop, folder)
    assert getattr(sound, kind)
    for place_of, each in enumerate(getattr(sound, kind)):
        for field in unknown_fields(each):
            changed = replace(each, **{field: UNKNOWN})
            others = list(getattr(sound, kind))
            others[place_of] = changed
            changes: dict[str, Any] = {kind: tuple(others)}
            found = findings(replace(sound, **changes))
            assert found == (), (each.resource, field)


def test_a_package_of_which_nothing_is_known_is_not_judged(shop: dict[str, Any], folder: Path) -> None:
    """Neither that of a layer nor that of a function; its twin, a layer without lambda_once, is."""
    sound = deployment(shop, folder)
    (layer,) = sound.layers
    for package, found in ((NOTHING_KNOWN, set()), (Package(has_once=False), {"L1"})):
        changed = replace(sound, layers=(layer._replace(package=package),))
        assert {each.code for each in findings(changed)} == found


@pytest.mark.parametrize(
    "mistake",
    [
        each
        for each in MISTAKES
        # SAM takes no condition there; a variable's name is wrong whatever its value is
        if each.code not in ("S2", "V8") and not each.at.startswith(f"{WATCHDOG}.Events")
    ],
    ids=lambda each: f"{each.code} {each.at}",
)
def test_a_mistake_that_is_unknown_is_not_judged(
    mistake: Mistake, shop: dict[str, Any], folder: Path
) -> None:
    """Under a condition of which nothing is known no rule speaks of what depends on it."""
    sound = place(shop, mistake.at.rpartition(".")[0])
    last = mistake.at.rpartition(".")[2]
    before = sound.get(last, {"Ref": "AWS::NoValue"})
    wrong = {"Ref": "AWS::NoValue"} if mistake.written is None else mistake.written
    unknown = copy.deepcopy(shop)
    unknown["Parameters"]["Stage"] = {"Type": "String"}
    unknown["Conditions"] = {"Prod": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]}}
    template = written(unknown, mistake.at, {"Fn::If": ["Prod", before, wrong]})
    if mistake.at.endswith("Policies"):  # SAM takes a condition for each policy
        either = [{"Fn::If": ["Prod", each, {"Ref": "AWS::NoValue"}]} for each in before]
        template = written(unknown, mistake.at, either)
    assert mistake.code not in {each[0] for each in codes(template, folder)}


def test_a_watchdog_of_ones_own_is_no_protected_function(shop: dict[str, Any], folder: Path) -> None:
    """What may query the index needs no parts; its twin without that is one that stores results."""
    own = written(shop, f"{WATCHDOG}.Handler", "ours.watch")
    assert codes(own, folder) == set()
    policies = allowing("GetItem", "UpdateItem", "BatchGetItem")
    assert {each[0] for each in codes(written(own, f"{WATCHDOG}.Policies", policies), folder)} == {
        "A1",
        "P3",
        "W2",
    }  # it has a schedule


def test_errors_come_first(shop: dict[str, Any], folder: Path) -> None:
    """Findings are sorted by severity, resource and code."""
    broken = written(shop, f"{TABLE}.DeletionProtectionEnabled", value=False)
    broken = written(broken, f"{MAPPING}.FunctionResponseTypes", None)
    broken = written(broken, f"{INDEX}.Projection", {"ProjectionType": "KEYS_ONLY"})
    broken = written(broken, f"{VARIABLES}.LAMBDA_ONCE_DISABLED", "1")
    found = findings(deployment(broken, folder))
    assert [each.code for each in found] == ["Q1", "V6", "T3", "T6"]
    assert [each.severity for each in found] == sorted(
        (each.severity for each in found), key=list(Severity).index
    )


# -- the list


def replicated(template: Any, **more: Any) -> Any:
    """Return *template* with a global table of two regions."""
    changed = copy.deepcopy(template)
    table = changed["Resources"][TABLE]
    own = {name: table["Properties"].pop(name) for name in ("PointInTimeRecoverySpecification",)}
    own["DeletionProtectionEnabled"] = table["Properties"].pop("DeletionProtectionEnabled")
    table["Type"] = "AWS::DynamoDB::GlobalTable"
    table["Properties"] |= {
        "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
        "Replicas": [{"Region": region, **own} for region in ("eu-central-1", "eu-west-1")],
        **more,
    }
    return changed


def test_a_table_that_is_replicated_asynchronously_has_no_stream_to_list_by(
    shop: dict[str, Any], folder: Path
) -> None:
    """Each region has a stream of its own. Under strong consistency, and listed at once, nothing is found."""
    found = [each for each in findings(deployment(replicated(shop), folder)) if each.code == "T10"]
    assert {each.resource for each in found} == {PAYMENTS, CHANGES, WATCHDOG}
    assert {each.fix for each in found} == {"LAMBDA_ONCE_LISTING: at_once"}
    assert {each.severity for each in found} == {Severity.ERROR}
    strong = replicated(shop, MultiRegionConsistency="STRONG")
    at_once = copy.deepcopy(replicated(shop))
    at_once["Globals"]["Function"]["Environment"]["Variables"]["LAMBDA_ONCE_LISTING"] = "at_once"
    for sound in (strong, at_once):
        assert not [
            each for each in findings(deployment(sound, folder)) if each.code in ("T10", "V11", "V12")
        ]


def test_what_is_unknown_of_a_stream_is_not_judged(shop: dict[str, Any], folder: Path) -> None:
    """An import may be any mode, and any view."""
    imported = {"Fn::ImportValue": "shared"}
    unknown = written(shop, f"{OF_WATCHDOG}.LAMBDA_ONCE_LISTING", imported)
    unknown = written(unknown, f"{TABLE}.StreamSpecification", imported)
    assert findings(deployment(unknown, folder)) == ()
