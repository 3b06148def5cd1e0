"""What a role's policies allow: wildcards, denials, conditions, and what is unknown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once_tools.check.deployment import UNKNOWN, Answer, Unknown
from lambda_once_tools.check.policies import LEADING_KEYS, Context, permits, statements

TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/tokens"
INDEX = f"{TABLE}/index/byStatus"
UPDATE = "dynamodb:UpdateItem"


def document(*given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a policy document."""
    return {"Version": "2012-10-17", "Statement": list(given)}


def allow(
    action: Any = UPDATE, resource: Any = TABLE, condition: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a statement."""
    made = {"Effect": "Allow", "Action": action, "Resource": resource}
    return made if condition is None else made | {"Condition": condition}


def deny(**given: Any) -> dict[str, Any]:
    """Return a statement that denies."""
    return allow(**given) | {"Effect": "Deny"}


def ask(
    *given: Mapping[str, Any],
    action: str = UPDATE,
    resource: str | Unknown = TABLE,
    context: Context | None = None,
) -> Answer:
    """Ask for one request."""
    return permits(statements(document(*given)), action, resource, context)


def under(operator: str, expected: Any, value: Any, key: str = "aws:x") -> Answer:
    """Ask under one condition on one key, which the request has with *value* (``...``: it is not known)."""
    context = {} if value is ... else {key: value}
    return ask(allow(condition={operator: {key: expected}}), context=context)


# -- documents


def test_a_single_statement_and_single_values_need_no_brackets() -> None:
    """A document with lists is the same as one without."""
    single = {"Statement": {"Effect": "Allow", "Action": UPDATE, "Resource": TABLE}}
    lists = {"Statement": [{"Effect": "Allow", "Action": [UPDATE], "Resource": [TABLE]}]}
    assert statements(single) == statements(lists)
    assert permits(statements(single), UPDATE, TABLE) is True


@pytest.mark.parametrize("given", [{}, {"Statement": []}, {"Statement": None}, {"Statement": "x"}])
def test_a_document_without_statements_allows_nothing(given: dict[str, Any]) -> None:
    """There is no default that allows."""
    assert statements(given) == ()
    assert permits((), UPDATE, TABLE) is False


def test_a_value_that_is_not_resolved_is_unknown() -> None:
    """An intrinsic function as a resource, as a condition's value, as an action, as an effect."""
    reference = {"Ref": "Given"}
    assert ask(allow(resource=reference)) is UNKNOWN
    assert ask(allow(resource=[reference, TABLE])) is True
    assert ask(allow(action=reference)) is UNKNOWN
    assert ask(allow(condition={"StringEquals": {"aws:x": reference}}), context={"aws:x": "1"}) is UNKNOWN
    assert ask(allow(condition=reference)) is UNKNOWN
    assert ask(allow() | {"Effect": reference}) is UNKNOWN
    assert ask(allow(), allow() | {"Effect": reference}) is UNKNOWN, "it may deny"
    assert ask(allow(), deny(resource=reference)) is UNKNOWN
    assert ask(deny(resource=reference)) is False, "nothing allows it"


# -- actions and resources


@pytest.mark.parametrize(
    "action",
    ["*", "dynamodb:*", "dynamodb:Update*", "dynamodb:UpdateIte?", "DYNAMODB:updateitem", "dynamodb:*Item"],
)
def test_actions_match_by_wildcards_in_any_case(action: str) -> None:
    """A star is any text, a question mark one character."""
    assert ask(allow(action)) is True


@pytest.mark.parametrize(
    "action", ["dynamodb:Update", "dynamodb:UpdateItem?", "sqs:*", "dynamodb:GetItem", "?"]
)
def test_other_actions_do_not_match(action: str) -> None:
    """A pattern is of the whole action."""
    assert ask(allow(action)) is False


@pytest.mark.parametrize(
    "resource",
    [
        "*",
        "arn:aws:dynamodb:*:*:table/tokens",
        "arn:aws:dynamodb:eu-central-1:123456789012:table/*",
        "arn:aws:dynamodb:*",
        "arn:aws:dynamodb",
        "arn:*:dynamodb:eu-central-?:123456789012:table/tok??s",
    ],
)
def test_resources_match_by_wildcards(resource: str) -> None:
    """Fields that are missing at the end of an ARN are wildcards (user guide)."""
    assert ask(allow(resource=resource)) is True


@pytest.mark.parametrize(
    "resource",
    [
        TABLE.upper(),
        f"{TABLE}/index/*",
        "arn:aws:dynamodb:us-east-1:123456789012:table/tokens",
        "arn:aws:dynamodb:eu-central-1:123456789012:table/token",
        "arn:aws:dynamodb:eu-*x:123456789012:table/tokens",
        "arn:aws:dynamodb:e*2:table/tokens",
        "tokens",
        [],
    ],
)
def test_other_resources_do_not_match(resource: Any) -> None:
    """Their case counts, and a star within a field stays in it."""
    assert ask(allow(resource=resource)) is False


def test_an_index_is_a_resource_of_its_own() -> None:
    """A table's ARN does not cover its indexes."""
    assert ask(allow("dynamodb:Query"), action="dynamodb:Query", resource=INDEX) is False
    for resource in (f"{TABLE}/index/*", f"{TABLE}/index/byStatus", f"{TABLE}*", f"{TABLE}/*"):
        assert ask(allow("dynamodb:Query", resource), action="dynamodb:Query", resource=INDEX) is True


def test_what_is_excepted_is_not_matched() -> None:
    """NotAction and NotResource match all but what they name."""
    but = {"Effect": "Allow", "NotAction": ["iam:*", "sqs:*"], "NotResource": [f"{TABLE}2"]}
    assert ask(but) is True
    assert ask(but, action="sqs:SendMessage") is False
    assert ask(but, resource=f"{TABLE}2") is False
    assert ask(but | {"NotResource": [{"Ref": "Table"}]}) is UNKNOWN


def test_an_unknown_resource_is_covered_by_all_resources_alone() -> None:
    """A narrower pattern may match it or not."""
    assert ask(allow(resource="*"), resource=UNKNOWN) is True
    assert ask(allow(), resource=UNKNOWN) is UNKNOWN
    assert ask(allow("sqs:*"), resource=UNKNOWN) is False
    assert ask(allow(resource="*"), deny(), resource=UNKNOWN) is UNKNOWN


def test_a_denial_wins() -> None:
    """In whatever order the statements are."""
    assert ask(allow(), deny(action="dynamodb:*")) is False
    assert ask(deny(action="dynamodb:*"), allow()) is False
    assert ask(allow(), deny(action="sqs:*")) is True
    assert ask(deny(action="sqs:*")) is False, "nothing allows it"


# -- variables


def test_variables_have_the_values_of_the_request() -> None:
    """A key that is not known leaves the answer open; one that the request lacks matches nothing."""
    resource = "arn:aws:dynamodb:*:*:table/${aws:PrincipalTag/team}"
    key = "aws:PrincipalTag/team"
    assert ask(allow(resource=resource), context={key: "tokens"}) is True
    assert ask(allow(resource=resource), context={key.upper(): "tokens"}) is True
    assert ask(allow(resource=resource), context={key: "others"}) is False
    assert ask(allow(resource=resource)) is UNKNOWN
    assert ask(allow(resource=resource), context={key: None}) is False
    default = resource.replace("team}", "team, 'tokens'}")
    assert ask(allow(resource=default), context={key: None}) is True
    assert ask(allow(resource=default), context={key: "x"}) is False


def test_a_value_has_no_wildcards() -> None:
    """A star in a variable's value or in `${*}` is that character."""
    resource = "arn:aws:dynamodb:*:*:table/${aws:x}"
    assert ask(allow(resource=resource), context={"aws:x": "*"}) is False
    assert under("StringLike", "${*}x${?}${$}", "*x?$") is True
    assert under("StringLike", "${*}", "text") is False


# -- conditions

CONDITIONS = [
    ("StringEquals", "a", "a", True),
    ("StringEquals", ["b", "a"], "a", True),
    ("StringEquals", "A", "a", False),
    ("StringEquals", "*", "a", False),
    ("StringEquals", "*", "*", True),
    ("StringEquals", "a", None, False),
    ("StringEqualsIgnoreCase", "A", "a", True),
    ("StringEqualsIfExists", "a", None, True),
    ("StringEqualsIfExists", "a", "b", False),
    ("StringNotEquals", "a", "b", True),
    ("StringNotEquals", ["b", "a"], "b", False),
    ("StringNotEquals", "a", None, True),
    ("StringNotEqualsIgnoreCase", "B", "b", False),
    ("StringLike", "o*/?", "orders/1", True),
    ("StringLike", "o*/?", "orders/12", False),
    ("StringLike", "a*", "a\nb", True),
    ("StringNotLike", "o*", "orders", False),
    ("ForAllValues:StringLike", "*#*", ["a#1", "b#2"], True),
    ("ForAllValues:StringLike", ["a#*", "b#*"], ["a#1", "b#2"], True),
    ("ForAllValues:StringLike", "*#*", ["a#1", "b"], False),
    ("ForAllValues:StringLike", "*#*", [], True),
    ("ForAllValues:StringEquals", "a", ["a", "a"], True),
    ("ForAllValues:StringNotEquals", "a", ["b", "c"], True),
    ("ForAllValues:StringNotEquals", "a", ["b", "a"], False),
    ("ForAnyValue:StringLike", "*#*", ["a#1", "b"], True),
    ("ForAnyValue:StringLike", "*#*", ["a", "b"], False),
    ("ForAnyValue:StringLike", "*#*", [], False),
    ("ForAnyValue:StringNotEquals", "a", [], False),
    ("ForAnyValue:StringLikeIfExists", "*#*", [], True),
    ("Bool", True, "true", True),
    ("Bool", "TRUE", "true", True),
    ("Bool", "false", "true", False),
    ("Null", "true", None, True),
    ("Null", "true", "a", False),
    ("Null", False, "a", True),
    ("Null", "false", [], False),
    ("ArnLike", "arn:aws:lambda:*:*:function:pay*", "arn:aws:lambda:eu:1:function:payments", True),
    ("ArnEquals", "arn:aws:lambda:*:*:function:pay*", "arn:aws:lambda:eu:1:function:payments", True),
    ("ArnLike", "arn:aws:lambda:*:function:pay*", "arn:aws:lambda:eu:1:function:payments", False),
    ("ArnNotLike", "arn:aws:lambda:*:*:function:pay*", "arn:aws:lambda:eu:1:function:payments", False),
    ("NumericLessThan", 3, "2", UNKNOWN),
    ("DateGreaterThan", "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", UNKNOWN),
    ("IpAddress", "10.0.0.0/8", "10.1.1.1", UNKNOWN),
    ("stringEquals", "a", "a", UNKNOWN),
    ("StringEquals", "a", ["a", "b"], UNKNOWN),
    ("StringEquals", "a", ..., UNKNOWN),
    ("Null", "true", ..., UNKNOWN),
    ("ForAllValues:StringLike", "*", ..., UNKNOWN),
    ("StringEquals", [{"Ref": "A"}, "a"], "a", True),
    ("StringEquals", [{"Ref": "A"}, "a"], "b", UNKNOWN),
    ("Null", {"Ref": "A"}, "b", UNKNOWN),
    ("StringEquals", "${aws:y}", "b", UNKNOWN),
    ("StringEquals", "${aws:x}", "b", True),
    ("StringEquals", "${aws:ViaAWSService}", "false", True),
]
"""Operator, expected, the value of the request (None: it has no such key; ...: not known), and the answer."""


@pytest.mark.parametrize(("operator", "expected", "value", "answer"), CONDITIONS)
def test_conditions_hold_as_iam_evaluates_them(
    operator: str, expected: Any, value: Any, answer: Answer
) -> None:
    """Operators that are not evaluated, and keys that are not known, leave the answer open (user guide)."""
    assert under(operator, expected, value) is answer


def test_a_variable_that_the_request_lacks_equals_nothing() -> None:
    """Not the empty text either."""
    condition = {"StringEquals": {"aws:x": "${aws:y}"}}
    assert ask(allow(condition=condition), context={"aws:x": "", "aws:y": None}) is False


def test_all_conditions_of_a_statement_must_hold() -> None:
    """Operators and keys are joined by and, values by or."""
    both = {"StringEquals": {"aws:a": "1", "aws:b": ["2", "3"]}, "Bool": {"aws:c": "true"}}
    assert ask(allow(condition=both), context={"aws:a": "1", "aws:b": "3", "aws:c": "true"}) is True
    assert ask(allow(condition=both), context={"aws:a": "1", "aws:b": "3", "aws:c": "false"}) is False
    assert ask(allow(condition=both), context={"aws:a": "0"}) is False, "whatever the others are"
    assert ask(allow(condition=both), context={"aws:a": "1"}) is UNKNOWN


def test_a_function_sends_its_requests_itself_over_tls() -> None:
    """The usual denial of what is not encrypted leaves nothing open."""
    insecure = deny(action="*", resource="*", condition={"Bool": {"aws:SecureTransport": "false"}})
    assert ask(allow(), insecure) is True


def test_the_permission_for_parts_is_for_parts() -> None:
    """Rows whose key has two `#`, and no request without a leading key, such as a statement of PartiQL."""
    parts = allow(
        condition={
            "ForAllValues:StringLike": {LEADING_KEYS: ["*#*#*"]},
            "Null": {LEADING_KEYS: "false"},
        }
    )
    assert ask(parts, context={LEADING_KEYS: ["o/1#a#1", "o/1#a#2"]}) is True
    assert ask(parts, context={LEADING_KEYS: ["o/1#a#1", "o/1"]}) is False
    assert ask(parts, context={LEADING_KEYS: []}) is False


# -- properties

VALUES = st.sampled_from(["a", "b", "*", "a*", "?", "arn:aws:dynamodb:*", TABLE, INDEX, "${aws:x}", "A"])
RESOURCES = st.sampled_from([TABLE, INDEX, "*", "arn:aws:dynamodb:*:*:table/*", "a", "${aws:x}"])
OPERATORS = st.sampled_from([each[0] for each in CONDITIONS])
KEYS = st.sampled_from(["aws:x", "aws:y"])
CONTEXTS = st.dictionaries(KEYS, st.one_of(st.none(), VALUES, st.lists(VALUES, max_size=2)))
POLICIES = st.lists(
    st.fixed_dictionaries(
        {
            "Effect": st.sampled_from(["Allow", "Allow", "Deny"]),
            "Action": st.sampled_from([UPDATE, "*", "dynamodb:Get*"]),
        },
        optional={
            "Resource": RESOURCES,
            "NotResource": RESOURCES,
            "Condition": st.dictionaries(OPERATORS, st.dictionaries(KEYS, VALUES, max_size=2), max_size=2),
        },
    ),
    max_size=4,
)


@given(POLICIES, CONTEXTS, st.sets(KEYS), st.sampled_from([TABLE, INDEX]))
def test_what_becomes_known_never_changes_an_answer(
    policy: list[dict[str, Any]], context: dict[str, Any], hidden: set[str], resource: str
) -> None:
    """An answer that was given without a key, or without the resource, is the answer with them."""
    full = ask(*policy, resource=resource, context=context)
    fewer = {key: value for key, value in context.items() if key not in hidden}
    assert ask(*policy, resource=resource, context=fewer) in (full, UNKNOWN)
    assert ask(*policy, resource=UNKNOWN, context=context) in (full, UNKNOWN)


@given(POLICIES, POLICIES, CONTEXTS)
def test_order_does_not_matter_and_a_denial_never_allows(
    policy: list[dict[str, Any]], more: list[dict[str, Any]], context: dict[str, Any]
) -> None:
    """What is refused stays refused when denials are added."""
    answer = ask(*policy, context=context)
    assert ask(*reversed(policy), context=context) is answer
    denials = [each | {"Effect": "Deny"} for each in more]
    after = ask(*policy, *denials, context=context)
    assert after is False or (after, answer) in {(UNKNOWN, True), (UNKNOWN, UNKNOWN), (True, True)}
