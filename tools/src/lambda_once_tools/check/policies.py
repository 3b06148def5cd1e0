"""
Evaluates a role's IAM policies as IAM does (IAM user guide, policy evaluation logic).

An answer is True, False, or `UNKNOWN` if it depends on what is not known here: a value that was not resolved,
a condition key that `permits` was not given, an operator that it does not evaluate. Any other answer
holds whatever the unknown values are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

from lambda_once_tools.check.deployment import (
    UNKNOWN,
    Answer,
    NotChecked,
    Statement,
    Unknown,
    all_of,
    any_of,
    negated,
)

Context = Mapping[str, str | Sequence[str] | None]
"""Condition keys of a request, in any case. None or an empty sequence: the request has no such key."""

LEADING_KEYS: Final = "dynamodb:LeadingKeys"
UNSEEN: Final = NotChecked(
    "permissions", "service control policies, permissions boundaries, resource and endpoint policies"
)
"""Policies that may deny although those of the role allow."""

_ALWAYS: Final[Context] = {
    "aws:SecureTransport": "true",
    "aws:ViaAWSService": "false",
    "aws:PrincipalIsAWSService": "false",
}
"""True of every request that a function sends by an SDK."""
_UNRESOLVED: Final[Mapping[str, Mapping[str, object]]] = {"Unresolved": {}}
"""Conditions of a statement whose effect or actions are unknown: an operator that nothing evaluates."""
_ARN_FIELDS: Final = 6


# -- documents


def statements(document: Mapping[str, Any]) -> tuple[Statement, ...]:
    """
    Return the statements of a policy document, in which a list of one may be written without its brackets.

    A value in it that is not text, such as an intrinsic function of CloudFormation, is `UNKNOWN`.
    """
    found = (_statement(each) for each in _listed(document.get("Statement")) if isinstance(each, Mapping))
    return tuple(each for pair in found for each in pair)


def _statement(given: Mapping[str, Any]) -> Iterable[Statement]:
    """Yield one statement; two if its effect is unknown."""
    actions, not_actions = _listed(given.get("Action")), _listed(given.get("NotAction"))
    effect = given.get("Effect")
    conditions = given.get("Condition", {})
    readable = isinstance(conditions, Mapping) and all(
        isinstance(each, str) for each in (*actions, *not_actions)
    )
    if not readable or not isinstance(effect, str):
        actions, not_actions, conditions = ["*"], [], _UNRESOLVED
    for allows in (effect == "Allow",) if isinstance(effect, str) else (True, False):
        yield Statement(
            allows,
            tuple(actions),
            tuple(not_actions),
            _texts(given.get("Resource")),
            _texts(given.get("NotResource")),
            conditions,
        )


def _listed(value: object) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _texts(value: object) -> tuple[str | Unknown, ...]:
    return tuple(each if isinstance(each, str) else UNKNOWN for each in _listed(value))


# -- evaluation


def permits(
    statements: Iterable[Statement], action: str, resource: str | Unknown, context: Context | None = None
) -> Answer:
    """
    Return whether *statements* allow *action* on the ARN *resource*: one allows it, and none denies it.

    *context* has the condition keys that are known of the request.
    """
    keys = {name.lower(): tuple(_listed(value)) for name, value in {**_ALWAYS, **(context or {})}.items()}
    allowed: list[Answer] = [False]
    denied: list[Answer] = [False]
    for each in statements:
        (allowed if each.allows else denied).append(_applies(each, action, resource, keys))
    return all_of((any_of(allowed), negated(any_of(denied))))


def leading_keys(statements: Iterable[Statement], action: str) -> tuple[str, ...]:
    """Return the patterns of partition keys to which *statements* that allow *action* are limited."""
    conditions = (each.conditions for each in statements if each.allows and _named(each, action))
    return tuple(pattern for each in conditions for tests in each.values() for pattern in _leading(tests))


def _leading(tests: object) -> Iterator[str]:
    for name, expected in tests.items() if isinstance(tests, Mapping) else ():
        if name.lower() == LEADING_KEYS.lower():
            yield from (text for each in _listed(expected) if isinstance(text := _text(each), str))


_Keys = Mapping[str, tuple[str, ...]]


def _applies(statement: Statement, action: str, resource: str | Unknown, keys: _Keys) -> Answer:
    return all_of(
        (
            _named(statement, action),
            _on(statement, resource, keys),
            all_of(_holds(operator, tests, keys) for operator, tests in statement.conditions.items()),
        )
    )


def _named(statement: Statement, action: str) -> bool:
    """Actions match in any case of letters."""
    patterns = statement.not_actions or statement.actions
    found = any(_glob(each.lower()).fullmatch(action.lower()) is not None for each in patterns)
    return found is not bool(statement.not_actions)


def _on(statement: Statement, resource: str | Unknown, keys: _Keys) -> Answer:
    patterns = statement.not_resources or statement.resources
    found = any_of(_covers(each, resource, keys) for each in patterns)
    return negated(found) if statement.not_resources else found


def _covers(pattern: str | Unknown, resource: str | Unknown, keys: _Keys) -> Answer:
    if pattern == "*":
        return True
    if isinstance(pattern, Unknown) or isinstance(resource, Unknown):
        return UNKNOWN
    filled = _filled(pattern, keys)
    if filled is None:
        return False
    if isinstance(filled, Unknown):
        return UNKNOWN
    return _arn(filled, spans=True).fullmatch(resource.translate(_PLAIN)) is not None


# -- patterns

_VARIABLE: Final = re.compile(r"\$\{([^}]*)\}")
_PLAIN: Final = str.maketrans("*?", "\ue000\ue001")
"""Stand-ins for those that are no wildcards: in a request, a variable's value, ``${*}`` and ``${?}``."""


def _filled(pattern: str, keys: _Keys) -> str | Unknown | None:
    """Return *pattern* with its variables' values; None if it has one that the request does not have."""
    missing: set[Unknown | None] = set()

    def value(found: re.Match[str]) -> str:
        name, comma, default = found[1].partition(",")
        if name in ("*", "?", "$"):
            return name.translate(_PLAIN)
        known = keys.get(name.strip().lower())
        if known is not None and len(known) == 1:
            return known[0].translate(_PLAIN)
        if comma and known == ():
            return default.strip().strip("'").translate(_PLAIN)
        missing.add(None if known == () else UNKNOWN)
        return ""

    filled = _VARIABLE.sub(value, pattern)
    return filled if not missing else None if None in missing else UNKNOWN


@cache
def _glob(pattern: str) -> re.Pattern[str]:
    """Compile ``*``, any text, and ``?``, any character."""
    return re.compile(_regex(pattern, ".*"), re.DOTALL)


@cache
def _arn(pattern: str, *, spans: bool) -> re.Pattern[str]:
    """
    Compile the pattern of an ARN; fields that are missing at its end are ``*``.

    A wildcard stays in its field; with *spans*, as in Resource, a ``*`` at the end of one does not.
    """
    fields = pattern.split(":", _ARN_FIELDS - 1)
    if fields[0] == "arn":
        fields += ["*"] * (_ARN_FIELDS - len(fields))
    *inner, last = fields
    return re.compile(
        ":".join([*(_field(each, spans=spans) for each in inner), _regex(last, ".*")]), re.DOTALL
    )


def _field(field: str, *, spans: bool) -> str:
    if spans and field.endswith("*"):
        return _regex(field[:-1], "[^:]*") + ".*"
    return _regex(field, "[^:]*")


def _regex(pattern: str, any_text: str) -> str:
    return "".join({"*": any_text, "?": "."}.get(each) or re.escape(each) for each in pattern)


# -- conditions

_Compare = Callable[[str, str], bool]


def _equals(pattern: str, value: str) -> bool:
    return pattern.translate(_PLAIN) == value


def _equals_in_any_case(pattern: str, value: str) -> bool:
    return _equals(pattern.lower(), value.lower())


def _like(pattern: str, value: str) -> bool:
    return _glob(pattern).fullmatch(value) is not None


def _arn_like(pattern: str, value: str) -> bool:
    return _arn(pattern, spans=False).fullmatch(value) is not None


_OPERATOR: Final = re.compile(r"(?:(ForAllValues|ForAnyValue):)?(\w+?)(IfExists)?")
_COMPARES: Final[Mapping[str, _Compare]] = {
    "StringEquals": _equals,
    "StringEqualsIgnoreCase": _equals_in_any_case,
    "StringLike": _like,
    "Bool": _equals_in_any_case,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
}
_NEGATED: Final = {
    "StringNotEquals": "StringEquals",
    "StringNotEqualsIgnoreCase": "StringEqualsIgnoreCase",
    "StringNotLike": "StringLike",
    "ArnNotEquals": "ArnEquals",
    "ArnNotLike": "ArnLike",
}


def _holds(operator: str, tests: object, keys: _Keys) -> Answer:
    """Return whether one operator of a Condition holds for each of its keys; `UNKNOWN` if it is not ours."""
    found = _OPERATOR.fullmatch(operator)
    if found is None or not isinstance(tests, Mapping):
        return UNKNOWN
    qualifier, name, if_exists = found.groups()
    each = ((keys.get(key.lower()), _listed(expected)) for key, expected in tests.items())
    if name == "Null" and qualifier is None:
        return all_of(_is_null(values, expected) for values, expected in each)
    compare = _COMPARES.get(_NEGATED.get(name, name))
    if compare is None:
        return UNKNOWN
    absent = qualifier == "ForAllValues" or if_exists is not None or (name in _NEGATED and qualifier is None)

    def one(value: str, expected: Iterable[object]) -> Answer:
        equal = any_of(_compared(compare, pattern, value, keys) for pattern in expected)
        return negated(equal) if name in _NEGATED else equal

    def test(values: tuple[str, ...] | None, expected: Iterable[object]) -> Answer:
        if values is None:
            return UNKNOWN
        if not values:
            return absent
        answers = [one(value.translate(_PLAIN), expected) for value in values]
        if qualifier is None:
            return answers[0] if len(answers) == 1 else UNKNOWN  # IAM leaves this undefined
        return all_of(answers) if qualifier == "ForAllValues" else any_of(answers)

    return all_of(test(values, expected) for values, expected in each)


def _is_null(values: tuple[str, ...] | None, expected: Sequence[object]) -> Answer:
    wanted = _text(expected[0]) if len(expected) == 1 else UNKNOWN
    if values is None or isinstance(wanted, Unknown):
        return UNKNOWN
    return (not values) is (wanted.lower() == "true")


def _compared(compare: _Compare, expected: object, value: str, keys: _Keys) -> Answer:
    text = _text(expected)
    pattern = text if isinstance(text, Unknown) else _filled(text, keys)
    if pattern is None:
        return False
    return UNKNOWN if isinstance(pattern, Unknown) else compare(pattern, value)


def _text(value: object) -> str | Unknown:
    """Return a value of a condition as JSON's text."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else UNKNOWN
