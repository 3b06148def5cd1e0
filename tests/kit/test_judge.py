"""
The judge of policies answers as AWS' pages say, as another implementation does, and as `check` does.

The cases are `tests/golden/iam_cases.json`: examples of the pages that each names, and policies of ours. The
answers of the other implementation are recorded (`tests/kit/iam_simulate.mjs`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lambda_once_tools.check import policies
from lambda_once_tools.check.deployment import UNKNOWN, Answer
from tests.kit import judge
from tests.kit.judge import Wild, allows, listed

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
CASES: list[dict[str, Any]] = json.loads((GOLDEN / "iam_cases.json").read_text(encoding="utf-8"))
SIMULATED: dict[str, Any] = json.loads((GOLDEN / "iam_simulate.json").read_text(encoding="utf-8"))
DISPUTED = {"queues of one's own name"}
"""iam-simulate 0.1.173 splits a resource at the colon in its variable; AWS' page has this example."""
TABLE = "arn:aws:dynamodb:eu-central-1:123456789012:table/tokens"
ACTION = "dynamodb:UpdateItem"


def _allowed(case: Mapping[str, Any]) -> list[bool]:
    return [each["allowed"] for each in case["requests"]]


def _judged(case: Mapping[str, Any]) -> list[bool]:
    return [
        allows(case["policy"], each["action"], each["resource"], each["context"]) for each in case["requests"]
    ]


def _checked(case: Mapping[str, Any]) -> list[Answer]:
    statements = policies.statements({"Statement": case["policy"]})
    return [
        policies.permits(statements, each["action"], each["resource"], each["context"])
        for each in case["requests"]
    ]


@pytest.mark.parametrize("case", CASES, ids=[each["case"] for each in CASES])
def test_both_answer_as_published(case: dict[str, Any]) -> None:
    """The judge, and what the package ships."""
    assert _judged(case) == _allowed(case)
    assert _checked(case) == _allowed(case)


def test_another_implementation_agrees() -> None:
    """In all cases but those where it contradicts the page."""
    assert [*SIMULATED["answers"]] == [case["case"] for case in CASES]
    differ = {case["case"] for case in CASES if SIMULATED["answers"][case["case"]] != _allowed(case)}
    assert differ == DISPUTED


def _operators() -> set[str]:
    statements = [statement for case in CASES for statement in case["policy"]]
    return {operator for statement in statements for operator in statement.get("Condition", {})}


def test_each_operator_of_our_policies_is_published() -> None:
    """There is a case for it."""
    files = [
        *(ROOT / "template.yaml", ROOT / "examples" / "minimal" / "template.yaml"),
        *(ROOT / "examples" / "infrastructure").glob("*.*"),
        ROOT / "examples" / "orders" / "template.yaml",
    ]
    used = {
        found[1]
        for path in files
        for found in re.finditer(
            r'"?\b((?:For\w+:)?(?:String|Arn|Bool|Null|Numeric|Date|Ip)\w*)"?: *(?:\{|$)',
            path.read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    assert {"ForAllValues:StringLike", "Null", "Bool", "ArnLike", "StringNotEquals"} <= used
    assert used - _operators() == set()


@pytest.mark.parametrize("file", ["judge.py", "iam.py"])
def test_the_package_does_not_judge_itself(file: str) -> None:
    """Neither the judge nor the client that it limits imports anything of ours but each other."""
    source = (ROOT / "tests" / "kit" / file).read_text(encoding="utf-8")
    ours = re.findall(r"^ *(?:from|import) ((?:lambda_once|tests)[\w.]*)", source, re.MULTILINE)
    assert set(ours) <= {"tests.kit.judge"}


# ------------------------------------------------------------------ what is not evaluated


def _under(condition: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": ACTION, "Resource": TABLE, "Condition": condition} | more


@pytest.mark.parametrize(
    ("condition", "context"),
    [
        ({"StringEquals": {"aws:x": "a"}}, {}),
        ({"StringEquals": {"aws:x": "${aws:y}"}}, {"aws:x": "a"}),
        ({"StringEquals": {"aws:x": "a"}}, {"aws:x": ["a", "b"]}),
        ({"StringEquals": {"aws:x": "${aws:y}"}}, {"aws:x": "a", "aws:y": ["a", "b"]}),
        ({"NumericLessThan": {"aws:x": "2"}}, {"aws:x": "1"}),
        ({"stringEquals": {"aws:x": "a"}}, {"aws:x": "a"}),
    ],
)
def test_a_guess_is_refused(condition: Mapping[str, Any], context: Any) -> None:
    """A key that nobody knows, several values of one, another operator; unless the statement fails anyway."""
    with pytest.raises(NotImplementedError):
        allows([_under(condition)], ACTION, TABLE, context)
    assert not allows([_under(condition, Action="sqs:*")], ACTION, TABLE, context)
    assert not allows([_under(condition, Resource=f"{TABLE}2")], ACTION, TABLE, context)
    decided = {**condition, "Null": {"aws:z": "true"}}
    assert not allows([_under(decided)], ACTION, TABLE, {**context, "aws:z": "a"})


# ------------------------------------------------------------------ the two of ours

_VALUES = st.sampled_from(
    ["a", "b", "A", "", "*", "a*", "?", "ab", "${aws:x}", "${*}", TABLE, "arn:aws:dynamodb:*"]
)
_KEYS = st.sampled_from(["aws:x", "aws:y", "AWS:X"])
_OPERATORS = st.builds(
    "{}{}{}".format,
    st.sampled_from(["", "ForAllValues:", "ForAnyValue:"]),
    st.sampled_from(
        [
            *("StringEquals", "StringNotEquals", "StringEqualsIgnoreCase", "StringNotEqualsIgnoreCase"),
            *("StringLike", "StringNotLike", "ArnLike", "ArnNotLike", "ArnEquals", "ArnNotEquals", "Bool"),
        ]
    ),
    st.sampled_from(["", "IfExists"]),
)
_RESOURCES = st.sampled_from(
    [
        *(
            "*",
            TABLE,
            f"{TABLE}/*",
            f"{TABLE}?",
            "arn:aws:dynamodb",
            "arn:aws:dynamodb:*",
            "arn:aws:dy*:table/tokens",
        ),
        *(
            "arn:aws:dynamodb:eu-*:*:table/*",
            "arn:aws:dynamodb:eu-*-2:*:table/*",
            "arn:aws:dynamodb:*:*:${aws:x}",
        ),
        *("a*", "arn:*:dynamodb:*1:1?3*:t*s", "arn:aws:dynamodb:*-1:*2:table/tok${aws:y, 'ens'}"),
    ]
)
_ACTIONS = st.sampled_from([ACTION, "*", "dynamodb:Get*", "DYNAMODB:update????", "dynamodb:*"])


def _some(values: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return values | st.lists(values, min_size=1, max_size=2)


_STATEMENTS = st.builds(
    lambda effect, action, resource, conditions: {
        "Effect": effect,
        **action,
        **resource,
        "Condition": conditions,
    },
    st.sampled_from(["Allow", "Allow", "Deny"]),
    st.dictionaries(st.sampled_from(["Action", "NotAction"]), _some(_ACTIONS), min_size=1, max_size=1),
    st.dictionaries(st.sampled_from(["Resource", "NotResource"]), _some(_RESOURCES), min_size=1, max_size=1),
    st.builds(
        lambda compared, null: compared | null,
        st.dictionaries(_OPERATORS, st.dictionaries(_KEYS, _some(_VALUES), min_size=1), max_size=2),
        st.dictionaries(
            st.just("Null"), st.dictionaries(_KEYS, st.sampled_from(["true", False]), min_size=1)
        ),
    ),
)
_CONTEXTS = st.fixed_dictionaries(
    dict.fromkeys(["aws:x", "aws:y"], st.none() | _VALUES | st.lists(_VALUES, max_size=2))
)


@given(st.lists(_STATEMENTS, max_size=3), _CONTEXTS, st.sampled_from([TABLE, f"{TABLE}/index/byStatus"]))
def test_the_judge_and_the_check_agree(policy: list[Any], context: Any, resource: str) -> None:
    """Wherever no key has several values, and else wherever both answer."""
    checked = policies.permits(policies.statements({"Statement": policy}), ACTION, resource, context)
    several = any(len(listed(value)) > 1 for value in context.values())
    try:
        judged = allows(policy, ACTION, resource, context)
    except NotImplementedError:
        assert several
        return
    assert checked is judged or (several and checked is UNKNOWN)


# ------------------------------------------------------------------ wrong judges


def _ignoring_denials(statements: Any, request: Any) -> bool:
    return bool(statements["Effect"] == "Allow") and _APPLIES(statements, request)


_APPLIES, _FITS, _HOLDS, _ARN, _PATTERN = (
    judge._applies,
    judge._fits,
    judge._holds,
    judge._arn,
    judge._pattern,
)
WRONG: dict[str, tuple[str, Callable[..., Any]]] = {
    "denials do not count": ("_applies", _ignoring_denials),
    "a star is a character": (
        "_fits",
        lambda pattern, text: _FITS([getattr(t, "value", t) for t in pattern], text),
    ),
    "a star stops at a slash": ("_fits", lambda pattern, text: _FITS(pattern, text) and text.count("/") < 4),
    "a prefix is enough": ("_fits", lambda pattern, text: _FITS([*pattern, Wild.ANY], text)),
    "a star leaves its field": ("_arn", lambda text, request, **_: _PATTERN(text, request)),
    "any value is enough": (
        "_holds",
        lambda operator, *args: _HOLDS(operator.replace("ForAllValues", "ForAnyValue"), *args),
    ),
    "every value is needed": (
        "_holds",
        lambda operator, *args: _HOLDS(operator.replace("ForAnyValue", "ForAllValues"), *args),
    ),
    "if it exists is nothing": (
        "_holds",
        lambda operator, *args: _HOLDS(operator.removesuffix("IfExists"), *args),
    ),
    "a missing key never holds": (
        "_holds",
        lambda operator, values, *args: bool(values) and _HOLDS(operator, values, *args),
    ),
    "likeness is not asked for": ("_like", lambda *_: True),
    "case does not count": ("_equal", judge._equal_in_any_case),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_the_cases_tell_a_wrong_judge(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these mistakes changes an answer."""
    name, replaced = WRONG[wrong]
    monkeypatch.setattr(judge, name, replaced)
    if name in ("_like", "_equal"):
        renamed = {each: replaced for each, compare in judge._COMPARISONS.items() if compare.__name__ == name}
        monkeypatch.setattr(judge, "_COMPARISONS", {**judge._COMPARISONS, **renamed})
    assert [case["case"] for case in CASES if _judged(case) != _allowed(case)] != []
