"""An account with one function, its queue and its table: moto's, or real engines for tables and queues."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

from lambda_once.core.clock import Clock, SystemClock
from lambda_once.testing import create_table
from lambda_once_tools.check import policies
from lambda_once_tools.check.account import Heard, read_account
from lambda_once_tools.check.deployment import Deployment

REGION = "eu-central-1"
ACCOUNT = "123456789012"
FUNCTION, ROLE, QUEUE, DEAD, TABLE = "payments", "payments-role", "payments-queue", "payments-dead", "tokens"
VARIABLES = {"LAMBDA_ONCE_TABLE": TABLE, "POWERTOOLS_SERVICE_NAME": "shop"}
TRUST = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}

Statement = Mapping[str, Any]


def arn(service: str, resource: str, region: str = REGION) -> str:
    """Return the ARN of one of the account's resources."""
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{resource}"


def document(*statements: Statement) -> str:
    """Return a policy document."""
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


class Account:
    """What is deployed, by the clients of its services; *endpoints* are those of real engines."""

    def __init__(self, endpoints: Mapping[str, str] | None = None) -> None:
        self.endpoints = dict(endpoints or {})
        self.calls: list[str] = []
        """Actions that were asked for, in their order."""
        self._may: Sequence[Statement] = (ANYTHING,)
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """Return the client of *service* that the reader gets; requests are noted, and limited to `may`."""
        if service not in self._clients:
            made = self.own(service, self.endpoints.get(service))
            made.meta.events.register(f"before-parameter-build.{service}", self._ask)
            self._clients[service] = made
        return self._clients[service]

    def own(self, service: str, endpoint: str | None = None) -> Any:
        """Return a client that is neither noted nor limited."""
        config = Config(retries={"total_max_attempts": 1})
        return boto3.client(service, region_name=REGION, endpoint_url=endpoint, config=config)

    def may(self, *statements: Statement) -> None:
        """Limit whoever reads to *statements*."""
        self._may = statements

    def may_not(self, *actions: str) -> None:
        """Deny *actions*."""
        self.may(ANYTHING, {"Effect": "Deny", "Action": list(actions), "Resource": "*"})

    def _ask(self, params: Mapping[str, Any], model: Any, **_: Any) -> None:
        action = f"{model.service_model.service_name}:{model.name}"
        self.calls.append(action)
        given = policies.statements({"Statement": list(self._may)})
        if policies.permits(given, action, _resource(model.name, params)) is not True:
            error = {
                "Code": "AccessDeniedException",
                "Message": f"User: op is not authorized to perform: {action}",
            }
            raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 403}}, model.name)

    def role(self, *inline: Statement, managed: Sequence[Statement] = (), name: str = ROLE) -> str:
        """Make a role with an inline policy, and a managed one, of these statements; return its ARN."""
        iam = self.own("iam")
        role: str = iam.create_role(RoleName=name, Path="/shop/", AssumeRolePolicyDocument=document(TRUST))[
            "Role"
        ]["Arn"]
        iam.put_role_policy(
            RoleName=name, PolicyName="inline", PolicyDocument=document(*(inline or [ANYTHING]))
        )
        if managed:
            made = iam.create_policy(PolicyName=f"{name}-policy", PolicyDocument=document(*managed))[
                "Policy"
            ]["Arn"]
            iam.attach_role_policy(RoleName=name, PolicyArn=made)
        return role

    def function(self, name: str = FUNCTION, role: str | None = None, **given: Any) -> str:
        """Deploy a function; return its name."""
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w") as code:
            code.writestr("app.py", "")
        configuration = {
            "Timeout": 30,
            "Environment": {"Variables": VARIABLES},
            "Handler": "app.handler",
        } | given
        self.own("lambda").create_function(
            FunctionName=name,
            Runtime="python3.12",
            Role=role or self.role(),
            Code={"ZipFile": data.getvalue()},
            **configuration,
        )
        return name

    def queue(self, name: str = QUEUE, dead: str | None = None, **attributes: str) -> str:
        """Make a queue where queues are, and in moto, whose mappings need one; return its ARN."""
        for endpoint in {None, self.endpoints.get("sqs")}:
            given = dict(attributes)
            if dead is not None:
                target = (
                    arn("sqs", dead) if endpoint is None else f"arn:aws:sqs:elasticmq:000000000000:{dead}"
                )
                given["RedrivePolicy"] = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 5})
            self.own("sqs", endpoint).create_queue(QueueName=name, Attributes=given)
        return arn("sqs", name)

    def mapping(self, source: str, function: str = FUNCTION, **given: Any) -> None:
        """Map *source* to *function*."""
        self.own("lambda").create_event_source_mapping(FunctionName=function, EventSourceArn=source, **given)

    def table(self, name: str = TABLE, *, status_index: bool = True) -> Any:
        """Make a token table; return a client of its engine."""
        client = self.own("dynamodb", self.endpoints.get("dynamodb"))
        create_table(client, name, status_index=status_index)
        return client

    def whole(self) -> None:
        """Deploy one function with a healthy queue and table."""
        self.table()
        self.queue(DEAD, MessageRetentionPeriod="1209600")
        self.queue(QUEUE, DEAD, VisibilityTimeout="180")
        self.function(role=self.role(*TOKENS[:1], managed=TOKENS[1:]))
        self.mapping(arn("sqs", QUEUE), BatchSize=10, FunctionResponseTypes=["ReportBatchItemFailures"])

    def watchdog(self, rule: str | None = None, schedule: str | None = None) -> str:
        """Deploy a watchdog with a rule and a schedule in these states; return its name."""
        role = self.role(*WATCHING, name="watchdog-role")
        name = self.function("watchdog", role, Handler="lambda_once.operations.watchdog.handler")
        target = {"Id": "dog", "Arn": arn("lambda", f"function:{name}")}
        if rule is not None:
            events = self.own("events")
            events.put_rule(Name="often", ScheduleExpression="rate(5 minutes)", State=rule)
            events.put_targets(Rule="often", Targets=[target])
        if schedule is not None:
            self.own("scheduler").create_schedule(
                Name="often",
                ScheduleExpression="rate(5 minutes)",
                FlexibleTimeWindow={"Mode": "OFF"},
                State=schedule,
                Target={"Arn": target["Arn"], "RoleArn": arn("iam", "role/scheduler", "")},
            )
        return name

    def read(
        self,
        *functions: str,
        tables: Sequence[str] = (),
        clock: Clock | None = None,
        heard: Heard | None = None,
        client: Callable[[str], Any] | None = None,
    ) -> Deployment:
        """Read *functions* and *tables*."""
        return read_account(client or self.client, functions, tables, clock or SystemClock(), heard)


TOKENS: tuple[Statement, ...] = (
    {
        "Effect": "Allow",
        "Action": [
            f"dynamodb:{each}"
            for each in ("GetItem", "UpdateItem", "BatchGetItem", "PartiQLInsert", "PartiQLUpdate")
        ],
        "Resource": arn("dynamodb", f"table/{TABLE}"),
    },
    {
        "Effect": "Allow",
        "Action": "dynamodb:BatchWriteItem",
        "Resource": arn("dynamodb", f"table/{TABLE}"),
        "Condition": {
            "ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["*#*#*"]},
            "Null": {"dynamodb:LeadingKeys": "false"},
        },
    },
    {
        "Effect": "Allow",
        "Action": ["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"],
        "Resource": "*",
    },
)
"""What a function may do that has the policies of the pages."""
WATCHING: tuple[Statement, ...] = (
    {"Effect": "Allow", "Action": "dynamodb:Query", "Resource": arn("dynamodb", f"table/{TABLE}/index/*")},
    {
        "Effect": "Allow",
        "Action": [f"dynamodb:{each}" for each in ("GetItem", "BatchGetItem", "UpdateItem")],
        "Resource": arn("dynamodb", f"table/{TABLE}"),
    },
)
"""What the watchdog may do."""


def _resource(operation: str, params: Mapping[str, Any]) -> str:
    """Return the ARN that IAM evaluates for a request (service authorization reference)."""
    match operation:
        case "GetFunctionConfiguration" | "GetFunctionConcurrency":
            return arn("lambda", f"function:{params['FunctionName']}")
        case "ListRolePolicies" | "GetRolePolicy" | "ListAttachedRolePolicies":
            return arn("iam", f"role/shop/{params['RoleName']}", "")
        case "GetPolicy" | "GetPolicyVersion":
            return str(params["PolicyArn"])
        case "GetQueueUrl":
            return arn("sqs", params["QueueName"])
        case "DescribeRule":
            return arn("events", f"rule/{params['Name']}")
        case "GetQueueAttributes" | "ListDeadLetterSourceQueues":
            return arn("sqs", params["QueueUrl"].rpartition("/")[2])
        case "GetResourcePolicy":
            return str(params["ResourceArn"])
        case "DescribeTable" | "DescribeTimeToLive" | "DescribeContinuousBackups":
            return arn("dynamodb", f"table/{params['TableName']}")
        case _:
            return "*"


@contextmanager
def account(endpoints: Mapping[str, str] | None = None) -> Iterator[Account]:
    """Open an empty account."""
    with mock_aws():
        yield Account(endpoints)
