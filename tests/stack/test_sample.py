"""What a reader finds in template.yaml: a sample that is short and whole, and runs under `sam local`."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import anchors
from tests.kit.recorded import ROOT

from . import nested
from .cloudwatch import Alarm, alarms_of
from .conftest import Template
from .named import ALARM, of_type, resolved

PATH = ROOT / "template.yaml"
ALARMS = {
    *("NewlyHeld", "TasksOverdue", "CompletionFailed"),
    *("StoreUnavailable", "WatchdogSilent", "DeadLetters"),
}


@pytest.fixture(scope="module")
def sample() -> Template:
    """The template, its short tags spelled out."""
    return nested.parsed(PATH)


def watching(alarms: dict[str, Alarm]) -> dict[str, object]:
    """Return what each alarm looks at and when it rings, without words."""
    return {
        name: (
            [query for query in alarm.queries if query.id == alarm.watched] if name != "DeadLetters" else (),
            *(alarm.evaluated, alarm.breaching, alarm.threshold, alarm.comparison, alarm.missing),
        )
        for name, alarm in alarms.items()
    }


def test_it_is_read_in_one_sitting(sample: Template) -> None:
    """Under 480 lines, and nothing is nested."""
    assert len(PATH.read_text(encoding="utf-8").splitlines()) < 480
    assert not of_type(sample, nested.NESTED)


def test_it_has_a_function_for_each_way_to_be_invoked(sample: Template) -> None:
    """A queue, a topic and an API; and the watchdog, which `sam local` invokes like the others."""
    functions = of_type(sample, "AWS::Serverless::Function")
    sources = {
        name: {event["Type"] for event in function["Events"].values()} for name, function in functions.items()
    }
    assert sources == {
        "PaymentsFunction": {"SQS"},
        "NotificationsFunction": {"SNS"},
        "OrdersApiFunction": {"HttpApi"},
        "WatchdogFunction": {"Schedule"},
    }
    assert not [name for name, function in functions.items() if "InlineCode" in function]


def test_its_watchdog_is_that_of_the_shop(sample: Template, translated: Template) -> None:
    """With the same permissions, time and memory."""
    own = of_type(sample, "AWS::Serverless::Function")["WatchdogFunction"]
    theirs = of_type(translated, "AWS::Lambda::Function")["WatchdogFunction"]
    role = of_type(translated, "AWS::IAM::Role")["WatchdogFunctionRole"]
    (policy,) = own["Policies"]
    (watching_,) = role["Policies"]
    assert policy["Statement"] == watching_["PolicyDocument"]["Statement"]
    assert (own["Handler"], own["Timeout"]) == (theirs["Handler"], theirs["Timeout"])
    assert sample["Globals"]["Function"]["MemorySize"] == theirs["MemorySize"]


def test_six_alarms_ring_and_a_seventh_can(sample: Template, template: Template) -> None:
    """As those of tokens.yaml; what is in progress is counted by an alarm that a threshold switches on."""
    seventh = {"TasksInProgress"}
    assert of_type(sample, ALARM).keys() == ALARMS | seventh
    assert sample["Resources"]["TasksInProgress"]["Condition"] == "Crowded"
    shop = {name: alarm for name, alarm in alarms_of(template).items() if name in ALARMS}
    assert watching({name: alarms_of(sample)[name] for name in shop}) == watching(shop)


def test_each_alarm_names_its_section_of_the_runbook(sample: Template) -> None:
    """And says nothing else that is not true of it."""
    sections = anchors(ROOT / "docs" / "operations.md")
    for name, alarm in of_type(sample, ALARM).items():
        (found,) = re.findall(r"docs/operations\.md#([\w-]+)", alarm["AlarmDescription"])
        assert found in sections, name


def test_every_alarm_is_heard(sample: Template) -> None:
    """By the topic of the stack."""
    assert all(alarm["AlarmActions"] == [{"Ref": "Notices"}] for alarm in of_type(sample, ALARM).values())


def test_the_endpoint_is_the_only_thing_that_is_local(sample: Template) -> None:
    """In the cloud the variable is empty, and botocore takes an empty one for none."""
    variables = resolved(sample["Globals"]["Function"]["Environment"]["Variables"], sample)
    assert variables["AWS_ENDPOINT_URL_DYNAMODB"] == ""
    assert variables["LAMBDA_ONCE_TABLE"] == "TokenTable"
