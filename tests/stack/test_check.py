"""`lambda-once check` of the sample stack: both readers see the same, and nothing is wrong."""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from lambda_once.core.clock import SystemClock
from lambda_once_tools.check.account import read_account
from lambda_once_tools.check.deployment import Deployment
from lambda_once_tools.check.rules import findings
from lambda_once_tools.check.templates import read
from tests.kit.recorded import SHOP

from .conftest import Deployed
from .test_alarms import PROTECTED

FUNCTIONS = sorted({*PROTECTED, "WatchdogFunction"})


def client(deployed: Deployed, service: str) -> Any:
    """Return a client whose answers have text where moto 5.2.5 has what the template was parsed to."""

    def correct(parsed: dict[str, Any], **_: Any) -> None:
        variables = parsed.get("Environment", {}).get("Variables", {})
        variables.update({name: str(value) for name, value in variables.items()})
        if "PolicyDocument" in parsed:
            parsed["PolicyDocument"] = json.dumps(ast.literal_eval(parsed["PolicyDocument"]))

    made = deployed.client(service)
    made.meta.events.register_first(f"after-call.{service}", correct)
    return made


@pytest.fixture
def names(deployed: Deployed) -> dict[str, str]:
    """Add what moto 5.2.5 leaves out of a stack: managed policies of roles, and two switches of the table."""
    found = deployed.client("cloudformation").describe_stack_resources(StackName="orders")["StackResources"]
    names = {
        each["LogicalResourceId"]: each["PhysicalResourceId"]
        for each in found
        if "PhysicalResourceId" in each
    }
    for role, resource in deployed.template["Resources"].items():
        for arn in resource.get("Properties", {}).get("ManagedPolicyArns", []):
            if "Ref" in arn:
                name = names[role].rpartition("/")[2]
                deployed.client("iam").attach_role_policy(RoleName=name, PolicyArn=names[arn["Ref"]])
    table, client = names["TokenTable"], deployed.client("dynamodb")
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
    client.update_continuous_backups(
        TableName=table, PointInTimeRecoverySpecification={"PointInTimeRecoveryEnabled": True}
    )
    return names


def deployment(deployed: Deployed, names: dict[str, str], functions: Sequence[str] = FUNCTIONS) -> Deployment:
    """Read *functions*, which have tokens, from the account."""
    chosen = [names[each] for each in functions]
    return read_account(lambda service: client(deployed, service), chosen, [], SystemClock())


def test_the_deployed_sample_has_no_findings(deployed: Deployed, names: dict[str, str]) -> None:
    """As its template has none; no permission of a protected function or of the watchdog is left open."""
    found = deployment(deployed, names)
    assert findings(found) == ()
    assert {each.resource for each in found.not_checked}.isdisjoint(names.values())


def test_twin_a_function_without_the_policy_of_tokens_is_found(
    deployed: Deployed, names: dict[str, str]
) -> None:
    """Of one role it is detached."""
    role = names["PaymentsFunctionRole"].rpartition("/")[2]
    deployed.client("iam").detach_role_policy(RoleName=role, PolicyArn=names["TokenAccess"])
    found = findings(deployment(deployed, names))
    assert [(each.code, each.resource) for each in found] == [
        (code, names["PaymentsFunction"]) for code in ("P1", "P2", "P3")
    ]


def test_the_readers_agree(deployed: Deployed, names: dict[str, str]) -> None:
    """Queues, mappings, timeouts, variables and the table are those of the template."""
    template, account = read(SHOP / "template.yaml", {}), deployment(deployed, names)
    logical = {physical.rpartition("/")[2]: name for name, physical in names.items()}

    def seen(deployment: Deployment) -> dict[str, Any]:
        def name(resource: Any) -> Any:
            nested = resource.rpartition(".")[2] if isinstance(resource, str) else resource
            return logical.get(resource, nested)

        return {
            "queues": {
                name(each.resource): (
                    each.visibility,
                    each.retention,
                    each.fifo,
                    each.receives,
                    name(each.dead_letter),
                )
                for each in deployment.queues
            },
            "sources": sorted(
                (
                    name(each.function),
                    each.kind,
                    each.batch_size,
                    each.window,
                    each.reports_failures,
                    each.bisects,
                    each.retries,
                )
                for each in deployment.sources
            ),
            "timeouts": {name(each.resource): (each.timeout, each.handler) for each in deployment.functions},
            "tables": [replace(each, resource="", name="", arn="") for each in deployment.tables],
        }

    assert seen(account) == seen(template)
