"""
The played account with all that assertions invoke: the functions run here, on a DynamoDB that is one.

Lambda, SQS, SNS, the API and CloudWatch are played. What AWS decides is played as the package expects it; a
test changes one thing, and sees which assertion fails.
"""

from __future__ import annotations

import base64
import importlib
import io
import json
import logging
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import boto3
import pytest
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from lambda_once.core.clock import SystemClock
from lambda_once.core.tenant import TENANCY
from lambda_once.operations.watchdog import watchdog
from lambda_once.testing import crash_at, create_table, lambda_context, sns_event, sqs_event
from tests.aws.account import REGION, Answer, PlayedAccount
from tests.aws.play import Response
from tests.aws.stacks import PROBES, Aws, template
from tests.kit import iam
from tests.kit.recorded import ROOT

TOKENS, FACTS = "tokens", "facts"
CODE: Final = Path(__file__).with_name("code")
CREDENTIALS: Final = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_REGION": REGION,
}
SOURCES: Final = ("probe", "theirs")
SAMPLE: Final = ("payments", "notifications", "api")
LAST_MILLISECONDS: Final = 700
"""What remains of an invocation that will die."""


LONGEST: Final = 0.05
"""Seconds that a sleep takes."""


class Died(Exception):
    """The process of a function is gone."""


class Brisk(SystemClock):
    """Time for whoever waits goes faster: a sleep is a short one. Functions have the system's."""

    def __init__(self) -> None:
        self._skipped = timedelta(0)

    def now(self) -> datetime:
        return super().now() + self._skipped

    def sleep(self, seconds: float) -> None:
        super().sleep(min(seconds, LONGEST))
        self._skipped += timedelta(seconds=max(0.0, seconds - LONGEST))


class PlayedCloud(PlayedAccount):
    """An account whose functions run in this process, on the DynamoDB at *endpoint*."""

    def __init__(self, endpoint: str, patch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.outputs = {"TokenTableName": TOKENS, "FactsTable": FACTS, "OrdersApiUrl": "https://api.example"}
        self.clock = Brisk()  # type: ignore[assignment]
        self.aws = Aws(self.client, self.fresh, REGION, self.clock, self.said.append)
        self.log = io.StringIO()
        self.queues: dict[str, list[Answer]] = {"FailedEvents": [], "DeadLetters": []}
        self._endpoint = endpoint
        self._patch = patch
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        for service in ("DYNAMODB", "DYNAMODB_STREAMS"):
            patch.setenv(f"AWS_ENDPOINT_URL_{service}", endpoint)
        self._make_tables()
        self._load(patch)

    def close(self) -> None:
        """Drop what was made on the engine."""
        for table in (TOKENS, FACTS):
            self.client("dynamodb").delete_table(TableName=table)

    def _make_tables(self) -> None:
        client = self.fresh("dynamodb")
        create_table(client, TOKENS)
        client.update_table(
            TableName=TOKENS, StreamSpecification={"StreamEnabled": True, "StreamViewType": "KEYS_ONLY"}
        )
        client.create_table(
            TableName=FACTS,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        )

    def _load(self, patch: pytest.MonkeyPatch) -> None:
        """Import the functions, each with the variables of its stack, as new environments do."""
        of_all = {"LAMBDA_ONCE_TABLE": TOKENS, "LAMBDA_ONCE_LISTING": "stream", "FACTS_TABLE": FACTS}
        for name, value in {**of_all, "POWERTOOLS_METRICS_NAMESPACE": TOKENS}.items():
            patch.setenv(name, value)
        patch.setenv("POWERTOOLS_LOG_LEVEL", "INFO")
        patch.delenv("POWERTOOLS_METRICS_DISABLED", raising=False)
        patch.syspath_prepend(str(CODE))
        self._functions: dict[str, Any] = {}
        for service, names in (
            ("probes", SOURCES),
            ("orders", [f"examples.orders.{each}" for each in SAMPLE]),
        ):
            patch.setenv("POWERTOOLS_SERVICE_NAME", service)
            # Powertools' logger of this name would go on writing to where it was first made.
            patch.delitem(logging.root.manager.loggerDict, service, raising=False)
            for name in names:
                patch.delitem(sys.modules, name, raising=False)
                with redirect_stdout(self.log):
                    module = importlib.import_module(name)
                self._functions[name.rpartition(".")[2]] = module
        self.probe = self._functions["probe"]
        self.watch = watchdog(TOKENS, self.fresh("dynamodb"), grace=timedelta(0), listing="stream")

    def fresh(self, service: str) -> Any:
        if service not in ("dynamodb", "dynamodbstreams"):
            return super().fresh(service)
        config = Config(
            parameter_validation=False
        )  # dynoxide's shards have names that are too short for botocore
        return boto3.client(service, region_name=REGION, endpoint_url=self._endpoint, config=config)

    @staticmethod
    def http(params: Answer) -> AWSResponse:
        """Return what botocore takes for an answer from the network."""
        return AWSResponse(params["url"], 200, {}, None)

    @staticmethod
    def statements(params: Answer) -> int:
        """Return how many statements a request has."""
        return len(json.loads(params["body"])["Statements"])

    # -------------------------------------------------------------- Lambda

    def lambda_invoke(  # type: ignore[override]
        self,
        FunctionName: str,
        Payload: bytes,
        TenantId: str | None = None,
        InvocationType: str = "RequestResponse",
        LogType: str = "None",
    ) -> Answer:
        event, request_id = json.loads(Payload), str(uuid.uuid4())
        if InvocationType == "Event":
            self.asynchronously(event, request_id)
            return {"StatusCode": 202, "ResponseMetadata": {"HTTPStatusCode": 202, "RequestId": request_id}}
        answer: Answer = {"StatusCode": 200}
        if TenantId is not None:
            TENANCY.forget()  # a tenant has environments of its own
        try:
            payload = self.invoked(FunctionName, event, request_id, TenantId)
        except Died:
            payload, answer["FunctionError"] = {"errorType": "Runtime.ExitError"}, "Unhandled"
        if TenantId is not None:
            TENANCY.forget()
        report = "REPORT Init Duration: 300.00 ms Duration: 12.50 ms Billed Duration: 13 ms"
        return answer | {
            "Payload": io.BytesIO(json.dumps(payload).encode()),
            "LogResult": base64.b64encode(report.encode()).decode(),
        }

    def invoked(self, function: str, event: Answer, request_id: str, tenant: str | None = None) -> Any:
        """Return what *function* returns. Raises Died."""
        context = lambda_context("probes", request_id, tenant_id=tenant)
        dying = lambda_context("probes", request_id, LAST_MILLISECONDS)
        with self._environment():
            match function, event:
                case "Watchdog" | "WatchdogFunction", _:
                    return self.watch({}, lambda_context("watchdog"))
                case "Theirs", _:
                    return self._functions["theirs"].handler(event, context)
                case _, {"ask": "permissions"}:
                    with self.limited():
                        return self.probe.handler(event, context)
                case _, {"ends": "crash"}:
                    with crash_at("work"):
                        self.probe.handler({"id": event["id"]}, dying)
                    raise Died
                case _, {"ends": "timeout"}:
                    self._patch.setenv("ENDS_AT", str(self.ends_at()))
                    next(self.probe.beats(event["id"]))
                    raise Died
                case _:
                    pass
            return self.probe.handler(event, context)

    @contextmanager
    def _environment(self, service: str = "probes") -> Iterator[None]:
        """Run a block as a function of *service*, and keep what it logs."""
        self._patch.setenv("POWERTOOLS_SERVICE_NAME", service)
        with redirect_stdout(self.log):
            yield

    def ends_at(self) -> float:
        """Return when an invocation that times out ends, as its context says."""
        return SystemClock().now().timestamp() + 0.1

    @contextmanager
    def limited(self) -> Iterator[None]:
        """Let clients that are made in this block ask the role of probes.yaml."""
        (policy,) = template(PROBES)["Resources"]["Role"]["Properties"]["Policies"]
        table = {
            "Fn::Sub": "arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/${TokenTable}"
        }
        statements = [
            each | {"Resource": iam.ARN}
            for each in policy["PolicyDocument"]["Statement"]
            if each["Resource"] == table
        ]
        made = boto3.client

        def limited(*names: Any, **options: Any) -> Any:
            client = made(*names, **options)
            iam.limit(client, statements)
            return client

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.probe.boto3, "client", limited)
            yield

    def asynchronously(self, event: Answer, request_id: str) -> None:
        for _ in range(2):
            try:
                self.invoked("Probe", event, request_id)
            except RuntimeError:
                continue
            return
        context = {"requestId": request_id, "approximateInvokeCount": 2, "condition": "RetriesExhausted"}
        self.queues["FailedEvents"].append({"requestContext": context, "requestPayload": event})

    def lambda_get_function_configuration(self, FunctionName: str) -> Answer:
        return {"Environment": {"Variables": {}}, "LastUpdateStatus": "Successful"}

    def lambda_update_function_configuration(self, **_: Any) -> None:
        pass

    # -------------------------------------------------------------- SQS, SNS, the API

    def sqs_send_message(self, QueueUrl: str, MessageBody: str) -> Answer:
        self.arrived(QueueUrl, [json.loads(MessageBody)])
        return {"MessageId": str(uuid.uuid4())}

    def sqs_send_message_batch(self, QueueUrl: str, Entries: list[Answer]) -> Answer:
        self.arrived(QueueUrl, [json.loads(entry["MessageBody"]) for entry in Entries])
        return {"Successful": [], "Failed": []}

    def arrived(self, queue: str, bodies: list[Answer]) -> None:
        """Deliver messages; what fails comes back once, and then goes to the dead-letter queue."""
        if queue in self.queues:
            self.queues[queue] += bodies
            return
        for _ in range(2):
            event = sqs_event(*bodies, queue=queue)
            ids = [record["messageId"] for record in event["Records"]]
            failed = self.delivered(queue, event)
            bodies = [body for body, name in zip(bodies, ids, strict=True) if name in failed]
            if not bodies:
                return
        self.queues["DeadLetters"] += bodies

    def delivered(self, queue: str, event: Answer) -> set[str]:
        of_sample = queue == "PaymentsQueueUrl"
        function = self._functions["payments"] if of_sample else self.probe
        with self._environment("orders" if of_sample else "probes"):
            try:
                answer = function.charge(event, lambda_context("charge"))
            except Exception:  # noqa: BLE001  (of a batch that failed as a whole)
                return {record["messageId"] for record in event["Records"]}
        return {each["itemIdentifier"] for each in answer["batchItemFailures"]}

    def sqs_receive_message(self, QueueUrl: str, **_: Any) -> Answer:
        messages = [{"Body": json.dumps(body), "ReceiptHandle": "1"} for body in self.queues[QueueUrl][:10]]
        self.queues[QueueUrl] = self.queues[QueueUrl][10:]
        return {"Messages": messages} if messages else {}

    def sqs_delete_message(self, **_: Any) -> None:
        pass

    def sqs_start_message_move_task(self, SourceArn: str, DestinationArn: str) -> Answer:
        source = SourceArn.removesuffix("Arn")
        bodies, self.queues[source] = self.queues[source], []
        self.arrived(DestinationArn.removesuffix("Arn"), bodies)
        return {"TaskHandle": "1"}

    def sns_publish(self, TopicArn: str, Subject: str, Message: str) -> Answer:
        event = sns_event(Message)
        event["Records"][0]["Sns"]["Subject"] = Subject
        with self._environment("orders"):
            self._functions["notifications"].notify(event, lambda_context("notify"))
        return {"MessageId": str(uuid.uuid4())}

    def post(self, address: str, headers: dict[str, str], body: bytes) -> Response:
        event = json.loads((ROOT / "events" / "http-api-order.json").read_text())
        event |= {"rawPath": "/orders", "body": body.decode(), "isBase64Encoded": False, "headers": headers}
        with self._environment("orders"):
            answer = self._functions["api"].handler(event, lambda_context("api"))
        names = {name.lower(): value for name, value in answer.get("headers", {}).items()}
        return Response(answer["statusCode"], names, answer["body"])

    # -------------------------------------------------------------- CloudWatch

    def logs_filter_log_events(self, logGroupName: str, filterPattern: str) -> Answer:
        words = filterPattern.strip('"').split('" "')
        lines = self.log.getvalue().splitlines()
        return {"events": [{"message": line} for line in lines if all(word in line for word in words)]}

    def cloudwatch_list_metrics(self, Namespace: str, **_: Any) -> Answer:
        documents = [json.loads(line) for line in self.log.getvalue().splitlines() if '"_aws"' in line]
        names = {
            metric["Name"]
            for document in documents
            for directive in document["_aws"]["CloudWatchMetrics"]
            for metric in directive["Metrics"]
        }
        return {"Metrics": [{"Namespace": Namespace, "MetricName": name} for name in sorted(names)]}
