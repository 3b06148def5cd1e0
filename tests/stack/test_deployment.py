"""The translated template deploys, and what comes out is what the code expects."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import boto3
import pytest

from lambda_once.core.clock import Deadline
from lambda_once.core.lifecycle import Record, State
from lambda_once.core.writes import Acquire, Unclaimed
from lambda_once.dynamodb.client import new_client
from lambda_once.stores.contract import Won
from lambda_once.stores.store import DynamoDBStore

from .conftest import (
    LEFT_OUT_FOR_THE_API,
    LEFT_OUT_TYPES,
    NOW,
    OFF_BY_DEFAULT,
    REGION,
    Deployed,
    StoppedClock,
    Template,
    deploy,
)

LOCAL = "http://host.docker.internal:8000"


def test_everything_that_moto_knows_is_deployed(deployed: Deployed, translated: Template) -> None:
    """Table, queues, topic, functions, mappings, roles, policies and rule are created; the rest is named."""
    missing = translated["Resources"].keys() - deployed.resources.keys()
    assert deployed.resources == {
        name: resource["Type"]
        for name, resource in deployed.template["Resources"].items()
        if name not in OFF_BY_DEFAULT
    }
    assert {
        translated["Resources"][name]["Type"] for name in missing - LEFT_OUT_FOR_THE_API - OFF_BY_DEFAULT
    } == LEFT_OUT_TYPES


def test_the_table_has_the_keys_and_the_index_of_the_code(deployed: Deployed) -> None:
    """The table's key is lockToken, and byStatus lists unfinished tokens by the end of their lease."""
    table = deployed.client("dynamodb").describe_table(TableName=deployed.outputs["TokenTableName"])["Table"]
    assert table["KeySchema"] == [{"AttributeName": "lockToken", "KeyType": "HASH"}]
    (index,) = table["GlobalSecondaryIndexes"]
    assert index["IndexName"] == "byStatus"
    assert index["KeySchema"] == [
        {"AttributeName": "listed", "KeyType": "HASH"},
        {"AttributeName": "expectedCompletion", "KeyType": "RANGE"},
    ]
    assert set(index["Projection"]["NonKeyAttributes"]) == {"lockedBy", "created", "attempt"}
    assert {entry["AttributeType"] for entry in table["AttributeDefinitions"]} == {"S"}


def test_the_store_works_on_the_deployed_table(deployed: Deployed) -> None:
    """A token acquired in the deployed table is listed from its index with all that an operator sees."""
    store = DynamoDBStore(deployed.outputs["TokenTableName"], deployed.client("dynamodb"))
    deadline = Deadline(StoppedClock(), NOW + timedelta(seconds=30))
    lease = NOW + timedelta(seconds=32)
    acquisition = Acquire(
        "orders/charge/pay_1", "a1", "payments/r1", NOW, lease, Unclaimed(take_over=True), ttl=None
    )
    (answer,) = store.acquire([acquisition], deadline)
    assert isinstance(answer, Won)
    listed = list(store.unfinished(State.IN_PROGRESS, deadline))
    assert listed == [Record("orders/charge/pay_1", State.IN_PROGRESS, "a1", 0, "payments/r1", NOW, lease)]


def test_queues_feed_their_functions(deployed: Deployed) -> None:
    """Each queue is mapped to its function, and single failures are reported."""
    listed = deployed.client("cloudformation").list_stack_resources(StackName="orders")
    logical = {
        resource["PhysicalResourceId"].rpartition("/")[2]: resource["LogicalResourceId"]
        for resource in listed["StackResourceSummaries"]
        if resource["ResourceType"] in ("AWS::SQS::Queue", "AWS::Lambda::Function")
    }
    found = deployed.client("lambda").list_event_source_mappings()["EventSourceMappings"]
    mappings = [mapping for mapping in found if ":sqs:" in mapping["EventSourceArn"]]
    ends = {
        tuple(logical[mapping[end].rpartition(":")[2]] for end in ("EventSourceArn", "FunctionArn"))
        for mapping in mappings
    }
    assert {queue.removesuffix("Queue") for queue, _ in ends} >= {"Payments", "Fulfilment", "Receipts"}
    assert [ends for queue, name in ends if queue != name.removesuffix("Function") + "Queue"] == []
    assert all(mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"] for mapping in mappings)


def variables(stack: Deployed) -> list[dict[str, Any]]:
    """Return the environment of each function, the watchdog's too."""
    functions = stack.client("lambda").list_functions()["Functions"]
    return [function["Environment"]["Variables"] for function in functions]


def test_functions_have_their_table_and_endpoint(aws: boto3.Session, translated: Template) -> None:
    """All have the table that was created; botocore's own variable has the endpoint."""
    cloud = deploy(aws, translated, {})
    assert len(variables(cloud)) > 5
    for each in variables(cloud):
        assert each["LAMBDA_ONCE_TABLE"] == cloud.outputs["TokenTableName"]
        assert each.get("AWS_ENDPOINT_URL_DYNAMODB", "") == ""


def test_functions_have_a_local_endpoint(aws: boto3.Session, translated: Template) -> None:
    """All that sam local runs: the watchdog's code is inline."""
    local = deploy(aws, translated, {"DynamoDBEndpoint": LOCAL, "TableDeletionPolicy": "Delete"})
    elsewhere = [each for each in variables(local) if each.get("AWS_ENDPOINT_URL_DYNAMODB") != LOCAL]
    assert ["LAMBDA_ONCE_WATCHDOG_RELEASE" in each for each in elsewhere] == [True]


@pytest.mark.parametrize(
    ("given", "reached"), [("", f"https://dynamodb.{REGION}.amazonaws.com"), (LOCAL, LOCAL)]
)
def test_an_empty_endpoint_is_the_cloud(monkeypatch: pytest.MonkeyPatch, given: str, reached: str) -> None:
    """The store's client goes to AWS with the variable empty, and to the endpoint that it names."""
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", given)
    assert new_client().meta.endpoint_url == reached
