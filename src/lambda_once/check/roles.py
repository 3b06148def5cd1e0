"""What the roles of a template may do with its token tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from lambda_once.check import intrinsics, policies
from lambda_once.check.deployment import UNKNOWN, NotChecked, Statement, Table, Unknown
from lambda_once.check.intrinsics import MARK, mark_of, may_be, unmarked
from lambda_once.check.stacks import Resource, mapping
from lambda_once.stores.names import INDEX

_WITHOUT_TABLES: Final = re.compile(
    "AWSLambda(Basic|VPCAccess|ENIManagement|DynamoDB|Kinesis|KinesisStreams|SQSQueue|MSK|MQ)\\w*Role"
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


class Granted:
    """The statements of every role of a deployment, as far as they are about its token tables."""

    def __init__(
        self, everything: Sequence[Resource], tokens: Sequence[Table], notes: list[NotChecked]
    ) -> None:
        self._targets = [_spellings(each.arn) for each in tokens if isinstance(each.arn, str)]
        self._notes = notes
        self._roles: dict[str, tuple[Statement, ...]] = {}
        managed = {
            mark_of(each.name): self._read(each.properties.get("PolicyDocument"))
            for each in everything
            if each.kind == "AWS::IAM::ManagedPolicy"
        }
        for each in everything:
            if each.kind == "AWS::IAM::Role":
                found = (
                    *self._inline(each),
                    *self._managed(each, managed),
                    *self._attached(each, everything),
                )
                self._roles[intrinsics.arn(each.id, each.stack.scope)] = found

    def to(self, role: object) -> tuple[Statement, ...] | Unknown:
        """Return what the role with this ARN is granted; `UNKNOWN` if it is not in the deployment."""
        return self._roles.get(role, UNKNOWN) if isinstance(role, str) else UNKNOWN

    def _inline(self, role: Resource) -> Iterator[Statement]:
        given = role.properties.get("Policies", [])
        for each in given if isinstance(given, list) else [UNKNOWN]:
            yield from self._read(mapping(each).get("PolicyDocument"))

    def _managed(self, role: Resource, managed: Mapping[str, tuple[Statement, ...]]) -> Iterator[Statement]:
        given = role.properties.get("ManagedPolicyArns", [])
        for each in given if isinstance(given, list) else [UNKNOWN]:
            if isinstance(each, str) and each in managed:
                yield from managed[each]
            else:
                yield from self._of_aws(each, role)

    def _of_aws(self, policy: object, role: Resource) -> Iterator[Statement]:
        name = policy.rpartition("/")[2] if isinstance(policy, str) else ""
        if _WITHOUT_TABLES.fullmatch(name):
            return
        if _EVERYTHING.fullmatch(name):
            yield Statement(True, ("dynamodb:*",), (), ("*",), (), {})  # noqa: FBT003 - Statement.allows
        elif name in ("AmazonDynamoDBReadOnlyAccess", "ReadOnlyAccess"):
            yield Statement(True, _READING, (), ("*",), (), {})  # noqa: FBT003 - Statement.allows
        else:
            shown = unmarked(policy) if isinstance(policy, str) else "a policy"
            self._notes.append(NotChecked(role.name, f"{shown}, which is not in this template"))
            yield _UNREAD

    def _attached(self, role: Resource, everything: Iterable[Resource]) -> Iterator[Statement]:
        """Yield the statements of policies that name their roles."""
        name = intrinsics.physical(role.id, role.stack.scope)
        for each in everything:
            if each.kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::IAM::RolePolicy"):
                roles = each.properties.get("Roles", [each.properties.get("RoleName")])
                if isinstance(roles, Unknown) or UNKNOWN in roles:
                    yield _UNREAD
                elif name in roles:
                    yield from self._read(each.properties.get("PolicyDocument"))

    def _read(self, policy: object) -> tuple[Statement, ...]:
        if not isinstance(policy, Mapping):
            return (_UNREAD,)
        return tuple(
            each._replace(
                resources=tuple(map(self._comparable, each.resources)),
                not_resources=tuple(map(self._comparable, each.not_resources)),
            )
            for each in policies.statements(_without_marks(policy))
        )

    def _comparable(self, resource: str | Unknown) -> str | Unknown:
        """Return *resource* if it is certain whether it names one of the tables, else `UNKNOWN`."""
        if isinstance(resource, Unknown):
            return UNKNOWN
        here = _DYNAMODB.sub(f"arn:aws:dynamodb:{intrinsics.REGION}:{intrinsics.ACCOUNT}:", resource)
        pattern = re.compile(re.escape(here).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
        for spellings in self._targets:
            for suffix in ("", f"/index/{INDEX}"):
                if pattern.fullmatch(spellings[0] + suffix):
                    return here
                if pattern.fullmatch(spellings[1] + suffix):
                    return spellings[0] + suffix
        possible = any(
            may_be(here, each[0] + suffix) for each in self._targets for suffix in ("", "/index/x")
        )
        return UNKNOWN if possible else here


_DYNAMODB: Final = re.compile(r"^arn:[^:]*:dynamodb:[^:]*:[^:]*:")
"""A policy names the region and the account of its own deployment, or any."""


def _spellings(arn: str) -> tuple[str, str]:
    """Return *arn*, and as CloudFormation makes a name: of stack, resource, and random letters."""
    front, _, name = arn.partition(":table/")
    if not re.fullmatch(MARK, name):
        return arn, arn
    return arn, f"{front}:table/{intrinsics.STACK}-{unmarked(name).replace('.', '-0-')}-0"


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
            return value if intrinsics.is_known(value) else UNKNOWN
        case dict():
            return {key: _known(each) for key, each in value.items()}
        case list():
            return [_known(each) for each in value]
        case _:
            return value
