"""The shop's stack as its author wrote it, as SAM expands it with what it nests, and as moto deploys it."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from lambda_once.operations import stream
from lambda_once.stores.store import DynamoDBStore
from tests.kit.recorded import SHOP
from tests.kit.streams import PlayedStreams
from tests.kit.strict.mounted import mounted

from . import nested

ROOT = Path(__file__).parents[2]
REGION = "eu-central-1"
CODE = "s3://code/stack.zip"
Template = nested.Template
NOW = datetime(2026, 11, 20, 10, 12, tzinfo=UTC)

ACROSS = ("BillingMode", "AttributeDefinitions", "KeySchema", "GlobalSecondaryIndexes")
"""The properties of a table that CloudFormation and CreateTable name alike, and that engines know."""

LEFT_OUT_TYPES = {
    "AWS::ApiGatewayV2::Api",
    "AWS::ApiGatewayV2::Stage",
    "AWS::CloudWatch::Alarm",
    "AWS::CloudWatch::Dashboard",
    "AWS::Lambda::EventInvokeConfig",
    "AWS::Logs::QueryDefinition",
    "AWS::SNS::Subscription",
    "AWS::SNS::TopicPolicy",
    "AWS::SQS::QueuePolicy",
    "AWS::Scheduler::Schedule",
}
"""
moto 5.2.5's CloudFormation does not know these resources, or not what they refer to (the dashboard speaks of
alarms); test_template.py, test_alarms.py, test_dashboard.py, test_encryption.py, test_queries.py,
test_receipts.py, test_prices.py and test_three_sources.py look at them instead.
"""

LEFT_OUT_OUTPUTS = {"OrdersApiUrl", "OrdersUrl", "DashboardUrl"}
"""They speak of what was left out."""

OFF_BY_DEFAULT = {"WatchdogSweeping"}
"""Resources whose condition the default parameters do not meet."""

LEFT_OUT_FOR_THE_API = {
    "OrdersApiFunctionCancelOrderPermission",
    "OrdersApiFunctionCreateOrderPermission",
    "OrdersApiFunctionGetOrderPermission",
    "OrdersApiFunctionPayOrderPermission",
    "OrdersApiSessionsAuthorizerPermission",
    "OrdersFunctionCreatePermission",
    "OrdersPermission",
}
"""They refer to the API that was left out."""


class StoppedClock:
    """It is always twelve past ten, and nothing waits."""

    def now(self) -> datetime:
        return NOW

    def sleep(self, seconds: float) -> None:
        raise AssertionError(f"nothing here has {seconds} s to wait for")


@dataclass(frozen=True, slots=True)
class Deployed:
    """A stack that exists in moto while the fixture that made it lasts."""

    session: boto3.Session
    template: Template
    outputs: dict[str, str]
    resources: dict[str, str]
    """Resource type by logical id."""

    def client(self, service: str, endpoint: str | None = None) -> Any:
        return self.session.client(service, endpoint_url=endpoint)  # type: ignore[call-overload,unused-ignore]


@pytest.fixture(scope="session")
def template_text() -> str:
    """The shop's template as it is written."""
    return (SHOP / "template.yaml").read_text()


@pytest.fixture(scope="session")
def template() -> Template:
    """The shop's template with what it nests, its short tags spelled out."""
    return nested.flat(SHOP / "template.yaml")


@pytest.fixture(scope="session")
def translated(template: Template) -> Template:
    """What CloudFormation gets to see once SAM has expanded the template."""
    return translate(template)


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """One session for all tests: it reads the descriptions of the services once."""
    return boto3.Session(aws_access_key_id="testing", aws_secret_access_key="testing", region_name=REGION)


@pytest.fixture
def aws(session: boto3.Session) -> Iterator[boto3.Session]:
    """An empty account in moto."""
    with mock_aws():
        yield session


@pytest.fixture
def token_table(
    translated: Template, session: boto3.Session, monkeypatch: pytest.MonkeyPatch
) -> Iterator[DynamoDBStore]:
    """A store on a table with the keys, the index and the stream of the template, and nothing else of it."""
    properties = translated["Resources"]["TokenTable"]["Properties"]
    with mounted() as engine:
        client: Any = session.client("dynamodb")
        client.create_table(TableName="tokens", **{name: properties[name] for name in ACROSS})
        streams = PlayedStreams(engine, StoppedClock())
        streams.switch_on("tokens", with_table=True)
        monkeypatch.setattr(stream, "streams_client", lambda _table: streams)
        yield DynamoDBStore("tokens", client)


@pytest.fixture
def deployed(translated: Template, aws: boto3.Session) -> Deployed:
    """The stack with its default parameters."""
    return deploy(aws, translated, {})


def translate(template: Template) -> Template:
    """Expand *template* as SAM does, local code standing in S3 as it would after ``sam package``."""
    # Imported here: it takes a second, which workers without these tests need not spend.
    from samtranslator.parser.parser import Parser
    from samtranslator.translator.translator import Translator

    packaged = copy.deepcopy(template)
    packaged.setdefault("Globals", {}).setdefault("Function", {})["CodeUri"] = CODE
    for each in packaged["Resources"].values():
        for name in {"CodeUri", "ContentUri"} & each.get("Properties", {}).keys():
            each["Properties"][name] = CODE
    session = boto3.Session(region_name=REGION)
    translated: Template = Translator({}, Parser(), boto_session=session).translate(packaged, {})
    return translated


def deploy(
    session: boto3.Session, translated: Template, parameters: dict[str, str], name: str = "orders"
) -> Deployed:
    """Create the stack *name*, without the resources that moto does not know."""
    _upload(session)
    known = without_unknown(translated)
    cloudformation = session.client("cloudformation")
    with pytest.MonkeyPatch.context() as patch:
        # moto 5.2.5 reads JSON as YAML, in Python: that took longer than the rest of a test.
        patch.setattr("moto.cloudformation.models.Stack.parse_template", staticmethod(json.loads))
        cloudformation.create_stack(
            StackName=name,
            TemplateBody=json.dumps(known),
            Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in parameters.items()],
            Capabilities=["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"],
        )
    stack = cloudformation.describe_stacks(StackName=name)["Stacks"][0]
    resources = cloudformation.list_stack_resources(StackName=name)["StackResourceSummaries"]
    return Deployed(
        session=session,
        template=known,
        outputs={output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]},
        resources={
            resource["LogicalResourceId"]: resource["ResourceType"]
            for resource in resources
            if resource["ResourceType"]  # moto lists those whose condition is off, without a name
        },
    )


def without_unknown(translated: Template) -> Template:
    """Leave out what moto's CloudFormation does not take, and the outputs that speak of it."""
    known = copy.deepcopy(translated)
    for name, resource in translated["Resources"].items():
        if resource["Type"] in LEFT_OUT_TYPES or name in LEFT_OUT_FOR_THE_API:
            del known["Resources"][name]
    for name in LEFT_OUT_OUTPUTS:
        known["Outputs"].pop(name, None)
    return known


def _upload(session: boto3.Session) -> None:
    """Put the code of the functions where `translate` says that it is."""
    s3 = session.client("s3")
    if s3.list_buckets()["Buckets"]:
        return  # another stack's
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as code:
        code.writestr("orders/__init__.py", "")
    s3.create_bucket(Bucket="code", CreateBucketConfiguration={"LocationConstraint": REGION})
    s3.put_object(Bucket="code", Key="stack.zip", Body=archive.getvalue())
