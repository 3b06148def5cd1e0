"""What the functions of a template come to: a value, text with marks, or that nothing is known."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once_tools.check.deployment import UNKNOWN
from lambda_once_tools.check.intrinsics import (
    NO_VALUE,
    Scope,
    computed,
    mark_of,
    may_be,
    parameter_values,
    unmarked,
)

TEMPLATE: dict[str, Any] = {
    "Parameters": {
        "Stage": {"Type": "String", "Default": "prod"},
        "Open": {"Type": "String"},
        "Count": {"Type": "Number", "Default": 5},
        "Zones": {"Type": "CommaDelimitedList", "Default": "a, b"},
        "Secret": {"Type": "AWS::SSM::Parameter::Value<String>", "Default": "/path"},
    },
    "Mappings": {"Sizes": {"prod": {"Batch": 10}}},
    "Conditions": {
        "Prod": {"Fn::Equals": [{"Ref": "Stage"}, "prod"]},
        "Some": {"Fn::Equals": [{"Ref": "Open"}, "x"]},
        "Not": {"Fn::Not": [{"Condition": "Prod"}]},
        "Both": {"Fn::And": [{"Condition": "Prod"}, {"Condition": "Some"}]},
        "Neither": {"Fn::And": [{"Condition": "Not"}, {"Condition": "Some"}]},
        "Either": {"Fn::Or": [{"Condition": "Prod"}, {"Condition": "Some"}]},
        "Given": {"Fn::Not": [{"Fn::Equals": [{"Ref": "Queue"}, ""]}]},
        "Circle": {"Condition": "Circle"},
    },
    "Resources": {
        "Queue": {"Type": "AWS::SQS::Queue"},
        "Table": {
            "Type": "AWS::DynamoDB::Table",
            "Properties": {"TableName": {"Fn::Sub": "${Stage}-tokens"}},
        },
        "Function": {"Type": "AWS::Lambda::Function"},
        "Live": {"Type": "AWS::Lambda::Alias", "Properties": {"FunctionName": {"Ref": "Function"}}},
    },
}
SCOPE = Scope(TEMPLATE, parameter_values(TEMPLATE, {}))
ARN = "arn:aws:dynamodb:\u2039region\u203a:\u2039account\u203a:table/prod-tokens"


def chosen(condition: str) -> dict[str, Any]:
    """Return a function that is True or False by *condition*."""
    return {"Fn::If": [condition, True, False]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"Ref": "Stage"}, "prod"),
        ({"Ref": "Count"}, "5"),
        ({"Ref": "Zones"}, ["a", "b"]),
        ({"Ref": "Open"}, mark_of("?Open")),
        ({"Ref": "Secret"}, mark_of("?Secret")),
        ({"Ref": "Nobody"}, UNKNOWN),
        ({"Ref": "AWS::NoValue"}, NO_VALUE),
        ({"a": {"Ref": "AWS::NoValue"}, "b": [{"Ref": "AWS::NoValue"}, 1]}, {"b": [1]}),
        ({"Ref": "Table"}, "prod-tokens"),
        ({"Fn::GetAtt": ["Table", "Arn"]}, ARN),
        ({"Fn::GetAtt": "Table.Arn"}, ARN),
        ({"Fn::GetAtt": ["Table", "StreamArn"]}, f"{ARN}/stream/{mark_of('Table.Stream')}"),
        ({"Fn::GetAtt": ["Queue", "QueueName"]}, mark_of("Queue")),
        ({"Fn::GetAtt": ["Nobody", "Arn"]}, UNKNOWN),
        ({"Ref": "Live"}, f"{mark_of('Function')}:{mark_of('Live')}"),
        ({"Fn::Sub": "${Stage}/${!Literal}/${Table.Arn}"}, f"prod/${{Literal}}/{ARN}"),
        ({"Fn::Sub": ["${A}-${Stage}", {"A": {"Ref": "Count"}}]}, "5-prod"),
        ({"Fn::Sub": "${Zones}"}, UNKNOWN),
        ({"Fn::Join": ["-", ["a", {"Ref": "Stage"}, 3]]}, "a-prod-3"),
        ({"Fn::Join": ["-", {"Ref": "Zones"}]}, "a-b"),
        ({"Fn::Join": ["-", [{"Fn::Select": [7, []]}]]}, UNKNOWN),
        ({"Fn::Select": [1, {"Ref": "Zones"}]}, "b"),
        ({"Fn::Select": ["1", {"Fn::Split": ["/", {"Fn::GetAtt": ["Table", "Arn"]}]}]}, "prod-tokens"),
        ({"Fn::Split": ["/", {"Ref": "Open"}]}, UNKNOWN),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Stage"}, "Batch"]}, 10),
        ({"Fn::FindInMap": ["Sizes", "test", "Batch"]}, UNKNOWN),
        ({"Fn::FindInMap": ["Sizes", "test", "Batch", {"DefaultValue": 1}]}, 1),
        ({"Fn::FindInMap": ["Sizes", {"Ref": "Open"}, "Batch", {"DefaultValue": 1}]}, UNKNOWN),
        ({"Fn::ImportValue": {"Fn::Sub": "${Stage}-arn"}}, mark_of("?import prod-arn")),
        ({"Fn::Transform": {"Name": "x"}}, UNKNOWN),
        ("{{resolve:ssm:/a}}-b", f"{mark_of('?resolve:ssm:/a')}-b"),
        (chosen("Prod"), True),
        (chosen("Not"), False),
        (chosen("Some"), UNKNOWN),
        (chosen("Both"), UNKNOWN),
        (chosen("Neither"), False),
        (chosen("Either"), True),
        (chosen("Given"), True),
        (chosen("Circle"), UNKNOWN),
        (chosen("Nobody"), UNKNOWN),
        ({"Fn::If": ["Some", "same", "same"]}, "same"),
    ],
    ids=str,
)
def test_what_a_function_comes_to(value: Any, expected: object) -> None:
    """As CloudFormation would resolve it, as far as that is known before."""
    assert computed(value, SCOPE) == expected


def test_given_parameters_win_over_defaults() -> None:
    """Also over what has none, and over a pseudo parameter."""
    scope = Scope(
        TEMPLATE, parameter_values(TEMPLATE, {"Stage": "test", "Open": "x", "AWS::Region": "eu-west-1"})
    )
    assert computed([{"Ref": "Stage"}, {"Ref": "Open"}, {"Ref": "AWS::Region"}], scope) == [
        "test",
        "x",
        "eu-west-1",
    ]
    assert [computed(chosen(each), scope) for each in ("Prod", "Some")] == [False, True]


WORDS = st.text("ab-", max_size=6)
PATTERNS = st.text("ab-*?", max_size=6)


@given(word=WORDS, pattern=PATTERNS)
def test_a_text_that_matches_may_be(word: str, pattern: str) -> None:
    """Without marks, as a shell's pattern does; in either order."""
    assert may_be(word, pattern) == may_be(pattern, word) == fnmatchcase(word, pattern)


@given(front=WORDS, value=WORDS, back=WORDS, pattern=PATTERNS)
def test_whatever_a_mark_stands_for_is_possible(front: str, value: str, back: str, pattern: str) -> None:
    """A text that matches once it is deployed is not excluded before."""
    if fnmatchcase(front + value + back, pattern):
        assert may_be(front + mark_of("?Name") + back, pattern)


@pytest.mark.parametrize(
    ("one", "other", "possible"),
    [
        (mark_of("Table"), mark_of("Other"), False),
        (mark_of("Table"), mark_of("Table"), True),
        (mark_of("Table"), mark_of("?Name"), True),
        (f"{mark_of('stack')}-a", f"{mark_of('stack')}-b", False),
        (f"{mark_of('stack')}-a", f"{mark_of('stack')}*", True),
        (f"{mark_of('stack')}-a", "shop-b", False),
        (f"{mark_of('stack')}-a", "shop-a", True),
    ],
)
def test_which_marks_may_be_equal(one: str, other: str, possible: bool) -> None:
    """Two resources have two names; of other texts equal marks are equal, and nothing else is known."""
    assert may_be(one, other) is may_be(other, one) is possible


def test_marks_are_not_printed() -> None:
    """A reader sees the name of the resource or parameter."""
    assert unmarked(f"{mark_of('Tokens.Table')}/{mark_of('?Open')}") == "Tokens.Table/<Open"
