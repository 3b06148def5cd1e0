"""
Whether policies allow a request, as AWS documents it: the judge of every test of a policy.

Nothing here is of the package, whose `check` evaluates policies, too: `test_judge.py` compares the two, and
both with published cases and with what another implementation answers. Authority: IAM user guide, policy
evaluation logic, and the JSON policy elements Resource, Condition operators, Variables and tags.

One account, one principal. Where the answer depends on a key of which the request says nothing, or on an
operator that is not evaluated, it is NotImplementedError: no test may rest on a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

Statement = Mapping[str, Any]
Context = Mapping[str, str | Sequence[str] | None]
"""Condition keys of a request. None and an empty sequence: the request does not have the key."""


class Wild(Enum):
    """What a pattern has beside characters."""

    ONE = "?"
    ANY = "*"
    FIELD = "*, but no colon"


Pattern = list[str | Wild]

OF_AN_SDK: Final[Context] = {
    "aws:SecureTransport": "true",
    "aws:ViaAWSService": "false",
    "aws:PrincipalIsAWSService": "false",
}
"""What every request of a function has."""


class Request(NamedTuple):
    """What IAM is asked."""

    action: str
    resource: str
    context: Mapping[str, tuple[str, ...]]

    def values(self, key: str) -> tuple[str, ...]:
        """Return the values of *key*, in any case of letters."""
        if key.lower() not in self.context:
            raise NotImplementedError(f"nobody says what {key} is in this request")
        return self.context[key.lower()]


def allows(
    statements: Iterable[Statement], action: str, resource: str, context: Context | None = None
) -> bool:
    """Return whether one of *statements* allows the request, and none denies it."""
    keys = {**OF_AN_SDK, **(context or {})}
    values = {key.lower(): tuple(listed(value)) for key, value in keys.items()}
    request = Request(action, resource, values)
    return {each["Effect"] for each in statements if _applies(each, request)} == {"Allow"}


def listed(value: Any) -> list[Any]:
    """Return *value* as the list that IAM lets one leave out around a single entry."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def _applies(statement: Statement, request: Request) -> bool:
    def is_action(text: str) -> bool:
        return _fits(_pattern(text.lower(), request) or [], request.action.lower())

    def is_resource(text: str) -> bool:
        pattern = _arn(text, request, beyond=True)
        return pattern is not None and _fits(pattern, request.resource)

    if not (_includes(statement, "Action", is_action) and _includes(statement, "Resource", is_resource)):
        return False
    unknown: NotImplementedError | None = None
    for operator, keys in statement.get("Condition", {}).items():
        for key, expected in keys.items():
            try:
                if not _holds(operator, request.values(key), listed(expected), request):
                    return False
            except NotImplementedError as error:
                unknown = error
    if unknown is not None:
        raise unknown
    return True


def _includes(statement: Statement, element: str, test: Callable[[str], bool]) -> bool:
    if element in statement:
        return any(map(test, listed(statement[element])))
    return not any(map(test, listed(statement[f"Not{element}"])))


# ------------------------------------------------------------------ patterns


def _fits(pattern: Pattern, text: str) -> bool:
    """Return whether *pattern* covers *text*: follow all places in it that the pattern may have reached."""
    places = {0}
    for token in pattern:
        reached = set[int]()
        for at in places:
            if token is Wild.ANY or token is Wild.FIELD:
                stretch = text[at:] if token is Wild.ANY else text[at:].partition(":")[0]
                reached.update(range(at, at + len(stretch) + 1))
            elif at < len(text) and token in (Wild.ONE, text[at]):
                reached.add(at + 1)
        places = reached
    return len(text) in places


_TOKEN: Final = re.compile(r"\$\{([^}]*)\}|.", re.DOTALL)


def _pattern(text: str, request: Request) -> Pattern | None:
    """Return *text* with its variables filled in; None if the request has no value for one."""
    pattern: Pattern = []
    for token in _TOKEN.finditer(text):
        if token[1] is None:
            pattern.append(Wild(token[0]) if token[0] in ("*", "?") else token[0])
        elif token[1] in ("*", "?", "$"):
            pattern.append(token[1])
        else:
            name, _, default = token[1].partition(",")
            values = request.values(name.strip()) or tuple(filter(None, [default.strip(" '")]))
            if len(values) > 1:
                raise NotImplementedError(f"{name} has several values, and is a variable")
            if not values:
                return None
            pattern += values[0]
    return pattern


def _arn(text: str, request: Request, *, beyond: bool) -> Pattern | None:
    """
    Return the pattern of an ARN: a star stays in its field, but in the last one.

    *beyond*, as in Resource: not one at the end of a field. Fields that an ARN lacks at its end are stars.
    """
    pattern = _pattern(text, request)
    if pattern is None or text.partition(":")[0] != "arn":
        return pattern
    pattern += [":", Wild.ANY] * (5 - pattern.count(":"))
    last = [at for at, token in enumerate(pattern) if token == ":"][4]
    return [
        Wild.FIELD if token is Wild.ANY and at < last and not (beyond and pattern[at + 1] == ":") else token
        for at, token in enumerate(pattern)
    ]


# ------------------------------------------------------------------ conditions


def _equal(text: str, value: str, request: Request) -> bool:
    return _literal(text, request) == value


def _equal_in_any_case(text: str, value: str, request: Request) -> bool:
    literal = _literal(text, request)
    return literal is not None and literal.lower() == value.lower()


def _literal(text: str, request: Request) -> str | None:
    """Return *text* with its variables filled in, and its wildcards as they are."""
    pattern = _pattern(text, request)
    return (
        None
        if pattern is None
        else "".join(each if isinstance(each, str) else each.value for each in pattern)
    )


def _like(text: str, value: str, request: Request) -> bool:
    pattern = _pattern(text, request)
    return pattern is not None and _fits(pattern, value)


def _arn_like(text: str, value: str, request: Request) -> bool:
    pattern = _arn(text, request, beyond=False)
    return pattern is not None and _fits(pattern, value)


_COMPARISONS: Final[Mapping[str, Callable[[str, str, Request], bool]]] = {
    "StringEquals": _equal,
    "StringEqualsIgnoreCase": _equal_in_any_case,
    "StringLike": _like,
    "ArnEquals": _arn_like,
    "ArnLike": _arn_like,
    "Bool": _equal_in_any_case,
}
_OPERATOR: Final = re.compile(r"(?:(ForAllValues|ForAnyValue):)?(\w+?)(IfExists)?")


def _holds(operator: str, values: tuple[str, ...], expected: Sequence[Any], request: Request) -> bool:
    """Return whether the *values* of one key are as *operator* wants them to be."""
    named = _OPERATOR.fullmatch(operator)
    qualifier, name, if_exists = named.groups() if named else (None, operator, None)
    texts = [str(each).lower() if isinstance(each, bool) else str(each) for each in expected]
    if name == "Null" and texts in (["true"], ["false"]):
        return (not values) == (texts == ["true"])
    compare = _COMPARISONS.get(name.replace("Not", "", 1))
    if compare is None or (qualifier is None and len(values) > 1):
        raise NotImplementedError(f"{operator} of {len(values)} values is not evaluated")
    negated = "Not" in name
    answers = [any(compare(text, value, request) for text in texts) != negated for value in values]
    if not values and if_exists:
        return True
    if qualifier:
        return all(answers) if qualifier == "ForAllValues" else any(answers)
    return answers[0] if answers else negated
