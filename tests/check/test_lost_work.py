"""
What ``lambda-once check`` finds where work is lost, stands still, or is taken for other work.

Each test looks for its own finding; a template may have others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from click.testing import CliRunner

from lambda_once_tools.cli.app import app

Checked = Callable[..., Any]

BASE = """
Transform: [AWS::LanguageExtensions, AWS::Serverless-2016-10-31]
Resources:
  TokenTable:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      DeletionProtectionEnabled: true
      AttributeDefinitions:
        - {AttributeName: lockToken, AttributeType: S}
        - {AttributeName: listed, AttributeType: S}
        - {AttributeName: expectedCompletion, AttributeType: S}
      KeySchema: [{AttributeName: lockToken, KeyType: HASH}]
      GlobalSecondaryIndexes:
        - IndexName: byStatus
          KeySchema:
            - {AttributeName: listed, KeyType: HASH}
            - {AttributeName: expectedCompletion, KeyType: RANGE}
          Projection: {ProjectionType: INCLUDE, NonKeyAttributes: [lockedBy, created, attempt]}
      TimeToLiveSpecification: {AttributeName: ttl, Enabled: true}
      PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
  Failed: {Type: AWS::SQS::Queue, Properties: {MessageRetentionPeriod: 1209600}}
"""
FUNCTION = """
  Work:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: python3.13
      Timeout: 30
      CodeUri: code/
      Handler: app.handler
      Environment: {Variables: {LAMBDA_ONCE_TABLE: !Ref TokenTable, POWERTOOLS_SERVICE_NAME: shop}}
      Policies:
        - Statement:
            - Effect: Allow
              Action:
                - dynamodb:GetItem
                - dynamodb:UpdateItem
                - dynamodb:BatchGetItem
                - dynamodb:PartiQLInsert
                - dynamodb:PartiQLUpdate
              Resource: !GetAtt TokenTable.Arn
              Condition:
                ForAllValues:StringLike: {dynamodb:LeadingKeys: [shop/*]}
                "Null": {dynamodb:LeadingKeys: "false"}
"""
STREAM = """
  Changes: {Type: AWS::Kinesis::Stream, Properties: {ShardCount: 1}}
"""
KINESIS = """
        Changes:
          Type: Kinesis
          Properties:
            Stream: !GetAtt Changes.Arn
            StartingPosition: TRIM_HORIZON
            FunctionResponseTypes: [ReportBatchItemFailures]
            BisectBatchOnFunctionError: true
            MaximumRetryAttempts: 10
            DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt Failed.Arn}}
"""


def queue(name: str) -> tuple[str, str]:
    """Return the queue *name* and its mapping, both as they should be."""
    resource = f"""
  {name}:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 180
      RedrivePolicy: {{deadLetterTargetArn: !GetAtt Failed.Arn, maxReceiveCount: 5}}
"""
    mapping = f"""
        {name}:
          Type: SQS
          Properties: {{Queue: !GetAtt {name}.Arn, FunctionResponseTypes: [ReportBatchItemFailures]}}
"""
    return resource, mapping


def events(*mappings: str) -> str:
    """Return the events of `FUNCTION`."""
    return "\n".join(["      Events:", *(mapping.strip("\n") for mapping in mappings)]) + "\n"


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    """Return what `check` prints for a template of these parts: the object of --output json, or its lines."""

    def run(
        *parts: str, code: str = "", requirements: str = "lambda-once", output: str = "json", given: str = ""
    ) -> Any:
        (tmp_path / "code").mkdir(exist_ok=True)
        (tmp_path / "code" / "requirements.txt").write_text(f"{requirements}\n")
        (tmp_path / "code" / "app.py").write_text(dedent(code))
        path = tmp_path / "template.yaml"
        path.write_text("".join(part.strip("\n") + "\n" for part in parts))
        command = ["check", "--template", str(path), "--output", output, *given.split()]
        done = CliRunner().invoke(app, command, env={"NO_COLOR": "1"})
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return json.loads(done.stdout) if output == "json" else done.stdout + done.stderr

    return run


def finding(report: Any, *words: str) -> Any:
    """Return the finding that has all *words*, in any case of letters."""
    for each in report["findings"]:
        text = " ".join((each["what"], each["why"], each["fix"])).lower()
        if all(word.lower() in text for word in words):
            return each
    raise AssertionError(f"none of {[each['what'] for each in report['findings']]} has {words}")


def codes(report: Any) -> set[str]:
    """Return the codes of the findings."""
    return {each["code"] for each in report["findings"]}


# -- streams, pipes


def test_a_tumbling_window_is_found(checked: Checked) -> None:
    """Each of its events is Misconfigured (docs/sources.md), so its shard stands still."""
    window = KINESIS.rstrip("\n") + "\n            TumblingWindowInSeconds: 60\n"
    assert finding(checked(BASE, STREAM, FUNCTION, events(window)), "tumbling")["severity"] == "error"


@pytest.mark.parametrize("more", ["", "\n            TumblingWindowInSeconds: 0\n"], ids=["none", "0"])
def test_a_mapping_without_a_window_is_fine(checked: Checked, more: str) -> None:
    """The template that the others change has no finding of that kind."""
    report = checked(BASE, STREAM, FUNCTION, events(KINESIS.rstrip("\n") + more))
    assert not codes(report) & {"S5", "A1", "A2"}


PIPE = """
  Pipe:
    Type: AWS::Pipes::Pipe
    Properties:
      RoleArn: arn:aws:iam::123456789012:role/pipe
      Source: !GetAtt Orders.Arn
      Target: !GetAtt Work.Arn
      TargetParameters: %s
"""


@pytest.mark.parametrize(
    ("parameters", "found"),
    [
        ("{InputTemplate: '{\"orderId\": <$.body.orderId>}'}", {"A2"}),
        ("{SqsQueueParameters: {}}", set()),
        ("{InputTemplate: !Ref AWS::NoValue}", set()),
        ("!If [Unknown, {InputTemplate: x}, {}]", set()),
        ("{LambdaFunctionParameters: {InvocationType: FIRE_AND_FORGET}}", {"A1"}),
        ("{LambdaFunctionParameters: {InvocationType: REQUEST_RESPONSE}}", set()),
    ],
)
def test_what_a_pipe_passes(checked: Checked, parameters: str, found: set[str]) -> None:
    """A decorator of records finds none in what a template makes; one that doesn't wait drops."""
    resource, _ = queue("Orders")
    report = checked(BASE, resource, FUNCTION, PIPE % parameters)
    assert codes(report) & {"A1", "A2"} == found
    if found == {"A2"}:
        assert finding(report, "InputTemplate")["severity"] == "warning"


def test_the_queue_of_a_pipe_is_looked_at(checked: Checked) -> None:
    """As that of a mapping; a pipe reports its failures by itself."""
    bare = "  Orders: {Type: AWS::SQS::Queue}\n"
    assert codes(checked(BASE, bare, FUNCTION, PIPE % "{}")) & {"Q1", "Q2", "Q3", "Q4"} == {"Q2", "Q4"}
    slow = FUNCTION.replace("Timeout: 30", "Timeout: 60")
    assert codes(checked(BASE, bare, slow, PIPE % "{}")) & {"Q3", "Q4"} == {"Q4"}, "Lambda refuses no pipe"
    assert not codes(checked(BASE, queue("Orders")[0], FUNCTION, PIPE % "{}")) & {"Q1", "Q2", "Q4"}


# -- asynchronous events

RULE = """
        Orders:
          Type: EventBridgeRule
          Properties:
            Pattern: {source: [shop]}
"""
OWN_DEAD_LETTERS = """
            DeadLetterConfig: {Arn: !GetAtt Failed.Arn}
            RetryPolicy: {MaximumRetryAttempts: 5}
"""
ASYNCHRONOUS = {
    "a rule": RULE,
    "a rule with a dead-letter queue of its own": RULE.rstrip("\n") + OWN_DEAD_LETTERS,
    "a schedule": "        Daily: {Type: Schedule, Properties: {Schedule: rate(1 day)}}",
    "a topic": "        Topic: {Type: SNS, Properties: {Topic: arn:aws:sns:eu-west-1:123456789012:t}}",
    "a topic with a redrive policy": "        Topic: {Type: SNS, Properties: {Topic: "
    "arn:aws:sns:eu-west-1:123456789012:t, RedrivePolicy: {deadLetterTargetArn: !GetAtt Failed.Arn}}}",
    "a bucket": "        Upload: {Type: S3, Properties: {Bucket: !Ref Bucket, Events: s3:ObjectCreated:*}}",
}
ON_FAILURE = "{DestinationConfig: {OnFailure: {Type: SQS, Destination: !GetAtt Failed.Arn}}}"
KEPT = {
    "a destination": f"      EventInvokeConfig: {ON_FAILURE}",
    "a queue that SAM makes": "      EventInvokeConfig: {DestinationConfig: {OnFailure: {Type: SQS}}}",
    "a destination of its alias": f"      AutoPublishAlias: live\n      EventInvokeConfig: {ON_FAILURE}",
    "a dead-letter queue": "      DeadLetterQueue: {Type: SQS, TargetArn: !GetAtt Failed.Arn}",
    "a destination that is not known": "      EventInvokeConfig: {DestinationConfig: {OnFailure: "
    "{Type: SQS, Destination: !ImportValue failed}}}",
}


@pytest.mark.parametrize("event", ASYNCHRONOUS.values(), ids=ASYNCHRONOUS)
def test_an_asynchronous_function_without_a_destination_is_found(checked: Checked, event: str) -> None:
    """Lambda drops an event after its retries; what EventBridge or SNS couldn't deliver is another thing."""
    bucket = "  Bucket: {Type: AWS::S3::Bucket}\n"
    assert finding(checked(BASE, bucket, FUNCTION, events(event)), "OnFailure")["severity"] == "warning"
    no_retry = "      EventInvokeConfig: {MaximumRetryAttempts: 0}\n"
    assert "A1" in codes(checked(BASE, bucket, FUNCTION, no_retry, events(event)))


@pytest.mark.parametrize("kept", KEPT.values(), ids=KEPT)
def test_an_asynchronous_function_with_a_destination_is_fine(checked: Checked, kept: str) -> None:
    """Its event invoke configuration, or its own dead-letter queue, keeps what failed on all its retries."""
    report = checked(BASE, FUNCTION, kept, events(RULE))
    assert not any("OnFailure" in each["what"] + each["fix"] for each in report["findings"])


PLAIN = """
  {name}Function:
    Type: AWS::Lambda::Function
    Properties:
      Runtime: python3.13
      Role: arn:aws:iam::123456789012:role/work
      Handler: app.handler
      Code: {{S3Bucket: code, S3Key: code}}
      Environment: {{Variables: {{LAMBDA_ONCE_TABLE: !Ref TokenTable, POWERTOOLS_SERVICE_NAME: shop}}}}
  {name}Permission:
    Type: AWS::Lambda::Permission
    Properties: {{FunctionName: !Ref {name}Function, Action: "lambda:InvokeFunction", Principal: {principal}}}
"""


@pytest.mark.parametrize(
    ("principal", "found"),
    [
        ("events.amazonaws.com", True),
        ("logs.eu-west-1.amazonaws.com", True),
        ("!Sub 'logs.${AWS::Region}.amazonaws.com'", True),
        ("s3.amazonaws.com", True),
        ("apigateway.amazonaws.com", False),
        ("elasticloadbalancing.amazonaws.com", False),
        ("cognito-idp.amazonaws.com", False),
    ],
)
def test_who_waits_for_a_function(checked: Checked, principal: str, found: bool) -> None:
    """CloudFormation's own permission, as the CDK and Serverless write it."""
    plain = PLAIN.format(name="Plain", principal=principal)
    assert ("A1" in codes(checked(BASE, plain))) is found
    config = "  Kept: {Type: AWS::Lambda::EventInvokeConfig, Properties: {FunctionName: !Ref %s, Qualifier: "
    kept = config % "PlainFunction" + '"$LATEST", ' + ON_FAILURE[1:-1] + "}}\n"
    assert "A1" not in codes(checked(BASE, plain, kept.replace("Type: SQS, ", "")))


ARN = {"Fn::GetAtt": ["PlainFunction", "Arn"]}
ACTIONS = {"Actions": [{"Lambda": {"FunctionArn": ARN}}]}
INVOKING: dict[str, dict[str, Any]] = {
    "AWS::Events::Rule": {"Targets": [{"Id": "a", "Arn": ARN}]},
    "AWS::Scheduler::Schedule": {"Target": {"Arn": ARN}},
    "AWS::IoT::TopicRule": {"TopicRulePayload": ACTIONS},
    "AWS::Lambda::EventInvokeConfig": {
        "FunctionName": "other",
        "DestinationConfig": {"OnSuccess": {"Destination": ARN}},
    },
}


@pytest.mark.parametrize("kind", INVOKING)
def test_what_invokes_by_a_role_or_is_off(checked: Checked, kind: str) -> None:
    """A rule's target with a role has no permission; what is disabled, or another's, invokes nothing."""
    plain = PLAIN.format(name="Plain", principal="iot.amazonaws.com")  # that of IoT's authorizers, which wait

    def found(resource: dict[str, Any]) -> bool:
        return "A1" in codes(checked(BASE, plain, f"  Invoking: {json.dumps(resource)}\n"))

    resource = {"Type": kind, "Properties": INVOKING[kind]}
    assert found(resource)
    assert not found(json.loads(json.dumps(resource).replace("PlainFunction", "Other")))
    off = {**resource, "Properties": {**INVOKING[kind], "State": "DISABLED"}}
    assert found(off) is (kind in ("AWS::IoT::TopicRule", "AWS::Lambda::EventInvokeConfig"))


ALIAS = """
  Live: {Type: AWS::Lambda::Alias, Properties: {FunctionName: !Ref PlainFunction, Name: live}}
"""


@pytest.mark.parametrize(
    ("invoked", "kept", "found"),
    [
        ("!Ref Live", "live", False),
        ("!Ref Live", '"$LATEST"', True),
        ("!Ref PlainFunction", "live", True),
        ("!Ref PlainFunction", '"$LATEST"', False),
        ('!Sub "${PlainFunction}:live"', "live", False),
        ("!Ref Live", "!Ref Stage", False),
    ],
)
def test_a_destination_is_that_of_one_qualifier(
    checked: Checked, invoked: str, kept: str, found: bool
) -> None:
    """Lambda applies a configuration to its alias alone; the line is for the one that is invoked."""
    parameter = "Parameters: {Stage: {Type: String}}\n"
    plain = PLAIN.format(name="Plain", principal="events.amazonaws.com").replace(
        "FunctionName: !Ref PlainFunction", f"FunctionName: {invoked}"
    )
    config = "  Kept: {Type: AWS::Lambda::EventInvokeConfig, Properties: {FunctionName: !Ref PlainFunction, "
    config += f"Qualifier: {kept}, " + ON_FAILURE[1:-1].replace("Type: SQS, ", "") + "}}\n"
    report = checked(parameter, BASE, plain, ALIAS, config)
    assert ("A1" in codes(report)) is found
    if found:
        fix = finding(report, "asynchronously")["fix"].replace("FailedEvents", "Failed")
        assert "A1" not in codes(checked(parameter, BASE, plain, ALIAS, f"  {fix}\n"))


def test_the_alias_of_sam_is_for_its_own_events(checked: Checked) -> None:
    """A rule that invokes the function itself is another thing."""
    published = f"      AutoPublishAlias: live\n      EventInvokeConfig: {ON_FAILURE}\n"
    rule = (
        "  Rule: {Type: AWS::Events::Rule, Properties: {EventPattern: {source: [a]}, "
        "Targets: [{Id: a, Arn: !GetAtt Work.Arn}]}}\n"
    )
    report = checked(BASE, FUNCTION, published, rule)
    assert 'Qualifier: "$LATEST"' in finding(report, "asynchronously")["fix"]
    assert "A1" not in codes(checked(BASE, FUNCTION, published, events(RULE)))


@pytest.mark.parametrize(
    ("destination", "found"), [("", True), (", " + ON_FAILURE[1:-1].replace("Type: SQS, ", ""), False)]
)
def test_the_configuration_of_another_stacks_function(
    checked: Checked, destination: str, found: bool
) -> None:
    """It may be this one's; without a destination it keeps nothing of anyone's."""
    plain = PLAIN.format(name="Plain", principal="events.amazonaws.com")
    config = "  Kept: {Type: AWS::Lambda::EventInvokeConfig, Properties: {FunctionName: !ImportValue other, "
    config += f'Qualifier: "$LATEST", MaximumRetryAttempts: 0{destination}}}}}\n'
    assert ("A1" in codes(checked(BASE, plain, config))) is found


def test_strange_resources_break_nothing(checked: Checked) -> None:
    """Properties of one's own, two groups of a pipe's parameters, code that Python does not read."""
    custom = "  Own: {Type: Custom::Own, Properties: {ServiceToken: x, SourceArn: [a, b]}}\n"
    pipe = PIPE.replace("      TargetParameters: %s\n", "")
    pipe += "      SourceParameters: {SqsQueueParameters: {BatchSize: 1}, Others: {BatchSize: 2}}\n"
    deep = "import lambda_once  # model\n" + "-" * 200_000 + "1\n"
    assert "Q1" not in codes(checked(BASE, queue("Orders")[0], custom, pipe, FUNCTION, code=deep))


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ("", "PlainFunctionFailures: {Type: AWS::Lambda::EventInvokeConfig, "),
        ("DurableConfig: {ExecutionTimeout: 60}", "DeadLetterConfig: {TargetArn: "),
    ],
)
def test_the_line_for_what_is_dropped_can_be_written(checked: Checked, change: str, line: str) -> None:
    """A resource beside a function of CloudFormation's, SAM's property otherwise; it cures the finding."""
    plain = PLAIN.format(name="Plain", principal="events.amazonaws.com")
    plain = plain.replace("Handler: app.handler", f"Handler: app.handler\n      {change}")
    fix = finding(checked(BASE, plain), "asynchronously")["fix"]
    assert fix.startswith(line)
    fix = fix.replace("FailedEvents", "Failed")
    cured = (plain, f"  {fix}\n") if not change else (plain.replace(change, f"{change}\n      {fix}"), "")
    assert "A1" not in codes(checked(BASE, *cured))


def test_a_destination_of_another_function_covers_nothing(checked: Checked) -> None:
    """It belongs to the function that it names."""
    two = [PLAIN.format(name=name, principal="events.amazonaws.com") for name in ("One", "Other")]
    kept = "  Kept: {Type: AWS::Lambda::EventInvokeConfig, Properties: {FunctionName: !Ref OneFunction, "
    kept += 'Qualifier: "$LATEST", ' + ON_FAILURE[1:-1].replace("Type: SQS, ", "") + "}}\n"
    report = checked(BASE, *two, kept)
    assert [each["resource"] for each in report["findings"] if each["code"] == "A1"] == ["OtherFunction"]


# -- queues

TWO_KINDS = """
    from lambda_once import Once

    once = Once()


    @once.sqs(key="orderId")
    def handler(record):
        pass
"""


def test_two_queues_of_one_function_under_one_key_are_found(checked: Checked) -> None:
    """The line depends on what the queues are: ignore= for copies, scope= for two kinds of work."""
    (first, orders), (second, refunds) = queue("Orders"), queue("Refunds")
    report = checked(BASE, first, second, FUNCTION, events(orders, refunds), code=TWO_KINDS)
    assert finding(report, "@origin", "scope=")["severity"] == "warning"


def test_a_fifo_queue_with_dead_letters_and_no_key_is_found(checked: Checked) -> None:
    """A message in a FIFO dead-letter queue gets its message id as deduplication id, the default key."""
    resource, mapping = queue("Orders")
    resource = resource.replace("    Properties:\n", "    Properties:\n      FifoQueue: true\n")
    properties = "{FifoQueue: true, MessageRetentionPeriod: 1209600}"
    failed = f"  FailedInOrder: {{Type: AWS::SQS::Queue, Properties: {properties}}}\n"
    resource = resource.replace("!GetAtt Failed.Arn", "!GetAtt FailedInOrder.Arn")
    finding(checked(BASE, failed, resource, FUNCTION, events(mapping)), "FIFO", "key=")


def test_a_queue_without_report_batch_item_failures_is_an_error(checked: Checked) -> None:
    """Lambda deletes the failed messages of a batch with the others: work is lost."""
    resource, mapping = queue("Orders")
    mapping = mapping.replace(", FunctionResponseTypes: [ReportBatchItemFailures]", "")
    report = checked(BASE, resource, FUNCTION, events(mapping))
    assert finding(report, "ReportBatchItemFailures")["severity"] == "error"


SUBSCRIBED = """
        Topic:
          Type: SNS
          Properties: {Topic: !Ref Topic, SqsSubscription: %s}
"""
TOPIC = "  Topic: {Type: AWS::SNS::Topic}\n"
GIVEN = "{QueueArn: !GetAtt Own.Arn, QueueUrl: !Ref Own, FunctionResponseTypes: [ReportBatchItemFailures]}"
OWN = "  Own: {Type: AWS::SQS::Queue, Properties: {VisibilityTimeout: 180}}\n"


@pytest.mark.parametrize(
    "subscription", ["true", GIVEN], ids=["a queue that SAM makes", "a queue of your own"]
)
def test_the_advice_for_a_subscription_through_a_queue_can_be_followed(
    checked: Checked, subscription: str
) -> None:
    """With SqsSubscription SAM takes no FunctionResponseTypes, and its queue stands in no file."""
    parts = (BASE, TOPIC, OWN, FUNCTION, events(SUBSCRIBED % subscription))
    report = checked(*parts)
    advice = finding(report, "ReportBatchItemFailures", "SqsSubscription", "AWS::SNS::Subscription")["fix"]
    assert not any("TopicQueue" in each["resource"] for each in report["findings"]), "nobody can write there"
    assert ("Q2" in codes(report)) is (subscription == GIVEN), "a queue of one's own is looked at"
    event, *resources = advice.replace("DeadLetters.Arn", "Failed.Arn").splitlines()
    added = [f"  {each}\n" for each in resources]
    followed = checked(
        BASE, TOPIC, OWN if subscription == GIVEN else "", *added, FUNCTION, events(f"        {event}")
    )
    assert codes(followed) & {"Q1", "Q2", "Q3", "Q4"} == ({"Q2"} if subscription == GIVEN else set())
    assert "AWS::SQS::QueuePolicy" in advice, "without it SNS may not send"


def test_a_subscribed_queue_of_elsewhere_keeps_its_policy(checked: Checked) -> None:
    """Its owner writes the policy; the lines have its ARN."""
    arn = "arn:aws:sqs:eu-west-1:123456789012:q"
    given = f"{{QueueArn: {arn}, QueueUrl: u}}"
    advice = finding(checked(BASE, TOPIC, FUNCTION, events(SUBSCRIBED % given)), "SqsSubscription")["fix"]
    assert advice.count(arn) == 2
    assert "QueuePolicy" not in advice


# -- loops

LOOP = """
  Fn::ForEach::Functions:
    - Name
    - %s
    - Fn${Name}:
        Type: AWS::Serverless::Function
        Properties:
          Runtime: python3.13
          Handler: app.handler
          CodeUri: code/
          Environment: {Variables: {LAMBDA_ONCE_TABLE: !Ref TokenTable}}
"""


def test_a_loop_over_literals_is_expanded(checked: Checked) -> None:
    """Both functions lack a service name, and each is named."""
    text = checked(BASE, LOOP % "[A, B]", output="table")
    assert "FnA" in text
    assert "FnB" in text
    assert "Fn::ForEach" not in text
    assert "checked 2 functions" in text


@pytest.mark.parametrize("given", ["", "--parameter Names=C,D"])
def test_a_loop_over_a_parameter_is_expanded(checked: Checked, given: str) -> None:
    """By its default, or by what is given."""
    parameter = "Parameters: {Names: {Type: CommaDelimitedList, Default: 'A, B'}}\n"
    text = checked(parameter, BASE, LOOP % "!Ref Names", output="table", given=given)
    assert {*re.findall(r"Fn[A-Z]\b", text)} == ({"FnC", "FnD"} if given else {"FnA", "FnB"})


def test_a_loop_over_a_parameter_without_default_is_refused_by_name(checked: Checked) -> None:
    """Its elements are known at deployment only; the line says which parameter to pass."""
    parameter = "Parameters: {Names: {Type: CommaDelimitedList}}\n"
    report = checked(parameter, BASE, LOOP % "!Ref Names")
    assert finding(report, "Names", "--parameter Names=")["code"] == "F1"
    given = checked(parameter, BASE, LOOP % "!Ref Names", given="--parameter Names=A,B")
    assert "F1" not in codes(given)


INNER = """
  Fn::ForEach::Teams:
    - Team
    - [a-b, c]
    - Fn::ForEach::Kinds:
        - Kind
        - !FindInMap [Kinds, all, names]
        - "&{Team}${Kind}Queue":
            Type: AWS::SQS::Queue
            Properties: {QueueName: !Sub "${Team}-${!Kind}-${Kind}", VisibilityTimeout: 1}
          "&{Team}${Kind}Function":
            Type: AWS::Serverless::Function
            Properties:
              Runtime: python3.13
              Handler: !Ref Kind
              CodeUri: code/
              Timeout: 30
              Environment: {Variables: {LAMBDA_ONCE_TABLE: !Ref TokenTable}}
              Events:
                Work: {Type: SQS, Properties: {Queue: !GetAtt ["&{Team}${Kind}Queue", Arn]}}
"""


def test_loops_within_loops(checked: Checked) -> None:
    """Names by letters and digits alone, a Ref of the name, and properties; each has its findings."""
    kinds = "Mappings: {Kinds: {all: {names: [X, Y]}}}\n"
    report = checked(kinds, BASE, INNER)
    short = {each["resource"] for each in report["findings"] if each["code"] == "Q3"}
    assert short == {"abXQueue", "abYQueue", "cXQueue", "cYQueue"}
    assert "F1" not in codes(report)


@pytest.mark.parametrize(
    "wrong", ["[Name, [A]]", "text", "[Name, A, {}]", "[Name, [[A]], {}]", "[[A], [B], {}]"]
)
def test_a_loop_that_is_none_is_listed(checked: Checked, wrong: str) -> None:
    """CloudFormation refuses it; nothing else is hidden by it."""
    report = checked(BASE, f"  Fn::ForEach::Wrong: {wrong}\n", FUNCTION)
    assert [each["resource"] for each in report["findings"] if each["code"] == "F1"] == ["Fn::ForEach::Wrong"]


def test_a_parameter_of_the_parameter_store_is_known_only_there(checked: Checked) -> None:
    """Its value is a name; none that is given makes it known."""
    kind = "AWS::SSM::Parameter::Value<List<String>>"
    parameter = f"Parameters: {{Names: {{Type: '{kind}', Default: /names}}}}\n"
    assert "get-template" in finding(checked(parameter, BASE, LOOP % "!Ref Names"), "CloudFormation")["fix"]


@pytest.mark.parametrize("over", ["!Split [',', !Sub '${Names},b']", "!FindInMap [Kinds, !Ref Names, names]"])
def test_a_parameter_within_an_expression_is_named(checked: Checked, over: str) -> None:
    """Any value makes it known."""
    head = "Parameters: {Names: {Type: String}}\nMappings: {Kinds: {A: {names: [X, Y]}}}\n"
    assert "--parameter Names=" in finding(checked(head, BASE, LOOP % over), "Names")["fix"]
    assert "F1" not in codes(checked(head, BASE, LOOP % over, given="--parameter Names=A"))


def test_a_parameter_of_the_stack_above_is_named(checked: Checked, tmp_path: Path) -> None:
    """The nested stack's loop goes over what it is given."""
    child = "Parameters: {Names: {Type: CommaDelimitedList}}\n" + BASE + LOOP % "!Ref Names"
    (tmp_path / "child.yaml").write_text(child)
    parent = """
Parameters: {Given: {Type: CommaDelimitedList}}
Resources:
  Child:
    Type: AWS::CloudFormation::Stack
    Properties: {TemplateURL: child.yaml, Parameters: {Names: !Join [',', !Ref Given]}}
"""
    assert "--parameter Given=" in finding(checked(parent), "Given")["fix"]
    assert "F1" not in codes(checked(parent, given="--parameter Given=A,B"))


@pytest.mark.parametrize("text", ["${N}", "x"])
def test_loops_that_make_too_much_text_are_refused(checked: Checked, text: str) -> None:
    """Long values in long texts, a few times."""
    many = ", ".join(f"'{each}{'v' * 20_000}'" for each in range(20))
    body = f"{{'T&{{N}}': {{Type: AWS::SNS::Topic, Properties: {{A: '{text * 5_000}'}}}}}}"
    long = checked(BASE, f"  Fn::ForEach::All: [N, [{many}], {body}]\n", output="table")
    assert ("characters" in long) is (text == "${N}")


@pytest.mark.parametrize("inner", ["{X: {Type: AWS::SNS::Topic}}", "{}"])
def test_loops_that_make_too_much_are_refused(checked: Checked, inner: str) -> None:
    """Ten loops of twenty, one in the other, are more than any template."""
    for number in range(10):
        inner = f"{{'Fn::ForEach::L{number}': [N{number}, [{', '.join(map(str, range(20)))}], {inner}]}}"
    text = checked(BASE, f"  Fn::ForEach::All: [N, [A], {inner}]\n", output="table")
    assert "more than 200000 values" in text


def test_a_template_that_only_sam_fills_is_read(checked: Checked) -> None:
    """Of APIs and connectors to them nothing is left to translate; a parameter that is missing is named."""
    api = "  Api: {Type: AWS::Serverless::HttpApi}\n"
    rule = (
        "  Rule: {Type: AWS::Events::Rule, Properties: {Targets: []}, Connectors: "
        "{ToApi: {Properties: {Destination: {Id: Api}, Permissions: [Write]}}}}\n"
    )
    assert "T1" not in codes(checked(BASE, api, rule))
    alone = "Transform: AWS::Serverless-2016-10-31\nResources:\n"
    assert "nothing here uses lambda-once" in checked(alone, api, output="table")
    parameter = "Parameters: {Stage: {Type: String}}\n"
    text = checked(parameter, BASE, FUNCTION, "      AutoPublishAlias: !Ref Stage\n", output="table")
    assert "--parameter Stage=VALUE" in text
    assert "SAM cannot expand it" in text


def test_the_closing_line_names_what_was_checked(checked: Checked) -> None:
    """Also where the only functions stand in a loop, or nothing could be looked at."""
    head = "Transform: [AWS::LanguageExtensions, AWS::Serverless-2016-10-31]\nResources:\n"
    loop = LOOP.replace("!Ref TokenTable", "tokens")
    assert "checked 2 functions: " in checked(head, loop % "[A, B]", output="table")
    assert "checked nothing: 1 warning" in checked(head, loop % "!GetAZs ''", output="table")


# -- packages


MODEL = """
    from dataclasses import dataclass

    from lambda_once import Once

    once = Once()


    @dataclass
    class Order:
        id: str


    @once.sqs(key="id", model=Order)
    def handler(order):
        pass
"""


@pytest.mark.parametrize(
    ("code", "requirements", "found"),
    [
        (MODEL, "lambda-once", True),
        (MODEL, "lambda-once[pydantic]", False),
        (MODEL, "lambda-once\nfastapi", False),
        (MODEL.replace(", model=Order", ""), "lambda-once", False),
        (MODEL.replace("@once.sqs", "@llm.tool"), "lambda-once", False),
        (MODEL.replace("model=Order", "model=None"), "lambda-once", False),
        (
            MODEL.replace("@once.sqs", "handler = once.sqs").replace("def handler(order)", "def work(order)"),
            "lambda-once",
            True,
        ),
        (MODEL.replace("@once.sqs", "@once.mq"), "lambda-once", True),
        ("def broken(:\n", "lambda-once", False),
    ],
    ids=[
        "without",
        "with the extra",
        "another may bring it",
        "no model=",
        "another's model=",
        "None",
        "called",
        "of another source",
        "no Python",
    ],
)
def test_a_model_without_pydantic_is_found(
    checked: Checked, code: str, requirements: str, found: bool
) -> None:
    """The import of the function is Misconfigured, after the deployment."""
    resource, mapping = queue("Orders")
    report = checked(BASE, resource, FUNCTION, events(mapping), code=code, requirements=requirements)
    assert ("L2" in codes(report)) is found
    if found:
        assert "app.py" in finding(report, "lambda-once[pydantic]")["what"]
