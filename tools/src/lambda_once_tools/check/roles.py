"""The permissions of a template's roles on its token tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from lambda_once.stores.row import INDEX
from lambda_once_tools.check import intrinsics, policies
from lambda_once_tools.check.deployment import UNKNOWN, Statement, Table, Unknown
from lambda_once_tools.check.intrinsics import MARK, mapping, mark_of, may_be, unmarked
from lambda_once_tools.check.stacks import Resource

_WITHOUT_TABLES: Final = re.compile(
    "AWSLambda(Basic|VPCAccess|ENIManagement|DynamoDB|Kinesis|SQSQueue|MSK|MQ)\\w*Role(Policy)?"
    "|AWSLambdaInvocation-DynamoDB|AWSLambdaRole|AWSXRayDaemonWriteAccess|AWSXrayWriteOnlyAccess"
    "|CloudWatchLambdaInsightsExecutionRolePolicy|CloudWatchLambdaApplicationSignalsExecutionRolePolicy"
    "|AmazonSSMReadOnlyAccess|AmazonS3\\w+|AmazonSQS\\w+|AmazonSNS\\w+|AmazonKinesis\\w+|AmazonEventBridge\\w+"
    "|CloudWatch\\w+|SecretsManagerReadWrite"
)
"""AWS' managed policies that allow nothing on the items of a table (AWS managed policy reference)."""
_EVERYTHING: Final = re.compile(
    "AmazonDynamoDBFullAccess(_v2|withDataPipeline)?|AdministratorAccess|PowerUserAccess"
)
_READING: Final = (
    *("dynamodb:GetItem", "dynamodb:BatchGetItem", "dynamodb:Query", "dynamodb:Scan"),
    *("dynamodb:DescribeTable", "dynamodb:PartiQLSelect"),
)
_UNREAD: Final = Statement(True, ("*",), (), (UNKNOWN,), (), {})  # noqa: FBT003 - Statement.allows
"""Of a policy that is not in the template: it may allow anything."""


class Role(NamedTuple):
    """The statements granted to a role, and its policies that are not here."""

    statements: tuple[Statement, ...]
    unread: tuple[str, ...]


class Target(NamedTuple):
    """An ARN that rules ask for: as references come to, and as CloudFormation would name it."""

    arn: str
    spelled: str


def granted(everything: Sequence[Resource], tokens: Iterable[Table]) -> dict[str, Role]:
    """Return the roles of a deployment by ARN. What their statements name is comparable with *tokens*."""
    targets = tuple(target for each in tokens for target in _targets(each))
    managed = {
        mark_of(each.name): tuple(_read(each.properties.get("PolicyDocument"), targets))
        for each in everything
        if each.kind == "AWS::IAM::ManagedPolicy"
    }
    found: dict[str, Role] = {}
    for each in everything:
        if each.kind == "AWS::IAM::Role":
            unread: list[str] = []
            statements = (
                *_inline(each, targets),
                *_managed(each, managed, unread),
                *_attached(each, everything, targets),
            )
            found[each.arn] = Role(statements, tuple(unread))
    return found


def _inline(role: Resource, targets: Sequence[Target]) -> Iterator[Statement]:
    given = role.properties.get("Policies", [])
    for each in given if isinstance(given, list) else [UNKNOWN]:
        yield from _read(mapping(each).get("PolicyDocument"), targets)


def _managed(
    role: Resource, managed: Mapping[str, tuple[Statement, ...]], unread: list[str]
) -> Iterator[Statement]:
    given = role.properties.get("ManagedPolicyArns", [])
    for each in given if isinstance(given, list) else [UNKNOWN]:
        if isinstance(each, str) and each in managed:
            yield from managed[each]
        else:
            yield from _of_aws(each, unread)


def _of_aws(policy: object, unread: list[str]) -> Iterator[Statement]:
    name = policy.rpartition("/")[2] if isinstance(policy, str) else ""
    if _WITHOUT_TABLES.fullmatch(name):
        return
    if _EVERYTHING.fullmatch(name):
        yield Statement(True, ("dynamodb:*",), (), ("*",), (), {})  # noqa: FBT003 - Statement.allows
    elif name in ("AmazonDynamoDBReadOnlyAccess", "ReadOnlyAccess"):
        yield Statement(True, _READING, (), ("*",), (), {})  # noqa: FBT003 - Statement.allows
    else:
        unread.append(unmarked(policy) if isinstance(policy, str) else "a policy")
        yield _UNREAD


def _attached(
    role: Resource, everything: Iterable[Resource], targets: Sequence[Target]
) -> Iterator[Statement]:
    """Yield the statements of policies that name their roles."""
    for each in everything:
        if each.kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
            roles = each.properties.get("Roles", [each.properties.get("RoleName")])
            if isinstance(roles, list) and role.physical in roles:
                yield from _read(each.properties.get("PolicyDocument"), targets)
            elif not isinstance(roles, list) or UNKNOWN in roles:
                yield _UNREAD


# -- documents


def _read(policy: object, targets: Sequence[Target]) -> Iterator[Statement]:
    if not isinstance(policy, Mapping):
        yield _UNREAD
        return
    for each in policies.statements(_without_marks(policy)):
        yield each._replace(
            resources=tuple(_comparable(each.resources, targets)),
            not_resources=tuple(_comparable(each.not_resources, targets)),
        )


_DYNAMODB: Final = re.compile(r"^arn:[^:]*:dynamodb:[^:]*:[^:]*:")
"""A policy names the region and the account of its own deployment, or any."""


def _comparable(given: Iterable[str | Unknown], targets: Sequence[Target]) -> Iterator[str | Unknown]:
    """Yield resources that certainly cover a target, or certainly not; `UNKNOWN` for others."""
    for each in given:
        if isinstance(each, Unknown):
            yield UNKNOWN
            continue
        here = _DYNAMODB.sub(f"arn:aws:dynamodb:{intrinsics.REGION}:{intrinsics.ACCOUNT}:", each)
        pattern = re.compile(re.escape(here).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
        yield here
        for target in targets:
            if not pattern.fullmatch(target.arn):
                if pattern.fullmatch(target.spelled.replace("*", "0")):
                    yield target.arn
                elif may_be(here, target.arn) and may_be(here, target.spelled):
                    yield UNKNOWN


def _targets(table: Table) -> Iterator[Target]:
    """Yield the table and its indexes. CloudFormation makes names of stack, resource, and random letters."""
    if isinstance(table.arn, Unknown):
        return
    front, _, name = table.arn.partition(":table/")
    spelled = table.arn
    if re.fullmatch(MARK, name):
        spelled = f"{front}:table/{intrinsics.STACK}-{unmarked(name).replace('.', '-*-')}-*"
    indexes = () if isinstance(table.indexes, Unknown) else (each.name for each in table.indexes)
    for suffix in dict.fromkeys(("", f"/index/{INDEX}", *(f"/index/{each}" for each in indexes))):
        yield Target(table.arn + suffix, spelled + suffix)


def _without_marks(policy: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document whose actions, effects and conditions are known, or else `UNKNOWN`."""
    given = policy.get("Statement", [])
    return {"Statement": [_stripped(each) for each in (given if isinstance(given, list) else [given])]}


def _stripped(statement: object) -> dict[str, Any]:
    if not isinstance(statement, Mapping):
        return {"Effect": UNKNOWN}
    return {
        key: value if key in ("Resource", "NotResource") else _known(value)
        for key, value in statement.items()
    }


def _known(value: Any) -> Any:
    match value:
        case str():
            return intrinsics.known(value)
        case dict():
            return {key: _known(each) for key, each in value.items()}
        case list():
            return [_known(each) for each in value]
        case _:
            return value
