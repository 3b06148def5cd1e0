"""
What a run makes in an account, and how all of it is deleted again.

All that is made has the run's name: a bucket NAME with the code, the sample's stack NAME, the stack
NAME-probes, and log groups NAME-…. So deleting needs nothing but the name: no answer of AWS' that an
interruption could lose, and no file. `delete` may be called for what was never made, twice, after any step.
"""

from __future__ import annotations

import copy
import json
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from botocore.exceptions import ClientError

from lambda_once.core.clock import Clock

ROOT: Final = Path(__file__).parents[2]
SAMPLE: Final = ROOT / "template.yaml"
PROBES: Final = Path(__file__).with_name("probes.yaml")
CAPABILITIES: Final = ["CAPABILITY_IAM", "CAPABILITY_AUTO_EXPAND"]
EVERY: Final = 5.0
"""Seconds between two looks at a stack."""
LOOKS: Final = 240
"""How often a stack is looked at: for 20 minutes. One of these takes some three."""
ROUNDS: Final = 4
"""How often what is still there is deleted: a request that was cut off may arrive after its deletion."""
DEFAULT_REGION: Final = "us-east-1"
"""Where S3 wants no LocationConstraint (API reference, CreateBucket)."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Aws(NamedTuple):
    """An account and region, the clock, and where to talk."""

    client: Callable[[str], Any]
    """Returns boto3's client of a service, always the same."""
    fresh: Callable[[str], Any]
    """Returns one of its own."""
    region: str
    clock: Clock
    say: Callable[[str], None]


class StackFailed(Exception):
    """A stack was not created or deleted; the message has CloudFormation's reasons."""


class LeftBehind(Exception):
    """Something could not be deleted: the message says what, why, and how to delete it later."""


class Deletion(NamedTuple):
    """What a deletion met."""

    found: list[str]
    """What was there."""
    left: list[str]
    """What is there still, and why."""


class Interrupts:
    """
    The first signal raises KeyboardInterrupt, as Ctrl-C does; later ones, and all after `disarm`, do nothing.

    So what is being deleted is deleted to its end.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._armed = True

    def install(self) -> None:
        for each in SIGNALS:
            if signal.getsignal(each) is not signal.SIG_IGN:  # nohup's
                signal.signal(each, self._arrived)

    def disarm(self) -> None:
        self._armed = False

    def _arrived(self, number: int, _: object) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt(signal.Signals(number).name)
        self._say("still deleting: wait, or something is left behind")


def borrow(
    aws: Aws,
    name: str,
    deploy: Callable[[], dict[str, str]],
    use: Callable[[dict[str, str]], None],
    stop: Interrupts,
) -> None:
    """
    *deploy* as *name*, *use* the outputs, and delete everything, whatever happens.

    Raises what they raise; and LeftBehind, if something could not be deleted.
    """
    # No context manager: between its block and its exit a signal would find nobody who deletes.
    try:
        try:
            use(deploy())
        finally:
            stop.disarm()
    finally:
        aws.say("deleting everything")
        left = delete(aws, name).left
        if left:
            raise LeftBehind(
                f"left behind: {'; '.join(left)}\nDelete it later: make aws DELETE={name} REGION={aws.region}"
            )
        aws.say("deleted")


# ------------------------------------------------------------------ deploying


def deploy(aws: Aws, name: str, archives: Mapping[str, bytes], settings: Mapping[str, str]) -> dict[str, str]:
    """
    Deploy the sample and the probes as *name*, and return their outputs.

    *archives* are the zips, by their key in the bucket; *settings* parameters of both templates.
    Raises StackFailed, ClientError or BotoCoreError.
    """
    upload(aws, name, archives)
    aws.say(f"creating the stack {name}, the sample")
    of_sample = {"MetricsNamespace": name, "TableDeletionPolicy": "Delete"}
    sample = create_stack(aws, name, sample_in(name), {**settings, **of_sample})
    watchdog = aws.client("cloudformation").describe_stack_resource(
        StackName=name, LogicalResourceId="WatchdogFunction"
    )
    sample |= {"Watchdog": watchdog["StackResourceDetail"]["PhysicalResourceId"], "Namespace": name}
    aws.say(f"creating the stack {name}-probes, the functions that are invoked")
    of_probes = {"Bucket": name, "TokenTable": sample["TokenTableName"]}
    return sample | create_stack(aws, f"{name}-probes", template(PROBES), {**settings, **of_probes})


def template(path: Path) -> dict[str, Any]:
    """Return the template at *path*, short tags spelled out, anchors resolved: CloudFormation knows none."""
    return copy.deepcopy(_parsed(path))


@cache
def _parsed(path: Path) -> dict[str, Any]:
    from samtranslator.yaml_helper import yaml_parse  # it takes a second

    parsed: dict[str, Any] = yaml_parse(path.read_text(encoding="utf-8"))
    return parsed


def sample_in(bucket: str) -> dict[str, Any]:
    """Return template.yaml with its code in *bucket*, as `sam deploy` has it."""
    sample = template(SAMPLE)
    sample["Globals"]["Function"]["CodeUri"] = f"s3://{bucket}/sample.zip"
    layer = sample["Resources"]["LambdaOnceLayer"]
    layer["Properties"]["ContentUri"] = f"s3://{bucket}/layer.zip"
    del layer["Metadata"]  # of sam build
    return sample


def upload(aws: Aws, bucket: str, archives: Mapping[str, bytes]) -> None:
    """Make the bucket, and put *archives* into it."""
    aws.say(f"creating the bucket {bucket}, with {sum(map(len, archives.values())) / 1e6:.1f} MB of code")
    s3 = aws.client("s3")
    elsewhere = {"CreateBucketConfiguration": {"LocationConstraint": aws.region}}
    with suppress(s3.exceptions.BucketAlreadyOwnedByYou):  # the request was sent again, and had arrived
        s3.create_bucket(Bucket=bucket, **({} if aws.region == DEFAULT_REGION else elsewhere))
    for key, archive in archives.items():
        s3.put_object(Bucket=bucket, Key=key, Body=archive)


def create_stack(aws: Aws, stack: str, body: dict[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Create *stack*, wait for it, and return its outputs."""
    aws.client("cloudformation").create_stack(
        StackName=stack,
        TemplateBody=json.dumps(body),
        Parameters=[{"ParameterKey": key, "ParameterValue": value} for key, value in given.items()],
        Capabilities=CAPABILITIES,
        OnFailure="DO_NOTHING",  # `delete` does, and until then the events say why
        ClientRequestToken=stack,  # sent again, it is no second one
        Tags=[{"Key": "made-by", "Value": "lambda-once make aws"}],
    )
    created = _ended(aws, stack)
    if created is None or created["StackStatus"] != "CREATE_COMPLETE":
        raise StackFailed(f"{stack} was not created: {_reasons(aws, stack)}")
    return {each["OutputKey"]: each["OutputValue"] for each in created["Outputs"]}


# ------------------------------------------------------------------ deleting


def delete(aws: Aws, name: str) -> Deletion:
    """
    Delete all that a run called *name* may have made. Whatever fails, the other things are deleted.

    It looks again after some seconds: a request that was cut off may still have arrived.
    """
    steps: dict[str, Callable[[], bool]] = {
        f"stack {name}-probes": partial(delete_stack, aws, f"{name}-probes"),
        f"stack {name}": partial(delete_stack, aws, name),
        f"bucket {name}": partial(delete_bucket, aws, name),
        f"log groups of {name}": partial(delete_log_groups, aws, name),
    }
    found: dict[str, None] = {}
    left: list[str] = []
    for turn in range(ROUNDS):
        met, left = False, []
        for what, step in steps.items():
            try:
                was_there = step()
            except Exception as error:  # noqa: BLE001  (the steps that follow are still made, and it is named)
                was_there = True
                left.append(f"{what} ({error})")
            if was_there:
                met, found[what] = True, None
        if turn and not met:
            break
        aws.clock.sleep(EVERY)
    return Deletion([*found], left)


def delete_stack(aws: Aws, stack: str) -> bool:
    """Delete *stack* and wait until it is gone. Returns whether there was one. Raises StackFailed."""
    if _looked_at(aws, stack) is None:
        return False
    aws.client("cloudformation").delete_stack(StackName=stack)
    if _ended(aws, stack) is not None:
        raise StackFailed(_reasons(aws, stack))
    return True


def delete_bucket(aws: Aws, bucket: str) -> bool:
    """Delete *bucket* with all that is in it. Returns whether there was one."""
    s3 = aws.client("s3")
    try:
        # S3 deletes a bucket of any region: one from elsewhere says that its stacks are there, too.
        region = s3.head_bucket(Bucket=bucket)["BucketRegion"]
        if region != aws.region:
            raise LeftBehind(f"it is in {region}, and so is all else: REGION={region}")
        while keys := [each["Key"] for each in s3.list_objects_v2(Bucket=bucket).get("Contents", [])]:
            for key in keys:
                s3.delete_object(Bucket=bucket, Key=key)  # DeleteObjects raises for none of its refusals
        s3.delete_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] in ("404", "NoSuchBucket"):
            return False
        raise
    return True


def delete_log_groups(aws: Aws, name: str) -> bool:
    """
    Delete log groups of a run called *name* that are there again. Returns whether there were any.

    The last lines of a function may arrive after CloudFormation has deleted its group. Its role may make
    groups (AWSLambdaBasicExecutionRole), and so it's there again, for ever.
    """
    logs = aws.client("logs")
    groups = [
        group["logGroupName"]
        for page in logs.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=f"{name}-")
        for group in page["logGroups"]
    ]
    for group in groups:
        logs.delete_log_group(logGroupName=group)
    return bool(groups)


def _looked_at(aws: Aws, stack: str) -> dict[str, Any] | None:
    """Describe *stack*; None if there is none."""
    try:
        (described,) = aws.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        if error.response["Error"]["Code"] == "ValidationError" and "does not exist" in str(error):
            return None
        raise
    return None if described["StackStatus"] == "DELETE_COMPLETE" else dict(described)


def _ended(aws: Aws, stack: str) -> dict[str, Any] | None:
    """Wait until nothing happens to *stack* any more, and describe it; None if there is none any more."""
    for _ in range(LOOKS):
        described = _looked_at(aws, stack)
        if described is None or not described["StackStatus"].endswith("_IN_PROGRESS"):
            return described
        aws.clock.sleep(EVERY)
    raise StackFailed(f"{stack} has taken {LOOKS * EVERY / 60:.0f} minutes")


def _reasons(aws: Aws, stack: str) -> str:
    """Return what CloudFormation says went wrong with *stack*."""
    events = aws.client("cloudformation").describe_stack_events(StackName=stack)["StackEvents"]
    failed = [each for each in events if each.get("ResourceStatus", "").endswith("_FAILED")]
    return (
        "; ".join(
            f"{each['LogicalResourceId']}: {each.get('ResourceStatusReason', each['ResourceStatus'])}"
            for each in failed
        )
        or "CloudFormation gives no reason"
    )
