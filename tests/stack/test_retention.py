"""Outcomes outlive messages: what the parameters allow, and what the template's rules refuse."""

from __future__ import annotations

import copy
import json
from itertools import product
from typing import Any

import pytest

from .conftest import Template
from .named import of_type, target
from .test_template import complaints

DAY = 24 * 3600

Parameters = dict[str, str]


def holds(expression: Any, parameters: Parameters) -> Any:
    """Evaluate a rule's expression (CloudFormation user guide, "AWS rule functions"): all values are text."""
    match expression:
        case {"Ref": name}:
            return parameters[name]
        case {"Fn::Equals": [first, second]}:
            return holds(first, parameters) == holds(second, parameters)
        case {"Fn::Not": [inner]}:
            return not holds(inner, parameters)
        case {"Fn::Contains": [texts, inner]}:
            return holds(inner, parameters) in texts
        case str():
            return expression
        case _:
            raise AssertionError(f"no rule function of this test's: {expression}")


def refusals(template: Template, parameters: Parameters) -> list[str]:
    """Return what CloudFormation says of *parameters* before it makes or changes anything."""
    return [
        assertion["AssertDescription"]
        for rule in template["Rules"].values()
        if holds(rule["RuleCondition"], parameters)
        for assertion in rule["Assertions"]
        if not holds(assertion["Assert"], parameters)
    ]


def choices(template: Template) -> list[Parameters]:
    """Return every combination of retention and keep that the parameters have."""
    names = ("QueueRetentionSeconds", "KeepDays")
    allowed = [map(str, template["Parameters"][name]["AllowedValues"]) for name in names]
    return [dict(zip(names, values, strict=True)) for values in product(*allowed)]


def outlived(template: Template, parameters: Parameters) -> list[str]:
    """
    Return the queues that may deliver a message after its outcome is forgotten.

    Standard queues: a message is gone from its dead-letter queue by the age that it brought there; the
    redrive makes it new (Amazon SQS developer guide, "Setting-up dead-letter queue retention" and
    "dead-letter queue redrive").
    """
    queues = of_type(template, "AWS::SQS::Queue")
    keep = int(parameters["KeepDays"]) * DAY

    def retention(name: str) -> int:
        value = queues[name]["MessageRetentionPeriod"]
        return int(parameters[value["Ref"]] if isinstance(value, dict) else value)

    return [
        name
        for name, queue in queues.items()
        if "RedrivePolicy" in queue and "FifoQueue" not in queue
        if keep < retention(target(queue["RedrivePolicy"]["deadLetterTargetArn"])) + retention(name)
    ]


def test_rules_refuse_exactly_what_would_be_outlived(template: Template) -> None:
    """Of all that the parameters allow, CloudFormation refuses what would run a redriven message again."""
    found = choices(template)
    assert len(found) > 9
    for parameters in found:
        assert bool(refusals(template, parameters)) == bool(outlived(template, parameters)), parameters
    assert any(refusals(template, parameters) for parameters in found)


def test_the_shortest_queues_need_eighteen_days(template: Template) -> None:
    """Fourteen in the dead-letter queue and four in the queue: no keep that is offered is shorter."""
    assert outlived(template, {"QueueRetentionSeconds": str(4 * DAY), "KeepDays": "17"})
    assert not outlived(template, {"QueueRetentionSeconds": str(4 * DAY), "KeepDays": "18"})
    assert min(template["Parameters"]["KeepDays"]["AllowedValues"]) == 18


def test_the_default_keep_is_enough_for_every_retention(template: Template) -> None:
    """Who changes the retention alone is refused nothing and loses nothing."""
    keep = str(template["Parameters"]["KeepDays"]["Default"])
    for retention in template["Parameters"]["QueueRetentionSeconds"]["AllowedValues"]:
        parameters = {"QueueRetentionSeconds": str(retention), "KeepDays": keep}
        assert refusals(template, parameters) == outlived(template, parameters) == []


def test_a_refusal_says_what_to_give(template: Template) -> None:
    """The number that is needed, and where it comes from."""
    parameters = {"QueueRetentionSeconds": str(14 * DAY), "KeepDays": "21"}
    assert refusals(template, parameters) == [
        "KeepDays must be 28 or more (14 and 14) where QueueRetentionSeconds is 1209600."
    ]


@pytest.mark.parametrize(
    "name", ["OutcomesOutliveMessagesOfSevenDays", "OutcomesOutliveMessagesOfFourteenDays"]
)
def test_without_a_rule_something_is_outlived(template: Template, name: str) -> None:
    """Each rule is needed: without it a combination passes that forgets too early."""
    bare = copy.deepcopy(template)
    del bare["Rules"][name]
    assert [p for p in choices(bare) if outlived(bare, p) and not refusals(bare, p)]


def test_cfn_lint_sees_a_broken_rule(template: Template) -> None:
    """A rule that names no parameter is found: that the template is clean means something here."""
    rules = copy.deepcopy(template["Rules"])
    rule = rules["OutcomesOutliveMessagesOfSevenDays"]
    rule["RuleCondition"] = {"Fn::Equals": [{"Ref": "Nothing"}, "604800"]}
    topic = {"Type": "AWS::SNS::Topic"}
    broken = {"Parameters": template["Parameters"], "Rules": rules, "Resources": {"Topic": topic}}
    assert any("'Nothing'" in complaint for complaint in complaints(json.dumps(broken)))


def test_the_rules_survive_sam(template: Template, translated: Template) -> None:
    """What CloudFormation gets to see has them."""
    assert translated["Rules"] == template["Rules"]
