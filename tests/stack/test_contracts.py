"""Contracts: what the sample's functions may do, and how those on their stream are set up."""

from __future__ import annotations

import copy
import json
from typing import Any

import boto3
import pytest

from examples.orders import announcements, contracts
from lambda_once.patterns.documents import Documents
from lambda_once.patterns.documents import stream as document_stream
from lambda_once.testing import FakeClock, lambda_context
from tests.kit.recorded import load

from .conftest import Deployed, Template, deploy
from .named import of_type
from .test_permissions import allowed, noted

CLAUSES = [f"{number}. {'The parties agree. ' * 20}" for number in range(3_000)]
"""A contract of more than a megabyte."""


class Office:
    """The deployed table, the sample's function on it, and what its calls need permission for."""

    def __init__(self, deployed: Deployed, monkeypatch: pytest.MonkeyPatch) -> None:
        self.client = deployed.client("dynamodb")
        self.documents = Documents(deployed.outputs["ContractsTableName"], self.client, clock=FakeClock())
        monkeypatch.setattr(contracts, "CONTRACTS", self.documents)
        self.calls = noted(self.client)

    def ask(self, event: dict[str, Any]) -> dict[str, Any]:
        return contracts.handler(event, lambda_context())


@pytest.fixture
def office(aws: boto3.Session, translated: Template, monkeypatch: pytest.MonkeyPatch) -> Office:
    """
    The sample's function on the deployed table.

    Without the stream's mappings: moto 5.2.5 would run their functions in Docker at every change.
    """
    unmapped = copy.deepcopy(translated)
    for function in ("ContractsCleaner", "ContractsAnnouncer"):
        del unmapped["Resources"][f"{function}Written"]
    return Office(deploy(aws, unmapped, {}), monkeypatch)


def amended(version: str) -> dict[str, Any]:
    """Return the event that puts a large contract in the place of *version*."""
    event: dict[str, Any] = load("direct-contract")
    event["contract"]["clauses"] = CLAUSES
    return event | {"expectedVersion": version}


def test_functions_may_do_what_they_do(office: Office, translated: Template) -> None:
    """The actions allowed to each are those of its calls; the cleaner's policy has its stream besides."""
    first = office.ask(load("direct-contract"))
    office.ask(amended(first["version"]))
    office.ask(load("direct-contract-read"))
    office.ask({"action": "delete", "contractId": "contract_7"})
    assert office.calls == allowed(translated, "ContractsFunctionRole")
    office.documents.write("contract_8", b"1")
    office.documents.write("contract_8", b"2")
    office.calls.clear()
    office.documents.clean("contract_8")
    assert office.calls == allowed(translated, "ContractsCleanerRole") - {"sqs:SendMessage"}


def test_the_template_sets_the_cleaner_up(translated: Template) -> None:
    """Its mapping takes written heads alone, reports single failures, and keeps what failed for good."""
    mappings = of_type(translated, "AWS::Lambda::EventSourceMapping").values()
    (mapping,) = [each for each in mappings if each["FunctionName"] == {"Ref": "ContractsCleaner"}]
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"]
    (pattern,) = [json.loads(each["Pattern"]) for each in mapping["FilterCriteria"]["Filters"]]
    assert pattern == {
        "eventName": ["INSERT", "MODIFY"],
        "dynamodb": {"Keys": {"sk": {"S": ["head"]}}},
    }
    (record,) = load("stream-contracts")["Records"]
    assert record["eventName"] in pattern["eventName"]
    assert record["dynamodb"]["Keys"]["sk"]["S"] in pattern["dynamodb"]["Keys"]["sk"]["S"]
    table = of_type(translated, "AWS::DynamoDB::Table")["ContractsTable"]
    assert table["StreamSpecification"] == {"StreamViewType": record["dynamodb"]["StreamViewType"]}
    assert table["TimeToLiveSpecification"] == {"AttributeName": "ttl", "Enabled": True}
    cleaner = of_type(translated, "AWS::Lambda::Function")["ContractsCleaner"]
    grace = int(cleaner["Environment"]["Variables"]["LAMBDA_ONCE_DOCUMENTS_GRACE"])
    assert cleaner["Timeout"] > grace + document_stream.CLEANING_SECONDS
    assert mapping["MaximumBatchingWindowInSeconds"] > grace


def test_the_template_sets_the_announcer_up(translated: Template) -> None:
    """A failed record is split off, is tried ten times, and then kept in the queue of failed events."""
    mappings = of_type(translated, "AWS::Lambda::EventSourceMapping").values()
    (mapping,) = [each for each in mappings if each["FunctionName"] == {"Ref": "ContractsAnnouncer"}]
    assert announcements.announce.__once__.source.decorator == "once.dynamodb_stream"  # type: ignore[attr-defined]
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert mapping["BisectBatchOnFunctionError"] is True
    assert mapping["MaximumRetryAttempts"] == 10
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"] == {"Fn::GetAtt": ["FailedEvents", "Arn"]}
    assert "sqs:SendMessage" in allowed(translated, "ContractsAnnouncerRole")
