"""
An account, played: real clients of boto3 check what they are given, and this answers.

It has S3, log groups, CloudFormation with stacks that take their time, and what they leave in the account
until they are deleted. `played.py` adds what assertions invoke.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import boto3
from botocore import xform_name
from botocore.awsrequest import AWSResponse
from botocore.config import Config

from lambda_once.testing import FakeClock
from tests.aws.stacks import Aws

REGION: Final = "eu-central-1"
FOREIGN: Final = "somebody-elses"
"""A stack and a bucket that were there before."""
Answer = dict[str, Any]
Step = Callable[[str], None]


class Failed(Exception):
    """An error of AWS': its code and message."""

    def __init__(self, code: str, message: str = "as played") -> None:
        super().__init__(code)
        self.answer = {"Error": {"Code": code, "Message": message}}


class Clock(FakeClock):
    """Sleeping is a step, too."""

    def __init__(self, account: PlayedAccount) -> None:
        super().__init__()
        self._account = account

    def sleep(self, seconds: float) -> None:
        self._account.step("before sleep")
        super().sleep(seconds)


class PlayedAccount:
    """Answers the clients that `aws` has, and keeps what they make."""

    def __init__(self) -> None:
        self.step: Step = lambda _: None
        """Is told of each request twice: before it is done, and before its answer arrives."""
        self.said: list[str] = []
        self.buckets: dict[str, dict[str, bytes]] = {FOREIGN: {"key": b"theirs"}}
        self.stacks: dict[str, dict[str, Any]] = {FOREIGN: {"StackStatus": "CREATE_COMPLETE", "left": 0}}
        self.groups: set[str] = {FOREIGN}
        self.region_of_buckets = REGION
        self.outputs: dict[str, str] = {}
        """What outputs of templates are, where it isn't their own name."""
        self.undeletable: set[str] = set()
        self.late: list[Callable[[], None]] = []
        """Requests that were cut off, and arrive with the next sleep."""
        self._clients: dict[str, Any] = {}
        self.clock = Clock(self)
        self.aws = Aws(self.client, self.fresh, REGION, self.clock, self.said.append)

    @property
    def ours(self) -> dict[str, list[str]]:
        """What is there beside what was there before."""
        return {
            kind: [name for name in there if name != FOREIGN]
            for kind, there in (("buckets", self.buckets), ("stacks", self.stacks), ("groups", self.groups))
            if set(there) - {FOREIGN}
        }

    def client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.fresh(service)
        return self._clients[service]

    def fresh(self, service: str) -> Any:
        config = Config(retries={"total_max_attempts": 1})
        client = _session().client(service, config=config)  # type: ignore[call-overload,unused-ignore]
        client.meta.events.register("before-parameter-build", _remember)
        client.meta.events.register("before-call", self._answered)
        return client

    def _answered(self, model: Any, params: Any, context: Any, **_: Any) -> tuple[AWSResponse, Answer]:
        service, operation = model.service_model.service_name, xform_name(model.name)
        self.step(f"before {service} {operation}")
        status, answer = 200, Answer()
        try:
            answer = getattr(self, f"{service}_{operation}".replace("-", "_"))(**context["arguments"]) or {}
        except Failed as error:
            status, answer = 400, dict(error.answer)
        self.step(f"after {service} {operation}")
        answer.setdefault(
            "ResponseMetadata", {"HTTPStatusCode": status, "RequestId": "played", "HTTPHeaders": {}}
        )
        return AWSResponse(params["url"], status, {}, None), answer

    # -------------------------------------------------------------- S3

    def s3_create_bucket(self, Bucket: str, **_: Any) -> None:
        self.buckets[Bucket] = {}

    def s3_put_object(self, Bucket: str, Key: str, Body: bytes, **_: Any) -> None:
        self._bucket(Bucket)[Key] = Body

    def s3_list_objects_v2(self, Bucket: str, **_: Any) -> Answer:
        return {"Contents": [{"Key": key} for key in list(self._bucket(Bucket))[:1]]}  # a page has one

    def s3_head_bucket(self, Bucket: str) -> Answer:
        if Bucket not in self.buckets:
            raise Failed("404")  # the answer to HEAD has no body that could say more
        return {"BucketRegion": self.region_of_buckets}

    def s3_delete_object(self, Bucket: str, Key: str) -> None:
        self._bucket(Bucket).pop(Key)

    def s3_delete_bucket(self, Bucket: str, **_: Any) -> None:
        if self._bucket(Bucket):
            raise Failed("BucketNotEmpty")
        del self.buckets[Bucket]

    def _bucket(self, name: str) -> dict[str, bytes]:
        if name not in self.buckets:
            raise Failed("NoSuchBucket")
        return self.buckets[name]

    # -------------------------------------------------------------- CloudFormation

    def cloudformation_create_stack(
        self, StackName: str, TemplateBody: str, Parameters: Any, **_: Any
    ) -> None:
        template = json.loads(TemplateBody)
        given = {each["ParameterKey"] for each in Parameters}
        if unknown := given - template["Parameters"].keys():
            raise Failed("ValidationError", f"Parameters: {unknown} do not exist in the template")
        missing = {name for name, each in template["Parameters"].items() if "Default" not in each} - given
        if missing:
            raise Failed("ValidationError", f"Parameters: {missing} must have values")
        outputs = [
            {"OutputKey": name, "OutputValue": self.outputs.get(name, name)} for name in template["Outputs"]
        ]
        self.stacks[StackName] = {"StackStatus": "CREATE_IN_PROGRESS", "left": 2, "Outputs": outputs}

    def cloudformation_describe_stacks(self, StackName: str) -> Answer:
        if StackName not in self.stacks:
            raise Failed("ValidationError", f"Stack with id {StackName} does not exist")
        stack = self.stacks[StackName]
        stack["left"] -= 1
        if stack["left"] <= 0 and stack["StackStatus"] == "CREATE_IN_PROGRESS":
            stack["StackStatus"] = "CREATE_COMPLETE"
        if stack["left"] <= 0 and stack["StackStatus"] == "DELETE_IN_PROGRESS":
            if StackName in self.undeletable:
                stack["StackStatus"] = "DELETE_FAILED"
            else:
                del self.stacks[StackName]
        return {"Stacks": [{"StackName": StackName, **stack}]}

    def cloudformation_describe_stack_resource(self, StackName: str, LogicalResourceId: str) -> Answer:
        return {"StackResourceDetail": {"PhysicalResourceId": LogicalResourceId}}

    def cloudformation_describe_stack_events(self, StackName: str) -> Answer:
        reason = {"LogicalResourceId": "TokenTable", "ResourceStatusReason": "it is protected"}
        return {"StackEvents": [{"ResourceStatus": "DELETE_FAILED", **reason}]}

    def cloudformation_delete_stack(self, StackName: str) -> None:
        if StackName in self.stacks:
            self.stacks[StackName] |= {"StackStatus": "DELETE_IN_PROGRESS", "left": 2}

    # -------------------------------------------------------------- the others

    def sts_get_caller_identity(self) -> Answer:
        return {"Account": "123456789012"}

    def lambda_invoke(self, **_: Any) -> Answer:
        return {"StatusCode": 200, "Payload": io.BytesIO(b'{"run": "1"}')}

    def logs_describe_log_groups(self, logGroupNamePrefix: str) -> Answer:
        there = sorted(name for name in self.groups if name.startswith(logGroupNamePrefix))
        return {"logGroups": [{"logGroupName": name} for name in there]}

    def logs_delete_log_group(self, logGroupName: str) -> None:
        self.groups.remove(logGroupName)


@cache
def _session() -> boto3.Session:
    """Return one session for all accounts: it reads the descriptions of the services once."""
    return boto3.Session("testing", "testing", region_name=REGION)


def _remember(params: dict[str, Any], context: dict[str, Any], **_: Any) -> None:
    context["arguments"] = params
